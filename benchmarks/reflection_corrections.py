"""Does the stage `reflection` see that a person corrects the agent, and only then? Signal 5, ``human_correction``.

    python -m benchmarks.reflection_corrections [--split NAME] [--errors]

*Labelled*: benchmarks/data/corrections.jsonl, messages written for this project in four languages, half of them hard negatives. Precision
and recall of "corrects" (either kind), by language; how many were found as the right kind; how often tools and numbers that were read are
those of the label. Baseline: the message contains a word such as "wrong" or "no". The splits, in the order in which they were written:

    dev     beside the rules
    test    before the rules, and not looked at while they were made; 82/82 found at first sight, but its wording is that of its author,
            who made the rules within the hour: do not take it for the recall on other people's words
    fresh   after the rules, in words that they did not expect; 11/76 found at first sight, 1 false alarm; since then used to improve them
    blind   after that; 18/47 found at first sight, no false alarm; since then used to improve them
    unseen  after that; 17/35 found by the rules at first sight, no false alarm; not used
    more    written by a language model that had seen neither rules nor rows; the rules found 18/100. Not used
    last    written by another that had seen nothing of all that; the rules found 3/56. Not used: the figure to go by

What the rules are for are instructions with a tool or a number (*typed*: found with the right ones), and no false alarm; rejections in
other words than "that is wrong" are for the policy's judge.

*Real chats*: users' messages that follow an assistant's turn in tau-bench airline, SGD and LoCoMo; how many are flagged, and how many
of these rightly (labels by hand, ``split: wild`` of the same file, without the text). Recall there: among those that keywords found and
were judged to be corrections.

Intervals: 95% (Wilson). Nothing is drawn at random.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from proxy.language.text import text_of
from proxy.stages.reflection.corrections import Correction, read_correction

DATA = Path(__file__).parent / "data" / "corrections.jsonl"
RESULTS = Path(__file__).parent / "results" / "reflection_corrections.json"
SHARED = Path(__file__).parents[2] / "shared" / "data"
SPLITS = ("dev", "test", "fresh", "blind", "unseen", "more", "last")
BY_OTHERS = ("more", "last")
"""Labelled without the tools and numbers of overrides."""
SOURCES = ("compression/tau_airline", "chats/sgd", "compression/locomo")
TOOLS = ("search_docs", "search_web", "get_orders", "list_flights", "run_sql", "calculator")
"""Those that the labelled messages speak of."""
_NAIVE = re.compile(
    r"\b(?:wrong|incorrect|not (?:right|true|correct)|falsch|stimmt nicht|nein|incorrecto|mal|faux|non|stop|don't|nicht mehr|no más|ne plus"
    r"|at most|höchstens|maximal|como máximo|au maximum|instead|statt|en lugar|au lieu)\b|\bno\b,?",
    re.I,
)
Row = dict[str, Any]
Figure = dict[str, Any]


def share(hits: int, n: int) -> Figure:
    """A share with its Wilson interval."""
    if not n:
        return {"value": None, "low": None, "high": None, "hits": 0, "n": 0}
    z, p = 1.96, hits / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return {"value": p, "low": max(0.0, (middle - half) / scale), "high": min(1.0, (middle + half) / scale), "hits": hits, "n": n}


def shown(figure: Figure) -> str:
    """``95.0% [88.0% 98.0%] 57/60``."""
    return "-" if not figure["n"] else f"{figure['value']:6.1%} [{figure['low']:.1%} {figure['high']:.1%}] {figure['hits']}/{figure['n']}"


def rows() -> list[Row]:
    """All labels."""
    return [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]


def detector(row: Row) -> Correction | None:
    """What this project finds."""
    return read_correction(row["text"], TOOLS)


def naive(row: Row) -> bool:
    """The baseline."""
    return _NAIVE.search(row["text"]) is not None


def rates(items: Sequence[Row], called: Callable[[Row], bool]) -> dict[str, Figure]:
    """Precision and recall of either kind."""
    flagged = [row for row in items if called(row)]
    right = sum(row["label"] != "" for row in flagged)
    return {"precision": share(right, len(flagged)), "recall": share(right, sum(row["label"] != "" for row in items))}


def labelled(items: Sequence[Row], *, errors: bool) -> Figure:
    """One split."""
    found = {row["id"]: detector(row) for row in items}
    flagged = [row for row in items if row["label"] and found[row["id"]] is not None]
    typed = [row for row in items if _expected(row) != (None, "", "")]
    told = [row for row in flagged if row["label"] == "override" and row["split"] not in BY_OTHERS]
    report: Figure = {
        "n": len(items),
        "detector": {"all": rates(items, lambda row: found[row["id"]] is not None)},
        "baseline": {"all": rates(items, naive)},
        "kinds": {
            kind: share(sum(_kind(found[row["id"]]) == kind for row in mine), len(mine))
            for kind in ("rejected", "override")
            if (mine := [row for row in items if row["label"] == kind])
        },
        "parameters of overrides": share(sum(_parameters(found[row["id"]]) == _expected(row) for row in told), len(told)),
        "typed": share(sum(_parameters(found[row["id"]]) == _expected(row) for row in typed), len(typed)),
    }
    for language in ("en", "de", "es", "fr"):
        mine = [row for row in items if row["lang"] == language]
        report["detector"][language] = rates(mine, lambda row: found[row["id"]] is not None)
        report["baseline"][language] = rates(mine, naive)
    if errors:
        for row in items:
            if _kind(found[row["id"]]) != row["label"]:
                print(f"  {row['id']}: wanted {row['label'] or 'none'}, found {_kind(found[row['id']]) or 'none'}: {row['text']!r}")
    return report


def _kind(found: Correction | None) -> str:
    return "" if found is None else found.kind


def _parameters(found: Correction | None) -> tuple[int | None, str, str]:
    return (None, "", "") if found is None else (found.cap, found.forbidden_tool, found.wanted_tool)


def _expected(row: Row) -> tuple[int | None, str, str]:
    return row.get("cap"), row.get("forbidden", ""), row.get("wanted", "")


def print_labelled(split: str, report: Figure) -> None:
    """The table of one split."""
    print(f"\n{split}, n {report['n']}\n{'':20}{'precision':34}recall")
    for system in ("detector", "baseline"):
        for group, figures in report[system].items():
            print(f"{system + ' ' + group:20}{shown(figures['precision']):34}{shown(figures['recall'])}")
    for kind, figure in report["kinds"].items():
        print(f"found as {kind}: {shown(figure)}")
    print(f"tools and numbers of overrides right: {shown(report['parameters of overrides'])}; typed found {shown(report['typed'])}")


# ---- real chats ----


def messages(source: str) -> Iterator[tuple[str, str, list[str]]]:
    """Id, text, names of the tools; of users' messages behind an assistant's turn."""
    with gzip.open(SHARED / f"{source}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            tools = [tool["function"]["name"] for tool in row.get("tools", ())]
            answered = False
            for i, message in enumerate(row["messages"]):
                text = text_of(message.get("content"))
                if message["role"] == "assistant":
                    answered = True
                elif message["role"] == "user" and answered:
                    yield f"{row['id']}/{i}", text, tools


def real(labels: dict[str, str], *, errors: bool) -> Figure:
    """By source: flagged messages, and those that are corrections."""
    report: Figure = {}
    times: list[float] = []
    print("\nreal chats")
    for source in SOURCES:
        flagged, n, baseline, known, caught = [], 0, 0, 0, 0
        for id_, text, tools in messages(source):
            started = time.perf_counter()
            found = read_correction(text, tools)
            times.append((time.perf_counter() - started) * 1000)
            n, baseline = n + 1, baseline + naive({"text": text})
            known, caught = known + bool(labels.get(id_)), caught + bool(labels.get(id_) and found)
            flagged += [id_] if found else []
            if found and errors:
                print(f"  {id_}: {found.kind} {text[:100]!r}, label {labels.get(id_, '?') or 'none'}")
        right = sum(bool(labels.get(id_)) for id_ in flagged)
        report[source] = {
            "flagged": share(len(flagged), n),
            "baseline flagged": share(baseline, n),
            "rightly": share(right, len(flagged)),
            "unjudged": [id_ for id_ in flagged if id_ not in labels],
            "recall among keyword finds": share(caught, known),
        }
        one = report[source]
        print(f"{source:24} flagged {shown(one['flagged'])}, rightly {right}, unjudged {len(one['unjudged'])}")
        print(f"{'':24} baseline flagged {shown(one['baseline flagged'])}")
        print(f"{'':24} found of those known: {shown(one['recall among keyword finds'])}")
    times.sort()
    report["ms a message"] = {"p50": times[len(times) // 2], "p95": times[int(0.95 * len(times))], "n": len(times)}
    print(f"a message: p50 {report['ms a message']['p50']:.2f} ms, p95 {report['ms a message']['p95']:.2f} ms")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=SPLITS, help="only this one; writes no results")
    parser.add_argument("--errors", action="store_true", help="print what was got wrong, and what was flagged in real chats")
    options = parser.parse_args()
    every = rows()
    report: Figure = {"python": platform.python_version(), "data": DATA.name, "seed": None}
    for split in (options.split,) if options.split else SPLITS:
        report[split] = labelled([row for row in every if row["split"] == split], errors=options.errors)
        print_labelled(split, report[split])
    if all((SHARED / f"{source}.jsonl.gz").exists() for source in SOURCES):
        report["real chats"] = real({row["id"]: row["label"] for row in every if row["split"] == "wild"}, errors=options.errors)
    else:
        print(f"\nno chats in {SHARED}: real messages not measured")
    if options.split:
        return
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
