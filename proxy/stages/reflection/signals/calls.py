"""Failures of single tool calls in a conversation: their results report errors, or are empty or score low where something was searched for.

In: turns and the tools that are offered now. Out: one `Failure` a failing call, in order, and what the other calls came to.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.exchange import Tool
from proxy.language.json.fingerprint import described, fingerprint, identifier
from proxy.language.lru import LRU
from proxy.ports.failure_kinds import Failure, Severity
from proxy.stages.reflection.error_kinds import ToolFailure
from proxy.stages.reflection.failures import adjustments
from proxy.stages.reflection.failures.steps import CalledTool
from proxy.stages.reflection.results import read_result
from proxy.stages.reflection.signals.scores import RetrievalScore, score_in, threshold_in

_SEVERE: Mapping[str, Severity] = {
    "permission_denied": "high",
    "missing_pointer": "high",
    "exception": "medium",
    "error": "medium",
    "error_code": "medium",
    "timeout": "medium",
    "rate_limited": "medium",
    "unavailable": "high",
    "not_found": "low",
    "invalid_arguments": "medium",
    "output_too_large": "medium",
    "empty_result": "low",
    "low_relevance": "low",
}
SEARCHED_IN_VAIN = ("empty_result", "low_relevance")
"""Codes of a search that worked and brought too little."""


class Outcomes(Struct, frozen=True):
    """What became of the calls of a conversation."""

    failed: tuple[tuple[CalledTool, Failure], ...]
    succeeded: tuple[CalledTool, ...]
    """Those with a result that reports no failure."""


class ResultReader:
    """Reads results, and remembers what it has read: a conversation's old results come again with every turn. For several threads."""

    def __init__(self, size: int = 4096, *, min_score: float = 0.0) -> None:
        """`min_score` is what the best score of a search must reach, where neither the call nor its result says so."""
        self._read: LRU[ToolFailure | RetrievalScore | bool] = LRU(size)
        self._lock = threading.Lock()
        self._min_score = min_score

    def read(self, text: str, *, retrieval: bool, min_score: float | None = None) -> ToolFailure | None:
        """As `read_result`, and whether a search's scores are too low. `min_score` is the call's own."""
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=b"r" if retrieval else b"t").digest()
        with self._lock:
            kept = self._read.get(key)
        if kept is None:
            kept = read_result(text, retrieval=retrieval) or (retrieval and score_in(text)) or False
            with self._lock:
                self._read.put(key, kept)
        if isinstance(kept, RetrievalScore) and (least := kept.short_of(min_score, self._min_score)) is not None:
            return ToolFailure("low_relevance", score=round(kept.best, 4), min_score=least)
        return kept if isinstance(kept, ToolFailure) else None


def outcomes(calls: Sequence[CalledTool], tools: Sequence[Tool], retrieves: Callable[[str], bool], reader: ResultReader) -> Outcomes:
    """Read the results of `calls`; `retrieves` tells whether a tool of that name searches."""
    failed: list[tuple[CalledTool, Failure]] = []
    succeeded: list[CalledTool] = []
    for call in calls:
        if call.result is None:
            continue
        retrieval = retrieves(call.tool)
        asked = threshold_in(call.parsed) if retrieval else None
        finding = reader.read(call.result.text, retrieval=retrieval, min_score=asked) or (
            ToolFailure("error") if call.result.failed else None
        )
        if finding is None:
            succeeded.append(call)
        else:
            failed.append((call, _failure(call, finding, tools)))
    return Outcomes(tuple(failed), tuple(succeeded))


def action_of(call: CalledTool) -> dict[str, Any]:
    """A call as a record's ``attempted_action``."""
    ids = [identifier(call.id)] if call.id else []
    given = described(call.parsed) if call.parsed is not None else {"unreadable_characters": len(call.arguments)}
    return {"kind": "tool_call", "tool": identifier(call.tool), "tool_call_ids": ids, "arguments": given}


def refs_of(call: CalledTool) -> tuple[dict[str, Any], ...]:
    """Where a call and its result stand."""
    called: dict[str, Any] = {"kind": "tool_call", "message": call.message, **({"tool_call": identifier(call.id)} if call.id else {})}
    return (called,) if call.result is None else (called, {"kind": "message", "message": call.result.message})


def named_arguments(call: CalledTool) -> object:
    """What goes into a fingerprint: the parsed arguments, or the text that cannot be parsed."""
    return call.arguments if call.parsed is None else call.parsed


def _failure(call: CalledTool, finding: ToolFailure, tools: Sequence[Tool]) -> Failure:
    retrieval = finding.code in SEARCHED_IN_VAIN
    signal, arguments = ("retrieval_failure" if retrieval else "tool_error"), call.parsed or {}
    outcome: dict[str, Any] = {"code": finding.code}
    for name in ("status", "exception", "retry_after_s", "pointer", "argument", "score", "min_score"):
        if (value := getattr(finding, name)) not in (None, ""):
            outcome[name] = identifier(value) if isinstance(value, str) else value
    known = {"argument": finding.argument, "retry_after_s": finding.retry_after_s}
    adjustment = (
        adjustments.rephrase(arguments) if retrieval else adjustments.for_tool_error(finding.code, call.tool, arguments, tools, **known)
    )
    detail = "/".join(str(part) for part in (finding.status, finding.exception) if part)
    return Failure(
        signal_type="retrieval_failure" if retrieval else "tool_error",
        code=finding.code,
        severity=_SEVERE.get(finding.code, "medium"),
        phase="tool",
        subject=identifier(call.tool),
        attempted_action=action_of(call),
        observed_outcome=outcome,
        recommended_adjustment=adjustment,
        context_refs=refs_of(call),
        fingerprint=fingerprint(signal, finding.code, call.tool, named_arguments(call), detail=detail),
        action_key=call.key,
        cause=call.cause,
        position=call.message if call.result is None else call.result.message,
    )
