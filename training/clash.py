"""Makes the coefficients by which two statements are judged to clash.

    python -m training.clash [--rows N]

Two logistic regressions over `clashes.detecting.features.FEATURES`, one for a wish beside a proposal and one for two statements;
their probability means: at even odds before. Weights whose sign makes no sense (`SIGNS`) are left out. They learn from

- `../shared/data/clash`: prosecco and daccord, train splits,
- `../shared/data/grounding`: inference pairs of short sentences, train splits,
- `training/preferences.tsv` and `statements.tsv`, written for this: preferences in four languages with proposals that go with them and
  against them, and what users say of themselves,
- `training/clash_data`, written for this, too, and harder: what goes against a preference does so by what one knows of the world, and no
  word gives it away.

prefeval, citod and decode_pairs are left for `benchmarks.clash`. Thresholds: the probability that lets `FALSE_POSITIVES` of the pairs that
do not clash through, of all and of what users say, out of sample (five folds by preference or source row). Writes
`proxy/grounding/clashes/detecting/coefficients.json`.
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
from msgspec.structs import astuple, replace
from numpy.typing import NDArray

from benchmarks import clash_data as data
from proxy.grounding.clashes.detecting.candidates import Pair
from proxy.grounding.clashes.detecting.features import COEFFICIENTS, FEATURES, Coefficients, Regression
from proxy.grounding.clashes.detecting.questions import is_proposal
from proxy.grounding.clashes.statements.cues import is_first_person
from proxy.grounding.clashes.statements.reading import as_statement
from proxy.language.detection import language as language_of
from training.relevance import fit

PREFERENCES = Path(__file__).with_name("preferences.tsv")
STATEMENTS = Path(__file__).with_name("statements.tsv")
BLOCKS = Path(__file__).with_name("clash_data")
STATEMENTS_WEIGHT = 4.0
"""They are what the detector will see."""
FALSE_POSITIVES = 0.04
"""A false clash takes away what somebody said, a missed one leaves things as they were."""
OWN = ("statements", "preferences", "blocks")
"""Sources that are like what the detector sees."""
FOLDS = 5
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
INFERENCE_WEIGHT = 0.6
"""Captions and encyclopaedias are further from what people say of themselves than debates are."""
RANDOM_WEIGHT = 0.5
"""Of a preference with another's proposal."""
FEW = 100
"""Rows of a source, below which each counts no more than it would among so many."""
MAX_CHARS = 300
SIGNS = {
    "contradicted_most": 1,
    "contradicted_least": 1,
    "supported_most": -1,
    "supported_least": -1,
    "negation_differs": 1,
    "numbers_differ": 1,
    "conflict_support": 1,
    "conflict_cosine": 1,
    "conflict_terms": 1,
    "conflict_member": 1,
    "agreement_support": -1,
    "agreement_cosine": -1,
    "agreement_terms": -1,
}
"""Which way a feature may count. A weight of the other sign is an accident of the rows."""
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
            pair = Pair(as_statement(older, tongue=language), as_statement(newer, piece=1, tongue=language))
            yield Row(pair, clashes == "1", STATEMENTS_WEIGHT, f"statements-{older}")


def block_rows() -> Iterator[Row]:
    """Blocks of something said (``P:``), what goes against it (``-``), and what does not (``+``)."""
    for path in sorted(BLOCKS.glob("*.txt")):
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            said, *later = [line.strip() for line in block.splitlines() if line.strip()] or [""]
            tongue = language_of(said[3:], default="en")
            for line in later:
                pair = pair_of(said[3:], line[2:], tongue, wish=path.stem != "statements")
                yield Row(pair, line[0] == "-", 1.0, f"blocks-{said[3:]}")


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
    return Pair(first, second if own else replace(second, kind="fact"))


def out_of_sample(features: Array, rows: Sequence[Row]) -> Array:
    """Each row's log odds by weights fitted on the other folds."""
    fold = np.array([int(hashlib.sha256(row.group.encode()).hexdigest()[:8], 16) % FOLDS for row in rows])
    found = np.zeros(len(rows))
    for k in range(FOLDS):
        rest, held = fold != k, fold == k
        weights = fitted(features[rest], [row for row, keep in zip(rows, rest, strict=True) if keep])
        found[held] = np.column_stack([features[held], np.ones(held.sum())]) @ weights
    return found


