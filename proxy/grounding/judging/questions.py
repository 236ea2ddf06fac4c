"""What a judge is asked, in words: one wording for each purpose, whoever answers."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.ports.judge import JudgeQuestion

YES_NO = ("yes", "no")
SUPPORT = ("supported", "contradicted", "neither")
_SUPPORTED = (
    "Does the evidence support the statement? It is supported when the evidence says all of it, contradicted when the evidence says "
    "otherwise, and neither when the evidence does not say it, or only a part of it. Numbers, dates, names, units, conditions and "
    "negations must agree; where the statement gives a thing the value of another, it is contradicted. What the evidence marks as (user) "
    "is the asker's: what they only believe, guess or wish contradicts nothing, what they gave to work with counts."
)
_HELPFUL = (
    "Does the evidence hold the information that the question in the statement asks for? Evidence that is merely about the same subject "
    "does not."
)
_COMPATIBLE = "Can both sentences of the statement be true of the same person or thing at the same time?"


def support_question(statement: str, evidence: Sequence[str], language: str = "en") -> JudgeQuestion:
    """Whether `evidence` supports or contradicts a statement."""
    return JudgeQuestion(
        purpose="support",
        instructions=_SUPPORTED,
        choices=SUPPORT,
        statement=statement,
        evidence=tuple(evidence),
        language=language,
    )


def relevance_question(question: str, passages: Sequence[str], language: str = "en") -> JudgeQuestion:
    """Whether `passages` can answer a user's question."""
    return _predicate("relevance", _HELPFUL, question, passages, language)


def compatible_question(older: str, newer: str, language: str = "en") -> JudgeQuestion:
    """Whether two statements can both be true now."""
    return _predicate("clash", _COMPATIBLE, f"1. {older}\n2. {newer}", (), language)


def _predicate(purpose: str, instructions: str, statement: str, evidence: Sequence[str], language: str) -> JudgeQuestion:
    return JudgeQuestion(
        purpose=purpose,
        kind="predicate",
        instructions=instructions,
        choices=YES_NO,
        statement=statement,
        evidence=tuple(evidence),
        language=language,
    )
