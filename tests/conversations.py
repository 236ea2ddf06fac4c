"""Conversations for tests: random ones that the chat API accepts, a growing one, and one recorded run of an agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Message = dict[str, Any]
AIRLINE = Path(__file__).parent / "data" / "tau_airline_run.json"
_WORDS = "flight hotel refund Tuesday 450 EUR booking A-1234 please not customer prefers window seat order".split()  # noqa: SIM905


def airline_run() -> list[Message]:
    return json.loads(AIRLINE.read_text(encoding="utf-8"))["messages"]


def said(role: str, count: int, start: str = "") -> Message:
    """A message of `count` words."""
    words = [start] * bool(start) + [_WORDS[i % len(_WORDS)] for i in range(count - bool(start))]
    return {"role": role, "content": " ".join(words)}


def step(number: str, words: int, calls: int = 1) -> list[Message]:
    """An assistant message that calls tools, with their results."""
    ids = [f"call_{number}_{i}" for i in range(calls)]
    asked = [{"id": id_, "type": "function", "function": {"name": "lookup", "arguments": f'{{"id": "{id_}"}}'}} for id_ in ids]
    results = [{"role": "tool", "tool_call_id": id_, "content": f"{id_} " + said("tool", words)["content"]} for id_ in ids]
    return [{"role": "assistant", "content": None, "tool_calls": asked}, *results]


def turns(count: int, words: int = 40, tool_words: int = 0) -> list[Message]:
    """`count` turns of a user and an assistant, with a tool step in between where `tool_words` says so, and a last question."""
    found = [said("system", 20)]
    for i in range(count):
        found.append(said("user", words, f"question-{i}"))
        found += step(str(i), tool_words) if tool_words else []
        found.append(said("assistant", words, f"answer-{i}"))
    return [*found, said("user", 10, "last-question")]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Up to 30 blocks in any order that the API accepts, with system messages anywhere and every length of message."""
    found: list[Message] = []
    kinds = draw(st.lists(st.sampled_from(["system", "user", "assistant", "step", "steps"]), min_size=1, max_size=30))
    for i, kind in enumerate(kinds):
        words = draw(st.sampled_from([0, 1, 5, 30, 200]))
        if kind in ("step", "steps"):
            found += step(str(i), words, 1 if kind == "step" else 3)
        else:
            found.append(said(kind, words, f"m{i}"))
    return found
