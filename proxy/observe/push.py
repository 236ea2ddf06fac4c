"""The figures of `/metrics`, pushed by OTLP over HTTP: each process sends its own, as sums since its start.

In: a `Reading` (`proxy.observe.metrics.counts`). Out: the same families and labels (route, team, key, …) as OpenTelemetry's data, which its
exporter encodes and sends; the resource says which node and process. A collector that is away takes no exchange's time: what a push could
not deliver is in the next one. https://opentelemetry.io/docs/specs/otel/metrics/data-model/
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from proxy import __version__
from proxy.observe.metrics.counts import Reading
from proxy.observe.metrics.families import FAMILIES, GAUGES
from proxy.observe.tracing import utf8
from proxy.ports.background import RepeatedTask

log = logging.getLogger("groundwire.tracing")

_TIMEOUT_S = 10.0
"""For one push, with its retries."""
_CUMULATIVE = AggregationTemporality.CUMULATIVE
_BY_NAME = {family.name: family for family in FAMILIES}
_GAUGES = {name: meaning for name, meaning, _ in GAUGES}


class Push:
    """Of one process."""

    def __init__(
        self, read: Callable[[], Reading], resource: Resource, every_s: float, *, endpoint: str | None, headers: Mapping[str, str]
    ) -> None:
        """`read` gives what was counted until now, on the event loop; without an `endpoint` the environment names it."""
        self._read, self._resource, self._every_s = read, resource, every_s
        self._endpoint, self._headers = endpoint, dict(headers) or None
        self._began_ns = time.time_ns()
        self._exporter: OTLPMetricExporter | None = None
        self._pushes = RepeatedTask(self.push, every_s, name="metrics-push", problem="figures could not be pushed", log=log)
        self._failing = False

    def start(self) -> None:
        """Push every `every_s` seconds. Needs a running event loop."""
        self._exporter = OTLPMetricExporter(endpoint=self._endpoint, headers=self._headers, timeout=_TIMEOUT_S)
        self._pushes.start(self._every_s)

    async def stop(self, limit_s: float) -> None:
        """Push the last figures, as far as there is time."""
        if self._exporter is None:
            return
        await self._pushes.stop()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.push(), limit_s)
        self._exporter.shutdown()

    async def push(self) -> None:
        """Send the figures as they are now; never raises. Of pushes that fail one after the other only the first is told."""
        assert self._exporter is not None
        problem: str | Exception | None = None
        try:
            data = data_of(self._read(), self._resource, self._began_ns, time.time_ns())
            if await asyncio.to_thread(self._exporter.export, data) is not MetricExportResult.SUCCESS:
                problem = "the collector did not take them; OpenTelemetry's log has its answer"
        except Exception as error:  # a push that ended here would be the last one, and nobody would know
            problem = error
        if problem is not None and not self._failing:
            target = urlsplit(self._endpoint).netloc.rpartition("@")[2] if self._endpoint else "where OTEL_EXPORTER_OTLP_* says"
            log.warning("figures could not be pushed to %s (%s); the next push brings them", target, problem)
        elif problem is None and self._failing:
            log.info("figures are pushed again")
        self._failing = problem is not None


def data_of(reading: Reading, resource: Resource, began_ns: int, now_ns: int) -> MetricsData:
    """`reading` as OpenTelemetry has it; `began_ns` is since when it counts, nanoseconds since the epoch."""
    scope = ScopeMetrics(InstrumentationScope("groundwire", __version__), [*_metrics(reading, began_ns, now_ns)], "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metrics(reading: Reading, began_ns: int, now_ns: int) -> Iterator[Metric]:
    sums: dict[str, list[NumberDataPoint]] = defaultdict(list)
    for (family, *labels), value in reading.counts.items():
        sums[family].append(NumberDataPoint(_attributes(family, labels), began_ns, now_ns, value))
    for name, points in sums.items():
        yield Metric(name, _BY_NAME[name].help, "", Sum(points, _CUMULATIVE, is_monotonic=True))
    for name, (dotted, meaning, value) in reading.plain.items():
        point = NumberDataPoint({}, began_ns, now_ns, value)
        yield Metric(name, f"{meaning} ({dotted})", "", Sum([point], _CUMULATIVE, is_monotonic=True))
    for name, value in reading.gauges.items():
        yield Metric(name, _GAUGES[name], "", Gauge([NumberDataPoint({}, began_ns, now_ns, value)]))
    spreads: dict[str, list[HistogramDataPoint]] = defaultdict(list)
    unknown: Any = None  # smallest and largest value: optional in OTLP, and not counted here
    for (family, *labels), (counts, total) in reading.spreads.items():
        about, edges = _attributes(family, labels), _BY_NAME[family].edges
        spreads[family].append(HistogramDataPoint(about, began_ns, now_ns, sum(counts), total, counts, edges, unknown, unknown))
    for name, found in spreads.items():
        yield Metric(name, _BY_NAME[name].help, "", Histogram(found, _CUMULATIVE))


def _attributes(family: str, labels: list[str]) -> dict[str, str]:
    return dict(zip(_BY_NAME[family].labels, map(utf8, labels), strict=True))
