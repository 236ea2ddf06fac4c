"""A request of a dialect: through the policy's stages, to the upstream, and its answer back through them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from proxy.config.settings import SHADOW
from proxy.context.lineage import beginnings_of, opening_of
from proxy.delivery import tap as delivery
from proxy.delivery.foreign_verdicts import WithoutForeignVerdicts
from proxy.delivery.gate import deliver_gate
from proxy.delivery.hold import deliver_hold
from proxy.delivery.own_tools import OwnToolReply
from proxy.delivery.recognised import Recognised
from proxy.errors import InvalidRequest, StoreUnavailable, UpstreamUnreachable
from proxy.exchange import Exchange, Prompt, Request, Unanswered, Verdict
from proxy.observe.recording import inline_detail
from proxy.offloop import run_in_thread_if_large
from proxy.policy.loading import Delivery
from proxy.ports.deadline import AwakeTimeout
from proxy.ports.upstream import OWN, Call, Past, Reply, is_event_stream, read_whole
from proxy.server.continuations import unchanged
from proxy.server.handler import Handler
from proxy.server.owners import OwnedReply
from proxy.upstreams.resilience import retry_after_s
from proxy.wire.bodies import check_keys, reading
from proxy.wire.dialect import Dialect
from proxy.wire.http import asgi
from proxy.wire.http.asgi import KeepAlive
from proxy.wire.http.headers import ClientHeaders, RequestHints, following, returned_headers
from proxy.wire.responses.items import SEARCH_SPEEDUP, may_name, named_in

log = logging.getLogger("groundwire.endpoint")

UNCHANGED_SPEEDUP = 20
"""Of a body in which nothing changed at most the extension is left out, at this many times the speed of writing it anew."""
KEEPING = "/responses"
"""The path of the API whose provider keeps conversations."""
LINEAGE_TIMEOUT_S = 2.0
MAX_ERROR_BYTES = 2**20
"""Of an upstream's own error; a longer body is none that a client could read."""


