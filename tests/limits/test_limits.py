"""Limits of client keys, through a running proxy: what is let through, what is refused in which words, what is counted afterwards."""

import asyncio
from collections import Counter
from hashlib import sha256
from typing import Any

import pytest

from proxy.app import App
from proxy.delivery import tap
from proxy.exchange import Exchange, Verdict
from proxy.limits.counter import CounterAway, Standing, Subject
from proxy.ports.stage import Stage
from proxy.testing import completion, reply, stream, streamed
from tests.conftest import CHAT, Start

ANN = "gw-ann"
BEARER = {"authorization": f"Bearer {ANN}"}
MESSAGES = {"model": "claude-sonnet-4-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
RESPONSES = {"model": "gpt-4o", "input": "Hi"}
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def keys(limits: str = "{}", more: str = "", teams: str = "") -> str:
    return f"keys: [{{name: ann, sha256: {sha256(ANN.encode()).hexdigest()}, limits: {limits}{more}}}]\n{teams}"


async def standing(app: App, name: str = "ann", kind: str = "key") -> Standing:
    """The account, once nothing is open or waits to be settled."""
    assert app.admissions is not None
    limiter = app.admissions.limiter
    async with asyncio.timeout(10):
        while True:
            found = (await limiter.counter.look([Subject(kind, name)]))[0]
            if not found.open and not limiter._waiting:
                return found
            await asyncio.sleep(0.005)


async def test_requests_past_the_limit_are_refused_and_reach_nobody(start: Start) -> None:
    async with start(reply(completion()), config=keys("{rpm: 3}")) as proxy:
        answers = [await proxy.post(**BEARER) for _ in range(5)]
    assert [200, 200, 200, 429, 429] == [answer.status for answer in answers]
    assert 3 == len(proxy.upstream.calls)
    refused = answers[-1]
    assert ("rate_limited", "rate_limit_error", "rpm") == tuple(refused.json["error"][name] for name in ("code", "type", "param"))
    assert "3 requests a minute" in refused.json["error"]["message"]
    assert 55 <= int(refused.headers["retry-after"]) <= 60
    assert ["2", "1", "0"] == [answer.headers["x-ratelimit-remaining-requests"] for answer in answers[:3]]
    assert {"3"} == {answer.headers["x-ratelimit-limit-requests"] for answer in answers}
    assert refused.headers["x-ratelimit-reset-requests"].endswith("s")


@pytest.mark.parametrize(
    ("path", "body", "key_header"),
    [
        ("/v1/messages", MESSAGES, "x-api-key"),
        ("/v1/responses", RESPONSES, "authorization"),
        ("/v1/chat/completions", CHAT, "authorization"),
    ],
)
async def test_a_refusal_speaks_the_clients_api(path: str, body: Any, key_header: str, start: Start) -> None:
    headers = {key_header: ANN if key_header == "x-api-key" else f"Bearer {ANN}"}
    async with start(reply({}), config=keys("{rpm: 1, tpm: 100000}")) as proxy:
        first, refused = await proxy.post(body, path, **headers), await proxy.post(body, path, **headers)
    assert (200, 429) == (first.status, refused.status)
    assert "retry-after" in refused.headers
    if path == "/v1/messages":
        assert ("error", "rate_limit_error") == (refused.json["type"], refused.json["error"]["type"])
        for answer in (first, refused):
            assert "1" == answer.headers["anthropic-ratelimit-requests-limit"]
            assert answer.headers["anthropic-ratelimit-tokens-reset"].endswith("Z")
    else:
        assert "rate_limited" == refused.json["error"]["code"]
        assert "100000" == refused.headers["x-ratelimit-limit-tokens"]


@pytest.mark.parametrize("tokens", [-5, 2**63, 2**64 - 1])
async def test_a_figure_that_cannot_be_true_keeps_nothing_else_from_being_settled(tokens: int, start: Start) -> None:
    usage = {"prompt_tokens": tokens, "completion_tokens": tokens, "total_tokens": tokens}
    async with start(reply({**completion(), "usage": usage}), config=keys("{rpm: 100, usd_per_day: 1e12}")) as proxy:
        answers = [await proxy.post(**BEARER) for _ in range(2)]
        found = await standing(proxy.app)
    assert ([200, 200], 0) == ([answer.status for answer in answers], found.open)


async def test_an_upstream_does_not_tell_of_the_operators_own_limits(start: Start) -> None:
    told = {"content-type": "application/json", "x-ratelimit-remaining-requests": "4999", "anthropic-ratelimit-requests-limit": "7"}
    async with start(reply(completion(), headers=told), config=keys("{rpm: 3}")) as proxy:
        limited = await proxy.post(**BEARER)
    async with start(reply(completion(), headers=told), config=keys()) as proxy:
        free = await proxy.post(**BEARER)
    assert ("2", None) == tuple(limited.headers.get(n) for n in ("x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-limit"))
    assert "4999" == free.headers["x-ratelimit-remaining-requests"]


async def test_tokens_are_reserved_and_then_corrected_by_the_upstreams_figures(start: Start) -> None:
    async with start(reply(completion(usage=USAGE)), config=keys("{tpm: 1000}")) as proxy:
        first = await proxy.post({**CHAT, "max_tokens": 500}, **BEARER)
        assert 480 <= int(first.headers["x-ratelimit-remaining-tokens"]) < 500
        assert 11 == (await standing(proxy.app)).tokens
        second = await proxy.post(**BEARER)
    assert 970 < int(second.headers["x-ratelimit-remaining-tokens"]) < 989  # what its answers usually take is known by now


async def test_a_request_that_alone_passes_the_limit_by_its_estimate_goes_through(start: Start) -> None:
    async with start(reply(completion(usage=USAGE)), config=keys("{tpm: 100}")) as proxy:
        answers = [(await proxy.post({**CHAT, "max_tokens": 32_000}, **BEARER)).status for _ in range(2)]
        long = await proxy.post({**CHAT, "messages": [{"role": "user", "content": "word " * 500}]}, **BEARER)
    assert ([200, 200], 429) == (answers, long.status)
    assert "this request alone takes" in long.json["error"]["message"]
    assert "false" == long.headers["x-should-retry"]


async def test_money_is_counted_by_the_list_of_prices_and_holds(start: Start) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000}  # gpt-4o: 0.0125 USD
    async with start(reply(completion(usage=usage)), config=keys("{usd_per_day: 0.05}")) as proxy:
        found = []
        for _ in range(8):
            found.append(await proxy.post(**BEARER))
            await standing(proxy.app)
        spent = (await standing(proxy.app)).day_micro_usd
    assert [200] * 4 + [429] * 4 == [answer.status for answer in found]
    assert 50_000 == spent
    assert "0.05 USD a day" in found[-1].json["error"]["message"]
    assert "false" == found[-1].headers["x-should-retry"]
    assert int(found[-1].headers["retry-after"]) <= 86_400


