"""The scripts of examples/clients run as they are, with their libraries, before a provider that answers from a script."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.testing import ReceivedCall, ScriptedUpstream, completion, reply, serving
from tests.clients.conftest import ROOT, SCRIPT_TIMEOUT_S, client_python

pytestmark = pytest.mark.clients
SAID = "The battery of the Kestrel lasts 70 km."
HAS = "import sys, importlib.util; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
"""Whether a library is there, without the seconds that it takes to import it."""
CONFIG = """
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}
upstreams: {{provider: {{kind: openai, base_url: '{upstream}', api_key: unused, apis: [chat, responses, messages], retries: {{attempts: 0}}}}}}
routes: [{{prefix: '', upstream: provider, policy: '{policies}/rag.yaml', allow_policies: ['{policies}/rag.yaml']}}]
"""


async def provider(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """Asks for the tool where there is one, and says the same otherwise, in the dialect in which it is asked."""
    if call.path.endswith("/messages"):
        usage = {"input_tokens": 30, "output_tokens": 9}
        body: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
        body |= {"content": [{"type": "text", "text": SAID}], "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
        await reply(body)(writer, call)
        return
    asked = call.json
    body = completion(SAID)
    if asked.get("tools"):
        results = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
        body = completion(results[-1] if results else "")
        if not results:
            wanted = {"id": "call_1", "type": "function", "function": {"name": "stock", "arguments": '{"part": "chains"}'}}
            body["choices"][0] |= {"message": {"role": "assistant", "content": None, "tool_calls": [wanted]}, "finish_reason": "tool_calls"}
    await reply(body)(writer, call)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a proxy with the shipped policies."""
    folder = tmp_path_factory.mktemp("examples")
    up, over, url = threading.Event(), asyncio.Event(), [""]
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with ScriptedUpstream(provider) as upstream:
            file = folder / "config.yaml"
            file.write_text(CONFIG.format(folder=folder, upstream=upstream.base_url, policies=ROOT / "policies"), encoding="utf-8")
            async with serving(App(load_settings(file, {}))) as url[0]:
                up.set()
                await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert up.wait(60)
    while not _ready(url[0]):
        time.sleep(0.1)
    yield url[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


def _ready(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(f"{url}/ready", timeout=30).status == 200)
    except urllib.error.HTTPError:
        return False


def printed(name: str, served: str, library: str) -> list[str]:
    """What a script prints; skips where its library is not in the clients' environment."""
    python = client_python()
    if subprocess.run([str(python), "-c", HAS, library], timeout=SCRIPT_TIMEOUT_S, check=False).returncode:
        pytest.skip(f"the clients' environment has no {library}")
    address = served if library == "anthropic" else f"{served}/v1"
    environment = {**os.environ, "GROUNDWIRE_URL": address, "NO_COLOR": "1"}
    script = ROOT / "examples/clients" / name
    done = subprocess.run(
        [str(python), str(script)], env=environment, capture_output=True, text=True, timeout=SCRIPT_TIMEOUT_S, check=False
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("name", "library"), [("langchain_rag.py", "langchain_openai"), ("anthropic_messages.py", "anthropic")])
def test_an_answer_from_documents_says_that_it_follows(name: str, library: str, served: str) -> None:
    assert [SAID, "verdict pass, faithfulness 1.00"] == printed(name, served, library)


def test_an_agent_uses_its_tool(served: str) -> None:
    expected = ["There are 12 pieces of chains in stock.", "the run: /dashboard/runs/stock-take"]
    assert expected == printed("openai_agents.py", served, "agents")


def test_every_script_of_the_folder_is_run() -> None:
    there = sorted(path.name for path in Path(ROOT / "examples/clients").glob("*.py"))
    assert ["anthropic_messages.py", "langchain_rag.py", "openai_agents.py"] == there
