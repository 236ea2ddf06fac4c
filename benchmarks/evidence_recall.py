"""Is what decides a claim among the evidence that a verifier gets to read?

    python -m benchmarks.evidence_recall [--budgets 900,1800]

Rows of ``../shared/data/judge`` and ``training/data`` whose label is supported or contradicted name the piece or pieces of their context
that decide. For each row the evidence is chosen as the stage `claims` does it, by words alone and with the built-in embedding model beside
them, within a budget of characters. Recall is the share of the rows whose deciding pieces are all chosen, with its 95% bootstrap interval
over documents; of the rows whose context does not fit into the budget as a whole it is told apart. Says so where the data are missing.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from benchmarks.load.statistics import SEED
from proxy.exchange import Evidence
from proxy.grounding.claims.claims import Claim
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.evidence.retrieval import EVIDENCE_CHARS
from proxy.grounding.judging.grounder import Grounder
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.testing import ScriptedVerifiers
from training.judge.written import FILES, Row, rows


class Found(Struct, frozen=True):
    """Of one row."""

    row: Row
    whole: bool
    """Whether the whole context was chosen."""
    complete: bool
    """Whether every deciding piece was."""


async def found(given: Sequence[Row], budget_chars: int, embedder: BatchingEmbedder | None) -> list[Found]:
    """What is chosen for each row whose deciding pieces stand in its context as they are named."""
    grounder = Grounder(ScriptedVerifiers(), embedder=embedder, budget_chars=budget_chars)
    by_context: dict[str, list[Row]] = defaultdict(list)
    for row in given:
        if row.deciding:
            by_context[row.context].append(row)
    out: list[Found] = []
    for context, some in by_context.items():
        base = EvidenceBase([Evidence(context)])
        claims = [Claim(row.claim, 0, len(row.claim)) for row in some]
        for row, selection in zip(some, await grounder.selections(claims, base), strict=True):
            spans = [base.span(i) for i in selection.positions]
            places = [(start, start + len(text)) for text in row.deciding if (start := context.find(text)) >= 0]
            if len(places) < len(row.deciding):
                continue
            complete = all(_covered(context, start, end, [(span.start, span.end) for span in spans]) for start, end in places)
            out.append(Found(row, len(selection.positions) >= base.distinct, complete))
    return out


def _covered(context: str, start: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether every letter of ``context[start:end]`` stands in one of `spans`, but for marks that no piece holds."""
    left = set(range(start, end))
    for a, b in spans:
        left -= set(range(a, b))
    return sum(context[i].isalnum() for i in left) <= 0.1 * max(1, sum(context[i].isalnum() for i in range(start, end)))


def figure(some: Sequence[Found]) -> str:
    """Recall over rows; its interval resamples documents with all their rows."""
    by_document: dict[str, list[bool]] = defaultdict(list)
    for one in some:
        by_document[one.row.document].append(one.complete)
    if not some:
        return "no rows"
    documents = [(sum(of), len(of)) for of in by_document.values()]
    draw = random.Random(SEED)
    rates = sorted(_rate(draw.choices(documents, k=len(documents))) for _ in range(1000))
    return f"{_rate(documents):.3f} [{rates[25]:.3f}, {rates[974]:.3f}] of {len(some)}"


def _rate(documents: Sequence[tuple[int, int]]) -> float:
    return sum(found for found, _ in documents) / sum(of for _, of in documents)


async def main() -> int:
    """Measure each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", default=str(EVIDENCE_CHARS))
    parser.add_argument("--show", type=int, default=0, help="print so many rows whose deciding piece is not chosen")
    arguments = parser.parse_args()
    embedder = BatchingEmbedder(UseEncoder())
    for file in FILES:
        if not file.exists():
            print(f"{file} is missing: its rows name what decides")
            continue
        print(file)
        await measure(rows([file]), [int(budget) for budget in arguments.budgets.split(",")], embedder, arguments.show)
    embedder.stop()
    return 0


async def measure(given: Sequence[Row], budgets: Sequence[int], embedder: BatchingEmbedder, show: int) -> None:
    """Print a line for each budget, way and language."""
    for budget in budgets:
        for name, model in (("words", None), ("words and similarity", embedder)):
            all_found = await found(given, budget, model)
            searched = [one for one in all_found if not one.whole]
            print(f"{budget} characters, {name}: {figure(all_found)}; where not all fits: {figure(searched)}")
            for code in ("en", "de", "es", "fr"):
                print(f"    {code}: {figure([one for one in searched if one.row.language == code])}")
            for one in [one for one in searched if not one.complete][:show]:
                print("   ", one.row.document, repr(one.row.claim), one.row.deciding)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
