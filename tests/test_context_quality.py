"""The library: from a plain function, from a running loop, from several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from proxy.context_quality import ContextQualityValidator, FactChecker, QualityThresholds
from proxy.errors import ConfigError
from proxy.exchange.judgements import ClaimPair, Support
from proxy.testing import HashEmbedder, ScriptedVerifiers

NOW = 1714564800.0
TOWER = "The Eiffel Tower in Paris is 330 metres tall."


def contradicting(pair: ClaimPair) -> Support:
    return Support(0.02, 0.96)


def validator(**options: Any) -> ContextQualityValidator:
    return ContextQualityValidator(embedder=HashEmbedder(), verifier=ScriptedVerifiers(contradicting), clock=lambda: NOW, **options)


def test_a_plain_call_gives_all_five_metrics() -> None:
    given = {"content": TOWER, "timestamp": NOW - 7200, "fields": {"title": "Tower"}, "required_fields": ["title", "url", "author"]}
    quality = validator().validate_quality(given, "How tall is the Eiffel Tower?", "The Eiffel Tower in Paris is small.")
    assert quality.findings["relevance"].value is not None
    assert quality.findings["relevance"].value > 0.9
    assert (0.5, 1.0, 1 / 3, 0.0) == (
        quality.findings["freshness"].value,
        quality.findings["accuracy"].value,
        quality.findings["completeness"].value,
        quality.findings["consistency"].value,
    )
    assert ("consistency", "freshness", "completeness") == quality.failing
    assert not quality.passed


def test_without_query_and_context_the_rest_is_measured() -> None:
    quality = validator(required_fields=("a",)).validate_quality({"a": 1, "fetched_at": NOW})
    assert (None, 1.0, 1.0, None, True) == (
        quality.findings["relevance"].value,
        quality.findings["freshness"].value,
        quality.findings["completeness"].value,
        quality.findings["consistency"].value,
        quality.passed,
    )


def test_thresholds_and_ages_are_the_caller_s() -> None:
    mild = validator(thresholds=QualityThresholds(freshness=0.5), max_age_s=1000)
    assert mild.validate_quality({"content": TOWER, "timestamp": NOW - 2000}).passed
    assert not mild.validate_quality({"content": TOWER, "timestamp": NOW - 2001}).passed


def test_a_batch_is_in_order() -> None:
    found = validator().validate_batch([{"content": TOWER, "timestamp": NOW - age} for age in (0, 7200, 36_000)])
    assert [1.0, 0.5, 0.1] == [quality.findings["freshness"].value for quality in found]


def test_what_is_no_content_is_refused() -> None:
    with pytest.raises(TypeError):
        validator().validate_quality(7)


async def test_the_plain_call_works_inside_a_running_loop() -> None:
    assert validator().validate_quality(TOWER).passed


def test_threads_may_share_one() -> None:
    shared = validator()
    with ThreadPoolExecutor(4) as threads:
        found = list(
            threads.map(
                lambda age: shared.validate_quality({"content": TOWER, "timestamp": NOW - age}).findings["freshness"].value, (0, 7200) * 8
            )
        )
    assert [1.0, 0.5] * 8 == found


# ---- facts ----


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("subject,statement,source\nEiffel Tower,The Eiffel Tower in Paris is 330 metres tall.,guide\n")
    return tmp_path


def checker(folder: Path) -> FactChecker:
    return FactChecker(folder, embedder=HashEmbedder(), verifier=ScriptedVerifiers(contradicting))


def test_a_claim_is_checked_against_a_folder(facts: Path) -> None:
    check = checker(facts)
    exact, wrong, unknown = check.verify(TOWER), check.verify("The Eiffel Tower in Paris is 90 metres tall."), check.verify("Tea is hot.")
    assert ("VALID", 1.0, "knowledge_base") == (exact.status, exact.confidence, exact.source)
    assert ("INVALID", 0.96, TOWER, "guide") == (wrong.status, wrong.confidence, wrong.correct_fact, wrong.source)
    assert ("UNKNOWN", False) == (unknown.status, unknown.valid)


def test_a_folder_that_is_missing_is_refused_when_the_checker_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: no such folder of facts"):
        checker(tmp_path / "nowhere")


async def test_a_claim_can_be_awaited_in_any_loop(facts: Path) -> None:
    assert ["VALID"] == [verdict.status for verdict in await checker(facts).verify_many([TOWER])]


def test_a_validator_finds_accuracy_by_a_fact_checker(facts: Path) -> None:
    right, wrong = validator(fact_checker=checker(facts)).validate_batch([TOWER, "The Eiffel Tower in Paris is 90 metres tall."])
    assert (1.0, 0.0) == (right.findings["accuracy"].value, wrong.findings["accuracy"].value)
    assert TOWER == wrong.findings["accuracy"].detail["wrong"][0]["correct_fact"]


class Says:
    """A fact checker that takes one claim at a time."""

    def __init__(self, valid: bool, confidence: float) -> None:
        self.valid, self.confidence = valid, confidence

    def verify(self, claim: str) -> Says:
        return self


def test_a_checker_of_one_claim_at_a_time_will_do() -> None:
    right, wrong = (validator(fact_checker=Says(valid, 0.9)).validate_quality(TOWER) for valid in (True, False))
    assert (1.0, 0.0, False) == (right.metrics["accuracy_score"], wrong.metrics["accuracy_score"], wrong.is_valid)
    assert wrong.reason.startswith("factual inaccuracy")


# ---- one metric, and other names ----


def test_any_field_of_a_raw_record_may_be_one_that_it_must_have() -> None:
    wanted = ["user_id", "preference", "timestamp"]
    whole = {"user_id": "u-7", "preference": "quiet rooms", "timestamp": "2024-05-01T11:30:00"}
    short = {name: whole[name] for name in wanted[:2]}
    assert [1.0, 2 / 3] == [validator().validate_completeness(given, wanted).value for given in (whole, short)]
    assert [True, False] == [validator(required_fields=wanted).validate_quality(given).is_valid for given in (whole, short)]
    assert 1.0 == validator().validate_completeness({"content": TOWER, "source": "guide"}, ["content", "source"]).value


def test_freshness_reads_iso_8601() -> None:
    given = [{"text": "here", "timestamp": "2024-05-01T11:30:00"}, {"text": "there", "timestamp": "2024-04-30T12:00:00Z"}]
    assert [1.0, 1 / 24] == [metric.value for metric in validator().validate_freshness(given)]


@pytest.mark.parametrize(
    ("known", "new", "consistency"),
    [
        ("User prefers budget hotels", "User prefers luxury 5-star hotels", 0.0),
        ("User location: New York", "User location: London", 0.0),
        ("Ubicación del usuario: Madrid", "Ubicación del usuario: Bilbao", 0.0),
        ("Der Nutzer wohnt in Rom.", "Der Nutzer wohnt in Hamburg.", 0.0),
        ("User prefers budget hotels", "User prefers quiet hotels", 1.0),
        ("The user lives in Rome.", "The user has moved to Oslo.", 1.0),
        ("The user's sister lives in Rome.", "The user lives in Oslo.", 1.0),
        ("The shop sells budget shoes.", "The shop sells luxury shoes.", 1.0),
    ],
)
def test_what_is_said_of_the_user_is_judged_as_clashes_are(known: str, new: str, consistency: float) -> None:
    made = ContextQualityValidator(embedder=HashEmbedder(), verifier=ScriptedVerifiers(lambda pair: Support(0.1, 0.1)))
    assert consistency == made.validate_consistency(new, [known]).value
    assert consistency == made.validate_quality(new, existing_context=[known]).findings["consistency"].value


def test_a_model_is_asked_where_the_verifier_is_unsure() -> None:
    asked = []

    def llm(messages: Any) -> str:
        asked.append(messages)
        return '{"answers": [{"number": 1, "reason": "another height", "answer": "contradicted", "confidence": 0.99}]}'

    unsure = ScriptedVerifiers(lambda pair: Support(0.5, 0.3))
    made = ContextQualityValidator(embedder=HashEmbedder(), verifier=unsure, llm=llm)
    assert (0.0, 1) == (made.validate_consistency("The Eiffel Tower in Paris is 120 metres tall.", TOWER).value, len(asked))


def test_a_model_that_fails_leaves_the_verifiers_word() -> None:
    def llm(messages: Any) -> str:
        raise OSError("away")

    made = ContextQualityValidator(embedder=HashEmbedder(), verifier=ScriptedVerifiers(lambda pair: Support(0.5, 0.3)), llm=llm)
    assert 1.0 == made.validate_consistency("The Eiffel Tower in Paris is tall.", TOWER).value


def test_the_other_metrics_alone() -> None:
    made = validator(fact_checker=Says(True, 0.99))
    near, far = made.validate_relevance([TOWER, "Knead the dough."], "How tall is the Eiffel Tower in Paris?")
    assert (near.value or 0.0) > (far.value or 0.0)
    assert 1.0 == made.validate_accuracy(TOWER).value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "known", "good", "bad"),
    [
        (
            "How tall is the Eiffel Tower?",
            "The Eiffel Tower in Paris is 330 metres tall.",
            "With its 330 metres the Eiffel Tower is the tallest building in Paris.",
            "The Eiffel Tower in Paris is 120 metres tall.",
        ),
        (
            "Wie hoch ist der Eiffelturm?",
            "Der Eiffelturm in Paris ist 330 Meter hoch.",
            "Der Eiffelturm in Paris, 330 Meter hoch, steht am Ufer der Seine.",
            "Der Eiffelturm in Paris ist 120 Meter hoch.",
        ),
        (
            "¿Cuánto mide la torre Eiffel?",
            "La torre Eiffel de París mide 330 metros.",
            "La torre Eiffel, que mide 330 metros, está en París.",
            "La torre Eiffel de París mide 120 metros.",
        ),
        (
            "Combien mesure la tour Eiffel ?",
            "La tour Eiffel à Paris mesure 330 mètres.",
            "La tour Eiffel, qui mesure 330 mètres, se trouve à Paris.",
            "La tour Eiffel à Paris mesure 120 mètres.",
        ),
    ],
)
def test_the_built_in_models_tell_good_from_bad(question: str, known: str, good: str, bad: str) -> None:
    made = ContextQualityValidator()
    right, wrong, other = made.validate_batch([good, bad, "Knead the dough, then bake the bread for forty minutes."], question, known)
    assert right.passed
    assert ("consistency",) == wrong.failing
    assert ("relevance",) == other.failing
