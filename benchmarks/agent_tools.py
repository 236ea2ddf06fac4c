"""Does the stage `tool_rag`, as shipped, leave a coding agent its own tools, and the tool of a server that a request needs?

    python -m benchmarks.agent_tools [--unknown] [--show]

``benchmarks/data/agent_tools``: six agents with their built-in tools (real names, our descriptions; a few of a newer version than the
product knows) and a system prompt in their manner, written for this; tools of ten servers, five written for this and five out of
``mcp_tools.jsonl.gz``; sixty requests in four languages, of which fourteen follow up on an earlier one ("continue"). Half of the agents, of
the servers and of the requests is *development*, the other half *measured*: nothing was chosen on it. Each request goes to every agent of
its half with the tools of one to four servers, named as that agent names them.

*Own withheld* counts requests that lack any of the agent's own tools, *needed* those that have a tool for each thing that they need;
*shrunk* are follow-ups with fewer tools than the run had. `--unknown` takes the list of well-known agents away.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.tool_data import MCP_TOOLS, OWN
from benchmarks.tool_families import SHIPPED
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.tokens.counter import TiktokenCounter
from proxy.models.tools.ranker import EmbeddingToolRanker
from proxy.ports import Ports
from proxy.stages.tool_rag import ToolRag, ToolRagOptions
from proxy.testing import MemoryToolOutcomes, MemoryToolRuns, make_exchange, make_ports

DATA = Path(__file__).parent / "data" / "agent_tools"
RESULTS = Path(__file__).parent / "results" / "agent_tools.json"
SERVERS = {
    "development": ("github", "slack", "sentry", "kubernetes", "filesystem"),
    "measured": ("playwright", "jira", "postgres", "notion", "git"),
}
Row = dict[str, Any]
Tool = dict[str, Any]


class Case(Struct, frozen=True):
    """One request to one agent."""

    agent: Row
    request: Row
    tools: list[Tool]
    own: frozenset[str]
    servers: int

    def name(self, need: str) -> str:
        """``github/create_issue``, or ``own/edit``, as the agent calls it."""
        server, _, tool = need.partition("/")
        return str(self.agent["roles"][tool]) if server == "own" else str(self.agent["style"].format(server=server, tool=tool))

    def met(self, sent: set[str]) -> bool:
        """Whether there is a tool for each thing that the request needs."""
        return all(any(self.name(one) in sent for one in need.split("|")) for need in self.request["needed"])


class Outcome(Struct, frozen=True):
    """What the stage did with a case."""

    case: Case
    withheld: frozenset[str]
    """Of the agent's own tools."""
    met: bool
    shrunk: bool
    tokens: int
    """Of all descriptions."""
    sent_tokens: int


def rows(file: str) -> list[Row]:
    return [json.loads(line) for line in (DATA / file).read_text(encoding="utf-8").splitlines()]


def cases(part: str) -> Iterator[Case]:
    """Every request of a half to every agent of it."""
    servers = _servers()
    for at, agent in enumerate(agent for agent in rows("agents.jsonl") if agent["part"] == part):
        own = [_tool(row["name"], row) for row in agent["tools"]]
        for number, request in enumerate(row for row in rows("requests.jsonl") if row["part"] == part):
            needs = [one for need in (*request["needed"], *request.get("before", {}).get("called", ())) for one in need.split("|")]
            chosen = {need.partition("/")[0]: None for need in needs if not need.startswith("own/")}
            others = SERVERS[part][number % 5 :] + SERVERS[part][: number % 5]
            chosen = dict.fromkeys([*chosen, *others][: max(len(chosen), 1 + (number + at) % 4)])
            added = [_tool(agent["style"].format(server=s, tool=row["name"]), row) for s in chosen for row in servers[s]]
            yield Case(agent, request, own + added, frozenset(row["name"] for row in agent["tools"]), len(chosen))


def _servers() -> dict[str, list[Row]]:
    found = defaultdict(list)
    with gzip.open(OWN.parent / MCP_TOOLS, "rt", encoding="utf-8") as lines:
        for row in [*map(json.loads, lines), *rows("servers.jsonl")]:
            found[row["server"]].append(row)
    return found


def _tool(name: str, row: Row) -> Tool:
    given = row["parameters"]
    schema = {"type": "object", "properties": {p: {"type": "string"} for p in given}} if isinstance(given, list) else given
    return {"type": "function", "function": {"name": name, "description": row["description"], "parameters": schema}}


