"""How far does the verifier go with statements that go together? From where it is believed, `clashes.deciding.CONTRADICTED`.

    python -m training.clash [--rows N]

Prints, by source and threshold, the share of the pairs that clash, and of those that do not, of which the verifier calls one contradicted
by the other, both ways round. Rows:

- held-out turns, chats, and sentences of answers with their edits (`training.judge.turns`, `chats`, `clash_pairs`),
- `../shared/data/clash`: prosecco and daccord, dev splits,
- `../shared/data/grounding`: inference pairs of short sentences, dev splits,
- `training/preferences.tsv` and `statements.tsv`, written for this: preferences in four languages with proposals that go with them and
  against them, and what users say of themselves; no weights are trained on them.

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
from benchmarks.clash import found_in, through
from proxy.grounding.clashes import deciding
from proxy.grounding.clashes.deciding import questions
from proxy.grounding.clashes.kinds import Pair
from proxy.grounding.clashes.reading import as_statement, is_first_person
from training.grounding.data import CONTRADICTED
from training.judge import chats, clash_pairs, turns

PREFERENCES = Path(__file__).with_name("preferences.tsv")
STATEMENTS = Path(__file__).with_name("statements.tsv")
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
_NOTED = {"role": "assistant", "content": "Noted."}
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.99)


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


def turn_rows() -> Iterator[Row]:
    """Turns, chats and answers that are held out."""
    for row in turns.rows():
        if row.held_out:
            wish = row.kind in ("preference", "proposal")
            yield Row(pair_of(row.older, row.newer, row.language, wish=wish), row.label == "contradicted", f"turns-{row.group}")
    rng = random.Random(SEED)
    talked = [e for chat in chats.chats() if chat.held_out for e in chats.pairs(chat, rng)]
    for e in (*talked, *clash_pairs.of_answers(rng, apart=True)):
        yield Row(pair_of(e.evidence, e.claim, e.language), e.target == CONTRADICTED, f"{e.source}-{e.group}")


def sentence_rows(limit: int) -> Iterator[Row]:
    """Debates, fact-checks and inference pairs; at most `limit` of each source and label."""
    for source in ("prosecco", "daccord"):
        for row in data.rows(f"clash/{source}", split="dev"):
            yield Row(pair_of(row["earlier"], row["later"], row["lang"]), bool(row["contradicts"]), row["id"])
    for source in INFERENCE:
        rows = [row for row in data.rows(f"grounding/{source}", split="dev") if len(row["context"]) < MAX_CHARS]
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


async def through_stage() -> None:
    """Print, by threshold, in how many of the held-out pairs of a user's turns and of the held-out chats the whole stage finds a clash."""
    models = data.Models()
    said = [row for row in turns.rows() if row.held_out and row.kind != "proposal"]
    talks: list[tuple[Sequence[str], bool, str]] = [((row.older, row.newer), row.label == "contradicted", "turns") for row in said]
    talks += [(chat.messages, bool(chat.clash), "chats") for chat in chats.chats() if chat.held_out]
    for threshold in THRESHOLDS:
        deciding.CONTRADICTED = threshold
        stage, hits = through(models), dict[tuple[str, bool], list[bool]]()
        for number, (messages, clashes, source) in enumerate(talks):
            spoken = [message for text in messages for message in ({"role": "user", "content": text}, _NOTED)][:-1]
            _, found = await found_in(stage, spoken, f"{threshold} {number}")
            hits.setdefault((source, clashes), []).append(bool(found))
        names = {True: "found", False: "false"}
        shares = (f"{source} {names[clashes]} {sum(some)} of {len(some)}" for (source, clashes), some in sorted(hits.items()))
        print(f"{threshold}: " + "   ".join(shares), flush=True)
    models.stop()


def main() -> None:
    """Ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100, help="inference pairs of each source and label")
    parser.add_argument("--stage", action="store_true", help="the same through the whole stage, on turns and chats")
    given = parser.parse_args()
    most = given.rows
    if given.stage:
        asyncio.run(through_stage())
        return
    if not data.available():
        raise SystemExit(f"no training data in {data.FOLDER}")
    rows = [*preference_rows(), *statement_rows(), *turn_rows(), *sentence_rows(most)]
    found = asyncio.run(contradictions(rows))
    for source in sorted({source_of(row) for row in rows}):
        mine = [(score, row.clashes) for score, row in zip(found, rows, strict=True) if source_of(row) == source]
        good, bad = ([score for score, clashes in mine if clashes is truth] for truth in (True, False))
        shares = (f"{at}: {sum(s >= at for s in good) / len(good):.3f}, {sum(s >= at for s in bad) / len(bad):.3f}" for at in THRESHOLDS)
        print(f"{source:16} n={len(good)}, {len(bad)}  " + "   ".join(shares))


if __name__ == "__main__":
    main()
