"""Does the relevance guard tell passages that help from those that do not, how fast, how calibrated? `make bench-relevance`

    python -m benchmarks.relevance [--seed N] [--rounds N]

Data: the held-out half of `benchmarks.relevance_data` (XQuAD in three languages, cut by article; ClapNQ, cut by title), none of which the
coefficients were made from. Every context goes through the stage itself, at the policy's default `min`, which was fixed before.

*Pairs*: a question with one passage: its own (helps), one of the same article, one of another. ClapNQ's same-topic negative is the
passage that came up for an unanswerable question. *Ten*: the own passage among nine of other articles, against ten of other articles.
*Other language*: the question in German or Spanish, the passage in English.

Baselines in the same run: cosine of the whole passage, share of the question's words, BM25 (rarity over all held-out passages of the
language, more than a request shows); each with the threshold that does best on the training half, as the guard in its second column.
Intervals: 95%, by resampling topics.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import platform
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import relevance_data as data
from proxy.exchange import Evidence
from proxy.language.words import Vocabulary, content_words, words
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.stages.relevance import Relevance, RelevanceOptions
from proxy.testing import make_exchange, make_ports

RESULTS = Path(__file__).parent / "results" / "relevance.json"
MIN = RelevanceOptions().min
GROUPS = (*data.LANGUAGES, "clapnq")
RESAMPLES = 1000
REFUSED_TARGET, PASSED_TARGET, P95_TARGET_MS = 0.10, 0.05, 100.0


@dataclass(slots=True, frozen=True)
class Context:
    """A question with passages, and whether one of them helps."""

    group: str
    kind: str
    """``own``, ``same`` or ``other`` (article), and ``ten own``, ``ten other``."""
    topic: str
    question: str
    passages: tuple[str, ...]

    @property
    def helps(self) -> bool:
        return self.kind.endswith("own")


@dataclass(slots=True)
class Scored:
    """A context with each system's score."""

    context: Context
    scores: dict[str, float]


def contexts(cases: Sequence[data.Case], seed: int) -> list[Context]:
    """Pairs and tens of every case."""
    source = random.Random(seed)
    found = []
    for case in cases:

        def add(kind: str, *passages: str, case: data.Case = case) -> None:
            found.append(Context(case.group, kind, case.topic, case.question, passages))

        others = data.distractors(cases, case, 10, source)
        for passage in case.hard:
            add("same", passage)
        add("other", case.easy)
        add("ten other", *others)
        if case.positive:
            add("own", case.positive)
            nine = others[:9]
            nine.insert(source.randrange(10), case.positive)
            add("ten own", *nine)
    return found


def other_language(cases: Sequence[data.Case]) -> list[Context]:
    """German and Spanish questions with the English passages."""
    english = {case.id: case for case in cases if case.group == "en"}
    found = []
    for case in cases:
        if case.group in ("de", "es"):
            quoted = english[case.id]
            for kind, passage in (("own", quoted.positive), ("same", quoted.hard[0]), ("other", quoted.easy)):
                found.append(Context(f"{case.group}>en", kind, case.topic, case.question, (passage,)))
    return found


# ---- systems ----


class BM25:
    """Okapi BM25 over the passages of a language; k1 1.5, b 0.75."""

    def __init__(self, passages: Sequence[str]) -> None:
        self._counts = {passage: Counter(words(passage)) for passage in set(passages)}
        self._mean = sum(c.total() for c in self._counts.values()) / len(self._counts)
        self._with = Counter(word for c in self._counts.values() for word in c)

    def score(self, question: str, passage: str) -> float:
        found, n = self._counts[passage], len(self._counts)
        length = 0.25 + 0.75 * found.total() / self._mean
        return sum(
            math.log(1 + (n - self._with[word] + 0.5) / (self._with[word] + 0.5)) * found[word] * 2.5 / (found[word] + 1.5 * length)
            for word in content_words(question)
        )


async def scored(items: Sequence[Context], embedder: BatchingEmbedder) -> list[Scored]:
    """Every context by the stage and by the baselines."""
    stage = Relevance(RelevanceOptions(), make_ports(embedder=embedder))
    bm25 = {g: BM25([p for c in items if c.group == g for p in c.passages]) for g in {c.group for c in items}}
    found = []
    for item in items:
        vectors = await embedder.embed([item.question, *item.passages])
        wanted = content_words(item.question)
        scores = {
            "guard": (probability := await guard(stage, item)),
            "guard, own best": probability,
            "cosine": float((vectors[1:] @ vectors[0]).max()),
            "words": max(Vocabulary(p).coverage(wanted) for p in item.passages),
            "bm25": max(bm25[item.group].score(item.question, p) for p in item.passages),
        }
        found.append(Scored(item, scores))
    return found


async def guard(stage: Relevance, item: Context) -> float:
    """The stage's probability."""
    exchange = make_exchange([{"role": "user", "content": item.question}])
    exchange.passages = tuple(Evidence(passage) for passage in item.passages)
    verdict = await stage.on_request(exchange)
    # A question without a word that says anything ("What is it called?") is one that the stage leaves alone: it lets it through.
    assert verdict is not None
    return 1.0 if exchange.facts.relevance is None else exchange.facts.relevance


