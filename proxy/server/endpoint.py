"""One HTTP exchange from end to end: bytes in, policy, upstream, policy, bytes out, record.

`Endpoint` serves a route's ``/v1/*``: the paths of a dialect go through the policy pipeline, everything else is passed through
untouched. It is the only place where a request's errors become responses.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import structs

from proxy.config.paths import normal
from proxy.config.settings import SHADOW
from proxy.context.lineage import beginnings_of, opening_of
from proxy.delivery import tap as delivery
from proxy.delivery.buffering import read_whole
from proxy.delivery.gate import deliver_gate
from proxy.delivery.hold import deliver_hold
from proxy.delivery.own_tools import Rounds
from proxy.errors import (
    ContextLengthExceeded,
    InternalError,
    InvalidRequest,
    Overloaded,
    PolicyNotAllowed,
    ProxyError,
    StoreUnavailable,
    UpstreamTimeout,
    UpstreamUnreachable,
    WebSocketRefused,
)
from proxy.exchange import Exchange, Prompt, Request, Unanswered, Verdict
from proxy.observe import logs
from proxy.observe.finished import Finished, log_line
from proxy.observe.recording import inline_detail
from proxy.observe.tracing.context import parent_of
from proxy.offloop import aside
from proxy.policy.loading import Delivery
from proxy.ports.upstream import Call, Past, Reply, is_event_stream
from proxy.server.continuations import Keeping, unchanged
from proxy.server.routes import ActivePolicy, Route, Services
from proxy.upstreams.resilience import retry_after_s
from proxy.wire.bodies import reading
from proxy.wire.dialect import Dialect, TokenCount
from proxy.wire.duplicate_keys import check_duplicates
from proxy.wire.http import asgi
from proxy.wire.http.asgi import ClientGone, RawHeaders, Receive, Responder, Scope, Send
from proxy.wire.http.forwarding import NOT_RETURNED_RAW, client_headers, following, has_body, returned_headers, tail, wants_websocket
from proxy.wire.http.headers import PREFIX, RequestHints, parse_hints, plain_headers
from proxy.wire.http.peers import not_from_here
from proxy.wire.http.whole import offered

log = logging.getLogger("groundwire.endpoint")

OWN = "groundwire"
"""What a record names as upstream of an answer that a stage gave."""
ESTIMATED = b"tokens_estimated"
"""Warns of a count of tokens that is this proxy's own."""
UNTOUCHED = 20
"""Of a body in which nothing changed at most the extension is left out, at this many times the speed of writing it anew."""
LINEAGE_TIMEOUT_S = 2.0
MAX_ERROR_BYTES = 2**20
"""Of an upstream's own error; a longer body is none that a client could read."""
CLIENT_CLOSED_REQUEST = 499
"""Status in a record whose client left; nginx's convention, never sent."""


def new_id(now: float) -> str:
    """A record id: sorts by time, in microseconds; 56 random bits."""
    return f"gw_{int(now * 1e6):014x}{os.urandom(7).hex()}"


