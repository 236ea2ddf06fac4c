"""A choice, and its message, out of deltas or as it came whole.

Providers want back what they sent beside the call (reasoning, a signature), so unknown fields are kept. Deltas come in many dialects:
a name in pieces or again with every delta, an index that is missing or the same for every call, an id that is another with each delta, a
whole call in one delta.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.exchange import Choice, ToolCall
from proxy.language.text import text_of
from proxy.wire.answers import end_of, has_words
from proxy.wire.bodies import object_of, objects_of

MAY_BE_EMPTY = "reasoning_content"
"""DeepSeek's API wants this back with a call also where it is an empty text."""


class CallParts:
    """One tool call, growing."""

    __slots__ = ("arguments", "fields", "id", "index", "inputs", "legacy", "name")

    def __init__(self, index: int, *, legacy: bool = False) -> None:
        self.index, self.legacy = index, legacy
        self.id = self.name = ""
        self.arguments: list[str] = []
        self.inputs: list[str] | None = None
        """What a custom tool is given."""
        self.fields: dict[str, Any] = {}
        """Whatever else the provider says of it."""

    def absorb(self, delta: Mapping[str, Any]) -> None:
        """Add a delta."""
        if isinstance(delta.get("id"), str) and delta["id"]:
            self.id = self.id or delta["id"]
        function = delta.get("function")
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            self.name = joined_name(self.name, name) if isinstance(name, str) else self.name
            if arguments:
                self.arguments.append(arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode())
        if isinstance(custom := delta.get("custom"), dict):
            self.inputs = [*(self.inputs or ()), text_field(custom, "input")]
        self.fields |= {k: v for k, v in delta.items() if k not in ("id", "index", "function") and v is not None}

    def goes_on(self, function: object) -> bool:
        """Whether a delta with another id is still this call's: some servers give each delta an id of its own."""
        if not isinstance(function, dict) or function.get("name") or "arguments" not in function:
            return False
        return not function["arguments"] or not self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are there."""
        try:
            return bool(self.arguments) and isinstance(orjson.loads("".join(self.arguments)), dict)
        except orjson.JSONDecodeError:
            return False


class Calls:
    """The tool calls of one message, growing."""

    def __init__(self) -> None:
        self.parts: list[CallParts] = []
        """In the order in which they began."""
        self._latest: dict[int, CallParts] = {}
        """By index."""

    def absorb(self, delta: Mapping[str, Any], *, whole: bool = False) -> list[CallParts]:
        """Add a delta, or a `whole` message; the call that each of its call entries belongs to, in order."""
        found = []
        for position, (entry, legacy) in enumerate(call_entries(delta)):
            call = self._begin(position, legacy) if whole else self._of(entry, position, legacy)
            call.absorb(entry)
            found.append(call)
        return found

    def _of(self, entry: Mapping[str, Any], position: int, legacy: bool) -> CallParts:
        index, identity, function = entry.get("index"), entry.get("id"), entry.get("function")
        known: CallParts | None = None
        names = isinstance(function, dict) and bool(function.get("name"))
        if isinstance(index, int):
            known = self._latest.get(index)
            if known is not None and names and not identity and known.is_whole:  # some count every call as the first
                known = None
        elif self.parts and not position:
            last = self.parts[-1]
            known = None if names and last.arguments and not identity and not legacy else last
        other = known is not None and identity and known.id and identity != known.id
        if known is None or (other and not (isinstance(index, int) and known.goes_on(function))):
            known = self._begin(index if isinstance(index, int) else len(self.parts), legacy)
        return known

    def _begin(self, index: int, legacy: bool) -> CallParts:
        call = CallParts(index, legacy=legacy)
        self.parts.append(call)
        self._latest[index] = call
        return call


class ChoiceParts:
    """What a choice says, growing."""

    __slots__ = ("calls", "finish_reason", "reasoning", "reasoning_field", "refusal", "text")

    def __init__(self) -> None:
        self.text, self.refusal, self.reasoning = list[str](), list[str](), list[str]()
        self.calls = Calls()
        self.finish_reason: str | None = None
        self.reasoning_field = ""

    def absorb(self, choice: Mapping[str, Any], *, whole: bool = False) -> str:
        """Add its part in a chunk, or a `whole` one; returns the answer text in it."""
        self.finish_reason = end_of(choice.get("finish_reason")) or self.finish_reason
        delta = choice.get("message" if whole else "delta")
        if not isinstance(delta, dict):
            return ""
        content = delta.get("content")
        text = text_of(content) if whole else delta_text(content)
        if text:
            self.text.append(text)
        if refusal := text_field(delta, "refusal"):
            self.refusal.append(refusal)
        for name in ("reasoning_content", "reasoning"):
            if reasoning := text_field(delta, name):
                self.reasoning.append(reasoning)
                self.reasoning_field = name
                break
        else:
            self.reasoning += thoughts_in(content)
        if not self.reasoning_field and delta.get(MAY_BE_EMPTY) == "":
            self.reasoning_field = MAY_BE_EMPTY
        if delta.get("tool_calls") or delta.get("function_call"):
            self.calls.absorb(delta, whole=whole)
        return text

    def choice(self, index: int) -> Choice:
        """So far."""
        text, refusal, reasoning = "".join(self.text), "".join(self.refusal), "".join(self.reasoning)
        if not self.calls.parts:
            return Choice(index, text, refusal, reasoning, (), self.finish_reason, reasoning_field=self.reasoning_field)
        ranked = enumerate(sorted(self.calls.parts, key=lambda part: part.index))
        calls = tuple(ToolCall(c.id, c.name, "".join(c.arguments), i) for i, c in ranked if c.inputs is None or c.arguments)
        inputs = tuple(said for part in self.calls.parts if (said := "".join(part.inputs or ())))
        return Choice(index, text, refusal, reasoning, calls, self.finish_reason, inputs, self.reasoning_field)


class MessageParts:
    """An assistant message with all of its fields, growing."""

    def __init__(self) -> None:
        self.calls = Calls()
        self._values: dict[str, list[Any]] = {}

    def absorb(self, delta: Mapping[str, Any], *, whole: bool = False) -> list[CallParts]:
        """Add a delta, or a `whole` message; the call that each of its call entries belongs to, in order."""
        for key, value in delta.items():
            says = value not in (None, "", [], {}) or (key == MAY_BE_EMPTY and value == "")
            if says and key not in ("role", "tool_calls", "function_call"):
                self._values.setdefault(key, []).append(value)
        return self.calls.absorb(delta, whole=whole)

    @property
    def fields(self) -> dict[str, Any]:
        """Everything that has a value, but the role and the calls; an empty `MAY_BE_EMPTY`, too."""
        return {key: _join_values(values) for key, values in self._values.items()}


def call_entries(message: Mapping[str, Any]) -> list[tuple[dict[str, Any], bool]]:
    """The calls in a message or delta, each with whether it stands in the legacy field ``function_call``."""
    found = [(call, False) for call in objects_of(message.get("tool_calls"))]
    if isinstance(legacy := message.get("function_call"), dict):
        found.append(({"function": legacy}, True))
    return found


def choices_of(chunk: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The choices of a chunk, or of a completion."""
    return objects_of(chunk.get("choices"))


