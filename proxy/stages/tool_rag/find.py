"""The tool ``groundwire_find_tools``: its schema, what a model may write as its arguments, and what it is told. Pure functions, but for
`relevance_to`, which asks the ranker.

The schema names the number of all tools, not of those left out: that one changes as the set grows, and the tool stands first in
the prompt, so that a provider's cache would miss everything behind it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from proxy.exchange import Tool
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports import ToolRanker
from proxy.stages.tool_rag.selection import ToolCatalogue, best, name_of, words_of

FIND_TOOLS = "groundwire_find_tools"
_QUERY_CHARS = 1000
_CLOSE_NAMES = 5
_NAMES = re.compile(r"[A-Za-z0-9_.:/-]+")


def find_tools_tool(total: int) -> Tool:
    """The tool as the model sees it, for a client that offers `total` tools."""
    description = (
        f"Search all {total} tools of this application. To save space, only those that looked useful for this conversation are listed "
        "here; the others can be called too, once this tool has returned them. Call it when no listed tool can do the next step, and "
        "before you tell the user that something cannot be done. It returns the names, descriptions and parameters of matching tools."
    )
    query = {"type": "string", "description": "What the tool should do, in a few words, or a tool's exact name."}
    parameters = {"type": "object", "properties": {"query": query}, "required": ["query"], "additionalProperties": False}
    return {"type": "function", "function": {"name": FIND_TOOLS, "description": description, "parameters": parameters}}


def query_of(arguments: str) -> str:
    """What a call asks for; "" when it cannot be made out. Other names than ``query``, a list, and a bare string are understood."""
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return ""
    if isinstance(value, dict):
        value = next((value[name] for name in ("query", "queries", "q", "search", "text", "name") if value.get(name)), value)
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if isinstance(value, list):
        value = " ".join(item for item in value if isinstance(item, str))
    return value.strip()[:_QUERY_CHARS] if isinstance(value, str) else ""


async def relevance_to(query: str, catalogue: ToolCatalogue, ranker: ToolRanker, client: str) -> Sequence[float]:
    """Of each rankable tool; by the words it shares with `query` where the ranker has no answer."""
    ranking = await ranker.rank(catalogue.ranked_tools, query, client=client) if catalogue.rankable else None
    return ranking.relevance if ranking else await run_in_thread_if_large(LARGE, shared_words, catalogue, query)


def search(catalogue: ToolCatalogue, relevance: Sequence[float], query: str, least: float) -> list[str]:
    """Keys that match, the best first: those that `query` names exactly, then those of a relevance of at least `least`."""
    ranked = {catalogue.keys[i] for i in catalogue.rankable}
    named = [word for word in _NAMES.findall(query) if word in ranked]
    return list(dict.fromkeys((*named, *best(catalogue, relevance, len(catalogue.rankable), least))))


def close_names(catalogue: ToolCatalogue, relevance: Sequence[float], query: str) -> list[str]:
    """Names to try next when nothing matches: those that share most words with the query, then the least irrelevant."""
    wanted = set(words_of(query).split())
    shared = {catalogue.keys[i]: len(wanted & set(words_of(catalogue.keys[i]).split())) for i in catalogue.rankable}
    alike = sorted((key for key, words in shared.items() if words), key=lambda key: -shared[key])
    return list(dict.fromkeys((*alike, *best(catalogue, relevance, _CLOSE_NAMES))))[:_CLOSE_NAMES]


def shared_words(catalogue: ToolCatalogue, query: str) -> tuple[float, ...]:
    """Share of the query's words that stand in each rankable tool's name or description: a ranking that needs no model."""
    wanted = set(words_of(query).split())
    texts = (f"{name_of(tool)} {tool['function'].get('description')}" for tool in catalogue.ranked_tools)
    return tuple(len(wanted & set(words_of(text).split())) / max(1, len(wanted)) for text in texts)


def found_reply(tools: Sequence[Tool], listed: Sequence[str], more: int) -> str:
    """The result of a search: what was found, which matching tools the model can see already, and how many more match."""
    reply: dict[str, Any] = {"tools": [_description_of(tool["function"]) for tool in tools]}
    if listed:
        reply["already_listed"] = list(listed[:_CLOSE_NAMES])
    reply["more_matches"] = more
    reply["note"] = "You can call these tools now." if tools else "The matching tools are listed already: call them directly."
    return orjson.dumps(reply).decode()


def nothing_reply(names: Sequence[str], total: int) -> str:
    """When nothing matches."""
    note = f"None of the {total} tools matches. Search for one of the closest names, or in other words; if nothing fits, go on without."
    return orjson.dumps({"tools": [], "closest_names": list(names), "more_matches": 0, "note": note}).decode()


def invalid_reply() -> str:
    """When the call says nothing to search for."""
    return orjson.dumps(
        {"error": 'Expected arguments such as {"query": "send an e-mail"}: what the tool should do, in a few words.'}
    ).decode()


def _description_of(function: Mapping[str, Any]) -> dict[str, Any]:
    return {name: function[name] for name in ("name", "description", "parameters") if name in function}
