"""Ids of what a provider of Responses keeps: those that a request names, and those that an answer brings. Pure functions.

Reference: https://platform.openai.com/docs/guides/conversation-state. Names of fields are compared without case, as some servers do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_NAMING = (b"previous_response_id", b"conversation", b'"id"', b"\\u")
"""Without any of these (in any case) a body names nothing."""
_ENDS = (b"response.completed", b"response.incomplete", b"response.failed")


def may_name(body: bytes) -> bool:
    """Whether it is worth reading."""
    lower = body.lower()
    return any(name in lower for name in _NAMING)


def named_in(body: bytes) -> tuple[set[str], set[str]]:
    """What a request goes on from or refers to, and ids of items that it brings whole. Of a body that is not JSON, nothing."""
    try:
        fields = _folded(orjson.loads(body))
    except ValueError:
        return set(), set()
    conversation = fields.get("conversation")
    named = [fields.get("previous_response_id"), _folded(conversation).get("id") if isinstance(conversation, dict) else conversation]
    brought = list[Any]()
    listed = fields.get("input")
    for item in listed if isinstance(listed, list) else ():
        found = _folded(item)
        bare = found.get("type") == "item_reference" or not found.keys() - {"id", "type"}
        (named if bare else brought).append(found.get("id"))
    return _texts(named), _texts(brought)


def ids_of_body(body: bytes) -> list[str]:
    """Of a JSON answer: its own id and those of its items. Raises `ValueError`."""
    return _ids(orjson.loads(body))


def ids_of_event(data: bytes, *, first: bool) -> list[str]:
    """Of an event: those of the response that is in its first one and in its last."""
    if not first and not any(end in data for end in _ENDS):
        return []
    try:
        found = orjson.loads(data)
    except ValueError:
        return []
    return _ids(found.get("response")) if isinstance(found, dict) else []


def _ids(answer: Any) -> list[str]:
    if not isinstance(answer, dict):
        return []
    listed = answer.get("output")
    items: Sequence[Any] = listed if isinstance(listed, list) else ()
    return sorted(_texts([answer.get("id"), *(item.get("id") for item in items if isinstance(item, dict))]))


def _folded(value: Any) -> Mapping[str, Any]:
    return {name.casefold(): found for name, found in value.items()} if isinstance(value, dict) else {}


def _texts(values: Sequence[Any]) -> set[str]:
    return {value for value in values if isinstance(value, str) and value}
