"""Messages in chat form -> the items of a Responses request, in their own bytes wherever no stage changed anything.

In: the messages as they came with their `Origin`s, the raw items, and the messages as they are to be sent. Out: the raw items to send. Of a
message that a stage edited, only the parts that it edited are written anew; an item with an ``id`` that is written anew loses it, since the
provider knows another text by that name. A message that a stage added becomes items of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message
from proxy.wire.bodies import EXTENSION, as_raw, encode_raw, raw_fields, raw_items
from proxy.wire.requests import counterparts
from proxy.wire.responses.items import Origin, Reading

OUTPUT_ITEMS = "output_items"
"""Field of a message that the proxy itself adds: the items of an answer, as the provider put them out."""


class Rendering:
    """Of one request."""

    def __init__(self, reading: Reading, raw_items: Sequence[msgspec.Raw]) -> None:
        self._reading, self._raw = reading, raw_items
        self.instructions: str | None = None
        """What they say now; None where they have left the prompt."""

    def items(self, messages: Sequence[Message]) -> list[msgspec.Raw]:
        """The items to send for `messages`."""
        out: list[msgspec.Raw] = []
        pinned = iter([*self._reading.pinned, (len(self._reading.messages) + 1, -1)])
        before, item = next(pinned)
        for message, position in zip(messages, counterparts(self._reading.messages, messages), strict=True):
            while position is not None and before <= position and item >= 0:
                out.append(self._bare(item))
                before, item = next(pinned)
            out += self._of(message, position)
        while item >= 0:
            out.append(self._bare(item))
            before, item = next(pinned)
        return out

    def _of(self, message: Message, position: int | None) -> Iterator[msgspec.Raw]:
        if position is not None and self._reading.origins[position].is_held_by_provider:
            return
        if position is None or self._reading.origins[position].is_unsent:
            yield from (encode_raw(item) for item in new_items(message))
            return
        origin, old = self._reading.origins[position], self._reading.messages[position]
        if origin.instructions:
            self.instructions = _join_texts(message.get("content"))
        elif not origin.items:
            yield encode_raw({"role": message["role"], "content": new_content(message.get("content"), message["role"])})
        elif message is old:
            yield from (self._bare(item) for item in origin.items)
        else:
            yield from self._edited_items(message, old, origin)

    def _edited_items(self, message: Message, old: Message, origin: Origin) -> Iterator[msgspec.Raw]:
        """The items of a message that a stage made from another; riders (reasoning, calls of the provider's tools) stay with it."""
        texts = self._texts(message, old, origin)
        calls = {call.get("id"): call for call in message.get("tool_calls") or () if isinstance(call, Mapping)}
        before = {call.get("id"): call for call in old.get("tool_calls") or () if isinstance(call, Mapping)}
        of_item = {item: call for call, item in origin.calls.items()}
        for item in origin.items:
            if item in of_item:
                call = of_item[item]
                if call in calls:
                    yield self._bare(item) if calls[call] == before.get(call) else self._with_call(item, calls[call])
            elif item in texts:
                if (content := texts[item]) is not None:
                    yield content
            else:
                yield self._bare(item)
        yield from (encode_raw(new_call(call)) for identity, call in calls.items() if identity not in before)
        if not origin.texts and message.get("content") and message.get("content") != old.get("content"):
            yield encode_raw({"role": message["role"], "content": new_content(message["content"], message["role"])})

    def _texts(self, message: Message, old: Message, origin: Origin) -> dict[int, msgspec.Raw | None]:
        """The message and result items of an edited message, by position; None for one of which nothing is left."""
        content = message.get("content")
        if content is old.get("content") or not origin.texts:
            return {item: self._bare(item) for item in origin.texts}
        if not isinstance(content, list):
            return {item: self._with_content(item, content or "") if item == origin.texts[-1] else None for item in origin.texts}
        shares: dict[int, list[tuple[Any, int | None]]] = {item: [] for item in origin.texts}
        old_parts = old["content"] if isinstance(old.get("content"), list) else []
        item, same_length, stay = origin.texts[0], len(old_parts) == len(content), {id(part) for part in content}
        for i, part in enumerate(content):
            known = origin.parts.get(id(part))
            if known is None and same_length and id(old_parts[i]) not in stay:
                known = origin.parts.get(id(old_parts[i]))
            item = known[0] if known is not None else item
            shares[item].append((part, None if known is None else known[1]))
        return {item: self._with_parts(item, share, origin) if share else None for item, share in shares.items()}

    def _with_parts(self, item: int, share: Sequence[tuple[Any, int | None]], origin: Origin) -> msgspec.Raw:
        fields = self._fields(item)
        name = _content_field(fields)
        given = bytes(fields.get(name, b"null"))
        raw_parts = raw_items(given) if given.startswith(b"[") else []
        untouched = [id(part) in origin.parts for part, _ in share]
        if all(untouched) and len(share) == max(len(raw_parts), 1):
            return self._bare(item)
        if not raw_parts:
            return self._with_content(item, "\n".join(str(part.get("text", "")) for part, _ in share))
        role = _loads(fields.get("role")) or "tool"
        parts = [
            raw_parts[position]
            if position is not None and same
            else encode_raw(_new_part(part, role) if position is None else _edited_part(part, _loads(raw_parts[position]), role))
            for (part, position), same in zip(share, untouched, strict=True)
        ]
        return self._encode_item(fields, name, parts)

    def _with_content(self, item: int, content: str) -> msgspec.Raw:
        fields = self._fields(item)
        name, role = _content_field(fields), _loads(fields.get("role")) or "tool"
        old = _loads(fields.get(name))
        part = {"type": "text", "text": content}
        return self._encode_item(fields, name, [_edited_part(part, old[0] if old else None, role)] if isinstance(old, list) else content)

    def _with_call(self, item: int, call: Mapping[str, Any]) -> msgspec.Raw:
        fields, new = self._fields(item), new_call(call)
        for name in ("arguments", "input", "name"):
            if name in fields and name in new:
                fields[name] = encode_raw(new[name])
        return self._encode_item(fields)

    def _encode_item(self, fields: dict[str, msgspec.Raw], name: str = "", content: object = None) -> msgspec.Raw:
        """An item that says something else than the one the provider may know by its ``id``."""
        left = {key: value for key, value in fields.items() if key not in ("id", "status", EXTENSION)}
        if name:
            left[name] = as_raw(content)
        return as_raw(left)

    def _bare(self, item: int) -> msgspec.Raw:
        """An item as it came, without the proxy's own extension."""
        if item not in self._reading.hinted:
            return self._raw[item]
        return as_raw({name: value for name, value in self._fields(item).items() if name != EXTENSION})

    def _fields(self, item: int) -> dict[str, msgspec.Raw]:
        known = self._reading.stand_ins.get(item)
        return raw_fields(self._raw[item] if known is None else orjson.dumps(known))


def new_items(message: Message) -> list[dict[str, Any]]:
    """A message that a stage, or the proxy, added."""
    if OUTPUT_ITEMS in message:
        return list(message[OUTPUT_ITEMS])
    role = message.get("role")
    if role in ("tool", "function"):
        kind = message.get("type") or "function_call_output"
        return [{"type": kind, "call_id": message.get("tool_call_id"), "output": new_content(message.get("content"), "tool")}]
    found: list[dict[str, Any]] = []
    if message.get("content") or not message.get("tool_calls"):
        found.append({"role": role, "content": new_content(message.get("content") or "", str(role))})
    return found + [new_call(call) for call in message.get("tool_calls") or () if isinstance(call, Mapping)]


def new_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call in chat form as an item."""
    if call.get("type") == "custom":
        custom = call.get("custom") or {}
        return {"type": "custom_tool_call", "call_id": call.get("id"), "name": custom.get("name"), "input": custom.get("input")}
    function = call.get("function") or {}
    return {"type": "function_call", "call_id": call.get("id"), "name": function.get("name"), "arguments": function.get("arguments")}


def new_content(content: object, role: str) -> Any:
    """A message's content as an item has it."""
    return [_new_part(part, role) for part in content] if isinstance(content, list) else content


def _new_part(part: Any, role: str) -> Any:
    """A part in chat form."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text":
        text = {"text": part.get("text")}
        return {"type": "output_text", **text, "annotations": []} if role == "assistant" else {"type": "input_text", **text}
    if kind == "image_url" and isinstance(part.get("image_url"), Mapping):
        image = part["image_url"]
        return {"type": "input_image", "image_url": image.get("url"), "detail": image.get("detail", "auto")}
    if kind == "file" and isinstance(part.get("file"), Mapping):
        return {"type": "input_file", **part["file"]}
    return part


def _edited_part(part: Any, old: Any, role: str) -> Any:
    """A part that a stage changed, on the ground of the one that stood there; its annotations belonged to other words."""
    if isinstance(old, dict) and "stdout" in old and part.get("type") == "text":
        return {**old, "stdout": part.get("text"), "stderr": ""}
    if not isinstance(old, dict) or "text" not in old or part.get("type") != "text":
        return _new_part(part, role)
    return {**old, "text": part.get("text")} | {name: [] for name in ("annotations", "logprobs") if name in old}


def _content_field(fields: Mapping[str, object]) -> str:
    return "output" if "output" in fields else "content"


def _join_texts(content: object) -> str:
    if isinstance(content, list):
        return "\n\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _loads(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else orjson.loads(bytes(raw))
