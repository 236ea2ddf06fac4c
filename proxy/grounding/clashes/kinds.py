"""The words of clashes: a statement with its place, two statements that cannot both hold, and what becomes of them."""

from __future__ import annotations

import hashlib
import unicodedata
from typing import Literal

from msgspec import Struct

StatementKind = Literal["preference", "fact"]
"""What somebody likes, wants or needs; what is the case."""
Origin = Literal["system", "user", "assistant", "tool_result", "passage", "memory"]
"""Where a statement stands. ``memory``: what a memory of the client's says of the user, in whatever message it was put."""
ClashType = Literal["CONTRADICTORY_PREFERENCES", "CONFLICTING_FACTS", "OUTDATED_INFORMATION", "DUPLICATE_FACTS"]
Strategy = Literal["prefer_recent", "ask_user", "merge", "keep_existing"]
"""``keep_existing``: nothing resolved it, the older one stays and the newer one is reported."""


class TextPiece(Struct, frozen=True):
    """A text of the conversation that one author wrote: what statements are read from."""

    text: str
    origin: Origin = "user"
    message: int | None = None
    """Position in the conversation; None for what stands in no message."""
    start: int = 0
    """Characters of the message's text before it."""
    source: str = ""
    timestamp: float | None = None
    """Seconds since the epoch, where it is known."""


class Declaration(Struct, frozen=True):
    """What a sentence plainly says of an attribute that one person has one of (`proxy.grounding.clashes.plain`), or a record's field."""

    attribute: str
    """``location``, ``budget``, ``allergy``, …"""
    value: str
    """Normalised: ``berlin``, ``500 EUR``, ``nut``."""
    start: int
    """Characters of the statement's text before the clause that says it."""
    end: int
    scope: str = ""
    """Of whom or of what, where that is not the user themselves: ``anna``, ``hotel``, the record ``flight_id=lh1``."""
    negated: bool = False
    change: bool = False
    """Said as news or a correction: "actually", "moved to", "now"."""
    before: str = ""
    """What it was before, where the sentence says so: "moved from Rome to Milan"."""
    of_task: bool = False
    """Wanted for what is being planned, and not in general: "I want a budget hotel"."""


class Statement(Struct, frozen=True):
    """One sentence, or a part of one, that states something."""

    text: str
    kind: StatementKind
    origin: Origin
    piece: int
    """Position in the list of pieces that was read."""
    start: int
    """Characters of the piece's text before it: ``pieces[piece].text[start:end] == text``."""
    end: int
    hash: str
    """`statement_hash`."""
    message: int | None = None
    timestamp: float | None = None
    source: str = ""
    update: bool = False
    """Said as a change of mind or a correction: "actually, make it luxury"."""
    language: str = "en"
    declares: tuple[Declaration, ...] = ()
    """What it says plainly, and nothing besides; empty where it says more, or less."""
    doubt: str = ""
    """Why its author may not say it of themselves, by what stands around it; "" where they do, as far as that tells."""

    @property
    def topic(self) -> str:
        """The attribute that it gives, or ""."""
        return self.declares[0].attribute if self.declares else ""

    @property
    def place(self) -> tuple[int, int, int]:
        """Its order in the conversation; what stands in no message comes last."""
        return (self.message if self.message is not None else 1 << 30, self.piece, self.start)


class Pair(Struct, frozen=True):
    """Two statements that may clash, in the order of the conversation."""

    older: Statement
    newer: Statement

    @property
    def hash(self) -> str:
        """`pair_hash` of the two."""
        return pair_hash(self.older.hash, self.newer.hash)


class StatementClash(Struct, frozen=True):
    """Two statements that cannot both hold, or say the same twice."""

    older: Statement
    newer: Statement
    type: ClashType
    topic: str
    """The attribute, or the words that both are about."""
    score: float
    """Calibrated probability that they clash; 1.0 by rule."""
    reason: str
    """For people: ``budget: 500 EUR against 2000 EUR``."""
    critical: bool = False
    """It is about health, safety or money beyond a tenth (`proxy.grounding.clashes.rules.CRITICAL`)."""
    simultaneous: bool = False
    """Neither is newer: both stand in one piece, or carry the same time."""
    update: bool = False
    """The newer one is a change of mind said as such: the older one is outdated, and nobody made a mistake."""
    doubt: str = "it was not looked at in its conversation"
    """Why it cannot be acted on, for people; "" where both plainly say the same attribute of the same person, and the two values exclude
    each other."""

    @property
    def certain(self) -> bool:
        """Whether it can be acted on."""
        return not self.doubt

    @property
    def pair_hash(self) -> str:
        """`pair_hash` of the two."""
        return pair_hash(self.older.hash, self.newer.hash)


class Resolution(Struct, frozen=True):
    """What becomes of a clash."""

    strategy: Strategy
    kept: tuple[Statement, ...]
    dropped: tuple[Statement, ...]
    reason: str
    """For people: ``new statement is more recent (1 h against 48 h)``."""
    text: str = ""
    """The merged statement, which takes the place of both."""
    question: str = ""
    """What the user is asked, where only they can tell."""
    options: tuple[str, ...] = ()
    resolved: bool = True
    """Whether the context is now free of it; a question that is open, and a clash that is only reported, are not."""


def statement_hash(text: str, origin: str = "user") -> str:
    """32 hexadecimal digits; the same for texts that differ in case, white space, closing marks or how letters are composed."""
    plain = " ".join(unicodedata.normalize("NFC", text).casefold().split()).strip(" .!;,")
    return hashlib.blake2b(f"{origin}\0{plain}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def pair_hash(one: str, other: str) -> str:
    """32 hexadecimal digits of two statements' hashes, whichever comes first."""
    return hashlib.blake2b("\0".join(sorted((one, other))).encode(), digest_size=16).hexdigest()
