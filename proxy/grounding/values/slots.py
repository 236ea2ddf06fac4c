"""Where the evidence plainly has another value than a claim, in the same place of the same statement: the only contradiction that is exact.

In: a claim, the evidence's sentences nearest to it, and all that was said in the request (`Said`). Out: a `Slot`, or None. Four things
must come together: the claim has a number, date, time, name or quotation that nobody has said, in whatever form; it follows from nothing
that was said; a sentence says the same words of the same subject; and that sentence has another value of the same kind where the claim
has its own, and no second one that could be meant. What is merely not there is no contradiction. `proxy.verification.deciding` asks the
verifier, too, which must not think that the claim is supported.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from proxy.grounding.evidence.reading import FUNCTION_WORDS, NUMERAL, read_evidence
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.values.consistency import date_is_said, says_nothing
from proxy.grounding.values.dates import Date, Time, date_agrees
from proxy.grounding.values.names import Name, NameWords, bare, folded, missing_name, name_words, read_names
from proxy.grounding.values.negation import is_negated
from proxy.grounding.values.quantities import Quantities, Quantity, agrees, read_quantities
from proxy.grounding.values.recomputing import date_derived, derived, time_derived
from proxy.grounding.values.units import MONEY

Kind = Literal["number", "date", "time", "name", "quotation"]
MAX_SAID_CHARS = 60_000
"""Of what was said; where there is more, nobody can tell quickly that a value is not in it, and nothing is exact."""
MAX_UNSAID = 2
"""A claim with more values that nobody has said speaks of something else."""
MIN_SHARED = 1
"""Words that a sentence must have in common with the claim, beside values."""
ALIGNED = 0.6
"""Share of the claim's words, beside values, that the sentence must have. Measured: `benchmarks.actions_answers`."""
MAX_COUNTED = 12
"""Numbers in words up to this are often counted from what the evidence lists: only one beside the same noun is another value."""
MAX_RATIO = 1000
_AROUND_WORDS = 4
_STEM_CHARS = 5
_ENDING = re.compile(r"(?:es|en|ed|er|s|e|n|t)$")
_ASKING = frozenset(
    [
        "who",
        "whom",
        "what",
        "when",
        "where",
        "why",
        "how",
        "which",
        "does",
        "do",
        "did",
        "can",
        "could",
        "will",
        "would",
        "many",
        "much",
        "wer",
        "wen",
        "was",
        "wann",
        "wo",
        "wie",
        "warum",
        "welche",
        "quien",
        "que",
        "cuando",
        "donde",
        "como",
        "cual",
        "cuanto",
        "qui",
        "quand",
        "ou",
        "comment",
        "combien",
        "quel",
        "quelle",
    ]
)
"""Words of a question, and auxiliaries, that say nothing of what it is about."""
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]{8,300})[\"”“»]")
_JOINT = re.compile(
    r"[ \u00a0](?:and|und|y|e|et|&|of|de|del|della|du|von|der)[ \u00a0](?:(?:the|der|die|das|el|la|los|las|le|les|l['’])[ \u00a0]?)?"
)
_GERMAN_PAIR = re.compile(r"(?<=[a-zäöüß,(] )([A-ZÄÖÜ][\w-]{2,} [A-ZÄÖÜ][\w-]{2,})\b(?! [A-ZÄÖÜ])")
_GERMAN_PLACE = re.compile(r"\b(?:in|aus|nach) ([A-ZÄÖÜ][a-zäöüß-]{2,})\b(?! [A-ZÄÖÜ])")
_MONTHS = (
    "january|february|march|april|june|july|august|september|october|november|december|januar|februar|märz|mai|juni|juli|oktober|dezember"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|janvier|février|mars|avril|juin|juillet"
    "|août|septembre|octobre|novembre|décembre"
)
_ANY_MONTH = re.compile(rf"\b(?:{_MONTHS}|May)\b", re.I)
_MONTH_ALONE = re.compile(
    rf"(?:(?<=\bin )|(?<=\bim )|(?<=\ben )|(?<=\bsince )|(?<=\bseit )|(?<=\bof )|(?<=\bfrom )|(?<=\buntil )|(?<=\bby )|(?<=\bbis ))"
    rf"(?:{_MONTHS}|may)\b(?!,? \d)(?! (?:of|del?) \d)", re.I
)  # fmt: skip
_SUPPOSED = re.compile(
    r"(?:if|when|whoever|anyone|someone|somebody|anybody|for example|e\.g\.|say|suppose|wenn|falls|wer|angenommen|zum beispiel|si|cuando|quien"
    r"|por ejemplo|lorsque|quand|quiconque|par exemple)\b|(?:an?|eine?|una?|une?) [\w-]{1,30} (?:who|that|which|whose|bought|made|booked|sent|of"
    r"|der|die|das|que|qui)\b",
    re.I,
)
"""How a claim begins that supposes a case, with values of the case's own."""
_DENIED = re.compile(
    r"\b(?:not|never|no|instead of|rather than|nicht|kein\w{0,2}|statt|anstelle|en lugar de|en vez de|pas|au lieu de|plutôt que)"
    r"(?: [\w']{1,6}){0,2} $",
    re.I,
)
"""Before a value that the claim itself says is not the case."""
SPELLED_ALIKE = 0.7
"""Similarity of two names' letters from which they are one name in two spellings: Nuba and Nouba."""
_COUNTS = re.compile(r"[ \u00a0-]{1,2}[^\W\d_]{3,}")
"""Behind a number without a unit: what it counts."""
_RECORD = re.compile(r"^[\w .()/-]{1,60}: .{0,400}?(?:;|$)")
"""A piece of JSON, or of a table's row: "order.total: 129.5; order.currency: EUR"."""
_LABELS = {
    "money": r"price|cost|total|amount|fee|sum|preis|kosten|betrag|gebühr|precio|coste|importe|prix|montant|frais",
    "temperature": r"temp",
    "duration": r"duration|dauer|duración|durée|_(?:days|hours|minutes)\b",
}
"""Names under which a record has a bare number of a dimension."""
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*")


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


