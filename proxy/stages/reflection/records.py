"""What a run's failure records come to at this step: which are told to the model, which are a reason to stop, which arguments are capped,
and which records another takes the place of. Pure, deterministic.

A record is relevant when the newest steps show the same failure, or by its structured fields: one about a tool that is neither offered now
nor was called lately is never relevant. What is relevant is ranked by: the same failure first, severity,
recency, helpfulness, id. Guidance that did harm twice and never helped is not given again, not even for the same failure: repeating it was
tried. Of records that say the same (same subject, same adjustment) the first stays.

The same failure again and again without progress is a reason to stop. A person is asked where they can clear the obstacle away (a
permission, a search that finds nothing, a loop, a tool that is not there). Where an invariant is broken (a handle that leads nowhere, an
answer that keeps breaking its schema though it was asked for again) nobody's words help, and the request ends with an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from proxy.exchange import Answer, Tool, ToolCall
from proxy.language.json.fingerprint import identifier
from proxy.ports import Counters
from proxy.ports.failures import SEVERITIES, FailureEvent, FailureRecord
from proxy.stages.reflection.adjustments import CAPPING, is_size, properties_of

REPEATED, ASKED, STOPPED, CAPPED, UNCHECKED = "failure_repeated", "human_asked", "system_error", "arguments_capped", "failures_unchecked"
MAX_LISTED = 20
_SIGNALS = (
    "tool_error",
    "upstream_error",
    "retrieval_failure",
    "schema_violation",
    "loop",
    "human_correction",
    "budget_pressure",
)
_STOPS = ("ask_human", "system_error")
COUNTERS = {
    "reflection.failures_count": "failures found in agents' runs",
    **{f"reflection.failures_{name}_count": f"of them: {name}" for name in _SIGNALS},
    "reflection.resolved_count": "failures that a later success resolved",
    "reflection.injected_count": "failures told in prompts",
    **{f"reflection.escalated_{name}_count": f"requests stopped for a failure without progress: {name}" for name in _STOPS},
    "reflection.capped_count": "arguments of tool calls that were capped",
    "reflection.unkept_count": "stops that could not be kept, the store being away",
}


def count_events(counters: Counters, events: Sequence[FailureEvent], records: Sequence[FailureRecord], since: float) -> None:
    """What has happened to `records` since then, of `events` that were put; another worker may have been first with some."""
    now = {record.fingerprint: record for record in records}
    for event in events:
        record = now.get(event.fingerprint)
        if record is None:
            continue
        if event.kind == "occurred" and record.last_seen_at >= since:
            counters.count("reflection.failures_count")
            counters.count(f"reflection.failures_{record.signal_type}_count")
        elif event.kind == "resolved" and record.status == "resolved" and record.updated_at >= since:
            counters.count("reflection.resolved_count")


def detail_of(newest: Sequence[FailureRecord], told: Sequence[FailureRecord], tokens: int) -> dict[str, Any]:
    """For the record."""
    detail: dict[str, Any] = {"found": len(newest), "told": len(told)}
    if newest:
        detail["newest"] = [listed(record) for record in newest[:MAX_LISTED]]
    if told:
        detail |= {"failures": [listed(record) for record in told], "tokens": tokens}
    return detail


def listed(record: FailureRecord) -> dict[str, Any]:
    """A failure in a few words."""
    return {
        "id": record.id,
        "signal_type": record.signal_type,
        "code": record.code,
        "severity": record.severity,
        "status": record.status,
        "subject": record.subject,
        "occurrences": record.occurrence_count,
        "stuck": record.stuck_count,
    }


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


def select(records: Sequence[FailureRecord], now: Situation, *, top_k: int) -> list[FailureRecord]:
    """At most `top_k` of the active `records`, the most important first; the order of `records` makes no difference."""
    if top_k <= 0:
        return []
    fitting = [one for one in records if one.status == "active" and not only_harmed(one) and is_relevant(one, now)]
    chosen: dict[tuple[str, str], FailureRecord] = {}
    for record in sorted(fitting, key=lambda one: _rank(one, now.fingerprints)):
        chosen.setdefault(_says(record), record)
        if len(chosen) == top_k:
            break
    return list(chosen.values())


def is_relevant(record: FailureRecord, now: Situation) -> bool:
    """Whether the newest steps show the same failure, or it can happen again where it happened."""
    if record.fingerprint in now.fingerprints or not record.subject or record.signal_type == "upstream_error":
        return True  # what belongs to no tool: the model's answer, the upstream, a person's correction
    if record.code == "unknown_tool":  # an invented name may be invented again, unless there is such a tool by now
        return record.subject not in now.tools
    return record.subject in now.recent_tools or record.subject in now.tools


def only_harmed(record: FailureRecord) -> bool:
    """Whether guidance about it was followed by the same failure `HARMFUL` times, and never helped."""
    return record.harmful_count >= HARMFUL and not record.helpful_count


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


# ---- caps ----
#
# Only numbers go down, and only those that a record names: nothing else of the arguments changes. Arguments that are not a JSON object, or
# names that are not in the tool's schema, are left as they are. Of several caps for one argument of a tool the smallest counts, of several
# overrides about one tool (or about how much) the latest. What is superseded is told no more; it becomes active again when it occurs again.

_OF_SOMETHING_ELSE = re.compile(r"size|.*(?:tokens?|chars)", re.I)
"""Sizes that are not of a list of results: of a shoe, of a text."""


class Cap(Struct, frozen=True):
    """A limit that a record recommends."""

    failure_id: str
    tool: str
    argument: str
    """"" for whichever argument of the call says how much is asked for."""
    most: int


class Capped(Struct, frozen=True):
    """What was changed of a call."""

    failure: str
    """Its record's id."""
    tool: str
    argument: str
    before: int | float | None
    """None where the call did not name it."""
    after: int


