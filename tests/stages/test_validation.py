"""The stage: what is new, what it is judged by, and what becomes of it on this turn and every later one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.conversation import problems
from proxy.errors import ModelUnavailable, PolicyBlocked, StoreUnavailable
from proxy.exchange import Evidence, Exchange, Message, Verdict
from proxy.grounding.verdicts import ClaimPair, Support
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.stages.validation import Validation, ValidationOptions
from proxy.stages.validation.acting import NOTE_KEY
from proxy.testing import (
    CountedNames,
    HashEmbedder,
    MemoryFirstSeen,
    MemoryKnowledge,
    MemoryScratchpad,
    ScriptedVerifiers,
    make_exchange,
    make_ports,
)
from proxy.verification.facts import FactChecker

NOW = 1714564800.0
ASK = {"role": "user", "content": "What is the weather in Graz today, and which unit is the temperature in?"}
WEATHER = {"city": "Graz", "weather": "sunny with a light wind from the south", "temperature": 21, "unit": "celsius"}
STALE = {**WEATHER, "fetched_at": "2024-04-30T12:00:00Z"}
FRESH = {**WEATHER, "fetched_at": "2024-05-01T11:30:00Z"}
PARTIAL = {**WEATHER, "unit": None}
UNIT = {"get_*": ("city", "temperature", "unit")}
STALE_NOTE = "out of date (24 h old, at most 1 h)"


def call(id_: str, name: str = "get_weather", **arguments: Any) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments or {"city": "Graz"})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id_, "type": "function", "function": function}]}


def result(id_: str, content: Any) -> Message:
    return {"role": "tool", "tool_call_id": id_, "content": content if isinstance(content, str | list) else json.dumps(content)}


def asked(*contents: Any) -> list[Message]:
    """A question, and a call with its result for each of `contents`."""
    found: list[Message] = [ASK]
    for i, content in enumerate(contents):
        found += [call(f"c{i}"), result(f"c{i}", content)]
    return found


def by_numbers(pair: ClaimPair) -> Support:
    claimed, there = (set(re.findall(r"\d+", text)) for text in (pair.claim, pair.evidence))
    return Support(0.9, 0.02) if claimed <= there else Support(0.03, 0.95)


def ports_with(**parts: Any) -> Ports:
    return make_ports(**{"verifiers": ScriptedVerifiers(by_numbers), **parts})


def stage(ports: Ports | None = None, **options: Any) -> Validation:
    return Validation(msgspec.convert(options, ValidationOptions), ports or ports_with())


def exchange_of(messages: Sequence[Message], at: float = NOW, **hints: Any) -> Exchange:
    exchange = make_exchange(messages)
    exchange.received_at = at
    exchange.original = msgspec.structs.replace(exchange.original, **hints)
    return exchange


async def run(exchange: Exchange, made: Validation | None = None, **options: Any) -> list[Verdict]:
    await Pipeline([made or stage(**options)]).request(exchange)
    return exchange.verdicts


def pieces(exchange: Exchange) -> list[dict[str, Any]]:
    return [piece for verdict in exchange.verdicts for piece in verdict.detail.get("pieces", ())]


def codes(exchange: Exchange) -> list[str]:
    return exchange.warnings


def said(exchange: Exchange, i: int) -> Any:
    return exchange.messages[i]["content"]


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
    assert [] == codes(exchange)


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


async def test_the_greatest_age_can_be_set_by_tool() -> None:
    exchange = exchange_of(asked(STALE))
    await run(exchange, max_ages_s={"other": 5, "GET_*": 100_000})
    assert [] == codes(exchange)


async def test_two_of_three_required_fields_are_incomplete() -> None:
    exchange = exchange_of(asked(PARTIAL))
    await run(exchange, required_fields=UNIT)
    assert ["context_incomplete"] == codes(exchange)
    assert 0.6667 == pieces(exchange)[0]["metrics"]["completeness"]["value"]


async def test_the_knowledge_base_tells_what_is_inaccurate() -> None:
    knowledge = MemoryKnowledge("The Uhrturm in Graz is 28 metres tall.")
    exchange = exchange_of([ASK, call("a", "read_page"), result("a", "The Uhrturm in Graz is 55 metres tall.")])
    exchange.knowledge = FactChecker(knowledge, ScriptedVerifiers(by_numbers))
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
    exchange.knowledge = FactChecker(MemoryKnowledge("The Uhrturm in Graz is 28 metres tall."), ScriptedVerifiers(by_numbers))
    await run(exchange, required_fields=UNIT, thresholds={"relevance": 1.0, "score": 0.9})
    assert [
        "context_inaccurate", "context_inconsistent", "context_stale", "context_incomplete", "context_irrelevant", "context_low_quality",
    ] == codes(exchange)  # fmt: skip


async def test_a_new_version_of_the_knowledge_base_judges_anew() -> None:
    made, messages = stage(), [ASK, call("a", "read_page"), result("a", "The Uhrturm in Graz is 55 metres tall.")]
    found = []
    for statement in ("The Uhrturm in Graz is 55 metres tall.", "The Uhrturm in Graz is 28 metres tall."):
        exchange, knowledge = exchange_of(messages), MemoryKnowledge(statement)
        knowledge.version = statement
        exchange.knowledge = FactChecker(knowledge, ScriptedVerifiers(by_numbers))
        await run(exchange, made)
        found.append(pieces(exchange)[0]["metrics"]["accuracy"]["value"])
    assert [1.0, 0.0] == found


# ---- what becomes of it ----


async def test_annotate_changes_nothing() -> None:
    exchange = exchange_of(asked(STALE))
    await run(exchange)
    assert exchange.messages is exchange.original.messages


async def test_drop_puts_a_note_in_the_place_of_a_json_result_that_is_json() -> None:
    exchange = exchange_of(asked(STALE))
    await run(exchange, action="drop")
    assert {NOTE_KEY: f"This content was left out: it is {STALE_NOTE}."} == json.loads(said(exchange, 2))
    assert [] == problems(exchange.messages)
    assert exchange.conversation[2] == exchange.messages[2]


async def test_drop_puts_a_note_in_the_place_of_a_text() -> None:
    exchange = exchange_of([ASK, call("a"), result("a", "The weather in Graz is sunny.")], message_hints={2: {"timestamp": NOW - 86_400}})
    await run(exchange, action="drop")
    assert f"[This content was left out: it is {STALE_NOTE}.]" == said(exchange, 2)


async def test_what_is_dropped_can_be_had_back_byte_for_byte() -> None:
    scratchpad = MemoryScratchpad()
    exchange = exchange_of(asked(STALE))
    await run(exchange, stage(ports_with(scratchpad=scratchpad), action="drop"))
    [item] = scratchpad.items.values()
    assert (json.dumps(STALE).encode(), pieces(exchange)[0]["archived"]) == (item.content, item.id)


class Away(MemoryScratchpad, MemoryFirstSeen):
    def __init__(self) -> None:
        pass

    async def put(self, content: bytes, *, client: str, run_id: str, media_type: str = "text/plain") -> str:
        raise StoreUnavailable("locked")

    async def times(self, run: str, hashes: Sequence[str], now: float, *, client: str) -> list[float]:
        raise StoreUnavailable("locked")


async def test_what_could_not_be_kept_stays() -> None:
    exchange = exchange_of(asked(STALE))
    await run(exchange, stage(ports_with(scratchpad=Away()), action="drop"))
    assert STALE == json.loads(said(exchange, 2))
    assert ["context_stale"] == codes(exchange)
    assert "locked" == exchange.verdicts[-1].detail["store"]


async def test_down_rank_marks_a_json_result_and_keeps_its_data() -> None:
    exchange = exchange_of(asked(STALE))
    await run(exchange, action="down_rank")
    assert {NOTE_KEY: f"Caution: this content is {STALE_NOTE}.", **STALE} == json.loads(said(exchange, 2))


async def test_down_rank_marks_a_text_before_its_first_word() -> None:
    exchange = exchange_of([ASK, call("a"), result("a", "The weather in Graz is sunny.")], message_hints={2: {"timestamp": NOW - 86_400}})
    await run(exchange, action="down_rank")
    assert f"[Caution: this content is {STALE_NOTE}.] The weather in Graz is sunny." == said(exchange, 2)


async def test_down_rank_marks_a_list() -> None:
    exchange = exchange_of([ASK, call("a"), result("a", "[1, 2]")], message_hints={2: {"timestamp": NOW - 86_400}})
    await run(exchange, action="down_rank")
    assert [f"Caution: this content is {STALE_NOTE}.", 1, 2] == json.loads(said(exchange, 2))


async def test_down_rank_puts_a_stale_passage_behind_the_others() -> None:
    passages = tuple(
        Evidence(f"The weather in Graz today: {text}.", timestamp=NOW - age) for text, age in (("rain", 86_400), ("sun", 5), ("fog", 10))
    )
    exchange = exchange_of([ASK], passages=passages)
    await run(exchange, action="down_rank", thresholds={"relevance": 0})
    assert ["sun", "fog", "rain"] == [passage.content[27:-1] for passage in exchange.passages]
    assert exchange.messages is exchange.original.messages


async def test_drop_takes_a_passage_out_of_the_passages_and_the_evidence() -> None:
    passages = (Evidence("The weather in Graz is bad.", timestamp=NOW - 86_400), Evidence("The weather in Graz is good.", timestamp=NOW))
    exchange = exchange_of([ASK], passages=passages)
    await run(exchange, action="drop", thresholds={"relevance": 0})
    assert [passages[1]] == list(exchange.passages)


async def test_reject_refuses_the_request_with_its_reason() -> None:
    exchange = exchange_of(asked(PARTIAL))
    with pytest.raises(PolicyBlocked) as caught:
        await run(exchange, action="reject", required_fields=UNIT)
    assert ("context_quality", 400, "policy_blocked") == (caught.value.param, caught.value.status, caught.value.code)
    assert (
        "context rejected: the result of get_weather is incomplete: completeness 0.67 is below 0.80 (2 of 3 required fields, without unit)"
        == caught.value.message
    )
    assert 1 == exchange.verdicts[-1].detail["checked"]


async def test_what_an_answer_has_followed_is_not_rejected_any_more() -> None:
    exchange = exchange_of([*asked(PARTIAL), {"role": "assistant", "content": "21 degrees."}, {"role": "user", "content": "Thanks!"}])
    await run(exchange, action="reject", required_fields=UNIT)
    assert [] == codes(exchange)


async def test_each_metric_can_have_its_own_action_and_the_strongest_counts() -> None:
    exchange = exchange_of(asked({**PARTIAL, "fetched_at": "2024-04-30T12:00:00Z"}))
    await run(exchange, action={"freshness": "down_rank", "completeness": "drop"}, required_fields=UNIT)
    assert "drop" == pieces(exchange)[0]["action"]


async def test_parts_that_are_no_text_stay() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    content = [{"type": "text", "text": "The weather in Graz is sunny."}, image]
    exchange = exchange_of([ASK, call("a"), result("a", content)], message_hints={2: {"timestamp": NOW - 86_400}})
    await run(exchange, action="drop")
    assert [{"type": "text", "text": f"[This content was left out: it is {STALE_NOTE}.]"}, image] == said(exchange, 2)


async def test_it_counts_what_is_new() -> None:
    counters = CountedNames()
    await run(exchange_of(asked(FRESH, STALE)), stage(ports_with(counters=counters), action="drop"))
    assert {"validation.checked_count": 1, "validation.freshness_failed_count": 1, "validation.drop_count": 1} == counters.counts


# ---- later turns ----


async def test_what_was_dropped_once_is_dropped_again_in_the_same_words() -> None:
    ports = ports_with()
    first = exchange_of(asked(STALE))
    await run(first, stage(ports, action="drop"))
    later = exchange_of(
        [*asked(STALE), {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "And tomorrow?"}], NOW + 9000
    )
    await run(later, stage(ports, action="drop"))
    assert list(first.messages) == list(later.messages[:3])
    assert [] == codes(later)
    assert [{"hash": pieces(first)[0]["hash"], "message": 2, "action": "drop"}] == later.verdicts[-1].detail["as_before"]


async def test_what_was_fresh_when_it_came_stays_fresh() -> None:
    ports = ports_with()
    await run(exchange_of(asked(FRESH)), stage(ports, action="drop"))
    later = exchange_of([*asked(FRESH), {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "And?"}], NOW + 86_400)
    await run(later, stage(ports, action="drop"))
    assert FRESH == json.loads(said(later, 2))


async def test_another_client_s_first_sight_does_not_count() -> None:
    ports = ports_with()
    await run(exchange_of(asked(FRESH)), stage(ports))
    other = exchange_of(asked(FRESH), NOW + 86_400)
    other.client = "somebody else"
    await run(other, stage(ports))
    assert ["context_stale"] == codes(other)


async def test_what_was_dropped_is_no_context_for_what_comes_later() -> None:
    wrong = {"text": "The Uhrturm in Graz is 55 metres tall.", "fetched_at": "2024-04-30T12:00:00Z"}
    right = {"text": "The Uhrturm in Graz is 28 metres tall.", "fetched_at": "2024-05-01T12:00:00Z"}
    exchange = exchange_of(asked(wrong, right))
    await run(exchange, action="drop", thresholds={"relevance": 0})
    assert [] == codes(exchange)


class CountingEmbedder(HashEmbedder):
    def __init__(self) -> None:
        self.texts = 0

    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> Any:
        self.texts += len(texts)
        return await super().embed(texts, bulk=bulk)


async def test_a_worker_does_not_measure_the_same_piece_twice() -> None:
    embedder = CountingEmbedder()
    made = stage(ports_with(embedder=embedder), action="drop")
    await run(exchange_of(asked(FRESH)), made)
    once = embedder.texts
    await run(exchange_of([*asked(FRESH), {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "Good."}]), made)
    assert once == embedder.texts


CONTENTS: list[Any] = [STALE, FRESH, PARTIAL, WEATHER, "Error: no such city", {"note": "The Uhrturm in Graz is 28 metres tall."},
                       {"note": "The Uhrturm in Graz is 55 metres tall."}, "[]", "Das Wetter in Graz ist heute sonnig und warm."]  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, len(CONTENTS) - 1), min_size=1, max_size=5), st.sampled_from(["drop", "down_rank"]))
def test_a_growing_conversation_keeps_its_forwarded_prefix_in_every_worker(chosen: list[int], action: str) -> None:
    messages = asked(*(CONTENTS[i] for i in chosen))

    async def grow() -> None:
        ports = ports_with()  # the store; each turn is another worker
        sent: list[Any] = []
        for end in range(3, len(messages) + 1, 2):
            exchange = exchange_of(messages[:end], NOW + 2000 * end)
            await run(exchange, stage(ports, action=action, required_fields=UNIT))
            assert len(exchange.messages) == end
            assert [] == problems(exchange.messages)
            assert sent == list(exchange.messages[: len(sent)])
            sent = list(exchange.messages)

    asyncio.run(grow())


# ---- when something is missing ----


async def test_without_the_store_what_is_new_is_judged_by_now() -> None:
    exchange = exchange_of(asked(STALE))
    await run(exchange, stage(ports_with(first_seen=Away())))
    assert ["context_stale"] == codes(exchange)


async def test_without_the_store_the_age_of_what_is_old_is_not_known() -> None:
    exchange = exchange_of(asked(STALE, FRESH))
    await run(exchange, stage(ports_with(first_seen=Away()), action="drop"))
    assert ("error", "context_unchecked") == (exchange.outcome, exchange.verdicts[-1].code)
    assert STALE == json.loads(said(exchange, 2))


class NoModel(HashEmbedder):
    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> Any:
        raise ModelUnavailable("gone")


async def test_a_check_that_could_not_run_is_an_error_and_never_a_pass() -> None:
    exchange = exchange_of(asked(FRESH))
    await run(exchange, stage(ports_with(embedder=NoModel())))
    assert ("error", "context_unchecked") == (exchange.outcome, exchange.verdicts[-1].code)
    assert FRESH == json.loads(said(exchange, 2))


async def test_a_policy_can_refuse_what_could_not_be_checked() -> None:
    with pytest.raises(PolicyBlocked) as caught:
        await run(exchange_of(asked(FRESH)), stage(ports_with(embedder=NoModel()), on_error="closed"))
    assert "context_unchecked" == caught.value.param


class Slow(ScriptedVerifiers):
    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        await asyncio.Event().wait()
        return []


async def test_past_the_stage_s_time_what_was_found_is_kept() -> None:
    told = {"role": "user", "content": "The Uhrturm in Graz is 28 metres tall. What is the weather there?"}
    exchange = exchange_of([told, call("a"), result("a", {"note": "The Uhrturm in Graz is 55 metres tall.", **STALE})])
    await run(exchange, stage(ports_with(verifiers=Slow()), timeout_ms=500))
    assert ["context_stale", "context_unchecked"] == codes(exchange)


async def test_more_pieces_than_the_policy_allows_are_not_called_checked() -> None:
    both = {"role": "assistant", "tool_calls": [*call("a")["tool_calls"], *call("b")["tool_calls"]]}
    exchange = exchange_of([ASK, both, result("a", FRESH), result("b", WEATHER)])
    await run(exchange, max_pieces=1)
    assert [True, False] == [piece["passed"] for piece in pieces(exchange)]
    assert "error" == exchange.outcome


# ---- options ----


@pytest.mark.parametrize(
    "options",
    [
        {"action": "delete"},
        {"action": {}},
        {"action": {"beauty": "drop"}},
        {"thresholds": {"relevance": 1.5}},
        {"thresholds": {"beauty": 0.5}},
        {"weights": {"relevance": 0}},
        {"max_age_s": 0},
        {"kinds": ["letter"]},
        {"kinds": []},
        {"required": {"x": ["y"]}},
    ],
)
def test_wrong_options_are_refused(options: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(options, ValidationOptions)


def test_a_metric_that_a_policy_does_not_name_is_annotated() -> None:
    assert "annotate" == msgspec.convert({"action": {"freshness": "drop"}}, ValidationOptions).action_for("relevance")


SEARCH = {
    "results": [
        {"content": "The weather in Graz today is sunny.", "date": "2024-05-01T11:59:00Z"},
        {"content": "The weather in Graz today is \"bad\".", "date": "2024-04-30T12:00:00Z"},
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("drop", f"[This content was left out: it is {STALE_NOTE}.]"),
        ("down_rank", f"[Caution: this content is {STALE_NOTE}.] The weather in Graz today is \"bad\"."),
    ],
)  # fmt: skip
async def test_of_a_search_only_the_stale_passage_is_touched(action: str, expected: str) -> None:
    exchange = exchange_of([ASK, call("a", "web_search", query="weather Graz"), result("a", SEARCH)])
    await run(exchange, action=action)
    sunny, bad = json.loads(said(exchange, 2))["results"]
    assert SEARCH["results"][0] == sunny
    assert {"content": expected, "date": "2024-04-30T12:00:00Z"} == bad
    assert "bad" not in " ".join(p.content for p in exchange.passages) or action == "down_rank"


async def test_a_dropped_passage_of_a_user_message_leaves_the_question() -> None:
    question = "<context>\nKnead the dough, then bake the bread for forty minutes.\n</context>\n\nQuestion: On which river does Graz lie?"
    exchange = exchange_of([{"role": "user", "content": question}])
    await run(exchange, action="drop")
    assert "Knead" not in said(exchange, 0)
    assert "Question: On which river does Graz lie?" in said(exchange, 0)
    assert "context_irrelevant" in codes(exchange)


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