# ---- figures ----

Scores = NDArray[np.float64]
Helps = NDArray[np.bool_]
Figure = Callable[[Scores, Helps], float]


def auroc(scores: Scores, helps: Helps) -> float:
    """Chance that a context that helps scores above one that does not; ties count half."""
    good, bad = scores[helps], np.sort(scores[~helps])
    below = np.searchsorted(bad, good, "left") + np.searchsorted(bad, good, "right")
    return float(below.mean() / (2 * len(bad)))


def accuracy(threshold: float) -> Figure:
    """Mean of the shares judged right among those that help and those that do not."""
    return lambda scores, helps: float(((scores[helps] >= threshold).mean() + (scores[~helps] < threshold).mean()) / 2)


def passed(scores: Scores, helps: Helps) -> float:
    """Share at or above `MIN`."""
    return float((scores >= MIN).mean())


def refused(scores: Scores, helps: Helps) -> float:
    """Share below `MIN`."""
    return float((scores < MIN).mean())


def calibration_error(scores: Scores, helps: Helps, bins: int = 10) -> float:
    """Expected calibration error over `bins` of equal width, helping and other contexts weighing the same (as in training)."""
    weight = np.where(helps, 0.5 / helps.sum(), 0.5 / (~helps).sum())
    bin_of = np.minimum((scores * bins).astype(int), bins - 1)
    return float(sum(abs((weight * (helps - scores))[bin_of == b].sum()) for b in range(bins)))


def estimate(rows: Sequence[Scored], system: str, figure: Figure, seed: int) -> dict[str, float]:
    """A figure with its interval: topics are drawn again with all that belongs to them."""
    scores, helps = arrays(rows, system)
    by_topic: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        by_topic.setdefault(row.context.topic, []).append(i)
    topics = [np.array(positions) for positions in by_topic.values()]
    source, found, one_sided = np.random.default_rng(seed), [], figure in (passed, refused)
    while len(found) < RESAMPLES:
        drawn = np.concatenate([topics[i] for i in source.integers(len(topics), size=len(topics))])
        if one_sided or 0 < helps[drawn].sum() < len(drawn):
            found.append(figure(scores[drawn], helps[drawn]))
    low, high = (float(v) for v in np.quantile(found, (0.025, 0.975)))
    return {"value": figure(scores, helps), "low": low, "high": high, "n": len(rows)}


def arrays(rows: Sequence[Scored], system: str) -> tuple[Scores, Helps]:
    """A system's scores, and which contexts help."""
    return np.array([row.scores[system] for row in rows]), np.array([row.context.helps for row in rows])


def best_threshold(rows: Sequence[Scored], system: str) -> float:
    """The threshold with the best accuracy on `rows`."""
    scores, helps = arrays(rows, system)
    return float(max(np.quantile(scores, np.linspace(0.01, 0.99, 99)), key=lambda t: accuracy(t)(scores, helps)))


def select(rows: Sequence[Scored], group: str, *kinds: str) -> list[Scored]:
    return [row for row in rows if row.context.group == group and row.context.kind in kinds]


# ---- tables ----


def show(value: dict[str, float], digits: int = 3) -> str:
    return f"{value['value']:.{digits}f} [{value['low']:.{digits}f}, {value['high']:.{digits}f}]"


def ranking(rows: Sequence[Scored], thresholds: dict[str, float], seed: int) -> dict[str, Any]:
    """AUROC and accuracy of every system, by group and kind of negative."""
    report: dict[str, Any] = {}
    print(f"\nAUROC of pairs, and accuracy at the frozen threshold (guard: {MIN}; baselines: best on the training half)")
    print(f"{'':8}{'negatives':12}{'n':>5}  " + "".join(f"{name:34}" for name in thresholds))
    for group in dict.fromkeys(row.context.group for row in rows):
        for kind in ("same", "other"):
            chosen = select(rows, group, "own", kind)
            line: dict[str, Any] = {"n": len(chosen)}
            for name, threshold in thresholds.items():
                line[name] = {
                    "auroc": estimate(chosen, name, auroc, seed),
                    "accuracy": estimate(chosen, name, accuracy(threshold), seed),
                    "threshold": threshold,
                }
            report[f"{group} {kind}"] = line
            cells = "".join(f"{show(line[s]['auroc'])}  {line[s]['accuracy']['value']:.3f}".ljust(34) for s in thresholds)
            print(f"{group:8}{kind:12}{len(chosen):>5}  {cells}")
    return report


