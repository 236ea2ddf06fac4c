"""Is what a client is told of an answer true? `make bench-promise`: the same answer, once right and once with one thing wrong in it.

    python -m benchmarks.promise [--policies default,rag,strict] [--only de-,en-ward] [--check] [--show]
    python -m benchmarks.promise --judge chat|decisions --ask unsure|all [...]

Each question of `data/promise` goes through the running proxy with its evidence, in its API, streamed or not, and the scripted model gives
first the right and then the wrong answer. *Harmed* is an answer that was refused, cut, changed or given in the model's stead; *warned* one
whose verdict is a warning or worse; *flagged* a wrong one that was warned of or did not leave. *pass*, *unsure* and *unchecked* are the
other verdicts. AUROC is that of ``x-groundwire-faithfulness``, wrong against right; where the header is missing 0.5 stands for it.
Questions over another topic's passages are counted apart: refused, warned of, or neither.

With ``--judge`` the policies have a judge that is always right (`benchmarks.promise_oracle`): what is still not noticed is the product's
own, and *why* counts what became of the wrong statements that were not flagged.

Intervals are 95%: Wilson's of shares, by bootstrap over pairs of the AUROC. With ``--check`` it ends with 1 where one of `LIMITS` is
passed. Writes ``results/promise.json``, which is committed, or ``promise_part.json`` where some policies or pairs were left out. No rule,
threshold or weight is made with these rows in view; who asks to be shown them has looked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.grounding_metrics import auroc, estimate, row_weights
from benchmarks.load.report import print_table
from benchmarks.load.statistics import wilson
from benchmarks.promise_data import OffTopic, Pair, off_topic, pairs
from benchmarks.promise_oracle import Oracle, is_planted
from benchmarks.promise_replay import JudgedBy, Seen, Task, replay
from benchmarks.verifiers import result_file

RESULTS = Path(__file__).parent / "results" / "promise.json"
CHECKED = ("default", "rag", "strict")
SEED = 28
VERDICTS = ("pass", "unsure", "unchecked")
GROUPS: Mapping[str, Callable[[Pair], str]] = {
    "what is wrong": lambda pair: pair.kind,
    "evidence": lambda pair: pair.shape,
    "where it stands": lambda pair: pair.where,
    "language": lambda pair: pair.language,
    "API": lambda pair: pair.api,
    "delivery": lambda pair: "streamed" if pair.stream else "whole",
}


@dataclass(slots=True, frozen=True)
class Limit:
    """Shares of the pairs, at most."""

    right_harmed: float = 0.0
    right_warned: float = 0.03
    wrong_pass: float = 0.20


LIMITS = {name: Limit() for name in CHECKED}
"""What CI holds."""


@dataclass(slots=True, frozen=True)
class Judged:
    """What became of both answers to one question."""

    pair: Pair
    right: Seen
    wrong: Seen


@dataclass(slots=True, frozen=True)
class Result:
    """One policy."""

    policy: str
    judged: Sequence[Judged]
    off_topic: Sequence[tuple[OffTopic, Seen]]


def run(policies: Sequence[str], asked: Sequence[Pair], apart: Sequence[OffTopic], judged_by: JudgedBy | None = None) -> list[Result]:
    """Every answer under every policy."""
    tasks = []
    for policy in policies:
        for pair in asked:
            tasks += [Task(policy, pair, pair.right, f"{pair.id}-right"), Task(policy, pair, pair.wrong, f"{pair.id}-wrong")]
        tasks += [Task(policy, question, question.answer, question.id) for question in apart]
    found = iter(asyncio.run(replay(policies, tasks, judged_by)))
    return [
        Result(policy, [Judged(pair, next(found), next(found)) for pair in asked], [(question, next(found)) for question in apart])
        for policy in policies
    ]


def counts(judged: Sequence[Judged]) -> dict[str, Any]:
    """Of pairs, how many became what, and what the header is worth."""
    right, wrong = [one.right for one in judged], [one.wrong for one in judged]
    found: dict[str, Any] = {"n": len(judged)}
    found["right_harmed"] = sum(seen.harmed for seen in right)
    found["right_warned"] = sum(seen.warned for seen in right)
    found |= {f"right_{verdict}": sum(seen.verdict == verdict for seen in right) for verdict in VERDICTS}
    found["wrong_flagged"] = sum(seen.flagged for seen in wrong)
    found |= {f"wrong_{verdict}": sum(seen.verdict == verdict and not seen.flagged for seen in wrong) for verdict in VERDICTS}
    found["wrong_error"] = sum(seen.verdict == "error" and not seen.flagged for seen in wrong)
    scores = [seen.faithfulness for seen in (*right, *wrong)]
    risk = 1 - np.array([0.5 if score is None else score for score in scores])
    positive = np.arange(len(scores)) >= len(right)
    area = estimate(auroc(row_weights([one.pair.id for one in judged] * 2, SEED), risk, positive))
    found["auroc"] = [area.value, area.low, area.high]
    found["faithfulness_missing"] = sum(score is None for score in scores) / max(1, len(scores))
    return found


def figures(result: Result) -> dict[str, Any]:
    """What is printed and written of one policy."""
    groups: dict[str, dict[str, Any]] = {}
    for name, of in GROUPS.items():
        values = dict.fromkeys(of(one.pair) for one in result.judged)
        groups[name] = {value: counts([one for one in result.judged if of(one.pair) == value]) for value in sorted(values)}
    seen = [seen for _, seen in result.off_topic]
    refused = sum(one.asked or one.blocked for one in seen)
    warned = sum(not (one.asked or one.blocked) and one.warned for one in seen)
    apart = {"n": len(seen), "refused": refused, "warned": warned, "silent": len(seen) - refused - warned}
    return {"policy": result.policy, **counts(result.judged), "groups": groups, "off_topic": apart}


def causes(result: Result) -> Counter[str]:
    """What became of the wrong statement in each wrong answer that was not flagged, and of what failed in each right one that was: how it
    was labelled, and by whom.
    """
    found = Counter[str]()
    for one in result.judged:
        if not one.wrong.flagged:
            found["wrong: " + _said([claim for claim in one.wrong.claims if is_planted(claim["text"], one.pair)])] += 1
        if one.right.warned or one.right.harmed:
            found["right: " + _said([claim for claim in one.right.claims if claim["label"] in ("contradicted", "error")])] += 1
    return found


def _said(claims: Sequence[Mapping[str, Any]]) -> str:
    said = {" ".join(str(claim.get(name) or "-") for name in ("label", "decided_by")) for claim in claims}
    return ", ".join(sorted(said)) or "no such statement"


def passed(found: Mapping[str, Any], limits: Mapping[str, Limit] = LIMITS) -> list[str]:
    """The limits that a policy's figures pass, in words."""
    limit, n = limits.get(found["policy"]), found["n"]
    if limit is None:
        return []
    shares = {"right_harmed": limit.right_harmed, "right_warned": limit.right_warned, "wrong_pass": limit.wrong_pass}
    return [
        f"{found['policy']}: {name.replace('_', ' ')} {found[name]} of {n}, limit {share:.0%}"
        for name, share in shares.items()
        if found[name] > share * n
    ]


