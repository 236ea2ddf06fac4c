"""The stage `claims` in the running proxy: when sentences leave, what is stopped, what is kept."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigError
from proxy.exchange.judgements import Support
from proxy.policy.loading import load_policy
from proxy.testing import ScriptedVerifiers, completion, reply, stream, streamed
from tests.claims import GOLD, LONDON, PARIS, TALL, TOWER, judged_by_words
from tests.conftest import Running, Start

BODY: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Tell me about the Eiffel Tower."}],
    "groundwire": {"context": [{"content": TOWER}]},
}
STREAM = {**BODY, "stream": True}


def policy(delivery: str, options: str) -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [claims: {{{options}, embed: false}}]\n"


def kept(proxy: Running) -> dict[str, Any]:
    (stage,) = proxy.app.routes[0].default.pipeline.stages
    return stage._cases  # type: ignore[attr-defined,no-any-return]


class Patient(ScriptedVerifiers):
    """Judges when the test says so."""

    def __init__(self) -> None:
        super().__init__(judged_by_words)
        self.started, self.go, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def verify(self, pairs: Any) -> list[Support | None]:
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await super().verify(pairs)


async def test_a_judged_sentence_leaves_while_the_model_still_writes(start: Start) -> None:
    later = asyncio.Event()
    answer = stream(streamed([PARIS + " ", "The Eiffel Tower", " is 330 metres tall."]), wait={3: later})
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(answer, policy=policy("gate", "action: redact"), verifiers=verifiers) as proxy, proxy.open(STREAM) as response:
        got = b""
        while PARIS.encode() not in got:
            got += await response.content.readany()
        assert not later.is_set()
        later.set()
        got += await response.content.read()
    assert b"330 metres" in got


async def test_a_sentence_that_waits_for_its_judgement_does_not_leave(start: Start) -> None:
    verifiers = Patient()
    async with (
        start(stream(streamed([PARIS + " ", TALL])), policy=policy("gate", "action: redact"), verifiers=verifiers) as proxy,
        proxy.open(STREAM) as response,
    ):
        await verifiers.started.wait()
        assert b"Paris" not in await response.content.readany()
        verifiers.go.set()
        got = await response.content.read()
    assert PARIS.encode() in got


async def test_a_client_that_leaves_stops_its_check_and_nothing_is_kept(start: Start) -> None:
    verifiers = Patient()
    answer = stream(streamed([PARIS + " ", TALL]), wait={3: asyncio.Event()})
    async with start(answer, policy=policy("gate", "action: redact"), verifiers=verifiers) as proxy:
        response = await proxy.open(STREAM)
        await verifiers.started.wait()
        response.close()
        async with asyncio.timeout(5):
            await verifiers.cancelled.wait()
            await proxy.upstream.gone.wait()
    assert {} == kept(proxy)


@pytest.mark.parametrize("delivery", ["hold", "gate", "tap"])
@pytest.mark.parametrize("streams", [True, False])
async def test_nothing_is_kept_however_the_answer_leaves(start: Start, delivery: str, streams: bool) -> None:
    answers = [stream(streamed([PARIS])) if streams else reply(completion(PARIS)), reply({"error": {"message": "busy"}}, 500)]
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(*answers, policy=policy(delivery, "action: annotate"), verifiers=verifiers) as proxy:
        got, failed = await proxy.post({**BODY, "stream": streams}), await proxy.post({**BODY, "stream": streams})
        records = [await proxy.record(answer) for answer in (got, failed)]
        assert {} == kept(proxy)
    assert ([200, 500], 1.0) == ([got.status, failed.status], records[0]["detail"]["facts"]["faithfulness"])


async def test_a_tapped_answer_is_judged_for_the_record_alone(start: Start) -> None:
    events = streamed([LONDON])
    async with start(stream(events), policy=policy("tap", "action: annotate"), verifiers=ScriptedVerifiers(judged_by_words)) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    assert b"".join(events) == got.body
    assert ("warn", 0.0) == (record["outcome"], record["detail"]["facts"]["faithfulness"])


async def test_every_choice_of_an_answer_is_redacted(start: Start) -> None:
    choices = [
        {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for i, text in enumerate((GOLD + " " + TALL, PARIS))
    ]
    answer = reply(completion(choices=choices))
    async with start(
        answer, policy=policy("hold", "action: redact, fail_on: unsupported"), verifiers=ScriptedVerifiers(judged_by_words)
    ) as proxy:
        got = await proxy.post({**BODY, "n": 2})
    assert [TALL, PARIS] == [choice["message"]["content"] for choice in got.json["choices"]]
    assert "0.67" == got.headers["x-groundwire-faithfulness"]


async def test_a_client_may_leave_the_check_out(start: Start) -> None:
    async with start(
        reply(completion(LONDON)), policy=policy("hold", "action: block"), verifiers=ScriptedVerifiers(judged_by_words)
    ) as proxy:
        got = await proxy.post(BODY, x_groundwire_skip="claims")
    assert (200, "skipped") == (got.status, got.verdict)


async def test_the_verdict_stands_inline_where_it_is_asked_for(start: Start) -> None:
    async with start(
        reply(completion(LONDON)), policy=policy("hold", "action: annotate"), verifiers=ScriptedVerifiers(judged_by_words)
    ) as proxy:
        got = await proxy.post(BODY, x_groundwire_inline="1")
    (verdict,) = [one for one in got.json["groundwire"]["verdicts"] if one["stage"] == "claims"]
    assert ("claims_contradicted", "Paris") == (verdict["code"], verdict["detail"]["claims"][0]["instead"])


@pytest.mark.parametrize(
    ("delivery", "options", "problem"),
    [
        ("gate", "action: retry", "action: retry needs the whole answer"),
        ("hold", "min_faithfulness: 0.5", "min_faithfulness: there is no such option any more: an answer with a failing claim"),
        ("hold", "tool_arguments: block", "tool_arguments: there is no such option any more: the stage schema"),
        ("hold", "without_context: check", "without_context: there is no such option any more: without context"),
        ("tap", "action: redact", "delivery: tap cannot"),
        ("gate", "retries: 4", "retries"),
        ("gate", "min_support: 2", "min_support"),
    ],
)
def test_what_cannot_work_is_refused_when_the_policy_is_loaded(tmp_path: Path, delivery: str, options: str, problem: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(policy(delivery, options), encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        load_policy(file)


def test_retry_is_welcome_where_the_answer_is_held(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(policy("hold", "action: retry"), encoding="utf-8")
    assert "claims" == load_policy(file).stages[0].stage.name
