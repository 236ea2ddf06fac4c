"""Many pieces at once: what each metric asks, what it makes of the answers, and that a piece's neighbours do not matter."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.errors import ModelUnavailable
from proxy.exchange import Evidence
from proxy.exchange.judgements import ClaimPair, FactVerdict, Status, Support
from proxy.stages.validation.content import MAX_EXISTING_CHARS, Candidate, Content, content_of, existing_base, newest
from proxy.stages.validation.quality import METRICS, Quality
from proxy.stages.validation.relevance import readings_of
from proxy.stages.validation.validator import Models, validate
from proxy.testing import HashEmbedder, ScriptedVerifiers
from tests.examples import share

NOW = 1714564800.0
TOWER = "The Eiffel Tower in Paris is 330 metres tall."
TALL = "How tall is the Eiffel Tower?"
SHORT_TOWER = "The Eiffel Tower in Paris is 120 metres tall."
BREAD = "Knead the dough, then bake the bread for forty minutes."


def by_numbers(pair: ClaimPair) -> Support:
    """Contradicted where the evidence has other numbers than the claim."""
    claimed, there = (set(re.findall(r"\d+", text)) for text in (pair.claim, pair.evidence))
    return Support(0.9, 0.02) if claimed <= there else Support(0.03, 0.95)


class Facts:
    """Knows some claims."""

    def __init__(self, **known: Status) -> None:
        self.known = {claim.replace("_", " "): status for claim, status in known.items()}
        self.asked: list[Sequence[str]] = []

    async def verify_many(self, claims: Sequence[str]) -> list[FactVerdict]:
        self.asked.append(claims)
        found = (next((status for word, status in self.known.items() if word in claim), "UNKNOWN") for claim in claims)
        return [FactVerdict(status, 0.9, "Tea is hot." if status == "INVALID" else "", "kb", "kf", "", "v1") for status in found]


def candidate(text: str, query: str | None = None, existing: Any = None, **content: Any) -> Candidate:
    return Candidate(
        Content(text, **content), *readings_of(query), existing_base(existing) if isinstance(existing, str | list) else existing
    )


async def validated(*candidates: Candidate, facts: Any = None, verifier: Any = None, embedder: Any = None, **options: Any) -> list[Quality]:
    models = Models(embedder or HashEmbedder(), verifier or ScriptedVerifiers(by_numbers), facts)
    return await validate(candidates, [NOW] * len(candidates), models, **options)


async def one(*args: Any, facts: Any = None, verifier: Any = None, embedder: Any = None, **content: Any) -> Quality:
    return (await validated(candidate(*args, **content), facts=facts, verifier=verifier, embedder=embedder))[0]


async def test_a_text_that_answers_is_relevant_and_another_is_not() -> None:
    near, far = await validated(candidate(TOWER, TALL), candidate(BREAD, TALL))
    assert near.findings["relevance"].value is not None
    assert far.findings["relevance"].value is not None
    assert near.findings["relevance"].value > 0.9
    assert far.findings["relevance"].value < 0.1
    assert ("relevance",) == far.failing


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Der Eiffelturm in Paris ist 330 Meter hoch.", "Wie hoch ist der Eiffelturm in Paris?"),
        ("La torre Eiffel de París mide 330 metros.", "¿Cuánto mide la torre Eiffel de París?"),
        ("La tour Eiffel à Paris mesure 330 mètres.", "Combien mesure la tour Eiffel à Paris ?"),
    ],
)
async def test_relevance_in_other_languages(text: str, question: str) -> None:
    near, far = await validated(candidate(text, question), candidate(BREAD, question))
    assert near.passed
    assert ("relevance",) == far.failing


@pytest.mark.parametrize(("query", "note"), [(None, "no query"), ("  ", "no query"), ("Thank you so much!", "thanks")])
async def test_without_a_question_relevance_is_not_measured(query: str | None, note: str) -> None:
    metric = (await one(TOWER, query)).findings["relevance"]
    assert (None, False, note) == (metric.value, metric.measured, metric.note)


async def test_what_a_result_was_fetched_for_counts_as_much_as_the_question() -> None:
    quality = await one(TOWER, "Book it, please.", purposes=("tower height Eiffel Tower metres tall Paris",))
    assert quality.findings["relevance"].value is not None
    assert quality.findings["relevance"].value > 0.9


async def test_a_contradiction_makes_the_consistency_nought() -> None:
    quality = await one(SHORT_TOWER, None, TOWER)
    assert (0.0, ("consistency",)) == (quality.findings["consistency"].value, quality.failing)
    assert f"“{SHORT_TOWER}” contradicts “{TOWER}”" in quality.reasons[0]
    assert TOWER == quality.findings["consistency"].detail["contradicted"][0]["evidence"]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Der Eiffelturm in Paris ist 120 Meter hoch.", "Der Eiffelturm in Paris ist 330 Meter hoch."),
        ("La torre Eiffel de París mide 120 metros.", "La torre Eiffel de París mide 330 metros."),
        ("La tour Eiffel à Paris mesure 120 mètres.", "La tour Eiffel à Paris mesure 330 mètres."),
    ],
)
async def test_a_contradiction_in_other_languages(text: str, known: str) -> None:
    assert 0.0 == (await one(text, None, known)).findings["consistency"].value


async def test_what_agrees_is_consistent() -> None:
    assert 1.0 == (await one("In Paris the Eiffel Tower is 330 metres tall.", None, TOWER)).findings["consistency"].value


@pytest.mark.parametrize(
    ("text", "existing", "note"),
    [
        (TOWER, None, "no existing context"),
        (TOWER, [], "no existing context"),
        ("How tall is it?", TOWER, "states nothing"),
        (BREAD, TOWER, "the context says nothing about it"),
        (TOWER, TOWER, "the context says nothing about it"),
    ],
)
async def test_where_there_is_nothing_to_compare_nothing_is_asked(text: str, existing: Any, note: str) -> None:
    verifier = ScriptedVerifiers(by_numbers)
    metric = (await one(text, None, existing, verifier=verifier)).findings["consistency"]
    assert (None, False, note, []) == (metric.value, metric.measured, metric.note, verifier.asked)


async def test_accuracy_is_the_share_of_verifiable_claims_that_are_valid() -> None:
    text = "Tea is hot. Ice is warm. Snow is white. The moon hums."
    quality = await one(text, facts=Facts(Tea="VALID", Snow="VALID", Ice="INVALID"))
    assert 2 / 3 == quality.findings["accuracy"].value
    assert ("accuracy",) == quality.failing
    assert "“Ice is warm.”, known is “Tea is hot.”" in quality.reasons[0]


async def test_what_is_suspicious_is_not_valid() -> None:
    assert 0.0 == (await one("Ice is warm.", facts=Facts(Ice="SUSPICIOUS"))).findings["accuracy"].value


@pytest.mark.parametrize(("facts", "note"), [(None, "no knowledge base"), (Facts(), "nothing verifiable")])
async def test_nothing_verifiable_is_accurate_and_marked_so(facts: Any, note: str) -> None:
    metric = (await one("The moon hums.", facts=facts)).findings["accuracy"]
    assert (1.0, False, note) == (metric.value, metric.measured, metric.note)


async def test_statements_with_numbers_are_looked_up_first() -> None:
    facts = Facts()
    await validated(candidate("Tea is hot. Ice is cold. The hall seats 400 people."), facts=facts, max_claims=2)
    assert [["Tea is hot.", "The hall seats 400 people."]] == facts.asked


async def test_a_fact_check_that_could_not_run_is_an_error() -> None:
    quality = await one("Ice is warm.", facts=Facts(Ice="ERROR"))
    assert (None, ("accuracy",), False) == (quality.findings["accuracy"].value, quality.errors, quality.passed)


async def test_freshness_and_completeness_go_by_the_piece_s_own_limits() -> None:
    old = Content("x", NOW - 7200, fields={"a": 1}, required_fields=("a", "b", "c"))
    strict, mild = await validated(Candidate(old), Candidate(content_of({"content": "x", "timestamp": NOW - 7200})), max_age_s=10_000)
    assert (1.0, 1 / 3) == (strict.findings["freshness"].value, strict.findings["completeness"].value)
    assert (1.0, None) == (mild.findings["freshness"].value, mild.findings["completeness"].value)


class Unavailable:
    name = "gone"
    dimensions = 64

    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> Any:
        raise ModelUnavailable("no model")


async def test_a_model_that_is_missing_costs_only_its_own_metrics() -> None:
    quality = await one(SHORT_TOWER, TALL, TOWER, embedder=Unavailable(), timestamp=NOW)
    assert ("relevance",) == quality.errors
    assert (0.0, 1.0) == (quality.findings["consistency"].value, quality.findings["freshness"].value)


class Endless(ScriptedVerifiers):
    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        await asyncio.Event().wait()
        return []


async def test_what_takes_too_long_is_an_error_and_the_rest_is_kept() -> None:
    models = Models(HashEmbedder(), Endless())
    [quality] = await validate([candidate(SHORT_TOWER, TALL, TOWER)], [NOW], models, deadline_s=0.3)
    assert ("consistency",) == quality.errors
    assert quality.findings["relevance"].value is not None
    assert "consistency could not be checked: timeout" in quality.reasons


async def test_cancelling_ends_the_work() -> None:
    models = Models(HashEmbedder(), Endless())
    task = asyncio.create_task(validate([candidate(SHORT_TOWER, None, TOWER)], [NOW], models))
    await asyncio.wait([task], timeout=0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


POOL = [
    (TOWER, TALL),
    (SHORT_TOWER, TALL),
    (BREAD, TALL),
    (BREAD, "How long does bread bake?"),
    ("Der Turm in Paris ist 120 Meter hoch.", TALL),
    ("The Eiffel Tower opened in 1889. It is 300 metres tall. Paris has many towers.", "When did the tower open?"),
    ("", TALL),
]


@settings(max_examples=share(0.25))
@given(st.lists(st.integers(0, len(POOL) - 1), min_size=1, max_size=6), st.integers(0, 100))
def test_a_piece_s_quality_does_not_depend_on_its_batch(chosen: list[int], seed: int) -> None:
    base = existing_base([TOWER, "The tower opened in 1889."])
    candidates = [candidate(text, query, base) for text, query in (POOL[i] for i in chosen)]
    order = random.Random(seed).sample(range(len(chosen)), len(chosen))

    async def run() -> None:
        together = await validated(*(candidates[i] for i in order), facts=Facts(bread="INVALID", opened="VALID"))
        for place, i in enumerate(order):
            alone = (await validated(candidates[i], facts=Facts(bread="INVALID", opened="VALID")))[0]
            assert figures(alone) == figures(together[place])

    asyncio.run(run())


def figures(quality: Quality) -> list[Any]:
    values = (quality.findings[name].value for name in METRICS)
    return [None if value is None else round(value, 6) for value in values]


def test_of_a_long_context_the_end_is_compared_with() -> None:
    base = existing_base(["old " * MAX_EXISTING_CHARS, TOWER])
    assert base is not None
    assert [TOWER] == base.sentences


def test_the_newest_piece_is_kept_however_long() -> None:
    long = Evidence("x " * MAX_EXISTING_CHARS)
    assert [long] == newest([Evidence(TOWER), long])


@pytest.mark.parametrize(
    ("text", "probability", "expected"),
    [
        (SHORT_TOWER, 0.64, 0.0),
        (SHORT_TOWER, 0.44, 1.0),
        ("The Eiffel Tower in Paris is rather low.", 0.64, 1.0),
        ("The Eiffel Tower in Paris is rather low.", 0.71, 0.0),
    ],
)
async def test_a_less_probable_contradiction_counts_where_a_value_differs(text: str, probability: float, expected: float) -> None:
    verifier = ScriptedVerifiers(lambda pair: Support(0.1, probability))
    assert expected == (await one(text, None, TOWER, verifier=verifier)).findings["consistency"].value
