"""What the dialects' requests have in common: a body -> a `Request`, and an exchange -> the body that goes upstream, spliced.

What is still the object it was goes out in the bytes it came in: the whole body, a field, a tool; what of the messages, each dialect says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from proxy.exchange import Exchange, Message, Request, Tool, tool_name
from proxy.exchange.answers import OutputRequirements
from proxy.wire.bodies import EXTENSION, dumped, flag, passages_of, raw_fields, spliced

_ABOUT_TOOLS = ("tools", "functions", "tool_choice", "function_call", "parallel_tool_calls")
"""Fields that providers refuse where there are no tools."""


class Wire:
    """What a dialect remembers of a request's bytes."""

    def __init__(self, body: bytes, fields: Mapping[str, Any]) -> None:
        self.body, self.extended = body, EXTENSION in fields
        """The bytes; whether they have Groundwire's own field at the top."""


def request_of(
    fields: Mapping[str, Any],
    wire: Wire,
    model: str,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    read: Collection[str],
    read_wants: Callable[[Mapping[str, Any]], OutputRequirements],
    hints: Mapping[int, Mapping[str, Any]],
    **more: Any,
) -> Request:
    """The request that a body's `fields` are; those that are not `read` are parameters. Raises `InvalidRequest`."""
    params = {name: value for name, value in fields.items() if name not in read}
    extension = fields.get(EXTENSION)
    return Request(
        model=model,
        messages=tuple(messages),
        tools=tuple(tools),
        params=params,
        stream=flag(fields, "stream"),
        wants=read_wants(params),
        read_wants=read_wants,
        passages=passages_of(extension),
        has_context="context" in (extension or {}),
        message_hints=hints,
        wire=wire,
        size=len(wire.body),
        **more,
    )


class RequestRendering(Protocol):
    """Splices the body of an exchange; each dialect says how it writes a tool, and messages."""

    def render_request(self, exchange: Exchange) -> bytes:
        """The body to send upstream: the client's own bytes wherever no stage changed anything."""
        request = exchange.original
        same_messages = self._same_messages(exchange)
        same_tools, same_params = same(exchange.tools, request.tools), exchange.params is request.params
        if same_messages and same_tools and same_params and not request.wire.extended:
            body: bytes = request.wire.body
            return body
        raw = raw_fields(request.wire.body)
        raw.pop(EXTENSION, None)
        if not same_tools:
            self._set_tools(raw, request, exchange.tools)
        if not same_params:
            _splice_fields(raw, request.params, exchange.params)
        if not same_messages:
            self._set_messages(raw, exchange)
        return msgspec.json.encode(raw)

    def _same_messages(self, exchange: Exchange) -> bool:
        """Whether the conversation is sent as it came."""
        return same(exchange.messages, exchange.original.messages) and not exchange.original.message_hints

    def _set_messages(self, raw: dict[str, msgspec.Raw], exchange: Exchange) -> None:
        """Bring the conversation into a body's fields."""

    def _set_tools(self, raw: dict[str, msgspec.Raw], request: Request, tools: Sequence[Tool]) -> None:
        if not tools:
            for name in _ABOUT_TOOLS:
                raw.pop(name, None)
            return
        known = {tool_name(tool) for tool in request.tools}
        given = raw["tools"] if request.tools else msgspec.Raw(b"[]")
        raw["tools"] = spliced(given, request.tools, tools, lambda tool: self._described(tool, known=tool_name(tool) in known))

    def _described(self, tool: Tool, *, known: bool) -> Mapping[str, Any]:
        """A tool in the API's form; `known` is whether the client sent one of this name."""
        return tool


def same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether both hold the same objects."""
    return new is old or (len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True)))


def _splice_fields(raw: dict[str, msgspec.Raw], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Bring a body's fields from `before` to `after`; one that is still the same object stays in its own bytes."""
    for key in [key for key in raw if key in before and key not in after]:
        del raw[key]
    for key, value in after.items():
        if key not in before or value is not before[key]:
            raw[key] = dumped(value)


def withhold(exchange: Exchange, own: Collection[str], none: Mapping[str, Any]) -> None:
    """Take the tools `own` out of the request; where there are no others, leave them and add the parameters `none`, which forbid calls: the
    APIs want to see the tools of earlier calls.
    """
    others = [tool for tool in exchange.tools if tool_name(tool) not in own]
    if others:
        exchange.tools = others
    else:
        exchange.params = {**exchange.params, **none}


def counterparts(before: Sequence[Message], after: Sequence[Message]) -> list[int | None]:
    """For each message to send, the position of the one it is, or was made from: its place says so, or what it has of it (`_keys`)."""
    position = {id(message): i for i, message in enumerate(before)}
    found = [position.get(id(message)) for message in after]
    _pair_gaps(before, after, found)
    taken = {*found}
    known: dict[tuple[Any, Any], list[int]] = {}
    for i in reversed(range(len(before))):  # the last of a list comes first
        for key in _keys(before[i]) if i not in taken else ():
            known.setdefault(key, []).append(i)
    for i, message in enumerate(after):
        if found[i] is None:
            found[i] = next((old for key in _keys(message) if (old := _first(known.get(key, []), taken)) is not None), None)
            taken.add(found[i])
    _pair_gaps(before, after, found)
    return found


def _keys(message: Message) -> list[tuple[Any, Any]]:
    """By what a message is known when another is made from it: calls, else parts that are still the same, else its first line."""
    content = message.get("content")
    keys = call_ids(message) or ([id(part) for part in content] if isinstance(content, list) else [])
    if not keys and isinstance(content, str) and (line := content.lstrip().partition("\n")[0]):
        keys = [line]
    return [(message.get("role"), key) for key in keys]


def _first(positions: list[int], taken: Collection[int | None]) -> int | None:
    """The first that is not taken; those before it are left out for good."""
    while positions and positions[-1] in taken:
        positions.pop()
    return positions[-1] if positions else None


def _pair_gaps(before: Sequence[Message], after: Sequence[Message], found: list[int | None]) -> None:
    """Where as many messages of the same roles and calls stand between two that are known, they are those, edited."""
    start = 0
    for end in range(len(after) + 1):
        if end < len(after) and found[end] is None:
            continue
        low = found[start - 1] if start else -1
        high = found[end] if end < len(after) else len(before)
        as_many = low is not None and high is not None and end > start and high - low - 1 == end - start
        if as_many and low is not None and all(map(_fits, before[low + 1 : high], after[start:end])):
            found[start:end] = range(low + 1, low + 1 + end - start)
        start = end + 1


def _fits(old: Message, new: Message) -> bool:
    """Whether one may have been made from the other."""
    ids = {*call_ids(new)}
    return old.get("role") == new.get("role") and (not ids or not ids.isdisjoint(call_ids(old)))


def call_ids(message: Message) -> list[Any]:
    """The ids of the calls that a message makes, or of the one whose result it is."""
    if message.get("role") == "tool":
        return [message.get("tool_call_id")]
    return [call.get("id") for call in message.get("tool_calls") or () if isinstance(call, Mapping)]
