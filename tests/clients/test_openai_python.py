"""openai-python, synchronous and asynchronous, under every delivery."""

from __future__ import annotations

import pytest

from tests.clients.conftest import KEY, PROVIDER_KEY, Outcome, Proxy, RunScript
from tests.clients.expected import CALLS, TOLD
from tests.clients.provider import EMBEDDINGS, LOGPROBS, MODELS, REPORT, REPORT_JSON, SECOND, TEXT, USAGE

pytestmark = pytest.mark.clients


@pytest.fixture
def got(run: RunScript, delivery: str) -> Outcome:
    return run("openai_sync.py", delivery)


@pytest.fixture
def got_async(run: RunScript, delivery: str) -> Outcome:
    return run("openai_async.py", delivery)


def test_a_chat_with_the_headers_to_be_seen(got: Outcome, delivery: str, proxy: Proxy) -> None:
    whole = got["whole"]
    assert (TEXT, "stop", list(USAGE.values())) == (whole["text"], whole["finish"], whole["tokens"])
    assert ("req_test", "gpt-4o-2024-08-06", "fp_test", "default") == tuple(
        whole[k] for k in ("request_id", "model", "fingerprint", "tier")
    )
    headers = whole["headers"]
    assert headers["x-groundwire-policy"].startswith(f"{delivery}@")
    assert "unsure" == headers["x-groundwire-verdict"]
    assert "8/8000;exact" == headers["x-groundwire-context"]
    record = proxy.record(headers["x-groundwire-id"])
    assert ("tests", 200, "unsure", 8) == tuple(record[k] for k in ("client", "status", "outcome", "prompt_tokens_before"))
    assert TEXT == proxy.seen(headers["x-groundwire-id"])


def test_a_stream(got: Outcome, delivery: str, proxy: Proxy) -> None:
    stream = got["stream"]
    assert (TEXT, "assistant", ["stop"], ["chatcmpl-test"], []) == tuple(stream[k] for k in ("text", "role", "finish", "ids", "usage"))
    assert [] == stream["extra"]
    record_id = stream["headers"]["x-groundwire-id"]
    assert ("unsure" if delivery == "hold" else "pending") == stream["headers"]["x-groundwire-verdict"]
    assert ("unsure", TEXT) == (proxy.record(record_id)["outcome"], proxy.seen(record_id))


def test_a_stream_has_its_verdict_afterwards(got: Outcome, proxy: Proxy) -> None:
    asked = got["verdict_of_a_stream"]
    found, record = asked["found"], proxy.record(asked["id"])
    assert (TEXT, asked["id"], record["outcome"], 200) == (asked["text"], found["id"], found["verdict"], found["status"])
    assert record["policy"] == found["headers"]["x-groundwire-policy"]
    refusals = [(asked[name]["kinds"][0], asked[name]["code"], asked[name]["param"]) for name in ("unknown", "stranger", "wait")]
    assert [
        ("NotFoundError", "not_found", None),
        ("AuthenticationError", "invalid_api_key", None),
        ("BadRequestError", "invalid_request", "wait_ms"),
    ] == refusals


def test_verdicts_are_asked_for_while_the_streams_go_on(got_async: Outcome) -> None:
    found = got_async["verdicts_of_streams"]
    assert [True] * 8 == [own for own, _ in found]
    assert not {"pending"} & {verdict for _, verdict in found}


def test_the_usage_chunk_comes_when_asked_for(got: Outcome) -> None:
    assert {"choices": 0, "total": USAGE["total_tokens"], "others": []} == got["stream_with_usage"]


def test_a_tool_round_trip(got: Outcome) -> None:
    assert {"calls": CALLS, "text": TOLD} == got["tools"]


def test_streamed_parallel_tool_calls(got: Outcome) -> None:
    found = got["stream_tools"]
    assert (CALLS, TOLD, ["Zürich", "Oslo"]) == (found["calls"], found["text"], found["parsed"])
    assert found["pieces"] > 4


def test_streamed_tool_calls_side_by_side_keep_their_index(got: Outcome) -> None:
    assert CALLS == got["interleaved_tools"]


def test_two_choices(got: Outcome) -> None:
    assert {"whole": [TEXT, SECOND], "stream": [TEXT, SECOND]} == got["two_choices"]


def test_structured_output(got: Outcome) -> None:
    assert {"whole": REPORT, "stream": REPORT, "raw": [REPORT_JSON, REPORT_JSON]} == got["parsed"]


def test_log_probabilities(got: Outcome) -> None:
    pairs = [list(pair) for pair in LOGPROBS]
    assert {"whole": pairs, "stream": pairs, "said": [token for token, _ in LOGPROBS]} == got["logprobs"]


