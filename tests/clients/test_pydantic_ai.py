"""pydantic-ai under every delivery."""

from __future__ import annotations

import json

import pytest

from tests.clients.conftest import Outcome, RunScript
from tests.clients.expected import CALLS, TOLD
from tests.clients.provider import REASONING, REPORT, TEXT, USAGE

pytestmark = pytest.mark.clients
ROUND_TRIP = {
    "text": TOLD,
    "calls": [[id_, name, json.loads(arguments)] for id_, name, arguments in CALLS],
    "results": ["21.5 °C in Zürich", "4 °C in Oslo"],
}


@pytest.fixture
def got(run: RunScript, delivery: str) -> Outcome:
    return run("pydantic_ai_agent.py", delivery)


def test_a_chat(got: Outcome) -> None:
    assert {"text": TEXT, "tokens": [USAGE["prompt_tokens"], USAGE["completion_tokens"]]} == got["whole"]


def test_a_stream(got: Outcome) -> None:
    assert TEXT == got["stream"]["text"]
    assert got["stream"]["pieces"] > 4


def test_an_agent_calls_tools(got: Outcome) -> None:
    assert ROUND_TRIP == got["tools"]


@pytest.mark.parametrize("model", ["gpt-4o", "interleaver"])
def test_an_agent_calls_tools_streamed(got: Outcome, model: str) -> None:
    assert ROUND_TRIP == got["stream_tools"][model]


@pytest.mark.parametrize("way", ["tool", "tool_streamed", "native", "native_streamed", "beside_tools"])
def test_structured_output(got: Outcome, way: str) -> None:
    assert REPORT == got["structured"][way]


def test_reasoning_fields_pass(got: Outcome) -> None:
    assert [[REASONING, TEXT]] * 2 == got["reasoning"]


def test_an_inline_verdict_does_not_break_parsing(got: Outcome) -> None:
    assert {"whole": TEXT, "stream": TEXT, "structured": REPORT} == got["inline"]


def test_many_runs_at_once_do_not_mix(got: Outcome) -> None:
    assert [f"Echo {i}. Number {i} said. It ends, {i}." for i in range(12)] == got["many"]


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("wrong_key", 401, "invalid_api_key"), ("too_long", 400, "context_length_exceeded"), ("limited", 429, "rate_limit_exceeded")],
)
def test_errors_are_the_librarys_own(got: Outcome, name: str, status: int, code: str) -> None:
    error = got["errors"][name]
    assert "ModelHTTPError" in error["kinds"]
    assert (status, code) == (error["status_code"], error["body"]["code"])


@pytest.mark.parametrize("name", ["breaks", "fails"])
def test_a_stream_that_breaks_is_an_error(got: Outcome, name: str) -> None:
    assert {"ModelAPIError", "APIError"} & set(got["errors"][name]["kinds"])
