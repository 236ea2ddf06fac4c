"""``mcp:`` of config.yaml: servers whose tools a policy may offer (the stage `mcp`), and whether this one is an MCP server itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal
from urllib.parse import unquote_plus

from proxy.config.extras import missing
from proxy.config.sections import Positive, Seconds, Section

_SECRET_NAME = re.compile(r"key|token|secret|passw|auth|credential", re.I)
_MIN_SECRET_CHARS = 8
"""A shorter value is a word that ordinary text holds."""


class McpServerSettings(Section, frozen=True, kw_only=True):
    """``mcp.servers.NAME``: one that is reached by `url` (streamable HTTP), or a `command` that is started and spoken to over its pipes."""

    url: str = ""
    """Of a server that runs, as ``https://mcp.example.com/mcp``."""
    command: str = ""
    """A program that is a server; it ends with this one."""
    args: tuple[str, ...] = ()
    """Of the command."""
    env: Mapping[str, str] = {}
    """Variables of the command, beside HOME, PATH and their like: it gets nothing else of this process's environment."""
    headers: Mapping[str, str] = {}
    """For every request to the `url`, as a key."""
    timeout_s: Seconds = 30.0
    """Longest wait for a call's result."""
    max_result_bytes: Positive = 100_000
    """Of a result's text; what is longer is cut, and the model is told."""
    tools: tuple[str, ...] = ()
    """Names of the tools that may be offered; empty for all."""
    approve: Literal["changed", "all"] = "changed"
    """What a person must approve in quarantine first: what has ``changed`` since the server was first seen, or ``all``."""
    refresh_s: Seconds = 60.0
    """How often the tools are listed again, which also finds a server that has died."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must stand in no log, record or prompt, the longest first."""
        values = [part for value in self.headers.values() for part in (value, value.rpartition(" ")[2])]
        values += [value for name, value in self.env.items() if _SECRET_NAME.search(name)]
        query, login = self.url.partition("?")[2], self.url.partition("://")[2].rpartition("@")[0]
        named = [part.partition("=") for part in query.split("&")]
        parts = [login.partition(":")[2], *(value for name, _, value in named if _SECRET_NAME.search(name))]
        values += [query, login, *parts, *map(unquote_plus, parts)]
        return tuple(sorted({value for value in values if len(value) >= _MIN_SECRET_CHARS}, key=len, reverse=True))


class McpSettings(Section, frozen=True, kw_only=True):
    """``mcp:``"""

    servers: Mapping[str, McpServerSettings] = {}
    """By the name that stands in their tools' names: ``mcp__NAME__TOOL``."""
    endpoint: bool = False
    """Whether clients reach Groundwire's own tools at ``/mcp``, with their keys."""


def mcp_problems(settings: McpSettings) -> Iterator[tuple[str, str]]:
    """Path and problem of what no single field shows."""
    for name, server in settings.servers.items():
        path = f"mcp.servers.{name}"
        if not re.fullmatch(r"(?=.{1,24}$)[a-z0-9](?:-?[a-z0-9])*", name):
            yield path, f"expected a name of small letters, digits and hyphens, at most 24, as github-issues; got {name!r}"
        if bool(server.url) == bool(server.command):
            yield path, "expected a url (streamable HTTP), or a command that is started; one of them"
        if server.url and not re.match(r"https?://[^/\s]", server.url):
            yield f"{path}.url", "expected http://… or https://…"  # it may hold a key
        for field, other in (("args", "command"), ("env", "command"), ("headers", "url")):
            if getattr(server, field) and not getattr(server, other):
                yield f"{path}.{field}", f"is for a server with a {other}"
    if settings.servers and (problem := missing("the MCP client", "mcp", "mcp")):
        yield "mcp.servers", problem
