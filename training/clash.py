"""How far does the verifier go with statements that go together? From where it is believed, `clashes.deciding.CONTRADICTED`.

    python -m training.clash [--rows N]

Prints, by source and threshold, the share of the pairs that clash, and of those that do not, of which the verifier calls one contradicted
by the other, both ways round. Rows:

- `../shared/data/clash`: prosecco and daccord, train splits,
- `../shared/data/grounding`: inference pairs of short sentences, train splits,
- `training/preferences.tsv` and `statements.tsv`, written for this: preferences in four languages with proposals that go with them and
  against them, and what users say of themselves,
- `training/clash_data`, written for this, too, and harder: what goes against a preference does so by what one knows of the world, and no
  word gives it away.

prefeval, citod and decode_pairs are left for `benchmarks.clash`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from benchmarks import clash_data as data
from proxy.grounding.clashes.deciding import questions
from proxy.grounding.clashes.kinds import Pair
from proxy.grounding.clashes.reading import as_statement, is_first_person
from proxy.language.detection import language as language_of

PREFERENCES = Path(__file__).with_name("preferences.tsv")
STATEMENTS = Path(__file__).with_name("statements.tsv")
BLOCKS = Path(__file__).with_name("clash_data")
SEED = 20261121
INFERENCE = (
    "snli",
    "cad_nli",
    "mnli_dev",
    "rte3_french",
    "rte3_german",
    "breaking_nli",
    "conjnli",
    "taxinli",
    "semiauto_wiki",
    "fever_symmetric",
)
"""Sentence pairs with the label "contradicted"."""
MAX_CHARS = 300
THRESHOLDS = (0.8, 0.85, 0.9, 0.93, 0.95, 0.97)


@dataclass(slots=True, frozen=True)
class Row:
    """Two statements, and whether they clash."""

    pair: Pair
    clashes: bool
    group: str


def preference_rows() -> Iterator[Row]:
    """Every preference with its proposals, and with one of another's."""
    source = random.Random(SEED)
    lines = [line.split("\t") for line in PREFERENCES.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    for language, preference, good, bad in lines:
        others = [other[2].split("|")[0] for other in lines if other[0] == language and other[1] != preference]
        for text in good.split("|"):
            yield Row(pair_of(preference, text, language, wish=True), False, preference)
        for text in bad.split("|"):
            yield Row(pair_of(preference, text, language, wish=True), True, preference)
        yield Row(pair_of(preference, source.choice(others), language, wish=True), False, preference)


def statement_rows() -> Iterator[Row]:
    """What one user says of themselves, as it would be read."""
    for line in STATEMENTS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            language, clashes, older, newer = line.split("\t")
            pair = Pair(as_statement(older, tongue=language), as_statement(newer, piece=1, tongue=language))
            yield Row(pair, clashes == "1", f"statements-{older}")


def block_rows() -> Iterator[Row]:
    """Blocks of something said (``P:``), what goes against it (``-``), and what does not (``+``)."""
    for path in sorted(BLOCKS.glob("*.txt")):
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            said, *later = [line.strip() for line in block.splitlines() if line.strip()] or [""]
            tongue = language_of(said[3:], default="en")
            for line in later:
                pair = pair_of(said[3:], line[2:], tongue, wish=path.stem != "statements")
                yield Row(pair, line[0] == "-", f"blocks-{said[3:]}")


def sentence_rows(limit: int) -> Iterator[Row]:
    """Debates, fact-checks and inference pairs; at most `limit` of each source and label."""
    for source in ("prosecco", "daccord"):
        for row in data.rows(f"clash/{source}", split="train"):
            yield Row(pair_of(row["earlier"], row["later"], row["lang"]), bool(row["contradicts"]), row["id"])
    for source in INFERENCE:
        rows = [row for row in data.rows(f"grounding/{source}", split="train") if len(row["context"]) < MAX_CHARS]
        random.Random(SEED).shuffle(rows)
        for clashes in (True, False):
            of_label = [row for row in rows if (row["label"] == "contradicted") is clashes][:limit]
            yield from (Row(pair_of(row["context"], row["claim"], row["lang"]), clashes, row["id"]) for row in of_label)


def pair_of(older: str, newer: str, language: str, *, wish: bool = False) -> Pair:
    """Two texts: of what is so, or what somebody wants and what is proposed to them, or wanted as well."""
    first = as_statement(older, kind="preference" if wish else "fact", tongue=language)
    second = as_statement(newer, piece=1, tongue=language)
    own = wish and second.kind != "fact" and is_first_person(newer)
    return Pair(first, second if own else replace(second, kind="fact"))


def source_of(row: Row) -> str:
    """Which data set it is of."""
    return "preferences" if row.group == row.pair.older.text else row.group.split("-")[0]


async def contradictions(rows: Sequence[Row]) -> list[float]:
    """Of each pair how probable the verifier calls a contradiction; 0 where it has no answer."""
    models = data.Models()
    try:
        answers = await models.ask([row.pair for row in rows])
        asked = [questions(row.pair) for row in rows]
        return [min(answers[q].contradicted if q in answers else 0.0 for q in both) for both in asked]
    finally:
        models.stop()


def main() -> None:
    """Ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100, help="inference pairs of each source and label")
    most = parser.parse_args().rows
    if not data.available():
        raise SystemExit(f"no training data in {data.FOLDER}")
    rows = [*preference_rows(), *statement_rows(), *block_rows(), *sentence_rows(most)]
    found = asyncio.run(contradictions(rows))
    for source in sorted({source_of(row) for row in rows}):
        mine = [(score, row.clashes) for score, row in zip(found, rows, strict=True) if source_of(row) == source]
        good, bad = ([score for score, clashes in mine if clashes is truth] for truth in (True, False))
        shares = (f"{at}: {sum(s >= at for s in good) / len(good):.3f}, {sum(s >= at for s in bad) / len(bad):.3f}" for at in THRESHOLDS)
        print(f"{source:16} n={len(good)}, {len(bad)}  " + "   ".join(shares))


if __name__ == "__main__":
    main()
