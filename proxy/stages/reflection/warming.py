"""A first conversation, read when the stage is made: compiling patterns takes 0.1 to 0.3 s, and no request should wait for it."""

from __future__ import annotations

from functools import cache

from proxy.exchange import Message, Tool
from proxy.stages.reflection.failures.history import read_history
from proxy.stages.reflection.signals.calls import ResultReader

_TOOL: Tool = {
    "type": "function",
    "function": {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}},
}
_CALL = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"text": "a"}'}}
_MESSAGES: tuple[Message, ...] = (
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Error: the request timed out after 30 s"},
    {"role": "assistant", "content": "It is on page 7.", "tool_calls": [{**_CALL, "id": "call_2"}]},
    {"role": "tool", "tool_call_id": "call_2", "content": '{"results": []}'},
    *(
        {"role": "user", "content": text}
        for text in ("No, that is wrong.", "Nein, das ist falsch.", "No, eso está mal.", "Non, c'est faux.")
    ),
)


@cache
def warm() -> None:
    """Once in a process."""
    read_history(_MESSAGES, (_TOOL,), lambda tool: True, ResultReader(), stall_after=6)
