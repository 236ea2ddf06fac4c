"""A Messages body -> a `Request` in chat form, and the memory of which of its parts came from which bytes.

One item of ``messages`` becomes one chat message or several: the results of tools in a user's message are a message each, what stands
before, between or behind them another. ``system`` is the first message. A single block of text is the same as that text, as the API says.
Thinking is in no chat message: stages neither read nor change it, and clients leave old thoughts out. The memory (`MessagesWire`) knows
each message and part by the identity of its object: what no stage replaced is found again there, and leaves in its own bytes
(`proxy.wire.messages.items`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from proxy.errors import InvalidRequest
from proxy.exchange import Message, Request, Tool
from proxy.exchange.answers import OutputRequirements
from proxy.wire import bodies
from proxy.wire.requests import Wire, request_of, with_format

SYSTEM = -1
"""The item that ``system`` is."""
_READ = ("model", "messages", "system", "tools", "stream", bodies.EXTENSION)
_ITEM = ("role", "content", bodies.EXTENSION)
_RESULT = ("type", "tool_use_id", "content", "cache_control")
_TYPE: tuple[str, ...] = ("type",)
_REQUIRED_FIELDS: Mapping[str, tuple[str, ...]] = {"tool_use": ("id", "name"), "tool_result": ("tool_use_id",), "text": ("text",)}
"""Fields of a block, by its type, that Groundwire itself reads."""
Place = tuple[int, ...]
"""The item, the block in it, and, of a tool's result, the block in that."""
PlacedPart = tuple[dict[str, Any], Place]
"""A content part, and where its block stands."""


class MessagesWire(Wire):
    """Also where each message and part came from."""

    def __init__(self, body: bytes, fields: Mapping[str, Any]) -> None:
        super().__init__(body, fields)
        self.fields = fields
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
        self.hinted: set[int] = set()
        """Items with a ``groundwire`` field."""
        self._is_cached: bool | None = None

    @property
    def cached_messages(self) -> bool:
        """Whether the client has the provider cache its messages, or some of them."""
        if self._is_cached is None:
            marked = (block.get("cache_control") for place, block in self.blocks.items() if place[0] != SYSTEM)
            self._is_cached = bool(self.fields.get("cache_control")) or any(marked)
        return self._is_cached


def read_request(body: bytes) -> Request:
    """Raises `InvalidRequest`: not JSON, not an object, a field of the wrong type, or a thread."""
    fields = bodies.load(body)
    model = bodies.model_of(fields)
    if fields.get("thread"):
        said = "thread: what only the provider remembers of a conversation cannot be checked here; send all of it, without a thread"
        raise InvalidRequest(said, param="thread")
    wire = MessagesWire(body, fields)
    reader = _Reader(wire)
    reader.system(fields.get("system"))
    for i, item in enumerate(bodies.messages_of(fields)):
        reader.item(i, item)
    tools = [_tool(item) for item in bodies.objects_at(fields.get("tools"), "tools")]
    read_wants = partial(output_requirements_of, prefilled=reader.messages[-1].get("role") == "assistant")
    return request_of(fields, wire, model, reader.messages, tools, _READ, read_wants, reader.hints)


class _Reader:
    """Reads items into chat messages."""

    def __init__(self, wire: MessagesWire) -> None:
        self._wire = wire
        self.messages: list[Message] = []
        self.hints: dict[int, Mapping[str, Any]] = {}

    def system(self, system: object) -> None:
        """``system``, if there is one."""
        if system is None or system == []:
            return
        spoken = []
        if not isinstance(system, str):
            spoken = self._placed_parts(_check_list(system, "system", "a string or a list of blocks"), (SYSTEM,), "system")
        self._add(SYSTEM, {"role": "system", "content": system if isinstance(system, str) else None}, spoken)

    def item(self, i: int, item: object) -> None:
        """``messages[i]``"""
        at = f"messages[{i}]"
        fields = bodies.object_at(item, at)
        role, content = bodies.string_at(fields.get("role"), f"{at}.role"), fields.get("content")
        begin = len(self.messages)
        about = {key: value for key, value in fields.items() if key not in _ITEM} if len(fields) > 2 else {}
        if isinstance(content, str):
            self._add(i, {"role": role, "content": content, **about})
        else:
            blocks = _check_list(content, f"{at}.content", "a string or a list of blocks")
            _check(blocks, f"{at}.content")
            for number, block in enumerate(blocks):
                self._wire.blocks[i, number] = block
            (self._assistant if role == "assistant" else self._user)(i, role, blocks, about)
        if bodies.EXTENSION in fields:
            self._wire.hinted.add(i)
            self.hints |= dict.fromkeys(range(begin, len(self.messages)), bodies.hint_of(fields, at))

    def _assistant(self, i: int, role: str, blocks: list[Block], about: Mapping[str, Any]) -> None:
        spoken: list[PlacedPart] = []
        calls: list[dict[str, Any]] = []
        for number, block in enumerate(blocks):
            if block["type"] == "tool_use":
                calls.append(call_of(block))
                self._wire.places[id(calls[-1])] = (i, number)
            elif block["type"] not in THINKING:
                spoken.append((part_of(block), (i, number)))
        message = {"role": role, "content": None, **({"tool_calls": calls} if calls else {}), **about}
        self._add(i, message, spoken)

    def _user(self, i: int, role: str, blocks: list[Block], about: Mapping[str, Any]) -> None:
        spoken: list[PlacedPart] = []
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
            spoken = self._placed_parts(_check_list(content, at, "a string or a list of blocks"), (i, number), at)
        rest = {key: value for key, value in block.items() if key not in _RESULT}
        said = content if isinstance(content, str) else ""
        message = {"role": "tool", "tool_call_id": block["tool_use_id"], "content": said, **rest}
        self._wire.places[id(message)] = (i, number)
        self._add(i, message, spoken)

    def _placed_parts(self, blocks: list[Any], place: Place, at: str) -> list[PlacedPart]:
        found = []
        _check(blocks, at)
        for number, block in enumerate(blocks):
            self._wire.blocks[(*place, number)] = block
            found.append((part_of(block), (*place, number)))
        return found

    def _add(self, i: int, message: dict[str, Any], spoken: Sequence[PlacedPart] = ()) -> None:
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