@pytest.mark.parametrize(("tier", "status"), [("auto", 200), ("flex", 200), ("priority", 429), (["priority"], 200)])
async def test_what_a_dearer_tier_may_cost_is_reserved(tier: object, status: int, start: Start) -> None:
    body = {**CHAT, "model": "gpt-5.4", "max_tokens": 1000, "service_tier": tier, "stream": True}  # 0.015 USD, 0.03 under priority
    ended = asyncio.Event()
    async with (
        start(stream(streamed(["Hi."]), wait={1: ended}), config=keys("{usd_per_day: 0.04}")) as proxy,
        proxy.open(body, **BEARER) as first,
        proxy.open(body, **BEARER) as second,
    ):
        ended.set()
        assert (200, status) == (first.status, second.status)


@pytest.mark.parametrize("for_an_hour", [0, 60_000])
async def test_what_a_provider_put_into_its_cache_costs_more(for_an_hour: int, start: Start) -> None:
    usage: dict[str, Any] = {
        "input_tokens": 1000,
        "output_tokens": 10,
        "cache_creation_input_tokens": 100_000,
        "cache_read_input_tokens": 0,
    }
    usage["cache_creation"] = {"ephemeral_5m_input_tokens": 100_000 - for_an_hour, "ephemeral_1h_input_tokens": for_an_hour}
    said = {"content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", **said}
    async with start(reply(message), config=keys("{usd_per_day: 5}")) as proxy:
        answer = await proxy.post(MESSAGES, "/v1/messages", x_api_key=ANN)
        cost_usd = (await proxy.record(answer))["cost_usd"]
        spent = (await standing(proxy.app)).day_micro_usd
        info = proxy.app.admissions.tokens.model("claude-sonnet-4-5")  # type: ignore[union-attr]
    assert info.written_usd_per_token > info.input_usd_per_token  # type: ignore[operator]
    usd = (1000 + 2 * for_an_hour) * info.input_usd_per_token + 10 * info.output_usd_per_token  # type: ignore[operator]
    usd += (100_000 - for_an_hour) * info.written_usd_per_token  # type: ignore[operator]
    assert (spent, cost_usd) == (pytest.approx(usd * 1e6, abs=1), pytest.approx(usd))


