"""When to stop: the same failure again and again without progress. Pure: records in, what to do out.

A person is asked where they can clear the obstacle away (a permission, a search that finds nothing, a loop, a tool that is not there).
Where an invariant is broken (a handle that leads nowhere, an answer that keeps breaking its schema though it was asked for again)
nobody's words help, and the request ends with an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from proxy.ports.failure_kinds import SEVERITIES
from proxy.ports.failures import FailureRecord

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
