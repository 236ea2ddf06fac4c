"""Traces: what an exchange did and when, as OpenTelemetry spans, and what the spans say. Off unless ``tracing:`` is configured.

`proxy.observe.trace` follows an exchange from `proxy.server.handler` and hands its spans to OpenTelemetry's SDK, which `make_tracing`
imports only where somebody wants traces. What spans say, and who answers behind an upstream, are pure functions.

The exchange is a span of kind SERVER; its children are one INTERNAL span for every run of a stage's hook, ``STAGE HOOK``, and one CLIENT
span for every call of an upstream, retries and fallbacks included. Names after the OpenTelemetry semantic conventions for generative AI
(development status, as of v1.41: https://github.com/open-telemetry/semantic-conventions-genai) and for HTTP; what they do not know
begins with ``groundwire.``. Tokens stand at the exchange alone, so that a sum over all spans counts them once. Numbers, names and codes
only: what was asked and answered is in no span.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from proxy.config.settings import BuiltinSettings, LiteLLMSettings, OpenAISettings, Settings, UpstreamSettings
from proxy.errors import ConfigError, ProxyError
from proxy.exchange import QUIET, Answer, Exchange, HookMark, Usage, Verdict
from proxy.observe.finished import PASSED_THROUGH, Finished, LogLine, clipped
from proxy.ports.upstream import Call, Reply

if TYPE_CHECKING:
    from proxy.observe.metrics import Metrics
    from proxy.observe.trace import Tracing


_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def make_tracing(settings: Settings, metrics: Metrics) -> Tracing | None:
    """What follows exchanges, and pushes `metrics`, where config.yaml wants it. Raises `ConfigError` without OpenTelemetry."""
    given = settings.tracing
    if given is None or not given.enabled:
        return None
    try:
        from proxy.observe.trace import Tracing
    except ImportError as error:
        problem = f"OpenTelemetry does not import here ({error}): pip install 'groundwire[tracing]'"
        raise ConfigError("config.yaml", "tracing", problem) from error
    return Tracing(settings.upstreams, given, read=metrics.publish)


def trace_id_of(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The trace that a request with these headers belongs to, by its ``traceparent`` (https://www.w3.org/TR/trace-context/); else ""."""
    found = [value.strip() for name, value in headers if name == b"traceparent"]
    match = _TRACEPARENT.fullmatch(found[0]) if len(found) == 1 else None
    if match is None or found[0].startswith(b"ff") or (found[0].startswith(b"00") and match[2]):
        return ""
    return match[1].decode()


class ProviderServer(Struct, frozen=True):
    """An upstream as spans describe it."""

    provider: str
    address: str = ""
    port: int | None = None


def server_of(settings: UpstreamSettings) -> ProviderServer:
    """What `settings` say of the server behind an upstream."""
    if isinstance(settings, OpenAISettings):
        provider = {"anthropic": "anthropic", "gemini": "gcp.gemini"}.get(str(settings.__struct_config__.tag), "openai")
        return ProviderServer(provider, *_place(settings.base_url))
    if isinstance(settings, LiteLLMSettings):
        prefix = settings.model_prefix.partition("/")[0]
        return ProviderServer(prefix or "litellm", *_place(settings.base_url))
    return ProviderServer("groundwire" if isinstance(settings, BuiltinSettings) else "llama_cpp")


