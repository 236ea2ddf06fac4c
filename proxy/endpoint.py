"""One HTTP exchange from end to end: bytes in, policy, upstream, policy, bytes out, record.

`Endpoint` serves a route's ``/v1/*``: the paths of a dialect go through the policy pipeline, everything else is passed through
untouched. It is the only place where a request's errors become responses.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from proxy import asgi, delivery
from proxy.asgi import ClientGone, RawHeaders, Receive, Responder, Scope, Send
from proxy.config import ServerSettings
from proxy.errors import InternalError, InvalidRequest, NotFound, Overloaded, PolicyNotAllowed, ProxyError, RequestTooLarge
from proxy.exchange import Exchange, Request, Verdict
from proxy.gate import deliver_gate
from proxy.headers import PREFIX, Hints, parse_hints, plain_headers, response_headers
from proxy.keys import Clients
from proxy.metrics import Metrics
from proxy.pipeline import Pipeline
from proxy.policy import Delivery
from proxy.recording import Recorder, verdict_detail
from proxy.upstreams import Call, Reply
from proxy.upstreams.resilience import Resilient
from proxy.wire import Dialect

log = logging.getLogger("groundwire.endpoint")

_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"host",
        b"expect",
    )
)
"""RFC 9110 section 7.6.1, host, and expect (the server has answered it)."""
_MAX_HEADERS_BYTES = 65536
_REWRITTEN = _HOP_BY_HOP | {b"content-length", b"accept-encoding"}
_NOT_RETURNED = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "content-encoding",
    )
)
_NOT_RETURNED_RAW = _NOT_RETURNED - {"content-length", "content-encoding"}
_HINT = PREFIX.encode("ascii")
CLIENT_CLOSED_REQUEST = 499
"""Status in a record whose client left; nginx's convention, never sent."""


@dataclass(slots=True, frozen=True)
class ActivePolicy:
    """A loaded policy with its stages made."""

    label: str
    delivery: Delivery
    pipeline: Pipeline


@dataclass(slots=True, frozen=True)
class Route:
    """A prefix with what it leads to."""

    prefix: str
    upstream: Resilient
    default: ActivePolicy
    allowed: Mapping[str, ActivePolicy]
    allow_skip: bool


@dataclass(slots=True, frozen=True)
class Services:
    """What every exchange uses."""

    server: ServerSettings
    clients: Clients
    upstreams: Mapping[str, Resilient]
    recorder: Recorder
    metrics: Metrics
    stage_names: frozenset[str]
    dialects: Mapping[str, Dialect]
    """By path below ``/v1``."""


def new_id(now: float) -> str:
    """A record id: sorts by time, in microseconds; 56 random bits."""
    return f"gw_{int(now * 1e6):014x}{os.urandom(7).hex()}"


