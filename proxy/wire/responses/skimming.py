"""A Responses body whose conversation nobody looks at (`proxy.wire.skimming`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from proxy.exchange import Message
from proxy.wire.responses.items import is_of_turn, item_type, read
from proxy.wire.skimming import Item


class ResponsesItem(Item, gc=False):
    """One item."""

    type: str | None = None
    role: str | None = None
    call_id: str | None = None


items = msgspec.json.Decoder(list[ResponsesItem]).decode


def answered(items: Sequence[ResponsesItem]) -> int | None:
    """How many turns the model has had: runs of items that are one message to the stages."""
    turns, speaking = 0, False
    for item in items:
        kind = item.type or "message"
        if kind == "message" and item.role is None:
            return None
        spoke, speaking = speaking, is_of_turn(kind, item.role, item.call_id)
        turns += speaking and not spoke
    return turns


def opening(fields: Mapping[str, Any], items: Iterator[dict[str, Any]]) -> list[Message]:
    """``instructions``, and what stands before the user's first message, and that. Raises `InvalidRequest`."""
    found = []
    for item in items:
        found.append(item)
        if item.get("role") == "user" and item_type(item) == "message":
            break
    return read(fields.get("instructions"), found, {}).messages
