"""Retrieved passages in a conversation: tool results of retrieval tools and marked blocks -> `Evidence`. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.exchange import Evidence, Message

RETRIEVAL_TOOLS = ("session_search", "read_file", "web_extract", "browser")
"""Tools whose results are passages, unless the policy names others (patterns as of `fnmatch`)."""


def find_passages(messages: Sequence[Message], retrieval_tools: Sequence[str] = RETRIEVAL_TOOLS) -> list[Evidence]:
    """The passages that stand in `messages`, in order."""
    return []