def rates(rows: Sequence[Scored], seed: int) -> dict[str, Any]:
    """What `MIN` refuses and lets through, by group, and the calibration error."""
    report: dict[str, Any] = {}
    print(f"\nat min {MIN}: share of good contexts refused, of useless ones let through; calibration error (ECE, 10 bins)")
    print(f"{'':8}{'contexts':10}{'good refused':24}{'same article passed':24}{'other article passed':24}ECE")
    for group in dict.fromkeys(row.context.group for row in rows):
        for prefix in ("", "ten "):
            own, same, other = (select(rows, group, prefix + kind) for kind in ("own", "same", "other"))
            if not own:
                continue
            line = {"refused": estimate(own, "guard", refused, seed), "other_passed": estimate(other, "guard", passed, seed)}
            line["same_passed"] = estimate(same, "guard", passed, seed) if same else None
            line["calibration_error"] = estimate([*own, *same, *other], "guard", calibration_error, seed)
            report[f"{group} {prefix or 'one'}".strip()] = line
            passed_same = show(line["same_passed"]) if same else "-"
            cells = f"{show(line['refused']):24}{passed_same:24}{show(line['other_passed']):24}{show(line['calibration_error'])}"
            print(f"{group:8}{prefix.strip() or 'one':10}{cells}")
    return report


def verdicts(report: dict[str, Any]) -> None:
    """The targets, met or missed."""
    for name, line in report.items():
        if ">" in name:
            continue
        for figure, target in (("refused", REFUSED_TARGET), ("other_passed", PASSED_TARGET)):
            value = line[figure]["value"]
            print(f"{name:12} {figure:14} {value:6.3f}  target < {target:.2f}: {'met' if value < target else 'MISSED'}")


# ---- speed ----


async def speed(cases: Sequence[data.Case], rounds: int, seed: int) -> dict[str, Any]:
    """Milliseconds that the stage adds for ten passages of about 120 words, cold and warm, beside one question's embedding.

    CPU time says what it takes where other work on the machine holds the clock's time up.
    """
    source = random.Random(seed)
    pool = sorted({p for c in cases if c.group == "en" for p in (c.positive, *c.hard) if 100 <= len(p.split()) <= 140})
    questions = [c.question for c in cases if c.group == "en"]
    embedder = BatchingEmbedder(UseEncoder())
    stage = Relevance(RelevanceOptions(), make_ports(embedder=embedder))
    times: dict[str, list[float]] = {"cold": [], "warm": [], "question alone": []}
    cpu: dict[str, list[float]] = {name: [] for name in times}
    for i in range(rounds + 1):
        new = tuple(f"{i}.{j} {passage}" for j, passage in enumerate(source.sample(pool, 10)))  # texts that no cache knows
        item = Context("en", "ten", "", f"{source.choice(questions)} ({i})", new)
        for name in times:
            started, cpu_started = time.perf_counter(), time.process_time()
            if name == "question alone":
                await embedder.embed([item.question + "?"])
            else:
                await guard(stage, item)
            if i:  # the first round loads the models
                times[name].append((time.perf_counter() - started) * 1000)
                cpu[name].append((time.process_time() - cpu_started) * 1000)
    embedder.stop()
    base = float(np.median(times["question alone"]))
    report = {}
    print(f"\nadded for ten passages of 100 to 140 words, n {rounds}")
    for name, values in times.items():
        p50, p95 = (float(v) for v in np.quantile(values, (0.5, 0.95)))
        busy = float(np.median(cpu[name]))
        report[name] = {"p50_ms": p50, "p95_ms": p95, "cpu_p50_ms": busy, "ratio": p50 / base, "n": rounds}
        print(f"{name:16} p50 {p50:7.2f} ms  p95 {p95:7.2f} ms  CPU p50 {busy:7.2f} ms  {p50 / base:6.1f} times a question's embedding")
    met = report["cold"]["p95_ms"] < P95_TARGET_MS
    print(f"cold p95 {report['cold']['p95_ms']:.1f} ms  target < {P95_TARGET_MS:.0f} ms: {'met' if met else 'MISSED'}")
    return report


async def run(seed: int, rounds: int) -> dict[str, Any]:
    embedder = BatchingEmbedder(UseEncoder(), cache_mb=256)
    cases = [case for case in data.load(held_out=True) if case.group in GROUPS]
    training = [
        c for c in contexts([case for case in data.load(held_out=False) if case.group in GROUPS], seed) if not c.kind.startswith("ten")
    ]
    known = await scored(training, embedder)
    thresholds = {"guard": MIN} | {name: best_threshold(known, name) for name in ("guard, own best", "cosine", "words", "bm25")}
    rows = await scored(contexts(cases, seed), embedder)
    crossed = await scored(other_language(cases), embedder)
    embedder.stop()
    count = Counter(case.group for case in cases)
    print("held-out questions: " + ", ".join(f"{group} {count[group]}" for group in GROUPS) + f"; seed {seed}; {UseEncoder.name}")
    found = {"ranking": ranking(rows, thresholds, seed), "rates": rates([*rows, *crossed], seed)}
    found["ranking"] |= ranking(crossed, thresholds, seed)
    verdicts(found["rates"])
    return found | {"speed": await speed(cases, rounds, seed), "questions": dict(count)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    if not data.available():
        print(f"no relevance data in {data.FOLDER}: not measured")
        return
    report: dict[str, Any] = {"seed": options.seed, "min": MIN, "python": platform.python_version(), "model": UseEncoder.name}
    report |= asyncio.run(run(options.seed, options.rounds))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
