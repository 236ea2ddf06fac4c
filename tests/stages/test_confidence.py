from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigError, PolicyBlocked
from proxy.exchange import Answer, Choice, Exchange, Verdict
from proxy.exchange.judgements import Claim, Judgement, Label
from proxy.pipeline import Pipeline
from proxy.policy.loading import load_policy
from proxy.stages.confidence import Confidence, ConfidenceOptions
from proxy.testing import CountedNames, make_exchange, make_ports

Scored = tuple[Label, float | None]


def found(*labels: Scored) -> list[Judgement]:
    return [Judgement(Claim("It is so.", 0, 9), label, score) for label, score in labels]


async def judged(*said: tuple[str, Sequence[Scored]], cited: tuple[int, int] | None = None, **options: Any) -> tuple[Exchange, Verdict]:
    """The exchange and the last verdict of choices with these texts and judgements."""
    exchange = make_exchange([{"role": "user", "content": "How tall is the tower?"}])
    exchange.upstream_answer = exchange.answer = Answer(tuple(Choice(i, text) for i, (text, _) in enumerate(said)))
    exchange.judgements = {i: found(*labels) for i, (_, labels) in enumerate(said)}
    exchange.facts.citations = cited
    await Pipeline([Confidence(ConfidenceOptions(**options), make_ports())]).answer(exchange)
    return exchange, exchange.verdicts[-1]


GOOD: Scored = ("supported", 0.95)
BARE: Scored = ("unsupported", 0.2)
WRONG: Scored = ("contradicted", 0.1)
HIGH = "The tower is 330 m tall.\n\nConfidence: HIGH"

# ---- the rating ----


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        (HIGH, [GOOD], "HIGH"),
        (HIGH, [GOOD] * 9 + [BARE], "HIGH"),
        (HIGH, [GOOD] * 8 + [BARE] * 2, "HIGH;overclaimed"),
        (HIGH, [GOOD] * 9 + [WRONG], "HIGH;overclaimed"),
        ("Der Turm ist 330 m hoch.\nVertrauen: MITTEL", [GOOD, BARE], "MEDIUM"),
        ("La torre mide 330 m.\nConfianza: MEDIA", [GOOD, WRONG], "MEDIUM;overclaimed"),
        ("La tour mesure 330 m.\nConfiance : FAIBLE", [WRONG], "LOW"),
        ("The tower is 330 m tall.", [BARE], "none"),
        (HIGH, [], "HIGH"),
        (HIGH, [("not_checkable", None), ("error", None)], "HIGH"),
    ],
)
async def test_the_rating_is_compared_with_what_the_claims_carry(text: str, labels: list[Scored], expected: str) -> None:
    exchange, _ = await judged((text, labels))
    assert expected == exchange.facts.confidence


async def test_an_overclaim_over_a_contradicted_claim_is_a_warning() -> None:
    _, verdict = await judged((HIGH, [GOOD] * 8 + [WRONG] * 2), min_confidence=0.5)
    assert ("warn", "overclaimed", "HIGH;overclaimed") == (verdict.outcome, verdict.code, verdict.detail["rating"])


async def test_an_overclaim_over_what_is_merely_bare_is_told_in_the_header_alone() -> None:
    _, verdict = await judged((HIGH, [GOOD] * 8 + [BARE] * 2))
    assert ("pass", "HIGH;overclaimed") == (verdict.outcome, verdict.detail["rating"])


@pytest.mark.parametrize(
    ("labels", "outcome"),
    [([("supported", 0.6)] * 3, "pass"), ([BARE] * 3, "pass"), ([("unsure", 0.3)] * 3, "pass"), ([GOOD, WRONG], "pass")],
)
async def test_without_an_overclaim_over_a_contradiction_nothing_is_refused(labels: list[Scored], outcome: str) -> None:
    _, verdict = await judged(("The tower is 330 m tall.\n\nConfidence: LOW", labels), action="block")
    assert outcome == verdict.outcome


async def test_weak_support_of_claims_that_are_all_supported_is_no_reason_to_refuse() -> None:
    exchange, verdict = await judged((HIGH, [("supported", 0.55)] * 4), action="block")
    assert ("pass", "HIGH", 0.55) == (verdict.outcome, exchange.facts.confidence, verdict.score)


@pytest.mark.parametrize(("cited", "expected"), [(None, "LOW;underclaimed"), ((2, 2), "LOW;underclaimed"), ((1, 2), "LOW")])
async def test_modesty_is_told_in_the_record_alone(cited: tuple[int, int] | None, expected: str) -> None:
    exchange, verdict = await judged(("It is 330 m tall.\nConfidence: LOW", [GOOD]), cited=cited)
    assert ("LOW", expected, "pass", []) == (exchange.facts.confidence, verdict.detail["rating"], verdict.outcome, exchange.warnings)


async def test_calibration_is_the_share_of_the_promise_that_is_kept() -> None:
    exchange, _ = await judged((HIGH, [GOOD, BARE]))
    assert pytest.approx(0.5 / 0.9, abs=1e-4) == (exchange.facts.quality_parts or {})["calibration"]


