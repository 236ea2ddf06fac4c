"""Whom does the relevance guard refuse, warn and let through? By group of questions, language and length of the passage.

    python -m benchmarks.relevance_actions [--seed N] [--training] [--show GROUP]

Data: the held-out half of `benchmarks.relevance_data`, none of which the coefficients or the thresholds were made from (``--training``:
the other half). Every question with its own passage, with another topic's, and each among or with others of other topics (five). German
and Spanish questions with English passages, too. Each goes through the stage as the policy `rag` has it, passages as
``groundwire.context``: *refused* (answered in the model's stead), *warned*, or *silent*. The mean weighs groups alike. Goals: below 2% of
the questions that their passage answers refused, below 5% of those over another topic's silent. An action is right where no passage
answers; its precision is that over all of these contexts. Intervals: 95% (Wilson).
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks import relevance_data as data
from benchmarks.poisoning import share, shown
from benchmarks.relevance import other_language
from proxy.exchange import Evidence
from proxy.language.words import words
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.stages.relevance import Relevance, RelevanceOptions
from proxy.testing import make_exchange, make_ports

SEVERAL = 5
SHORT_WORDS = 40
"""A passage of at most so many words is short."""
KINDS = ("own", "other", "own of five", "five others")


@dataclass(slots=True, frozen=True)
class Asked:
    """A question over passages."""

    case: data.Case
    group: str
    kind: str
    """One of `KINDS`."""
    passages: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Decided:
    """What the stage did."""

    asked: Asked
    action: str
    """``refused``, ``warned``, ``silent``."""
    score: float | None

    @property
    def helps(self) -> bool:
        return self.asked.kind.startswith("own")


def contexts(cases: Sequence[data.Case], seed: int) -> Iterator[Asked]:
    """Each question with one passage and with several; ClapNQ's unanswerable questions have none of their own."""
    source = random.Random(seed)
    for case in cases:
        others = data.distractors(cases, case, SEVERAL, source)
        own = [case.positive] if case.positive else []
        yield Asked(case, case.group, "other", (case.easy,))
        yield Asked(case, case.group, "five others", tuple(others))
        for passage in own:
            among = others[1:]
            among.insert(source.randrange(SEVERAL), passage)
            yield Asked(case, case.group, "own", (passage,))
            yield Asked(case, case.group, "own of five", tuple(among))
    by_question = {(case.group, case.question): case for case in cases}
    for crossed in other_language(cases):
        if crossed.kind in KINDS:
            yield Asked(by_question[crossed.group[:2], crossed.question], crossed.group, crossed.kind, crossed.passages)


async def decided(items: Sequence[Asked], embedder: BatchingEmbedder) -> list[Decided]:
    """Every context through the stage."""
    stage, found = Relevance(RelevanceOptions(), make_ports(embedder=embedder)), []
    for item in items:
        exchange = make_exchange(item.case.messages)
        exchange.passages = tuple(map(Evidence, item.passages))
        verdict = await stage.on_request(exchange)
        assert verdict is not None
        action = "refused" if exchange.answer is not None else "warned" if verdict.outcome == "warn" else "silent"
        found.append(Decided(item, action, exchange.facts.relevance))
    return found


def show_rows(title: str, rows: Sequence[Decided]) -> None:
    """Shares of each action, for each kind of context."""
    for kind in KINDS:
        chosen = [row.action for row in rows if row.asked.kind == kind]
        if chosen:
            cells = [f"{action} {shown(share(chosen.count(action), len(chosen)))}" for action in ("refused", "warned", "silent")]
            print(f"{title:12}{kind:14}n {len(chosen):5}  " + "  ".join(f"{cell:34}" for cell in cells))


def show_means(rows: Sequence[Decided]) -> None:
    """The same, groups weighing alike."""
    for kind in KINDS:
        shares = []
        for group in data.GROUPS:
            chosen = [row.action for row in rows if row.asked.kind == kind and row.asked.group == group]
            shares.append([chosen.count(action) / len(chosen) for action in ("refused", "warned", "silent")])
        refused, warned, silent = (sum(column) / len(shares) for column in zip(*shares, strict=True))
        print(f"{'mean':12}{kind:14}refused {refused:.3f}  warned {warned:.3f}  silent {silent:.3f}")


async def run(seed: int, held_out: bool, show: str) -> None:
    embedder = BatchingEmbedder(UseEncoder(), cache_mb=256)
    rows = await decided(list(contexts(data.load(held_out=held_out), seed)), embedder)
    embedder.stop()
    show_means(rows)
    for group in dict.fromkeys(row.asked.group for row in rows):
        show_rows(group, [row for row in rows if row.asked.group == group])
    for tongue in dict.fromkeys(row.asked.case.language for row in rows):
        show_rows(f"in {tongue}", [row for row in rows if row.asked.case.language == tongue and ">" not in row.asked.group])
    single = [row for row in rows if len(row.asked.passages) == 1]
    for title, short in (("short", True), ("long", False)):
        show_rows(title, [row for row in single if (len(words(row.asked.passages[0])) <= SHORT_WORDS) is short])
    for action, chosen in (("block", [r for r in rows if r.action == "refused"]), ("warn", [r for r in rows if r.action != "silent"])):
        print(f"precision of {action}: {shown(share(sum(not row.helps for row in chosen), len(chosen)))}, n {len(chosen)}")
    for row in rows:
        if row.asked.group == show and row.action != ("silent" if row.helps else "refused"):
            print(row.action, row.asked.kind, row.score, row.asked.case.language, row.asked.case.question, "|", row.asked.passages[0][:150])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--training", action="store_true", help="the half that thresholds are chosen on")
    parser.add_argument("--show", default="", help="a group whose contexts that were not as they should be are printed")
    options = parser.parse_args()
    if not data.available():
        print(f"no relevance data in {data.FOLDER}: not measured")
        return
    asyncio.run(run(options.seed, not options.training, options.show))


if __name__ == "__main__":
    main()
