"""Report: what was found, for the record, and the verdicts on a sentence, an answer and its tool calls. Pure functions.

At most `MAX_CLAIMS` claims are listed: the failing and unchecked ones first, then the others in order, and how many were left out. A
text is cut at `MAX_CHARS` characters. A claim's ``ms`` is the time of the batch it was judged in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proxy.exchange import Exchange, Facts, Outcome, Sentence, Verdict
from proxy.exchange.judgements import UNKNOWN_LANGUAGE, EvidenceSpan, Judgement, faithfulness, support, was_judged
from proxy.exchange.verdicts import UNCHECKED
from proxy.language.amounts import dollars, many, score
from proxy.ports.panels import Bucket, Lines, Panel, RecordedVerdict, StagePanel, make_panel, ratio
from proxy.stages.claims.acting import failing_of
from proxy.stages.claims.judging import MADE_UP, NO_CONTEXT, ClaimCase, Ground, JudgedClaim
from proxy.stages.claims.options import ClaimsOptions

NAME = "claims"
BLOCKED = "hallucination_detected"
CHECKED = ("supported", "contradicted", "unsupported", "unsure", "error")
"""Labels of what was, or should have been, judged."""
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
NO_STATEMENTS = "nothing to check"
UNCHECKED_CODES = {
    NO_CONTEXT: f"{UNCHECKED}no_context",
    MADE_UP: f"{UNCHECKED}made_up",
    NO_STATEMENTS: f"{UNCHECKED}no_statements",
    UNKNOWN_LANGUAGE: f"{UNCHECKED}language",
}
"""By the reason for which no statement was judged: the code that says so; behind that of a language stands which."""
CERTAIN = 0.8
"""Probability of support from which a statement that a verifier alone supports is good enough for a ``pass``. Of sentences of answers over
tables, logs and prose 7% of the right ones and 2% of those with one thing wrong reach it (0.7: 21% and 12%): `benchmarks.answers`."""
_SAYS_SOMETHING = frozenset(("value", "not_known", "code", "instruction", "hedge", "plan", "refusal"))
"""Reasons of statements that nobody checks, although something can be wrong with them."""


def holds(judgement: Judgement) -> bool:
    """Whether a statement is good enough for a ``pass``: it is supported for certain, or there is nothing in it to be wrong."""
    if judgement.label == "not_checkable":
        return judgement.reason not in _SAYS_SOMETHING
    return judgement.label == "supported" and support(judgement) >= CERTAIN


def detail_of(claims: Sequence[JudgedClaim]) -> dict[str, Any]:
    """Counts, how many nobody is sure of, what the labels rest on, who judged where it was several, figures by choice, and the claims."""
    counts = Counter(one.judgement.label for one in claims)
    detail: dict[str, Any] = {"counts": dict(counts), "unsure": counts["unsure"]}
    if by := Counter(one.judgement.decided_by for one in claims if one.judgement.decided_by):
        detail["decided_by"] = dict(by)
    if len(who := Counter(one.judgement.verifier for one in claims if one.judgement.verifier)) > 1:
        detail["judged_by"] = dict(who)
    choices = sorted({one.choice for one in claims})
    if len(choices) > 1:
        detail["faithfulness"] = {str(index): rounded(faithfulness(of_choice(claims, index))) for index in choices}
    listed = shown(claims)
    detail["claims"] = [entry(one) for one in listed]
    if len(listed) < len(claims):
        detail["claims_left_out"] = len(claims) - len(listed)
    return detail


def counted(claims: Sequence[JudgedClaim]) -> dict[str, int] | None:
    """Checkable claims by label, each of those that a header always has; None where there are none."""
    counts = Counter(one.judgement.label for one in claims if one.judgement.label != "not_checkable")
    labels = (*(label for label in _URGENT if label != "error"), *(("error",) if counts["error"] else ()))
    return {label: counts[label] for label in ("supported", *labels)} if counts else None


def shown(claims: Sequence[JudgedClaim]) -> list[JudgedClaim]:
    """Those that the record lists, in order."""
    by_need = sorted(range(len(claims)), key=lambda i: (claims[i].judgement.label not in _URGENT, i))
    return [claims[i] for i in sorted(by_need[:MAX_CLAIMS])]


def of_choice(claims: Sequence[JudgedClaim], choice: int) -> list[Judgement]:
    """The judgements of one choice."""
    return [one.judgement for one in claims if one.choice == choice]


def entry(one: JudgedClaim) -> dict[str, Any]:
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


# ---- verdicts ----


def of_sentence(sentence: Sentence, options: ClaimsOptions, outcome: Outcome, code: str, replacement: str | None) -> Verdict:
    """Of one sentence, before it leaves."""
    detail = {"choice": sentence.choice, "sentence": sentence.index, "action": options.action}
    return Verdict(NAME, outcome, code=code, detail=detail, replacement=replacement)


def blocked(claims: Sequence[JudgedClaim], options: ClaimsOptions) -> Verdict:
    """The answer is refused."""
    score, message = faithfulness(one.judgement for one in claims), refusal(failing_of(claims, options.fail_on))
    return Verdict(NAME, "block", code=BLOCKED, score=score, detail={"action": options.action, **detail_of(claims)}, message=message)


def of_answer(exchange: Exchange, case: ClaimCase, ground: Ground, options: ClaimsOptions, of_claims: Mapping[str, Any]) -> Verdict:
    """Of the whole answer, without what could not be checked (`with_errors`)."""
    detail = {"action": options.action, "evidence": len(ground.base.evidence), **of_claims}
    score, failing = exchange.facts.faithfulness, failing_of(case.claims, options.fail_on)
    if reason := _unchecked_reason(case, ground):
        detail["reason"] = reason
    if languages := sorted({one.judgement.language for one in case.claims if one.judgement.language}):
        detail["languages"] = languages
    if failing:
        return Verdict(NAME, "warn", worst_code(failing), score, detail, scope="statements")
    outcome: Outcome = "unchecked" if reason else "pass" if _all_hold(case) else "unsure"
    code = UNCHECKED_CODES.get(reason, "")
    code = f"{code}_{'_'.join(languages)}" if code and languages else code
    return Verdict(NAME, outcome, code, score, detail, scope="statements")


def with_errors(verdict: Verdict, claims: Iterable[JudgedClaim]) -> list[Verdict]:
    """`verdict`; where a check failed, an error that says why, behind the warning of what failed the policy."""
    error = next((one.judgement for one in claims if one.judgement.label == "error"), None)
    if error is None:
        return [verdict]
    warning = [Verdict(NAME, "warn", code=verdict.code, score=verdict.score)] if verdict.outcome == "warn" else []
    detail = {"reason": error.reason[:MAX_CHARS], **verdict.detail}
    return [*warning, Verdict(NAME, "error", code="claims_unchecked", score=verdict.score, detail=detail)]


def _unchecked_reason(case: ClaimCase, ground: Ground) -> str:
    """Why no statement was judged; "" where one was, or should have been."""
    checkable = [one.judgement for one in case.claims if one.judgement.label in CHECKED]
    if not checkable:
        return ground.skipped or NO_STATEMENTS
    unknown = not any(was_judged(judgement) or judgement.label == "error" for judgement in checkable)
    return UNKNOWN_LANGUAGE if unknown else ""


def _all_hold(case: ClaimCase) -> bool:
    return not case.values and all(holds(one.judgement) for one in case.claims)


_VERDICTS = {"pass": "held in every statement", "unsure": "not all decided", "unchecked": "not checked"}


class QualityPanel(StagePanel):
    """Scores of answers."""

    name = "quality"
    title = "Answer quality"
    quality_count: int = 0
    quality_sum: float = 0.0
    faithfulness_count: int = 0
    faithfulness_sum: float = 0.0
    judge_asked: int = 0
    judge_cached: int = 0
    judge_unanswered: int = 0
    judge_usd: float = 0.0

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        """One exchange."""
        if facts.quality is not None:
            self.quality_count += 1
            self.quality_sum += facts.quality
        if facts.faithfulness is not None:
            self.faithfulness_count += 1
            self.faithfulness_sum += facts.faithfulness
        if facts.judge is not None:
            self.judge_asked += facts.judge.asked
            self.judge_cached += facts.judge.cached
            self.judge_unanswered += facts.judge.unanswered
            self.judge_usd += facts.judge.usd or 0.0

    @property
    def mean(self) -> float | None:
        """Quality, 0 to 1."""
        return ratio(self.quality_sum, self.quality_count)

    @property
    def mean_faithfulness(self) -> float | None:
        """0 to 1."""
        return ratio(self.faithfulness_sum, self.faithfulness_count)

    @property
    def judge(self) -> str:
        """What the policies' judge was asked, and what that cost."""
        if not self.judge_asked:
            return ""
        said = f"judge asked {many(self.judge_asked, 'question')}"
        known = f", {self.judge_cached:,} known already" if self.judge_cached else ""
        silent = f", {self.judge_unanswered:,} unanswered" if self.judge_unanswered else ""
        return f"{said}{known}{silent}" + (f", {dollars(self.judge_usd)}" if self.judge_usd else "")

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Both means over time."""
        done = whole.of(cls)
        faithful = f"faithfulness {score(done.mean_faithfulness)} over {many(done.faithfulness_count, 'answer')}"
        detail = (
            faithful if done.faithfulness_count else "",
            many(done.quality_count, "answer") + " measured" if done.quality_count else "",
            done.judge,
            *(f"{whole.verdicts[name]:,} {words}" for name, words in _VERDICTS.items() if whole.verdicts.get(name)),
        )
        lines: Lines = {"quality": lambda b: b.of(cls).mean, "faithfulness": lambda b: b.of(cls).mean_faithfulness}
        measured = done.quality_count or done.faithfulness_count
        hint = "" if measured else "The stages claims and citations check answers against their context."
        meaning = "mean quality of answers, 0 to 1"
        return make_panel(cls.name, cls.title, score(done.mean), meaning, detail, buckets, lines, hint=hint, unit="score")
