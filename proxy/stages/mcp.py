"""The stage `mcp`: offers the tools of MCP servers to any client's model, and answers their calls.

Stands first, so that budget and tool RAG see them. The client sees neither the tools nor their calls: one answer, whatever it took. What a
server gives comes from outside: the stages that look at results see it first (`Stage.on_tool_result`), and it is evidence of the answer.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Annotated

from msgspec import Meta

from proxy.context.archive import fitting
from proxy.exchange import Exchange, Request, ToolCall, Verdict, tool_name
from proxy.ports import Ports
from proxy.ports.stage import Positive, Stage, StageOptions, ToolFailed, can_answer_tools
from proxy.ports.tool_servers import ServerTool


class McpOptions(StageOptions, frozen=True, kw_only=True):
    """``mcp:``"""

    servers: Annotated[tuple[str, ...], Meta(description="servers of mcp.servers in config.yaml whose tools are offered")] = ()
    max_rounds: Annotated[
        Positive, Meta(description="how often the calls of one exchange are answered before the model is asked without these tools")
    ] = 12
    timeout_ms: Annotated[
        float, Meta(gt=0, description="longest wait for one call, in milliseconds; a server's own timeout_s is mostly less")
    ] = 600_000

    def __post_init__(self) -> None:
        if not self.servers:
            raise ValueError("servers: expected the names of one or more, as [github]")


class Mcp(Stage[McpOptions]):
    """Tools of the operator's servers, answered by the proxy."""

    name = "mcp"
    checks = False
    Options = McpOptions
    changes = ("tools",)
    reports = ("mcp_tool_failed", "mcp_server_away")
    counters = {
        "mcp.calls_count": "calls of tools of MCP servers",
        "mcp.failed_calls_count": "calls of tools of MCP servers that failed, timed out or met a server that is away",
    }
    results_from_outside = True

    def __init__(self, options: McpOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self.max_rounds = options.max_rounds
        self._tools_of_run: dict[str, dict[str, ServerTool]] = {}
        """By exchange and name."""

    @classmethod
    def tool_servers(cls, options: McpOptions) -> tuple[str, ...]:
        """As named."""
        return options.servers

    def needs_run_identity(self, request: Request) -> bool:
        """Tool RAG may remember which of its tools a run has."""
        return True

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Offer them behind the client's own. A client that brings a tool of the same name keeps its own."""
        if not can_answer_tools(exchange):
            return None
        found = await self.ports.tool_servers.tools(self.options.servers)
        taken = {tool_name(tool) for tool in exchange.original.tools}
        offered = {name: one for one in found if (name := tool_name(one.tool)) not in taken}
        if offered:
            self._tools_of_run[exchange.id] = offered
            exchange.server_tools = tuple(one.tool for one in offered.values())
            exchange.tools = (*exchange.tools, *exchange.server_tools)
            exchange.changes.append({"stage": self.name, "what": "offered tools", "tools": len(offered)})
        return None

    def answered_tools(self, exchange: Exchange) -> Collection[str]:
        """Those that were offered in this exchange."""
        return self._tools_of_run.get(exchange.id, {})

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        """Ask the server; what goes wrong is told to the model, which may go on without."""
        asked, started = self._tools_of_run[exchange.id][call.name], time.perf_counter()
        self.ports.counters.count("mcp.calls_count")
        result = await self.ports.tool_servers.call(asked.server, asked.name, call.parsed or {})
        took = {"server": asked.server, "tool": asked.name, "ms": round((time.perf_counter() - started) * 1000, 1)}
        exchange.changes.append(
            {"stage": self.name, "what": "called server", **took, **({"error": result.problem} if result.problem else {})}
        )
        if result.problem:
            self.ports.counters.count("mcp.failed_calls_count")
            code = "mcp_server_away" if result.problem == "server_away" else "mcp_tool_failed"
            exchange.verdicts.append(Verdict(self.name, "unchecked", code=code, detail={**took, "problem": result.problem}))
            raise ToolFailed(result.text, result.problem)
        return fitting(result.text, exchange)

    def release(self, exchange: Exchange) -> None:
        """Let go of what was offered."""
        self._tools_of_run.pop(exchange.id, None)
