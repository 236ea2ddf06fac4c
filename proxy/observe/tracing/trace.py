"""Follows one exchange: its place in a trace, and the calls of upstreams that it makes.

In: a request's headers, then each call on its way to an upstream. Out: the headers that the upstream gets, and, when the exchange is over,
its spans, for a `Sink`. An exchange that is not sampled leaves none; its place in the trace is passed on all the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from proxy.config.observability import TracingSettings
from proxy.config.settings import Settings
from proxy.exchange import HookMark
from proxy.observe.finished import Finished, LogLine
from proxy.observe.tracing.calls import TracedReply, UpstreamCall
from proxy.observe.tracing.context import SpanContext, parent_of, passed_on
from proxy.observe.tracing.providers import ProviderServer, server_of
from proxy.observe.tracing.spans import Span, Work, spans_of
from proxy.ports.upstream import Call, Reply
from proxy.upstreams.resilience import Resilient

_TRACE_BITS, _SPAN_BITS = 128, 64


class Sink(Protocol):
    """Where spans go."""

    def submit(self, spans: Sequence[Span]) -> None:
        """Take them; never waits, never raises."""

    async def stop(self) -> None:
        """Deliver what is still here, for a while."""


class Tracing:
    """The traces of one process; its spans are dropped as long as it is not started."""

    def __init__(self, servers: Mapping[str, ProviderServer], settings: TracingSettings) -> None:
        """`servers` by upstream name."""
        self.servers, self._settings = servers, settings
        self.sink: Sink | None = None
        self._bound = round(settings.sample * 2**_SPAN_BITS)

    def start(self) -> None:
        """Begin to export. Raises `ConfigError`."""
        from proxy.observe.tracing.export import OtlpExport

        self.sink = OtlpExport(self._settings)

    def begin(self, headers: Sequence[tuple[bytes, bytes]]) -> Trace:
        """A request has come."""
        parent = parent_of(headers)
        if parent is not None:
            return Trace(self, parent, replace(parent, span_id=new_span_id()))
        trace_id = random.getrandbits(_TRACE_BITS) or 1
        # As OpenTelemetry's TraceIdRatioBased does, so that programs with the same share choose the same traces.
        return Trace(self, None, SpanContext(trace_id, new_span_id(), trace_id % 2**_SPAN_BITS < self._bound))

    async def stop(self) -> None:
        """Deliver what is still here."""
        sink, self.sink = self.sink, None
        if sink is not None:
            await sink.stop()


class Trace:
    """One exchange."""

    __slots__ = ("_calls", "_parent", "_tracing", "context", "marks")

    def __init__(self, tracing: Tracing, parent: SpanContext | None, context: SpanContext) -> None:
        self._tracing, self._parent, self.context = tracing, parent, context
        self.marks: list[HookMark] | None = [] if context.sampled else None
        """For `Exchange.marks`."""
        self._calls: list[UpstreamCall] = []

    async def send(self, upstream: Resilient, call: Call, others: Mapping[str, Resilient]) -> Reply:
        """`upstream.send`, within a span of its own. Raises what that raises."""
        own = replace(self.context, span_id=new_span_id())
        call = replace(call, headers=passed_on(call.headers, own, continued=self._parent is not None))
        if not own.sampled:
            return await upstream.send(call, others)
        made = UpstreamCall(own.span_id, upstream.name, call)
        self._calls.append(made)
        try:
            reply = await upstream.send(call, others)
        except BaseException as error:
            made.failed(error)
            raise
        made.answered(reply)
        return TracedReply(reply, made)

    def finish(self, finished: Finished, line: LogLine) -> None:
        """The exchange is over."""
        sink = self._tracing.sink
        if not self.context.sampled or sink is None:
            return
        work = Work(
            context=self.context,
            parent=self._parent,
            finished=finished,
            line=line,
            marks=self.marks or (),
            calls=self._calls,
            servers=self._tracing.servers,
            new_span_id=new_span_id,
        )
        sink.submit(spans_of(work))


def new_span_id() -> int:
    """64 random bits, not all 0."""
    return random.getrandbits(_SPAN_BITS) or 1


def make_tracing(settings: Settings) -> Tracing | None:
    """What follows exchanges, where config.yaml wants it."""
    given = settings.tracing
    if given is None or not given.enabled:
        return None
    return Tracing({name: server_of(upstream) for name, upstream in settings.upstreams.items()}, given)
