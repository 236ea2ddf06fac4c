"""A decision on a piece <-> an item of the quarantine: what is kept of it, and what of the piece it takes out when it comes again.

The item's content is the piece, byte for byte; its detail names the failing statements by their words, so that they are found again in a
piece with other white space. Every worker that finds the item takes out the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.cleaning.edits import Edit, whole
from proxy.cleaning.pieces import ContextPiece
from proxy.exchange import Exchange
from proxy.grounding.answers.json_answers import strings_of
from proxy.poisoning.decisions import Failing, PieceDecision
from proxy.poisoning.injection import InjectionFinding
from proxy.ports import QuarantineItem
from proxy.review import POLICY

MAX_LISTED = 50
"""Statements that an item names; where there are more, all of the piece goes."""
MAX_REASON_CHARS = 500
HELD = ("quarantine", "block", "reject")


def item_of(exchange: Exchange, piece: ContextPiece, decision: PieceDecision, injection: InjectionFinding | None) -> QuarantineItem:
    """What the quarantine keeps of a piece: decided by the policy where it blocks, open where it holds it for a person."""
    blocked = decision.action == "block"
    held = [one for one in decision.failing if one.action in HELD]
    detail: dict[str, Any] = {
        "whole": decision.whole or len(held) > MAX_LISTED,
        "statements": [_statement(one) for one in held[:MAX_LISTED]],
    }
    if decision.action == "reject":
        detail["refused"] = "low_confidence" if decision.low_confidence else "false"
    if decision.kind == "hidden_instruction" and injection is not None:
        detail |= {"strings": _strings(piece.text, injection), "categories": sorted({span.category for span in injection.spans})}
    return QuarantineItem(
        client=exchange.client, run_id=exchange.run_id, policy=exchange.policy, hash=piece.hash, kind=piece.kind, role=piece.role,
        type=decision.kind or "", reason=decision.reason[:MAX_REASON_CHARS], content=piece.text.encode("utf-8", "surrogatepass"),
        status="rejected" if blocked else "pending", score=decision.score, source=piece.source, record_id=exchange.id, detail=detail,
        decided_by=POLICY if blocked else "", decision_reason=decision.reason[:MAX_REASON_CHARS] if blocked else "",
    )  # fmt: skip


def edits_of(piece: ContextPiece, detail: Mapping[str, Any], marker: str, note: str) -> list[Edit]:
    """What an item's `detail` takes out of the piece; all of it where a statement cannot be found any more.

    `marker` takes a statement's place, `note` that of a JSON string.
    """
    strings: Sequence[str] = detail.get("strings") or ()
    if strings and (found := list(_values(piece, strings, note))):
        return found
    statements: Sequence[Mapping[str, Any]] = detail.get("statements") or ()
    if detail.get("whole") or not statements:
        return [whole(piece)]
    edits, at = [], 0
    for statement in statements:
        span = _place(piece.text, str(statement["text"]), at)
        if span is None:
            return [whole(piece)]
        edits.append(Edit(piece, *span, marker))
        at = span[1]
    rest = piece.text
    for edit in reversed(edits):
        rest = rest[: edit.start] + rest[edit.end :]
    return edits if any(c.isalnum() for c in rest) else [whole(piece)]


def _statement(failing: Failing) -> dict[str, Any]:
    finding = failing.finding
    found = {
        "text": finding.text, "type": finding.kind, "status": finding.status, "confidence": round(finding.confidence, 4),
        "reason": failing.reason[:MAX_REASON_CHARS], "correct_fact": finding.correct_fact, "source": finding.source,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value != ""}


def _strings(text: str, injection: InjectionFinding) -> list[str]:
    """Of a JSON piece the values that hold instructions: nobody else wrote those. Empty for any other text."""
    spans = {(span.start - 1, span.end + 1) for span in injection.spans}
    return [string.value for string in strings_of(text) or () if (string.start, string.end) in spans][:MAX_LISTED]


def _values(piece: ContextPiece, values: Sequence[str], note: str) -> Iterator[Edit]:
    """The strings of a JSON piece that say these values."""
    for string in strings_of(piece.text) or ():
        if string.value in values:
            yield Edit(piece, string.start, string.end, json.dumps(note, ensure_ascii=False))


def _place(text: str, said: str, after: int) -> tuple[int, int] | None:
    """Where a statement stands, behind `after` if it can be, with any white space between its words."""
    for start in (after, 0):
        at = text.find(said, start)
        if at >= 0:
            return at, at + len(said)
    words = [re.escape(word) for word in said.split()]
    match = re.search(r"\s+".join(words), text) if words else None
    return match.span() if match is not None else None
