"""What the stage `clash` tells: the verdict's detail for the record, bounded and without the conversation's text, and the counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.exchange import Outcome
from proxy.ports import ClashRecord, Counters
from proxy.stages.clash.ledger import Entry

MAX_LISTED = 20
UNRESOLVED, ASKED, UNCHECKED, FOUND = "clash_unresolved", "clash_asked", "clash_unchecked", "CLASH"


def judged(entries: Sequence[Entry], still_open: Sequence[Entry], problem: str, *, asked: bool) -> tuple[Outcome, str]:
    """The verdict's outcome and code: an error where a pair could not be judged, else a warning where a clash is still open."""
    if problem:
        return "error", UNCHECKED
    if asked:
        return "warn", ASKED
    if still_open:
        return "warn", UNRESOLVED
    return "pass", FOUND if entries else ""


def detail_of(entries: Sequence[Entry], statements: int, pairs: int, problem: str, taken_out: int) -> dict[str, Any]:
    """For the record."""
    detail: dict[str, Any] = {"statements": statements, "pairs_judged": pairs, "found": len(entries), "taken_out": taken_out}
    if problem:
        detail["problem"] = problem
    if entries:
        detail["clashes"] = [_listed(entry) for entry in entries[-MAX_LISTED:]]
    return detail


def _listed(entry: Entry) -> dict[str, Any]:
    record = entry.record
    told = {
        "id": record.id, "type": record.type, "topic": record.topic, "strategy": record.strategy, "status": record.status,
        "resolution": record.resolution, "reason": record.reason, "score": record.detail.get("score"),
        "older": _place(record.older), "newer": _place(record.newer),
    }  # fmt: skip
    return {**told, **({"critical": True} if record.critical else {}), **({"by": record.resolved_by} if record.resolved_by else {})}


def _place(side: Any) -> dict[str, Any]:
    return {"origin": side.get("origin"), "message": side.get("message"), "span": [side.get("start"), side.get("end")]}


def count_found(counters: Counters, record: ClashRecord) -> None:
    """A clash that was not known before, and what the policy made of it."""
    counters.count("clash.found_count")
    counters.count(f"clash.found_{record.type.lower()}_count")
    if record.critical:
        counters.count("clash.found_critical_count")
    if record.status == "resolved":
        counters.count("clash.auto_resolved_count")
        counters.count(f"clash.auto_resolved_{record.strategy}_count")
        counters.count(f"clash.auto_resolved_{record.type.lower()}_count")


def count_asked(counters: Counters, record: ClashRecord) -> None:
    """The user is asked."""
    counters.count("clash.asked_count")
    counters.count(f"clash.asked_{record.type.lower()}_count")


def count_answered(counters: Counters, record: ClashRecord) -> None:
    """The user's reply was understood."""
    counters.count("clash.user_resolved_count")
    counters.count(f"clash.user_resolved_{record.type.lower()}_count")
