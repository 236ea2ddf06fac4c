"""May the proxy answer "this is not in the knowledge base"? Precision of that answer, and of the warning, on held-out questions.

    python -m benchmarks.relevance_actions [--seed N]

Data and halves as `benchmarks.relevance`: questions with their own passage (alone and among nine others; German and Spanish questions with
English passages, too), with another passage of the same article, and with passages of other articles, as ``groundwire.context``. An action
is right where no passage answers the question. Each context goes through the stage itself, as the policy `rag` has it: *refused* is one
that it answers in the model's stead, *warned* one that it warns of or refuses. Beside it what the probability alone, below the same value,
would have refused. `answer_below` was chosen on the training half. Intervals: 95% (Wilson).
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import relevance_data as data
from benchmarks.poisoning import share, shown
from benchmarks.relevance import Context, contexts, other_language
from proxy.exchange import Evidence
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.use import UseEncoder
from proxy.stages.relevance import Relevance, RelevanceOptions
from proxy.testing import make_exchange, make_ports


@dataclass(slots=True, frozen=True)
class Decided:
    """What the stage did with a context."""

    context: Context
    probability: float
    refused: bool
    warned: bool


async def decided(items: Sequence[Context], embedder: BatchingEmbedder) -> list[Decided]:
    """Every context through the stage."""
    stage, found = Relevance(RelevanceOptions(), make_ports(embedder=embedder)), []
    for item in items:
        exchange = make_exchange([{"role": "user", "content": item.question}])
        exchange.passages = tuple(map(Evidence, item.passages))
        verdict = await stage.on_request(exchange)
        assert verdict is not None
        score = 1.0 if exchange.facts.relevance is None else exchange.facts.relevance
        found.append(Decided(item, score, exchange.answer is not None, verdict.outcome == "warn"))
    return found


def report(rows: Sequence[Decided], acted: Callable[[Decided], bool]) -> str:
    """How right it is to act, and how much is acted on."""
    taken = [row for row in rows if acted(row)]
    useless = sum(not row.context.helps for row in taken)
    own = [row for row in rows if row.context.helps]
    other = [row for row in rows if row.context.kind in ("other", "ten other")]
    wrong, caught = (share(sum(map(acted, some)), len(some)) for some in (own, other))
    return f"precision {shown(share(useless, len(taken)))}; right contexts {shown(wrong)}; other articles {shown(caught)}"


async def run(seed: int) -> None:
    embedder, below = BatchingEmbedder(UseEncoder(), cache_mb=256), RelevanceOptions().answer_below
    for name, held_out in (("training half", False), ("held-out half", True)):
        cases = data.load(held_out=held_out)
        rows = await decided([*contexts(cases, seed), *(other_language(cases) if held_out else ())], embedder)
        print(f"{name}: {len(rows)} contexts")
        print(f"  refused      {report(rows, lambda row: row.refused)}")
        print(f"  warned       {report(rows, lambda row: row.warned)}")
        print(f"  below {below:<6} {report(rows, lambda row: row.probability < below)}")
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
