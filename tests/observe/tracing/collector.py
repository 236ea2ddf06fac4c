"""An OpenTelemetry collector on loopback: takes OTLP over HTTP and keeps spans and figures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {1: "internal", 2: "server", 3: "client"}


@dataclass(frozen=True)
class Received:
    """A span as it came."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    state: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[dict[str, Any]]
    error: bool
    resource: dict[str, Any]


class Collector:
    """Use with ``async with``. Answers with `status`; with `silent`, never."""

    def __init__(self, *, status: int = 200, silent: bool = False) -> None:
        self._status, self._silent = status, silent
        self.bodies: list[bytes] = []
        self.figures: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.asked = asyncio.Event()
        self.url = ""

    async def _take(self, request: web.Request) -> web.Response:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        body = await request.read()
        self.asked.set()
        if self._silent:
            await asyncio.Event().wait()
        if self._status == 200:
            (self.figures if request.path.endswith("/metrics") else self.bodies).append(body)
        return web.Response(status=self._status)

    async def __aenter__(self) -> Collector:
        app = web.Application()
        for kind in ("traces", "metrics"):
            app.router.add_post(f"/v1/{kind}", self._take)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(asyncio.CancelledError):
            await self._runner.cleanup()

    def pushed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The resource of the last push, and its metrics by name."""
        (whole,) = ExportMetricsServiceRequest.FromString(self.figures[-1]).resource_metrics
        return _attributes(whole.resource.attributes), {one.name: one for scope in whole.scope_metrics for one in scope.metrics}

    @property
    def spans(self) -> list[Received]:
        """All that came, in the order in which they were sent."""
        return [span for body in self.bodies for span in _spans(body)]

    def tree(self) -> list[Any]:
        """The names, as nested lists: ``[NAME, [CHILD], …]``, children by their start; one list for each span whose parent is not here."""
        spans = self.spans
        here = {span.id for span in spans}

        def under(span: Received) -> list[Any]:
            children = sorted((child for child in spans if child.parent == span.id), key=lambda child: child.start_ns)
            return [f"{span.kind} {span.name}", *(under(child) for child in children)]

        return [under(span) for span in spans if span.parent not in here]

    def only(self, name: str, kind: str = "") -> Received:
        """The one span of that name."""
        (found,) = [span for span in self.spans if span.name == name and kind in ("", span.kind)]
        return found


def _spans(body: bytes) -> Iterator[Received]:
    for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _attributes(resource_spans.resource.attributes)
        for scope in resource_spans.scope_spans:
            for span in scope.spans:
                yield Received(
                    name=span.name,
                    kind=KINDS[span.kind],
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    state=span.trace_state,
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes=_attributes(span.attributes),
                    error=span.status.code == 2,
                    resource=resource,
                    events=[{"name": event.name, **_attributes(event.attributes)} for event in span.events],
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)
