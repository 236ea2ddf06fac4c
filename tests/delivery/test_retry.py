"""A stage has the upstream asked again: which attempt leaves, in whose bytes, at what price, and what happens when none comes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.delivery.hold import MAX_ATTEMPTS
from proxy.exchange import Answer, Choice, Exchange, Sentence, Verdict
from proxy.exchange.judgements import Claim, Judgement
from proxy.pipeline import Pipeline
from proxy.ports.stage import SentenceStage, Stage, StageOptions
from proxy.stages.registry import STAGES
from proxy.testing import chunk, completion, hang, make_exchange, make_ports, raw, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import CHAT, Start
from tests.own_tools import FIND, Finder, call_events, called, calling, chunks, names, read, usage_event

STREAM = {**CHAT, "stream": True}
AGAIN = "That was not supported. Once more."


class Early(Stage):
    """Looks at every answer before the others do, and says what it has found: the answer's own text."""

    name = "early"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        assert exchange.answer is not None
        exchange.facts.confidence = exchange.answer.text[-1:]
        exchange.changes.append({"stage": "early", "what": exchange.answer.text})
        return Verdict("early", "warn" if "BAD" in exchange.answer.text else "pass", code="early_" + exchange.answer.text[-1:].lower())


class Chooser(Stage):
    """Wants another answer as long as one says BAD; takes the attempt with the fewest BADs, and takes out a LIE."""

    name = "chooser"
    changes = ("answer",)

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        assert exchange.answer is not None
        bad = [sum(choice.text.count("BAD") for choice in attempt.upstream_answer.choices) for attempt in exchange.attempts] or [
            exchange.answer.text.count("BAD")
        ]
        if bad[-1] and exchange.attempts.possible:
            exchange.retry = [*exchange.original.messages, {"role": "user", "content": AGAIN}]
            return None
        best = min(range(len(bad)), key=lambda i: (bad[i], -i))
        exchange.deliver = best
        answer = exchange.attempts[best].upstream_answer if exchange.attempts else exchange.answer
        exchange.facts.faithfulness = 1 / (1 + bad[best])
        if "LIE" in answer.text:
            exchange.answer = answer.with_text(0, answer.text.replace("LIE", "[removed]"))
        if "POISON" in answer.text:
            return Verdict("chooser", "block", code="hallucination_detected", message="all of them")
        return Verdict("chooser", "warn" if bad[best] else "pass")


class Stubborn(Stage):
    """Always wants another answer, whether it can be had or not."""

    name = "stubborn"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        exchange.retry = [*exchange.original.messages, {"role": "user", "content": AGAIN}]
        return Verdict("stubborn", "pass")


class Late(Stage):
    """Keeps what it is shown."""

    name = "late"
    seen: list[tuple[str, str | None]] = []

    async def on_answer(self, exchange: Exchange) -> None:
        assert exchange.answer is not None
        type(self).seen.append((exchange.answer.text, exchange.facts.confidence))


class Listening(SentenceStage):
    """Makes gate delivery a gate."""

    name = "listening"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> None:
        return None


ALL = (*STAGES, Early, Chooser, Stubborn, Late, Listening, Finder)


def policy(*stages: str, delivery: str = "hold") -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [{', '.join(stages)}]\n"


HOLD = policy("early", "chooser", "late")


def body_of(text: str, identity: str = "x", **more: object) -> dict[str, Any]:
    return completion(text, id=identity, **more)


def with_usage(words: list[str], prompt: int, said: int, identity: str = "one") -> list[bytes]:
    events = streamed(words)
    return [*events[:-1], usage_event(prompt, said, identity), events[-1]]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Late.seen = []


# ---- which attempt leaves ----


