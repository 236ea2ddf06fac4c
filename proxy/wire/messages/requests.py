"""A Messages body -> a `Request` in chat form, and the memory of which of its parts came from which bytes.

One item of ``messages`` becomes one chat message or several: the results of tools in a user's message are a message each, what stands
before, between or behind them another. ``system`` is the first message. A single block of text is the same as that text, as the API says.
Thinking is in no chat message: stages neither read nor change it, and clients leave old thoughts out. The memory (`Wire`) knows each
message and part by the identity of its object: what no stage replaced is found again there, and leaves in its own bytes
(`proxy.wire.messages.prompts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from proxy.errors import InvalidRequest
from proxy.exchange import Message, Request, Tool
from proxy.wire.bodies import EXTENSION, flag, kind_of, load, passages_of, typed
from proxy.wire.messages.blocks import THINKING, Block, call_of, part_of
from proxy.wire.messages.output_requirements import output_requirements_of

SYSTEM = -1
"""The item that ``system`` is."""
_READ = ("model", "messages", "system", "tools", "stream", EXTENSION)
_ITEM = ("role", "content", EXTENSION)
_RESULT = ("type", "tool_use_id", "content", "cache_control")
_TYPE: tuple[str, ...] = ("type",)
_NEEDED: Mapping[str, tuple[str, ...]] = {"tool_use": ("id", "name"), "tool_result": ("tool_use_id",), "text": ("text",)}
"""Fields of a block, by its type, that Groundwire itself reads."""
Place = tuple[int, ...]
"""The item, the block in it, and, of a tool's result, the block in that."""
Spoken = tuple[dict[str, Any], Place]
"""A content part, and where its block stands."""


class Wire:
    """What the dialect remembers of a request's bytes."""

    __slots__ = (
        "_cached",
        "blocks",
        "body",
        "calls",
        "extended",
        "fields",
        "groups",
        "hinted",
        "items",
        "places",
        "prefilled",
        "results",
        "slots",
    )

    def __init__(self, body: bytes, fields: Mapping[str, Any]) -> None:
        self.body, self.fields, self.extended = body, fields, EXTENSION in fields
        self.items: dict[int, int] = {}
        """The item of each chat message, by the message's identity."""
        self.groups: dict[int, list[Message]] = {}
        """The chat messages of each item."""
        self.places: dict[int, Place] = {}
        """Where the block of each part, call and result stands, by identity."""
        self.slots: dict[int, list[Place]] = {}
        """Where the blocks of each message's content stand, by the message's identity; none where it is a string."""
        self.blocks: dict[Place, Block] = {}
        """The blocks, parsed."""
        self.calls: dict[str, Message] = {}
        """The chat message that makes each call, by the call's id."""
        self.results: dict[str, Message] = {}
        """The chat message that is the result of each call, by the call's id."""
        self.hinted: set[int] = set()
        """Items with a ``groundwire`` field."""
        self.prefilled = False
        self._cached: bool | None = None

    @property
    def cached_messages(self) -> bool:
        """Whether the client has the provider cache its messages, or some of them."""
        if self._cached is None:
            marked = (block.get("cache_control") for place, block in self.blocks.items() if place[0] != SYSTEM)
            self._cached = bool(self.fields.get("cache_control")) or any(marked)
        return self._cached


