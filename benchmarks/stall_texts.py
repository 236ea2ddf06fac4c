"""Texts that are meant to make a reader slow, each by a small function of its own, and the places of an exchange to put them in.

`TEXTS` maps a name to a function of the number of characters; the same name and number give the same text. Most repeat a short text
(`benchmarks.stall_units`); others (`benchmarks.stall_shapes`) grow in ways that repetition does not: nested, shuffled, ever different,
nearly alike, or in two parts that have to be compared. `request_of` puts a text into one of the five `PLACES`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import getmembers, isfunction
from typing import Any, NamedTuple

from benchmarks import stall_shapes
from benchmarks.stall_shapes import FACT, WORDS, repeated
from benchmarks.stall_units import UNITS

Maker = Callable[[int], str]
PLACES = ("user", "context", "tool result", "tool", "answer")
MANY = ("parts", "turns")
"""Places that a text is cut up for: tens of thousands of small ones cost what their number does, and not their length."""
PIECE_CHARS = 8
QUESTION = "What does the record say of the Eiffel Tower, and how many steps has it in total?"


SHAPES: tuple[Maker, ...] = tuple(
    made for name, made in getmembers(stall_shapes, isfunction) if not name.startswith("_") and made is not repeated
)
TEXTS: dict[str, Maker] = {
    **{name: partial(repeated, unit) for name, unit in UNITS.items()},
    **{made.__name__.replace("_", " "): made for made in SHAPES},
}


class Asked(NamedTuple):
    """One request and the answer that the upstream gives."""

    body: dict[str, Any]
    answer: str


def _tool(i: int, description: str, key: str = "x") -> dict[str, Any]:
    parameters = {"type": "object", "properties": {key: {"type": "string", "description": description[:2000]}}}
    return {"type": "function", "function": {"name": f"tool_{i}", "description": description, "parameters": parameters}}


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]


def request_of(place: str, text: str, *, stream: bool = False) -> Asked:
    """A request with `text` in one of the `PLACES`, or in `MANY` pieces."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    context, tools, answer = [FACT], list[Any](), "The Eiffel Tower stands in Paris. It has 1,665 steps in total."
    if place == "user":
        messages = [{"role": "user", "content": f"{text}\n\n{QUESTION}"}]
    elif place == "context":
        messages.insert(0, {"role": "system", "content": text[: len(text) // 2]})
        context.append(text[len(text) // 2 :])
    elif place == "tool result":
        call = {"id": "c1", "type": "function", "function": {"name": "search_records", "arguments": '{"q": "tower"}'}}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": text}]
    elif place == "tool":
        tools = [_tool(0, text, text[:60]), *(_tool(i, f"{WORDS[i % 16]} {i}") for i in range(1, 35))]
    elif place == "answer":
        answer = text
    elif place == "parts":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": piece} for piece in _pieces(text)]})
    elif place == "turns":
        messages[:0] = [{"role": ("user", "assistant")[i % 2], "content": piece} for i, piece in enumerate(_pieces(text))]
    body = {"model": "stall-model", "messages": messages, "groundwire": {"context": [{"content": one} for one in context]}}
    return Asked({**body, **({"tools": tools} if tools else {}), **({"stream": True} if stream else {})}, answer)
