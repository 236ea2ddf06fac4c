"""A chat completion's body whose conversation nobody looks at: only what names its record is read, the rest is passed over.

In: bytes. Out: a `Request` with `answered`, or None where the whole has to be read. A body with too few brackets to be nested too deep, so
most of them, is gone through once (`skimmed`): twice as fast as `proxy.wire.skimming`, which takes one of many parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec import UNSET, Struct, UnsetType

from proxy.exchange import Message, Request
from proxy.wire.bodies import is_shallow
from proxy.wire.chat.wishes import wishes_of
from proxy.wire.skimming import Item, Never


class _Object(Struct, gc=False):
    """Any object."""


class _Message(Struct, gc=False):
    """One message, not looked into."""

    role: str
    content: msgspec.Raw = msgspec.Raw(b"null")
    groundwire: Never | UnsetType = UNSET


class _Body(Struct):
    """A body, not looked into."""

    model: str
    messages: list[_Message]
    tools: list[_Object] | None = None
    functions: list[_Object] | None = None
    stream: bool | None = None
    groundwire: Never | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Body).decode


def skimmed(body: bytes, wire: Any) -> Request | None:
    """The request, with `wire` as the dialect's memory of it."""
    if not is_shallow(body):
        return None
    try:
        found = _decode(body)
        if not body.isascii():
            body.decode()  # what is passed over was not looked at
        opening = _opening(found.messages)
    except (msgspec.DecodeError, UnicodeDecodeError, orjson.JSONDecodeError):
        return None
    if not found.model or not opening:
        return None
    return Request(
        model=found.model,
        messages=opening,
        tools=(),
        params={},
        stream=bool(found.stream),
        read_wants=wishes_of,
        wire=wire,
        size=len(body),
        answered=[one.role for one in found.messages].count("assistant"),
    )


def _opening(messages: list[_Message]) -> tuple[dict[str, Any], ...]:
    """The messages up to the user's first."""
    found = []
    for one in messages:
        found.append({"role": one.role, "content": orjson.loads(bytes(one.content))})
        if one.role == "user":
            break
    return tuple(found)


class ChatItem(Item, kw_only=True, gc=False):
    """One message of many."""

    role: str


items = msgspec.json.Decoder(list[ChatItem]).decode


def answered(items: Sequence[ChatItem]) -> int:
    """How often the assistant has spoken."""
    return [item.role for item in items].count("assistant")


def opening(fields: Mapping[str, Any], items: Iterator[dict[str, Any]]) -> list[Message]:
    """The messages up to the user's first."""
    found: list[Message] = []
    for message in items:
        found.append(message)
        if message["role"] == "user":
            break
    return found
