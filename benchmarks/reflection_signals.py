"""Does the failure detector see that a tool failed, and keep quiet where it did not?

    python -m benchmarks.reflection_signals [--seed N] [--texts N] [--show dev]

*Labelled* (`data/tool_results.jsonl`, written or captured for this project): results of tools with the code of their failure, or none.
``test`` was set aside before the detector was made and its rows not looked at while it was tuned, ``dev`` was tuned on; both have one
author, who wrote the detector too, so ``written`` figures are kind. Kind ``formats`` (dev) are the error forms of well-known services.
Kind ``captured`` is what real programs printed, labelled by their exit status (`failure`: any code; the status itself is not in the
text), but for tests and linters, which have done their work. Texts that nobody can judge are left in ("File not found." printed by a
program that ended well; "configuration is incomplete" by one that did not).

*Trajectories* (`shared/data/compression/tau_airline`): every tool result. Gold by the tool's contract, not by the wording: a lookup
gives JSON, a booking the reservation, `calculate` a number, `think` nothing, a transfer and a certificate one known sentence; whatever
else comes is a failure. Results that this rule gets wrong would be in `EXCEPTIONS`; read by hand, none is.

*Ordinary content*: texts in which no tool failed, taken as results of one (passages, source files, this project's own files, whole and
in pieces of 1,500 characters that begin at a line). Every finding is a false alarm.

Baseline: the text contains "error", "exception", "failed" or "timeout". Intervals: 95% (Wilson). Empty results (`empty_result`, asked
only of retrieval tools) are counted apart.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import random
import re
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from proxy.context.tool_results.error_kinds import ToolFailure
from proxy.context.tool_results.results import read_result

DATA = Path(__file__).parent / "data" / "tool_results.jsonl"
RESULTS = Path(__file__).parent / "results" / "reflection_signals.json"
SHARED = Path(__file__).parents[2] / "shared" / "data"
TAU = SHARED / "compression" / "tau_airline.jsonl.gz"
NAIVE = re.compile(r"error|exception|failed|timeout", re.I)
EXCEPTIONS: dict[tuple[str, int], bool] = {}
"""Run and position of a message, to whether it is a failure, where the rule is wrong."""
PIECE_CHARS = 1_500
Figure = dict[str, Any]
Row = dict[str, Any]


def share(hits: int, n: int) -> Figure:
    """A share with its Wilson interval."""
    if not n:
        return {"value": None, "low": None, "high": None, "hits": 0, "n": 0}
    z, p = 1.96, hits / n
    middle, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    scale = 1 + z * z / n
    return {"value": p, "low": max(0.0, (middle - half) / scale), "high": min(1.0, (middle + half) / scale), "hits": hits, "n": n}


def shown(figure: Figure) -> str:
    return "-" if not figure["n"] else f"{figure['value']:6.1%} [{figure['low']:.1%} {figure['high']:.1%}] {figure['hits']}/{figure['n']}"


def rates(said: Sequence[bool], gold: Sequence[bool]) -> dict[str, Figure]:
    """Precision, recall, and the share of the rest that gives a false alarm."""
    right = sum(s and g for s, g in zip(said, gold, strict=True))
    return {
        "precision": share(right, sum(said)),
        "recall": share(right, sum(gold)),
        "false alarms": share(sum(said) - right, len(gold) - sum(gold)),
    }


def detected(row: Row) -> ToolFailure | None:
    return read_result(row["text"], retrieval=row["retrieval"])


# ---- labelled ----


def labelled() -> list[Row]:
    return [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]


def measure_labelled(rows: Sequence[Row]) -> dict[str, Any]:
    """Of one split: both systems, all rows and by kind of row; the code, where the failure was found."""
    judged = [row for row in rows if row["label"] != "empty_result"]
    gold = [bool(row["label"]) for row in judged]
    found = [detected(row) for row in judged]
    said = [one is not None and one.code != "empty_result" for one in found]
    naive = [NAIVE.search(row["text"]) is not None for row in judged]
    coded = [(row["label"], one.code) for row, one in zip(judged, found, strict=True) if one and row["label"] not in ("", "failure")]
    retrieved = [row for row in rows if row["retrieval"]]
    empty = [(one := detected(row)) is not None and one.code == "empty_result" for row in retrieved]
    by: dict[str, Any] = {}
    for field in ("lang", "label", "kind"):
        for value in sorted({row[field] for row in judged}):
            at = [i for i, row in enumerate(judged) if row[field] == value]
            pairs = {
                "detector": rates([said[i] for i in at], [gold[i] for i in at]),
                "naive": rates([naive[i] for i in at], [gold[i] for i in at]),
            }
            by.setdefault(field, {})[value or "no failure"] = pairs
    return {
        "n": len(judged),
        "detector": rates(said, gold),
        "naive": rates(naive, gold),
        "by": by,
        "code right": share(sum(want == got for want, got in coded), len(coded)),
        "empty": rates(empty, [row["label"] == "empty_result" for row in retrieved]),
        "wrong": [row["id"] for row, s, g in zip(judged, said, gold, strict=True) if s != g],
    }


def print_labelled(name: str, found: dict[str, Any]) -> None:
    print(f"\nlabelled results, {name}, n {found['n']}")
    for system in ("detector", "naive"):
        print(f"  {system:10}" + "   ".join(f"{key} {shown(figure)}" for key, figure in found[system].items()))
    print(f"  code right, where a failure was found: {shown(found['code right'])}")
    print(f"  empty results: precision {shown(found['empty']['precision'])}, recall {shown(found['empty']['recall'])}")
    for field, values in found["by"].items():
        if field == "kind":  # many small groups: in the JSON
            continue
        print(f"  {field:20}{'recall':30}{'naive recall':30}{'false alarms':30}naive false alarms")
        for value, pair in values.items():
            cells = [pair[s][key] for key in ("recall", "false alarms") for s in ("detector", "naive")]
            print(f"    {value:18}" + "".join(f"{shown(cell):30}" for cell in cells))


# ---- trajectories ----

_RESERVATION = (
    "book_reservation",
    "cancel_reservation",
    "update_reservation_flights",
    "update_reservation_baggages",
    "update_reservation_passengers",
    "get_reservation_details",
)
_SENTENCES = {"transfer_to_human_agents": "Transfer successful", "send_certificate": "Certificate ", "think": ""}


def keeps_contract(tool: str, text: str) -> bool:
    """Whether `text` is what the tool gives where it did its work."""
    if tool in _SENTENCES:
        return text.startswith(_SENTENCES[tool]) and (bool(_SENTENCES[tool]) or not text)
    if tool == "calculate":
        return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None
    try:
        value = json.loads(text)
    except ValueError:
        return False
    if tool in _RESERVATION:
        return isinstance(value, dict) and "reservation_id" in value
    return isinstance(value, list) if tool.startswith("search_") else isinstance(value, dict)


def measure_trajectories() -> dict[str, Any]:
    said, naive, gold, wrong = [], [], [], []
    with gzip.open(TAU, "rt", encoding="utf-8") as lines:
        for run in map(json.loads, lines):
            for i, message in enumerate(run["messages"]):
                if message["role"] == "tool":
                    text = message["content"] or ""
                    gold.append(EXCEPTIONS.get((run["id"], i), not keeps_contract(message["name"], text)))
                    said.append(read_result(text) is not None)
                    naive.append(NAIVE.search(text) is not None)
                    if said[-1] != gold[-1]:
                        wrong.append(f"{run['id']} {i}")
    return {"n": len(gold), "failures": sum(gold), "detector": rates(said, gold), "naive": rates(naive, gold), "wrong": wrong}


# ---- ordinary content ----


def ordinary(most: int, seed: int) -> Iterator[tuple[str, list[str]]]:
    """Texts in which no tool failed, by source."""
    source = random.Random(seed)
    for path in sorted((SHARED / "grounding").glob("*.jsonl.gz")) if SHARED.exists() else ():
        yield f"passages: {path.name[:-9]}", _sample(_contexts(path), most, source)
    if (SHARED / "chats" / "sgd.jsonl.gz").exists():
        yield "chats: sgd", _sample(_messages(SHARED / "chats" / "sgd.jsonl.gz"), most, source)
    root = Path(__file__).parents[1]
    own = (p for kind in ("py", "md", "yaml", "toml", "tsv") for p in root.rglob(f"*.{kind}") if not any(x[0] == "." for x in p.parts[1:]))
    yield "files of this project", _sample(_pieces(own), most * 4, source)
    installed = sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.py"))
    yield "installed Python files", _sample(_pieces(source.sample(installed, min(most * 2, len(installed)))), most * 8, source)


def _contexts(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from (str(json.loads(line)["context"]) for line in lines)


def _messages(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield from (m["content"] for m in json.loads(line)["messages"] if isinstance(m.get("content"), str))


def _pieces(paths: Iterable[Path]) -> Iterator[str]:
    """Each file, and pieces of its beginning as a paging tool would give them."""
    for path in paths:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        yield text
        at = 0
        while 0 <= at < min(len(text), 8 * PIECE_CHARS):
            yield text[at : at + PIECE_CHARS]
            at = text.find("\n", at + PIECE_CHARS - 400) + 1 or -1


def _sample(texts: Iterable[str], most: int, source: random.Random) -> list[str]:
    distinct = sorted({text for text in texts if text.strip()})
    return source.sample(distinct, min(most, len(distinct)))


def measure_ordinary(most: int, seed: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, texts in ordinary(most, seed):
        found[name] = {
            "detector": share(sum(read_result(text) is not None for text in texts), len(texts)),
            "naive": share(sum(NAIVE.search(text) is not None for text in texts), len(texts)),
        }
    for system in ("detector", "naive"):
        figures = [one[system] for name, one in found.items() if name != "all"]
        found.setdefault("all", {})[system] = share(sum(f["hits"] for f in figures), sum(f["n"] for f in figures))
    return found


# ---- time ----


def timed(texts: Sequence[str], rounds: int = 5) -> dict[str, Any]:
    """Microseconds a result, the best of some rounds; beside the baseline's pattern, and reading the text as JSON where it is JSON."""
    documents = [text for text in texts if _is_json(text)]
    own = _times(texts, read_result, rounds)
    found = {"p50_us": _at(own, 0.5), "p95_us": _at(own, 0.95), "max_us": own[-1], "n": len(texts)}
    found["times naive"] = found["p50_us"] / _at(_times(texts, NAIVE.search, rounds), 0.5)
    if documents:
        found["times json.loads (JSON only)"] = sum(_times(documents, read_result, rounds)) / sum(_times(documents, json.loads, rounds))
    return found


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def _times(texts: Sequence[str], call: Callable[[str], object], rounds: int) -> list[float]:
    best = [float("inf")] * len(texts)
    for _ in range(rounds):
        for i, text in enumerate(texts):
            started = time.perf_counter()
            call(text)
            best[i] = min(best[i], (time.perf_counter() - started) * 1e6)
    return sorted(best)


