"""What the stage `clash` tells: the verdict's detail for the record, bounded and without the conversation's text, counters, and a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.exchange import Outcome
from proxy.language.amounts import number
from proxy.ports import ClashRecord, Counters
from proxy.ports.panels import Bucket, Lines, Panel, StagePanel, drawn, most_common
from proxy.ports.stage import CounterFamily
from proxy.stages.clash.ledger import LedgerEntry

MAX_LISTED = 20
REMOVED, NOTED, ASKED, UNRESOLVED = "clash_removed", "clash_noted", "clash_asked", "clash_unresolved"
UNCHECKED, FOUND, SKIPPED = "clash_unchecked", "CLASH", "clash_skipped"
_LEFT_OPEN = ("timeout", "not_judged")
"""Problems by which something was skipped; by any other nothing could be checked."""
_CLASHES = ("contradictory_preferences", "conflicting_facts", "outdated_information", "duplicate_facts")
COUNTERS = {
    "clash.found_count": "clashes found",
    "clash.found_critical_count": "clashes found that are critical",
    "clash.auto_resolved_count": "clashes that the policy resolved",
    "clash.asked_count": "clashes about which the user was asked",
    "clash.user_resolved_count": "clashes that the user resolved",
    **{
        f"clash.{what}_{name}_count": f"of them: {name}"
        for what in ("found", "auto_resolved", "asked", "user_resolved")
        for name in _CLASHES
    },
    **{f"clash.auto_resolved_{name}_count": f"of them: by {name}" for name in ("prefer_recent", "merge")},
}
FAMILIES = (
    CounterFamily("groundwire_clash_types", "Clashes found, by type", "type", rf"clash\.found_({'|'.join(_CLASHES)})_count"),
    CounterFamily(
        "groundwire_clash_strategies",
        "Clashes that the policy resolved, by strategy",
        "strategy",
        r"clash\.auto_resolved_(prefer_recent|merge|ask_user)_count",
    ),
)


class ClashActions(Struct, frozen=True):
    """What the stage did about a request's clashes."""

    asked: bool = False
    removed: int = 0
    """Statements that were taken out."""
    noted: int = 0
    """Notes that the model gets."""
    open: int = 0
    """Clashes that are certain, and that nobody has decided."""
    skipped: int = 0
    """Sentences and pairs that were not looked at."""
    problem: str = ""
    insists: bool = False
    """Whether the policy refuses what could not be checked."""


def codes_of(entries: Sequence[LedgerEntry], done: ClashActions) -> list[tuple[Outcome, str]]:
    """The verdicts' outcomes and codes, the one that tells most first: whatever was done is a warning, what was only found is none."""
    found: list[tuple[Outcome, str]] = []
    if done.problem and (done.insists or done.problem not in _LEFT_OPEN):
        found.append(("error", UNCHECKED))
    warnings = ((done.asked, ASKED), (done.removed, REMOVED), (done.noted, NOTED), (done.open and not done.asked, UNRESOLVED))
    found += [("warn", code) for there, code in warnings if there]
    if found:
        return found
    if done.skipped or done.problem:
        return [("pass", SKIPPED)]
    return [("pass", FOUND if entries else "")]


def detail_of(entries: Sequence[LedgerEntry], statements: int, pairs: int, done: ClashActions) -> dict[str, Any]:
    """For the record."""
    detail: dict[str, Any] = {"statements": statements, "pairs_judged": pairs, "found": len(entries), "taken_out": done.removed}
    more = {"noted": done.noted, "skipped": done.skipped, "problem": done.problem}
    detail |= {name: value for name, value in more.items() if value}
    if entries:
        detail["clashes"] = [_listed(entry) for entry in entries[-MAX_LISTED:]]
    return detail


def _listed(entry: LedgerEntry) -> dict[str, Any]:
    record = entry.record
    told = {
        "id": record.id,
        "type": record.type,
        "topic": record.topic,
        "strategy": record.strategy,
        "status": record.status,
        "resolution": record.resolution,
        "reason": record.reason,
        "score": record.detail.get("score"),
        "certain": bool(record.detail.get("certain")),
        "older": _place(record.older),
        "newer": _place(record.newer),
    }
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


class ClashPanel(StagePanel):
    """On the dashboard: how many were found, and who resolved them. The review's table of clashes has all of it."""

    name = "clashes"
    title = "Contradictions"

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Found and open ones."""
        found, by_policy = sum(whole.clashes.values()), sum(whole.clash_strategies.values())
        detail = (
            f"{by_policy:,} ({by_policy / found:.0%}) resolved by the policy, {whole.clashes_open:,} open" if found else "",
            most_common(whole.clashes),
            "the policy did: " + most_common(whole.clash_strategies) if by_policy else "",
        )
        lines: Lines = {"found": lambda b: float(sum(b.clashes.values())), "open": lambda b: float(b.clashes_open)}
        hint = "" if found else "The stage clash finds statements of one conversation that contradict each other."
        return drawn(cls.name, cls.title, number(found), "found in conversations", detail, buckets, lines, hint=hint)
