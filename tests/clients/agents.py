"""Agents of the command line and libraries for agents: how each does the task of `tests.clients.tasks`, whatever the address it works at.

``python -m tests.clients.agents`` has each do it before the scripted provider itself and through ``groundwire serve`` under `default` and
`agent`, and writes turns and prompt tokens to ``benchmarks/results/agents.json``, of which docs/guides/connect.md has the table. Names of
agents do those alone, and leave the others' figures as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from proxy.models.tokens.encodings import Encodings
from proxy.testing import ReceivedCall, ScriptedUpstream
from tests.clients import apis, gemini_provider, messages_provider, provider, responses_provider
from tests.clients.conftest import (
    CLINE_QUIET,
    CODEX,
    COMMANDS,
    HERE,
    KEY,
    PROVIDER_KEY,
    ROOT,
    aider_python,
    client_python,
    cline_command,
    node,
    opencode,
    run_agent,
    serve_shipped,
)
from tests.clients.harbour_servers import TIDES, pilots
from tests.clients.model import Asked
from tests.clients.servers import Servers, over_http
from tests.clients.tasks import LINES, prepare, task

RESULTS = ROOT / "benchmarks/results/agents.json"
DIRECT = "direct"
"""The route that is none: the provider itself."""
TIMEOUT_S = 180
START_S = 60
"""For an MCP server, on a busy machine."""


CLINE_MODEL = "gpt-4.1"
"""Its prompt is longer than the 8,000 tokens that gpt-4o has in the tests' config.yaml."""


class Place(Struct):
    """Where and what an agent is asked."""

    url: str
    """The address, without ``/v1``."""
    key: str
    home: Path
    question: str
    pilots: str
    """URL of the MCP server over HTTP."""


def codex(place: Place) -> str:
    servers = [
        f"mcp_servers.tides={{command={json.dumps(TIDES[0])}, args={json.dumps(TIDES[1:])}, startup_timeout_sec={START_S}, required=true}}",
        f"mcp_servers.pilots={{url={json.dumps(place.pilots)}, startup_timeout_sec={START_S}, required=true}}",
        f"openai_base_url={place.url}/v1",
    ]
    options = [part for one in servers for part in ("-c", one)]
    lines = _run(place, _command("@openai/codex", "codex"), *CODEX, *options, place.question, CODEX_API_KEY=place.key).splitlines()
    return str([event["item"] for event in map(json.loads, lines) if event["type"] == "item.completed"][-1]["text"])


def claude_code(place: Place) -> str:
    servers = {"mcpServers": {"tides": _program(), "pilots": {"type": "http", "url": place.pilots}}}
    (place.home / "mcp.json").write_text(json.dumps(servers), encoding="utf-8")
    tools = "Read,Write,Edit,Grep,Glob,Bash,mcp__tides__tide_table,mcp__pilots__order_pilot"
    options = ["--model", "claude-sonnet-4-6", "--allowedTools", tools, "--output-format", "json"]
    options += ["--strict-mcp-config", "--mcp-config", str(place.home / "mcp.json")]
    settings = {"ANTHROPIC_BASE_URL": place.url, "ANTHROPIC_API_KEY": place.key, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    settings |= {"MCP_TIMEOUT": str(1000 * START_S), "MCP_CONNECTION_NONBLOCKING": "0", "ENABLE_TOOL_SEARCH": "false"}
    said = _run(place, _command("@anthropic-ai/claude-code", "claude"), "-p", place.question, *options, **settings)
    return str(json.loads(said)["result"])


def open_code(place: Place) -> str:
    servers = {
        "tides": {"type": "local", "command": [*TIDES], "timeout": 1000 * START_S},
        "pilots": {"type": "remote", "url": place.pilots, "timeout": 1000 * START_S},
    }
    provider = {"openai": {"options": {"baseURL": f"{place.url}/v1", "apiKey": place.key}}}
    settings = {"autoupdate": False, "share": "disabled", "provider": provider, "mcp": servers}
    (place.home / "work/opencode.json").write_text(json.dumps(settings), encoding="utf-8")
    options = ["run", "-m", "openai/gpt-5", "--format", "json", place.question]
    lines = _run(place, opencode(), *options, OPENCODE_DISABLE_MODELS_FETCH="1").splitlines()
    return str([event["part"]["text"] for event in map(json.loads, lines) if event["type"] == "text"][-1])


def gemini_cli(place: Place) -> str:
    servers = {"tides": {**_program(), "trust": True}, "pilots": {"httpUrl": place.pilots, "trust": True}}
    (place.home / ".gemini").mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "mcpServers": servers}
    (place.home / ".gemini/settings.json").write_text(json.dumps(settings), encoding="utf-8")
    options = ["--skip-trust", "-m", "gemini-2.5-flash", "-o", "json", "--approval-mode", "yolo", "-p", place.question]
    address = {"GOOGLE_GEMINI_BASE_URL": place.url, "GEMINI_API_KEY": place.key}
    return str(json.loads(_run(place, _command("@google/gemini-cli", "gemini"), *options, **address))["response"])


