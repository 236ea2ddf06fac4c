"""What an agent's long session costs at a provider that caches prompts, with and without Groundwire's policy `agent` in between.

    python -m benchmarks.provider_cache [--sessions N] [--policy agent] [--seed N] [--check]

20 sessions of four agents (``data/agent_tools``: their own tools, their system prompts, and those of three MCP servers), 20 to 200 turns
each: files read, searches, edits, test runs, made from parts by a seed. The client sends all of its history with every turn, as agents do.
The window is set so that the session passes 80% of it: half of the sessions end *within* it, at 85 to 100%; the others go *past* it, to 130
to 300%, and are priced without Groundwire as if the same model had a window without end. Each request goes through the running proxy; what
it forwards is what is billed.

A provider reads from its cache the longest beginning that one of the session's last three prompts has, tools first, then messages; the rest
is written. Prices are shares of the price of an input token: Anthropic 0.1 to read and 1.25 to write (5 minutes), the whole beginning,
https://platform.claude.com/docs/en/build-with-claude/prompt-caching; OpenAI reads from 1,024 tokens on, in steps of 128, for 0.1 to 0.5,
and writes at the price of input, https://developers.openai.com/api/docs/guides/prompt-caching (models before GPT-5.6). Nothing expires
between turns; answers cost the same either way and are left out; nobody reads the archive. *Ratio* is cost with Groundwire over cost
without. Writes ``results/provider_cache.json``. `GOAL` is what is wanted of the sum, and 1 of each session; with ``--check`` it ends with 1
where one of `LIMITS`, which hold today, is passed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct

from benchmarks.agent_tools import SERVERS, _servers, _tool
from benchmarks.agent_tools import rows as agent_rows
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.language.text import text_of
from proxy.models.tokens.counter import TiktokenCounter
from proxy.testing import ScriptedUpstream, completion, reply, serving

RESULTS = Path(__file__).parent / "results" / "provider_cache.json"
SEED = 35
MODEL = "gpt-4o"
GOAL = 0.80
LIMITS = {"Anthropic": (0.80, 1.08), "OpenAI, read at 0.1": (0.80, 1.08), "OpenAI, read at 0.5": (0.80, 1.00)}
"""Of the policy `agent`: the ratio of all sessions together, and of the dearest: where a machine is too busy to choose the
first turn's tools in time, that turn has them all, and a short session costs 7% more."""
RESERVE_TOKENS = 2048
"""Of the policy `agent`, for the answer."""
Message = dict[str, Any]
# fmt: off
_WORDS = (
    "cache", "session", "invoice", "ledger", "window", "parser", "token", "retry", "queue", "batch", "region", "tenant",
    "order", "stock", "price", "margin", "route", "worker", "shard", "index", "cursor", "offset", "header", "payload",
    "schema", "column", "filter", "bucket", "policy", "budget", "quota", "signal", "metric", "gauge", "trace", "span",
    "record", "verdict",
)
# fmt: on


class Price(Struct, frozen=True):
    """Shares of the price of an input token."""

    model: str
    """One of the bundled list with these prices: the policy goes by them."""
    read: float
    write: float
    least_tokens: int = 0
    step_tokens: int = 1

    def cost(self, total_tokens: int, cached_tokens: int) -> float:
        """Of one prompt, in input tokens."""
        cached = cached_tokens // self.step_tokens * self.step_tokens if total_tokens >= self.least_tokens else 0
        return cached * self.read + (total_tokens - cached) * self.write


PRICES: Mapping[str, Price] = {
    "Anthropic": Price("claude-sonnet-4-6", 0.1, 1.25),
    "OpenAI, read at 0.1": Price("gpt-5", 0.1, 1.0, 1024, 128),
    "OpenAI, read at 0.5": Price("gpt-4o", 0.5, 1.0, 1024, 128),
}


class Session(Struct, frozen=True):
    """One agent's run: the prompts of its turns are beginnings of `messages`."""

    name: str
    kind: str
    tools: list[Any]
    messages: list[Message]
    ends: list[int]
    """Where each turn's prompt ends."""
    window_tokens: int
    share: float
    """Of the window that its last prompt takes, without Groundwire."""


# ---- the sessions ----


