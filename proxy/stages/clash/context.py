"""The exchange's conversation -> what it states, each statement with its piece and with what tells it from the same words said again.

A memory is a marked section of a message ("<memory>", "## User profile"), what the client names as its source, or the result of a tool
that remembers, of a JSON result each text. In a system message only such a section may be edited, because it is data and no instruction;
the last user message is never edited. What was read of a piece is kept by its text, so that a long conversation costs what is new; of one
piece a bounded number of sentences is read. Where the conversation is a story, a game or an exercise, or where several people speak,
nothing is certain.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.conversation import called_names, last_user, unread_size
from proxy.context.passages.finding import TIME_KEYS
from proxy.context.pieces import MEMORY_SOURCE, ContextPiece, PieceKind, memories_in, pieces_of
from proxy.exchange import Exchange, Message
from proxy.grounding.clashes.kinds import Origin, Statement, TextPiece
from proxy.grounding.clashes.reading import Read, is_staged, read_piece
from proxy.language.dates import seconds_of
from proxy.language.json.strings import strings_of
from proxy.language.lru import LRU, by_text
from proxy.language.text import text_of
from proxy.offloop import each, run_in_thread_if_large
from proxy.stages.clash.options import Part

MAX_READ, MAX_READ_OF_ALL = 6, 16
"""Sentences of one piece, and of the conversation, the first of each, that are read in full beside those that plainly declare something:
about 0.5 ms each."""
MAX_TASK_CHARS = 400
"""Of a system message, in which it says what the conversation is; further on it speaks of everything."""
STAGED = "the conversation may be a story, a game or an exercise"
MAX_CACHED = 4096
"""Pieces whose statements are kept in this process."""
_KINDS: dict[Part, tuple[PieceKind, ...]] = {
    "user": ("user",),
    "system": ("system",),
    "memory": ("system", "user", "assistant", "tool_result", "passage"),
    "tool_results": ("tool_result",),
    "passages": ("passage",),
}
_Key = tuple[Origin, int, int]
"""Of what was read of a text: whose it is, its hash and its length."""
_ORIGINS: dict[PieceKind, Part] = {"user": "user", "system": "system", "tool_result": "tool_results", "passage": "passages"}


class PlacedStatement(Struct, frozen=True):
    """A statement where it stands."""

    statement: Statement
    piece: ContextPiece
    number: int
    """1 for the first time that the conversation says so, 2 for the second."""
    locked: bool
    """It stands where nothing is edited: a system message's own words, or the last user message."""

    @property
    def key(self) -> str:
        """Tells it from every other of the run, on every turn and in every worker."""
        return f"{self.statement.hash}#{self.number}"


class ContextStatements(Struct, frozen=True):
    """What a conversation states."""

    spoken: tuple[PlacedStatement, ...] = ()
    """All statements of the parts that are compared, in the conversation's order."""
    skipped: int = 0
    """Sentences that were left unread, because there are too many of them in one message."""


