"""Judgements of claims, and what the policy's judge says over them.

In: what exact rules and the built-in models found of each claim, and the evidence. Out: the same, with the judge's word on what was open to
it. What a rule decided (the same words in the evidence, another value in a place, a calculation) is never asked about. Where the judge has
no answer, what was found stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from proxy.exchange.judgements import UNKNOWN_LANGUAGE, Claim, Judgement, Label
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.questions import support_question
from proxy.offloop import run_in_thread_if_large
from proxy.ports.judge import AskAbout, JudgeAnswer, JudgeQuestion, JudgeSession

EVIDENCE_CHARS = 4000
"""Characters of evidence for one claim: all of it where it has no more."""
SURELY = 0.8
"""Probability of support from which the built-in models are sure."""
RELATED = 0.2
"""Probability of either, from which evidence has anything to do with a claim."""
REMARKS = 3
"""Sentences of a user's up to which they are a remark, that the answer may correct, and no text to work with."""
_BY_RULE = ("literal", "exact", "recomputed")
_LABELS: dict[str, Label] = {"supported": "supported", "contradicted": "contradicted", "neither": "unsupported"}


def is_open_to_judge(judgement: Judgement, ask: AskAbout) -> bool:
    """Whether the judge is to be asked about it: nothing exact decides it and, unless everything is asked, nobody is sure that it holds."""
    label = judgement.label
    if label == "not_checkable" or (judgement.decided_by in _BY_RULE and label in ("supported", "contradicted")):
        return False
    return ask == "all" or label != "supported" or (judgement.score or 0.0) < SURELY


def question_of(claim: Claim, base: EvidenceBase) -> JudgeQuestion | None:
    """What the judge is asked of a claim; None without evidence."""
    text = claim.question_and_text
    evidence = base.numbered(f"{claim.before} {text}" if claim.before else text, EVIDENCE_CHARS)
    text = f'{text} (Said right after: "{claim.before}")' if claim.before else text
    return support_question(text, evidence) if evidence else None


async def ask_ahead(claims: Sequence[Claim], base: EvidenceBase, judge: JudgeSession, timeout_s: float) -> None:
    """Begin to ask about claims while the built-in models look at them; what stands word by word in the evidence needs nobody."""

    def questions() -> list[JudgeQuestion]:
        undecided = [claim for claim in claims if claim.checkable and base.literal(claim.text) is None]
        return [question for claim in undecided if (question := question_of(claim, base)) is not None]

    judge.ahead(await run_in_thread_if_large(len(claims) * base.chars, questions), timeout_s)


async def reconsider_judgements(
    judgements: Sequence[Judgement],
    base: EvidenceBase,
    judge: JudgeSession | None,
    timeout_s: float | None = None,
    *,
    only_related: bool = False,
    reopens: Callable[[Judgement], bool] | None = None,
) -> list[Judgement]:
    """With the judge's word on what is open to it; with `only_related`, not where the evidence has nothing to do with a claim.

    `reopens` says of what is not checkable whether it is to be asked about all the same: then it stays so where the judge finds neither.
    """
    if judge is None:
        return list(judgements)
    wanted = [i for i, one in enumerate(judgements) if is_open_to_judge(one, judge.ask) or (reopens is not None and reopens(one))]
    wanted = [i for i in wanted if not (only_related and _is_unrelated(judgements[i]))]
    made = await run_in_thread_if_large(len(wanted) * base.chars, lambda: {i: question_of(judgements[i].claim, base) for i in wanted})
    questions = {i: question for i, question in made.items() if question is not None}
    answers = await judge.answers(list(questions.values()), timeout_s)
    found = list(judgements)
    for i, answer in zip(questions, answers, strict=True):
        found[i] = _apply_answer(judgements[i], answer, base)
    return found


def _is_unrelated(judgement: Judgement) -> bool:
    return judgement.label == "unsupported" and max(judgement.score or 0.0, judgement.contradiction or 0.0) < RELATED


def _apply_answer(judgement: Judgement, answer: JudgeAnswer, base: EvidenceBase) -> Judgement:
    found = answer.probabilities
    if not found:
        return judgement
    label = _LABELS.get(answer.choice) or ("unsupported" if judgement.label == "unsupported" else "unsure")
    if judgement.label == "not_checkable" and label not in ("supported", "contradicted"):
        return judgement
    if judgement.decided_by == "exact" and label == "supported":
        return judgement  # a value differs there, whoever said it
    span = judgement.evidence
    if span is None and label in ("supported", "contradicted"):
        nearest = base.by_terms(judgement.claim.question_and_text, range(len(base)))
        span = base.span(nearest[0])
    if label == "contradicted" and span is not None and span.opinion and len(base) <= REMARKS:
        label = "unsure"  # whoever answers may know better than the user
    reason = answer.reason or ("" if judgement.reason == UNKNOWN_LANGUAGE else judgement.reason)
    return replace(
        judgement,
        label=label,
        score=found["supported"],
        contradiction=found["contradicted"],
        evidence=span,
        decided_by="judge",
        verifier=answer.by,
        reason="" if label == "supported" else reason,
        language="",
    )
