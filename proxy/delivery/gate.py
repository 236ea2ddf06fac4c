"""Gate delivery: a streamed answer leaves sentence by sentence, each after the policy's checks.

Text deltas wait until their sentence is complete and every `SentenceStage` has answered, and what closes or opens the part of an answer
that they stand in waits with them; what is no part of the order in which texts stand (of chat: tool-call deltas, reasoning, usage) passes
at once; while text waits, keep-alive comments flow. Sentence k is judged while sentence k+1 streams. A choice's end, a refusal, a call that
a client would act on, the usage chunk and the end mark wait for the checks of the whole answer, so that a late refusal still ends the
stream as one that a filter stopped.

Under a policy that refuses what it cannot check nothing is shown that no check was given: what a call of the client's tool takes waits for
those of the whole answer, and an answer that breaks off or is refused is given to them as far as it came, before the client is told.

What was sent and what is being checked are two things (after NeMo-Guardrails' buffer): `_Line` holds the events of one choice in order and
releases those that judged text covers, cutting an event in two where a sentence ends inside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from proxy.delivery.tap import Delivery, end_broken, end_with_error
from proxy.errors import PolicyBlocked, ProxyError
from proxy.exchange import Answer, Sentence
from proxy.language.text import SentenceSplitter
from proxy.offloop import Breather
from proxy.ports.upstream import limit
from proxy.wire.dialect import AnswerStream, StreamPiece

log = logging.getLogger("groundwire.delivery")

Leave = Callable[[], bytes]
"""Gives the bytes of an event at the moment when it leaves: not before, for they may depend on what has left."""


async def deliver_gate(d: Delivery) -> None:
    """A stream, judged sentence by sentence."""
    stream = d.dialect.stream(separate=True)
    d.exchange.gated = True
    await d.responder.start(d.reply.status, d.headers("pending"))
    gate = Gate(d, stream)
    try:
        await gate.run()
    except PolicyBlocked:
        gate.close()
        await gate.hand_over()
        await d.responder.end(stream.encode_block(gate.open_choices()) + stream.end(d.inline() if d.exchange.inline else None))
    except ProxyError as error:
        gate.close()
        await gate.hand_over()
        await end_with_error(d, stream, error)
    finally:
        gate.close()
        d.exchange.upstream_answer = stream.answer
        d.exchange.answer = gate.released_answer()


class Gate:
    """One streamed answer behind the gate."""

    def __init__(self, d: Delivery, stream: AnswerStream) -> None:
        self._d, self._stream = d, stream
        self._lines: dict[int, _Line] = {}
        self._tail: list[StreamPiece | Leave] = []
        """Refusals and calls: what waits for the checks of the whole answer."""
        self._ends: list[StreamPiece] = []
        """What waits behind those: choices' ends, the usage chunk, an error."""
        self._waits = False
        """Whether such a call, or a refusal that stands between texts, is in it: then what was judged behind it waits, too."""
        self._answer: Answer | None = None
        """As it left, once it is whole."""
        self._closed = d.pipeline.closed(d.exchange)
        """Whether nothing may leave that no check was given."""
        self._handed_over = False
        """Whether the checks of the whole answer were given it."""
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the first exception of any task."""

    async def run(self) -> None:
        """Read, judge and release until the end. Raises `ProxyError`."""
        await self._until(self.start(self._read()))
        for line in self._lines.values():
            line.close()
            await self._until(line.worker)
        if not (self._stream.complete or self._stream.done or self._stream.error):
            await self.hand_over()
        if await end_broken(self._d, self._stream):
            return
        exchange = self._d.exchange
        exchange.upstream_answer = self._stream.answer
        exchange.answer = released = self.released_answer()
        self._handed_over = True
        await self._until(self.start(self._d.pipeline.answer(exchange)))
        refusals = (exchange.answer or released).changed_refusals(released)
        for index, text in refusals.items():
            released = released.with_refusal(index, text)
        exchange.answer = self._answer = released  # the text has left: of that, a change can no longer be made
        tail = self._ending(refusals)
        end = self._stream.end(self._d.inline() if exchange.inline else None)
        self.close()
        await self._d.leaving()
        await self._d.responder.end(b"".join([*tail, end]))

    async def hand_over(self) -> None:
        """The answer will not be whole: give the checks what came of it. What they refuse of it can only be recorded."""
        if self._handed_over or not self._closed:
            return
        self._handed_over = True
        exchange = self._d.exchange
        exchange.upstream_answer = self._stream.answer
        exchange.answer = released = self.released_answer()
        try:
            await self._d.pipeline.answer(exchange)
        except ProxyError as error:
            log.warning("%s: what has left of an answer that is not whole would be refused: %s", exchange.id, error.message)
        exchange.answer = released

    def _ending(self, refusals: Mapping[int, str]) -> list[bytes]:
        """What has waited for the checks of the whole answer, with these `refusals` in place of the model's."""
        rest, out = dict(refusals), []
        for piece in (*self._tail, *self._ends):
            if not isinstance(piece, StreamPiece):
                out.append(piece())
            elif piece.refusal and piece.choice in rest:
                out.append(self._stream.with_refusal(piece, rest[piece.choice]))
                rest[piece.choice] = ""
            else:
                out.append(self._stream.encode_outgoing(piece))
        return out

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` beside the rest; its failure ends the gate."""
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._note)
        self._tasks.append(task)
        return task

    def _note(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _until(self, task: asyncio.Task[None]) -> None:
        await asyncio.wait({task, self._failure}, return_when=asyncio.FIRST_COMPLETED)
        if self._failure.done():
            self._failure.result()
        task.result()

    def close(self) -> None:
        """Stop every task."""
        for task in self._tasks:
            task.cancel()
        if not self._failure.done():
            self._failure.cancel()
        elif not self._failure.cancelled():
            self._failure.exception()  # seen

    def open_choices(self) -> list[int]:
        """Choices whose end has not been sent; the first, when nothing has come yet."""
        return sorted(self._lines) or [0]

    def released_answer(self) -> Answer:
        """The answer as the client got it."""
        if self._answer is not None:
            return self._answer
        answer = self._stream.answer
        for index, line in self._lines.items():
            answer = answer.with_text(index, "".join(line.released))
        return answer

    async def _read(self) -> None:
        size = 0
        async for chunk in self._d.reply.chunks():
            size += len(chunk)
            limit(size, self._d.max_bytes)
            await self._take_all(self._stream.feed(chunk))
        await self._d.reply.close()  # a check may need its place
        await self._take_all(self._stream.finish())

    async def _take_all(self, pieces: Sequence[StreamPiece]) -> None:
        if self._stream.unreadable:
            self._d.refuse_unreadable(self._stream.unreadable)
        breather = Breather()
        for piece in pieces:
            await self._take(piece)
            await breather.yield_if_due()

    async def _take(self, piece: StreamPiece) -> None:
        if piece.done:
            return
        if piece.choice is None:
            if self._lines and (self._stream.error is not None or all(line.ended for line in self._lines.values())):
                self._ends.append(piece)  # an error leaves behind the text that came before it
            else:
                await self.send(self._stream.encode_outgoing(piece))
            return
        line = self._lines.get(piece.choice)
        if line is None:
            line = self._lines[piece.choice] = _Line(piece.choice, self, self._stream)
        if piece.finish:
            line.end()
            self._ends.append(piece)
        elif piece.refusal and not piece.waits:  # judged with the whole answer: where the words of a refusal end nobody can tell before
            self._tail.append(piece)
        elif piece.text or piece.waits or piece.parts or piece.acts:
            line.push(piece)
        elif piece.has_call_input and self._closed:  # of an API in which it stands in no order with the text
            self._tail.append(piece)
        else:
            await self.send(self._stream.encode_outgoing(piece))

    async def send(self, raw: bytes) -> None:
        """To the client, now."""
        await self._d.responder.write(raw)

    async def release(self, leaving: Sequence[tuple[StreamPiece, Leave]]) -> None:
        """To the client, or behind a call that waits for the checks of the whole answer."""
        for piece, leave in leaving:
            self._waits = self._waits or piece.acts or piece.refusal or (piece.has_call_input and self._closed)
            if self._waits:
                self._tail.append(piece if piece.refusal else leave)
            else:
                await self.send(leave())

    async def judge(self, sentence: Sentence) -> str:
        """What leaves instead of `sentence`. Raises `PolicyBlocked`."""
        return await self._d.pipeline.sentence(self._d.exchange, sentence)


@dataclass(slots=True)
class _Pending:
    """An event whose text has not left, or not all of it; or one without text that waits for the text before it."""

    piece: StreamPiece
    start: int = 0
    """Characters of its text that have left."""

    @property
    def unsent_chars(self) -> int:
        """Characters that have not."""
        return len(self.piece.text) - self.start


class _Line:
    """One choice's events in order, its sentences, and the task that judges them."""

    def __init__(self, choice: int, gate: Gate, stream: AnswerStream) -> None:
        self._choice, self._gate, self._stream = choice, gate, stream
        self._pending: deque[_Pending] = deque()
        self._approved_chars = 0
        """Judged characters of the first held event, which waits whole because it cannot be cut."""
        self._splitter = SentenceSplitter()
        self._queue: asyncio.Queue[tuple[str, bool] | None] = asyncio.Queue()
        self.ended = self._closed = False
        """Whether the choice's end has come."""
        self.released: list[str] = []
        """What the client got."""
        self.worker = gate.start(self._work())

    def push(self, piece: StreamPiece) -> None:
        """A text event, or one that waits for text."""
        self._pending.append(_Pending(piece))
        if piece.parts and (rest := self._splitter.flush()):
            self._queue.put_nowait((rest, True))
        if not piece.text:
            self._queue.put_nowait(("", False))
        for sentence in self._splitter.feed(piece.text):
            self._queue.put_nowait((sentence, False))

    def end(self) -> None:
        """The choice has ended: what is left is its last sentence. Some servers tell an end with each delta, and more follows."""
        if not self.ended:
            self.ended = True
            self._flush()

    def _flush(self) -> None:
        if rest := self._splitter.flush():
            self._queue.put_nowait((rest, True))

    def close(self) -> None:
        """Nothing follows."""
        if not self._closed:
            self._closed = True
            self._flush()
            self._queue.put_nowait(None)

    async def _work(self) -> None:
        """Judge and release, in order."""
        index = offset = 0
        breather = Breather()
        while (item := await self._queue.get()) is not None:
            await breather.yield_if_due()
            text, final = item
            if not text:
                await self._gate.release(self._waiting())
                continue
            said = await self._gate.judge(Sentence(text, self._choice, index, offset, final))
            judged = self._pass(len(text)) if said == text else self._replace(len(text), said)
            await self._gate.release([*judged, *self._waiting()])
            self.released.append(said)
            index, offset = index + 1, offset + len(text)

    def _pass(self, length: int) -> list[tuple[StreamPiece, Leave]]:
        """The events of the next `length` characters; one that goes further is cut, or waits whole if it cannot be cut."""
        length, self._approved_chars = length + self._approved_chars, 0
        out: list[tuple[StreamPiece, Leave]] = []
        while length > 0:
            out += self._waiting()
            head = self._pending[0]
            if head.unsent_chars > length and not head.piece.divisible:
                self._approved_chars = length
                break
            leaving, taken = self._take(length)
            out.append(leaving)
            length -= taken
        return out

    def _waiting(self) -> list[tuple[StreamPiece, Leave]]:
        """The events without text that nothing stands in front of any more."""
        out: list[tuple[StreamPiece, Leave]] = []
        while self._pending and not self._pending[0].piece.text:
            piece = self._pending.popleft().piece
            out.append((piece, partial(self._stream.encode_outgoing, piece)))
        return out

    def _replace(self, length: int, said: str) -> list[tuple[StreamPiece, Leave]]:
        """`said` in place of the next `length` characters' events."""
        out: list[tuple[StreamPiece, Leave]] = []
        if self._approved_chars:
            out.append(self._take(self._approved_chars)[0])
            self._approved_chars = 0
        out += self._waiting()
        if said:
            piece = self._pending[0].piece
            out.append((piece, partial(self._stream.with_text, piece, said)))
        while length > 0:
            out += self._waiting()
            length -= self._drop(length)[2]
        return out

    def _take(self, length: int) -> tuple[tuple[StreamPiece, Leave], int]:
        """Remove the first held event, or its first `length` characters; how it leaves, and the characters that do."""
        piece, start, taken = self._drop(length)
        text = piece.text[start : start + taken]
        whole = taken == len(piece.text)
        return (piece, partial(self._stream.encode_outgoing, piece) if whole else partial(self._stream.with_text, piece, text)), taken

    def _drop(self, length: int) -> tuple[StreamPiece, int, int]:
        """Remove at most `length` characters of the first held event: the event, where they begin in its text, and how many they are."""
        head = self._pending[0]
        start, taken = head.start, min(length, head.unsent_chars)
        head.start += taken
        if not head.unsent_chars:
            self._pending.popleft()
        return head.piece, start, taken
