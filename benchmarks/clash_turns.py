"""Which turns of a user go against an earlier one, in words that nothing was made for?

    python -m benchmarks.clash_turns

519 pairs of turns in four languages (`benchmarks/data/clash_turns.tsv`), each as two turns of a conversation, through what the stage runs:
by rules alone, as it is set, and with ``semantic: true``. A language model wrote them that had seen neither code nor other data, and no
rule, list, threshold or weight was made with them in view. ``plain`` ones give the same thing another value in ordinary words, ``hard``
ones take knowledge of the world or inference; half of them go together, and were written to look as if they did not.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks import clash_data
from benchmarks.clash import Written, written

PAIRS = Path(__file__).parent / "data" / "clash_turns.tsv"
EXPECTED = ("clash", "update", "none")
_Z = 1.96


def rate(found: Sequence[Written], expected: str) -> str:
    """``0.512 [0.42, 0.60] of 96``: in which share something was found, with Wilson's 95% interval."""
    hits = [bool(line.found) for line in found if line.expected == expected]
    n, share = len(hits), sum(hits) / len(hits)
    middle = share + _Z * _Z / (2 * n)
    wide = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    low, high = (max(0.0, (middle + side * wide) / (1 + _Z * _Z / n)) for side in (-1, 1))
    return f"{share:.3f} [{low:.2f}, {high:.2f}] of {n}"


async def main() -> None:
    """Measure, print."""
    models = clash_data.Models()
    for name, asked in (("rules alone", None), ("semantic", models)):
        found = await written(asked, PAIRS)
        for kind in dict.fromkeys(line.topic for line in found):
            mine = [line for line in found if line.topic == kind]
            print(f"{kind:6}{name:12}found: " + "  ".join(f"{expected} {rate(mine, expected)}" for expected in EXPECTED))
    models.stop()


if __name__ == "__main__":
    asyncio.run(main())
