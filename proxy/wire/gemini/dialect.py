"""``POST /v1beta/models/{model}:generateContent`` and its kin: the dialect, put together.

Parsing checks only what Groundwire itself needs and leaves the rest for the provider to judge, so that fields, parts and tools newer than
this folder pass. An item of ``contents`` of which nothing was changed leaves as it came; of another, each part that was not.

The filter that takes calls of the proxy's own tools out of answers (`proxy.wire.own_tools`) stands first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.errors import ProxyError
from proxy.exchange import Answer, Exchange, Message, Request, Tool, ToolCall, tool_name
from proxy.wire import bodies, sse
from proxy.wire.answers import add_usage, end_of, number
from proxy.wire.api_errors import envelope, failure_in, gemini_envelope, is_own
from proxy.wire.dialect import Changes, Dialect, TokenCounting
from proxy.wire.gemini import answers
from proxy.wire.gemini.address import COUNT, GENERATE, KEY_HEADER, with_address
from proxy.wire.gemini.answers import USAGE, GeminiShapes, call_in, candidates_of, parts_of
from proxy.wire.gemini.contents import Contents, sign, signature_fields
from proxy.wire.gemini.fields import field_spelling, is_text, new_call_id, raw_objects
from proxy.wire.gemini.requests import GeminiWire, function_of, read_request
from proxy.wire.gemini.stream import WITHHELD, GeminiStream
from proxy.wire.own_tools import AnswerEvent, AnswerItem, Fields, OwnToolFilter
from proxy.wire.requests import withhold
from proxy.wire.shapes import answer_bounds

_GAP = "\n\n"


class GeminiFilter(OwnToolFilter):
    """Of one candidate: own tools are never offered where several are asked for. A call is whole in the part that makes it."""

    usage_field = USAGE
    _last = ""
    """The last character of text that left."""

    def _reset(self) -> None:
        self._parts: list[Fields] = []
        """Of the answer, as they came."""
        self._called: list[AnswerItem] = []
        """Of its calls."""
        self._parted = self._seals = False
        """The second: a call that stays here has the signature of all."""

    def _read(self, event: sse.Event) -> AnswerEvent:
        payload = bodies.object_in(event.data or b"")
        if payload is None:
            return AnswerEvent(event.raw)
        self._failed = self._failed or isinstance(payload.get("error"), dict)
        self._usage = payload[USAGE] if isinstance(payload.get(USAGE), dict) else self._usage
        candidate = next(iter(candidates_of(payload)), {})
        items = self._take_parts(parts_of(candidate), str(payload.get("modelVersion")))
        end = end_of(candidate.get("finishReason"))
        self._end = end or self._end
        return AnswerEvent(event.raw, payload, items, "ends" if end else "says")

    def _take_parts(self, parts: Sequence[Fields], model: str) -> list[AnswerItem]:
        """Of calls at once Gemini signs the first; where that one stays here, the client's first says that it has no signature."""
        found = []
        for part in parts:
            self._parts.append(part)
            if (call := call_in(part)) is not None:
                found.append(AnswerItem(True, len(self._called)))
                self._called.append(found[-1])
                self._decide_owner(found[-1], str(call.get("name")) in self._tools)
                if found[-1].own:
                    self._seals = self._seals or bool(part.get("thoughtSignature"))
                elif self._seals and all(item.own for item in self._called[:-1]):
                    sign([part], model)
        return found

    def _settle(self) -> None:
        """Each is decided as it comes."""

    def _without_own(self, event: AnswerEvent) -> tuple[AnswerEvent | None, AnswerEvent | None]:
        payload = event.payload
        candidate = next(iter(candidates_of(payload)), None) if payload is not None else None
        if payload is None or candidate is None or (event.kind != "ends" and not any(item.own or self._seals for item in event.items)):
            return event, None
        owners = iter(event.items)
        kept = [part for part in parts_of(candidate) if call_in(part) is None or not next(owners).own]
        rest = None
        if kept:
            bare = {name: value for name, value in candidate.items() if name in ("content", "index")}
            rest = AnswerEvent(b"", _with(payload, bare, kept, usage=event.kind != "ends"))
        return rest, AnswerEvent(b"", _with(payload, candidate, []), kind="ends") if event.kind == "ends" else None

    def _render(self, event: AnswerEvent) -> bytes:
        payload = event.payload
        if payload is None:
            return event.raw
        new = payload
        if self._before is not None and isinstance(payload.get(USAGE), dict):
            new = {**new, USAGE: add_usage(self._before, payload[USAGE])}
        candidate = next(iter(candidates_of(new)), None)
        texts = [part["text"] for part in parts_of(candidate or {}) if is_text(part) and part["text"]]
        if candidate is not None and texts:
            if self._joins and not self._parted and self._last and not self._last.isspace():  # it stands apart from the text before
                parts = parts_of(candidate)
                first = next(i for i, part in enumerate(parts) if is_text(part) and part["text"])
                parts[first] = {**parts[first], "text": _GAP + parts[first]["text"]}
                new = _with(new, candidate, parts)
            self._parted, self._last = True, texts[-1][-1]
        return event.raw if new is payload and event.raw else sse.encode_json(new)

    def _read_whole(self, fields: Fields) -> bool:
        candidate = next(iter(candidates_of(fields)), None)
        if candidate is None:
            return False
        self._take_parts(parts_of(candidate), str(fields.get("modelVersion")))
        self._usage = fields[USAGE] if isinstance(fields.get(USAGE), dict) else None
        self._end = end_of(candidate.get("finishReason")) or "stop"
        return True

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        first, *others = raw_objects(raw["candidates"])
        candidate = bodies.raw_fields(first)
        content = bodies.raw_fields(candidate["content"])
        owners, kept = iter(self._called), []
        for piece, part in zip(raw_objects(content["parts"]), self._parts, strict=True):
            is_call = call_in(part) is not None
            if not is_call or not next(owners).own:
                kept.append(bodies.as_raw(part) if is_call and self._seals else piece)
        candidate["content"] = bodies.as_raw({**content, "parts": kept})
        raw["candidates"] = bodies.as_raw([bodies.as_raw(candidate), *others])

    def _items(self) -> Collection[AnswerItem]:
        return self._called

    def _calls(self) -> Iterator[ToolCall]:
        """Each with an id: servers may leave it out."""
        calls = [call for part in self._parts if (call := call_in(part)) is not None]
        for position, (call, item) in enumerate(zip(calls, self._called, strict=True)):
            if item.own:
                identity = str(call.get("id") or new_call_id(self._answers, position))
                yield ToolCall(identity, str(call.get("name")), orjson.dumps(call.get("args") or {}).decode(), position)

    def _turn_of(self, calls: Sequence[ToolCall]) -> Message:
        """With the signatures of its calls, in the place where Google's own chat API has them."""
        text = "".join(part["text"] for part in self._parts if is_text(part))
        signed = [str(part.get("thoughtSignature") or "") for part in self._parts if call_in(part) is not None]
        made = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **signature_fields(signed[call.index]),
            }
            for call in calls
        ]
        return {"role": "assistant", "content": text or None, "tool_calls": made}

    def encode_failure(self, status: int, body: bytes) -> bytes:
        """An event with the error."""
        own = bodies.object_in(body) if is_own("gemini", body) else None
        return sse.encode_json(own or envelope("gemini", failure_in(body), status))


