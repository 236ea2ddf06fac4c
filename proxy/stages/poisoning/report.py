"""What a turn has brought -> verdicts: what was taken out and why, with pointers to the quarantine, and no text of the conversation.

What dashboard and log tell the operator stands below it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from proxy.context.pieces import ContextPiece
from proxy.exchange import Facts, Verdict
from proxy.language.amounts import number
from proxy.ports import QuarantineItem
from proxy.ports.panels import Bucket, Lines, Panel, RecordedVerdict, StagePanel, make_panel, most_common
from proxy.stages.poisoning.rules import KINDS, PieceDecision

BLOCKED, ANSWER = "poisoned_context", "answer_quarantined"
HALLUCINATION, INSTRUCTION, LOW_CONFIDENCE = (
    "content rejected: hallucination detected",
    "content rejected: it holds instructions to the model",
    "content rejected: low confidence",
)
_MAX_LISTED = 50
WINDOW = 200
"""Pieces that the rate is taken over."""
MIN_PIECES = 20
"""Fewer say nothing about a rate: one bad piece of five is no wave."""
COUNTERS = {
    "poisoning.checked_count": "new pieces of context that were checked",
    "poisoning.attempts_count": "pieces that were poisoned",
    "poisoning.blocked_count": "pieces that were blocked",
    "poisoning.quarantined_count": "pieces that were quarantined",
    "poisoning.rejected_count": "pieces for which the request was refused",
    "poisoning.annotated_count": "pieces that were only reported",
    "poisoning.answers_count": "answers kept from coming back as history",
    "poisoning.alerts_count": "times the share of poisoned pieces rose above alert_above",
    **{f"poisoning.type_{name}_count": f"poisoned pieces of the type {name}" for name in KINDS},
}


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
    new: list[tuple[ContextPiece, PieceDecision]] = field(default_factory=list)
    """The pieces that were decided upon in this turn."""
    items: list[tuple[ContextPiece, QuarantineItem]] = field(default_factory=list)
    """The pieces that the quarantine has, approved ones too."""


def verdicts_of(stage: str, outcome: Outcome) -> list[Verdict]:
    """The turn's verdicts, the one that counts last."""
    detail = _detail(outcome)
    out = [(piece, item) for piece, item in outcome.items if item.status != "approved"]
    score = max((item.score for _, item in out if item.score is not None), default=None)
    refused = next(((piece, item) for piece, item in out if item.status == "pending" and item.detail.get("refused")), None)
    if refused is not None:
        return [Verdict(stage, "block", code=BLOCKED, score=refused[1].score, detail=detail, message=_message(*refused))]
    code = _code(outcome)
    found = Verdict(stage, "warn" if code else "pass" if outcome.looked else "unchecked", code=code, score=score, detail=detail)
    if not outcome.error and not outcome.unchecked:
        return [found]
    reason = {"reason": outcome.error or "timeout", "unchecked": outcome.unchecked, **({} if code else detail)}
    return [*([found] if code else []), Verdict(stage, "error", code="poisoning_unchecked", detail=reason)]


def verdict_of_answer(stage: str, items: Sequence[QuarantineItem], error: str) -> Verdict:
    """The verdict on an answer of which `items` will not come back; an error where they could not be kept."""
    score = max((item.score for item in items if item.score is not None), default=None)
    if error:
        return Verdict(stage, "error", code="poisoning_unchecked", score=score, detail={"reason": error, "answers": len(items)})
    listed = [{"quarantine": item.id, "status": item.status, "type": item.type, "reason": item.reason} for item in items]
    return Verdict(stage, "warn", code=ANSWER, score=score, detail={"answers": listed})


def where(piece: ContextPiece) -> str:
    """Where a piece stands in the request."""
    if piece.message is None:
        return "groundwire.context"
    return f"messages[{piece.message}]" if piece.message >= 0 else f"a result of {piece.source}"


def _message(piece: ContextPiece, item: QuarantineItem) -> str:
    """For the client: why its request is refused, and where it stands."""
    low = item.detail["refused"] == "low_confidence"
    why = INSTRUCTION if item.type == "hidden_instruction" else LOW_CONFIDENCE if low else HALLUCINATION
    return f"{why} ({where(piece)}: {item.reason if low else item.type})"


