import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange.judgements import Claim, Judgement, Label, faithfulness, share_labelled, support
from proxy.grounding.quality import WEIGHTS, quality, refresh
from proxy.testing import make_exchange

SHARE = st.floats(0, 1)
PARTS = st.dictionaries(st.sampled_from(sorted(WEIGHTS)), SHARE, min_size=1)


def judged(label: Label, score: float | None = None) -> Judgement:
    return Judgement(Claim("It is so.", 0, 9), label, score)


@given(PARTS)
def test_quality_is_a_share(parts: dict[str, float]) -> None:
    score = quality(parts)
    assert score is None or 0 <= score <= 1


@given(PARTS, st.data())
def test_raising_a_part_never_lowers_the_quality(parts: dict[str, float], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(parts)))
    higher = {**parts, name: data.draw(st.floats(parts[name], 1))}
    before, after = quality(parts), quality(higher)
    assert (before is None) == (after is None)
    assert before is None or after is None or after >= before - 1e-12


@given(st.dictionaries(st.sampled_from(sorted(WEIGHTS)), st.just(1.0), min_size=3))
def test_an_answer_that_is_right_in_all_that_was_measured_is_perfect(parts: dict[str, float]) -> None:
    assert 1.0 == quality(parts)


@pytest.mark.parametrize("parts", [{}, {"relevance": 0.9}, {"context_use": 1.0}, {"relevance": 0.9, "context_use": 1.0}])
def test_there_is_no_quality_before_something_of_the_answer_is_measured(parts: dict[str, float]) -> None:
    assert quality(parts) is None


def test_weights_are_shared_out_over_the_parts_that_are_there() -> None:
    assert pytest.approx((0.40 * 0.5 + 0.10 * 1) / 0.50) == quality({"faithfulness": 0.5, "citation_recall": 1.0})


def test_the_parts_come_from_the_facts_the_judgements_and_what_was_measured() -> None:
    exchange = make_exchange()
    exchange.judgements = {0: [judged("supported", 0.9), judged("contradicted", 0.1)], 1: [judged("error")]}
    exchange.facts.faithfulness, exchange.facts.relevance = 0.5, 0.8
    refresh(exchange, {"citation_precision": 1.0})
    assert {"faithfulness": 0.5, "consistency": 0.6667, "citation_precision": 1.0, "relevance": 0.8} == exchange.facts.quality_parts
    assert quality(exchange.facts.quality_parts) == exchange.facts.quality


def test_an_earlier_part_stays_until_it_is_taken_back() -> None:
    exchange = make_exchange()
    refresh(exchange, {"calibration": 0.5, "context_use": 1.0})
    refresh(exchange, {"calibration": None})
    assert {"context_use": 1.0} == exchange.facts.quality_parts


def test_contradiction_and_faithfulness_leave_out_nothing_that_is_checkable() -> None:
    found = [judged("supported", 0.9), judged("contradicted", 0.2), judged("unsupported"), judged("error"), judged("not_checkable")]
    assert (0.25, pytest.approx((0.9 + 0.2 + 0.0 + 0.5) / 4)) == (share_labelled("contradicted", found), faithfulness(found))
    assert (None, None) == (share_labelled("contradicted", found[3:]), faithfulness(found[3:]))


@pytest.mark.parametrize(("label", "expected"), [("supported", 1.0), ("contradicted", 0.0)])
def test_a_rule_is_certain_whatever_a_verifier_thinks(label: Label, expected: float) -> None:
    assert expected == support(Judgement(Claim("It is so.", 0, 9), label, 0.4, decided_by="exact"))
    assert 0.4 == support(Judgement(Claim("It is so.", 0, 9), label, 0.4, decided_by="model"))


# ---- log probabilities ----

TOKENS = [("The", 0.0), (" tower", math.log(0.5)), (".", 0.0), (" It", 0.0), (" is", math.log(0.25)), (" tall", math.log(0.25)), (".", 0.0)]
TEXT = "The tower. It is tall."
