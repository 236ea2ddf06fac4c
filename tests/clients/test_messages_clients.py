"""Clients of Anthropic's Messages under the shipped policies: anthropic-python, anthropic-node, langchain-anthropic, the AI SDK."""

from __future__ import annotations

import pytest

from tests.clients.conftest import MESSAGES_ROUTES, Outcome, RunByRoute
from tests.clients.expected import ROUND_TRIP, WEATHER_CALLS
from tests.clients.messages_provider import COUNTED
from tests.clients.provider import REPORT, TEXT
from tests.messages import THINKING, USAGE

pytestmark = pytest.mark.clients
TOLD = ROUND_TRIP["text"]
KINDS = ["thinking", "text", "tool_use", "tool_use"]


@pytest.fixture(scope="module", params=MESSAGES_ROUTES)
def route(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def python(run_by_route: RunByRoute, route: str) -> Outcome:
    return run_by_route("anthropic_messages.py", route)


@pytest.fixture(scope="module")
def node(run_by_route: RunByRoute, route: str) -> Outcome:
    return run_by_route("anthropic.mjs", route)


def test_a_message_with_the_headers_to_be_seen(python: Outcome, route: str) -> None:
    whole = python["whole"]
    assert (TEXT, "end_turn", "req_test") == (whole["text"], whole["stop"], whole["request_id"])
    assert [USAGE["input_tokens"], USAGE["output_tokens"]] == whole["tokens"]
    assert whole["headers"]["x-groundwire-policy"].startswith(route.removeprefix("messages-") + "@")
    assert "unchecked" == whole["headers"]["x-groundwire-verdict"]


def test_a_stream_through_the_librarys_helper(python: Outcome) -> None:
    stream = python["stream"]
    assert (TEXT, TEXT, "end_turn") == (stream["deltas"], stream["text"], stream["stop"])
    assert ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"] == python["raw_stream"]


def test_a_stream_has_its_verdict_afterwards(python: Outcome) -> None:
    assert [True, "unchecked"] == python["verdict_of_a_stream"]


def test_a_tool_round_trip(python: Outcome) -> None:
    assert {"calls": WEATHER_CALLS, "stop": "tool_use", "text": TOLD} == python["tools"]


def test_thinking_comes_back_as_it_was_signed(python: Outcome) -> None:
    got = python["stream_tools_with_thinking"]
    assert (WEATHER_CALLS, KINDS, THINKING["signature"], TOLD) == tuple(got[name] for name in ("calls", "kinds", "signature", "text"))


def test_the_library_runs_the_tools_itself(python: Outcome, node: Outcome) -> None:
    assert [TOLD, TOLD] == [python["tool_runner"], node["toolRunner"]]


def test_tokens_are_counted_by_the_provider(python: Outcome, node: Outcome) -> None:
    assert [COUNTED, COUNTED] == [python["count_tokens"], node["countTokens"]]


def test_the_inline_verdict_does_not_break_parsing(python: Outcome, node: Outcome) -> None:
    assert [["unchecked", "unchecked"]] * 2 == [python["inline"], node["inline"]]


@pytest.mark.parametrize(
    ("name", "in_node", "kind", "type_"),
    [
        ("wrong_key", "wrongKey", "AuthenticationError", "authentication_error"),
        ("limited", "limited", "RateLimitError", "rate_limit_error"),
        ("bad", "bad", "BadRequestError", "invalid_request_error"),
        ("thread", "thread", "ThreadUnsupportedRequestError", "invalid_request_error"),
    ],
)
def test_errors_are_the_libraries_own(python: Outcome, node: Outcome, name: str, in_node: str, kind: str, type_: str) -> None:
    error, other = python["errors"][name], node["errors"][in_node]
    assert (kind, type_, kind) == (error["kinds"][0], error["type"], other["kinds"][0])
    assert error["headers"]["x-groundwire-id"].startswith("gw_")
    assert other["id"].startswith("gw_")


def test_a_stream_that_breaks_off_is_an_api_error(python: Outcome) -> None:
    error = python["errors"]["breaks"]
    assert ("api_error", True) == (error["type"], "APIError" in error["kinds"])


def test_a_message_and_a_stream_in_node(node: Outcome) -> None:
    whole = {"text": TEXT, "stop": "end_turn", "tokens": [USAGE["input_tokens"], USAGE["output_tokens"]]}
    assert (whole, {"deltas": TEXT, "text": TEXT}) == (node["whole"], node["stream"])


def test_tools_in_node(node: Outcome) -> None:
    assert {"calls": WEATHER_CALLS, "kinds": KINDS[1:], "text": TOLD} == node["tools"]
    assert {"calls": WEATHER_CALLS, "kinds": KINDS, "text": TOLD} == node["streamToolsWithThinking"]


def test_langchain(run_by_route: RunByRoute, route: str) -> None:
    got = run_by_route("langchain_messages.py", route)
    assert {"text": TEXT, "stop": "end_turn", "tokens": USAGE["output_tokens"]} == got["whole"]
    assert (TEXT, REPORT, "AnthropicAuthenticationError") == (got["stream"], got["structured"], got["wrong_key"])


@pytest.mark.parametrize("case", ["tools", "stream_tools_with_thinking"])
def test_langchain_calls_tools(run_by_route: RunByRoute, route: str, case: str) -> None:
    assert {"calls": WEATHER_CALLS, "text": TOLD} == run_by_route("langchain_messages.py", route)[case]


def test_the_ai_sdk(run_by_route: RunByRoute, route: str) -> None:
    got = run_by_route("ai_sdk.mjs", route)
    assert (TEXT, TEXT, REPORT) == (got["whole"]["text"], got["stream"], got["structured"])


@pytest.mark.parametrize("case", ["tools", "streamTools"])
def test_the_ai_sdk_calls_tools(run_by_route: RunByRoute, route: str, case: str) -> None:
    assert ROUND_TRIP == run_by_route("ai_sdk.mjs", route)[case]
