"""langchain-openai under every delivery."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.conftest import RESPONSES_ROUTES, Outcome, Proxy, RunByRoute, RunScript
from tests.clients.expected import CALLS, ROUND_TRIP, TOLD
from tests.clients.provider import EMBEDDINGS, REPORT, TEXT, USAGE

pytestmark = pytest.mark.clients
READ_CALLS: list[list[Any]] = [[id_, name, json.loads(arguments)] for id_, name, arguments in CALLS]


@pytest.fixture
def got(run: RunScript, delivery: str) -> Outcome:
    return run("langchain_chat.py", delivery)


def test_a_chat_with_the_headers_to_be_seen(got: Outcome, delivery: str, proxy: Proxy) -> None:
    whole = got["whole"]
    assert (TEXT, "stop", USAGE["total_tokens"]) == (whole["text"], whole["finish"], whole["total"])
    assert whole["headers"]["x-groundwire-policy"].startswith(f"{delivery}@")
    assert "unsure" == proxy.record(whole["headers"]["x-groundwire-id"])["outcome"]


def test_a_stream(got: Outcome, delivery: str) -> None:
    stream = got["stream"]
    assert (TEXT, "stop", USAGE["total_tokens"]) == (stream["text"], stream["finish"], stream["total"])
    assert stream["headers"]["x-groundwire-policy"].startswith(f"{delivery}@")
    assert stream["pieces"] > 4


def test_a_tool_round_trip(got: Outcome) -> None:
    assert {"calls": READ_CALLS, "text": TOLD} == got["tools"]


@pytest.mark.parametrize("model", ["gpt-4o", "interleaver"])
def test_streamed_parallel_tool_calls(got: Outcome, model: str) -> None:
    assert {"calls": READ_CALLS, "text": TOLD} == got["stream_tools"][model]


def test_structured_output(got: Outcome) -> None:
    assert {"json_schema": REPORT, "function_calling": REPORT, "json_mode": REPORT} == got["structured"]
    assert REPORT == got["structured_streamed"]


def test_an_inline_verdict_does_not_break_parsing(got: Outcome) -> None:
    assert {"whole": TEXT, "stream": TEXT, "structured": REPORT} == got["inline"]


def test_many_async_streams_at_once_do_not_mix(got: Outcome) -> None:
    assert [f"Echo {i}. Number {i} said. It ends, {i}." for i in range(12)] == got["many"]


def test_embeddings(got: Outcome) -> None:
    assert [list(vector) for vector in EMBEDDINGS] == got["embeddings"]


@pytest.mark.parametrize(
    ("name", "kind", "status"),
    [("wrong_key", "AuthenticationError", 401), ("too_long", "BadRequestError", 400), ("limited", "RateLimitError", 429)],
)
def test_errors_are_the_librarys_own(got: Outcome, name: str, kind: str, status: int) -> None:
    error = got["errors"][name]
    assert kind in error["kinds"]
    assert status == error["status_code"]
    assert error["headers"]["x-groundwire-id"].startswith("gw_")


def test_a_context_that_is_too_long_is_recognised(got: Outcome) -> None:
    assert "context_length_exceeded" == got["errors"]["too_long"]["code"]
    assert "ContextOverflowError" in got["errors"]["too_long"]["kinds"]


@pytest.mark.parametrize("name", ["breaks", "fails"])
def test_a_stream_that_breaks_is_an_api_error(got: Outcome, name: str) -> None:
    assert "APIError" in got["errors"][name]["kinds"]


@pytest.mark.parametrize("route", RESPONSES_ROUTES)
@pytest.mark.parametrize("case", ["chat", "responses"])
def test_a_langgraph_agent(run_by_route: RunByRoute, route: str, case: str) -> None:
    got = run_by_route("langgraph_agent.py", route)[case]
    assert {"deltas": TOLD, "turns": 5, **ROUND_TRIP} == got
