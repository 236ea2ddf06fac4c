"""Agents of the command line do a task of ten turns through the proxy as they do it without: nothing lost, nothing withheld, as many turns."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.clients import messages_provider, responses_provider
from tests.clients.conftest import CODEX, COMMANDS, KEY, PROVIDER_KEY, Proxy, node, opencode, run_agent
from tests.clients.model import Asked
from tests.clients.tasks import ACTIONS, ANSWER, prepare, task

pytestmark = pytest.mark.clients
DIRECT = "direct"
TIMEOUT_S = 60
TOLD = ("pass", "unchecked", "unsure", "skipped")
"""Outcomes of exchanges that nothing was said against."""
_VARIES = re.compile(r"(?m)^(?:Chunk ID|Wall time|Original token count):.*\n|\d+ms\b")
"""What agents say beside a command's output: another for each run."""


class Run(Struct):
    """One task, done."""

    said: str
    report: str
    program: str
    asked: list[Asked]
    """The requests for the task's turns, as the provider got them."""
    sizes: list[int]
    outcomes: list[str]


def run_codex(url: str, key: str, home: Path, question: str) -> str:
    codex = command("@openai/codex", "codex")
    lines = ran(home, codex, *CODEX, "-c", f"openai_base_url={url}/v1", question, CODEX_API_KEY=key).splitlines()
    return str([event["item"] for event in map(json.loads, lines) if event["type"] == "item.completed"][-1]["text"])


def run_claude_code(url: str, key: str, home: Path, question: str) -> str:
    options = ["--model", "claude-sonnet-4-6", "--allowedTools", "Read,Write,Edit,Grep,Glob,Bash", "--output-format", "json"]
    settings = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return str(json.loads(ran(home, command("@anthropic-ai/claude-code", "claude"), "-p", question, *options, **settings))["result"])


def run_opencode(url: str, key: str, home: Path, question: str) -> str:
    settings = {"autoupdate": False, "share": "disabled", "provider": {"openai": {"options": {"baseURL": f"{url}/v1", "apiKey": key}}}}
    (home / "work/opencode.json").write_text(json.dumps(settings), encoding="utf-8")
    lines = ran(home, opencode(), "run", "-m", "openai/gpt-5", "--format", "json", question, OPENCODE_DISABLE_MODELS_FETCH="1").splitlines()
    return str([event["part"]["text"] for event in map(json.loads, lines) if event["type"] == "text"][-1])


def command(package: str, name: str) -> Path:
    """Skips without the package."""
    node(package)
    return COMMANDS / name


def ran(home: Path, *command: str | Path, **settings: str) -> str:
    """What it writes."""
    return run_agent(home, *command, timeout_s=TIMEOUT_S, **settings)


RESPONSES, MESSAGES = ("default", "agent"), ("messages-default", "messages-agent")
AGENTS: dict[str, tuple[Callable[[str, str, Path, str], str], tuple[str, ...]]] = {
    "codex": (run_codex, RESPONSES),
    "claude-code": (run_claude_code, MESSAGES),
    "opencode": (run_opencode, RESPONSES),
}
"""How it runs, and the routes."""
Do = Callable[[str, str], Run]


@pytest.fixture(scope="module")
def do(proxy: Proxy, address: str, tmp_path_factory: pytest.TempPathFactory) -> Do:
    """``do("codex", "agent")``: the task on that route, or before the provider itself; each once."""
    known: dict[tuple[str, str], Run] = {}

    def once(agent: str, route: str) -> Run:
        run, _ = AGENTS[agent]
        if (agent, route) not in known:
            home, before, seen = tmp_path_factory.mktemp("home"), len(proxy.provider.calls), {record["id"] for record in records(address)}
            folder = prepare(home)
            url = proxy.provider.base_url.removesuffix("/v1") if route == DIRECT else f"{address}/{route}"
            said = run(url, PROVIDER_KEY if route == DIRECT else KEY, home, task(folder))
            calls = [call for call in proxy.provider.calls[before:] if call.method == "POST" and (call.json or {}).get("tools")]
            told = [record["outcome"] for record in records(address) if record["id"] not in seen]
            files = [(folder / name).read_text(encoding="utf-8") for name in ("report.md", "src/tide.py")]
            known[agent, route] = Run(
                said, *files, [asked(call.path, call.json) for call in calls], [len(call.body) for call in calls], told
            )
            for one in known[agent, route].asked:
                one.results = tuple(_VARIES.sub("", result.replace(str(home), "")) for result in one.results)
        return known[agent, route]

    return once


def asked(path: str, body: Any) -> Asked:
    """A request as the model reads it."""
    if path.startswith("/v1/messages"):
        return messages_provider._asked(body)
    return responses_provider._asked(body, responses_provider._items(body))


def records(address: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{address}/groundwire/v1/records?limit=100", timeout=10) as response:
        found: list[dict[str, Any]] = json.load(response)["data"]
        return found


ROUTES = [(agent, route) for agent, (_, routes) in AGENTS.items() for route in routes]


@pytest.mark.parametrize(("agent", "route"), ROUTES)
def test_the_task_is_done_in_as_many_turns_with_all_that_was_said(agent: str, route: str, do: Do) -> None:
    direct, through = do(agent, DIRECT), do(agent, route)
    assert [ANSWER, "Slack water: 11:42"] == [through.said, through.report.strip()]
    assert [direct.said, direct.report, direct.program] == [through.said, through.report, through.program]
    assert [len(ACTIONS) + 1] * 2 == [len(direct.asked), len(through.asked)]
    for before, after in zip(direct.asked, through.asked, strict=True):
        assert len(before.results) == len(after.results)
        for result, sent in zip(before.results, after.results, strict=True):  # `agent` adds a note to one that failed
            assert sent.startswith(result.rstrip())


@pytest.mark.parametrize(("agent", "route"), ROUTES)
def test_nothing_is_withheld_and_little_added(agent: str, route: str, do: Do) -> None:
    direct, through = do(agent, DIRECT), do(agent, route)
    for before, after in zip(direct.asked, through.asked, strict=True):
        assert set(before.tools) <= set(after.tools)
    assert sum(through.sizes) <= 1.03 * sum(direct.sizes)
    assert not [outcome for outcome in through.outcomes if outcome not in TOLD]
