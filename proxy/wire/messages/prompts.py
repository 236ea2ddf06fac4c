"""An exchange -> the Messages body that goes upstream: the client's bytes wherever no stage changed anything.

An item whose chat messages are all there, and the very objects they were, leaves as it came; of another, each block that was not touched.
What the proxy adds never stands before what the client has the provider cache: text behind a block with ``cache_control`` becomes a block
behind it, and rules for the system prompt go behind the last message of the user where messages are cached, too. No breakpoint is added;
one whose tool was left out passes to the last tool that stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Exchange, Message, Tool
from proxy.wire.bodies import EXTENSION, as_raw, raw_fields, raw_items, same, splice_fields
from proxy.wire.messages.items import Conversation, Item
from proxy.wire.messages.requests import THINKING, Wire

_EARLIER = "[Earlier messages are not shown.]"
"""The user's, where an answer of the assistant's has become the first message: the API wants the user to begin."""


def render(exchange: Exchange) -> bytes:
    """The body to send upstream."""
    request = exchange.original
    wire: Wire = request.wire
    kept = same(exchange.messages, request.messages), same(exchange.tools, request.tools), exchange.params is request.params
    if all(kept) and not wire.extended and not wire.hinted:
        return wire.body
    fields = raw_fields(wire.body)
    fields.pop(EXTENSION, None)
    if not kept[1]:
        _set_tools(fields, request.tools, exchange.tools)
    if not kept[2]:
        splice_fields(fields, request.params, exchange.params)
    if not kept[0] or wire.hinted:
        _set_messages(fields, wire, request.messages, exchange.messages)
    return msgspec.json.encode(fields)


# ---- tools ----


def _set_tools(fields: dict[str, msgspec.Raw], before: Sequence[Tool], after: Sequence[Tool]) -> None:
    if not after:
        for name in ("tools", "tool_choice"):
            fields.pop(name, None)
        return
    sent = raw_items(fields["tools"]) if before else []
    bytes_of = {id(tool): piece for tool, piece in zip(before, sent, strict=True)}
    tools = [bytes_of.get(id(tool)) or as_raw(_described(tool)) for tool in after]
    there = {id(tool) for tool in after}
    lost = [mark for tool in before if id(tool) not in there and (mark := _mark(bytes_of[id(tool)])) is not None]
    if lost and _mark(tools[-1]) is None:
        tools[-1] = as_raw({**orjson.loads(bytes(tools[-1])), "cache_control": lost[-1]})
    fields["tools"] = as_raw(tools)


def _described(tool: Tool) -> Any:
    """A function tool in the API's form."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return tool
    described = {"name": function.get("name"), "description": function.get("description")}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {key: value for key, value in described.items() if value is not None} | {"input_schema": schema}


def _mark(tool: msgspec.Raw) -> Any:
    return orjson.loads(bytes(tool)).get("cache_control") if b"cache_control" in bytes(tool) else None


# ---- messages ----


def _set_messages(fields: dict[str, msgspec.Raw], wire: Wire, before: Sequence[Message], after: Sequence[Message]) -> None:
    conversation = Conversation(wire, fields, before, after)
    items, rules = conversation.items, conversation.rules
    if items and items[0].role == "assistant" and _first_role(wire) == "user":
        items.insert(0, Item("user", [as_raw({"type": "text", "text": _EARLIER})]))
    spoken = next((item for item in reversed(items) if item.role == "user"), None)
    if conversation.system is None:
        fields.pop("system", None)
    else:
        fields["system"] = conversation.system
    if rules and wire.cached_messages and spoken is not None:
        spoken.added += [as_raw({"type": "text", "text": rule}) for rule in rules]
    elif rules:
        fields["system"] = _with_rules(fields.get("system"), rules)
    _pin(fields, items)
    fields["messages"] = as_raw([item.encoded() for item in items])
    if "thinking" in fields and _lacks_thinking(items, wire):
        del fields["thinking"]


def _first_role(wire: Wire) -> str:
    return str(wire.groups[0][0].get("role") if wire.groups[0][0].get("role") != "tool" else "user")


def _with_rules(system: msgspec.Raw | None, rules: Sequence[str]) -> msgspec.Raw:
    """``system`` with rules behind it: as text where it is one, else as blocks of their own."""
    given = orjson.loads(bytes(system)) if system is not None else ""
    if isinstance(given, str):
        return as_raw("\n\n".join([text for text in (given, *rules) if text]))
    return as_raw([*raw_items(system or b"[]"), *({"type": "text", "text": rule} for rule in rules)])


def _pin(fields: dict[str, msgspec.Raw], items: Sequence[Item]) -> None:
    """Where the provider is to cache all there is (``cache_control`` of the body), it caches what the client sent, not what was added."""
    mark = orjson.loads(bytes(fields.get("cache_control", b"null")))
    if not mark or not items or not items[-1].added:
        return
    last = items[-1].with_blocks()
    block = orjson.loads(bytes(last.blocks[-1])) if last.blocks else {}
    if block.get("type") in (None, *THINKING) or (block.get("type") == "text" and not block.get("text")):
        return
    if "cache_control" not in block:
        last.blocks[-1] = as_raw({**block, "cache_control": mark})
    del fields["cache_control"]


def _lacks_thinking(items: Sequence[Item], wire: Wire) -> bool:
    """Whether the tools' turn that the model is to go on with has none of its thoughts, as one that a stage made: the API then refuses to
    have it think.
    """
    if not wire.fields.get("thinking") or (wire.fields["thinking"] or {}).get("type") == "disabled":
        return False
    last = next((item for item in reversed(items) if item.role == "assistant"), None)
    return last is not None and last.made and any(b'"tool_use"' in bytes(block) for block in last.blocks)
