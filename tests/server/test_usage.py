"""What an exchange took, where its upstream does not say: one count, and everything goes by it."""

import gzip
import json
import threading
from hashlib import sha256
from typing import Any

import aiohttp
import pytest

from proxy.exchange import Answer, Choice, ContextUse, Exchange, ToolCall, Usage
from proxy.offloop import LARGE
from proxy.ports import ModelInfo
from proxy.server.usage import usage_of
from proxy.testing import WordCounter, completion, make_exchange, reply, stream, streamed
from tests.conftest import CHAT, Running, Start
from tests.limits.test_limits import standing
from tests.observe.metrics.reading import value

BUDGET = "name: counts\ndelivery: tap\nstages: [budget: {}]\n"
STREAMED = {**CHAT, "stream": True}
KEYS = f"keys: [{{name: ann, sha256: {sha256(b'gw-ann').hexdigest()}, limits: {{tpm: 10000}}}}]\n"
BEARER = {"authorization": "Bearer gw-ann"}


def answered(*texts: str, usage: Usage | None = None, finish: str | None = "stop", sent: int | None = 7, **more: Any) -> Exchange:
    exchange = make_exchange()
    choices = tuple(Choice(index, text, finish_reason=finish, **more) for index, text in enumerate(texts))
    exchange.answer = exchange.upstream_answer = Answer(choices, usage=usage)
    exchange.facts.context = ContextUse(sent) if sent is not None else None
    return exchange


async def took(exchange: Exchange, *, left: bool = False) -> tuple[int, int, bool] | None:
    """Prompt, completion, whether it was counted."""
    found = await usage_of(exchange, WordCounter(), left=left)
    return None if found is None else (found.prompt_tokens, found.completion_tokens, found.estimated)


@pytest.mark.parametrize("policy", [BUDGET, "name: empty\ndelivery: tap\nstages: []\n", BUDGET.replace("stages", "enforce: false\nstages")])
async def test_the_record_the_figures_and_the_keys_account_go_by_the_same_count(policy: str, start: Start) -> None:
    async with start(stream(streamed(["One ", "two ", "three."])), policy=policy, config=KEYS) as proxy:
        record = await proxy.record(await proxy.post(STREAMED, **BEARER))
        account, metrics = (await standing(proxy.app)).tokens, proxy.app.metrics
        await proxy.app.records_writer.flush()
        report = (await proxy.get("/groundwire/v1/report")).json["figures"]
        tokens = [value(metrics, "groundwire_tokens_total", kind=kind) for kind in ("prompt", "completion")]
        assert value(metrics, "groundwire_key_cost_usd_total") == value(metrics, "groundwire_cost_usd_total") > 0
    assert (8, 4) == (record["prompt_tokens"], record["completion_tokens"])
    assert ([8.0, 4.0], 12) == (tokens, account)
    assert {"prompt": 8, "completion": 4, "cached": 0, "estimated": True} == record["detail"]["usage"]
    assert pytest.approx((8 * 2.5 + 4 * 10) / 1e6) == record["cost_usd"]
    assert (1, round(record["cost_usd"], 6)) == (report["cost"]["priced"], report["cost"]["usd"])


TOOK = {"prompt_tokens": 300_000, "completion_tokens": 10, "total_tokens": 300_010}
TOLD = {"input_tokens": 300_000, "output_tokens": 10, "total_tokens": 300_010}
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]}
RESPONSE = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5.4", "output": [SAID], "usage": TOLD}
ASKED = {"model": "gpt-5.4", "input": "Hi"}


