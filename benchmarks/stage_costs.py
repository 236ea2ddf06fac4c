"""What does a turn with new content cost, stage by stage? No text comes twice: what the caches save on a repeated body is not in it.

    python -m benchmarks.stage_costs [--quick] [--only plain,passages] [--policies default,rag] [--seed N]

The whole application in this process, asked as a server would ask it, with an upstream out of memory that takes 50 ms to its first byte.
Loads (`benchmarks.stage_costs_texts`): a short question; a conversation of 60 turns, first and with one more turn each; ten passages of 200
words; 500 tools, first and asked again; five sentences of answer over 1,000 tokens of passages, whole and streamed; 50,000 tokens.
Under each policy its own texts, interleaved with those of the empty policy: *added* is the difference of the percentiles; *CPU*, of all
threads, tells what they cost where other work holds the clock's time up. The stages' own milliseconds are those that the record tells of;
what only tells runs beside the call, so that it adds less than it takes.

*Bare* is what the models' inference takes alone for such texts, with nothing around it: below it no arrangement can come. Goals are
those of two idle cores, at the 95th percentile. Writes results/stage_costs.json.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.load.statistics import percentile
from benchmarks.stage_costs_bare import bare
from benchmarks.stage_costs_texts import Message, Texts
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.exchange import Exchange
from proxy.pipeline import Pipeline
from proxy.ports.upstream import Call
from proxy.testing import chunk, completion
from tests.memory_upstream import MemoryReply, MemoryUpstream

RESULTS = Path(__file__).parent / "results" / "stage_costs.json"
SHIPPED = Path(__file__).parent.parent / "policies"
POLICIES = ("default", "agent", "rag", "strict")
ANSWERS = ("default", "rag", "strict")
EMPTY = "empty"
UPSTREAM_S, SENTENCE_S = 0.05, 0.12
GOALS_MS = {"tool_rag": 10.0, "relevance": 40.0, "validation": 40.0, "claims": 100.0, "clash": 20.0, "reflection": 2.0}
OTHER_MS, PLAIN_MS, SENTENCE_MS = 2.0, 1.0, 40.0
PLAIN, FIRST_60, NEXT_60 = "plain chat turn", "60 turns, first", "60 turns, one more"
PASSAGES, FIRST_TOOLS, LATER_TOOLS = "ten new passages", "500 tools, first", "500 tools, later"
WHOLE, STREAMED, LONG = "answer of five sentences", "the same, streamed", "50,000 tokens"
ROUNDS = {PLAIN: 150, FIRST_60: 15, NEXT_60: 40, PASSAGES: 30, FIRST_TOOLS: 5, LATER_TOOLS: 40, WHOLE: 30, STREAMED: 25, LONG: 8}
Body = dict[str, Any]
Send = Callable[[Mapping[str, Any]], Any]


class Writing(MemoryUpstream):
    """Takes its time before its first byte, and before each further sentence; notes when it had written each."""

    def __init__(self) -> None:
        super().__init__(pauses=False, keeps=False)
        self.written: list[float] = []

    async def send(self, call: Call) -> MemoryReply:
        """The pieces as they are now."""
        await asyncio.sleep(UPSTREAM_S)
        self.written = []
        return _Reply(self)


class _Reply(MemoryReply):
    def __init__(self, upstream: Writing) -> None:
        super().__init__(upstream.kind, upstream.pieces, pauses=False)
        self._upstream = upstream

    async def chunks(self) -> AsyncIterator[bytes]:
        """A sentence with the next one's first word, then the pause in which the rest of that is written."""
        for piece in self._pieces:
            self._upstream.written.append(time.perf_counter())
            yield piece
            await asyncio.sleep(SENTENCE_S)