def _with(payload: Fields, candidate: Mapping[str, Any], parts: Sequence[Fields], *, usage: bool = True) -> Fields:
    """A chunk whose candidate says these parts, with or without its usage."""
    content = candidate.get("content")
    about = content if isinstance(content, dict) else {"role": "model"}
    rest = {name: value for name, value in payload.items() if usage or name != USAGE}
    return {**rest, "candidates": [{**candidate, "content": {**about, "parts": list(parts)}}]}


_DECLARATIONS = "functionDeclarations"


class GeminiDialect(Dialect):
    """Google's ``generateContent``."""

    path = GENERATE
    conversation_field = "contents"
    own_tools = GeminiFilter
    key_headers: tuple[str, ...] = (KEY_HEADER, "authorization")
    client_header: str = KEY_HEADER
    usage_field: str = answers.USAGE

    def merge_address(self, body: bytes, path: str) -> bytes:
        """With the model, and whether it streams."""
        return with_address(body, path)

    def error(self, error: ProxyError) -> bytes:
        """Google's envelope."""
        return orjson.dumps(gemini_envelope(error))

    def withheld(self, error: ProxyError, *, streams: bool, answered: bool) -> tuple[str, bytes] | None:
        """As the API's own filters: ``promptFeedback`` of a prompt, a candidate without words of an answer."""
        made: dict[str, Any] = {"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": error.message}}
        if answered:
            content = {"parts": [], "role": "model"}
            made = {"candidates": [{"content": content, "finishReason": "SAFETY", "finishMessage": error.message or WITHHELD, "index": 0}]}
        made[answers.USAGE] = {"promptTokenCount": 0, "totalTokenCount": 0}
        return ("text/event-stream; charset=utf-8", sse.encode_json(made)) if streams else ("application/json", orjson.dumps(made))

    def parse_request(self, body: bytes) -> Request:
        """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
        return read_request(body)

    def _set_messages(self, raw: dict[str, msgspec.Raw], exchange: Exchange) -> None:
        Contents(exchange.original.wire, raw, exchange.original.messages, exchange.messages).put()

    def _set_tools(self, raw: dict[str, msgspec.Raw], request: Request, tools: Sequence[Tool]) -> None:
        """The functions in the order of `tools`, which caches go by, in one item; the provider's own tools as they came."""
        if not tools:
            raw.pop("tools", None)
            raw.pop(field_spelling(request.wire.fields, "toolConfig"), None)
            return
        wire: GeminiWire = request.wire
        kinds = {str(tool.get("type")) for tool in tools}
        items: list[dict[str, msgspec.Raw]] = []
        pieces: dict[tuple[int, str, int], msgspec.Raw] = {}
        for i, sent in enumerate(raw_objects(raw["tools"]) if request.tools else []):
            fields = bodies.raw_fields(sent)
            declared = field_spelling(fields, _DECLARATIONS)
            pieces |= {(i, declared, j): piece for j, piece in enumerate(raw_objects(fields.pop(declared, _NONE)))}
            items.append({name: value for name, value in fields.items() if name in kinds})
        by_name = {tool_name(tool): pieces[place] for tool in request.tools if (place := wire.tools[id(tool)]) in pieces}
        functions = [
            pieces[place] if (place := wire.tools.get(id(tool), _NOWHERE)) in pieces else _declare_tool(tool, by_name.get(tool_name(tool)))
            for tool in tools
            if tool.get("type", "function") == "function"
        ]
        at = min((i for i, _, _ in pieces), default=len(items))
        if functions:
            items += [{}] * (at == len(items))
            items[at] = {_DECLARATIONS: bodies.as_raw(functions), **items[at]}
        raw["tools"] = bodies.as_raw([item for item in items if item])

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is no answer of the API."""
        fields = orjson.loads(body)
        return answers.answer_of(bodies.object_of(fields))

    def _change(self, raw: dict[str, msgspec.Raw], changes: Changes) -> None:
        candidates = raw_objects(raw.get("candidates", msgspec.Raw(b"[]")))
        for position, piece in enumerate(candidates):
            candidate = bodies.exact(bytes(piece))
            index = number(candidate, "index") if isinstance(candidate, dict) else -1
            if index in changes.texts or index in changes.arguments:
                made = answers.with_changes(candidate, changes.texts.get(index), changes.arguments.get(index, {}))
                candidates[position] = bodies.encode_raw(made)
        raw["candidates"] = bodies.as_raw(candidates)

    def own_body(self, exchange: Exchange, answer: Answer) -> dict[str, Any]:
        """The answer."""
        return answers.own_body(exchange, answer)

    def own_events(self, exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
        """The answer as one event."""
        body = answers.own_body(exchange, answer)
        return sse.encode_json(body if verdict is None else {**body, bodies.EXTENSION: verdict})

    def recogniser(self, exchange: Exchange, body: bytes) -> GeminiShapes:
        """What was asked for is in the `body` as it was sent."""
        return GeminiShapes(answer_bounds(exchange, body))

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Take the tools `own` out, or forbid all calls."""
        withhold(exchange, own, {field_spelling(exchange.params, "toolConfig"): {"functionCallingConfig": {"mode": "NONE"}}})

    def stream(self, *, separate: bool = False) -> GeminiStream:
        """A reader for one streamed answer."""
        return GeminiStream(separate=separate)


