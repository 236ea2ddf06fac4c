"""An exchange that is over -> its spans, with their attributes. Pure functions.

The exchange is a span of kind SERVER; its children are one INTERNAL span for every run of a stage's hook, ``STAGE HOOK``, and one CLIENT
span for every call of an upstream, retries and fallbacks included. Names after the OpenTelemetry semantic conventions for generative AI
(development status, as of v1.41: https://github.com/open-telemetry/semantic-conventions-genai) and for HTTP; what they do not know
begins with ``groundwire.``. Tokens stand at the exchange alone, so that a sum over all spans counts them once. Numbers, names and codes
only: what was asked and answered is in no span.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from proxy.exchange import QUIET, Answer, Exchange, Facts, HookMark, Verdict
from proxy.observe.finished import PASSED_THROUGH, Finished, LogLine, clipped
from proxy.observe.tracing.calls import CANCELLED, UpstreamCall
from proxy.observe.tracing.context import SpanContext
from proxy.observe.tracing.providers import ProviderServer

Value = str | bool | int | float | Sequence[str]
Kind = Literal["server", "client", "internal"]

MAX_MARKS = 200
"""Most stage spans of one exchange: a gate judges each sentence of an answer. The rest are counted in ``groundwire.spans.dropped``."""
MAX_EVENTS = 50
"""Most verdicts that are told as events of one exchange."""
OPERATIONS = {
    "/chat/completions": "chat",
    "/responses": "chat",
    "/messages": "chat",
    "/completions": "text_completion",
    "/embeddings": "embeddings",
}
"""``gen_ai.operation.name`` by path."""
_FACTS = ("quality", "faithfulness", "relevance", "confidence", "clashes")
_INT64 = 2**63
_FAILED = ("error", "upstream_error")


class SpanEvent(Struct, frozen=True):
    """Something that happened within a span."""

    name: str
    time_ns: int
    attributes: Mapping[str, Value]


class Span(Struct, frozen=True):
    """One span; times are nanoseconds since the epoch."""

    name: str
    kind: Kind
    context: SpanContext
    parent: SpanContext | None
    parent_is_remote: bool
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    events: Sequence[SpanEvent] = ()
    error: bool = False


class Work(Struct, frozen=True):
    """Everything that an exchange's spans are made of."""

    context: SpanContext
    parent: SpanContext | None
    finished: Finished
    line: LogLine
    marks: Sequence[HookMark]
    calls: Sequence[UpstreamCall]
    servers: Mapping[str, ProviderServer]
    new_span_id: Callable[[], int]

    def ns(self, moment: float) -> int:
        """A time by `time.perf_counter` as a span wants it."""
        return int((self.finished.received_at - self.finished.started + moment) * 1e9)

    @property
    def exchange(self) -> Exchange | None:
        """None where none came to be."""
        return self.finished.exchange

    @property
    def model(self) -> str:
        """As the client named it."""
        return clipped(self.exchange.original.model) if self.exchange is not None else ""


def spans_of(work: Work) -> list[Span]:
    """The exchange's span, then its stages', then its calls'."""
    end = work.finished.started + work.line.duration_ms / 1000
    return [
        _exchange_span(work, end),
        *(_stage_span(work, mark) for mark in work.marks[:MAX_MARKS]),
        *(_call_span(work, call, end) for call in work.calls),
    ]


def _exchange_span(work: Work, end: float) -> Span:
    error = _error_type(work)
    attributes: dict[str, Value | None] = {**_what(work, work.line.path), **_http(work.line), **_own(work), "error.type": error}
    if work.exchange is not None:
        attributes |= _asked(work.exchange) | _answered(work.exchange.answer) | _found(work.exchange.facts)
    return Span(
        _name(work),
        "server",
        work.context,
        work.parent,
        True,
        work.ns(work.finished.started),
        work.ns(end),
        _kept(attributes),
        _verdicts(work, work.ns(end)),
        bool(error),
    )


def _name(work: Work) -> str:
    """The operation and its model; for a path that is none, the method and the route."""
    operation = OPERATIONS.get(work.line.path)
    if operation is None:
        return f"{work.line.method} {_route(work.line)}"
    return f"{operation} {work.model}".rstrip()


def _route(line: LogLine) -> str:
    """The path with whatever may be an identifier left out."""
    return line.route.rstrip("/") + "/v1" + (line.path if line.path in OPERATIONS else "/*")


def _what(work: Work, path: str) -> dict[str, Value | None]:
    server = work.servers.get(work.line.upstream)
    return {
        "gen_ai.operation.name": OPERATIONS.get(path),
        "gen_ai.provider.name": server.provider if server is not None else None,
        "gen_ai.request.model": work.model,
    }


def _http(line: LogLine) -> dict[str, Value | None]:
    return {
        "http.request.method": line.method,
        "http.route": _route(line),
        "url.path": f"{line.route.rstrip('/')}/v1{line.path}" if line.kind == PASSED_THROUGH else None,
        "http.response.status_code": line.status or None,
    }


