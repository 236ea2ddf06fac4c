"""Which statements contradict earlier ones? `make bench-clash`

    python -m benchmarks.clash [--rows N] [--quick]

*prefeval*: a stated preference with an answer that goes against it, or respects it; by topic. *decode*: two turns of one chat speaker.
*prosecco*, *daccord*: two statements of a debate, two sentences of fact-checks, dev splits. *citod history*, *citod kb*: an assistant's
turn against the turns before it, and against the records of a tool. None of these rows made the threshold; prosecco and daccord have
training splits that did. *statements*: pairs that this project wrote (`benchmarks/data/clash_statements.tsv`), through the stage
from a user's sentences: values, changes of mind, suppositions, other people; the rules were made beside them, so that they show what is
covered, and not how it goes with what others write.

Recall and false positives at the shipped threshold (`clashes.deciding.CONTRADICTED`). Baselines in the same run: cosine of the two (alike,
so perhaps against each other), shared words where one of the two is negated. AUROC tells them apart without a threshold. Intervals: 95%,
by resampling preferences, dialogues or pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import clash_data as data
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes import deciding
from proxy.grounding.clashes.kinds import Pair, StatementClash, StatementKind
from proxy.grounding.clashes.reading import as_statement
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms
from proxy.language.text import is_negated
from proxy.ports.judge import Judge
from proxy.stages.clash import ClashOptions
from proxy.stages.clash.context import Context, PlacedStatement
from proxy.stages.clash.finding import Finder
from proxy.stages.clash.ledger import Ledger
from proxy.stages.clash.resolution import resolve_clash
from proxy.testing import ScriptedJudge, make_exchange, make_ports

RESULTS = Path(__file__).parent / "results" / "clash.json"
STATEMENTS = Path(__file__).parent / "data" / "clash_statements.tsv"
SEED = 7
RESAMPLES = 300
PATIENCE_S = 60.0
QUICK = 40
RECALL_TARGET, FALSE_POSITIVE_TARGET, AUTO_TARGET = 0.95, 0.05, 0.95
SYSTEMS = ("groundwire", "cosine", "words and negation")
RECORDS = 3
"""Of a tool's answer, those that share most words with the statement."""
Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]


@dataclass(slots=True)
class Case:
    """A statement with those that it may contradict, and whether it does."""

    group: str
    unit: str
    """What is drawn again for an interval."""
    pairs: list[Pair]
    clashes: bool
    scores: dict[str, float] = field(default_factory=dict)
    found: bool = False


def pair_of(
    older: str, newer: str, language: str = "en", kind: StatementKind | None = "fact", second: StatementKind | None = "fact"
) -> Pair:
    """Two texts as statements of these kinds; None: of the kind that they are read as."""
    return Pair(as_statement(older, kind=kind, tongue=language), as_statement(newer, kind=second, piece=1, tongue=language))


# ---- data ----


def prefeval() -> list[Case]:
    return [
        Case(f"prefeval {row['topic']}", row["preference"], [pair_of(row["preference"], row["option"], kind="preference")], row["violates"])
        for row in data.rows("clash/prefeval")
    ]


def pairs(name: str, kind: StatementKind | None = "fact", **only: str) -> list[Case]:
    rows = [row for row in data.rows(f"clash/{name}") if all(row[key] == value for key, value in only.items())]
    return [Case(name, row["id"], [pair_of(row["earlier"], row["later"], row["lang"], kind, kind)], row["contradicts"]) for row in rows]


def citod() -> list[Case]:
    """The statement against every turn before it, and against the records nearest to it."""
    found = []
    for row in data.rows("clash/citod"):
        statement, turns = plain(row["statement"]), [plain(turn["content"]) for turn in row["history"]]
        truth = row["contradicts_history"] or row["contradicts_query"]
        found.append(Case("citod history", row["id"], [pair_of(turn, statement) for turn in turns], truth))
        if row["kb"]:
            said = [", ".join(f"{key} {value}" for key, value in record.items() if value != "-") for record in row["kb"]]
            nearest = sorted(map(plain, said), key=lambda text: -shared_terms(statement, text))[:RECORDS]
            found.append(Case("citod kb", row["id"], [pair_of(text, statement) for text in nearest], row["contradicts_kb"]))
    return found


