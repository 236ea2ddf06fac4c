"""Where the evidence plainly has another value than a claim, in the same place of the same statement: the only contradiction that is exact.

In: a claim, the evidence's sentences nearest to it, and all that was said in the request (`StatedValues`). Out: a `Slot`, or None. Four
things must come together: the claim has a number, date, time or name that nobody has said, in whatever form; it follows from nothing that
was said; a sentence says the same words of the same subject; and that sentence has another value of the same kind where the claim has its
own, and no second one that could be meant. What is merely not there is no contradiction. `proxy.grounding.judging.labelling` asks the
verifier, too, which must find the claim better supported with the evidence's value in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice, pairwise
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, read_evidence, terms, words_of
from proxy.grounding.values.arithmetic import date_may_follow, may_be_scaled, may_follow, month_may_follow, time_may_follow, uncounted_spans
from proxy.grounding.values.consistency import says_nothing
from proxy.grounding.values.stated import (
    ANY_MONTH,
    TOKEN,
    Kind,
    StatedValues,
    Value,
    agrees_strictly,
    dates_agree_strictly,
    names_in,
    rounds_to,
    unsaid_values,
)
from proxy.language.dates import MONTHS, Date, Time
from proxy.language.names import Name, alike, bare, missing_name, name_words, read_names
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.quantities import MONEY, Quantities, Quantity, agrees, read_quantities
from proxy.language.text import fold, is_negated

_TEXTS = phrases(Path(__file__).parent)

MAX_UNSAID = 2
"""A claim with more values that nobody has said speaks of something else."""
MIN_SHARED = 1
"""Words that a sentence must have in common with the claim, beside values."""
ALIGNED = 0.6
"""Share of the claim's words, beside values, that the sentence must have. Measured: `benchmarks.actions_answers`."""
_SUPPOSITION = LazyPattern(_TEXTS.SUPPOSED, re.I)
"""How a claim begins that supposes a case, with values of the case's own."""
_REFERENCE = LazyPattern(_TEXTS.POINTS_BACK, re.I)
"""How a claim begins that speaks of what the answer itself said before: no sentence of the evidence says the same."""
_DENIAL = LazyPattern(_TEXTS.DENIED, re.I)
"""Before a value that the claim itself says is not the case."""


class Slot(Struct, frozen=True):
    """One place in which claim and evidence differ."""

    kind: Kind
    claim: str
    """The claim's words for it."""
    evidence: str
    """The evidence's."""
    position: int
    """Of the evidence's sentence, among those that were given."""
    aligned: float
    """Share of the claim's words, beside values, that the sentence has."""
    mutual: float
    """Share of the sentence's words that the claim has."""
    placed: bool
    """Whether the sentence's value is the only one of its kind, or the only one beside the same words."""


def slot(claim: str, sentences: Sequence[str], said: StatedValues, language: str, asked: str = "", earlier: str = "") -> Slot | None:
    """The place in which one of `sentences` has another value than `claim`, in the sentence that is nearest to it; None without one.

    `asked` is the question that a claim without subject answers, `earlier` what its answer says before it.
    """
    quantities = read_quantities(claim, language)
    unsaid = may_differ(claim, quantities, sentences, said, language, asked, earlier)
    if not unsaid or not sentences:
        return None
    wanted = words_of(f"{asked} {_without(claim, unsaid)}")
    found = []
    for position, sentence in enumerate(sentences):
        words = words_of(sentence)
        shared = wanted & words
        if len(shared) < min(MIN_SHARED, len(wanted)) or not wanted or is_negated(sentence, language) != is_negated(claim, language):
            continue
        for value in unsaid:
            other, placed = _in_place(value, claim, quantities, sentence, language, asked)
            if other:
                aligned, mutual = len(shared) / len(wanted), len(shared) / len(words)
                if len(shared) == 1 and placed:  # by one word nobody can tell which of several is meant
                    placed = len(set(others_in_place(value, claim, quantities, sentence, language, asked))) == 1
                found.append(Slot(value.kind, value.text, other, position, aligned, mutual, placed))
    return max(found, key=lambda s: (s.placed and s.aligned >= ALIGNED, s.aligned, s.placed), default=None)


_OPENING = " \"'“„«("


def instead(claim: str, sentence: str, language: str = "en") -> str:
    """What `sentence` has in place of a value of `claim`, which it contradicts; "" if that is unclear."""
    found = slot(claim, [sentence], StatedValues([sentence]), language)
    return found.evidence if found is not None else _only_other_name(claim, sentence, language)