@pytest.mark.parametrize("tier", [None, "default", "flex", "priority"])
@pytest.mark.parametrize("kind", ["chat", "chat stream", "responses", "responses stream"])
async def test_a_long_prompt_costs_what_its_length_and_its_tier_cost(kind: str, tier: str | None, start: Start) -> None:
    chat = completion("Hi.", model="gpt-5.4") | {"usage": TOOK, "service_tier": tier}
    end = {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": TOOK, "service_tier": tier}
    response = RESPONSE | {"service_tier": tier}
    done = f"event: response.completed\ndata: {json.dumps({'type': 'response.completed', 'response': response})}\n\n".encode()
    ended = f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode()
    replies = {"chat": reply(chat), "responses": reply(response), "responses stream": stream([done])}
    replies["chat stream"] = stream([*streamed(["Hi."])[:-1], ended])
    body, path = ({**CHAT, "model": "gpt-5.4"}, "/v1/chat/completions") if "chat" in kind else (ASKED, "/v1/responses")
    async with start(replies[kind], policy=BUDGET) as proxy:
        record = await proxy.record(await proxy.post({**body, "stream": "stream" in kind}, path))
    usd = {"flex": (2.5, 11.25), "priority": (5, 30)}.get(tier or "", (5, 22.5))
    assert (300_000, pytest.approx((300_000 * usd[0] + 10 * usd[1]) / 1e6)) == (record["prompt_tokens"], record["cost_usd"])


async def test_calls_of_the_upstream_for_its_own_tools_are_as_long_as_each() -> None:
    exchange = answered("Hi.", usage=Usage(300_000, 10))
    exchange.rounds = 2
    assert Usage(300_000, 10, calls=3) == await usage_of(exchange, WordCounter(), left=False)


async def test_a_stream_without_usage_and_without_a_price_is_counted_as_such(start: Start) -> None:
    async with start(stream(streamed(["One."])), policy=BUDGET) as proxy:
        await proxy.record(await proxy.post({**STREAMED, "model": "nobodys-model"}))
        assert 1.0 == value(proxy.app.metrics, "groundwire_unpriced_exchanges_total")


async def test_what_an_upstream_says_is_not_counted_anew(start: Start) -> None:
    async with start(reply(completion()), policy=BUDGET) as proxy:
        record = await proxy.record(await proxy.post())
    assert {"prompt": 9, "completion": 3, "cached": 0} == record["detail"]["usage"]


@pytest.mark.parametrize("tokens", [-5, 2**62, 2**64 - 1])
async def test_figures_that_cannot_be_true_are_none_and_break_no_sum(tokens: int, start: Start) -> None:
    lying = completion(usage={"prompt_tokens": tokens, "completion_tokens": tokens})
    async with start(reply(lying), reply(lying), reply(completion()), policy=BUDGET) as proxy:
        records = [await proxy.record(await proxy.post()) for _ in range(3)]
        report = await proxy.get("/groundwire/v1/report")
        assert proxy.app.database.available
    assert [True, True, None] == [record["detail"]["usage"].get("estimated") for record in records]
    assert (200, sum(r["prompt_tokens"] for r in records)) == (report.status, report.json["figures"]["tokens"]["prompt"])


async def test_of_a_stream_that_breaks_off_what_came_is_in_the_figures(start: Start) -> None:
    async with start(stream(streamed(["One ", "two ", "three."])[:3], broken=True), policy=BUDGET) as proxy:
        record = await proxy.record(await proxy.post(STREAMED))
        assert value(proxy.app.metrics, "groundwire_cost_usd_total") > 0
    assert ("upstream_error", 8, 3) == (record["outcome"], record["prompt_tokens"], record["completion_tokens"])


async def test_an_upstreams_error_takes_nothing(start: Start) -> None:
    async with start(reply({"error": {"message": "no"}}, 500), policy=BUDGET) as proxy:
        record = await proxy.record(await proxy.post())
        assert 0.0 == value(proxy.app.metrics, "groundwire_tokens_total")
    assert (None, None) == (record["completion_tokens"], record["cost_usd"])


async def test_a_prompt_that_was_refused_is_among_no_tokens(start: Start) -> None:
    small = BUDGET.replace("budget: {}", "budget: {window: 40, reserve_output_tokens: 8}")
    long = {**CHAT, "messages": [{"role": "user", "content": "word " * 200}]}
    async with start(reply(completion()), policy=small) as proxy:
        record = await proxy.record(await proxy.post(long))
        report = (await proxy.get("/groundwire/v1/report")).json["figures"]
    assert (400, "block", None) == (record["status"], record["outcome"], record["prompt_tokens"])
    assert record["prompt_tokens_before"] > 200
    assert (0, 0) == (report["tokens"]["prompt"], report["tokens"]["before"])


EMBEDDINGS = {"model": "text-embedding-3-small", "input": "x"}
EMBEDDED = {"object": "list", "data": [], "model": "text-embedding-3-small", "usage": {"prompt_tokens": 700, "total_tokens": 700}}
MILLION = 0.02
"""USD that a million tokens of that model cost."""


@pytest.mark.parametrize("keys", [KEYS, KEYS.replace("{tpm: 10000}", "{}"), ""], ids=["a key with limits", "a key", "no keys"])
@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_what_passes_through_is_in_every_sum(keys: str, encoding: str, start: Start) -> None:
    body = json.dumps(EMBEDDED).encode()
    body, headers = (gzip.compress(body), {"content-encoding": "gzip"}) if encoding else (body, {})
    async with start(reply(body, headers=headers), config=keys) as proxy:
        got = await proxy.post(EMBEDDINGS, "/v1/embeddings", accept_encoding="gzip", **BEARER if keys else {})
        record, metrics = await proxy.record(got), proxy.app.metrics
        await proxy.app.records_writer.flush()
        report = (await proxy.get("/groundwire/v1/report")).json["figures"]
        spent = await spending(proxy) if keys else {"prompt_tokens": 700, "usd": 700 * MILLION / 1e6}
        counted = value(metrics, "groundwire_tokens_total", kind="prompt"), value(metrics, "groundwire_cost_usd_total")
    assert ("text-embedding-3-small", 700, 0) == tuple(record[name] for name in ("model", "prompt_tokens", "completion_tokens"))
    assert {"prompt": 700, "completion": 0, "cached": 0} == record["detail"]["usage"]
    assert [700] * 3 == [counted[0], report["tokens"]["prompt"], spent["prompt_tokens"]]
    assert [pytest.approx(700 * MILLION / 1e6)] * 4 == [record["cost_usd"], counted[1], report["cost"]["usd"], spent["usd"]]


async def spending(proxy: Running) -> dict[str, Any]:
    """What ann has spent."""
    assert proxy.app.admissions is not None
    await proxy.app.admissions.spending.flush()
    [row] = (await proxy.get("/groundwire/v1/spending?by=client,model")).json["data"]
    return row  # type: ignore[no-any-return]


async def test_what_passes_through_and_does_not_say_what_it_took_is_counted_alike_for_key_and_record(start: Start) -> None:
    async with start(reply({"results": []}), config=KEYS) as proxy:
        record = await proxy.record(await proxy.post({**EMBEDDINGS, "input": "word " * 40}, "/v1/embeddings", **BEARER))
        row = await spending(proxy)
    assert (row["model"], row["prompt_tokens"], True) == (record["model"], record["prompt_tokens"], record["detail"]["usage"]["estimated"])
    assert (True, row["usd"]) == (row["prompt_tokens"] > 50, pytest.approx(record["cost_usd"], abs=1e-6))


LONG = {"object": "list", "model": "text-embedding-3-small", "data": [0.25] * 100_000, "usage": {"total_tokens": 9}}
EVENTS = [{"model": "m", "usage": None}, {"model": "gpt-3.5-turbo-instruct", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (json.dumps(LONG).encode(), ("text-embedding-3-small", 9, 0)),
        (gzip.compress(json.dumps(LONG).encode()), ("text-embedding-3-small", 9, 0)),
        (b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in EVENTS), ("gpt-3.5-turbo-instruct", 5, 2)),
        (b'{"usage": {"prompt_tokens": 1%s}, "model": "\\ud800"}' % (b"0" * 400), ("", None, None)),
        (b'{"text": "a \\"usage\\": {\\"prompt_tokens\\": 5}"}', ("", None, None)),
        (b'{"prompt_tokens": 5}', ("", None, None)),
        (gzip.compress(b" " * 2**24 + json.dumps(LONG).encode()), ("", None, None)),
        (gzip.compress(json.dumps(LONG).encode())[:-20], ("", None, None)),
    ],
    ids=["long", "long and compressed", "events", "no figure and no name", "words", "no usage", "more than is read", "broken"],
)
async def test_an_answer_that_passes_is_read_at_its_ends(body: bytes, said: tuple[str, int | None, int | None], start: Start) -> None:
    headers = {"content-encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
    async with start(reply(body, headers=headers)) as proxy, aiohttp.ClientSession(auto_decompress=False) as session:
        async with session.post(proxy.url + "/v1/embeddings", json=EMBEDDINGS) as response:
            got = await response.read()
        record = await proxy.record_of(response)
    assert (body, said) == (got, tuple(record[name] for name in ("model", "prompt_tokens", "completion_tokens")))


async def test_to_look_at_an_answer_again_takes_nothing(start: Start) -> None:
    async with start(reply({"id": "resp_1", "usage": {"input_tokens": 5, "output_tokens": 2}})) as proxy:
        record = await proxy.record(await proxy.get("/v1/responses/resp_1"))
    assert (None, None) == (record["prompt_tokens"], record["cost_usd"])


async def test_a_beginning_that_was_told_is_completed() -> None:
    told = Usage(100, 1, 40)
    assert (100, 3, True) == await took(answered("one two three", usage=told, finish=None))
    assert (100, 1, False) == await took(answered("one two three", usage=told))


async def test_who_leaves_pays_for_what_was_on_its_way() -> None:
    assert (7, 2 + 5, True) == await took(answered("one two", finish=None), left=True)
    assert (7, 2, True) == await took(answered("one two"), left=True)


async def test_all_that_a_model_writes_is_counted() -> None:
    call = ToolCall("c", "find", "of this")
    assert (7, 2 * (1 + 2 + 2 + 1), True) == await took(answered("one", "two", reasoning="as said", tool_calls=(call,), inputs=("x",)))


async def test_a_prompt_that_no_stage_has_measured_is_counted_as_it_was_sent() -> None:
    counted = await WordCounter().count_request(CHAT["messages"], [], make_exchange().wants, ModelInfo("m", None))
    exchange = answered("one", sent=None)
    exchange.messages = CHAT["messages"]
    assert (counted.used_tokens, 1, True) == await took(exchange)


async def test_several_answers_are_counted_each_with_its_own_prompt() -> None:
    exchange = answered(sent=7)
    exchange.attempts.present(exchange, Answer((Choice(0, "one two", finish_reason="stop"),)), 1.0)
    exchange.attempts.ask_again(exchange, exchange.messages)
    exchange.facts.context = ContextUse(20)
    exchange.attempts.present(exchange, Answer((Choice(0, "one", finish_reason="stop"),), usage=Usage(30, 4)), 1.0)
    assert (7 + 30, 2 + 4, True) == await took(exchange)


async def test_what_was_refused_after_the_answer_was_taken_all_the_same() -> None:
    exchange = answered("one two")
    exchange.answer = None
    assert (7, 2, True) == await took(exchange)


async def test_where_no_answer_can_be_read_nobody_knows() -> None:
    assert await took(make_exchange()) is None


async def test_long_texts_are_counted_off_the_event_loop() -> None:
    threads = []

    class Counter(WordCounter):
        def count_text(self, text: str, model: ModelInfo) -> int:
            threads.append(threading.current_thread())
            return super().count_text(text, model)

    for text in ("short", "long " * LARGE):
        await usage_of(answered(text), Counter(), left=False)
    assert [True, False] == [thread is threading.main_thread() for thread in threads]
