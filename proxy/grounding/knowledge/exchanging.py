"""A claim with a fact's own value in place of one of its own: what tells a wrong value from another matter, in whatever language.

In: a claim, and a fact about the same subject. Out: texts for a verifier, and what its answers mean. "Das Lager fasst zwölf Millionen
Liter" beside "holds 3.2 million litres" is another value, or speaks of something else. It is another value where the verifier finds the
claim supported as soon as "3.2 million litres" stands in it, hardly without, and the fact supported by the claim so changed. Numbers, units
and dates are compared by what they are worth (`proxy.language.quantities`), so that the languages of the two do not matter. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from proxy.exchange.judgements import Support
from proxy.grounding.evidence.reading import read_evidence
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.knowledge.conflicts import Conflict
from proxy.grounding.values.consistency import says_nothing
from proxy.grounding.values.slots import may_differ
from proxy.grounding.values.stated import StatedValues, Value
from proxy.grounding.values.swaps import others_in_place
from proxy.language.patterns import LazyPattern
from proxy.language.quantities import Quantities, Quantity, agrees, read_quantities
from proxy.language.units import MONEY

MAX_EXCHANGES, MAX_FACTS = 2, 2
"""Asked of one claim and fact, and facts of one claim: two pairs each, so that no more wait for the verifier than it takes at a time."""
CONFIRMED, GAIN, BACK = 0.7, 0.2, 0.5
"""Support of the claim with the fact's value in it, how much more that is than its own, and the support of the fact by the claim so
changed, from which a number, date or time is wrong. These and the next were chosen on the development halves of
`benchmarks.sample_facts`, where no true statement is called false by them."""
SURELY_CONFIRMED, SURE_GAIN = 0.9, 0.6
"""The same, of a fact that says more than the claim, and so does not follow from it."""
LIKELY, LARGER_GAIN, SURELY_BACK = 0.55, 0.3, 0.75
"""The same, of a fact that says just what the claim says but for the value."""
BOTH_CONFIRMED, BOTH_BACK = 0.85, 0.8
"""The same where each of the two follows from the other, whatever the verifier makes of the claim's own value."""
NAMED, NAMED_GAIN = 0.75, 0.4
"""The same of a name."""


_OPPOSITES = tuple(
    (LazyPattern(rf"\b(?:{one})", re.I), LazyPattern(rf"\b(?:{other})", re.I))
    for one, other in (
        ("open|öffne|geöffnet|abre|abier|ouvr|ouvert", "clos|shut|schließ|geschlossen|cierr|cerra|ferm"),
        ("start|begin|began|anfang|comien|empie|inici|commenc|début", "end[se]?\\b|ended|finish|ende[tn]?\\b|termin|acab|fini"),
        ("arriv|ankunft|ankomm|kommt an|lleg", "depart|leave[sd]?\\b|abfahr|fährt ab|sale\\b|salida|départ|part\\b"),
        ("max|at most|höchst|como máximo|au plus", "min|at least|mindest|al menos|au moins"),
        ("born|geboren|nac[ií]|née?\\b|naiss", "died|death|gestorben|starb|muri|mort|mouru"),
        ("buy|bought|kauf|compr|achet", "s[eo]ld|sell|verkauf|vend"),
    )
)
"""The two ends of one thing, in four languages."""


class ValueExchange(Struct, frozen=True):
    """One value of a claim, and the fact's in its place."""

    conflict: Conflict
    text: str
    """The claim with it."""


def exchanges_of(claim: str, fact: str, subject: set[str], language: str) -> list[ValueExchange]:
    """The exchanges worth asking about; none of what names the fact's `subject` (terms)."""
    if _are_opposed(claim, fact):
        return []
    quantities = read_quantities(claim, language)
    found, values = [], list[Value]()
    for value in may_differ(claim, quantities, [fact], StatedValues([fact]), language):
        if (isinstance(value.read, Quantity) and _is_allowed(value.read, fact)) or subject & set(terms(value.text)):
            continue
        values.append(value)
        for other in others_in_place(value, claim, quantities, fact, language, ""):
            if value.kind != "name" or not subject & set(terms(other)):
                found.append(ValueExchange(Conflict(value.kind, value.text, other), _with(claim, value.start, value.end, other)))
    return [*_times(claim, fact, values), *_units(claim, fact, quantities), *found][:MAX_EXCHANGES]