def fitted(features: Array, rows: Sequence[Row]) -> Array:
    """Weights and intercept; the two labels weigh the same, and weights of the wrong sign are zero."""
    labels = np.array([float(row.clashes) for row in rows])
    weights = balanced(rows)
    for label in (0.0, 1.0):
        weights[labels == label] *= len(rows) / 2 / weights[labels == label].sum()
    signs = np.array([SIGNS.get(name, 0) for name in FEATURES])
    used = features.std(axis=0) > 0
    while True:
        found = np.zeros(len(FEATURES) + 1)
        found[[*used, True]] = fit(features[:, used], labels, weights)
        wrong = found[:-1] * signs < 0
        if not wrong.any():
            return found
        used &= ~wrong


def balanced(rows: Sequence[Row]) -> Array:
    """Weights by which every source counts the same, whatever its size; one of few rows counts less."""
    sizes = Counter(source_of(row) for row in rows)
    return np.array([row.weight / max(sizes[source_of(row)], FEW) for row in rows]) * len(rows) / len(sizes)


def threshold(log_odds: Array, rows: Sequence[Row]) -> float:
    """The probability above which `FALSE_POSITIVES` of the other pairs lie, of all and of what users say; at least even odds."""
    own = np.array([source_of(row) in OWN for row in rows])
    limits = [limit(log_odds, rows)]
    if own.sum() >= FEW:
        limits.append(limit(log_odds[own], [row for row, mine in zip(rows, own, strict=True) if mine]))
    return float(max(0.5, 1 / (1 + np.exp(-max(limits)))))


def limit(log_odds: Array, rows: Sequence[Row]) -> float:
    """The same of some rows, in log odds. Every source counts the same; a preference beside another's proposal is too easy to count."""
    quiet = [
        (z, weight)
        for z, weight, row in zip(log_odds, balanced(rows), rows, strict=True)
        if not row.clashes and row.weight != RANDOM_WEIGHT
    ]
    quiet.sort(reverse=True)
    above = np.cumsum([weight for _, weight in quiet]) / sum(weight for _, weight in quiet)
    return float(quiet[int(np.searchsorted(above, FALSE_POSITIVES))][0])


def report(name: str, log_odds: Array, rows: Sequence[Row], at: float) -> None:
    """Print recall and false positives out of sample, by source."""
    z = np.log(at / (1 - at))
    for source in ("", *sorted({source_of(row) for row in rows})):
        kept = [(value >= z, row.clashes) for value, row in zip(log_odds, rows, strict=True) if source in ("", source_of(row))]
        hits, alarms = [found for found, clash in kept if clash], [found for found, clash in kept if not clash]
        if hits and alarms:
            figures = f"recall {np.mean(hits):.3f} false positives {np.mean(alarms):.3f}"
            print(f"{name:10} at {at:.3f} {source or 'all':18} n={len(kept):5} {figures}")


def source_of(row: Row) -> str:
    """Which data set it is of."""
    return "preferences" if row.group == row.pair.older.text else row.group.split("-")[0]


async def features_of(rows: Sequence[Row]) -> Array:
    """``(len(rows), len(FEATURES))``, by the shipped verifier and embedder."""
    models = data.Models()
    try:
        return np.array([astuple(found) for found in await models.features([row.pair for row in rows])])
    finally:
        models.stop()


def made(name: str, found: Array, rows: Sequence[Row]) -> Regression:
    """A regression with its threshold; prints what it is worth."""
    log_odds = out_of_sample(found, rows)
    at = round(threshold(log_odds, rows), 4)
    report(name, log_odds, rows, at)
    report(name, log_odds, rows, 0.5)
    return Regression(tuple(round(float(weight), 4) for weight in fitted(found, rows)), at)


def main() -> None:
    """Fit, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100, help="inference pairs of each source and label")
    most = parser.parse_args().rows
    if not data.available():
        raise SystemExit(f"no training data in {data.FOLDER}")
    rows = [*preference_rows(), *statement_rows(), *block_rows(), *sentence_rows(most)]
    found = asyncio.run(features_of(rows))
    proposal = np.array([is_proposal(row.pair.older, row.pair.newer) for row in rows])
    given = Coefficients(
        FEATURES,
        statements=made("statements", found[~proposal], [row for row, offered in zip(rows, proposal, strict=True) if not offered]),
        proposals=made("proposals", found[proposal], [row for row, offered in zip(rows, proposal, strict=True) if offered]),
    )
    COEFFICIENTS.write_bytes(msgspec.json.format(msgspec.json.encode(given)) + b"\n")
    print(COEFFICIENTS.read_text())


if __name__ == "__main__":
    main()