def _code(outcome: Outcome) -> str:
    """Of the gravest thing in the context."""
    out = {item.status for _, item in outcome.items if item.status != "approved"}
    if "rejected" in out:
        return BLOCKED
    if "pending" in out:
        return "context_quarantined"
    return "context_suspicious" if any(decision.action == "annotate" for _, decision in outcome.new) else ""


def _detail(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = {"pieces": outcome.pieces, "checked": outcome.checked}
    if outcome.version:
        found["knowledge"] = outcome.version
    if outcome.items:
        found["content"] = [_of_item(piece, item) for piece, item in outcome.items[:_MAX_LISTED]]
    for name, action in (("annotated", "annotate"), ("noted", "note")):
        if new := [(piece, decision) for piece, decision in outcome.new if decision.action == action]:
            found[name] = [_of_new(*one) for one in new[:_MAX_LISTED]]
    return found


def _of_item(piece: ContextPiece, item: QuarantineItem) -> dict[str, Any]:
    about = {"quarantine": item.id, "status": item.status, "type": item.type, "reason": item.reason, "score": item.score}
    return _without_blanks({"message": piece.message, "kind": piece.kind, **about})


def _of_new(piece: ContextPiece, decision: PieceDecision) -> dict[str, Any]:
    spans = [[piece.start + one.finding.start, piece.start + one.finding.end] for one in decision.failing]
    about = {"type": decision.kind, "reason": decision.reason, "score": decision.score, "spans": spans}
    return _without_blanks({"message": piece.message, "kind": piece.kind, **about})


def _without_blanks(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value not in (None, "")}


# ---- the operator's figures ----

ALERT_ABOVE = 0.05
"""Share of poisoned pieces above which the panel says so, as ``alert_above`` of the stage and ``monitoring/alerts.yml`` do."""


class _Checks(Struct, frozen=True):
    """Of a verdict's detail."""

    checked: int = 0


class PoisoningPanel(StagePanel):
    """What was checked; what came into quarantine is the review's to count."""

    name = "poisoning"
    title = "Content kept out"
    poisoning_checked: int = 0
    """New pieces of context that were checked."""

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        """One exchange."""
        self.poisoning_checked += sum(verdict.noted(_Checks).checked for verdict in verdicts if verdict.stage == "poisoning")

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Pieces kept out, their share, and what people decided."""
        found, checked = sum(whole.quarantined.values()), whole.of(cls).poisoning_checked
        states = ", ".join(f"{count:,} {name}" for name, count in sorted(whole.quarantine.items()))
        meaning = "kept out of the context" + (f", {found / checked:.1%} of those checked" if found and checked else "")
        detail = (
            f"alert: more than {ALERT_ABOVE:.0%} of what came in" if found > ALERT_ABOVE * (checked or found) else "",
            f"{checked:,} new pieces checked" if checked else "",
            states,
            most_common(whole.quarantined),
        )
        lines: Lines = {"kept out": lambda b: float(sum(b.quarantined.values()))} if found else {}
        hint = "" if found or checked else "Add the stage poisoning to a policy to check new content before it enters."
        return make_panel(cls.name, cls.title, number(found), meaning, detail, buckets, lines, hint=hint)


class PoisoningRate:
    """How much of what comes in is poisoned: a sliding window over the pieces that were checked last, and when it is too much.

    Belongs to one policy of one process, and is its operator's to know: no client's verdict says how much poison others sent.
    """

    def __init__(self, alert_above: float, window: int = WINDOW) -> None:
        """`alert_above` is the share of poisoned pieces from which on it is too much."""
        self._alert_above = alert_above
        self._last: deque[bool] = deque(maxlen=window)
        self.high = False
        """Whether it is above the mark, with enough pieces to tell."""

    @property
    def rate(self) -> float:
        """Share of the window's pieces that were poisoned; 0 for an empty one."""
        return sum(self._last) / len(self._last) if self._last else 0.0

    def add(self, poisoned: bool) -> bool:
        """Count one piece that was checked; True where the rate rises above the mark with it."""
        self._last.append(poisoned)
        before, self.high = self.high, len(self._last) >= MIN_PIECES and self.rate > self._alert_above
        return self.high and not before
