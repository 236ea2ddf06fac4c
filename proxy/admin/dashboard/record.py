"""The page of one exchange: its tokens, its answer with evidence, each stage's verdict and time, the request, the headers.

In: the record as the store has it, which another version may have written. Positions of claims are checked against the answer's text before
they are used: secrets are masked after claims are placed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.admin.dashboard import diff
from proxy.admin.dashboard.rendering import cut
from proxy.admin.dashboard.summaries import list_in, mappings_in, outcome_of, why
from proxy.admin.decisions import LABELS, OUTCOMES
from proxy.admin.verdict_answers import ListedClaim, ListedClaims, headers_of, listed_claims
from proxy.language.amounts import dollars, milliseconds, number
from proxy.store.detail import RecordTexts, RecordVerdict
from proxy.store.feedback import Feedback
from proxy.store.records import Record
from proxy.wire.http.headers import ResponseHeaders

_CHANGE_CHARS = 400
_START_CHARS = 12


class ShownClaim(Struct, frozen=True):
    """One entry of the record's list, and where its sentence stands in the answer."""

    number: int
    start: int
    end: int
    entry: ListedClaim

    @property
    def place(self) -> str:
        """As `proxy.admin.decisions` names it."""
        return f"{self.entry.choice}:{self.start}-{self.end}"

    @property
    def anchor(self) -> str:
        """Of its finding."""
        return f"claim-{self.number}"


def claims_of(found: ListedClaims) -> list[ShownClaim]:
    """The entries that have a place, numbered from 1 in the answer's order."""
    placed = [(one.choice, *one.span, one) for one in found.claims if one.span is not None]
    ordered = sorted(placed, key=lambda one: one[:3])
    return [ShownClaim(number, start, end, one) for number, (_, start, end, one) in enumerate(ordered, 1)]


def without_overlaps(claims: Sequence[ShownClaim], text: str) -> list[ShownClaim]:
    """Those that stand where they say, without overlaps, in order."""
    found: list[ShownClaim] = []
    for claim in claims:
        after = found[-1].end if found else 0
        if after <= claim.start < claim.end <= len(text) and _there(claim.entry.text, text[claim.start : claim.end]):
            found.append(claim)
    return found


def _there(claim: str, piece: str) -> bool:
    """Whether the piece begins with the claim's words, marks of list, emphasis and table aside."""
    words, said = _letters(claim), _letters(piece)
    return not words or words[:_START_CHARS] in said or said[:_START_CHARS] in words


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def pieces(claims: Sequence[ShownClaim], text: str) -> list[tuple[str, ShownClaim | None]]:
    """The text, cut where claims stand in it."""
    found: list[tuple[str, ShownClaim | None]] = []
    last = 0
    for claim in without_overlaps(claims, text):
        found += [(text[last : claim.start], None), (text[claim.start : claim.end], claim)]
        last = claim.end
    return [*found, (text[last:], None)]


class Choice(Struct, frozen=True):
    """One of the answers that the upstream gave."""

    index: int
    text: str
    pieces: Sequence[tuple[str, ShownClaim | None]]
    calls: Sequence[Any]
    """Of tools."""


class StageRow(Struct, frozen=True):
    """What a stage found, and how long it took."""

    name: str
    verdicts: Sequence[RecordVerdict]
    times_ms: Mapping[str, float]
    """By hook."""
    share: float
    """Of the time of the longest."""