def plain(text: str) -> str:
    """Words without the underscores of the data's entities."""
    return text.replace("_", " ")


def cases(rows: int) -> list[Case]:
    """All of them; at most `rows` of each group, drawn by preference or dialogue."""
    every = [
        *prefeval(),
        *pairs("decode_pairs", None, set="balanced"),
        *pairs("prosecco", split="dev"),
        *pairs("daccord", split="dev"),
        *citod(),
    ]
    if not rows:
        return every
    chosen: list[Case] = []
    for group in dict.fromkeys(case.group for case in every):
        units = sorted({case.unit for case in every if case.group == group})
        random.Random(SEED).shuffle(units)
        mine = {unit: [case for case in every if case.group == group and case.unit == unit] for unit in units}
        taken: list[Case] = []
        for unit in units:
            taken += mine[unit] if len(taken) < rows else []
        chosen += taken
    return chosen


# ---- scores ----


async def score(items: Sequence[Case], models: data.Models) -> None:
    """Set every case's scores: the highest of its pairs."""
    pairs = [pair for case in items for pair in case.pairs]
    answers = await models.ask(pairs)
    texts = list(dict.fromkeys(one.text for pair in pairs for one in (pair.older, pair.newer)))
    row, vectors = {text: i for i, text in enumerate(texts)}, await models.embedder.embed(texts)
    for case in items:
        judged = []
        for pair in case.pairs:
            cosine = float(vectors[row[pair.older.text]] @ vectors[row[pair.newer.text]])
            judged.append(scores_of(pair, answers, cosine))
        case.found = any(clashes for clashes, _ in judged)
        case.scores = {system: max((scores[system] for _, scores in judged), default=-9.0) for system in SYSTEMS}


def scores_of(pair: Pair, answers: dict[ClaimPair, Support], cosine: float) -> tuple[bool, dict[str, float]]:
    """Whether it is found to clash, and what each system makes of it."""
    clash = deciding.by_rule(pair) or deciding.judged(pair, answers)
    clashes = clash is not None and clash.type != "DUPLICATE_FACTS"
    negated = [is_negated(one.text, one.language) for one in (pair.older, pair.newer)]
    return clashes, {
        "groundwire": clash.score if clash is not None and clashes else deciding.contradiction(pair, answers),
        "cosine": cosine,
        "words and negation": shared_terms(pair.older.text, pair.newer.text) * (negated[0] != negated[1]),
    }


def shared_terms(what: str, where: str) -> float:
    """Share of the first text's terms that stand in the second."""
    wanted = frozenset(term for term in terms(what) if len(term) > 2) - FUNCTION_WORDS
    return len(wanted & frozenset(terms(where))) / len(wanted) if wanted else 0.0


# ---- figures ----


def auroc(scores: Floats, truth: Truth) -> float:
    """Chance that a clash scores above what is none; ties count half."""
    good, bad = scores[truth], np.sort(scores[~truth])
    if not len(good) or not len(bad):
        return float("nan")
    return float((np.searchsorted(bad, good, "left") + np.searchsorted(bad, good, "right")).mean() / (2 * len(bad)))


def recall_at(scores: Floats, truth: Truth) -> float:
    """Recall at the threshold that lets 5% of the others through, chosen on these rows: the best that the score could do."""
    return (
        float((scores[truth] > np.quantile(scores[~truth], 1 - FALSE_POSITIVE_TARGET)).mean())
        if truth.any() and (~truth).any()
        else float("nan")
    )


def estimate(items: Sequence[Case], figure: Callable[[Floats, Truth], float], values: Sequence[float]) -> dict[str, float]:
    """A figure with its interval: units are drawn again with all that belongs to them."""
    scores, truth = np.array(values, float), np.array([case.clashes for case in items])
    units: dict[str, list[int]] = {}
    for i, case in enumerate(items):
        units.setdefault(case.unit, []).append(i)
    groups = [np.array(of) for of in units.values()]
    source = np.random.default_rng(SEED)
    drawn = []
    for _ in range(RESAMPLES):
        at = np.concatenate([groups[i] for i in source.integers(len(groups), size=len(groups))])
        drawn.append(figure(scores[at], truth[at]))
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    return {"value": figure(scores, truth), "low": float(low), "high": float(high), "n": len(items)}