def _only_other_name(claim: str, sentence: str, language: str) -> str:
    """The one name that only the sentence has, where the claim has one that the sentence lacks; a record's sentence has no slots."""
    mine, its = (read_names(text, language, every_capital=True) for text in (claim, sentence))
    said = read_evidence(sentence).names
    if not any(missing_name(name, said) for name in mine):
        return ""
    have = name_words(claim)
    others = [name.text for name in its if sentence[: name.start].strip(_OPENING) and missing_name(name, have)]
    return others[0] if len(others) == 1 else ""


def may_differ(
    claim: str, quantities: Quantities, sentences: Sequence[str], said: StatedValues, language: str, asked: str = "", earlier: str = ""
) -> list[Value]:
    """The claim's values that nobody has said, where so few of them can be compared with the evidence's; else none.

    None that can be worked out, of whatever numbers in `sentences`, the claim and what its answer says `earlier`.
    """
    if not said.whole or _SUPPOSITION.match(claim) or (not asked and _REFERENCE.match(claim)):
        return []
    every = unsaid_values(claim, quantities, said, language, asked)
    unsaid = list(islice((v for v in every if not _is_denied(claim, v)), MAX_UNSAID + 1))
    if not 0 < len(unsaid) <= MAX_UNSAID:
        return []
    around = [read_quantities(asked, language), *(read_evidence(sentence).quantities for sentence in sentences)]
    uncounted = uncounted_spans(" ".join(sentences))
    unsaid = [value for value in unsaid if not _may_follow(value, quantities, around, uncounted, said.quantities)]
    if not unsaid or not earlier:
        return unsaid
    before = read_quantities(earlier, language)
    before = replace(before, numbers=tuple(number for number in before.numbers if number.dimension))  # bare, it may count anything
    around = [before, *around]  # first, so that they are summed with the claim's own
    return [value for value in unsaid if not _may_follow(value, quantities, around, uncounted, said.quantities)]


def _may_follow(value: Value, quantities: Quantities, around: Sequence[Quantities], uncounted: frozenset[float], said: Quantities) -> bool:
    read = value.read
    if isinstance(read, Date):
        return date_may_follow(read, quantities, around, uncounted)
    if isinstance(read, Time):
        return time_may_follow(read, quantities, around, uncounted)
    if read is None:
        return month_may_follow(MONTHS[value.text.lower()], quantities, around)
    return isinstance(read, Quantity) and (may_follow(read, quantities, around) or may_be_scaled(read, quantities, around, said))


def _is_denied(claim: str, value: Value) -> bool:
    """Whether the claim itself says that its value is not the case."""
    return _DENIAL.search(claim[max(0, value.start - 24) : value.start]) is not None


def _without(claim: str, values: Sequence[Value]) -> str:
    """The claim's other words."""
    out, at = [], 0
    for value in sorted(values, key=lambda v: v.start):
        out.append(claim[at : max(at, value.start)])
        at = max(at, value.end)
    return " ".join([*out, claim[at:]])


# ---- swaps ----


MAX_SWAPS = 6
"""Asked of one claim."""


def swaps(claim: str, sentences: Sequence[str], said: StatedValues, language: str, asked: str = "") -> list[str]:
    """The exchanges worth asking about, those with values of the sentence most like the claim first; at most `MAX_SWAPS`."""
    quantities = read_quantities(claim, language)
    found: dict[str, int] = {}
    for value in may_differ(claim, quantities, sentences, said, language, asked):
        wanted = words_of(f"{asked} {claim[: value.start]} {claim[value.end :]}")
        for sentence in sentences:
            shared = len(wanted & words_of(sentence))
            for other in others_in_place(value, claim, quantities, sentence, language, asked) if shared or not wanted else ():
                found.setdefault(f"{claim[: value.start]}{other}{claim[value.end :]}", shared)
    return sorted(found, key=lambda text: -found[text])[:MAX_SWAPS]


def others_in_place(value: Value, claim: str, quantities: Quantities, sentence: str, language: str, asked: str) -> Iterator[str]:
    """What `sentence` has of the kind of `value`, as written there, that the claim does not have."""
    read = value.read
    if isinstance(read, Name):
        yield from _names(read, claim, sentence, language, asked)
    elif read is None:
        yield from (match[0] for match in ANY_MONTH.finditer(sentence))
    else:
        yield from (other.text for other in _others(read, claim, quantities, sentence, asked))


