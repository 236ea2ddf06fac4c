"""A claim with a value of the evidence's in place of one of its own: what a verifier is asked to tell a wrong value from another subject.

In: a claim, sentences of the evidence, and all that was said. Out: texts. A value that nobody has said, beside a sentence that has
another of its kind, may be wrong, or may simply speak of something else. Where the verifier finds the claim supported as soon as the
evidence's own value stands in it, the rest of the claim is what the evidence says, and only the value differs. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from proxy.grounding.evidence.reading import read_evidence
from proxy.grounding.values.consistency import says_nothing
from proxy.grounding.values.places import SPELLED_ALIKE, labelled, of_one_size, shape, words_of
from proxy.grounding.values.slots import may_differ
from proxy.grounding.values.stated import ANY_MONTH, TOKEN, StatedValues, Value, agrees_strictly, dates_agree_strictly, names_in
from proxy.language.dates import Date, Time
from proxy.language.names import Name, bare, folded
from proxy.language.quantities import Quantities, Quantity, read_quantities

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
    there = read_evidence(sentence).quantities
    if isinstance(read, Quantity):
        for number in there.numbers:
            same = number.dimension == read.dimension or labelled(number, read, claim, sentence)
            mine = any(agrees_strictly(own, number) for own in quantities.numbers)
            if same and not mine and not says_nothing(number, sentence) and of_one_size(read, number):
                yield number.text
    elif isinstance(read, Date):
        wanted = shape(read)
        for date in there.dates:
            if shape(date) & wanted and not any(
                dates_agree_strictly(own, date) or dates_agree_strictly(date, own) for own in quantities.dates
            ):
                yield date.text
    elif isinstance(read, Time):
        yield from (time.text for time in there.times if not any(set(time.minutes) & set(own.minutes) for own in quantities.times))
    elif isinstance(read, Name):
        yield from _names(read, claim, sentence, language, asked)
    else:
        yield from (match[0] for match in ANY_MONTH.finditer(sentence))


def _names(name: Name, claim: str, sentence: str, language: str, asked: str) -> Iterator[str]:
    """Names that the claim lacks and that are no other spelling of its own."""
    if not any(word[:1].isupper() and word[1:].islower() for word in TOKEN.findall(name.text)):
        return  # JSON, MiB: a term and nobody's name
    have = {bare(folded(word)) for word in TOKEN.findall(f"{asked} {claim}")} - set(name.words)
    for other in names_in(sentence, language, every_capital=True, opening_is_none=True):
        rest = [word for word in other.words if word not in name.words]
        own = [word for word in name.words if word not in other.words]
        if not rest or not own or any(word in have for word in rest):
            continue
        if SequenceMatcher(None, "".join(rest), "".join(own)).ratio() < SPELLED_ALIKE:
            yield other.text
