"""Which turns of a user go against an earlier one, in words that nothing was made for?

    python -m benchmarks.clash_turns

519 pairs of turns in four languages (`benchmarks/data/clash_turns.tsv`), each as two turns of a conversation, through what the stage runs:
by rules alone, as it is set, with ``semantic: true``, and with a judge beside it that knows the truth: what is left is the product's own
part, which pairs of statements are looked at. A language model wrote them that had seen neither code nor other data, and no
rule, list, threshold or weight was made with them in view. ``plain`` ones give the same thing another value in ordinary words, ``hard``
ones take knowledge of the world or inference; half of them go together, and were written to look as if they did not.

False alarms in whole conversations: `../shared/data/chats`, 60 of people with an assistant, of 25 messages on average, each read once, at
its end. Where somebody there changes their mind, that is no false alarm: what was found is printed with ``--show``.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks import clash_data
from benchmarks.clash import Written, found_in, through, written
from proxy.ports.judge import Judge
from proxy.testing import ScriptedJudge

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


async def conversations(models: clash_data.Models | None, judge: Judge | None = None, *, show: bool) -> tuple[int, int, int]:
    """``(conversations with anything found, all, statements)`` of `../shared/data/chats`."""
    alarms = statements = 0
    rows = clash_data.rows("chats/sgd")
    stage = through(models, judge)
    for row in rows:
        spoken, found = await found_in(stage, row["messages"], row["id"])
        statements += len(spoken)
        alarms += bool(found)
        for clash in found if show else ():
            print(f"  {row['id']}: {clash.older.text!r} | {clash.newer.text!r} ({clash.score:.2f})")
    return alarms, len(rows), statements


async def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print what was found in whole conversations")
    show = parser.parse_args().show
    models = clash_data.Models()
    for name, asked in (("rules alone", None), ("semantic", models), ("right judge", models)):
        told = name == "right judge"
        found = await written(asked, PAIRS, told=told)
        for kind in dict.fromkeys(line.topic for line in found):
            mine = [line for line in found if line.topic == kind]
            print(f"{kind:6}{name:12}found: " + "  ".join(f"{expected} {rate(mine, expected)}" for expected in EXPECTED))
        if told:
            asked_of = ScriptedJudge(lambda _: "yes", "unsure")
            _, n, statements = await conversations(asked, asked_of, show=False) if clash_data.available() else (0, 0, 0)
            times = sum(map(len, asked_of.asked))
            print(f"chats: a judge (`ask: unsure`) is asked {times} times in {n} conversations of {statements} statements")
            continue
        if clash_data.available():
            alarms, n, statements = await conversations(asked, show=show)
            print(f"chats {name:12}found: in {alarms} of {n} conversations, of {statements} statements")
        else:
            print(f"chats: {clash_data.FOLDER} is missing, so whole conversations are not measured")
    models.stop()


if __name__ == "__main__":
    asyncio.run(main())
