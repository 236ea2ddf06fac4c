"""What does the built-in verifier lose, and what does a pair cost, with less evidence?

    python -m benchmarks.evidence_budget [--rows 160] [--seed 3]

Statements of `benchmarks.claims` whose passage is longer than `LONG_CHARS`. For each budget of characters (`EVIDENCE_CHARS` is what the
product reads) the passage's sentences are chosen as the stage `claims` chooses them, and the verifier judges the pair, alone and in one
thread. Printed are the AUROC of its probability of support (95% by resampling passages), tokens and milliseconds of CPU of a pair, and how
many statements fall to the other side of one half than with all evidence. Nothing is written: a budget is not chosen on these rows.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np

from benchmarks.claims import rows
from benchmarks.grounding_metrics import auroc, estimate, row_weights
from proxy.exchange import Evidence
from proxy.exchange.judgements import ClaimPair
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.evidence.retrieval import EVIDENCE_CHARS
from proxy.models.verifier.onnx import OnnxVerifier

BUDGETS = (EVIDENCE_CHARS, 600, 450, 300)
LONG_CHARS = 700


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=160)
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    drawn = [row for row in rows() if len(row.passage) > LONG_CHARS]
    random.Random(given.seed).shuffle(drawn)
    drawn = drawn[: given.rows]
    wrong = np.array([row.label != "supported" for row in drawn])
    weights = row_weights([row.passage for row in drawn], given.seed)
    verifier = OnnxVerifier(threads=1)
    verifier.load()
    first = np.zeros(0)
    print(f"{len(drawn)} statements, passages of more than {LONG_CHARS} characters, seed {given.seed}")
    for budget in BUDGETS:
        chosen = [EvidenceBase([Evidence(row.passage)]).search(row.statement, budget_chars=budget) for row in drawn]
        pairs = [ClaimPair(row.statement, one.text, row.lang) for row, one in zip(drawn, chosen, strict=True)]
        tokens = np.mean([verifier.feed(pair)["input_ids"].shape[1] for pair in pairs])
        began = time.process_time()
        judged = verifier.judge(pairs)
        pair_ms = 1000 * (time.process_time() - began) / len(pairs)
        support = np.array([one.supported if one is not None else 0.5 for one in judged])
        first = first if first.size else support
        moved = np.mean((support > 0.5) != (first > 0.5))
        value = estimate(auroc(weights, 1 - support, wrong))
        print(f"{budget:5} characters  AUROC {value}  {tokens:5.0f} tokens  {pair_ms:6.1f} ms CPU a pair  {moved:.0%} on the other side")


if __name__ == "__main__":
    main()
