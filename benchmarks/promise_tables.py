"""The tables of README.md and docs/quality.md on what a client is told of an answer, made of ``results/promise.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.promise import CHECKED, COLUMNS, RESULTS, line, share
from docs.reference import table

_TITLES = {
    "right harmed": "right harmed",
    "right warned": "right warned of",
    "right pass": "right called `pass`",
    "wrong flagged": "wrong flagged",
    "wrong unsure": "wrong `unsure`",
    "wrong unchecked": "wrong `unchecked`",
    "wrong pass": "wrong called `pass`",
}


def whole() -> str:
    """Every outcome of right and wrong answers, with its interval."""
    heads = ["policy", *(_TITLES[name] for name in COLUMNS), "AUROC", "header missing"]
    return _rows(heads, lambda found: [*line(found, intervals=True)[1:], f"{found['faithfulness_missing']:.0%}"])


def short() -> str:
    """The same in four shares."""
    heads = ["policy", "right answers harmed", "right answers warned of", "wrong answers flagged", "wrong answers called `pass`"]
    names = ("right_harmed", "right_warned", "wrong_flagged", "wrong_pass")
    return _rows(heads, lambda found: [share(found[name], found["n"]) for name in names])


def _rows(heads: Sequence[str], cells: Callable[[Mapping[str, Any]], list[str]]) -> str:
    """A row for each policy."""
    measured = {found["policy"]: found for found in json.loads(RESULTS.read_text(encoding="utf-8"))["policies"]}
    return table(heads, ([name, *cells(measured[name])] for name in CHECKED))


TABLES: dict[str, Callable[[], str | None]] = {"promise": whole, "promise-short": short}
