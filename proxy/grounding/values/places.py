"""Where a sentence has another value than a claim: of the values of one kind, the one with the same words around it.

For `proxy.grounding.values.slots`. In: a value of a claim that nobody has said, and a sentence that says the same. Out: what the sentence
has in its place, and whether only that can be meant. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Protocol

from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, read_evidence, terms, words_of
from proxy.grounding.values.consistency import says_nothing
from proxy.grounding.values.stated import ANY_MONTH, TOKEN, Value, agrees_strictly, dates_agree_strictly, names_in
from proxy.language.dates import Date, Time
from proxy.language.names import Name, bare, folded
from proxy.language.quantities import Quantities, Quantity
from proxy.language.units import MONEY

MAX_COUNTED = 12
"""Numbers in words up to this are often counted from what the evidence lists: only one beside the same noun is another value."""
MAX_RATIO = 1000
_AROUND_WORDS = 4
SPELLED_ALIKE = 0.7
"""Similarity of two names' letters from which they are one name in two spellings: Nuba and Nouba."""
_RECORD = re.compile(r"^[\w .()/-]{1,60}: .{0,400}?(?:;|$)")
"""A piece of JSON, or of a table's row: "order.total: 129.5; order.currency: EUR"."""
_LABELS = {
    "money": r"price|cost|total|amount|fee|sum|preis|kosten|betrag|gebühr|precio|coste|importe|prix|montant|frais",
    "temperature": r"temp",
    "duration": r"duration|dauer|duración|durée|_(?:days|hours|minutes)\b",
}
"""Names under which a record has a bare number of a dimension."""


class _Placed(Protocol):
    """A value with its place in a text."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def text(self) -> str: ...


def in_place(value: Value, claim: str, quantities: Quantities, sentence: str, language: str, asked: str) -> tuple[str, bool]:
    """What `sentence` has where `claim` has `value`, "" without anything of its kind; and whether that is plain."""
    read = value.read
    if isinstance(read, Quantity):
        return _number_in_place(read, claim, quantities, sentence)
    if isinstance(read, Date):
        return _date_in_place(read, claim, quantities, sentence)
    if isinstance(read, Time):
        others = [t for t in read_evidence(sentence).quantities.times if not _is_in(t, quantities.times)]
        return _nearest(claim, read, sentence, others, alone=True)
    if isinstance(read, Name):
        return _name_in_place(read, claim, sentence, language, asked)
    months = [*dict.fromkeys(match[0] for match in ANY_MONTH.finditer(sentence))]
    return (months[0], len(months) == 1) if months else ("", False)


def _is_in(time: Time, times: Sequence[Time]) -> bool:
    return any(set(time.minutes) & set(other.minutes) for other in times)


def _number_in_place(number: Quantity, claim: str, quantities: Quantities, sentence: str) -> tuple[str, bool]:
    """A number of the same dimension, or beside the same word, that is none of the claim's others; "" where one in the place is within the
    claim's bound.
    """
    others = [
        o
        for o in read_evidence(sentence).quantities.numbers
        if (o.dimension == number.dimension or labelled(o, number, claim, sentence))
        and not says_nothing(o, sentence)
        and not any(agrees_strictly(q, o) for q in quantities.numbers)
    ]
    distinct = list({round(o.base_values()[0], 9): o for o in others if of_one_size(number, o)}.values())
    distinct = [
        o for o in distinct if o.dimension or not (o.spelled and o.values[0] <= MAX_COUNTED) or _same_noun(claim, number, sentence, o)
    ]
    if number.spelled and number.values[0] <= MAX_COUNTED and not number.dimension:
        distinct = [o for o in distinct if _same_noun(claim, number, sentence, o) and o.values[0] <= 2 * MAX_COUNTED]
    within = [o for o in read_evidence(sentence).quantities.numbers if number.relation in ("min", "max") and agrees_strictly(number, o)]
    return _outside(within, _nearest(claim, number, sentence, [*distinct, *within], alone=bool(number.dimension)))


def _outside(within: Sequence[_Placed], found: tuple[str, bool]) -> tuple[str, bool]:
    """`found`, unless it is one of those that the claim's bound allows."""
    return ("", False) if found[0] in {one.text for one in within} else found


def labelled(other: Quantity, number: Quantity, claim: str, sentence: str) -> bool:
    """Whether a bare number of a record stands behind a name that the claim has too: "price: 25" and "The price is 30 euros"."""
    if other.dimension or not number.dimension or _RECORD.match(sentence) is None:
        return False
    label = re.sub(r"[._]", " ", sentence[: other.start].rpartition(";")[2].partition(":")[0])
    kind = "money" if number.dimension in MONEY else number.dimension
    return bool(words_of(label) & words_of(claim)) or re.search(_LABELS.get(kind, r"(?!)"), label, re.I) is not None


