"""How an answer leaves: tap, own, and what every delivery needs; hold and gate have modules of their own.

In: an upstream's reply with a 2xx status, the exchange, its pipeline. Out: bytes to the client through a `Responder`.

- *hold*: the whole answer is read and checked; then it leaves with every header.
- *gate*: events leave as they come, but answer text waits until its sentence is complete and has been judged.
- *tap*: bytes leave as they come; a stream is checked when it is whole, for the record (and the inline verdict), an answer that comes
  whole before it leaves, for its headers, too.
- *own*: a stage's answer in the model's stead, for which no upstream was asked.

A policy whose stages look at no answer is delivered as a tap whatever it says: there is nothing to wait for. Text that did not
change leaves in the upstream's own bytes. An error after the first byte is an event of the client's API.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import orjson
from msgspec import Struct

from proxy.delivery.recognised import UNREADABLE, refuse_unreadable
from proxy.errors import ProxyError, UpstreamUnreachable
from proxy.exchange import Exchange, Outcome, Verdict
from proxy.offloop import Breather, run_in_thread_if_large
from proxy.pipeline import Pipeline
from proxy.ports.upstream import Reply, limit, read_whole
from proxy.wire import sse
from proxy.wire.dialect import AnswerStream, Dialect
from proxy.wire.http.asgi import RawHeaders, Responder
from proxy.wire.http.headers import returned_headers

log = logging.getLogger("groundwire.delivery")


class Delivery(Struct):
    """Everything that the delivery of one answer needs."""

    exchange: Exchange
    pipeline: Pipeline
    dialect: Dialect
    reply: Reply
    responder: Responder
    own_headers: Callable[[str], RawHeaders]
    """Verdict -> the proxy's response headers."""
    inline: Callable[[], dict[str, Any]]
    """The verdict as it goes into the body."""
    max_bytes: int
    """Longest answer that is held; of several attempts, all together."""
    again: Callable[[], Awaitable[Reply]]
    """Ask the upstream once more, with the exchange as it is then."""
    asked_at: float
    """When the upstream was first asked, by `time.perf_counter`."""
    total_s: float
    """From then on, how long further attempts may take."""
    keep: Callable[[], Awaitable[None]] | None = None
    """Remembers the turn, where a client may go on from it by the answer's name alone."""
    settle: Callable[[], Awaitable[None]] | None = None
    """Tells that the answer has left, and what it took is known, though its checks go on."""

    def headers(self, verdict: str) -> RawHeaders:
        """The response headers, the upstream's own among them."""
        return returned_headers(self.reply) + self.own_headers(verdict)

    @property
    def judged(self) -> bool:
        """Whether any stage looks at the answer."""
        return self.pipeline.judges_answers(self.exchange)

    async def leaving(self) -> None:
        """The last of the answer is about to leave: from then on the client may go on from it."""
        if self.keep is not None:
            await self.keep()

    @property
    def verdict(self) -> str:
        """The verdict so far, for a header."""
        return self.pipeline.verdict(self.exchange)

    def unreadable(self, problem: str) -> None:
        """Note that the answer is not what the dialect knows, or says something that it does not read: no check of that can have run."""
        outcome: Outcome = "error" if self.judged else "warn"
        self.exchange.verdicts.append(Verdict("upstream", outcome, code=UNREADABLE, detail={"problem": problem}))

    def refuse_unreadable(self, problem: str) -> None:
        """Raises `PolicyBlocked` where the policy delivers nothing that it could not check."""
        if self.pipeline.closed(self.exchange):
            refuse_unreadable(self.exchange, problem)


TAIL_S = 1.0
"""So long an upstream has for what comes behind the end mark of a stream: as a rule the end of its body, and nothing else."""
PATIENCE_S = 0.5
"""So long a client waits under tap for checks, which change nothing of what it gets."""