def test_an_inline_verdict_does_not_break_parsing(got: Outcome) -> None:
    found = got["inline"]
    assert ([TEXT, "unsure"], TEXT, [0, "unsure"]) == (found["whole"], found["stream"], found["last"])
    assert ([USAGE["total_tokens"]], REPORT) == (found["total"], found["parsed"])
    assert {"whole": REPORT, "stream": TEXT} == got["inline_parse"]


def test_hints_are_taken_and_do_not_reach_the_provider(got: Outcome, proxy: Proxy) -> None:
    hints = got["hints"]
    record = proxy.record(hints["headers"]["x-groundwire-id"])
    assert (TEXT, "run-7", "3") == (hints["text"], record["run_id"], record["step_id"])
    assert "skipped" == hints["skipped"]["x-groundwire-verdict"]
    assert [] == [call for call in proxy.provider.calls if b"groundwire" in call.body or "groundwire" in str(call.headers)]


def test_the_clients_key_stays_here(got: Outcome, proxy: Proxy) -> None:
    assert TEXT == got["whole"]["text"]
    names = "authorization", "x-api-key", "x-goog-api-key"
    sent = {call.headers[name].removeprefix("Bearer ") for call in proxy.provider.calls for name in names if name in call.headers}
    assert {PROVIDER_KEY} == sent
    assert [] == [call for call in proxy.provider.calls if KEY in str(call.headers)]


def test_models_and_embeddings(got: Outcome) -> None:
    found = got["other_paths"]
    vectors = [list(vector) for vector in EMBEDDINGS]
    assert (list(MODELS), vectors, vectors) == (found["models"], found["base64"], found["float"])
    assert "skipped" == found["headers"]["x-groundwire-verdict"]


def test_the_librarys_own_retry(got: Outcome) -> None:
    assert TEXT == got["retry"]


@pytest.mark.parametrize(
    ("name", "kind", "status", "code"),
    [
        ("wrong_key", "AuthenticationError", 401, "invalid_api_key"),
        ("too_long", "BadRequestError", 400, "context_length_exceeded"),
        ("too_long_streamed", "BadRequestError", 400, "context_length_exceeded"),
        ("limited", "RateLimitError", 429, "rate_limit_exceeded"),
        ("limited_streamed", "RateLimitError", 429, "rate_limit_exceeded"),
        ("refused", "BadRequestError", 400, "unsupported_value"),
        ("bad_hint", "PermissionDeniedError", 403, "policy_not_allowed"),
    ],
)
def test_errors_are_the_librarys_own(got: Outcome, name: str, kind: str, status: int, code: str) -> None:
    error = got["errors"][name]
    assert (kind, status, code) == (error["kinds"][0], error["status_code"], error["code"])
    assert error["headers"]["x-groundwire-id"].startswith("gw_")


def test_a_rate_limit_says_when_to_come_back(got: Outcome) -> None:
    assert "7" == got["errors"]["limited"]["headers"]["retry-after"]


@pytest.mark.parametrize("model", ["breaks", "fails"])
def test_a_stream_that_breaks_is_an_api_error(got: Outcome, delivery: str, model: str) -> None:
    error = got["broken_streams"][model]
    assert "APIError" in error["kinds"]
    if delivery == "hold" and model == "breaks":
        assert ("InternalServerError", 502, "upstream_unreachable") == (error["kinds"][0], error["status_code"], error["code"])
    if model == "fails":
        assert "server_error" == error["code"]
    assert TEXT.startswith(error["said"])


# ---- asynchronous ----


def test_many_async_streams_at_once_do_not_mix(got_async: Outcome) -> None:
    assert [f"Echo {i}. Number {i} said. It ends, {i}." for i in range(24)] == got_async["many"]


def test_async_tools_streamed(got_async: Outcome) -> None:
    assert {"calls": CALLS, "text": TOLD} == got_async["stream_tools"]


def test_async_structured_output(got_async: Outcome) -> None:
    assert {"whole": REPORT, "stream": REPORT} == got_async["parsed"]


def test_leaving_a_stream_early_harms_nothing(got_async: Outcome) -> None:
    assert {"began": True, "then": TEXT} == got_async["leaves"]


def test_async_errors(got_async: Outcome) -> None:
    found = got_async["errors"]
    assert ["AuthenticationError", "BadRequestError", "RateLimitError"] == [
        found[k]["kinds"][0] for k in ("wrong_key", "too_long", "limited")
    ]
    assert "APIError" in found["breaks"]["kinds"]