def delta_of(choice: Mapping[str, Any]) -> dict[str, Any]:
    """What a chunk adds to it."""
    return object_of(choice.get("delta"))


def text_field(fields: Mapping[str, Any], name: str) -> str:
    """The text in a field; "" where it has none."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def joined_name(known: str, piece: str) -> str:
    """A tool's name with one more piece of it; providers that say it again, or say all of it so far, add nothing."""
    return piece if piece.startswith(known) else known + piece


def _join_values(values: list[Any]) -> Any:
    """The value of a field from what its deltas say: texts and lists one after another, objects merged, else the last."""
    if len(values) == 1:
        return values[0]
    if all(isinstance(value, str) for value in values):
        return "".join(values)
    if all(isinstance(value, list | str) for value in values):
        return _join_parts([part for value in values for part in (value if isinstance(value, list) else [{"type": "text", "text": value}])])
    if all(isinstance(value, dict) for value in values):
        return {key: item for value in values for key, item in value.items()}
    return values[-1]


_WORDS = {"text": "text", "thinking": "thinking", "reasoning.text": "text", "reasoning.summary": "summary"}
"""Parts of which a delta has a piece, by type, and where their words stand: Mistral's of ``content``, LiteLLM's of ``thinking_blocks``,
OpenRouter's of ``reasoning_details``."""