def hit_rate(found: Floats, truth: Truth) -> float:
    """Share of the clashes that were found."""
    return float(found[truth].mean()) if truth.any() else float("nan")


def alarm_rate(found: Floats, truth: Truth) -> float:
    """Share of the others that were found, too."""
    return float(found[~truth].mean()) if (~truth).any() else float("nan")


def shown(value: dict[str, float]) -> str:
    """``0.512 [0.49, 0.53]``"""
    return f"{value['value']:.3f} [{value['low']:.2f}, {value['high']:.2f}]"


def table(items: Sequence[Case]) -> dict[str, Any]:
    """Recall and false positives by group, AUROC of each system."""
    groups = list(dict.fromkeys(case.group for case in items))
    names = ["prefeval", *groups] if any(group.startswith("prefeval ") for group in groups) else groups
    print(f"\n{'':36}{'n':>5} {'recall':20} {'false positives':20} AUROC: " + ", ".join(SYSTEMS) + "; recall at 5% (own best) of the first")
    report: dict[str, Any] = {}
    for name in names:
        mine = [case for case in items if case.group == name or (name == "prefeval" and case.group.startswith("prefeval "))]
        found = [float(case.found) for case in mine]
        line: dict[str, Any] = {"recall": estimate(mine, hit_rate, found), "false_positives": estimate(mine, alarm_rate, found)}
        for system in SYSTEMS:
            values = [case.scores[system] for case in mine]
            line[system] = {"auroc": estimate(mine, auroc, values), "recall_at_5": estimate(mine, recall_at, values)}
        report[name] = line
        areas = "  ".join(f"{line[s]['auroc']['value']:.3f}" for s in SYSTEMS)
        best = f"{line['groundwire']['recall_at_5']['value']:.3f}"
        print(f"{name:36}{len(mine):>5} {shown(line['recall']):20} {shown(line['false_positives']):20} {areas}   {best}")
    return report


def verdicts(report: dict[str, Any]) -> None:
    """The targets, met or missed."""
    for name, line in report.items():
        recall, alarms = line["recall"]["value"], line["false_positives"]["value"]
        met = "met" if recall > RECALL_TARGET and alarms < FALSE_POSITIVE_TARGET else "MISSED"
        print(f"{name:36} recall {recall:.3f} (> {RECALL_TARGET})  false positives {alarms:.3f} (< {FALSE_POSITIVE_TARGET}): {met}")


# ---- whole path ----


@dataclass(slots=True)
class Written:
    """A line of the file: what a user said, and what should be found."""

    topic: str
    language: str
    older: str
    newer: str
    expected: str
    """``clash``, ``update`` or ``none``."""
    found: list[StatementClash]


def through(models: data.Models | None, judge: Judge | None = None) -> tuple[Context, Finder]:
    """What the stage reads and compares with, asking the models, and a policy's judge over them, or by rules alone."""
    ports = make_ports(**({"verifiers": models.verifiers, "embedder": models.embedder} if models is not None else {}))
    options = ClashOptions(semantic=models is not None)
    return Context(options.between), Finder(options, ports.embedder, ports.verifiers.get(), judge)


async def found_in(
    stage: tuple[Context, Finder], said: list[dict[str, Any]], run: str
) -> tuple[Sequence[PlacedStatement], list[StatementClash]]:
    """The statements of a conversation, and their clashes but for what is only said twice."""
    context, finder = stage
    exchange = make_exchange(said)
    exchange.run_id = run
    spoken = (await context.stated(exchange)).spoken
    until = asyncio.get_running_loop().time() + PATIENCE_S
    clashes = (await finder.find(exchange, Ledger(spoken, ()), spoken, until)).clashes
    return spoken, [clash for clash in clashes if clash.type != "DUPLICATE_FACTS"]


async def written(models: data.Models | None, path: Path = STATEMENTS, *, told: bool = False) -> list[Written]:
    """Every pair of sentences as two turns of a conversation, through what the stage runs, with the models or by rules alone.

    `told`: with a judge that knows the truth, and is asked about every pair that no rule decides.
    """
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    stage = through(models)
    found: list[Written] = []
    for number, (topic, language, expected, older, newer) in enumerate(lines):
        if told:
            truth = "yes" if expected == "none" else "no"
            stage = through(models, ScriptedJudge(lambda _, truth=truth: truth, "all"))
        said = [{"role": "user", "content": older}, {"role": "assistant", "content": "Noted."}, {"role": "user", "content": newer}]
        _, clashes = await found_in(stage, said, str(number))
        found.append(Written(topic, language, older, newer, expected, clashes))
    return found


