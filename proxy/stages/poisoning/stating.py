"""A piece of the context -> what it states, as claims with their places.

Statements are those of `proxy.grounding.claims.claims`. In JSON each string of several words is a text with statements of its own, and an
object's other values are one statement of the object (``city: Graz; temperature: 21``). Such values differ from a fact's in many harmless
ways (an id, a price, a unit), so only a contradiction counts against them: see `VALUES`. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from proxy.context.pieces import ContextPiece
from proxy.exchange.judgements import Claim
from proxy.grounding.claims.claims import claims_of
from proxy.grounding.evidence.asserted import is_question
from proxy.grounding.evidence.pieces import cut
from proxy.grounding.evidence.structured import places
from proxy.language.json.strings import JsonString, strings_of

VALUES = "values"
"""`Claim.reason` of an object's plain values."""
TEXT_WORDS = 4
"""A JSON string with as many words is a text, a shorter one a value."""


def statements_of(piece: ContextPiece) -> tuple[Claim, ...]:
    """What of a piece can be checked, in order; of the user's words not what asks."""
    if piece.text.lstrip()[:1] in ("{", "[") and (found := _of_json(piece.text)) is not None:
        return found
    claims = (claim for claim in claims_of(piece.text) if claim.checkable)
    return tuple(claim for claim in claims if piece.kind != "user" or not is_question(claim.text))


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