async def test_answers_that_are_suddenly_long_do_not_overspend(start: Start) -> None:
    def used(tokens: int) -> Any:
        return reply(completion(usage={"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": 8 + tokens}))

    async with start(*[used(5)] * 5, used(1000), config=keys("{usd_per_day: 0.05}")) as proxy:  # a long one costs 0.01 USD
        assert [200] * 5 == [(await proxy.post(**BEARER)).status for _ in range(5)]
        found = await asyncio.gather(*(proxy.post({**CHAT, "max_tokens": 1000}, **BEARER) for _ in range(30)))
        spent = (await standing(proxy.app)).day_micro_usd
    assert Counter(answer.status for answer in found)[200] in (4, 5)  # the last one alone, when nothing else was open any more
    assert 40_000 < spent <= 50_000 + 10_020, "by one request at most"


async def test_a_model_without_a_price_is_refused_where_money_is_limited(start: Start) -> None:
    body = {**CHAT, "model": "nobodys-model"}
    async with start(config=keys("{usd_per_day: 1}")) as proxy:
        refused = await proxy.post(body, **BEARER)
    async with start(config=keys("{usd_per_day: 1}") + "limits: {on_error: {usd_per_day: open}}\n") as proxy:
        passed = await proxy.post(body, **BEARER)
    assert ((403, "model"), 200) == ((refused.status, refused.json["error"]["param"]), passed.status)


async def test_so_many_at_a_time_and_a_place_is_free_when_an_answer_has_ended(start: Start) -> None:
    more = asyncio.Event()
    pieces = streamed(["One ", "two."])
    async with start(stream(pieces, wait={1: more}), reply(completion()), config=keys("{concurrent: 1}")) as proxy:
        async with proxy.open({**CHAT, "stream": True}, **BEARER) as first:
            await first.content.readany()
            assert 429 == (await proxy.post(**BEARER)).status
            more.set()
            await first.read()
        assert [200] * 5 == [(await proxy.post(**BEARER)).status for _ in range(5)]  # at once: no answer's end is refused its next question


class Slow(Stage):
    """Looks at an answer until the test says so."""

    name = "slow"
    read_only = True
    go: asyncio.Event

    async def on_answer(self, exchange: Exchange) -> Verdict:
        await type(self).go.wait()
        return Verdict("slow", "pass")


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("shadow", ["", "enforce: false\n"])
async def test_a_place_is_free_when_an_answer_has_left_though_it_is_still_checked(
    shadow: str, streams: bool, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tap, "PATIENCE_S", 0.05)
    Slow.go = asyncio.Event()
    policy = f"name: p\ndelivery: tap\n{shadow}stages: [slow: {{timeout_ms: 60000}}]\n"
    answer = stream(streamed(["Hi."])) if streams else reply(completion(usage=USAGE))
    async with start(answer, policy=policy, stages=[Slow], config=keys("{concurrent: 1, tpm: 10000}")) as proxy:
        body = {**CHAT, "stream": streams, "max_tokens": 50}
        assert [200, 200] == [(await proxy.post(body, **BEARER)).status for _ in range(2)]
        found = await standing(proxy.app)
        Slow.go.set()
    assert (2, 0) == (found.requests, found.open)
    assert 15 < found.tokens < 40  # what came, and not what was reserved


async def test_a_client_that_leaves_gives_its_place_back_and_pays_for_what_came(start: Start) -> None:
    words = streamed([f"word{i} " for i in range(50)])
    async with start(stream(words, wait={40: asyncio.Event()}), config=keys("{concurrent: 1, tpm: 10000}")) as proxy:
        async with proxy.open({**CHAT, "stream": True, "max_tokens": 5000}, **BEARER) as first:
            await first.content.readuntil(b"word30")
            first.close()
        found = await standing(proxy.app)
    assert 0 == found.open
    assert 60 < found.tokens < 200


