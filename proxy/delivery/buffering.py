"""One upstream answer, read whole and kept in its own bytes until it is known what of it leaves.

In: a reply with a 2xx status. Out: an `Answer` for the stages to judge, then the bytes for the client: the reply's own wherever no
stage changed the text, or the arguments of a call. A JSON body and an event stream are two classes with one face.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from proxy.errors import UpstreamUnreachable
from proxy.exchange import Answer
from proxy.offloop import Breather, run_in_thread_if_large
from proxy.ports.upstream import Reply, is_event_stream, limit, read_whole
from proxy.wire.dialect import AnswerStream, Dialect, StreamPiece

Usage = Mapping[str, object]
"""As the upstream wrote it."""


class BufferedAnswer(Protocol):
    """An answer that is whole."""

    answer: Answer | None
    """None when it is not what the dialect knows."""
    size: int
    """Bytes."""
    streamed: bool

    @property
    def unreadable(self) -> str:
        """What of it is not what the dialect knows; "" for nothing."""

    @property
    def refused(self) -> bool:
        """Whether the upstream ended it with an error: it is not judged."""

    @property
    def usage(self) -> Usage | None:
        """As the upstream reported it."""

    def render(self, after: Answer | None, verdict: Mapping[str, object] | None, others: Sequence[Usage]) -> bytes:
        """The bytes for the client, with the texts, refusals and arguments of `after`, the usage of the `others` added, and the verdict."""


async def read_held(reply: Reply, dialect: Dialect, max_bytes: int) -> BufferedAnswer:
    """Read to the end. Raises `UpstreamUnreachable` (also when it is too long to hold, or broke off), `UpstreamTimeout`."""
    if not is_event_stream(reply.headers):
        body = await read_whole(reply, max_bytes)
        return await run_in_thread_if_large(len(body), _Body, body, dialect)
    found, breather = _Stream(dialect), Breather()
    async for chunk in reply.chunks():
        await run_in_thread_if_large(len(chunk), found.add, chunk)
        limit(found.size, max_bytes)
        await breather.yield_if_due()
    await run_in_thread_if_large(found.size, found.end)
    return found


class _Body:
    """One JSON body."""

    streamed = False
    refused = False

    def __init__(self, body: bytes, dialect: Dialect) -> None:
        self._body, self._dialect, self.size = body, dialect, len(body)
        self.answer: Answer | None = None
        self.unreadable = ""
        try:
            self.answer = dialect.parse_answer(body)
        except ValueError as error:
            self.unreadable = str(error) or "not JSON"
        else:
            self.unreadable = f"text in {self.answer.unread} is not read" if self.answer.unread else ""

    @property
    def usage(self) -> Usage | None:
        return self._dialect.usage_of(self._body) if self.answer is not None else None

    def render(self, after: Answer | None, verdict: Mapping[str, object] | None, others: Sequence[Usage]) -> bytes:
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
        arguments, said = after.changed_arguments(before), bool(after.changed_texts(before) or after.changed_refusals(before))
        others = others if self.usage is not None else ()
        if not said and not arguments and verdict is None and not others and self._reader.done:
            return b"".join(self._chunks)
        pieces = self._pieces if said else self._as_they_came()
        if arguments:
            pieces = self._reader.with_arguments(pieces, arguments)
        pieces = [self._reader.with_usage(piece, others) for piece in pieces if not piece.done]
        if said:
            pieces = self._reader.with_texts(pieces, before, after)
        return b"".join([*(self._reader.encode_outgoing(piece) for piece in pieces), self._reader.end(verdict)])

    def _as_they_came(self) -> list[StreamPiece]:
        """The events, none of them taken apart."""
        reader = self._dialect.stream()
        return [piece for chunk in self._chunks for piece in reader.feed(chunk)] + reader.finish()
