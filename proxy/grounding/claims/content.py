"""New content read once: what it states, each statement with its place, and its language.

Statements are those of `proxy.grounding.claims.claims`. In JSON each string of several words is a text with statements of its own, and an
object's other values are one statement of the object (``city: Graz; temperature: 21``). Such values differ from a fact's in many harmless
ways (an id, a price, a unit), so only a contradiction counts against them: see `VALUES`. Of the stages that check new content one after
another, the second finds what the first has read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.exchange.judgements import Claim
from proxy.grounding.claims.claims import claims_of
from proxy.grounding.evidence.pieces import cut
from proxy.grounding.evidence.structured import places
from proxy.language.detection import language
from proxy.language.json.strings import JsonString, strings_of
from proxy.language.lru import LRU

VALUES = "values"
"""`Claim.reason` of an object's plain values."""
TEXT_WORDS = 4
"""A JSON string with as many words is a text, a shorter one a value."""
KEPT_CHARS = 1_000_000
"""Of texts whose statements are remembered."""


class ReadContent(Struct, frozen=True):
    """What a text states."""

    claims: tuple[Claim, ...]
    """Checkable ones, in order."""
    language: str
    """ISO 639-1; "" of a text that states nothing."""
    chars: int
    """Of the text."""

    @property
    def sentences(self) -> list[str]:
        """What is stated in words, each once."""
        return list(dict.fromkeys(claim.text for claim in self.claims if claim.reason != VALUES))


_known: LRU[ReadContent] = LRU(KEPT_CHARS, lambda read: read.chars)


def read_content(text: str) -> ReadContent:
    """What `text` states: some 10 ms for 20,000 characters, nothing for one that was just read."""
    read = _known.get(text)
    if read is None:
        claims = _of_json(text) if text.lstrip()[:1] in ("{", "[") else None
        if claims is None:
            claims = tuple(claim for claim in claims_of(text) if claim.checkable)
        read = ReadContent(claims, language(text) if claims else "", len(text))
        _known.put(text, read)
    return read


def _of_json(text: str) -> tuple[Claim, ...] | None:
    """None for a text that is no JSON. JSON lines are read by their objects alone."""
    strings = [string for string in strings_of(text) or () if len(string.value.split()) >= TEXT_WORDS]
    pieces = cut(text, [string.value for string in strings])
    if not strings and (not pieces or all(piece.prose for piece in pieces)):
        return None
    values = [Claim(piece.shown, piece.start, piece.end, reason=VALUES) for piece in pieces]
    return tuple(sorted([*_sentences(text, strings), *values], key=lambda claim: claim.start))


def _sentences(text: str, strings: Sequence[JsonString]) -> Iterator[Claim]:
    """The statements of JSON strings, with their places in the literals as they are written."""
    for string in strings:
        place = places(text[string.start : string.end])
        for claim in claims_of(string.value):
            if claim.checkable:
                yield replace(claim, start=string.start + place(claim.start), end=string.start + place(claim.end))
