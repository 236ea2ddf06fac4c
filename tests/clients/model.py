"""The model behind the providers of Responses and Messages: what it says or calls next, whatever the API that it is asked through."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.clients import tasks
from tests.clients.asked import Asked as Asked
from tests.clients.provider import CITIES, REPORT_JSON, TEXT

FILE = re.compile(r"/\S+/tides\.txt")
TIDE_TABLE = "the tide table"
"""A question for an MCP server's tool, which Claude Code offers only when the model has looked for it."""
TIME = re.compile(r"\b\d\d:\d\d\b")
SHELLS = ("exec_command", "shell", "shell_command")


Call = tuple[str, dict[str, Any]]


def next_step(asked: Asked) -> list[Call] | str:
    """Calls of tools, or the answer."""
    agents = tasks.step(asked.question, asked.tools, len(asked.results), asked.results)
    return agents if agents is not None else _calls(asked) or _text(asked)


def _calls(asked: Asked) -> list[Call]:
    handoffs = [name for name in asked.tools if name.startswith("transfer_to_") and name not in asked.called]
    if "get_weather" in asked.tools and "get_weather" not in asked.called:
        return [("get_weather", {"city": city}) for city in CITIES if city in asked.question]
    if handoffs:
        return [(handoffs[0], {})]
    if asked.called and asked.called[-1] != "ToolSearch":
        return []
    if TIDE_TABLE in asked.question:
        loaded = [name for name in asked.tools if name.endswith("tide_table")]
        return [(loaded[0], {"port": "Ada"})] if loaded else [("ToolSearch", {"query": "select:mcp__tides__tide_table", "max_results": 1})]
    file = FILE.search(asked.question)
    if file and "Read" in asked.tools:
        return [("Read", {"file_path": file[0]})]
    if file and "read_file" in asked.tools:
        return [("read_file", {"file_path": file[0]})]
    if file and (shell := next((name for name in SHELLS if name in asked.tools), None)):
        return [(shell, {"cmd": f"cat {file[0]}"} if shell == "exec_command" else {"command": f"cat {file[0]}"})]
    return []


def _text(asked: Asked) -> str:
    if "get_weather" in asked.called:
        said = " ".join(f"The tool said: {result}." for result in asked.results if "°C" in result)
        return REPORT_JSON if asked.wants_json else said
    if TIDE_TABLE in asked.question:
        return asked.results[-1].partition("\n")[0]
    if FILE.search(asked.question):
        times = [time for result in asked.results for time in TIME.findall(result)]
        return f"High water is at {times[0]}, the file says." if times else "The file says nothing of it."
    return REPORT_JSON if asked.wants_json else TEXT


def arguments_json(arguments: dict[str, Any]) -> str:
    """As the model writes them."""
    return json.dumps(arguments, ensure_ascii=False)
