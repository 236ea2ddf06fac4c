"""litellm as a client under every delivery, in a process of its own: importing it costs seconds."""

from __future__ import annotations

import pytest

from tests.clients.conftest import Outcome, Proxy, RunScript
from tests.clients.expected import CALLS, TOLD
from tests.clients.provider import EMBEDDINGS, REASONING, REPORT, TEXT, USAGE

pytestmark = pytest.mark.clients


@pytest.fixture
def got(run: RunScript, delivery: str) -> Outcome:
    return run("litellm_client.py", delivery)


def test_a_chat_with_the_headers_to_be_seen(got: Outcome, delivery: str, proxy: Proxy) -> None:
    whole = got["whole"]
    assert (TEXT, "stop", USAGE["total_tokens"]) == (whole["text"], whole["finish"], whole["total"])
    assert whole["headers"]["x-groundwire-policy"].startswith(f"{delivery}@")
    assert "unsure" == proxy.record(whole["headers"]["x-groundwire-id"])["outcome"]


def test_a_stream(got: Outcome) -> None:
    assert {"text": TEXT, "rebuilt": TEXT, "total": USAGE["total_tokens"]} == got["stream"]


def test_a_tool_round_trip(got: Outcome) -> None:
    assert {"calls": CALLS, "text": TOLD} == got["tools"]


@pytest.mark.parametrize("model", ["openai/gpt-4o", "openai/interleaver"])
def test_streamed_parallel_tool_calls(got: Outcome, model: str) -> None:
    assert {"calls": CALLS, "text": TOLD} == got["stream_tools"][model]


def test_structured_output(got: Outcome) -> None:
    assert REPORT == got["structured"]


def test_reasoning_fields_pass(got: Outcome) -> None:
    assert [[REASONING, TEXT]] * 2 == got["reasoning"]


def test_an_inline_verdict_does_not_break_parsing(got: Outcome) -> None:
    assert {"whole": TEXT, "stream": TEXT} == got["inline"]


def test_many_async_streams_at_once_do_not_mix(got: Outcome) -> None:
    assert [f"Echo {i}. Number {i} said. It ends, {i}." for i in range(12)] == got["many"]


def test_embeddings(got: Outcome) -> None:
    assert [list(vector) for vector in EMBEDDINGS] == got["embeddings"]


@pytest.mark.parametrize(
    ("name", "kind", "status"),
    [("wrong_key", "AuthenticationError", 401), ("too_long", "BadRequestError", 400), ("limited", "RateLimitError", 429)],
)
def test_errors_are_the_librarys_own(got: Outcome, name: str, kind: str, status: int) -> None:
    assert kind in got["errors"][name]["kinds"]
    assert status == got["errors"][name]["status_code"]


def test_a_context_that_is_too_long_is_recognised(got: Outcome) -> None:
    assert "ContextWindowExceededError" in got["errors"]["too_long"]["kinds"]


@pytest.mark.parametrize("name", ["breaks", "fails"])
def test_a_stream_that_breaks_is_an_api_error(got: Outcome, name: str) -> None:
    assert "OpenAIError" in got["errors"][name]["kinds"]
