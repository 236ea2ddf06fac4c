"""Answers that the grounding stage judged bad -> items of the quarantine, so that they do not come back as history unseen.

In: an exchange whose answer has left, with the judgements of the stage `claims`. Out: an item for each choice whose text still holds a
failing statement, under the hash that the text has as an assistant message of the next request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proxy.context.pieces import ContextPiece, content_hash
from proxy.exchange import Choice, Exchange
from proxy.exchange.judgements import Judgement
from proxy.language.detection import language
from proxy.ports import QuarantineItem
from proxy.stages.poisoning.decisions import EXACT, Failing, PieceDecision, PoisoningFinding
from proxy.stages.poisoning.kinds import kind_of
from proxy.stages.poisoning.remembering import item_of


def items_of(exchange: Exchange, fail_on: str) -> Iterator[QuarantineItem]:
    """For each choice of the answer as it was delivered."""
    for choice in exchange.answer.choices if exchange.answer is not None else ():
        failing = [j for j in exchange.judgements.get(choice.index, ()) if fails(j, fail_on)]
        decision = _decision(exchange, choice, failing, fail_on)
        if decision is not None:
            piece = ContextPiece("assistant", choice.text, content_hash(choice.text, "assistant"), role="assistant", source="answer")
            yield item_of(exchange, piece, decision, None)


def fails(judgement: Judgement, fail_on: str) -> bool:
    """Whether an answer's statement is bad enough."""
    return judgement.label == "contradicted" or (fail_on == "unsupported" and judgement.label == "unsupported")


def _decision(exchange: Exchange, choice: Choice, failing: Sequence[Judgement], fail_on: str) -> PieceDecision | None:
    """What is wrong with the delivered text; None where nothing of it is left in there."""
    said = _upstream_text(exchange, choice)
    left = [found for j in failing if (found := _failing(j, said, choice.text)) is not None]
    left = [one for one in left if fail_on == "unsupported" or one.finding.kind in EXACT]
    if not left:
        return None
    worst = max(left, key=lambda one: one.finding.confidence)
    checked = [j for j in exchange.judgements.get(choice.index, ()) if j.label in ("supported", "contradicted", "unsupported")]
    reason = f"the answer's own check: {worst.reason}"
    return PieceDecision("quarantine", worst.finding.kind, reason, worst.finding.confidence, tuple(left), 2 * len(left) > len(checked))


def _failing(judgement: Judgement, said: str, delivered: str) -> Failing | None:
    claim, evidence = judgement.claim, judgement.evidence.text if judgement.evidence is not None else ""
    text = said[claim.start : claim.end]
    if not text.strip() or text not in delivered:
        return None
    contradicted = judgement.label == "contradicted"
    confidence = (judgement.contradiction if contradicted else 1 - (judgement.score or 0.0)) or 0.0
    kind = kind_of(claim.text, evidence, contradicted=contradicted, language=language(claim.text))
    source = judgement.evidence.source if judgement.evidence is not None else ""
    at = delivered.find(text)
    finding = PoisoningFinding(
        text,
        at,
        at + len(text),
        "INVALID" if contradicted else "SUSPICIOUS",
        confidence,
        kind,
        judgement.reason,
        evidence if contradicted else "",
        source,
    )
    words = "contradicted by the context" if contradicted else "not supported by the context"
    return Failing(finding, "quarantine", f"{kind}: {words}" + (f" ({judgement.reason})" if judgement.reason else ""))


def _upstream_text(exchange: Exchange, choice: Choice) -> str:
    """The text that the judgements' positions are those of."""
    answer = exchange.upstream_answer or exchange.answer
    return next((c.text for c in answer.choices if c.index == choice.index), choice.text) if answer is not None else choice.text