def written_to(given: argparse.Namespace) -> Path:
    """`RESULTS`, of which README and docs are made, only of all pairs under all policies, with the judges that are shipped."""
    if given.judge:
        return RESULTS.with_stem(f"promise_oracle_{given.ask}")
    whole = set(given.policies.split(",")) >= set(CHECKED) and not given.only
    return result_file(RESULTS if whole else RESULTS.with_stem("promise_part"))


# ---- for people ----

COLUMNS = {
    "right harmed": "right_harmed",
    "right warned": "right_warned",
    "right pass": "right_pass",
    "wrong flagged": "wrong_flagged",
    "wrong unsure": "wrong_unsure",
    "wrong unchecked": "wrong_unchecked",
    "wrong pass": "wrong_pass",
}


def share(hits: int, n: int) -> str:
    """In per cent, with its interval."""
    low, high = wilson(hits, n)
    return f"{hits / max(1, n):.0%} [{low:.0%}, {high:.0%}]"


def line(found: Mapping[str, Any], *, intervals: bool) -> list[str]:
    """The cells of one row."""
    n = found["n"]
    cells = [share(found[name], n) if intervals else str(found[name]) for name in COLUMNS.values()]
    value, low, high = found["auroc"]
    bounds = f" [{low:.2f}, {high:.2f}]" if intervals and not math.isnan(low) else ""
    return [str(n), *cells, f"{value:.2f}{bounds}"]


