"""``POST /v1beta/models/{model}:generateContent`` and its kin: the dialect, put together.

Parsing checks only what Groundwire itself needs and leaves the rest for the provider to judge, so that fields, parts and tools newer than
this folder pass. An item of ``contents`` of which nothing was changed leaves as it came; of another, each part that was not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.errors import ProxyError
from proxy.exchange import Answer, Exchange, Request, Tool, tool_name
from proxy.wire import bodies
from proxy.wire.dialect import Changes, Dialect, TokenCounting
from proxy.wire.gemini import answers
from proxy.wire.gemini.address import COUNT, GENERATE, KEY_HEADER, with_address
from proxy.wire.gemini.contents import Contents
from proxy.wire.gemini.fields import named, raw_objects
from proxy.wire.gemini.own_tools import GeminiFilter
from proxy.wire.gemini.requests import GeminiWire, function_of, read_request
from proxy.wire.gemini.shapes import GeminiShapes
from proxy.wire.gemini.stream import WITHHELD, GeminiStream, encode
from proxy.wire.requests import withhold
from proxy.wire.shapes import asked_of
from proxy.wire.upstream_errors import failure_in, gemini_envelope, is_too_long

_DECLARED = "functionDeclarations"


class GeminiDialect(Dialect):
    """Google's ``generateContent``."""

    path = GENERATE
    conversation_field = "contents"
    own_tools = GeminiFilter
    key_headers: tuple[str, ...] = (KEY_HEADER, "authorization")
    client_header: str = KEY_HEADER
    usage_field: str = answers.USAGE

    def completed(self, body: bytes, path: str) -> bytes:
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
        return ("text/event-stream; charset=utf-8", encode(made)) if streams else ("application/json", orjson.dumps(made))

    def error_code(self, body: bytes) -> str:
        """The status in Google's words, or what the message says of the prompt's length."""
        found = failure_in(body)
        return "context_length_exceeded" if is_too_long(found) else found.code

    def parse_request(self, body: bytes) -> Request:
        """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
        return read_request(body)

    def _set_messages(self, raw: dict[str, msgspec.Raw], exchange: Exchange) -> None:
        Contents(exchange.original.wire, raw, exchange.original.messages, exchange.messages).put()

    def _set_tools(self, raw: dict[str, msgspec.Raw], request: Request, tools: Sequence[Tool]) -> None:
        """The functions in the order of `tools`, which caches go by, in one item; the provider's own tools as they came."""
        if not tools:
            raw.pop("tools", None)
            raw.pop(named(request.wire.fields, "toolConfig"), None)
            return
        wire: GeminiWire = request.wire
        kinds = {str(tool.get("type")) for tool in tools}
        items: list[dict[str, msgspec.Raw]] = []
        pieces: dict[tuple[int, str, int], msgspec.Raw] = {}
        for i, sent in enumerate(raw_objects(raw["tools"]) if request.tools else []):
            fields = bodies.raw_fields(sent)
            declared = named(fields, _DECLARED)
            pieces |= {(i, declared, j): piece for j, piece in enumerate(raw_objects(fields.pop(declared, _NONE)))}
            items.append({name: value for name, value in fields.items() if name in kinds})
        by_name = {tool_name(tool): pieces[place] for tool in request.tools if (place := wire.tools[id(tool)]) in pieces}
        functions = [
            pieces[place] if (place := wire.tools.get(id(tool), _NOWHERE)) in pieces else _declared(tool, by_name.get(tool_name(tool)))
            for tool in tools
            if tool.get("type", "function") == "function"
        ]
        at = min((i for i, _, _ in pieces), default=len(items))
        if functions:
            items += [{}] * (at == len(items))
            items[at] = {_DECLARED: bodies.as_raw(functions), **items[at]}
        raw["tools"] = bodies.as_raw([item for item in items if item])

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is no answer of the API."""
        fields = orjson.loads(body)
        return answers.answer_of(fields if isinstance(fields, dict) else {})

    def _change(self, raw: dict[str, msgspec.Raw], changes: Changes) -> None:
        candidates = raw_objects(raw.get("candidates", msgspec.Raw(b"[]")))
        for position, piece in enumerate(candidates):
            candidate = bodies.exact(bytes(piece))
            index = answers.index_of(candidate) if isinstance(candidate, dict) else -1
            if index in changes.texts or index in changes.arguments:
                made = answers.with_changes(candidate, changes.texts.get(index), changes.arguments.get(index, {}))
                candidates[position] = bodies.dumped(made)
        raw["candidates"] = bodies.as_raw(candidates)

    def own_answer(self, exchange: Exchange) -> Answer:
        """A stage's answer as one candidate."""
        return answers.own_answer(exchange)

    def own_body(self, exchange: Exchange, answer: Answer) -> dict[str, Any]:
        """The answer."""
        return answers.own_body(exchange, answer)

    def own_events(self, exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
        """The answer as one event."""
        body = answers.own_body(exchange, answer)
        return encode(body if verdict is None else {**body, bodies.EXTENSION: verdict})

    def recogniser(self, exchange: Exchange, body: bytes) -> GeminiShapes:
        """What was asked for is in the `body` as it was sent."""
        return GeminiShapes(asked_of(exchange, body))

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Take the tools `own` out, or forbid all calls."""
        withhold(exchange, own, {named(exchange.params, "toolConfig"): {"functionCallingConfig": {"mode": "NONE"}}})

    def stream(self, *, separate: bool = False) -> GeminiStream:
        """A reader for one streamed answer."""
        return GeminiStream(separate=separate)


_NONE = msgspec.Raw(b"[]")
_NOWHERE = (-1, "", -1)
"""Of a tool that the client did not send."""


def _declared(tool: Tool, before: msgspec.Raw | None) -> msgspec.Raw:
    """A function tool as an item of ``functionDeclarations``; of one made of another, what was not changed stays."""
    function = tool.get("function")
    described = function if isinstance(function, Mapping) else {}
    sent = bodies.raw_fields(before) if before is not None else {}
    given = function_of(orjson.loads(bytes(before)))["function"] if before is not None else {}
    schema = "parameters" if "parameters" in sent else named(sent, "parametersJsonSchema")
    names = {"name": "name", "description": "description", "parameters": schema}
    made = {own: described[name] for name, own in names.items() if name in described and described[name] != given.get(name, ...)}
    return bodies.as_raw({**sent, **made})


class GeminiCount(TokenCounting):
    """``:countTokens``"""

    path = COUNT

    def completed(self, body: bytes, path: str) -> bytes:
        """With the model."""
        return with_address(body, path)

    def parse(self, body: bytes) -> Request:
        """The prompt that is to be counted, which may stand in ``generateContentRequest``. Raises `InvalidRequest`."""
        fields = bodies.load(body)
        name = named(fields, "generateContentRequest")
        inner = fields.get(name)
        if isinstance(inner, dict):
            body = orjson.dumps({**inner, "model": fields.get("model")})
        return read_request(body)

    def missing(self, status: int, body: bytes) -> bool:
        """By the status, and by Google's envelope."""
        if status not in (404, 405, 501):
            return False
        error = (bodies.object_in(body) or {}).get("error")
        return not (isinstance(error, dict) and isinstance(error.get("status"), str))

    def render(self, tokens: int) -> bytes:
        """The answer."""
        return orjson.dumps({"totalTokens": tokens})
