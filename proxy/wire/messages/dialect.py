"""``POST /v1/messages``: the dialect, put together.

Reference: https://docs.anthropic.com/en/api/messages. Parsing checks only what Groundwire itself needs and leaves the rest for the provider
to judge, so that fields, blocks and events newer than this folder pass.

An item whose chat messages are all there, and the very objects they were, leaves as it came; of another, each block that was not touched.
What the proxy adds never stands before what the client has the provider cache: text behind a block with ``cache_control`` becomes a block
behind it, and rules for the system prompt go behind the last message of the user where messages are cached, too. No breakpoint is added.

The filter that takes calls of the proxy's own tools out of answers (`proxy.wire.own_tools`) stands first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.errors import ProxyError
from proxy.exchange import Answer, Exchange, Message, Request, Tool, ToolCall
from proxy.wire import sse
from proxy.wire.answers import add_usage, end_of
from proxy.wire.api_errors import envelope, failure_in, is_own, messages_envelope
from proxy.wire.bodies import as_raw, encode_raw, entries_of, exact_object, listing, object_of, present, raw_items, typed_object_in
from proxy.wire.dialect import Changes, Dialect, TokenCounting
from proxy.wire.messages import answers, events
from proxy.wire.messages.items import Conversation, Item
from proxy.wire.messages.requests import THINKING, MessagesWire, read_request
from proxy.wire.messages.shapes import MessagesShapes
from proxy.wire.messages.stream import MessagesStream
from proxy.wire.own_tools import AnswerEvent, AnswerItem, Fields, OwnToolFilter
from proxy.wire.requests import withhold
from proxy.wire.shapes import answer_bounds


class MessagesFilter(OwnToolFilter):
    """Of Messages."""

    waits_to_begin = False

    def _reset(self) -> None:
        self._growing = events.Blocks()
        self._blocks: dict[int, AnswerItem] = {}

    def _read(self, event: sse.Event) -> AnswerEvent:
        payload = typed_object_in(event.data or b"")
        if payload is None:
            return AnswerEvent(event.raw)
        kind = payload["type"]
        if kind == "message_start":
            message = payload.get("message")
            self._usage = events.merge_usage(self._usage, object_of(message).get("usage"))
            return AnswerEvent(event.raw, payload, kind="begins")
        if kind.startswith("content_block_") and isinstance(payload.get("index"), int):
            self._growing.absorb(payload)
            return AnswerEvent(event.raw, payload, (self._item(payload["index"], begins=kind == "content_block_start"),))
        if kind == "message_delta":
            self._usage = events.merge_usage(self._usage, payload.get("usage"))
            delta = payload.get("delta")
            self._end = end_of(delta.get("stop_reason") if isinstance(delta, dict) else None) or self._end
            return AnswerEvent(b"" if self._has_own else event.raw, payload, kind="ends")
        self._failed = self._failed or kind == "error"
        return AnswerEvent(event.raw, payload, kind="ends" if kind == events.STOP else "says")

    def _item(self, index: int, *, begins: bool) -> AnswerItem:
        if begins:
            block = self._growing.start_events.setdefault(index, {})
            item = self._blocks[index] = AnswerItem(block.get("type") == "tool_use", index)
            self._decide_owner(item, item.is_call and block.get("name") in self._tools)
        return self._blocks.get(index) or AnswerItem(False, index, index, own=False)

    def _settle(self) -> None:
        """Each is decided as it begins."""

    def _render(self, event: AnswerEvent) -> bytes:
        new = payload = event.payload
        if payload is None or new is None:
            return event.raw
        if event.items and event.items[0].client_index != payload["index"]:
            new = {**payload, "index": event.items[0].client_index}
        if payload["type"] == "message_delta" and self._before is not None:
            new = {**payload, "usage": add_usage(self._before, self._usage or {})}
        return event.raw if new is payload and event.raw else events.encode(new)

    def _ended_plainly(self, event: AnswerEvent) -> AnswerEvent:
        payload = event.payload or {}
        delta = payload.get("delta")
        if not isinstance(delta, dict) or delta.get("stop_reason") != "tool_use":
            return event
        return AnswerEvent(b"", {**payload, "delta": {**delta, "stop_reason": "end_turn"}})

    def _read_whole(self, fields: Fields) -> bool:
        content = fields.get("content")
        if not isinstance(content, list):
            return False
        self._growing.start_events = {i: block if isinstance(block, dict) else {} for i, block in enumerate(content)}
        for i in self._growing.start_events:
            self._item(i, begins=True)
        self._usage = events.merge_usage(self._usage, fields.get("usage"))
        self._end = end_of(fields.get("stop_reason")) or "stop"
        return True

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        raw["content"] = as_raw([block for i, block in enumerate(raw_items(raw["content"])) if not self._blocks[i].own])
        if not self.turn.has_client_calls and self._end == "tool_calls":
            raw["stop_reason"] = as_raw("end_turn")

    def _items(self) -> Collection[AnswerItem]:
        return self._blocks.values()

    def _calls(self) -> Iterator[ToolCall]:
        uses = [(i, block) for i, block in self._growing.whole().items() if block.get("type") == "tool_use"]
        for position, (i, block) in enumerate(uses):
            if self._blocks[i].own:
                given = block.get("input")
                arguments = given if isinstance(given, str) else orjson.dumps(given or {}).decode()
                yield ToolCall(str(block.get("id") or ""), str(block.get("name")), arguments, position)

    def _turn_of(self, calls: Sequence[ToolCall]) -> Message:
        """With its thoughts."""
        parts = [_whole_block(block) for block in self._growing.whole().values() if block.get("type") != "tool_use"]
        made = [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}} for call in calls]
        spoken = [part for part in parts if part.get("type") != "text" or part.get("text")]
        return {"role": "assistant", "content": spoken or None, "tool_calls": made}

    def encode_failure(self, status: int, body: bytes) -> bytes:
        """The API's ``error`` event."""
        fields = typed_object_in(body) if is_own("messages", body) else None
        return events.encode(fields or envelope("messages", failure_in(body), status))