_STEMS: dict[int, tuple[str, ...]] = dict(
    enumerate(
        (
            ("jan", "ene"), ("feb", "fev"), ("mar",), ("apr", "abr", "avr"), ("may", "mai"), ("jun", "jui"), ("jul", "jui"),
            ("aug", "ago", "aou"), ("sep",), ("oct", "okt"), ("nov",), ("dec", "dez", "dic"),
        ), 1)
)  # fmt: skip
"""The first letters of each month's names, folded."""


class _Placed(Protocol):
    """A value with its place in a text."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def text(self) -> str: ...


class Said:
    """All that was said in a request, to look values up in; read at the first look."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self.whole = sum(map(len, texts)) <= MAX_SAID_CHARS
        """Whether all of it can be looked through."""

    @cached_property
    def text(self) -> str:
        """One text, its parts apart."""
        return "\n\n".join(self.texts)

    @cached_property
    def quantities(self) -> Quantities:
        """Its numbers, dates and times."""
        return read_quantities(self.text, any_language=True)

    @cached_property
    def numerals(self) -> frozenset[str]:
        """Its runs of digits."""
        return frozenset(NUMERAL.findall(self.text))

    @cached_property
    def years(self) -> tuple[int, ...]:
        """The years of its dates."""
        return tuple(dict.fromkeys(y for date in self.quantities.dates for y, _, _ in date.readings if y is not None))

    @cached_property
    def month_stems(self) -> frozenset[str]:
        """The months that it names, or writes as numbers."""
        named = {folded(match[0])[:3] for match in _ANY_MONTH.finditer(self.text)}
        numbers = {m for date in self.quantities.dates for _, m, _ in date.readings if m is not None}
        return frozenset(named | {stem for m in numbers for stem in _STEMS[m]})

    @cached_property
    def names(self) -> NameWords:
        """The words that names are looked up in."""
        return name_words(self.text)

    @cached_property
    def folded(self) -> str:
        """Lower case, one space between words, no diacritics."""
        return " ".join(_TOKEN.findall(folded(self.text)))


class _Value(Struct, frozen=True):
    """A value of the claim that nobody has said."""

    kind: Kind
    text: str
    start: int
    end: int
    read: Quantity | Date | Time | Name | None = None


