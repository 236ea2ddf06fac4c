"""Tools whose descriptions lose as few words as bring them to a number of tokens; names and parameters stay.

Words go level by level, those first that are missed least: of parameters all but some sentences, then of the tools themselves, then the
parameters' descriptions. Of the level that is enough only as many tools take part as it needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from proxy.exchange import Tool
from proxy.language.text import split_sentences

Size = Callable[[Sequence[Tool]], Awaitable[int]]
"""Tokens of tools in a prompt."""
_ALL = 10**6
LEVELS = ((_ALL, _ALL), (3, _ALL), (2, _ALL), (1, _ALL), (1, 16), (1, 8), (1, 4), (1, 3), (1, 2), (1, 1), (0, 1))
"""Most sentences of a parameter's description, and of a tool's. The first is the tools as they came."""
_TRIES = 4
"""Tools taken in addition where those that should be enough by their own sizes are not: sizes do not quite add up."""
_OPAQUE = frozenset(("default", "example", "examples", "const", "enum"))
"""Keys of a schema below which nothing is a schema."""


async def fitting_tools(tools: Sequence[Tool], own: Sequence[bool], most: int, size: Size) -> tuple[Tool, ...] | None:
    """`tools` with shorter descriptions of those that are the client's `own`, so that all take at most `most` tokens; None where none are
    short enough."""

    def at(level: int) -> tuple[Tool, ...]:
        return tuple(shortened(tool, *LEVELS[level]) if mine else tool for tool, mine in zip(tools, own, strict=True))

    low, high = 0, len(LEVELS) - 1  # `low` is too long
    if await size(at(high)) > most:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if await size(at(middle)) <= most else (middle, high)
    return await _between(at(low), at(high), most, size)


async def _between(longer: Sequence[Tool], shorter: Sequence[Tool], most: int, size: Size) -> tuple[Tool, ...]:
    """As many of the `longer` tools as fit: those give most way that have most words to lose, and of the last only what is missing."""
    saved = [0 if a == b else await size([a]) - await size([b]) for a, b in zip(longer, shorter, strict=True)]
    order = sorted(range(len(saved)), key=lambda i: (-saved[i], i))
    excess, taken = await size(longer) - most, 0
    while taken < len(order) and excess > saved[order[taken]]:
        excess -= saved[order[taken]]
        taken += 1
    enough = [i for i in order[taken:] if saved[i] >= excess]
    chosen = {*order[:taken], *enough[-1:]}
    spare = [i for i in order if saved[i] and i not in chosen]
    for _ in range(_TRIES):
        tools = tuple(shorter[i] if i in chosen else tool for i, tool in enumerate(longer))
        if await size(tools) <= most:
            return tools
        chosen.update(spare[-1:])
        spare = spare[:-1]
    return tuple(shorter)


def shortened(tool: Tool, parameter_sentences: int, sentences: int) -> Tool:
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
