"""What of a chat completion is recognised (`proxy.wire.shapes`), whole and chunk by chunk.

In: an upstream's parsed body, or chunks. Out: the same with the known fields alone, one choice for each that was asked for, `content` as
one string, and calls of tools that were offered, each under an index of its own and named when its name is whole.

Reference: https://platform.openai.com/docs/api-reference/chat/object, and the fields of its like (Azure, vLLM, llama.cpp, OpenRouter, …).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from proxy.wire.chat.message import CallParts, Calls, thoughts_in
from proxy.wire.dialect import Recogniser
from proxy.wire.shapes import ABSENT, AnswerBounds, Fields, Reading, Shape, by_type, constant, either, list_of, number, table, with_title

_TEXT_PARTS = ("text", "output_text")
_END_AT = "finish_reason"


_LONGEST_TOKEN = 128
"""Characters; the longest of o200k, a run of blanks, has as many."""
_WILD = re.compile(r"bytes:|.*\ufffd|<[|/]?[\w|-]*>$|\Z", re.S)
"""Tokens that are no text of their own: half a character, an end mark, nothing."""
_MOST_GAP = 4
"""Characters that a run of such tokens may stand for before the next one is found."""


def tells(tokens: Iterable[Mapping[str, Any]], said: str) -> bool:
    """Whether `tokens`, one after another, say what was said; a token that is half of a character stands for anything."""
    at, gap = 0, False
    for entry in tokens:
        token = entry["token"]
        if token and said.startswith(token, at):
            at, gap = at + len(token), False
        elif _WILD.match(token):
            gap = True
        elif gap and (found := said.find(token, at, at + len(token) + _MOST_GAP)) >= 0:
            at, gap = found + len(token), False
        else:
            return False
    return at == len(said) or (gap and len(said) - at <= _MOST_GAP)


_ONE = Fields("logprobs", {"bytes": list_of(number, "bytes")}, text="token", number="logprob")
_TOKEN = _ONE.but(top_logprobs=list_of(_ONE, "top_logprobs"))


def _token(value: Any, reading: Reading) -> Any:
    made = _TOKEN(value, reading)
    if made is ABSENT or made.get("token").__class__ is not str:
        return ABSENT
    if given := made.get("top_logprobs"):
        made["top_logprobs"] = [one for one in given if _is_token(one.get("token"))]
        if len(made["top_logprobs"]) != len(given):
            reading.leave_out("top_logprobs.token")
    for entry in (made, *(made.get("top_logprobs") or ())):
        if entry.get("bytes") is not None and not _spells(entry["bytes"], entry["token"]):
            reading.leave_out("logprobs.bytes")
            entry["bytes"] = None
    return made


def _is_token(value: object) -> bool:
    """Whether it can be one token: no blank between two words."""
    return isinstance(value, str) and len(value) <= _LONGEST_TOKEN and len(value.split()) <= 1


def _spells(given: list[Any], token: str) -> bool:
    try:
        return "\ufffd" in token or token.startswith("bytes:") or bytes(given) == token.encode()
    except (ValueError, TypeError):
        return False


TOKENS = list_of(_token, "logprobs")


_SAID = either("text", list_of(by_type({"text": Fields("thinking", word="type", text="text")}), "thinking"))
_THINKING = Fields("thinking", dict.fromkeys(("thinking", "reasoning", "text"), _SAID), word="type", flag="closed")


def _content(value: Any, reading: Reading) -> Any:
    """A message's words as one string: parts are joined with nothing between, as clients join them. Thoughts are `_message`'s."""
    if value.__class__ is str:
        return value
    if value.__class__ is not list:
        return ABSENT
    said = []
    for part in value:
        if part.__class__ is dict and part.get("type") in _TEXT_PARTS and part.get("text").__class__ is str:
            said.append(part["text"])
        elif thoughts_in([part]):
            _THINKING(part, reading)
        else:
            reading.leave_out("content", str(part.get("type")) if isinstance(part, dict) else "part")
    return "".join(said)


_CITATION = with_title(Fields("url_citation", url="url", text="title", number="start_index end_index"))
_ANNOTATIONS = list_of(by_type({"url_citation": Fields("annotation", {"url_citation": _CITATION}, word="type")}), "annotations")


def _arguments(value: Any, reading: Reading) -> Any:
    """A call's arguments as text; some servers send the object itself."""
    if value.__class__ is dict:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value if value.__class__ is str else ABSENT


