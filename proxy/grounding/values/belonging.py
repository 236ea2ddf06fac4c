"""Whether a claim's number follows from numbers that belong together, by an operation that claim, question or passage asks for.

`proxy.grounding.values.arithmetic` says that a number can be made of those that were said, which is enough not to call it wrong. To call
it supported takes more: "£4.50 whatever the hours" makes no "in proportion £3.60", and a price plus a distance makes nothing. Here the
numbers stand in one piece of the nearest evidence, in one column of a table, or have one unit; a word calls for the sum, difference, mean,
product or share; and no word says that the amount stays what it is. Pure; bounded by `MAX_OPERANDS` numbers of a kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from proxy.grounding.evidence.reading import FUNCTION_WORDS, read_evidence
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.values import cues
from proxy.grounding.values.arithmetic import Operations, asked_for, hits, in_unit, is_rounded, made_of, share_of
from proxy.grounding.values.counting import is_counted, sums_and_means
from proxy.grounding.values.places import words_of
from proxy.grounding.values.times import MAX_OPERANDS, is_span
from proxy.language.quantities import Quantity, read_quantities

MAX_ROWS = 200
"""Rows of tables whose columns are summed up."""
_STEM_CHARS = 4
"""Letters that "guest" and "guests" share with each other, and with hardly another word of a sentence."""


class _Operand(Struct, frozen=True):
    """A number of the evidence."""

    number: Quantity
    kind: str
    """Its unit's dimension, or what is counted; "" where nobody can tell."""
    place: int
    """Of its piece or column: numbers of one place belong together."""
    text: str
    """Of its piece."""
    value: float
    """In the claim's unit."""

    def belongs_to(self, other: _Operand) -> bool:
        """Whether two may be added: of one unit or counted thing, or plain ones of one place."""
        if self.number.dimension != other.number.dimension:
            return False
        return self.place == other.place if not self.kind or not other.kind else self.kind == other.kind


def called_for(
    number: Quantity, claim: str, asked: str, nearest: Sequence[str], rows: Sequence[str], texts: Sequence[str], language: str = "en"
) -> bool:
    """Whether `number` of `claim` is rounded, counted or made of numbers in the pieces `nearest`, or in a column of `rows`, as asked for.

    `texts` is all that was said, whose lists and JSON arrays are counted.
    """
    text = f"{claim} {asked}"
    own = [q for q in read_quantities(claim, language).numbers if (q.start, q.end) != (number.start, number.end)]
    own += read_quantities(asked, language).numbers
    pieces = [read_evidence(piece) for piece in nearest]
    if any(is_rounded(number, other) for piece in pieces for other in piece.quantities.numbers):
        return True
    if cues.COUNTING.search(text) and is_counted(number, texts):
        return True
    wanted = words_of(text)
    if number.dimension == "duration" and any(
        is_span(number, piece.quantities) for piece in pieces if not wanted or wanted & words_of(piece.text)
    ):
        return True
    operations = asked_for(text)
    operands = [*_of_pieces(number, nearest, frozenset(rows)), *_of_columns(number, rows, len(nearest))]
    alike = [operand for operand in operands if operand.number.dimension in (number.dimension, "")]
    fixed = any(cues.FLAT.search(operand.text) for operand in operands if operand.number.dimension == number.dimension)
    made = (
        *_added(operations, alike),
        *(() if fixed else _scaled(operations, operands, own, number, claim)),
        *_shares(operations, operands, number),
        *sums_and_means(texts, sums=operations.sums, means=operations.means),
    )
    return any(hits(number, value) for value in made)


def _of_pieces(number: Quantity, pieces: Sequence[str], rows: frozenset[str]) -> Iterator[_Operand]:
    """The numbers of each piece; in a row of a table what follows a number is not what it counts."""
    for place, piece in enumerate(pieces):
        for q in read_evidence(piece).quantities.numbers[:MAX_OPERANDS]:
            kind = q.dimension or ("" if piece in rows else _counted_noun(piece, q.end))
            yield _Operand(q, kind, place, piece, in_unit(q, number))


