"""openai-python with 200 real tool schemas, before a provider and through the proxy: the provider sees few, the client no difference.

The provider knows which tool each question needs. It calls it if it is there, and otherwise looks for it, as a model would.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.testing import ReceivedCall, chunk, completion, reply, stream
from tests.clients.conftest import HERE, Outcome, client_python, run_script
from tests.clients.servers import Servers

pytestmark = pytest.mark.clients
FILE = HERE / "data" / "bfcl_200_tools.json.gz"
DATA = json.loads(gzip.decompress(FILE.read_bytes()))
NEEDS = {asked["query"]: asked["needs"] for asked in DATA["queries"]}
DESCRIPTIONS = {tool["function"]["name"]: tool["function"]["description"] for tool in DATA["tools"]}
UNSAID = sorted(DESCRIPTIONS)[17]
"""What the questions need that do not say what they need."""
CONFIG = """
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}
upstreams: {{provider: {{kind: openai, base_url: '{upstream}', api_key: sk-test, retries: {{attempts: 0}}}}}}
routes: [{{prefix: "", upstream: provider, policy: tools.yaml}}]
"""
POLICY = "name: tools\ndelivery: {0}\nstages:\n  - budget: {{}}\n  - tool_rag: {{above: 30, top_k: 5}}\n"


async def provider(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """Calls the tool that the question needs, or looks for it."""
    body = call.json
    names = {tool["function"]["name"] for tool in body["tools"]}
    question = next(m for m in reversed(body["messages"]) if m["role"] == "user")["content"]
    needed = NEEDS.get(question, UNSAID)
    if needed in names:
        calls = [called("call_1", needed, {"for": question})]
    elif "groundwire_find_tools" in names and body["messages"][-1]["role"] == "user":
        calls = [called("call_0", "groundwire_find_tools", {"query": DESCRIPTIONS[needed]})]
    else:
        calls = []
    message = {"role": "assistant", "content": None, "tool_calls": calls} if calls else {"role": "assistant", "content": "I cannot."}
    finish = "tool_calls" if calls else "stop"
    if not body.get("stream"):
        await reply(completion(choices=[{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}]))(writer, call)
        return
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for i, made in enumerate(calls):
        arguments = made["function"]["arguments"]
        deltas.append({"tool_calls": [{"index": i, **made, "function": {**made["function"], "arguments": ""}}]})
        deltas += [{"tool_calls": [{"index": i, "function": {"arguments": arguments[j : j + 9]}}]} for j in range(0, len(arguments), 9)]
    if not calls:
        deltas.append({"content": "I cannot."})
    events = [*(chunk(delta) for delta in deltas), chunk({}, finish)]
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append(chunk({}, choices=[], usage={"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}))
    await stream([*events, b"data: [DONE]\n\n"])(writer, call)


def called(id_: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}


COMMAND = HERE / "scripts" / "tool_rag.py"


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What the client sees without a proxy."""
    python = client_python()
    with Servers(tmp_path_factory.mktemp("provider"), provider, CONFIG, {}, provider_only=True) as servers:
        return run_script([python, COMMAND], tmp_path_factory.mktemp("direct"), servers.provider_url, TOOLS_FILE=str(FILE))


@pytest.fixture(scope="module", params=("tap", "gate", "hold"))
def both(
    request: pytest.FixtureRequest, direct: Outcome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Outcome, Outcome, list[Any]]]:
    """What the client saw directly, what it saw through the proxy, and what the provider was sent through the proxy."""
    with Servers(tmp_path_factory.mktemp("tools"), provider, CONFIG, {"tools": POLICY.format(request.param)}) as servers:
        folder = tmp_path_factory.mktemp("through")
        through = run_script([client_python(), COMMAND], folder, f"{servers.url}/v1", TOOLS_FILE=str(FILE))
        yield direct, through, [body for call in servers.upstream.calls if (body := call.json)["model"] != "warm"]


@pytest.mark.parametrize("name", ["whole", "streamed", "chunks"])
def test_the_client_sees_no_difference(both: tuple[Outcome, Outcome, list[Any]], name: str) -> None:
    direct, through, _ = both
    assert direct[name] == through[name]


@pytest.mark.parametrize("name", ["looked_up", "looked_up_streamed"])
def test_a_tool_that_was_left_out_is_found_and_called(both: tuple[Outcome, Outcome, list[Any]], name: str) -> None:
    _, through, _ = both
    assert [UNSAID] * 3 == [answer["calls"][0][2] for answer in through[name]]


def test_the_provider_sees_a_few_of_the_tools_in_their_own_words(both: tuple[Outcome, Outcome, list[Any]]) -> None:
    _, _, sent = both
    offered = [[t for t in body["tools"] if t["function"]["name"] != "groundwire_find_tools"] for body in sent]
    assert max(map(len, offered)) <= 20
    assert sum(map(len, offered)) / len(offered) < 10
    own = {tool["function"]["name"]: tool for tool in DATA["tools"]}
    assert all(tool == own[tool["function"]["name"]] for tools in offered for tool in tools)


def test_the_headers_say_how_many_were_kept(both: tuple[Outcome, Outcome, list[Any]]) -> None:
    _, through, _ = both
    assert through["headers"]["x-groundwire-tools"].startswith("200->")