_FUNCTION = Fields("function", {"arguments": _arguments}, word="name")
_CALL = Fields(
    "tool_call",
    {"function": _FUNCTION, "custom": Fields("custom", word="name", text="input")},
    number="index",
    word="id type",
    figures="extra_content",
)
_ENCRYPTED = Fields("reasoning_details", word="type id format data", number="index")
_THOUGHT = table(word="type id format signature", number="index")
_DETAILS = {
    "reasoning.encrypted": _ENCRYPTED,
    "reasoning.text": Fields("reasoning_details", _THOUGHT, text="text"),
    "reasoning.summary": Fields("reasoning_details", _THOUGHT, text="summary"),
}
_BLOCKS = {
    "thinking": Fields("thinking_blocks", word="type signature", text="thinking"),
    "redacted_thinking": Fields("thinking_blocks", word="type data"),
}
_AGAIN = {"reasoning_details": ("text", "summary"), "thinking_blocks": ("thinking",)}
"""Fields that say a message's reasoning once more, for providers that want it back, each with where its words stand."""
_MESSAGE = Fields(
    "message",
    {
        "content": _content,
        "tool_calls": list_of(_CALL, "tool_calls"),
        "function_call": _FUNCTION,
        "annotations": _ANNOTATIONS,
        "reasoning_details": list_of(by_type(_DETAILS), "reasoning_details"),
        "thinking_blocks": list_of(by_type(_BLOCKS), "thinking_blocks"),
    },
    word="role",
    text="refusal reasoning_content reasoning",
    nothing="audio images",
)


def _message(value: Any, reading: Reading) -> Any:
    """A message, whose thoughts stand in a field of their own, also where they came as parts of its content."""
    made = _MESSAGE(value, reading)
    if made is ABSENT or made.get("reasoning_content") or made.get("reasoning"):
        return made
    thoughts = thoughts_in(value.get("content"))
    return {**made, "reasoning_content": "".join(thoughts)} if thoughts else made


_LOGPROBS = Fields("logprobs", {"content": TOKENS, "refusal": TOKENS})
_CHOICE = Fields(
    "choice",
    {"message": _message, "logprobs": _LOGPROBS, "stop_reason": either("figures", "quoted"), "matched_stop": either("figures", "quoted")},
    number="index",
    word="finish_reason native_finish_reason",
    figures="content_filter_results content_filter_result content_filter_offsets token_ids prompt_token_ids",
)
ERROR = Fields(
    "error", {"code": either("word", "number"), "status": either("word", "number")}, text="message", word="type param", figures="innererror"
)
"""The API's own error."""
_HEAD: Mapping[str, Shape] = table(
    {"citations": list_of("url", "citations"), "error": ERROR},
    label="id model",
    number="created",
    figures="usage metadata moderation prompt_filter_results timings x_groq",
    word="system_fingerprint service_tier provider",
    padding="obfuscation kv_transfer_params",
)
_BODY = Fields("completion", {**_HEAD, "object": constant("chat.completion"), "choices": list_of(_CHOICE, "choices")})
_CHUNK = Fields(
    "chunk",
    {**_HEAD, "object": constant("chat.completion.chunk"), "choices": list_of(_CHOICE.but(message="nothing", delta=_message), "choices")},
)
_SAYS = ("choices", "usage", "error", "prompt_filter_results", "timings", "moderation")
"""What a chunk may come for."""


class _Calls:
    """The calls of one choice of a stream, as they leave."""

    def __init__(self) -> None:
        self._read = Calls()
        self._places: dict[int, int] = {}
        """Of the calls, by the identities of what was read of them."""
        self._sent_names: dict[int, str] = {}
        """The names that have left, by the calls' places."""
        self._kinds: dict[int, str] = {}
        """What the calls began as."""

    def take_held(self, delta: dict[str, Any], reading: Reading) -> None:
        """Take the deltas of calls out of `delta` that are not to leave, or not yet; the others get their own index and a name once."""
        entries = [(entry, "tool_calls") for entry in delta.pop("tool_calls", None) or ()]
        if isinstance(legacy := delta.pop("function_call", None), dict):
            entries.append(({"function": legacy}, "function_call"))
        made = []
        for entry, field in entries:
            custom = entry.get("custom")
            plain = {**entry, "function": {"name": custom.get("name"), "arguments": custom.get("input")}} if custom else entry
            given = {field: plain["function"] if field == "function_call" else [plain]}
            call = self._read.absorb(given)[0]
            now = self._piece(call, plain, "custom" if custom or call.fields.get("type") == "custom" else "function", reading)
            if now is None:
                continue
            if field == "function_call":
                delta["function_call"] = now["function"]
            else:
                made.append(now)
        if made:
            delta["tool_calls"] = made

    def _piece(self, call: CallParts, entry: Mapping[str, Any], kind: str, reading: Reading) -> dict[str, Any] | None:
        place = self._places.setdefault(id(call), len(self._places))
        if kind != self._kinds.setdefault(place, kind):
            reading.leave_out("a call that goes on as one of another kind")
            return None
        if not reading.bounds.offers(call.name, kind):
            if call.arguments or not reading.bounds.may_offer(call.name):
                reading.leave_out("a call of a tool that was not offered")
            return None
        piece: dict[str, Any] = {"index": place}
        arguments = (entry.get("function") or {}).get("arguments") or ""
        if place not in self._sent_names:
            piece |= {"id": call.id, "type": kind} if call.id else {"type": kind}
            name, arguments = call.name, "".join(call.arguments)
        else:
            name = call.name.removeprefix(self._sent_names[place])
        self._sent_names[place] = call.name
        words = {"input" if kind == "custom" else "arguments": arguments}
        piece[kind] = {"name": name, **words} if name else words
        return piece | {key: entry[key] for key in ("extra_content",) if key in entry}


