"""The two MCP servers of the agents' task: `tides`, a program that speaks over its standard streams, and `pilots`, for streamable HTTP.

The program imports nothing but the official package: some agents offer only the tools of servers that are up when the first turn begins.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

TIDES = (sys.executable, str(Path(__file__).resolve()))
"""The command that starts the program."""


def tides() -> MCPServer[Any]:
    """Called first."""
    server: MCPServer[Any] = MCPServer("tides", log_level="ERROR")

    @server.tool(structured_output=False)
    def tide_table(port: str) -> str:
        """When the water is high in a port."""
        return f"High water in {port} at 05:31 and 17:54."

    return server


def pilots() -> MCPServer[Any]:
    """Called late."""
    server: MCPServer[Any] = MCPServer("pilots", log_level="ERROR")

    @server.tool(structured_output=False)
    def order_pilot(ship: str) -> str:
        """Orders a pilot for a ship."""
        return f"For {ship} the pilot's order P-417 stands."

    return server


if __name__ == "__main__":
    tides().run()
