"""Which failure records are worth telling the model at this step: records and the situation in, the best few out. Pure, deterministic.

A record is relevant when the newest steps show the same failure, or else by a score over structured fields (`relevance`). A record about a
tool that is neither offered now nor was called lately is never relevant. What is relevant is ranked by: the same failure first, severity,
recency, helpfulness, id. Guidance that did harm twice and never helped is not given again, not even for the same failure: repeating it was
tried. Of records that say the same (same subject, same adjustment) the first stays.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

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
