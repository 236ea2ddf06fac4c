"""Where text stands in an answer that `proxy.wire.dialect` does not read as its text: a client may show it, so a check that did not see it
has not run. Pure functions over a choice as the upstream sent it.

The API's own places are read (`content`, a string or text parts; `refusal`); these are others that servers and libraries know.
"""

from __future__ import annotations

_TEXT_PARTS = ("text", "output_text")
_SPOKEN = ("text", "content", "refusal", "summary", "transcript")
"""Fields of a part of another type that hold words, though it be one at a time as a stream brings them; others hold names and numbers."""
_SILENT_PARTS = ("thinking", "reasoning", "redacted_thinking")
"""Parts of `content` that are the model's thoughts and not its answer."""


def delta_text(content: object) -> str:
    """The answer text in a delta's content: a string, or its text parts, one after another."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in _TEXT_PARTS]
    return "".join(text for text in texts if isinstance(text, str))


def unread(choice: object, *, streamed: bool) -> str:
    """The name of a field of `choice` with text that is not read; "" where there is none."""
    here, other = ("delta", "message") if streamed else ("message", "delta")
    if not isinstance(choice, dict):
        return "choices"
    if choice.get("text"):
        return "text"
    if _says(choice.get(other)):
        return other
    message = choice.get(here)
    if not isinstance(message, dict):
        return here if message else ""
    if _has_strange_parts(message.get("content")):
        return f"{here}.content"
    if not isinstance(message.get("refusal"), str | None):
        return f"{here}.refusal"
    audio = message.get("audio")
    return f"{here}.audio" if isinstance(audio, dict) and audio.get("transcript") else ""


def _says(message: object) -> bool:
    return isinstance(message, dict) and any(message.get(name) for name in ("content", "refusal", "audio", "text"))


def _has_strange_parts(content: object) -> bool:
    if content is None or isinstance(content, str):
        return False
    if not isinstance(content, list):
        return True
    return any(not _is_known(part) for part in content)


def _is_known(part: object) -> bool:
    """Whether its text is read, or there is none that a client would show as the answer's."""
    if not isinstance(part, dict):
        return False
    if part.get("type") in _TEXT_PARTS:
        return isinstance(part.get("text"), str | None)
    return part.get("type") in _SILENT_PARTS or not any(
        isinstance(value, str) and (bool(value) if name in _SPOKEN else " " in value.strip()) for name, value in part.items()
    )
