"""How often is an action of the stage `claims` right? `make bench-actions-answers`

    python -m benchmarks.actions_answers [--rows N] [--planted N] [--seed N]

Development rows with one claim and its context each (`benchmarks.actions_answers_data`), and supported claims in which a number, a date,
a name or a place was exchanged, go through the stage's own path: claims, evidence, the built-in verifier, the decision. *block* (redact,
replace, retry and the default warning are the same claims) is right where the context contradicts the claim, or, in sources that do not
tell that from "not mentioned", does not support it; *warn of unsupported* (``fail_on: unsupported``) is right where it is not supported.
Found is the share of the planted contradictions that are blocked. Intervals are Wilson's, 95%. Writes one JSON object an action.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import actions_answers_data as data
from benchmarks.actions_answers_data import Row
from benchmarks.load.statistics import wilson
from benchmarks.verifiers import local_verifiers
from proxy.exchange import Evidence
from proxy.exchange.judgements import Judgement
from proxy.grounding.claims.claims import claims_of
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder

RESULTS = Path(__file__).with_name("results")
TOGETHER = 32
LANGUAGES = ("en", "de", "es", "fr")
FLOORS = {"block": 0.98, "warn": 0.85}


@dataclass(slots=True, frozen=True)
class Judged:
    """A row, and the labels of its claims."""

    row: Row
    found: tuple[Judgement, ...]

    @property
    def labels(self) -> set[str]:
        return {judgement.label for judgement in self.found}

    @property
    def blocked(self) -> bool:
        return "contradicted" in self.labels

    @property
    def warned(self) -> bool:
        """With ``fail_on: unsupported``."""
        return bool(self.labels & {"contradicted", "unsupported"})

    @property
    def rightly_blocked(self) -> bool:
        return self.row.contradicted is not False and self.row.label != "supported"


async def judge(rows: Sequence[Row], grounder: Grounder | None = None) -> list[Judged]:
    """Each row by itself, as the stage judges an answer's claims."""
    if grounder is None:
        verifiers = local_verifiers()
        grounder = Grounder(verifiers.get(), embedder=BatchingEmbedder(UseEncoder()), only_certain=True)
    bases: dict[str, EvidenceBase] = {}
    judged: list[Judged] = []
    for start in range(0, len(rows), TOGETHER):
        part = rows[start : start + TOGETHER]
        for row in part:
            bases.setdefault(row.context, EvidenceBase([Evidence(row.context)]))
        said = await asyncio.gather(*(grounder.judge(claims_of(r.claim), bases[r.context], tongue=r.language) for r in part))
        judged += [Judged(row, tuple(found)) for row, found in zip(part, said, strict=True)]
    return judged


def figure(stage_action: str, hits: Sequence[Judged], right: Callable[[Judged], bool], name: str) -> dict[str, Any]:
    """Precision of one action."""
    good = sum(map(right, hits))
    low, high = wilson(good, len(hits))
    share = good / len(hits) if hits else 0.0
    figures = {"precision": round(share, 4), "low": round(low, 4), "high": round(high, 4), "n": len(hits)}
    return {"stage": "claims", "action": stage_action, **figures, "data": name}


def show(name: str, found: dict[str, Any], floor: float | None = None) -> None:
    told = "" if floor is None else f"  (floor {floor:.2f})"
    print(f"  {name:34} precision {found['precision']:.3f} [{found['low']:.3f}, {found['high']:.3f}]  n {found['n']}{told}")


def report(judged: Sequence[Judged], name: str) -> list[dict[str, Any]]:
    """Print the tables; the figures that are written."""
    blocked, warned = [j for j in judged if j.blocked], [j for j in judged if j.warned]
    block = figure("block", blocked, lambda j: j.rightly_blocked, name)
    warn = {**block, "action": "warn"}
    unsupported = figure("warn of unsupported", warned, lambda j: j.row.label != "supported", name)
    print(f"\n{len(judged)} rows, {sum(bool(j.row.planted) for j in judged)} of them planted\n\nprecision")
    show("block, redact, replace, retry", block, FLOORS["block"])
    show("warn (default)", warn, FLOORS["warn"])
    show("warn with fail_on: unsupported", unsupported, FLOORS["warn"])
    show("block, rows as they are", figure("block", [j for j in blocked if not j.row.planted], lambda j: j.rightly_blocked, name))
    for language in LANGUAGES:
        show(f"block, {language}", figure("block", [j for j in blocked if j.row.language == language], lambda j: j.rightly_blocked, name))
    print("\nplanted contradictions that are found (blocked)")
    table: defaultdict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        if one.row.planted:
            for key in (one.row.planted, one.row.language, "all"):
                table[key].append(one)
    for key, ones in table.items():
        hits = sum(one.blocked for one in ones)
        low, high = wilson(hits, len(ones))
        print(f"  {key:34} {hits / len(ones):.3f} [{low:.3f}, {high:.3f}]  n {len(ones)}")
    supported = [j for j in judged if j.row.label == "supported"]
    print("\nof supported claims")
    for label in ("supported", "unsure", "unsupported", "contradicted", "not_checkable"):
        print(f"  {label:34} {sum(label in j.labels for j in supported) / len(supported):.3f}")
    return [block, warn, unsupported]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=60, help="rows of each source, at most")
    parser.add_argument("--planted", type=int, default=500, help="planted contradictions, at most")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if not data.available():
        raise SystemExit("../shared/data is not there")
    rows = data.rows(arguments.rows, arguments.seed)
    planted = data.planted(data.rows(400, arguments.seed), arguments.seed)
    planted = random.Random(arguments.seed).sample(planted, min(arguments.planted, len(planted)))
    judged = asyncio.run(judge([*rows, *planted]))
    name = f"development rows of grounding and judge, and planted ones; seed {arguments.seed}"
    found = report(judged, name)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "actions_answers.json"
    path.write_text("".join(json.dumps(one) + "\n" for one in found), encoding="utf-8")
    print(f"\n{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main()
