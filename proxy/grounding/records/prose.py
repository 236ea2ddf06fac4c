"""A number of a sentence in prose beside a statement of the same words: "the dam is 48 metres high".

In: a statement and the text of the evidence that is in no table. Out: a `Finding`, or none. All words of the statement that name
something stand in one sentence, and what differs is the one number of that unit, or of that counted thing, in the part of the sentence
that has most of them. Pure; one pass over the sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from proxy.grounding.records.binding import Statement
from proxy.grounding.records.cells import alike, tokens
from proxy.grounding.records.clause import Finding
from proxy.grounding.records.evidence import Records
from proxy.grounding.records.lexicon import listed
from proxy.grounding.values.arithmetic import asked_for
from proxy.grounding.values.consistency import says_nothing
from proxy.language.negation import is_negated
from proxy.language.quantities import Quantity, agrees, read_quantities
from proxy.language.units import unit_of

MIN_WORDS = 2
"""Words that a statement must have beside its number."""
MAX_NUMBERS = 12
"""A sentence of more is a table that nobody could read."""
_PART = re.compile(r"[,;:]\s|\s(?:and|und|y|et|e|while|während|mientras|tandis que|mentre|enquanto)\s")
_APART = re.compile(
    r"\b(?:not|than|if|unless|except|about|nicht|als|wenn|que|si|pas|non|se|não|before|after|until|by|vor|nach|bis|antes|después|hasta|avant|après|jusqu|prima|dopo|fino|depois|até)\b",
    re.I,
)


def numbers(statement: Statement, records: Records) -> Iterator[Finding]:
    """The statement's number where a sentence of the same words has another."""
    found = [q for q in statement.quantities.numbers if not says_nothing(q, statement.text)]
    if len(found) != 1 or statement.quantities.dates or statement.quantities.times or _APART.search(statement.text):
        return
    q, operations = found[0], asked_for(statement.text)
    if q.relation or operations.sums or operations.differences or operations.means or operations.ratios:
        return
    at = statement.at(q.start, q.end)
    wanted = [statement.words[i].text for i in statement.content() if i not in at]
    wanted = [word for word in wanted if word not in listed("fillers") and unit_of(word) is None]
    counted = statement.words[max(at) + 1].text if at and max(at) + 1 < len(statement.words) else ""
    if len(wanted) < MIN_WORDS or (not q.dimension and counted not in wanted):
        return
    others = [other for sentence in records.sentences if (other := _other(q, counted, wanted, sentence)) is not None]
    if others and not any(agrees(q, other) for other in others) and len({other.base_values() for other in others}) == 1:
        yield Finding(False, q.text, others[0].text, -1, frozenset(at), "number")


def _other(q: Quantity, counted: str, wanted: list[str], sentence: str) -> Quantity | None:
    """The number of that unit, or of what is counted, in the part of a sentence of the same words that has most of them."""
    said = tokens(sentence)
    if not all(any(alike(word, other) for other in said) for word in wanted) or is_negated(sentence):
        return None
    numbers = read_quantities(sentence, any_language=True).numbers
    if len(numbers) > MAX_NUMBERS or any(set(n.values) & set(q.values) for n in numbers):
        return None
    cuts = [0, *(match.end() for match in _PART.finditer(sentence)), len(sentence)]
    parts = [(a, b) for a, b in pairwise(cuts) if b > a]
    shares = [sum(any(alike(word, other) for other in tokens(sentence[a:b])) for word in wanted) for a, b in parts]
    best = [part for part, share in zip(parts, shares, strict=True) if share == max(shares)]
    if len(best) != 1:
        return None
    a, b = best[0]
    same = [n for n in numbers if a <= n.start < b and n.dimension == q.dimension and not n.relation and not n.spelled]
    if not q.dimension:
        same = [n for n in same if alike(counted, next(iter(tokens(sentence[n.end : n.end + 30])), ""))]
    return same[0] if len(same) == 1 else None
