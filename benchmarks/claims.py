"""Are right statements kept and others caught, in words that nothing was made for? `make bench-claims`

    python -m benchmarks.claims [--policy NAME] [--language de] [--show]

Statements about passages of every kind (`benchmarks/data/claims.jsonl`), each as the whole answer of a scripted model to a question with
its passage, through the running proxy under a shipped policy; the label is what the record says of it. A language model wrote them that had
seen neither code nor other data; another one labelled them without seeing the labels, and what the two differ on was dropped. No rule,
threshold or weight is made with them in view: what is printed are sums, and who asks to be shown rows has looked.

*Kept*: of the supported statements those that are not called unsupported or contradicted. *Caught*: of the others those that are not called
supported. What is unsure is among both; *called supported* and *called wrong* leave it out. Baselines are single signals: share of words in
the passage, and cosine with its nearest sentence. Intervals are 95%, by bootstrap over passages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks.grounding_baselines import embedding, overlap
from benchmarks.grounding_data import Pair
from benchmarks.grounding_metrics import auroc, estimate, precision_at_recall, row_weights
from benchmarks.harmless_data import Conversation
from benchmarks.harmless_replay import POLICIES, replay
from benchmarks.load.report import print_table
from benchmarks.verifiers import result_file
from proxy.exchange.judgements import support
from proxy.stages.claims.options import Sensitivity

ROWS = Path(__file__).parent / "data" / "claims.jsonl"
RESULTS = Path(__file__).parent / "results" / "claims.json"
SEED = 18
LABELS = ("supported", "unsure", "unsupported", "contradicted", "error", "no claim")
TIMEOUT_MS = 60_000
"""Of the stage `claims`: a verdict is not to hang on what else the machine does."""
Floats = NDArray[np.float64]


@dataclass(slots=True, frozen=True)
class Row:
    """A statement about a passage."""

    id: str
    lang: str
    kind: str
    question: str
    passage: str
    statement: str
    label: str
    inference: str


@dataclass(slots=True, frozen=True)
class Judged:
    """What became of it."""

    row: Row
    label: str
    """The worst of its claims'; ``no claim`` where none was read in it."""
    support: float
    """Probability of its least supported claim."""


def rows(path: Path = ROWS) -> list[Row]:
    """All of them."""
    return [Row(*(given[name] for name in Row.__slots__)) for given in map(json.loads, path.read_text("utf-8").splitlines())]


def conversation(row: Row) -> Conversation:
    """A question with its passage, and the statement for an answer."""
    told = f"Answer from the documents.\n<documents>\n{row.passage}\n</documents>"
    said = (("system", told), ("user", row.question), ("assistant", row.statement))
    return Conversation(row.id, row.kind, row.lang, stream=False, messages=[{"role": role, "content": text} for role, text in said])


