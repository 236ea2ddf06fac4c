"""Hold, gate and tap with test stages that look at answers."""

import asyncio
import json

import pytest

from proxy.delivery import tap
from proxy.errors import Overloaded
from proxy.exchange import Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage, Stage
from proxy.stages.registry import STAGES
from proxy.testing import chunk, completion, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import CHAT, Start

STREAM = {**CHAT, "stream": True}


class Censor(SentenceStage):
    """Replaces sentences that say LIE, blocks those that say POISON, removes those that say NOISE."""

    name = "censor"
    changes = ("answer",)

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        if "POISON" in sentence.text:
            return Verdict("censor", "block", code="poisoned_context", message="poison")
        if "NOISE" in sentence.text:
            return Verdict("censor", "warn", code="noise", replacement="")
        if "LIE" in sentence.text:
            return Verdict("censor", "warn", code="lie", replacement="[removed]")
        return None


class Score(Stage):
    """Gives every answer a faithfulness; blocks a whole answer that says LATE."""

    name = "score"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        exchange.facts.faithfulness = 0.5
        assert exchange.answer is not None
        if "LATE" in exchange.answer.text:
            return Verdict("score", "block", code="hallucination_detected", message="late")
        return Verdict("score", "pass", score=0.5)


class Patient(SentenceStage):
    """Judges a sentence only when the test says so."""

    name = "patient"
    seen: list[str]
    go: dict[str, asyncio.Event]

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        type(self).seen.append(sentence.text)
        await type(self).go.setdefault(sentence.text.strip(), asyncio.Event()).wait()
        return None


ALL = (*STAGES, Censor, Score, Patient)


def policy(delivery: str, *stages: str) -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [{', '.join(stages)}]\n"


def said(body: bytes) -> dict[int, str]:
    reader = ChatDialect().stream()
    reader.feed(body)
    assert reader.done
    assert body.endswith(b"data: [DONE]\n\n")
    assert 1 == body.count(b"[DONE]")
    return {choice.index: choice.text for choice in reader.answer.choices}


def finish(body: bytes) -> list[str | None]:
    reader = ChatDialect().stream()
    reader.feed(body)
    return [choice.finish_reason for choice in reader.answer.choices]


# ---- hold ----


