"""Work in the background: it goes on after a failure, and ends when it is stopped."""

import asyncio
import logging

import pytest

from proxy.errors import StoreUnavailable
from proxy.ports.background import RepeatedTask

log = logging.getLogger("groundwire.tests")


async def test_a_call_that_fails_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    errors, over = [ValueError("a bug"), StoreUnavailable("away")], asyncio.Event()

    async def step() -> None:
        if errors:
            raise errors.pop(0)
        over.set()

    task = RepeatedTask(step, 0.0, name="test", problem="it failed", log=log)
    with caplog.at_level("DEBUG", "groundwire.tests"):
        task.start()
        await over.wait()
        await task.stop()
    assert [("ERROR", "it failed"), ("DEBUG", "it failed: away")] == [(one.levelname, one.getMessage()) for one in caplog.records]


@pytest.mark.parametrize(("end_s", "ends"), [(0.0, 0), (None, 1), (60.0, 1)])
async def test_a_call_has_its_time_to_end_when_the_task_is_stopped(end_s: float | None, ends: int) -> None:
    begun, ended = asyncio.Event(), list[int]()

    async def step() -> None:
        begun.set()
        await task.stopping.wait()
        await asyncio.sleep(0)
        ended.append(1)

    task = RepeatedTask(step, 0.0, name="test", problem="it failed", log=log, end_s=end_s)
    task.start()
    await begun.wait()
    await task.stop()
    assert (ends, False) == (len(ended), task.is_running)


async def test_a_task_that_was_stopped_starts_again() -> None:
    calls, called = list[int](), asyncio.Event()

    async def step() -> None:
        calls.append(1)
        called.set()

    task = RepeatedTask(step, 3600.0, name="test", problem="it failed", log=log)
    for _ in range(2):
        called.clear()
        task.start()
        await called.wait()
        await task.stop()
    assert 2 == len(calls)
