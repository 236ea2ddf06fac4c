"""The first set of tools: does the stage `tool_rag`, as shipped, keep what a request needs among 45 tools, and what does it save?

``benchmarks/data/tool_families.jsonl``: three catalogues (a clinic, a warehouse, an office), each of 45 tools that share their objects
and their verbs, and fifteen requests to each, a third in German, which seldom use a tool's own words. They were written before the
ranking was looked at for this, and are not tuned on. `development` makes catalogues of 45 of what may be tuned on: the servers of
``training/tool_data``, and the training parts of ``../shared/data/tools``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from benchmarks.tool_data import SEED, Asked, catalogues, mcp_servers_to_train_on
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.tokens.counter import TiktokenCounter
from proxy.models.tools.ranker import EmbeddingToolRanker
from proxy.stages.tool_rag import ToolRag, ToolRagOptions
from proxy.testing import MemoryToolOutcomes, make_exchange, make_ports

FAMILIES = Path(__file__).parent / "data" / "tool_families.jsonl"
SIZE = 45
SHIPPED = {"above": 30, "top_k": 5, "min_relevance": 0.02, "max_tools": 20}
"""As the policies ``default`` and ``agent`` have it."""
Tools = Sequence[dict[str, Any]]


class FirstSet(Struct, frozen=True):
    """What one request was sent with."""

    kept: bool
    """Whether a tool for each step of it was there."""
    tools: int
    saved: float
    """Share of the descriptions' tokens that was not sent."""


def families() -> Iterator[tuple[str, Tools, list[Asked]]]:
    """Name, tools and requests of each catalogue."""
    rows = [json.loads(line) for line in FAMILIES.read_text(encoding="utf-8").splitlines()]
    for name in dict.fromkeys(row["catalogue"] for row in rows):
        mine = [row for row in rows if row["catalogue"] == name]
        asked = [Asked(row["query"], tuple(row["needed"])) for row in mine if "query" in row]
        yield name, [_tool(row) for row in mine if "tool" in row], asked


def development(each: int = 15, groups: int = 6) -> Iterator[tuple[str, Tools, list[Asked]]]:
    """Catalogues of `SIZE` tools with `each` requests, `groups` of each source."""
    random = np.random.default_rng(SEED)
    mcp = mcp_servers_to_train_on(prefixed=False)
    servers = [tool["function"]["name"] for tool in mcp.tools]
    for source in (mcp, *(c for c in catalogues() if c.name in ("metatool", "bfcl", "seal-tools"))):
        for group in range(groups):
            order = [int(i) for i in random.permutation(len(source.train))]
            asked = [source.train[i] for i in order[:each]]
            needed = [name for a in asked for name in a.needed]
            near = _neighbours(servers, needed) if source is mcp else []
            others = [source.names[i] for i in random.permutation(len(source.names))]
            chosen = set(list(dict.fromkeys((*needed, *near, *others)))[:SIZE])
            yield f"{source.name} {group}", [tool for tool in source.tools if tool["function"]["name"] in chosen], asked


def _neighbours(names: Sequence[str], needed: Sequence[str]) -> list[str]:
    """Those beside the needed ones: tools of the same server."""
    at = [names.index(name) for name in needed]
    return [names[i + step] for step in (1, -1, 2) for i in at if 0 <= i + step < len(names)]


def _tool(row: dict[str, Any]) -> dict[str, Any]:
    properties = {name: {"type": "string", "description": name.replace("_", " ")} for name in row["parameters"]}
    function = {"name": row["tool"], "description": row["description"], "parameters": {"type": "object", "properties": properties}}
    return {"type": "function", "function": function}


async def first_sets(
    tools: Tools, asked: Sequence[Asked], embedder: BatchingEmbedder, tokens: TiktokenCounter, **options: Any
) -> list[FirstSet]:
    """Each request on its own, in a run of its own, to a stage that knows the tools."""
    found = []
    ranker = EmbeddingToolRanker(embedder, MemoryToolOutcomes(), wait_s=120)
    for a in asked:
        ports = make_ports(ranker=ranker, tokens=tokens)
        exchange = make_exchange([{"role": "user", "content": a.text}], tools)
        verdict = await ToolRag(ToolRagOptions(**{**SHIPPED, **options}), ports).on_request(exchange)
        sent = {tool["function"]["name"] for tool in exchange.tools}
        steps = a.steps or tuple((name,) for name in a.needed)
        detail = verdict.detail if verdict is not None else {}
        before = detail["confusion"]["description_tokens"]
        after = detail["kept"]["description_tokens"] if "kept" in detail else before
        found.append(FirstSet(all(not sent.isdisjoint(step) for step in steps), len(sent), 1 - after / before))
    return found