async def test_of_several_choices_the_one_that_overclaims_is_shown() -> None:
    exchange, verdict = await judged(("It is tall.\nConfidence: LOW", [GOOD]), (HIGH, [BARE]), min_confidence=0)
    assert ("HIGH;overclaimed", ["LOW", "HIGH"]) == (exchange.facts.confidence, [c["rating"] for c in verdict.detail["choices"]])


# ---- the support ----


async def test_too_little_support_is_a_warning_with_its_reason() -> None:
    _, verdict = await judged((HIGH, [("contradicted", 0.3)]))
    assert ("warn", "insufficient_confidence", 0.3) == (verdict.outcome, verdict.code, verdict.score)
    assert "insufficient confidence in claim accuracy" == verdict.detail["reason"]


async def test_support_is_the_mean_over_the_checked_claims() -> None:
    _, verdict = await judged(("It is tall.", [("supported", 0.9), ("unsupported", None), ("not_checkable", None)]))
    assert 0.45 == verdict.score


async def test_block_refuses_it() -> None:
    with pytest.raises(PolicyBlocked) as caught:
        await judged((HIGH, [("contradicted", 0.3)]), action="block")
    assert "insufficient_confidence" == caught.value.param
    assert caught.value.message.startswith("insufficient confidence in claim accuracy: support 0.30")


async def test_replace_says_that_the_context_has_no_answer_in_the_answers_language() -> None:
    text = "Der Turm ist dreihundertdreißig Meter hoch und steht in London. Vertrauen: HOCH"
    exchange, verdict = await judged((text, [WRONG]), (HIGH, [GOOD]), action="replace")
    assert exchange.answer is not None
    assert "Das kann ich nicht beantworten" in exchange.answer.choices[0].text
    assert (HIGH, "insufficient_confidence") == (exchange.answer.choices[1].text, verdict.code)


async def test_replace_leaves_json_as_it_is() -> None:
    text = '{"height": "330 m", "confidence": "HIGH"}'
    exchange, verdict = await judged((text, [WRONG]), action="replace")
    assert exchange.answer is not None
    assert (text, "warn") == (exchange.answer.text, verdict.outcome)


async def test_what_has_left_the_gate_is_ended_instead_of_replaced() -> None:
    exchange = make_exchange()
    exchange.gated, exchange.answer, exchange.judgements = True, Answer((Choice(0, HIGH),)), {0: found(WRONG)}
    with pytest.raises(PolicyBlocked):
        await Pipeline([Confidence(ConfidenceOptions(action="replace"), make_ports())]).answer(exchange)


@pytest.mark.parametrize("labels", [[], [("not_checkable", None)]])
async def test_an_answer_without_checkable_claims_is_not_rejected(labels: list[Scored]) -> None:
    _, verdict = await judged(("I do not know.", labels), action="block")
    assert "unchecked" == verdict.outcome


async def test_what_could_not_be_checked_is_an_error_where_the_stage_acts() -> None:
    _, verdict = await judged((HIGH, [("error", None)]), action="block")
    assert ("error", "confidence_unchecked") == (verdict.outcome, verdict.code)


async def test_claims_left_out_by_the_client_are_an_error_where_the_stage_acts() -> None:
    exchange = make_exchange()
    exchange.skip, exchange.answer = frozenset(("claims",)), Answer((Choice(0, "It is."),))
    await Pipeline([Confidence(ConfidenceOptions(action="block"), make_ports())]).answer(exchange)
    assert ["confidence_unchecked"] == exchange.warnings


# ---- log probabilities ----


async def test_counters_tell_what_was_found() -> None:
    counters = CountedNames()
    exchange = make_exchange()
    exchange.answer, exchange.judgements = Answer((Choice(0, HIGH),)), {0: found(WRONG)}
    await Pipeline([Confidence(ConfidenceOptions(), make_ports(counters=counters))]).answer(exchange)
    assert {f"confidence.{name}_count": 1 for name in ("checked", "overclaimed", "rejected")} == counters.counts


# ---- the policy ----


def policy(tmp_path: Path, stages: str, delivery: str = "hold") -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(f"name: p\ndelivery: {delivery}\nstages: [{stages}]\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("action", ["replace", "block"])
def test_acting_needs_the_claims(tmp_path: Path, action: str) -> None:
    with pytest.raises(ConfigError, match="needs stage claims"):
        load_policy(policy(tmp_path, f"confidence: {{action: {action}}}"))
    load_policy(policy(tmp_path, f"confidence: {{action: {action}}}, claims: {{}}"))


def test_claims_that_are_not_enabled_do_not_count(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs stage claims"):
        load_policy(policy(tmp_path, "confidence: {action: block}, claims: {enabled: false}"))


def test_reporting_needs_nothing(tmp_path: Path) -> None:
    load_policy(policy(tmp_path, "confidence: {}", "tap"))


def test_a_tap_cannot_block(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="delivery: tap"):
        load_policy(policy(tmp_path, "confidence: {action: block}, claims: {}", "tap"))