async def test_a_stream_that_breaks_off_is_settled_by_what_came(start: Start) -> None:
    words = streamed([f"word{i} " for i in range(50)])[:20]
    async with start(stream(words, broken=True), config=keys("{tpm: 10000}")) as proxy:
        await proxy.post({**CHAT, "stream": True, "max_tokens": 5000}, **BEARER)
        found = await standing(proxy.app)
    assert 30 < found.tokens < 100


async def test_a_stream_without_figures_is_counted(start: Start) -> None:
    async with start(stream(streamed(["One ", "two ", "three."])), config=keys("{tpm: 10000}")) as proxy:
        await proxy.post({**CHAT, "stream": True, "max_tokens": 5000}, **BEARER)
        found = await standing(proxy.app)
    assert 10 < found.tokens < 20


@pytest.mark.parametrize("status", [400, 429, 500])
async def test_an_upstreams_error_costs_no_tokens(status: int, start: Start) -> None:
    async with start(reply({"error": {"message": "no"}}, status), config=keys("{tpm: 10000, rpm: 10}")) as proxy:
        assert status == (await proxy.post(**BEARER)).status
        found = await standing(proxy.app)
    assert (1, 0) == (found.requests, found.tokens)


async def test_a_teams_limit_counts_for_all_of_its_keys(start: Start) -> None:
    bob = f"{{name: bob, sha256: {sha256(b'gw-bob').hexdigest()}, team: red}}"
    config = keys("{rpm: 10}", ", team: red", "teams: {red: {rpm: 3}}\n").replace("]\n", f", {bob}]\n", 1)
    async with start(config=config) as proxy:
        found = [(await proxy.post(**({"authorization": "Bearer gw-bob"} if i % 2 else BEARER))) for i in range(5)]
        assert (3, 2) == ((await standing(proxy.app, "red", "team")).requests, (await standing(proxy.app)).requests)
    assert [200, 200, 200, 429, 429] == [answer.status for answer in found]
    assert "team 'red'" in found[-1].json["error"]["message"]


async def test_a_key_is_for_some_models(start: Start) -> None:
    async with start(config=keys(more=", models: ['gpt-4o*']")) as proxy:
        allowed, other = await proxy.post(**BEARER), await proxy.post({**CHAT, "model": "o3"}, **BEARER)
        embedded = await proxy.post({"model": "text-embedding-3-small", "input": "x"}, "/v1/embeddings", **BEARER)
        none = await proxy.post({"input": "Hi"}, "/v1/responses", **BEARER)
        stored = await proxy.post({"input": "Hi", "prompt": {"id": "pmpt_1"}}, "/v1/responses", **BEARER)
        twice = await proxy.post(b'{"model": "gpt-4o", "model": "o3", "messages": [{"role": "user", "content": "Hi"}]}', **BEARER)
    assert [200, 403, 403, 400, 400, 400] == [answer.status for answer in (allowed, other, embedded, none, stored, twice)]
    assert 1 == len(proxy.upstream.calls)


@pytest.mark.parametrize(("limits", "more"), [("{}", ", models: ['gpt-4o*']"), ("{usd_per_day: 1}", ""), ("{tpm: 1000}", "")])
async def test_a_limited_key_names_one_model_that_every_reader_finds(limits: str, more: str, start: Start) -> None:
    async with start(config=keys(limits, more)) as proxy:
        twice = await proxy.post(b'{"model": "o3", "model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}', **BEARER)
        passed = await proxy.post(b'{"model": "o3", "model": "gpt-4o", "input": "Hi"}', "/v1/embeddings", **BEARER)
        named = [await proxy.post({**CHAT, name: ["o3"]}, **BEARER) for name in ("models", "fallbacks")]
    assert ([400, 400, 403, 403], []) == ([one.status for one in (twice, passed, *named)], proxy.upstream.calls)


QUEUED = {"id": "resp_1", "object": "response", "status": "queued", "background": True, "model": "gpt-4o", "output": [], "usage": None}


@pytest.mark.parametrize(("more", "most"), [({"max_output_tokens": 700}, 700), ({}, 16_384)], ids=["the client's limit", "the model's"])
async def test_a_response_in_the_background_counts_with_all_that_it_may_take(more: dict[str, int], most: int, start: Start) -> None:
    async with start(reply(QUEUED), config=keys("{tpm: 20000}")) as proxy:
        first = await proxy.post({**RESPONSES, "background": True, **more}, "/v1/responses", **BEARER)
        left = await standing(proxy.app)
        again = await proxy.post({**RESPONSES, "background": True, "max_output_tokens": 19_900}, "/v1/responses", **BEARER)
        unknown = await proxy.post({**RESPONSES, "background": True, "model": "own-model"}, "/v1/responses", **BEARER)
    assert [200, 429, 400] == [one.status for one in (first, again, unknown)]
    assert most < left.tokens < most + 20  # those of its prompt


