"""How often is the stage `clash` right when it does something? One row for each action: edit, note, ask. `make bench-clash`

    python -m benchmarks.clash_actions [--dev]

*written*: conversations of this project's own in four languages (`benchmarks/data/clash_certain.jsonl`), half of them with two statements
that certainly clash, half of them near misses. The rules were tuned on those marked ``dev``; the others were written afterwards, by the
same hand, counted, and not looked at one by one. *prosecco*, *daccord*, *decode*, *prefeval*, *citod*: each pair as two turns of one user,
none of them written for this stage; a pair that is said to contradict counts as right.

An action's precision is over everything it did in all of these; its interval is Wilson's, 95%. Recall is of the written ones alone: what
nobody said plainly of themselves is not meant to be acted on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks import clash_data as data
from benchmarks.load.statistics import wilson
from proxy.exchange import Exchange
from proxy.stages.clash import Clash, ClashOptions
from proxy.testing import make_exchange, make_ports

WRITTEN = Path(__file__).parent / "data" / "clash_certain.jsonl"
RESULTS = Path(__file__).parent / "results" / "clash_actions.json"
ACTIONS: Mapping[str, Mapping[str, str]] = {"edit": {"edits": "all"}, "note": {"edits": "memory"}, "ask": {"strategy": "ask_user"}}
"""By action the options under which it is taken."""


class Case(Struct, frozen=True):
    """A user's turns, and whether something in them certainly clashes."""

    data: str
    turns: tuple[str, ...]
    clashes: bool
    memory: str = ""
    kind: str = ""


def written(split: str) -> Iterator[Case]:
    """This project's own conversations of one split."""
    for line in WRITTEN.read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["split"] == split:
            yield Case("written", tuple(row["turns"]), row["certain"], row.get("memory", ""), f"{row['lang']} {row['kind']}")


def given() -> Iterator[Case]:
    """Pairs that others wrote, as turns of one user."""
    for name in ("prosecco", "daccord", "decode_pairs"):
        for row in data.rows(f"clash/{name}"):
            yield Case(name, (row["earlier"], row["later"]), row["contradicts"])
    for row in data.rows("clash/prefeval"):
        yield Case("prefeval", (row["preference"], row["option"]), row["violates"])
    for row in data.rows("clash/citod"):
        truth = row["contradicts_history"] or row["contradicts_query"]
        yield Case("citod", tuple(turn["content"] for turn in (*row["history"], {"content": row["statement"]})), truth)


async def does(stage: Clash, case: Case, number: int) -> str:
    """What the stage does at some turn: ``edit``, ``note``, ``ask`` or nothing."""
    messages: list[dict[str, Any]] = []
    if case.memory:
        messages.append({"role": "system", "content": f"Be helpful.\n\n## User memory\n{case.memory}\n"})
    for turn in case.turns:
        messages.append({"role": "user", "content": turn})
        exchange: Exchange = make_exchange(list(messages))
        exchange.id = exchange.run_id = f"gw_{number}"
        verdict = await stage.on_request(exchange)
        stage.release(exchange)
        if exchange.answer is not None:
            return "ask"
        codes = {one.code for one in (*exchange.verdicts, *([verdict] if verdict is not None else []))}
        if codes & {"clash_removed", "clash_noted"}:
            return "edit" if "clash_removed" in codes else "note"
        messages.append({"role": "assistant", "content": "Noted."})
    return ""


async def run(cases: Sequence[Case], options: Mapping[str, str]) -> list[str]:
    """What the stage does about each case."""
    stage = Clash(msgspec.convert(dict(options), ClashOptions), make_ports())
    return [await does(stage, case, number) for number, case in enumerate(cases)]


async def again(cases: Sequence[Case], noted: Sequence[str], options: Mapping[str, str]) -> list[str]:
    """The same under other options, of what was written and of what something was done about: the rest is as uncertain as before."""
    chosen = [i for i, case in enumerate(cases) if noted[i] or case.data == "written"]
    done = [""] * len(cases)
    for i, what in zip(chosen, await run([cases[i] for i in chosen], options), strict=True):
        done[i] = what
    return done


def figures(action: str, cases: Sequence[Case], done: Sequence[str], split: str) -> dict[str, Any]:
    """Precision over all that was done in this way, recall of the written ones in whatever way."""
    acted = [case for case, what in zip(cases, done, strict=True) if what == action]
    right = sum(case.clashes for case in acted)
    low, high = wilson(right, len(acted))
    mine = [what for case, what in zip(cases, done, strict=True) if case.data == "written" and case.clashes]
    names = ", ".join(dict.fromkeys("clash_certain " + split if case.data == "written" else case.data for case in cases))
    return {
        "stage": "clash",
        "action": action,
        "precision": right / len(acted) if acted else None,
        "low": low,
        "high": high,
        "n": len(acted),
        "recall": sum(map(bool, mine)) / len(mine) if mine else None,
        "data": names,
    }


def shown(action: str, cases: Sequence[Case], done: Sequence[str]) -> None:
    """By data set: what was done about what clashes, and about what does not."""
    for name in dict.fromkeys(case.data for case in cases):
        mine = [(case, what) for case, what in zip(cases, done, strict=True) if case.data == name]
        good, bad = [bool(what) for case, what in mine if case.clashes], [bool(what) for case, what in mine if not case.clashes]
        print(f"  {action:5}{name:14} clashing {sum(good):4} of {len(good):5}   not clashing {sum(bad):4} of {len(bad):5}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dev", action="store_true", help="the written conversations that rules may be tuned on, each miss shown")
    split = "dev" if parser.parse_args().dev else "held_out"
    cases = [*written(split), *(given() if split != "dev" and data.available() else ())]
    report = []
    noted = asyncio.run(run(cases, ACTIONS["note"]))
    for action, options in ACTIONS.items():
        done = noted if action == "note" else asyncio.run(again(cases, noted, options))
        shown(action, cases, done)
        report.append(figures(action, cases, done, split))
        if split == "dev":
            for case, what in zip(cases, done, strict=True):
                if bool(what) != case.clashes:
                    print(f"    {'missed' if case.clashes else 'FALSE '} {case.kind}: {case.memory!r} {case.turns}")
    for line in report:
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()})
    if split != "dev":
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
