"""Caps on an answer's tool calls. Pure: an answer and caps in, the changed answer and what was changed out."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.exchange import Answer, Tool
from proxy.stages.reflection.failures.overrides import Cap, Capped, enforce


def cap_answer(answer: Answer, caps: Sequence[Cap], tools: Sequence[Tool]) -> tuple[Answer, list[Capped]]:
    """The same answer where no call asks for more than it may."""
    changed: list[Capped] = []
    for choice in answer.choices:
        calls = []
        for call in choice.tool_calls:
            new, capped = enforce(call, caps, tools)
            calls.append(new)
            changed += capped
        if any(new is not old for new, old in zip(calls, choice.tool_calls, strict=True)):
            answer = answer.with_calls(choice.index, tuple(calls))
    return answer, changed