def cline(place: Place) -> str:
    servers = {
        "mcpServers": {
            "tides": {**_program(), "timeout": START_S},
            "pilots": {"type": "streamableHttp", "url": place.pilots, "timeout": START_S},
        }
    }
    settings = place.home / ".cline/data/settings"
    settings.mkdir(parents=True)
    (settings / "cline_mcp_settings.json").write_text(json.dumps(servers), encoding="utf-8")
    _run(
        place,
        cline_command(),
        "auth",
        "-p",
        "openai-compatible",
        "-k",
        place.key,
        "-m",
        CLINE_MODEL,
        "-b",
        f"{place.url}/v1",
        **CLINE_QUIET,
    )
    lines = _run(place, cline_command(), "--json", "-P", "openai-compatible", "-m", CLINE_MODEL, place.question, **CLINE_QUIET).splitlines()
    return str(json.loads(lines[-1])["text"])


def aider(place: Place) -> str:
    """Without function calling: its user runs the commands, the model answers with edits."""
    options = ["--model", "openai/gpt-4o", "--weak-model", "openai/gpt-4o", "--no-git", "--yes-always", "--no-show-model-warnings"]
    options += ["--no-check-update", "--analytics-disable", "--no-auto-lint", "--map-tokens", "0", "--no-fancy-input", "--no-pretty"]
    settings = {"OPENAI_API_BASE": f"{place.url}/v1", "OPENAI_API_KEY": place.key, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    settings |= {
        "OPTIONS": json.dumps([*options, "src/tide.py", "notes/crew.md"]),
        "LINES": json.dumps([line.format(place.question) for line in LINES]),
    }
    return _run(place, aider_python(), HERE / "scripts/aider_turns.py", **settings).strip().splitlines()[-1]


def _script(name: str) -> Callable[[Place], str]:
    """A library's function in ``scripts/ten_turns.py``."""
    return lambda place: _library(place, client_python(), HERE / "scripts/ten_turns.py", name)


def ai_sdk(place: Place) -> str:
    return _library(place, node("@ai-sdk/mcp"), HERE / "node/ten_turns.mjs")


def _library(place: Place, *command: str | Path) -> str:
    """The last line of what a script writes."""
    settings = {"URL": place.url, "KEY": place.key, "QUESTION": place.question, "PILOTS": place.pilots, "TIDES": json.dumps(TIDES)}
    return _run(place, *command, **settings).strip().splitlines()[-1]


def _program() -> dict[str, Any]:
    return {"command": TIDES[0], "args": [*TIDES[1:]]}


def _command(package: str, name: str) -> Path:
    """Skips without the package."""
    node(package)
    return COMMANDS / name


def _run(place: Place, *command: str | Path, **settings: str) -> str:
    """What it writes."""
    return run_agent(place.home, *command, timeout_s=TIMEOUT_S, **settings)


OPENAI, MESSAGES, GEMINI = ("default", "agent"), ("messages-default", "messages-agent"), ("gemini-default", "gemini-agent")
AGENTS: Mapping[str, tuple[Callable[[Place], str], tuple[str, ...]]] = {
    "Codex": (codex, OPENAI),
    "Claude Code": (claude_code, MESSAGES),
    "OpenCode": (open_code, OPENAI),
    "Gemini CLI": (gemini_cli, GEMINI),
    "Cline": (cline, OPENAI),
    "aider": (aider, OPENAI),
    "google-genai": (_script("google_genai"), GEMINI),
    "Agents SDK": (_script("agents_sdk"), OPENAI),
    "pydantic-ai": (_script("pydantic_ai"), OPENAI),
    "LangGraph": (_script("langgraph"), OPENAI),
    "AI SDK": (ai_sdk, OPENAI),
}
"""How each runs, and its routes: those of the policies `default` and `agent` for the API that it speaks."""


class Run(Struct):
    """One task, done."""

    said: str
    report: str
    program: str
    asked: list[Asked]
    """The requests for the task's turns, as the provider got them."""
    streamed: list[bool]
    sizes: list[int]
    """Bytes of the requests."""
    bodies: list[str]
    """Theirs, without the folder's random name."""
    outcomes: list[str]
    """Of the proxy's records."""

    @property
    def tokens(self) -> int:
        """Prompt tokens of all requests: their bodies in ``o200k_base``."""
        return sum(_encodings.count(body, "o200k_base").tokens for body in self.bodies)


def do_task(name: str, route: str, served: str, upstream: ScriptedUpstream, pilots_url: str, home: Path) -> Run:
    """The task by the agent of that name at a route of the server `served`, or at the provider itself."""
    run, _ = AGENTS[name]
    direct = route == DIRECT
    before, seen = len(upstream.calls), set() if direct else {record["id"] for record in _records(served)}
    folder = prepare(home)
    url = upstream.base_url.removesuffix("/v1") if direct else f"{served}/{route}"
    said = run(Place(url, PROVIDER_KEY if direct else KEY, home, task(folder), pilots_url))
    own = str(folder).encode()  # another agent may be at its task meanwhile
    calls = [call for call in upstream.calls[before:] if call.method == "POST" and own in call.body and _is_turn(name, call)]
    asked = [_asked(call) for call in calls]
    for one in asked:
        one.results = tuple(_VARIES.sub("", result.replace(str(home), "")) for result in one.results)
        if name == "aider":  # which lists its files in the order of a set of their paths
            one.results = tuple("\n".join(sorted(result.splitlines())) for result in one.results)
    report, program = ((folder / path).read_text(encoding="utf-8") for path in ("report.md", "src/tide.py"))
    return Run(
        said,
        report,
        program,
        asked,
        [":stream" in call.path or call.json.get("stream") is True for call in calls],
        [len(call.body) for call in calls],
        [call.body.decode().replace(str(home), "") for call in calls],
        [] if direct else [record["outcome"] for record in _records(served) if record["id"] not in seen],
    )


_encodings = Encodings()
_VARIES = re.compile(r"(?m)^(?:Chunk ID|Wall time|Original token count):.*\n|\d+ms\b|\bPG?ID: \d+|[\d.]+k tokens")
"""What agents say beside a command's output: another for each run."""


def _is_turn(name: str, call: ReceivedCall) -> bool:
    """Agents also ask for titles and the like, without tools; aider has no tools."""
    return name == "aider" or bool((call.json or {}).get("tools"))


def _asked(call: ReceivedCall) -> Asked:
    """A request as the model reads it."""
    if call.path.startswith("/v1/messages"):
        return messages_provider._asked(call.json)
    if gemini_provider.ADDRESS.fullmatch(call.path):
        return gemini_provider._asked(call.json)
    if call.path.startswith("/v1/chat"):
        return provider.asked(call.json)
    return responses_provider._asked(call.json, responses_provider._items(call.json))


def _records(served: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{served}/groundwire/v1/records?limit=100", timeout=30) as response:
        records: list[dict[str, Any]] = json.load(response)["data"]
        return records


def main() -> int:
    """Run agents and write their figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=", ".join(AGENTS))
    names = parser.parse_args().agents or [*AGENTS]
    figures: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    folder = Path(tempfile.mkdtemp())
    with over_http(pilots()) as url, Servers(folder, apis.answer, "", {}, provider_only=True) as servers:
        (folder / "served").mkdir()
        with serve_shipped(folder / "served", servers.provider_url) as served:
            for name in names:
                try:
                    runs = [do_task(name, route, served, servers.upstream, url, _home(folder)) for route in (DIRECT, *AGENTS[name][1])]
                except pytest.skip.Exception as reason:
                    print(f"{name}: left out, {reason}", file=sys.stderr)
                    continue
                figures[name] = {"turns": [len(run.asked) for run in runs], "tokens": [run.tokens for run in runs]}
                print(name, figures[name], flush=True)
                RESULTS.write_text(json.dumps({name: figures[name] for name in AGENTS if name in figures}, indent=1) + "\n", "utf-8")
    return 0


def _home(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


if __name__ == "__main__":
    sys.exit(main())
