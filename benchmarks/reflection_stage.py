"""What does the stage `reflection` add to a request, in a run whose store holds very many failure records?

    python -m benchmarks.reflection_stage [--records N] [--turns N] [--seed N]

Data: an agent with 40 tools whose run has 10,000 active records (those of `benchmarks.reflection_store`), and conversations of 24 calls
that grow turn by turn, one call in five failing, each request bringing its whole history; of this seed. Measured is the stage's whole
`on_request`: reading the conversation, the store, choosing, counting tokens, putting the block into the prompt. Baseline: the same
conversations in the same process against a run with 10 records. Turns with a failure that is new write to the store; they are shown by
themselves. Goal: below 2 ms at the 95th percentile. Intervals are 95%, bootstrapped.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.reflection_store import BASELINE_RECORDS, RUN, TOOLS, Filled, filled, interval
from proxy.exchange import Exchange
from proxy.models.tokens.counter import TiktokenCounter
from proxy.stages.reflection import Reflection
from proxy.stages.reflection.stage import ReflectionOptions
from proxy.testing import make_exchange, make_ports

RESULTS = Path(__file__).parent / "results" / "reflection_stage.json"
GOAL_MS = 2.0
CALLS = 24
SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}, "page": {"type": "integer"}}}
OFFERED = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in TOOLS]
ERRORS = ("Error: timed out after 30 s", '{"status": 503, "error": "service unavailable"}', "Error: permission denied")


def conversation(source: random.Random, name: str) -> list[tuple[list[dict[str, Any]], bool]]:
    """The requests of one conversation, each with whether it brings a failure that is new."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": f"Find out {name}."}]
    requests = []
    for number in range(CALLS):
        tool, id_, failed = source.choice(TOOLS), f"call_{name}_{number}", source.random() < 0.2
        arguments = json.dumps({"query": f"part {number} of {name}", "limit": 50, "page": 1})
        call = {"id": id_, "type": "function", "function": {"name": tool, "arguments": arguments}}
        rows = json.dumps([{"id": source.randrange(10**9), "text": "A row of what was found. " * 8} for _ in range(10)])
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": id_, "content": source.choice(ERRORS) if failed else rows})
        requests.append((list(messages), failed))
    return requests


async def measured(run: Filled, stage: Reflection, messages: list[dict[str, Any]], number: int) -> tuple[float, Exchange]:
    """Milliseconds of one `on_request`."""
    exchange = make_exchange(messages, OFFERED)
    exchange.id, exchange.client, exchange.run_id = f"gw_{number}", RUN["client"], RUN["run_id"]
    started = time.perf_counter()
    await stage.on_request(exchange)
    ms = (time.perf_counter() - started) * 1e3
    stage.release(exchange)
    return ms, exchange


async def run(records: int, turns: int, seed: int) -> dict[str, list[float]]:
    """The samples, by run and by whether something new failed."""
    source, found, number = random.Random(seed), dict[str, list[float]](), 0
    counter = TiktokenCounter({})
    counter.load()
    told = 0
    async with filled(source, records) as many, filled(source, BASELINE_RECORDS) as few:
        sides = [
            (name, side, Reflection(ReflectionOptions(escalate_after=None), make_ports(failures=side.store, tokens=counter)))
            for name, side in (("large", many), ("small", few))
        ]
        while number < turns:
            for messages, new in conversation(source, f"task{number}"):
                for name, side, stage in sides if number % 2 else reversed(sides):
                    ms, exchange = await measured(side, stage, messages, number)
                    if number >= CALLS:  # the first conversation warms up
                        found.setdefault(f"{name} {'new' if new else 'known'}", []).append(ms)
                        found.setdefault(f"{name} all", []).append(ms)
                        told += int(exchange.facts.failures_injected or 0) if name == "large" else 0
                number += 1
    assert told, "nothing was told: there was nothing to measure"
    return found


def main() -> None:
    """Print the table and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = uvloop.run(run(options.records, options.turns, options.seed))
    print(f"on_request of the stage reflection: {options.records} records against {BASELINE_RECORDS}, seed {options.seed}")
    print(f"{'turns':24}{'n':>6}{'p50 ms':>9}{'95%':>14}{'p95 ms':>9}{'95%':>14}{'baseline p50':>14}{'p95':>7}")
    source, results = random.Random(options.seed), dict[str, Any]()
    for kind, words in (("all", "all"), ("known", "nothing new failed"), ("new", "a new failure")):
        values, base = found[f"large {kind}"], found[f"small {kind}"]
        p50, p95 = interval(values, source, 0.5), interval(values, source, 0.95)
        base50, base95 = interval(base, source, 0.5), interval(base, source, 0.95)
        results[kind] = {"n": len(values), "p50_ms": p50, "p95_ms": p95, "baseline_p50_ms": base50, "baseline_p95_ms": base95}
        line = f"{words:24}{len(values):6}{p50[0]:9.2f}{p50[1]:8.2f}-{p50[2]:<5.2f}{p95[0]:9.2f}{p95[1]:8.2f}-{p95[2]:<5.2f}"
        print(f"{line}{base50[0]:14.2f}{base95[0]:7.2f}")
    reached = results["all"]["p95_ms"][0]
    print(f"goal: below {GOAL_MS:g} ms at p95: {'met' if reached < GOAL_MS else 'missed'} ({reached:.2f} ms)")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"seed": options.seed, "records": options.records, "results": results}, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
