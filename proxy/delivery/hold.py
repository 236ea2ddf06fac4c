"""Hold: an answer is read whole and judged before any of it leaves; a stage may have the upstream asked for another one.

In: an upstream's reply with a 2xx status, as one JSON body or as a stream. Out: the answer with every header, in the bytes of the
attempt that is delivered but for the text that stages changed and the usage, which is the sum over all attempts.

Another attempt is asked for when a stage sets `exchange.retry`, `MAX_ATTEMPTS` in all, within the upstream's total time and
``server.max_answer_bytes`` together. One that fails (an error, a timeout, nothing readable) leaves a verdict ``retry_failed``; the
answer before it is then judged once more, with `exchange.attempts.possible` false, so that the policy decides what becomes of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from proxy.delivery.tap import Delivery
from proxy.errors import ProxyError, UpstreamTimeout, UpstreamUnreachable
from proxy.exchange import Answer, Message, Verdict
from proxy.offloop import Breather, run_in_thread_if_large
from proxy.ports.upstream import Reply, is_event_stream, limit, read_whole
from proxy.wire.dialect import NO_CHANGES, AnswerStream, Dialect, StreamPiece, changes_of

log = logging.getLogger("groundwire.hold")

MAX_ATTEMPTS = 4
"""Upstream answers in one exchange, whatever its stages ask for: each costs the client a whole answer's time and money."""


class AttemptFailed(Exception):
    """An attempt that came to nothing."""

    def __init__(self, detail: Mapping[str, object]) -> None:
        super().__init__(detail)
        self.detail = detail


async def deliver_hold(d: Delivery) -> None:
    """An answer that leaves only when it is whole and judged. Raises `ProxyError`."""
    await _Hold(d).run()


class _Hold:
    """The answers of one exchange, and which of them leaves."""

    def __init__(self, d: Delivery) -> None:
        self._d, self._exchange = d, d.exchange
        self._answers: list[tuple[_Body | _Stream, Reply]] = []
        """As `exchange.attempts`, by position."""
        self._size = self._asked_at = 0
        self._has_failed = False
        self._since = d.asked_at
        """When the answer that is read was asked for; then, when its last byte came."""

    async def run(self) -> None:
        """Read, judge, deliver."""
        d, exchange = self._d, self._exchange
        buffer = await _read(d.reply, d.dialect, d.max_bytes)
        if buffer.unreadable:
            d.refuse_unreadable(buffer.unreadable)
            d.unreadable(buffer.unreadable)
        if buffer.refused:
            exchange.verdicts.append(Verdict("upstream", "upstream_error", code="upstream_error"))
        self._take(buffer)
        self._has_failed = buffer.refused  # no other is asked for: the client is to know of the error
        if buffer.answer is not None and not (buffer.refused and _is_silent(buffer.answer)):
            try:
                await self._judge()
            finally:
                self._total()
        buffer, d.reply = self._answers[-1 if exchange.deliver is None else exchange.deliver]
        inline = d.inline() if exchange.inline else None
        body = await run_in_thread_if_large(buffer.size, buffer.render, exchange.answer, inline, self._others(buffer))
        exchange.timings["after_ms"] = (time.perf_counter() - self._since) * 1000
        await d.leaving()
        if buffer.streamed:
            await d.responder.start(d.reply.status, d.headers(d.verdict))
            await d.responder.end(body)
        else:
            await d.responder.whole(d.reply.status, d.headers(d.verdict), body)

    def _take(self, buffer: _Body | _Stream) -> None:
        """A further answer is there."""
        now = time.perf_counter()
        ms, self._since = (now - self._since) * 1000, now
        self._size += buffer.size
        self._answers.append((buffer, self._d.reply))
        if buffer.answer is not None:
            self._exchange.attempts.present(self._exchange, buffer.answer, ms)

    async def _judge(self) -> None:
        """Run the answer's checks, on as many attempts as they ask for. Raises `PolicyBlocked`."""
        exchange = self._exchange
        while True:
            exchange.attempts.possible = not self._has_failed and len(self._answers) < MAX_ATTEMPTS and self._remaining_s() > 0
            try:
                await self._d.pipeline.answer(exchange)
            finally:
                exchange.attempts.possible = False
            if exchange.retry is None:
                return
            await self._again(exchange.retry)

    async def _again(self, messages: Sequence[Message]) -> None:
        """Have another attempt; or the present one once more, where none is to be had."""
        d, exchange = self._d, self._exchange
        self._note_processing()
        exchange.attempts.ask_again(exchange, messages)
        try:
            async with asyncio.timeout(self._remaining_s()):
                self._take(await self._ask())
            return
        except AttemptFailed as error:
            detail = error.detail
        except ProxyError as error:  # the upstream's, or a stage's that refuses the longer prompt
            detail = {"error": error.code}
        except TimeoutError:
            detail = {"error": UpstreamTimeout.code}
        log.warning("%s: another attempt failed: %s", exchange.id, detail)
        self._has_failed, self._since = True, time.perf_counter()
        if d.reply is not (before := self._answers[-1][1]):
            await d.reply.close()
            d.reply = before
        exchange.attempts.failed(exchange, Verdict("upstream", "warn", code="retry_failed", detail=detail))

    async def _ask(self) -> _Body | _Stream:
        """The upstream's next answer. Raises `AttemptFailed`, `ProxyError`."""
        d, exchange = self._d, self._exchange
        await d.pipeline.forward(exchange)
        self._note_processing()
        exchange.facts.retries = self._asked_at = self._asked_at + 1
        d.reply = await d.again()
        if not 200 <= d.reply.status < 300:
            code = d.dialect.error_code(await read_whole(d.reply, d.max_bytes))
            raise AttemptFailed({"error": "upstream_" + (code or str(d.reply.status)), "status": d.reply.status})
        buffer = await _read(d.reply, d.dialect, d.max_bytes - self._size)
        if buffer.refused or buffer.unreadable:
            raise AttemptFailed({"error": "upstream_error" if buffer.refused else "answer_unreadable"})
        return buffer

    def _note_processing(self) -> None:
        """Until now it was the proxy's time, not the upstream's."""
        now = time.perf_counter()
        timings = self._exchange.timings
        timings["between_ms"] = timings.get("between_ms", 0.0) + (now - self._since) * 1000
        self._since = now

    def _remaining_s(self) -> float:
        """What is left of the exchange's time."""
        return self._d.asked_at + self._d.total_s - time.perf_counter()

    def _others(self, delivered: _Body | _Stream) -> list[Usage]:
        """The usage of the attempts that are not delivered."""
        return [usage for buffer, _ in self._answers if buffer is not delivered and (usage := buffer.usage) is not None]

    def _total(self) -> None:
        """What all attempts together have used is what the answer has cost."""
        exchange = self._exchange
        if exchange.attempts.several and exchange.answer is not None and exchange.upstream_answer is not None:
            usage = exchange.attempts.usage()
            exchange.answer = replace(exchange.answer, usage=usage)
            exchange.upstream_answer = replace(exchange.upstream_answer, usage=usage)