def _place(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    if not parts.hostname:
        return "", None
    try:
        port = parts.port
    except ValueError:
        port = None
    return parts.hostname, port or (443 if parts.scheme == "https" else 80)


Value = str | bool | int | float | Sequence[str]

CANCELLED = "cancelled"
"""``error.type`` of a call that was given up before its answer was whole: the client left, or a stage took too long."""
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
_LINE = ("id", "verdict", "policy", "upstream", "asked_in", "client", "step", "error", "attempts", "overhead_ms", "prompt_tokens_before")
"""Of the log's line, what only Groundwire knows."""
_INT64 = 2**63
_FAILED = ("error", "upstream_error")


class UpstreamCall:
    """What is known of a call, from its sending over its retries to its answer's last byte, by `time.perf_counter`; then its answer.

    Implements `proxy.ports.upstream.Reply` once there is one.
    """

    def __init__(self, upstream: str, call: Call) -> None:
        self.upstream, self.method, self.path, self.stream = upstream, call.method, call.path.partition("?")[0], call.stream
        self.started, self.ended, self.first_chunk = time.perf_counter(), 0.0, 0.0
        self.status, self.attempts, self.error = 0, 1, ""
        self._reply: Reply

    def answered(self, reply: Reply) -> UpstreamCall:
        """Status and headers are there."""
        self._reply, self.headers = reply, reply.headers
        self.upstream, self.status, self.attempts = reply.upstream, reply.status, reply.attempts
        if reply.status >= 400:
            self.error = str(reply.status)
        return self

    def end(self, error: str = "") -> None:
        """It is over; only the first end counts."""
        if not self.ended:
            self.ended = time.perf_counter()
            self.error = error or self.error

    @contextmanager
    def ends_if_it_fails(self) -> Iterator[None]:
        """It is over, without a whole answer, where an exception leaves."""
        try:
            yield
        except ProxyError as error:
            self.attempts = max(self.attempts, error.attempts)
            self.end(error.code)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            self.end(CANCELLED)
            raise
        except BaseException as error:
            self.end(type(error).__name__)
            raise

    async def read(self) -> bytes:
        """The whole body."""
        with self.ends_if_it_fails():
            body = await self._reply.read()
        self.end()
        return body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        with self.ends_if_it_fails():
            async for chunk in self._reply.chunks():
                if not self.first_chunk:
                    self.first_chunk = time.perf_counter()
                yield chunk
        self.end()

    async def close(self) -> None:
        """Give the connection up; a call whose answer was not read to its end is over now."""
        self.end(CANCELLED)
        await self._reply.close()


class ExchangeSpans(Struct, frozen=True):
    """Everything that an exchange's spans are made of."""

    finished: Finished
    line: LogLine
    marks: Sequence[HookMark]
    servers: Mapping[str, ProviderServer]

    @property
    def shown_marks(self) -> Sequence[HookMark]:
        """Runs of hooks that have spans."""
        return self.marks[:MAX_MARKS]

    @property
    def model(self) -> str:
        """As the client named it."""
        exchange = self.finished.exchange
        return clipped(exchange.original.model) if exchange is not None else ""

    @property
    def name(self) -> str:
        """The operation and its model; for a path that is none, the method and the route."""
        operation = OPERATIONS.get(self.line.path)
        return f"{self.line.method} {_route(self.line)}" if operation is None else f"{operation} {self.model}".rstrip()

    @property
    def failed(self) -> str:
        """Why the exchange failed, "" when it did not: a client's own mistake, or a policy that refuses, is no failure."""
        line, exchange = self.line, self.finished.exchange
        if line.status >= 500 or (line.error and line.status < 400):
            return line.error or str(line.status)
        verdicts = exchange.verdicts if exchange is not None else ()
        return next(
            (v.code or "error" for v in verdicts if v.stage == "upstream" and v.outcome in _FAILED and "status" not in v.detail), ""
        )

    def attributes(self) -> dict[str, Value]:
        """Of the exchange's span."""
        line, exchange = self.line, self.finished.exchange
        passed = line.kind == PASSED_THROUGH
        found: dict[str, Value | None] = {
            **self._asked_of(line.path, line.upstream),
            "http.request.method": line.method,
            "http.route": _route(line),
            "url.path": f"{line.route.rstrip('/')}/v1{line.path}" if passed else None,
            "http.response.status_code": line.status or None,
            **{f"groundwire.{name}": getattr(line, name) for name in _LINE},
            "groundwire.warnings": list(line.warnings) or None,
            "groundwire.passed_through": passed or None,
            "groundwire.spans.dropped": max(0, len(self.marks) - MAX_MARKS) or None,
            "gen_ai.conversation.id": line.run,
            "error.type": self.failed,
        }
        if exchange is not None:
            found |= _asked(exchange) | _answered(exchange.answer) | _used(self.finished.usage)
            found |= {f"groundwire.{name}": getattr(exchange.facts, name) for name in _FACTS}
        return _carried(found)

    def events(self) -> Iterator[tuple[float | None, dict[str, Value]]]:
        """The verdicts that are not a pass, also on answers that were not delivered, each when its hook ended; None for at the end."""
        exchange = self.finished.exchange
        if exchange is None:
            return
        times = {id(mark.verdict): mark.ended for mark in self.marks if mark.verdict is not None}
        every = [verdict for attempt in exchange.attempts for verdict in attempt.verdicts] + exchange.verdicts
        for verdict in [one for one in every if one.outcome not in QUIET][:MAX_EVENTS]:
            yield times.get(id(verdict)), _carried({"groundwire.stage": verdict.stage, **_found(verdict)})

    def call_name(self, call: UpstreamCall) -> str:
        """Of a call's span."""
        operation = OPERATIONS.get(call.path)
        return f"{operation} {self.model}".rstrip() if operation else call.method

    def of_call(self, call: UpstreamCall) -> dict[str, Value]:
        """Of a call's span."""
        server = self.servers.get(call.upstream)
        return _carried(
            {
                **self._asked_of(call.path, call.upstream),
                "gen_ai.request.stream": call.stream or None,
                "gen_ai.response.time_to_first_chunk": call.first_chunk - call.started if call.stream and call.first_chunk else None,
                "server.address": server.address if server is not None else None,
                "server.port": server.port if server is not None else None,
                "http.request.method": call.method,
                "http.request.resend_count": call.attempts - 1 or None,
                "http.response.status_code": call.status or None,
                "groundwire.upstream": call.upstream,
                "error.type": call.error,
            }
        )

    def _asked_of(self, path: str, upstream: str) -> dict[str, Value | None]:
        server = self.servers.get(upstream)
        provider = server.provider if server is not None else None
        return {
            "gen_ai.operation.name": OPERATIONS.get(path),
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": self.model,
        }


def of_stage(mark: HookMark) -> dict[str, Value]:
    """Of the span of a hook's run."""
    found: dict[str, Value | None] = {"groundwire.stage": mark.stage, "groundwire.hook": mark.hook}
    if mark.verdict is not None:
        found |= _found(mark.verdict) | {"error.type": mark.verdict.code if mark.verdict.outcome == "error" else None}
    return _carried(found)


def _route(line: LogLine) -> str:
    """The path with whatever may be an identifier left out."""
    return line.route.rstrip("/") + "/v1" + (line.path if line.path in OPERATIONS else "/*")


def _asked(exchange: Exchange) -> dict[str, Value | None]:
    wants = exchange.original.wants
    return {
        **{f"gen_ai.request.{name}": value for name, value in wants.sampling.items()},
        "gen_ai.request.max_tokens": wants.max_output_tokens,
        "gen_ai.request.choice.count": wants.choices if wants.choices != 1 else None,
        "gen_ai.request.stream": exchange.original.stream or None,
    }


def _answered(answer: Answer | None) -> dict[str, Value | None]:
    if answer is None:
        return {}
    return {
        "gen_ai.response.model": clipped(answer.model),
        "gen_ai.response.finish_reasons": [clipped(choice.finish_reason or "") for choice in answer.choices] or None,
    }


def _used(usage: Usage | None) -> dict[str, Value | None]:
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        "groundwire.tokens_estimated": usage.estimated or None,
    }


def _found(verdict: Verdict) -> dict[str, Value | None]:
    return {"groundwire.outcome": verdict.outcome, "groundwire.code": verdict.code, "groundwire.score": verdict.score}


def _carried(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    """Those with a value, as OpenTelemetry can carry it: integers of 64 bits, text without halves of surrogate pairs."""
    return {name: _whole(value) for name, value in attributes.items() if value is not None and value != ""}


def utf8(text: str) -> str:
    """`text` as OpenTelemetry can carry it: one half of a surrogate pair, in a name or a label, keeps a whole batch from being sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _whole(value: Value) -> Value:
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return float(value) if abs(value) < 10**300 else str(value)[:50]
    if isinstance(value, list):
        return [str(_whole(item)) for item in value]
    return value