@pytest.mark.parametrize("said", [1, "true"])
async def test_what_some_servers_take_for_background_counts_as_such(said: object, start: Start) -> None:
    async with start(reply(QUEUED), config=keys("{tpm: 20000}")) as proxy:
        await proxy.post({**RESPONSES, "background": said}, "/v1/responses", **BEARER)
        assert 16_384 < (await standing(proxy.app)).tokens


async def test_a_response_in_the_background_that_is_read_to_its_end_counts_with_what_it_took(start: Start) -> None:
    answer = {**QUEUED, "status": "completed", "usage": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}}
    async with start(reply(answer), config=keys("{tpm: 20000}")) as proxy:
        await proxy.post({**RESPONSES, "background": True}, "/v1/responses", **BEARER)
        assert 11 == (await standing(proxy.app)).tokens


async def test_a_key_expires(start: Start) -> None:
    async with start(config=keys(more=", expires: 2020-01-01")) as proxy:
        assert 401 == (await proxy.post(**BEARER)).status


async def test_what_passes_through_is_counted_too(start: Start) -> None:
    answer = {"object": "list", "data": [], "usage": {"prompt_tokens": 700, "total_tokens": 700}}
    async with start(reply(answer), config=keys("{rpm: 2, tpm: 10000}")) as proxy:
        found = [await proxy.post({"model": "text-embedding-3-small", "input": "x"}, "/v1/embeddings", **BEARER) for _ in range(3)]
        listed = await proxy.get("/v1/models", **BEARER)
        assert 1400 == (await standing(proxy.app)).tokens
    assert ([200, 200, 429], 200) == ([one.status for one in found], listed.status)


async def test_a_picture_that_passes_through_is_no_hundred_thousand_tokens(start: Start) -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + "iVBORw0KGgo" * 40_000}
    answer = {"object": "list", "data": [], "usage": {"prompt_tokens": 900, "total_tokens": 900}}
    async with start(reply(answer), config=keys("{tpm: 5000}")) as proxy:
        shown = await proxy.post({"model": "m", "input": [picture]}, "/v1/embeddings", **BEARER)
        assert 900 == (await standing(proxy.app)).tokens
        words = await proxy.post({"model": "m", "input": "word " * 40_000}, "/v1/embeddings", **BEARER)
        numbers = await proxy.post({"model": "m", "input": list(range(10_000))}, "/v1/embeddings", **BEARER)
    assert (200, 429, 429) == (shown.status, words.status, numbers.status)


async def test_a_providers_count_of_tokens_takes_nothing(start: Start) -> None:
    counted = {"object": "response.input_tokens", "input_tokens": 11}
    async with start(reply(counted), config=keys("{rpm: 1, tpm: 100}")) as proxy:
        found = [await proxy.post({**RESPONSES, "input": "word " * 500}, "/v1/responses/input_tokens", **BEARER) for _ in range(3)]
        left = await standing(proxy.app)
    assert ([200] * 3, 0, 0) == ([one.status for one in found], left.requests, left.tokens)


async def test_what_makes_something_is_settled_by_its_answer(start: Start) -> None:
    answer = {"id": "resp_1", "object": "response.compaction", "output": [], "usage": {"input_tokens": 700, "output_tokens": 30}}
    async with start(reply(answer), config=keys("{tpm: 10000}")) as proxy:
        found = await proxy.post({**RESPONSES, "input": "word " * 1000}, "/v1/responses/compact", **BEARER)
        left = await standing(proxy.app)
    assert (200, 730) == (found.status, left.tokens)


