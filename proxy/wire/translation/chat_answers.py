"""Chat completions' answers: read into pieces, and written from them.

Reference: https://platform.openai.com/docs/api-reference/chat/object and …/chat-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from proxy.exchange import Usage
from proxy.wire import sse
from proxy.wire.answers import FOR_AN_HOUR, GOOD, KEPT_TIMES, end_of, number, usage_in
from proxy.wire.api_errors import Failure, code_of, failure_of, instead_of_answer
from proxy.wire.bodies import entries_of, object_of, objects_of
from proxy.wire.chat.message import Calls, MessageParts, call_entries, thoughts_in
from proxy.wire.translation import pieces
from proxy.wire.translation.chat_requests import SIGNED, SIGNED_OF_CALL

_GAP = "\n\n"
"""Between two texts that another API keeps apart."""
_MEDIA = ("images", "audio")
"""Fields of a message that hold what no other API's answer has."""
_MEDIA_PARTS = ("image_url", "input_audio", "file")
_BEGINS = ("id", "choices", "usage")
"""A chunk with none of these, as Azure's first, which tells of its filter alone, does not know the answer's name."""


class ChatReader:
    """Implements `proxy.wire.translation.pieces.AnswerReader`."""

    def __init__(self) -> None:
        self._has_begun = False
        self._calls = Calls()
        self._custom: dict[int, bool] = {}
        """Of the calls that have begun, by their places among `_calls`: whether they call a custom tool."""
        self._ids: dict[int, str] = {}
        """Of the same, what the client knows them by."""
        self._thoughts = MessageParts()
        """What stands in `SIGNED` and has not been told."""
        self._is_signed = False
        """Whether any of that is: else nobody wants it back."""

    def payload(self, chunk: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """The pieces of a chunk."""
        if instead_of_answer("chat", chunk) is not None:
            yield error_of(chunk)
            return
        if not self._has_begun and any(chunk.get(name) for name in _BEGINS):
            self._has_begun = True
            yield pieces.AnswerStart(pieces.words(chunk.get("id")), pieces.words(chunk.get("model")))
        for choice in objects_of(chunk.get("choices")):
            if number(choice, "index") == 0:
                yield from self._delta(object_of(choice.get("delta")))
                if choice.get("finish_reason"):
                    yield from self._sign()
                yield from _end(choice)
        if (usage := usage_in("chat", chunk.get("usage"))) is not None:
            yield usage
        if chunk.get("error"):
            yield error_of(chunk)

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        if media := [name for name in _MEDIA if delta.get(name)]:
            raise ValueError(f"a message with {' and '.join(media)}")
        if thought := pieces.words(delta.get("reasoning_content")) or pieces.words(delta.get("reasoning")):
            yield pieces.ThinkingDelta(thought)
        if details := {name: entries_of(delta[name]) for name in SIGNED if delta.get(name)}:
            self._thoughts.absorb(details)
            every = (one for found in details.values() for one in objects_of(found))
            self._is_signed = self._is_signed or any(one.get("signature") or one.get("data") for one in every)
        refusal, entries = pieces.words(delta.get("refusal")), call_entries(delta)
        for piece in _content(delta.get("content"), has_thought=bool(thought)):
            if isinstance(piece, pieces.TextDelta):
                yield from self._sign()
            yield piece
        for one in objects_of(delta.get("annotations")):
            yield from pieces.citations_in([object_of(one.get("url_citation"))])
        if refusal or entries:
            yield from self._sign()
        if refusal:
            yield pieces.RefusalDelta(refusal)
        for (call, _), part in zip(entries, self._calls.absorb(delta) if entries else (), strict=True):
            yield from self._call(next(i for i, known in enumerate(self._calls.parts) if known is part), call)

    def _sign(self) -> Iterator[pieces.Piece]:
        """What the server wants back with its thoughts."""
        if self._is_signed:
            yield _seal(self._thoughts.fields)
            self._thoughts, self._is_signed = MessageParts(), False

    def _call(self, key: int, call: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        begins = key not in self._custom
        if begins:
            self._custom[key] = call.get("type") == "custom" or isinstance(call.get("custom"), Mapping)
            self._ids[key] = pieces.words(call.get("id")) or pieces.new_call_id()
        custom = self._custom[key]
        inner = object_of(call.get("custom" if custom else "function"))
        if signed := {name: call[name] for name in SIGNED_OF_CALL if call.get(name)}:
            yield _seal({"tool_calls": [{"id": self._ids[key], **signed}]})
        if begins:
            yield pieces.CallStart(key, self._ids[key], pieces.words(inner.get("name")), custom)
        given = inner.get("input" if custom else "arguments")
        if given:
            yield pieces.CallDelta(key, given if isinstance(given, str) else orjson.dumps(given).decode())


def _seal(fields: Mapping[str, Any]) -> pieces.Signature:
    """Fields of the message that a later request is to have again."""
    return pieces.Signature("chat", orjson.dumps(fields).decode())


def _end(choice: Mapping[str, Any]) -> Iterator[pieces.Piece]:
    if (reason := end_of(choice.get("finish_reason"))) is not None:
        stop = choice.get("stop_reason")  # vLLM's
        yield pieces.Finish(reason, stop if isinstance(stop, str) and reason == "stop" else None)


def _content(content: object, *, has_thought: bool) -> Iterator[pieces.Piece]:
    """A message's words, a string or parts; of those some may be thoughts, which count where no other field has one."""
    for part in objects_of(content) or [{"text": content}]:
        if thoughts := thoughts_in([part]):
            yield from () if has_thought else map(pieces.ThinkingDelta, thoughts)
        elif text := pieces.words(part.get("text")):
            yield pieces.TextDelta(text)
        elif (kind := part.get("type")) in _MEDIA_PARTS:
            raise ValueError(f"a part of {pieces.known_type(kind, _MEDIA_PARTS)}")


def error_of(found: object) -> pieces.StreamError:
    """An error in parsed JSON, whatever its form."""
    failure = failure_of(found) or Failure("")
    return pieces.StreamError(failure.message or "the server failed", code_of(failure))


class ChatWriter:
    """Implements `proxy.wire.translation.pieces.AnswerWriter`: the end leaves last, as some servers of Gemini tell one with each chunk."""

    def __init__(self, created: int, *, usage: bool) -> None:
        """`created` in seconds since the epoch; `usage` is whether a stream's client asked for it."""
        self._created_at, self._wants_usage = created, usage
        self._head: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        """What the message says, by its field."""
        self._text_start = 0
        """Where in its content the text begins that began last, in characters."""
        self._annotations: list[dict[str, Any]] = []
        self._calls: dict[int, pieces.CallStart] = {}
        self._inputs: dict[int, list[str]] = {}
        """The arguments of calls."""
        self._reason: str | None = None
        self._usage: dict[str, Any] | None = None

    def feed(self, piece: pieces.Piece) -> bytes:
        """The chunks for a piece."""
        if isinstance(piece, pieces.AnswerStart):
            self._head = {"id": pieces.with_id_prefix(piece.id, "chatcmpl-"), "created": self._created_at, "model": piece.model}
            return self._chunk({"role": "assistant", "content": ""})
        if isinstance(piece, pieces.TextDelta):
            apart = _GAP if piece.apart and "content" in self._texts else ""
            if piece.apart:
                self._text_start = sum(map(len, self._texts.get("content", ()))) + len(apart)
            return self._more("content", apart + piece.text)
        if isinstance(piece, pieces.Citation):
            return self._cite(piece)
        if isinstance(piece, pieces.RefusalDelta):
            return self._more("refusal", piece.text)
        if isinstance(piece, pieces.ThinkingDelta):
            apart = _GAP if piece.apart and "reasoning_content" in self._texts else ""
            return self._more("reasoning_content", apart + piece.text)
        if isinstance(piece, pieces.CallStart | pieces.CallDelta):
            return self._call(piece)
        if isinstance(piece, Usage):
            self._usage = _usage(piece)
        elif isinstance(piece, pieces.Finish):
            self._reason = piece.reason
        elif isinstance(piece, pieces.StreamError):
            return sse.encode_json(envelope(piece))
        elif isinstance(piece, pieces.AnswerEnd):
            told = self._wants_usage and self._usage is not None
            return self._chunk({}, self._end()) + (self._event([], usage=self._usage) if told else b"") + sse.DONE
        return b""

    def _end(self) -> str | None:
        return ("tool_calls" if self._calls else "stop") if self._reason in GOOD else self._reason

    def _more(self, name: str, text: str) -> bytes:
        self._texts.setdefault(name, []).append(text)
        return self._chunk({name: text})

    def _cite(self, piece: pieces.Citation) -> bytes:
        at = {"start_index": self._text_start + piece.start, "end_index": self._text_start + piece.end}
        self._annotations.append({"type": "url_citation", "url_citation": {"url": piece.url, "title": piece.title, **at}})
        return self._chunk({"annotations": self._annotations[-1:]})

    def _call(self, piece: pieces.CallStart | pieces.CallDelta) -> bytes:
        if isinstance(piece, pieces.CallStart):
            self._calls[piece.key], self._inputs[piece.key] = piece, []
            return self._chunk({"tool_calls": [{"index": len(self._calls) - 1, **_call_entry(piece, "")}]})
        self._inputs[piece.key].append(piece.text)
        kind, name = _kind(self._calls[piece.key])
        index = list(self._calls).index(piece.key)
        return self._chunk({"tool_calls": [{"index": index, kind: {name: piece.text}}]})

    def _chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        return self._event([{"index": 0, "delta": delta, "finish_reason": reason}])

    def _event(self, choices: list[dict[str, Any]], **more: object) -> bytes:
        return sse.encode_json({**self._head, "object": "chat.completion.chunk", "choices": choices, **more})

    def whole(self) -> bytes:
        """The completion."""
        message: dict[str, Any] = {"role": "assistant", "content": None, **{name: "".join(texts) for name, texts in self._texts.items()}}
        if self._annotations:
            message["annotations"] = self._annotations
        calls = [_call_entry(call, "".join(self._inputs[key]) or ("" if call.custom else "{}")) for key, call in self._calls.items()]
        choice = {
            "index": 0,
            "message": {**message, **({"tool_calls": calls} if calls else {})},
            "logprobs": None,
            "finish_reason": self._end(),
        }
        usage = {} if self._usage is None else {"usage": self._usage}
        return orjson.dumps({**self._head, "object": "chat.completion", "choices": [choice], **usage})


def _kind(call: pieces.CallStart) -> tuple[str, str]:
    """The type of a call, and the field of what it is given."""
    return ("custom", "input") if call.custom else ("function", "arguments")


def _call_entry(call: pieces.CallStart, given: str) -> dict[str, Any]:
    kind, name = _kind(call)
    return {"id": call.id, "type": kind, kind: {"name": call.name, name: given}}


def _usage(used: Usage) -> dict[str, Any]:
    written: dict[str, Any] = {"cache_write_tokens": used.written_tokens} if used.written_tokens else {}
    written |= {KEPT_TIMES: {FOR_AN_HOUR: used.written_1h_tokens}} if used.written_1h_tokens else {}
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens + used.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens, **written},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def envelope(error: pieces.StreamError) -> dict[str, Any]:
    """OpenAI's error body."""
    return {"error": {"message": error.message, "type": "server_error", "param": None, "code": error.code}}