class Endpoint:
    """Serves the routes."""

    def __init__(self, services: Services) -> None:
        self._s = services
        self._departures = asgi.Departures()

    async def __call__(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        """One request whose path is the route's prefix and ``/v1/…``."""
        job = _Job(self._s, route, scope, receive, Responder(receive, send, self._departures, offered(scope)))
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
        self.path = tail(scope, route.prefix)
        path = self.path.partition("?")[0]
        self._dialect = services.dialects.of(path) if scope["method"] == "POST" else None
        """None for a path that is passed through."""
        self._spoken = self._dialect or services.dialects.spoken(path, scope["headers"])
        """What the client understands."""
        self.exchange: Exchange | None = None
        self._policy: ActivePolicy = route.default
        self._replies: list[Reply] = []
        """One for each answer of the upstream that was asked for, in order."""
        self._calls = 0
        """Calls of the upstream so far, without its own retries."""
        self._asked_at = 0.0
        self._client = ""
        self._before_ms = 0.0
        self._error: ProxyError | None = None
        self._keeping: Keeping | None = None
        self._trace = services.tracing.begin(scope["headers"]) if services.tracing is not None else None

    async def run(self) -> None:
        """Serve it. Raises `ProxyError`, `ClientGone`."""
        path = self.path.partition("?")[0]
        if self._dialect is None:  # a dialect's own path is the one that it was found by
            normal(path)
        if wants_websocket(self._scope):
            raise WebSocketRefused("there is no WebSocket here: use HTTP, with server-sent events", headers=(("upgrade", "HTTP/1.1"),))
        if self.route.own_machine_only and (problem := not_from_here(self._scope)):
            raise PolicyNotAllowed(f"without keys (keys:, or server.allow_anonymous, in config.yaml) {problem}")
        dialect = self._dialect
        headers = client_headers(self._scope["headers"], raw=dialect is None)
        hints = parse_hints(headers.hints)
        self._client = self._s.clients.identify(*self._credentials(headers.keys))
        self._policy = self._choose_policy(hints)
        if dialect is None:
            self._check_passes(path)
            await self._pass_through(headers.forwarded)
            return
        body = await asgi.read_body(self._scope, self._receive, self._s.server.max_body_bytes)
        self.responder.watch()
        request = await self._parse(dialect, body)
        dialect = self._dialect or dialect
        if self._policy.judges:
            await aside(len(body), check_duplicates, body)
        request, found = await self._continued(request)
        self.exchange = exchange = self._make_exchange(request, hints, hints.run_id or await self._run_of(request))
        exchange.verdicts += [] if found is None or not self._policy.pipeline.ran(exchange) else [found]
        await self._policy.pipeline.begin(exchange)
        if (kept := unchanged(exchange)) is not None:
            exchange.verdicts.append(kept)
        if exchange.answer is not None:
            await self._deliver_own(exchange, dialect)
            return
        ask = partial(self._ask, exchange, dialect, headers.forwarded)
        await self._deliver(exchange, dialect, await ask(), ask)

    async def _continued(self, request: Request) -> tuple[Request, Verdict | None]:
        """The request with what it only names of its conversation."""
        if not self._policy.pipeline.stages and not self._translates:
            return request, None
        if request.keeps:
            self._keeping = self._s.continuations.begin(self._client, lambda: self.responder.ended)
        return await self._s.continuations.joined(request, self._client)

    @property
    def _translates(self) -> bool:
        """Whether the provider does not keep what the client's API keeps."""
        return self._dialect is not None and self._dialect.path in self.route.translated

    async def _keep(self, exchange: Exchange) -> None:
        """The client may go on from this answer by its name alone."""
        if self._keeping is None:
            return
        try:
            if self._error is None and exchange.unanswered is None and (self._translates or self._policy.pipeline.ran(exchange)):
                await self._s.continuations.keep(exchange, self._client, own=exchange.upstream == OWN)
        finally:
            self._s.continuations.end(self._client, self._keeping)

    async def _parse(self, dialect: Dialect, body: bytes) -> Request:
        """The request, in the API that it is meant for: some clients send a body of one API to the path of another. Raises `ProxyError`."""
        try:
            return await aside(reading(body), dialect.parse_request, body)
        except InvalidRequest:
            meant = self._s.dialects.meant(dialect.path, body)
            if meant is None:
                raise
        self._dialect = self._spoken = meant
        self.path = meant.path + self.path[len(dialect.path) :]
        return await aside(reading(body), meant.parse_request, body)

    def _credentials(self, keys: Mapping[str, str]) -> tuple[list[tuple[str, str]], str, str]:
        """The client's keys, the route they are for, and how the client's API sends one."""
        names = self._spoken.key_headers
        form = "Authorization: Bearer KEY" if names[0] == "authorization" else f"{names[0]}: KEY"
        return [(name, keys[name]) for name in names if name in keys], self.route.prefix, form

    def _check_passes(self, path: str) -> None:
        """Raises `ProxyError` for what this route does not pass on."""
        method = self._scope["method"]
        if method == "OPTIONS" and self._s.dialects.of(path) is not None:  # the upstream alone knows which pages may ask it
            return
        refusal = self.route.paths.refusal(method, path, strict=self._policy.refuses)
        if refusal is not None:
            raise refusal

    async def _ask(self, exchange: Exchange, dialect: Dialect, headers: list[tuple[str, str]]) -> Reply:
        """One answer of the upstream, over as many calls as the model's use of the proxy's own tools takes."""
        reply = await self._send(exchange, dialect, headers)
        self._replies.append(reply)
        exchange.upstream = reply.upstream
        if self._policy.pipeline.own_tools(exchange):
            reply = await self._over_rounds(exchange, dialect, reply, headers)
        return reply

    async def _send(self, exchange: Exchange, dialect: Dialect, headers: list[tuple[str, str]]) -> Reply:
        """Call the upstream."""
        started = time.perf_counter()
        later, self._calls = self._calls, self._calls + 1
        request, prompt = exchange.original, exchange.prompt
        untouched = prompt.messages is request.messages and prompt.tools is request.tools and prompt.params is request.params
        untouched = untouched and not request.message_hints and not request.goes_on_from
        size = request.size // UNTOUCHED if untouched else request.size
        body = await aside(size, dialect.render_request, exchange)
        past = Past(request.held if request.held_whole else None, request.known_items)
        call = Call("POST", self.path, following(headers, later) if later else headers, body, request.stream, past=past)
        now = time.perf_counter()
        if later:
            exchange.timings["between_ms"] = exchange.timings.get("between_ms", 0.0) + (now - started) * 1000
        else:
            self._before_ms, self._asked_at = (now - self._started) * 1000, now
        return await self._call(call)

    async def _call(self, call: Call) -> Reply:
        """Make the call, within a span of its own where there are any."""
        if self._trace is not None:
            return await self._trace.send(self.route.upstream, call, self._s.upstreams)
        return await self.route.upstream.send(call, self._s.upstreams)

    async def _over_rounds(self, exchange: Exchange, dialect: Dialect, first: Reply, headers: list[tuple[str, str]]) -> Reply:
        """The reply of an exchange in which the model may call tools that the proxy answers itself."""
        rounds = self._replies[-1] = Rounds(
            first,
            exchange,
            self._policy.pipeline,
            dialect,
            lambda: self._send(exchange, dialect, headers),
            whole=self._delivery(exchange) == "hold",
            max_bytes=self._s.server.max_answer_bytes,
        )
        await rounds.open()
        return rounds

    def _delivery(self, exchange: Exchange) -> Delivery:
        """How a streamed answer leaves: as the policy says, but as a tap where no stage looks at it."""
        pipeline, said = self._policy.pipeline, self._policy.delivery
        if said == "tap" or not pipeline.enforces or not pipeline.judges_answers(exchange):
            return "tap"
        return "gate" if said == "gate" and pipeline.judges_sentences(exchange) else "hold"

    def _choose_policy(self, hints: RequestHints) -> ActivePolicy:
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

    async def _run_of(self, request: Request) -> str:
        """The run of a conversation whose client names none."""
        client, route = self._client, self.route.prefix
        if not self._policy.pipeline.remembers(request):
            return opening_of(client, route, request.messages)
        beginnings = await aside(request.size, beginnings_of, client, route, request.messages)
        try:
            async with asyncio.timeout(LINEAGE_TIMEOUT_S):
                return await self._s.lineages.run_of(beginnings, client=client, route=route)
        except (StoreUnavailable, TimeoutError) as error:  # what is remembered is then away, too
            log.debug("%s: the run's beginnings cannot be looked up: %s", self.id, error)
            return beginnings.opening

    def _make_exchange(self, request: Request, hints: RequestHints, run_id: str) -> Exchange:
        enforced = self._policy.pipeline.enforces
        return Exchange(
            id=self.id,
            route=self.route.prefix,
            policy=self._policy.label,
            upstream=self.route.upstream.name,
            client=self._client if enforced else self._client + SHADOW,
            original=request,
            model=self.route.upstream.upstream.catalogue_name(request.model),
            prompt=Prompt(request.messages, request.tools, request.params, evidence=request.passages),
            run_id=run_id,
            step_id=hints.step_id or str(1 + [m.get("role") for m in request.messages].count("assistant")),
            skip=hints.skip,
            enforced=enforced,
            inline=hints.inline,
            received_at=self.received_at,
            marks=self._trace.marks if self._trace is not None else None,
        )

    async def _deliver(self, exchange: Exchange, dialect: Dialect, reply: Reply, again: Callable[[], Awaitable[Reply]]) -> None:
        d = delivery.Delivery(
            exchange=exchange,
            pipeline=self._policy.pipeline,
            dialect=dialect,
            reply=reply,
            responder=self.responder,
            own_headers=self._own_headers,
            inline=lambda: inline_detail(exchange, self._verdict()),
            keep_alive_s=self._s.server.keep_alive_s,
            max_bytes=self._s.server.max_answer_bytes,
            again=again,
            asked_at=self._asked_at,
            total_s=self.route.upstream.total_s,
        )
        await self._told(exchange)
        if not 200 <= reply.status < 300:
            await self._pass_error(reply)
        elif not is_event_stream(reply.headers):
            await (delivery.deliver_body if self._delivery(exchange) == "tap" else deliver_hold)(d)
        else:
            await {"tap": delivery.deliver_tap, "gate": deliver_gate, "hold": deliver_hold}[self._delivery(exchange)](d)

    async def _told(self, exchange: Exchange) -> None:
        """Wait for the stages that look at the request while the model is asked."""
        if not self._policy.pipeline.owes(exchange):
            return
        started = time.perf_counter()
        with suppress(TimeoutError):
            async with asyncio.timeout(delivery.PATIENCE_S if self._delivery(exchange) == "tap" else None):
                await self._policy.pipeline.told(exchange)
        waited_ms = (time.perf_counter() - started) * 1000
        exchange.timings["between_ms"] = exchange.timings.get("between_ms", 0.0) + waited_ms

    async def _deliver_own(self, exchange: Exchange, dialect: Dialect) -> None:
        """Send the answer that a stage gave in the model's stead."""
        self._s.metrics.count("answers.own_count")
        exchange.upstream = OWN
        exchange.facts.context = None  # nothing was sent upstream
        self._before_ms = (time.perf_counter() - self._started) * 1000
        await delivery.deliver_own(
            exchange,
            dialect,
            self.responder,
            lambda: self._own_headers(self._verdict()),
            lambda: inline_detail(exchange, self._verdict()),
        )

    async def _pass_error(self, reply: Reply) -> None:
        """The upstream's own error: status, body and ``retry-after`` as they are."""
        body = await read_whole(reply, min(MAX_ERROR_BYTES, self._s.server.max_answer_bytes))
        if self.exchange is not None:
            code = self._spoken.error_code(body)
            self.exchange.verdicts.append(
                Verdict("upstream", "upstream_error", code="upstream_" + (code or str(reply.status)), detail={"status": reply.status})
            )
            self.exchange.unanswered = Unanswered(code, reply.status, retry_after_s(reply.headers))
            if code == "context_length_exceeded":
                self._s.metrics.count("context.length_exceeded_upstream_count")
        await self.responder.whole(reply.status, returned_headers(reply) + self._own_headers(self._verdict()), body)

    async def _pass_through(self, forwarded: list[tuple[str, str]]) -> None:
        """Any other path, byte for byte."""
        body: Any = b""
        if has_body(self._scope):
            body = asgi.body_chunks(self._scope, self._receive, self._s.server.max_body_bytes)
        else:
            self.responder.watch()
        call = Call(self._scope["method"], self.path, forwarded, body, raw=True)
        self._before_ms = (time.perf_counter() - self._started) * 1000
        if (count := self._counting()) is not None:
            await self._count(count, call)
            return
        reply = await self._call(call)
        self._replies.append(reply)
        if body:
            self.responder.watch()
        headers = returned_headers(reply, NOT_RETURNED_RAW) + plain_headers(self.id, "skipped")
        await self.responder.start(reply.status, headers)
        try:
            async for chunk in reply.chunks():
                await self.responder.write(chunk)
        except ProxyError as error:  # bytes have left: only a broken connection, which an unended response becomes, can tell the client
            self._error = error
            log.warning("%s: %s", self.id, error.message)
        else:
            await self.responder.end()

    def _counting(self) -> TokenCount | None:
        return self._s.counts.get(self.path.partition("?")[0]) if self._scope["method"] == "POST" else None

    async def _count(self, count: TokenCount, call: Call) -> None:
        """The upstream's count of a prompt's tokens, or this proxy's own, which says that it is an estimate."""
        body = b"".join([piece async for piece in call.body]) if not isinstance(call.body, bytes) else call.body
        self.responder.watch()
        forwarded = [(name, value) for name, value in call.headers if name not in ("accept-encoding", "content-length")]
        reply = await self._call(structs.replace(call, headers=forwarded, body=body, raw=False))
        self._replies.append(reply)
        answer, headers = await read_whole(reply, MAX_ERROR_BYTES), plain_headers(self.id, "skipped")
        if not count.missing(reply.status, answer):
            await self.responder.whole(reply.status, returned_headers(reply) + headers, answer)
            return
        request = await aside(len(body), count.parse, body)
        model = self._s.tokens.model(self.route.upstream.upstream.catalogue_name(request.model))
        use = await self._s.tokens.count_request(request.messages, request.tools, request.wants, model)
        headers += [(b"content-type", b"application/json"), *([] if use.exact else [(b"x-groundwire-warnings", ESTIMATED)])]
        await self.responder.whole(200, headers, count.render(use.used_tokens))

    def _own_headers(self, verdict: str) -> RawHeaders:
        if self.exchange is None:
            return plain_headers(self.id, verdict)
        exchange, timings = self.exchange, self.exchange.timings
        return self._s.headers(
            exchange.facts,
            exchange.verdicts,
            record_id=exchange.id,
            policy=exchange.policy,
            verdict=verdict,
            overhead_ms=self._before_ms + timings.get("between_ms", 0.0) + timings.get("after_ms", 0.0),
            enforced=exchange.enforced,
        )

    def _verdict(self) -> str:
        if self.exchange is not None:
            return self._policy.pipeline.verdict(self.exchange)
        return "skipped" if self._error is None or self._error.status < 500 else self._error.outcome

    def left(self) -> None:
        """The client has left."""
        if self.exchange is not None:
            self._policy.pipeline.abandon(self.exchange)
        if not self.responder.ended:
            self.responder.status = CLIENT_CLOSED_REQUEST
            self._s.metrics.count("client.gone_count")

    async def failed(self, error: ProxyError) -> None:
        """Answer with the error, if nothing has been sent yet."""
        self._error = error
        if self.exchange is not None and isinstance(error, UpstreamUnreachable | UpstreamTimeout | ContextLengthExceeded):
            self.exchange.unanswered = Unanswered(error.code, error.status)
        if self.exchange is not None and error.status >= 500:
            stage = "upstream" if error.outcome == "upstream_error" else "server"
            self.exchange.verdicts.append(Verdict(stage, error.outcome, code=error.code))
        if self.responder.started:
            log.error("%s: failed after the response had started: %s", self.id, error.message)
            return
        if error.status >= 500:
            log.warning("%s: %d %s: %s", self.id, error.status, error.code, error.message)
        if self._before_ms == 0.0:
            self._before_ms = (time.perf_counter() - self._started) * 1000
        await self.responder.error(error, self._own_headers(self._verdict()), self._spoken.error(error))

    async def finish(self) -> None:
        """Give the connection back and leave a record."""
        exchange, pipeline = self.exchange, self._policy.pipeline
        if exchange is not None:
            await self._keep(exchange)
            await pipeline.conclude(exchange)
            pipeline.release(exchange)
        for reply in self._replies:
            await reply.close()
        finished = self._finished()
        await self._s.recorder.record(finished)
        if exchange is not None and pipeline.learns(exchange):
            self._s.afterwards.submit(lambda: pipeline.done(exchange))
        line = log_line(finished)
        logs.exchange(line)
        if self._trace is not None:
            self._trace.finish(finished, line)

    def _finished(self) -> Finished:
        """All that is known of it now."""
        exchange, place = self.exchange, self._trace.context if self._trace is not None else parent_of(self._scope["headers"])
        answered_by = self._replies[-1].upstream if self._replies else self.route.upstream.name
        return Finished(
            id=self.id,
            exchange=exchange,
            status=self.responder.status,
            verdict=self._verdict(),
            method=self._scope["method"],
            path=self.path.partition("?")[0],
            passed_through=self._dialect is None,
            route=self.route.prefix,
            client=self._client,
            upstream=exchange.upstream if exchange is not None else answered_by,
            tries=sum(reply.attempts for reply in self._replies),
            error=self._error,
            received_at=self.received_at,
            started=self._started,
            duration_ms=(time.perf_counter() - self._started) * 1000,
            overhead_ms=self._before_ms + (exchange.timings.get("between_ms", 0.0) if exchange is not None else 0.0),
            trace_id=place.trace_hex if place is not None else "",
        )
