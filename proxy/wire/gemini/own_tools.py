"""How calls of the proxy's own tools are taken out of ``generateContent``'s answers (`proxy.wire.own_tools`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message, ToolCall
from proxy.wire import sse
from proxy.wire.answers import end_of, summed
from proxy.wire.bodies import as_raw, object_in, raw_fields
from proxy.wire.gemini.answers import USAGE, call_in, candidates_of, parts_of
from proxy.wire.gemini.fields import is_text, made_id, raw_objects
from proxy.wire.gemini.stream import encode
from proxy.wire.own_tools import AnswerEvent, Fields, Item, OwnToolFilter
from proxy.wire.upstream_errors import envelope, failure_in, is_own

_PARTED = "\n\n"


class GeminiFilter(OwnToolFilter):
    """Of one candidate: own tools are never offered where several are asked for. A call is whole in the part that makes it."""

    usage_field = USAGE

    def __init__(self, *, whole: bool, stored: bool = True) -> None:
        self._last = ""
        """The last character of text that left."""
        super().__init__(whole=whole, stored=stored)

    def _reset(self) -> None:
        self._parts: list[Fields] = []
        """Of the answer, as they came."""
        self._called: list[Item] = []
        """Of its calls."""
        self._parted = False

    def _read(self, event: sse.Event) -> AnswerEvent:
        payload = object_in(event.data or b"")
        if payload is None:
            return AnswerEvent(event.raw)
        self._failed = self._failed or isinstance(payload.get("error"), dict)
        self._usage = payload[USAGE] if isinstance(payload.get(USAGE), dict) else self._usage
        candidate = next(iter(candidates_of(payload)), {})
        items = self._take_parts(parts_of(candidate))
        end = end_of(candidate.get("finishReason"))
        self._end = end or self._end
        return AnswerEvent(event.raw, payload, items, "ends" if end else "says")

    def _take_parts(self, parts: Sequence[Fields]) -> list[Item]:
        found = []
        for part in parts:
            self._parts.append(part)
            if (call := call_in(part)) is not None:
                found.append(Item(True, len(self._called)))
                self._called.append(found[-1])
                self._decide(found[-1], str(call.get("name")) in self._tools)
        return found

    def _settle(self) -> None:
        """Each is decided as it comes."""

    def _without_own(self, event: AnswerEvent) -> tuple[AnswerEvent | None, AnswerEvent | None]:
        payload = event.payload
        candidate = next(iter(candidates_of(payload)), None) if payload is not None else None
        if payload is None or candidate is None or (event.kind != "ends" and not any(item.own for item in event.items)):
            return event, None
        owners = iter(event.items)
        kept = [part for part in parts_of(candidate) if call_in(part) is None or not next(owners).own]
        rest = None
        if kept:
            bare = {name: value for name, value in candidate.items() if name in ("content", "index")}
            rest = AnswerEvent(b"", _with(payload, bare, kept, usage=event.kind != "ends"))
        return rest, AnswerEvent(b"", _with(payload, candidate, []), kind="ends") if event.kind == "ends" else None

    def _rendered(self, event: AnswerEvent) -> bytes:
        payload = event.payload
        if payload is None:
            return event.raw
        new = payload
        if self._before is not None and isinstance(payload.get(USAGE), dict):
            new = {**new, USAGE: summed(self._before, payload[USAGE])}
        candidate = next(iter(candidates_of(new)), None)
        texts = [part["text"] for part in parts_of(candidate or {}) if is_text(part) and part["text"]]
        if candidate is not None and texts:
            if self._joins and not self._parted and self._last and not self._last.isspace():  # it stands apart from the text before
                parts = parts_of(candidate)
                first = next(i for i, part in enumerate(parts) if is_text(part) and part["text"])
                parts[first] = {**parts[first], "text": _PARTED + parts[first]["text"]}
                new = _with(new, candidate, parts)
            self._parted, self._last = True, texts[-1][-1]
        return event.raw if new is payload and event.raw else encode(new)

    def _read_whole(self, fields: Fields) -> bool:
        candidate = next(iter(candidates_of(fields)), None)
        if candidate is None:
            return False
        self._take_parts(parts_of(candidate))
        self._usage = fields[USAGE] if isinstance(fields.get(USAGE), dict) else None
        self._end = end_of(candidate.get("finishReason")) or "stop"
        return True

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        first, *others = raw_objects(raw["candidates"])
        candidate = raw_fields(first)
        content = raw_fields(candidate["content"])
        owners, kept = iter(self._called), []
        for piece, part in zip(raw_objects(content["parts"]), self._parts, strict=True):
            if call_in(part) is None or not next(owners).own:
                kept.append(piece)
        candidate["content"] = as_raw({**content, "parts": kept})
        raw["candidates"] = as_raw([as_raw(candidate), *others])

    def _items(self) -> Collection[Item]:
        return self._called

    def _calls(self) -> Iterator[ToolCall]:
        """Each with an id: servers may leave it out."""
        calls = [call for part in self._parts if (call := call_in(part)) is not None]
        for position, (call, item) in enumerate(zip(calls, self._called, strict=True)):
            if item.own:
                identity = str(call.get("id") or made_id(self._answers, position))
                yield ToolCall(identity, str(call.get("name")), orjson.dumps(call.get("args") or {}).decode(), position)

    def _turn_of(self, calls: Sequence[ToolCall]) -> Message:
        """With the signatures of its calls, in the place where Google's own chat API has them."""
        text = "".join(part["text"] for part in self._parts if is_text(part))
        signed = [str(part.get("thoughtSignature") or "") for part in self._parts if call_in(part) is not None]
        made = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}, **_signed(signed[call.index])}
            for call in calls
        ]
        return {"role": "assistant", "content": text or None, "tool_calls": made}

    def failed(self, status: int, body: bytes) -> bytes:
        """An event with the error."""
        own = object_in(body) if is_own("gemini", body) else None
        return encode(own or envelope("gemini", failure_in(body), status))


def _signed(signature: str) -> dict[str, Any]:
    return {"extra_content": {"google": {"thought_signature": signature}}} if signature else {}


def _with(payload: Fields, candidate: Mapping[str, Any], parts: Sequence[Fields], *, usage: bool = True) -> Fields:
    """A chunk whose candidate says these parts, with or without its usage."""
    content = candidate.get("content")
    about = content if isinstance(content, dict) else {"role": "model"}
    rest = {name: value for name, value in payload.items() if usage or name != USAGE}
    return {**rest, "candidates": [{**candidate, "content": {**about, "parts": list(parts)}}]}