def _check_list(value: object, at: str, expected: str) -> list[Any]:
    if not isinstance(value, list):
        raise bodies.unexpected(at, expected, value)
    return value


def _check(blocks: Sequence[Any], at: str) -> None:
    """Raises `InvalidRequest` for a block without the fields that Groundwire itself reads."""
    for number, block in enumerate(blocks):
        kind = bodies.object_at(block, f"{at}[{number}]").get("type")
        for name in _REQUIRED_FIELDS.get(kind, _TYPE) if isinstance(kind, str) else _TYPE:
            bodies.string_at(block.get(name), f"{at}[{number}].{name}")


def _tool(item: Mapping[str, Any]) -> Tool:
    """The client's own tools are functions; those that the provider defines stay as they are."""
    if item.get("type") not in (None, "custom"):
        return item
    function = bodies.present(name=item.get("name"), description=item.get("description"), parameters=item.get("input_schema"))
    return {"type": "function", "function": function} | ({"defer_loading": True} if item.get("defer_loading") is True else {})


Block = Mapping[str, Any]
THINKING = ("thinking", "redacted_thinking")


def part_of(block: Block) -> dict[str, Any]:
    """The part that stands for `block`; an object of its own, by which the block is found again."""
    kind = block["type"]
    if kind == "search_result":
        return _passage(_join_texts(block.get("content")), block.get("source") or block.get("title"))
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": _address(block.get("source"))}}
    if kind == "document":
        return _document(block)
    return without_mark(block)


def call_of(block: Block) -> dict[str, Any]:
    """The call that a ``tool_use`` block is."""
    arguments = orjson.dumps(block.get("input") if block.get("input") is not None else {}).decode()
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def block_of(part: Block, before: Block | None) -> dict[str, Any] | None:
    """The block for a part that a stage made or changed; `before` is the block it was made of. None where nothing is left of it."""
    if part.get("type") == "text":
        text = part.get("text")
        if not isinstance(text, str) or not text.strip():
            return None
        if before is not None and _is_passage(before):
            return _saying(before, text)
        stays = before if before is None or before["type"] == "text" else _mark_of(before)
        return {**(stays or {}), **{key: value for key, value in part.items() if key != "passage"}}
    if part.get("type") == "image_url":
        image = part.get("image_url")
        return {"type": "image", "source": _source(str(image.get("url") if isinstance(image, Mapping) else image))}
    return dict(before) if before is not None else dict(part)


def without_mark(block: Block) -> dict[str, Any]:
    """`block` as the stages see it: without what it tells the provider's cache."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def _mark_of(block: Block) -> dict[str, Any]:
    """What `block` tells the provider's cache: all that stays of an image, a file or a call where a text takes its place."""
    return {"cache_control": block["cache_control"]} if "cache_control" in block else {}


def _is_passage(block: Block) -> bool:
    """Whether it is a search result, or a document whose words stand in the request."""
    source = block.get("source")
    return block["type"] == "search_result" or (isinstance(source, Mapping) and source.get("type") in ("text", "content"))


def _document(block: Block) -> dict[str, Any]:
    source = bodies.object_of(block.get("source"))
    if source.get("type") == "text":
        return _passage(str(source.get("data") or ""), block.get("title"))
    if source.get("type") == "content":
        return _passage(_join_texts(source.get("content")), block.get("title"))
    file: dict[str, Any] = {"filename": block.get("title") or source.get("url") or source.get("file_id") or "document"}
    if source.get("type") == "base64":
        file["file_data"] = _address(source)
    return {"type": "file", "file": file}


def _passage(text: str, source: object) -> dict[str, Any]:
    return {"type": "text", "text": text, "passage": {"source": source if isinstance(source, str) else ""}}


def _join_texts(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in bodies.objects_of(content) if isinstance(block.get("text"), str))


def _saying(block: Block, text: str) -> dict[str, Any]:
    """A search result or document that says `text`; its other fields stay."""
    if block["type"] == "search_result":
        return {**block, "content": [{"type": "text", "text": text}]}
    source = block["source"]
    said = {"data": text} if source.get("type") == "text" else {"content": [{"type": "text", "text": text}]}
    return {**block, "source": {**source, **said}}


def _address(given: object) -> str:
    """The address under which the chat API would name an image or a file."""
    source = bodies.object_of(given)
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    return str(source.get("url") or "")


def _source(url: str) -> dict[str, Any]:
    head, found, data = url.partition(";base64,")
    if not found:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}


def output_requirements_of(params: Mapping[str, Any], *, prefilled: bool = False) -> OutputRequirements:
    """Read from them; `prefilled` is whether the conversation ends with the answer's beginning."""
    form = bodies.object_of(bodies.object_of(params.get("output_config")).get("format")) or bodies.object_of(params.get("output_format"))
    return with_format(params, "max_tokens", form, constrained=prefilled)
