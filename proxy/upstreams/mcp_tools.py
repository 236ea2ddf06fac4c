"""The tools of all MCP servers, as far as they may be offered: what a server lists is offered while it is what was approved.

Approvals are items of the quarantine (client "", run ``mcp/SERVER``, policy ``mcp``), so that a person decides on them where on all
content. One item stands for a server as it was first seen, with the hash of every tool: decided by the policy (``approve: changed``), or
open (``all``). A tool whose name, description or schema is none of these has an item of its own and is held until a person approves it; so
has one whose texts hold instructions to the model. What holds in one worker holds in all, since the store is asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from proxy.config.mcp import McpServerSettings
from proxy.errors import StoreUnavailable
from proxy.ports import Quarantine, QuarantineItem
from proxy.ports.review import POLICY
from proxy.ports.tool_servers import PREFIX, ServerResult, ServerTool
from proxy.upstreams.mcp import McpConnection
from proxy.wire.bodies import object_of

if TYPE_CHECKING:
    from mcp.types import Tool as ListedTool

log = logging.getLogger("groundwire.mcp")

OWNER, RULES = "", "mcp"
"""Client and policy of its items: no client and no request has an empty name."""
AGAIN_S = 1.0
"""How old a look at the decisions may be."""
_NAME_CHARS = 64
"""Longest name of a tool at OpenAI's and Anthropic's APIs."""
MAX_PUT = 64
"""Tools of one server that a process puts into quarantine: one whose description never stays the same is not offered, and floods nobody."""
_MAX_QUOTED_CHARS = 400
"""Of a description, for the person who decides."""
MAX_DEFINITION_BYTES = 64_000
"""No model reads such a tool."""
_CHOICES = ("allOf", "anyOf", "oneOf")
_REFUSED_AT_TOP = frozenset((*_CHOICES, "enum", "not"))
"""Keys of a JSON Schema that OpenAI's or Anthropic's API refuses at the top of a tool's."""
_MAPS_OF_SCHEMAS, _LISTS_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions"), (*_CHOICES, "prefixItems")
Screen = Callable[[str], Sequence[str]]
"""Text -> why it may be an attack on the model that reads it; nothing where it is none."""


class Definition(Struct, frozen=True):
    """A tool as its server defines it."""

    tool: ServerTool
    hash: str
    content: bytes
    """All that it says of itself, as JSON."""


class _Server:
    """What is known of one."""

    def __init__(self, name: str, settings: McpServerSettings, listing: Callable[[_Server, Sequence[ListedTool]], Any]) -> None:
        self.run = f"mcp/{name}"
        self.hash = _hash([settings.url, settings.command, list(settings.args)])
        self.approve = settings.approve
        self.definitions: Sequence[Definition] = ()
        """As listed last."""
        self.approved: set[str] = set()
        """Hashes of those that may be offered."""
        self.put_count = 0
        """Tools that were put into quarantine since the process began."""
        self.looked_at = 0.0
        """When the decisions were last read."""
        self.too_long: list[str] = []
        """Names of tools that are left out for their length."""

        async def listed(tools: Sequence[ListedTool]) -> None:
            await listing(self, tools)

        self.connection = McpConnection(name, settings, listed)

    @property
    def allowed_definitions(self) -> list[Definition]:
        """The definitions of the allow list."""
        allowed_definitions = self.connection.settings.tools
        return [one for one in self.definitions if not allowed_definitions or one.tool.name in allowed_definitions]

    @property
    def offered_tools(self) -> list[ServerTool]:
        """What may be offered now."""
        return [one.tool for one in self.allowed_definitions if one.hash in self.approved]