def sessions(number: int, counted: Counted, seed: int = SEED) -> Iterator[Session]:
    """Made from parts by a seed."""
    source, servers = random.Random(seed), _servers()
    agents = agent_rows("agents.jsonl")[:4]
    for i in range(number):
        agent = agents[i % len(agents)]
        turns = int(20 * 10 ** ((i // 2) / max(1, number // 2 - 1)))
        chosen = source.sample([name for part in SERVERS.values() for name in part], 3)
        tools = [_tool(row["name"], row) for row in agent["tools"]]
        tools += [_tool(agent["style"].format(server=name, tool=row["name"]), row) for name in chosen for row in servers[name]]
        messages: list[Message] = [{"role": "system", "content": agent["system"]}]
        ends = []
        for turn in range(turns):
            if turn % source.randint(6, 12) == 0:
                messages.append({"role": "user", "content": _task(source)})
            ends.append(len(messages))
            messages += _step(source, agent["roles"], f"call_{i}_{turn}")
        kind = "within" if i % 2 == 0 else "past"
        share = source.uniform(0.85, 1.0) if kind == "within" else source.uniform(1.3, 3.0)
        used = counted.of(tools, messages[: ends[-1]])
        yield Session(f"{agent['agent']}-{turns}-{i}", kind, tools, messages, ends, int((used + RESERVE_TOKENS) / share), share)


def _task(source: random.Random) -> str:
    a, b, c = source.sample(_WORDS, 3)
    return f"Now make the {a} of the {b} use the {c}, adapt the callers and run the tests. Keep the public names as they are."


def _step(source: random.Random, roles: Mapping[str, str], call_id: str) -> list[Message]:
    """One call with its result: what agents do most, in their proportions."""
    what = source.choices(("read", "search", "shell", "edit"), (4, 2, 3, 3))[0]
    path = f"src/{source.choice(_WORDS)}/{source.choice(_WORDS)}.py"
    arguments: dict[str, Any] = {"path": path}
    if what == "read":
        result = "\n".join(f"{n:5}\t{_line(source)}" for n in range(1, source.randint(20, 90)))
    elif what == "search":
        arguments = {"pattern": source.choice(_WORDS)}
        found = (f"src/{source.choice(_WORDS)}.py:{source.randint(1, 400)}: {_line(source)}" for _ in range(source.randint(5, 30)))
        result = "\n".join(found)
    elif what == "shell":
        arguments = {"command": "pytest -q"}
        result = "\n".join(
            f"tests/test_{source.choice(_WORDS)}.py::test_{source.choice(_WORDS)} PASSED" for _ in range(source.randint(5, 40))
        )
        result += f"\n{source.randint(40, 90)} passed in {source.random() * 9:.2f}s"
    else:
        arguments |= {"old": _line(source), "new": "\n".join(_line(source) for _ in range(source.randint(2, 15)))}
        result = f"Edited {path}"
    call = {"id": call_id, "type": "function", "function": {"name": roles.get(what, what), "arguments": json.dumps(arguments)}}
    said = f"I'll look at the {source.choice(_WORDS)} next." if source.random() < 0.4 else None
    return [{"role": "assistant", "content": said, "tool_calls": [call]}, {"role": "tool", "tool_call_id": call_id, "content": result}]


def _line(source: random.Random) -> str:
    a, b, c, d = source.sample(_WORDS, 4)
    return f"    {a}_{b} = self.{c}.{source.choice(('get', 'load', 'find', 'merge'))}({d}, limit={source.randint(1, 999)})"


# ---- tokens ----


class Counted:
    """Tokens of prompts, part by part, each counted once."""

    def __init__(self) -> None:
        self._tokens, self._known = TiktokenCounter({}), dict[str, int]()

    def text(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = self._tokens.count_text(text, self._tokens.model(MODEL))
        return self._known[text]

    def of(self, tools: Sequence[Any], messages: Sequence[Any]) -> int:
        """Of a whole prompt."""
        return sum(map(self.text, parts_of(tools, messages)))

    def shared(self, one: Sequence[str], other: Sequence[str]) -> int:
        """Of the beginning that two prompts have in common, to the character."""
        total = 0
        for a, b in zip(one, other, strict=False):
            if a != b:
                same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
                return total + self.text(a[:same])
            total += self.text(a)
        return total


def parts_of(tools: Sequence[Any], messages: Sequence[Any]) -> list[str]:
    """A prompt in the order in which providers cache it."""
    said = [f"{m['role']}\n{text_of(m.get('content'))}\n{json.dumps(m['tool_calls']) if m.get('tool_calls') else ''}" for m in messages]
    return [json.dumps(list(tools)), *said]


class Bill(Struct):
    """What a session's prompts come to, in input tokens at full price, by prices."""

    sent: int = 0
    cached: int = 0
    cost: dict[str, float] = {}

    def add(self, total: int, cached: int) -> None:
        self.sent += total
        self.cached += cached
        for name, price in PRICES.items():
            self.cost[name] = self.cost.get(name, 0.0) + price.cost(total, cached)


def bill(prompts: Sequence[Sequence[str]], counted: Counted) -> Bill:
    """Each prompt read from what the last three left in the cache, as far as it begins alike."""
    found = Bill()
    for i, prompt in enumerate(prompts):
        cached = max((counted.shared(prompt, before) for before in prompts[max(0, i - 3) : i]), default=0)
        found.add(sum(map(counted.text, prompt)), cached)
    return found


# ---- through the proxy ----


async def replay(session: Session, policy: Path, model: str) -> list[list[str]]:
    """The prompts as the proxy forwards them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with ScriptedUpstream(reply(completion("On it."))) as upstream:
            (folder / "config.yaml").write_text(
                f"store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}\nlogging: {{level: error}}\n"
                f"upstreams: {{main: {{kind: openai, base_url: '{upstream.base_url}', api_key: sk-test, retries: {{attempts: 0}}}}}}\n"
                f"models: {{{model}: {{window: {session.window_tokens}, max_output_tokens: 2048, encoding: o200k_base}}}}\n"
                f"routes: [{{prefix: '', upstream: main, policy: '{policy}'}}]\n",
                encoding="utf-8",
            )
            app = App(load_settings(folder / "config.yaml", {}))
            found = []
            async with serving(app) as url, aiohttp.ClientSession() as client:
                for end in session.ends:
                    body = {"model": model, "messages": session.messages[:end], "tools": session.tools}
                    headers = {"authorization": "Bearer cache", "x-groundwire-run-id": session.name}
                    async with client.post(f"{url}/v1/chat/completions", json=body, headers=headers) as response:
                        if response.status != 200:
                            raise RuntimeError(f"{session.name}: {response.status} {(await response.text())[:300]}")
                    sent = upstream.calls[-1].json
                    found.append(parts_of(sent.get("tools", ()), sent["messages"]))
                    upstream.calls.clear()
            return found


def row_of(session: Session, without: Bill, with_it: Mapping[str, Bill]) -> dict[str, Any]:
    """One line of the table."""
    ratios = {name: round(with_it[name].cost[name] / without.cost[name], 3) for name in PRICES}
    return {
        "session": session.name,
        "kind": session.kind,
        "turns": len(session.ends),
        "tools": len(session.tools),
        "window": session.window_tokens,
        "share": round(session.share, 2),
        "sent": [without.sent, *(with_it[name].sent for name in PRICES)],
        "cached": [round(one.cached / one.sent, 3) for one in (without, *(with_it[name] for name in PRICES))],
        "cost": {name: [round(without.cost[name]), round(with_it[name].cost[name])] for name in PRICES},
        "ratio": ratios,
    }


def summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over all sessions, and of each kind: the ratio of the sums, the worst session, how many are dearer."""
    groups = {"all": found, **{kind: [row for row in found if row["kind"] == kind] for kind in ("within", "past")}}
    return {
        group: {
            name: {
                "ratio": round(sum(row["cost"][name][1] for row in some) / sum(row["cost"][name][0] for row in some), 3),
                "worst": max(row["ratio"][name] for row in some),
                "dearer": sum(row["ratio"][name] > 1 for row in some),
            }
            for name in PRICES
        }
        for group, some in groups.items()
        if some
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--policy", default="agent", help="a shipped policy's name, or a file")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sessions: another for what is chosen on them")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    shipped = Path(__file__).parent.parent / "policies" / f"{given.policy}.yaml"
    policy = shipped if shipped.exists() else Path(given.policy).resolve()
    counted, found = Counted(), []
    for session in sessions(given.sessions, counted, given.seed):
        plain = [parts_of(session.tools, session.messages[:end]) for end in session.ends]
        through = {name: bill(asyncio.run(replay(session, policy, price.model)), counted) for name, price in PRICES.items()}
        found.append(row_of(session, bill(plain, counted), through))
        print(json.dumps(found[-1]), flush=True)
    total = summary(found)
    print(json.dumps(total, indent=1))
    for name, one in total["all"].items():
        print(f"{name}: ratio {one['ratio']} (goal {GOAL}), dearest session {one['worst']}, {one['dearer']} of {len(found)} dearer")
    if policy == shipped and (given.sessions, given.seed) == (20, SEED):
        RESULTS.write_text(json.dumps({"seed": SEED, "summary": total, "sessions": found}, indent=1) + "\n", encoding="utf-8")
    over = [name for name, (ratio, worst) in LIMITS.items() if total["all"][name]["ratio"] > ratio or total["all"][name]["worst"] > worst]
    sys.exit(1 if given.check and over else 0)


if __name__ == "__main__":
    main()
