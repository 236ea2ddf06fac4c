"""What a client learns of its own exchange when the checks are done: whose it is, how long it waits, and what stands in it."""

import asyncio
import time
from typing import Any

import orjson
import pytest

from proxy.exchange.judgements import Support
from proxy.server.handler import new_id
from proxy.testing import ScriptedVerifiers, completion, raw, reply, stream, streamed
from tests.claims import GOLD, LONDON, PARIS, TALL, TOWER, judged_by_words
from tests.conftest import Answer, Running, Start

BODY: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Tell me about the Eiffel Tower."}],
    "groundwire": {"context": [{"content": TOWER}]},
}
STREAM = {**BODY, "stream": True}
ALICE, BOB = {"authorization": "Bearer alice-key"}, {"authorization": "Bearer bob-key"}
PATH = "/groundwire/v1/verdicts/"


def policy(delivery: str, options: str = "fail_on: unsupported") -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [claims: {{{options}, embed: false}}]\n"


class Patient(ScriptedVerifiers):
    """Judges when the test says so."""

    def __init__(self) -> None:
        super().__init__(judged_by_words)
        self.go = asyncio.Event()

    async def verify(self, pairs: Any) -> list[Support | None]:
        await self.go.wait()
        return await super().verify(pairs)


def said(*sentences: str) -> Any:
    return stream(streamed([f"{sentence} " for sentence in sentences]))


async def asked(proxy: Running, answer: Answer, wait_ms: int | str = 5000, **headers: str) -> Answer:
    return await proxy.get(f"{PATH}{answer.headers['x-groundwire-id']}?wait_ms={wait_ms}", **headers)


def places(verdict: Any, text: str) -> list[tuple[str, str | None]]:
    """Each statement's label, and what stands at its place in `text`."""
    return [(one["label"], None if one["span"] is None else text[slice(*one["span"])]) for one in verdict["claims"]]


# ---- what stands in it ----


