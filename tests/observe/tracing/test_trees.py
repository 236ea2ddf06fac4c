"""What an exchange looks like as spans: who is under whom, and what each says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from proxy.exchange import Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage, Stage
from proxy.stages.registry import STAGES
from proxy.testing import completion, hang, raw, reply, stream, streamed
from tests.conftest import CHAT, Running, Start
from tests.delivery.test_own_answer import Guard
from tests.delivery.test_retry import Chooser
from tests.observe.tracing.collector import Collector
from tests.own_tools import TOOLS, Finder, called, calling

STREAM = {**CHAT, "stream": True}
PARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"
CALL = ["client chat gpt-4o"]


class Judge(SentenceStage):
    """Finds something wrong with every sentence, and with the whole."""

    name = "judge"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict:
        return Verdict("judge", "warn", code="sentence_odd", score=0.25, message="it says: secret words", detail={"text": "secret words"})

    async def on_answer(self, exchange: Exchange) -> Verdict:
        return Verdict("judge", "pass", score=0.5)


class Stern(Stage):
    """Refuses every request."""

    name = "stern"

    async def on_request(self, exchange: Exchange) -> Verdict:
        return Verdict("stern", "block", code="too_wild", message="you said: secret words")


class Broken(Stage):
    """Cannot check."""

    name = "broken"

    async def on_request(self, exchange: Exchange) -> Verdict:
        raise RuntimeError("secret words")


STAGES_HERE: Sequence[type[Stage]] = (*STAGES, Judge, Stern, Broken, Guard, Chooser, Finder)


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with Collector() as found:
        yield found


@asynccontextmanager
async def traced(
    start: Start, collector: Collector, *replies: Any, stages: str = "", delivery: str = "tap", tracing: str = "", **more: Any
) -> AsyncIterator[Running]:
    """A proxy that sends its spans to `collector`; they are there when it has ended."""
    policy = f"name: p\ndelivery: {delivery}\nstages: [{stages}]\n"
    config = f"tracing: {{endpoint: '{collector.url}', {tracing}}}\n"
    async with start(*replies, policy=policy, config=config, stages=STAGES_HERE, **more) as proxy:
        yield proxy


# ---- trees ----


async def test_an_exchange_without_stages_is_a_span_with_its_call(start: Start, collector: Collector) -> None:
    async with traced(start, collector) as proxy:
        await proxy.post()
    assert [["server chat gpt-4o", CALL]] == collector.tree()


async def test_stages_and_the_call_stand_in_the_order_of_their_starts(start: Start, collector: Collector) -> None:
    async with traced(start, collector, stages="budget, judge", delivery="hold") as proxy:
        await proxy.post()
    expected = ["server chat gpt-4o", ["internal budget request"], ["internal budget forward"], CALL, ["internal judge answer"]]
    assert [expected] == collector.tree()
    root, *children = collector.spans
    assert all(root.start_ns <= child.start_ns <= child.end_ns <= root.end_ns for child in children)
    answer, call = collector.only("judge answer"), collector.only("chat gpt-4o", "client")
    assert call.end_ns <= answer.start_ns


async def test_a_gate_has_a_span_for_every_sentence(start: Start, collector: Collector) -> None:
    async with traced(start, collector, stream(streamed(["One. ", "Two."])), stages="judge", delivery="gate") as proxy:
        await proxy.post(STREAM)
    sentence = ["internal judge sentence"]
    (tree,) = collector.tree()
    assert ["server chat gpt-4o", CALL, sentence, sentence, ["internal judge answer"]] == tree


async def test_a_long_gated_answer_has_no_more_spans_than_it_may(start: Start, collector: Collector) -> None:
    words = [f"Sentence number {i}. " for i in range(260)]
    async with traced(start, collector, stream(streamed(words)), stages="judge", delivery="gate") as proxy:
        await proxy.post(STREAM)
    root = collector.only("chat gpt-4o", "server")
    assert (202, 50) == (len(collector.spans), len(root.events))
    assert 61 == root.attributes["groundwire.spans.dropped"]


async def test_each_further_attempt_is_a_call(start: Start, collector: Collector) -> None:
    replies = reply(completion("BAD")), reply(completion("Good."))
    async with traced(start, collector, *replies, stages="chooser", delivery="hold") as proxy:
        await proxy.post()
    answer = ["internal chooser answer"]
    assert [["server chat gpt-4o", CALL, answer, CALL, answer]] == collector.tree()
    assert 2 == len({call.headers["traceparent"] for call in proxy.upstream.calls})
    assert {"gen_ai.usage.input_tokens": 18, "gen_ai.usage.output_tokens": 6} == {
        name: value for span in collector.spans for name, value in span.attributes.items() if name.startswith("gen_ai.usage")
    }


async def test_a_call_that_was_tried_again_is_one_span(start: Start, collector: Collector) -> None:
    replies = reply({"error": {"message": "later"}}, status=503), reply(completion())
    async with traced(start, collector, *replies, upstream_options="retries: {attempts: 1, base_s: 0.001}") as proxy:
        await proxy.post()
    call = collector.only("chat gpt-4o", "client")
    assert (1, 200, False) == (call.attributes["http.request.resend_count"], call.attributes["http.response.status_code"], call.error)


async def test_tools_of_the_proxys_own_are_spans_between_two_calls(start: Start, collector: Collector) -> None:
    replies = reply(calling(called())), reply(completion("Booked."))
    async with traced(start, collector, *replies, stages="finder") as proxy:
        await proxy.post(TOOLS)
    assert [["server chat gpt-4o", ["internal finder request"], CALL, ["internal finder tool"], CALL]] == collector.tree()


async def test_an_answer_in_the_models_stead_has_no_call(start: Start, collector: Collector) -> None:
    async with traced(start, collector, stages="guard") as proxy:
        await proxy.post()
    assert [["server chat gpt-4o", ["internal guard request"]]] == collector.tree()
    assert "groundwire" == collector.spans[0].attributes["groundwire.upstream"]


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/v1/models", None, "GET /v1/*"),
        ("/v1/embeddings", {"model": "e", "input": "x"}, "embeddings"),
        ("/v1/responses/1", {}, "POST /v1/*"),
    ],
)
async def test_what_is_passed_through_is_named_by_its_operation_or_route(
    start: Start, collector: Collector, path: str, body: Any, name: str
) -> None:
    async with traced(start, collector, reply({"object": "list"})) as proxy:
        await (proxy.get(path) if body is None else proxy.post(body, path))
    root, call = collector.spans
    assert (name, "server", True, "skipped") == (
        root.name,
        root.kind,
        root.attributes["groundwire.passed_through"],
        root.attributes["groundwire.verdict"],
    )
    assert (root.id, "client") == (call.parent, call.kind)


# ---- attributes ----


async def test_the_exchanges_span_speaks_the_genai_conventions(start: Start, collector: Collector) -> None:
    body = {**CHAT, "temperature": 0.5, "max_completion_tokens": 50, "seed": 7, "n": 1, "stop": ["secret words"]}
    async with traced(start, collector, stages="budget") as proxy:
        got = await proxy.post(body, x_groundwire_run_id="run-7")
    found = collector.only("chat gpt-4o", "server").attributes
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.seed": 7,
        "gen_ai.conversation.id": "run-7",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 3,
    } == {name: value for name, value in found.items() if name.startswith("gen_ai.")}
    assert (got.headers["x-groundwire-id"], "unchecked", "main") == tuple(
        found[f"groundwire.{name}"] for name in ("id", "verdict", "upstream")
    )
    assert ("POST", "/v1/chat/completions", 200) == tuple(
        found[f"http.{name}"] for name in ("request.method", "route", "response.status_code")
    )


async def test_the_calls_span_says_who_was_called(start: Start, collector: Collector) -> None:
    async with traced(start, collector, stream(streamed(["Hi."]))) as proxy:
        await proxy.post(STREAM)
        port = int(proxy.upstream.base_url.rpartition(":")[2].partition("/")[0])
    found = collector.only("chat gpt-4o", "client").attributes
    assert 0 < found.pop("gen_ai.response.time_to_first_chunk") < 10
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.stream": True,
        "server.address": "127.0.0.1",
        "server.port": port,
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "groundwire.upstream": "main",
    } == found


async def test_verdicts_are_codes_on_their_stage_and_events_of_the_exchange(start: Start, collector: Collector) -> None:
    async with traced(start, collector, stream(streamed(["One. ", "Two."])), stages="judge", delivery="gate") as proxy:
        await proxy.post(STREAM)
    event = {
        "name": "groundwire.verdict",
        "groundwire.stage": "judge",
        "groundwire.outcome": "warn",
        "groundwire.code": "sentence_odd",
        "groundwire.score": 0.25,
    }
    root = collector.only("chat gpt-4o", "server")
    assert [event, event] == root.events
    assert ["sentence_odd"] == root.attributes["groundwire.warnings"]
    assert {"groundwire.stage": "judge", "groundwire.hook": "answer", "groundwire.outcome": "pass", "groundwire.score": 0.5} == (
        collector.only("judge answer").attributes
    )


async def test_nothing_that_was_said_and_no_key_is_in_any_span(start: Start, collector: Collector) -> None:
    body = {**CHAT, "messages": [{"role": "user", "content": "secret words"}], "stop": ["secret words"], "user": "secret words"}
    for stages, delivery in (("budget, judge", "gate"), ("stern", "tap"), ("broken", "tap")):
        async with traced(start, collector, stream(streamed(["secret words."])), stages=stages, delivery=delivery) as proxy:
            await proxy.post({**body, "stream": True}, authorization="Bearer sk-mine")
            await proxy.get("/v1/files?key=sk-mine")
    sent = b"".join(collector.bodies)
    assert 3 == sum(span.kind == "server" and span.name == "chat gpt-4o" for span in collector.spans)
    assert [] == [word for word in (b"secret words", b"sk-mine", b"sk-upstream-secret") if word in sent]


# ---- what goes wrong ----


async def test_an_upstream_that_cannot_be_had_is_an_error_of_both_spans(start: Start, collector: Collector) -> None:
    async with traced(start, collector, raw(b""), upstream_options="retries: {attempts: 1, base_s: 0.001}") as proxy:
        await proxy.post()
    root, call = collector.spans
    assert ("upstream_unreachable", True, 502) == (root.attributes["error.type"], root.error, root.attributes["http.response.status_code"])
    assert ("upstream_unreachable", True) == (call.attributes["error.type"], call.error)
    assert "http.request.resend_count" not in call.attributes


async def test_an_upstreams_own_error_is_the_calls_error_and_not_the_proxys(start: Start, collector: Collector) -> None:
    async with traced(start, collector, reply({"error": {"message": "no", "code": "no_such_model"}}, status=404)) as proxy:
        await proxy.post()
    root, call = collector.spans
    assert (False, True, "404") == (root.error, call.error, call.attributes["error.type"])
    assert ["upstream_no_such_model"] == root.attributes["groundwire.warnings"]


async def test_a_stream_that_breaks_off_is_an_error_of_both(start: Start, collector: Collector) -> None:
    async with traced(start, collector, stream(streamed(["One. ", "Tw"])[:2], broken=True)) as proxy:
        await proxy.post(STREAM)
    root, call = collector.spans
    assert ("upstream_unreachable", 200, True) == (root.attributes["error.type"], root.attributes["http.response.status_code"], root.error)
    assert ("upstream_unreachable", True) == (call.attributes["error.type"], call.error)


async def test_a_refusal_is_no_error_but_has_its_code(start: Start, collector: Collector) -> None:
    async with traced(start, collector, stages="stern") as proxy:
        await proxy.post()
    assert [["server chat gpt-4o", ["internal stern request"]]] == collector.tree()
    root, stage = collector.spans
    assert (False, "policy_blocked", 400) == (
        root.error,
        root.attributes["groundwire.error"],
        root.attributes["http.response.status_code"],
    )
    assert ("block", "too_wild") == (stage.attributes["groundwire.outcome"], stage.attributes["groundwire.code"])


async def test_a_stage_that_fails_is_an_error_of_its_own_span(start: Start, collector: Collector) -> None:
    async with traced(start, collector, stages="broken") as proxy:
        await proxy.post()
    root, stage = collector.only("chat gpt-4o", "server"), collector.only("broken request")
    assert (False, True, "check_failed") == (root.error, stage.error, stage.attributes["error.type"])


async def test_a_client_that_leaves_is_499_and_its_call_cancelled(start: Start, collector: Collector) -> None:
    async with traced(start, collector, hang) as proxy:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3), proxy.open(CHAT):
                pass
    root, call = collector.spans
    assert (499, False) == (root.attributes["http.response.status_code"], root.error)
    assert ("cancelled", False) == (call.attributes["error.type"], call.error)


async def test_a_client_that_leaves_in_mid_stream_ends_the_call_too(start: Start, collector: Collector) -> None:
    events = streamed(["One. ", "Two."])
    async with traced(start, collector, stream(events, wait={2: asyncio.Event()})) as proxy:
        response = await proxy.open(STREAM)
        await response.content.readany()
        response.close()
        async with asyncio.timeout(1):
            await proxy.upstream.gone.wait()
    assert "cancelled" == collector.only("chat gpt-4o", "client").attributes["error.type"]


async def test_a_key_that_is_not_known_leaves_a_span_without_a_model(start: Start, collector: Collector) -> None:
    policy_keys = f"keys: [{{name: ann, sha256: '{'0' * 64}'}}]\n"
    async with start(config=f"tracing: {{endpoint: '{collector.url}'}}\n{policy_keys}") as proxy:
        await proxy.post()
    (root,) = collector.spans
    assert ("chat", 401, "invalid_api_key") == (
        root.name,
        root.attributes["http.response.status_code"],
        root.attributes["groundwire.error"],
    )


async def test_figures_that_no_span_can_carry_do_not_lose_the_others(start: Start, collector: Collector) -> None:
    usage = {"prompt_tokens": 2**70, "completion_tokens": 1, "total_tokens": 1}
    async with traced(start, collector, reply(completion(usage=usage))) as proxy:
        await proxy.post({**CHAT, "model": "größe 漢字\n", "seed": 2**100, "temperature": True})
    root = collector.only("chat größe 漢字", "server")
    assert (float(2**100), "größe 漢字\n") == (root.attributes["gen_ai.request.seed"], root.attributes["gen_ai.request.model"])
    assert "gen_ai.request.temperature" not in root.attributes


# ---- over several programs ----


async def test_a_trace_goes_on_from_the_client_to_the_upstream(start: Start, collector: Collector) -> None:
    async with traced(start, collector) as proxy:
        await proxy.post(traceparent=PARENT, tracestate="vendor=1,other=2")
    root, call = collector.spans
    assert ("ab" * 16, "cd" * 8, "vendor=1,other=2") == (root.trace, root.parent, root.state)
    sent = proxy.upstream.calls[0].headers
    assert (f"00-{'ab' * 16}-{call.id}-01", "vendor=1,other=2") == (sent["traceparent"], sent["tracestate"])


async def test_without_one_a_trace_begins_here(start: Start, collector: Collector) -> None:
    async with traced(start, collector) as proxy:
        await proxy.post(traceparent="nonsense", tracestate="vendor=1")
    root, call = collector.spans
    sent = proxy.upstream.calls[0].headers
    assert (f"00-{root.trace}-{call.id}-03", None, "") == (sent["traceparent"], sent.get("tracestate"), root.parent)  # sampled, and random


@pytest.mark.parametrize(("options", "headers"), [("", {"traceparent": PARENT[:-1] + "0"}), ("sample: 0", {})])
async def test_what_is_not_sampled_has_no_spans_and_the_upstream_is_told(
    start: Start, collector: Collector, options: str, headers: dict[str, str]
) -> None:
    async with traced(start, collector, tracing=options) as proxy:
        await proxy.post(**headers)
        await proxy.get("/v1/models", **headers)
    assert [] == collector.spans
    assert [0, 0] == [int(call.headers["traceparent"][-2:], 16) & 1 for call in proxy.upstream.calls]


async def test_a_client_that_samples_is_followed_whatever_the_share(start: Start, collector: Collector) -> None:
    async with traced(start, collector, tracing="sample: 0") as proxy:
        await proxy.post(traceparent=PARENT)
    assert "ab" * 16 == collector.spans[0].trace


async def test_without_tracing_the_clients_headers_pass_as_they_are(start: Start) -> None:
    async with start() as proxy:
        await proxy.post(traceparent="what the client says", tracestate="vendor=1")
        assert proxy.app.tracing is None
    sent = proxy.upstream.calls[0].headers
    assert ("what the client says", "vendor=1") == (sent["traceparent"], sent["tracestate"])


async def test_the_log_names_the_trace(start: Start, collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "groundwire.exchange")
    async with traced(start, collector) as proxy:
        await proxy.post()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "groundwire.exchange"]
    assert f"trace_id={collector.spans[0].trace}" in line
