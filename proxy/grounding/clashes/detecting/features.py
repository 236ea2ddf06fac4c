"""Two statements -> the probability that they clash, for pairs that no rule decides.

In: what a verifier answered to `clashes.detecting.questions.questions`, and cosines. Out: numbers, and from them a probability
by one of two logistic regressions, for a wish beside a proposal and for two statements. `training.clash` fits both into coefficients.json.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes.detecting.questions import backward, forward, is_proposal, targets
from proxy.grounding.clashes.kinds import Statement
from proxy.grounding.clashes.statements import categories
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms
from proxy.grounding.values.consistency import differences
from proxy.language.negation import is_negated

COEFFICIENTS = Path(__file__).with_name("coefficients.json")
_MAX_LOGIT = 4.0
_UNKNOWN_LOGIT = -2.0
"""Of what was not asked, or not answered."""
Answers = Mapping[ClaimPair, Support]
Cosines = Mapping[tuple[str, str], float]


class Features(Struct, frozen=True):
    """What is known of a pair. Log odds are cut at ±4; whichever statement comes first, they are the same."""

    contradicted_most: float
    """Log odds that one contradicts the other, by the direction that says so more."""
    contradicted_least: float
    supported_most: float
    supported_least: float
    cosine: float
    shared_terms: float
    negation_differs: float
    numbers_differ: float
    names_differ: float
    conflict_support: float
    """Log odds that what one is against stands in what the other is for: the most of all targets, here and below."""
    conflict_cosine: float
    conflict_terms: float
    conflict_member: float
    """1 where one names a kind and the other one of that kind."""
    has_conflict: float
    agreement_support: float
    agreement_cosine: float
    agreement_terms: float
    has_agreement: float


FEATURES: tuple[str, ...] = Features.__struct_fields__
"""Their names, in order."""


class Regression(Struct, frozen=True):
    """A logistic regression over `FEATURES`."""

    weights: tuple[float, ...]
    """One a feature, then the intercept."""
    threshold: float
    """From which probability a pair is a clash."""

    def probability(self, found: Features) -> float:
        """Calibrated probability, at even odds before, that a pair with these features clashes."""
        z = sum(weight * value for weight, value in zip(self.weights, (*msgspec.structs.astuple(found), 1.0), strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, z))))


class Coefficients(Struct, frozen=True):
    """coefficients.json"""

    features: tuple[str, ...]
    statements: Regression
    proposals: Regression


@cache
def coefficients() -> Coefficients:
    """Those that this package carries. Raises `ValueError` where they were fitted on other features."""
    found = msgspec.json.decode(COEFFICIENTS.read_bytes(), type=Coefficients)
    sizes = {len(found.statements.weights), len(found.proposals.weights)}
    if found.features != FEATURES or sizes != {len(FEATURES) + 1}:
        raise ValueError(f"{COEFFICIENTS} was made for other features; run python -m training.clash")
    return found


def regression(older: Statement, newer: Statement) -> Regression:
    """The one for such a pair."""
    given = coefficients()
    return given.proposals if is_proposal(older, newer) else given.statements


def features(older: Statement, newer: Statement, answers: Answers, cosines: Cosines) -> Features:
    """All of a pair. What nobody could answer counts as unknown."""
    compared = targets(older, newer)
    answered = [answers.get(forward(older, newer)), answers.get(backward(older, newer))]
    contradicted = [_log_odds(support.contradicted) if support is not None else _UNKNOWN_LOGIT for support in answered]
    supported = [_log_odds(support.supported) if support is not None else _UNKNOWN_LOGIT for support in answered]
    conflict = _compared(compared.conflicts, answers, cosines, newer.language)
    agreement = _compared(compared.agreements, answers, cosines, newer.language)
    differ = _differing(older, newer)
    return Features(
        contradicted_most=max(contradicted),
        contradicted_least=min(contradicted),
        supported_most=max(supported),
        supported_least=min(supported),
        cosine=cosines.get((older.text, newer.text), 0.0),
        shared_terms=shared_terms(older.text, newer.text),
        negation_differs=float(is_negated(older.text, older.language) != is_negated(newer.text, newer.language)),
        numbers_differ=float(bool(differ & {"number", "date", "unit"})),
        names_differ=float("name" in differ),
        conflict_support=conflict.support,
        conflict_cosine=conflict.cosine,
        conflict_terms=conflict.terms,
        conflict_member=conflict.member,
        has_conflict=float(bool(compared.conflicts)),
        agreement_support=agreement.support,
        agreement_cosine=agreement.cosine,
        agreement_terms=agreement.terms,
        has_agreement=float(bool(compared.agreements)),
    )


class _Compared(Struct, frozen=True):
    support: float = _UNKNOWN_LOGIT
    cosine: float = 0.0
    terms: float = 0.0
    member: float = 0.0


def _compared(pairs: Sequence[tuple[str, str]], answers: Answers, cosines: Cosines, language: str) -> _Compared:
    """The most that any of these pairs has of each."""
    if not pairs:
        return _Compared()
    asked = [answers.get(ClaimPair(what, where, language)) for what, where in pairs]
    return _Compared(
        support=max(_log_odds(support.supported) if support is not None else _UNKNOWN_LOGIT for support in asked),
        cosine=max(cosines.get(pair, 0.0) for pair in pairs),
        terms=max(shared_terms(what, where) for what, where in pairs),
        member=max(float(categories.names_member(what, where)) for what, where in pairs),
    )


def _differing(older: Statement, newer: Statement) -> frozenset[str]:
    """Kinds of values in which they differ: ``number``, ``date``, ``name``, …"""
    found = (*differences(newer.text, older.text, newer.language), *differences(older.text, newer.text, older.language))
    return frozenset(difference.kind for difference in found)


def _log_odds(probability: float) -> float:
    p = min(max(probability, 1e-6), 1 - 1e-6)
    return max(-_MAX_LOGIT, min(_MAX_LOGIT, math.log(p / (1 - p))))


def shared_terms(what: str, where: str) -> float:
    """Share of the first text's terms that stand in the second."""
    wanted = frozenset(term for term in terms(what) if len(term) > 2) - FUNCTION_WORDS
    return len(wanted & frozenset(terms(where))) / len(wanted) if wanted else 0.0
