"""What every request has in common: who asks, under which policy, how it ends, and what is recorded of it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping

from proxy.config.access import ANONYMOUS, normal
from proxy.errors import (
    INTERRUPTIONS,
    ContextLengthExceeded,
    InternalError,
    InvalidApiKey,
    InvalidRequest,
    Overloaded,
    PolicyBlocked,
    PolicyNotAllowed,
    ProxyError,
    UpstreamTimeout,
    UpstreamUnreachable,
    WebSocketRefused,
)
from proxy.exchange import Exchange, Unanswered, Usage, Verdict
from proxy.ledger import NOBODY, Holding
from proxy.observe import logs
from proxy.observe.finished import CLIENT_CLOSED_REQUEST, Finished, log_line
from proxy.observe.tracing import trace_id_of
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports.upstream import OWN, Call, Reply
from proxy.server.admission import Admission, without_upstreams
from proxy.server.cross_origin import ANSWERS_PAGES, is_preflight, origin_of
from proxy.server.routes import ActivePolicy, Route, Services
from proxy.server.usage import usage_of
from proxy.wire.decisions.asked import Billing
from proxy.wire.dialect import Dialect
from proxy.wire.http import asgi
from proxy.wire.http.asgi import ClientGone, KeepAlive, RawHeaders, Receive, Responder, Scope
from proxy.wire.http.encodings import decode_body
from proxy.wire.http.headers import PREFIX, ClientHeaders, RequestHints, client_headers, parse_hints, plain_headers
from proxy.wire.http.peers import foreign_name, reason_for_remote

log = logging.getLogger("groundwire.endpoint")

_METHOD_IN_QUERY = re.compile(r"[?&]_method(?:=|&|$)", re.I)


_RANDOM_BYTES, _FETCHED = 7, 256
"""Of one id, and for how many they are fetched together: a call of the system takes longer than all else that an id is made of."""
_random: list[str] = []
"""In hex, each for one id."""
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_random.clear)


def new_id(now: float) -> str:
    """A record id: sorts by time, in microseconds; 56 random bits."""
    while True:
        try:
            return f"gw_{int(now * 1e6):014x}{_random.pop()}"
        except IndexError:
            fetched = os.urandom(_RANDOM_BYTES * _FETCHED).hex("-", _RANDOM_BYTES)
            _random.extend(fetched.split("-"))


class Handler(ABC):
    """One request being served."""

    def __init__(
        self,
        services: Services,
        route: Route,
        scope: Scope,
        receive: Receive,
        responder: Responder,
        path: str,
        dialect: Dialect | None,
    ) -> None:
        self._services, self.route, self._scope, self._receive, self.responder = services, route, scope, receive, responder
        self._started = time.perf_counter()
        self.received_at = services.clock.now()
        self.id = new_id(self.received_at)
        self.path = path
        """Behind the route's prefix, with the query."""
        self._dialect = dialect
        """None for a path that is passed through."""
        self._client_dialect = dialect or services.dialects.for_client(path.partition("?")[0], scope["headers"])
        """What the client understands."""
        self.exchange: Exchange | None = None
        self._policy: ActivePolicy = route.default
        self._replies: list[Reply] = []
        """One for each answer of the upstream that was asked for, in order."""
        self._calls = 0
        """Calls of the upstream so far, without its own retries."""
        self._asked_at = 0.0
        self._client = ""
        self._admission: Admission | None = None
        """Of a client with a key."""
        self.party, self.room = NOBODY, Holding(services.ledger)
        """Who is charged for what the request takes, and what its body has."""
        self._before_ms = 0.0
        self._error: ProxyError | None = None
        self._billing = Billing()
        """What an answer that was passed through says that it took."""
        self._usage: Usage | None = None
        """What the request took."""
        self._measured = False
        self._keeps = False
        """Whether its turn is to be kept."""
        self._alive: KeepAlive | None = None
        """Of a stream, since its upstream was asked."""
        self._trace = services.tracing.begin(scope["headers"]) if services.tracing is not None else None

    async def serve(self) -> None:
        """From end to end: the only place where a request's errors become responses."""
        try:
            await self._run()
        except ClientGone:
            self._note_departure()
        except asyncio.CancelledError:
            if self.responder.client_gone:
                self._note_departure()
            else:
                await self._answer_error(Overloaded("the server is stopping and has waited long enough for this answer"))
        except ProxyError as error:
            await self._answer_error(error)
        except INTERRUPTIONS:
            raise
        except BaseException:
            log.exception("%s: unexpected failure", self.id)
            await self._answer_error(InternalError("an internal error; the server's log has the details under this request's id"))
        finally:
            if not self.responder.ended:
                self.responder.unwatch()
            await self._finish()

    async def _run(self) -> None:
        """Raises `ProxyError`, `ClientGone`."""
        path = self.path.partition("?")[0]
        if self._dialect is None:  # a dialect's own path is the one that it was found by
            normal(path)
        if ("?" in self.path or "&" in self.path) and _METHOD_IN_QUERY.search(self.path):
            raise InvalidRequest("a query that names another method (_method) is not passed on")
        headers = client_headers(self._scope["headers"], raw=self._dialect is None)
        if headers.websocket:
            message = "there is no WebSocket here, only at /v1/responses: use HTTP, with server-sent events"
            raise WebSocketRefused(message, headers=(("upgrade", "HTTP/1.1"),))
        if problem := self._why_foreign():
            raise PolicyNotAllowed(f"without keys (keys:, or server.allow_anonymous, in config.yaml) {problem}")
        if ANSWERS_PAGES in self._scope:
            headers.forwarded = [item for item in headers.forwarded if item[0] != "origin"]
        hints = parse_hints(headers.hints)
        self._client = ANONYMOUS if self._scope["method"] == "OPTIONS" and is_preflight(self._scope) else await self._identify(headers.keys)
        if self._services.admissions is not None:
            self._admission = self._services.admissions.of(self._client, self.id, self.route.upstream)
        self._services.recorder.open.add(self.id, self._client, self.route.prefix)
        self._policy = self._choose_policy(hints)
        await self._serve(path, headers, hints)

    def _begin_record(self) -> None:
        """It is about to be served: from the answer's first byte on it has a row, whatever becomes of this process."""
        route, path = self.route, self.path.partition("?")[0]
        known = {"client": self._client, "route": route.prefix, "upstream": route.upstream.name, "path": path}
        begun = self._services.recorder.begin(self.id, self.received_at, self.exchange, **known)
        self.responder.before = begun

    async def decode(self, body: bytes, encoding: str) -> bytes:
        """A compressed body, which takes its room as it is read. Raises `UnsupportedEncoding`, `RequestTooLarge`, `Overloaded`."""
        found = await run_in_thread_if_large(LARGE, decode_body, body, encoding, self._services.server.max_body_bytes)
        asgi.take(self.room, len(found))
        return found

    def _why_foreign(self) -> str:
        """Why the request may be none of this machine's own programs', where nothing else tells clients from web pages; else ""."""
        hosts = self._services.server.hosts
        if self.route.own_machine_only:
            return reason_for_remote(self._scope, hosts)
        return "" if self._services.clients.keyed or self._services.server.allow_anonymous else foreign_name(self._scope, hosts)

    @abstractmethod
    async def _serve(self, path: str, headers: ClientHeaders, hints: RequestHints) -> None:
        """What is particular to the request, once it is known who asks and under which policy."""

    async def _identify(self, keys: Mapping[str, str]) -> str:
        """The client; from here on it is charged. Raises `InvalidApiKey`, `RateLimited`, `PolicyNotAllowed`."""
        address, ledger = str((self._scope.get("client") or ("", 0))[0]), self._services.ledger
        try:
            try:
                client = self._services.clients.identify(*self._credentials(keys))
            except InvalidApiKey:
                if not keys or self._services.admissions is None or not await self._services.admissions.ring.look_before_refusal():
                    raise
                client = self._services.clients.identify(*self._credentials(keys))
        except InvalidApiKey:
            if keys:
                await ledger.wrong_key(ledger.wrong_client_keys, address)
            raise
        self.party = ledger.client(client, address, keyed=self._services.clients.keyed)
        self.room.party = self.party
        return client

    def _credentials(self, keys: Mapping[str, str]) -> tuple[list[tuple[str, str]], str, str]:
        """The client's keys, the route they are for, and how the client's API sends one."""
        names = self._client_dialect.key_headers
        form = "Authorization: Bearer KEY" if names[0] == "authorization" else f"{names[0]}: KEY"
        return [(name, keys[name]) for name in names if name in keys], self.route.prefix, form

    def _choose_policy(self, hints: RequestHints) -> ActivePolicy:
        if hints.skip:
            if not self.route.allow_skip:
                raise PolicyNotAllowed(f"this route does not allow {PREFIX}skip (allow_skip: true would)", param=PREFIX + "skip")
            unknown = hints.skip - self._services.stage_names - {"all"}
            if unknown:
                known = ", ".join(sorted(self._services.stage_names))
                raise InvalidRequest(f"{PREFIX}skip: no stage {', '.join(sorted(unknown))}; known: all, {known}", param=PREFIX + "skip")
        if not hints.policy:
            return self.route.default
        policy = self.route.allowed.get(hints.policy)
        if policy is None:
            raise PolicyNotAllowed(f"this route does not allow the policy {hints.policy!r}", param=PREFIX + "policy")
        return policy

    def _call(self, call: Call) -> Awaitable[Reply]:
        """Make the call, within a span of its own where there are any."""
        upstream, others = self.route.upstream, self._services.upstreams
        sending = upstream.send(call, others) if self._trace is None else self._trace.send(upstream, call, others)
        origin = origin_of(self._scope)
        sending = self._services.grants.note(self.route.prefix, origin, sending) if origin else sending
        return sending if self._admission is None else self._without_operator_limits(sending)

    async def _without_operator_limits(self, sending: Awaitable[Reply]) -> Reply:
        """The reply, which says nothing of the operator's own limits where the client's are counted."""
        assert self._admission is not None
        self._admission.asked = True
        reply = await sending
        if self._admission.counts:
            reply.headers = without_upstreams(reply.headers)
        return reply

    @property
    def _translates(self) -> bool:
        """Whether the provider, or one that stands in for it, does not keep what the client's API keeps."""
        return self._dialect is not None and self._dialect.path in self.route.translated

    def _api_asked_in(self, upstream: str) -> str:
        """The API in which an upstream was asked where it does not speak the client's; else ""."""
        asked_in = self.route.asked_in
        return "" if self._dialect is None or upstream not in asked_in else asked_in[upstream].get(self._dialect.path, "")

    async def _keep(self, exchange: Exchange) -> None:
        """The client may go on from this answer by its name alone; once is enough."""
        keeps, self._keeps = self._keeps, False
        if keeps and self._error is None and exchange.unanswered is None and (self._translates or self._policy.pipeline.ran(exchange)):
            translated = bool(self._api_asked_in(exchange.upstream))
            await self._services.continuations.keep(exchange, self._client, own=exchange.upstream == OWN, translated=translated)

    def _own_headers(self, verdict: str) -> RawHeaders:
        limited = [] if self._admission is None else self._admission.headers
        if self.exchange is None:
            return plain_headers(self.id, verdict) + limited
        exchange, timings = self.exchange, self.exchange.timings
        return limited + self._services.headers(
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

    def _note_departure(self) -> None:
        """The client has left."""
        if self.exchange is not None:
            self._policy.pipeline.abandon(self.exchange)
        if not self.responder.ended:
            self.responder.status = CLIENT_CLOSED_REQUEST
            self._services.metrics.count("client.gone_count")

    async def _answer_error(self, error: ProxyError) -> None:
        """Answer with the error, if nothing has been sent yet."""
        self._error = error
        if self.exchange is not None and isinstance(error, UpstreamUnreachable | UpstreamTimeout | ContextLengthExceeded):
            self.exchange.unanswered = Unanswered(error.code, error.status)
        if self.exchange is not None and error.status >= 500:
            stage = "upstream" if error.outcome == "upstream_error" else "server"
            self.exchange.verdicts.append(Verdict(stage, error.outcome, code=error.code))
        if self.responder.early and not self.responder.ended:
            await self.responder.end(self._encode_failure(error))
            return
        if self.responder.started:
            log.error("%s: failed after the response had started: %s", self.id, error.message)
            return
        if error.status >= 500:
            log.warning("%s: %d %s: %s", self.id, error.status, error.code, error.message)
        if self._before_ms == 0.0:
            self._before_ms = (time.perf_counter() - self._started) * 1000
        granted = self._services.grants.headers(self.route.prefix, self._scope)
        if isinstance(error, PolicyBlocked) and self.exchange is not None:
            streams = self.exchange.original.stream
            told = self._client_dialect.withheld(error, streams=streams, answered=bool(self._replies))
            if told is not None:
                headers = [(b"content-type", told[0].encode()), *self._own_headers(self._verdict()), *granted]
                await self.responder.whole(200, headers, told[1])
                return
        await self.responder.error(error, self._own_headers(self._verdict()) + granted, self._client_dialect.error(error))

    def _encode_failure(self, error: ProxyError) -> bytes:
        """The events that tell of `error` in a stream that began before there was an answer."""
        log.warning("%s: %s", self.id, error.message)
        stream = self._client_dialect.stream()
        return stream.encode_block([0]) + stream.end() if isinstance(error, PolicyBlocked) else stream.encode_failure(error)

    async def _finish(self) -> None:
        """Give the connection back and leave a record."""
        if self._alive is not None:
            self._alive.close()
        try:
            await self._conclude()
        finally:
            self.room.release()
            self._services.recorder.open.remove(self.id)
            self._settle()
            if (error := self._error) is not None:  # its traceback's frames know this handler: the collector stops all to free a large body
                error.__traceback__ = error.__context__ = error.__cause__ = None

    def _settle(self) -> None:
        """What the request took is known: of its key's limits it holds nothing any more. Once is enough."""
        if self._admission is not None and not self._admission.ended:
            self._admission.end(self._finished(), self._replies)

    async def _measure_and_settle(self) -> None:
        """The answer has left, though its checks go on: no limit waits for them."""
        if self._admission is not None:
            await self._measure()
            self._settle()

    async def _measure(self) -> None:
        """What the request took, of whoever answered. Once is enough."""
        exchange, answered = self.exchange, any(200 <= reply.status < 300 for reply in self._replies)
        if self._measured:
            return
        if exchange is None:
            estimate = self._admission.estimate if self._admission is not None and answered else None
            self._usage = self._billing.usage or estimate
            return
        self._usage = exchange.answer.usage if exchange.answer is not None else None
        if answered:
            try:
                self._usage = await usage_of(exchange, self._services.tokens, left=self.responder.status == CLIENT_CLOSED_REQUEST)
            except asyncio.CancelledError:  # the server stops and waits no longer: its record comes without them
                log.info("%s: its tokens were not counted: the server is stopping", self.id)
            except Exception:  # a record without these figures is better than none
                log.exception("%s: its tokens could not be counted", self.id)
        self._measured = True

    async def _conclude(self) -> None:
        exchange, pipeline = self.exchange, self._policy.pipeline
        if exchange is not None:
            if self._keeps:
                await self._keep(exchange)
            if pipeline.stages:
                await pipeline.conclude(exchange)
                pipeline.release(exchange)
        for reply in self._replies:
            await reply.close()
        await self._measure()
        finished = self._finished()
        await self._services.recorder.record(finished)
        if exchange is not None and pipeline.stages and pipeline.learns(exchange):
            self._services.learning_tasks.submit(lambda: pipeline.done(exchange))
        line = log_line(finished)
        logs.exchange(line)
        if self._trace is not None:
            self._trace.finish(finished, line)

    def _finished(self) -> Finished:
        """All that is known of it now."""
        exchange = self.exchange
        answered_by = self._replies[-1].upstream if self._replies else self.route.upstream.name
        upstream = exchange.upstream if exchange is not None else answered_by
        tries = 0
        for reply in self._replies:
            tries += reply.attempts
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
            upstream=upstream,
            asked_in=self._api_asked_in(upstream) if self._replies else "",
            model=self._billing.model,
            usage=self._usage,
            usd=self._billing.usd,
            tries=tries,
            error=self._error,
            received_at=self.received_at,
            started=self._started,
            duration_ms=(time.perf_counter() - self._started) * 1000,
            overhead_ms=self._before_ms + (exchange.timings.get("between_ms", 0.0) if exchange is not None else 0.0),
            trace_id=self._trace.trace_id if self._trace is not None else trace_id_of(self._scope["headers"]),
        )
