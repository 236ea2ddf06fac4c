"""Names of tools: which server a tool is of, as clients write it into the name. Pure functions.

Clients of several tool servers put the server in front: ``mcp__server__tool`` (Claude Code, Codex), ``mcp_server_tool`` (Gemini CLI,
VS Code), ``mcp--server--tool`` (Roo Code), ``<id>0mcp0tool`` (Cline), ``server__tool`` (goose), ``server.tool``, ``server/tool``.
"""

from __future__ import annotations

import re

_MARKED = re.compile(r"mcp(__|--|[_-])(?P<server>.+?)\1(?P<name>.+)|(?P<id>\w+?)0mcp0(?P<of_id>.+)", re.ASCII)
_SPACED = re.compile(r"(?P<server>.+?)(?:__|[./:])(?!v?[0-9]+$)(?P<name>.+)", re.ASCII)
"""What follows is no version, as in ``send.v2``."""


def split_tool_name(name: str) -> tuple[str, str]:
    """The server's name, "" where the tool's name has none, and the rest."""
    if found := _MARKED.fullmatch(name):
        return found["server"] or found["id"], found["name"] or found["of_id"]
    if found := _SPACED.fullmatch(name):
        return found["server"], found["name"]
    return "", name


def is_marked_as_server(name: str) -> bool:
    """Whether the name says itself that a tool server adds the tool (``mcp``)."""
    return _MARKED.fullmatch(name) is not None