class Away:
    """A counter that nobody reaches."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def settle(self, settlements: Any) -> None:
        raise CounterAway("not today")

    reserve = renew = look = settle

    async def reserve(self, *_: Any) -> Any:  # noqa: F811
        raise CounterAway("not today")


@pytest.mark.parametrize(
    ("limits", "on_error", "status"),
    [
        ("{rpm: 5}", "", 200),
        ("{usd_per_day: 5}", "", 503),
        ("{rpm: 5}", "{rpm: closed}", 503),
        ("{usd_per_day: 5}", "{usd_per_day: open}", 200),
    ],
)
async def test_a_counter_that_is_away_lets_through_or_refuses_and_says_so(
    limits: str, on_error: str, status: int, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    more = f"limits: {{on_error: {on_error}}}\n" if on_error else ""
    async with start(config=keys(limits) + more) as proxy:
        assert proxy.app.admissions is not None
        proxy.app.admissions.limiter.counter = Away()
        answer = await proxy.post(**BEARER)
        counted = proxy.app.metrics.as_json()["counters"]
        proxy.app.admissions.limiter._waiting.clear()
    assert status == answer.status
    assert ("open;counter-away" if status == 200 else "closed;counter-away") == answer.headers["x-groundwire-limits"]
    assert 1 == counted["limits.uncounted_count" if status == 200 else "limits.closed_count"]  # type: ignore[index]
    assert "not today" in caplog.text
    if status == 503:
        assert "1" == answer.headers["retry-after"]


async def test_what_keys_take_is_in_the_metrics(start: Start) -> None:
    async with start(reply(completion(usage=USAGE)), config=keys("{rpm: 1}", ", team: red")) as proxy:
        await proxy.post(**BEARER)
        await proxy.post(**BEARER)
        text = (await proxy.get("/metrics")).body.decode()
    for line in (
        'groundwire_key_exchanges_total{key="ann",team="red"} 1.0',
        'groundwire_key_tokens_total{key="ann",kind="prompt",team="red"} 9.0',
        'groundwire_limit_refusals_total{key="ann",limit="rpm",team="red"} 1.0',
    ):
        assert line in text


async def test_without_limits_nobody_is_asked(start: Start) -> None:
    async with start(config=keys()) as proxy:
        assert proxy.app.admissions is not None
        proxy.app.admissions.limiter.counter = Away()
        answer = await proxy.post(**BEARER)
    assert (200, None) == (answer.status, answer.headers.get("x-groundwire-limits"))
    async with start() as proxy:
        assert proxy.app.admissions is None


DECISIONS = {
    "/v1/decisions": b'{ "model":"gpt-6-luna", "input" : "It has.","questions":[{"type":"predicate","instructions":"It has."}] }',
    "/v1/systemone": b'{"state": {"a": 1.0}, "model": "gpt-6-luna", "questions": {"q": {"type": "noul", "instructions": "It has."}}}',
}
DECIDED = {"model": "gpt-6-luna", "answers": [], "usage": {"input_tokens": 1000, "output_tokens": 5}}


@pytest.mark.parametrize("path", DECISIONS)
async def test_decisions_take_of_a_keys_limits_what_their_answer_says(path: str, start: Start) -> None:
    limits = keys("{rpm: 3, tpm: 2500, usd_per_day: 1000}")
    async with start(reply(DECIDED), config=limits) as proxy:
        answers = [await proxy.post(DECISIONS[path], path, **BEARER) for _ in range(2)]
        account = await standing(proxy.app)
        answers += [await proxy.post(DECISIONS[path], path, **BEARER) for _ in range(2)]
        record = await proxy.record(answers[0])
        figures = (await proxy.get("/metrics")).body.decode()
    assert [200, 200, 200, 429] == [answer.status for answer in answers]
    assert (2010, 1000, 5, "ann") == (account.tokens, record["prompt_tokens"], record["completion_tokens"], record["client"])
    assert [DECISIONS[path]] * 3 == [call.body for call in proxy.upstream.calls]
    assert 'kind="prompt"' in figures


async def test_a_key_for_some_models_decides_with_those_alone(start: Start) -> None:
    async with start(reply(DECIDED), config=keys(more=", models: [gpt-4o]")) as proxy:
        found = [await proxy.post(body, path, **BEARER) for path, body in DECISIONS.items()]
    assert ([403, 403], []) == ([answer.status for answer in found], proxy.upstream.calls)


async def test_a_models_name_that_never_ends_is_not_remembered(start: Start) -> None:
    async with start(reply({"usage": USAGE}), config=keys("{rpm: 9}")) as proxy:
        got = await proxy.post({"model": "m" * 513, "input": "x"}, "/v1/embeddings", **BEARER)
    assert (400, "model", []) == (got.status, got.json["error"]["param"], proxy.upstream.calls)