def _whole_block(block: Mapping[str, Any]) -> Fields:
    """A block that has been put together, as a request carries it."""
    made = {key: value for key, value in block.items() if value is not None or block.get("type") in THINKING}
    if isinstance(made.get("input"), str):
        made["input"] = exact_object(made["input"]) or {}
    return made


class MessagesDialect(Dialect):
    """Anthropic's Messages."""

    path = "/messages"
    conversation_field = "messages"
    own_tools = MessagesFilter
    key_headers: tuple[str, ...] = ("x-api-key", "authorization")
    client_header: str = "anthropic-version"

    def error(self, error: ProxyError) -> bytes:
        """Anthropic's envelope."""
        return orjson.dumps(messages_envelope(error))

    def parse_request(self, body: bytes) -> Request:
        """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
        return read_request(body)

    def _set_messages(self, raw: dict[str, msgspec.Raw], exchange: Exchange) -> None:
        _set_messages(raw, exchange.original.wire, exchange.original.messages, exchange.messages)

    def _set_tools(self, raw: dict[str, msgspec.Raw], request: Request, tools: Sequence[Tool]) -> None:
        """A breakpoint of the cache whose tool was left out passes to the last tool that stays."""
        sent = raw_items(raw["tools"]) if request.tools else []
        super()._set_tools(raw, request, tools)
        there = {id(tool) for tool in tools}
        marks = (_mark(piece) for tool, piece in zip(request.tools, sent, strict=True) if id(tool) not in there)
        lost = [mark for mark in marks if mark is not None]
        if tools and lost and _mark((left := raw_items(raw["tools"]))[-1]) is None:
            left[-1] = as_raw({**orjson.loads(bytes(left[-1])), "cache_control": lost[-1]})
            raw["tools"] = as_raw(left)

    def _describe_tool(self, tool: Tool, *, known: bool) -> Mapping[str, Any]:
        """A function tool in the API's form."""
        function = tool.get("function")
        if not isinstance(function, Mapping):
            return tool
        schema = function.get("parameters") or {"type": "object", "properties": {}}
        return present(name=function.get("name"), description=function.get("description"), input_schema=schema)

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is no message."""
        return MessagesStream.whole(listing(body, "content", "a message"))

    def _change(self, raw: dict[str, msgspec.Raw], changes: Changes) -> None:
        blocks = answers.changed_blocks(raw_items(raw["content"]), changes.texts.get(0), changes.arguments.get(0, {}))
        raw["content"] = as_raw(blocks)

    def own_body(self, exchange: Exchange, answer: Answer) -> dict[str, Any]:
        """The message."""
        return answers.own_message(exchange, answer)

    def own_events(self, exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
        """The message's events."""
        message = answers.own_message(exchange, answer)
        usage = {"output_tokens": message["usage"]["output_tokens"]}
        return b"".join(events.encode(payload) for payload in events.payloads_of(message, usage)) + events.stop(verdict)

    def recogniser(self, exchange: Exchange, body: bytes) -> MessagesShapes:
        """What was asked for is in the `body` as it was sent."""
        return MessagesShapes(answer_bounds(exchange, body))

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Take the tools `own` out, or forbid all calls."""
        withhold(exchange, own, {"tool_choice": {"type": "none"}})

    def stream(self, *, separate: bool = False) -> MessagesStream:
        """A reader for one streamed answer, whose events do one thing each."""
        return MessagesStream()


class MessagesCount(TokenCounting):
    """Of Messages."""

    path = "/messages/count_tokens"

    def parse(self, body: bytes) -> Request:
        """The prompt that is to be counted; it has no ``max_tokens``. Raises `InvalidRequest`."""
        return read_request(body)

    def knows_path(self, refusal: Mapping[str, Any]) -> bool:
        """By Anthropic's envelope."""
        return refusal.get("type") == "error"

    def render(self, tokens: int) -> bytes:
        """The answer."""
        return orjson.dumps({"input_tokens": tokens})


