"""The stage `validation`: later turns, other workers, and what happens when a part is missing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.context.conversation import problems
from proxy.errors import ModelUnavailable, Overloaded
from proxy.exchange import Evidence
from proxy.exchange.judgements import ClaimPair, Support
from proxy.stages.validation.report import NOTE_KEY
from proxy.testing import HashEmbedder, ScriptedVerifiers
from tests.examples import share
from tests.stages.validation.cases import (
    ASK,
    FRESH,
    NOW,
    PARTIAL,
    STALE,
    UNIT,
    WEATHER,
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


async def test_a_cached_result_that_comes_again_is_as_old_as_it_is_then() -> None:
    ports = ports_with()
    await run(exchange_of(asked(FRESH)), stage(ports, action="drop"))
    later = exchange_of(asked(FRESH, FRESH), NOW + 7200)
    await run(later, stage(ports, action="drop"))
    assert (FRESH, [NOTE_KEY]) == (json.loads(said(later, 2)), list(json.loads(said(later, 4))))
    assert [9000] == [piece["metrics"]["freshness"]["age_s"] for piece in pieces(later)]


async def test_a_passage_that_a_client_sends_again_grows_older() -> None:
    made, passages = stage(thresholds={"relevance": 0}), (Evidence("The weather in Graz is good.", timestamp=NOW),)
    found = []
    for age in (0, 1800, 7200):
        exchange = exchange_of([ASK], NOW + age, passages=passages)
        await run(exchange, made)
        found.append(pieces(exchange)[0]["metrics"]["freshness"]["value"])
    assert [1.0, 1.0, 0.5] == found


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


CONTENTS: list[Any] = [
    STALE,
    FRESH,
    PARTIAL,
    WEATHER,
    "Error: no such city",
    {"note": "The Uhrturm in Graz is 28 metres tall."},
    {"note": "The Uhrturm in Graz is 55 metres tall."},
    "[]",
    "Das Wetter in Graz ist heute sonnig und warm.",
]


@settings(max_examples=share(0.3))
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
    with pytest.raises(Overloaded) as caught:
        await run(exchange_of(asked(FRESH)), stage(ports_with(embedder=NoModel()), on_error="closed"))
    assert "context_unchecked" == caught.value.param


class Slow(ScriptedVerifiers):
    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        await asyncio.Event().wait()
        return []


async def test_past_the_stage_s_time_what_was_found_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.stages.validation.stage._DEADLINE", 0.05)
    told = {"role": "user", "content": "The Uhrturm in Graz is 28 metres tall. What is the weather there?"}
    exchange = exchange_of([told, call("a"), result("a", {"note": "The Uhrturm in Graz is 55 metres tall.", **STALE})])
    await run(exchange, stage(ports_with(verifiers=Slow()), timeout_ms=20_000))
    assert ["context_stale", "context_unchecked"] == codes(exchange)


async def test_more_pieces_than_are_looked_at_are_not_called_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.stages.validation.stage.MAX_PIECES", 1)
    both = {"role": "assistant", "tool_calls": [*call("a")["tool_calls"], *call("b")["tool_calls"]]}
    exchange = exchange_of([ASK, both, result("a", FRESH), result("b", WEATHER)])
    await run(exchange)
    assert [True, False] == [piece["passed"] for piece in pieces(exchange)]
    assert "error" == exchange.outcome
