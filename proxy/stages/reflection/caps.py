"""Concrete constraints on tool calls: an argument that was too much last time is capped, and which of several records counts. Pure.

Only numbers go down, and only those that a record names: nothing else of the arguments changes. Arguments that are not a JSON object, or
names that are not in the tool's schema, are left as they are. Of several caps for one argument of a tool the smallest counts, of several
overrides about one tool (or about how much) the latest. What is superseded is told no more; it becomes active again when it occurs again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.exchange import Answer, Tool, ToolCall
from proxy.language.json.fingerprint import identifier
from proxy.ports.failures import FailureEvent, FailureRecord
from proxy.stages.reflection.adjustments import CAPPING, is_size, properties_of

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
