"""Of how many answers is a judge asked, with `ask: unsure`?

    python -m benchmarks.judge_calls [--policy NAME]

One call an answer, and only where some of its statements are not surely supported by the built-in models. Counted are the
answers that would be asked about, of all that the model gave and of those in which anything was judged, under a shipped policy through the
running proxy: the conversations of `benchmarks.harmless`, ordinary and harmful, and the single statements of `benchmarks.claims`, of which
two fifths are not supported. Intervals are Wilson's, 95%.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import claims
from benchmarks.harmless_data import SUITES, Conversation, load
from benchmarks.harmless_replay import replay
from benchmarks.load.report import print_table
from benchmarks.load.statistics import wilson
from proxy.exchange.judgements import Claim, Judgement
from proxy.grounding.judging.reconsidering import is_open_to_judge


def judged(detail: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The claims of an exchange that were looked at."""
    found = [
        claim for verdict in detail.get("verdicts", ()) if verdict["stage"] == "claims" for claim in verdict["detail"].get("claims", ())
    ]
    return [claim for claim in found if claim["label"] != "not_checkable"]


def open_to_it(claim: Mapping[str, Any]) -> bool:
    """Whether the judge would be asked about a claim of a record."""
    claimed = Claim(claim["text"], 0, 0)
    return is_open_to_judge(Judgement(claimed, claim["label"], claim.get("score"), decided_by=claim.get("decided_by") or ""), "unsure")


async def calls(policy: str, conversations: Sequence[Conversation]) -> list[int]:
    """For each answer how many statements would be asked about; -1 where nothing was judged."""
    found = []
    for outcome in await replay(policy, conversations):
        given = judged(outcome.detail)
        found.append(sum(map(open_to_it, given)) if given else -1)
    return found


def line(name: str, found: Sequence[int]) -> list[str]:
    """A row of the table."""
    asked, looked_at = sum(n > 0 for n in found), sum(n >= 0 for n in found)
    low, high = wilson(asked, len(found))
    of_judged = f"{100 * asked / looked_at:.0f}" if looked_at else "-"
    statements = f"{sum(n for n in found if n > 0) / asked:.1f}" if asked else "-"
    return [name, str(len(found)), f"{100 * asked / len(found):.0f} [{100 * low:.0f}, {100 * high:.0f}]", of_judged, statements]


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="rag")
    policy = parser.parse_args().policy
    sets = {f"{kind}, {suite}": load(paths) for suite, kinds in SUITES.items() for kind, paths in kinds.items()}
    sets["single statements"] = [claims.conversation(row) for row in claims.rows()]
    head = ["", "answers", "calls per 100 answers", "per 100 judged", "statements a call"]
    print_table(policy, head, [line(name, asyncio.run(calls(policy, rows))) for name, rows in sets.items()])


if __name__ == "__main__":
    main()
