"""What does a policy add to a plain chat? New words in every request, no passages, no tools.

    python -m benchmarks.plain_chat [--requests 300] [--policies default,rag] [--upstream-ms 50]

One server with a route for each shipped policy and one for an empty policy, a scripted upstream that takes a while, as a model does (with 0
it also shows what runs beside the call), one client that sends the same request to all of them in turn, in another order each time. Two
loads: one short question, and a conversation of 20 turns that grows. Prints by how many milliseconds the median and the 95th percentile are
later than under the empty policy, with bootstrap intervals, and writes ``results/plain_chat.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.testing import ReceivedCall, ScriptedReply, ScriptedUpstream, completion, reply, serving

POLICIES = Path(__file__).parent.parent / "policies"
RESULTS = Path(__file__).parent / "results" / "plain_chat.json"
SHIPPED = ("observe", "default", "agent", "rag", "strict")
GOAL_MS = 2.0
"""Of the default policy, 95th percentile."""
SEED = 5
RESAMPLES = 1000
WARM_UP = 10
_ROWS = (Path(__file__).parent / "data" / "tool_queries.jsonl").read_text("utf-8").splitlines()
QUERIES = [json.loads(row)[language] for row in _ROWS for language in ("en", "de", "es")]
Message = dict[str, Any]


def words(draw: random.Random, count: int) -> str:
    """About so many words, never the same twice: what people ask for, numbered."""
    said: list[str] = []
    while sum(sentence.count(" ") + 1 for sentence in said) < count:
        said.append(f"{draw.choice(QUERIES)} ({draw.randint(1, 99999)})")
    return " ".join(said)


def loads(requests: int) -> dict[str, list[list[Message]]]:
    """Requests by load, each new."""
    draw, turns = random.Random(SEED), 20
    growing: list[list[Message]] = []
    while len(growing) < requests:
        said: list[Message] = []
        for _ in range(turns):
            said = [*said, {"role": "user", "content": words(draw, 40)}]
            growing.append(said)
            said = [*said, {"role": "assistant", "content": words(draw, 40)}]
    single = [[{"role": "user", "content": words(draw, 40)}] for _ in range(requests)]
    return {"one question": single, "20 turns": growing[:requests]}


async def measure(policies: Sequence[str], requests: int, upstream_ms: float) -> dict[str, dict[str, list[float]]]:
    """Milliseconds that each request took, by load and policy (the empty one is "")."""
    with tempfile.TemporaryDirectory() as folder:
        config, empty = Path(folder) / "config.yaml", Path(folder) / "empty.yaml"
        empty.write_text("name: empty\ndelivery: tap\nstages: []\n")
        async with ScriptedUpstream(_answer(upstream_ms)) as upstream:
            routes = [{"prefix": f"/{name or 'empty'}", "upstream": "m", "policy": str(_file(name, empty))} for name in ("", *policies)]
            settings = {
                "store": {"url": f"sqlite+aiosqlite:///{folder}/store.db"},
                "upstreams": {"m": {"kind": "openai", "base_url": upstream.base_url, "api_key": "k"}},
                "routes": routes,
            }
            config.write_text(json.dumps(settings))
            async with serving(App(load_settings(config))) as url, aiohttp.ClientSession() as session:
                while (await _status(session, f"{url}/ready")) != 200:
                    await asyncio.sleep(0.1)
                return {name: await _load(session, url, policies, bodies) for name, bodies in loads(requests).items()}


async def _load(session: aiohttp.ClientSession, url: str, policies: Sequence[str], bodies: list[list[Message]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ("", *policies)}
    order, shuffled = list(times), random.Random(SEED)
    for i, messages in enumerate(bodies):
        shuffled.shuffle(order)
        for name in order:
            started = time.perf_counter()
            body = {"model": "gpt-4o", "messages": messages}
            async with session.post(f"{url}/{name or 'empty'}/v1/chat/completions", json=body) as response:
                await response.read()
            if i >= WARM_UP:
                times[name].append((time.perf_counter() - started) * 1000)
    return times


def _answer(after_ms: float) -> ScriptedReply:
    now = reply(completion("That is fine with me."))

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        await asyncio.sleep(after_ms / 1000)
        await now(writer, call)

    return write


async def _status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as response:
        return response.status


def _file(policy: str, empty: Path) -> Path:
    return POLICIES / f"{policy}.yaml" if policy else empty


def added(times: list[float], base: list[float], share: float) -> tuple[float, float, float]:
    """The percentile at `share` of `times`, less that of `base`, and the difference's 95% interval."""
    pairs, draw = list(zip(times, base, strict=True)), random.Random(SEED)

    def gap(some: Sequence[tuple[float, float]]) -> float:
        return _percentile([a for a, _ in some], share) - _percentile([b for _, b in some], share)

    found = sorted(gap(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return gap(pairs), found[int(0.025 * RESAMPLES)], found[int(0.975 * RESAMPLES)]


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def main() -> None:
    """Measure, print a table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--upstream-ms", type=float, default=50.0)
    parser.add_argument("--policies", default=",".join(SHIPPED))
    given = parser.parse_args()
    policies = given.policies.split(",")
    results: dict[str, Any] = {}
    for load, times in asyncio.run(measure(policies, given.requests, given.upstream_ms)).items():
        print(f"{load}: {_percentile(times[''], 0.5):.2f} ms (p95 {_percentile(times[''], 0.95):.2f}) under the empty policy; added:")
        for name in policies:
            p50, p95 = added(times[name], times[""], 0.5), added(times[name], times[""], 0.95)
            results[f"{load}, {name}"] = {"p50": p50, "p95": p95}
            goal = f" (goal {GOAL_MS:g})" if name == "default" and load == "one question" else ""
            print(f"  {name:8} p50 {_told(p50)} ms, p95 {_told(p95)} ms{goal}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def _told(figure: tuple[float, float, float]) -> str:
    return f"{figure[0]:.2f} [{figure[1]:.2f}, {figure[2]:.2f}]"


if __name__ == "__main__":
    main()
