"""What was found, for the record: every claim with its label, score, evidence and place, within bounds. Pure functions.

At most `MAX_CLAIMS` claims are listed: the failing and unchecked ones first, then the others in order, and how many were left out. A
text is cut at `MAX_CHARS` characters. A claim's ``ms`` is the time of the batch it was judged in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from proxy.exchange.judgements import EvidenceSpan, Judgement, faithfulness
from proxy.stages.claims.checks import FoundClaims

MAX_CLAIMS = 60
MAX_CHARS = 400
MAX_MESSAGE_CHARS = 200
_URGENT = ("contradicted", "unsupported", "unsure", "error")
COUNTERS = {
    "claims.checked_count": "statements of answers that were checked",
    **{f"claims.{name}_count": f"statements found {name}" for name in ("supported", "contradicted", "unsupported", "unsure", "error")},
    "claims.redacted_count": "statements taken out",
    "claims.replaced_count": "answers replaced",
    "claims.retried_count": "answers for which another one was asked",
    "claims.blocked_count": "answers refused",
}


def detail_of(found: Sequence[FoundClaims]) -> dict[str, Any]:
    """Counts, how many nobody is sure of, what the labels rest on, who judged where it was several, figures by choice, and the claims."""
    counts = Counter(one.judgement.label for one in found)
    detail: dict[str, Any] = {"counts": dict(counts), "unsure": counts["unsure"]}
    if by := Counter(one.judgement.decided_by for one in found if one.judgement.decided_by):
        detail["decided_by"] = dict(by)
    if len(who := Counter(one.judgement.verifier for one in found if one.judgement.verifier)) > 1:
        detail["judged_by"] = dict(who)
    choices = sorted({one.choice for one in found})
    if len(choices) > 1:
        detail["faithfulness"] = {str(index): rounded(faithfulness(of_choice(found, index))) for index in choices}
    listed = shown(found)
    detail["claims"] = [entry(one) for one in listed]
    if len(listed) < len(found):
        detail["claims_left_out"] = len(found) - len(listed)
    return detail


def counted(found: Sequence[FoundClaims]) -> dict[str, int] | None:
    """Checkable claims by label, each of those that a header always has; None where there are none."""
    counts = Counter(one.judgement.label for one in found if one.judgement.label != "not_checkable")
    labels = (*(label for label in _URGENT if label != "error"), *(("error",) if counts["error"] else ()))
    return {label: counts[label] for label in ("supported", *labels)} if counts else None


def shown(found: Sequence[FoundClaims]) -> list[FoundClaims]:
    """Those that the record lists, in order."""
    by_need = sorted(range(len(found)), key=lambda i: (found[i].judgement.label not in _URGENT, i))
    return [found[i] for i in sorted(by_need[:MAX_CLAIMS])]


def of_choice(found: Sequence[FoundClaims], choice: int) -> list[Judgement]:
    """The judgements of one choice."""
    return [one.judgement for one in found if one.choice == choice]


def entry(one: FoundClaims) -> dict[str, Any]:
    """One claim, without what is not known of it."""
    judgement = one.judgement
    listed = {
        "choice": one.choice,
        "field": "refusal" if one.refusal else None,
        "text": judgement.claim.text[:MAX_CHARS],
        "span": [judgement.claim.start, judgement.claim.end],
        "label": judgement.label,
        "score": rounded(judgement.score),
        "contradiction": rounded(judgement.contradiction),
        "evidence": _span(judgement.evidence),
        "instead": judgement.instead[:MAX_CHARS] or None,
        "decided_by": judgement.decided_by or None,
        "asked": judgement.claim.asked[:MAX_CHARS] or None,
        "verifier": judgement.verifier or None,
        "reason": (judgement.reason or judgement.claim.reason)[:MAX_CHARS] or None,
        "ms": round(one.ms, 1) or None,
    }
    return {name: value for name, value in listed.items() if value is not None}


def _span(span: EvidenceSpan | None) -> dict[str, Any] | None:
    if span is None:
        return None
    found = {
        "text": span.text[:MAX_CHARS],
        "source": span.source[:MAX_CHARS] or None,
        "kind": span.kind,
        "span": [span.start, span.end],
        "message_index": span.message_index,
        "message_start": span.message_start,
    }
    return {name: value for name, value in found.items() if value is not None}


def rounded(value: float | None) -> float | None:
    """To four decimals."""
    return None if value is None else round(value, 4)


def refusal(failing: Sequence[Judgement]) -> str:
    """For the client: the first failing claim, and what the context says."""
    first = failing[0]
    said = first.claim.text[:MAX_MESSAGE_CHARS]
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    if first.label == "contradicted":
        there = first.instead or (first.evidence.text if first.evidence is not None else "")
        says = f"; the context says: {there[:MAX_MESSAGE_CHARS]}" if there else ""
        return f"the answer contradicts its context: {said}{says}{more}"
    return f"the answer says what its context does not support: {said}{more}"


def worst_code(failing: Sequence[Judgement]) -> str:
    """The code of the worst of what failed, "" where nothing did."""
    if not failing:
        return ""
    labels = {judgement.label for judgement in failing}
    return next(f"claims_{label}" for label in ("contradicted", "unsupported", "unsure") if label in labels)