def read_request(body: bytes) -> Request:
    """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
    fields = load(body)
    if not typed(fields, "model", str, "a string"):
        raise InvalidRequest("model: expected a name", param="model")
    stream = flag(fields, "stream")
    wire = Wire(body, fields)
    reader = _Reader(wire)
    reader.system(fields.get("system"))
    items = typed(fields, "messages", list, "a list of messages")
    if not items:
        raise InvalidRequest("messages: at least one message is needed", param="messages")
    for i, item in enumerate(items):
        reader.item(i, item)
    wire.prefilled = reader.messages[-1].get("role") == "assistant"
    params = {key: value for key, value in fields.items() if key not in _READ}
    read_wants = partial(output_requirements_of, prefilled=wire.prefilled)
    extension = fields.get(EXTENSION)
    return Request(
        model=fields["model"],
        messages=tuple(reader.messages),
        tools=_tools(fields.get("tools")),
        params=params,
        stream=stream,
        wants=read_wants(params),
        read_wants=read_wants,
        passages=passages_of(extension),
        has_context="context" in (extension or {}),
        message_hints=reader.hints,
        wire=wire,
        size=len(body),
    )


class _Reader:
    """Reads items into chat messages."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.messages: list[Message] = []
        self.hints: dict[int, Mapping[str, Any]] = {}

    def system(self, system: object) -> None:
        """``system``, if there is one."""
        if system is None or system == []:
            return
        spoken = []
        if not isinstance(system, str):
            spoken = self._spoken(_listed(system, "system", "a string or a list of blocks"), (SYSTEM,), "system")
        self._add(SYSTEM, {"role": "system", "content": system if isinstance(system, str) else None}, spoken)

    def item(self, i: int, item: object) -> None:
        """``messages[i]``"""
        at = f"messages[{i}]"
        if not isinstance(item, dict):
            raise InvalidRequest(f"{at}: expected an object, got {kind_of(item)}", param=at)
        role, content = item.get("role"), item.get("content")
        if not isinstance(role, str):
            raise InvalidRequest(f"{at}.role: expected a string, got {kind_of(role)}", param=f"{at}.role")
        begin = len(self.messages)
        about = {key: value for key, value in item.items() if key not in _ITEM} if len(item) > 2 else {}
        if isinstance(content, str):
            self._add(i, {"role": role, "content": content, **about})
        else:
            blocks = _listed(content, f"{at}.content", "a string or a list of blocks")
            _check(blocks, f"{at}.content")
            for number, block in enumerate(blocks):
                self._wire.blocks[i, number] = block
            (self._assistant if role == "assistant" else self._user)(i, role, blocks, about)
        if EXTENSION in item:
            hint = item[EXTENSION]
            if not isinstance(hint, dict):
                raise InvalidRequest(f"{at}.groundwire: expected an object", param=f"{at}.groundwire")
            self._wire.hinted.add(i)
            self.hints |= dict.fromkeys(range(begin, len(self.messages)), hint)

    def _assistant(self, i: int, role: str, blocks: list[Block], about: Mapping[str, Any]) -> None:
        spoken: list[Spoken] = []
        calls: list[dict[str, Any]] = []
        for number, block in enumerate(blocks):
            if block["type"] == "tool_use":
                calls.append(call_of(block))
                self._wire.places[id(calls[-1])] = (i, number)
            elif block["type"] not in THINKING:
                spoken.append((part_of(block), (i, number)))
        message = {"role": role, "content": None, **({"tool_calls": calls} if calls else {}), **about}
        self._wire.calls |= {call["id"]: message for call in calls}
        self._add(i, message, spoken)

    def _user(self, i: int, role: str, blocks: list[Block], about: Mapping[str, Any]) -> None:
        spoken: list[Spoken] = []
        for number, block in enumerate(blocks):
            if block["type"] != "tool_result":
                spoken.append((part_of(block), (i, number)))
                continue
            if spoken:
                self._add(i, {"role": role, "content": None, **about}, spoken)
                spoken = []
            self._result(i, number, block)
        if spoken or not blocks:
            self._add(i, {"role": role, "content": [], **about}, spoken)

    def _result(self, i: int, number: int, block: Block) -> None:
        content = block.get("content")
        spoken = []
        if content is not None and not isinstance(content, str):
            at = f"messages[{i}].content[{number}].content"
            spoken = self._spoken(_listed(content, at, "a string or a list of blocks"), (i, number), at)
        rest = {key: value for key, value in block.items() if key not in _RESULT}
        said = content if isinstance(content, str) else ""
        message = {"role": "tool", "tool_call_id": block["tool_use_id"], "content": said, **rest}
        self._wire.places[id(message)] = (i, number)
        self._wire.results[block["tool_use_id"]] = message
        self._add(i, message, spoken)

    def _spoken(self, blocks: list[Any], place: Place, at: str) -> list[Spoken]:
        found = []
        _check(blocks, at)
        for number, block in enumerate(blocks):
            self._wire.blocks[(*place, number)] = block
            found.append((part_of(block), (*place, number)))
        return found

    def _add(self, i: int, message: dict[str, Any], spoken: Sequence[Spoken] = ()) -> None:
        """A message, whose content are these parts, if there are any."""
        if spoken:
            parts = [part for part, _ in spoken]
            single = len(parts) == 1 and parts[0].keys() == {"type", "text"}
            message["content"] = parts[0]["text"] if single else parts
            if not single:
                self._wire.places.update((id(part), place) for part, place in spoken)
            self._wire.slots[id(message)] = [place for _, place in spoken]
        self.messages.append(message)
        self._wire.items[id(message)] = i
        self._wire.groups.setdefault(i, []).append(message)


def _listed(value: object, at: str, expected: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidRequest(f"{at}: expected {expected}, got {kind_of(value)}", param=at)
    return value


def _check(blocks: Sequence[Any], at: str) -> None:
    """Raises `InvalidRequest` for a block without the fields that Groundwire itself reads."""
    for number, block in enumerate(blocks):
        if not isinstance(block, dict):
            raise InvalidRequest(f"{at}[{number}]: expected an object, got {kind_of(block)}", param=f"{at}[{number}]")
        kind = block.get("type")
        for name in _NEEDED.get(kind, _TYPE) if isinstance(kind, str) else _TYPE:
            if not isinstance(block.get(name), str):
                where = f"{at}[{number}].{name}"
                raise InvalidRequest(f"{where}: expected a string, got {kind_of(block.get(name))}", param=where)


def _tools(items: object) -> tuple[Tool, ...]:
    if items is None:
        return ()
    for i, item in enumerate(_listed(items, "tools", "a list")):
        if not isinstance(item, dict):
            raise InvalidRequest(f"tools[{i}]: expected an object, got {kind_of(item)}", param=f"tools[{i}]")
    return tuple(_tool(item) for item in items) if isinstance(items, list) else ()


def _tool(item: Mapping[str, Any]) -> Tool:
    """The client's own tools are functions; those that the provider defines stay as they are."""
    if item.get("type") not in (None, "custom"):
        return item
    function = {"name": item.get("name"), "description": item.get("description"), "parameters": item.get("input_schema")}
    deferred = {"defer_loading": True} if item.get("defer_loading") is True else {}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}, **deferred}
