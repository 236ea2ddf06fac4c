"""Tools of MCP servers, as a stage offers and calls them. Part of `proxy.ports`; implemented in `proxy.upstreams.mcp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from proxy.exchange import Tool

PREFIX = "mcp__"
"""Of the names of servers' tools, as agents write them: ``mcp__SERVER__TOOL``."""


class ServerTool(Struct, frozen=True):
    """One tool that may be offered."""

    server: str
    """Of ``mcp.servers``."""
    name: str
    """As the server calls it."""
    tool: Tool
    """As the model sees it."""


class ServerResult(Struct, frozen=True):
    """What became of a call."""

    text: str
    """For the model: what the server gave, or what went wrong."""
    problem: str = ""
    """``tool_failed`` where the tool says so; ``server_away``, ``call_timeout`` or ``call_failed`` where the server gave no result."""


class ToolServers(Protocol):
    """The servers of config.yaml."""

    async def tools(self, servers: Sequence[str]) -> list[ServerTool]:
        """What may be offered of these servers now: always in the same order, without what is held for a person. Never raises."""

    async def call(self, server: str, name: str, arguments: Mapping[str, Any]) -> ServerResult:
        """Call a tool, as long as the server's settings allow. Never raises but for being cancelled."""


class NoServers:
    """Implements `ToolServers` where config.yaml has none."""

    async def tools(self, servers: Sequence[str]) -> list[ServerTool]:
        """None."""
        return []

    async def call(self, server: str, name: str, arguments: Mapping[str, Any]) -> ServerResult:
        """It cannot be."""
        return ServerResult(f"Error: there is no server {server}.", "server_away")
