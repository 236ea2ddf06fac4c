"""Agents of the command line, unchanged but for their base URL: Codex, Claude Code and Gemini CLI answer a question from a file that they must read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.conftest import (
    CODEX,
    COMMANDS,
    GEMINI_ROUTES,
    KEY,
    MESSAGES_ROUTES,
    RESPONSES_ROUTES,
    Proxy,
    node,
    run_agent,
    use_api_key,
)
from tests.clients.harbour_servers import TIDES
from tests.clients.model import TIDE_TABLE

pytestmark = pytest.mark.clients
ANSWER = "High water is at 11:42, the file says."
"""What the provider says when the file's content has come to it."""


@pytest.fixture(params=RESPONSES_ROUTES)
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def question(tmp_path: Path) -> str:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work/tides.txt"
    file.write_text("High water in the harbour: 11:42.\n", encoding="utf-8")
    return f"When is high water? It stands in {file}"


def test_codex(proxy: Proxy, address: str, policy: str, question: str, tmp_path: Path) -> None:
    node("@openai/codex")
    command = [COMMANDS / "codex", *CODEX, "-c", f"openai_base_url={address}/{policy}/v1", question]
    said = [json.loads(line) for line in run_agent(tmp_path, *command, CODEX_API_KEY=KEY).splitlines()]
    items = [event["item"] for event in said if event["type"] == "item.completed"]
    (ran,) = (item for item in items if item["type"] == "command_execution")
    assert (0, ANSWER) == (ran["exit_code"], items[-1]["text"])
    assert proxy.provider.calls[-1].body.startswith(b'{"stream":true,')  # the proxy's: no message has it, and over HTTP it comes last


@pytest.mark.parametrize("route", [*MESSAGES_ROUTES, "gemini-default"])
def test_claude_code(address: str, route: str, question: str, tmp_path: Path) -> None:
    node("@anthropic-ai/claude-code")
    model = "claude-sonnet-4-6" if route in MESSAGES_ROUTES else "gemini-3-pro"
    options = ["--model", model, "--allowedTools", "Read", "--output-format", "json"]
    settings = {"ANTHROPIC_BASE_URL": f"{address}/{route}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    said = json.loads(run_agent(tmp_path, COMMANDS / "claude", "-p", question, *options, **settings))
    assert (False, 2, ANSWER) == (said["is_error"], said["num_turns"], said["result"])


@pytest.mark.parametrize("route", [*MESSAGES_ROUTES, "responses-before-default"])
def test_claude_code_looks_for_a_tool(proxy: Proxy, address: str, route: str, tmp_path: Path) -> None:
    """It offers an MCP server's tool when the model has asked for it, also before a server of another API."""
    node("@anthropic-ai/claude-code")
    (tmp_path / "work").mkdir()
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"tides": {"command": TIDES[0], "args": TIDES[1:]}}}), encoding="utf-8")
    options = ["--model", "claude-sonnet-4-6", "--allowedTools", "mcp__tides__tide_table", "--mcp-config", tmp_path / "mcp.json"]
    settings = {"ANTHROPIC_BASE_URL": f"{address}/{route}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    settings |= {"MCP_TIMEOUT": "60000", "MCP_CONNECTION_NONBLOCKING": "0"}
    before = len(proxy.provider.calls)
    said = run_agent(tmp_path, COMMANDS / "claude", "-p", f"Ask {TIDE_TABLE} of Ada.", *options, **settings)
    assert "High water in Ada at 05:31 and 17:54." == said.strip()
    assert [False, True, True] == [
        any(tool["name"] == "mcp__tides__tide_table" for tool in call.json["tools"]) for call in proxy.provider.calls[before:]
    ]


@pytest.mark.parametrize("route", [*GEMINI_ROUTES, "messages-default", "responses-for-gemini"])
def test_gemini_cli(address: str, route: str, question: str, tmp_path: Path) -> None:
    """Also before servers of other APIs."""
    node("@google/gemini-cli")
    use_api_key(tmp_path)
    options = ["--skip-trust", "-m", "gemini-2.5-flash", "-o", "json"]
    settings = {"GOOGLE_GEMINI_BASE_URL": f"{address}/{route}"}
    said = json.loads(run_agent(tmp_path, COMMANDS / "gemini", *options, "-p", question, **settings))
    api = said["stats"]["models"]["gemini-2.5-flash"]["api"]
    assert (ANSWER, 2, 0) == (said["response"], api["totalRequests"], api["totalErrors"])
    assert 1 == said["stats"]["tools"]["byName"]["read_file"]["success"]
