"""An answer in no API's own form: a row of pieces, as a stream brings them; a whole answer is read as the same row."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson
from msgspec import Struct
from msgspec.structs import replace

from proxy.exchange import Usage
from proxy.wire.answers import number
from proxy.wire.sse import Event


class AnswerStart(Struct, frozen=True):
    """The answer begins."""

    id: str
    model: str


class TextDelta(Struct, frozen=True):
    """Some of its text."""

    text: str
    apart: bool = False
    """Whether another text begins, as behind a call."""


class RefusalDelta(Struct, frozen=True):
    """Some of what it says instead of an answer."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """Some of what the model thinks, as far as it is told."""

    text: str
    apart: bool = False


class Citation(Struct, frozen=True):
    """A page of the web that words of the text rest on that began last."""

    url: str
    title: str
    start: int
    """Where in that text they begin, in characters."""
    end: int


class Signature(Struct, frozen=True):
    """Ends a thought, or stands for one that is not told: what its API wants back with it (`neutral.wrap`)."""

    kind: str
    data: str


class CallStart(Struct, frozen=True):
    """A call of a tool begins."""

    key: int
    """Which of the answer's calls."""
    id: str
    name: str
    custom: bool = False


class CallDelta(Struct, frozen=True):
    """Some of a call's arguments."""

    key: int
    text: str


def new_call_id() -> str:
    """For a call whose server gives it none: the same never comes again, so that a later turn's result finds its call."""
    return f"call_{os.urandom(12).hex()}"


class CallEnd(Struct, frozen=True):
    """All of a call has come, where the server's API says so."""

    key: int


class Finish(Struct, frozen=True):
    """Why it ends, in chat's words: ``stop``, ``length``, ``tool_calls``, ``content_filter``."""

    reason: str
    stop: str | None = None
    """The stop sequence that ended it, where it is told."""


class StreamError(Struct, frozen=True):
    """The server ended the answer with an error."""

    message: str
    code: str = "server_error"


class AnswerEnd(Struct, frozen=True):
    """All of it has come."""


_Deltas = TextDelta | RefusalDelta | ThinkingDelta | CallDelta
Piece = AnswerStart | _Deltas | Citation | Signature | CallStart | CallEnd | Finish | Usage | StreamError | AnswerEnd


class AnswerReader(Protocol):
    """Reads one answer of an API; one that comes whole, as the events that would tell it."""

    def payload(self, payload: Mapping[str, Any]) -> Iterator[Piece]:
        """The pieces of an event's data. Raises `ValueError` for what is none of this API's."""


class AnswerWriter(Protocol):
    """Writes one answer of an API."""

    def feed(self, piece: Piece) -> bytes:
        """The events for a piece, in order."""

    def whole(self) -> bytes:
        """All pieces so far as a body."""


class InTurn:
    """Puts the pieces of calls one call after another: chat may send those of several by turns, and so do some servers of other APIs.

    From a call on, what is not of that call waits until it ends, or the answer.
    """

    def __init__(self) -> None:
        self._call: int | None = None
        """The call that is being told."""
        self._waiting: list[Piece] = []

    def feed(self, piece: Piece) -> Iterator[Piece]:
        """The pieces whose turn it is."""
        if isinstance(piece, Finish | StreamError | AnswerEnd):
            yield from self._flush()
        elif isinstance(piece, CallEnd) and piece.key == self._call:
            waiting, self._waiting, self._call = self._waiting, [], None
            for one in waiting:
                yield from self.feed(one)
            return
        elif self._call is None:
            if isinstance(piece, CallEnd):
                return
            self._call = piece.key if isinstance(piece, CallStart) else None
        elif not isinstance(piece, AnswerStart | Usage) and not (isinstance(piece, CallDelta) and piece.key == self._call):
            self._waiting.append(piece)
            return
        yield piece

    def _flush(self) -> Iterator[Piece]:
        """All that waits, each call's pieces behind its start."""
        waiting, self._waiting, self._call = self._waiting, [], None
        given: dict[int, list[CallDelta]] = {}
        for piece in waiting:
            if isinstance(piece, CallDelta):
                given.setdefault(piece.key, []).append(piece)
        for piece in waiting:
            if not isinstance(piece, CallDelta | CallEnd):
                yield piece
            if isinstance(piece, CallStart):
                yield from given.pop(piece.key, ())


def words(given: object) -> str:
    """A text; "" for what is none."""
    return given if isinstance(given, str) else ""


def citations_in(annotations: Sequence[Mapping[str, Any]]) -> Iterator[Citation]:
    """Those of pages among annotations, as OpenAI's APIs have them."""
    for one in annotations:
        if url := words(one.get("url")):
            yield Citation(url, words(one.get("title")), number(one, "start_index"), number(one, "end_index"))


def known_type(kind: str, kinds: Collection[str]) -> str:
    """A type as a client is told of it: by name only where it is one of the API's `kinds`, for else the name is any text."""
    return f"the type {kind!r}" if kind in kinds else "an unknown type"


def payload_of(event: Event) -> dict[str, Any] | None:
    """An event's data; None for a comment, a sign of life, and what cannot be read: one of them does not spoil an answer."""
    if event.data is None:
        return None
    try:
        found = orjson.loads(event.data)
    except orjson.JSONDecodeError:
        found = _nearly_json(event.data)
    return found if isinstance(found, dict) else None


def _nearly_json(data: bytes) -> Any:
    """What Python's own parser makes of it, which reads half an emoji (the other half comes with the next event) and no-numbers."""
    try:
        return json.loads(data, parse_constant=lambda constant: None)
    except (ValueError, RecursionError):
        return None


def with_id_prefix(identity: str, prefix: str) -> str:
    """An answer's id as an API writes them, always the same for the same id; a new one for none."""
    identity = identity or os.urandom(12).hex()
    return identity if identity.startswith(prefix) else prefix + identity


_HIGH = ("\ud800", "\udbff")


class Halves:
    """Of one stream."""

    def __init__(self) -> None:
        self._open: dict[type, str] = {}
        """What waits for its other half, by the kind of piece."""

    def mend(self, piece: Piece) -> Piece:
        """`piece` with whole signs alone; a half that ends it waits for the next piece of its kind, any other becomes U+FFFD."""
        if not isinstance(piece, _Deltas) or not (piece.text or self._open):
            return piece
        text = self._open.pop(type(piece), "") + piece.text
        if text.isascii():
            return piece
        if text and _HIGH[0] <= text[-1] <= _HIGH[1]:
            self._open[type(piece)], text = text[-1], text[:-1]
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return piece if whole == piece.text else replace(piece, text=whole)
