"""From qualities to what is done: which action, and the edits and notes that carry it out. Pure.

A mark or a note says in one line what is wrong. In a JSON result it stands as a member of its own, so that the result stays valid JSON.
All texts follow from the piece and its quality alone, and are the same on every turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from msgspec import Struct

from proxy.context.edits import Edit, whole
from proxy.exchange import Evidence
from proxy.stages.validation.metrics.content import parsed
from proxy.stages.validation.metrics.quality import Quality
from proxy.stages.validation.options import ACTIONS, Action, ValidationOptions
from proxy.stages.validation.turns import Newcomer

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
    new: bool
    """Whether it came on this turn."""
    archived: str = ""
    """Where it can be had back, when it is dropped: an id of the scratchpad."""


def action_of(quality: Quality, options: ValidationOptions) -> Action | None:
    """The strongest of the actions for what it fails."""
    return max((options.action_for(name) for name in quality.failing), key=ACTIONS.index, default=None)


def edits_of(decisions: Sequence[QualityDecision]) -> list[Edit]:
    """What to put into the conversation for what is dropped or marked."""
    found: list[Edit] = []
    for decision in decisions:
        if decision.action == "drop":
            found.append(_dropped(decision))
        elif decision.action == "down_rank" and decision.newcomer.piece.message is not None:
            found += _marked(decision)
    return found


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
    said = []
    for name in decision.quality.failing:
        metric = decision.quality.findings.get(name)  # type: ignore[call-overload]  # score is none of them
        about = str(metric.detail.get("reason", "")) if metric is not None and name in ("freshness", "completeness") else ""
        said.append(_WHAT[name] + (f" ({about})" if about else ""))
    return "; ".join(said)[:MAX_NOTE_CHARS]


def _dropped(decision: QualityDecision) -> Edit:
    piece = decision.newcomer.piece
    if piece.message is None:
        return whole(piece)  # the passage goes
    note = f"This content was left out: it is {note_of(decision)}."
    if not piece.literal and parsed(piece.text) is not None:
        return whole(piece, json.dumps({NOTE_KEY: note}, ensure_ascii=False))
    return whole(piece, f"[{note}]")


def _marked(decision: QualityDecision) -> list[Edit]:
    piece = decision.newcomer.piece
    note = f"Caution: this content is {note_of(decision)}."
    value = None if piece.literal else parsed(piece.text)
    if value is None:
        return [Edit(piece, 0, 0, f"[{note}] ")]
    if not value:  # nothing in it that could mislead
        return []
    at = re.search(r"[{\[]", piece.text).end()  # type: ignore[union-attr]  # it is JSON
    member = json.dumps(NOTE_KEY) + ": " if isinstance(value, dict) else ""
    return [Edit(piece, at, at, f"{member}{json.dumps(note, ensure_ascii=False)}, ")]
