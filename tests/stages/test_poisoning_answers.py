"""Answers that the stage `claims` has found false, on their way into the quarantine and back as history."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.stages.poisoning import Poisoning
from proxy.testing import MemoryQuarantine, ScriptedVerifiers, completion, make_ports, reply, stream, streamed
from tests.claims import GOLD, LONDON, PARIS, TALL, TOWER, answering, judged_by_words, make_stage
from tests.conftest import Running, Start
from tests.stages.poisoning.contexts import items, made

BODY: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Tell me about the Eiffel Tower."}],
    "groundwire": {"context": [{"content": TOWER}]},
}
ADMIN = "/groundwire/v1/quarantine"


def policy(delivery: str = "hold", claims: str = "action: annotate", poisoning: str = "answers: contradicted") -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [poisoning: {{{poisoning}}}, claims: {{{claims}, embed: false}}]\n"


async def judged(exchange: Exchange, ports: Ports | None = None, claims: str = "annotate", **options: Any) -> Poisoning:
    """An answer through both stages."""
    stage = made(ports or make_ports(), **{"answers": "contradicted", **options})
    await Pipeline([stage, make_stage(action=claims, embed=False)]).answer(exchange)
    return stage


async def listed(proxy: Running) -> list[tuple[str, str]]:
    return [(item["kind"], item["type"]) for item in (await proxy.get(ADMIN)).json["data"]]


async def test_each_false_choice_is_held_by_itself() -> None:
    stage = await judged(answering(f"{TALL} {LONDON}", PARIS, LONDON, n=3))
    assert [f"{TALL} {LONDON}".encode(), LONDON.encode()] == [item.content for item in items(stage)]
    assert [["The Eiffel Tower stands in London."]] * 2 == [[s["text"] for s in item.detail["statements"]] for item in items(stage)]


@pytest.mark.parametrize(("answers", "expected"), [("contradicted", 0), ("unsupported", 1), ("none", 0)])
async def test_the_policy_says_which_answers_are_held(answers: str, expected: int) -> None:
    assert expected == len(items(await judged(answering(f"{PARIS} {GOLD}"), answers=answers)))


async def test_what_was_taken_out_of_an_answer_is_not_held_against_the_rest() -> None:
    exchange = answering(f"{PARIS} {LONDON}")
    assert ([], PARIS) == (items(await judged(exchange, claims="redact")), exchange.answer.choices[0].text if exchange.answer else "")


async def test_the_record_names_the_held_answer_and_no_text_of_it() -> None:
    exchange = answering(LONDON)
    stage = await judged(exchange)
    [verdict] = [v for v in exchange.verdicts if v.stage == "poisoning"]
    assert ("warn", "answer_quarantined") == (verdict.outcome, verdict.code)
    assert [items(stage)[0].id] == [one["quarantine"] for one in verdict.detail["answers"]]
    assert "stands in London" not in str(verdict.detail)


async def test_an_answer_that_cannot_be_held_is_an_error() -> None:
    class Away(MemoryQuarantine):
        async def put(self, item: Any) -> Any:
            raise StoreUnavailable("the disk is gone")

    exchange = answering(LONDON)
    await judged(exchange, make_ports(quarantine=Away()))
    assert ("error", "poisoning_unchecked") == (exchange.verdicts[-1].outcome, exchange.verdicts[-1].code)


@pytest.mark.parametrize(("delivery", "streams"), [("hold", False), ("hold", True), ("gate", True)])
async def test_it_is_held_before_the_answers_end_has_left(start: Start, delivery: str, streams: bool) -> None:
    answer = stream(streamed([PARIS + " ", LONDON])) if streams else reply(completion(f"{PARIS} {LONDON}"))
    async with start(answer, policy=policy(delivery), verifiers=ScriptedVerifiers(judged_by_words)) as proxy:
        await proxy.post({**BODY, "stream": streams})
        assert [("assistant", "wrong_location")] == await listed(proxy)


async def test_a_tapped_answer_is_held_once_it_is_judged(start: Start) -> None:
    async with start(stream(streamed([LONDON])), policy=policy("tap"), verifiers=ScriptedVerifiers(judged_by_words)) as proxy:
        await proxy.record(await proxy.post({**BODY, "stream": True}))
        assert [("assistant", "wrong_location")] == await listed(proxy)


async def test_without_a_check_of_answers_none_waits(start: Start) -> None:
    later = asyncio.Event()
    answer = stream(streamed(["One. ", "Two."]), wait={2: later})
    async with start(answer, policy="name: p\ndelivery: hold\nstages: [poisoning]\n") as proxy, proxy.open({**BODY, "stream": True}) as got:
        async with asyncio.timeout(20):
            assert b"One." in await got.content.readuntil(b"One.")
        later.set()
        assert b"Two." in await got.content.read()
