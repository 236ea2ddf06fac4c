"""The tables of clashes, poisoning, validation and the knowledge base in docs/quality.md and docs/speed.md, made of results.

A table is None where its benchmark was not run here, or only as a quick look: the page then keeps the one that it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
TOPICS = "prefeval "
"""Begins the names of those groups of `benchmarks.clash` that are topics of one data set."""
FOUND, ALARMS, P95_MS = 0.95, 0.05, 100.0
"""The goals: more found than this, fewer false alarms, a piece validated in less."""
STATEMENTS = 150
"""Of each kind, with fewer of which `benchmarks.poisoning` was only a quick look."""
Report = Mapping[str, Any]


def clash(results: Path = RESULTS) -> str | None:
    """Recall and false positives by data set, beside the AUROC of every system."""
    report = _clash(results)
    if report is None:
        return None
    groups: Mapping[str, Any] = {name: line for name, line in report["groups"].items() if not name.startswith(TOPICS)}
    systems = [name for name in next(iter(groups.values())) if name not in ("recall", "false_positives")]
    rows = [
        [name, str(line["recall"]["n"]), *_clash_cells(line), *(_two(line[system]["auroc"]) for system in systems)]
        for name, line in groups.items()
    ]
    for name, key in (
        ("sentences written for this, through the stage with `semantic: true`", "statements"),
        ("… by rules alone, as it is set", "statements_by_rules"),
    ):
        if key in report:
            line = report[key]["all"]
            goals = _goals(line["recall"], line["false_positives"])
            rows.append([name, str(line["n"]), _share(line["recall"]), _share(line["false_positives"]), goals, *("" for _ in systems)])
    return _table(["", "n", "found", "false positives", "goals met", *(f"AUROC: {system}" for system in systems)], rows)


def clash_topics(results: Path = RESULTS) -> str | None:
    """The same by topic of the preferences."""
    report = _clash(results)
    if report is None:
        return None
    rows = [
        [name.removeprefix(TOPICS), str(line["recall"]["n"]), *_clash_cells(line)]
        for name, line in report["groups"].items()
        if name.startswith(TOPICS)
    ]
    return _table(["topic", "n", "found", "false positives", "goals met"], rows)


def resolution(results: Path = RESULTS) -> str | None:
    """Share of the clashes found that each strategy resolves without a person."""
    report = _clash(results)
    if report is None or "resolution" not in report:
        return None
    found = report["resolution"]
    names = [name for name in found if name != "n"]
    return _table(["clashes found", *(f"resolved by {name}" for name in names)], [[str(found["n"]), *(_share(found[n]) for n in names)]])


def clash_actions(results: Path = RESULTS) -> str | None:
    """How often the stage was right when it did something, by action."""
    report = _read(results / "clash_actions.json")
    if report is None:
        return None
    rows = [
        [line["action"], str(line["n"]), f"{line['precision']:.1%} [{line['low']:.1%}, {line['high']:.1%}]", f"{line['recall']:.1%}"]
        for line in report
        if line["n"]
    ]
    return _table(["action", "times", "right", "of the certain clashes written for this, acted on"], rows)


def clash_latency(results: Path = RESULTS) -> str | None:
    """What the stage adds to a turn, by load."""
    report = _read(results / "clash_latency.json")
    if report is None:
        return None
    rows = [[name, f"{line['p50_ms']:.1f} ms", f"{line['p95_ms']:.1f} ms"] for name, line in report["loads"].items()]
    return _table(["about 2,000 tokens as", "p50", "p95"], rows)


def poisoning(results: Path = RESULTS) -> str | None:
    """False statements that were kept out, and true ones that were."""
    report = _read(results / "poisoning.json")
    if report is None or "statements" not in report or report.get("rows", 0) < STATEMENTS:
        return None
    found = report["statements"]
    rows = [_found("all", found)]
    for label, groups in found["by"].items():
        rows += [_found(f"{label}: {value.replace('_', ' ')}", line) for value, line in groups.items()]
    rows += [_found(f"baseline: {name} alone", line) for name, line in found["baselines"].items()]
    return _table(["", "false statements kept out", "n", "true ones kept out", "n", "goals met"], rows)


def injections(results: Path = RESULTS) -> str | None:
    """Hidden instructions that were found, and ordinary texts that were taken for such."""
    report = _read(results / "poisoning.json")
    if report is None or "injections" not in report:
        return None
    found, unseen = report["injections"], report["injections"]["test"]
    rows = [["found, templates not seen before", *_cells(unseen["detected"])]]
    rows += [[f"… in {name}", *_cells(line)] for name, line in unseen["languages"].items()]
    rows.append(["found, asked in ordinary words", *_cells(unseen["plain"])])
    rows.append(["false alarms: texts about attacks", *_cells(unseen["false alarms on texts about attacks"])])
    ordinary = found["ordinary"]
    shown = [name for name in ordinary if name != "all" and "tool" in name]
    rows += [[f"false alarms: {name}", *_cells(ordinary[name])] for name in shown]
    rows.append(["false alarms: all ordinary texts", *_cells(ordinary["all"])])
    return _table(["", "share", "n"], rows)


def validation(results: Path = RESULTS) -> str | None:
    """Milliseconds for a piece of content."""
    report = _read(results / "validation.json")
    if report is None or report.get("quick") or "latency_ms" not in report:
        return None
    rows = [
        [size, *(f"{line[key]:.0f}" for key in ("p50", "p95", "cpu_p50", "cpu_p95")), _met(line["p95"] < P95_MS)]
        for size, line in report["latency_ms"].items()
    ]
    return _table(["pieces at a time", "ms a piece, p50", "p95", "CPU ms, p50", "p95", "goal met"], rows)


def validation_quality(results: Path = RESULTS) -> str | None:
    """How often content is relevant at the threshold, and how often it is found to contradict."""
    report = _read(results / "validation.json")
    if report is None or report.get("quick"):
        return None
    rows = [[f"relevant: {name}", _share(line["share"]), str(line["n"])] for name, line in report.get("relevance", {}).items()]
    rows += [[f"contradicts: {name}", _share(line["contradicted"]), str(line["n"])] for name, line in report.get("consistency", {}).items()]
    return _table(["share of pieces", "", "n"], rows) if rows else None


def knowledge(results: Path = RESULTS) -> str | None:
    """Time, memory and disk of knowledge bases by size."""
    report = _read(results / "knowledge.json")
    if not report:
        return None
    columns: dict[str, Callable[[Report], str]] = {
        "facts": lambda row: f"{row['facts']:,}",
        "vectors": lambda row: str(row["embedder"]),
        "index": lambda row: str(row["kind"]).split(",")[0] + (", 8 bit" if "SQ8" in row["kind"] else ""),
        "built in": lambda row: f"{row['build_s']:,.0f} s",
        "one file changed": lambda row: f"{row['update_s']:,.0f} s",
        "disk": lambda row: f"{row['disk_mb']:,.0f} MB",
        "memory, own + mapped": lambda row: f"{row['own_memory_mb']:,.0f} + {row['mapped_mb']:,.0f} MB",
        "search p50, p95": lambda row: f"{row['search_p50_ms']:.1f}, {row['search_p95_ms']:.1f} ms",
        "found at 5": lambda row: f"{row['found_at_5']:.2f}",
    }
    rows = sorted(report.values(), key=lambda row: (str(row["embedder"]), int(row["facts"])))
    return _table(list(columns), [[told(row) for told in columns.values()] for row in rows])


TABLES: dict[str, Callable[[], str | None]] = {
    "clash": clash,
    "clash-topics": clash_topics,
    "clash-resolution": resolution,
    "clash-actions": clash_actions,
    "clash-latency": clash_latency,
    "poisoning": poisoning,
    "injections": injections,
    "validation": validation,
    "validation-quality": validation_quality,
    "knowledge": knowledge,
}


def _clash(results: Path) -> Any:
    """What `benchmarks.clash` measured on all rows."""
    report = _read(results / "clash.json")
    return None if report is None or report["rows"] else report


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


def _found(name: str, line: Report) -> list[str]:
    return [name, *_cells(line["found"]), *_cells(line["false alarms"]), _goals(line["found"]["value"], line["false alarms"]["value"])]


def _clash_cells(line: Report) -> list[str]:
    recall, alarms = line["recall"], line["false_positives"]
    return [_rate(recall), _rate(alarms), _goals(recall["value"], alarms["value"])]


def _goals(found: float | None, alarms: float | None) -> str:
    return "-" if found is None or alarms is None else _met(found > FOUND and alarms < ALARMS)


def _met(met: bool) -> str:
    return "yes" if met else "no"


def _cells(figure: Report) -> list[str]:
    return [_rate(figure), str(figure["n"])]


def _rate(figure: Report) -> str:
    """A share in percent with its interval."""
    value = figure["value"]
    return "-" if value is None or value != value else f"{value:.1%} [{figure['low']:.1%}, {figure['high']:.1%}]"


def _two(figure: Report) -> str:
    return "-" if figure["value"] != figure["value"] else f"{figure['value']:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
