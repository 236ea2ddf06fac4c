"""What a turn has brought -> verdicts: what was taken out and why, with pointers to the quarantine, and no text of the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from proxy.context.pieces import ContextPiece
from proxy.exchange import Verdict
from proxy.ports import QuarantineItem
from proxy.stages.poisoning.decisions import PieceDecision

BLOCKED, ANSWER = "poisoned_context", "answer_quarantined"
HALLUCINATION, INSTRUCTION, LOW_CONFIDENCE = (
    "content rejected: hallucination detected",
    "content rejected: it holds instructions to the model",
    "content rejected: low confidence",
)
_MAX_LISTED = 50
_POISON = (
    "wrong_location",
    "wrong_date",
    "invented_date",
    "wrong_number",
    "wrong_unit",
    "wrong_name",
    "false_capability",
    "contradiction",
    "unsupported_claim",
    "outdated",
    "hidden_instruction",
)
COUNTERS = {
    "poisoning.checked_count": "new pieces of context that were checked",
    "poisoning.attempts_count": "pieces that were poisoned",
    "poisoning.blocked_count": "pieces that were blocked",
    "poisoning.quarantined_count": "pieces that were quarantined",
    "poisoning.rejected_count": "pieces for which the request was refused",
    "poisoning.annotated_count": "pieces that were only reported",
    "poisoning.answers_count": "answers kept from coming back as history",
    "poisoning.alerts_count": "times the share of poisoned pieces rose above alert_above",
    **{f"poisoning.type_{name}_count": f"poisoned pieces of the type {name}" for name in _POISON},
}


class HeldBack(Struct, frozen=True):
    """A piece that was decided upon in this turn."""

    piece: ContextPiece
    decision: PieceDecision


class Outcome(Struct):
    """One turn."""

    pieces: int = 0
    checked: int = 0
    """Pieces that were checked in this turn."""
    looked: bool = False
    """Whether anything was looked for instructions, or a statement compared with a fact; else the stage has checked nothing."""
    unchecked: int = 0
    """Pieces for which there was no time."""
    version: str = ""
    """Of the knowledge base."""
    error: str = ""
    """Why something could not be checked or kept."""
    new: list[HeldBack] = field(default_factory=list)
    items: list[tuple[ContextPiece, QuarantineItem]] = field(default_factory=list)
    """The pieces that the quarantine has, approved ones too."""


def verdicts_of(stage: str, outcome: Outcome) -> list[Verdict]:
    """The turn's verdicts, the one that counts last."""
    found: list[Verdict] = []
    detail = _detail(outcome)
    out = [(piece, item) for piece, item in outcome.items if item.status != "approved"]
    score = max((item.score for _, item in out if item.score is not None), default=None)
    refused = next(((piece, item) for piece, item in out if item.status == "pending" and item.detail.get("refused")), None)
    if refused is not None:
        return [*found, Verdict(stage, "block", code=BLOCKED, score=refused[1].score, detail=detail, message=_message(*refused))]
    code = _code(outcome)
    if outcome.error or outcome.unchecked:
        if code:
            found.append(Verdict(stage, "warn", code=code, score=score, detail=detail))
        reason = {"reason": outcome.error or "timeout", "unchecked": outcome.unchecked}
        return [*found, Verdict(stage, "error", code="poisoning_unchecked", detail={**reason, **({} if code else detail)})]
    return [*found, Verdict(stage, "warn" if code else "pass" if outcome.looked else "unchecked", code=code, score=score, detail=detail)]


def of_answer(stage: str, held: Sequence[QuarantineItem], error: str) -> Verdict:
    """The verdict on an answer of which `held` will not come back; an error where they could not be kept."""
    score = max((item.score for item in held if item.score is not None), default=None)
    if error:
        return Verdict(stage, "error", code="poisoning_unchecked", score=score, detail={"reason": error, "answers": len(held)})
    listed = [{"quarantine": item.id, "status": item.status, "type": item.type, "reason": item.reason} for item in held]
    return Verdict(stage, "warn", code=ANSWER, score=score, detail={"answers": listed})


def where(piece: ContextPiece) -> str:
    """Where a piece stands in the request."""
    return f"messages[{piece.message}]" if piece.message is not None else "groundwire.context"


def _message(piece: ContextPiece, item: QuarantineItem) -> str:
    """For the client: why its request is refused, and where it stands."""
    low = item.detail["refused"] == "low_confidence"
    said = INSTRUCTION if item.type == "hidden_instruction" else LOW_CONFIDENCE if low else HALLUCINATION
    return f"{said} ({where(piece)}: {item.reason if low else item.type})"


def _code(outcome: Outcome) -> str:
    """Of the gravest thing in the context."""
    out = {item.status for _, item in outcome.items if item.status != "approved"}
    if "rejected" in out:
        return BLOCKED
    if "pending" in out:
        return "context_quarantined"
    return "context_suspicious" if any(held.decision.action == "annotate" for held in outcome.new) else ""


def _detail(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = {"pieces": outcome.pieces, "checked": outcome.checked}
    if outcome.version:
        found["knowledge"] = outcome.version
    if outcome.items:
        found["content"] = [_of_item(piece, item) for piece, item in outcome.items[:_MAX_LISTED]]
    for name, action in (("annotated", "annotate"), ("noted", "note")):
        if new := [held for held in outcome.new if held.decision.action == action]:
            found[name] = [_of_new(held) for held in new[:_MAX_LISTED]]
    return found


def _of_item(piece: ContextPiece, item: QuarantineItem) -> dict[str, Any]:
    entry = {
        "message": piece.message,
        "kind": piece.kind,
        "quarantine": item.id,
        "status": item.status,
        "type": item.type,
        "reason": item.reason,
        "score": item.score,
    }
    return {name: value for name, value in entry.items() if value not in (None, "")}


def _of_new(held: HeldBack) -> dict[str, Any]:
    piece, decision = held.piece, held.decision
    entry = {
        "message": piece.message,
        "kind": piece.kind,
        "type": decision.kind,
        "reason": decision.reason,
        "score": decision.score,
        "spans": [[piece.start + f.finding.start, piece.start + f.finding.end] for f in decision.failing],
    }
    return {name: value for name, value in entry.items() if value not in (None, "")}