class Completion(Handler):
    """A request that the policy's stages see, and its answer."""

    _is_owned = False
    """Whether the provider keeps, under the operator's key, what the client may go on from."""

    async def _serve(self, path: str, headers: ClientHeaders, hints: RequestHints) -> None:
        dialect = self._dialect
        assert dialect is not None
        body = await asgi.read_body(self._scope, self._receive, self._services.server.max_body_bytes, self.room)
        self.responder.watch()
        if headers.encoding:
            body = await self.decode(body, headers.encoding)
        body = dialect.merge_address(body, self.path)
        request = await self._parse(dialect, body)
        dialect = self._dialect or dialect
        self._is_owned = dialect.path == KEEPING and self.route.keeps_for_operator and not self._translates
        names = self._is_owned and await run_in_thread_if_large(len(body) // SEARCH_SPEEDUP, may_name, body)
        limited = self._admission is not None and self._admission.needs_one_reading
        if self._policy.judges or limited or (names and self._services.clients.keyed):
            await run_in_thread_if_large(len(body), check_keys, body, dialect.conversation_field)
        if self._admission is not None:
            await self._admission.admit(request, dialect)
        if names:
            await self._check_owner(body)
        pipeline, found = self._policy.pipeline, None
        if pipeline.stages or self._translates:
            request, found = await self._join_history(request)
        self.exchange = exchange = self._make_exchange(request, hints, hints.run_id or await self._run_of(request))
        self._begin_record()
        if pipeline.stages:
            await self._run_request_stages(exchange, found)
        if exchange.answer is not None:
            await self._deliver_own(exchange, dialect)
            return
        ask = partial(self._ask, exchange, dialect, headers.forwarded)
        await self._deliver(exchange, dialect, await ask(), ask)

    async def _check_owner(self, body: bytes) -> None:
        """Raises `NotFound` where it goes on from what is another client's."""
        named, brought = await run_in_thread_if_large(len(body), named_in, body)
        await self._services.owners.check(self.route.upstream.name, named, self._client, self.party, brought)

    async def _run_request_stages(self, exchange: Exchange, found: Verdict | None) -> None:
        """The stages look at the request; `found` is what is to be said of its history."""
        if found is not None and self._policy.pipeline.ran(exchange):
            exchange.verdicts.append(found)
        await self._policy.pipeline.begin(exchange)
        if (kept := unchanged(exchange)) is not None:
            exchange.verdicts.append(kept)
        if (left_behind := await self._policy.pipeline.left_behind(exchange)) is not None:
            exchange.verdicts.append(left_behind)

    async def _join_history(self, request: Request) -> tuple[Request, Verdict | None]:
        """The request with what it only names of its conversation."""
        self._keeps = request.keeps
        if request.with_items is None and request.with_history is None and not request.unseen_items:
            return request, None
        return await self._services.continuations.joined(request, self._client)

    async def _parse(self, dialect: Dialect, body: bytes) -> Request:
        """The request, in the API that it is meant for: some clients send a body of one API to the path of another. Raises `ProxyError`."""
        try:
            return await run_in_thread_if_large(reading(body), dialect.parse_request, body)
        except InvalidRequest:
            meant = self._services.dialects.for_body(dialect.path, body)
            if meant is None:
                raise
        self._dialect = self._client_dialect = meant
        self.path = meant.path + self.path[len(dialect.path) :]
        return await run_in_thread_if_large(reading(body), meant.parse_request, body)

    async def _run_of(self, request: Request) -> str:
        """The run of a conversation whose client names none."""
        client, route = self._client, self.route.prefix
        if not self._policy.pipeline.needs_run_identity(request):
            return opening_of(client, route, request.messages)
        beginnings = await run_in_thread_if_large(request.quick_size, beginnings_of, client, route, request.messages)
        try:
            async with AwakeTimeout(LINEAGE_TIMEOUT_S):
                return await self._services.lineages.run_of(beginnings, client=client, route=route)
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
            step_id=hints.step_id or str(1 + _count_answers(request)),
            skip=hints.skip,
            enforced=enforced,
            inline=hints.inline,
            received_at=self.received_at,
            marks=self._trace.marks if self._trace is not None else None,
        )

    async def _ask(self, exchange: Exchange, dialect: Dialect, headers: list[tuple[str, str]]) -> Reply:
        """One answer of the upstream, over as many calls as the model's use of the proxy's own tools takes."""
        reply = await self._send(exchange, dialect, headers)
        self._replies.append(reply)
        exchange.upstream = reply.upstream
        if self._policy.pipeline.own_calls.offered(exchange):
            reply = await self._over_rounds(exchange, dialect, reply, headers)
        return reply

    async def _send(self, exchange: Exchange, dialect: Dialect, headers: list[tuple[str, str]]) -> Reply:
        """Call the upstream."""
        started = time.perf_counter()
        later, self._calls = self._calls, self._calls + 1
        request, prompt = exchange.original, exchange.prompt
        untouched = prompt.messages is request.messages and prompt.tools is request.tools and prompt.params is request.params
        untouched = untouched and not request.message_hints and not request.goes_on_from
        size = request.size // UNCHANGED_SPEEDUP if untouched else request.size
        body = await run_in_thread_if_large(size, dialect.render_request, exchange)
        own = frozenset(str(result["tool_call_id"]) for result in request.open_results)
        past = Past(request.server_side_history if request.held_whole else None, request.known_items, own)
        call = Call("POST", self.path, following(headers, later) if later else headers, body, request.stream, past=past, party=self.party)
        now = time.perf_counter()
        if later:
            exchange.timings["between_ms"] = exchange.timings.get("between_ms", 0.0) + (now - started) * 1000
        else:
            self._before_ms, self._asked_at = (now - self._started) * 1000, now
            if request.stream:
                self._alive = KeepAlive(self.responder, self._services.server.keep_alive_s, lambda: self._own_headers("pending"))
        reply = await self._call(call)
        if self._is_owned and 200 <= reply.status < 300:
            reply = OwnedReply(reply, self._services.owners, self.route.upstream.name, self._client)
        reply = self._recognise(exchange, dialect, body, reply)
        return WithoutForeignVerdicts(reply) if exchange.inline and is_event_stream(reply.headers) else reply

    def _recognise(self, exchange: Exchange, dialect: Dialect, body: bytes, reply: Reply) -> Reply:
        """The reply with what is recognised of it, where the policy refuses what it cannot check; else as it came."""
        if not self._policy.refuses or self._delivery(exchange) == "tap" or not self._policy.pipeline.closed(exchange):
            return reply
        return Recognised(
            reply,
            dialect.recogniser(exchange, body),
            exchange,
            refuses=self._policy.unknown == "refuse",
            max_bytes=self._services.server.max_answer_bytes,
            count=partial(self._services.metrics.count, "answers.left_out_count"),
        )

    async def _over_rounds(self, exchange: Exchange, dialect: Dialect, first: Reply, headers: list[tuple[str, str]]) -> Reply:
        """The reply of an exchange in which the model may call tools that the proxy answers itself."""
        rounds = self._replies[-1] = OwnToolReply(
            first,
            exchange,
            self._policy.pipeline,
            dialect,
            lambda: self._send(exchange, dialect, headers),
            whole=self._delivery(exchange) == "hold",
            max_bytes=self._services.server.max_answer_bytes,
        )
        await rounds.open()
        return rounds

    def _delivery(self, exchange: Exchange) -> Delivery:
        """How a streamed answer leaves: as the policy says, but as a tap where no stage looks at it."""
        pipeline, said = self._policy.pipeline, self._policy.delivery
        if said == "tap" or not pipeline.enforces or not pipeline.judges_answers(exchange):
            return "tap"
        return "gate" if said == "gate" and pipeline.judges_sentences(exchange) else "hold"

    async def _deliver(self, exchange: Exchange, dialect: Dialect, reply: Reply, again: Callable[[], Awaitable[Reply]]) -> None:
        d = delivery.Delivery(
            exchange=exchange,
            pipeline=self._policy.pipeline,
            dialect=dialect,
            reply=reply,
            responder=self.responder,
            own_headers=self._own_headers,
            inline=lambda: inline_detail(exchange, self._verdict()),
            max_bytes=self._services.server.max_answer_bytes,
            again=again,
            asked_at=self._asked_at,
            total_s=self.route.upstream.total_s,
            keep=partial(self._keep, exchange) if self._keeps else None,
            settle=self._measure_and_settle,
        )
        if self._policy.pipeline.has_background(exchange):
            await self._wait_for_background(exchange)
        if not 200 <= reply.status < 300:
            await self._pass_error(reply)
        elif not is_event_stream(reply.headers):
            if self.responder.early:  # it is a stream that has begun, and this cannot become one
                raise UpstreamUnreachable("the upstream's answer is none of the API that it was asked in")
            await (delivery.deliver_body if self._delivery(exchange) == "tap" else deliver_hold)(d)
        else:
            await {"tap": delivery.deliver_tap, "gate": deliver_gate, "hold": deliver_hold}[self._delivery(exchange)](d)

    async def _wait_for_background(self, exchange: Exchange) -> None:
        """Wait for the stages that look at the request while the model is asked."""
        started = time.perf_counter()
        with suppress(TimeoutError):
            async with asyncio.timeout(delivery.PATIENCE_S if self._delivery(exchange) == "tap" else None):
                await self._policy.pipeline.wait_for_background(exchange)
        waited_ms = (time.perf_counter() - started) * 1000
        exchange.timings["between_ms"] = exchange.timings.get("between_ms", 0.0) + waited_ms

    async def _deliver_own(self, exchange: Exchange, dialect: Dialect) -> None:
        """Send the answer that a stage gave in the model's stead."""
        self._services.metrics.count("answers.own_count")
        if self._is_owned and exchange.answer is not None and exchange.answer.id:
            await self._services.owners.add(self.route.upstream.name, [exchange.answer.id], self._client)
        exchange.upstream = OWN
        exchange.facts.context = None  # nothing was sent upstream
        self._before_ms = (time.perf_counter() - self._started) * 1000
        await delivery.deliver_own(
            exchange,
            dialect,
            self.responder,
            lambda: self._own_headers(self._verdict()),
            lambda: inline_detail(exchange, self._verdict()),
            partial(self._keep, exchange),
        )

    async def _pass_error(self, reply: Reply) -> None:
        """The upstream's own error: status, body and ``retry-after`` as they are."""
        body = await read_whole(reply, min(MAX_ERROR_BYTES, self._services.server.max_answer_bytes))
        if self.exchange is not None:
            code = self._client_dialect.error_code(body)
            self.exchange.verdicts.append(
                Verdict("upstream", "upstream_error", code="upstream_" + (code or str(reply.status)), detail={"status": reply.status})
            )
            self.exchange.unanswered = Unanswered(code, reply.status, retry_after_s(reply.headers))
            if code == "context_length_exceeded":
                self._services.metrics.count("context.length_exceeded_upstream_count")
        if self.responder.early:
            assert self.exchange is not None
            stream, told = (
                self._client_dialect.stream(),
                self._client_dialect.own_tool_filter(self.exchange, whole=False).encode_failure(reply.status, body),
            )
            stream.feed(told)
            await self.responder.end(told + stream.end())
            return
        await self.responder.whole(reply.status, returned_headers(reply) + self._own_headers(self._verdict()), body)


def _count_answers(request: Request) -> int:
    """How often the assistant has spoken."""
    try:
        return [message["role"] for message in request.messages].count("assistant")
    except KeyError:  # of another API's items
        return [message.get("role") for message in request.messages].count("assistant")