async def test_a_stream_has_its_verdict_when_its_checks_are_done(start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(said(PARIS, LONDON), policy=policy("tap"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
        verdict = (await asked(proxy, got)).json
        record = await proxy.record(got)
    assert ("pending", "warn", "verdict") == (got.verdict, verdict["verdict"], verdict["object"])
    assert [("supported", PARIS), ("contradicted", LONDON)] == places(verdict, f"{PARIS} {LONDON} ")
    assert [1.0, 0.0] == [one["probability"] for one in verdict["claims"]]
    assert (0.5, {"supported": 1, "contradicted": 1, "unsupported": 0, "unsure": 0}) == (
        verdict["scores"]["faithfulness"],
        verdict["counts"],
    )
    assert TOWER.startswith(verdict["claims"][0]["evidence"]["text"])
    assert ["claims_contradicted", "context_not_in_prompt"] == verdict["warnings"]
    assert (record["id"], record["outcome"], record["policy"]) == (verdict["id"], verdict["verdict"], verdict["policy"])
    assert [("server", "unchecked", "context_not_in_prompt"), ("claims", "warn", "claims_contradicted")] == [
        (one["stage"], one["outcome"], one["code"]) for one in verdict["stages"]
    ]


async def test_a_stream_of_which_nothing_was_checked_is_told_why(start: Start) -> None:
    async with start(said("Hello!"), policy=policy("tap")) as proxy:
        verdict = (await asked(proxy, await proxy.post(STREAM))).json
    codes = ["context_not_in_prompt", "unchecked_no_statements"]
    assert ("unchecked", codes, ",".join(codes)) == (verdict["verdict"], verdict["warnings"], verdict["headers"]["x-groundwire-warnings"])


async def test_scores_and_headers_are_those_that_the_whole_answer_had(start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(reply(completion(f"{PARIS} {GOLD}")), policy=policy("hold"), verifiers=verifiers) as proxy:
        got = await proxy.post(BODY)
        verdict = (await asked(proxy, got)).json
    own = {name: value for name, value in got.headers.items() if name.startswith("x-groundwire-")}
    del own["x-groundwire-overhead-ms"], verdict["headers"]["x-groundwire-overhead-ms"]
    assert own == verdict["headers"]
    assert float(own["x-groundwire-faithfulness"]) == verdict["scores"]["faithfulness"]
    assert float(own["x-groundwire-quality"]) == verdict["scores"]["quality"]


async def test_places_are_those_of_the_answer_as_it_was_delivered(start: Start) -> None:
    text = f"{PARIS} {LONDON} {TALL}"
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(reply(completion(text)), policy=policy("hold", "action: redact"), verifiers=verifiers) as proxy:
        got = await proxy.post(BODY)
        verdict = (await asked(proxy, got)).json
    delivered = got.json["choices"][0]["message"]["content"]
    assert LONDON not in delivered
    assert [("supported", PARIS), ("contradicted", None), ("supported", TALL)] == places(verdict, delivered)


@pytest.mark.parametrize("streamed_too", [False, True])
async def test_behind_the_gate_places_are_those_of_what_left(start: Start, streamed_too: bool) -> None:
    answer = said(LONDON, PARIS, TALL) if streamed_too else reply(completion(f"{LONDON} {PARIS} {TALL}"))
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(answer, policy=policy("gate", "action: redact"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM if streamed_too else BODY)
        verdict = (await asked(proxy, got)).json
    if streamed_too:
        events = [orjson.loads(line[6:]) for line in got.body.splitlines() if line.startswith(b"data: {")]
        delivered = "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])
    else:
        delivered = got.json["choices"][0]["message"]["content"]
    assert [("contradicted", None), ("supported", PARIS), ("supported", TALL)] == places(verdict, delivered)


async def test_each_choice_has_its_own_statements(start: Start) -> None:
    body = completion(PARIS)
    body["choices"].append({**body["choices"][0], "index": 1, "message": {"role": "assistant", "content": f"{TALL} {LONDON}"}})
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(reply(body), policy=policy("tap"), verifiers=verifiers) as proxy:
        verdict = (await asked(proxy, await proxy.post({**BODY, "n": 2}))).json
    found = [(one["choice"], one["label"], (PARIS, f"{TALL} {LONDON}")[one["choice"]][slice(*one["span"])]) for one in verdict["claims"]]
    assert [(0, "supported", PARIS), (1, "supported", TALL), (1, "contradicted", LONDON)] == found


async def test_places_count_code_points_and_secrets_stay_masked(start: Start) -> None:
    key = "sk-proj-abcdefghij0123456789ABCDEFGHIJ"
    text = f"🌤️ 漢字! {PARIS} Its door opens with {key} after six in the evening. {LONDON}"
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(reply(completion(text)), policy=policy("hold", "action: redact"), verifiers=verifiers) as proxy:
        got = await proxy.post(BODY)
        answer = await asked(proxy, got)
    delivered = got.json["choices"][0]["message"]["content"]
    stands = [place for _, place in places(answer.json, delivered)]
    assert [PARIS, f"Its door opens with {key} after six in the evening.", None] == stands[-3:]
    assert key.encode() not in answer.body


async def test_a_blocked_answer_has_one_without_places(start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(reply(completion(LONDON)), policy=policy("hold", "action: block"), verifiers=verifiers) as proxy:
        got = await proxy.post(BODY)
        verdict = (await asked(proxy, got)).json
    assert (400, "block", 400) == (got.status, verdict["verdict"], verdict["status"])
    assert [("contradicted", None)] == places(verdict, "")
    assert ("policy_blocked", "hallucination_detected") == (verdict["error"]["code"], verdict["error"]["param"])


async def test_a_stream_that_is_blocked_half_way_keeps_the_places_of_what_left(start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(said(PARIS, LONDON, TALL), policy=policy("gate", "action: block"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
        verdict = (await asked(proxy, got)).json
    assert "block" == verdict["verdict"]
    assert [("supported", PARIS), ("contradicted", None)] == places(verdict, PARIS)[:2]


async def test_an_upstream_that_fails_is_the_verdict(start: Start) -> None:
    async with start(reply({"error": {"message": "no", "code": "busy"}}, status=503), policy=policy("tap")) as proxy:
        got = await proxy.post(BODY)
        verdict = (await asked(proxy, got)).json
    assert ("upstream_error", 503, [], "upstream_error") == (
        verdict["verdict"],
        verdict["status"],
        verdict["claims"],
        verdict["stages"][-1]["outcome"],
    )


async def test_a_stream_that_breaks_off_is_an_upstream_error(start: Start) -> None:
    async with start(stream(streamed([PARIS])[:2], broken=True), policy=policy("tap")) as proxy:
        verdict = (await asked(proxy, await proxy.post(STREAM))).json
    assert "upstream_error" == verdict["verdict"]


async def test_what_is_passed_through_is_skipped(start: Start) -> None:
    async with start(reply({"object": "list", "data": []})) as proxy:
        got = await proxy.get("/v1/models")
        verdict = (await asked(proxy, got)).json
    assert ("skipped", "", [], None) == (verdict["verdict"], verdict["policy"], verdict["claims"], verdict["scores"]["quality"])


@pytest.mark.parametrize("bodies", [False, True])
async def test_labels_and_places_do_not_depend_on_what_is_kept_of_texts(start: Start, bodies: bool) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    answer = reply(completion(f"{LONDON} {PARIS}"))
    async with start(answer, policy=policy("hold", "action: redact"), verifiers=verifiers, bodies=bodies) as proxy:
        got = await proxy.post(BODY)
        verdict = (await asked(proxy, got)).json
    delivered = got.json["choices"][0]["message"]["content"]
    assert ["contradicted", "supported"] == [one["label"] for one in verdict["claims"]]
    assert ([LONDON, PARIS] if bodies else ["", ""]) == [one["text"] for one in verdict["claims"]]
    assert [None, PARIS] == [place for _, place in places(verdict, delivered)]


async def test_why_nothing_was_checked_stands_beside_the_stage(start: Start) -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}
    async with start(reply(completion("The Eiffel Tower is old.")), policy=policy("hold")) as proxy:
        verdict = (await asked(proxy, await proxy.post(body))).json
    assert [("claims", "no context")] == [(one["stage"], one["reason"]) for one in verdict["stages"]]


async def test_in_shadow_mode_it_says_what_would_have_been_done(start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    shadow = policy("hold", "action: block") + "enforce: false\n"
    async with start(reply(completion(LONDON)), policy=shadow, verifiers=verifiers) as proxy:
        got = await proxy.post(BODY)
        verdict = (await asked(proxy, got)).json
    assert (False, "block") == (verdict["enforced"], verdict["stages"][-1]["would"])
    assert [("contradicted", LONDON)] == places(verdict, LONDON)


# ---- waiting ----


async def test_it_is_pending_while_the_checks_run_and_wakes_who_waits(start: Start) -> None:
    verifiers = Patient()
    async with start(said(PARIS), policy=policy("tap"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
        now = await asked(proxy, got, 0)
        short = await asked(proxy, got, 20)
        waiting = asyncio.create_task(asked(proxy, got, 20_000))
        while not proxy.app._admin.state.verdicts._waits:
            await asyncio.sleep(0.001)
        began = time.monotonic()
        verifiers.go.set()
        later = await waiting
        took_s = time.monotonic() - began
    for early in (now, short):
        assert (202, "pending", "1", []) == (early.status, early.json["verdict"], early.headers["retry-after"], early.json["claims"])
    assert (200, ["supported"]) == (later.status, [one["label"] for one in later.json["claims"]])
    assert took_s < 5
    assert 0 == len(proxy.app._admin.state.verdicts._waits)


async def test_it_is_pending_while_the_model_still_writes(start: Start) -> None:
    rest = asyncio.Event()
    answer = stream(streamed([PARIS, " It is tall."]), wait={2: rest})
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(answer, policy=policy("tap"), verifiers=verifiers) as proxy, proxy.open(STREAM) as response:
        path = PATH + response.headers["x-groundwire-id"]
        early = await proxy.get(path)
        rest.set()
        await response.read()
        later = await proxy.get(f"{path}?wait_ms=5000")
    assert [(202, "pending"), (200, 2)] == [(early.status, early.json["verdict"]), (later.status, len(later.json["claims"]))]


async def test_under_hold_it_is_there_with_the_answer(start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(said(PARIS), policy=policy("hold"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
        began = time.monotonic()
        verdict = await asked(proxy, got, 30_000)
    assert (200, got.verdict) == (verdict.status, verdict.json["verdict"])
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("wait_ms", ["-1", "30001", "1.5", "soon", "", "٣", "999999999999"])
async def test_a_wait_that_is_none_is_refused(start: Start, wait_ms: str) -> None:
    async with start() as proxy:
        got = await asked(proxy, await proxy.post(), wait_ms)
    assert (400, "invalid_request", "wait_ms") == (got.status, got.json["error"]["code"], got.json["error"]["param"])


async def test_one_client_takes_a_bounded_number_of_places(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.admin.verdicts.MAX_WAITING_OF_ONE", 2)
    verifiers = Patient()
    async with start(said(PARIS), said(PARIS), policy=policy("tap"), verifiers=verifiers) as proxy:
        mine, other = await proxy.post(STREAM, **ALICE), await proxy.post(STREAM, **BOB)
        waiting = [asyncio.create_task(asked(proxy, mine, 20_000, **ALICE)) for _ in range(2)]
        while len(proxy.app._admin.state.verdicts._waits) < 2:
            await asyncio.sleep(0.001)
        third = await asked(proxy, mine, 20_000, **ALICE)
        waiting.append(asyncio.create_task(asked(proxy, other, 20_000, **BOB)))
        while len(proxy.app._admin.state.verdicts._waits) < 3:
            await asyncio.sleep(0.001)
        verifiers.go.set()
        found = [await one for one in waiting]
    assert (202, [200] * 3) == (third.status, [one.status for one in found])


async def test_a_client_that_leaves_gives_its_place_back(start: Start) -> None:
    verifiers = Patient()
    async with start(said(PARIS), policy=policy("tap"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
        waits = proxy.app._admin.state.verdicts._waits
        waiting = asyncio.create_task(asked(proxy, got, 30_000))
        while not waits:
            await asyncio.sleep(0.001)
        waiting.cancel()
        async with asyncio.timeout(5):
            while waits:
                await asyncio.sleep(0.001)
        verifiers.go.set()


async def test_a_server_that_stops_answers_who_waits(start: Start) -> None:
    verifiers = Patient()
    async with start(said(PARIS), policy=policy("tap"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
        verdicts = proxy.app._admin.state.verdicts
        waiting = asyncio.create_task(asked(proxy, got, 30_000))
        while not verdicts._waits:
            await asyncio.sleep(0.001)
        verdicts.end_waits()
        answer = await waiting
        verifiers.go.set()
    assert (202, "pending") == (answer.status, answer.json["verdict"])


async def test_nothing_is_left_of_an_exchange_that_is_recorded(start: Start) -> None:
    async with start() as proxy:
        got = await proxy.post()
        await proxy.post(b"no JSON")
        await proxy.get("/v1/nothing-here")
        await asked(proxy, got)
        async with asyncio.timeout(5):
            while len(proxy.app._services.recorder.open):
                await asyncio.sleep(0.001)


# ---- other processes, other times ----


async def test_a_restart_keeps_it(start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(said(LONDON), policy=policy("tap"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
        before = await asked(proxy, got)
    async with start(policy=policy("tap"), verifiers=verifiers) as proxy:
        after = await asked(proxy, got, 0)
    assert before.json == after.json


async def test_one_that_another_process_serves_is_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Two applications on one store, as two workers are."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "figures"))
    verifiers = Patient()
    async with start(said(PARIS), policy=policy("tap"), verifiers=verifiers) as one, start(policy=policy("tap")) as other:
        got = await one.post(STREAM, **ALICE)
        now = await asked(other, got, 0, **ALICE)
        waiting = asyncio.create_task(asked(other, got, 20_000, **ALICE))
        while not other.app._admin.state.verdicts._waits:
            await asyncio.sleep(0.001)
        verifiers.go.set()
        later, foreign = await waiting, await asked(other, got, 0, **BOB)
        unknown = await other.get(f"{PATH}{new_id(time.time())}?wait_ms=60")
        old = await other.get(f"{PATH}{new_id(time.time() - 86400)}?wait_ms=30000")
    assert [202, 200, 404] == [one_.status for one_ in (now, later, foreign)]
    assert ["supported"] == [claim["label"] for claim in later.json["claims"]]
    assert [404, 404] == [unknown.status, old.status]


async def test_a_store_that_is_away_is_said(start: Start) -> None:
    async with start() as proxy:
        got = await proxy.post()
        await proxy.record(got)
        await proxy.app.database.stop()
        answer = await asked(proxy, got, 0)
    assert (503, "overloaded") == (answer.status, answer.json["error"]["code"])


async def test_raw_bytes_that_nobody_could_read_are_said(start: Start) -> None:
    async with start(
        raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]"), policy=policy("tap")
    ) as proxy:
        verdict = (await asked(proxy, await proxy.post(BODY))).json
    assert ("error", ["answer_unreadable", "context_not_in_prompt"]) == (verdict["verdict"], verdict["warnings"])
