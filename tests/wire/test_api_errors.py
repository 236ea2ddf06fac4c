"""What an upstream's error says, in the forms that servers write."""

import json
from typing import Any

import pytest

from proxy.wire.api_errors import Failure, code_in, envelope, failure_in, instead_of_answer, status_of
from tests.cost import below

RAW = json.dumps({"error": {"message": "Context too long", "code": 400, "status": "INVALID_ARGUMENT"}})
BODIES: list[tuple[Any, Failure]] = [
    ({"error": {"message": "No", "type": "invalid_request_error", "param": None, "code": "bad"}}, Failure("No", "bad")),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, Failure("Overloaded", "overloaded_error")),
    ([{"error": {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED"}}], Failure("Quota", "RESOURCE_EXHAUSTED", 429)),
    ({"detail": "Not Found"}, Failure("Not Found")),
    (
        {"detail": [{"loc": ["body", "model"], "msg": "field required", "type": "missing"}]},
        Failure("body.model: field required", "missing"),
    ),
    ({"success": False, "errors": [{"code": 7000, "message": "No route"}, {"message": "Twice"}]}, Failure("No route; Twice")),
    ({"errors": {"message": "No", "code": "bad"}}, Failure("No", "bad")),
    ({"Message": "Denied"}, Failure("Denied")),
    ({"message": "Too many tokens", "__type": "ThrottlingException"}, Failure("Too many tokens", "ThrottlingException")),
    ({"object": "error", "message": "Too long", "type": "BadRequestError", "code": 400}, Failure("Too long", "BadRequestError", 400)),
    ({"error": "model not found"}, Failure("model not found")),
    ({"error": "Input validation error", "error_type": "validation"}, Failure("Input validation error", "validation")),
    ({"status": 404, "error": "Not Found", "message": "No such path"}, Failure("No such path", "", 404)),
    (
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": RAW, "provider_name": "Google"}}},
        Failure("Provider returned error: Context too long", "INVALID_ARGUMENT", 400),
    ),
    (
        {"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "upstream is down"}}},
        Failure("Provider returned error: upstream is down", "", 502),
    ),
]


@pytest.mark.parametrize(("body", "expected"), BODIES)
def test_it_is_read(body: Any, expected: Failure) -> None:
    assert expected == failure_in(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"Bad gateway\n", "Bad gateway"),
        (b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway"),
        (b"<p>No&nbsp;room <b>here</b></p>", "No room here"),
        (b"<p>No <script>let x = '<b>'</script>room<style>p {", "No room"),
        (b'event: error\ndata: {"error": {"message": "Gone"}}\n\n', "Gone"),
        (b"", ""),
    ],
)
def test_what_is_no_json_is_told_in_its_words(body: bytes, message: str) -> None:
    assert message == failure_in(body).message


@pytest.mark.cost
@pytest.mark.parametrize("mark", ["<", "<title", "<h1 ", "<script>", "<style>x</style", "</script"])
def test_marks_that_never_end_cost_what_their_length_does(mark: str) -> None:
    page = "<" + mark * (400_000 // len(mark))
    with below(0.5):
        failure_in(page.encode())
        failure_in(json.dumps({"error": {"message": "No", "metadata": {"raw": page}}}).encode())


@pytest.mark.parametrize("depth", [10, 5000])
def test_errors_in_errors_end_somewhere(depth: int) -> None:
    body = b'{"error":' * depth + b'"x"' + b"}" * depth
    assert len(failure_in(body).message) <= 2000


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("chat", {"choices": [{"message": {"role": "assistant", "content": "Hi"}}], "error": {"message": "late"}}),
        ("chat", {"choices": [], "usage": {}}),
        ("chat", {"model": "m", "message": {"role": "assistant", "content": "Hi"}}),
        ("responses", {"output": [], "status": "failed", "error": {"message": "No", "code": "server_error"}}),
        ("messages", {"content": [{"type": "text", "text": "error"}], "error": None}),
    ],
)
def test_an_answer_is_no_error(api: Any, body: Any) -> None:
    assert instead_of_answer(api, body) is None


def test_it_is_told_in_the_clients_envelope() -> None:
    failure = Failure("Quota", "RESOURCE_EXHAUSTED", 429)
    assert {"type": "error", "error": {"type": "rate_limit_error", "message": "Quota"}} == envelope("messages", failure, 429)
    openai = {"message": "Quota", "type": "rate_limit_error", "param": None, "code": "RESOURCE_EXHAUSTED"}
    assert {"error": openai} == envelope("chat", failure, 429)
    assert "the upstream answered with status 418" == envelope("responses", Failure(""), 418)["error"]["message"]


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "The input (345516 tokens) is longer than the model's context length (262144 tokens).",
        "the request exceeds the available context size, try increasing it",
        "Input tokens exceed the configured limit of 272000 tokens. Please reduce the length of the messages.",
        "prompt token count of 128100 exceeds the limit of 128000",
        "Input is too long for requested model.",
        "Your request exceeded model token limit: 131072",
        "Prompt too long: 32799 tokens exceeds max context window of 32768 tokens",
    ],
)
def test_a_full_window_is_known_by_any_servers_words(message: str) -> None:
    body = json.dumps({"object": "error", "message": message, "type": "BadRequestError", "code": 400}).encode()
    assert "context_length_exceeded" == code_in(body) == envelope("responses", failure_in(body), 400)["error"]["code"]
    assert f"prompt is too long: {message}" == envelope("messages", failure_in(body), 400)["error"]["message"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure("No", "rate_limit_error", 503), 503),
        (Failure("No", "rate_limit_error"), 429),
        (Failure("No", "RESOURCE_EXHAUSTED"), 429),
        (Failure("prompt is too long: 9 tokens", "api_error"), 400),
        (Failure("No", "some_word"), 0),
        (Failure("No"), 0),
    ],
)
def test_the_status_that_an_error_names(failure: Failure, expected: int) -> None:
    assert expected == status_of(failure)


@pytest.mark.parametrize(
    "message", ["Request too large: tokens per minute (TPM): Limit 6000, Requested 7000", "Too many tokens", "max_tokens is too large: 9"]
)
def test_a_limit_of_another_kind_is_no_full_window(message: str) -> None:
    assert "bad" == code_in(json.dumps({"error": {"message": message, "code": "bad"}}).encode())