def caps_of(records: Iterable[FailureRecord]) -> list[Cap]:
    """The caps among what active records recommend: of a tool that gave too much, and of a person's "at most 10"."""
    found = []
    for record in records:
        told = record.recommended_adjustment
        most = told.get("cap") if told.get("type") == "follow_correction" else told.get("max") if told.get("type") in CAPPING else None
        if record.status == "active" and isinstance(most, int) and not isinstance(most, bool) and most > 0:
            found.append(Cap(record.id, record.subject, str(told.get("argument", "")), most))
    return found


def enforce(call: ToolCall, caps: Sequence[Cap], tools: Sequence[Tool]) -> tuple[ToolCall, list[Capped]]:
    """The call with its arguments capped, and what was changed; the same object where nothing was."""
    arguments = call.parsed
    if arguments is None:
        return call, []
    done: dict[str, Capped] = {}
    for cap in caps:
        if cap.tool not in ("", identifier(call.name)):
            continue
        name = next((n for n in (*arguments, *properties_of(call.name, tools)) if identifier(n) == cap.argument), "")
        name = name or next((n for n, value in arguments.items() if not cap.argument and _counts_results(n, value)), "")
        value = arguments.get(name)
        if not name or isinstance(value, bool) or not (value is None or (isinstance(value, int | float) and value > cap.most)):
            continue
        before = done[name].before if name in done else value
        arguments[name] = cap.most
        done[name] = Capped(cap.failure_id, identifier(call.name), identifier(name), before, cap.most)
    return (replace(call, arguments=json.dumps(arguments, ensure_ascii=False)), list(done.values())) if done else (call, [])


def _counts_results(name: str, value: object) -> bool:
    """Whether a person who says "at most 10" may mean this argument."""
    return is_size(name, value) and _OF_SOMETHING_ELSE.fullmatch(name) is None


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


def superseded(records: Iterable[FailureRecord]) -> list[FailureEvent]:
    """An event for each active record of one run that another of them takes the place of."""
    groups: dict[tuple[object, ...], list[FailureRecord]] = {}
    for record in records:
        if record.status == "active" and (group := _group(record)) is not None:
            groups.setdefault(group, []).append(record)
    found = []
    for same in groups.values():
        stays = min(same, key=_order)
        found += [_event(record, stays) for record in same if record is not stays]
    return sorted(found, key=lambda event: event.fingerprint)


def _group(record: FailureRecord) -> tuple[object, ...] | None:
    told = record.recommended_adjustment
    if told.get("type") in CAPPING and isinstance(told.get("max"), int):
        return (record.run_id, "cap", record.subject, told.get("argument"))
    if record.code == "override":
        what = "cap" if "cap" in told else told.get("wanted_tool") or told.get("forbidden_tool")
        return None if what is None else (record.run_id, "override", record.subject, what)
    return None


def _order(record: FailureRecord) -> tuple[float, float, str]:
    """The one that stays comes first."""
    cap = record.recommended_adjustment["max"] if record.code != "override" else 0
    return (float(cap), -record.last_seen_at, record.id)


def _event(record: FailureRecord, stays: FailureRecord) -> FailureEvent:
    cause = f"superseded>{stays.id}>{record.occurrence_count}"
    return FailureEvent(kind="superseded", fingerprint=record.fingerprint, cause=cause, reason=stays.id)
