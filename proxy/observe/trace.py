"""Follows one exchange: its place in a trace, and the calls of upstreams that it makes, as spans of OpenTelemetry's own.

In: a request's headers, then each call on its way to an upstream. Out: the headers that the upstream gets, and, when the exchange is over,
its spans. An exchange that is not sampled leaves none; its place in the trace is passed on all the same. Spans wait in a bounded queue for
a thread of the SDK, which encodes and sends them by OTLP over HTTP; when it is full, because the collector is down or slow, the oldest are
dropped and the log says so. No exchange waits for any of it. The SDK's own variables hold for what config.yaml leaves open
(``OTEL_EXPORTER_OTLP_*``, ``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from msgspec.structs import replace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from proxy import __version__
from proxy.config.sections import TracingSettings
from proxy.config.settings import UpstreamSettings
from proxy.exchange import HookMark
from proxy.observe import tracing as said
from proxy.observe.finished import Finished, LogLine
from proxy.observe.metrics.counts import Reading
from proxy.observe.push import Push
from proxy.observe.tracing import CANCELLED, ExchangeSpans, UpstreamCall, server_of
from proxy.ports.upstream import Call, Reply
from proxy.upstreams.resilience import Resilient

log = logging.getLogger("groundwire.tracing")

QUEUE_SPANS = 8192
"""About a thousand exchanges; below 20 MB."""
BATCH_SPANS = 128
"""Small, as encoding a batch keeps the event loop from Python's global lock: 128 take about 4 ms."""
DELAY_MS = 2000
"""Longest time that a span waits for others before it is sent."""
BATCH_TIMEOUT_S = 10.0
"""For a batch, with its retries; what cannot be delivered in that time is dropped."""
STOP_S = 3.0
"""How long a server that stops waits for the last batches."""
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
_HEADERS = TraceContextTextMapPropagator()
_NAMES = ("traceparent", "tracestate")
_TALKATIVE = ("opentelemetry.trace.span", "opentelemetry.trace.propagation.tracecontext")
"""Loggers that warn of what a client's headers say."""


class Tracing:
    """The traces of one process."""

    def __init__(
        self,
        upstreams: Mapping[str, UpstreamSettings],
        settings: TracingSettings,
        *,
        stop_s: float = STOP_S,
        read: Callable[[], Reading] = Reading,
    ) -> None:
        """`stop_s` limits `stop`; `read` gives the figures that are pushed where `settings` say so."""
        self.servers = {name: server_of(upstream) for name, upstream in upstreams.items()}
        self._settings, self._stop_s = settings, stop_s
        resource = _resource(settings.service_name)
        self._provider = TracerProvider(ParentBased(TraceIdRatioBased(settings.sample)), resource, shutdown_on_exit=False)
        self.tracer: Tracer = self._provider.get_tracer("groundwire", __version__, schema_url=SCHEMA_URL)
        self._exporter: OTLPSpanExporter | None = None
        self._push: Push | None = None
        if settings.metrics_every_s:
            endpoint = metrics_endpoint_of(settings) or None
            self._push = Push(read, resource, settings.metrics_every_s, endpoint=endpoint, headers=settings.headers)

    def start(self) -> None:
        """Begin to export: until then spans are dropped."""
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.ERROR)
        given = self._settings
        endpoint, headers = endpoint_of(given) or None, dict(given.headers) or None
        self._exporter = OTLPSpanExporter(endpoint=endpoint, headers=headers, timeout=BATCH_TIMEOUT_S)
        batches = BatchSpanProcessor(
            self._exporter, max_queue_size=QUEUE_SPANS, schedule_delay_millis=DELAY_MS, max_export_batch_size=BATCH_SPANS
        )
        self._provider.add_span_processor(batches)
        if self._push is not None:
            self._push.start()

    def begin(self, headers: Sequence[tuple[bytes, bytes]]) -> Trace:
        """A request has come."""
        return Trace(self, headers)

    async def stop(self) -> None:
        """Deliver what is still here, as far as there is time."""
        if self._push is not None:
            await self._push.stop(self._stop_s)
        ending = threading.Thread(target=self._provider.shutdown, name="spans-end", daemon=True)  # the SDK's own limit is half a minute
        ending.start()
        await asyncio.to_thread(ending.join, self._stop_s)
        if ending.is_alive() and self._exporter is not None:
            log.warning("the last spans could not be delivered within %g s", self._stop_s)
            self._exporter.shutdown()  # type: ignore[no-untyped-call]


