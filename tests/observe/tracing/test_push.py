"""Figures pushed by OTLP: the families and labels of /metrics, of which node and process."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket

import pytest
from opentelemetry.sdk.resources import Resource

from proxy.config.sections import TracingSettings
from proxy.observe.metrics.counts import Reading
from proxy.observe.push import Push
from proxy.observe.trace import metrics_endpoint_of
from tests.conftest import Start
from tests.observe.tracing.collector import Collector

KEY = "gw-key-of-the-app"
KEYS = f"keys: [{{name: app, team: search, sha256: {hashlib.sha256(KEY.encode()).hexdigest()}}}]\n"


def attributes(point: object) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in point.attributes}  # type: ignore[attr-defined]


async def test_the_last_figures_are_pushed_with_node_client_and_team(start: Start) -> None:
    async with Collector() as collector:
        config = f"{KEYS}tracing: {{endpoint: '{collector.url}', metrics_every_s: 3600, headers: {{x-api-key: s3cret}}}}\n"
        async with start(config=config) as proxy:
            answer = await proxy.post(authorization=f"Bearer {KEY}")
            assert 200 == answer.status
        resource, found = collector.pushed()
    assert (socket.gethostname(), f"{socket.gethostname()}:{os.getpid()}", "groundwire") == (
        resource["host.name"],
        resource["service.instance.id"],
        resource["service.name"],
    )
    (of_key,) = found["groundwire_key_exchanges"].sum.data_points
    assert ({"team": "search", "key": "app"}, 1.0) == (attributes(of_key), of_key.as_double)
    assert found["groundwire_key_exchanges"].sum.is_monotonic
    (overhead,) = found["groundwire_overhead_seconds"].histogram.data_points
    assert (1, 1, len(overhead.explicit_bounds) + 1) == (overhead.count, sum(overhead.bucket_counts), len(overhead.bucket_counts))
    assert not overhead.HasField("max")
    assert 1.0 == found["groundwire_store_available"].gauge.data_points[0].as_double
    assert "s3cret" == collector.headers[-1]["x-api-key"]


async def test_figures_are_pushed_while_the_server_runs(start: Start) -> None:
    async with Collector() as collector, start(config=f"tracing: {{endpoint: '{collector.url}', sample: 0, metrics_every_s: 0.05}}\n"):
        async with asyncio.timeout(10):
            await collector.asked.wait()


async def test_a_collector_that_refuses_them_is_said_once(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    config = "tracing: {{endpoint: '{}', metrics_every_s: 0.01}}\n"
    async with Collector(status=400) as collector, start(config=config.format(collector.url)) as proxy:
        async with asyncio.timeout(10):
            while len(collector.headers) < 3:
                collector.asked.clear()
                await collector.asked.wait()
        assert 200 == (await proxy.post()).status
    host = collector.url.partition("://")[2].partition("/")[0]
    assert 1 == len([one for one in caplog.messages if f"could not be pushed to {host} " in one])


async def test_figures_that_could_not_be_read_do_not_end_the_pushes(caplog: pytest.LogCaptureFixture) -> None:
    readings = iter([RuntimeError("no such family"), Reading()])

    def read() -> Reading:
        if isinstance(one := next(readings), Exception):
            raise one
        return one

    async with Collector() as collector:
        push = Push(read, Resource({}), 3600, endpoint=f"{collector.url.partition('/v1/')[0]}/v1/metrics", headers={})
        push.start()
        await push.push()
        assert ["no such family" in one for one in caplog.messages if "could not be pushed" in one] == [True]
        await push.stop(5)
        assert 1 == len(collector.headers)


async def test_half_a_character_in_a_models_name_does_not_keep_figures_back() -> None:
    reading = Reading(counts={("groundwire_cost_usd", "main", "m\ud800"): 0.5})
    async with Collector() as collector:
        push = Push(lambda: reading, Resource({}), 3600, endpoint=f"{collector.url.partition('/v1/')[0]}/v1/metrics", headers={})
        push.start()
        await push.stop(5)
        _, found = collector.pushed()
    assert {"upstream": "main", "model": "m?"} == attributes(found["groundwire_cost_usd"].sum.data_points[0])


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [("", ""), ("http://h:4318", "http://h:4318/v1/metrics"), ("http://h/x/v1/traces", "http://h/x/v1/metrics")],
)
def test_figures_go_beside_the_spans(endpoint: str, expected: str) -> None:
    assert expected == metrics_endpoint_of(TracingSettings(endpoint=endpoint))