class Bench:
    """The application with a route for each policy, and what its stages took."""

    def __init__(self, folder: Path, policies: Sequence[str]) -> None:
        (folder / "empty.yaml").write_text(f"name: {EMPTY}\ndelivery: tap\nstages: []\n", encoding="utf-8")
        files = {EMPTY: "empty.yaml"} | {name: str(SHIPPED / f"{name}.yaml") for name in policies}
        settings = {
            "store": {"url": f"sqlite+aiosqlite:///{folder}/store.db"},
            "upstreams": {"main": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "retries": {"attempts": 0}}},
            "routes": [{"prefix": f"/{name}", "upstream": "main", "policy": file} for name, file in files.items()],
        }
        (folder / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
        self.upstream = Writing()
        self.app = App(load_settings(folder / "config.yaml", {}), make=lambda name, given: self.upstream)
        self.stages: dict[str, float] = {}
        for route in self.app.routes:
            self._listen(route.default.pipeline)

    def _listen(self, pipeline: Pipeline) -> None:
        release = pipeline.release

        def noted(exchange: Exchange) -> None:
            for key, ms in exchange.timings.items():
                stage, _, hook = key.partition(".")
                if hook:  # the others are not a stage's
                    self.stages[stage] = self.stages.get(stage, 0.0) + ms
            release(exchange)

        pipeline.release = noted  # type: ignore[method-assign]

    async def start(self) -> None:
        """With all models read."""
        await self.app.start()
        await self.app.models.load()
        await self.app.verifiers.load()
        while self.app.missing():
            await asyncio.sleep(0.05)

    async def ask(self, policy: str, body: Body, said: Sequence[str]) -> tuple[float, float]:
        """Milliseconds of an answer, of a streamed one those between the writing of its first sentence and its arrival; and of CPU."""
        self.stages = {}
        sent = json.dumps({"model": "gpt-4o", **body}).encode()
        self.upstream.kind = "text/event-stream" if body.get("stream") else "application/json"
        self.upstream.pieces = _events(said) if body.get("stream") else [json.dumps(completion(" ".join(said))).encode()]
        got: list[tuple[float, bytes]] = []

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and message["status"] not in (200, 400):
                raise RuntimeError(f"{policy}: {message['status']}")
            got.append((time.perf_counter(), message.get("body", b"")))

        began, busy = time.perf_counter(), time.process_time()
        await self.app(_scope(policy, len(sent)), _receiver(sent), send)
        taken = (got[-1][0] if not body.get("stream") else began) - began
        if body.get("stream"):
            taken = _arrival(got, said[0]) - self.upstream.written[0]
        await asyncio.sleep(0.003)  # what is done after an answer has left is not the next one's
        return taken * 1000, (time.process_time() - busy) * 1000


def _events(said: Sequence[str]) -> list[bytes]:
    """Each sentence with the first word of the next."""
    words = [sentence.split(" ", 1) for sentence in said]
    parts = [f"{rest} {following[0]} " for (_, rest), following in zip(words, [*words[1:], [""]], strict=True)]
    parts[0] = f"{words[0][0]} {parts[0]}"
    return [*(chunk({"content": part}) for part in parts), chunk({}, "stop") + b"data: [DONE]\n\n"]


def _arrival(got: Sequence[tuple[float, bytes]], sentence: str) -> float:
    """When the last word of `sentence` had left."""
    text, wanted = "", sentence.rstrip(".")
    for at, data in got:
        for line in data.split(b"\n\n"):
            if line.startswith(b"data: {"):
                delta = next(iter(json.loads(line[6:]).get("choices", ())), {}).get("delta", {})
                text += delta.get("content") or ""
        if wanted in text:
            return at
    raise RuntimeError(f"the sentence never came: {sentence!r}")


def _scope(policy: str, length: int) -> dict[str, Any]:
    path = f"/{policy}/v1/chat/completions"
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"%d" % length)]
    here = {"scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers, "method": "POST"}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
        **here,
    }


def _receiver(sent: bytes) -> Callable[[], Any]:
    waiting: list[Mapping[str, Any]] = [{"type": "http.request", "body": sent, "more_body": False}]

    async def receive() -> Mapping[str, Any]:
        return waiting.pop() if waiting else await asyncio.get_running_loop().create_future()

    return receive


# ---- loads ----


class Loads:
    """The next request of each load under one policy, with what the model says to it."""

    def __init__(self, seed: str) -> None:
        self.texts = Texts(seed)
        self._turns: list[Message] = []
        self._tools: list[dict[str, Any]] = []

    def next(self, load: str) -> tuple[Body, list[str]]:
        """A body and the answer's sentences."""
        texts, said = self.texts, ["That is noted, and the office will see to it."]
        if load == PLAIN:
            return {"messages": [user(f"{texts.question()} {texts.talk(25)}")]}, said
        if load == FIRST_60:
            self._turns = texts.turns(60)
            return {"messages": [*self._turns, user(texts.question())]}, said
        if load == NEXT_60:
            self._turns = [*(self._turns or texts.turns(60)), *texts.turns(1)]
            return {"messages": [*self._turns, user(texts.question())]}, said
        if load == LONG:
            return {"messages": [*texts.turns(45, 450), user(texts.question())]}, said
        if load in (FIRST_TOOLS, LATER_TOOLS):
            if load == FIRST_TOOLS or not self._tools:
                self._tools = texts.tools(500)
            return {"messages": [user(texts.errand())], "tools": self._tools}, said
        place, passages, facts = texts.passages(*((10, 200) if load == PASSAGES else (5, 150)))
        context = [{"content": text, "source": f"records {i}"} for i, text in enumerate(passages)]
        body = {"messages": [user(texts.question(place))], "groundwire": {"context": context}}
        return body | ({"stream": True} if load == STREAMED else {}), said if load == PASSAGES else texts.answer(facts)


