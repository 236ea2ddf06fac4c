"""Does an agent stop repeating its failures? `make bench-reflection`

    python -m benchmarks.reflection [--runs N] [--seed N] [--trace KIND:SEED]

A simulated agent (`benchmarks.reflection_agent`) works on tasks that fail in eight ways (`benchmarks.reflection_ways`), on tasks with
results that only look like failures, and on tasks without any, through a real proxy with a store of its own, in three arms with the same
seeds: *without* the stage `reflection`, *with* it, and *naive*, where the client appends every error text so far to the system prompt.

How often the model heeds what it is told (`heed`) is an assumption, so several values are shown; with 0, only stopping can help. To the
naive peer the model is kind: any error text that it heeds tells it the right way. Questions of the proxy are answered by a simulated user.

*Repeats* are calls that fail as the same call failed before in the run (same tool and arguments; *by kind*: same tool and kind of error).
*Steps* are requests until all is done, the limit where it never is. *Worse* is a run that is not solved though it is without the stage, or
that takes more steps, or has more failures. *Due* is a question, or a stop, after one call failed three times with no progress in between.
*Prefix* is the share of a prompt with which the next one begins; *not cached* are the tokens after it. Intervals: 95%, bootstrap of paired
runs, each way by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from benchmarks.reflection_agent import Habits, Model, said
from benchmarks.reflection_ways import CLEAN, HARMLESS, KINDS, WAYS, make_task
from benchmarks.reflection_world import STEP_LIMIT, Agent, Reply, Run
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.exchange.answers import OutputRequirements
from proxy.models.tokens.counter import TiktokenCounter
from proxy.stages.reflection.wording import OPENING
from proxy.testing import ReceivedCall, ScriptedUpstream, reply, serving

RESULTS = Path(__file__).parent / "results" / "reflection.json"
HEEDS = (0.0, 0.5, 0.8, 1.0)
SHOWN = 0.8
"""The heed whose figures are shown by way."""
DRAWS = 1000
ALL, MOST = "all eight ways", "ways 1 to 7"
"""Way 8 fails until the step limit, so it weighs as much in sums as the others together."""
POLICIES = {
    "without": "name: without\ndelivery: tap\nstages: [budget: {}]\n",
    "with": "name: with\ndelivery: tap\nstages: [budget: {}, reflection: {top_k: 5, max_tokens: 200, escalate_after: 3}]\n",
}
Arm = tuple[str, float]
"""``without``, ``with`` or ``naive``, and heed."""
Runs = Mapping[tuple[str, int], Run]
"""By kind and seed."""


# ---- running ----


@dataclass
class Upstream:
    """The provider: every run's model answers the calls that come with the run's key."""

    tokens: TiktokenCounter
    agents: dict[str, tuple[Agent, Model]] = field(default_factory=dict)
    _before: dict[str, list[str]] = field(default_factory=dict)

    async def answer(self, writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        """A `proxy.testing.ScriptedReply`."""
        key = call.headers["authorization"].removeprefix("Bearer ")
        agent, model = self.agents[key]
        body = call.json
        await self._measure(key, agent.run, body)
        step = model.step(body["messages"], agent.truth)
        await reply(said(step, f"call_{agent.run.steps}"))(writer, call)

    async def _measure(self, key: str, run: Run, body: Mapping[str, Any]) -> None:
        use = await self.tokens.count_request(body["messages"], body["tools"], OutputRequirements(), self.tokens.model("gpt-4o"))
        run.tokens, run.prompts = run.tokens + use.used_tokens, run.prompts + 1
        block = str(body["messages"][-1].get("content", "")).partition(OPENING)[2]
        if block:
            run.told += block.count("\n- ")
            run.trace.append("   told:" + "; ".join(line for line in block.splitlines() if line.startswith("- ")))
        now = [json.dumps(body["tools"]), *(json.dumps(message) for message in body["messages"])]
        if before := self._before.get(key):
            same = shared(before, now)
            run.prefix.append(same / sum(map(len, before)))
            run.uncached.append(use.used_tokens * (1 - same / sum(map(len, now))))
        self._before[key] = now


def shared(before: Sequence[str], now: Sequence[str]) -> int:
    """With how many characters both begin."""
    same = 0
    for one, other in zip(before, now, strict=False):
        if one != other:
            return same + next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        same += len(one)
    return same


class Bench:
    """A running proxy with the scripted provider behind it."""

    def __init__(self, tokens: TiktokenCounter) -> None:
        self._upstream = Upstream(tokens)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Bench:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        provider = await self._stack.enter_async_context(ScriptedUpstream(self._upstream.answer))
        for name, text in POLICIES.items():
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        routes = ", ".join(f"{{prefix: /{name}, upstream: main, policy: {name}.yaml}}" for name in POLICIES)
        (folder / "config.yaml").write_text(
            f"store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}\n"
            f"upstreams: {{main: {{kind: openai, base_url: '{provider.base_url}', api_key: forward, retries: {{attempts: 0}}}}}}\n"
            f"routes: [{routes}]\n",
            encoding="utf-8",
        )
        self._app = App(load_settings(folder / "config.yaml", {}))
        self._url = await self._stack.enter_async_context(serving(self._app))
        self._session = await self._stack.enter_async_context(aiohttp.ClientSession())
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def run(self, kind: str, seed: int, arm: Arm) -> Run:
        """One run of the agent."""
        name, heed = arm
        task = make_task(kind, seed)
        agent = Agent(task, tells_errors=name == "naive")
        key = f"{name}/{heed}/{kind}/{seed}"
        self._upstream.agents[key] = agent, Model(task, Habits(heed=heed))
        url = f"{self._url}/{'with' if name == 'with' else 'without'}/v1/chat/completions"

        async def post(body: Mapping[str, Any]) -> Reply:
            async with self._session.post(url, json=body, headers={"authorization": f"Bearer {key}"}) as response:
                codes = response.headers.get("x-groundwire-warnings", "").split(",")
                unchecked = response.headers.get("x-groundwire-verdict") == "error"
                found = Reply(response.status, await response.json(), "human_asked" in codes, unchecked)
            await self._app.learning_tasks.stop()  # the next step comes when its tool has run: the proxy is done by then
            return found

        return await agent.work(post)


async def run_arm(arm: Arm, runs: int, seed: int) -> Runs:
    """Every kind of task, `runs` times, one after the other."""
    async with Bench(loaded()) as bench:
        return {(kind, number): await bench.run(kind, number, arm) for kind in KINDS for number in range(seed * 1000, seed * 1000 + runs)}


def in_process(arm: Arm, runs: int, seed: int) -> Runs:
    """`run_arm` in a process of its own."""
    return asyncio.run(run_arm(arm, runs, seed))


def loaded() -> TiktokenCounter:
    """The upstream's token counter: gpt-4o's o200k_base, exact."""
    tokens = TiktokenCounter({})
    tokens.load()
    return tokens


# ---- figures ----

Figure = tuple[float, float, float]
"""A value and its 95% interval."""


def differences(runs: Runs, base: Runs, kinds: Sequence[str], of: Callable[[Run], float], seed: int) -> dict[str, Figure]:
    """Means of `runs` and of `base`, the mean paired difference, and the reduction in percent of the sum; paired, each kind by itself."""
    source = np.random.default_rng(seed)
    sums, drawn, n = np.zeros(2), np.zeros((DRAWS, 2)), 0
    for kind in kinds:
        pairs = np.array([(of(runs[key]), of(base[key])) for key in base if key[0] == kind], np.float64)
        sums, n = sums + pairs.sum(axis=0), n + len(pairs)
        drawn += pairs[source.integers(0, len(pairs), (DRAWS, len(pairs)))].sum(axis=1)
    every = [_figures(*one, n) for one in drawn]
    found = {}
    for name, value in _figures(*sums, n).items():
        low, high = np.quantile([one[name] for one in every], (0.025, 0.975))
        found[name] = (float(value), float(low), float(high))
    return found


def _figures(mine: float, base: float, n: int) -> dict[str, float]:
    figures = {"mean": mine / n, "base": base / n, "difference": (mine - base) / n}
    return figures | {"reduction_percent": 100 * (1 - mine / base) if base else 0.0, "ratio": mine / base if base else 1.0}


def worse(run: Run, base: Run) -> list[str]:
    """In which ways `run` is worse than `base`."""
    found = ["not solved"] if base.solved and not run.solved else []
    found += ["more steps"] if run.steps_to_success > base.steps_to_success and "not solved" not in found else []
    return found + (["more failures"] if run.failures > base.failures else [])


def compared(runs: Runs, base: Runs, kinds: Sequence[str], seed: int) -> dict[str, Any]:
    """All figures of an arm beside the one without the stage."""
    keys = [key for key in base if key[0] in kinds]
    mine = [runs[key] for key in keys]
    bad = {f"{kind}:{number}": found for kind, number in keys if (found := worse(runs[kind, number], base[kind, number]))}
    counts: dict[str, Callable[[Run], float]] = {
        "repeats": lambda run: run.repeats,
        "repeats_by_kind": lambda run: run.repeats_by_kind,
        "failures": lambda run: run.failures,
        "steps": lambda run: run.steps_to_success,
        "tokens": lambda run: run.tokens,
    }
    return {
        "n": len(keys),
        **{name: differences(runs, base, kinds, of, seed) for name, of in counts.items()},
        "solved": sum(run.solved for run in mine),
        "solved_without": sum(base[key].solved for key in keys),
        "questions": sum(len(run.questions) for run in mine),
        "questions_due": sum(sum(run.questions) for run in mine),
        "stops": sum(run.stopped for run in mine),
        "stops_due": sum(run.stop_due for run in mine),
        "asked_by_model": sum(run.asked for run in mine),
        "lines_told_per_prompt": sum(run.told for run in mine) / max(1, sum(run.prompts for run in mine)),
        "tokens_per_prompt": sum(run.tokens for run in mine) / max(1, sum(run.prompts for run in mine)),
        "prefix": float(np.mean([share for run in mine for share in run.prefix] or [1.0])),
        "uncached_tokens_per_prompt": float(np.mean([tokens for run in mine for tokens in run.uncached] or [0.0])),
        "unchecked": sum(run.unchecked for run in mine),
        "worse": len(bad),
        "worse_how": {how: sum(how in found for found in bad.values()) for how in ("not solved", "more steps", "more failures")},
        "worse_runs": bad,
    }


# ---- tables ----


def shown(figure: Figure, digits: int = 1) -> str:
    value, low, high = figure
    return f"{value:.{digits}f} [{low:.{digits}f} {high:.{digits}f}]"


def row(name: str, found: Mapping[str, Any]) -> str:
    repeats, steps = found["repeats"], found["steps"]
    how = "/".join(str(count) for count in found["worse_how"].values())
    return (
        f"{name:24}{repeats['base'][0]:7.2f}{repeats['mean'][0]:7.2f}  {shown(repeats['reduction_percent'], 0):>16}"
        f"{shown(found['repeats_by_kind']['reduction_percent'], 0):>16}  {steps['base'][0]:5.1f} {shown(steps['difference']):>18}"
        f"{found['solved_without']:5}->{found['solved']:<4}{found['tokens']['ratio'][0]:7.2f}{found['questions_due']:5}/"
        f"{found['questions']:<4}{found['stops_due']:4}/{found['stops']:<4}{found['worse']:4}/{found['n']:<4} {how}"
    )


HEAD = (
    f"{'':24}{'repeats per run':>14}  {'fewer, %':>16}{'by kind, %':>16}  {'steps':>5} {'difference':>18}{'solved':>11}{'tokens':>7}"
    f"{'asked':>10}{'stopped':>9}{'worse':>9}\n{'':24}{'without':>7}{'with':>7}{'':69}{'':11}{'ratio':>7}{'due/all':>10}{'due/all':>9}"
    f"{'':9} not solved/steps/failures"
)


def report_arm(name: str, runs: Runs, base: Runs, seed: int) -> dict[str, Any]:
    """The figures of one arm: all ways, each of them, look-alikes, clean runs."""
    groups = {ALL: WAYS, MOST: WAYS[:7], **{kind: (kind,) for kind in KINDS}}
    return {group: compared(runs, base, kinds, seed) for group, kinds in groups.items()} | {"arm": name}


def print_groups(title: str, found: Mapping[str, Any], groups: Sequence[str]) -> None:
    print(f"\n{title}\n{HEAD}")
    for group in groups:
        print(row(group, found[group]))


def measure(runs: int, seed: int, processes: int) -> dict[str, Any]:
    """Run all arms, print the tables."""
    habits = {name: value for name, value in asdict(Habits()).items() if name != "heed"}
    print(f"n {runs} runs a way, seed {seed}, at most {STEP_LIMIT} steps; assumed of the model: {habits}, heed as shown")
    arms: list[Arm] = [("without", 0.0), *((arm, heed) for arm in ("with", "naive") for heed in HEEDS)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        done = dict(zip(arms, pool.map(in_process, arms, repeat(runs), repeat(seed)), strict=True))
    base = done["without", 0.0]
    report: dict[str, Any] = {"runs": runs, "seed": seed, "habits": habits, "heed": list(HEEDS), "with": {}, "naive": {}}
    report["without"] = compared(base, base, WAYS, seed)
    for arm in ("with", "naive"):
        report[arm] = {str(heed): report_arm(arm, done[arm, heed], base, seed) for heed in HEEDS}
        print(f"\nall eight ways, arm {arm}, by heed\n{HEAD}")
        for heed in HEEDS:
            print(row(f"heed {heed:g}", report[arm][str(heed)][ALL]))
        for heed in HEEDS:
            print(row(f"heed {heed:g}, {MOST}", report[arm][str(heed)][MOST]))
    shown_by_way = report["with"][str(SHOWN)]
    print_groups(f"by way, with, heed {SHOWN:g}", shown_by_way, WAYS)
    print_groups(f"nothing to be learned, with, heed {SHOWN:g}", shown_by_way, (HARMLESS, CLEAN))
    print_prompts(report)
    return report


def print_prompts(report: Mapping[str, Any]) -> None:
    print(f"\nprompts, all eight ways, heed {SHOWN:g}")
    arms = {"without": report["without"], **{arm: report[arm][str(SHOWN)][ALL] for arm in ("with", "naive")}}
    names = {
        "tokens_per_prompt": "tokens",
        "uncached_tokens_per_prompt": "not cached",
        "prefix": "prefix",
        "lines_told_per_prompt": "lines",
    }
    print(f"{'':10}" + "".join(f"{name:>12}" for name in names.values()))
    for arm, found in arms.items():
        print(f"{arm:10}" + "".join(f"{found[name]:12.{0 if 'tokens' in name else 3}f}" for name in names))
    unchecked = sum(report["with"][heed][group]["unchecked"] for heed in report["with"] for group in (ALL, HARMLESS, CLEAN))
    print(f"requests that the stage could not check, all arms: {unchecked}")


async def trace(kind: str, number: int, heed: float) -> None:
    """Print one run, in all arms."""
    kind = next(one for one in KINDS if one.startswith(kind))
    async with Bench(loaded()) as bench:
        for name in ("without", "with", "naive"):
            run = await bench.run(kind, number, (name, heed))
            print(f"\n{name}: solved {run.solved}, steps {run.steps}, failures {run.failures}, repeats {run.repeats}")
            print("\n".join(run.trace))


def main() -> None:
    """Print the tables and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="of each way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--trace", help="KIND:SEED (as worse_runs in the JSON has them): print that run instead")
    parser.add_argument("--heed", type=float, default=SHOWN, help="with --trace")
    options = parser.parse_args()
    if options.trace:
        kind, _, number = options.trace.rpartition(":")
        asyncio.run(trace(kind, int(number), options.heed))
        return
    started = time.monotonic()
    report = measure(options.runs, options.seed, options.processes)
    print(f"\n{time.monotonic() - started:.0f} s")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
