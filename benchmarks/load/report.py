"""Tables, targets with met or missed, and the JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.load.measure import Cell, Results, added, ratios
from benchmarks.load.statistics import Estimate, estimate


@dataclass(slots=True, frozen=True)
class Target:
    """A goal, what was measured, and whether that meets it (by its mean; the interval stands beside it)."""

    text: str
    goal: str
    measured: str
    met: bool
    interval: dict[str, float]


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print(f"\n{title}")
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True))]
        print("  ".join(cells).rstrip())


def print_requests(results: Results) -> None:
    head = ["system", "requests/s", "of the floor", "CPU ms/request", "core busy", "p50 ms", "p95 ms", "p99 ms"]
    head += ["added p50", "added p95", "added p99", "n"]
    for (kind, level), cells in results.items():
        rows = [_request_row(name, cell, cells) for name, cell in cells.items()]
        print_table(
            f"{kind} request, concurrency {level} (mean of rounds [95% interval]; added: less direct in the same round)", head, rows
        )


def _request_row(name: str, cell: Cell, cells: dict[str, Cell]) -> list[str]:
    own_server = "cpu_ms" in cell.figures
    return [
        name,
        estimate(cell["per_second"]).text(0),
        estimate(ratios(cell["per_second"], cells["floor"]["per_second"])).text() if "floor" in cells else "",
        estimate(cell["cpu_ms"]).text(3) if own_server else "",
        f"{estimate(cell['busy']).mean:.0%}" if own_server else "",
        *(f"{estimate(cell[p]).mean:.3f}" for p in ("p50", "p95", "p99")),
        *(f"{estimate(added(cells, name, p)).mean:.3f}" if own_server else "" for p in ("p50", "p95", "p99")),
        f"{cell.n:,}",
    ]


def print_streams(results: Results, gap_ms: float, chunks: int) -> None:
    head = [
        "system",
        "first token p50",
        "p95",
        "added p50",
        "added p95",
        "gap p50",
        "p95",
        "chunk delay p50",
        "p95",
        "added p50",
        "streams",
    ]
    for (_, level), cells in results.items():
        rows = []
        for name, cell in cells.items():
            figures = ("first_p50", "first_p95", "gap_p50", "gap_p95", "delay_p50", "delay_p95")
            first, first95, gap, gap95, delay, delay95 = (f"{estimate(cell[f]).mean:.3f}" for f in figures)
            more = [f"{estimate(added(cells, name, f)).mean:.3f}" for f in ("first_p50", "first_p95", "delay_p50")]
            rows.append([name, first, first95, more[0], more[1], gap, gap95, delay, delay95, more[2], str(cell.n)])
        print_table(f"streams of {chunks} chunks, {gap_ms:g} ms apart, {level} at once (ms; added: less direct)", head, rows)


def targets(results: Results, start: dict[str, list[float]], names: dict[str, str]) -> list[Target]:
    """`names`: the empty policy's system under ``empty``. A target whose cells were not measured is left out."""
    found: list[Target] = []
    empty = names["empty"]

    def judge(text: str, goal: str, values: list[float], good: Callable[[Estimate], bool], unit: str = "x") -> None:
        if values:
            measured = estimate(values)
            found.append(Target(text, goal, measured.text() + unit, good(measured), measured.as_json()))

    busiest = results.get(("small", 64), {})
    if empty in busiest:
        speed = busiest[empty]["per_second"]
        for other, factor in (("floor", 0.70), ("litellm", 50.0), ("portkey", 10.0)):
            if other in busiest:
                values = ratios(speed, busiest[other]["per_second"])
                judge(f"requests/s at 64, small, against {other}", f">= {factor:g}x", values, lambda e, f=factor: e.mean >= f)  # type: ignore[misc]
    for kind, text in (
        ("small", "added p50 at 1, small, against the floor's"),
        ("large", "added p50 at 1, 204 KB, against the floor's"),
    ):
        cells = results.get((kind, 1), {})
        if empty in cells and "floor" in cells:
            judge(text, "<= 1.5x", ratios(added(cells, empty, "p50"), added(cells, "floor", "p50")), lambda e: e.mean <= 1.5)
    judge("start to ready", "< 2 s", start.get("ready_s", []), lambda e: e.mean < 2.0, " s")
    judge("memory when ready (PSS)", "< 120 MB", start.get("pss_mb", []), lambda e: e.mean < 120.0, " MB")
    return found


def print_targets(found: Sequence[Target]) -> None:
    rows = [[t.text, t.goal, t.measured, "met" if t.met else "MISSED"] for t in found]
    print_table("targets (mean of rounds [95% interval])", ["target", "goal", "measured", ""], rows)


def as_json(results: Results) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for (kind, level), cells in results.items():
        for name, cell in cells.items():
            row: dict[str, Any] = {"load": kind, "concurrency": level, "system": name, "n": cell.n}
            row |= {figure: estimate(values).as_json() for figure, values in cell.figures.items()}
            for figure in ("p50", "p95", "p99", "first_p50", "first_p95", "delay_p50"):
                if figure in cell.figures and name != "direct":
                    row[f"added_{figure}"] = estimate(added(cells, name, figure)).as_json()
            if "per_second" in cell.figures and "floor" in cells:
                row["per_second_of_floor"] = estimate(ratios(cell["per_second"], cells["floor"]["per_second"])).as_json()
            rows.append(row)
    return rows


def targets_as_json(found: Sequence[Target]) -> list[dict[str, Any]]:
    return [asdict(target) for target in found]
