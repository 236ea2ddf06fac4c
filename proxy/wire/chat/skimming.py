"""A chat completion's body whose conversation nobody looks at: only what names its record is read, the rest is passed over.

In: bytes. Out: a `Request` with `answered`, or None where the whole has to be read: for Groundwire's own extension, and to say what is
wrong with a body, or whether one of many parts is nested too deep. What is passed over is as valid as for `orjson`, but for a number that
no double can hold.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Struct

from proxy.exchange import Request
from proxy.wire.bodies import is_shallow
from proxy.wire.chat.wishes import wishes_of


class _Object(Struct):
    """Any object."""


_Nothing = Annotated[int, msgspec.Meta(ge=1, le=0)]
"""Of a field that must not be there: no value is one."""


class _Message(Struct):
    """One message, not looked into."""

    role: str
    content: msgspec.Raw = msgspec.Raw(b"null")
    groundwire: _Nothing = 0


class _Body(Struct):
    """A body, not looked into."""

    model: str
    messages: list[_Message]
    tools: list[_Object] | None = None
    functions: list[_Object] | None = None
    stream: bool | None = None
    groundwire: _Nothing = 0


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
