"""openai-agents under every delivery."""

from __future__ import annotations

import json

import pytest

from tests.clients.conftest import Outcome, RunScript
from tests.clients.expected import CALLS, TOLD
from tests.clients.provider import REPORT, TEXT

pytestmark = pytest.mark.clients
ROUND_TRIP = {
    "text": TOLD,
    "calls": [[id_, name, json.loads(arguments)] for id_, name, arguments in CALLS],
    "results": ["21.5 °C in Zürich", "4 °C in Oslo"],
}


@pytest.fixture
def got(run: RunScript, delivery: str) -> Outcome:
    return run("openai_agents.py", delivery)


def test_a_run(got: Outcome) -> None:
    assert TEXT == got["whole"]


def test_a_streamed_run(got: Outcome) -> None:
    assert {"deltas": TEXT, "final": TEXT} == got["stream"]


def test_an_agent_calls_tools(got: Outcome) -> None:
    assert ROUND_TRIP == got["tools"]


@pytest.mark.parametrize("model", ["gpt-4o", "interleaver"])
def test_an_agent_calls_tools_streamed(got: Outcome, model: str) -> None:
    assert ROUND_TRIP == got["stream_tools"][model]


def test_structured_output(got: Outcome) -> None:
    assert {"whole": REPORT, "stream": REPORT} == got["structured"]


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("wrong_key", "AuthenticationError", "invalid_api_key"),
        ("too_long", "BadRequestError", "context_length_exceeded"),
        ("limited", "RateLimitError", "rate_limit_exceeded"),
    ],
)
def test_errors_are_the_librarys_own(got: Outcome, name: str, kind: str, code: str) -> None:
    assert (kind, code) == (got["errors"][name]["kinds"][0], got["errors"][name]["code"])


def test_a_stream_that_breaks_is_an_api_error(got: Outcome) -> None:
    assert "APIError" in got["breaks"]["kinds"]