class McpServers:
    """Implements `proxy.ports.tool_servers.ToolServers`."""

    def __init__(
        self,
        settings: Mapping[str, McpServerSettings],
        quarantine: Quarantine,
        screen: Screen,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quarantine, self._screen, self._clock = quarantine, screen, clock
        self._servers = {name: _Server(name, one, self._take_list) for name, one in settings.items()}

    def start(self) -> None:
        """Connect with all of them, in the background."""
        for server in self._servers.values():
            server.connection.start()

    async def stop(self) -> None:
        """End all connections and programs."""
        await asyncio.gather(*(server.connection.stop() for server in self._servers.values()))

    def away(self) -> dict[str, str]:
        """The servers that cannot be called now, and why."""
        return {name: problem for name, server in self._servers.items() if (problem := server.connection.problem)}

    def held_count(self) -> int:
        """Tools that are listed and not offered."""
        return sum(len(server.allowed_definitions) - len(server.offered_tools) for server in self._servers.values())

    async def tools(self, servers: Sequence[str]) -> list[ServerTool]:
        """As the port says; a decision counts within a second."""
        found: list[ServerTool] = []
        for name in servers:
            server = self._servers[name]
            if server.definitions and self._clock() - server.looked_at > AGAIN_S:
                await self._review(server)
            found += server.offered_tools
        return found

    async def call(self, server: str, name: str, arguments: Mapping[str, Any]) -> ServerResult:
        """As the port says."""
        return await self._servers[server].connection.call(name, arguments)

    async def _take_list(self, server: _Server, tools: Sequence[ListedTool]) -> None:
        """A server has told its tools."""
        defined = [_definition(server.connection.name, tool) for tool in tools]
        too_long = [one.tool.name for one in defined if len(one.content) > MAX_DEFINITION_BYTES]
        if too_long and too_long != server.too_long:
            log.warning("MCP server %s: %d definitions of tools are too long and left out", server.connection.name, len(too_long))
        server.too_long = too_long
        defined = [one for one in defined if len(one.content) <= MAX_DEFINITION_BYTES]
        server.definitions = tuple({one.hash: one for one in sorted(defined, key=lambda one: (one.tool.name, one.hash))}.values())
        await self._review(server)

    async def _review(self, server: _Server) -> None:
        """What may be offered by the decisions as they are; as before while the store is away, but for what is not listed any more."""
        server.looked_at = self._clock()
        try:
            server.approved = await self._approved_hashes(server)
        except StoreUnavailable as error:
            log.warning("MCP server %s: the quarantine cannot be asked: %s", server.connection.name, error)

    async def _approved_hashes(self, server: _Server) -> set[str]:
        """Hashes of the tools that may be offered; what is new to the quarantine is put there. Raises `StoreUnavailable`."""
        hashes = [server.hash, *(one.hash for one in server.definitions)]
        found = await self._quarantine.find(hashes, client=OWNER, run_id=server.run, policy=RULES)
        whole = found.get(server.hash)
        if whole is None:
            suspected = await asyncio.to_thread(self._suspicions, server.definitions)
            whole = await self._quarantine.put(_first_sight(server, [one for one in server.definitions if one.hash not in suspected]))
        first: Mapping[str, str] = whole.detail.get("tools") or {}
        said: Mapping[str, str] = whole.detail.get("descriptions") or {}
        seen = set(first.values())
        new = [one for one in server.allowed_definitions if one.hash not in seen and one.hash not in found][
            : max(0, MAX_PUT - server.put_count)
        ]
        suspected = await asyncio.to_thread(self._suspicions, new) if new else {}
        for one in new:
            server.put_count += 1
            found[one.hash] = await self._quarantine.put(_item(server, one, suspected.get(one.hash, ()), said.get(one.tool.name)))
            log.warning("MCP server %s: %s is held (%s)", server.connection.name, one.tool.name, found[one.hash].type)
        if new and server.put_count >= MAX_PUT:
            log.warning("MCP server %s: what else changes is not offered, and not held, until a restart", server.connection.name)
        decided = dict.fromkeys(seen, whole.status) | {hash_: item.status for hash_, item in found.items()}
        return {hash_ for hash_, status in decided.items() if status == "approved"}

    def _suspicions(self, definitions: Sequence[Definition]) -> dict[str, Sequence[str]]:
        """Why a tool's texts may be an attack, by hash."""
        return {one.hash: why for one in definitions if (why := self._screen(one.content.decode()))}


def offered_name(server: str, tool: str) -> str:
    """``mcp__SERVER__TOOL`` in the characters that the APIs take; a longer or changed one ends in a part of its hash."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", tool)
    name = f"{PREFIX}{server}__{plain}"
    if plain == tool and len(name) <= _NAME_CHARS:
        return name
    return f"{name[: _NAME_CHARS - 9]}_{_hash([server, tool])[:8]}"


def _definition(server: str, listed: ListedTool) -> Definition:
    said = listed.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    name = listed.name
    content = orjson.dumps(said, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    function = {
        "name": offered_name(server, name),
        "description": listed.description or listed.title or "",
        "parameters": accepted_schema(said["inputSchema"]) if len(content) <= MAX_DEFINITION_BYTES else {},
    }
    return Definition(ServerTool(server, name, {"type": "function", "function": function}), _hash(said), content)


def accepted_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool's input schema in the form that every API takes: one that OpenAI's or Anthropic's refuses fails the whole request.

    OpenAI's wants `properties` and what an array is of, and neither takes a choice between schemas at the top: their properties stand
    beside the schema's own, and which of them go together is the server's to say, which looks at each call itself.
    """
    completed = _completed(schema)
    if completed != schema:
        schema = completed
    own = object_of(schema.get("properties"))
    if own is schema.get("properties") and not _REFUSED_AT_TOP.intersection(schema):
        return schema
    found: dict[str, list[Any]] = {}
    for branch in (branch for key in _CHOICES if isinstance(schema.get(key), list) for branch in schema[key]):
        for name, one in object_of(_referred(branch, schema).get("properties")).items():
            found.setdefault(name, []).append(one)
    joined = {name: _any_of(ones) for name, ones in found.items()}
    kept = {key: value for key, value in schema.items() if key not in _REFUSED_AT_TOP}
    return {"type": "object", **kept, "properties": {**joined, **own}}


def _completed(schema: Any) -> Any:
    """A schema whose arrays say what they are of, in one schema; ``true``, which some servers of models fail on, as one that takes all."""
    if not isinstance(schema, Mapping):
        return {} if schema is True else schema
    made = dict(schema)
    for name, value in schema.items():
        if name in _MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            made[name] = {key: _completed(one) for key, one in value.items()}
        elif name in _LISTS_OF_SCHEMAS and isinstance(value, list):
            made[name] = [_completed(one) for one in value]
        elif name == "items":
            made[name] = _any_of([_completed(one) for one in value]) if isinstance(value, list) else _completed(value)
        elif name == "additionalProperties" and isinstance(value, Mapping):
            made[name] = _completed(value)
    kinds = schema.get("type")
    if "array" in (kinds if isinstance(kinds, list) else [kinds]):
        made.setdefault("items", {})
    return made


def _any_of(schemas: Sequence[Any]) -> Any:
    """One that takes what any of them does."""
    different = [one for i, one in enumerate(schemas) if one not in schemas[:i]]
    return {"anyOf": different} if len(different) > 1 else different[0] if different else {}


def _referred(branch: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """One of several schemas, which may stand among the definitions of the whole."""
    of, _, name = str(object_of(branch).get("$ref", "")).removeprefix("#/").partition("/")
    return object_of(object_of(schema.get(of)).get(name)) if name else object_of(branch)


def _hash(value: Any) -> str:
    """32 hexadecimal digits; white space counts."""
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def _first_sight(server: _Server, definitions: Sequence[Definition]) -> QuarantineItem:
    trusted = server.approve == "changed"
    names, name = {one.tool.name: one.hash for one in definitions}, server.connection.name
    descriptions = {one.tool.name: _description_of(one)[:_MAX_QUOTED_CHARS] for one in definitions}
    reason = f"{len(definitions)} tools of the MCP server {name} as it was first seen"
    return _quarantined(
        server,
        hash=server.hash,
        type="new_tool_server",
        reason=reason,
        content=b"[" + b",\n".join(one.content for one in definitions) + b"]",
        detail={"tools": names, "descriptions": descriptions},
        status="approved" if trusted else "pending",
        decided_by=POLICY if trusted else "",
        decision_reason="approve: changed" if trusted else "",
    )


def _description_of(one: Definition) -> str:
    return str(one.tool.tool["function"]["description"])


def _item(server: _Server, one: Definition, why: Sequence[str], before: str | None) -> QuarantineItem:
    """`before` is the description as it was first approved; None where the tool has not been seen."""
    changed, now = before is not None, _description_of(one)[:_MAX_QUOTED_CHARS]
    kind = "hidden_instruction" if why else "changed_tool" if changed else "new_tool"
    against = [{"text": now, "correct_fact": before, "source": "what was approved"}] if changed and now != before else []
    said = "its name, description or schema has changed since it was approved" if changed else "it has not been seen at this server before"
    reason = f"{one.tool.name}: {'; '.join((*why, said)) if why else said}"
    detail = {"tool": one.tool.name, "statements": against}
    return _quarantined(server, hash=one.hash, type=kind, reason=reason, content=one.content, detail=detail)


def _quarantined(server: _Server, **fields: Any) -> QuarantineItem:
    """Something of the server's tools, with the fields that only it has."""
    source = server.connection.name
    return QuarantineItem(client=OWNER, run_id=server.run, policy=RULES, kind="tool", role="", source=source, **fields)
