"""The figures of four real workers add up to what was sent, whichever of them is asked, and also when one of them has died."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import aiohttp
import pytest

from proxy.testing import ReceivedCall, ScriptedUpstream, completion, reply, stream, streamed
from tests.conftest import CHAT
from tests.observe.metrics.reading import Series, parsed, value
from tests.processes import PATIENCE_S, Process, free_port, served

pytestmark = pytest.mark.process

WORKERS = 4
_POLICY = "name: counted\ndelivery: hold\nstages: [budget: {window: 1000}]\n"


async def answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """What is asked for: a stream, an error, or an answer."""
    if call.json.get("user") == "wrong":
        said = reply({"error": {"message": "no", "code": "bad_things"}}, 400)
    elif call.json.get("stream"):
        said = stream(streamed(["Hi", "."]))
    else:
        said = reply(completion())
    await said(writer, call)


async def send(proxy: Process, kind: dict[str, object]) -> None:
    """One request on a connection of its own, so that any worker may get it."""
    async with aiohttp.ClientSession() as session, session.post(proxy.url + "/rag/v1/chat/completions", json={**CHAT, **kind}) as response:
        await response.read()


async def scraped(proxy: Process) -> Series:
    """The figures, as some worker gives them."""
    async with aiohttp.ClientSession() as session, session.get(proxy.url + "/metrics") as response:
        assert 200 == response.status
        return parsed(await response.text())


async def up(proxy: Process, workers: int) -> None:
    """Return when so many workers serve."""
    async with asyncio.timeout(PATIENCE_S):
        while not proxy.is_over:
            try:
                if workers == value(await scraped(proxy), "groundwire_workers"):
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
    raise AssertionError("the server ended:\n" + "\n".join(proxy.lines))


async def replaced(proxy: Process, killed: int) -> None:
    """Return when another worker runs in the place of one that was killed: that takes less time than two looks at the figures."""
    async with asyncio.timeout(PATIENCE_S):
        while killed in (now := children(proxy.id)) or len(now) < WORKERS:
            await asyncio.sleep(0.01)


async def settled(proxy: Process, exchanges: int) -> list[Series]:
    """Readings that all have `exchanges`: what a worker counts reaches the others within a second."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = [await scraped(proxy) for _ in range(2 * WORKERS)]
            if all(exchanges == value(one, "groundwire_exchanges_total") for one in found):
                return found
            await asyncio.sleep(0.05)


def sums(found: Series) -> dict[str, float]:
    """What can be told exactly."""
    return {
        "2xx": value(found, "groundwire_exchanges_total", status="2xx", route="/rag"),
        "4xx": value(found, "groundwire_exchanges_total", status="4xx", route="/rag"),
        "overhead": value(found, "groundwire_overhead_seconds_count", route="/rag"),
        "overhead, below infinity": value(found, "groundwire_overhead_seconds_bucket", route="/rag", le="+Inf"),
        "budget.forward": value(found, "groundwire_stage_seconds_count", stage="budget", hook="forward"),
        "window": value(found, "groundwire_context_window_ratio_count", prompt="sent"),
        "prompt tokens": value(found, "groundwire_tokens_total", kind="prompt"),
        "completion tokens": value(found, "groundwire_tokens_total", kind="completion"),
        "calls": value(found, "groundwire_upstream_calls_total"),
        "upstream 4xx": value(found, "groundwire_upstream_errors_total", reason="4xx"),
        "answers": value(found, "groundwire_upstream_seconds_count"),
        "warnings": value(found, "groundwire_warnings_total", code="upstream_bad_things"),
    }


def expected(whole: int, streams: int, wrong: int) -> dict[str, float]:
    """Of so many requests of each kind; a whole answer reports 9 and 3 tokens, a stream's 8 and 2 are counted."""
    every, fine = float(whole + streams + wrong), float(whole + streams)
    return {
        "2xx": fine,
        "4xx": float(wrong),
        "overhead": every,
        "overhead, below infinity": every,
        "budget.forward": every,
        "window": every,
        "prompt tokens": 9.0 * whole + 8.0 * streams,
        "completion tokens": 3.0 * whole + 2.0 * streams,
        "calls": every,
        "upstream 4xx": float(wrong),
        "answers": fine,
        "warnings": float(wrong),
    }


async def send_all(proxy: Process, whole: int, streams: int, wrong: int) -> None:
    """So many requests of each kind, eight at once."""
    kinds: list[dict[str, object]] = [{}] * whole + [{"stream": True}] * streams + [{"user": "wrong"}] * wrong
    for i in range(0, len(kinds), 8):
        await asyncio.gather(*(send(proxy, kind) for kind in kinds[i : i + 8]))


def children(process: int) -> list[int]:
    """The processes that `process` has started and that serve: not multiprocessing's own."""
    found = [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return [child for child in found if "resource_tracker" not in Path(f"/proc/{child}/cmdline").read_text()]


async def test_the_figures_of_four_workers_add_up_to_what_was_sent(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(answer) as upstream,
        served(tmp_path, upstream.base_url, port=free_port(), server=f"{{workers: {WORKERS}}}", policy=_POLICY) as proxy,
    ):
        await up(proxy, WORKERS)
        await send_all(proxy, 60, 24, 16)
        found = await settled(proxy, 100)
        assert [expected(60, 24, 16)] * len(found) == [sums(one) for one in found]


async def test_a_worker_that_was_killed_keeps_its_figures_and_the_next_one_adds_to_them(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(answer) as upstream,
        served(tmp_path, upstream.base_url, port=free_port(), server=f"{{workers: {WORKERS}}}", policy=_POLICY) as proxy,
    ):
        await up(proxy, WORKERS)
        await send_all(proxy, 40, 0, 0)
        await settled(proxy, 40)
        before = children(proxy.id)
        os.kill(before[0], signal.SIGKILL)
        await replaced(proxy, before[0])
        await up(proxy, WORKERS)
        await send_all(proxy, 20, 10, 10)
        found = await settled(proxy, 80)
        assert WORKERS == len(children(proxy.id))
        assert before != children(proxy.id)
        assert [expected(60, 10, 10)] * len(found) == [sums(one) for one in found]
        assert [1.0] * len(found) == [value(one, "groundwire_store_available") for one in found]
        assert [WORKERS] * len(found) == [value(one, "groundwire_workers") for one in found]
    assert [] == [line for line in proxy.lines if re.search("Traceback|ERROR", line)]
