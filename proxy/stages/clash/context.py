"""The exchange's conversation -> what it states, each statement with its piece and with what tells it from the same words said again.

A memory is a marked section of a message ("<memory>", "## User profile"), what the client names as its source, or the result of a tool
that remembers. In a system message only such a section may be edited, because it is data and no instruction; the last user message is
never edited. What was read of a piece is kept by its text, so that a long conversation costs what is new.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.clashes.kinds import Origin, Piece, Statement
from proxy.cleaning.pieces import ContextPiece, PieceKind, pieces_of
from proxy.compaction.transcript import called_names
from proxy.conversation import last_user
from proxy.exchange import Exchange
from proxy.judging import key_of
from proxy.lru import LRU
from proxy.patterns import LazyPattern
from proxy.stages.clash.options import Part

MAX_KEPT = 4096
"""Pieces whose statements are kept in this process."""
LARGE_CHARS = 20_000
"""From here on, reading leaves the event loop."""
_KINDS: dict[Part, tuple[PieceKind, ...]] = {
    "user": ("user",),
    "system": ("system",),
    "memory": ("system", "user", "assistant", "tool_result", "passage"),
    "tool_results": ("tool_result",),
    "passages": ("passage",),
}
_ORIGINS: dict[PieceKind, Part] = {"user": "user", "system": "system", "tool_result": "tool_results", "passage": "passages"}
_NAMED = (
    r"memor(?:y|ies|ias?)|erinnerungen?|gedächtnis|mémoires?|(?:user|customer|nutzer|kunden)[ _-]?(?:profile?|preferences|facts|info)|"
    r"perfil del usuario|profil de l['’]utilisateur"
)
_MEMORY_SOURCE = LazyPattern(
    r"(?:^|[\W_])(?:memor(?:y|ies)|mem0|zep|remember\w*|recall\w*|user_?(?:profile|preferences|facts))(?:$|[\W_])", re.I
)
_MEMORY_TAG = re.compile(rf"<((?:\w{{1,20}}[_-])?(?:{_NAMED})(?:[_-]\w{{1,20}})?)>\s*(.{{1,20000}}?)\s*</\1>", re.I | re.S)
_LABEL = rf"(?:known |stored |saved )?(?:{_NAMED}|(?:facts|preferences|notes) (?:about|of|on) the (?:user|customer|client))"
_MEMORY_HEADING = re.compile(
    rf"^(?:#{{1,4}} [^\n]{{0,60}}?\b{_LABEL}\b[^\n]{{0,60}}\n|(?:\*\*)?{_LABEL}(?:\*\*)?:(?:\*\*)?[ \t]*\n?)"
    r"(?P<body>(?:(?!\#{1,4} )[^\n]+(?:\n|\Z))+)",
    re.I | re.M,
)
Read = Callable[[Sequence[Piece]], list[Statement]]


class Spoken(Struct, frozen=True):
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


class Context:
    """Reads what conversations state. One a stage."""

    def __init__(self, between: Sequence[Part], read: Read) -> None:
        """`read` finds the statements of pieces (`proxy.clashes.statements`)."""
        self._between, self._read = frozenset(between), read
        self._kept: LRU[tuple[Statement, ...]] = LRU(MAX_KEPT)

    async def spoken(self, exchange: Exchange) -> list[Spoken]:
        """All statements of the parts that are compared, in the conversation's order."""
        pieces = list(self._pieces(exchange))
        read = await self._statements(pieces)
        last = last_user(exchange.conversation)
        said: Counter[str] = Counter()
        found = []
        for i, (piece, origin) in enumerate(pieces):
            locked = origin == "system" or (piece.message is not None and piece.message == last)
            for statement in read[_key(piece, origin)]:
                said[statement.hash] += 1
                placed = replace(statement, piece=i, message=piece.message, timestamp=piece.timestamp, source=piece.source)
                found.append(Spoken(placed, piece, said[statement.hash], locked))
        return found

    async def _statements(self, pieces: Sequence[tuple[ContextPiece, Origin]]) -> dict[bytes, tuple[Statement, ...]]:
        """What each piece states, by its key; only what is new is read."""
        wanted = {_key(*one): one for one in pieces}
        read = {key: kept for key in wanted if (kept := self._kept.get(key)) is not None}
        new = {key: Piece(piece.text, origin) for key, (piece, origin) in wanted.items() if key not in read}
        large = sum(len(piece.text) for piece in new.values()) > LARGE_CHARS
        found = await asyncio.to_thread(self._each, list(new.values())) if large else self._each(list(new.values()))
        for key, statements in zip(new, found, strict=True):
            read[key] = statements
            self._kept.put(key, statements)
        return read

    def _each(self, pieces: Sequence[Piece]) -> list[tuple[Statement, ...]]:
        return [tuple(self._read([piece])) for piece in pieces]

    def _pieces(self, exchange: Exchange) -> Iterator[tuple[ContextPiece, Origin]]:
        kinds = tuple({kind for part in self._between for kind in _KINDS[part]})
        names = called_names(exchange.conversation)
        for piece in pieces_of(exchange, kinds):
            for part, origin in _parts(piece, _tool(exchange, piece, names)):
                if ("memory" if origin == "memory" else _ORIGINS.get(part.kind)) in self._between:
                    yield part, origin


def _key(piece: ContextPiece, origin: Origin) -> bytes:
    return key_of(origin, piece.text)


def _tool(exchange: Exchange, piece: ContextPiece, names: dict[str, str]) -> str:
    """The name of the tool whose result it is."""
    message = exchange.conversation[piece.message] if piece.message is not None else {}
    return names.get(str(message.get("tool_call_id")), "")


def _parts(piece: ContextPiece, tool: str) -> Iterator[tuple[ContextPiece, Origin]]:
    """A piece, or its marked memories and what is around them."""
    if _MEMORY_SOURCE.search(piece.source) or _MEMORY_SOURCE.search(tool):
        yield piece, "memory"
        return
    at = 0
    if not piece.literal and piece.kind != "tool_result":
        for start, end in _memories(piece.text):
            if piece.text[at:start].strip():
                yield _cut(piece, at, start), piece.kind
            yield _cut(piece, start, end), "memory"
            at = end
    if piece.text[at:].strip():
        yield (_cut(piece, at, len(piece.text)) if at else piece), piece.kind


def _memories(text: str) -> list[tuple[int, int]]:
    """Where memories stand in a message's text."""
    found = [match.span(2) for match in _MEMORY_TAG.finditer(text)]
    return found or [match.span("body") for match in _MEMORY_HEADING.finditer(text)]


def _cut(piece: ContextPiece, start: int, end: int) -> ContextPiece:
    return replace(piece, text=piece.text[start:end], start=piece.start + start, end=piece.start + end)