def _own(work: Work) -> dict[str, Value | None]:
    """What only Groundwire knows."""
    line = work.line
    return {
        "groundwire.id": line.id,
        "groundwire.verdict": line.verdict,
        "groundwire.policy": line.policy,
        "groundwire.upstream": line.upstream,
        "groundwire.asked_in": line.asked_in,
        "groundwire.client": line.client,
        "groundwire.step": line.step,
        "groundwire.warnings": list(line.warnings) or None,
        "groundwire.error": line.error,
        "groundwire.attempts": line.attempts,
        "groundwire.overhead_ms": line.overhead_ms,
        "groundwire.prompt_tokens_before": line.prompt_tokens_before,
        "groundwire.passed_through": True if line.kind == PASSED_THROUGH else None,
        "groundwire.spans.dropped": max(0, len(work.marks) - MAX_MARKS) or None,
        "gen_ai.conversation.id": line.run,
    }


def _asked(exchange: Exchange) -> dict[str, Value | None]:
    wants = exchange.original.wants
    return {
        **{f"gen_ai.request.{name}": value for name, value in wants.sampling.items()},
        "gen_ai.request.max_tokens": wants.max_output_tokens,
        "gen_ai.request.choice.count": wants.choices if wants.choices != 1 else None,
        "gen_ai.request.stream": True if exchange.original.stream else None,
    }


def _answered(answer: Answer | None) -> dict[str, Value | None]:
    if answer is None:
        return {}
    found: dict[str, Value | None] = {
        "gen_ai.response.model": clipped(answer.model),
        "gen_ai.response.finish_reasons": [clipped(choice.finish_reason or "") for choice in answer.choices] or None,
    }
    if answer.usage is not None:
        found["gen_ai.usage.input_tokens"] = answer.usage.prompt_tokens
        found["gen_ai.usage.output_tokens"] = answer.usage.completion_tokens
        found["gen_ai.usage.cache_read.input_tokens"] = answer.usage.cached_tokens or None
    return found


def _found(facts: Facts) -> dict[str, Value | None]:
    return {f"groundwire.{name}": getattr(facts, name) for name in _FACTS}


def _error_type(work: Work) -> str:
    """Why the exchange failed, "" when it did not: a client's own mistake, or a policy that refuses, is no failure."""
    line = work.line
    if line.status >= 500 or (line.error and line.status < 400):
        return line.error or str(line.status)
    verdicts = work.exchange.verdicts if work.exchange is not None else ()
    return next((v.code or "error" for v in verdicts if v.stage == "upstream" and v.outcome in _FAILED and "status" not in v.detail), "")


def _verdicts(work: Work, time_ns: int) -> list[SpanEvent]:
    """The verdicts that are not a pass, also on answers that were not delivered, each when its hook line."""
    exchange = work.exchange
    if exchange is None:
        return []
    found = [verdict for attempt in exchange.attempts for verdict in attempt.verdicts] + exchange.verdicts
    times = {id(mark.verdict): mark.ended for mark in work.marks if mark.verdict is not None}
    bad = [verdict for verdict in found if verdict.outcome not in QUIET][:MAX_EVENTS]
    return [
        SpanEvent(
            "groundwire.verdict", work.ns(times[id(v)]) if id(v) in times else time_ns, _kept({"groundwire.stage": v.stage, **_said(v)})
        )
        for v in bad
    ]


def _said(verdict: Verdict) -> dict[str, Value | None]:
    return {"groundwire.outcome": verdict.outcome, "groundwire.code": verdict.code, "groundwire.score": verdict.score}


def _stage_span(work: Work, mark: HookMark) -> Span:
    attributes: dict[str, Value | None] = {"groundwire.stage": mark.stage, "groundwire.hook": mark.hook}
    failed = mark.verdict is not None and mark.verdict.outcome == "error"
    if mark.verdict is not None:
        attributes |= _said(mark.verdict)
        attributes["error.type"] = mark.verdict.code if failed else None
    return _child(work, work.new_span_id(), f"{mark.stage} {mark.hook}", "internal", (mark.started, mark.ended), attributes, failed)


def _call_span(work: Work, call: UpstreamCall, end: float) -> Span:
    path, server = call.path.partition("?")[0], work.servers.get(call.upstream)
    operation = OPERATIONS.get(path)
    attributes: dict[str, Value | None] = {
        **_what(work, path),
        "gen_ai.provider.name": server.provider if server is not None else None,
        "gen_ai.request.stream": True if call.stream else None,
        "gen_ai.response.time_to_first_chunk": call.first_chunk - call.started if call.stream and call.first_chunk else None,
        "server.address": server.address if server is not None else None,
        "server.port": server.port if server is not None else None,
        "http.request.method": call.method,
        "http.request.resend_count": call.attempts - 1 or None,
        "http.response.status_code": call.status or None,
        "groundwire.upstream": call.upstream,
        "error.type": call.error,
    }
    name = f"{operation} {work.model}".rstrip() if operation else call.method
    times = call.started, call.ended or end
    return _child(work, call.span_id, name, "client", times, attributes, bool(call.error) and call.error != CANCELLED)


def _child(
    work: Work, span_id: int, name: str, kind: Kind, times: tuple[float, float], attributes: Mapping[str, Value | None], error: bool
) -> Span:
    own = SpanContext(work.context.trace_id, span_id, True, work.context.state)
    return Span(name, kind, own, work.context, False, work.ns(times[0]), work.ns(times[1]), _kept(attributes), (), error)


def _kept(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    """Those with a value that OpenTelemetry can carry: integers of 64 bits, text without halves of surrogate pairs."""
    return {name: _carried(value) for name, value in attributes.items() if value is not None and value != ""}


def _carried(value: Value) -> Value:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return float(value) if abs(value) < 10**300 else str(value)[:50]
    if isinstance(value, list):
        return [str(_carried(item)) for item in value]
    return value