def slot(
    claim: str, sentences: Sequence[str], said: Said, language: str, asked: str = "", *, also_derived: bool = False
) -> Slot | None:  # fmt: skip
    """The place in which one of `sentences` has another value than `claim`, in the sentence that is nearest to it; None without one.

    `asked` is the question that a claim without subject answers. With `also_derived` a value that can be worked out is no better than
    another.
    """
    if not said.whole or not sentences or _SUPPOSED.match(claim):
        return None
    quantities = read_quantities(claim, language)
    every = _unsaid(claim, quantities, said, language, asked, also_derived=also_derived)
    unsaid = [v for v in every if not _DENIED.search(claim[max(0, v.start - 24) : v.start])]
    if not unsaid or len(unsaid) > MAX_UNSAID:
        return None
    wanted = _words(f"{asked} {_without(claim, unsaid)}")
    found = []
    for position, sentence in enumerate(sentences):
        words = _words(sentence)
        shared = wanted & words
        if len(shared) < min(MIN_SHARED, len(wanted)) or not wanted or is_negated(sentence, language) != is_negated(claim, language):
            continue
        for value in unsaid:
            other, placed = _in_place(value, claim, quantities, sentence, language, asked)
            if other:
                found.append(Slot(value.kind, value.text, other, position, len(shared) / len(wanted), len(shared) / len(words), placed))
    return max(found, key=lambda s: (s.placed and s.aligned >= ALIGNED, s.aligned, s.placed), default=None)


# ---- values that nobody has said ----


def _unsaid(
    claim: str, quantities: Quantities, said: Said, language: str, asked: str = "", *, also_derived: bool = False
) -> Iterator[_Value]:  # fmt: skip
    for number in quantities.numbers:
        if says_nothing(number, claim) or _is_said(number, claim, said):
            continue
        if also_derived or not derived(number, claim, asked, said.quantities, said.texts, quantities.numbers):
            yield _Value("number", number.text, number.start, number.end, number)
    for date in quantities.dates:
        if not _date_is_said(date, said) and (also_derived or not date_derived(date, said.quantities)):
            yield _Value("date", date.text, date.start, date.end, date)
    minutes = {m for time in said.quantities.times for m in time.minutes}
    for time in quantities.times:
        if (
            minutes.isdisjoint(time.minutes)
            and not set(NUMERAL.findall(time.text)) <= said.numerals
            and not time_derived(time, said.quantities)
        ):
            yield _Value("time", time.text, time.start, time.end, time)
    for month in _months(claim):
        if folded(month[0])[:3] not in said.month_stems:
            yield _Value("date", month[0], *month.span())
    for name in _names(claim, language, every_capital=bool(asked)):
        if missing_name(name, said.names):
            yield _Value("name", name.text, name.start, name.end, name)


def _is_said(number: Quantity, claim: str, said: Said) -> bool:
    """Whether somebody has said a number, in whatever form. Two bounds are compared as they are: "within 30 days" is not "within 60 days";
    and an amount with a unit is not the same number of something else.
    """
    for other in said.quantities.numbers:
        if number.dimension and not other.dimension and _COUNTS.match(said.text, other.end):
            continue
        if _agrees(number, other):
            return True
    return not number.dimension and not number.spelled and all(n in said.numerals for n in NUMERAL.findall(number.text))


def _agrees(number: Quantity, other: Quantity) -> bool:
    """Whether two numbers say the same; of two bounds of one kind, whether they are the same."""
    if number.relation == other.relation and number.relation in ("min", "max"):
        return agrees(replace(number, relation=""), replace(other, relation=""))
    return agrees(number, other)


def _date_is_said(date: Date, said: Said) -> bool:
    """Whether somebody has said a date; of a year alone its last two digits only behind another year, as in 1939-45."""
    year, month, _ = date.readings[0]
    if month is not None or date.decade or date.bound or year is None:
        return date_is_said(date, said)
    if year in said.years or str(year) in said.numerals:
        return True
    return re.search(rf"\d{{4}} ?[-–/] ?{year % 100:02d}(?!\d)", said.text) is not None


def _names(text: str, language: str, *, every_capital: bool = False, opening_is_none: bool = False) -> list[Name]:
    """The names of a text, each part of one that "and" or "of" joins by itself; in German also two capitalised words in a row, and what
    stands bare behind "in", as places do. With `opening_is_none` a lone capital at the text's beginning is only that of its first word.
    """
    spans = [(name.start, name.end) for name in read_names(text, language, every_capital=every_capital)]
    if language == "de" and not every_capital:
        spans += [m.span(1) for pattern in (_GERMAN_PLACE, _GERMAN_PAIR) for m in pattern.finditer(text)]
    found: dict[int, Name] = {}
    for start, end in spans:
        at = start
        for part in _JOINT.split(text[start:end]):
            begin = text.index(part, at)
            at = begin + len(part)
            words = tuple(w for word in _TOKEN.findall(part) if (w := bare(folded(word))))
            opens = opening_is_none and len(words) == 1 and not text[:begin].strip(" \"'“„«(")
            if words and part[:1].isupper() and not opens:
                found.setdefault(begin, Name(part, words, begin, at))
    return [found[begin] for begin in sorted(found)]


