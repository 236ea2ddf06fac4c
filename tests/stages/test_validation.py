"""The stage `validation`: what is new, what it is judged by, and its options."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from proxy.exchange import Evidence
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.stages.validation import Validation, ValidationOptions
from proxy.testing import MemoryKnowledge, ScriptedVerifiers
from tests.stages.validation.cases import (
    ASK,
    FRESH,
    NOW,
    PARTIAL,
    STALE,
    UNIT,
    WEATHER,
    asked,
    by_numbers,
    call,
    codes,
    exchange_of,
    pieces,
    ports_with,
    result,
    run,
    stage,
)

# ---- what is new ----


async def test_a_conversation_without_new_context_has_no_verdict() -> None:
    assert [] == await run(exchange_of([ASK]))


async def test_good_content_passes_and_stays_as_it_was_sent() -> None:
    exchange = exchange_of(asked(FRESH))
    [verdict] = await run(exchange, required_fields=UNIT, action="drop")
    assert ("pass", 1) == (verdict.outcome, verdict.detail["checked"])
    assert exchange.messages is exchange.original.messages
    [piece] = pieces(exchange)
    assert ("none", True, "get_weather") == (piece["action"], piece["passed"], piece["tool"])
    assert {"relevance", "freshness", "accuracy", "completeness", "consistency"} == piece["metrics"].keys()


async def test_only_what_came_since_the_last_assistant_message_is_new() -> None:
    exchange = exchange_of(asked(STALE, FRESH))
    await run(exchange)
    assert [4] == [piece["message"] for piece in pieces(exchange)]
    assert [] == codes(exchange)


async def test_parallel_results_are_all_new() -> None:
    both = {"role": "assistant", "tool_calls": [*call("a")["tool_calls"], *call("b")["tool_calls"]]}
    exchange = exchange_of([ASK, both, result("a", STALE), result("b", FRESH)])
    await run(exchange)
    assert [2, 3] == [piece["message"] for piece in pieces(exchange)]


async def test_passages_of_the_request_and_of_its_message_are_new() -> None:
    question = "<context>\nGraz lies on the river Mur in Styria.\n</context>\n\nQuestion: On which river does Graz lie?"
    exchange = exchange_of([{"role": "user", "content": question}], passages=(Evidence("Styria is a state of Austria."),))
    await run(exchange)
    assert [(0, "passage"), (None, "passage")] == [(piece["message"], piece["kind"]) for piece in pieces(exchange)]


async def test_a_message_of_a_memory_is_validated_whatever_its_role() -> None:
    memory = {"role": "system", "name": "memory_store", "content": "The user lives in Graz and likes the weather there."}
    exchange = exchange_of([{"role": "system", "content": "You are kind."}, memory, ASK])
    await run(exchange)
    assert [(1, "memory_store")] == [(piece["message"], piece["source"]) for piece in pieces(exchange)]


async def test_the_policy_says_which_kinds_are_validated() -> None:
    exchange = exchange_of(asked(STALE))
    assert [] == await run(exchange, kinds=["passage"])


# ---- what it is judged by ----


async def test_a_result_is_read_against_its_call_too() -> None:
    confirmed = [*asked(FRESH)[:2], {"role": "user", "content": "Book the usual table, please."}]
    exchange = exchange_of([*confirmed, call("c9", "get_weather", city="Graz", temperature="celsius"), result("c9", WEATHER)])
    await run(exchange)
    assert ([], "purpose") == (codes(exchange), pieces(exchange)[0]["metrics"]["relevance"]["by"])


async def test_content_that_has_nothing_to_do_with_question_or_call_is_irrelevant() -> None:
    exchange = exchange_of(asked({"recipe": "Knead the dough for ten minutes, then bake the bread until its crust turns brown."}))
    await run(exchange)
    assert ["context_irrelevant"] == codes(exchange)


async def test_a_result_of_few_words_is_too_short_to_tell() -> None:
    exchange = exchange_of(asked("Transfer successful"))
    await run(exchange)
    assert "too short to tell" == pieces(exchange)[0]["metrics"]["relevance"]["note"]


@pytest.mark.parametrize(
    ("hint", "content"),
    [
        ({2: {"timestamp": NOW - 86_400}}, WEATHER),
        ({2: {"timestamp": "2024-04-30T12:00:00Z"}}, WEATHER),
        ({}, STALE),
        ({}, {**WEATHER, "timestamp": "Tue, 30 Apr 2024 12:00:00 GMT"}),
    ],
)
async def test_stale_content_is_reported_whoever_tells_its_time(hint: Any, content: Any) -> None:
    exchange = exchange_of(asked(content), message_hints=hint)
    await run(exchange)
    assert ["context_stale"] == codes(exchange)
    assert 86_400 == pieces(exchange)[0]["metrics"]["freshness"]["age_s"]


async def test_two_of_three_required_fields_are_incomplete() -> None:
    exchange = exchange_of(asked(PARTIAL))
    await run(exchange, required_fields=UNIT)
    assert ["context_incomplete"] == codes(exchange)
    assert 0.6667 == pieces(exchange)[0]["metrics"]["completeness"]["value"]


async def test_the_knowledge_base_tells_what_is_inaccurate() -> None:
    knowledge = MemoryKnowledge("The Uhrturm in Graz is 28 metres tall.")
    exchange = exchange_of([ASK, call("a", "read_page"), result("a", "The Uhrturm in Graz is 55 metres tall.")])
    exchange.knowledge = KnowledgeChecker(knowledge, ScriptedVerifiers(by_numbers))
    await run(exchange)
    assert "context_inaccurate" in codes(exchange)
    assert "INVALID" == pieces(exchange)[0]["metrics"]["accuracy"]["wrong"][0]["status"]


async def test_what_contradicts_the_context_before_its_turn_is_inconsistent() -> None:
    told = {"role": "user", "content": "The Uhrturm in Graz is 28 metres tall. What is the weather there?"}
    exchange = exchange_of([told, call("a", "read_page"), result("a", "The Uhrturm in Graz is 55 metres tall.")])
    await run(exchange)
    assert "context_inconsistent" in codes(exchange)
    assert 0 == pieces(exchange)[0]["metrics"]["consistency"]["contradicted"][0]["message"]


async def test_an_assistant_s_own_words_are_no_context_to_contradict() -> None:
    answer = {"role": "assistant", "content": "The Uhrturm in Graz is 28 metres tall."}
    exchange = exchange_of([ASK, answer, {**ASK}, call("a"), result("a", "The Uhrturm in Graz is 55 metres tall.")])
    await run(exchange)
    assert "context_inconsistent" not in codes(exchange)


async def test_every_kind_of_finding_has_its_code_the_gravest_first() -> None:
    bad = {"text": "The Uhrturm in Graz is 55 metres tall.", "fetched_at": "2024-04-30T12:00:00Z", "unit": None}
    told = {"role": "user", "content": "The Uhrturm in Graz is 28 metres tall. How long does bread bake?"}
    exchange = exchange_of([told, call("a"), result("a", bad)])
    exchange.knowledge = KnowledgeChecker(MemoryKnowledge("The Uhrturm in Graz is 28 metres tall."), ScriptedVerifiers(by_numbers))
    await run(exchange, required_fields=UNIT, thresholds={"relevance": 1.0, "score": 0.9})
    assert [
        "context_inaccurate",
        "context_inconsistent",
        "context_stale",
        "context_incomplete",
        "context_irrelevant",
        "context_low_quality",
    ] == codes(exchange)


async def test_a_new_version_of_the_knowledge_base_judges_anew() -> None:
    made, messages = stage(), [ASK, call("a", "read_page"), result("a", "The Uhrturm in Graz is 55 metres tall.")]
    found = []
    for statement in ("The Uhrturm in Graz is 55 metres tall.", "The Uhrturm in Graz is 28 metres tall."):
        exchange, knowledge = exchange_of(messages), MemoryKnowledge(statement)
        knowledge.version = statement
        exchange.knowledge = KnowledgeChecker(knowledge, ScriptedVerifiers(by_numbers))
        await run(exchange, made)
        found.append(pieces(exchange)[0]["metrics"]["accuracy"]["value"])
    assert [1.0, 0.0] == found


@pytest.mark.parametrize(
    ("question", "good"),
    [
        ("Wie ist das Wetter heute in Graz?", "Das Wetter in Graz ist heute sonnig, bei 21 Grad und leichtem Wind aus Süden."),
        ("¿Qué tiempo hace hoy en Graz?", "El tiempo que hace hoy en Graz es soleado, con 21 grados y viento suave del sur."),
        (
            "Quel temps fait-il aujourd'hui à Graz ?",
            "Le temps qu'il fait aujourd'hui à Graz est ensoleillé, 21 degrés et vent léger du sud.",
        ),
    ],
)
async def test_in_other_languages_too_what_belongs_passes_and_what_does_not_is_reported(question: str, good: str) -> None:
    for content, expected in (
        (good, []),
        ("Knead the dough for ten minutes, then bake the bread until its crust is brown.", ["context_irrelevant"]),
    ):
        exchange = exchange_of([{"role": "user", "content": question}, call("a", "lookup", q=1), result("a", content)])
        await run(exchange)
        assert expected == codes(exchange)


# ---- options ----


@pytest.mark.parametrize(
    "options",
    [
        {"action": "delete"},
        {"action": {}},
        {"action": {"beauty": "drop"}},
        {"thresholds": {"relevance": 1.5}},
        {"thresholds": {"beauty": 0.5}},
        {"max_age_s": 0},
        {"kinds": ["letter"]},
        {"kinds": []},
        {"required": {"x": ["y"]}},
    ],
)
def test_wrong_options_are_refused(options: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(options, ValidationOptions)


def test_a_metric_that_a_policy_does_not_name_is_noted() -> None:
    assert "note" == msgspec.convert({"action": {"freshness": "drop"}}, ValidationOptions).action_for("relevance")


# ---- what nobody asked for ----


async def test_by_default_what_is_below_a_threshold_is_for_the_record() -> None:
    exchange = exchange_of(asked(STALE))
    made = Validation(ValidationOptions(required_fields={"*": ("humidity",)}), ports_with())
    [verdict] = await run(exchange, made)
    [piece] = pieces(exchange)
    assert ("unchecked", [], "note", False) == (verdict.outcome, codes(exchange), piece["action"], piece["passed"])


async def test_by_default_content_may_be_of_any_age() -> None:
    exchange = exchange_of(asked(STALE))
    await run(exchange, Validation(ValidationOptions(), ports_with()))
    [piece] = pieces(exchange)
    assert (None, "any age will do") == (piece["metrics"]["freshness"]["value"], piece["metrics"]["freshness"]["note"])