def _are_opposed(claim: str, fact: str) -> bool:
    """Whether one speaks of an end and the other of a beginning: when a shop closes says nothing of when it opens."""
    for one, other in _OPPOSITES:
        sides = [(one.search(text) is not None, other.search(text) is not None) for text in (claim, fact)]
        if sides in ([(True, False), (False, True)], [(False, True), (True, False)]):
            return True
    return False


def _times(claim: str, fact: str, values: Sequence[Value]) -> Iterator[ValueExchange]:
    """All times of a claim for as many of the fact's: "from 10 to 16", where it is from 8 to 18."""
    there = read_evidence(fact).quantities.times
    if len(values) < 2 or len(values) != len(there) or any(value.kind != "time" for value in values):
        return
    text = claim
    for value, other in zip(reversed(values), reversed(there), strict=True):
        text = _with(text, value.start, value.end, other.text)
    yield ValueExchange(Conflict("time", values[0].text, there[0].text), text)


def _units(claim: str, fact: str, quantities: Quantities) -> Iterator[ValueExchange]:
    """Amounts of money of the same figure in another currency."""
    for number in quantities.numbers:
        for other in read_evidence(fact).quantities.numbers if number.dimension in MONEY else ():
            if other.dimension in MONEY and other.dimension != number.dimension and set(other.values) & set(number.values):
                yield ValueExchange(Conflict("unit", number.text, other.text), _with(claim, number.start, number.end, other.text))


def in_the_facts_words(claim: str, fact: str, language: str) -> str:
    """`claim` with each number that agrees with one of the fact's, rounded or as "about", written as the fact writes it."""
    text = claim
    numbers = read_evidence(fact).quantities.numbers
    for number in reversed(read_quantities(claim, language).numbers):
        if number.relation in ("min", "max") or says_nothing(number, claim):
            continue
        same = next((other for other in numbers if _is_another_writing(number, other)), None)
        if same is not None:
            text = _with(text, number.start, number.end, same.text)
    return text


def shown(exchange: ValueExchange, own: Support, changed: Support, back: Support) -> Conflict | None:
    """The conflict, where the verifier's answers show one: to the claim, to the claim with the fact's value, and back to the fact."""
    gain = changed.supported - own.supported
    if exchange.conflict.kind == "name":
        holds = changed.supported >= NAMED and gain >= NAMED_GAIN
    else:
        mutual = changed.supported >= CONFIRMED and gain >= GAIN and back.supported >= BACK
        same = changed.supported >= LIKELY and gain >= LARGER_GAIN and back.supported >= SURELY_BACK
        same = same or (changed.supported >= BOTH_CONFIRMED and back.supported >= BOTH_BACK)
        holds = mutual or same or (changed.supported >= SURELY_CONFIRMED and gain >= SURE_GAIN)
    one = exchange.conflict
    return Conflict(one.kind, one.claim, one.evidence, shown=round(changed.supported, 4)) if holds else None


def _with(text: str, start: int, end: int, other: str) -> str:
    return f"{text[:start]}{other}{text[end:]}"


def _is_another_writing(number: Quantity, other: Quantity) -> bool:
    return number.text != other.text and number.dimension == other.dimension and agrees(number, other)


def _is_allowed(number: Quantity, fact: str) -> bool:
    """Whether the fact has a bound that the number keeps to: 20 °C, where it must be below 24 °C."""
    return any(_keeps_to(number, bound) for bound in read_evidence(fact).quantities.numbers if bound.relation in ("min", "max"))


def _keeps_to(number: Quantity, bound: Quantity) -> bool:
    if number.relation == bound.relation or number.dimension != bound.dimension:
        return False
    mine, limit = number.base_values()[0], bound.base_values()[0]
    return mine <= limit if bound.relation == "max" else mine >= limit