class Context:
    """Reads what conversations state. One a stage."""

    def __init__(self, between: Sequence[Part], *, whole: bool = False) -> None:
        """`whole`: every sentence is read in full, whatever that takes."""
        self._between, self._whole = frozenset(between), whole
        self._cache: LRU[Read] = LRU(MAX_CACHED)
        self._staged_texts: LRU[bool] = LRU(MAX_CACHED)

    async def stated(self, exchange: Exchange) -> ContextStatements:
        """What the parts that are compared state."""
        return await run_in_thread_if_large(unread_size(exchange), self._read, exchange)

    def _read(self, exchange: Exchange) -> ContextStatements:
        pieces = self._pieces(exchange)
        return self._state(exchange, pieces, self._each(pieces))

    def _state(self, exchange: Exchange, pieces: Sequence[tuple[ContextPiece, Origin]], read: Mapping[_Key, Read]) -> ContextStatements:
        last = last_user(exchange.conversation)
        plain = any(statement.declares for some in read.values() for statement in some.statements)
        staged = self._staged_from(exchange) if plain else None
        said: Counter[str] = Counter()
        found, skipped = [], 0
        for i, (piece, origin) in enumerate(pieces):
            locked = origin == "system" or (piece.message is not None and piece.message == last)
            doubtful = staged is not None and (piece.message is None or piece.message >= staged)
            skipped += read[_key(piece, origin)].skipped
            for statement in read[_key(piece, origin)].statements:
                said[statement.hash] += 1
                doubt = statement.doubt or (STAGED if doubtful else "")
                place = {"piece": i, "message": piece.message, "timestamp": piece.timestamp, "source": piece.source}
                found.append(PlacedStatement(replace(statement, doubt=doubt, **place), piece, said[statement.hash], locked))
        return ContextStatements(tuple(found), skipped)

    def _each(self, pieces: Sequence[tuple[ContextPiece, Origin]]) -> dict[_Key, Read]:
        """What each piece states, by its key, in their order, so that a longer conversation reads the same of its beginning."""
        found: dict[_Key, Read] = {}
        left = MAX_READ_OF_ALL
        for piece, origin in each(pieces):
            if (key := _key(piece, origin)) not in found:
                found[key] = read = self._one(piece, origin, None if self._whole else MAX_READ if left > 0 else 0)
                left -= read.full
        return found

    def _one(self, piece: ContextPiece, origin: Origin, limit: int | None) -> Read:
        key = (*_key(piece, origin), limit)
        kept = self._cache.get(key)
        if kept is None:
            kept = read_piece(TextPiece(piece.text, origin), limit=limit)
            self._cache.put(key, kept)
        return kept

    def _staged_from(self, exchange: Exchange) -> int | None:
        """The first message from which on what is said may not be meant, or not be one person's; None where there is no such."""
        names = {message.get("name") for message in exchange.conversation if message.get("role") == "user"}
        if len(names) > 1:
            return 0
        return next((i for i, message in enumerate(exchange.conversation) if self._is_staged(message)), None)

    def _is_staged(self, message: Message) -> bool:
        role = message.get("role")
        if role not in ("user", "system", "developer"):
            return False
        text = text_of(message.get("content"))
        key = role, hash(text), len(text)
        found = self._staged_texts.get(key)
        if found is None:
            found = is_staged(text) if role == "user" else is_staged(text[:MAX_TASK_CHARS], of_user=False)
            self._staged_texts.put(key, found)
        return found

    def _pieces(self, exchange: Exchange) -> list[tuple[ContextPiece, Origin]]:
        kinds = tuple({kind for part in self._between for kind in _KINDS[part]})
        names = called_names(exchange.conversation)
        found: list[tuple[ContextPiece, Origin]] = []
        for piece in each(pieces_of(exchange, kinds)):
            for part, origin in _parts(piece, _tool(exchange, piece, names)):
                if ("memory" if origin == "memory" else _ORIGINS.get(part.kind)) in self._between:
                    found.append((part, origin))
        return found


def _key(piece: ContextPiece, origin: Origin) -> _Key:
    return origin, hash(piece.text), len(piece.text)


def _tool(exchange: Exchange, piece: ContextPiece, names: dict[str, str]) -> str:
    """The name of the tool whose result it is."""
    message = exchange.conversation[piece.message] if piece.message is not None else {}
    return names.get(str(message.get("tool_call_id")), "")


def _parts(piece: ContextPiece, tool: str) -> Iterator[tuple[ContextPiece, Origin]]:
    """A piece, or its marked memories and what is around them."""
    if (piece.source or tool) and (_remembers(piece.source) or _remembers(tool)):
        for part in _records(piece):
            yield part, "memory"
        return
    at = 0
    if not piece.literal and piece.kind != "tool_result":
        for start, end in memories_in(piece.text):
            if piece.text[at:start].strip():
                yield _cut(piece, at, start), piece.kind
            yield _cut(piece, start, end), "memory"
            at = end
    if piece.text[at:].strip():
        yield (_cut(piece, at, len(piece.text)) if at else piece), piece.kind


@by_text(2048)
def _remembers(source: str) -> bool:
    return MEMORY_SOURCE.search(source) is not None


def _records(piece: ContextPiece) -> Iterator[ContextPiece]:
    """A memory, or each text of a JSON list of them with the time that its record tells."""
    strings = None if piece.literal else strings_of(piece.text)
    if strings is None:
        yield piece
        return
    times: dict[str, float] = {}
    _read_times(json.loads(piece.text), None, times)
    for said in strings:
        place = {"start": piece.start + said.start + 1, "end": piece.start + said.end - 1, "literal": True}
        yield replace(piece, text=said.value, timestamp=times.get(said.value, piece.timestamp), **place)


def _read_times(value: Any, time: float | None, times: dict[str, float]) -> None:
    """When each text of a JSON value was so, by the record around it."""
    if isinstance(value, Mapping):
        time = next((told for key in TIME_KEYS if (told := seconds_of(value.get(key))) is not None), time)
    if isinstance(value, str) and time is not None:
        times.setdefault(value, time)
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        _read_times(inner, time, times)


def _cut(piece: ContextPiece, start: int, end: int) -> ContextPiece:
    return replace(piece, text=piece.text[start:end], start=piece.start + start, end=piece.start + end)
