"""The stage `validation`: what becomes of content that falls short."""

from __future__ import annotations

import json

import pytest

from proxy.context.conversation import problems
from proxy.errors import PolicyBlocked
from proxy.exchange import Evidence
from proxy.stages.validation.report import NOTE_KEY
from proxy.testing import CountedNames, MemoryScratchpad
from tests.stages.validation.cases import (
    ASK,
    FRESH,
    NOW,
    PARTIAL,
    STALE,
    STALE_NOTE,
    UNIT,
    Away,
    asked,
    call,
    codes,
    exchange_of,
    pieces,
    ports_with,
    result,
    run,
    said,
    stage,
)

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


async def test_what_could_not_be_kept_stays() -> None:
    exchange = exchange_of(asked(STALE))
    await run(exchange, stage(ports_with(scratchpad=Away()), action="drop"))
    assert STALE == json.loads(said(exchange, 2))
    assert ["context_stale"] == codes(exchange)
    assert "locked" == exchange.verdicts[-1].detail["store"]


async def test_of_a_store_that_is_away_only_one_answer_is_waited_for() -> None:
    class CountingAway(Away):
        asked = 0

        async def put(self, content: bytes, *, client: str, run_id: str, media_type: str = "text/plain") -> str:
            self.asked += 1
            return await super().put(content, client=client, run_id=run_id)

    scratchpad = CountingAway()
    both = {"role": "assistant", "tool_calls": [*call("a")["tool_calls"], *call("b")["tool_calls"]]}
    exchange = exchange_of([ASK, both, result("a", STALE), result("b", {**STALE, "temperature": 22})])
    await run(exchange, stage(ports_with(scratchpad=scratchpad), action="drop"))
    assert (1, ["annotate", "annotate"]) == (scratchpad.asked, [piece["action"] for piece in pieces(exchange)])


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
        "context rejected: the result of get_weather: incomplete content: completeness 0.67 is below 0.80 (2 of 3 required fields, without unit)"
        == caught.value.message
    )
    assert 1 == exchange.verdicts[-1].detail["checked"]


async def test_a_refusal_names_the_source_of_a_passage() -> None:
    exchange = exchange_of([ASK], passages=(Evidence("The weather in Graz is bad.", "blog.example", timestamp=NOW - 86_400),))
    with pytest.raises(PolicyBlocked, match=r"^context rejected: a passage from blog\.example: stale content: "):
        await run(exchange, action="reject", thresholds={"relevance": 0})


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


# ---- passages inside a message ----

SEARCH = {
    "results": [
        {"content": "The weather in Graz today is sunny.", "date": "2024-05-01T11:59:00Z"},
        {"content": 'The weather in Graz today is "bad".', "date": "2024-04-30T12:00:00Z"},
    ]
}


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("drop", f"[This content was left out: it is {STALE_NOTE}.]"),
        ("down_rank", f'[Caution: this content is {STALE_NOTE}.] The weather in Graz today is "bad".'),
    ],
)
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
