"""A policy's judge in the running proxy: a chat model and a decision model, right, slow, wrong, away and too dear."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.exchange.judgements import Support
from proxy.ports.decisions import Answer, Question
from proxy.testing import ScriptedReply, ScriptedUpstream, ScriptedVerifiers, completion, hang, reply, stream, streamed
from tests.claims import PARIS, TOWER
from tests.conftest import Running, Start
from tests.decision_server import judging, with_probabilities

UGLY = "The Eiffel Tower is ugly."
BODY: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Tell me about the Eiffel Tower."}],
    "groundwire": {"context": [{"content": TOWER}]},
}
SURE, UNSURE = Support(0.95, 0.01), Support(0.4, 0.3)


def chat_says(answer: str, **usage: int) -> ScriptedReply:
    """About whatever number of statements."""
    answers = [{"number": n, "reason": "So.", "answer": answer, "confidence": 0.95} for n in range(1, 9)]
    spent = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110, **usage}
    return reply(completion(json.dumps({"answers": answers}), usage=spent))


def decides(choice: str) -> ScriptedReply:
    def answer(state: str, question: Question) -> Answer:
        return Answer({one: 0.9 if one == choice else 0.1 / (len(question.options) - 1) for one in question.options})

    return judging("openai", answer)


@asynccontextmanager
async def judged_by(start: Start, said: ScriptedReply, options: str, answer: Any = None, delivery: str = "hold") -> AsyncIterator[Any]:
    """The proxy, whose model gives `answer`, and the server that judges."""
    verifiers = ScriptedVerifiers(lambda pair: UNSURE if "ugly" in pair.claim else SURE)
    policy = f"name: p\ndelivery: {delivery}\njudge: {{upstream: judge, model: gpt-4o-mini, {options}}}\nstages: [claims: {{embed: false, action: redact}}]\n"
    async with ScriptedUpstream(said) as judge:
        config = f"  judge: {{kind: openai, base_url: '{judge.base_url}', api_key: sk-judge, decisions: {{shape: openai}}, retries: {{attempts: 0}}}}\n"
        answers = answer or reply(completion(f"{PARIS} {UGLY}"))
        async with start(
            answers, policy=policy, verifiers=verifiers, upstream_options="retries: {attempts: 0}", more_upstreams=config
        ) as proxy:
            yield proxy, judge


async def found(proxy: Running, body: dict[str, Any] = BODY) -> tuple[Any, dict[str, Any]]:
    got = await proxy.post(body)
    return got, (await proxy.record(got))["detail"]["facts"].get("judge") or {}


@pytest.mark.parametrize(("kind", "said"), [("chat", chat_says("contradicted")), ("decisions", decides("contradicted"))])
async def test_its_word_decides_what_the_built_in_model_is_unsure_of(start: Start, kind: str, said: ScriptedReply) -> None:
    async with judged_by(start, said, f"kind: {kind}") as (proxy, judge):
        got, use = await found(proxy)
    assert (PARIS, "warn") == (got.json["choices"][0]["message"]["content"], got.verdict)
    assert (1, 1, "judge/gpt-4o-mini") == (use["asked"], len(judge.calls), use["by"])
    assert use["input_tokens"] > 0
    assert "judge_unavailable" not in got.headers.get("x-groundwire-warnings", "")


@pytest.mark.parametrize(("kind", "said"), [("chat", chat_says("contradicted")), ("decisions", decides("contradicted"))])
async def test_asked_of_all_it_finds_what_the_built_in_model_calls_supported(start: Start, kind: str, said: ScriptedReply) -> None:
    answer = reply(completion("In Paris, the tower is 330 metres tall, and opened in 1889."))
    async with judged_by(start, said, f"kind: {kind}, ask: all", answer) as (proxy, _):
        got, use = await found(proxy)
    assert ("warn", True) == (got.verdict, use["asked"] >= 1)


async def test_a_chat_judge_costs_what_the_list_of_prices_says_and_is_asked_once(start: Start) -> None:
    async with judged_by(start, chat_says("supported"), "kind: chat, max_usd_per_day: 1") as (proxy, judge):
        _, first = await found(proxy)
        _, again = await found(proxy)
    assert (1, 0, 1) == (len(judge.calls), again.get("calls", 0), again["cached"])
    assert 0 < first["usd"] < 0.001


async def test_a_spent_budget_leaves_the_built_in_model_s_word_and_says_so(start: Start) -> None:
    async with judged_by(start, chat_says("contradicted"), "kind: chat, max_usd_per_day: 0.000001") as (proxy, judge):
        await proxy.post(BODY)
        other = {**BODY, "groundwire": {"context": [{"content": TOWER + " It has three floors."}]}}
        got, use = await found(proxy, other)
    assert (1, ["judge_over_budget"], "unsure") == (len(judge.calls), use["failed"], got.verdict)
    assert "judge_over_budget,context_not_in_prompt" == got.headers["x-groundwire-warnings"]


@pytest.mark.parametrize(
    ("kind", "said", "why"),
    [
        ("chat", reply({"error": {"message": "busy"}}, 429), "429"),
        ("chat", reply(completion("I would rather not say.")), "cannot be read"),
        ("chat", hang, ""),
        ("decisions", reply({"error": {"message": "busy"}}, 500), "500"),
        ("decisions", hang, ""),
    ],
)
async def test_a_judge_that_is_away_leaves_the_built_in_model_s_word_and_says_so(start: Start, kind: str, said: Any, why: str) -> None:
    async with judged_by(start, said, f"kind: {kind}, timeout_ms: 300") as (proxy, _):
        got, use = await found(proxy)
    assert (f"{PARIS} {UGLY}", "unsure", 1) == (got.json["choices"][0]["message"]["content"], got.verdict, use["unanswered"])
    assert (True, "judge_unavailable,context_not_in_prompt") == (why in use["failed"][0], got.headers["x-groundwire-warnings"])


@pytest.mark.parametrize("value", [float("nan"), None, 0.3])
async def test_probabilities_that_are_none_are_no_answer(start: Start, value: Any) -> None:
    def contradicted(state: str, question: Question) -> Answer:
        return Answer({one: float(one == "contradicted") for one in question.options})

    spoilt = judging("openai", contradicted, spoil=with_probabilities(lambda p: value))
    async with judged_by(start, spoilt, "kind: decisions") as (proxy, _):
        got, use = await found(proxy)
    assert ("unsure", 1) == (got.verdict, use["unanswered"])


async def test_under_gate_each_sentence_is_asked_about_before_it_leaves(start: Start) -> None:
    answer = stream(streamed([UGLY + " ", PARIS]))
    async with judged_by(start, chat_says("contradicted"), "kind: chat", answer, delivery="gate") as (proxy, judge):
        got = await proxy.post({**BODY, "stream": True})
    assert (True, False, 1) == (PARIS.encode() in got.body, UGLY.encode() in got.body, len(judge.calls))
