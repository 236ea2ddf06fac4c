"""Does the verifier know what a context supports? `make bench-grounding`

    python -m benchmarks.grounding [--rows N] [--answers N] [--seed N] [--system NAME]... [--model FOLDER]

*Pairs*: one claim with its context, from ``../shared/data/grounding``: the development split of the sources that were trained on, and
all rows of those that were not (*held out*). The product finds the evidence in the context itself; baselines are fitted on the training
split (`benchmarks.grounding_baselines`). *Answers*: several sentences over 300 to 3,000 tokens, made of those rows by a seeded rule
(`benchmarks.grounding_answers`), and whole answers as their sources have them, through claims, evidence, verdicts and aggregation.

The positive class is "not supported". *passed* is the share of supported claims that are called so, *balanced* its mean with recall,
*P@90R* the precision of the best threshold with a recall of 0.90, *ECE* the calibration error of the probability of support. Intervals
are 95%, by bootstrap over contexts. An answer is positive when any of its sentences is; spans are compared by characters.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import grounding_answers as answers
from benchmarks import grounding_baselines as baselines
from benchmarks import grounding_data as data
from benchmarks import grounding_metrics as metrics
from benchmarks import grounding_tables as tables
from benchmarks.grounding_baselines import AlwaysSupported, Fitted, Floats, System
from benchmarks.grounding_data import HELD_OUT, Pair
from benchmarks.grounding_system import Product, why_not
from benchmarks.grounding_tables import SHOWN
from proxy.grounding.claims.claims import claims_of
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.tokens.encodings import Encodings
from proxy.offloop import available_cores

RESULTS = Path(__file__).parent / "results"
ROWS, ANSWERS, TRAINING_ROWS, SEED = 120, 200, 60, 1
"""Of each source's development split; answers made; of each source's training split for fitting baselines."""
ROUNDS = 60
LANGUAGE_SOURCES = (
    ("pawsx_en", "en"),
    ("pawsx_de", "de"),
    ("rte3_german", "de"),
    ("forum_te_german", "de"),
    ("mlqa_de", "de"),
    ("pawsx_es", "es"),
    ("mlqa_es", "es"),
    ("pawsx_fr", "fr"),
    ("rte3_french", "fr"),
)
_encodings = Encodings()


def tokens(text: str) -> int:
    """By o200k_base."""
    return _encodings.count(text, "o200k_base").tokens


# ---- figures of pairs ----


def replicates(system: System, scores: Floats, pairs: Sequence[Pair], seed: int, name: str) -> dict[str, Floats]:
    """Every figure of one system on some pairs, with its resamples; pairs that it could not judge are left out."""
    judged = np.flatnonzero(np.isfinite(scores[:, 0]))
    if not len(judged):
        return {figure: np.full(metrics.RESAMPLES + 1, np.nan) for figure in SHOWN}
    supported = scores[judged, 0]
    weights = metrics.row_weights([pairs[i].group for i in judged], metrics.seed_of(seed, name))
    return metrics.figures(weights, supported, np.array([pairs[i].positive for i in judged]), supported < system.threshold)


class Measured:
    """Pairs with the scores of every system."""

    def __init__(self, pairs: Sequence[Pair], systems: Sequence[System], seed: int) -> None:
        self.pairs, self.systems, self.seed = pairs, systems, seed
        self.scores: dict[str, Floats] = {}
        self.seconds: dict[str, float] = {}
        for system in systems:
            started = time.perf_counter()
            self.scores[system.name] = system.score(pairs)
            self.seconds[system.name] = time.perf_counter() - started

    def table(self, name: str, wanted: Callable[[Pair], bool]) -> dict[str, Any]:
        """Every system's figures on the pairs that are `wanted`."""
        at = [i for i, pair in enumerate(self.pairs) if wanted(pair)]
        some = [self.pairs[i] for i in at]
        found: dict[str, Any] = {"n": len(at), "positive": sum(p.positive for p in some), "contexts": len({p.group for p in some})}
        found["systems"] = {
            system.name: {
                "judged": int(np.isfinite(self.scores[system.name][at, 0]).sum()),
                "replicates": replicates(system, self.scores[system.name][at], some, self.seed, name),
            }
            for system in self.systems
        }
        return found


