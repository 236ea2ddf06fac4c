"""How long after the judge's own time does the first sentence leave? Under gate, where a sentence waits for its judgement.

    python -m benchmarks.judge_latency [--delay-ms 150] [--n 40]

Streamed answers of `benchmarks.promise_data` go through `rag` with `claims: {action: redact}`, without a judge and with one that takes
`delay-ms` (`benchmarks.promise_oracle`). The clock runs from the request to the first characters of the answer, and the scripted model
answers at once; *beyond the judge* is that time less the judge's, where it was asked. Each conversation is new; whichever kind comes first
also has the built-in model read the pair, so the order goes round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from benchmarks.dialects import answers
from benchmarks.load.report import print_table
from benchmarks.load.statistics import percentile
from benchmarks.promise_data import Pair, pairs
from benchmarks.promise_oracle import Oracle, replying, with_judge
from benchmarks.promise_replay import POLICIES
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.testing import ScriptedUpstream, completion, reply, serving, stream

KINDS = ("none", "chat unsure", "chat all", "decisions all")
GOAL_MS = 40.0


def _name(kind: str) -> str:
    return kind.replace(" ", "-")


@asynccontextmanager
async def running(oracle: Oracle) -> AsyncIterator[tuple[ScriptedUpstream, str]]:
    """The proxy with a route for each kind of judge."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = (POLICIES / "rag.yaml").read_text("utf-8").replace("claims: {action: annotate", "claims: {action: redact")
        chat, decisions = replying(oracle, "chat"), replying(oracle, "decisions")
        async with ScriptedUpstream(reply(completion())) as upstream, ScriptedUpstream(chat) as one, ScriptedUpstream(decisions) as other:
            for kind in KINDS:
                of, _, ask = kind.partition(" ")
                made = text if of == "none" else with_judge(text, of, ask)  # type: ignore[arg-type]
                made = made.replace("upstream: oracle", f"upstream: {of}")
                (folder / f"{_name(kind)}.yaml").write_text(made, encoding="utf-8")
            settings = {
                "store": {"url": f"sqlite+aiosqlite:///{folder}/store.db"},
                "logging": {"level": "error"},
                "upstreams": {
                    "main": {"kind": "openai", "base_url": upstream.base_url, "api_key": "sk-test"},
                    "chat": {"kind": "openai", "base_url": one.base_url, "api_key": "sk-test"},
                    "decisions": {"kind": "openai", "base_url": other.base_url, "api_key": "sk-test", "decisions": {"shape": "openai"}},
                },
                "routes": [
                    {"prefix": f"/{kind.replace(' ', '-')}", "upstream": "main", "policy": f"{kind.replace(' ', '-')}.yaml"}
                    for kind in KINDS
                ],
            }
            (folder / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
            async with serving(App(load_settings(folder / "config.yaml", {}))) as url:
                yield upstream, url


async def first_ms(session: aiohttp.ClientSession, url: str, pair: Pair, client: str) -> float:
    """Until the first characters of the answer."""
    body = {**pair._chat(), "stream": True}
    if pair.where == "hint":
        body["groundwire"] = {"context": pair.passages}
    started = time.perf_counter()
    async with session.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {client}"}) as response:
        async for line in response.content:
            if b'"content":"' in line and b'"content":""' not in line:
                ms = (time.perf_counter() - started) * 1000
                await response.read()
                return ms
    return float("nan")


async def measured(delay_s: float, n: int) -> dict[str, list[tuple[float, bool]]]:
    """By kind: milliseconds, and whether the judge was asked before the first characters left."""
    oracle = Oracle(delay_s=delay_s)
    chosen = [pair for pair in pairs() if pair.language in ("en", "de", "es", "fr") and pair.where != "tool"][: n + 2]
    found: dict[str, list[tuple[float, bool]]] = {kind: [] for kind in KINDS}
    async with running(oracle) as (upstream, url), aiohttp.ClientSession() as session:
        async with asyncio.timeout(120):
            while (await session.get(f"{url}/ready")).status != 200:
                await asyncio.sleep(0.1)
        for i, pair in enumerate(chosen):
            for kind in (*KINDS[i % len(KINDS) :], *KINDS[: i % len(KINDS)]):
                oracle.about(pair, pair.right)
                _, events = answers([pair.right])["chat"]
                upstream.say(stream(events))
                ms = await first_ms(session, f"{url}/{_name(kind)}", pair, f"{kind}-{i}")
                if i >= 2 and ms == ms:  # the first two read what is read once
                    found[kind].append((ms, bool(oracle.asked)))
    return found


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=150.0)
    parser.add_argument("--n", type=int, default=40)
    given = parser.parse_args()
    rows = []
    for kind, times in asyncio.run(measured(given.delay_ms / 1000, given.n)).items():
        waited = [ms for ms, asked in times if asked or kind == "none"]
        beyond = [ms - (0.0 if kind == "none" else given.delay_ms) for ms in waited]
        cells = [f"{percentile(beyond, share):.0f}" for share in (0.5, 0.95)] if beyond else ["-", "-"]
        rows.append([kind, str(len(times)), str(len(waited)), *cells])
    print_table(
        f"first sentence under gate, the judge takes {given.delay_ms:g} ms (goal: {GOAL_MS:g} ms beyond it)",
        ["judge", "answers", "asked", "p50 ms beyond the judge", "p95"],
        rows,
    )


if __name__ == "__main__":
    main()
