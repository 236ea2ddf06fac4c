"""A decision on a piece <-> an item of the quarantine: what is kept of it, and what of the piece it takes out when it comes again.

The item's content is the piece, byte for byte; its detail names the failing statements by their words, so that they are found again in a
piece with other white space. Every worker that finds the item takes out the same. An answer that the stage `claims` judged bad is an item,
too, under the hash that its text has as an assistant message of the next request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.context.edits import NOTE, Edit, whole
from proxy.context.pieces import ContextPiece, content_hash
from proxy.exchange import Choice, Exchange
from proxy.exchange.judgements import Judgement
from proxy.grounding.claims.redaction import sentence_spans
from proxy.language.detection import language
from proxy.language.json.strings import strings_of, with_values
from proxy.ports import QuarantineItem
from proxy.ports.review import POLICY
from proxy.stages.poisoning.injection import InjectionFinding, detect
from proxy.stages.poisoning.rules import EXACT, EXCLUDING, Failing, PieceDecision, PoisoningFinding, kind_of

MAX_LISTED = 50
"""Statements that an item names; where there are more, all of the piece goes."""
MAX_REASON_CHARS = 500
_NOTE_JSON = json.dumps(NOTE, ensure_ascii=False)


def item_of(
    exchange: Exchange,
    piece: ContextPiece,
    decision: PieceDecision,
    injection: InjectionFinding | None = None,
    tool: str = "",
) -> QuarantineItem:
    """What the quarantine keeps of a piece, a result of `tool` if that has a name: decided by the policy where it blocks, open where it
    holds it for a person.
    """
    blocked = decision.action == "block"
    taken_out = [one for one in decision.failing if one.action in EXCLUDING]
    detail: dict[str, Any] = {"statements": [_statement(one) for one in taken_out[:MAX_LISTED]]}
    whole = decision.whole and strings_of(piece.text) is None  # what stands in one value of JSON says nothing of the others
    if decision.instruction and injection is not None:
        detail |= {"strings": _strings(piece.text, injection), "categories": sorted({s.category for s in injection.spans})}
        whole = not detail["strings"]
    detail["whole"] = whole or len(taken_out) > MAX_LISTED
    if decision.action == "reject":
        detail["refused"] = "low_confidence" if decision.low_confidence else "false"
    reason = decision.reason[:MAX_REASON_CHARS]
    return QuarantineItem(
        client=exchange.client,
        run_id=exchange.run_id,
        policy=exchange.policy,
        hash=piece.hash,
        kind=piece.kind,
        role=piece.role,
        type=decision.kind or "",
        reason=reason,
        content=piece.text.encode("utf-8", "surrogatepass"),
        score=decision.score,
        source=piece.source or tool,
        record_id=exchange.id,
        detail=detail,
        status="rejected" if blocked else "pending",
        decided_by=POLICY if blocked else "",
        decision_reason=reason if blocked else "",
    )


def edits_of(piece: ContextPiece, detail: Mapping[str, Any]) -> list[Edit]:
    """What an item's `detail` takes out of the piece; all of it where a statement cannot be found any more."""
    wanted, strings = detail.get("strings") or (), strings_of(piece.text)
    values = [Edit(piece, one.start, one.end, _NOTE_JSON) for one in (strings or ()) if one.value in wanted]
    spans = _places(piece.text, [str(statement["text"]) for statement in detail.get("statements") or ()])
    if detail.get("whole") or spans is None or not (values or spans):
        return [whole(piece)]
    if strings is not None:
        return values + [Edit(piece, *span, _instead(piece.text, *span)) for span in spans]
    spans = sentence_spans(piece.text, spans)
    rest = piece.text
    for start, end in reversed(spans):
        rest = rest[:start] + rest[end:]
    return [Edit(piece, *span) for span in spans] if any(c.isalnum() for c in rest) else [whole(piece)]


def _instead(text: str, start: int, end: int) -> str:
    """What takes a statement's place in JSON; a string of which nothing is left says so."""
    return _NOTE_JSON[1:-1] if text[start - 1 : start] == text[end : end + 1] == '"' else ""


def _statement(failing: Failing) -> dict[str, Any]:
    finding = failing.finding
    found = {
        "text": finding.text,
        "type": finding.kind,
        "status": finding.status,
        "confidence": round(finding.confidence, 4),
        "reason": failing.reason[:MAX_REASON_CHARS],
        "correct_fact": finding.correct_fact,
        "source": finding.source,
    }
    return {name: value for name, value in found.items() if value != ""}


