"""The tables of training/data/README.md, made of the rows themselves: ``python -m training.judge.described`` prints them."""

from __future__ import annotations

import gzip
import json
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.grounding_metrics import auroc
from training.judge import neutral
from training.judge.written import OWN, held_out

LABELS = ("supported", "contradicted", "unsupported")
Rows = Sequence[dict[str, str]]


def read(path: Path = OWN) -> Rows:
    """The rows with all their fields."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def tables(rows: Rows) -> str:
    """By language and label, by writer, by inference; then what the documents and statements are like."""
    return "\n\n".join((_by_language(rows), _by_writer(rows), _by_inference(rows), _sizes(rows)))


def _table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    shown = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in shown)


def _by_language(rows: Rows) -> str:
    lines: list[list[object]] = []
    for language in ("en", "de", "es", "fr", "it", "pt", "all"):
        own = [row for row in rows if language in (row["lang"], "all")]
        labels = Counter(row["label"] for row in own)
        lines.append([language, len({row["doc"] for row in own}), *(labels[label] for label in LABELS), sum(map(held_out, own))])
    return _table(["statement's language", "documents", *LABELS, "held out"], lines)


def _by_writer(rows: Rows) -> str:
    writers = sorted({row["writer"] for row in rows})
    counts = [[row for row in rows if row["writer"] == writer] for writer in writers]
    lines = [
        [writer, len({row["doc"] for row in own}), len(own), f"{likeness(own):.2f}"] for writer, own in zip(writers, counts, strict=True)
    ]
    return _table(["writer", "documents", "rows kept", "AUROC of likeness for supported"], lines)


def likeness(rows: Rows) -> float:
    """AUROC of the share of words that claim and document share, for "supported"; 0.5: it tells nothing."""
    shared = np.array([neutral.likeness(row["claim"], row["context"]) for row in rows])
    return float(auroc(np.ones((1, len(rows))), shared, np.array([row["label"] == "supported" for row in rows]))[0])


def _by_inference(rows: Rows) -> str:
    counts = Counter((row["inference"], row["label"]) for row in rows)
    names = [name for name, _ in Counter(row["inference"] for row in rows).most_common()]
    return _table(["inference", *LABELS], [[name, *(counts[name, label] for label in LABELS)] for name in names])


def _sizes(rows: Rows) -> str:
    words = [len(context.split()) for context in {row["doc"]: row["context"] for row in rows}.values()]
    first, middle, last = statistics.quantiles(words, n=4)
    claims = {label: statistics.mean(len(row["claim"].split()) for row in rows if row["label"] == label) for label in LABELS}
    return (
        f"Documents are of {min(words)} to {max(words)} words (quartiles {first:.0f}, {middle:.0f}, {last:.0f}), of "
        f"{len({row['kind'] for row in rows})} kinds; statements of "
        + ", ".join(f"{mean:.1f} words ({label})" for label, mean in claims.items())
        + " in the mean."
    )


if __name__ == "__main__":
    print(tables(read()))