# ---- what goes upstream ----

_EARLIER = "[Earlier messages are not shown.]"
"""The user's, where an answer of the assistant's has become the first message: the API wants the user to begin."""


def _mark(tool: msgspec.Raw) -> Any:
    return orjson.loads(bytes(tool)).get("cache_control") if b"cache_control" in bytes(tool) else None


def _set_messages(fields: dict[str, msgspec.Raw], wire: MessagesWire, before: Sequence[Message], after: Sequence[Message]) -> None:
    conversation = Conversation(wire, fields, before, after)
    items, rules = conversation.items, conversation.rules
    if items and items[0].role == "assistant" and wire.groups[0][0].get("role") in ("tool", "user"):
        items.insert(0, Item("user", [as_raw({"type": "text", "text": _EARLIER})]))
    spoken = next((item for item in reversed(items) if item.role == "user"), None)
    if conversation.system is None:
        fields.pop("system", None)
    else:
        fields["system"] = conversation.system
    if rules and wire.cached_messages and spoken is not None:
        spoken.new_blocks += [as_raw({"type": "text", "text": rule}) for rule in rules]
    elif rules:
        fields["system"] = _with_rules(fields.get("system"), rules)
    _pin(fields, items)
    fields["messages"] = as_raw([item.encode() for item in items])
    if "thinking" in fields and _lacks_thinking(items, wire):
        del fields["thinking"]
        _drop_edits_of_thinking(fields)


def _with_rules(system: msgspec.Raw | None, rules: Sequence[str]) -> msgspec.Raw:
    """``system`` with rules behind it: as text where it is one, else as blocks of their own."""
    given = orjson.loads(bytes(system)) if system is not None else ""
    if isinstance(given, str):
        return as_raw("\n\n".join([text for text in (given, *rules) if text]))
    return as_raw([*raw_items(system or b"[]"), *({"type": "text", "text": rule} for rule in rules)])


def _pin(fields: dict[str, msgspec.Raw], items: Sequence[Item]) -> None:
    """Where the provider is to cache all there is (``cache_control`` of the body), it caches what the client sent, not what was added."""
    mark = orjson.loads(bytes(fields.get("cache_control", b"null")))
    if not mark or not items or not items[-1].new_blocks:
        return
    last = items[-1].with_blocks()
    block = orjson.loads(bytes(last.blocks[-1])) if last.blocks else {}
    if block.get("type") in (None, *THINKING) or (block.get("type") == "text" and not block.get("text")):
        return
    if "cache_control" not in block:
        last.blocks[-1] = as_raw({**block, "cache_control": mark})
    del fields["cache_control"]


def _lacks_thinking(items: Sequence[Item], wire: MessagesWire) -> bool:
    """Whether the tools' turn that the model is to go on with has none of its thoughts, as one that a stage made: the API then refuses to
    have it think, but where the model itself decides when (``adaptive``).
    """
    if object_of(wire.fields.get("thinking")).get("type") != "enabled":
        return False
    last = next((item for item in reversed(items) if item.role == "assistant"), None)
    return last is not None and last.is_new and any(b'"tool_use"' in bytes(block) for block in last.blocks)


def _drop_edits_of_thinking(fields: dict[str, msgspec.Raw]) -> None:
    """The API refuses an edit of thoughts where the model is not to think."""
    managed = object_of(orjson.loads(bytes(fields.get("context_management", b"null"))))
    edits = entries_of(managed.get("edits"))
    left = [edit for edit in edits if not str(object_of(edit).get("type")).startswith("clear_thinking")]
    if len(left) < len(edits):
        fields["context_management"] = encode_raw({**managed, "edits": left})
    if edits and not left:
        del fields["context_management"]
