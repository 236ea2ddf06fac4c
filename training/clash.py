"""Makes the coefficients by which two statements are judged to clash.

    python -m training.clash [--rows N]

Two logistic regressions over `proxy.clashes.detection.FEATURES`, one for a wish beside a proposal, one for
two statements, so that a probability means: at even odds before. From `../shared/data/clash` prosecco and daccord, from `../shared/data/grounding` inference
pairs of short sentences (train splits), and `training/preferences.tsv` and
`statements.tsv`, written for this: preferences in four languages with proposals that go with them and against them, and what users say
of themselves. prefeval, citod and decode_pairs are left for `benchmarks.clash`.

Thresholds: the probability that lets `FALSE_POSITIVES` of the pairs that do not clash through, out of sample (five folds by preference or
source row). Writes `proxy/clashes/coefficients.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from benchmarks import clash_data as data
from proxy.clashes import detection
from proxy.clashes.candidates import Pair
from proxy.clashes.cues import is_first_person
from proxy.clashes.statements import as_statement
from training.relevance import fit

PREFERENCES = Path(__file__).with_name("preferences.tsv")
STATEMENTS = Path(__file__).with_name("statements.tsv")
STATEMENTS_WEIGHT = 4.0
"""They are what the detector will see."""
FALSE_POSITIVES = 0.05
FOLDS = 5
SEED = 20261121
INFERENCE = ("snli", "cad_nli", "mnli_dev", "rte3_french", "rte3_german", "breaking_nli", "conjnli", "taxinli", "semiauto_wiki", "fever_symmetric")
"""Sentence pairs with the label "contradicted"."""
INFERENCE_WEIGHT = 0.6
"""Captions and encyclopaedias are further from what people say of themselves than debates are."""
RANDOM_WEIGHT = 0.5
"""Of a preference with another's proposal."""
MAX_CHARS = 300
Array = NDArray[np.float64]


@dataclass(slots=True, frozen=True)
class Row:
    """Two statements, and whether they clash."""

    pair: Pair
    clashes: bool
    weight: float
    group: str


