"""OpenAI's Responses: request body <-> `Request`, answer body <-> `Answer`.

Reference: https://platform.openai.com/docs/api-reference/responses. Parsing checks only what Groundwire itself needs and leaves the rest
for the provider to judge, so that items and fields newer than this file pass. Rendering splices: an item, a tool or a field that is still
the object it was goes out in the bytes it came in.

The filter that takes calls of the proxy's own tools out of answers (`proxy.wire.own_tools`) stands first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from proxy.errors import InvalidRequest, ProxyError
from proxy.exchange import Answer, Exchange, Message, Request, Tool, ToolCall
from proxy.exchange.answers import OutputRequirements
from proxy.exchange.histories import CONVERSATION, RESPONSE, History
from proxy.wire import bodies, sse
from proxy.wire.answers import add_usage
from proxy.wire.api_errors import envelope, failure_in
from proxy.wire.chat.forms import own_answer
from proxy.wire.dialect import Changes, Dialect, TokenCounting
from proxy.wire.own_tools import AnswerEvent, AnswerItem, Fields, OwnToolFilter, legible
from proxy.wire.requests import Wire, request_of, with_format
from proxy.wire.responses import events
from proxy.wire.responses.items import Origin, Reading, chat_call, is_call, read
from proxy.wire.responses.output import change, join_texts, own_id, own_response, streamed_places, texts_of
from proxy.wire.responses.rendering import OUTPUT_ITEMS, Rendering, new_items
from proxy.wire.responses.shapes import ResponsesShapes
from proxy.wire.responses.stream import ResponsesStream
from proxy.wire.shapes import answer_bounds


class ResponsesFilter(OwnToolFilter):
    """Of Responses. Reasoning that led to nothing but own calls stays behind, too. The response's id at the end is the last answer's: the
    provider knows the conversation by it."""

    def __init__(self, *, whole: bool, stored: bool = True) -> None:
        self._foreign_items: list[Fields] = []
        """Items of earlier answers that the client has seen."""
        self._next: int | None = None
        """The next event's number."""
        self._has_id = True
        self._by_position: dict[int, AnswerItem] = {}
        self._output: dict[int, Fields] = {}
        """The answer's items, as far as they are whole."""
        self._places: list[int] = []
        """Where the items of its end stood before."""
        super().__init__(whole=whole, stored=stored)

    def _reset(self) -> None:
        if self._joins:
            self._foreign_items += [
                self._output[i] for i, item in sorted(self._by_position.items()) if item.own is False and i in self._output
            ]
        self._by_position, self._output, self._places = {}, {}, []

    def _read(self, event: sse.Event) -> AnswerEvent:
        data = bodies.typed_object_in(event.data or b"") if not event.done else None
        if data is None:
            return AnswerEvent(event.raw, kind="ends" if event.done else "says")
        kind = data["type"]
        if kind in events.BEGINS:
            self._has_id = event.raw.startswith(b"event:")
            return AnswerEvent(event.raw, data, kind="begins")
        if kind in events.ENDS:
            self._read_response(events.response_of(data))
            self._settle()
        self._failed = self._failed or kind in ("error", "response.failed")
        items = [self._item(events.index_of(data), data.get("item"))] if "output_index" in data else ()
        return AnswerEvent(event.raw, data, items, "ends" if kind in events.ENDS else "says")

    def _item(self, position: int, given: object) -> AnswerItem:
        fields = bodies.object_of(given)
        item = self._by_position.get(position)
        own = fields.get("type") == "function_call" and fields.get("name") in self._tools
        if fields:
            self._output[position] = fields
        if item is None:
            item = self._by_position[position] = AnswerItem(False, position)
            if not own and fields.get("type") != "reasoning":
                for thought in self._by_position.values():  # reasoning that leads to something leaves before it
                    if thought.own is None:
                        self._decide_owner(thought, False)
        item.is_call = item.is_call or own or (bool(fields) and is_call(fields))
        if own and not item.own:
            self._decide_owner(item, True)
        return item

    def _settle(self) -> None:
        for item in self._by_position.values():
            if item.own is None:
                self._decide_owner(item, self._has_own)

    def _read_response(self, response: Mapping[str, Any]) -> None:
        output = bodies.entries_of(response.get("output"))
        self._places = streamed_places(self._output, output)
        for at, item in zip(self._places, output, strict=True):
            self._item(at, item)
        self._end = "stop" if str(response.get("status") or "completed") == "completed" else "length"
        self._usage = response["usage"] if isinstance(response.get("usage"), dict) else None
        self._stored = self._stored and response.get("store") is not False  # with zero data retention, whatever was asked for
        self._answer_id = str(response.get("id") or "") if self._stored else ""

    def _render(self, event: AnswerEvent) -> bytes:
        new = data = event.payload
        if data is None or new is None:
            return event.raw
        if event.items and event.items[0].client_index != data["output_index"]:
            new = {**new, "output_index": event.items[0].client_index}
        if event.kind != "says" and (told := events.response_of(data)):
            response = self._join_response(told) if event.kind == "ends" else self._offered_by_client(told)
            new = new if response == told else {**new, "response": response}
        number = data.get("sequence_number")
        if isinstance(number, int):
            self._next = number if self._next is None else self._next
            new = new if number == self._next else {**new, "sequence_number": self._next}
            self._next += 1
        return event.raw if new is data else events.encode(new, named=self._has_id)

    def _join_response(self, response: Fields) -> Fields:
        """The response as the client is to know it: all items that it has seen, and the usage of all answers."""
        new = self._offered_by_client(response)
        if self._foreign_items or self._has_own:
            output = zip(self._places, bodies.entries_of(response.get("output")), strict=True)
            new["output"] = [*self._foreign_items, *(item for at, item in output if not self._is_own(at))]
        if self._before is not None and isinstance(response.get("usage"), dict):
            new["usage"] = add_usage(self._before, response["usage"])
        return new

    def _offered_by_client(self, response: Fields) -> Fields:
        """A copy of the response, which says again what tools it was asked with, without the proxy's own."""
        listed = response.get("tools")
        if not isinstance(listed, list):
            return dict(response)
        return {**response, "tools": [tool for tool in listed if bodies.object_of(tool).get("name") not in self._tools]}

    def _is_own(self, position: int) -> bool:
        item = self._by_position.get(position)
        return item is not None and bool(item.own)

    def _read_whole(self, fields: Fields) -> bool:
        if isinstance(fields.get("output"), list):
            self._read_response(fields)
            return True
        return False

    def _strip_body(self, body: bytes) -> bytes:
        stripped = super()._strip_body(body)
        if not any(name.encode() in stripped for name in self._tools):
            return stripped
        raw = bodies.raw_fields(stripped)
        if "tools" in raw:
            raw["tools"] = bodies.encode_raw(self._offered_by_client({"tools": orjson.loads(bytes(raw["tools"]))})["tools"])
        return msgspec.json.encode(raw)

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        raw["output"] = bodies.as_raw([item for i, item in enumerate(bodies.raw_items(raw["output"])) if not self._is_own(i)])

    def _items(self) -> Collection[AnswerItem]:
        return self._by_position.values()

    def _own_positions(self) -> list[int]:
        return sorted(i for i, item in self._by_position.items() if item.own and item.is_call)

    def _calls(self) -> Iterator[ToolCall]:
        for index, position in enumerate(self._own_positions()):
            item = self._output[position]
            identity = item.get("call_id") or f"gw{self._answers:03d}{position:04d}"
            yield ToolCall(str(identity), str(item["name"]), str(item.get("arguments") or ""), index)

    def _turn_of(self, calls: Sequence[ToolCall]) -> Message:
        """Reasoning goes back to a provider that keeps nothing only if it is encrypted."""
        given = dict(zip(self._own_positions(), calls, strict=True))
        every = [
            {**item, "call_id": given[i].id, "arguments": legible(given[i])} if i in given else item
            for i, item in sorted(self._output.items())
        ]
        items = [item for item in every if self._stored or item.get("type") != "reasoning" or item.get("encrypted_content")]
        calling = [chat_call(item) for item in items if is_call(item)]
        return {"role": "assistant", "content": join_texts(texts_of(items)) or None, "tool_calls": calling, OUTPUT_ITEMS: items}

    def encode_failure(self, status: int, body: bytes) -> bytes:
        """The API's ``error`` event."""
        told = envelope("responses", failure_in(body), status)["error"]
        made = {**told, "type": "error", "code": told["code"] or "server_error", "sequence_number": self._next or 0}
        return events.encode(made, named=self._has_id)


