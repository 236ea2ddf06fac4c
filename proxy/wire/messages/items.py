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
from proxy.wire.bodies import EXTENSION
from proxy.wire.messages.blocks import THINKING, block_of, input_of
from proxy.wire.messages.requests import SYSTEM, Place, Wire

_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_SYSTEM_ROLES = ("system", "developer")
_CHAT_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name", "refusal", "function_call")


def raw(value: object) -> msgspec.Raw:
    """`value` as JSON; what is raw in it stays so."""
    return msgspec.Raw(msgspec.json.encode(value))


class Item:
    """One item of ``messages``, growing."""

    def __init__(
        self, role: str, blocks: list[msgspec.Raw], *, source: int | None = None, about: Mapping[str, Any] | None = None, made: bool = True
    ) -> None:
        self.role, self.blocks, self.source, self.made = role, blocks, source, made
        self.about = dict(about or {})
        self.added: list[msgspec.Raw] = []
        """Blocks behind what the client sent."""
        self.sent: msgspec.Raw | None = None
        """The item as it came, where nothing in it changed."""
        self.text: str | None = None
        """Its content, where that is to stay one string."""

    def with_blocks(self) -> Item:
        """Itself, with its content as blocks."""
        if self.sent is not None:
            fields = _RAW_FIELDS.decode(self.sent)
            content = bytes(fields["content"])
            self.text = orjson.loads(content) if content.startswith(b'"') else None
            self.blocks = [] if self.text is not None else _RAW_ITEMS.decode(content)
            self.about = {key: value for key, value in fields.items() if key not in ("role", "content", EXTENSION)}
            self.sent = None
        if self.text is not None:
            self.blocks, self.text = ([raw({"type": "text", "text": self.text})] if self.text else []), None
        return self

    def encoded(self) -> msgspec.Raw:
        """The item."""
        if self.sent is not None and not self.added:
            return self.sent
        if self.text is not None and not self.added:
            return raw({"role": self.role, "content": self.text, **self.about})
        self.with_blocks()
        return raw({"role": self.role, "content": [*self.blocks, *self.added], **self.about})


