"""A Messages body whose conversation nobody looks at (`proxy.wire.skimming`).

Of a block, what `requests` demands is demanded here. Its types are those that the API knows today: a body with another is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import msgspec
from msgspec import Struct, defstruct

from proxy.exchange import Message
from proxy.wire.messages.requests import opening_of
from proxy.wire.skimming import Item

_OTHERS = (
    "thinking",
    "redacted_thinking",
    "image",
    "document",
    "search_result",
    "container_upload",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "tool_reference",
    "mcp_tool_use",
    "mcp_tool_result",
)
"""Types of blocks of which nothing is looked at but that."""


class _Text(Struct, tag="text", gc=False):
    text: str


class _Use(Struct, tag="tool_use", gc=False):
    id: str
    name: str


if TYPE_CHECKING:
    _Known = Struct
else:
    _Known = Union[_Text, _Use, *(defstruct("_Other", (), tag=kind, gc=False) for kind in _OTHERS)]


class _Result(Struct, tag="tool_result", gc=False):
    tool_use_id: str
    content: str | list[_Known] | None = None


class MessagesItem(Item, kw_only=True, gc=False):
    """One message."""

    role: str
    content: str | list[_Known | _Result]


items = msgspec.json.Decoder(list[MessagesItem]).decode


def answered(items: Sequence[MessagesItem]) -> int:
    """How often the assistant has spoken."""
    return [item.role for item in items].count("assistant")


def opening(fields: Mapping[str, Any], items: Iterator[dict[str, Any]]) -> list[Message]:
    """``system``, and the messages up to the user's first. Raises `InvalidRequest`."""
    return opening_of(fields.get("system"), items)
