"""What a fact has in the place of a claim's own words: the only thing that makes a claim false, however sure a verifier is.

In: a claim, a fact about the same subject, and the numbers, dates, units, names and negations that differ. Out: a `Conflict`, or None. To
be unlike a fact is not to be against it: a claim may say more than the fact, or the same in other words. It is against it only where the
fact has another value of the same kind in the same place of the same statement, or where one of the two has a "not". Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from proxy.exchange.judgements import Support
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, read_evidence, terms
from proxy.grounding.knowledge.reading import JOINT, names_subject
from proxy.grounding.values.consistency import Difference, differences, says_nothing
from proxy.grounding.values.slots import SPELLED_ALIKE, may_differ, others_in_place, slot
from proxy.grounding.values.stated import Kind, StatedValues
from proxy.language.detection import language as language_of
from proxy.language.names import missing_name, name_words, read_names
from proxy.language.quantities import Quantity, agrees, read_quantities
from proxy.language.words import FUNCTION_WORDS as STOP_WORDS
from proxy.ports.facts import FactHit

ALIGNED = 0.5
"""Share of a claim's words, beside values, that a fact in its language must have so that another value stands in the same place."""
WELL_ALIGNED, MUTUAL = 0.75, 0.4
"""The same, and the share of the fact's words that the claim must have, so that the other value is plain whatever the verifier reads."""
STEM_CHARS = 4
"""Letters that a word shares with another form of it: "hoch" and "höchste"."""
_BEING_SOMEWHERE = """
located situated lies stands found placed liegt steht befindet gelegen ubicada ubicado situada situado encuentra halla queda situe situee
trouve dresse
"""
LOCATIVE = frozenset(terms(_BEING_SOMEWHERE))
"""What says of a place no more than "is in" does."""

_PLACE_PREPOSITION = re.compile(r"\b(?:in|im|ins|aus|nach|an|am|ans|bei|zum?|vom?)(?: d(?:er|ie|as|en|em))? $", re.I)
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_MAX_WORDS, _MAX_EXCHANGED_WORDS = 120, 8
ALIKE = 0.6
"""Share of words in common, from which two statements are one with another name in it."""


class Conflict(Struct, frozen=True):
    """One place in which a claim says something else than a fact."""

    kind: Kind | str
    """``number``, ``date``, ``time``, ``unit``, ``name`` or ``negation``."""
    claim: str
    """The claim's words for it."""
    evidence: str
    """The fact's."""
    plain: bool = False
    """Whether the two say the same in nearly the same words, but for it."""
    shown: float = 0.0
    """The verifier's support of the claim with the fact's words in it, where that shows a conflict (`exchanging`); else 0."""

    @property
    def reason(self) -> str:
        """In words, for the record."""
        return f"{self.kind} {self.claim} (evidence: {self.evidence})"


def conflict_of(
    claim: str, text: str, language: str, found: Sequence[Difference], subject: set[str], *, one_language: bool
) -> Conflict | None:
    """Where `text`, a fact about `subject` (terms), has something else in the place of `claim`; `found` are their differences. In two
    languages no name can be compared.
    """
    negated = next((one for one in found if one.kind == "negation"), None)
    if negated is not None:
        return Conflict("negation", negated.claim, negated.evidence)
    one = slot(claim, [text], StatedValues([text]), language)
    if one is not None and one.placed and (one.aligned >= ALIGNED if one_language else one.kind != "name"):
        plain = one_language and one.aligned >= WELL_ALIGNED and one.mutual >= MUTUAL
        conflict = Conflict(one.kind, one.claim, one.evidence, plain)
        if not one_language or says_the_same(set(terms(claim)) - subject, set(terms(text)) - subject, [conflict]):
            return conflict
    return _exchanged_name(claim, text, language) if one_language else None


def says_the_same(said: set[str], there: set[str], found: Sequence[Conflict]) -> bool:
    """Whether what is said beside the values that differ has a word's stem in common, or is nothing at all on one of the two sides."""
    values = {term for one in found for term in (*terms(one.claim), *terms(one.evidence))}
    empty = values | STOP_WORDS | LOCATIVE
    mine, its = ({term[:STEM_CHARS] for term in words - empty if not term[0].isdigit()} for words in (said, there))
    return not mine or not its or not mine.isdisjoint(its)


def _exchanged_name(claim: str, text: str, language: str) -> Conflict | None:
    """The only words that differ, where both are names: "the Baltic Sea" for "the Black Sea".

    In German, where every noun has a capital, only behind a word of place.
    """
    mine, its = _words_in_place(claim, text)
    if not mine[:1].isupper() or not its[:1].isupper() or claim.startswith(mine):
        return None
    if language == "de" and _PLACE_PREPOSITION.search(claim[: claim.find(mine)]) is None:
        return None
    return Conflict("name", mine, its)


def _words_in_place(claim: str, text: str) -> tuple[str, str]:
    """The claim's only differing words and those that replace them, where the rest agrees; else two times ""."""
    a, b = list(_WORD.finditer(claim))[:_MAX_WORDS], list(_WORD.finditer(text))[:_MAX_WORDS]
    if not a or not b:
        return "", ""
    matcher = SequenceMatcher(None, [" ".join(terms(m[0])) for m in a], [" ".join(terms(m[0])) for m in b], autojunk=False)
    replaced = [op for op in matcher.get_opcodes() if op[0] == "replace"]
    if matcher.ratio() < ALIKE or len(replaced) != 1:
        return "", ""
    _, a_from, a_to, b_from, b_to = replaced[0]
    if max(a_to - a_from, b_to - b_from) > _MAX_EXCHANGED_WORDS:
        return "", ""
    return claim[a[a_from].start() : a[a_to - 1].end()], text[b[b_from].start() : b[b_to - 1].end()]