def by_source(measured: Measured) -> dict[str, Any]:
    """Each source, and over all of them that were trained on or held out: rows pooled, and the mean of sources."""
    groups: dict[str, Any] = {}
    for name, held_out in (("trained on", False), ("held out", True)):
        own = sorted({pair.source for pair in measured.pairs if pair.held_out == held_out})
        if not own:
            continue
        tables = {source: measured.table(source, lambda pair, source=source: pair.source == source) for source in own}  # type: ignore[misc]
        pooled = measured.table(name, lambda pair, held_out=held_out: pair.held_out == held_out)  # type: ignore[misc]
        groups[name] = {"sources": tables, "pooled": pooled, "mean of sources": mean_of(tables, measured.systems)}
    return groups


def mean_of(tables: dict[str, Any], systems: Sequence[System]) -> dict[str, Any]:
    found: dict[str, Any] = {"n": len(tables), "systems": {}}
    for system in systems:
        each = [table["systems"][system.name]["replicates"] for table in tables.values()]
        judged = sum(table["systems"][system.name]["judged"] > 0 for table in tables.values())
        found["systems"][system.name] = {"judged": judged, "estimates": {f: metrics.macro([one[f] for one in each]) for f in SHOWN}}
    return found


def by_kind(measured: Measured) -> dict[str, dict[str, Any]]:
    """Share of errors found, by kind, where ten or more were seen."""
    at: defaultdict[str, list[int]] = defaultdict(list)
    for i, pair in enumerate(measured.pairs):
        for kind in pair.kinds:
            at[f"{pair.source}: {kind}"].append(i)
    found: dict[str, dict[str, Any]] = {}
    for kind, rows in sorted(at.items()):
        if len(rows) >= 10:
            found[kind] = {"n": len(rows)} | {system.name: share_found(measured, system, rows, kind) for system in measured.systems}
    return found


def share_found(measured: Measured, system: System, rows: Sequence[int], kind: str) -> metrics.Estimate:
    """Of errors of one kind, those that the system could judge."""
    judged = [i for i in rows if np.isfinite(measured.scores[system.name][i, 0])]
    if not judged:
        return metrics.macro([])
    weights = metrics.row_weights([measured.pairs[i].group for i in judged], metrics.seed_of(measured.seed, kind))
    called = measured.scores[system.name][judged, 0] < system.threshold
    return metrics.estimate(metrics.detection(weights, np.ones(len(judged), np.bool_), called)["recall"])


# ---- answers ----


def judged_answers(system: System, found: Sequence[answers.Answer]) -> tuple[list[list[tuple[int, int, float]]], int]:
    """Start, end and probability of support of every checkable claim of each answer; and how many could not be judged."""
    claims = [[claim for claim in claims_of(answer.text) if claim.checkable] for answer in found]
    pairs = [Pair(claim.text, answer.context, answer.language) for answer, own in zip(found, claims, strict=True) for claim in own]
    scores = iter(system.score(pairs)[:, 0].tolist() if pairs else [])
    said = [[(claim.start, claim.end, next(scores)) for claim in own] for own in claims]
    errors = sum(p != p for own in said for _, _, p in own)
    return [[one for one in own if one[2] == one[2]] for own in said], errors