def _of_columns(number: Quantity, rows: Sequence[str], first: int) -> Iterator[_Operand]:
    """The numbers in rows that name their columns ("Item: bag; Price: 30"), a place for each column."""
    places: dict[str, int] = {}
    for row in rows[:MAX_ROWS]:
        for cell in row.split("; "):
            name, mark, value = cell.partition(": ")
            numbers = read_evidence(value).quantities.numbers if mark and len(value) <= 40 else ()
            if len(numbers) == 1:
                place = places.setdefault(name, len(places))
                yield _Operand(numbers[0], numbers[0].dimension or name.casefold(), first + place, cell, in_unit(numbers[0], number))


def _counted_noun(text: str, end: int) -> str:
    following = terms(text[end : end + 30])
    return following[0] if following and following[0] not in FUNCTION_WORDS and not following[0].isdigit() else ""


def _added(operations: Operations, alike: Sequence[_Operand]) -> Iterator[float]:
    """Sums, differences and means of numbers that belong together: of a column or piece, and of a unit over all pieces."""
    plain = operations._replace(products=False, ratios=False)
    pairs = [(a.value, b.value) for a, b in combinations(alike[:MAX_OPERANDS], 2) if a.belongs_to(b)]
    for a, b in pairs:
        yield from made_of(plain, (a, b), ())
    by: dict[tuple[str, int | None], list[float]] = {}
    for operand in alike:
        by.setdefault((operand.number.dimension, operand.place), []).append(operand.value)
        if operand.kind:
            by.setdefault((operand.kind, None), []).append(operand.value)
    for values in (values[:MAX_ROWS] for values in by.values() if len(values) > 1):
        if operations.sums:
            yield from (sum(values[:n]) for n in range(3, len(values) + 1))
            yield sum(dict.fromkeys(values))
        if operations.means:
            yield sum(values) / len(values)


def _scaled(operations: Operations, operands: Sequence[_Operand], own: Sequence[Quantity], number: Quantity, claim: str) -> Iterator[float]:
    """So many times an amount, or a part of it: the passage gives it for each, the claim says so, or counts what the passage names."""
    for amount in [o for o in operands if o.number.dimension == number.dimension][:MAX_OPERANDS]:
        near = [o.number for o in operands if o.place == amount.place and o.number is not amount.number]
        rate, named = bool(cues.RATE.search(amount.text)), frozenset(word[:_STEM_CHARS] for word in terms(amount.text)) - FUNCTION_WORDS
        for factor in [*own, *near]:
            times = factor.base_values()[0] if factor.dimension == "ratio" else factor.values[0]
            counts = factor in own and _counted_noun(claim, factor.end)[:_STEM_CHARS] in named
            if factor.dimension == "ratio" and (operations.ratios or operations.differences):
                yield from (amount.value * times, amount.value * (1 - times), amount.value * (1 + times))
            elif factor.dimension == number.dimension and number.dimension:
                continue
            elif times > 1 and (rate or operations.products or counts):
                yield amount.value * times
                if operations.products:
                    yield amount.value / times
        if rate and operations.products:
            yield from (amount.value * n for n in (2, 7, 12, 24, 52, 365))


def _shares(operations: Operations, operands: Sequence[_Operand], number: Quantity) -> Iterator[float]:
    """Shares, ratios and changes in per cent of two numbers that belong together."""
    if number.dimension != "ratio" and not operations.ratios:
        return
    ratios = Operations(False, False, False, False, True)
    for a, b in combinations([o for o in operands if o.number.dimension != "ratio"][:MAX_OPERANDS], 2):
        if a.value and b.value and a.value != b.value and (a.belongs_to(b) or a.place == b.place):
            yield from made_of(ratios, (), (a.value, b.value), share=share_of(number))