async def deliver_own(
    exchange: Exchange,
    dialect: Dialect,
    responder: Responder,
    headers: Callable[[], RawHeaders],
    inline: Callable[[], dict[str, Any]],
    keep: Callable[[], Awaitable[None]],
) -> None:
    """An answer that a stage gave in the model's stead: it leaves at once, whatever the policy's delivery, and is not checked."""
    exchange.answer = dialect.own_answer(exchange)
    await keep()
    content_type, body = dialect.render_own(exchange, inline() if exchange.inline else None)
    fields = [(b"content-type", content_type.encode("ascii")), *headers()]
    if exchange.original.stream:
        await responder.start(200, fields)
        await responder.end(body)
    else:
        await responder.whole(200, fields, body)


async def deliver_body(d: Delivery) -> None:
    """An answer that is one JSON body, untouched; its headers say what its checks found."""
    exchange = d.exchange
    body = await read_whole(d.reply, d.max_bytes)
    last_byte = time.perf_counter()
    await d.reply.close()  # a check may need its place
    try:
        exchange.upstream_answer = exchange.answer = await run_in_thread_if_large(len(body), d.dialect.parse_answer, body)
    except ValueError as error:
        d.unreadable(str(error))
    else:
        if exchange.answer.unread:
            d.unreadable(f"text in {exchange.answer.unread} is not read")
    judged = d.judged
    if judged and not exchange.inline and not d.pipeline.enforces:  # shadow mode: nobody waits for what changes nothing
        await d.leaving()
        await d.responder.whole(d.reply.status, d.headers("pending"), body)
        await _check_afterwards(d)
        return
    if exchange.answer is None:
        await _leave(d, body, last_byte, d.verdict)
        return
    if not judged and not d.pipeline.has_background(exchange):  # nothing to wait for: a task would cost more than what it does
        inline = d.inline() if exchange.inline else None
        if inline is not None:
            body = await run_in_thread_if_large(len(body), d.dialect.render_answer, body, exchange.answer, exchange.answer, inline)
        await _leave(d, body, last_byte, d.verdict)
        return
    checking = asyncio.create_task(_check(d))
    try:
        await asyncio.wait((checking,), timeout=None if exchange.inline else PATIENCE_S)
        if checking.done():
            inline = d.inline() if exchange.inline else None
            body = await run_in_thread_if_large(len(body), d.dialect.render_answer, body, exchange.answer, exchange.answer, inline)
            await _leave(d, body, last_byte, d.verdict)
        else:  # nobody waits long for what changes nothing: the record will have it
            await _leave(d, body, last_byte, "pending")
            if d.settle is not None:
                await d.settle()
        await checking
    finally:
        if not checking.done():  # the client has gone
            checking.cancel()
            await asyncio.wait((checking,))


async def _leave(d: Delivery, body: bytes, last_byte: float, verdict: str) -> None:
    d.exchange.timings["after_ms"] = (time.perf_counter() - last_byte) * 1000
    if d.keep is not None:
        await d.keep()
    await d.responder.whole(d.reply.status, d.headers(verdict), body)


async def _check_afterwards(d: Delivery) -> None:
    """Run the checks of an answer that has left: its client may ask the next question meanwhile."""
    if d.settle is not None:
        await d.settle()
    await _check(d)


async def _check(d: Delivery) -> None:
    """Run the checks of an answer that leaves whatever they find: what they refuse can only be recorded."""
    before = d.exchange.answer
    try:
        await d.pipeline.wait_for_background(d.exchange)
        await d.pipeline.answer(d.exchange)
    except ProxyError as error:
        log.warning("%s: would be refused, but leaves (tap): %s", d.exchange.id, error.message)
    finally:
        d.exchange.answer = before


