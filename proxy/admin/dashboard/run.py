"""A run's page: its exchanges and its failure records on one time line, and how its context grew.

Failure records come from whoever keeps them (`FailuresOfRun`); without one, the time line has exchanges only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from proxy.admin.dashboard.rendering import run_path, with_query
from proxy.admin.dashboard.summaries import WORDS, RecordSummary, summary
from proxy.store.records import Record

Failure: TypeAlias = Mapping[str, Any]
FailuresOfRun: TypeAlias = Callable[[str], Awaitable[Sequence[Failure]]]
"""Of a run's id: its failure records, with ``id``, ``signal_type``, ``code``, ``severity``, ``subject``, ``status``, ``occurrence_count``,
``created_at``, ``last_seen_at`` (seconds since the epoch) and ``recommended_adjustment``."""
PER_PAGE = 100
_OVER = ("resolved", "superseded")


class Turn(Struct, frozen=True):
    """One exchange of the run."""

    summary: RecordSummary
    step: str
    changed: str
    """What the stages changed, in few words: guidance about failures is among it."""
    asked: bool
    """Whether its question is another than that of the turn before."""


def run_page(run_id: str, records: Sequence[Record], failures: Sequence[Failure], more: bool, after: str) -> dict[str, Any]:
    """What ``run.html`` shows; `records` newest first. Without a time line nothing is known of the run."""
    if not records and not failures:
        return {"run_id": run_id, "timeline": ()}
    rows = [summary(record) for record in records]
    times = [s.at for s in rows] + [_created_at(failure) for failure in failures]
    costs = [s.usd for s in rows if s.usd is not None]
    return {
        "run_id": run_id,
        "timeline": _timeline(records, rows, failures),
        "began": min(times),
        "last_seen": max(times),
        "exchanges": len(rows),
        "ended": ", ".join(f"{count:,} {name}" for name, count in Counter(s.outcome for s in rows).most_common()),
        "failures": len(failures),
        "unresolved": sum(str(failure.get("status", "")) not in _OVER for failure in failures),
        "prompt_tokens": sum(s.tokens or 0 for s in rows),
        "completion_tokens": sum(s.answer or 0 for s in rows),
        "usd": sum(costs) if costs else None,
        "provider_ms": sum(s.ms - (s.own_ms or 0.0) for s in rows),
        "plotted": [s for s in rows if s.share is not None],
        "more": more,
        "after": after,
        "older": with_query(run_path(run_id), after=rows[-1].id) if more else "",
    }


def _timeline(
    records: Sequence[Record], rows: Sequence[RecordSummary], failures: Sequence[Failure]
) -> list[tuple[float, Turn | None, Failure | None]]:
    found: list[tuple[float, Turn | None, Failure | None]] = [(_created_at(failure), None, failure) for failure in failures]
    question = ""
    for record, s in sorted(zip(records, rows, strict=True), key=lambda one: one[1].at):
        turn = Turn(s, record.step_id, _changed(record.found.changes), bool(s.question) and s.question != question)
        found.append((s.at, turn, None))
        question = s.question
    return sorted(found, key=lambda entry: entry[0])


def _changed(changes: Sequence[Mapping[str, Any]]) -> str:
    words = [WORDS["changed"].get(str(one.get("stage"))) or f"{one.get('what', '')} (by {one.get('stage', '')})" for one in changes]
    return ", ".join(dict.fromkeys(words))


def _created_at(failure: Failure) -> float:
    value = failure.get("created_at")
    return float(value) if isinstance(value, int | float) else 0.0