def _join_parts(pieces: list[Any]) -> list[Any]:
    """Parts out of their pieces: a signature is of a whole thought, so that a provider takes no piece of one back."""
    runs: list[list[Any]] = []
    for piece in pieces:
        if runs and _goes_on(runs[-1], piece):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return [part for run in runs for part in ([_joined_part(run)] if len(run) > 1 else run)]


def _goes_on(run: list[Any], piece: Any) -> bool:
    """Whether it is of the part that the pieces of `run` are of."""
    first, last = run[0], run[-1]
    if not isinstance(first, dict) or not isinstance(piece, dict) or last.get("signature"):
        return False
    kind, fields = str(first.get("type")), first.keys() | piece.keys()
    if kind not in _WORDS or (kind == "text" and fields != {"type", "text"}):
        return False
    said = {type(value) for one in (first, last, piece) if (value := one.get(_WORDS[kind]))}
    same = (first.get(name) == piece.get(name) or None in (first.get(name), piece.get(name)) for name in ("index", "id"))
    return first["type"] == piece.get("type") and said in ({str}, {list}, set()) and all(same)


def _joined_part(run: list[dict[str, Any]]) -> dict[str, Any]:
    words = _WORDS[run[0]["type"]]
    said = [value for piece in run if (value := piece.get(words))]
    if all(isinstance(value, str) for value in said):
        before = "".join(said[:-1])
        again = run[-1].get("signature") and said[-1:] == [before]  # LiteLLM says a thought once more where it signs it
        joined: Any = before if again else "".join(said)
    else:
        joined = [item for value in said for item in (value if isinstance(value, list) else [value])]
    whole = {key: value for piece in run for key, value in piece.items() if value not in (None, "") or piece is run[0]}
    return {**whole, words: joined}


# ---- text that is read, and text that is not ----

_TEXT_PARTS = ("text", "output_text")
_SILENT_PARTS = ("thinking", "reasoning", "redacted_thinking")
"""Parts of `content` that are the model's thoughts and not its answer."""


def delta_text(content: object) -> str:
    """The answer text in a delta's content: a string, or its text parts, one after another."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in _TEXT_PARTS]
    return "".join(text for text in texts if isinstance(text, str))


def thoughts_in(content: object) -> list[str]:
    """The model's thoughts among a content's parts, as Mistral has them: each a part with a text, or with text parts of its own."""
    found = []
    for part in objects_of(content):
        kind = str(part.get("type"))
        if kind in _SILENT_PARTS and (thought := delta_text(part.get(kind) or part.get("text"))):
            found.append(thought)
    return found


def unread(choice: object, *, streamed: bool) -> str:
    """The name of a field of `choice` with text that is not read; "" where there is none."""
    here, other = ("delta", "message") if streamed else ("message", "delta")
    if not isinstance(choice, dict):
        return "choices"
    if choice.get("text"):
        return "text"
    message = choice.get(here)
    if _says_more(choice.get(other), object_of(message)):
        return other
    if not isinstance(message, dict):
        return here if message else ""
    if _has_strange_parts(message.get("content")):
        return f"{here}.content"
    if not isinstance(message.get("refusal"), str | None):
        return f"{here}.refusal"
    audio = message.get("audio")
    return f"{here}.audio" if isinstance(audio, dict) and audio.get("transcript") else ""


def _says_more(message: object, than: Mapping[str, Any]) -> bool:
    """Whether it has words of its own: some servers say each delta once more as a message."""
    return any(said != than.get(name) for name, said in _words(message))


def repeats(message: object, other: Mapping[str, Any]) -> bool:
    """Whether it has words, and the other's alone."""
    return bool(_words(message)) and not _says_more(message, other)


def _words(message: object) -> list[tuple[str, Any]]:
    said = [(name, message.get(name)) for name in ("content", "refusal", "audio", "text")] if isinstance(message, dict) else []
    return [(name, words) for name, words in said if words]


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
    return part.get("type") in _SILENT_PARTS or not has_words(part)
