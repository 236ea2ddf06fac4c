"""May the proxy answer "this is not in the knowledge base"? Precision of that answer, and of the warning, on held-out questions.

    python -m benchmarks.relevance_actions [--seed N]

Data and halves as `benchmarks.relevance`: questions with their own passage (alone and among nine others; German and Spanish questions with
English passages, too), with another passage of the same article, and with passages of other articles. An action is right where no passage
answers the question. `answer_below` was chosen on the training half: the highest of a few round values at which the precision there
reaches the floor of `proxy.precision`. Intervals: 95% (Wilson).
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from benchmarks import relevance_data as data
from benchmarks.poisoning import share, shown
from benchmarks.relevance import Scored, contexts, other_language, scored
from proxy.models.embedding import BatchingEmbedder
from proxy.models.embedding_use import UseEncoder

CANDIDATES = (0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)


def report(rows: Sequence[Scored], below: float) -> str:
    """How right it is to act below a probability, and how much is acted on."""
    low = [row for row in rows if row.scores["guard"] < below]
    useless = sum(not row.context.helps for row in low)
    own = [row for row in rows if row.context.helps]
    other = [row for row in rows if row.context.kind in ("other", "ten other")]
    refused, caught = (share(sum(row.scores["guard"] < below for row in some), len(some)) for some in (own, other))
    return f"precision {shown(share(useless, len(low)))}; right contexts refused {shown(refused)}; other articles caught {shown(caught)}"


async def run(seed: int) -> None:
    embedder = BatchingEmbedder(UseEncoder(), cache_mb=256)
    for name, held_out in (("training half", False), ("held-out half", True)):
        cases = data.load(held_out=held_out)
        rows = await scored([*contexts(cases, seed), *(other_language(cases) if held_out else ())], embedder)
        print(f"{name}: {len(rows)} contexts")
        for below in CANDIDATES:
            print(f"  below {below:<6} {report(rows, below)}")
    embedder.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    if not data.available():
        print(f"no relevance data in {data.FOLDER}: not measured")
        return
    asyncio.run(run(options.seed))


if __name__ == "__main__":
    main()
