"""Compression in a running proxy: a conversation that grows beyond its window."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.context.conversation import problems
from proxy.testing import completion, reply, serving
from tests.conftest import Running, Start
from tests.conversations import said, step
from tests.own_tools import called, calling, function

COMPRESS = "name: p\ndelivery: tap\nstages:\n- budget: {window: 8192, reserve_output_tokens: 500}\n- compression: {}\n"
READ = "groundwire_read_archive"
TOOLS = [function("lookup")]


def growing(turns: int, words: int = 60, tool_words: int = 150) -> list[list[dict[str, Any]]]:
    """The whole history at each of a client's turns."""
    history = [said("system", 100)]
    found = []
    for i in range(turns):
        history = [*history, said("user", words, f"question-{i}")]
        found.append(history)
        if i % 3 == 0:
            history = [*history, *step(str(i), tool_words)]
            found.append(history)
        history = [*history, said("assistant", words, f"answer-{i}")]
    return found


async def sent(proxy: Running, messages: Sequence[Mapping[str, Any]], **more: Any) -> Any:
    return await proxy.post({"model": "gpt-4o", "messages": messages, "tools": TOOLS, **more})


def common_prefix(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    size = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return list(b[:size])


@pytest.mark.slow
async def test_sixty_turns_fit_the_window_and_repeat_the_prefix_between_the_crossings(start: Start) -> None:
    shares, crossings, fits = [], 0, 0
    async with start(policy=COMPRESS) as proxy:
        previous: list[Any] = []
        for messages in growing(60):
            got = await sent(proxy, messages)
            assert 200 == got.status
            forwarded = proxy.upstream.calls[-1].json["messages"]
            assert [] == problems(forwarded)
            header = got.headers["x-groundwire-compression"]
            if header.startswith(("none;below-threshold", "stored;")):
                same = len(json.dumps(common_prefix(previous, forwarded)))
                shares.append(same / max(1, len(json.dumps(previous))))
            else:
                crossings += 1
            fits += int(got.headers["x-groundwire-context"].split("/")[0]) < 0.8 * 8192
            previous = forwarded
    assert 2 <= crossings <= 6
    assert min(shares[1:]) > 0.99
    assert len(growing(60)) == fits


@pytest.mark.slow
async def test_two_workers_forward_the_same_bytes(start: Start, tmp_path: Any) -> None:
    async with start(policy=COMPRESS) as proxy:
        other = App(load_settings(tmp_path / "config.yaml", {}))
        async with serving(other) as url:
            second = Running(other, proxy.upstream, url, proxy._session)
            for i, messages in enumerate(growing(60)[-30:]):
                for worker in (proxy, second) if i % 2 else (second, proxy):
                    await sent(worker, messages)
                one, two = proxy.upstream.calls[-2:]
                assert one.body == two.body


async def test_the_model_reads_back_what_left_its_prompt(start: Start) -> None:
    history = growing(40)[-1]
    async with start(policy=COMPRESS) as proxy:
        await sent(proxy, history)
        forwarded = proxy.upstream.calls[-1].json
        assert READ in [tool["function"]["name"] for tool in forwarded["tools"]]
        reference = forwarded["messages"][1]["content"].partition(f"{READ} ")[2].partition("]")[0]
        arguments = json.dumps({"id": reference, "search": "question-3"})
        proxy.upstream.say(reply(calling(called(READ, arguments))), reply(completion("I see.")))
        got = await sent(proxy, history)
        result = proxy.upstream.calls[-1].json["messages"][-1]
    assert "I see." == got.json["choices"][0]["message"]["content"]
    assert "question-3" in result["content"]


async def test_a_long_chat_fits_with_the_passages_that_come_as_hints(start: Start) -> None:
    passages = [{"content": said("user", 500, f"passage-{i}")["content"], "source": f"{i}.md"} for i in range(3)]
    messages = growing(24)[-1]
    async with start(policy=COMPRESS + "- faithful: {}\n") as proxy:
        got = await proxy.post({"model": "gpt-4o", "messages": messages, "max_tokens": 2500, "groundwire": {"context": passages}})
        record = await proxy.record(got)
    assert 200 == got.status, got.json
    assert 0.4 < record["detail"]["facts"]["context_before"]["used_tokens"] / 8192 < 0.8
    assert got.headers["x-groundwire-compression"].startswith("summarize")


async def test_what_was_compressed_is_in_headers_record_and_metrics(start: Start) -> None:
    async with start(policy=COMPRESS) as proxy:
        got = await sent(proxy, growing(40)[-1])
        record = await proxy.record(got)
        metrics = (await proxy.get("/groundwire/v1/metrics")).json
    strategies, tokens, ratio = got.headers["x-groundwire-compression"].split(";")
    before, after = map(int, tokens.split("->"))
    assert ("summarize", f"{before / after:.1f}x") == (strategies, ratio)
    detail = next(v for v in record["detail"]["verdicts"] if v["stage"] == "compression")["detail"]
    assert ["summarize", "archive"] == [s["strategy"] for s in detail["strategies"]]
    assert round(before / after, 2) == metrics["compression"]["context.compression_ratio_avg"]


async def test_a_conversation_below_the_threshold_goes_out_in_its_own_bytes(start: Start) -> None:
    body = json.dumps({"model": "gpt-4o", "messages": growing(3)[-1]}, indent=3).encode()
    async with start(policy=COMPRESS) as proxy:
        got = await proxy.post(body)
    assert ("none;below-threshold", body) == (got.headers["x-groundwire-compression"], proxy.upstream.calls[-1].body)


async def test_another_client_never_gets_a_clients_compaction(start: Start) -> None:
    history = growing(40)[-1]
    async with start(policy=COMPRESS) as proxy:
        for key in ("a", "b"):
            await proxy.post({"model": "gpt-4o", "messages": history}, authorization=f"Bearer {key}")
        one, two = (call.json["messages"][1]["content"] for call in proxy.upstream.calls)
    assert one != two  # the ids in the references differ
    assert one.partition("[archived")[0] == two.partition("[archived")[0]


async def test_what_cannot_be_brought_below_the_window_is_refused_with_advice(start: Start) -> None:
    messages = [said("system", 6000), *growing(3)[-1][1:]]
    async with start(policy=COMPRESS) as proxy:
        got = await sent(proxy, messages)
        record = await proxy.record(got)
    assert (400, "context_length_exceeded") == (got.status, got.json["error"]["code"])
    verdict = next(v for v in record["detail"]["verdicts"] if v["stage"] == "compression")
    assert ("compression_failed", "shorten the system message, or move reference text out of it", False) == (
        verdict["code"],
        verdict["detail"]["advice"],
        verdict["detail"]["fits"],
    )


async def test_a_client_may_leave_compression_out(start: Start) -> None:
    history = growing(28)[-1]
    async with start(policy=COMPRESS) as proxy:
        got = await proxy.post({"model": "gpt-4o", "messages": history}, x_groundwire_skip="compression")
    assert (history, None) == (proxy.upstream.calls[-1].json["messages"], got.headers.get("x-groundwire-compression"))
