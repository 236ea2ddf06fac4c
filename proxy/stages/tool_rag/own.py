"""Which of a request's tools are the client's own, and which are added by tool servers. Pure functions over names and texts.

A coding agent's own tools (read, edit, shell) are needed for any task and seldom named in the question, so that a ranking by the
question misses them. They are known by what the names of tools say (`proxy.language.names`), by the built-in sets of well-known
agents (``agents.toml``), and by what the prompt and the conversation name.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct, convert

from proxy.exchange import Message
from proxy.language.names import is_marked_as_server, split_tool_name
from proxy.language.text import text_of
from proxy.offloop import each
from proxy.stages.tool_rag.selection import ToolCatalogue, is_no_ordinary_word, words_like_names, words_of

_MIN_BUILT_IN = 3
"""Built-in tools of one agent from which on a catalogue is taken for that agent's."""
_GROUP = 3
"""Tools that begin alike from which on the beginning is taken for a server's name, where the name itself does not say ``mcp``."""
_PARTS = re.compile(r"[./:]")
_QUOTED_NAME = re.compile(r"[`'\"“‘«]([A-Za-z0-9_.:/-]+)[`'\"”’»]", re.ASCII)


class Agent(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of ``agents.toml``."""

    tools: frozenset[str]
    servers: str = ""
    """``prefix``: a server's tools begin with its name and one underscore."""


class Ownership(Struct, frozen=True):
    """Of one request's tools."""

    own: frozenset[str]
    """Keys of tools that stay: the client's, and those that are named."""
    by_server: bool
    """Whether names tell servers' tools from the client's, so that all others are in `own`."""
    servers: Mapping[str, str]
    """Of the tools that servers add, by key."""
    by_agent: bool
    """Whether a well-known agent sends them. What is not in the list may be new in it."""


def ownership(catalogue: ToolCatalogue, messages: Sequence[Message], of_operator: Collection[str] = ()) -> Ownership:
    """In time linear in names and texts. Tools `of_operator` are servers', and say nothing of whose the client's are."""
    names = dict.fromkeys(key for i in catalogue.rankable if (key := catalogue.keys[i]) not in of_operator)
    built_in, prefixed = _built_in(names)
    servers = {name: split_tool_name(name)[0] for name in names}
    if prefixed:
        servers |= {name: _beginning(name) for name in _with_common_prefix(name for name in names if name not in built_in)}
    often = Counter(servers.values())
    added = {name for name in names if is_marked_as_server(name)}
    added = added or {name for name, server in servers.items() if server and often[server] >= _GROUP}
    clients = {servers[name] for name in built_in}
    added = {name for name in added if name not in built_in and servers[name] not in clients}
    spaces = any(tool.get("type") == "namespace" for tool in catalogue.tools)
    marked = any(map(is_marked_as_server, added)) or spaces
    by_server = not names or marked or 0 < len(added) < len(names)  # where each name has a server, the client's own may be among them
    own = names.keys() - added if by_server else built_in
    theirs = {name: servers[name] for name in names if by_server and name in added}
    theirs |= {name: split_tool_name(name)[0] for name in of_operator}
    return Ownership(frozenset(own | _mentioned_tools(dict.fromkeys((*names, *of_operator)), messages)), by_server, theirs, bool(built_in))


def of_servers_in(query: str, servers: Mapping[str, str]) -> set[str]:
    """Keys of the tools whose server the query names: all words of its name, in any order and case."""
    words = {*words_of(query).split(), *words_of(query.lower()).split()}  # "GitHub" is one word, too
    named = {server for server in set(servers.values()) if (parts := words_of(server).split()) and words.issuperset(parts)}
    return {key for key, server in servers.items() if server in named}


@cache
def agents() -> Mapping[str, Agent]:
    """Raises what reading and validating raises."""
    return convert(tomllib.loads(Path(__file__).with_name("agents.toml").read_text(encoding="utf-8")), dict[str, Agent])


def _built_in(names: Collection[str]) -> tuple[set[str], bool]:
    """Built-in tools of the agents that the names are of; whether one of these writes servers as a prefix."""
    known = [(agent, agent.tools & set(names)) for agent in agents().values()]
    known = [(agent, mine) for agent, mine in known if len(mine) >= _MIN_BUILT_IN]
    most = max((len(mine) for _, mine in known), default=0)
    prefixed = any(agent.servers == "prefix" for agent, mine in known if len(mine) == most)
    return {name for _, mine in known for name in mine}, prefixed


def _beginning(name: str) -> str:
    return name.partition("_")[0]


def _with_common_prefix(names: Iterator[str]) -> list[str]:
    """Those whose beginning is that of several."""
    joined = [name for name in names if "_" in name.strip("_")]
    often = Counter(map(_beginning, joined))
    return [name for name in joined if often[_beginning(name)] >= _GROUP]


def _mentioned_tools(names: Collection[str], messages: Sequence[Message]) -> set[str]:
    """Tools that the system's text names as whole words, or users and the assistant in a way that no ordinary sentence does.

    A server's tool counts by its own name too (``developer__text_editor`` as ``text_editor``).
    """
    called: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if (short := split_tool_name(name)[1]) != name:
            called[short].append(name)
    found: set[str] = set()
    for message in each(messages):
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant") or not (text := text_of(message.get("content"))):
            continue
        words = set(words_like_names(text))
        words.update(part for word in list(words) if _PARTS.search(word) for part in _PARTS.split(word))
        clear = {word for word in words if is_no_ordinary_word(word)} | set(_QUOTED_NAME.findall(text))
        found.update(word for word in (words if role in ("system", "developer") else clear) if word in names)
        found.update(name for word in clear if word in called for name in called[word])
    return found