def of_written(found: Sequence[Written], name: str) -> dict[str, Any]:
    """Recall, false positives, and changes of mind taken for what they are."""
    report: dict[str, Any] = {}
    print(f"\nstatements, through the stage, {name}")
    for topic in ("all", *dict.fromkeys(line.topic for line in found)):
        mine = [line for line in found if topic in ("all", line.topic)]
        hits = [bool(line.found) for line in mine if line.expected != "none"]
        alarms = [bool(line.found) for line in mine if line.expected == "none"]
        updates = [all(clash.update for clash in line.found) for line in mine if line.expected == "update" and line.found]
        wrong = [any(clash.update for clash in line.found) for line in mine if line.expected == "clash" and line.found]
        line = {
            "recall": share(hits),
            "false_positives": share(alarms),
            "updates_known": share(updates),
            "clash_taken_for_update": share(wrong),
            "n": len(mine),
        }
        report[topic] = line
        print(
            f"{topic:18} n={len(mine):4} " + "  ".join(f"{key} {value}" for key, value in line.items() if key != "n" and value is not None)
        )
    for line in found:
        if bool(line.found) != (line.expected != "none"):
            print(f"  {'missed' if line.expected != 'none' else 'alarm '} {line.topic:12} {line.language} {line.older!r} | {line.newer!r}")
    return report


def share(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def resolutions(found: Sequence[Written]) -> dict[str, Any]:
    """Of the clashes that were found, the share that each strategy resolves without asking."""
    clashes = [clash for line in found for clash in line.found]
    report: dict[str, Any] = {"n": len(clashes)}
    for strategy in ("prefer_recent", "merge", "ask_user"):
        done = [resolve_clash(clash, strategy) for clash in clashes]
        report[strategy] = share([one.resolved for one in done])
    print(f"\nresolution given detection, n {len(clashes)}: {report} (target for prefer_recent > {AUTO_TARGET})")
    return report


# ---- cost ----


async def cost(items: Sequence[Case], n: int) -> dict[str, float]:
    """Milliseconds to judge one pair, alone, with cold caches."""
    models = data.Models()
    chosen = [case.pairs[0] for case in random.Random(SEED).sample(list(items), min(n + 1, len(items))) if case.pairs]
    wall, cpu = [], []
    for i, pair in enumerate(chosen):
        started, busy = time.perf_counter(), time.process_time()
        deciding.judged(pair, await models.ask([pair]))
        if i:  # the first loads the models
            wall.append((time.perf_counter() - started) * 1000)
            cpu.append((time.process_time() - busy) * 1000)
    models.stop()
    report = {
        "p50_ms": float(np.median(wall)),
        "p95_ms": float(np.quantile(wall, 0.95)),
        "cpu_p50_ms": float(np.median(cpu)),
        "n": len(wall),
    }
    print("\none pair: " + "  ".join(f"{key} {value:.1f}" for key, value in report.items()))
    return report


async def run(rows: int, rounds: int) -> dict[str, Any]:
    """Everything."""
    models = data.Models()
    items = cases(rows)
    await score(items, models)
    report: dict[str, Any] = {"groups": table(items)}
    verdicts(report["groups"])
    if STATEMENTS.exists():
        by_rules, by_all = await written(None), await written(models)
        report["statements_by_rules"] = of_written(by_rules, "rules alone")
        report["statements"] = of_written(by_all, "with the models")
        report["resolution"] = resolutions(by_all)
    report["verifier"] = models.verifier.name
    models.stop()
    return report | {"cost": await cost(items, rounds)}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=0, help="at most so many of each group; 0 for all")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} rows of each group, written nowhere")
    options = parser.parse_args()
    if not data.available():
        print(f"no clash data in {data.FOLDER}: not measured")
        return
    report: dict[str, Any] = {"seed": SEED, "python": platform.python_version(), "rows": options.rows}
    report["threshold"] = deciding.CONTRADICTED
    report |= asyncio.run(run(QUICK if options.quick else options.rows, 40 if options.quick else 200))
    if not options.quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