async def deliver_tap(d: Delivery) -> None:
    """A stream, untouched."""
    stream = d.dialect.stream()
    await d.responder.start(d.reply.status, d.headers("pending" if d.judged or d.pipeline.is_background_running(d.exchange) else d.verdict))
    ended = False
    try:
        if d.exchange.inline:
            ended = await _tap_with_verdict(d, stream)
        else:
            size, breather, whole = 0, Breather(), sse.WholeEvents()
            async for chunk in _through_end(d, stream):
                await breather.yield_if_due()
                size += len(chunk)
                if size <= d.max_bytes:
                    stream.feed(chunk)
                    if d.keep is not None and stream.complete:
                        d.exchange.upstream_answer = d.exchange.answer = stream.answer
                        await d.leaving()
                await d.responder.write(whole.feed(chunk))
            stream.finish()
            if stream.complete or stream.done or stream.error is not None or size > d.max_bytes:
                await d.responder.write(bytes(whole.unfinished))
            if size > d.max_bytes:  # it has left, but nobody can say what it was
                d.unreadable(f"longer than server.max_answer_bytes ({d.max_bytes} bytes)")
                await d.responder.end()
                return
    except ProxyError as error:
        await end_with_error(d, stream, error)
        return
    finally:
        d.exchange.upstream_answer = d.exchange.answer = stream.answer
    await d.reply.close()  # a check may need its place
    if not await end_broken(d, stream):
        await d.leaving()
        await d.responder.end(b"" if stream.done or ended else stream.end())
        if not ended:
            await _check_afterwards(d)


async def _through_end(d: Delivery, stream: AnswerStream) -> AsyncIterator[bytes]:
    """The reply's bytes. Once the answer's end mark has left the client may go: the answer is whole, and what may still come is not waited
    for long. (openai-python closes the connection at ``[DONE]``.)
    """
    chunks = d.reply.chunks()
    async for chunk in chunks:
        yield chunk
        if stream.done:
            break
    d.responder.unwatch()
    until = asyncio.get_running_loop().time() + TAIL_S
    with suppress(TimeoutError, StopAsyncIteration):
        while True:
            async with asyncio.timeout_at(until):
                chunk = await anext(chunks)
            yield chunk


async def _tap_with_verdict(d: Delivery, stream: AnswerStream) -> bool:
    """Pass events on, and hold the end mark back until the verdict is there; whether both have left. Raises `UpstreamUnreachable` where
    nobody could say what was in them.
    """
    size, mark, breather = 0, b"", Breather()
    async for chunk in d.reply.chunks():
        size += len(chunk)
        limit(size, d.max_bytes)
        for piece in stream.feed(chunk):
            await breather.yield_if_due()
            if piece.done:
                mark += piece.raw
            else:
                await d.responder.write(piece.raw)
    for piece in stream.finish():
        if piece.done:
            mark += piece.raw
        else:
            await d.responder.write(piece.raw)
    d.exchange.upstream_answer = d.exchange.answer = stream.answer
    await d.reply.close()
    if not stream.complete and not stream.done:
        return False
    await _check(d)
    await d.leaving()
    await d.responder.write(stream.end(d.inline(), mark))
    return True


async def end_with_error(d: Delivery, stream: AnswerStream, error: ProxyError) -> None:
    """After the first byte: what tells the client of the error."""
    log.warning("%s: %s", d.exchange.id, error.message)
    d.exchange.verdicts.append(Verdict("upstream", error.outcome, code=error.code))
    await d.responder.end(stream.encode_failure(error))


async def end_broken(d: Delivery, stream: AnswerStream) -> bool:
    """Tell the client when the stream stopped in mid-answer; whether it did."""
    if stream.unreadable:
        d.unreadable(stream.unreadable)
    if stream.error is not None:
        d.exchange.verdicts.append(
            Verdict("upstream", "upstream_error", code="upstream_error", detail={"error": orjson.dumps(stream.error).decode()[:500]})
        )
        return False
    if stream.complete or stream.done:
        return False
    await end_with_error(d, stream, UpstreamUnreachable("the upstream's stream ended before its answer was whole"))
    return True
