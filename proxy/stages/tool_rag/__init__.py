"""Tool selection: the few tools that a request needs, out of many. `stage` is the shell, the other modules are pure functions."""

from proxy.stages.tool_rag.selection import ToolRagOptions
from proxy.stages.tool_rag.stage import ToolRag

__all__ = ["ToolRag", "ToolRagOptions"]