class Conversation:
    """The items, the system prompt, and rules that the proxy adds to it, of the messages that are sent."""

    def __init__(self, wire: Wire, fields: Mapping[str, msgspec.Raw], before: Sequence[Message], after: Sequence[Message]) -> None:
        self._wire, self._fields, self._before, self._after = wire, fields, before, after
        self._position = {id(message): i for i, message in enumerate(before)}
        self._there = {id(message) for message in after}
        self._lists: dict[Place, list[msgspec.Raw]] = {}
        self.rules: list[str] = []
        self.system: msgspec.Raw | None = None
        self.items: list[Item] = []
        self._build()

    @cached_property
    def _raw_items(self) -> list[msgspec.Raw]:
        return _RAW_ITEMS.decode(self._fields["messages"])

    def _build(self) -> None:
        begin = self._read_system()
        seen, i = -1, begin
        while i < len(self._after):
            message = self._after[i]
            source = self._wire.items.get(id(message))
            group = self._wire.groups[source] if source is not None else []
            if group and source is not None and [id(m) for m in self._after[i : i + len(group)]] == [id(m) for m in group]:
                self._put(self._whole(source, str(group[0]["role"])))
                i += len(group)
                seen = self._position[id(group[-1])]
                continue
            old = message if source is not None else self._counterpart(message, seen)
            seen = self._position[id(old)] if old is not None else seen
            self._put(self._item(message, old))
            i += 1

    def _put(self, item: Item) -> None:
        """Behind the others, or into the last one, where both are parts of one item or results of one turn's calls."""
        last = self.items[-1] if self.items else None
        together = last is not None and last.role == item.role and not last.added
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
            last.added, last.made = item.added, last.made or item.made
        elif item.sent is not None or item.text or item.blocks or item.added:
            self.items.append(item)

    def _whole(self, source: int, role: str) -> Item:
        item = Item("user" if role == "tool" else role, [], source=source, made=False)
        item.sent = self._raw_items[source]
        if source in self._wire.hinted:
            fields = dict(_RAW_FIELDS.decode(item.sent))
            del fields[EXTENSION]
            item.sent = raw(fields)
        return item

    def _counterpart(self, message: Message, seen: int) -> Message | None:
        """The client's message that `message` was made of."""
        if message.get("role") == "tool":
            return self._wire.results.get(str(message.get("tool_call_id")))
        for call in message.get("tool_calls") or ():
            if found := self._wire.calls.get(str(call.get("id"))):
                return found
        if seen + 1 < len(self._before):
            following = self._before[seen + 1]
            if id(following) not in self._there and following.get("role") == message.get("role"):
                return following
        return None

    # ---- the system prompt ----

    def _read_system(self) -> int:
        """Take up the messages of the system that stand in front; how many they are."""
        given = next(iter(self._wire.groups.get(SYSTEM, ())), None)
        self.system = self._fields.get("system")
        rest = given is not None and id(given) not in self._there
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
        if isinstance(content, str):
            if self._wire.cached_messages and isinstance(before, str) and content.startswith(before):
                self.rules += _rest(content, before)
                return self._fields["system"]
            return raw(content) if content.strip() else None
        blocks, added = self._blocks(content or (), before if isinstance(before, list) else ())
        if not self._wire.cached_messages:
            return raw([*blocks, *added])
        self.rules += [orjson.loads(bytes(block))["text"] for block in added]
        return raw(blocks) if blocks else None

    # ---- items that are not what they were ----

    def _item(self, message: Message, old: Message | None) -> Item:
        role = str(message.get("role"))
        source = self._wire.items.get(id(old)) if old is not None else None
        made = self._wire.items.get(id(message)) is None
        about = self._about(source) if source is not None else {}
        if role in ("tool", "function"):
            return Item("user", [self._result(message, old)], source=source, about=about, made=made)
        role = role if source is not None or role == "assistant" else "user"
        item = Item(role, [], source=source, about=about, made=made)
        if role == "assistant":
            item.blocks = list(self._assistant_blocks(message, old))
            item.made = made and not any(_kind(block) in THINKING for block in item.blocks)
            content = message.get("content")
            if isinstance(content, str) and not message.get("tool_calls") and (old is None or isinstance(old.get("content"), str)):
                item.text, item.blocks = content, []
            return item
        content, before = message.get("content"), old.get("content") if old is not None else None
        if isinstance(content, str):
            head = before if isinstance(before, str) and before and content.startswith(before) else content
            item.text = head
            item.added = [raw({"type": "text", "text": text}) for text in _rest(content, head)] if self._wire.cached_messages else []
            if not self._wire.cached_messages:
                item.text = content
        elif content is not None:
            item.blocks, item.added = self._blocks(content, before if isinstance(before, list) else ())
        return item

    def _about(self, source: int) -> Mapping[str, Any]:
        """What an item has beside role and content."""
        fields = _RAW_FIELDS.decode(self._raw_items[source])
        return {key: value for key, value in fields.items() if key not in ("role", "content", EXTENSION)}

    def _result(self, message: Message, old: Message | None) -> msgspec.Raw:
        if old is message:
            return self._raw_block(self._wire.places[id(message)])
        content = message.get("content")
        if isinstance(content, list):
            before = old.get("content") if old is not None else ()
            blocks, added = self._blocks(content, before if isinstance(before, list) else ())
            content = [*blocks, *added]
        rest = {key: value for key, value in message.items() if key not in _CHAT_FIELDS}
        return raw({"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": content, **rest})

    def _blocks(self, parts: Sequence[Any], before: Sequence[Any]) -> tuple[list[msgspec.Raw], list[msgspec.Raw]]:
        """The blocks of `parts`, and those that were added behind what was there `before`."""
        found: list[msgspec.Raw] = []
        added: list[msgspec.Raw] = []
        known = [part for part in parts if id(part) in self._wire.places]
        for i, part in enumerate(parts):
            place = self._wire.places.get(id(part))
            if place is not None:
                found.append(self._raw_block(place))
                continue
            old = before[i] if i < len(before) and not any(one is before[i] for one in known) else None
            place = self._wire.places.get(id(old)) if old is not None else None
            block = self._wire.blocks[place] if place is not None else None
            if place is not None and block is not None and block.get("cache_control") and _goes_on(part, block):
                found.append(self._raw_block(place))
                into = added if i == len(parts) - 1 else found
                into += [raw({"type": "text", "text": text}) for text in _rest(part["text"], block["text"])]
            elif isinstance(part, Mapping) and (made := block_of(part, block)) is not None:
                (found if block is not None or i < len(parts) - 1 or not before else added).append(raw(made))
        return found, added

    def _assistant_blocks(self, message: Message, old: Message | None) -> Iterator[msgspec.Raw]:
        """Its parts and calls; thinking that has lost its part stays in front."""
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
        before = old.get("content") if old is not None and isinstance(old.get("content"), list) else []
        calls = message.get("tool_calls") or []
        if old is not None and calls and not any(id(part) in self._wire.places for part in parts):
            yield from (self._raw_block(self._wire.places[id(part)]) for part in before or () if part.get("type") in THINKING)
        blocks, added = self._blocks(parts, before or ())
        yield from (*blocks, *added)
        for call in calls:
            place = self._wire.places.get(id(call))
            if place is not None:
                yield self._raw_block(place)
            else:
                function = call.get("function") or {}
                sent = self._sent_call(str(call.get("id")), old)
                yield raw({**sent, "type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": _input(function)})

    def _sent_call(self, identity: str, old: Message | None) -> Mapping[str, Any]:
        """The block of a call whose arguments were changed."""
        for call in (old or {}).get("tool_calls") or ():
            if call["id"] == identity and (place := self._wire.places.get(id(call))) is not None:
                return self._wire.blocks[place]
        return {}

    def _raw_block(self, place: Place) -> msgspec.Raw:
        return self._listed(place[:-1])[place[-1]]

    def _listed(self, place: Place) -> list[msgspec.Raw]:
        """The blocks of an item, or of the result of a call in it."""
        if place not in self._lists:
            if place == (SYSTEM,):
                content = self._fields["system"]
            else:
                holder = self._raw_items[place[0]] if len(place) == 1 else self._raw_block(place)
                content = _RAW_FIELDS.decode(holder)["content"]
            self._lists[place] = _RAW_ITEMS.decode(content)
        return self._lists[place]


def _is_result(item: Item) -> bool:
    """Whether it ends with the result of a call, or, as a whole item, has one."""
    if item.sent is not None:
        return b'"tool_result"' in bytes(item.sent)
    return bool(item.blocks) and _kind(item.blocks[-1]) == "tool_result"


def _kind(block: msgspec.Raw) -> str:
    return str(orjson.loads(bytes(block)).get("type"))


def _goes_on(part: Any, block: Mapping[str, Any]) -> bool:
    """Whether `part` says what the text block says, and more behind it."""
    return block["type"] == "text" and isinstance(part, Mapping) and str(part.get("text") or "").startswith(block["text"])


def _rest(text: str, before: str) -> list[str]:
    """What `text` says behind `before`, if it is anything."""
    rest = text[len(before) :].strip()
    return [rest] if rest else []


def _input(function: Mapping[str, Any]) -> Any:
    return input_of(str(function.get("arguments") or ""))
