"""Loops and a person's corrections as failures: what `loops` and `corrections` found in the turns.

In: turns. Out: `Failure`s with the message at which each came to light.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from proxy.language.json.fingerprint import fingerprint, identifier
from proxy.ports.failure_kinds import Failure, Severity
from proxy.stages.reflection.corrections import Correction, read_correction
from proxy.stages.reflection.failures import adjustments
from proxy.stages.reflection.failures.steps import AgentTurn
from proxy.stages.reflection.signals.calls import action_of, refs_of
from proxy.stages.reflection.signals.loops import Loop

_SEVERE: Mapping[str, Severity] = {"alternating": "high", "no_progress": "high", "same_chunks": "low"}


def of_loop(loop: Loop) -> Failure:
    """Of a loop, as far as it has come: with every further round it occurs once more."""
    last = loop.calls[-1] if loop.calls else None
    subject = identifier(loop.tool) if loop.tool else ""
    action = {"kind": "answer"} if last is None else action_of(last)
    refs = ({"kind": "message", "message": loop.messages[-1]},) if last is None else refs_of(last)
    keys = _keys(loop)
    cause = fingerprint("loop", loop.code, loop.tool, str(loop.messages[-1]) if last is None else last.cause)
    return Failure(
        signal_type="loop",
        code=loop.code,
        severity=_SEVERE.get(loop.code, "medium"),
        phase="request",
        subject=subject,
        attempted_action=action,
        observed_outcome={"code": loop.code, "times": loop.count},
        recommended_adjustment=_instead(loop),
        context_refs=refs,
        fingerprint=fingerprint("loop", loop.code, loop.tool, keys),
        action_key="" if last is None else last.key,
        cause=cause,
        position=_end(loop),
    )


def corrections(turns: Sequence[AgentTurn], tools: Sequence[str]) -> list[Failure]:
    """Of what users said against the assistant's turn before."""
    found = []
    for before, turn in itertools.pairwise(turns):
        if turn.role == "user" and before.role == "assistant":
            read = read_correction(turn.text, tools)
            if read is not None:
                found.append(_of_correction(read, turn, before))
    return found


def _of_correction(read: Correction, turn: AgentTurn, before: AgentTurn) -> Failure:
    given: dict[str, Any] = {"cap": read.cap} if read.cap is not None and read.cap_of == "results" else {}
    for name in ("forbidden_tool", "wanted_tool"):
        if value := getattr(read, name):
            given[name] = identifier(value)
    tool = identifier(read.forbidden_tool) if read.forbidden_tool else ""
    start, end = read.span
    return Failure(
        signal_type="human_correction",
        code=read.kind,
        severity="high" if read.kind == "override" else "medium",
        phase="request",
        subject=tool,
        attempted_action={"kind": "answer", "message": before.message},
        observed_outcome={"code": read.kind},
        recommended_adjustment={"type": "follow_correction", "message": turn.message, **given},
        context_refs=({"kind": "message", "message": turn.message, "span": [start, end]},),
        fingerprint=fingerprint("human_correction", read.kind, tool, given),
        cause=fingerprint("said", "", "", turn.text, detail=str(turn.message)),
        position=turn.message,
    )


def _keys(loop: Loop) -> list[str]:
    """Of the actions that the loop is made of, the same however long it has become."""
    if loop.code in ("same_query", "same_chunks"):
        return [call.key for call in loop.calls[:1]]
    return [] if loop.code == "no_progress" else sorted({call.key for call in loop.calls})


def _instead(loop: Loop) -> Mapping[str, Any]:
    first = loop.calls[0] if loop.calls else None
    if loop.code in ("same_call", "same_chunks") and first is not None and first.result is not None:
        named = {"tool_call_id": identifier(first.id)} if first.id else {}
        return {"type": "use_result", "message": first.result.message, **named}
    if loop.code == "same_query" and first is not None:
        return adjustments.rephrase(first.parsed or {})
    return {"type": "ask_human" if loop.code == "no_progress" else "stop_repeating"}


def _end(loop: Loop) -> int:
    last = loop.calls[-1] if loop.calls else None
    return loop.messages[-1] if last is None or last.result is None else max(loop.messages[-1], last.result.message)