def of_answers(system: System, found: Sequence[answers.Answer], seed: int, name: str) -> dict[str, Any]:
    """Figures by answer, by sentence and by character."""
    said, errors = judged_answers(system, found)
    weights = metrics.row_weights([answer.group for answer in found], metrics.seed_of(seed, name))
    lowest = np.array([min((p for _, _, p in own), default=1.0) for own in said])
    positive = np.array([answer.positive for answer in found])
    report: dict[str, Any] = {"claims": sum(map(len, said)), "errors": errors}
    report["answers"] = metrics.estimates(metrics.figures(weights, lowest, positive, lowest < system.threshold))
    if any(len(answer.parts) > 1 for answer in found):
        report["sentences"] = metrics.estimates(of_sentences(system, found, said, weights))
        spans = [[(a, b) for a, b, p in own if p < system.threshold] for own in said]
        counts = [metrics.characters(own, answer.gold, len(answer.text)) for answer, own in zip(found, spans, strict=True)]
        report["spans"] = metrics.estimates(metrics.span_figures(weights, counts))
    return report


def of_sentences(
    system: System, found: Sequence[answers.Answer], said: Sequence[list[tuple[int, int, float]]], weights: Floats
) -> dict[str, Floats]:
    """A sentence has the lowest probability of the claims in it; one without a checkable claim passes."""
    lowest, positive, owner = [], [], []
    for i, (answer, own) in enumerate(zip(found, said, strict=True)):
        for part in answer.parts:
            lowest.append(min((p for a, b, p in own if part.start <= (a + b) / 2 < part.end), default=1.0))
            positive.append(part.positive)
            owner.append(i)
    called = np.array(lowest) < system.threshold
    return metrics.figures(weights[:, owner], np.array(lowest), np.array(positive), called)


# ---- cost ----


def latency(product: Product, seed: int) -> dict[str, float]:
    """Milliseconds of the whole path (claims, evidence, verdicts) for new answers of five sentences over about 1,000 tokens.

    Beside it the embedding of one sentence, as a measure of how fast and how busy the machine is.
    """
    made = [a for a in answers.composed(ROUNDS * 12, seed + 1, tokens) if len(a.parts) >= 5 and tokens(a.context) > 900][: ROUNDS + 1]
    encoder = UseEncoder()
    encoder.load()
    taken, busy, base, seen, read = [], [], [], 0, 0
    for answer in made:
        context = answer.context[: round(len(answer.context) * 1000 / tokens(answer.context))]
        started, cpu = time.perf_counter(), time.process_time()
        claims = [claim for claim in claims_of(answer.text[: answer.parts[4].end]) if claim.checkable]
        product.judged(claims, context)
        taken.append((time.perf_counter() - started) * 1000)
        busy.append((time.process_time() - cpu) * 1000)
        started = time.perf_counter()
        encoder.encode([claims[0].text])
        base.append((time.perf_counter() - started) * 1000)
        seen += len(claims)
        read += sum(tokens(claim.text) + tokens(data.evidence(claim.text, context)) for claim in claims)
    p50, p95 = (float(v) for v in np.quantile(taken[1:], (0.5, 0.95)))  # the first one loads the model
    claims_each = seen / len(taken)
    return {
        "p50_ms": p50,
        "p95_ms": p95,
        "cpu_p50_ms": float(np.median(busy[1:])),
        "ratio": p50 / float(np.median(base)),
        "answers": len(taken) - 1,
        "claims_per_answer": claims_each,
        "ms_per_claim": float(np.mean(taken[1:])) / claims_each,
        "tokens_per_claim": read / seen,
    }


# ---- running ----