def print_figures(all_figures: Sequence[Mapping[str, Any]]) -> None:
    """All policies beside each other, then each by what is wrong, evidence, language, API."""
    head = ["", "pairs", *COLUMNS, "AUROC"]
    extra = ["wrong error", "no header", "off topic: refused, warned, silent"]
    lines = []
    for found in all_figures:
        apart = found["off_topic"]
        told = f"{apart['refused']}, {apart['warned']}, {apart['silent']} of {apart['n']}"
        end = [str(found["wrong_error"]), f"{found['faithfulness_missing']:.0%}", told]
        lines.append([found["policy"], *line(found, intervals=True), *end])
    print_table("each answer once right and once with one thing wrong", [*head, *extra], lines)
    for found in all_figures:
        for name, groups in found["groups"].items():
            rows = [[value, *line(group, intervals=False)] for value, group in groups.items()]
            print_table(f"{found['policy']}, by {name}", head, rows)


def shown(result: Result) -> str:
    """Each right answer that suffered, each wrong one that passed, each silence over another topic's passages, with texts."""
    lines = []
    for one in result.judged:
        where = f"{result.policy} {one.pair.id} ({one.pair.kind}, {one.pair.shape}, {one.pair.api}{', stream' if one.pair.stream else ''})"
        if one.right.harmed or one.right.warned:
            what = "harmed" if one.right.harmed else "warned"
            lines += [f"{where}: right {what}, {one.right.verdict} {','.join(one.right.codes)}", *(f"    {it}" for it in one.right.judged)]
        if one.wrong.verdict == "pass" and not one.wrong.flagged:
            lines += [f"{where}: wrong called pass: {one.pair.planted}", *(f"    {it}" for it in one.wrong.judged)]
    for question, seen in result.off_topic:
        if not (seen.asked or seen.blocked or seen.warned):
            lines.append(f"{result.policy} {question.id}: silent, {seen.verdict} {','.join(seen.codes)}")
    return "\n".join(lines)


def main() -> int:
    """Replay, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", default=",".join(CHECKED), help="shipped policies, comma-separated")
    parser.add_argument("--only", default="", help="questions whose id begins so, comma-separated")
    parser.add_argument("--judge", choices=("chat", "decisions"), help="the oracle as the policies' judge, asked in this way")
    parser.add_argument("--ask", choices=("unsure", "all"), default="all", help="what the oracle is asked about")
    parser.add_argument("--check", action="store_true", help="end with 1 where a limit is passed")
    parser.add_argument("--show", action="store_true", help="name each miss, with its texts")
    parser.add_argument("--output", type=Path, help="another file to write than that of results/")
    given = parser.parse_args()
    asked, apart = pairs(), off_topic()
    if only := tuple(name for name in given.only.split(",") if name):
        asked, apart = [row for row in asked if row.id.startswith(only)], [row for row in apart if row.id.startswith(only)]
    print(f"{len(asked)} pairs ({dict(Counter(row.language for row in asked))}), {len(apart)} questions off topic; seed {SEED}", flush=True)
    judged_by = JudgedBy(given.judge, given.ask, Oracle()) if given.judge else None
    results = run([name for name in given.policies.split(",") if name], asked, apart, judged_by)
    all_figures = [figures(result) for result in results]
    if given.show:
        print("\n".join(text for result in results if (text := shown(result))))
    print_figures(all_figures)
    if judged_by is not None:
        lines = [[result.policy, why, str(n)] for result in results for why, n in causes(result).most_common()]
        print_table("why wrong answers were not flagged, and right ones were", ["", "the statement is", "answers"], lines)
    path = given.output or written_to(given)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"pairs": len(asked), "seed": SEED, "policies": all_figures}, indent=1) + "\n", "utf-8")
    problems = [problem for found in all_figures for problem in passed(found)]
    print("\n".join(f"LIMIT PASSED: {problem}" for problem in problems) or "within the limits")
    return 1 if given.check and problems else 0


if __name__ == "__main__":
    sys.exit(main())