def preference_rows() -> Iterator[Row]:
    """Every preference with its proposals, and with one of another's."""
    source = random.Random(SEED)
    lines = [line.split("\t") for line in PREFERENCES.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    for language, preference, good, bad in lines:
        others = [other[2].split("|")[0] for other in lines if other[0] == language and other[1] != preference]
        for text in good.split("|"):
            yield Row(pair_of(preference, text, language, wish=True), False, 1.0, preference)
        for text in bad.split("|"):
            yield Row(pair_of(preference, text, language, wish=True), True, 1.0, preference)
        yield Row(pair_of(preference, source.choice(others), language, wish=True), False, RANDOM_WEIGHT, preference)


def statement_rows() -> Iterator[Row]:
    """What one user says of themselves, as it would be read."""
    for line in STATEMENTS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            language, clashes, older, newer = line.split("\t")
            pair = Pair(as_statement(older, tongue=language), as_statement(newer, piece=1, tongue=language), "given")
            yield Row(pair, clashes == "1", STATEMENTS_WEIGHT, f"statements-{older}")


def sentence_rows(limit: int) -> Iterator[Row]:
    """Debates, fact-checks and inference pairs; at most `limit` of each source and label."""
    for source in ("prosecco", "daccord"):
        for row in data.rows(f"clash/{source}", split="train"):
            yield Row(pair_of(row["earlier"], row["later"], row["lang"]), bool(row["contradicts"]), 1.0, row["id"])
    for source in INFERENCE:
        rows = [row for row in data.rows(f"grounding/{source}", split="train") if len(row["context"]) < MAX_CHARS]
        random.Random(SEED).shuffle(rows)
        for clashes in (True, False):
            of_label = [row for row in rows if (row["label"] == "contradicted") is clashes][:limit]
            yield from (Row(pair_of(row["context"], row["claim"], row["lang"]), clashes, INFERENCE_WEIGHT, row["id"]) for row in of_label)


def pair_of(older: str, newer: str, language: str, *, wish: bool = False) -> Pair:
    """Two texts: of what is so, or what somebody wants and what is proposed to them, or wanted as well."""
    first = as_statement(older, kind="preference" if wish else "fact", tongue=language)
    second = as_statement(newer, piece=1, tongue=language)
    own = wish and second.kind != "fact" and is_first_person(newer)
    return Pair(first, second if own else replace(second, kind="fact"), "given")


def out_of_sample(features: Array, rows: Sequence[Row]) -> Array:
    """Each row's log odds by weights fitted on the other folds."""
    fold = np.array([int(hashlib.sha1(row.group.encode()).hexdigest()[:8], 16) % FOLDS for row in rows])
    found = np.zeros(len(rows))
    for k in range(FOLDS):
        rest, held = fold != k, fold == k
        weights = fitted(features[rest], [row for row, keep in zip(rows, rest, strict=True) if keep])
        found[held] = np.column_stack([features[held], np.ones(held.sum())]) @ weights
    return found


def fitted(features: Array, rows: Sequence[Row]) -> Array:
    """Weights and intercept; the two labels weigh the same."""
    labels = np.array([float(row.clashes) for row in rows])
    weights = balanced(rows)
    for label in (0.0, 1.0):
        weights[labels == label] *= len(rows) / 2 / weights[labels == label].sum()
    return fit(features, labels, weights)


def balanced(rows: Sequence[Row]) -> Array:
    """Weights by which every source counts the same, whatever its size."""
    sizes = Counter(source_of(row) for row in rows)
    return np.array([row.weight / sizes[source_of(row)] for row in rows]) * len(rows) / len(sizes)


def threshold(log_odds: Array, rows: Sequence[Row]) -> float:
    """The probability above which `FALSE_POSITIVES` of the pairs that do not clash lie, every source counting the same; never below even odds."""
    quiet = [(z, weight) for z, weight, row in zip(log_odds, balanced(rows), rows, strict=True) if not row.clashes and row.weight != RANDOM_WEIGHT]
    quiet.sort(reverse=True)
    above = np.cumsum([weight for _, weight in quiet]) / sum(weight for _, weight in quiet)
    at = quiet[int(np.searchsorted(above, FALSE_POSITIVES))][0]
    return float(max(0.5, 1 / (1 + np.exp(-at))))


def report(name: str, log_odds: Array, rows: Sequence[Row], limit: float) -> None:
    """Recall and false positives out of sample, by source."""
    z = np.log(limit / (1 - limit))
    for source in ("", *sorted({source_of(row) for row in rows})):
        kept = [(value >= z, row.clashes) for value, row in zip(log_odds, rows, strict=True) if source in ("", source_of(row))]
        hits, alarms = [found for found, clash in kept if clash], [found for found, clash in kept if not clash]
        if hits and alarms:
            print(f"{name:7} {source or 'all':18} n={len(kept):5} recall {np.mean(hits):.3f} false positives {np.mean(alarms):.3f}")


def source_of(row: Row) -> str:
    """Which data set it is of."""
    return "preferences" if row.group == row.pair.older.text else row.group.split("-")[0]


def main() -> None:
    """Fit, write, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100, help="inference pairs of each source and label")
    limit = parser.parse_args().rows
    if not data.available():
        raise SystemExit(f"no training data in {data.FOLDER}")
    rows = [*preference_rows(), *statement_rows(), *sentence_rows(limit)]
    found = np.array(asyncio.run(data.features([row.pair for row in rows])))
    proposal = found[:, detection.FEATURES.index("proposal")] > 0
    made: dict[str, object] = {"features": detection.FEATURES}
    for name, kept in (("statements", ~proposal), ("proposals", proposal)):
        mine = [row for row, keep in zip(rows, kept, strict=True) if keep]
        log_odds = out_of_sample(found[kept], mine)
        made[f"{name}_threshold"] = round(at := threshold(log_odds, mine), 4)
        made[name] = [round(float(v), 4) for v in fitted(found[kept], mine)]
        report(name, log_odds, mine, at)
        report(name, log_odds, mine, 0.5)
    detection.COEFFICIENTS.write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    print(detection.COEFFICIENTS.read_text())


if __name__ == "__main__":
    main()