def record_page(record: Record, headers: ResponseHeaders, feedback: Mapping[tuple[str, str], Feedback]) -> dict[str, Any]:
    """What ``record.html`` shows; `headers` are written as the exchange's were, `feedback` is what people said of its findings."""
    detail = record.found
    found = listed_claims(detail.verdicts)
    claims = claims_of(found)
    sent = None if record.request_body is None else _loaded(record.request_body)
    went = detail.forwarded or sent
    steps = diff.steps(list_in(sent, "messages"), list_in(went, "messages"))
    shown = diff.listed_steps(steps)
    kinds: tuple[diff.Kind, ...] = ("kept", "changed", "removed", "added")
    return {
        "record": record,
        "detail": detail,
        "outcome": outcome_of(record),
        "why": why(record.reason, record.would),
        "claims": claims,
        "claims_left_out": found.claims_left_out,
        "choices": None if record.answer_body is None else _choices(_loaded(record.answer_body), claims),
        "judge": _judge(detail),
        "components": _components(detail),
        "stage_rows": _stage_rows(detail),
        "changes": [_change(change) for change in detail.changes],
        "steps": None if record.request_body is None else shown,
        "steps_left_out": len(steps) - len(shown),
        "step_counts": [(kind, count) for kind in kinds if (count := sum(step.kind == kind for step in steps))],
        "tools": diff.tool_lists(list_in(sent, "tools"), list_in(went, "tools")),
        "parameters": _without(sent, "messages", "tools"),
        "headers": headers_of(record, headers),
        "feedback": feedback,
        "sentence_labels": LABELS,
        "verdict_labels": OUTCOMES,
    }


def _choices(body: Any, claims: Sequence[ShownClaim]) -> list[Choice]:
    found = []
    for position, choice in enumerate(mappings_in(body, "choices")):
        given, text = choice.get("index", position), str(choice.get("text") or "")
        index = given if isinstance(given, int) else position
        found.append(
            Choice(index, text, pieces([claim for claim in claims if claim.entry.choice == index], text), list_in(choice, "tool_calls"))
        )
    return found


def _judge(detail: RecordTexts) -> str:
    """What the policy's judge was asked, and what that took; "" where there is none."""
    use = detail.facts.judge if detail.facts is not None else None
    if use is None:
        return ""
    tokens = use.input_tokens + use.output_tokens
    parts = [f"{use.by}: {number(use.asked)} asked", f"{number(use.cached)} known already" if use.cached else ""]
    parts += [f"{number(use.unanswered)} unanswered" if use.unanswered else "", f"{number(tokens)} tokens" if tokens else ""]
    parts += [milliseconds(use.ms) if use.calls else "", dollars(use.usd) if use.usd is not None else "", *use.failed]
    return ", ".join(filter(None, parts))


def _components(detail: RecordTexts) -> list[tuple[str, int]]:
    use = detail.facts.context if detail.facts is not None else None
    if use is None or use.used_tokens < 1:
        return []
    return sorted(((name, tokens) for name, tokens in use.components.items() if tokens > 0), key=lambda one: -one[1])


def _stage_rows(detail: RecordTexts) -> list[StageRow]:
    """In the order in which they ran."""
    times: dict[str, dict[str, float]] = {}
    for name, ms in detail.timings_ms.items():
        stage, dot, hook = name.partition(".")
        if dot:
            times.setdefault(stage, {})[hook] = ms
    longest = max((ms for hooks in times.values() for ms in hooks.values()), default=0.0) or 1.0
    rows = []
    for name in dict.fromkeys([*times, *(verdict.stage for verdict in detail.verdicts)]):
        mine = times.get(name, {})
        verdicts = [verdict for verdict in detail.verdicts if verdict.stage == name]
        rows.append(StageRow(name, verdicts, mine, sum(mine.values()) / longest))
    return rows


def _change(change: Mapping[str, Any]) -> tuple[str, str, str]:
    rest = _without(change, "stage", "what")
    words = ", ".join(f"{name.replace('_', ' ')} {cut(_plain(value), _CHANGE_CHARS)}" for name, value in rest.items())
    return str(change.get("stage", "")), str(change.get("what", "")), words


def _without(mapping: Any, *names: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in names} if isinstance(mapping, Mapping) else {}


def _loaded(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except ValueError:
        return {}


def _plain(value: Any) -> str:
    """A value without the marks of JSON."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ("; " if any(isinstance(one, Mapping) for one in value) else ", ").join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
