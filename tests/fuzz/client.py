"""What a client library would show its user: a reader of its own, more lenient than the proxy's, so that the two can disagree.

It reads as JavaScript and Python do: bytes that are no UTF-8 become U+FFFD, lone surrogates and NaN are accepted, of two equal keys the
last counts.
"""

from __future__ import annotations

import json
import re
from typing import Any

Shown = dict[tuple[str, str], str]
"""Choice and field (``content``, ``refusal``, ``other``) -> text."""
_LINES = re.compile(r"\r\n|\r|\n")


def payloads(body: bytes) -> list[str]:
    """The data of every event up to the end mark; also of one that the stream breaks off in."""
    found: list[str] = []
    data: list[str] = []
    for line in [*_LINES.split(body.decode("utf-8", "replace").removeprefix("\ufeff")), ""]:
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            found.append("\n".join(data))
            data = []
    marks = [i for i, one in enumerate(found) if one.strip() == "[DONE]"]
    return found[: marks[0]] if marks else found


def parsed(text: str) -> Any:
    """As a lenient parser reads it; None for what is no JSON."""
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def shown_of_stream(body: bytes) -> Shown:
    """All text of a stream that a client would show, by choice and field."""
    found: Shown = {}
    for payload in payloads(body):
        _add(found, parsed(payload), streamed=True)
    return found


def shown_of_body(body: bytes) -> Shown:
    """All text of a body that a client would show."""
    found: Shown = {}
    _add(found, parsed(body.decode("utf-8", "replace")), streamed=False)
    return found


def _add(found: Shown, completion: Any, *, streamed: bool) -> None:
    """A choice without a number is the first of a stream, and in a body has its position's."""
    choices = completion.get("choices") if isinstance(completion, dict) else None
    for position, choice in enumerate(choices if isinstance(choices, list) else ()):
        if isinstance(choice, dict):
            index = choice.get("index")
            known = isinstance(index, int) and -(2**63) <= index < 2**64
            name = str(int(index) if known else 0 if streamed else position)
            for field, text in _texts(choice):
                found[name, field] = found.get((name, field), "") + text


def _texts(choice: dict[str, Any]) -> list[tuple[str, str]]:
    found = [("other", choice.get("text"))]
    for message in (choice.get("delta"), choice.get("message")):
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        found += [("content", part.get("text") if isinstance(part, dict) else part) for part in parts if not _is_thought(part)]
        found.append(("refusal", message.get("refusal")))
        audio = message.get("audio")
        found.append(("other", audio.get("transcript") if isinstance(audio, dict) else None))
    return [(field, text) for field, text in found if isinstance(text, str) and text]


def _is_thought(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("thinking", "reasoning", "redacted_thinking")
