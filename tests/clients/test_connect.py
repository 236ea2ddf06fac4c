"""The blocks of docs/guides/connect.md run as they stand, with the agents and libraries that they name: only the address and the key differ."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients.conftest import (
    CLINE_QUIET,
    HERE,
    KEY,
    ROOT,
    SCRIPT_TIMEOUT_S,
    aider_python,
    client_python,
    cline_command,
    environment,
    node,
    opencode,
)
from tests.clients.provider import TEXT
from tests.docs_blocks import Block, blocks

pytestmark = pytest.mark.clients
PAGE = ROOT / "docs/guides/connect.md"
NODE = HERE / "node/node_modules"


def of_page(language: str) -> list[Block]:
    return [block for block in blocks(language) if block.page == PAGE]


def here(text: str, address: str) -> str:
    """The block for the server of the tests, whose routes are `agent`'s, and with its key."""
    text = text.replace("http://127.0.0.1:4000/openai", f"{address}/agent")
    text = text.replace("http://127.0.0.1:4000/anthropic", f"{address}/messages-agent")
    text = text.replace("http://127.0.0.1:4000/gemini", f"{address}/gemini-agent")
    assert "127.0.0.1:4000" not in text
    return text.replace('"unused"', f'"{KEY}"')


def printed(command: Sequence[str | Path], folder: Path, **settings: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        env=environment(folder, "", **settings),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SCRIPT_TIMEOUT_S,
    )
    assert 0 == done.returncode, f"{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


@pytest.mark.parametrize("block", of_page("python"), ids=str)
def test_python(block: Block, address: str, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(here(block.text, address), "utf-8")
    assert TEXT == printed([client_python(), script], tmp_path)


@pytest.mark.parametrize("block", of_page("js"), ids=str)
def test_javascript(block: Block, address: str, tmp_path: Path) -> None:
    command = node("ai")
    (tmp_path / "node_modules").symlink_to(NODE.resolve())
    script = tmp_path / "block.mjs"
    script.write_text(here(block.text, address), "utf-8")
    assert TEXT == printed([command, script], tmp_path, OPENAI_AGENTS_DISABLE_TRACING="1")


def test_codex(address: str, tmp_path: Path) -> None:
    node("@openai/codex")
    (block,) = of_page("toml")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(here(block.text, address), "utf-8")
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", "-m", "gpt-5"]
    events = printed([NODE / ".bin/codex", "exec", *options, "Hi"], tmp_path, CODEX_API_KEY=KEY).splitlines()
    items = [event["item"] for event in map(json.loads, events) if event["type"] == "item.completed"]
    assert TEXT == items[-1]["text"]


@pytest.mark.parametrize("model", ["openai/gpt-5", "anthropic/claude-sonnet-4-6"])
def test_opencode(model: str, address: str, tmp_path: Path) -> None:
    command = opencode()
    (block,) = (block for block in of_page("json") if "provider" in block.text)
    (tmp_path / "opencode.json").write_text(here(block.text, address), "utf-8")
    quiet = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    assert TEXT == printed([command, "run", "-m", model, "Hi"], tmp_path, **quiet).splitlines()[-1]


def command_line(agent: str, address: str) -> tuple[str, str, list[str]]:
    """Of an agent's block: the variable, its value, and what follows the command."""
    (block,) = (block for block in of_page("sh") if f" {agent} " in block.text)
    setting, _, *arguments = shlex.split(here(block.text, address))
    name, _, value = setting.partition("=")
    return name, value, arguments


def test_gemini_cli(address: str, tmp_path: Path) -> None:
    node("@google/gemini-cli")
    (block,) = (block for block in of_page("json") if "security" in block.text)
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/settings.json").write_text(block.text, "utf-8")
    name, value, arguments = command_line("gemini", address)
    options = ["--skip-trust", "-m", "gemini-2.5-flash"]  # a folder that nobody has trusted, and no call to choose a model
    assert TEXT == printed([NODE / ".bin/gemini", *options, *arguments], tmp_path, **{name: value})


def test_claude_code(address: str, tmp_path: Path) -> None:
    node("@anthropic-ai/claude-code")
    name, value, arguments = command_line("claude", address)
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", name: value}
    assert TEXT == printed([NODE / ".bin/claude", *arguments, "--model", "claude-sonnet-4-6"], tmp_path, **quiet)


def commands_of(agent: str, address: str) -> list[list[str]]:
    """What follows the command in each line of an agent's block."""
    (block,) = (block for block in of_page("sh") if block.text.startswith(f"{agent} "))
    return [shlex.split(line)[1:] for line in here(block.text, address).splitlines()]


def test_cline(address: str, tmp_path: Path) -> None:
    command = cline_command()
    signing_in, asking = commands_of("cline", address)
    printed([command, *signing_in], tmp_path, **CLINE_QUIET)
    assert TEXT == json.loads(printed([command, "--json", *asking], tmp_path, **CLINE_QUIET).splitlines()[-1])["text"]


def test_aider(address: str, tmp_path: Path) -> None:
    (arguments,) = commands_of("aider", address)
    command = aider_python().with_name("aider")
    quiet = ["--no-git", "--yes-always", "--no-show-model-warnings", "--no-check-update", "--analytics-disable", "--no-pretty"]
    assert TEXT in printed([command, *quiet, *arguments], tmp_path, LITELLM_LOCAL_MODEL_COST_MAP="True")
