"""A value of a claim that was said, but not of what the claim says it of: the price of another plan, the day of another meeting; and a
name of which one part was said, and another never: "Nora Keller" where there is only Tom Keller.

In: a claim, the evidence's sentences nearest to it, and all that was said. Out: the `Slot` of the sentence that says the rest of the
claim, with another number, date, time or name where the claim has its own, while what says the claim's value speaks of something else.
As a claim may put together several sentences, this alone is no contradiction: `proxy.grounding.judging.deciding` counts it where the
verifier does not support the claim, and does as soon as the sentence's value stands in it. Names of which every part was said are left
out: of what such a rule found on development rows half were other names of the same. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from proxy.grounding.values.places import SPELLED_ALIKE, in_place, words_of
from proxy.grounding.values.slots import Slot, denied, supposed, without
from proxy.grounding.values.stated import TOKEN, StatedValues, Value, names_in, unsaid_values
from proxy.language.names import Name, bare, folded, missing_name, unsaid_words
from proxy.language.negation import is_negated
from proxy.language.quantities import Quantities, Quantity, read_quantities

NEARER = 0.1
"""By how much larger a share of the claim's words a sentence must have than those that say the claim's value. Measured on the calibration
half of the development rows: with this, `proxy.grounding.judging.deciding.ALIGNED` and its ``TELLS`` 14 of 93 exchanged values that the
verifier is unsure of are found, and none of 2,724 supported claims; of 2,867 of the training split two, with numbers in words, before
these were left out."""
_NOTHING = StatedValues(())


def misplaced(claim: str, sentences: Sequence[str], said: StatedValues, language: str, asked: str = "") -> tuple[Slot, str] | None:
    """Where a sentence has another value than `claim`, and the claim with that value in it; None where no place is clear.

    Of several places that of the sentence which most says what the claim says.
    """
    if supposed(claim) or not said.whole:
        return None
    quantities = read_quantities(claim, language)
    values = [*_quantities(claim, quantities, _NOTHING, language), *_half_said(claim, said, language, asked)]
    values = [value for value in values if not denied(claim, value)]
    if not values:
        return None
    unsaid = [{value.start for value in _quantities(claim, quantities, StatedValues((s,)), language)} for s in sentences]
    negated = is_negated(claim, language)
    best: tuple[tuple[float, float], Slot, str] | None = None
    for value in values:
        wanted = words_of(f"{asked} {without(claim, [value])}")
        shared = [len(wanted & words_of(sentence)) for sentence in sentences]
        away = [value.kind == "name" or value.start in starts for starts in unsaid]
        own = max((n for n, other in zip(shared, away, strict=True) if not other), default=0)
        for position, sentence in enumerate(sentences):
            nearer = (shared[position] - own) / max(1, len(wanted))
            if not away[position] or nearer < NEARER or is_negated(sentence, language) != negated:
                continue
            other, placed = _in_place(value, claim, quantities, sentence, said, language, asked)
            aligned = shared[position] / len(wanted)
            if placed and (best is None or (nearer, aligned) > best[0]):
                mutual = shared[position] / len(words_of(sentence))
                found = Slot(value.kind, value.text, other, position, aligned, mutual, placed, elsewhere=True)
                best = (nearer, aligned), found, f"{claim[: value.start]}{other}{claim[value.end :]}"
    return None if best is None else best[1:]


def _quantities(claim: str, quantities: Quantities, said: StatedValues, language: str) -> list[Value]:
    """The numbers, dates and times of a claim that were not said. Numbers in words are left out: "the top three" counts nothing."""
    values = unsaid_values(claim, quantities, said, language, also_derived=True)
    return [v for v in values if v.kind != "name" and not (isinstance(v.read, Quantity) and v.read.spelled)]


def _half_said(claim: str, said: StatedValues, language: str, asked: str) -> list[Value]:
    """The names of a claim of which one word was said, and another in no form."""
    names = [name for name in names_in(claim, language, every_capital=bool(asked)) if not missing_name(name, said.names)]
    return [Value("name", n.text, n.start, n.end, n) for n in names if 0 < len(unsaid_words(n, said.names)) < len(n.words)]


def _in_place(
    value: Value, claim: str, quantities: Quantities, sentence: str, said: StatedValues, language: str, asked: str
) -> tuple[str, bool]:
    if not isinstance(value.read, Name):
        return in_place(value, claim, quantities, sentence, language, asked)
    alike = {other.words: other.text for other in _namesakes(value.read, claim, sentence, said, language)}
    return next(iter(alike.values()), ""), len(alike) == 1


def _namesakes(name: Name, claim: str, sentence: str, said: StatedValues, language: str) -> list[Name]:
    """The sentence's names of as many words that share the name's said ones, and have others instead of the unsaid."""
    own = unsaid_words(name, said.names)
    kept = {word for word in name.words if word not in own}
    have = {bare(folded(word)) for word in TOKEN.findall(claim)}
    found = []
    for other in names_in(sentence, language, every_capital=True):
        rest = [word for word in other.words if word not in have]
        alike = len(other.words) == len(name.words) and len(rest) == len(own) and kept <= {*other.words}
        if alike and not any(_is_another_form(a, b) for a in own for b in rest):
            found.append(other)
    return found


def _is_another_form(word: str, other: str) -> bool:
    """Whether one may stand for the other: an initial, a short form, another spelling."""
    return word.startswith(other) or other.startswith(word) or SequenceMatcher(None, word, other).ratio() >= SPELLED_ALIKE
