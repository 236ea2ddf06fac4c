"""Conversations of agents, for the tests of failures."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from proxy.context.tool_results.turns import read_turns
from proxy.exchange import Message, Tool
from proxy.stages.reflection.history import FailureHistory, history_of, read_conversation

SEARCH: Tool = {
    "type": "function",
    "function": {
        "name": "search_docs",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}, "page": {"type": "integer"}},
            "required": ["query"],
        },
    },
}
LOOKUP: Tool = {
    "type": "function",
    "function": {
        "name": "get_order",
        "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": False},
    },
}
TOOLS = (SEARCH, LOOKUP)
TIMED_OUT = "Error: the request timed out after 30 s"
NOT_FOUND = '{"status": 404, "error": "order not found"}'


class Talk:
    """Builds messages step by step; ids are given out in order."""

    def __init__(self, *said: str) -> None:
        self.messages: list[Message] = [{"role": "system", "content": "You are an agent."}]
        self._ids = itertools.count(1)
        for text in said or ("Find the manual.",):
            self.user(text)

    def user(self, text: str) -> Talk:
        self.messages.append({"role": "user", "content": text})
        return self

    def says(self, text: str) -> Talk:
        self.messages.append({"role": "assistant", "content": text})
        return self

    def calls(self, tool: str, result: str | None, **arguments: Any) -> Talk:
        """One call; with a result unless it is None."""
        return self.calls_raw(tool, json.dumps(arguments), result)

    def calls_raw(self, tool: str, arguments: str, result: str | None) -> Talk:
        id_ = f"call_{next(self._ids)}"
        call = {"id": id_, "type": "function", "function": {"name": tool, "arguments": arguments}}
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        if result is not None:
            self.messages.append({"role": "tool", "tool_call_id": id_, "content": result})
        return self


def read_history(
    messages: Sequence[Message], tools: Sequence[Tool], retrieves: Callable[[str], bool], *, stall_after: int
) -> FailureHistory:
    """What a conversation shows, by rules alone."""
    return history_of(read_conversation(read_turns(messages), tools, retrieves), tools, retrieves, stall_after=stall_after)
