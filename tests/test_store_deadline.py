"""A stage does not wait long for the store, whichever port it asks."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import pytest

from proxy.errors import StoreUnavailable
from proxy.ports.deadline import STORE_TIMEOUT_S, AwakeTimeout, with_deadline, with_one_retry
from proxy.testing import make_ports
from tests.conftest import Start


class Port:
    def __init__(self, fails: Exception | None = None, *, hangs: bool = False) -> None:
        self.fails, self.hangs = fails, hangs

    async def get(self, *given: Any, **named: Any) -> Any:
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails is not None:
            raise self.fails
        return given, named


async def test_a_call_in_time_goes_through() -> None:
    ports: Any = with_deadline(make_ports(tool_runs=Port()), 5000)
    assert (("run",), {"client": "me"}) == await ports.tool_runs.get("run", client="me")


@pytest.mark.parametrize("port", [Port(hangs=True), Port(TimeoutError())])
async def test_a_call_past_its_share_of_the_stage_s_time_is_a_store_that_is_away(port: Port) -> None:
    ports: Any = with_deadline(make_ports(tool_runs=port), 50)
    with pytest.raises(StoreUnavailable):
        await ports.tool_runs.get("run")


async def test_what_the_store_itself_says_stays() -> None:
    ports: Any = with_deadline(make_ports(tool_runs=Port(StoreUnavailable("the disk is gone"))), 5000)
    with pytest.raises(StoreUnavailable, match="the disk is gone"):
        await ports.tool_runs.get("run")


async def test_a_stage_with_much_time_does_not_spend_it_on_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.ports.deadline.STORE_TIMEOUT_S", STORE_TIMEOUT_S / 50)
    ports: Any = with_deadline(make_ports(tool_runs=Port(hangs=True)), 60_000)
    started = time.perf_counter()
    with pytest.raises(StoreUnavailable):
        await ports.tool_runs.get("run")
    assert time.perf_counter() - started < 12


async def test_a_stage_has_no_port_of_the_store_without_one(start: Start) -> None:
    async with start(policy="name: p\ndelivery: tap\nstages: [budget: {}]\n") as proxy:
        ports = proxy.app.routes[0].default.pipeline.stages[0].ports
    assert [] == [name for name in ports.__struct_fields__ if type(getattr(ports, name)).__module__.startswith("proxy.store")]


async def test_an_answer_that_came_while_the_process_stood_still_is_in_time() -> None:
    here, there = socket.socketpair()

    def stand_still() -> None:  # what SIGSTOP does to an event loop
        there.send(b"x")
        time.sleep(0.5)

    with here, there:
        here.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.call_soon(stand_still)
        async with AwakeTimeout(0.25):
            assert b"x" == await loop.sock_recv(here, 1)


async def test_time_in_which_the_process_runs_is_counted() -> None:
    started = time.perf_counter()
    with pytest.raises(TimeoutError):
        async with AwakeTimeout(0.1):
            await asyncio.Event().wait()
    assert 0.1 == pytest.approx(time.perf_counter() - started, abs=0.09)


async def test_a_cancellation_that_is_not_its_own_goes_through() -> None:
    async def waits() -> None:
        async with AwakeTimeout(60.0):
            await asyncio.Event().wait()

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_the_store_has_broken_off_is_asked_once_more() -> None:
    answers = iter((StoreUnavailable("canceling statement"), None, StoreUnavailable("canceling statement"), StoreUnavailable("away")))

    async def ask() -> str:
        if (problem := next(answers)) is not None:
            raise problem
        return "found"

    assert "found" == await with_one_retry(ask)
    with pytest.raises(StoreUnavailable, match="away"):
        await with_one_retry(ask)
