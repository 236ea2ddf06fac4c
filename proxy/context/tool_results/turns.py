"""A conversation as the steps of an agent: what it called with which arguments, what came back, what it said, what the user said.

In: messages in OpenAI's chat form, the legacy ``function_call`` among them. Out: `AgentTurn`s in order. Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import msgspec
from msgspec import Struct

from proxy.context.conversation import named_calls
from proxy.exchange import Exchange, Message
from proxy.language.json.fingerprint import action_key, fingerprint
from proxy.language.lru import by_text
from proxy.language.text import text_of


class ToolResult(Struct, frozen=True):
    """What a tool gave back."""

    message: int
    """Position of its message."""
    text: str
    failed: bool = False
    """Whether the client itself says that the call failed (``is_error``)."""


class CalledTool(Struct, frozen=True, dict=True):
    """One call of an assistant message, with its result."""

    id: str
    tool: str
    arguments: str
    """JSON text as the model wrote it; may be invalid."""
    message: int
    """Position of the assistant message."""
    result: ToolResult | None = None
    """None where it has not come (yet)."""
    number: int = 1
    """Counts the calls of the conversation that have the same id, tool and arguments."""

    @cached_property
    def parsed(self) -> dict[str, Any] | None:
        """The arguments: empty where there are none, None where they are not a JSON object."""
        return _parse(self.arguments)

    @cached_property
    def key(self) -> str:
        """Of the action: the same for the same tool with the same normalised arguments."""
        return _key(self.arguments, self.tool)

    @property
    def result_text(self) -> str:
        """The text of its result."""
        return self.result.text if self.result is not None else ""

    @property
    def cause(self) -> str:
        """Tells this call from every other of the run."""
        return _cause(self.arguments, self.id, self.tool, self.number)


def _parse(arguments: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(arguments) if arguments.strip() else {}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@by_text(8192)
def _key(arguments: str, tool: str) -> str:
    parsed = _parse(arguments)
    return action_key(tool, arguments if parsed is None else parsed)


@by_text(8192)
def _cause(arguments: str, id_: str, tool: str, number: int) -> str:
    return fingerprint("call", id_, tool, arguments, detail=str(number))[3:]


class AgentTurn(Struct, frozen=True):
    """One message of a user or an assistant."""

    role: str
    """``user`` or ``assistant``."""
    message: int
    """Its position."""
    text: str
    calls: tuple[CalledTool, ...] = ()


def read_turns(messages: Sequence[Message]) -> list[AgentTurn]:
    """All turns, in order. Results that answer no call are left out (`orphans` finds them)."""
    turns: list[AgentTurn] = []
    seen: dict[tuple[str, str, str], int] = {}
    for i, message in enumerate(messages):
        role = message.get("role")
        if role == "user":
            turns.append(AgentTurn("user", i, text_of(message.get("content"))))
        elif role == "assistant":
            results = _results(messages, i)
            calls = []
            for position, (id_, tool, arguments) in enumerate(named_calls(message)):
                key = (id_, tool, arguments)
                seen[key] = seen.get(key, 0) + 1
                result = results.get(id_) if id_ else _legacy(messages, i, tool, position)
                calls.append(CalledTool(id_, tool, arguments, i, result, seen[key]))
            turns.append(AgentTurn("assistant", i, text_of(message.get("content")), tuple(calls)))
    return turns


def turns_of(exchange: Exchange, messages: Sequence[Message]) -> list[AgentTurn]:
    """`read_turns`, of `messages` of an exchange that several stages read."""
    return exchange.once("turns", (messages,), partial(read_turns, messages))


def calls_in(turns: Iterable[AgentTurn]) -> list[CalledTool]:
    """Every call, in order."""
    return [call for turn in turns for call in turn.calls]


def _results(messages: Sequence[Message], start: int) -> dict[str, ToolResult]:
    """The results that follow the assistant message at `start`, by call id."""
    found: dict[str, ToolResult] = {}
    for i in range(start + 1, len(messages)):
        if messages[i].get("role") not in ("tool", "function"):
            break
        id_ = messages[i].get("tool_call_id")
        if isinstance(id_, str):
            found.setdefault(id_, ToolResult(i, text_of(messages[i].get("content")), messages[i].get("is_error") is True))
    return found


def _legacy(messages: Sequence[Message], start: int, tool: str, position: int) -> ToolResult | None:
    """The result of a call without an id: the message of the role ``function`` that follows."""
    i = start + 1 + position
    if i < len(messages) and messages[i].get("role") in ("function", "tool") and messages[i].get("name", tool) == tool:
        return ToolResult(i, text_of(messages[i].get("content")))
    return None