# ---- subjects ----


NEAR = 0.6
"""A hit of this score speaks of the same matter whatever its words: another language, another wording. Of the sample knowledge base's
development claims, hits of another matter score up to 0.59."""
FOUND, AHEAD = 0.22, 0.13
"""Score of a fact, and how much more that is than those of other subjects have, from which a claim that does not name its subject in the
fact's words may be about it: another language, or other words. Only what `proxy.grounding.knowledge.conflicts` shows counts then."""
SHARED = 1 / 3
"""Of the claim's terms beside the subject's, the share that a fact of the same matter has."""


class FactMatter(Struct, frozen=True):
    """How a fact bears on a claim."""

    same_subject: bool
    same_matter: bool
    """The same subject, and what is said of it: the verb or noun, another value in the same place, or nearly the whole sentence."""
    differences: tuple[Difference, ...]
    """Numbers, dates, units and names of the claim that the fact does not have."""
    lacks: bool = False
    """Whether there are any; a name may be another one in another language, and does not count there."""
    settles: bool = True
    """Of one that lacks a value of the claim's: whether the two share a word beside the subject and the values; in two languages, whether
    the search finds them near. That water freezes at 0 degrees does not make it false that it boils at 100 degrees."""
    conflict: Conflict | None = None
    """What the fact has in the place of the claim's words."""
    one_language: bool = True
    """Whether claim and fact are in one language."""
    likely_subject: bool = False
    """Whether the claim may be about the fact's subject, though it does not name it in the fact's words: it has its proper name, or the
    search finds no other subject as near."""


def matter_of(claim: str, hit: FactHit, language: str, ahead: float = 0.0) -> FactMatter:
    """How `hit` bears on `claim`; its score is `ahead` of those of other subjects' facts by so much."""
    text = hit.fact.text
    found = tuple(differences(claim, text, language))
    one_language = language_of(text, default=language) in (language, language_of(claim, default=language))
    lacks = any(one_language or difference.kind != "name" for difference in found)
    subject = _subject_terms(claim, hit, language)
    if subject is None:
        likely = _may_be_its_subject(claim, hit, ahead)
        return FactMatter(False, False, found, lacks, one_language=one_language, likely_subject=likely)
    said, there = set(terms(claim)) - FUNCTION_WORDS - subject, set(terms(text))
    shares = bool(said) and len(said & there) >= SHARED * len(said)
    near = hit.score >= NEAR
    conflict = conflict_of(claim, text, language, found, subject, one_language=one_language) if one_language or near else None
    other = [Conflict(one.kind, one.claim, one.evidence) for one in found if one.kind != "negation"]
    settles = not other or (says_the_same(said, there - subject, other) if one_language else near)
    return FactMatter(True, shares or near or conflict is not None, found, lacks, settles, conflict, one_language, likely_subject=True)


def _subject_terms(claim: str, hit: FactHit, language: str) -> set[str] | None:
    """The claim's terms that name the fact's subject; None where it is another subject.

    The subject is named in the claim: for a document, one of the headings. Or, where the fact has none, or says nearly the same: the
    claim's first name stands in the fact.
    """
    parts = [part for part in hit.fact.subject.split(JOINT) if names_subject(claim, part)]
    if parts:
        return {term for part in parts for term in terms(part)}
    names = read_names(claim, language, every_capital=True)
    if names and (not hit.fact.subject or hit.score >= NEAR) and not missing_name(names[0], name_words(hit.fact.text)):
        return set(terms(names[0].text))
    return None


def subject_names(hit: FactHit) -> set[str]:
    """The terms of a fact's subject that every language writes alike: its proper names."""
    text, subject = hit.fact.text, set(terms(hit.fact.subject))
    every = {term for name in read_names(text, language_of(text, default="en")) for term in terms(name.text)}
    return every & subject if subject else every


def _may_be_its_subject(claim: str, hit: FactHit, ahead: float) -> bool:
    names = subject_names(hit)
    if names:
        said = terms(claim)
        return 2 * sum(any(_alike(name, term) for term in said) for name in names) >= len(names)
    return hit.score >= FOUND and ahead >= AHEAD


def _alike(name: str, term: str) -> bool:
    """Whether two terms are one name, also in two languages: Francia and France."""
    return name == term or (min(len(name), len(term)) > 3 and SequenceMatcher(None, name, term).ratio() >= SPELLED_ALIKE)


# ---- exchanging ----


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


class ValueExchange(Struct, frozen=True):
    """One value of a claim, and the fact's in its place."""

    conflict: Conflict
    text: str
    """The claim with it."""


def exchanges_of(claim: str, fact: str, subject: set[str], language: str) -> list[ValueExchange]:
    """The exchanges worth asking about; none of what names the fact's `subject` (terms)."""
    quantities = read_quantities(claim, language)
    found = []
    for value in may_differ(claim, quantities, [fact], StatedValues([fact]), language):
        if (isinstance(value.read, Quantity) and _is_allowed(value.read, fact)) or subject & set(terms(value.text)):
            continue
        for other in others_in_place(value, claim, quantities, fact, language, ""):
            if value.kind != "name" or not subject & set(terms(other)):
                found.append(ValueExchange(Conflict(value.kind, value.text, other), _with(claim, value.start, value.end, other)))
    return found[:MAX_EXCHANGES]


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
    return any(
        agrees(one, number) for one in read_evidence(fact).quantities.numbers if one.relation in ("min", "max") and not number.relation
    )