_NONE = msgspec.Raw(b"[]")
_NOWHERE = (-1, "", -1)
"""Of a tool that the client did not send."""


def _declare_tool(tool: Tool, before: msgspec.Raw | None) -> msgspec.Raw:
    """A function tool as an item of ``functionDeclarations``; of one made of another, what was not changed stays."""
    described = bodies.object_of(tool.get("function"))
    sent = bodies.raw_fields(before) if before is not None else {}
    given = function_of(orjson.loads(bytes(before)))["function"] if before is not None else {}
    schema = field_spelling(sent, "parametersJsonSchema")
    names = {"name": "name", "description": "description", "parameters": schema}
    made = {own: described[name] for name, own in names.items() if name in described and described[name] != given.get(name, ...)}
    if schema in made:  # it is JSON Schema by now, which `parameters` does not take: types in capitals, and one each
        sent.pop("parameters", None)
    return bodies.as_raw({**sent, **made})


class GeminiCount(TokenCounting):
    """``:countTokens``"""

    path = COUNT

    def merge_address(self, body: bytes, path: str) -> bytes:
        """With the model."""
        return with_address(body, path)

    def parse(self, body: bytes) -> Request:
        """The prompt that is to be counted, which may stand in ``generateContentRequest``. Raises `InvalidRequest`."""
        fields = bodies.load(body)
        name = field_spelling(fields, "generateContentRequest")
        inner = fields.get(name)
        if isinstance(inner, dict):
            body = orjson.dumps({**inner, "model": fields.get("model")})
        return read_request(body)

    def knows_path(self, refusal: Mapping[str, Any]) -> bool:
        """By Google's envelope."""
        return isinstance(bodies.object_of(refusal.get("error")).get("status"), str)

    def render(self, tokens: int) -> bytes:
        """The answer."""
        return orjson.dumps({"totalTokens": tokens})
