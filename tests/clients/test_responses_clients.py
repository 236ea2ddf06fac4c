"""Clients of OpenAI's Responses under the shipped policies: openai-python, openai-agents, pydantic-ai, @openai/agents, the AI SDK."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.conftest import RESPONSES_ROUTES, Outcome, RunByRoute
from tests.clients.expected import ROUND_TRIP, WEATHER_CALLS
from tests.clients.provider import REPORT, TEXT
from tests.responses_api import USAGE, reasoning_item

pytestmark = pytest.mark.clients
AGENTS = ("agents_responses.py", "agents.mjs")


@pytest.fixture(scope="module", params=RESPONSES_ROUTES)
def route(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def sdk(run_by_route: RunByRoute, route: str) -> Outcome:
    return run_by_route("openai_responses.py", route)


def test_a_response_with_the_headers_to_be_seen(sdk: Outcome, route: str) -> None:
    whole = sdk["whole"]
    assert (TEXT, "completed", ["reasoning", "message"]) == (whole["text"], whole["status"], whole["kinds"])
    assert [USAGE["input_tokens"], USAGE["output_tokens"]] == whole["tokens"]
    assert whole["headers"]["x-groundwire-policy"].startswith(f"{route}@")
    assert "unchecked" == whole["headers"]["x-groundwire-verdict"]


def test_a_stream_through_the_librarys_helper(sdk: Outcome) -> None:
    assert {"deltas": TEXT, "text": TEXT, "encrypted": reasoning_item()["encrypted_content"]} == sdk["stream"]
    assert {"numbers": True, "last": "response.completed"} == sdk["raw_stream"]


def test_parsed_output(sdk: Outcome) -> None:
    assert [REPORT, REPORT] == sdk["parse"]


@pytest.mark.parametrize("case", ["tools", "chained_tools"])
def test_a_tool_round_trip(sdk: Outcome, case: str) -> None:
    assert {"calls": WEATHER_CALLS, "text": ROUND_TRIP["text"]} == sdk[case]


def test_a_websocket(sdk: Outcome) -> None:
    assert {"calls": WEATHER_CALLS, "text": ROUND_TRIP["text"], "lanes": ["main"]} == sdk["socket_tools"]
    assert {"deltas": TEXT, "alike": True, "verdict": "unchecked", "error": [429, "rate_limit_exceeded"]} == sdk["socket_stream"]


def test_the_inline_verdict_does_not_break_parsing(sdk: Outcome) -> None:
    assert ["unchecked", "unchecked"] == sdk["inline"]


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("wrong_key", "AuthenticationError", "invalid_api_key"),
        ("limited", "RateLimitError", "rate_limit_exceeded"),
        ("bad", "BadRequestError", "invalid_request"),
    ],
)
def test_errors_are_the_librarys_own(sdk: Outcome, name: str, kind: str, code: str) -> None:
    error = sdk["errors"][name]
    assert (kind, code) == (error["kinds"][0], error["code"])
    assert error["headers"]["x-groundwire-id"].startswith("gw_")


def test_a_stream_that_fails_says_so_to_the_library(sdk: Outcome, route: str) -> None:
    broken = ["InternalServerError", "upstream_unreachable"] if route == "strict" else ["response.failed", "server_error"]
    assert (["error", "server_error"], broken) == (sdk["fails"]["fails"], sdk["fails"]["breaks"])


@pytest.mark.parametrize("script", AGENTS)
def test_an_agents_stream(run_by_route: RunByRoute, route: str, script: str) -> None:
    assert {"deltas": TEXT, "text": TEXT} == run_by_route(script, route)["stream"]


@pytest.mark.parametrize(
    ("script", "case"),
    [
        ("agents_responses.py", "tools"),
        ("agents_responses.py", "stream_tools"),
        ("agents_responses.py", "chained_tools"),
        ("agents_responses.py", "socket_tools"),
        ("pydantic_ai_responses.py", "tools"),
        ("pydantic_ai_responses.py", "stream_tools"),
        ("agents.mjs", "tools"),
        ("agents.mjs", "streamTools"),
        ("ai_sdk.mjs", "tools"),
        ("ai_sdk.mjs", "streamTools"),
    ],
)
def test_an_agent_calls_tools(run_by_route: RunByRoute, route: str, script: str, case: str) -> None:
    got: dict[str, Any] = run_by_route(script, route)[case]
    assert ROUND_TRIP == {name: got[name] for name in ROUND_TRIP}


@pytest.mark.parametrize("script", AGENTS)
def test_an_agent_hands_over_to_another(run_by_route: RunByRoute, route: str, script: str) -> None:
    got = run_by_route(script, route)["handoff"]
    assert {"last": "weather", **ROUND_TRIP} == {name: got[name] for name in ("last", *ROUND_TRIP)}


@pytest.mark.parametrize("script", ["agents_responses.py", "pydantic_ai_responses.py", "agents.mjs", "ai_sdk.mjs"])
def test_structured_output(run_by_route: RunByRoute, route: str, script: str) -> None:
    assert REPORT == run_by_route(script, route)["structured"]


@pytest.mark.parametrize("script", ["pydantic_ai_responses.py", "ai_sdk.mjs"])
def test_a_streamed_text(run_by_route: RunByRoute, route: str, script: str) -> None:
    assert TEXT == run_by_route(script, route)["stream"]


def test_a_text_through_the_ai_sdk(run_by_route: RunByRoute, route: str) -> None:
    tokens = [USAGE["input_tokens"], USAGE["output_tokens"]]
    assert {"text": TEXT, "finishReason": "stop", "tokens": tokens} == run_by_route("ai_sdk.mjs", route)["whole"]