async def judge(given: Sequence[Row], policy: str, sensitivity: Sensitivity) -> list[Judged]:
    """Through the running proxy."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        text = (POLICIES / f"{policy}.yaml").read_text("utf-8")
        options = f"- claims: {{timeout_ms: {TIMEOUT_MS}, sensitivity: {sensitivity}, "
        (Path(folder) / "policy.yaml").write_text(text.replace("- claims: {", options), "utf-8")
        outcomes = await replay(f"{folder}/policy", [conversation(row) for row in given])
    for row, outcome in zip(given, outcomes, strict=True):
        every = [claim for verdict in outcome.detail["verdicts"] if verdict["stage"] == "claims" for claim in verdict["detail"]["claims"]]
        claims = [claim for claim in every if claim["label"] != "not_checkable"]
        label = max((claim["label"] for claim in claims), key=LABELS.index, default=LABELS[-1])
        found.append(Judged(row, label, min(map(support_of, claims), default=1.0)))
    return found


def support_of(claim: Mapping[str, Any]) -> float:
    """Of a claim as the record has it: where a rule decided, or nothing was found, it has no score."""
    return support(SimpleNamespace(label=claim["label"], score=claim.get("score"), decided_by=claim.get("decided_by", "")))


def figures(found: Sequence[Judged]) -> dict[str, Floats]:
    """Replicates of every figure, the value first."""
    weights = row_weights([one.row.passage for one in found], SEED)
    right = np.array([one.row.label == "supported" for one in found])
    labels = np.array([one.label for one in found])
    doubt = 1 - np.array([one.support for one in found])
    wrong = np.isin(labels, ("unsupported", "contradicted"))

    def share(hits: NDArray[np.bool_], of: NDArray[np.bool_]) -> Floats:
        return np.asarray((weights @ (hits & of)) / np.maximum(weights @ of, 1e-9), np.float64)

    kept, caught = share(~wrong, right), share(labels != "supported", ~right)
    return {
        "kept": kept,
        "caught": caught,
        "called supported": share(labels == "supported", right),
        "called wrong": share(wrong, ~right),
        "flags that are right": np.asarray((weights @ (wrong & ~right)) / np.maximum(weights @ wrong, 1e-9), np.float64),
        "AUROC": auroc(weights, doubt, ~right),
        "precision at recall 0.7": precision_at_recall(weights, doubt, ~right, 0.7),
    }


def baselines(given: Sequence[Row]) -> dict[str, Floats]:
    """Replicates of each signal's AUROC."""
    pairs = [Pair(row.statement, row.passage, row.lang, row.label) for row in given]
    weights, wrong = row_weights([row.passage for row in given], SEED), np.array([row.label != "supported" for row in given])
    signals = {"word overlap": overlap, "embedding similarity": embedding}
    return {name: auroc(weights, 1 - signal(pairs)[:, 0], wrong) for name, signal in signals.items()}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="rag")
    parser.add_argument("--sensitivity", choices=get_args(Sensitivity), default="balanced")
    parser.add_argument("--language", choices=("en", "de", "es", "fr"))
    parser.add_argument("--rows", type=Path, default=ROWS, help="other rows of the same form")
    parser.add_argument("--show", action="store_true", help="print every statement that was judged otherwise than it is labelled")
    given = parser.parse_args()
    asked = [row for row in rows(given.rows) if given.language in (None, row.lang)]
    found = asyncio.run(judge(asked, given.policy, given.sensitivity))
    parts = {"all": found} | {lang: part for lang in ("en", "de", "es", "fr") if (part := [one for one in found if one.row.lang == lang])}
    told = {name: {figure: estimate(values) for figure, values in figures(part).items()} for name, part in parts.items()}
    head = ["", "n", *told["all"]]
    lines = [[name, str(len(parts[name])), *map(str, told[name].values())] for name in told]
    print_table(f"{given.policy}, sensitivity {given.sensitivity}: {len({row.passage for row in asked})} passages", head, lines)
    labels = [[label, *(str(sum(one.label == said and one.row.label == label for one in found)) for said in LABELS)] for label in LABELS]
    print_table("labelled, and judged", ["", *LABELS], [line for line in labels if line[0] in ("supported", "unsupported", "contradicted")])
    simple = {name: estimate(values) for name, values in baselines(asked).items()}
    print_table("AUROC of single signals", ["", "AUROC"], [[name, str(value)] for name, value in simple.items()])
    for one in found if given.show else ():
        if (one.row.label == "supported") != (one.label == "supported"):
            print(f"{one.row.id} {one.row.label} ({one.row.inference}) judged {one.label} {one.support:.2f}: {one.row.statement}")
    kept = {name: {figure: [e.value, e.low, e.high] for figure, e in part.items()} for name, part in told.items()}
    RESULTS.parent.mkdir(exist_ok=True)
    result_file(RESULTS).write_text(
        json.dumps({"policy": given.policy, "sensitivity": given.sensitivity, "rows": len(asked), "seed": SEED, "figures": kept}, indent=1)
        + "\n",
        "utf-8",
    )


if __name__ == "__main__":
    main()