def endpoint_of(settings: TracingSettings) -> str:
    """Where spans go, with OTLP's own path where config.yaml names a server alone; "" leaves it to the environment."""
    given = settings.endpoint
    return given.rstrip("/") + "/v1/traces" if given and urlsplit(given).path in ("", "/") else given


def metrics_endpoint_of(settings: TracingSettings) -> str:
    """Where figures go: beside the spans, by OTLP's own path for them."""
    return endpoint_of(settings).removesuffix("traces") + "metrics" if settings.endpoint else ""


def _resource(service_name: str) -> Resource:
    """Who sends: the service, which of its nodes and which process."""
    own = {"service.version": __version__, "host.name": socket.gethostname()}
    own["service.instance.id"] = f"{own['host.name']}:{os.getpid()}"
    resource = Resource.create(own | ({"service.name": service_name} if service_name else {}))
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "groundwire"}))
    return resource


class Trace:
    """One exchange."""

    __slots__ = ("_began", "_began_ns", "_calls", "_span", "_tracing", "marks")

    def __init__(self, tracing: Tracing, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._tracing = tracing
        self._began, self._began_ns = time.perf_counter(), time.time_ns()
        given = {name: [value.decode("latin-1") for key, value in headers if key == name.encode()] for name in _NAMES}
        parent = _HEADERS.extract(given) if len(given["traceparent"]) == 1 else Context()
        self._span = tracing.tracer.start_span("exchange", parent, SpanKind.SERVER, start_time=self._began_ns)
        self.marks: list[HookMark] | None = [] if self._span.is_recording() else None
        """For `Exchange.marks`."""
        self._calls: list[tuple[Span, UpstreamCall]] = []

    @property
    def trace_id(self) -> str:
        """In hex."""
        return f"{self._span.get_span_context().trace_id:032x}"

    async def send(self, upstream: Resilient, call: Call, others: Mapping[str, Resilient]) -> Reply:
        """`upstream.send`, within a span of its own. Raises what that raises."""
        made = UpstreamCall(upstream.name, call)
        span = self._child("call", SpanKind.CLIENT, made.started)
        place: dict[str, str] = {}
        _HEADERS.inject(place, set_span_in_context(span))
        call = replace(call, headers=[*(header for header in call.headers if header[0] not in _NAMES), *place.items()])
        if not span.is_recording():
            return await upstream.send(call, others)
        self._calls.append((span, made))
        with made.ends_if_it_fails():
            return made.answered(await upstream.send(call, others))

    def finish(self, finished: Finished, line: LogLine) -> None:
        """The exchange is over."""
        if not self._span.is_recording():
            return
        end, about = time.perf_counter(), ExchangeSpans(finished, line, self.marks or (), self._tracing.servers)
        for at, found in about.events():
            self._span.add_event("groundwire.verdict", found, self._ns(end if at is None else at))
        self._end(self._span, about.name, about.attributes(), end, failed=bool(about.failed))
        for mark in about.shown_marks:
            span = self._child(f"{mark.stage} {mark.hook}", SpanKind.INTERNAL, mark.started)
            self._end(span, "", said.of_stage(mark), mark.ended, failed=mark.verdict is not None and mark.verdict.outcome == "error")
        for span, call in self._calls:
            failed = bool(call.error) and call.error != CANCELLED
            self._end(span, about.call_name(call), about.of_call(call), call.ended or end, failed=failed)

    def _child(self, name: str, kind: SpanKind, started: float) -> Span:
        return self._tracing.tracer.start_span(name, set_span_in_context(self._span), kind, start_time=self._ns(started))

    def _end(self, span: Span, name: str, attributes: Mapping[str, said.Value], at: float, *, failed: bool) -> None:
        if name:
            span.update_name(said.utf8(name))
        span.set_attributes(attributes)
        if failed:
            span.set_status(StatusCode.ERROR)
        span.end(self._ns(at))

    def _ns(self, moment: float) -> int:
        """A time by `time.perf_counter` as a span wants it."""
        return self._began_ns + int((moment - self._began) * 1e9)