def _is_silent(answer: Answer) -> bool:
    """Whether it says nothing that could be judged."""
    return not any(choice.text or choice.refusal or choice.tool_calls for choice in answer.choices)


Usage = Mapping[str, object]
"""As the upstream wrote it."""


async def _read(reply: Reply, dialect: Dialect, max_bytes: int) -> _Body | _Stream:
    """Read to the end, and give the connection up: a check of the answer, or another attempt, may need the only place there is.

    Raises `UpstreamUnreachable` (also when it is too long to hold, or broke off), `UpstreamTimeout`.
    """
    if not is_event_stream(reply.headers):
        body = await read_whole(reply, max_bytes)
        await reply.close()
        return await run_in_thread_if_large(len(body), _Body, body, dialect)
    found, breather = _Stream(dialect), Breather()
    async for chunk in reply.chunks():
        await run_in_thread_if_large(len(chunk), found.add, chunk)
        limit(found.size, max_bytes)
        await breather.yield_if_due()
    await reply.close()
    await run_in_thread_if_large(found.size, found.end)
    return found


class _Body:
    """One JSON body."""

    streamed = refused = False

    def __init__(self, body: bytes, dialect: Dialect) -> None:
        self._body, self._dialect, self.size = body, dialect, len(body)
        self.answer: Answer | None = None
        """None when it is not what the dialect knows."""
        self.unreadable = ""
        """What of it is not what the dialect knows; "" for nothing."""
        try:
            self.answer = dialect.parse_answer(body)
        except ValueError as error:
            self.unreadable = str(error) or "not JSON"
        else:
            self.unreadable = f"text in {self.answer.unread} is not read" if self.answer.unread else ""

    @property
    def usage(self) -> Usage | None:
        """As the upstream reported it."""
        return self._dialect.usage_of(self._body) if self.answer is not None else None

    def render(self, after: Answer | None, verdict: Mapping[str, object] | None, others: Sequence[Usage]) -> bytes:
        """The bytes for the client, with the texts, refusals and arguments of `after`, the usage of the `others` added, and the verdict."""
        if self.answer is None or after is None:
            return self._body
        return self._dialect.render_answer(self._body, self.answer, after, verdict, others)


class _Stream:
    """A stream's events."""

    streamed = True

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._reader: AnswerStream = dialect.stream(separate=True)
        self._chunks: list[bytes] = []
        self._pieces: list[StreamPiece] = []
        self.size = 0
        self.answer: Answer | None = None

    def add(self, chunk: bytes) -> None:
        """The next bytes."""
        self._chunks.append(chunk)
        self.size += len(chunk)
        self._pieces += self._reader.feed(chunk)

    def end(self) -> None:
        """No more come. Raises `UpstreamUnreachable` when it broke off."""
        self._pieces += self._reader.finish()
        if not self.refused and not self._reader.complete:
            raise UpstreamUnreachable("the upstream's stream ended before its answer was whole")
        self.answer = self._reader.answer

    @property
    def refused(self) -> bool:
        """Whether the upstream ended it with an error: it is not judged."""
        return self._reader.error is not None

    @property
    def unreadable(self) -> str:
        return self._reader.unreadable

    @property
    def usage(self) -> Usage | None:
        return self._reader.usage

    def render(self, after: Answer | None, verdict: Mapping[str, object] | None, others: Sequence[Usage]) -> bytes:
        before = self.answer or Answer(())
        after = after if self.answer is not None and after is not None else before
        changes, others = changes_of(before, after), others if self.usage is not None else ()
        if changes == NO_CHANGES and verdict is None and not others and self._reader.done:
            return b"".join(self._chunks)
        pieces = self._pieces if changes.texts or changes.refusals else self._unsplit_events()
        pieces = self._reader.apply_changes([self._reader.with_usage(piece, others) for piece in pieces if not piece.done], changes)
        return b"".join([*(self._reader.encode_outgoing(piece) for piece in pieces), self._reader.end(verdict)])

    def _unsplit_events(self) -> list[StreamPiece]:
        """The events, none of them taken apart."""
        reader = self._dialect.stream()
        return [piece for chunk in self._chunks for piece in reader.feed(chunk)] + reader.finish()
