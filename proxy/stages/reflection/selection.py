"""Which failure records are worth telling the model at this step, and which of them are a reason to stop. Pure, deterministic.

A record is relevant when the newest steps show the same failure, or else by a score over structured fields (`relevance`). A record about a
tool that is neither offered now nor was called lately is never relevant. What is relevant is ranked by: the same failure first, severity,
recency, helpfulness, id. Guidance that did harm twice and never helped is not given again, not even for the same failure: repeating it was
tried. Of records that say the same (same subject, same adjustment) the first stays.

The same failure again and again without progress is a reason to stop. A person is asked where they can clear the obstacle away (a
permission, a search that finds nothing, a loop, a tool that is not there). Where an invariant is broken (a handle that leads nowhere, an
answer that keeps breaking its schema though it was asked for again) nobody's words help, and the request ends with an error.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from proxy.ports.failure_kinds import SEVERITIES
from proxy.ports.failures import FailureRecord

SAME_FAILURE = 1.0
"""Relevance of a fingerprint match. What follows is added up for any other record, and stays below it."""
CALLED_LATELY = 0.4
OFFERED = 0.3
"""Also of a failure that belongs to no tool: the model's answer, the upstream, a person's correction."""
SAME_ACTION = 0.3
SAME_CODE = 0.1
SAME_SIGNAL = 0.05
SAME_ARGUMENTS = 0.1
"""Times the share of argument names that both have."""
MIN_RELEVANCE = 0.3
"""A tool that failed and is still offered is enough: it may be called next."""
HARMFUL = 2
"""Times that guidance did harm, after which it is left out unless it also helped."""


class Situation(Struct, frozen=True):
    """The step that is about to be taken, in structured fields."""

    fingerprints: tuple[str, ...]
    """Of the failures that the newest steps show, newest first."""
    tools: tuple[str, ...]
    """Offered now."""
    recent_tools: tuple[str, ...]
    """Called lately, newest first."""
    action_keys: tuple[str, ...] = ()
    """Of the newest calls."""
    signal_types: tuple[str, ...] = ()
    """Of the failures that the newest steps show; `codes` too."""
    codes: tuple[str, ...] = ()
    argument_names: tuple[str, ...] = ()
    """Of the newest calls."""


def select(records: Sequence[FailureRecord], now: Situation, *, top_k: int, min_relevance: float = MIN_RELEVANCE) -> list[FailureRecord]:
    """At most `top_k` of the active `records`, the most important first; the order of `records` makes no difference."""
    if top_k <= 0:
        return []
    fitting = [one for one in records if one.status == "active" and not only_harmed(one) and relevance(one, now) >= min_relevance]
    chosen: dict[tuple[str, str], FailureRecord] = {}
    for record in sorted(fitting, key=lambda one: _rank(one, now.fingerprints)):
        chosen.setdefault(_says(record), record)
        if len(chosen) == top_k:
            break
    return list(chosen.values())


def relevance(record: FailureRecord, now: Situation) -> float:
    """How much `record` has to do with this step, 0 to 1."""
    if record.fingerprint in now.fingerprints:
        return SAME_FAILURE
    score = _place(record, now)
    if not score:
        return 0.0
    score += SAME_ACTION * (bool(record.action_key) and record.action_key in now.action_keys)
    score += SAME_CODE * (record.code in now.codes) + SAME_SIGNAL * (record.signal_type in now.signal_types)
    return round(score + SAME_ARGUMENTS * _overlap(record, now.argument_names), 6)


def only_harmed(record: FailureRecord) -> bool:
    """Whether guidance about it was followed by the same failure `HARMFUL` times, and never helped."""
    return record.harmful_count >= HARMFUL and not record.helpful_count


def _place(record: FailureRecord, now: Situation) -> float:
    """By where it happened; 0.0 where that cannot happen now."""
    if not record.subject or record.signal_type == "upstream_error":
        return OFFERED
    if record.code == "unknown_tool":  # an invented name may be invented again, unless there is such a tool by now
        return 0.0 if record.subject in now.tools else CALLED_LATELY if record.subject in now.recent_tools else OFFERED
    if record.subject in now.recent_tools:
        return CALLED_LATELY
    return OFFERED if record.subject in now.tools else 0.0


def _overlap(record: FailureRecord, names: Collection[str]) -> float:
    arguments = record.attempted_action.get("arguments")
    own = set(arguments) if isinstance(arguments, Mapping) else set()
    both = own | set(names)
    return len(own & set(names)) / len(both) if own and names else 0.0


def _rank(record: FailureRecord, fingerprints: Collection[str]) -> tuple[bool, int, float, int, str, int]:
    severity = SEVERITIES.index(record.severity)
    helpful = record.helpful_count - record.harmful_count
    return (record.fingerprint not in fingerprints, -severity, -record.last_seen_at, -helpful, record.id, -record.revision)


def _says(record: FailureRecord) -> tuple[str, str]:
    adjustment = json.dumps(record.recommended_adjustment, sort_keys=True, default=str)
    return (record.subject, adjustment)


# ---- when to stop ----

Action = Literal["ask_human", "system_error"]
BROKEN = frozenset(("missing_pointer", "response_not_json", "response_mismatch", "repair_failed"))
"""Codes of broken invariants."""
NEVER = frozenset(("upstream_error", "budget_pressure", "human_correction"))
"""Signals that need no stop: the upstream's own error reaches the client, the stage `budget` refuses what does not fit, and a person who
objects has just spoken.
"""


class Escalation(Struct, frozen=True):
    """Stop here."""

    action: Action
    record: FailureRecord


def escalation(records: Iterable[FailureRecord], escalate_after: int, *, can_ask: bool) -> Escalation | None:
    """Of the failures that the newest step shows, the one to stop for, the latest of equals; None to go on.

    Without `can_ask` (the client waits for a tool call, not for words) an error takes the question's place.
    """
    stuck = [r for r in records if r.status == "active" and r.stuck_count >= escalate_after and r.signal_type not in NEVER]
    if not stuck:
        return None
    worst = min(stuck, key=lambda r: (r.code not in BROKEN, -SEVERITIES.index(r.severity), -r.stuck_count, -r.last_seen_at, r.id))
    return Escalation("system_error" if worst.code in BROKEN or not can_ask else "ask_human", worst)