def conversation(case: Case) -> list[Row]:
    """The messages that the stage sees; those of the request before first."""
    system, before = {"role": "system", "content": case.agent["system"]}, case.request.get("before")
    if before is None:
        return [system, {"role": "user", "content": case.request["text"]}]
    calls = [
        {"id": f"call_{i}", "type": "function", "function": {"name": case.name(n), "arguments": "{}"}}
        for i, n in enumerate(before["called"])
    ]
    return [
        system,
        {"role": "user", "content": before["text"]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls),
        {"role": "assistant", "content": before["answer"]},
        {"role": "user", "content": case.request["text"]},
    ]


async def outcome(case: Case, ports: Ports, **options: Any) -> Outcome:
    """In a run of its own."""
    stage, messages = ToolRag(ToolRagOptions(**{**SHIPPED, **options}), ports), conversation(case)
    earlier = await _sent(stage, messages[:2], case.tools) if "before" in case.request else set()
    exchange = make_exchange(messages, case.tools)
    verdict = await stage.on_request(exchange)
    sent = {tool["function"]["name"] for tool in exchange.tools}
    detail = verdict.detail if verdict is not None else {}
    tokens = detail["confusion"]["description_tokens"] if detail else 0
    kept = detail["kept"]["description_tokens"] if "kept" in detail else tokens
    return Outcome(case, case.own - sent, case.met(sent), not earlier <= sent, tokens, kept)


async def _sent(stage: ToolRag, messages: Sequence[Row], tools: Sequence[Tool]) -> set[str]:
    exchange = make_exchange(messages, tools)
    await stage.on_request(exchange)
    return {tool["function"]["name"] for tool in exchange.tools}


async def outcomes(part: str, ranker: Any, tokens: Any) -> list[Outcome]:
    return [await outcome(case, make_ports(ranker=ranker, tokens=tokens, tool_runs=MemoryToolRuns())) for case in cases(part)]


def figures(found: Sequence[Outcome]) -> Row:
    first, follow = [o for o in found if "before" not in o.case.request], [o for o in found if "before" in o.case.request]
    of_servers = [o for o in first if any(not need.startswith("own/") for need in o.case.request["needed"])]
    tokens, sent = sum(o.tokens for o in found), sum(o.sent_tokens for o in found)
    return {
        "requests": len(found),
        "own withheld": sum(bool(o.withheld) for o in found),
        "needed, first turn": f"{sum(o.met for o in first)}/{len(first)}",
        "of a server": f"{sum(o.met for o in of_servers)}/{len(of_servers)}",
        "needed, follow-up": f"{sum(o.met for o in follow)}/{len(follow)}",
        "shrunk": sum(o.shrunk for o in follow),
        "tokens": tokens,
        "saved": round(1 - sent / max(1, tokens), 3),
    }


async def measured(*, show: bool) -> Row:
    embedder, tokens = BatchingEmbedder(UseEncoder()), TiktokenCounter({})
    tokens.load()
    report = {}
    for part in SERVERS:
        found = await outcomes(part, EmbeddingToolRanker(embedder, MemoryToolOutcomes(), wait_s=120), tokens)
        groups = {
            agent: [o for o in found if o.case.agent["agent"] == agent] for agent in dict.fromkeys(o.case.agent["agent"] for o in found)
        }
        report[part] = {name: figures(group) for name, group in [*groups.items(), ("all", found)]}
        for name, values in report[part].items():
            print(f"{part:12s}{name:13s}" + ", ".join(f"{k} {v}" for k, v in values.items()))
        for o in found if show else ():
            if o.withheld or not o.met or o.shrunk:
                lacks = "shrunk " * o.shrunk + ("" if o.met else "lacks what it needs ") + ", ".join(sorted(o.withheld))
                text = o.case.request["text"][:70]
                print(f"  {o.case.agent['agent']}, {len(o.case.tools)} tools, {o.case.servers} servers: {text!r}: {lacks}")
    embedder.stop()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unknown", action="store_true", help="without the list of well-known agents")
    parser.add_argument("--show", action="store_true", help="the requests that lack something")
    options = parser.parse_args()
    if options.unknown:
        from proxy.stages.tool_rag import own

        own.agents = dict  # type: ignore[assignment]
    report = asyncio.run(measured(show=options.show))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
