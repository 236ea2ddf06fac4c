"""Draws docs/quality.svg and docs/speed.svg, made of ``benchmarks/results``: what of planted errors is noticed, and what a request costs.

`benchmarks.readme` writes them with the generated tables, and says with ``--check`` whether they are up to date. Bars carry their numbers,
so that no colour has to be told from another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeVar

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
POLICY = "rag"
WIDTH, LABEL, BAR, HIGH, TOP = 900, 190, 620, 22, 66
"""Pixels: the picture, a row's label, its longest bar, its height, the place of the first one."""
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b2733}.title{font-weight:600;font-size:15px}.in{fill:#fff}.dim{fill:#1b2733}"
    ".a{fill:#14746f}.b{fill:#c3ced8}.c{fill:#b3452f}line{stroke:#1b2733}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.in{fill:#fff}.dim{fill:#1b2733}.b{fill:#8aa0b5}line{stroke:#e6edf3}}"
)
Row = TypeVar("Row")
BODIES = {"small": "small", "large": "204 KB of plain words", "agent": "204 KB of an agent's"}


def quality(results: Path = RESULTS) -> str:
    """Wrong answers by what is wrong with them: flagged, undecided, called ``pass``."""
    report = json.loads((results / "promise.json").read_text("utf-8"))
    kinds: Mapping[str, Mapping[str, int]] = next(found for found in report["policies"] if found["policy"] == POLICY)["groups"][
        "what is wrong"
    ]
    rows = []
    for y, (kind, found) in _placed(sorted(kinds.items(), key=lambda item: -item[1]["wrong_flagged"] / item[1]["n"])):
        counts = [found["wrong_flagged"], found["n"] - found["wrong_flagged"] - found["wrong_pass"], found["wrong_pass"]]
        rows.append(_text(LABEL - 10, y, f"{kind}, {found['n']}", 'text-anchor="end"'))
        rows += _stacked(counts, found["n"], y)
    n = sum(found["n"] for found in kinds.values())
    legend = _legend({"a": "warned of or refused", "b": "unsure or unchecked", "c": "called pass"})
    return _picture(f"What {POLICY} says of {n} answers with one thing wrong, by what is wrong", [*legend, *rows], len(kinds))


def speed(results: Path = RESULTS) -> str:
    """CPU of a request, times that of a bare pass-through, with its interval."""
    ratios = json.loads((results / "speed.json").read_text("utf-8"))["ratios"]
    found = {title: ratios[f"CPU of the floor's, {body}, 64"] for body, title in BODIES.items()}
    scale = BAR / max(ratio["high"] for ratio in found.values())
    rows = []
    for y, (title, ratio) in _placed(found.items()):
        rows.append(_text(LABEL - 10, y, title, 'text-anchor="end"'))
        rows.append(_bar(LABEL, y, ratio["mean"] * scale, "a"))
        rows.append(_text(LABEL + 8, y, f"{ratio['mean']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]", 'class="in"'))
    bare = LABEL + scale
    rows.append(f'<line x1="{bare:.0f}" x2="{bare:.0f}" y1="{TOP - 8}" y2="{TOP + len(found) * (HIGH + 6)}" stroke-dasharray="4 3"/>')
    rows.append(_text(bare + 5, TOP - 26, "1: the bare pass-through"))
    return _picture("CPU of a request under an empty policy, times a bare pass-through's, 64 at once", rows, len(found))


def files() -> dict[Path, str]:
    """Each picture's place and text."""
    return {Path(__file__).with_name("quality.svg"): quality(), Path(__file__).with_name("speed.svg"): speed()}


def _placed(rows: Iterable[Row]) -> Iterable[tuple[int, Row]]:
    """Each row with its upper edge."""
    return ((TOP + i * (HIGH + 6), row) for i, row in enumerate(rows))


def _stacked(counts: Sequence[int], n: int, y: int) -> list[str]:
    parts, x = [], float(LABEL)
    for count, style in zip(counts, "abc", strict=True):
        wide = BAR * count / n
        if count:
            words = "dim" if style == "b" else "in"
            parts += [_bar(x, y, wide, style), _text(x + wide / 2, y, str(count), f'class="{words}" text-anchor="middle"')]
        x += wide
    return parts


def _legend(entries: Mapping[str, str]) -> list[str]:
    return [
        part
        for i, (style, words) in enumerate(entries.items())
        for part in (f'<rect class="{style}" x="{LABEL + i * 190}" y="36" width="14" height="14"/>', _text(LABEL + i * 190 + 20, 32, words))
    ]


def _bar(x: float, y: int, wide: float, style: str) -> str:
    return f'<rect class="{style}" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{HIGH}"/>'


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y + 16:.1f}" {more}>{escape(words)}</text>'


def _picture(title: str, parts: Sequence[Any], rows: int) -> str:
    high = TOP + rows * (HIGH + 6) + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high}" role="img">'
    shown = [_text(20, 6, title, 'class="title"'), *parts]
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *shown, "</svg>\n"])
