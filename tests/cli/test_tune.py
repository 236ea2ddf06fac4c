"""``groundwire tune``: stored traffic through another policy, without a call of the provider, and what is said where there is none."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from proxy.__main__ import main
from proxy.observe.stored_exchanges import answer_of, exchange_of
from proxy.store.records import Records
from proxy.testing import completion, reply, stream, streamed
from tests.admin.test_alerts import POLICY, RIGHT, WRONG, ask
from tests.conftest import Start

Captured = pytest.CaptureFixture[str]
BLOCKING = "name: strict\ndelivery: hold\nstages: [budget, {claims: {action: block}}]\n"


async def tuned(folder: Path, capsys: Captured, *arguments: str) -> tuple[int, Any]:
    """The exit status, and what it printed as JSON."""
    config = str(folder / "config.yaml")
    status = await asyncio.to_thread(main, ["tune", *arguments, "--config", config, "--json"])
    return status, json.loads(capsys.readouterr().out or "null")


async def test_what_another_policy_would_do_is_shown_without_asking_anybody(start: Start, tmp_path: Path, capsys: Captured) -> None:
    async with start(reply(completion(WRONG)), policy=POLICY, policies={"next": BLOCKING}) as proxy:
        await proxy.post(ask(1))
        proxy.upstream.say(reply(completion(RIGHT)))
        await proxy.record(await proxy.post(ask(2)))
        calls = len(proxy.upstream.calls)
        same = await tuned(tmp_path, capsys)
        other = await tuned(tmp_path, capsys, str(tmp_path / "next.yaml"))
        assert calls == len(proxy.upstream.calls)
        rows = (await proxy.get("/groundwire/v1/records")).json["data"]
    assert (0, 0, {"warned": 1, "passed": 1}, {"warned": 1, "passed": 1}) == (
        same[0],
        same[1]["changed"],
        same[1]["before"],
        same[1]["after"],
    )
    assert (0, 1, {"blocked": 1, "passed": 1}) == (other[0], other[1]["changed"], other[1]["after"])
    (change,) = other[1]["changes"]
    assert ("warned", "blocked", "claims: hallucination_detected") == (change["before"], change["after"], change["why"])
    assert 2 == len(rows)  # the replay left none


async def test_hints_on_single_messages_are_there_again(start: Start) -> None:
    hint = {"timestamp": 1_700_000_000, "source": "memory"}
    body = ask(1)
    body["messages"][0]["groundwire"] = hint
    async with start(reply(completion(RIGHT)), policy=POLICY) as proxy:
        record_id = (await proxy.record(await proxy.post(body)))["id"]
        row = await Records(proxy.app.database).get(record_id)
    assert row is not None
    answer = answer_of(row, row.typed_detail)
    assert answer is not None
    original = exchange_of(row, row.typed_detail, answer, "p", "m").original
    assert ({0: hint}, False) == (original.message_hints, "groundwire" in original.messages[0])


async def test_the_number_is_bounded_and_the_newest_count(start: Start, tmp_path: Path, capsys: Captured) -> None:
    async with start(reply(completion(RIGHT)), policy=POLICY) as proxy:
        for number in range(3):
            await proxy.record(await proxy.post(ask(number)))
        status, found = await tuned(tmp_path, capsys, "--limit", "2")
    assert (0, 3, 2) == (status, found["stored"], found["replayed"])


async def test_what_broke_off_is_no_answer_and_is_counted_apart(start: Start, tmp_path: Path, capsys: Captured) -> None:
    words = streamed([f"{word} " for word in RIGHT.split()])
    async with start(reply(completion(RIGHT)), stream(words[:4], broken=True), policy=POLICY.replace("hold", "tap")) as proxy:
        await proxy.record(await proxy.post(ask(1)))
        broken = await proxy.record(await proxy.post({**ask(2), "stream": True}))
        status, found = await tuned(tmp_path, capsys)
    assert ("upstream_error", 1) == (broken["outcome"], status)
    assert (1, {"its answer broke off, as the provider failed": 1}, 0) == (found["replayed"], found["left_out"], found["changed"])


async def test_without_bodies_it_says_what_it_needs(start: Start, tmp_path: Path, capsys: Captured) -> None:
    async with start(reply(completion(RIGHT)), policy=POLICY, bodies=False) as proxy:
        await proxy.record(await proxy.post(ask(1)))
        status = await asyncio.to_thread(main, ["tune", "--config", str(tmp_path / "config.yaml")])
    assert (2, True) == (status, "1 exchanges since then, and bodies of none of them" in capsys.readouterr().err)


async def test_a_judge_is_asked_only_where_that_is_said(start: Start, tmp_path: Path, capsys: Captured) -> None:
    async with start(reply(completion(RIGHT)), policy=POLICY) as proxy:
        await proxy.record(await proxy.post(ask(1)))
        calls = len(proxy.upstream.calls)
        _, found = await tuned(tmp_path, capsys, "--judge", "main/gpt-6-luna")
        assert (calls, False) == (len(proxy.upstream.calls), found["judge_asked"])
        assert 2 == await asyncio.to_thread(main, ["tune", "--judge", "nobody/x", "--config", str(tmp_path / "config.yaml")])
    assert "--judge: expected UPSTREAM/MODEL, with one of main" in capsys.readouterr().err


async def test_a_judge_takes_the_place_of_a_policys_which_goes_on_saying_what_it_is_asked(
    start: Start, tmp_path: Path, capsys: Captured
) -> None:
    asking = f"judge: {{upstream: main, model: other, ask: all, temperature: 2.0}}\n{POLICY}"
    silent = "name: silent\ndelivery: tap\nstages: [budget]\n"
    said = completion("The Kestrel cargo bike is fun to ride.")
    options = {
        "policies": {"silent": silent},
        "route_options": "allow_skip: true}, {prefix: /other, upstream: main, policy: silent.yaml",
    }
    async with start(reply(said), policy=asking, **options) as proxy:
        for path in ("", "/other"):
            await proxy.record(await proxy.post(ask(1), f"{path}/v1/chat/completions"))
        calls = len(proxy.upstream.calls)
        _, found = await tuned(tmp_path, capsys, "--judge", "main/gpt-6-luna", "--ask")
        asked = {call.json["model"] for call in proxy.upstream.calls[calls:]}
        refused = await asyncio.to_thread(
            main, ["tune", "--judge", "main/x", "--route", "/other", "--config", str(tmp_path / "config.yaml")]
        )
    assert ({"gpt-6-luna"}, 2, True) == (asked, found["replayed"], found["judge"]["questions"] > 0)
    assert (2, True) == (refused, "--judge: no policy that is replayed has a stage that asks one" in capsys.readouterr().err)


async def test_of_several_stages_that_would_block_the_first_one_decides(start: Start, tmp_path: Path, capsys: Captured) -> None:
    refusing = BLOCKING.replace("budget", "{budget: {window: 20, reserve_output_tokens: 5}}")
    async with start(reply(completion(WRONG)), policy=POLICY, policies={"next": refusing}) as proxy:
        await proxy.record(await proxy.post(ask(1)))
        _, found = await tuned(tmp_path, capsys, str(tmp_path / "next.yaml"))
    assert ["budget: context_length_exceeded"] == [change["why"] for change in found["changes"]]
