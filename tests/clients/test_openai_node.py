"""openai-node under every delivery."""

from __future__ import annotations

import pytest

from tests.clients.conftest import Outcome, Proxy, RunScript
from tests.clients.expected import CALLS, TOLD
from tests.clients.provider import EMBEDDINGS, MODELS, REPORT, REPORT_JSON, SECOND, TEXT, USAGE

pytestmark = pytest.mark.clients


@pytest.fixture
def got(run: RunScript, delivery: str) -> Outcome:
    return run("openai.mjs", delivery)


def test_a_chat_with_the_headers_to_be_seen(got: Outcome, delivery: str, proxy: Proxy) -> None:
    whole = got["whole"]
    assert (TEXT, "stop", USAGE["total_tokens"], "req_test") == tuple(whole[k] for k in ("text", "finish", "total", "requestId"))
    assert whole["headers"]["x-groundwire-policy"].startswith(f"{delivery}@")
    assert "unsure" == proxy.record(whole["headers"]["x-groundwire-id"])["outcome"]


def test_a_stream(got: Outcome, delivery: str, proxy: Proxy) -> None:
    stream = got["stream"]
    assert (TEXT, "assistant", "stop") == (stream["text"], stream["role"], stream["finish"])
    record_id = stream["headers"]["x-groundwire-id"]
    assert ("unsure" if delivery == "hold" else "pending") == stream["headers"]["x-groundwire-verdict"]
    assert ("unsure", TEXT) == (proxy.record(record_id)["outcome"], proxy.seen(record_id))


def test_the_usage_chunk_comes_when_asked_for(got: Outcome) -> None:
    assert {"choices": 0, "total": USAGE["total_tokens"], "others": 0} == got["streamWithUsage"]


def test_a_tool_round_trip(got: Outcome) -> None:
    assert {"calls": CALLS, "text": TOLD} == got["tools"]


def test_the_library_runs_the_tools_of_a_streamed_conversation(got: Outcome) -> None:
    assert {"calls": CALLS, "text": TOLD} == got["runTools"]


def test_the_library_runs_the_tools_unstreamed(got: Outcome) -> None:
    assert {"text": TOLD, "results": ["21.5 °C in Zürich", "4 °C in Oslo"]} == got["runToolsWhole"]


def test_streamed_tool_calls_side_by_side_keep_their_index(got: Outcome) -> None:
    assert CALLS == got["interleavedTools"]


def test_two_choices(got: Outcome) -> None:
    assert {"whole": [TEXT, SECOND], "stream": [TEXT, SECOND]} == got["twoChoices"]


def test_structured_output(got: Outcome) -> None:
    assert {"whole": REPORT, "stream": REPORT, "raw": REPORT_JSON} == got["parsed"]


def test_an_inline_verdict_does_not_break_parsing(got: Outcome) -> None:
    assert {"whole": [TEXT, "unsure"], "stream": TEXT, "last": [0, "unsure"]} == got["inline"]


def test_an_inline_verdict_does_not_break_the_stream_helper(got: Outcome) -> None:
    assert REPORT == got["inlineHelper"]


def test_many_streams_at_once_do_not_mix(got: Outcome) -> None:
    assert [f"Echo {i}. Number {i} said. It ends, {i}." for i in range(16)] == got["many"]


def test_leaving_a_stream_early_harms_nothing(got: Outcome) -> None:
    assert {"role": "assistant", "then": TEXT} == got["leaves"]


def test_models_and_embeddings(got: Outcome) -> None:
    assert {"models": list(MODELS), "vectors": [list(vector) for vector in EMBEDDINGS]} == got["otherPaths"]


@pytest.mark.parametrize(
    ("name", "kind", "status", "code"),
    [
        ("wrongKey", "AuthenticationError", 401, "invalid_api_key"),
        ("tooLong", "BadRequestError", 400, "context_length_exceeded"),
        ("limited", "RateLimitError", 429, "rate_limit_exceeded"),
        ("refused", "BadRequestError", 400, "unsupported_value"),
    ],
)
def test_errors_are_the_librarys_own(got: Outcome, name: str, kind: str, status: int, code: str) -> None:
    error = got["errors"][name]
    assert (kind, status, code) == (error["kinds"][0], error["status"], error["code"])
    assert error["id"].startswith("gw_")
    assert ("7" if name == "limited" else None) == error["retryAfter"]


@pytest.mark.parametrize("name", ["breaks", "fails"])
def test_a_stream_that_breaks_is_an_api_error(got: Outcome, name: str) -> None:
    assert "APIError" in got["errors"][name]["kinds"]