async def test_a_better_second_answer_leaves_with_its_own_id_and_the_usage_of_both(start: Start) -> None:
    second = body_of("Good.", "second", system_fingerprint="fp2")
    async with start(reply(body_of("BAD", "first")), reply(second), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post()
    assert {**second, "usage": {"prompt_tokens": 18, "completion_tokens": 6, "total_tokens": 24}} == got.json
    assert ("1", "unsure", "1.00") == (got.headers["x-groundwire-retries"], got.verdict, got.headers["x-groundwire-faithfulness"])


async def test_an_earlier_answer_that_is_better_leaves_with_its_own_headers_and_findings(start: Start) -> None:
    first = body_of("BAD a", "first")
    replies = reply(first, headers={"x-request-id": "r1"}), reply(body_of("BAD BAD b"), headers={"x-request-id": "r2"})
    async with start(*replies, policy=HOLD, stages=ALL, upstream_options="retries: {attempts: 0}") as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
    calls = MAX_ATTEMPTS
    assert {**first, "usage": {"prompt_tokens": 9 * calls, "completion_tokens": 3 * calls, "total_tokens": 12 * calls}} == got.json
    assert ("r1", "a", "early_a") == tuple(got.headers[k] for k in ("x-request-id", "x-groundwire-confidence", "x-groundwire-warnings"))
    assert [("BAD a", "a")] == Late.seen
    assert [{"stage": "early", "what": "BAD a"}] == record["detail"]["changes"]
    assert [True, False, False, False] == [answer["delivered"] for answer in record["detail"]["answers"]]


async def test_the_chosen_answer_leaves_with_the_text_that_the_stage_gave_it(start: Start) -> None:
    texts = ["BAD LIE a", "BAD BAD b", "BAD BAD c", "BAD BAD d"]
    for answers, body in (
        ([reply(body_of(text)) for text in texts], CHAT),
        ([stream(streamed([text])) for text in texts], STREAM),
    ):
        async with start(*answers, policy=HOLD, stages=ALL) as proxy:
            got = await proxy.post(body)
        text = read(got.body).text if body is STREAM else got.json["choices"][0]["message"]["content"]
        assert "BAD [removed] a" == text


@pytest.mark.parametrize("streams", [True, False])
async def test_a_first_answer_that_is_good_leaves_byte_for_byte(start: Start, streams: bool) -> None:
    body = json.dumps(body_of("Good."), indent=1).encode()
    events = streamed(["Go", "od."])
    async with start(stream(events) if streams else reply(body), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else CHAT)
    assert (b"".join(events) if streams else body) == got.body
    assert "x-groundwire-retries" not in got.headers


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_stream_that_was_asked_for_again_leaves_byte_for_byte(start: Start, size: int) -> None:
    both = chunk({"role": "assistant", "content": "Grüße, "}, id="two", system_fingerprint="fp")
    whole = b"".join([both, b": note\n\n", chunk({"content": "gut."}, "stop", id="two"), b"data: [DONE]\n\n"])
    pieces = [whole[i : i + size] for i in range(0, len(whole), size)]
    async with start(stream(streamed(["BAD"])), stream(pieces), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert whole == got.body
    assert all(call.json["stream"] for call in proxy.upstream.calls)


async def test_a_streams_usage_chunk_counts_every_attempt_and_nothing_else_changes(start: Start) -> None:
    first, whole = with_usage(["BAD"], 10, 4), chunk({"role": "assistant", "content": "Good."}, "stop", id="two")
    last = [whole, usage_event(20, 3, "two"), b"data: [DONE]\n\n"]
    asked = {**STREAM, "stream_options": {"include_usage": True}}
    async with start(stream(first), stream(last), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(asked)
        record = await proxy.record(got)
    total = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37, "prompt_tokens_details": {"cached_tokens": 4}}
    assert [(total, [])] == [(event["usage"], event["choices"]) for event in chunks(got.body) if "usage" in event]
    assert [event for event in last if b"usage" not in event] == [e + b"\n\n" for e in got.body.split(b"\n\n") if e and b"usage" not in e]
    assert {"prompt": 30, "completion": 7, "cached": 4} == record["detail"]["usage"]
    assert (30, 7) == (record["prompt_tokens"], record["completion_tokens"])


async def test_every_choice_of_n_comes_from_the_delivered_attempt(start: Start) -> None:
    def two(a: str, b: str) -> dict[str, Any]:
        choices = [{**completion(text)["choices"][0], "index": i} for i, text in enumerate((a, b))]
        return completion(choices=choices)

    async with start(reply(two("Good.", "BAD")), reply(two("One.", "Two.")), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post({**CHAT, "n": 2})
    assert ["One.", "Two."] == [choice["message"]["content"] for choice in got.json["choices"]]
    assert 2 == proxy.upstream.calls[1].json["n"]


async def test_log_probabilities_belong_to_the_text_that_leaves(start: Start) -> None:
    def scored(text: str) -> dict[str, Any]:
        body = completion(text)
        body["choices"][0]["logprobs"] = {"content": [{"token": text, "logprob": -0.5}]}
        return body

    async with start(reply(scored("BAD")), reply(scored("Good.")), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post({**CHAT, "logprobs": True})
    assert "Good." == got.json["choices"][0]["logprobs"]["content"][0]["token"]


async def test_an_answer_through_own_tools_can_be_asked_for_again(start: Start) -> None:
    tools = policy("finder", "early", "chooser", "late")
    turn, again = call_events(called()), call_events(called(), identity="two")
    for answers, body in (
        ([reply(calling(called())), reply(body_of("BAD")), reply(calling(called())), reply(body_of("Good."))], CHAT),
        ([stream(turn), stream(streamed(["BAD"])), stream(again), stream(streamed(["Good."]))], STREAM),
    ):
        async with start(*answers, policy=tools, stages=ALL) as proxy:
            got = await proxy.post(body, idempotency_key="k")
        assert ["k", "k-1", "k-2", "k-3"] == [call.headers["idempotency-key"] for call in proxy.upstream.calls]
        assert all(FIND in names(call) for call in proxy.upstream.calls)
        assert AGAIN == proxy.upstream.calls[3].json["messages"][1]["content"]
        if body is CHAT:
            assert ("Good.", 48) == (got.json["choices"][0]["message"]["content"], got.json["usage"]["total_tokens"])
        else:
            assert "Good." == read(got.body).text


async def test_the_further_call_is_the_first_but_for_its_messages(start: Start) -> None:
    asked = {**CHAT, "temperature": 0.5, "response_format": {"type": "json_object"}, "unknown": {"a": 1.50}}
    async with start(reply(body_of('"BAD"')), reply(body_of("{}")), policy=HOLD, stages=ALL) as proxy:
        await proxy.post(asked, idempotency_key="k", x_own="1")
    first, second = proxy.upstream.calls
    assert [*CHAT["messages"], {"role": "user", "content": AGAIN}] == second.json["messages"]
    assert {**first.json, "messages": 0} == {**second.json, "messages": 0}
    assert ("1", "k-1") == (second.headers["x-own"], second.headers["idempotency-key"])


async def test_the_context_header_is_that_of_the_delivered_answer(start: Start) -> None:
    budget = policy("budget", "early", "chooser")
    answers = [reply(body_of(text)) for text in ("BAD", "Good.")]
    async with start(*answers, policy=budget, stages=ALL) as proxy:
        second = await proxy.post()
        proxy.upstream.say(reply(body_of("BAD")), reply(body_of("BAD BAD")))
        first = await proxy.post()
    used = [int(got.headers["x-groundwire-context"].split("/")[0]) for got in (first, second)]
    assert used[0] < used[1]


async def test_an_inline_verdict_lists_the_attempts_without_their_text(start: Start) -> None:
    for answers, body in (
        ((stream(streamed(["BAD"])), stream(streamed(["Good."]))), STREAM),
        ((reply(body_of("BAD")), reply(body_of("Good."))), CHAT),
    ):
        async with start(*answers, policy=HOLD, stages=ALL) as proxy:
            got = await proxy.post(body, x_groundwire_inline="1")
        inline = chunks(got.body)[-1]["groundwire"] if body is STREAM else got.json["groundwire"]
        assert ([[3], [5]], 1) == ([answer["characters"] for answer in inline["answers"]], inline["facts"]["retries"])
        assert b"BAD" not in got.body


# ---- the record and the clock ----


async def test_the_record_keeps_each_attempts_usage_time_and_text(start: Start) -> None:
    async with start(reply(body_of("BAD a")), reply(body_of("Good.")), policy=HOLD, stages=ALL) as proxy:
        record = await proxy.record(await proxy.post())
    first, second = record["detail"]["answers"]
    assert ({"prompt": 9, "completion": 3, "cached": 0}, [5], False) == (first["usage"], first["characters"], first["delivered"])
    assert ["early_a"] == [verdict["code"] for verdict in first["verdicts"]]
    assert second["delivered"]
    assert first["ms"] > 0 < second["ms"]
    assert [["BAD a"], ["Good."]] == record["detail"]["answer_texts"]
    assert {"prompt": 18, "completion": 6, "cached": 0} == record["detail"]["usage"]
    assert (2, 1) == (record["detail"]["attempts"], record["detail"]["facts"]["retries"])


async def test_waiting_for_another_answer_is_not_the_proxys_time_but_judging_is(start: Start) -> None:
    class Slow(Chooser):
        async def on_answer(self, exchange: Exchange) -> Verdict | None:
            await asyncio.sleep(0.15)
            return await super().on_answer(exchange)

    async def thinks(writer: asyncio.StreamWriter, call: Any) -> None:
        await asyncio.sleep(0.5)
        await reply(body_of("Good."))(writer, call)

    async with start(reply(body_of("BAD")), thinks, policy=HOLD, stages=(*STAGES, Early, Slow, Late)) as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
    judging = record["detail"]["timings_ms"]["chooser.answer"]
    assert 300 <= judging <= float(got.headers["x-groundwire-overhead-ms"]) < judging + 140
    assert record["detail"]["answers"][1]["ms"] >= 500


# ---- when none comes ----

GONE = pytest.param(raw(b""), {"error": "upstream_unreachable"}, id="closed")
FAILURES = [
    GONE,
    pytest.param(reply({"error": {"code": "rate_limit"}}, 429), {"error": "upstream_rate_limit", "status": 429}, id="429"),
    pytest.param(reply(b"<html>", 502), {"error": "upstream_502", "status": 502}, id="502"),
    pytest.param(reply(b"<html>"), {"error": "answer_unreadable"}, id="unreadable"),
    pytest.param(stream(streamed(["half"])[:2], broken=True), {"error": "upstream_unreachable"}, id="broken stream"),
    pytest.param(stream(streamed(["half"])[:2]), {"error": "upstream_unreachable"}, id="short stream"),
]
OVERLOADED = b'data: {"error": {"code": 529}}\n\n'
IN_EVENTS = [  # the first is an error with its status, and for a client that wants a body the last an answer
    pytest.param(stream([OVERLOADED, b"data: [DONE]\n\n"]), {"error": "upstream_server_error", "status": 529}, True, id="first event"),
    pytest.param(stream([OVERLOADED]), {"error": "upstream_server_error", "status": 529}, False, id="error for a body"),
    pytest.param(stream([*streamed(["half"])[:2], OVERLOADED, b"data: [DONE]\n\n"]), {"error": "upstream_error"}, True, id="error event"),
    pytest.param(stream([b"data: {\n\n", *streamed(["Good."])]), {"error": "answer_unreadable"}, True, id="garbage"),
]
EVERY = [pytest.param(*one.values, streams, id=f"{one.id}-{streams}") for one in FAILURES for streams in (True, False)]


@pytest.mark.parametrize(("failure", "detail", "streams"), [*EVERY, *IN_EVENTS])
async def test_when_another_attempt_fails_the_one_before_it_leaves(start: Start, failure: Any, detail: Any, streams: bool) -> None:
    first, events = json.dumps(body_of("BAD a"), indent=1).encode(), streamed(["BAD a"])
    async with start(stream(events) if streams else reply(first), failure, policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else CHAT)
        record = await proxy.record(got)
    assert (200, b"".join(events) if streams else first) == (got.status, got.body)
    assert ("1", "warn", "0.50") == (got.headers["x-groundwire-retries"], got.verdict, got.headers["x-groundwire-faithfulness"])
    failed = [verdict for verdict in record["detail"]["verdicts"] if verdict.get("code") == "retry_failed"]
    assert [{"stage": "upstream", "outcome": "warn", "code": "retry_failed", "detail": detail}] == failed
    assert ([("BAD a", "a")], 2) == (Late.seen, len(proxy.upstream.calls))


async def test_an_upstream_that_does_not_answer_in_time_is_a_failed_attempt(start: Start) -> None:
    options = "retries: {attempts: 0}, timeouts: {total_s: 0.3}"
    async with start(reply(body_of("BAD")), hang, policy=HOLD, stages=ALL, upstream_options=options) as proxy:
        got = await proxy.post()
        async with asyncio.timeout(1):
            await proxy.upstream.gone.wait()
        record = await proxy.record(got)
    assert "BAD" == got.json["choices"][0]["message"]["content"]
    assert {"error": "upstream_timeout"} in [verdict.get("detail") for verdict in record["detail"]["verdicts"]]


async def test_a_policy_that_blocks_blocks_the_earlier_answer_when_another_fails(start: Start) -> None:
    async with start(reply(body_of("BAD POISON")), reply(b"", 500), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post()
    assert (400, "hallucination_detected", "block") == (got.status, got.json["error"]["param"], got.verdict)
    assert "1" == got.headers["x-groundwire-retries"]


async def test_a_prompt_that_does_not_fit_is_a_failed_attempt_and_no_call(start: Start) -> None:
    class Wordy(Chooser):
        async def on_answer(self, exchange: Exchange) -> Verdict | None:
            found = await super().on_answer(exchange)
            if exchange.retry is not None:
                exchange.retry = [*exchange.retry, {"role": "user", "content": "word " * 900}]
            return found

    small = policy("budget: {window: 800}", "early", "chooser")
    async with start(reply(body_of("BAD")), policy=small, stages=(*STAGES, Early, Wordy)) as proxy:
        got = await proxy.post()
    assert (200, 1, "BAD") == (got.status, len(proxy.upstream.calls), got.json["choices"][0]["message"]["content"])
    assert "warn" == got.verdict  # not the budget's block of the prompt that was not sent
    assert "retry_failed" in got.headers["x-groundwire-warnings"]
    assert "context_length_exceeded" not in got.headers["x-groundwire-warnings"]
    assert int(got.headers["x-groundwire-context"].split("/")[0]) < 100


async def test_attempts_that_are_together_too_long_to_hold_fail(start: Start) -> None:
    config = "server: {max_answer_bytes: 700}\n"
    async with start(reply(body_of("BAD")), reply(body_of("Good." * 60)), policy=HOLD, stages=ALL, config=config) as proxy:
        got = await proxy.post()
    assert "BAD" == got.json["choices"][0]["message"]["content"]
    assert "retry_failed" in got.headers["x-groundwire-warnings"]


@pytest.mark.parametrize("streams", [True, False])
async def test_the_number_of_attempts_is_bounded_whatever_a_stage_asks(start: Start, streams: bool) -> None:
    answer = stream(streamed(["Fine."])) if streams else reply(body_of("Fine."))
    async with start(answer, policy=policy("stubborn", "late"), stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else CHAT)
    assert (MAX_ATTEMPTS, str(MAX_ATTEMPTS - 1)) == (len(proxy.upstream.calls), got.headers["x-groundwire-retries"])
    assert ("retry_impossible", [("Fine.", None)]) == (got.headers["x-groundwire-warnings"], Late.seen)


async def test_a_client_that_leaves_during_another_attempt_stops_it(start: Start) -> None:
    options = "max_concurrency: 1, max_queue: 0, retries: {attempts: 0}"
    slow = stream(streamed(["Go", "od."]), wait={1: asyncio.Event()})
    for second in (hang, slow):
        async with start(stream(streamed(["BAD"])), second, policy=HOLD, stages=ALL, upstream_options=options) as proxy:
            request = asyncio.ensure_future(proxy.post(STREAM))
            async with asyncio.timeout(5):
                while len(proxy.upstream.calls) < 2:
                    await asyncio.sleep(0.005)
            request.cancel()
            async with asyncio.timeout(1):
                await proxy.upstream.gone.wait()
            proxy.upstream.say(reply(body_of("Free again.")))
            assert "Free again." == (await proxy.post()).json["choices"][0]["message"]["content"]


# ---- where it cannot be ----


@pytest.mark.parametrize("delivery", ["tap", "gate"])
async def test_what_has_left_cannot_be_asked_for_again(start: Start, delivery: str) -> None:
    events = streamed(["Fine."])
    async with start(stream(events), policy=policy("listening", "stubborn", "late", delivery=delivery), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    assert (b"".join(events), 1) == (got.body, len(proxy.upstream.calls))
    assert ["retry_impossible"] == [verdict["code"] for verdict in record["detail"]["verdicts"] if "code" in verdict]
    assert [("Fine.", None)] == Late.seen


async def test_an_attempt_that_is_not_there_is_the_stages_failure_and_the_last_one_leaves(start: Start) -> None:
    class Wrong(Chooser):
        async def on_answer(self, exchange: Exchange) -> Verdict | None:
            found = await super().on_answer(exchange)
            exchange.deliver = None if exchange.retry is not None else 7
            return found

    async with start(reply(body_of("BAD")), reply(body_of("Good.")), policy=HOLD, stages=(*STAGES, Early, Wrong, Late)) as proxy:
        got = await proxy.post()
    assert ("Good.", "error", "check_failed") == (
        got.json["choices"][0]["message"]["content"],
        got.verdict,
        got.headers["x-groundwire-warnings"],
    )


async def test_what_stages_found_of_the_chosen_attempt_comes_back_with_it() -> None:
    def claim(text: str) -> Judgement:
        return Judgement(Claim(text, 0, len(text)), "supported")

    class First(Early):
        async def on_answer(self, exchange: Exchange) -> Verdict:
            exchange.judgements[0] = [claim(exchange.answer.text)]
            return await super().on_answer(exchange)

    stages = [First(StageOptions(), make_ports()), Chooser(StageOptions(), make_ports()), Late(StageOptions(), make_ports())]
    pipeline, exchange = Pipeline(stages), make_exchange()
    for text, last in (("BAD a", False), ("BAD BAD b", True)):
        exchange.attempts.present(exchange, Answer((Choice(0, text),)), 1.0)
        exchange.attempts.possible = not last
        await pipeline.answer(exchange)
        if not last:
            assert [] == Late.seen
            exchange.attempts.ask_again(exchange, exchange.retry)
            assert ([], {}, None) == (exchange.verdicts, exchange.judgements, exchange.facts.confidence)
    assert ["early_a", ""] == [verdict.code for verdict in exchange.verdicts]
    assert ({0: [claim("BAD a")]}, exchange.attempts[0].upstream_answer, "a") == (
        exchange.judgements,
        exchange.upstream_answer,
        exchange.facts.confidence,
    )
    assert [("BAD a", "a")] == Late.seen


FIGURES = st.dictionaries(st.sampled_from(["prompt_tokens", "completion_tokens", "x"]), st.integers(0, 10**9))


@given(st.lists(FIGURES, min_size=1, max_size=MAX_ATTEMPTS))
def test_usage_adds_up_figure_by_figure(usages: list[dict[str, int]]) -> None:
    body = json.dumps(completion(usage=usages[-1])).encode()
    answer = ChatDialect().parse_answer(body)
    rendered = json.loads(ChatDialect().render_answer(body, answer, answer, None, usages[:-1]))
    expected = {name: sum(usage.get(name, 0) for usage in usages) for usage in usages for name in usage}
    assert {**json.loads(body), "usage": expected} == rendered


async def test_a_stage_that_asks_and_fails_has_not_asked() -> None:
    class Failing(Stage):
        name = "failing"

        async def on_answer(self, exchange: Exchange) -> None:
            exchange.retry = []
            raise RuntimeError("no")

    exchange = make_exchange()
    exchange.attempts.possible = True
    await Pipeline([Failing(StageOptions(), make_ports())]).answer(exchange)
    assert (None, ["check_failed"]) == (exchange.retry, exchange.warnings)
