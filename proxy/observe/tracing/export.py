"""Spans -> an OpenTelemetry collector, in batches, by OTLP over HTTP. The only file that imports OpenTelemetry, when it is made.

Spans wait in a bounded queue for a thread of the SDK, which encodes and sends them; when it is full, because the collector is down or
slow, the oldest are dropped and the log says so. No exchange waits for any of it. The spans are ended when they come here, with their ids
and times, so they are given to the SDK's batches as they are, past its tracers. The SDK's own variables hold for what config.yaml leaves
open (``OTEL_EXPORTER_OTLP_*``, ``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from proxy import __version__
from proxy.config.observability import TracingSettings
from proxy.errors import ConfigError
from proxy.observe.tracing.spans import Span

log = logging.getLogger("groundwire.tracing")

QUEUE_SPANS = 8192
"""About a thousand exchanges; below 20 MB."""
BATCH_SPANS = 128
"""Small, as encoding a batch keeps the event loop from Python's global lock: 128 take about 4 ms."""
DELAY_MS = 2000
"""Longest time that a span waits for others before it is sent."""
STOP_S = 3.0
"""How long a server that stops waits for the last batches."""
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"


class OtlpExport:
    """Implements `proxy.observe.tracing.trace.Sink`."""

    def __init__(self, settings: TracingSettings, *, stop_s: float = STOP_S) -> None:
        """Begin to export; `stop_s` limits `stop`. Raises `ConfigError` where OpenTelemetry does not import."""
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk import trace as sdk
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        except ImportError as error:
            problem = f"OpenTelemetry does not import here ({error}): pip install 'groundwire[tracing]'"
            raise ConfigError("config.yaml", "tracing", problem) from error
        self._api, self._sdk, self._stop_s = trace, sdk, stop_s
        self._kinds = {name: trace.SpanKind[name.upper()] for name in ("server", "client", "internal")}
        self._ok, self._error = trace.Status(), trace.Status(trace.StatusCode.ERROR)
        self._resource = _resource(settings.service_name)
        self._scope = InstrumentationScope("groundwire", __version__, SCHEMA_URL)
        self._exporter = OTLPSpanExporter(
            endpoint=endpoint_of(settings) or None, headers=dict(settings.headers) or None, timeout=settings.timeout_s
        )
        self._batches = BatchSpanProcessor(
            self._exporter, max_queue_size=QUEUE_SPANS, schedule_delay_millis=DELAY_MS, max_export_batch_size=BATCH_SPANS
        )

    def submit(self, spans: Sequence[Span]) -> None:
        """Put them into the queue."""
        for span in spans:
            self._batches.on_end(self._readable(span))

    async def stop(self) -> None:
        """Deliver what is still here, as far as there is time."""
        ending = threading.Thread(target=self._batches.shutdown, name="spans-end", daemon=True)  # the SDK's own limit is half a minute
        ending.start()
        await asyncio.to_thread(ending.join, self._stop_s)
        if ending.is_alive():
            log.warning("the last spans could not be delivered within %g s", self._stop_s)
            self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> Any:
        """The SDK's form of an ended span."""
        return self._sdk.ReadableSpan(
            span.name,
            context=self._context(span.context, remote=False),
            parent=None if span.parent is None else self._context(span.parent, remote=span.parent_is_remote),
            resource=self._resource,
            attributes=span.attributes,
            events=[self._sdk.Event(event.name, event.attributes, event.time_ns) for event in span.events],
            kind=self._kinds[span.kind],
            status=self._error if span.error else self._ok,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )

    def _context(self, context: Any, *, remote: bool) -> Any:
        flags = self._api.TraceFlags(context.sampled)
        state = self._api.TraceState.from_header([context.state]) if context.state else None
        return self._api.SpanContext(context.trace_id, context.span_id, remote, flags, state)


def endpoint_of(settings: TracingSettings) -> str:
    """Where spans go, with OTLP's own path where config.yaml names a server alone; "" leaves it to the environment."""
    given = settings.endpoint
    return given.rstrip("/") + "/v1/traces" if given and urlsplit(given).path in ("", "/") else given


def _resource(service_name: str) -> Any:
    """Who sends the spans: the service, and which of its processes."""
    from opentelemetry.sdk.resources import Resource

    class OneResource(Resource):
        """The SDK looks it up for every span; its own hash writes all attributes as JSON each time: a sixth of what a span costs."""

        __hash__ = object.__hash__
        __eq__ = object.__eq__

    own = {"service.version": __version__, "service.instance.id": f"{socket.gethostname()}:{os.getpid()}"}
    resource = Resource.create(own | ({"service.name": service_name} if service_name else {}))
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "groundwire"}))
    return OneResource(resource.attributes, resource.schema_url)