async def test_hold_carries_every_header_of_a_streamed_answer(start: Start) -> None:
    events = streamed(["One. ", "Two."])
    async with start(stream(events), policy=policy("hold", "score"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert ("unsure", "0.50", b"".join(events)) == (got.verdict, got.headers["x-groundwire-faithfulness"], got.body)


async def test_hold_blocks_with_an_error_before_any_byte(start: Start) -> None:
    async with start(stream(streamed(["LATE"])), reply(completion("LATE")), policy=policy("hold", "score"), stages=ALL) as proxy:
        for body in (STREAM, CHAT):
            got = await proxy.post(body)
            error = got.json["error"]
            assert (400, "policy_blocked", "hallucination_detected") == (got.status, error["code"], error["param"])
            assert "block" == got.verdict


async def test_hold_sends_the_changed_text_and_leaves_the_rest(start: Start) -> None:
    calls = [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    events = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "True. "}),
        chunk({"content": "A LIE. "}),
        chunk({"tool_calls": calls}),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]
    async with start(stream(events), policy=policy("hold", "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert {0: "True. [removed] "} == said(got.body)
    assert events[3] in got.body
    assert "warn" == got.verdict


async def test_a_stream_that_breaks_under_hold_is_a_plain_502(start: Start) -> None:
    async with start(stream(streamed(["a"])[:2], broken=True), policy=policy("hold", "score"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert (502, "upstream_unreachable") == (got.status, got.json["error"]["code"])


async def test_an_unreadable_answer_is_an_error_not_a_pass(start: Start) -> None:
    async with start(reply(b"<html>hi</html>"), policy=policy("hold", "score"), stages=ALL) as proxy:
        got = await proxy.post()
    assert (200, b"<html>hi</html>", "error", "answer_unreadable") == (
        got.status,
        got.body,
        got.verdict,
        got.headers["x-groundwire-warnings"],
    )


async def test_an_unstreamed_answer_is_judged_by_its_sentences_too(start: Start) -> None:
    for delivery in ("hold", "gate"):
        async with start(reply(completion("True. A LIE. NOISE. End.")), policy=policy(delivery, "censor"), stages=ALL) as proxy:
            got = await proxy.post()
        assert "True. [removed] End." == got.json["choices"][0]["message"]["content"]


# ---- tap ----


async def test_tap_delivers_a_stream_first_and_says_of_a_whole_answer_what_its_checks_found(start: Start) -> None:
    events = streamed(["LATE"])
    async with start(stream(events), reply(completion("LATE")), policy=policy("tap", "score"), stages=ALL) as proxy:
        streamed_answer, whole = await proxy.post(STREAM), await proxy.post()
        records = [await proxy.record(a) for a in (streamed_answer, whole)]
    assert ["pending", "block"] == [streamed_answer.verdict, whole.verdict]
    assert [b"".join(events), completion("LATE")] == [streamed_answer.body, whole.json]
    assert ["block", "block"] == [r["outcome"] for r in records]


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_tapped_stream_is_whole_at_its_end_mark_whatever_its_upstream_still_does(
    start: Start, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openai-python closes the connection at ``[DONE]``; a server may hold its end back."""
    monkeypatch.setattr(tap, "TAIL_S", 0.1)
    events = streamed(["LATE"])
    endless = stream([*events, b": never\n\n"], wait={len(events): asyncio.Event()})
    async with start(endless, policy=policy("tap", "score"), stages=ALL) as proxy:
        async with proxy.open(STREAM) as response:
            got = b""
            while b"[DONE]\n\n" not in got or not leaves:
                if not (piece := await response.content.readany()):
                    break
                got += piece
        record = await proxy.record_of(response)
    assert b"".join(events) == got
    assert (200, "block") == (record["status"], record["outcome"])


async def test_tap_puts_the_verdict_inline_where_asked(start: Start) -> None:
    async with start(stream(streamed(["LATE"])), reply(completion("LATE")), policy=policy("tap", "score"), stages=ALL) as proxy:
        events = (await proxy.post(STREAM, x_groundwire_inline="1")).body.split(b"\n\n")
        whole = (await proxy.post(x_groundwire_inline="1")).json
    assert "block" == json.loads(events[-3][6:])["groundwire"]["verdict"] == whole["groundwire"]["verdict"]


# ---- gate ----


async def test_the_gate_passes_good_events_in_their_own_bytes(start: Start) -> None:
    events = streamed(["One", " is", " good.", " Two", " too", ".", " Three"])
    async with start(stream(events), policy=policy("gate", "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"".join(events) == got.body


async def test_the_gate_cuts_an_event_only_where_a_sentence_ends_inside_it(start: Start) -> None:
    events = streamed(["One is", " good. Two", " too."])
    async with start(stream(events), policy=policy("gate", "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert {0: "One is good. Two too."} == said(got.body)
    assert [events[2]] == [event for event in events if event not in got.body]


async def test_the_gate_replaces_and_removes_sentences(start: Start) -> None:
    events = streamed(["True. A ", "LIE told", ". Some NO", "ISE. End."])
    async with start(stream(events), policy=policy("gate", "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    assert {0: "True. [removed] End."} == said(got.body)
    assert ["stop"] == finish(got.body)
    assert ["lie", "noise"] == [v["code"] for v in record["detail"]["verdicts"]]


async def test_the_gate_loses_no_words_of_a_server_that_tells_an_end_with_each_delta(start: Start) -> None:
    events = [chunk({"role": "assistant", "content": word}, "stop") for word in ("", "One. ", "A ", "LIE. ", "Two.")]
    async with start(stream([*events, b"data: [DONE]\n\n"]), policy=policy("gate", "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert {0: "One. [removed] Two."} == said(got.body)
    assert ["stop"] == finish(got.body)


async def test_the_gate_ends_a_blocked_answer_as_content_filter(start: Start) -> None:
    events = streamed(["Good. ", "POISON. ", "More."])
    async with start(stream(events), policy=policy("gate", "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    assert {0: "Good."} == said(got.body)
    assert ["content_filter"] == finish(got.body)
    assert b"POISON" not in got.body
    assert "block" == record["outcome"]


async def test_a_check_of_the_whole_answer_can_still_end_it(start: Start) -> None:
    async with start(stream(streamed(["It is LATE."])), policy=policy("gate", "censor", "score"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert ["content_filter"] == finish(got.body)


async def test_text_waits_while_tool_calls_and_comments_pass(start: Start) -> None:
    Patient.seen, Patient.go = [], {}
    later = asyncio.Event()
    call = chunk({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
    events = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "First. "}),
        chunk({"content": "Second."}),
        b": upstream comment\n\n",
        call,
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]
    async with (
        start(stream(events, wait={5: later}), policy=policy("gate", "patient"), stages=ALL) as proxy,
        proxy.open(STREAM) as response,
    ):
        got = b""
        while call not in got:
            got += await response.content.readany()
        assert b"First" not in got
        assert b": upstream comment\n\n" in got
        Patient.go["First."].set()
        while b"First" not in got:
            got += await response.content.readany()
        assert b"Second" not in got
        later.set()
        Patient.go.setdefault("Second.", asyncio.Event()).set()
        got += await response.content.read()
    assert {0: "First. Second."} == said(got)
    assert ["First.", " Second."] == Patient.seen


async def test_keep_alive_comments_flow_while_text_is_held(start: Start) -> None:
    Patient.seen, Patient.go = [], {}
    config = "server: {keep_alive_s: 0.02}\n"
    held = start(stream(streamed(["One. ", "Two."])), policy=policy("gate", "patient"), stages=ALL, config=config)
    async with held as proxy, proxy.open(STREAM) as response:
        got = b""
        while got.count(b": keep-alive\n\n") < 3:
            got += await response.content.readany()
        for name in ("One.", "Two."):
            Patient.go.setdefault(name, asyncio.Event()).set()
        got += await response.content.read()
        record = await proxy.record_of(response)
    assert {0: "One. Two."} == said(got)
    assert "verdicts" not in record["detail"]


async def test_each_choice_goes_its_own_way(start: Start) -> None:
    events = [
        chunk({"role": "assistant", "content": ""}, index=0),
        chunk({"role": "assistant", "content": ""}, index=1),
        chunk({"content": "A LIE. "}, index=0),
        chunk({"content": "True. "}, index=1),
        chunk({"content": "End."}, index=0),
        chunk({"content": "Fin."}, index=1),
        chunk({}, "stop", index=0),
        chunk({}, "length", index=1),
        b'data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
        b"data: [DONE]\n\n",
    ]
    async with start(stream(events), policy=policy("gate", "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert {0: "[removed] End.", 1: "True. Fin."} == said(got.body)
    assert ["stop", "length"] == finish(got.body)
    assert got.body.endswith(b"".join(events[-2:]))


async def test_an_event_with_log_probabilities_is_never_cut(start: Start) -> None:
    def with_logprobs(text: str) -> bytes:
        fields = json.loads(chunk({"content": text})[6:])
        fields["choices"][0]["logprobs"] = {"content": [{"token": text}]}
        return b"data: " + json.dumps(fields).encode() + b"\n\n"

    middle = [with_logprobs("One. Tw"), with_logprobs("o. Three.")]
    async with start(stream([*middle, *streamed([])]), policy=policy("gate", "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"".join(middle) in got.body
    assert {0: "One. Two. Three."} == said(got.body)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_the_same_text_however_the_upstream_cuts_its_bytes(start: Start, size: int) -> None:
    whole = b"".join(streamed(["Größe. A ", "LIE. 漢字です。", "End."]))
    pieces = [whole[i : i + size] for i in range(0, len(whole), size)]
    async with start(stream(pieces), policy=policy("gate", "censor"), stages=ALL) as proxy:
        assert {0: "Größe. [removed] 漢字です。End."} == said((await proxy.post(STREAM)).body)


async def test_a_gated_stream_that_breaks_off_says_so(start: Start) -> None:
    async with start(stream(streamed(["One. ", "Tw"])[:3], broken=True), policy=policy("gate", "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"upstream_unreachable" in got.body
    assert got.body.endswith(b"data: [DONE]\n\n")


async def test_a_client_that_leaves_stops_the_checks_and_the_upstream(start: Start) -> None:
    Patient.seen, Patient.go = [], {}
    events = streamed(["One. ", "Two."])
    async with start(stream(events, wait={3: asyncio.Event()}), policy=policy("gate", "patient"), stages=ALL) as proxy:
        response = await proxy.open(STREAM)
        await response.content.readany()
        response.close()
        async with asyncio.timeout(1):
            await proxy.upstream.gone.wait()


async def test_a_policy_without_answer_checks_does_not_hold_anything(start: Start) -> None:
    events = streamed(["One. ", "Two."])
    for delivery in ("hold", "gate"):
        later = asyncio.Event()
        waiting = start(stream(events, wait={2: later}), policy=policy(delivery, "budget"), stages=ALL)
        async with waiting as proxy, proxy.open(STREAM) as response:
            got = b""
            while events[1] not in got:
                got += await response.content.readany()
            later.set()
            got += await response.content.read()
        assert b"".join(events) == got


async def test_a_tapped_stream_too_long_to_keep_still_passes_whole(start: Start) -> None:
    events = streamed(["word "] * 50)
    async with start(stream(events), config="server: {max_answer_bytes: 500}\n") as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    assert b"".join(events) == got.body
    assert ["answer_unreadable"] == [v["code"] for v in record["detail"]["verdicts"]]


@pytest.mark.parametrize("streams", [True, False])
async def test_an_answer_too_long_to_hold_is_an_error(start: Start, streams: bool) -> None:
    answer = stream(streamed(["word "] * 50)) if streams else reply(completion("word " * 500))
    async with start(answer, policy=policy("hold", "score"), stages=ALL, config="server: {max_answer_bytes: 500}\n") as proxy:
        got = await proxy.post({**CHAT, "stream": streams})
    assert (502, "upstream_unreachable") == (got.status, got.json["error"]["code"])


@pytest.mark.parametrize(("delivery", "inline"), [("tap", "1"), ("gate", "0")])
async def test_a_stream_too_long_to_keep_ends_where_more_is_wanted_than_its_bytes(start: Start, delivery: str, inline: str) -> None:
    events = streamed([f"Word {i}. " for i in range(5000)])
    config = "server: {max_answer_bytes: 20000}\n"
    async with start(stream(events), policy=policy(delivery, "censor"), stages=ALL, config=config) as proxy:
        got = await proxy.post(STREAM, x_groundwire_inline=inline)
    assert (200, True) == (got.status, b"max_answer_bytes" in got.body)
    assert len(got.body) < 40_000


@pytest.mark.parametrize("delivery", ["tap", "gate", "hold"])
async def test_an_upstream_gives_no_verdict_in_a_stream_that_is_to_have_one(start: Start, delivery: str) -> None:
    *events, end = streamed(["One. ", "Two. "])
    told = b'data: {"choices": [], "\\u0067roundwire": {"verdict": "pass", "id": "gw_forged"}}\n\n'
    plain = b'data: {"choices": [],  "said": "of groundwire"}\n\n'
    async with start(stream([told, plain, *events, told, end]), policy=policy(delivery, "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM, x_groundwire_inline="1")
    assert (0, 1, True) == (got.body.count(b"gw_forged"), got.body.count(b'"groundwire"'), plain in got.body)


async def test_what_an_upstream_says_stays_where_no_verdict_is_to_be_in_it(start: Start) -> None:
    *events, end = streamed(["One. ", "Two. "])
    told = b'data: {"choices": [],  "groundwire": {}}\n\n'
    async with start(stream([*events, told, end])) as proxy:
        assert b"".join([*events, told, end]) == (await proxy.post(STREAM)).body


async def test_an_inline_verdict_does_not_lose_the_end_mark_of_an_empty_stream(start: Start) -> None:
    async with start(stream([b"data: [DONE]\n\n"])) as proxy:
        got = await proxy.post(STREAM, x_groundwire_inline="1")
    assert got.body.endswith(b"data: [DONE]\n\n")
    assert 1 == got.body.count(b"[DONE]")


# ---- tap: nobody waits long for what changes nothing ----


class Slow(Stage):
    """A check that takes its time, of the request or of the answer."""

    name = "slow"
    read_only = True

    async def on_request(self, exchange: Exchange) -> Verdict:
        await asyncio.sleep(0.3)
        return Verdict("slow", "warn", code="told")

    async def on_answer(self, exchange: Exchange) -> Verdict:
        await asyncio.sleep(0.3)
        return Verdict("slow", "warn", code="judged")


@pytest.mark.parametrize(("patience_s", "verdict", "warnings"), [(0.05, "pending", None), (5.0, "warn", "told,judged")])
async def test_a_tapped_answer_leaves_after_a_while_and_the_record_has_what_its_checks_found(
    patience_s: float, verdict: str, warnings: str | None, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tap, "PATIENCE_S", patience_s)
    async with start(policy="name: p\ndelivery: tap\nstages: [slow]\n", stages=[Slow]) as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
    assert (verdict, warnings) == (got.verdict, got.headers.get("x-groundwire-warnings"))
    assert ("warn", ["told", "judged"]) == (record["outcome"], [one["code"] for one in record["detail"]["verdicts"]])
    assert completion()["choices"] == got.json["choices"]


async def test_a_tapped_stream_with_its_verdict_is_checked_once(start: Start) -> None:
    async with start(stream(streamed(["Hi."])), policy=policy("tap", "score"), stages=ALL) as proxy:
        got = await proxy.post(STREAM, x_groundwire_inline="1")
        assert ["pass"] == await proxy.stage_outcomes(got, "score")


async def test_a_tapped_stream_begins_although_a_check_of_the_request_still_runs(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap, "PATIENCE_S", 0.05)
    async with start(stream(streamed(["Hi"])), policy="name: p\ndelivery: tap\nstages: [slow]\n", stages=[Slow]) as proxy:
        got = await proxy.post({**CHAT, "stream": True})
        record = await proxy.record(got)
    assert ("pending", "warn") == (got.verdict, record["outcome"])


class Full(Stage):
    name = "full"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        raise Overloaded("the queue of checks is full")


async def test_under_tap_a_whole_answer_leaves_although_its_check_ends_in_an_error(start: Start) -> None:
    async with start(policy="name: p\ndelivery: tap\nstages: [full]\n", stages=[Full]) as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
    assert (200, completion()["choices"], "block") == (got.status, got.json["choices"], record["outcome"])


@pytest.mark.parametrize("delivery", ["hold", "gate", "tap"])
async def test_nginx_is_told_to_pass_a_stream_at_once(delivery: str, start: Start) -> None:
    answers = stream(streamed(["Hi."])), reply(completion("Hi."), headers={"x-accel-buffering": "yes"})
    async with start(*answers, policy=policy(delivery, "censor"), stages=ALL) as proxy:
        found = [await proxy.post(body) for body in (STREAM, CHAT)]
    assert ["no", None] == [got.headers.get("x-accel-buffering") for got in found]


# ---- places at the upstream ----


class Second(Stage):
    """Asks the upstream that has just answered."""

    name = "second"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        await self.ports.chat.complete("main", "gpt-4o", [{"role": "user", "content": "Is it so?"}], timeout_s=2.0)
        return Verdict("second", "pass")


@pytest.mark.parametrize("inline", ["0", "1"])
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("stages", [("hold", "second"), ("gate", "censor", "second"), ("tap", "second")])
async def test_a_check_may_ask_the_upstream_whose_only_place_the_answer_had(
    start: Start, stages: tuple[str, ...], streams: bool, inline: str
) -> None:
    answers = stream(streamed(["Hi."])) if streams else reply(completion("Hi.")), reply(completion("It is."))
    options = "max_concurrency: 1, max_queue: 0, retries: {attempts: 0}"
    async with start(*answers, policy=policy(*stages), stages=(*ALL, Second), upstream_options=options) as proxy:
        got = await proxy.post({**CHAT, "stream": streams}, x_groundwire_inline=inline)
        assert ["pass"] == await proxy.stage_outcomes(got, "second")