def _others(
    read: Quantity | Date | Time, claim: str, quantities: Quantities, sentence: str, asked: str
) -> Sequence[Quantity | Date | Time]:
    """The sentence's numbers, dates or times that say as much as one of the claim's, and are none of its own."""
    there = read_evidence(sentence).quantities
    if isinstance(read, Quantity):
        return [
            o
            for o in there.numbers
            if (o.dimension == read.dimension or _is_labelled(o, read, claim, sentence))
            and not says_nothing(o, sentence)
            and not any(agrees_strictly(own, o) or rounds_to(own, o) for own in quantities.numbers)
            and _of_one_size(read, o)
        ]
    if isinstance(read, Date):
        mine, wanted = quantities.dates, _shape(read)
        dates = [o for o in there.dates if _shape(o) & wanted and not _is_of_another_field(o, claim, asked, sentence)]
        return [o for o in dates if not any(dates_agree_strictly(own, o) or dates_agree_strictly(o, own) for own in mine)]
    taken = {minute for own in quantities.times for minute in own.minutes}
    return [o for o in there.times if taken.isdisjoint(o.minutes) and not _is_of_another_field(o, claim, asked, sentence)]


def _names(name: Name, claim: str, sentence: str, language: str, asked: str) -> Iterator[str]:
    """Names that the claim lacks and that are no other spelling of its own."""
    if not any(word[:1].isupper() and word[1:].islower() for word in TOKEN.findall(name.text)):
        return  # JSON, MiB: a term and nobody's name
    have = {bare(fold(word)) for word in TOKEN.findall(f"{asked} {claim}")} - set(name.words)
    for other in names_in(sentence, language, every_capital=True, opening_is_none=True):
        rest = [word for word in other.words if word not in name.words]
        own = [word for word in name.words if word not in other.words]
        if not rest or not own or any(word in have for word in rest):
            continue
        if SequenceMatcher(None, "".join(rest), "".join(own)).ratio() < SPELLED_ALIKE:
            yield other.text


# ---- places ----


MAX_COUNTED = 12
"""Numbers in words up to this are often counted from what the evidence lists: only one beside the same noun is another value."""
MAX_RATIO = 1000
_AROUND_WORDS = 4
SPELLED_ALIKE = 0.7
"""Similarity of two names' letters from which they are one name in two spellings: Nuba and Nouba."""
_RECORD = re.compile(r"^[\w .()/-]{1,60}: .{0,400}?(?:;|$)")
"""A piece of JSON, or of a table's row: "order.total: 129.5; order.currency: EUR"."""
_JOINT = re.compile(r"\s?(?:[-–—]|(?:and|to|und|bis|y|a|et|à|e|até)\b)\s?")
"""Between the ends of a range."""
_WHEN = re.compile(
    r"at|on|date|day|times?|when|start|begin|datum|tag|(?:uhr)?z\w*|fecha|dia|hora|inic\w*|quand|jour|heure|debut|data|giorn\w*|ora"
)
"""Terms of a field's name that say no more than that it holds the date or time at which something is."""
_LABELS = {
    "money": r"price|cost|total|amount|fee|sum|preis|kosten|betrag|gebühr|precio|coste|importe|prix|montant|frais",
    "temperature": r"temp",
    "duration": r"duration|dauer|duración|durée|_(?:days|hours|minutes)\b",
}
"""Names under which a record has a bare number of a dimension."""


_LocatedValue = Quantity | Date | Time | Name
"""A value with its place in a text."""


def _in_place(value: Value, claim: str, quantities: Quantities, sentence: str, language: str, asked: str) -> tuple[str, bool]:
    """What `sentence` has where `claim` has `value`, "" without anything of its kind; and whether that is plain."""
    read = value.read
    if isinstance(read, Quantity):
        return _number_in_place(read, claim, quantities, sentence, asked)
    if isinstance(read, Date):
        return _date_in_place(read, claim, quantities, sentence, asked)
    if isinstance(read, Time):
        return _nearest(claim, read, sentence, _others(read, claim, quantities, sentence, asked), alone=True)
    if isinstance(read, Name):
        return _name_in_place(read, claim, sentence, language, asked)
    months = [*dict.fromkeys(match[0] for match in ANY_MONTH.finditer(sentence))]
    return (months[0], len(months) == 1) if months else ("", False)


def _number_in_place(number: Quantity, claim: str, quantities: Quantities, sentence: str, asked: str) -> tuple[str, bool]:
    """A number of the same dimension, or beside the same word, that is none of the claim's others; "" where one in the place is within the
    claim's bound, or the claim's within the sentence's: "with 50 litres" where an apron is needed "above 5".
    """
    if _is_in_range(number, sentence):
        return "", False
    others = [o for o in _others(number, claim, quantities, sentence, asked) if isinstance(o, Quantity)]
    distinct = list({round(o.base_values()[0], 9): o for o in others}.values())
    distinct = [
        o for o in distinct if o.dimension or not (o.spelled and o.values[0] <= MAX_COUNTED) or _same_noun(claim, number, sentence, o)
    ]
    if number.spelled and number.values[0] <= MAX_COUNTED and not number.dimension:
        distinct = [o for o in distinct if _same_noun(claim, number, sentence, o) and o.values[0] <= 2 * MAX_COUNTED]
    within = [o for o in read_evidence(sentence).quantities.numbers if number.relation in ("min", "max") and agrees_strictly(number, o)]
    if not number.relation:
        within += [o for o in distinct if o.relation in ("min", "max") and agrees(o, number)]
    return _outside(within, _nearest(claim, number, sentence, [*distinct, *within], alone=bool(number.dimension)))


