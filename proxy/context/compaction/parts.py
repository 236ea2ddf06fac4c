"""A forwarded prompt as parts, each of which knows for which of the client's messages it stands. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from proxy.exchange import Message
from proxy.ports import Compaction

RESULT_ROLES = ("tool", "function")


class Part(Struct, frozen=True):
    """One forwarded message."""

    message: Message
    start: int
    """It stands for ``messages[start:end]`` of the client's; an unchanged message stands for itself."""
    end: int
    made: bool = False
    """Whether it is not one of the client's own."""

    @property
    def note(self) -> bool:
        """Whether it was made to stand for a run of messages, and is not a tool's result that was replaced."""
        return self.made and self.message.get("role") not in RESULT_ROLES


def messages_of(parts: Sequence[Part]) -> list[Message]:
    """What is forwarded."""
    return [part.message for part in parts]


def parts_of(forwarded: Sequence[Message], original: Sequence[Message]) -> list[Part]:
    """Parts of `forwarded`; a message is unchanged when it is the very object of `original`."""
    positions: dict[int, list[int]] = {}
    for i, message in enumerate(original):
        positions.setdefault(id(message), []).append(i)
    pieces = [found.pop(0) if (found := positions.get(id(message))) else message for message in forwarded]
    return placed(pieces, original, len(original))


def placed(pieces: Sequence[int | Message], original: Sequence[Message], length: int) -> list[Part]:
    """Parts of a compaction's pieces, which stand for ``original[:length]``.

    A made tool result stands for one message. Another made message stands for all that is missing up to the next piece; of two that
    follow each other it is the first.
    """
    parts: list[Part] = []
    at = 0
    for i, piece in enumerate(pieces):
        if isinstance(piece, int):
            start, end, message, made = piece, piece + 1, original[piece], False
        else:
            message, made = piece, True
            start, end = at, at + 1 if piece.get("role") in RESULT_ROLES else _gap_end(pieces, i + 1, length)
        parts.append(Part(message, start, max(start, end), made))
        at = max(at, end)
    return parts


def _gap_end(pieces: Sequence[int | Message], following: int, length: int) -> int:
    """Where the messages end that are missing before the piece `following`, or before the next one that has a position."""
    results = 0
    for piece in pieces[following:]:
        if isinstance(piece, int):
            return piece - results
        results += piece.get("role") in RESULT_ROLES
    return length - results


def applied(compaction: Compaction, parts: Sequence[Part], original: Sequence[Message]) -> list[Part] | None:
    """`parts` with the compaction in place of those that it covers; None where it does not fit them.

    A message that stays is taken as it stands in `parts`: an earlier stage may have replaced it, or taken it out.
    """
    length = compaction.length
    positions = [piece for piece in compaction.pieces if isinstance(piece, int)]
    in_order = all(a < b for a, b in pairwise(positions))
    if not in_order or (positions and not 0 <= positions[0] <= positions[-1] < length) or length > len(original):
        return None
    if any(part.start < length < part.end for part in parts):
        return None
    current = {part.start: part for part in parts}
    whole = not any(part.made for part in parts) and len(parts) == len(original)
    found: list[Part] = []
    for part in placed(compaction.pieces, original, length):
        if part.made or whole:
            found.append(part)
        elif part.start in current:
            found.append(current[part.start])
    return [*found, *(part for part in parts if part.start >= length)]


def pieces_of(parts: Sequence[Part], length: int) -> tuple[int | dict[str, Any], ...]:
    """The pieces of a compaction that covers the client's first `length` messages."""
    return tuple(dict(part.message) if part.made else part.start for part in parts if part.start < length)
