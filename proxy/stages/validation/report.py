"""From qualities to what is done and what is told: which action, the edits and notes that carry it out, and the verdicts. Pure.

The table: a policy names an action, or one for each metric; of what a piece fails, the strongest action counts (`action_of`). `drop` and
`down_rank` edit the conversation. A mark or a note says in one line what is wrong; in a JSON result it stands as a member of its own, so
that the result stays valid JSON. All texts follow from the piece and its quality alone, and are the same on every turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.edits import Edit, whole
from proxy.exchange import Evidence, Verdict
from proxy.language.json.strings import parse_json
from proxy.stages.validation.content import Newcomer
from proxy.stages.validation.quality import ACTIONS, Action, Quality, ValidationOptions

NAME = "validation"
REJECTED = "context_quality"
UNCHECKED = "context_unchecked"
CODES: Mapping[str, str] = {
    "accuracy": "context_inaccurate",
    "consistency": "context_inconsistent",
    "freshness": "context_stale",
    "completeness": "context_incomplete",
    "relevance": "context_irrelevant",
    "score": "context_low_quality",
}
"""Warning codes, the gravest first."""
MAX_LISTED = 50
"""Pieces in one record, those that fail first."""
MAX_CHARS = 300
MAX_MESSAGE_CHARS = 500
MAX_SOURCE_CHARS = 100
"""Of a source in a message."""
COUNTERS = {
    "validation.checked_count": "new pieces of context that were validated",
    **{f"validation.{name}_failed_count": f"pieces below the threshold of {name}" for name in CODES},
    **{f"validation.{name}_count": f"pieces with the action {name}" for name in ("down_rank", "drop", "reject")},
}
NOTE_KEY = "groundwire_note"
MAX_NOTE_CHARS = 300
_WHAT = {
    "relevance": "not relevant to the question",
    "freshness": "out of date",
    "accuracy": "not accurate",
    "completeness": "incomplete",
    "consistency": "in contradiction with the context",
    "score": "of low quality",
}


class QualityDecision(Struct, frozen=True):
    """A piece, what was found of it, and what becomes of it."""

    newcomer: Newcomer
    quality: Quality
    action: Action | None
    """None where nothing is wrong with it."""
    archived: str = ""
    """Where it can be had back, when it is dropped: an id of the scratchpad."""


def action_of(quality: Quality, options: ValidationOptions) -> Action | None:
    """The strongest of the actions for what it fails."""
    return max((options.action_for(name) for name in quality.failing), key=ACTIONS.index, default=None)


def edits_of(decisions: Sequence[QualityDecision]) -> list[Edit]:
    """What to put into the conversation for what is dropped or marked."""
    dropped = [_drop_edit(decision) for decision in decisions if decision.action == "drop"]
    low = [decision for decision in decisions if decision.action == "down_rank" and decision.newcomer.piece.message is not None]
    return [*dropped, *(edit for decision in low for edit in _mark_edits(decision))]


def ranked(passages: Sequence[Evidence], decisions: Sequence[QualityDecision]) -> tuple[Evidence, ...]:
    """`passages` with those of the request itself that are to be down-ranked behind its others; those in messages keep their places."""
    low = {d.newcomer.piece.text for d in decisions if d.action == "down_rank" and d.newcomer.piece.message is None}
    own = [i for i, passage in enumerate(passages) if passage.message_index is None]
    order = sorted(own, key=lambda i: passages[i].content in low)
    found = list(passages)
    for place, i in zip(own, order, strict=True):
        found[place] = passages[i]
    return tuple(found)


def note_of(decision: QualityDecision) -> str:
    """What is wrong, in one line: ``out of date (2 h old, at most 1 h)``."""
    parts = []
    for name in decision.quality.failing:
        metric = decision.quality.findings.get(name)  # type: ignore[call-overload]  # score is none of them
        about = str(metric.detail.get("reason", "")) if metric is not None and name in ("freshness", "completeness") else ""
        parts.append(_WHAT[name] + (f" ({about})" if about else ""))
    return "; ".join(parts)[:MAX_NOTE_CHARS]


def _drop_edit(decision: QualityDecision) -> Edit:
    piece = decision.newcomer.piece
    if piece.message is None:
        return whole(piece)  # the passage goes
    note = f"This content was left out: it is {note_of(decision)}."
    if not piece.literal and parse_json(piece.text) is not None:
        return whole(piece, json.dumps({NOTE_KEY: note}, ensure_ascii=False))
    return whole(piece, f"[{note}]")


def _mark_edits(decision: QualityDecision) -> list[Edit]:
    piece = decision.newcomer.piece
    note = f"Caution: this content is {note_of(decision)}."
    value = None if piece.literal else parse_json(piece.text)
    if value is None:
        return [Edit(piece, 0, 0, f"[{note}] ")]
    if not value:  # nothing in it that could mislead
        return []
    at = re.search(r"[{\[]", piece.text).end()  # type: ignore[union-attr]  # it is JSON
    member = json.dumps(NOTE_KEY) + ": " if isinstance(value, dict) else ""
    return [Edit(piece, at, at, f"{member}{json.dumps(note, ensure_ascii=False)}, ")]


# ---- telling ----


def verdicts_of(decisions: Sequence[QualityDecision], detail: Mapping[str, Any], warns: Callable[[str], bool]) -> list[Verdict]:
    """One for each code that the new pieces give rise to, the last with the detail; a pass where there is none.

    `warns` tells of which metrics the policy wants to be warned; what the others found stands in the detail.
    """
    new = [decision for decision in decisions if decision.newcomer.new]
    failing = {name for decision in new for name in decision.quality.failing if warns(name)}
    codes = [code for name, code in CODES.items() if name in failing]
    score = min((d.quality.score for d in new if d.quality.score is not None), default=None)
    score = None if score is None else round(score, 4)
    found = [Verdict(NAME, "warn", code=code, score=score) for code in codes]
    if any(decision.quality.errors for decision in decisions):
        found.append(Verdict(NAME, "error", code=UNCHECKED, score=score))
    if not found:
        good = score is not None and not any(decision.quality.failing for decision in new)
        found.append(Verdict(NAME, "pass" if good else "unchecked", score=score))
    return [*found[:-1], replace(found[-1], detail=detail)]


def rejection(decision: QualityDecision, detail: Mapping[str, Any]) -> Verdict:
    """The block, with its reason."""
    newcomer, source = decision.newcomer, decision.newcomer.piece.source
    what = f"the result of {newcomer.tool}" if newcomer.tool else f"a {newcomer.piece.kind.replace('_', ' ')}"
    if source and not newcomer.tool:
        what += f" from {source[:MAX_SOURCE_CHARS]}"
    message = f"context rejected: {what}: {'; '.join(decision.quality.reasons)}"
    score = decision.quality.score
    return Verdict(NAME, "block", REJECTED, None if score is None else round(score, 4), detail, message[:MAX_MESSAGE_CHARS])


def detail_of(decisions: Sequence[QualityDecision], store: str) -> dict[str, Any]:
    """For the record: each new piece with all its figures, and how many of earlier turns were treated as before."""
    new = [decision for decision in decisions if decision.newcomer.new]
    order = sorted(range(len(new)), key=lambda i: (not new[i].quality.failing, i))[:MAX_LISTED]
    again = [decision for decision in decisions if not decision.newcomer.new and decision.action in ("drop", "down_rank")]
    detail: dict[str, Any] = {"checked": len(new), "pieces": [entry(new[i]) for i in sorted(order)]}
    if again:
        pieces = [(decision.newcomer.piece, decision.action) for decision in again[:MAX_LISTED]]
        detail["as_before"] = [{"hash": piece.hash, "message": piece.message, "action": action} for piece, action in pieces]
    if store:
        detail["store"] = store
    return detail


def entry(decision: QualityDecision) -> dict[str, Any]:
    """One piece."""
    newcomer, piece = decision.newcomer, decision.newcomer.piece
    about = {"tool": newcomer.tool[:MAX_CHARS], "source": piece.source[:MAX_CHARS], "archived": decision.archived}
    known = {name: value for name, value in about.items() if value}
    place = {"message": piece.message, "kind": piece.kind, "hash": piece.hash}
    return {**place, **known, "action": decision.action or "none", **figures(decision.quality)}


def figures(quality: Quality) -> dict[str, Any]:
    """All that was measured: ``{"passed", "score", "metrics": {"relevance": {"value", …}}, "reasons"}``."""
    metrics = {
        name: {
            "value": None if metric.value is None else round(metric.value, 4),
            **({} if metric.measured else {"measured": False}),
            **({"note": metric.note} if metric.note else {}),
            **({"error": metric.error} if metric.error else {}),
            **{key: value for key, value in metric.detail.items() if key != "reason"},
        }
        for name, metric in quality.findings.items()
    }
    score = None if quality.score is None else round(quality.score, 4)
    return {"passed": quality.passed, "score": score, "metrics": metrics, "reasons": [reason[:MAX_CHARS] for reason in quality.reasons]}
