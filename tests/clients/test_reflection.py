"""openai-python running an agent whose tools fail, against `groundwire serve` with two workers.

The provider is a stubborn model: it makes the same call again until the prompt, or its user, tells it something better.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from msgspec import Struct

from proxy.stages.reflection.wording import OPENING
from proxy.testing import ReceivedCall, chunk, completion, reply, stream, streamed
from tests.clients.conftest import HERE, ROOT, client_python, run_script
from tests.clients.servers import Servers
from tests.clients.test_clean_context import ready

pytestmark = pytest.mark.clients

POLICIES = {
    "stopping": (ROOT / "policies/agent.yaml").read_text(encoding="utf-8"),
    "checking": "name: checking\ndelivery: hold\nstages:\n  - schema: {}\n",
}
CONFIG = """
server: {{workers: 2}}
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}
upstreams: {{provider: {{kind: openai, base_url: '{upstream}', api_key: sk-test, retries: {{attempts: 0}}}}}}
models: {{gpt-4o: {{window: 8000, encoding: o200k_base}}}}
routes:
  - {{prefix: /agent, upstream: provider, policy: stopping.yaml}}
  - {{prefix: /checking, upstream: provider, policy: checking.yaml}}
"""
DONE = "I have found it."
Call = tuple[str, str]


class Provider:
    """The model: what it does next, by the run's name and the prompt that it gets."""

    def __init__(self) -> None:
        self.got: dict[str, list[list[dict[str, Any]]]] = {}

    async def __call__(self, writer: Any, call: ReceivedCall) -> None:
        body = call.json
        self.got.setdefault(body["user"], []).append(body["messages"])
        wanted = next_call(body["user"].removesuffix(" streamed"), body["messages"])
        await answer(wanted, bool(body.get("stream")), len(self.got[body["user"]]))(writer, call)


def next_call(run: str, messages: list[dict[str, Any]]) -> Call | None:
    """None to answer in words."""
    last = str(messages[-1]["content"])
    result = last.partition(OPENING)[0]
    if run == "denied":
        return None if "sent" in result else ("get_order", '{"id": "A7"}')
    if run == "slow":
        advised = "at most 10" in last.partition(OPENING)[2]
        return None if "Page one" in result else ("search_docs", json.dumps({"query": "manual", "limit": 10 if advised else 50}))
    if run == "lost":
        return "search_docs", '{"query": "manual", "limit": 5, "page": 99}'
    if run == "invented":
        return "find_docs", '{"query": "manual"}'
    if run == "comma":
        return None if messages[-1]["role"] == "tool" else ("search_docs", '{"query": "manual, [a,]", "limit": 5,}')
    if run == "nameless":
        if "Page one" in result:
            return None
        return ("search_docs", '{"query": "manual", "limit": 5}' if messages[-1]["role"] == "tool" else '{"limit": 5}')
    return None if messages[-1]["role"] == "tool" else ("search_docs", '{"query": "manual", "limit": 5}')


