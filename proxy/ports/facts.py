"""A fact: what a knowledge base holds, its name, and the form in which two texts are the same.

A row of a table of facts is one; so is a paragraph of a document (`proxy.grounding.knowledge.chunking`), whose subject is the heading it
stands under. A fact's id is a hash of what it says and when, so that it stays the same when its file is renamed or its row moves.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from msgspec import Struct

_SPACES = re.compile(r"\s+")
_QUOTES = str.maketrans("‘’‚‛“”„‟«»‐‑‒–—−", '\'\'\'\'""""""------')
_END = " \"'.!…。,;:"
_UNIT = re.compile(r"(\d ?[^\W\d_]{1,3}\b)")


class Fact(Struct, frozen=True):
    """One thing that is so, as far as the knowledge base goes."""

    id: str
    """``kf_`` and 32 hexadecimal digits (`fact_id`)."""
    subject: str
    """What it is about; "" where its file does not say."""
    statement: str
    """What is so."""
    source: str
    """Where it comes from: the row's own ``source``, else ``PATH#heading`` or ``PATH`` inside the folder."""
    valid_from: float | None = None
    """Seconds since the epoch; None for always."""
    valid_to: float | None = None
    """Seconds since the epoch at which it ceases to hold; None for never."""
    text: str = ""
    """What is searched and what a verifier reads: the statement, with the subject before it where the statement does not name it."""

    def holds_at(self, now: float) -> bool:
        """Whether it holds at `now`."""
        return (self.valid_from is None or self.valid_from <= now) and not self.is_over(now)

    def is_over(self, now: float) -> bool:
        """Whether it held once and does not any more."""
        return self.valid_to is not None and self.valid_to <= now


class FactHit(Struct, frozen=True):
    """A fact that a search has found."""

    fact: Fact
    score: float
    """How much it says to the text that was looked for, 0 to 1: the mean of cosine and of the text's share of terms that it has."""


def fact_id(subject: str, statement: str, valid_from: float | None = None, valid_to: float | None = None) -> str:
    """``kf_`` and 32 hexadecimal digits. Two rows that say the same of the same time have the same id, whatever their source."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (normalised(subject), normalised(statement), repr(valid_from), repr(valid_to)):
        digest.update(part.encode("utf-8", "replace") + b"\0")
    return "kf_" + digest.hexdigest()


def normalised(text: str) -> str:
    """The form in which texts are compared for an exact match.

    Single spaces, plain quotes and dashes, no quotes or full stop around it, case folded but for a short word behind a number, which may
    be a unit: 5 mW are not 5 MW.
    """
    text = unicodedata.normalize("NFC", text).translate(_QUOTES)
    text = _SPACES.sub(" ", text).strip(" \"'").rstrip(_END)
    parts = _UNIT.split(text)
    return "".join(part if i % 2 else part.casefold() for i, part in enumerate(parts))