def systems(wanted: Sequence[str], folder: Path | None, seed: int) -> list[System]:
    """Those that can be had, the product first; a line for each that cannot."""
    found: list[System] = []
    if wanted == [] or "groundwire" in wanted:
        if reason := why_not(folder):
            print(f"groundwire is left out: {reason}")
        else:
            found.append(Product(folder))
    if wanted == [] or AlwaysSupported.name in wanted:
        found.append(AlwaysSupported())
    training = [pair for source in data.sources() if source not in HELD_OUT for pair in data.sample(source, "train", TRAINING_ROWS, seed)]
    for name, signals in baselines.SIGNALS.items():
        if wanted and name not in wanted:
            continue
        if reason := baselines.why_not(name):
            print(f"{name} is left out: {reason}")
        else:
            found.append(Fitted(name, signals, training))
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, printed on the way."""
    seed, wanted = options.seed, options.system
    print(f"data {data.FOLDER} ({data.revision()}), seed {seed}, {available_cores()} cores, Python {platform.python_version()}")
    named = systems(wanted, options.model, seed)
    pairs = [
        pair
        for source in data.sources()
        for pair in data.sample(source, *(("all", options.held_out_rows) if source in HELD_OUT else ("dev", options.rows)), seed)
    ]
    measured = Measured(pairs, named, seed)
    report: dict[str, Any] = {"seed": seed, "data": data.revision(), "rows": len(pairs), "cores": available_cores()}
    report["systems"] = {s.name: {"threshold": s.threshold, "seconds": measured.seconds[s.name]} for s in named}
    report["groups"] = tables.show_sources(by_source(measured), named)
    languages = {f"{source} ({language})": (source, language) for source, language in LANGUAGE_SOURCES}
    report["languages"] = tables.show_tables(
        "By language", {name: measured.table(name, lambda p, s=s: p.source == s) for name, (s, _) in languages.items()}, named
    )
    length = {pair.context: data.length_class(tokens(pair.context)) for pair in pairs}
    classes = dict.fromkeys(data.length_class(n) for n in (0, data.LENGTHS[0], data.LENGTHS[1]))
    report["lengths"] = tables.show_tables(
        "By tokens of context",
        {
            f"{name}, {one}": measured.table(name + one, lambda p, o=one, h=held_out: length[p.context] == o and p.held_out == h)
            for name, held_out in (("trained on", False), ("held out", True))
            for one in classes
        },
        named,
    )
    report["kinds"] = tables.show_kinds(by_kind(measured), named)
    made = answers.composed(options.answers, seed, tokens)
    sets = {"composed": made} | {source: answers.whole(data.sample(source, *_split(source, options))) for source in data.WHOLE_ANSWERS}
    report["answers"] = tables.show_answers(
        {
            name: {"n": len(own), "positive": sum(a.positive for a in own), "tokens": _spread([tokens(a.context) for a in own])}
            | {s.name: of_answers(s, own, seed, name) for s in named}
            for name, own in sets.items()
        },
        named,
    )
    tables.show_anchors()
    if isinstance(named[0], Product):
        report["latency"] = tables.show_latency(latency(named[0], seed))
    return report


def _split(source: str, options: argparse.Namespace) -> tuple[str, int | None, int]:
    held_out = source in HELD_OUT
    return ("all" if held_out else "dev"), (options.held_out_rows if held_out else options.rows), options.seed


def _spread(values: Sequence[int]) -> dict[str, int]:
    return {name: int(np.quantile(values, q)) for name, q in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9))}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="of each source's development split")
    parser.add_argument("--held-out-rows", type=int, help="of each held-out source; all by default")
    parser.add_argument("--answers", type=int, default=ANSWERS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--system", action="append", default=[], help="groundwire, always supported, " + ", ".join(baselines.SIGNALS))
    parser.add_argument("--model", type=Path, help="folder of a candidate instead of the built-in verifier")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if not data.available():
        print(f"no grounding data in {data.FOLDER}: not measured")
        return
    _encodings.load("o200k_base")
    report = measure(options)
    usual = (options.rows, options.held_out_rows, options.answers, options.seed, options.system, options.model)
    name = "grounding.json" if usual == (ROWS, None, ANSWERS, SEED, [], None) else "grounding-part.json"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).write_text(json.dumps(tables.plain(report), indent=1) + "\n", "utf-8")
    print(f"written to {RESULTS / name}")


if __name__ == "__main__":
    main()
