"""Chat messages -> items of a Messages body, each in its own bytes as far as nothing of it was changed.

A chat message that a stage made in place of one of the client's is known for it by its call ids, or by its place and role; what of it is
new is written, what is not stays: blocks of thinking in front of a call, fields that no stage knows, ``cache_control``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message
from proxy.language.text import text_of
from proxy.wire.bodies import EXTENSION, as_raw, exact_object, raw_fields, raw_items
from proxy.wire.messages.requests import SYSTEM, THINKING, MessagesWire, Place, block_of
from proxy.wire.requests import content_parts, counterparts, same

_SYSTEM_ROLES = ("system", "developer")
_CHAT_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name", "refusal", "function_call")


class Item:
    """One item of ``messages``, growing."""

    def __init__(
        self, role: str, blocks: list[msgspec.Raw], *, source: int | None = None, about: Mapping[str, Any] | None = None, made: bool = True
    ) -> None:
        self.role, self.blocks, self.source, self.is_new = role, blocks, source, made
        self.about = dict(about or {})
        self.new_blocks: list[msgspec.Raw] = []
        """Blocks behind what the client sent."""
        self.source_item: msgspec.Raw | None = None
        """The item as it came, where nothing in it changed."""
        self.text: str | None = None
        """Its content, where that is to stay one string."""

    def with_blocks(self) -> Item:
        """Itself, with its content as blocks."""
        if self.source_item is not None:
            fields = raw_fields(self.source_item)
            content = bytes(fields["content"])
            self.text = orjson.loads(content) if content.startswith(b'"') else None
            self.blocks = [] if self.text is not None else raw_items(content)
            self.about = {key: value for key, value in fields.items() if key not in ("role", "content", EXTENSION)}
            self.source_item = None
        if self.text is not None:
            self.blocks, self.text = ([as_raw({"type": "text", "text": self.text})] if self.text else []), None
        return self

    def encode(self) -> msgspec.Raw:
        """The item."""
        if self.source_item is not None and not self.new_blocks:
            return self.source_item
        if self.text is not None and not self.new_blocks:
            return as_raw({"role": self.role, "content": self.text, **self.about})
        self.with_blocks()
        return as_raw({"role": self.role, "content": [*self.blocks, *self.new_blocks], **self.about})


class Conversation:
    """The items, the system prompt, and rules that the proxy adds to it, of the messages that are sent."""

    def __init__(self, wire: MessagesWire, fields: Mapping[str, msgspec.Raw], before: Sequence[Message], after: Sequence[Message]) -> None:
        self._wire, self._fields, self._before, self._after = wire, fields, before, after
        self._remaining_ids = {id(message) for message in after}
        self._lists: dict[Place, list[msgspec.Raw]] = {}
        self.rules: list[str] = []
        self.system: msgspec.Raw | None = None
        self.items: list[Item] = []
        self._build()

    @cached_property
    def _raw_items(self) -> list[msgspec.Raw]:
        return raw_items(self._fields["messages"])

    def _build(self) -> None:
        i = self._read_system()
        front = len(self._wire.groups.get(SYSTEM, ()))
        made_of = [None] * i + counterparts(self._before[front:], self._after[i:])
        while i < len(self._after):
            message = self._after[i]
            source = self._wire.items.get(id(message))
            group = self._wire.groups[source] if source is not None else []
            if group and source is not None and same(self._after[i : i + len(group)], group):
                self._put(self._whole(source, str(group[0]["role"])))
                i += len(group)
                continue
            position = made_of[i]
            self._put(self._item(message, None if position is None else self._before[front + position]))
            i += 1

    def _put(self, item: Item) -> None:
        """Behind the others, or into the last one, where both are parts of one item or results of one turn's calls."""
        last = self.items[-1] if self.items else None
        together = last is not None and last.role == item.role and not last.new_blocks
        if (
            last is not None
            and together
            and (
                (item.source is not None and item.source == last.source) or (item.role == "user" and _is_result(item) and _is_result(last))
            )
        ):
            last.with_blocks()
            item.with_blocks()
            last.blocks += item.blocks
            last.new_blocks, last.is_new = item.new_blocks, last.is_new or item.is_new
        elif item.source_item is not None or item.text or item.blocks or item.new_blocks:
            self.items.append(item)

    def _whole(self, source: int, role: str) -> Item:
        item = Item("user" if role == "tool" else role, [], source=source, made=False)
        item.source_item = self._raw_items[source]
        if source in self._wire.hinted:
            fields = raw_fields(item.source_item)
            del fields[EXTENSION]
            item.source_item = as_raw(fields)
        return item

    # ---- the system prompt ----

    def _read_system(self) -> int:
        """Take up the messages of the system that stand in front; how many they are."""
        given = next(iter(self._wire.groups.get(SYSTEM, ())), None)
        self.system = self._fields.get("system")
        rest = given is not None and id(given) not in self._remaining_ids
        found, begin = False, 0
        for message in self._after:
            if message.get("role") not in _SYSTEM_ROLES or (id(message) in self._wire.items and message is not given):
                break
            begin += 1
            if message is given:
                found = True
            elif rest and given is not None:
                self.system, rest, found = self._changed_system(given, message), False, True
            elif text := text_of(message.get("content")).strip():
                self.rules.append(text)
        if given is not None and not found:
            self.system = None
        return begin

    def _changed_system(self, given: Message, message: Message) -> msgspec.Raw | None:
        content, before = message.get("content"), given["content"]
        slots = self._wire.slots.get(id(given), [])
        if isinstance(content, str) and not slots:
            if content == before:
                return self._fields["system"]
            kept = before if before.strip() else ""  # a stage leaves a blank one out
            if self._wire.cached_messages and content.startswith(kept):
                self.rules += _appended_text(content, kept)
                return self._fields["system"]
            return as_raw(content) if content.strip() else None
        blocks, added = self._blocks(content, slots)
        if not self._wire.cached_messages:
            blocks, added = [*blocks, *added], []
        self.rules += [orjson.loads(bytes(block))["text"] for block in added]
        return as_raw(blocks) if blocks else None

    # ---- items that are not what they were ----

    def _item(self, message: Message, old: Message | None) -> Item:
        role = str(message.get("role"))
        source = self._wire.items.get(id(old)) if old is not None else None
        made = self._wire.items.get(id(message)) is None
        about = self._about(source, message) if source is not None else {}
        if role in ("tool", "function"):
            return self._result(message, old, Item("user", [], source=source, about=about, made=made))
        role = role if source is not None or role == "assistant" else "user"
        item = Item(role, [], source=source, about=about, made=made)
        content, before = message.get("content"), old.get("content") if old is not None else None
        slots = self._wire.slots.get(id(old), [])
        if role == "assistant" and (message.get("tool_calls") or slots or not isinstance(content, str)):
            item.blocks = self._assistant(message, old, slots)
            item.is_new = made and not any(_kind(block) in THINKING for block in item.blocks)
        elif isinstance(content, str) and not slots:
            goes_on = self._wire.cached_messages and isinstance(before, str) and before and content.startswith(before)
            item.text = before if goes_on and isinstance(before, str) else content
            item.new_blocks = [as_raw({"type": "text", "text": text}) for text in _appended_text(content, item.text)]
        elif content is not None:
            item.blocks, item.new_blocks = self._blocks(content, slots)
        return item

    def _about(self, source: int, message: Message) -> Mapping[str, Any]:
        """What an item has beside role and content, as far as `message`, which was made of it, still has that."""
        fields = raw_fields(self._raw_items[source])
        return {key: value for key, value in fields.items() if key not in ("role", "content", EXTENSION) and key in message}

    def _result(self, message: Message, old: Message | None, item: Item) -> Item:
        """The item of a call's result. What was added to it stands behind it, where the provider caches it, and no other result follows."""
        if old is message:
            item.blocks = [self._raw_block(self._wire.places[id(message)])]
            return item
        content = message.get("content")
        slots = self._wire.slots.get(id(old), [])
        sent = self._wire.blocks[self._wire.places[id(old)]] if old is not None else {}
        if old is not None and item.source is not None and self._wire.cached_messages and self._wire.groups[item.source][-1] is old:
            added = _appended_texts(content, old.get("content"))
            if added:
                item.blocks, item.new_blocks = (
                    [self._raw_block(self._wire.places[id(old)])],
                    [as_raw({"type": "text", "text": t}) for t in added],
                )
                return item
        if slots or isinstance(content, list):
            blocks, behind = self._blocks(content, slots)
            content = [*blocks, *behind]
        rest = {key: value for key, value in {**sent, **message}.items() if key not in (*_CHAT_FIELDS, "type", "tool_use_id")}
        item.blocks = [as_raw({"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": content, **rest})]
        return item

    def _blocks(self, content: Any, slots: Sequence[Place]) -> tuple[list[msgspec.Raw], list[msgspec.Raw]]:
        """The blocks of a message's content, whose blocks stood at `slots`; and those that were added behind all of these."""
        parts = content_parts(content)
        found: list[msgspec.Raw] = []
        added: list[msgspec.Raw] = []
        known = {self._wire.places[id(part)] for part in parts if id(part) in self._wire.places}
        for i, part in enumerate(parts):
            place = self._wire.places.get(id(part))
            if place is None and i < len(slots) and slots[i] not in known:
                place = slots[i]
            blocks, behind = self._block(part, place)
            movable = i == len(parts) - 1 or self._wire.cached_messages
            if place is None and slots and movable:  # as a stage puts a note behind what the user said
                added += blocks
            else:
                found += blocks
                (added if movable else found).extend(behind)
        return found, added

    def _block(self, part: Any, place: Place | None) -> tuple[list[msgspec.Raw], list[msgspec.Raw]]:
        """The block of a part that stood at `place`; and another for what it says behind what the provider caches of it."""
        block = self._wire.blocks[place] if place is not None else None
        if place is not None and block is not None:
            said = part.get("text") if block["type"] == "text" and isinstance(part, Mapping) else None
            if id(part) in self._wire.places or said == block.get("text", ...):
                return [self._raw_block(place)], []
            if isinstance(said, str) and said.startswith(block["text"]) and (block.get("cache_control") or self._wire.cached_messages):
                return [self._raw_block(place)], [as_raw({"type": "text", "text": text}) for text in _appended_text(said, block["text"])]
        made = block_of(part, block) if isinstance(part, Mapping) else None
        return [as_raw(made)] if made is not None else [], []

    def _assistant(self, message: Message, old: Message | None, slots: Sequence[Place]) -> list[msgspec.Raw]:
        """Its blocks: each part and call where it stood, thinking between them as it was, what is new before the calls."""
        parts = content_parts(message.get("content"))
        source = self._wire.items.get(id(old)) if old is not None else None
        blocks = {place: self._block(part, place) for part, place in self._match_places(parts, slots)}
        new = [piece for part in parts[len(blocks) :] for piece in self._block(part, None)[0]]
        calls = {str(call.get("id")): self._call(call, old) for call in message.get("tool_calls") or ()}
        out: list[msgspec.Raw] = []
        for place, block in self._wire.blocks.items():
            if place[0] != source or len(place) != 2:
                continue
            if block["type"] == "tool_use":
                out += new
                new = []
                out += [calls.pop(block["id"])] if block["id"] in calls else []
            elif block["type"] in THINKING:
                out.append(self._raw_block(place))
            else:
                out += [piece for pieces in blocks.get(place, ()) for piece in pieces]
        out += [*new, *calls.values()]
        return out if any(_kind(block) not in THINKING for block in out) else []

    def _match_places(self, parts: Sequence[Any], slots: Sequence[Place]) -> Iterator[tuple[Any, Place]]:
        """The parts that have a place of their own, or take one in order, from the first on."""
        free = [slot for slot in slots if slot not in {self._wire.places.get(id(part)) for part in parts}]
        for part in parts:
            place = self._wire.places.get(id(part)) or (free.pop(0) if free else None)
            if place is None:
                return
            yield part, place

    def _call(self, call: Mapping[str, Any], old: Message | None) -> msgspec.Raw:
        place = self._wire.places.get(id(call))
        if place is not None:
            return self._raw_block(place)
        function = call.get("function") or {}
        sent = self._source_call(str(call.get("id")), old)
        given = exact_object(str(function.get("arguments") or "")) or {}
        return as_raw({**sent, "type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": given})

    def _source_call(self, identity: str, old: Message | None) -> Mapping[str, Any]:
        """The block of a call whose arguments were changed."""
        for call in (old or {}).get("tool_calls") or ():
            if call["id"] == identity and (place := self._wire.places.get(id(call))) is not None:
                return self._wire.blocks[place]
        return {}

    def _raw_block(self, place: Place) -> msgspec.Raw:
        return self._blocks_at(place[:-1])[place[-1]]

    def _blocks_at(self, place: Place) -> list[msgspec.Raw]:
        """The blocks of an item, or of the result of a call in it."""
        if place not in self._lists:
            if place == (SYSTEM,):
                content = self._fields["system"]
            else:
                holder = self._raw_items[place[0]] if len(place) == 1 else self._raw_block(place)
                content = raw_fields(holder)["content"]
            self._lists[place] = raw_items(content)
        return self._lists[place]


def _is_result(item: Item) -> bool:
    """Whether it ends with the result of a call, or, as a whole item, has one."""
    if item.source_item is not None:
        return b'"tool_result"' in bytes(item.source_item)
    return bool(item.blocks) and _kind(item.blocks[-1]) == "tool_result"


def _kind(block: msgspec.Raw) -> str:
    return str(orjson.loads(bytes(block)).get("type"))


def _appended_texts(content: Any, before: Any) -> list[str]:
    """What `content` says behind all of what it said `before`; nothing where it does not."""
    if isinstance(content, str) and isinstance(before, str):
        return _appended_text(content, before) if content.startswith(before) else []
    if not isinstance(content, list) or not isinstance(before, list) or any(a is not b for a, b in zip(content, before, strict=False)):
        return []
    return [text for part in content[len(before) :] if (text := text_of([part]).strip())]


def _appended_text(text: str, before: str) -> list[str]:
    """What `text` says behind `before`, if it is anything."""
    rest = text[len(before) :].strip()
    return [rest] if rest else []
