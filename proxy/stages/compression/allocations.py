"""Components of the prompt that take more than their allocation: brought back to it, each by what it can lose.

The conversation is compressed as at a threshold, towards a goal of its own. Tools keep their names and parameters and lose words of their
descriptions, level by level, those first that are missed least: of parameters all but some sentences, then of the tools themselves, then
the parameters' descriptions. The client sends them whole on every turn. Of memories of the user the oldest lines go to the scratchpad, and
a reference stays. A system message's own words and the user's last message are never shortened: the budget warns of those.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.context.archive import REFERENCE_TOKENS, reference
from proxy.context.compaction.parts import use_of
from proxy.context.conversation import last_user
from proxy.context.edits import Edit, apply_edits
from proxy.context.pieces import PREFERENCES, ContextPiece, memories_in
from proxy.errors import StoreUnavailable
from proxy.exchange import ContextUse, Evidence, Exchange, Tool
from proxy.exchange.answers import OutputRequirements
from proxy.language.text import split_sentences, text_of
from proxy.ports import Ports

HISTORY, TOOLS, FREE = "conversation_history", "tool_descriptions", "available_for_tools"


class CompressionGoal(Struct, frozen=True):
    """In tokens: what a compression aims for."""

    total: int
    """Of the prompt."""
    history: int | None = None
    """Of the conversation alone, where it has an allocation that it passes."""

    def excess(self, use: ContextUse, reader_tokens: int = 0) -> int:
        """How much too large `use` is; the tool that reads the archive counts towards the prompt, and not to the conversation."""
        over = use.used_tokens + reader_tokens - self.total
        return over if self.history is None else max(over, use.components.get(HISTORY, 0) - self.history)


def exceeded_allocations(use: ContextUse, allocations: Mapping[str, int]) -> list[str]:
    """Of the allocations that folding the conversation helps, those that `use` passes."""
    found = [HISTORY] if use.components.get(HISTORY, 0) > allocations.get(HISTORY, use.used_tokens) else []
    free = allocations.get(FREE)
    return found + ([FREE] if free and use.window_tokens is not None and use.window_tokens - use.used_tokens < free else [])


def goal_of(over: Sequence[str], use: ContextUse, allocations: Mapping[str, int], most: int, leave: float) -> CompressionGoal:
    """To what a prompt is folded that passes the allocations `over`: a share `leave` of each, so that the next turns have room."""
    total = most
    if FREE in over and use.window_tokens is not None:
        total = min(total, max(0, int((use.window_tokens - allocations[FREE]) * leave)))
    return CompressionGoal(total, int(allocations[HISTORY] * leave) if HISTORY in over else None)


async def fit_tools(exchange: Exchange, ports: Ports, most: int) -> dict[str, Any] | None:
    """Shorten the descriptions of the client's tools until all of them take at most `most` tokens; what was done, None for nothing.

    Where that is not enough they stay as they are. The same tools are shortened in the same way on every turn.
    """
    model = ports.tokens.model(exchange.model)

    async def size(tools: Sequence[Tool]) -> int:
        return (await ports.tokens.count_request((), tools, OutputRequirements(), model)).components.get(TOOLS, 0)

    before = await size(exchange.tools)
    if before <= most:
        return None
    own = {id(tool) for tool in exchange.original.tools}
    tools = await fitting_tools(exchange.tools, [id(tool) in own for tool in exchange.tools], most, size)
    if tools is None:
        return None
    count = sum(a is not b for a, b in zip(tools, exchange.tools, strict=True))
    exchange.tools = tools
    exchange.changes.append({"stage": "compression", "what": "tools", "shortened": count})
    return {"before_tokens": before, "after_tokens": await size(tools), "tools": count}


# ---- memories ----


async def fit_preferences(exchange: Exchange, ports: Ports, most: int) -> dict[str, Any] | None:
    """Archive the oldest lines of the user's memories until they take at most `most` tokens; what was done, None for nothing.

    At least the last line of each stays, and what stands in the user's last message. The same memory is cut in the same place on every
    turn. Raises `StoreUnavailable`.
    """
    before = (await use_of(exchange, ports, exchange.messages, ())).components.get(PREFERENCES, 0)
    model, excess = ports.tokens.model(exchange.model), before - most
    edits, evidence = [], []
    for piece in _memories(exchange) if excess > 0 else ():
        lines = piece.text.splitlines(keepends=True)
        cut, freed = 0, -REFERENCE_TOKENS
        while cut < len(lines) - 1 and freed < excess:
            freed += ports.tokens.count_text(lines[cut], model)
            cut += 1
        if freed <= 0:
            continue
        left_out = "".join(lines[:cut])
        item = await ports.scratchpad.put(left_out.encode("utf-8", "surrogatepass"), client=exchange.client, run_id=exchange.run_id)
        edits.append(Edit(piece, 0, len(left_out), reference(item, "user preferences", len(left_out.encode())) + "\n"))
        evidence.append(Evidence(left_out, source="memory", kind="user", message_index=piece.message))
        excess -= freed
    if not apply_edits(exchange, "compression", edits):
        return None
    exchange.evidence = (*exchange.evidence, *evidence)
    after = (await use_of(exchange, ports, exchange.messages, ())).components.get(PREFERENCES, 0)
    return {"before_tokens": before, "after_tokens": after, "memories": len(edits)}


def _memories(exchange: Exchange) -> list[ContextPiece]:
    """The marked sections outside of the last user message, in order."""
    last = last_user(exchange.conversation)
    found = []
    for i, message in enumerate(exchange.conversation):
        if i == last or message.get("role") not in ("system", "developer", "user", "assistant"):
            continue
        text = text_of(message.get("content"))
        kind = "system" if message.get("role") in ("system", "developer") else "user"
        found += [ContextPiece(kind, text[a:b], "", message=i, start=a, end=b) for a, b in memories_in(text)]  # type: ignore[arg-type]
    return found


class AllocationFit(Struct, frozen=True):
    """What was done about components above their allocation."""

    steps: Sequence[dict[str, Any]] = ()
    """For the record."""
    names: tuple[str, ...] = ()
    """The components."""
    problem: str = ""
    """``store-unavailable``"""

    @property
    def strategies(self) -> tuple[str, ...]:
        """As the header names them."""
        return tuple(step["strategy"] for step in self.steps)


async def fit(exchange: Exchange, ports: Ports, allocations: Mapping[str, int]) -> AllocationFit:
    """Bring tools and memories back to their allocations."""
    steps, fitted, problem = [], [], ""
    for name, shorten, strategy in ((TOOLS, fit_tools, "shorten"), (PREFERENCES, fit_preferences, "archive")):
        if name not in allocations:
            continue
        try:
            done = await shorten(exchange, ports, allocations[name])
        except StoreUnavailable:
            problem = "store-unavailable"
            continue
        if done is not None:
            steps.append({"strategy": strategy, "component": name, **done})
            fitted.append(name)
    return AllocationFit(tuple(steps), tuple(fitted), problem)


Size = Callable[[Sequence[Tool]], Awaitable[int]]
"""Tokens of tools in a prompt."""
_ALL = 10**6
LEVELS = ((_ALL, _ALL), (3, _ALL), (2, _ALL), (1, _ALL), (1, 16), (1, 8), (1, 4), (1, 3), (1, 2), (1, 1), (0, 1))
"""Most sentences of a parameter's description, and of a tool's. The first is the tools as they came."""
_OPAQUE = frozenset(("default", "example", "examples", "const", "enum"))
"""Keys of a schema below which nothing is a schema."""


async def fitting_tools(tools: Sequence[Tool], own: Sequence[bool], most: int, size: Size) -> tuple[Tool, ...] | None:
    """`tools` with shorter descriptions of those that are the client's `own`, so that all take at most `most` tokens; None where none are
    short enough."""

    def at(level: int) -> tuple[Tool, ...]:
        return tuple(shorten_tool(tool, *LEVELS[level]) if mine else tool for tool, mine in zip(tools, own, strict=True))

    low, high = 0, len(LEVELS) - 1  # `low` is too long
    if await size(at(high)) > most:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if await size(at(middle)) <= most else (middle, high)
    return at(high)


def shorten_tool(tool: Tool, parameter_sentences: int, sentences: int) -> Tool:
    """`tool` with so many sentences of its description, and of its parameters'; the tool itself where it has no more."""
    kind = str(tool.get("type", "function"))
    function = tool.get(kind)
    if not isinstance(function, Mapping):
        return tool
    new = dict(function)
    if isinstance(new.get("parameters"), Mapping):
        new["parameters"] = _schema(new["parameters"], parameter_sentences)
    if isinstance(new.get("description"), str):
        new["description"] = _first(new["description"], sentences)
    return tool if new == function else {**tool, kind: new}


def _schema(value: Any, sentences: int, *, names: bool = False) -> Any:
    """A schema whose descriptions have at most so many sentences; with `names`, an object whose keys are parameters' names."""
    if isinstance(value, list):
        return [_schema(item, sentences) for item in value]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if names:
            found[key] = _schema(inner, sentences)
        elif key == "description" and isinstance(inner, str):
            found |= {key: _first(inner, sentences)} if sentences else {}
        else:
            inside = key in ("properties", "$defs", "definitions", "patternProperties")
            found[key] = inner if key in _OPAQUE else _schema(inner, sentences, names=inside)
    return found


def _first(text: str, sentences: int) -> str:
    parts = split_sentences(text.strip())
    return text if len(parts) <= sentences else "".join(parts[:sentences]).strip()
