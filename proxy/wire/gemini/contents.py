"""Chat messages -> ``contents`` and ``systemInstruction`` of a Gemini body, each part in its own bytes as far as nothing of it was changed.

A chat message that a stage made in place of one of the client's is known for it as `proxy.wire.requests.counterparts` says; of what it was
made of, thoughts and signatures stay where they stood, and a changed text or call keeps every other field of its part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message
from proxy.language.text import text_of
from proxy.wire.bodies import EXTENSION, as_raw, exact_object, raw_fields
from proxy.wire.gemini.fields import CALL_PREFIX, field_spelling, is_text, kind_of, raw_objects, response_of, snake, text_in
from proxy.wire.gemini.requests import SYSTEM, GeminiWire, Place
from proxy.wire.requests import content_parts, counterparts
from proxy.wire.translation.neutral import split_data_url

_SYSTEM_ROLES = ("system", "developer")
_OWN_CALL_ID = re.compile(CALL_PREFIX + r"\d+_\d+|gw\d{7}")
"""Of a call to which its server gave none: nobody but this proxy knows it."""
FROM_GEMINI_3 = re.compile(r"(?:models/)?gemini-(?![12])")
"""Models that take no call without a signature, and have what a function shows inside its response."""
_EARLIER = {"text": "[Earlier messages are not shown.]"}
"""The user's, where an answer of the model's has become the first content: the API wants the user to begin."""
NO_SIGNATURE = "skip_thought_signature_validator"
"""What the API takes in place of a signature, for a call that its model did not make (https://ai.google.dev/gemini-api/docs/thought-signatures)."""


class _Item:
    """One item of ``contents``, growing."""

    def __init__(self, role: str, parts: list[msgspec.Raw], source: int | None, *, result: bool) -> None:
        self.role, self.parts, self.source, self.result = role, parts, source, result


class Contents:
    """What a conversation is sent as."""

    def __init__(self, wire: GeminiWire, fields: dict[str, msgspec.Raw], before: Sequence[Message], after: Sequence[Message]) -> None:
        self._wire, self._fields, self._before, self._after = wire, fields, before, after
        self._lists: dict[int, list[msgspec.Raw]] = {}
        self._names = {call.get("id"): _name(call) for message in after for call in message.get("tool_calls") or ()}

    def put(self) -> None:
        """Bring it into the body's fields."""
        made_of = [None if at is None else self._before[at] for at in counterparts(self._before, self._after)]
        pairs = [*zip(self._after, made_of, strict=True)]
        begin = next((i for i, message in enumerate(self._after) if message.get("role") not in _SYSTEM_ROLES), len(pairs))
        rules = self._put_system(pairs[:begin])
        items: list[_Item] = []
        for message, old in pairs[begin:]:
            self._add(items, message, old)
        if items and items[0].role == "model" and self._begins_with_user:
            items.insert(0, _Item("user", [as_raw(_EARLIER)], None, result=False))
        spoken = next((item for item in reversed(items) if item.role == "user"), None)
        if rules and spoken is not None:
            spoken.parts += rules
        self._fields["contents"] = as_raw([self._encode_item(item) for item in items])

    @property
    def _begins_with_user(self) -> bool:
        return next((message.get("role") != "assistant" for message in self._before if message.get("role") not in _SYSTEM_ROLES), False)

    def _put_system(self, pairs: Sequence[tuple[Message, Message | None]]) -> list[msgspec.Raw]:
        """The system's words in front; returns those that go behind the user's, as no others may stand beside ``cachedContent``."""
        parts, rules = list[msgspec.Raw](), list[msgspec.Raw]()
        for message, old in pairs:
            if old is not None and (held := self._wire.places_of_message.get(id(old))) and held[0][0] == SYSTEM:
                parts += self._parts(message, old)
            elif text := text_of(message.get("content")).strip():
                rules.append(as_raw({"text": text}))
        name = field_spelling(self._wire.fields, "systemInstruction")
        cached = self._wire.fields.get(field_spelling(self._wire.fields, "cachedContent")) is not None
        said = parts if cached else parts + rules
        if not said:
            self._fields.pop(name, None)
        elif not self._is_whole(SYSTEM, said):
            about = raw_fields(self._fields[name]) if bytes(self._fields.get(name, b"null")).startswith(b"{") else {}
            self._fields[name] = as_raw({**about, "parts": said})
        return rules if cached else []

    def _add(self, items: list[_Item], message: Message, old: Message | None) -> None:
        """Behind the others, or into the last one, where both are parts of one item, or results of one turn's calls."""
        parts = self._parts(message, old)
        if not parts:
            return
        held = self._wire.places_of_message.get(id(message)) or self._wire.places_of_message.get(id(old)) or []
        role = "model" if message.get("role") == "assistant" else "user"
        item = _Item(role, parts, held[0][0] if held else None, result=message.get("role") == "tool")
        last = items[-1] if items else None
        one = last is not None and item.source is not None and item.source == last.source
        results = last is not None and last.result and item.result and None in (item.source, last.source)
        if last is not None and last.role == role and (one or results):
            last.parts += parts
            last.result = item.result
        else:
            items.append(item)

    def _encode_item(self, item: _Item) -> msgspec.Raw:
        if item.source is None:
            return as_raw({"role": item.role, "parts": item.parts})
        if self._is_whole(item.source, item.parts):
            return self._items[item.source]
        return as_raw({**raw_fields(self._items[item.source]), "parts": item.parts})

    def _is_whole(self, source: int, parts: Sequence[msgspec.Raw]) -> bool:
        """Whether these are all parts of an item, as they came."""
        sent = self._parts_of_item(source) if self._wire.sizes.get(source) else []
        return len(sent) == len(parts) and all(a is b for a, b in zip(sent, parts, strict=True))

    @cached_property
    def _items(self) -> list[msgspec.Raw]:
        """Those of ``contents``, without the proxy's own field."""
        return [self._plain(item) for item in raw_objects(self._fields["contents"])]

    def _plain(self, item: msgspec.Raw) -> msgspec.Raw:
        if EXTENSION.encode() not in bytes(item):
            return item
        fields = raw_fields(item)
        return as_raw(fields) if fields.pop(EXTENSION, None) is not None else item

    def _raw(self, place: Place) -> msgspec.Raw:
        return self._parts_of_item(place[0])[place[1]]

    def _parts_of_item(self, source: int) -> list[msgspec.Raw]:
        """The parts of an item."""
        if source not in self._lists:
            holder = self._fields[field_spelling(self._wire.fields, "systemInstruction")] if source == SYSTEM else self._items[source]
            is_words = bytes(holder).startswith(b'"')
            self._lists[source] = [as_raw({"text": orjson.loads(bytes(holder))})] if is_words else raw_objects(raw_fields(holder)["parts"])
        return self._lists[source]

    # ---- parts ----

    def _parts(self, message: Message, old: Message | None) -> list[msgspec.Raw]:
        if (held := self._wire.places_of_message.get(id(message))) is not None:
            return [self._raw(place) for place in held]
        places = self._wire.places_of_message.get(id(old), [])
        if message.get("role") == "tool":
            return [self._result(message, places[0] if places else None)]
        calls = {str(call.get("id")): call for call in message.get("tool_calls") or ()}
        ids = {self._wire.places[id(call)]: str(call.get("id")) for call in (old or {}).get("tool_calls") or ()}
        spoken = [place for place in places if place not in ids and not self._is_thought(place)]
        placed = dict(self._match_places(content_parts(message.get("content")), spoken))
        new = [made for place, part in placed.items() if isinstance(place, str) and (made := self._part(part, None)) is not None]
        out, says = list[msgspec.Raw](), False
        for place in places:
            if place in ids:
                out += new
                new = []
                found = [self._call(call, place)] if (call := calls.pop(ids[place], None)) is not None else []
            elif place in placed:
                found = [made] if (made := self._part(placed[place], place)) is not None else []
            else:
                found = [self._raw(place)] if self._is_thought(place) else []
            says = says or bool(found and not self._is_thought(place))
            out += found
        added = [call_of(call) for call in calls.values()]
        if not any(b'"thoughtSignature"' in bytes(part) for part in out):
            sign(added, str(self._wire.fields.get("model")))
        out += [*new, *(as_raw(part) for part in added)]
        return out if says or len(out) > len([place for place in places if self._is_thought(place)]) else []

    def _is_thought(self, place: Place) -> bool:
        part = self._wire.parts[place]
        return part.get("thought") is True or not kind_of(part)

    def _match_places(self, parts: Sequence[Any], spoken: Sequence[Place]) -> Iterator[tuple[Place | str, Any]]:
        """The parts that have a place of their own, or take one in order; others by a name that is no place."""
        taken = {self._wire.places.get(id(part)) for part in parts}
        free = [place for place in spoken if place not in taken]
        for i, part in enumerate(parts):
            yield self._wire.places.get(id(part)) or (free.pop(0) if free else f"new {i}"), part

    def _part(self, part: Any, place: Place | None) -> msgspec.Raw | None:
        if place is not None and id(part) in self._wire.places:
            return self._raw(place)
        kind, given = part.get("type"), part.get(str(part.get("type")))
        before = self._wire.parts[place] if place is not None else {}
        if kind == "text":
            if place is not None and before.get("text") == part.get("text"):
                return self._raw(place)
            if not str(part.get("text") or "").strip():
                return None
            return as_raw({**(raw_fields(self._raw(place)) if place is not None and is_text(before) else {}), "text": part["text"]})
        if kind == "image_url":
            return as_raw(data_part(str(given.get("url") if isinstance(given, Mapping) else given)))
        return self._raw(place) if place is not None else None

    def _call(self, call: Mapping[str, Any], place: Place) -> msgspec.Raw:
        if (own := self._wire.places.get(id(call))) is not None:
            return self._raw(own)
        return self._change_part(place, "functionCall", args=_arguments(call))

    def _result(self, message: Message, place: Place | None) -> msgspec.Raw:
        content = message.get("content")
        text = content if isinstance(content, str) else text_of(content)
        if place is None:
            identity = str(message.get("tool_call_id") or "")
            return as_raw(result_part(identity, self._names.get(identity) or str(message.get("name") or "unknown"), response_of(text)))
        part = self._wire.parts[place]
        return self._change_part(
            place, "functionResponse", response=response_of(text, text_in(part[_key(part, "functionResponse")].get("response"))[1])
        )

    def _change_part(self, place: Place, kind: str, **new: Any) -> msgspec.Raw:
        """A part whose call or response has other fields."""
        fields, name = raw_fields(self._raw(place)), _key(self._wire.parts[place], kind)
        inner: dict[str, Any] = {**raw_fields(fields[name]), **new}
        return as_raw({**fields, name: as_raw(inner)})


def call_part(identity: str, name: str, arguments: Mapping[str, Any], signature: str = "") -> dict[str, Any]:
    """A part that calls a function."""
    own = {} if not identity or _OWN_CALL_ID.fullmatch(identity) else {"id": identity}
    part: dict[str, Any] = {"functionCall": {**own, "name": name, "args": arguments}}
    return {**part, "thoughtSignature": signature} if signature else part


def call_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """A part for a call in chat's form."""
    return call_part(str(call.get("id") or ""), _name(call), _arguments(call), signature_of(call))


def sign(parts: Sequence[dict[str, Any]], model: str) -> None:
    """Have the first call of a turn say that it has no signature, where none has one and the `model` asks for it."""
    calls = [part for part in parts if "functionCall" in part]
    if calls and FROM_GEMINI_3.match(model) and not any("thoughtSignature" in part for part in parts):
        calls[0]["thoughtSignature"] = NO_SIGNATURE


def sign_calls(calls: Sequence[dict[str, Any]], model: str) -> None:
    """The same for calls in chat's form."""
    if calls and FROM_GEMINI_3.match(model) and not any(signature_of(call) for call in calls):
        calls[0] |= signature_fields(NO_SIGNATURE)


def result_part(identity: str, name: str, response: Mapping[str, Any], shown: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """A part with a function's response, and the data `shown` in it."""
    own = {} if not identity or _OWN_CALL_ID.fullmatch(identity) else {"id": identity}
    return {"functionResponse": {**own, "name": name, "response": response} | ({"parts": list(shown)} if shown else {})}


def data_part(url: str, kind: str = "image/jpeg") -> dict[str, Any]:
    """A part that holds what a data URL says, or an address; `kind` is the media type that is not told."""
    inline = split_data_url(url)
    if inline is not None:
        return {"inlineData": {"mimeType": inline[0], "data": inline[1]}}
    return {"fileData": {"mimeType": kind, "fileUri": url}}


def signature_of(call: Mapping[str, Any]) -> str:
    """What a call in chat's form brings of the model's thoughts, where Google's own chat API has it."""
    extra = call.get("extra_content")
    google = extra.get("google") if isinstance(extra, Mapping) else None
    found = google.get("thought_signature") if isinstance(google, Mapping) else None
    return found if isinstance(found, str) else ""


def signature_fields(signature: str) -> dict[str, Any]:
    """The same field, of a call with this signature; none without one."""
    return {"extra_content": {"google": {"thought_signature": signature}}} if signature else {}


def _key(part: Mapping[str, Any], kind: str) -> str:
    return kind if kind in part else snake(kind)


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    return exact_object(str((call.get("function") or {}).get("arguments") or "")) or {}


def _name(call: Mapping[str, Any]) -> str:
    return str((call.get("function") or {}).get("name") or "")