def _strings(text: str, injection: InjectionFinding) -> list[str]:
    """Of a JSON piece the values that hold instructions, until what is left holds none: a finding is of the strongest attempt only.

    Empty for any other text, and where so few values cannot be told.
    """
    found: list[str] = []
    while injection.suspicious:
        spans = {(span.start - 1, span.end + 1) for span in injection.spans}
        strings = strings_of(text) or []
        hits = {i: string.value for i, string in enumerate(strings) if (string.start, string.end) in spans and string.value.strip()}
        found += dict.fromkeys(hits.values())
        if not hits or len(found) > MAX_LISTED:
            return []
        text = with_values(text, {i: "" for i, string in enumerate(strings) if string.value in hits.values()})
        injection = detect(text)
    return found


def _places(text: str, statements: Sequence[str]) -> list[tuple[int, int]] | None:
    """Where the statements stand; None where one of them cannot be found any more."""
    found, at = list[tuple[int, int]](), 0
    for statement in statements:
        span = _place(text, statement, at)
        if span is None:
            return None
        found.append(span)
        at = span[1]
    return found


def _place(text: str, statement: str, after: int) -> tuple[int, int] | None:
    """Where a statement stands, behind `after` if it can be, with any white space between its words."""
    for start in (after, 0):
        at = text.find(statement, start)
        if at >= 0:
            return at, at + len(statement)
    words = [re.escape(word) for word in statement.split()]
    match = re.search(r"\s+".join(words), text) if words else None
    return match.span() if match is not None else None


# ---- answers ----


def items_of(exchange: Exchange, fail_on: str) -> Iterator[QuarantineItem]:
    """For each choice of the answer as it was delivered."""
    for choice in exchange.answer.choices if exchange.answer is not None else ():
        decision = _of_answer(exchange, choice, fail_on)
        if decision is not None:
            piece = ContextPiece("assistant", choice.text, content_hash(choice.text, "assistant"), role="assistant", source="answer")
            yield item_of(exchange, piece, decision)


def _of_answer(exchange: Exchange, choice: Choice, fail_on: str) -> PieceDecision | None:
    """What is wrong with the delivered text; None where nothing of it is left in there."""
    labels = ("contradicted", "unsupported") if fail_on == "unsupported" else ("contradicted",)
    answer = exchange.upstream_answer or exchange.answer  # the judgements' positions are those of its text
    choices = answer.choices if answer is not None else ()
    upstream_text = next((one.text for one in choices if one.index == choice.index), choice.text)
    judgements = exchange.judgements.get(choice.index, ())
    left = [found for j in judgements if j.label in labels and (found := _failing(j, upstream_text, choice.text)) is not None]
    left = [one for one in left if fail_on == "unsupported" or one.finding.kind in EXACT]
    if not left:
        return None
    worst = max(left, key=lambda one: one.finding.confidence)
    checked = sum(j.label in ("supported", "contradicted", "unsupported") for j in judgements)
    reason = f"the answer's own check: {worst.reason}"
    return PieceDecision("quarantine", worst.finding.kind, reason, worst.finding.confidence, tuple(left), 2 * len(left) > checked)


def _failing(judgement: Judgement, upstream_text: str, delivered: str) -> Failing | None:
    claim, evidence = judgement.claim, judgement.evidence.text if judgement.evidence is not None else ""
    text = upstream_text[claim.start : claim.end]
    if not text.strip() or text not in delivered:
        return None
    contradicted = judgement.label == "contradicted"
    confidence = (judgement.contradiction if contradicted else 1 - (judgement.score or 0.0)) or 0.0
    kind = kind_of(claim.text, evidence, contradicted=contradicted, language=language(claim.text))
    source = judgement.evidence.source if judgement.evidence is not None else ""
    at, status = delivered.find(text), "INVALID" if contradicted else "SUSPICIOUS"
    fact = evidence if contradicted else ""
    finding = PoisoningFinding(text, at, at + len(text), status, confidence, kind, judgement.reason, fact, source)  # type: ignore[arg-type]
    words = "contradicted by the context" if contradicted else "not supported by the context"
    return Failing(finding, "quarantine", f"{kind}: {words}" + (f" ({judgement.reason})" if judgement.reason else ""))