class Endpoint:
    """Serves the routes."""

    def __init__(self, services: Services) -> None:
        self._s = services

    async def __call__(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        """One request whose path is the route's prefix and ``/v1/…``."""
        job = _Job(self._s, route, scope, receive, Responder(receive, send))
        try:
            await job.run()
        except ClientGone:
            job.left()
        except asyncio.CancelledError:
            if job.responder.client_gone:
                job.left()
            else:
                await job.failed(Overloaded("the server is stopping and has waited long enough for this answer"))
        except ProxyError as error:
            await job.failed(error)
        except Exception:
            log.exception("%s: unexpected failure", job.id)
            await job.failed(InternalError("an internal error; the server's log has the details under this request's id"))
        finally:
            job.responder.unwatch()
            await job.finish()


class _Job:
    """The state of one request being served."""

    def __init__(self, services: Services, route: Route, scope: Scope, receive: Receive, responder: Responder) -> None:
        self._s, self.route, self._scope, self._receive, self.responder = services, route, scope, receive, responder
        self._started = time.perf_counter()
        self.received_at = time.time()
        self.id = new_id(self.received_at)
        self.path = _tail(scope, route.prefix)
        self._dialect = services.dialects.get(self.path.partition("?")[0]) if scope["method"] == "POST" else None
        """None for a path that is passed through."""
        self.exchange: Exchange | None = None
        self._policy: ActivePolicy = route.default
        self._reply: Reply | None = None
        self._client = ""
        self._before_ms = 0.0
        self._error: ProxyError | None = None

    async def run(self) -> None:
        """Serve it. Raises `ProxyError`, `ClientGone`."""
        if ".." in self.path.partition("?")[0].split("/"):
            raise NotFound("no such path")
        forwarded, hints, authorization = self._read_headers()
        self._client = self._s.clients.identify(authorization, self.route.prefix)
        dialect = self._dialect
        if dialect is None:
            await self._pass_through(forwarded)
            return
        self._policy = self._choose_policy(hints)
        body = await asgi.read_body(self._scope, self._receive, self._s.server.max_body_bytes)
        self.responder.watch()
        self.exchange = exchange = self._make_exchange(dialect.parse_request(body), hints)
        await self._policy.pipeline.request(exchange)
        call = Call("POST", self.path, forwarded, dialect.render_request(exchange), exchange.original.stream)
        self._before_ms = (time.perf_counter() - self._started) * 1000
        reply = self._reply = await self.route.upstream.send(call, self._s.upstreams)
        exchange.upstream = reply.upstream
        await self._deliver(exchange, dialect, reply)

    def _read_headers(self) -> tuple[list[tuple[str, str]], Hints, str]:
        """The headers to forward, Groundwire's own, and the ``Authorization``."""
        forwarded, hints, authorization, size = [], {}, "", 0
        dropped = _HOP_BY_HOP if self._dialect is None else _REWRITTEN
        named = _connection_names(self._scope["headers"])
        for name, value in self._scope["headers"]:
            size += len(name) + len(value)
            if name.startswith(_HINT):
                hints[name.decode("latin-1")] = value.decode("latin-1")
            elif name not in dropped and name not in named:
                forwarded.append((name.decode("latin-1"), _text(value)))
                if name == b"authorization":
                    authorization = forwarded[-1][1]
        if size > _MAX_HEADERS_BYTES:
            raise RequestTooLarge(f"the headers are larger than {_MAX_HEADERS_BYTES} bytes")
        return forwarded, parse_hints(hints), authorization

    def _choose_policy(self, hints: Hints) -> ActivePolicy:
        if hints.skip:
            if not self.route.allow_skip:
                raise PolicyNotAllowed(f"this route does not allow {PREFIX}skip (allow_skip: true would)", param=PREFIX + "skip")
            unknown = hints.skip - self._s.stage_names - {"all"}
            if unknown:
                known = ", ".join(sorted(self._s.stage_names))
                raise InvalidRequest(f"{PREFIX}skip: no stage {', '.join(sorted(unknown))}; known: all, {known}", param=PREFIX + "skip")
        if not hints.policy:
            return self.route.default
        policy = self.route.allowed.get(hints.policy)
        if policy is None:
            raise PolicyNotAllowed(f"this route does not allow the policy {hints.policy!r}", param=PREFIX + "policy")
        return policy

    def _make_exchange(self, request: Request, hints: Hints) -> Exchange:
        return Exchange(
            id=self.id,
            route=self.route.prefix,
            policy=self._policy.label,
            upstream=self.route.upstream.name,
            client=self._client,
            original=request,
            model=self.route.upstream.upstream.catalogue_name(request.model),
            messages=request.messages,
            tools=request.tools,
            params=request.params,
            run_id=hints.run_id or derived_run_id(self._client, self.route.prefix, request),
            step_id=hints.step_id or str(1 + sum(m.get("role") == "assistant" for m in request.messages)),
            skip=hints.skip,
            inline=hints.inline,
            received_at=self.received_at,
            evidence=list(request.passages),
        )

    async def _deliver(self, exchange: Exchange, dialect: Dialect, reply: Reply) -> None:
        pipeline = self._policy.pipeline
        d = delivery.Delivery(
            exchange=exchange, pipeline=pipeline, dialect=dialect, reply=reply, responder=self.responder,
            headers=self._response_headers, inline=lambda: verdict_detail(exchange, self._verdict()),
            keep_alive_s=self._s.server.keep_alive_s, max_bytes=self._s.server.max_answer_bytes,
        )  # fmt: skip
        content_type = next((value for name, value in reply.headers if name == "content-type"), "")
        if not 200 <= reply.status < 300:
            await self._pass_error(reply)
        elif not content_type.startswith(delivery.EVENT_STREAM):
            await delivery.deliver_body(d, tap=self._policy.delivery == "tap")
        elif self._policy.delivery == "tap" or not d.judged:
            await delivery.deliver_tap(d)
        elif self._policy.delivery == "gate" and pipeline.judges_sentences(exchange):
            await deliver_gate(d)
        else:
            await delivery.deliver_hold(d)

    async def _pass_error(self, reply: Reply) -> None:
        """The upstream's own error: status, body and ``retry-after`` as they are."""
        body = await reply.read()
        if self.exchange is not None:
            code = _error_code(body)
            self.exchange.verdicts.append(
                Verdict("upstream", "warn", code="upstream_" + (code or str(reply.status)), detail={"status": reply.status})
            )
            if code == "context_length_exceeded":
                self._s.metrics.count("context.length_exceeded_upstream_count")
        await self.responder.whole(reply.status, self._response_headers(self._verdict()), body)

    async def _pass_through(self, forwarded: list[tuple[str, str]]) -> None:
        """Any other path, byte for byte."""
        body: Any = b""
        if _has_body(self._scope):
            body = asgi.body_chunks(self._scope, self._receive, self._s.server.max_body_bytes)
        else:
            self.responder.watch()
        call = Call(self._scope["method"], self.path, forwarded, body, raw=True)
        self._before_ms = (time.perf_counter() - self._started) * 1000
        reply = self._reply = await self.route.upstream.send(call, self._s.upstreams)
        if body:
            self.responder.watch()
        headers = _returned(reply, _NOT_RETURNED_RAW) + plain_headers(self.id, "skipped")
        await self.responder.start(reply.status, headers)
        try:
            async for chunk in reply.chunks():
                await self.responder.write(chunk)
        except ProxyError as error:  # bytes have left: only a broken connection, which an unended response becomes, can tell the client
            self._error = error
            log.warning("%s: %s", self.id, error.message)
        else:
            await self.responder.end()

    def _response_headers(self, verdict: str) -> RawHeaders:
        headers = _returned(self._reply, _NOT_RETURNED) if self._reply is not None else []
        return headers + self._own_headers(verdict)

    def _own_headers(self, verdict: str) -> RawHeaders:
        if self.exchange is None:
            return plain_headers(self.id, verdict)
        return response_headers(self.exchange, verdict, self._before_ms + self.exchange.timings.get("after_ms", 0.0))

    def _verdict(self) -> str:
        return "skipped" if self.exchange is None else self._policy.pipeline.verdict(self.exchange)

    def left(self) -> None:
        """The client has left."""
        if not self.responder.ended:
            self.responder.status = CLIENT_CLOSED_REQUEST
            self._s.metrics.count("client.gone_count")

    async def failed(self, error: ProxyError) -> None:
        """Answer with the error, if nothing has been sent yet."""
        self._error = error
        if self.responder.started:
            log.error("%s: failed after the response had started: %s", self.id, error.message)
            return
        if error.status >= 500:
            log.warning("%s: %d %s: %s", self.id, error.status, error.code, error.message)
        verdict = self._verdict() if self.exchange is not None else "error" if error.status >= 500 else "skipped"
        if self._before_ms == 0.0:
            self._before_ms = (time.perf_counter() - self._started) * 1000
        await self.responder.error(error, self._own_headers(verdict))

    async def finish(self) -> None:
        """Give the connection back and leave a record."""
        if self._reply is not None:
            await self._reply.close()
        self._s.recorder.record(
            record_id=self.id, received_at=self.received_at, duration_ms=(time.perf_counter() - self._started) * 1000,
            overhead_ms=self._before_ms, client=self._client, route=self.route.prefix, path=self.path, status=self.responder.status,
            verdict=self._verdict(), exchange=self.exchange, reply=self._reply, error=self._error, policy=self._policy.label,
            upstream=self.route.upstream.name,
        )  # fmt: skip


def derived_run_id(client: str, route: str, request: Request) -> str:
    """The same for every turn of a conversation: from client, route, system messages and the first user message."""
    digest = hashlib.blake2b(f"{client}\0{route}\0".encode("utf-8", "surrogateescape"), digest_size=12)
    for message in request.messages:
        digest.update(orjson.dumps([message.get("role"), message.get("content")]))
        if message.get("role") == "user":
            break
    return "run_" + digest.hexdigest()


def _tail(scope: Scope, prefix: str) -> str:
    """What follows ``/v1``, as it was sent, with the query."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    start = prefix.encode("ascii") + b"/v1"
    tail = raw[len(start) :] if raw.startswith(start) else quote(scope["path"][len(prefix) + 3 :]).encode("ascii")
    query = scope.get("query_string") or b""
    return (tail + b"?" + query if query else tail).decode("latin-1")


def _text(value: bytes) -> str:
    """A header value as text that encodes to UTF-8 again; RFC 9110 leaves the bytes above ASCII open."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _has_body(scope: Scope) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in scope["headers"])


def _connection_names(headers: Sequence[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Headers that ``connection`` declares to be for this hop only."""
    for name, value in headers:
        if name == b"connection" and value.lower() not in (b"keep-alive", b"close"):
            return frozenset(part.strip().lower() for part in value.split(b","))
    return frozenset()


def _returned(reply: Reply, dropped: frozenset[str]) -> RawHeaders:
    """The upstream's headers for the client."""
    return [(k.encode(), v.encode("utf-8", "surrogateescape")) for k, v in reply.headers if k not in dropped]


def _error_code(body: bytes) -> str:
    """The code inside an upstream's error body, if it is a plain word."""
    try:
        error = orjson.loads(body)["error"]
        code = error.get("code") or error.get("type")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    return code if isinstance(code, str) and code.isascii() and code.replace("_", "").isalnum() else ""
