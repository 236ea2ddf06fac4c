"""The `llm` command with the proxy as an OpenAI-compatible server, under every delivery."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.conftest import HERE, KEY, SCRIPT_TIMEOUT_S, Proxy, client_python, environment
from tests.clients.expected import TOLD
from tests.clients.provider import REPORT, TEXT

pytestmark = pytest.mark.clients

MODEL = """
- {{model_id: gw, model_name: gpt-4o, api_base: '{url}', api_key_name: groundwire, supports_tools: true, supports_schema: true}}
- {{model_id: gw-inline, model_name: gpt-4o, api_base: '{url}', api_key_name: groundwire, headers: {{x-groundwire-inline: '1'}}}}
- {{model_id: gw-breaks, model_name: breaks, api_base: '{url}', api_key_name: groundwire}}
"""
QUESTION = "How is the weather in Zürich and in Oslo?"
TOOL = '''
def get_weather(city: str) -> str:
    """The weather of a city, now."""
    return {"Zürich": "21.5 °C in Zürich", "Oslo": "4 °C in Oslo"}[city]
'''
LLM = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def command() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported the command."""
    line = [str(client_python()), str(HERE / "scripts/llm_forks.py")]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        yield running


@pytest.fixture
def llm(proxy: Proxy, delivery: str, command: subprocess.Popen[str], tmp_path: Path) -> LLM:
    url = f"{proxy.url}/{delivery}/v1"
    (tmp_path / "extra-openai-models.yaml").write_text(MODEL.format(url=url), encoding="utf-8")

    def call(*arguments: str, key: str = KEY) -> subprocess.CompletedProcess[str]:
        given = [*arguments, "--key", key]
        seen = environment(tmp_path, url, LLM_USER_PATH=str(tmp_path))
        assert command.stdin is not None
        assert command.stdout is not None
        print(json.dumps({"arguments": given, "environment": seen, "folder": str(tmp_path)}), file=command.stdin, flush=True)
        assert select.select([command.stdout], [], [], SCRIPT_TIMEOUT_S)[0], f"llm {given} does not end"
        return subprocess.CompletedProcess(given, *json.loads(command.stdout.readline()))

    return call


def test_the_command_itself(proxy: Proxy, tmp_path: Path) -> None:
    """As a shell starts it; the other tests begin behind its imports."""
    url = f"{proxy.url}/tap/v1"
    (tmp_path / "extra-openai-models.yaml").write_text(MODEL.format(url=url), encoding="utf-8")
    line, seen = (
        [str(client_python().with_name("llm")), "-m", "gw", "Hi", "--key", KEY],
        environment(tmp_path, url, LLM_USER_PATH=str(tmp_path)),
    )
    done = subprocess.run(line, env=seen, cwd=tmp_path, capture_output=True, text=True, input="", timeout=SCRIPT_TIMEOUT_S)
    assert TEXT == said(done)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What a call that must succeed printed."""
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.removesuffix("\n")


def test_a_streamed_prompt(llm: LLM) -> None:
    assert TEXT == said(llm("-m", "gw", "Hi"))


def test_a_prompt_without_stream(llm: LLM) -> None:
    assert TEXT == said(llm("-m", "gw", "--no-stream", "Hi"))


@pytest.mark.parametrize("options", [(), ("--no-stream",)])
def test_tools(llm: LLM, options: tuple[str, ...]) -> None:
    assert TOLD == said(llm("-m", "gw", "--functions", TOOL, *options, QUESTION)).strip()


def test_a_schema(llm: LLM) -> None:
    assert REPORT == json.loads(said(llm("-m", "gw", "--schema", "city, degrees float", "Hi")))


def test_an_inline_verdict_does_not_break_it(llm: LLM) -> None:
    assert [TEXT, TEXT] == [said(llm("-m", "gw-inline", *options, "Hi")) for options in ((), ("--no-stream",))]


def test_errors_are_said(llm: LLM) -> None:
    wrong_key, broken = llm("-m", "gw", "Hi", key="wrong"), llm("-m", "gw-breaks", "Hi")
    assert 0 not in (wrong_key.returncode, broken.returncode)
    assert "401" in wrong_key.stderr
    assert "before the answer was whole" in broken.stderr
