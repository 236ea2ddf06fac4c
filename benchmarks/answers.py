"""Sentences of answers over the documents of working life, each right or with one thing wrong: what the checks make of them.

Rows are made by construction, so that likeness does not give the label away. ``apart``: ``data/answers_apart.jsonl.gz``, written as
``training/data/README.md`` says by two writers of whom neither training nor calibration has a row; ``fresh``:
``data/answers_fresh.jsonl.gz``, English, by a third one. ``held-out``: documents that training was kept from, of the writers whose
others it had, in ``../shared/data/judge/answers.jsonl.gz`` and ``training/data/judge_answers.jsonl.gz``; half of these calibrated the
verifier. They are judged as the stage `claims` judges an answer's sentence: question beside it, evidence by retrieval, rules first, then
the built-in verifier.
Prints, by shape of the evidence and by language: AUROC of the probability of support, right above its own edit, edits called
supported, right ones called contradicted or unsupported, and which share of either reaches a probability from which a ``pass`` could be
given (`proxy.stages.claims.reporting.CERTAIN`).

    python -m benchmarks.answers [--rows apart|fresh|held-out] [--documents 200] [--seed 5]

95% intervals by resampling documents. Writes ``results/answers.json``, ``answers_fresh.json`` or ``answers_held_out.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from benchmarks.grounding_metrics import auroc
from benchmarks.verifiers import local_verifiers, result_file
from proxy.exchange import Evidence
from proxy.exchange.judgements import Judgement, support
from proxy.grounding.claims.claims import claims_of
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from training.judge.written import held_out

DATA = (Path("../shared/data/judge/answers.jsonl.gz"), Path("training/data/judge_answers.jsonl.gz"))
APART, FRESH = (Path(__file__).parent / "data" / f"answers_{name}.jsonl.gz" for name in ("apart", "fresh"))
ROWS = {"apart": ((APART,), "answers.json"), "fresh": ((FRESH,), "answers_fresh.json"), "held-out": (DATA, "answers_held_out.json")}
RESULTS = Path(__file__).parent / "results"
THRESHOLDS = (0.5, 0.7, 0.8, 0.9)
RESAMPLED = 500
TOGETHER = 32


class Judged(Struct, frozen=True):
    """A row with the mean probability of support of its claims, and their labels."""

    row: dict[str, Any]
    support: float
    labels: tuple[str, ...]

    @property
    def right(self) -> bool:
        return bool(self.row["label"] == "supported")

    def reaches(self, least: float) -> bool:
        return set(self.labels) == {"supported"} and self.support >= least


def chosen(files: Sequence[Path], documents: int, seed: int) -> list[dict[str, Any]]:
    """The rows of so many documents that no training saw. Raises `SystemExit` where the data is missing."""
    rows = []
    for path in files:
        if not path.exists():
            raise SystemExit(f"{path} is missing: this benchmark measures on it")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows += [row for row in map(json.loads, lines) if path not in DATA or held_out(row)]
    names = sorted({row["doc"] for row in rows})
    random.Random(seed).shuffle(names)
    kept = set(names[:documents])
    return [row for row in rows if row["doc"] in kept]


async def judged(rows: Sequence[dict[str, Any]]) -> list[Judged]:
    """Each row by itself; those that say nothing checkable are left out."""
    verifiers = local_verifiers()
    grounder = Grounder(verifiers.get(), embedder=BatchingEmbedder(UseEncoder()), only_certain=True)
    bases = {row["context"]: EvidenceBase([Evidence(row["context"])]) for row in rows}
    found: list[Judged] = []
    for start in range(0, len(rows), TOGETHER):
        part = rows[start : start + TOGETHER]
        each = await asyncio.gather(
            *(grounder.judge(claims_of(r["claim"], r["question"]), bases[r["context"]], tongue=r["lang"]) for r in part)
        )
        found += [one for row, judgements in zip(part, each, strict=True) if (one := _of(row, judgements)) is not None]
    return found


def _of(row: dict[str, Any], judgements: Sequence[Judgement]) -> Judged | None:
    checkable = [judgement for judgement in judgements if judgement.label != "not_checkable"]
    if not checkable:
        return None
    return Judged(row, float(np.mean([support(one) for one in checkable])), tuple(one.label for one in checkable))


def figures(found: Sequence[Judged], seed: int) -> dict[str, Any]:
    """Of rows alike."""
    others, scores = np.array([not one.right for one in found]), np.array([1 - one.support for one in found])
    documents = sorted({one.row["doc"] for one in found})
    places = [np.flatnonzero([one.row["doc"] == name for one in found]) for name in documents]
    rng = np.random.default_rng(seed)
    spread = []
    for _ in range(RESAMPLED):
        rows = np.concatenate([places[i] for i in rng.integers(0, len(places), len(places))])
        if 0 < others[rows].sum() < len(rows):
            spread.append(float(auroc(np.ones((1, len(rows))), scores[rows], others[rows])[0]))
    right, wrong = [one for one in found if one.right], [one for one in found if not one.right]
    return {
        "n": len(found),
        "documents": len(documents),
        "auroc": round(float(auroc(np.ones((1, len(found))), scores, others)[0]), 3),
        "auroc_95": [round(float(np.quantile(spread, q)), 3) for q in (0.025, 0.975)] if spread else None,
        "right_above_own_edit": _above(found),
        "right_called_supported": _share([set(one.labels) == {"supported"} for one in right]),
        "wrong_called_supported": _share([set(one.labels) == {"supported"} for one in wrong]),
        "right_called_wrong": _share([bool({"contradicted", "unsupported"} & set(one.labels)) for one in right]),
        "reach": {str(least): [_share([one.reaches(least) for one in side]) for side in (right, wrong)] for least in THRESHOLDS},
    }


def _share(hits: Sequence[bool]) -> float | None:
    return round(sum(hits) / len(hits), 3) if hits else None


def _above(found: Sequence[Judged]) -> float | None:
    """Share of pairs of a right sentence and an edit of it in which the right one has the higher probability; a tie counts half."""
    sets: defaultdict[tuple[str, Any], list[Judged]] = defaultdict(list)
    for one in found:
        sets[one.row["doc"], one.row["sentence"]].append(one)
    won = [
        1.0 if right.support > wrong.support else 0.5 if right.support == wrong.support else 0.0
        for ones in sets.values()
        for right in ones
        for wrong in ones
        if right.right and right.row["part"] == "answer" and not wrong.right
    ]
    return round(float(np.mean(won)), 3) if won else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", choices=tuple(ROWS), default="apart")
    parser.add_argument("--documents", type=int, default=200, help="so many, chosen at random")
    parser.add_argument("--seed", type=int, default=5)
    given = parser.parse_args()
    files, result = ROWS[given.rows]
    rows, begun = chosen(files, given.documents, given.seed), time.process_time()
    found = asyncio.run(judged(rows))
    took = 1000 * (time.process_time() - begun) / len(rows)
    groups = {"all": found, "structured": [one for one in found if one.row["shape"] != "prose"]}
    groups["prose"] = [one for one in found if one.row["shape"] == "prose"]
    for language in sorted({one.row["lang"] for one in found}):
        groups[language] = [one for one in found if one.row["lang"] == language]
    table = {name: figures(ones, given.seed) for name, ones in groups.items() if ones}
    documents = len({one.row["doc"] for one in found})
    print(f"{documents} documents, seed {given.seed}; {took:.0f} ms of processor time a sentence, loading included")
    print("rows            n  AUROC [95%]           above own edit  supported: right  wrong  right: wrong  reach 0.7, 0.8 (right/wrong)")
    for name, each in table.items():
        low, high = each["auroc_95"] or (0.0, 1.0)
        reach = "  ".join(f"{a:.2f}/{b:.2f}" for a, b in (each["reach"]["0.7"], each["reach"]["0.8"]))
        print(
            f"{name:12} {each['n']:5}  {each['auroc']:.3f} [{low:.3f}, {high:.3f}]  {each['right_above_own_edit']:14}"
            f"  {each['right_called_supported']:16}  {each['wrong_called_supported']:5}  {each['right_called_wrong']:12}  {reach}"
        )
    RESULTS.mkdir(exist_ok=True)
    result_file(RESULTS / result).write_text(
        json.dumps({"data": [path.name for path in files], "documents": given.documents, "seed": given.seed, "figures": table}, indent=1)
    )


if __name__ == "__main__":
    main()
