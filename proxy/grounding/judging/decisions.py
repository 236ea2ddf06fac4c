"""Questions about a text, answered by the engine that checks claims: every option is a statement, judged by the text as its evidence.

- The statement of a question is what stands in its instructions behind ``Statement:`` or ``Claim:``, or else their last paragraph.
- A predicate is its statement; where that is a question, what its ``yes`` means. How likely it is that the text says so.
- A choice among words for entailment (`MEANINGS`) is of its statement: whether the text supports it, contradicts it, or neither.
- Any other choice, and a score, has a statement for each option: its description, or itself where it is as long as one. They are weighed by
  how well the text supports them; where it supports none, there is no answer.

What is no statement cannot be judged so: that is refused (`Answer.problem`), never guessed. In: a state and questions. Out: an answer each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from proxy.errors import ModelUnavailable
from proxy.exchange import Evidence
from proxy.exchange.judgements import Claim, Judgement, support
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Verifier
from proxy.ports.decisions import YES_NO, Answer, Question

Meaning = Literal["supported", "contradicted", "neither"]
MEANINGS: Mapping[str, Meaning] = {
    "supported": "supported",
    "entailed": "supported",
    "entailment": "supported",
    "contradicted": "contradicted",
    "contradiction": "contradicted",
    "refuted": "contradicted",
    "neither": "neither",
    "neutral": "neither",
    "unsupported": "neither",
    "not_mentioned": "neither",
}
"""What options are called where a choice asks how a text bears on a statement."""
STATEMENT_WORDS = 3
"""The least that says something of something; a shorter option is a label."""
MIN_SUPPORT = 0.5
"""Of the best supported option, as of a claim that counts as supported."""
_STATEMENT_LABEL = re.compile(r"^\s{0,9}(?:statement|claim|hypothesis)\s{0,9}:", re.I | re.M)
_PARAGRAPHS = re.compile(r"\n\s*\n")
_QUESTION_ENDS = ("?", "？", "؟")


class Unanswerable(Exception):
    """A question that is none of these."""


class _Plan(Struct, frozen=True):
    """How one question is answered."""

    question: Question
    statements: tuple[str, ...]
    meanings: tuple[Meaning, ...] = ()
    """Of its options, where it asks how the text bears on its one statement."""


async def decide(verifier: Verifier, state: str, questions: Sequence[Question], *, deadline_s: float | None = None) -> dict[str, Answer]:
    """An answer for each question, by its name. Cancelling it ends the work; what is open past `deadline_s` is refused.

    Raises `ModelUnavailable` where the verifier could judge nothing at all.
    """
    answers: dict[str, Answer] = {}
    plans = []
    for question in questions:
        try:
            plans.append(_plan(question))
        except Unanswerable as reason:
            answers[question.name] = Answer(problem=f"refused: {reason}")
    statements = list(dict.fromkeys(text for plan in plans for text in plan.statements))
    if not statements:
        return answers
    base = await run_in_thread_if_large(len(state), EvidenceBase, [Evidence(state)])
    claims = [Claim(text, 0, len(text)) for text in statements]
    judged = await Grounder(verifier, only_certain=True).judge(claims, base, deadline_s=deadline_s)
    if all(judgement.label == "error" for judgement in judged):
        raise ModelUnavailable(f"the verifier judged nothing: {judged[0].reason}")
    found = dict(zip(statements, judged, strict=True))
    return answers | {plan.question.name: _answer(plan, [found[text] for text in plan.statements]) for plan in plans}


def statements(questions: Sequence[Question]) -> int:
    """How many statements would have to be judged, at most."""
    return sum(max(1, len(question.choices)) for question in questions)


def _plan(question: Question) -> _Plan:
    """Raises `Unanswerable`."""
    if question.kind == "predicate":
        return _Plan(question, (_statement_of(question),))
    meanings = tuple(MEANINGS[option] for option in question.choices if option in MEANINGS)
    if question.kind == "choice" and len(meanings) == len(question.choices) == len(set(meanings)):
        return _Plan(question, (_statement_of(question),), meanings)
    texts = question.descriptions or ("",) * len(question.choices)
    options = tuple(text or option for option, text in zip(question.choices, texts, strict=True))
    for option in options:
        if len(option.split()) < STATEMENT_WORDS or _is_question(option):
            raise Unanswerable(f"the built-in judge weighs statements, and {option[:80]!r} is none: describe what it means in a sentence")
    return _Plan(question, options)


def _statement_of(question: Question) -> str:
    """The statement that a question is about."""
    *_, statement = _STATEMENT_LABEL.split(question.instructions)
    statement = _PARAGRAPHS.split(statement.strip())[-1].strip()
    if statement and not _is_question(statement):
        return statement
    if question.kind == "predicate" and question.descriptions and question.descriptions[0]:
        return question.descriptions[0]
    raise Unanswerable("the built-in judge reads statements, not questions: say what would hold, as 'The order has been delivered.'")


def _is_question(text: str) -> bool:
    return text.rstrip("\"'»”’)* ").endswith(_QUESTION_ENDS)


def _answer(plan: _Plan, judged: Sequence[Judgement]) -> Answer:
    for judgement in judged:
        if judgement.label == "error" or judgement.language:
            return Answer(problem=f"refused: not judged ({judgement.reason})")
    if plan.meanings:
        return _entailment_answer(plan, judged[0])
    chances = [support(judgement) for judgement in judged]
    if plan.question.kind == "predicate":
        yes, no = YES_NO
        return Answer({yes: chances[0], no: 1.0 - chances[0]})
    if max(chances) < MIN_SUPPORT:
        return Answer(problem="refused: the text supports none of the options")
    return Answer(_normalise(plan.question.choices, chances))


def _entailment_answer(plan: _Plan, judgement: Judgement) -> Answer:
    """How the text bears on the statement; what it does not say is left to ``neither``, and cannot be left to nothing."""
    supports = support(judgement)
    contradicts = 1.0 if judgement.label == "contradicted" else min(judgement.contradiction or 0.0, 1.0 - supports)
    supports = min(supports, 1.0 - contradicts)
    share: dict[Meaning, float] = {"supported": supports, "contradicted": contradicts, "neither": 1.0 - supports - contradicts}
    if "contradicted" not in plan.meanings:
        share["neither"] += share["contradicted"]
    chances = [share[meaning] for meaning in plan.meanings]
    if sum(chances) < MIN_SUPPORT:
        return Answer(problem="refused: the text supports none of the options")
    return Answer(_normalise(plan.question.choices, chances))


def _normalise(options: Sequence[str], chances: Sequence[float]) -> dict[str, float]:
    total = sum(chances)
    return {option: chance / total for option, chance in zip(options, chances, strict=True)}