def of_one_size(number: Quantity, other: Quantity) -> bool:
    """Whether two numbers may be told of the same thing: 30 million is no other value of 11."""
    a, b = abs(number.base_values()[0]), abs(other.base_values()[0])
    return min(a, b) * MAX_RATIO >= max(a, b)


def _date_in_place(date: Date, claim: str, quantities: Quantities, sentence: str) -> tuple[str, bool]:
    """A date that is none of the claim's others and says as much."""
    wanted = shape(date)
    dates = read_evidence(sentence).quantities.dates
    mine = quantities.dates
    others = [o for o in dates if shape(o) & wanted and not any(dates_agree_strictly(d, o) or dates_agree_strictly(o, d) for d in mine)]
    distinct = list({o.readings: o for o in others}.values())
    alike = [o for o in distinct if max(_shared_parts(date, o)) > 1]
    within = [o for o in dates if date.bound and dates_agree_strictly(date, o)]
    return _outside(within, _nearest(claim, date, sentence, alike if len(alike) == 1 else [*distinct, *within], alone=True))


def _shared_parts(date: Date, other: Date) -> Iterator[int]:
    """How many of year, month and day two dates have in common, by reading."""
    for mine in date.readings:
        for theirs in other.readings:
            yield sum(a is not None and a == b for a, b in zip(mine, theirs, strict=True))


def shape(date: Date) -> set[str]:
    """What a date tells: year, month, day."""
    return {name for reading in date.readings for name, part in zip(("year", "month", "day"), reading, strict=True) if part is not None}


def _name_in_place(name: Name, claim: str, sentence: str, language: str, asked: str) -> tuple[str, bool]:
    """A name that the claim lacks, with the same word before or behind it; of what was `asked`, the only one that the question lacks."""
    have = {bare(folded(word)) for word in TOKEN.findall(f"{asked} {claim}")}
    others = [
        n
        for n in names_in(sentence, language, every_capital=True, opening_is_none=True)
        if not any(_inflects(n.words[0], word) for word in have)
    ]
    if any(SequenceMatcher(None, "".join(n.words), "".join(name.words)).ratio() >= SPELLED_ALIKE for n in others):
        return "", False
    return _nearest(claim, name, sentence, list({n.words: n for n in others}.values()), alone=bool(asked))


def _inflects(a: str, b: str) -> bool:
    """Whether one word is the other with an ending of up to two letters."""
    short, long = sorted((a, b), key=len)
    return long.startswith(short) and len(long) - len(short) <= (2 if len(short) > 2 else 0)


def _nearest(claim: str, mine: _Placed, sentence: str, others: Sequence[_Placed], *, alone: bool) -> tuple[str, bool]:
    """Of the sentence's values the one that stands in the claim's place, and whether only it does: with most of the same words around it.

    `alone`: whether being the only one is enough.
    """
    here = _near(claim, mine.start, mine.end)
    scored = sorted(((_closeness(here, _near(sentence, o.start, o.end)), -i, o) for i, o in enumerate(others)), reverse=True)
    if not scored:
        return "", False
    best = scored[0][0]
    unique = best >= 1 and (len(scored) == 1 or scored[1][0] < best)
    return scored[0][2].text, unique or (alone and len(scored) == 1)


def _near(text: str, start: int, end: int) -> tuple[list[str], list[str]]:
    """The folded words before and behind a place."""
    return terms(text[max(0, start - 60) : start])[-_AROUND_WORDS:], terms(text[end : end + 60])[:_AROUND_WORDS]


def _same_noun(claim: str, number: Quantity, sentence: str, other: Quantity) -> bool:
    """Whether the same thing is counted."""
    here, there = terms(claim[number.end : number.end + 40])[:1], terms(sentence[other.end : other.end + 40])[:1]
    return bool(here) and here == there


def _closeness(here: tuple[list[str], list[str]], there: tuple[list[str], list[str]]) -> float:
    """How many words two places have in common: 1 for a neighbour, or one that says something on the same side; less for others."""
    score = 0.0
    for mine, theirs, next_to in ((here[0][::-1], there[0][::-1], 0), (here[1], there[1], 0)):
        if mine and theirs and mine[next_to] == theirs[next_to]:
            score += 1.0
        content = [w for w in mine if w not in FUNCTION_WORDS and len(w) > 1]
        score += sum(1.0 if i == 0 else 0.5 for i, w in enumerate(content) if w in theirs)
    around = {w for w in (*here[0], *here[1]) if w not in FUNCTION_WORDS and len(w) > 1}
    return score + 0.25 * len(around & {*there[0], *there[1]})