def _is_in_range(number: Quantity, sentence: str) -> bool:
    """Whether the sentence has a range that the number lies in: "25 minutes" where it has "20 to 30 minutes"."""
    for low, high in pairwise(read_evidence(sentence).quantities.numbers):
        if high.dimension == number.dimension and low.dimension in ("", high.dimension) and _JOINT.fullmatch(sentence, low.end, high.start):
            unit = high.unit if low.unit is None else low.unit
            bottom, top = replace(low, unit=unit).base_values()[0], high.base_values()[0]
            if bottom < top and any(bottom <= value <= top for value in number.base_values()):
                return True
    return False


def _outside(within: Sequence[_LocatedValue], found: tuple[str, bool]) -> tuple[str, bool]:
    """`found`, unless it is one of those that the claim's bound allows."""
    return ("", False) if found[0] in {one.text for one in within} else found


def _is_labelled(other: Quantity, number: Quantity, claim: str, sentence: str) -> bool:
    """Whether a bare number of a record stands behind a name that the claim has too: "price: 25" and "The price is 30 euros"."""
    if other.dimension or not number.dimension or _RECORD.match(sentence) is None:
        return False
    label, _ = _field(sentence, other.start)
    kind = "money" if number.dimension in MONEY else number.dimension
    return bool(words_of(label) & words_of(claim)) or re.search(_LABELS.get(kind, r"(?!)"), label, re.I) is not None


def _is_of_another_field(other: Date | Time, claim: str, asked: str, sentence: str) -> bool:
    """Whether a date or time is all of a record's field whose name the claim does not speak of, and that says more than when: "booked from
    6 May" beside "free_cancellation_until: 2025-05-03".
    """
    label, before = _field(sentence, other.start)
    if before.strip() or sentence[other.end : other.end + 1] not in ("", ";") or _RECORD.match(sentence) is None:
        return False
    named = [word for word in terms(label) if word not in FUNCTION_WORDS]
    spoken = terms(f"{asked} {claim}")
    return not any(_WHEN.fullmatch(word) or alike(word, said) for word in named for said in spoken)


def _field(sentence: str, at: int) -> tuple[str, str]:
    """The name of a record's field that the value at `at` is in, as words, and what stands between the two."""
    label, _, before = sentence[:at].rpartition(";")[2].partition(":")
    return re.sub(r"[._]", " ", label), before


def _of_one_size(number: Quantity, other: Quantity) -> bool:
    """Whether two numbers may be told of the same thing: 30 million is no other value of 11."""
    a, b = abs(number.base_values()[0]), abs(other.base_values()[0])
    return min(a, b) * MAX_RATIO >= max(a, b)


def _date_in_place(date: Date, claim: str, quantities: Quantities, sentence: str, asked: str) -> tuple[str, bool]:
    """A date that is none of the claim's others and says as much."""
    distinct = list({o.readings: o for o in _others(date, claim, quantities, sentence, asked) if isinstance(o, Date)}.values())
    if any(o.readings[0][1] is not None and dates_agree_strictly(o, date) for o in read_evidence(sentence).quantities.dates):
        return "", False  # the sentence says it without its year
    alike = [o for o in distinct if max(_shared_parts(date, o)) > 1]
    within = [o for o in read_evidence(sentence).quantities.dates if date.bound and dates_agree_strictly(date, o)]
    return _outside(within, _nearest(claim, date, sentence, alike if len(alike) == 1 else [*distinct, *within], alone=True))


def _shared_parts(date: Date, other: Date) -> Iterator[int]:
    """How many of year, month and day two dates have in common, by reading."""
    for mine in date.readings:
        for theirs in other.readings:
            yield sum(a is not None and a == b for a, b in zip(mine, theirs, strict=True))


def _shape(date: Date) -> set[str]:
    """What a date tells: year, month, day."""
    return {name for reading in date.readings for name, part in zip(("year", "month", "day"), reading, strict=True) if part is not None}


def _name_in_place(name: Name, claim: str, sentence: str, language: str, asked: str) -> tuple[str, bool]:
    """A name that the claim lacks, with the same word before or behind it; of what was `asked`, the only one that the question lacks."""
    have = {bare(fold(word)) for word in TOKEN.findall(f"{asked} {claim}")}
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


def _nearest(claim: str, mine: _LocatedValue, sentence: str, others: Sequence[_LocatedValue], *, alone: bool) -> tuple[str, bool]:
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
