"""Whether a value could have been worked out, by whatever calculation: then that it differs from the evidence's is no contradiction.

`proxy.grounding.values.recomputing` says that a value follows, and looks for a word that names the calculation. Here the question is the
other way round, asked before a claim is called wrong: a cell of a table, a share, a price for three nights need no such word. One step
over the numbers of the claim, its question and the evidence nearest to it, two where these are few. Pure and bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from proxy.language.quantities import Quantities, Quantity
from proxy.offloop import check

MAX_NUMBERS = 24
"""Numbers that are tried with each other."""
FEW = 8
"""Up to so many, two steps are tried."""
MAX_SUMMED = 10
"""Numbers of the claim of which each selection is summed up."""


def reachable(number: Quantity, claim: Quantities, around: Sequence[Quantities]) -> bool:
    """Whether `number` is a sum, difference, product, quotient or share of the claim's other numbers and of what is `around`.

    What is added up has the number's dimension or none (a table's cells have none); what it is multiplied with or divided by may have any.
    """
    check()
    own = [q for q in claim.numbers if q is not number]
    every = [*own, *(q for one in around for q in one.numbers)]
    share = number.dimension == "ratio"
    alike = _distinct(every if share else [q for q in every if q.dimension in (number.dimension, "")])
    others = _distinct(every)
    rows = [abs(q.values[0]) for q in own]
    return any(_is(number, made) for made in _made(alike, others, rows, share=share))


def _distinct(numbers: Sequence[Quantity]) -> list[float]:
    return list(dict.fromkeys(abs(value) for q in numbers for value in q.values if value))[:MAX_NUMBERS]


def _is(number: Quantity, made: float) -> bool:
    """Whether a result, rounded as the number is, is the number."""
    step = number.step if number.step < 1 or made != int(made) else min(number.step, 1.0)
    reach = step * 0.51 if made != int(made) or number.relation == "about" else step * 0.01
    return any(abs(abs(value) - made) <= reach for value in number.values)


def _made(alike: Sequence[float], others: Sequence[float], own: Sequence[float], *, share: bool) -> Iterator[float]:
    for a, b in permutations(alike, 2):
        yield from (100 * a / b, 100 * abs(a - b) / b) if share else (a + b, abs(a - b))
    if not share:
        yield from (made for a in alike for b in others if a != b for made in (a * b, a / b))
        for size in range(3, min(len(own), MAX_SUMMED) + 1):
            yield from (math.fsum(some) for some in combinations(own[:MAX_SUMMED], size))
        for size in range(3, len(alike) + 1):  # rows that stand one after another
            yield from (math.fsum(alike[i : i + size]) for i in range(len(alike) - size + 1))
        if len(others) <= FEW:
            for a, b, c in permutations(others, 3):
                yield from (a * b / c, a * b + c, a + b + c, a + b - c)
