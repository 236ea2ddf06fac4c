"""What an upstream's calls leave in the metrics."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from proxy.config.settings import Retries
from proxy.errors import Overloaded, ProxyError, UpstreamTimeout, UpstreamUnreachable
from proxy.observe.metrics import Metrics
from proxy.testing import CountedNames, raw, reply, stream, streamed
from proxy.upstreams.resilience import Resilient, Slots
from tests.conftest import CHAT, Start
from tests.observe.metrics.reading import by, value
from tests.upstreams.test_resilience import CALL, QUICK, FakeReply, FakeUpstream


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def resilient(
    metrics: Metrics, *says: Any, name: str = "a", slots: Slots | None = None, fallback: tuple[str, ...] = (), retries: Retries = QUICK
) -> Resilient:
    upstream = FakeUpstream(name, *says)
    return Resilient(upstream, retries, slots or Slots(9, 9), fallback, CountedNames(), 10.0, metrics.upstream(name))


async def test_each_try_is_a_call_and_each_failure_has_its_reason(metrics: Metrics) -> None:
    asked = resilient(metrics, FakeReply(503), UpstreamUnreachable("gone"), FakeReply(200))
    await (await asked.send(CALL, {})).read()
    assert (3.0, 2.0) == (
        value(metrics, "groundwire_upstream_calls_total"),
        value(metrics, "groundwire_upstream_retries_total", upstream="a"),
    )
    assert {"5xx": 1.0, "unreachable": 1.0} == by(metrics, "groundwire_upstream_errors_total", "reason")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (FakeReply(429), "429"),
        (FakeReply(404), "4xx"),
        (FakeReply(500), "5xx"),
        (UpstreamTimeout("slow"), "timeout"),
        (Overloaded("full"), "overloaded"),
    ],
)
async def test_reasons_are_few(metrics: Metrics, said: FakeReply | ProxyError, reason: str) -> None:
    asked = resilient(metrics, said, retries=Retries(attempts=0))
    with suppress(ProxyError):
        await (await asked.send(CALL, {})).read()
    assert {reason: 1.0} == by(metrics, "groundwire_upstream_errors_total", "reason")
    assert 0.0 == value(metrics, "groundwire_upstream_first_byte_seconds_count") + value(metrics, "groundwire_upstream_seconds_count")


async def test_a_full_queue_is_an_error_of_its_own(metrics: Metrics) -> None:
    asked = resilient(metrics, FakeReply(200), slots=Slots(0, 0))
    with pytest.raises(Overloaded):
        await asked.send(CALL, {})
    assert {"overloaded": 1.0} == by(metrics, "groundwire_upstream_errors_total", "reason")


async def test_times_are_known_when_the_last_byte_has_come(metrics: Metrics) -> None:
    reply_ = await resilient(metrics, FakeReply(200)).send(CALL, {})
    names = ("groundwire_upstream_first_byte_seconds_count", "groundwire_upstream_seconds_count")
    assert [1.0, 0.0] == [value(metrics, name) for name in names]
    assert b"first" == b"".join([chunk async for chunk in reply_.chunks()])
    assert [1.0, 1.0] == [value(metrics, name) for name in names]


async def test_an_answer_that_breaks_off_is_an_error_and_has_no_length(metrics: Metrics) -> None:
    reply_ = await resilient(metrics, FakeReply(200, broken=True)).send(CALL, {})
    with pytest.raises(UpstreamUnreachable):
        await reply_.read()
    assert {"broken": 1.0} == by(metrics, "groundwire_upstream_errors_total", "reason")
    assert 0.0 == value(metrics, "groundwire_upstream_seconds_count")


async def test_a_fallback_is_counted_at_the_upstream_that_failed(metrics: Metrics) -> None:
    second = resilient(metrics, FakeReply(200), name="b")
    await resilient(metrics, FakeReply(503), fallback=("b",)).send(CALL, {"b": second})
    assert {"a": 1.0} == by(metrics, "groundwire_upstream_fallbacks_total", "upstream")
    assert {"a": 3.0, "b": 1.0} == by(metrics, "groundwire_upstream_calls_total", "upstream")


async def test_without_metrics_nothing_is_counted() -> None:
    asked = Resilient(
        FakeUpstream("a", FakeReply(503), UpstreamUnreachable("gone"), FakeReply(200)), QUICK, Slots(1, 1), (), CountedNames()
    )
    assert b"first" == await (await asked.send(CALL, {})).read()


async def test_a_running_proxy_counts_streams_errors_and_tokens(start: Start) -> None:
    broken = raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
    async with start(
        stream(streamed(["Hi."])), reply({"error": {"code": "server_error"}}, 500), broken, reply({"object": "list"})
    ) as proxy:
        statuses = [(await proxy.post({**CHAT, "stream": True})).status]
        statuses += [(await proxy.post()).status for _ in range(2)]
        statuses += [(await proxy.get("/v1/models")).status]
        async with asyncio.timeout(10):
            while value(proxy.app.metrics, "groundwire_exchanges_total") < 4:  # the last bytes leave just before it is counted
                await asyncio.sleep(0)
        metrics = proxy.app.metrics
    assert [200, 500, 502, 200] == statuses
    assert (4.0, {"5xx": 1.0, "broken": 1.0}) == (
        value(metrics, "groundwire_upstream_calls_total", upstream="main"),
        by(metrics, "groundwire_upstream_errors_total", "reason"),
    )
    assert (3.0, 2.0) == (
        value(metrics, "groundwire_upstream_first_byte_seconds_count"),
        value(metrics, "groundwire_upstream_seconds_count"),
    )
    assert {"2xx": 2.0, "5xx": 2.0} == by(metrics, "groundwire_exchanges_total", "status")


async def test_a_proxy_knows_whether_its_store_is_there(start: Start) -> None:
    async with start() as proxy:
        there = value(proxy.app.metrics, "groundwire_store_available")
        proxy.app.database.available = False
        away = value(proxy.app.metrics, "groundwire_store_available")
        proxy.app.database.available = True
    assert (1.0, 0.0, 1.0) == (there, away, value(proxy.app.metrics, "groundwire_workers"))