def _months(text: str) -> list[re.Match[str]]:
    """Months that stand without a day or a year."""
    return list(_MONTH_ALONE.finditer(text))


def unsaid_numbers(claim: str, said: Said, language: str) -> list[Quantity]:
    """The numbers of `claim` that nobody has said, in whatever form."""
    numbers = read_quantities(claim, language).numbers
    return [n for n in numbers if not says_nothing(n, claim) and not any(agrees(n, other) for other in said.quantities.numbers)]


def missing_names(claim: str, said: Said, language: str) -> bool:
    """Whether `claim` has a name that nobody has said."""
    return any(missing_name(name, said.names) for name in _names(claim, language))


def _without(claim: str, values: Sequence[_Value]) -> str:
    out, at = [], 0
    for value in sorted(values, key=lambda v: v.start):
        out.append(claim[at : max(at, value.start)])
        at = max(at, value.end)
    return " ".join([*out, claim[at:]])


# ---- the same statement ----


def _words(text: str) -> frozenset[str]:
    """What a text speaks of: its terms without their endings."""
    said = (term for term in terms(text) if len(term) > 1 and not term[0].isdigit() and term not in FUNCTION_WORDS and term not in _ASKING)
    return frozenset(_ENDING.sub("", term)[:_STEM_CHARS] if len(term) > 3 else term for term in said)


# ---- the same place ----


def _in_place(value: _Value, claim: str, quantities: Quantities, sentence: str, language: str, asked: str) -> tuple[str, bool]:
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
    months = [*dict.fromkeys(match[0] for match in _ANY_MONTH.finditer(sentence))]
    return (months[0], len(months) == 1) if months else ("", False)


def _is_in(time: Time, times: Sequence[Time]) -> bool:
    return any(set(time.minutes) & set(other.minutes) for other in times)


def _number_in_place(number: Quantity, claim: str, quantities: Quantities, sentence: str) -> tuple[str, bool]:
    """A number of the same dimension, or beside the same word, that is none of the claim's others."""
    others = [
        o
        for o in read_evidence(sentence).quantities.numbers
        if (o.dimension == number.dimension or _labelled(o, number, claim, sentence))
        and not says_nothing(o, sentence)
        and not any(_agrees(q, o) for q in quantities.numbers)
    ]
    distinct = list({round(o.base_values()[0], 9): o for o in others if _of_one_size(number, o)}.values())
    distinct = [
        o for o in distinct if o.dimension or not (o.spelled and o.values[0] <= MAX_COUNTED) or _same_noun(claim, number, sentence, o)
    ]
    if number.spelled and number.values[0] <= MAX_COUNTED and not number.dimension:
        distinct = [o for o in distinct if _same_noun(claim, number, sentence, o) and o.values[0] <= 2 * MAX_COUNTED]
    return _nearest(claim, number, sentence, distinct, alone=bool(number.dimension))


def _labelled(other: Quantity, number: Quantity, claim: str, sentence: str) -> bool:
    """Whether a bare number of a record stands behind a name that the claim has too: "price: 25" and "The price is 30 euros"."""
    if other.dimension or not number.dimension or _RECORD.match(sentence) is None:
        return False
    label = re.sub(r"[._]", " ", sentence[: other.start].rpartition(";")[2].partition(":")[0])
    kind = "money" if number.dimension in MONEY else number.dimension
    return bool(_words(label) & _words(claim)) or re.search(_LABELS.get(kind, r"(?!)"), label, re.I) is not None


def _of_one_size(number: Quantity, other: Quantity) -> bool:
    """Whether two numbers may be told of the same thing: 30 million is no other value of 11."""
    a, b = abs(number.base_values()[0]), abs(other.base_values()[0])
    return min(a, b) * MAX_RATIO >= max(a, b)


def _date_in_place(date: Date, claim: str, quantities: Quantities, sentence: str) -> tuple[str, bool]:
    """A date that is none of the claim's others and says as much."""
    shape = _shape(date)
    dates = read_evidence(sentence).quantities.dates
    others = [o for o in dates if _shape(o) & shape and not any(date_agrees(d, o) or date_agrees(o, d) for d in quantities.dates)]
    distinct = list({o.readings: o for o in others}.values())
    alike = [o for o in distinct if max(_shared_parts(date, o)) > 1]
    return _nearest(claim, date, sentence, alike if len(alike) == 1 else distinct, alone=True)


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
    have = {bare(folded(word)) for word in _TOKEN.findall(f"{asked} {claim}")}
    others = [
        n
        for n in _names(sentence, language, every_capital=True, opening_is_none=True)
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