def user(text: str) -> Message:
    """The user's message."""
    return {"role": "user", "content": text}


def applies(load: str, policy: str) -> bool:
    """Sentences leave one by one under gate delivery alone; tools are selected where a policy says so."""
    if load == STREAMED:
        return policy == "rag"
    if load in (FIRST_TOOLS, LATER_TOOLS):
        return policy in ("default", "agent")
    return load != WHOLE or policy in ANSWERS


async def measure(bench: Bench, loads: Sequence[str], policies: Sequence[str], given: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each load and policy."""
    rows = []
    for load in loads:
        names = [EMPTY, *(name for name in policies if applies(load, name))]
        made = {name: Loads(f"{given.seed} {load} {name}") for name in names}
        times: dict[str, list[tuple[float, float]]] = defaultdict(list)
        stages: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in names}
        rounds = max(3, ROUNDS[load] // (5 if given.quick else 1))
        for number in range(-2, rounds):
            for name in names:
                body, said = made[name].next(load)
                gc.collect(0)
                taken = await bench.ask(name, body, said)
                if load == LATER_TOOLS and number == -2:
                    await asyncio.sleep(given.index_s)
                if load == FIRST_TOOLS:
                    await asyncio.sleep(given.index_s / 2)  # the index is made beside later requests, not beside this one
                if number >= 0:
                    times[name].append(taken)
                    for stage, ms in bench.stages.items():
                        stages[name][stage].append(ms)
        rows += [_row(load, name, times[name], times[EMPTY], stages[name]) for name in names if name != EMPTY]
        for row in rows[-(len(names) - 1) :]:
            show(row)
    return rows


Times = list[tuple[float, float]]


def _row(load: str, policy: str, times: Times, base: Times, stages: Mapping[str, list[float]]) -> dict[str, Any]:
    def quantile(of: Times, share: float, which: int) -> float:
        return percentile([one[which] for one in of], share)

    added = {f"added_p{n}_ms": round(quantile(times, n / 100, 0) - quantile(base, n / 100, 0), 2) for n in (50, 95)}
    added["added_cpu_p50_ms"] = round(quantile(times, 0.5, 1) - quantile(base, 0.5, 1), 2)
    took = {
        name: {"p50_ms": round(percentile(each, 0.5), 2), "p95_ms": round(percentile(each, 0.95), 2), "goal_ms": goal(load, name)}
        for name, each in stages.items()
    }
    wanted = PLAIN_MS if (load, policy) == (PLAIN, "default") else SENTENCE_MS if load == STREAMED else None
    return {"load": load, "policy": policy, "n": len(times), **added, "goal_ms": wanted, "stages": took}


def goal(load: str, stage: str) -> float | None:
    """Of a stage's own time, at the 95th percentile; none for the sum over an answer's sentences."""
    return None if load == STREAMED and stage == "claims" else GOALS_MS.get(stage, OTHER_MS)


def show(row: Mapping[str, Any]) -> None:
    """A line of the table: what is above its goal is marked."""

    def told(p50: float, p95: float, wanted: float | None) -> str:
        return f"{p50:.1f}/{p95:.1f}" + ("" if wanted is None else f"{'!' if p95 > wanted else ''}({wanted:g})")

    slow = {name: one for name, one in row["stages"].items() if one["p95_ms"] >= 0.5}
    parts = "  ".join(f"{name} {told(one['p50_ms'], one['p95_ms'], one['goal_ms'])}" for name, one in slow.items())
    whole = told(row["added_p50_ms"], row["added_p95_ms"], row["goal_ms"])
    print(f"{row['load']:26}{row['policy']:9}{row['n']:4}{row['added_cpu_p50_ms']:8.1f}  {whole:22}{parts}", flush=True)


async def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure, print, and give what is written."""
    loads = [load for load in ROUNDS if not given.only or any(part in load for part in given.only.split(","))]
    policies = given.policies.split(",")
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    inference = bare(given.seed)
    print("bare inference, CPU of one thread: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in inference.items()))
    print(
        f"\n{'load':26}{'policy':9}{'n':>4}{'CPU p50':>8}  {'added p50/p95 (goal)':22}stages of 0.5 ms and more: p50/p95 (goal), ! above it"
    )
    with tempfile.TemporaryDirectory(prefix="stage-costs-") as folder:
        bench = Bench(Path(folder), policies)
        await bench.start()
        rows = await measure(bench, loads, policies, given)
        await bench.app.stop()
    return {"seed": given.seed, "cores": os.cpu_count(), "python": platform.python_version(), "bare_ms": inference, "rows": rows}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds")
    parser.add_argument("--only", default="", help="loads whose name has one of these words, with commas between")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--seed", default="1")
    parser.add_argument("--index-s", type=float, default=4.0, help="pause in which an index of 500 tools is made")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    found = uvloop.run(run(given))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
