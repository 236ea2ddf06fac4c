"""The tables that `benchmarks.grounding` prints, and those of docs/quality.md, made of what it writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import grounding_metrics as metrics
from benchmarks.grounding_baselines import System
from benchmarks.grounding_metrics import Estimate

RESULTS = Path(__file__).parent / "results" / "grounding.json"
ANCHORS = (
    ("RAGTruth, question answering, example level F1", "Luna (440M)", 51.3),
    ("RAGTruth, question answering, example level F1", "GPT-4-turbo, prompted", 45.6),
    ("RAGTruth, question answering, example level F1", "LettuceDetect-base (150M)", 65.5),
    ("RAGTruth, question answering, example level F1", "LettuceDetect-large", 70.2),
    ("LLM-AggreFact, balanced accuracy", "MiniCheck-FT5 (0.8B)", 75.0),
)
"""Published by others on other data: for orientation, not to be compared row by row."""
P95_TARGET_MS = 100.0
SHOWN = ("precision", "recall", "f1", "passed", "balanced", "auroc", "precision@90", "ece")
TITLES = {"precision@90": "P@90R", "f1": "F1", "auroc": "AUROC", "ece": "ECE"}


def show_sources(groups: dict[str, Any], systems: Sequence[System]) -> dict[str, Any]:
    """Every source with all figures of the first system, then every system over all sources."""
    first = systems[0].name
    for name, group in groups.items():
        print(f"\n{name.upper()}, {first}: every source")
        print(_head("source", with_rows=True))
        for source, table in group["sources"].items():
            print(_line(source, table, first))
        print(_line("all rows", group["pooled"], first))
        print(f"\n{name.upper()}: every system, all rows ({group['pooled']['n']}), and the mean of {len(group['sources'])} sources")
        print(_head("system", with_rows=False))
        for system in systems:
            print(_line(system.name, group["pooled"], system.name, with_rows=False))
        for system in systems:
            mean = group["mean of sources"]["systems"][system.name]
            rest = "" if mean["judged"] == len(group["sources"]) else f"  of {mean['judged']} sources that it can judge"
            print(f"{system.name + ', mean':30}" + "".join(f"{mean['estimates'][f]!s:22}" for f in SHOWN) + rest)
    return groups


def show_tables(title: str, tables: dict[str, Any], systems: Sequence[System]) -> dict[str, Any]:
    """Balanced accuracy and AUROC of every system."""
    print(f"\n{title}: balanced accuracy; AUROC")
    print(f"{'':30}{'n':>6}  " + "".join(f"{system.name:48}" for system in systems))
    for name, table in tables.items():
        if table["n"]:
            cells = [_estimates(table, system.name) for system in systems]
            print(f"{name:30}{table['n']:6}  " + "".join(f"{told['balanced']!s:22}; {told['auroc']!s:22}  " for told in cells))
    return tables


def show_kinds(kinds: dict[str, dict[str, Any]], systems: Sequence[System]) -> dict[str, Any]:
    """Recall by kind of error."""
    print("\nBy kind of error: share found")
    print(f"{'':52}{'n':>5}  " + "".join(f"{system.name:24}" for system in systems))
    for kind, row in kinds.items():
        print(f"{kind:52}{row['n']:5}  " + "".join(f"{row[system.name]!s:24}" for system in systems))
    return kinds


def show_answers(sets: dict[str, Any], systems: Sequence[System]) -> dict[str, Any]:
    """By answer, by sentence, by character."""
    for name, found in sets.items():
        spread = found["tokens"]
        size = f"context of {spread['p10']} to {spread['p90']} tokens (p10, p90)"
        print(f"\nANSWERS, {name}: {found['n']}, {found['positive']} positive; {size}")
        for level in ("answers", "sentences", "spans"):
            if level in found[systems[0].name]:
                names = list(found[systems[0].name][level])
                print(f"{level:30}" + "".join(f"{TITLES.get(figure, figure):22}" for figure in names))
                for system in systems:
                    print(f"{system.name:30}" + "".join(f"{found[system.name][level][figure]!s:22}" for figure in names))
    return sets


def show_anchors() -> None:
    print("\nPublished by others on OTHER data, for orientation only; not to be compared with the tables above row by row")
    for measure, name, value in ANCHORS:
        print(f"  {measure}: {name} {value}")


def show_latency(found: dict[str, float]) -> dict[str, float]:
    times = ", ".join(f"{name} {found[key]:.1f} ms" for name, key in (("p50", "p50_ms"), ("p95", "p95_ms"), ("CPU p50", "cpu_p50_ms")))
    print(f"\nwhole path, five sentences, about 1,000 tokens of context: {times}; {found['answers']} answers")
    print(
        f"{found['claims_per_answer']:.1f} claims each, {found['ms_per_claim']:.1f} ms and {found['tokens_per_claim']:.0f} tokens a claim"
    )
    print(f"p50 is {found['ratio']:.0f} times a sentence's embedding in the same run")
    print(f"p95 target < {P95_TARGET_MS:.0f} ms: {'met' if found['p95_ms'] < P95_TARGET_MS else 'MISSED'}")
    return found


def _estimates(table: dict[str, Any], system: str) -> dict[str, Estimate]:
    return metrics.estimates(table["systems"][system]["replicates"])


def _head(first: str, *, with_rows: bool) -> str:
    rows = f"{'n':>6} {'not supported':>14} {'contexts':>9}  " if with_rows else ""
    return f"{first:30}{rows}" + "".join(f"{TITLES.get(figure, figure):22}" for figure in SHOWN)


def _line(name: str, table: dict[str, Any], system: str, *, with_rows: bool = True) -> str:
    told = _estimates(table, system)
    rows = f"{table['n']:6} {table['positive']:14} {table['contexts']:9}  " if with_rows else ""
    unjudged = table["n"] - table["systems"][system]["judged"]
    return f"{name:30}{rows}" + "".join(f"{told[f]!s:22}" for f in SHOWN) + (f"  {unjudged} not judged" if unjudged else "")


def plain(value: Any) -> Any:
    """For JSON: estimates as lists of value, low and high (None where not defined), resamples as estimates."""
    if isinstance(value, Estimate):
        return [None if np.isnan(v) else round(v, 4) for v in (value.value, value.low, value.high)]
    if isinstance(value, dict):
        return {key: plain(metrics.estimates(part) if key == "replicates" else part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


# ---- docs/quality.md's ----


def readme_table(results: Path = RESULTS) -> str | None:
    """Every system over all rows, trained on and held out, and over answers; None where nothing was measured."""
    if not results.exists():
        return None
    report = json.loads(results.read_text(encoding="utf-8"))
    known, held_out = (report["groups"][name] for name in ("trained on", "held out"))
    answers = report["answers"]["composed"]
    lines = [
        f"| | balanced accuracy, dev ({len(known['sources'])} sources, mean) | held out ({len(held_out['sources'])} sources, mean) "
        "| AUROC, dev | held out | answers: F1 | balanced | spans: F1 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for system in report["systems"]:
        means = [group["mean of sources"]["systems"][system]["estimates"] for group in (known, held_out)]
        cells = [*(mean["balanced"] for mean in means), *(mean["auroc"] for mean in means)]
        cells += [answers[system]["answers"]["f1"], answers[system]["answers"]["balanced"], answers[system]["spans"]["f1"]]
        lines.append("| " + " | ".join([system, *map(_cell, cells)]) + " |")
    return "\n".join(lines)


def readme_languages(results: Path = RESULTS) -> str | None:
    """Balanced accuracy by language."""
    if not results.exists():
        return None
    report = json.loads(results.read_text(encoding="utf-8"))
    names = list(report["systems"])
    lines = ["| | n | " + " | ".join(names) + " |", "| --- " * (len(names) + 2) + "|"]
    for source, table in report["languages"].items():
        cells = [_cell(table["systems"][name]["replicates"]["balanced"]) for name in names]
        lines.append(f"| {source} | {table['n']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(told: list[float | None]) -> str:
    value, low, high = told
    return "-" if value is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"
