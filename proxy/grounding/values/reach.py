"""Whether a value could have been worked out, by whatever calculation: then that it differs from the evidence's is no contradiction.

`proxy.grounding.values.recomputing` says that a value follows, and looks for a word that names the calculation. Here the question is the
other way round, asked before a claim is called wrong: a cell of a table, a share, a price for three nights need no such word. One step
over the numbers of the claim, its question and the evidence nearest to it, two where these are few. Pure and bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from proxy.grounding.values.dates import Date
from proxy.grounding.values.quantities import Quantities, Quantity

MAX_NUMBERS = 24
"""Numbers that are tried with each other."""
FEW = 8
"""Up to so many, two steps are tried."""
MAX_SUMMED = 12
"""Numbers of the claim of which each selection is summed up."""


def reachable(number: Quantity, claim: Quantities, around: Sequence[Quantities]) -> bool:
    """Whether `number` is a sum, difference, product, quotient or share of the claim's other numbers and of what is `around`."""
    own = [q for q in claim.numbers if q is not number]
    pool = list(dict.fromkeys(abs(value) for q in (*own, *(q for one in around for q in one.numbers)) for value in q.values if value))
    pool = pool[:MAX_NUMBERS]
    return any(_is(number, made) for made in _made(pool, [abs(q.values[0]) for q in own]))


def _is(number: Quantity, made: float) -> bool:
    """Whether a result, rounded as the number is, is the number."""
    step = number.step if number.step < 1 or made != int(made) else min(number.step, 1.0)
    reach = step * 0.51 if made != int(made) or number.relation == "about" else step * 0.01
    return any(abs(abs(value) - made) <= reach for value in number.values)


def _made(pool: Sequence[float], own: Sequence[float]) -> Iterator[float]:
    for a, b in permutations(pool, 2):
        yield from _of_two(a, b)
    yield from (2 * a for a in pool)
    for size in range(3, min(len(own), MAX_SUMMED) + 1):
        yield from (math.fsum(some) for some in combinations(own[:MAX_SUMMED], size))
    for size in range(3, len(pool) + 1):  # rows that stand one after another
        yield from (math.fsum(pool[i : i + size]) for i in range(len(pool) - size + 1))
    if len(pool) <= FEW:
        for a, b, c in permutations(pool, 3):
            for first in _of_two(a, b):
                yield from _of_two(first, c)


def _of_two(a: float, b: float) -> Iterator[float]:
    yield a + b
    yield abs(a - b)
    yield a * b
    yield a / b
    yield 100 * a / b
    yield 100 * abs(a - b) / b


def told_in_parts(one: Date, around: Quantities, numerals: frozenset[str]) -> bool:
    """Whether a date's day and month were both said, though not together: "May 9 … on the 12th"."""
    known = [reading for date in around.dates for reading in date.readings]
    months = {month for _, month, _ in known if month is not None}
    return any(month in months and not numerals.isdisjoint((str(day), f"{day:02d}")) for _, month, day in one.readings if month and day)