def _at(values: Sequence[float], quantile: float) -> float:
    return values[min(len(values) - 1, int(quantile * len(values)))]


def large_texts() -> dict[str, str]:
    """A megabyte each."""
    line = "2024-05-01 10:00:00 ERROR request failed: connection refused, timed out after 30 s\n"
    return {
        "log": line * (1_000_000 // len(line)),
        "prose": "The session of the user was not found. " * 25_000,
        "one letter": "E" * 1_000_000,
        "traceback": "Traceback (most recent call last):\n" + '  File "x.py", line 1, in f\n' * 37_000 + "ValueError: x",
        "JSON": json.dumps([{"id": i, "error": "timeout", "status": 500} for i in range(22_000)]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--texts", type=int, default=1500, help="ordinary texts of each source")
    parser.add_argument("--show", choices=("dev", "test"), help="print the texts of this split that are judged wrongly")
    options = parser.parse_args()
    rows = labelled()
    report: dict[str, Any] = {"seed": options.seed, "python": platform.python_version(), "labelled": {}}
    print(f"seed {options.seed}; baseline: the text contains error, exception, failed or timeout")
    for name, kept in _splits(rows):
        report["labelled"][name] = measure_labelled(kept)
        print_labelled(name, report["labelled"][name])
        if name.startswith(options.show or "-"):
            print("".join(f"    {row['id']}: {row['text'][:160]!r}\n" for row in kept if row["id"] in report["labelled"][name]["wrong"]))
    if TAU.exists():
        tau = report["trajectories"] = measure_trajectories()
        print(f"\ntau_airline, every tool result: n {tau['n']}, {tau['failures']} failures")
        for system in ("detector", "naive"):
            print(f"  {system:10}" + "   ".join(f"{key} {shown(figure)}" for key, figure in tau[system].items()))
    else:
        print(f"\nno {TAU}: trajectories not measured, and no passages among the ordinary content")
    report["ordinary"] = measure_ordinary(options.texts, options.seed)
    print("\nordinary content, false alarms:         detector                      naive")
    for name, pair in report["ordinary"].items():
        if pair["detector"]["hits"] or name == "all" or "files" in name:
            print(f"  {name:38}{shown(pair['detector']):30}{shown(pair['naive'])}")
    report["time"] = {"labelled": timed([row["text"] for row in rows])}
    report["time"] |= {f"1 MB, {name}": timed([text], 3) for name, text in large_texts().items()}
    print("\ntime a result")
    for name, figures in report["time"].items():
        print(f"  {name:20}" + "  ".join(f"{key} {value:.3g}" for key, value in figures.items()))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def _splits(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for split in ("test", "dev"):
        for captured in (False, True):
            kept = [row for row in rows if row["split"] == split and (row["kind"] == "captured") == captured]
            yield f"{split}, {'captured' if captured else 'written'}", kept


if __name__ == "__main__":
    main()