_READ = ("model", "input", "instructions", "tools", "stream", bodies.EXTENSION)
"""Fields that are no parameters."""
_MISSING = re.compile(r"\w+_?not_?found", re.I)
_ELSEWHERE = ("prompt", "previous_response_id", "conversation")
"""Where a request may have its words, or its model, from, if not from itself."""


class ResponsesDialect(Dialect):
    """``POST /v1/responses``"""

    path = "/responses"
    conversation_field = "input"
    own_tools = ResponsesFilter

    def error(self, error: ProxyError) -> bytes:
        """OpenAI's envelope."""
        told = error.envelope()
        if error.param == "messages":  # what other APIs call it
            told["error"]["param"] = self.conversation_field
        return orjson.dumps(told)

    def parse_request(self, body: bytes) -> Request:
        """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
        return _request(body, bodies.load(body), {})

    def _same_messages(self, exchange: Exchange) -> bool:
        new = exchange.original.wire.goes_on_from is not None or exchange.original.open_results
        return not new and super()._same_messages(exchange)

    def _set_messages(self, raw: dict[str, msgspec.Raw], exchange: Exchange) -> None:
        wire: _Wire = exchange.original.wire
        if wire.goes_on_from:
            raw["previous_response_id"] = bodies.encode_raw(wire.goes_on_from)
        elif wire.goes_on_from == "":
            raw.pop("previous_response_id", None)
        _set_input(raw, wire.reading, exchange)

    def _describe_tool(self, tool: Tool, *, known: bool) -> Mapping[str, Any]:
        """A tool of chat's form in this API's, where a function is strict unless it says otherwise."""
        kind = tool.get("type")
        described = tool.get(kind) if kind in ("function", "custom") else None
        if not isinstance(described, Mapping):
            return tool
        default = {"strict": False} if kind == "function" and not known else {}
        return {"type": kind, **default, **described}

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is not a response."""
        return ResponsesStream.whole(bodies.listing(body, "output", "a response"))

    def _change(self, raw: dict[str, msgspec.Raw], changes: Changes) -> None:
        change(raw, changes)

    def own_answer(self, exchange: Exchange) -> Answer:
        """A stage's answer in the form that the request asks for."""
        return replace(own_answer(exchange), id=own_id(exchange))

    def own_body(self, exchange: Exchange, answer: Answer) -> dict[str, Any]:
        """The response."""
        return own_response(exchange, answer)

    def own_events(self, exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
        """The response's events, one after another as the API sends them."""
        response = own_response(exchange, answer)
        return events.to_events(response if verdict is None else {**response, bodies.EXTENSION: verdict}, b"")

    def recogniser(self, exchange: Exchange, body: bytes) -> ResponsesShapes:
        """What was asked for is in the `body` as it was sent."""
        of_items = [_chat_tool(tool) for tool in exchange.original.wire.reading.tools]
        any_tool = exchange.original.params.get("prompt") is not None
        return ResponsesShapes(answer_bounds(exchange, body, of_items, any_tool=any_tool))

    def stream(self, *, separate: bool = False) -> ResponsesStream:
        """A reader for one streamed answer; every event does one thing."""
        return ResponsesStream()


class ResponsesCount(TokenCounting):
    """Of Responses."""

    path = "/responses/input_tokens"

    def parse(self, body: bytes) -> Request:
        """The prompt that is to be counted. Raises `InvalidRequest`, also where a part of it stands elsewhere."""
        fields = bodies.load(body)
        for name in _ELSEWHERE:
            if fields.get(name):
                raise InvalidRequest(f"what '{name}' names cannot be counted here: send all of the input", param=name)
        return _request(body, fields, {})

    def knows_path(self, refusal: Mapping[str, Any]) -> bool:
        """By what is missing, as OpenAI's envelope says: ``model_not_found``; another server's names the parameter."""
        error = bodies.object_of(refusal.get("error"))
        return bool(error.get("param") or _MISSING.match(str(error.get("code"))))

    def render(self, tokens: int) -> bytes:
        """The answer."""
        return orjson.dumps({"object": "response.input_tokens", "input_tokens": tokens})


class _Wire(Wire):
    """Also the items that the messages came from."""

    def __init__(self, body: bytes, fields: Mapping[str, Any], reading: Reading, goes_on_from: str | None = None) -> None:
        super().__init__(body, fields)
        self.fields, self.reading, self.goes_on_from = fields, reading, goes_on_from
        """`goes_on_from` is the last response that the provider knows, "" for none, where that is not the one that the client names."""


def _request(body: bytes, fields: dict[str, Any], known: Mapping[str, Mapping[str, Any]]) -> Request:
    """A body as a request, with what is `known` of the items that it only names."""
    model = _model(fields)
    reading = read(fields.get("instructions"), fields.get("input"), known)
    tools = [_chat_tool(tool) for tool in bodies.objects_at(fields.get("tools"), "tools")]
    request = request_of(
        fields,
        _Wire(body, fields, reading),
        model,
        reading.messages,
        tools,
        _READ,
        output_requirements_of,
        reading.hints,
        brings=len(reading.messages) - isinstance(fields.get("instructions"), str),
        goes_on_from=_named_history(fields),
        unseen_items=reading.unseen,
        references=tuple(reading.references),
        with_items=partial(_request, body, fields) if reading.references and not known else None,
        known_items=known,
        keeps=fields.get("store") is not False,
    )
    return request if not request.goes_on_from else replace(request, with_history=partial(_with_history, request))


def _named_history(fields: Mapping[str, Any]) -> str:
    """What the request goes on with that it does not bring."""
    previous, conversation = fields.get("previous_response_id"), fields.get("conversation")
    conversation = conversation.get("id") if isinstance(conversation, dict) else conversation
    if isinstance(previous, str) and previous:
        return RESPONSE + previous
    return CONVERSATION + conversation if isinstance(conversation, str) and conversation else ""


def _with_history(request: Request, history: History) -> Request:
    """The request with what is remembered before its own messages; what the provider does not know of it is sent."""
    wire: _Wire = request.wire
    old = wire.reading
    at = len(old.messages) - request.brings
    held = [message for turn in history.held for message in turn.messages]
    unsent = [message for turn in history.unsent for message in turn.messages]
    past, origins = [*held, *unsent], [*(Origin(is_held_by_provider=True) for _ in held), *(Origin(is_unsent=True) for _ in unsent)]
    reading = Reading(
        [*old.messages[:at], *past, *old.messages[at:]],
        [*old.origins[:at], *origins, *old.origins[at:]],
        [(before + len(past), item) for before, item in old.pinned],
        {i + len(past): hint for i, hint in old.hints.items()},
        old.hinted,
        tools=old.tools,
    )
    last = (history.held[-1].name.removeprefix(RESPONSE) if history.held else "") if unsent else None
    brought = {message.get("tool_call_id") for message in old.messages}
    more = orjson.dumps(past)
    return replace(
        request,
        messages=tuple(reading.messages),
        server_side_history=tuple(held),
        held_whole=history.whole,
        open_results=tuple(result for result in history.results if result["tool_call_id"] not in brought),
        message_hints=reading.hints,
        wire=_Wire(wire.body, wire.fields, reading, last),
        size=request.size + len(more),
        quick_size=request.quick_size + bodies.reading(more),
    )


def _model(fields: dict[str, Any]) -> str:
    """A request by a stored prompt, or in a conversation, need not name its model."""
    if fields.get("model") is None and any(fields.get(name) for name in _ELSEWHERE):
        return ""
    return bodies.model_of(fields)


def _chat_tool(tool: dict[str, Any]) -> Tool:
    """In chat form: functions and custom tools; the provider's own tools, and types that are not known, as they stand there."""
    kind = tool.get("type")
    if kind not in ("function", "custom"):
        return tool
    return {"type": kind, kind: {name: value for name, value in tool.items() if name != "type"}}


def _set_input(raw: dict[str, msgspec.Raw], reading: Reading, exchange: Exchange) -> None:
    given = bytes(raw.get("input", b""))
    messages = exchange.messages
    if exchange.params.get("conversation"):  # the provider has taken into it what was sent and answered before
        messages = messages[1 + max((i for i, message in enumerate(messages) if OUTPUT_ITEMS in message), default=-1) :]
    rendering = Rendering(reading, bodies.raw_items(given) if given.startswith(b"[") else [])
    open_results = exchange.original.open_results if len(messages) == len(exchange.messages) else ()
    items = [*(bodies.encode_raw(item) for result in open_results for item in new_items(result)), *rendering.items(messages)]
    last = messages[-1] if messages else {}
    if given.startswith(b'"') and len(items) == 1 and last.get("role") == "user" and isinstance(last.get("content"), str):
        if messages[-1] is not exchange.original.messages[-1]:
            raw["input"] = bodies.encode_raw(messages[-1]["content"])
    elif items or given:
        raw["input"] = bodies.as_raw(items)
    instructed = next((i for i, origin in enumerate(reading.origins) if origin.instructions), None)
    if instructed is None or len(messages) < len(exchange.messages):
        return
    if rendering.instructions is None:
        raw.pop("instructions")
    elif rendering.instructions != reading.messages[instructed]["content"]:
        raw["instructions"] = bodies.encode_raw(rendering.instructions)


def output_requirements_of(params: Mapping[str, Any]) -> OutputRequirements:
    """Read from them."""
    return with_format(params, "max_output_tokens", bodies.object_of(bodies.object_of(params.get("text")).get("format")))
