"""Calls of the proxy's own tools are answered here: one reply to the client out of several answers of the upstream.

In: the upstream's first reply, in an exchange that offers tools which a stage answers (`Stage.answers`). When the model calls one, the
proxy runs it, adds the turn to `exchange.messages`, has the stages' `on_forward` judge the longer prompt, and calls the upstream again.
Out: a `Reply` like any other, so that hold, gate and tap need not know. What is of the API's form is an `OwnToolFilter`'s business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from proxy.errors import ContextLengthExceeded
from proxy.exchange import Exchange, Message, Tool, ToolCall, Verdict
from proxy.pipeline import Pipeline
from proxy.ports.upstream import Reply, WrappedReply, is_event_stream, limit, read_whole
from proxy.wire.dialect import Dialect
from proxy.wire.own_tools import OwnToolTurn, result_of

MAX_CALLS = 16
"""How many calls of one answer are run."""
TOO_MANY = f"Error: not run. At most {MAX_CALLS} calls at once."
NOT_RUN = "Not run. Call it again if it is still needed."
"""For a call that a later request brings the result of."""


class OwnToolReply(WrappedReply):
    """Implements `proxy.ports.upstream.Reply` over the replies of one exchange, one for each round of calls."""

    def __init__(
        self,
        first: Reply,
        exchange: Exchange,
        pipeline: Pipeline,
        dialect: Dialect,
        send: Callable[[], Awaitable[Reply]],
        *,
        whole: bool,
        max_bytes: int,
    ) -> None:
        """`send` makes the next call; `whole` keeps an answer until it has ended; `max_bytes` limits each answer."""
        super().__init__(first)
        self._exchange, self._pipeline, self._dialect, self._send = exchange, pipeline, dialect, send
        self._filter = dialect.own_tool_filter(exchange, whole=whole)
        self._max_bytes = max_bytes
        self._round = self.attempts = 0
        self._own: frozenset[str] = frozenset()
        self._max_rounds = pipeline.own_calls.max_rounds(exchange)
        self._has_sent = self._plain = self._closed = False
        self._first = b""
        self._pieces = self._run()
        self._adopt(first)

    def _adopt(self, reply: Reply) -> None:
        """Go on with `reply`."""
        self._reply = reply
        self.status, self.headers, self.upstream = reply.status, reply.headers, reply.upstream
        self.attempts += reply.attempts
        self._exchange.upstream = reply.upstream
        self._own |= self._pipeline.own_calls.offered(self._exchange)
        self._filter.begin(self._own)

    async def open(self) -> None:
        """Go on until something may leave; until then an upstream's error can still be the reply. Raises `ProxyError`."""
        self._first = await anext(self._pieces, b"")

    async def chunks(self) -> AsyncIterator[bytes]:
        """What the client may see, as it comes."""
        if self._plain:
            async for piece in self._reply.chunks():
                yield piece
            return
        if self._first:
            yield self._first
        async for piece in self._pieces:
            yield piece

    async def close(self) -> None:
        """Give the current connection up."""
        self._closed = True
        await self._reply.close()

    async def _run(self) -> AsyncIterator[bytes]:
        """The pieces over all rounds; `_plain` when the reply is to pass as it is instead."""
        while True:
            if not 200 <= self.status < 300 or (self._has_sent and not is_event_stream(self.headers)):
                if self._has_sent:
                    yield self._filter.encode_failure(self.status, await read_whole(self._reply, self._max_bytes))
                else:
                    self._plain = True
                return
            if is_event_stream(self.headers):
                async for piece in self._stream():
                    yield piece
            elif (body := await self._body()) is not None:
                yield body
                return
            if not await self._next(self._filter.turn):
                break
        if rest := self._filter.close():
            yield rest

    async def _stream(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._reply.chunks():
            size += len(chunk)
            limit(size, self._max_bytes)
            if piece := self._filter.feed(chunk):
                self._has_sent = True
                yield piece
        if piece := self._filter.finish():
            self._has_sent = True
            yield piece

    async def _body(self) -> bytes | None:
        """Read a body into the filter; the body itself when it is nothing the filter knows."""
        body = await read_whole(self._reply, self._max_bytes)
        try:
            self._filter.read(body)
        except ValueError:
            return body
        return None

    async def _next(self, turn: OwnToolTurn) -> bool:
        """Run the turn's calls; whether another answer of the upstream follows. Raises `ProxyError`."""
        self._note_results(turn, (), ())
        if not turn.calls or not turn.whole:
            return False
        if self._round == self._max_rounds:
            self._note_end()
            return False
        started, offered = time.perf_counter(), self._exchange.tools
        try:
            calls = [call for call in turn.calls if not turn.has_client_calls or self._pipeline.own_calls.keeps_from(self._exchange, call)]
            results = await self._pipeline.own_calls.answer(self._exchange, calls[:MAX_CALLS])
            if turn.has_client_calls:
                self._note_results(turn, calls, results)
                return False
            results += [TOO_MANY] * (len(turn.calls) - MAX_CALLS)
            await self._prepare(self._filter.messages(turn.calls, results), offered)
        finally:
            timings = self._exchange.timings
            timings["between_ms"] = timings.get("between_ms", 0.0) + (time.perf_counter() - started) * 1000
        await self._call()
        return True

    def _note_results(self, turn: OwnToolTurn, calls: Sequence[ToolCall], results: Sequence[str]) -> None:
        """Have who goes on from an answer that its provider keeps bring what its calls gave: the client does not know of them."""
        if turn.answer_id and turn.calls:
            known = {call.id: result for call, result in zip(calls, results, strict=False)}
            told = tuple(result_of(call, known.get(call.id, NOT_RUN)) for call in turn.calls)
            self._exchange.open_results[turn.answer_id] = told

    async def _prepare(self, messages: Sequence[Message], offered: Sequence[Tool]) -> None:
        """Make the next request out of the exchange: with the turn, or, where the window has no room for it, as the last one was, but with
        none of the proxy's own among the tools that were `offered`. So a prompt that fitted ends no run.
        """
        exchange = self._exchange
        before, verdicts = exchange.messages, len(exchange.verdicts)
        exchange.messages = [*before, *messages]
        self._round += 1
        if self._round == self._max_rounds:
            self._dialect.refuse_calls(exchange, self._own)
        try:
            await self._pipeline.forward(exchange)
        except ContextLengthExceeded:
            exchange.messages, exchange.tools, exchange.verdicts[verdicts:] = before, offered, []
            self._note_end(context="full")
            self._round = self._max_rounds
            self._dialect.refuse_calls(exchange, self._own)
            await self._pipeline.forward(exchange)

    def _note_end(self, **why: str) -> None:
        """The record says that calls of the proxy's own tools are answered no more."""
        self._exchange.verdicts.append(Verdict("tools", "warn", code="tool_rounds_exhausted", detail={"rounds": self._round, **why}))

    async def _call(self) -> None:
        await self._reply.close()
        reply = await self._send()
        self._exchange.rounds += 1
        if self._closed:  # the client has left in the meantime, and nobody else will close it
            await reply.close()
            raise asyncio.CancelledError
        self._adopt(reply)