def answer(wanted: Call | None, streams: bool, number: int) -> Any:
    """The model's message, whole or in pieces."""
    if wanted is None:
        return stream(streamed([DONE[:6], DONE[6:]])) if streams else reply(completion(DONE))
    name, arguments = wanted
    id_ = f"call_{number}"
    if not streams:
        said = completion("")
        called = {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        said["choices"][0] |= {"message": {"role": "assistant", "content": None, "tool_calls": [called]}, "finish_reason": "tool_calls"}
        return reply(said)
    first = {"index": 0, "id": id_, "type": "function", "function": {"name": name, "arguments": arguments[:7]}}
    rest = {"index": 0, "function": {"arguments": arguments[7:]}}
    events = [chunk({"role": "assistant", "content": None}), chunk({"tool_calls": [first]}), chunk({"tool_calls": [rest]})]
    return stream([*events, chunk({}, "tool_calls"), b"data: [DONE]\n\n"])


class Ran(Struct):
    """What came of all runs."""

    runs: dict[str, Any]
    got: dict[str, list[list[dict[str, Any]]]]
    failures: list[dict[str, Any]]

    def of(self, code: str) -> list[dict[str, Any]]:
        return [failure for failure in self.failures if failure["code"] == code]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder, outputs = tmp_path_factory.mktemp("served"), tmp_path_factory.mktemp("runs")
    client_python()
    provider = Provider()
    with Servers(folder, provider, CONFIG, POLICIES, provider_only=True), ready(folder) as url:
        got = run_script([client_python(), HERE / "scripts/failing_agent.py"], outputs, f"{url}/POLICY/v1")
        with urllib.request.urlopen(f"{url}/groundwire/v1/failures?limit=100", timeout=30) as response:
            failures = json.load(response)["data"]
    return Ran(got["runs"], provider.got, failures)


@pytest.mark.parametrize("name", ["denied", "denied streamed"])
def test_the_third_refusal_is_a_question_to_the_user(ran: Ran, name: str) -> None:
    run = ran.runs[name]
    assert 3 == len(ran.got[name][:3])
    assert "get_order" in run["said"][0]
    assert run["said"][0].rstrip().endswith("?")
    assert "human_asked" in run["headers"][3]["x-groundwire-warnings"]


@pytest.mark.parametrize("name", ["denied", "denied streamed"])
def test_with_the_users_answer_the_agent_comes_to_its_end(ran: Ran, name: str) -> None:
    run = ran.runs[name]
    assert (4, DONE) == (len(run["calls"]), run["said"][-1])
    assert "error" not in run


def test_a_call_that_timed_out_is_made_smaller_as_the_prompt_says(ran: Ran) -> None:
    run = ran.runs["slow"]
    assert [50, 10] == [json.loads(given)["limit"] for _, given in run["calls"]]
    assert [DONE] == run["said"]
    assert "1" == run["headers"][1]["x-groundwire-failures"]


def test_a_tool_that_is_not_there_is_asked_about(ran: Ran) -> None:
    run = ran.runs["invented"]
    assert (3, 3) == (len(run["calls"]), len(ran.got["invented"]))
    assert "find_docs" in run["said"][0]


def test_a_handle_that_leads_nowhere_ends_the_run_with_an_error(ran: Ran) -> None:
    run = ran.runs["lost"]
    assert (400, "policy_blocked", "system_error") == tuple(run["error"][name] for name in ("status_code", "code", "param"))
    assert (3, 3) == (len(run["calls"]), len(ran.got["lost"]))
    assert "search_docs" in run["error"]["message"]


@pytest.mark.parametrize("name", ["comma", "comma streamed"])
def test_a_trailing_comma_is_mended_and_nothing_else(ran: Ran, name: str) -> None:
    (call,) = ran.runs[name]["calls"]
    assert ["search_docs", {"query": "manual, [a,]", "limit": 5}] == [call[0], json.loads(call[1])]
    assert 2 == len(ran.got[name])


def test_a_call_that_breaks_its_schema_is_asked_for_again(ran: Ran) -> None:
    run = ran.runs["nameless"]
    assert [{"query": "manual", "limit": 5}] == [json.loads(given) for _, given in run["calls"]]
    assert "1" == run["headers"][0]["x-groundwire-retries"]


def test_a_run_without_failures_is_left_alone(ran: Ran) -> None:
    run = ran.runs["well"]
    assert [["search_docs", '{"query": "manual", "limit": 5}']] == run["calls"]
    assert {"unchecked"} == {headers["x-groundwire-verdict"] for headers in run["headers"]}
    assert "Find out about well." == ran.got["well"][0][0]["content"]


def test_the_failures_are_kept_with_pointers_and_without_the_conversation(ran: Ran) -> None:
    assert {("denied", 3)} == {("denied", failure["occurrence_count"]) for failure in ran.of("permission_denied")}
    assert ["call_1"] == ran.of("timeout")[0]["attempted_action"]["tool_call_ids"]
    told = json.dumps(ran.failures)
    assert [] == [word for word in ("manual", "Find out", "A7", "access now") if word in told]
