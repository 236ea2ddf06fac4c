"""How calls of the proxy's own tools are taken out of chat completions (`proxy.wire.own_tools`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message, ToolCall
from proxy.wire import sse
from proxy.wire.answers import end_of, summed
from proxy.wire.bodies import as_raw, object_in, raw_fields, raw_items
from proxy.wire.chat.message import CallParts, MessageParts, call_entries, delta_of
from proxy.wire.own_tools import AnswerEvent, Fields, Item, OwnToolFilter, legible
from proxy.wire.upstream_errors import envelope, failure_in, is_own

_CALLED = ("tool_calls", "function_call")
"""The ``finish_reason`` of a completion that calls tools."""


class ChatFilter(OwnToolFilter):
    """Of chat completions. Own tools are never offered where several choices are asked for."""

    def __init__(self, *, whole: bool, stored: bool = True) -> None:
        self._head: Fields = {}
        """``id`` and ``created`` of the first event that left."""
        self._last = ""
        """The last character of text that left."""
        super().__init__(whole=whole, stored=stored)

    def _reset(self) -> None:
        self._parted = False
        """Whether text of this answer has left."""
        self._message = MessageParts()
        self._of: dict[int, Item] = {}
        """By the call's identity."""

    def _read(self, event: sse.Event) -> AnswerEvent:
        if event.done:
            self._end = self._end or "stop"
            return AnswerEvent(event.raw, kind="ends")
        chunk = object_in(event.data or b"")
        if chunk is None:
            return AnswerEvent(event.raw)
        self._failed = self._failed or isinstance(chunk.get("error"), dict)
        self._usage = chunk["usage"] if isinstance(chunk.get("usage"), dict) else self._usage
        choice = _choice(chunk)
        if choice is None:
            silent = "error" not in chunk
            return AnswerEvent(event.raw, chunk, kind="ends" if isinstance(chunk.get("usage"), dict) else "begins" if silent else "says")
        delta, ends = delta_of(choice), isinstance(choice.get("finish_reason"), str)
        items = self._called(self._message.absorb(delta))
        self._end = end_of(choice["finish_reason"]) or "stop" if ends else self._end
        says = items or ends or _says(delta) or choice.get("logprobs")
        return AnswerEvent(event.raw, chunk, items, "ends" if ends else "says" if says else "begins")

    def _called(self, calls: Sequence[CallParts], *, final: bool = False) -> list[Item]:
        """The items of calls; whose each is, as soon as its name says so."""
        found = []
        for call in calls:
            item = self._of.setdefault(id(call), Item(True, call.index))
            found.append(item)
            if item.own is None and call.name in self._tools:
                self._decide(item, True)
            elif item.own is None and (final or call.arguments or not any(name.startswith(call.name) for name in self._tools)):
                self._decide(item, False)
                if not self._has_own:  # up to here the client has them as they came
                    item.place = item.index
        return found

    def _settle(self) -> None:
        self._called(self._message.calls.parts, final=True)

    def _without_own(self, event: AnswerEvent) -> tuple[AnswerEvent | None, AnswerEvent | None]:
        chunk = event.payload
        choice = _choice(chunk) if chunk is not None else None
        if chunk is None or choice is None:
            return super()._without_own(event)
        if event.kind != "ends" and not any(item.own or item.place != item.index for item in event.items):
            return event, None
        delta, kept = dict(delta_of(choice)), []
        for (entry, legacy), item in zip(call_entries(delta), event.items, strict=True):
            if legacy and item.own:
                delta.pop("function_call")
            elif not legacy and not item.own:
                kept.append({**entry, "index": item.place})
        delta.pop("tool_calls", None)
        if kept:
            delta["tool_calls"] = kept
        ends = event.kind == "ends"
        left = _with(chunk, {**choice, "delta": delta, "finish_reason": None}, usage=not ends)
        rest = AnswerEvent(b"", left, (), "says" if _says(delta) else "begins")
        bare = {**choice, "delta": {}, **({"logprobs": None} if "logprobs" in choice else {})}
        return rest, AnswerEvent(b"", _with(chunk, bare), kind="ends") if ends else None

    def _rendered(self, event: AnswerEvent) -> bytes:
        chunk = event.payload
        if chunk is None:
            return event.raw
        new = self._continued(chunk) if self._joins else chunk
        if self._before is not None and isinstance(new.get("usage"), dict):
            new = {**new, "usage": summed(self._before, new["usage"])}
        choice = _choice(new)
        if choice is not None:
            self._head = self._head or {key: new[key] for key in ("id", "created") if key in new}
            text = delta_of(choice).get("content")
            self._last = text[-1] if isinstance(text, str) and text else self._last
        return event.raw if new is chunk and event.raw else sse.encode(orjson.dumps(new))

    def _continued(self, chunk: Fields) -> Fields:
        """A later answer's chunk as one of the stream that has begun; its first text stands apart from the text before."""
        choice = _choice(chunk)
        if choice is None:
            return {**chunk, **self._head}
        delta = {key: value for key, value in delta_of(choice).items() if key != "role"}
        text = delta.get("content")
        if isinstance(text, str) and text and self._last:
            if not self._parted and not self._last.isspace():
                delta["content"] = "\n\n" + text
            self._parted = True
        return {**_with(chunk, {**choice, "delta": delta}), **self._head}

    def _ended_plainly(self, event: AnswerEvent) -> AnswerEvent:
        choice = _choice(event.payload or {})
        if event.payload is None or choice is None or choice.get("finish_reason") not in _CALLED:
            return event
        return AnswerEvent(b"", _with(event.payload, {**choice, "finish_reason": "stop"}))

    def _read_whole(self, fields: Fields) -> bool:
        choice = _choice(fields)
        if choice is None:
            return False
        message = choice.get("message")
        self._message.absorb(message if isinstance(message, dict) else {}, whole=True)
        self._usage = fields["usage"] if isinstance(fields.get("usage"), dict) else None
        self._end = end_of(choice.get("finish_reason")) or "stop"
        return True

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        first, *others = raw_items(raw["choices"])
        choice = raw_fields(first)
        message = raw_fields(choice["message"])
        items = self._items()
        if "tool_calls" in message:
            entries = [entry for entry in raw_items(message["tool_calls"]) if bytes(entry).startswith(b"{")]
            kept = [_renumbered(entry, item) for entry, item in zip(entries, items, strict=False) if not item.own]
            message["tool_calls"] = as_raw(kept)
            if not kept:
                del message["tool_calls"]
        if any(part.legacy and item.own for part, item in zip(self._message.calls.parts, items, strict=True)):
            message.pop("function_call")
        if all(item.own for item in items):
            if orjson.loads(bytes(choice.get("finish_reason", b"null"))) in _CALLED:
                choice["finish_reason"] = msgspec.Raw(b'"stop"')
            if bytes(message.get("content", b"null")) == b"null":
                message["content"] = msgspec.Raw(b'""')
        choice["message"] = as_raw(message)
        raw["choices"] = as_raw([as_raw(choice), *others])

    def _items(self) -> Collection[Item]:
        return self._called(self._message.calls.parts)

    def _calls(self) -> Iterator[ToolCall]:
        """Each with an id of its own: providers may leave it out, but want results to name one."""
        taken: set[str] = set()
        for position, (call, item) in enumerate(zip(self._message.calls.parts, self._items(), strict=True)):
            made = f"gw{self._answers:03d}{position:04d}"  # nine letters or digits: Mistral's form
            identity = call.id if call.id and call.id not in taken else made
            taken.add(identity)
            if item.own:
                yield ToolCall(identity, call.name, "".join(call.arguments), position)

    def _turn_of(self, calls: Sequence[ToolCall]) -> Message:
        turn: dict[str, Any] = {"role": "assistant", "content": None, **self._message.fields}
        if self._message.calls.parts[0].legacy:
            return {**turn, "function_call": {"name": calls[0].name, "arguments": legible(calls[0])}}
        made = [
            {"type": "function", **part.fields, "id": call.id, "function": {"name": call.name, "arguments": legible(call)}}
            for part, call in zip(self._message.calls.parts, calls, strict=True)
        ]
        return {**turn, "tool_calls": made}

    def messages(self, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
        """In the legacy form a result names its function."""
        if self._message.calls.parts[0].legacy:
            return [self._turn_of(calls), {"role": "function", "name": calls[0].name, "content": results[0]}]
        return super().messages(calls, results)

    def failed(self, status: int, body: bytes) -> bytes:
        """An event with the error."""
        error = (object_in(body) or {}).get("error") if is_own("chat", body) else envelope("chat", failure_in(body), status)["error"]
        return sse.encode(orjson.dumps({"error": error}))


def _renumbered(raw: msgspec.Raw, item: Item) -> msgspec.Raw:
    call = raw_fields(raw)
    return as_raw({**call, "index": msgspec.Raw(b"%d" % item.place)}) if "index" in call else raw


def _choice(chunk: Mapping[str, Any]) -> Fields | None:
    choices = chunk.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _with(chunk: Fields, choice: Fields, *, usage: bool = True) -> Fields:
    """`chunk` with another choice, with or without its usage."""
    return {**{key: value for key, value in chunk.items() if usage or key != "usage"}, "choices": [choice]}


def _says(delta: Mapping[str, Any]) -> bool:
    """Whether a delta says more than who speaks."""
    return any(value for key, value in delta.items() if key != "role")
