"""Takes the calls of the proxy's own tools out of the answers of one exchange, so that its client sees a single answer.

In: the upstream's answers, one after another, each as a body or as events. Out: what the client may see, in the upstream's own bytes
but for these: an event or body that held such a call; the ``usage`` of a later answer, which counts the earlier ones; and, once events
of an earlier answer have left, the later ones' ``id``, ``created`` and role, so that they go on with the same stream.

"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message, ToolCall
from proxy.wire import sse
from proxy.wire.answers import summed
from proxy.wire.bodies import as_raw, object_in, raw_fields, raw_items
from proxy.wire.chat.message import CallParts, MessageParts, call_entries, continued, delta_of, tool_calls
from proxy.wire.dialect import CallFilter, OwnToolTurn
from proxy.wire.upstream_errors import envelope, failure_in, is_own

_CALLED = ("tool_calls", "function_call")
"""The ``finish_reason`` of an answer that calls tools."""
_CUT = ("length", "content_filter")


class _Event(msgspec.Struct, frozen=True):
    """One event, or one that was written anew (then without `raw`)."""

    raw: bytes
    chunk: dict[str, Any] | None = None
    """None for the end mark and for what is no chunk."""
    calls: Sequence[CallParts] = ()
    """The call of each of its call deltas."""
    end: bool = False


class ChatCallFilter(CallFilter):
    """Of chat completions."""

    def __init__(self, *, whole: bool) -> None:
        self._head: dict[str, Any] | None = None
        """``id`` and ``created`` of the first event that left."""
        self._last = ""
        """The last character of text that left."""
        super().__init__(whole=whole)

    def _reset(self) -> None:
        self._joined = self._head is not None
        """Whether events of an earlier answer have left."""
        self._parted = False
        """Whether text of this answer has left."""
        self._message = MessageParts()
        self._finish: str | None = None
        self._ended = self._stripping = self._started = False
        self._undecided: deque[_Event] = deque()
        """Events from the first call on whose name does not say yet whose it is."""
        self._lead: list[_Event] = []
        """Events that say nothing yet (a role): they leave with the first that does."""
        self._held: list[_Event] = []
        """With `whole`: everything."""
        self._tail: list[_Event] = []
        """The end of an answer with own calls: it leaves only if no other answer follows."""

    # ---- events ----

    def finish(self) -> bytes:
        """What is decided at the end."""
        out = super().finish()
        self._decide(self._message.calls.parts, final=True)
        return out + self._drain()

    def _take(self, event: sse.Event) -> bytes:
        if event.data is None:
            return self._leave(_Event(event.raw))
        if event.done:
            self._ended = True
            self._undecided.append(_Event(event.raw, end=True))
            return self._drain()
        chunk = object_in(event.data)
        calls = self._absorb(chunk) if chunk is not None else []
        self._decide(calls)
        self._undecided.append(_Event(event.raw, chunk, calls))
        return self._drain()

    def _absorb(self, chunk: dict[str, Any]) -> list[CallParts]:
        self._failed = self._failed or isinstance(chunk.get("error"), dict)
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        choice = _choice(chunk)
        if choice is None:
            return []
        if isinstance(choice.get("finish_reason"), str):
            self._finish, self._ended = choice["finish_reason"], True
        return self._message.absorb(delta_of(choice))

    def _decide(self, calls: Sequence[CallParts], *, final: bool = False) -> None:
        for call in calls:
            if call.own is None:
                call.decide(self._own, final=final)
                if call.own:
                    self._stripping = True
                elif call.own is False and self._stripping:
                    others = (c.new_index for c in self._message.calls.parts if c.own is False and c is not call)
                    call.new_index = 1 + max(others, default=-1)

    def _drain(self) -> bytes:
        out = []
        while self._undecided and all(call.own is not None for call in self._undecided[0].calls):
            out.append(self._sort(self._undecided.popleft()))
        return b"".join(out)

    def _sort(self, event: _Event) -> bytes:
        """To the client, to the lead, to the tail, or nowhere."""
        if event.chunk is None:
            return self._put(event, wait=event.end)
        choice = _choice(event.chunk)
        if choice is None:
            usage = isinstance(event.chunk.get("usage"), dict)
            silent = not usage and not self._started and "error" not in event.chunk
            return self._silent(event) if silent else self._put(event, wait=usage)
        ends = isinstance(choice.get("finish_reason"), str)
        if self._stripping and (ends or any(call.own or call.new_index != call.index for call in event.calls)):
            return self._without_own(event, event.chunk, choice, ends)
        says = ends or event.calls or _says(delta_of(choice)) or choice.get("logprobs")
        return self._put(event) if says else self._silent(event)

    def _without_own(self, event: _Event, chunk: dict[str, Any], choice: dict[str, Any], ends: bool) -> bytes:
        """The event without its own calls; its end waits."""
        delta, kept = dict(delta_of(choice)), []
        for (entry, legacy), call in zip(call_entries(delta), event.calls, strict=True):
            if legacy and call.own:
                delta.pop("function_call")
            elif not legacy and not call.own:
                kept.append({**entry, "index": call.new_index})
        delta.pop("tool_calls", None)
        if kept:
            delta["tool_calls"] = kept
        rest = _Event(b"", _with(chunk, {**choice, "delta": delta, "finish_reason": None}, usage=not ends))
        out = self._put(rest) if _says(delta) else self._silent(rest)
        if ends:
            bare = {**choice, "delta": {}, **({"logprobs": None} if "logprobs" in choice else {})}
            self._tail.append(_Event(b"", _with(chunk, bare)))
        return out

    def _silent(self, event: _Event) -> bytes:
        if not self._started:
            self._lead.append(event)
            return b""
        chunk = event.chunk or {}
        return self._leave(event) if event.raw and not (self._joined and _choice(chunk)) else b""

    def _put(self, event: _Event, *, wait: bool = False) -> bytes:
        if wait and self._stripping:
            self._tail.append(event)
            return b""
        lead, self._lead = [] if self._joined else self._lead, []
        self._started = True
        return b"".join([self._leave(e) for e in (*lead, event)])

    def _leave(self, event: _Event) -> bytes:
        if self._whole:
            self._held.append(event)
            return b""
        return self._rendered(event)

    def _rendered(self, event: _Event) -> bytes:
        """The event's own bytes, unless something in it had to change."""
        chunk = event.chunk
        if chunk is None:
            return event.raw
        new = self._continued(chunk) if self._joined else chunk
        if self._before is not None and isinstance(new.get("usage"), dict):
            new = {**new, "usage": summed(self._before, new["usage"])}
        choice = _choice(new)
        if choice is not None:
            self._head = self._head or {key: new[key] for key in ("id", "created") if key in new}
            text = delta_of(choice).get("content")
            self._last = text[-1] if isinstance(text, str) and text else self._last
        return event.raw if new is chunk and event.raw else sse.encode(orjson.dumps(new))

    def _continued(self, chunk: dict[str, Any]) -> dict[str, Any]:
        """A later answer's chunk as one of the stream that has begun; its first text stands apart from the text before."""
        choice = _choice(chunk)
        if choice is None:
            return {**chunk, **(self._head or {})}
        delta = {key: value for key, value in delta_of(choice).items() if key != "role"}
        text = delta.get("content")
        if isinstance(text, str) and text and self._last:
            if not self._parted and not self._last.isspace():
                delta["content"] = "\n\n" + text
            self._parted = True
        return {**_with(chunk, {**choice, "delta": delta}), **(self._head or {})}

    # ---- bodies ----

    def read(self, body: bytes) -> None:
        """A whole answer. Raises `ValueError` when it is not a chat completion."""
        fields = orjson.loads(body)
        choice = _choice(fields) if isinstance(fields, dict) else None
        if choice is None:
            raise ValueError("not a chat completion")
        message = choice.get("message")
        self._message.absorb(message if isinstance(message, dict) else {}, whole=True)
        self._decide(self._message.calls.parts, final=True)
        self._usage = fields["usage"] if isinstance(fields.get("usage"), dict) else None
        self._finish, self._ended, self._body = choice.get("finish_reason"), True, body

    # ---- both ----

    @property
    def turn(self) -> OwnToolTurn:
        """What the answer came to."""
        parts = self._message.calls.parts
        calls = tuple(call for part, call in zip(parts, tool_calls(parts, self._answers), strict=True) if part.own)
        whole = self._ended and not self._failed and self._finish not in _CUT
        return OwnToolTurn(calls, mixed=any(not part.own for part in parts), whole=whole)

    def _rest(self) -> bytes:
        tail = [_ended_plainly(event) for event in self._tail] if not self.turn.mixed else self._tail
        lead = [] if self._joined else self._lead
        return b"".join([self._rendered(event) for event in (*lead, *self._held, *tail)])

    @property
    def _has_own(self) -> bool:
        return self._stripping

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        first, *others = raw_items(raw["choices"])
        raw["choices"] = as_raw([_stripped_choice(first, self._message.calls.parts), *others])

    def messages(self, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
        """The answer and the results of its `calls`, as the next request carries them."""
        return continued(self._message, calls, results)

    def failed(self, status: int, body: bytes) -> bytes:
        """An upstream's refusal as the event that tells a client after bytes have left."""
        error = (object_in(body) or {}).get("error") if is_own("chat", body) else envelope("chat", failure_in(body), status)["error"]
        return sse.encode(orjson.dumps({"error": error}))


def _stripped_choice(raw: msgspec.Raw, parts: Sequence[CallParts]) -> msgspec.Raw:
    """A body's choice without the proxy's own calls."""
    choice = raw_fields(raw)
    message = raw_fields(choice["message"])
    left = [part for part in parts if not part.own]
    if any(part.legacy and part.own for part in parts):
        message.pop("function_call")
    if "tool_calls" in message:
        entries = [item for item in raw_items(message["tool_calls"]) if bytes(item).startswith(b"{")]
        kept = [_renumbered(item, part) for item, part in zip(entries, parts, strict=False) if not part.own]
        message["tool_calls"] = as_raw(kept)
        if not kept:
            del message["tool_calls"]
    if not left:
        if orjson.loads(bytes(choice.get("finish_reason", b"null"))) in _CALLED:
            choice["finish_reason"] = msgspec.Raw(b'"stop"')
        if bytes(message.get("content", b"null")) == b"null":
            message["content"] = msgspec.Raw(b'""')
    choice["message"] = as_raw(message)
    return as_raw(choice)


def _renumbered(raw: msgspec.Raw, part: CallParts) -> msgspec.Raw:
    call = raw_fields(raw)
    if "index" not in call:
        return raw
    call["index"] = msgspec.Raw(b"%d" % part.new_index)
    return as_raw(call)


def _ended_plainly(event: _Event) -> _Event:
    """An end whose calls have all been taken out."""
    choice = _choice(event.chunk) if event.chunk is not None else None
    if event.chunk is None or choice is None or choice.get("finish_reason") not in _CALLED:
        return event
    return _Event(b"", _with(event.chunk, {**choice, "finish_reason": "stop"}))


def _choice(chunk: Mapping[str, Any]) -> dict[str, Any] | None:
    """The choice; own tools are never offered where several are asked for."""
    choices = chunk.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _with(chunk: dict[str, Any], choice: dict[str, Any], *, usage: bool = True) -> dict[str, Any]:
    """`chunk` with another choice, with or without its usage."""
    return {**{key: value for key, value in chunk.items() if usage or key != "usage"}, "choices": [choice]}


def _says(delta: Mapping[str, Any]) -> bool:
    """Whether a delta says more than who speaks."""
    return any(value for key, value in delta.items() if key != "role")