class _Choice:
    """One choice of a stream."""

    def __init__(self) -> None:
        self.calls = _Calls()
        self.is_over = False


class ChatShapes(Recogniser):
    """Of chat completions."""

    api = "chat"
    end_mark = b"[DONE]"
    failure = Fields("error", {"error": ERROR})

    def __init__(self, bounds: AnswerBounds) -> None:
        super().__init__(bounds)
        self._choices: dict[int, _Choice] = {}

    def answer(self, fields: Any) -> Any:
        """A completion with what is recognised of it."""
        made = _BODY(fields, self.reading)
        if made is ABSENT or not isinstance(made.get("choices"), list):
            return made
        if made["choices"] and made.pop("error", None) is not None:
            self.reading.leave_out("an error beside an answer")
        kept: dict[int, dict[str, Any]] = {}
        for position, choice in enumerate(made["choices"]):
            index = choice["index"] if choice.get("index").__class__ is int else position
            if not 0 <= index < self.reading.bounds.choices or index in kept:
                self.reading.leave_out("a choice that was not asked for")
                continue
            kept[index] = choice
            self._whole(choice)
        made["choices"] = [choice for _, choice in sorted(kept.items())]
        return made

    def _whole(self, choice: dict[str, Any]) -> None:
        message = choice.get("message")
        if not isinstance(message, dict):
            return
        calls = message.get("tool_calls")
        if calls is not None:
            message["tool_calls"] = [call for call in calls if self._is_offered(call)]
            if not message["tool_calls"]:
                del message["tool_calls"]
        if message.get("function_call") is not None and not self._is_offered({"function": message["function_call"]}):
            del message["function_call"]
        self._check(choice, message)

    def _is_offered(self, call: dict[str, Any]) -> bool:
        kind, other = ("custom", "function") if call.get("custom") else ("function", "custom")
        if call.pop(other, None):
            self.reading.leave_out("a call of two kinds")
        if call.get("type"):
            call["type"] = kind
        offered = self.reading.bounds.offers(str((call.get(kind) or {}).get("name") or ""), kind)
        if not offered:
            self.reading.leave_out("a call of a tool that was not offered")
        return offered

    def _check(self, choice: dict[str, Any], message: dict[str, Any]) -> None:
        """What repeats the message's words must say them."""
        self.says = self.says or any(message.get(name) for name in ("content", "refusal", "tool_calls", "function_call"))
        reasoning = {message.get("reasoning_content") or "", message.get("reasoning") or ""}
        if len(reasoning - {""}) > 1:
            self.reading.leave_out("message.reasoning", rider=True)
            del message["reasoning"]
        for name, places in _AGAIN.items():
            if message.get(name):
                said = "".join(str(entry.get(place) or "") for entry in message[name] for place in places)
                if said and said not in reasoning:
                    self.reading.leave_out("message", name, rider=True)
                    del message[name]
        logprobs = choice.get("logprobs") or {}
        for name in ("content", "refusal"):
            if logprobs.get(name) and not tells(logprobs[name], message.get(name) or ""):
                self.reading.leave_out("logprobs", name)
                logprobs[name] = None

    def events(self, fields: Any) -> list[dict[str, Any]]:
        """A chunk with what is recognised of it; none where nothing is left."""
        made = _CHUNK(fields, self.reading)
        if made is ABSENT:
            self.reading.leave_out("chunk")
            return []
        if made.get("choices"):
            made["choices"] = [choice for choice in made["choices"] if self._may_leave(choice)]
        if not any(made.get(name) for name in _SAYS):
            return []
        return [made]

    def _may_leave(self, choice: dict[str, Any]) -> bool:
        index = choice["index"] if choice.get("index").__class__ is int else 0
        state = self._choices.setdefault(index, _Choice())
        if not 0 <= index < self.reading.bounds.choices or state.is_over:
            self.reading.leave_out("what follows a choice's end" if state.is_over else "a choice that was not asked for")
            return False
        choice["index"] = index
        state.is_over = bool(choice.get(_END_AT))
        delta = choice.get("delta")
        if isinstance(delta, dict):
            if delta.get("tool_calls") or delta.get("function_call"):
                state.calls.take_held(delta, self.reading)
            self._check(choice, delta)
        elif choice.get("delta") is None:
            choice["delta"] = {}
        return True
