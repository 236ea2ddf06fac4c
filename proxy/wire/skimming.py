"""A body whose conversation nobody looks at: only what names its record is read, the rest is passed over. The same for every dialect.

In: bytes. Out: a `Request` with `answered`, or None where the whole has to be read: for Groundwire's own extension, to say what is wrong
with a body, and for what is rare. Of a conversation, the dialect (`Skim`) says which fields of its items are looked at, how often the
assistant has spoken in them, and what the items that it opens with say. What is passed over, the rest of the conversation and the tools,
is as valid as for `orjson`, but for a number that no double can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import orjson
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from proxy.errors import InvalidRequest
from proxy.exchange import Message, Request
from proxy.exchange.wishes import Wishes
from proxy.wire.bodies import EXTENSION, is_shallow, is_shallow_inside

I = TypeVar("I", bound="Item")  # noqa: E741
_FIELDS = msgspec.json.Decoder(dict[str, Raw]).decode
_ITEMS = msgspec.json.Decoder(list[Raw]).decode
_NULL = Raw(b"null")
_MANY_ITEMS = 100
"""Each opens brackets: of so many, it is quicker to look at their lengths than to count those of the body."""
_ITEM_BYTES = 24
"""Shorter than any item that says something: of a conversation whose items are shorter, the time is that of objects, not that of bytes."""


class _Object(Struct):
    """Any object."""


Never = Annotated[int, Meta(gt=0, lt=0)]
"""Of a field that must not be there: no value is one."""


class Item(Struct, gc=False):
    """What is looked at of one part of a conversation; one with Groundwire's own extension is none."""

    groundwire: Never | UnsetType = UNSET


_tools = msgspec.json.Decoder(list[_Object] | None).decode


class Skim(Struct, Generic[I], frozen=True):
    """How one API's bodies are skimmed."""

    carries: str
    """The field of the conversation; another form than a list of items is read whole."""
    items: Callable[[Raw], list[I]]
    """The conversation's items. Raises `msgspec.DecodeError` for all that the dialect's parser refuses; it may for more."""
    answered: Callable[[Sequence[I]], int | None]
    """How often the assistant has spoken in them; None where that is not plain."""
    opening: Callable[[Mapping[str, Any], Iterator[dict[str, Any]]], list[Message]]
    """The messages up to the user's first, of a body's other fields and its items. Raises `InvalidRequest`."""
    wire: Callable[[bytes], Any]
    """The dialect's memory of a body from which nothing is to be changed."""
    read_wants: Callable[[Mapping[str, Any]], Wishes]
    tools: tuple[str, ...] = ("tools",)

    def request(self, body: bytes) -> Request | None:
        """The request, as far as it was read."""
        try:
            fields = _FIELDS(body)
            given = fields.get(self.carries, _NULL)
            raw = _ITEMS(given)
            if not raw or len(raw) * _ITEM_BYTES > len(body) or EXTENSION in fields or not _is_shallow(body, fields, raw, self.carries):
                return None
            if not body.isascii():
                body.decode()  # what is passed over was not looked at
            items = self.items(given)
            for name in self.tools:
                _tools(fields.get(name, _NULL))
            read = {name: _loaded(value) for name, value in fields.items() if name != self.carries and name not in self.tools}
            model, stream, answered = read.get("model"), read.get("stream"), self.answered(items)
            messages = tuple(self.opening(read, map(_loaded, raw)))
        except (msgspec.DecodeError, ValueError, RecursionError, InvalidRequest):
            return None
        if not isinstance(model, str) or not model or (stream is not None and not isinstance(stream, bool)) or answered is None:
            return None
        return Request(
            model=model,
            messages=messages,
            tools=(),
            params={},
            stream=bool(stream),
            read_wants=self.read_wants,
            wire=self.wire(body),
            size=len(body),
            answered=answered,
        )


def _is_shallow(body: bytes, fields: Mapping[str, Raw], items: Sequence[Raw], carries: str) -> bool:
    """Whether it could be written again: nothing in it is nested too deep."""
    if len(items) < _MANY_ITEMS and is_shallow(body):
        return True
    return is_shallow_inside(items, 2) and is_shallow_inside([value for name, value in fields.items() if name != carries], 1)


def _loaded(value: Raw) -> Any:
    return orjson.loads(bytes(value))
