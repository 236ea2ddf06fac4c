"""Whether a tool failed, told from its result: what is a failure, what is content, and what a finding says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.context.tool_results.error_kinds import ToolFailure
from proxy.context.tool_results.results import read_result
from proxy.ports.failures import CODES
from tests.cost import below

TRACEBACK = 'Traceback (most recent call last):\n  File "job.py", line 3, in <module>\n    run()\n'


def code(text: str, *, retrieval: bool = False) -> str | None:
    found = read_result(text, retrieval=retrieval)
    return None if found is None else found.code


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("exception", TRACEBACK + "ValueError: the pool is closed"),
        ("timeout", TRACEBACK + "TimeoutError"),
        ("not_found", TRACEBACK + "FileNotFoundError: [Errno 2] No such file or directory: 'x'"),
        ("exception", "java.lang.IllegalStateException: closed\n\tat com.acme.A.go(A.java:3)\n\tat com.acme.B.main(B.java:9)"),
        ("exception", "app.js:3\n  x.y\n\nTypeError: x is undefined\n    at run (app.js:3:1)\n    at app.js:9:1"),
        ("exception", "panic: nil map\n\ngoroutine 1 [running]:\nmain.main()\n\t/m.go:3"),
        ("exception", "thread 'main' panicked at src/main.rs:3:5:\nno rows"),
        ("not_found", "bash: foo: command not found"),
        ("error_code", "some output\nCommand exited with code 2"),
        ("not_found", '{"status": 404, "error": "Not Found"}'),
        ("unavailable", "HTTP 503 Service Unavailable"),
        ("invalid_arguments", '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Invalid params"}}'),
        ("error", '{"isError": true, "content": [{"type": "text", "text": "the sheet has no rows"}]}'),
        ("rate_limited", '{"error": {"message": "Slower, please", "type": "requests", "code": "rate_limit_exceeded"}}'),
        ("error", '{"success": false, "message": "the card was declined"}'),
        ("error_code", '{"ok": false, "error": "not_in_channel"}'),
        ("permission_denied", '{"data": null, "errors": [{"message": "no", "extensions": {"code": "FORBIDDEN"}}]}'),
        ("error", "Error: the seat is taken"),
        ("error", "ERROR - upload stopped"),
        ("error", "Fehler: der Platz ist vergeben"),
        ("error", "Erreur : la place est prise"),
        ("timeout", "Error: timed out after 30 s"),
        ("rate_limited", "Too many requests"),
        ("permission_denied", "EACCES: permission denied, open '/x'"),
        ("not_found", "Error: user 12 not found"),
        ("missing_pointer", "Error: session 81 is no longer valid"),
        ("missing_pointer", "Error: stale element reference: not attached"),
        ("missing_pointer", '{"error": "invalid cursor"}'),
        ("invalid_arguments", "TypeError: send() got an unexpected keyword argument 'to'"),
        ("unavailable", "Error: connect ECONNREFUSED 127.0.0.1:80"),
        ("output_too_large", "Error: the output is too large"),
        ("error_code", "gcc -c m.c\nmake: *** [Makefile:3: m.o] Error 1"),
    ],
)
def test_a_result_that_is_an_error_has_the_errors_code(expected: str, text: str) -> None:
    assert expected == code(text)


@pytest.mark.parametrize(
    "text",
    [
        "ERROR: db connection refused\nERROR: cache down\nERROR: queue down",
        "TimeoutError: a\nValueError: b\nKeyError: c",
        "",
        "404",
        "0 errors, 2 warnings",
        "No errors found.",
        "Error rate: 0.2%",
        "Error: 0.042",
        "Deleted 3 failed jobs",
        "I am sorry for the error on your invoice, it is corrected.",
        'def f(x):\n    if not x:\n        raise ValueError("empty")\n',
        '        ValueError: If the model is unknown.\n    """\n    return 1',
        "TimeoutError: Raised when a system function timed out.",
        "2024-01-01 10:00:00 ERROR refused\n2024-01-01 10:00:01 INFO connected",
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n+raise NotFoundError",
        "src/a.py:3:    raise TimeoutError\nsrc/b.py:9: except ConnectionError as error:",
        "1. Connection refused in Docker\n2. Error 500 explained",
        "HTTP/1.1 200 OK\r\nX-Error: none\r\n\r\nhello",
        "HTTP/1.1 301 Moved\r\nLocation: /b\r\n\r\n",
        "Error: first try failed\nExit code: 0",
        "3 failed, 9 passed in 0.3s",
        "Found 2 errors.",
        "The error 404 means that a page is not there. " * 30,
        "An article.\n\n" + "Words of an article, many of them, in a long line of its own.\n" * 12 + TRACEBACK + "ValueError: x",
        "[12:00:01] INFO start\n[12:00:02] ERROR stopped\n" + TRACEBACK + "ValueError: x",
        '{"error": null, "n": 1}',
        '{"errors": [], "data": {"a": 1}}',
        '{"error_count": 0}',
        '{"status": "error_resolved", "incident": "I-1"}',
        '{"success": true, "warnings": ["error in a comment"]}',
        '{"id": 3, "title": "Login error", "error": "SIGSEGV", "reporter": "bo", "votes": 3}',
        '{"job": "j1", "status": "failed", "error": "out of memory", "started": "02:00", "node": "n4"}',
        '[{"flight": "A1", "status": "cancelled"}, {"flight": "A2", "status": "failed"}]',
        '{"exit_code": 1, "stdout": "2 failed, 8 passed in 1.2s", "stderr": ""}',
        '{"exit_code": 0, "stdout": "Error: retried", "stderr": "error: ignored"}',
        '{"valid": false, "errors": [{"message": "age is missing"}]}',
        '{"data": {"a": 1}, "errors": [{"message": "b could not be resolved"}]}',
        "Could not find any errors in the file.",
        "Unable to find any vulnerabilities in 214 packages.",
        "Failed to find problems: no errors.",
    ],
)
def test_content_about_errors_is_no_failure(text: str) -> None:
    assert code(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '{"results": []}',
        '{"total": 0}',
        '{"documents": [[]], "ids": [[]]}',
        "No results found",
        "0 matches",
        "Keine Treffer",
        "Sin resultados",
        "Aucun résultat trouvé.",
        '[{"type": "text", "text": "No matching documents."}]',
    ],
)
def test_nothing_found_is_a_failure_of_retrieval_tools_only(text: str) -> None:
    assert ("empty_result", None) == (code(text, retrieval=True), code(text))


@pytest.mark.parametrize(
    "text", ['[{"id": 1}]', '{"results": [{"id": 1}], "total": 1}', "1 match", "### Passage 1\nNo results found is shown."]
)
def test_something_found_is_not_empty(text: str) -> None:
    assert code(text, retrieval=True) is None


def test_an_error_goes_before_an_empty_result() -> None:
    assert "timeout" == code('{"results": [], "error": "search timed out"}', retrieval=True)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (404, "404 Not Found"),
        (429, '{"error": {"code": 429, "message": "quota"}}'),
        (500, "Request failed with status code 500"),
        (127, '{"returncode": 127, "output": "sh: 1: x: not found"}'),
        (-9, "Process exited with code -9"),
        (None, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}'),
    ],
)
def test_the_status_is_that_of_http_or_of_the_process(expected: int | None, text: str) -> None:
    found = read_result(text)
    assert found is not None
    assert expected == found.status


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("acme.errors.QuotaError", TRACEBACK + "acme.errors.QuotaError: used up"),
        ("not_in_channel", '{"ok": false, "error": "not_in_channel"}'),
        ("ENOENT", "ENOENT: no such file or directory, open '/home/ana/x'"),
        ("", "Error: seat of Ana Lopez is taken"),
        ("", '{"success": false, "name": "AnaLopez", "message": "no seat"}'),
    ],
)
def test_the_exception_is_a_name_of_errors_only(expected: str, text: str) -> None:
    found = read_result(text)
    assert found is not None
    assert expected == found.exception


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (12.0, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 12\r\n\r\n"),
        (2.5, '{"status": 429, "error": "Too Many Requests", "retry_after": 2.5}'),
        (0.25, '{"error": {"message": "rate limit", "retry_after_ms": 250}}'),
        (120.0, "Error: Rate limit exceeded. Try again in 2 minutes."),
        (None, "Error: the search did not answer in 10 seconds"),
    ],
)
def test_the_wait_is_in_seconds(expected: float | None, text: str) -> None:
    found = read_result(text)
    assert found is not None
    assert expected == found.retry_after_s


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("city", "Error: missing required parameter `city`"),
        ("date", "Error: missing required argument: 'date'"),
        ("to", "TypeError: send() got an unexpected keyword argument 'to'"),
        ("limit", "1 validation error for Args\nlimit\n  Input should be less than 50"),
        ("start", '{"detail": [{"loc": ["body", "start"], "msg": "field required", "type": "missing"}]}'),
        ("role", '{"error": {"message": "Invalid value", "param": "role", "code": "invalid_value"}}'),
        ("", '{"error": {"message": "Invalid value", "param": "two words"}}'),
    ],
)
def test_the_argument_is_the_one_that_is_blamed(expected: str, text: str) -> None:
    found = read_result(text)
    assert found is not None
    assert ("invalid_arguments", expected) == (found.code, found.argument)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("user_id", '{"error": {"code": "not_found", "message": "No such user", "param": "user_id"}}'),
        ("path", '{"error": "File not found", "field": "path"}'),
    ],
)
def test_what_does_not_exist_is_not_found_whichever_argument_named_it(expected: str, text: str) -> None:
    found = read_result(text)
    assert found is not None
    assert ("not_found", expected) == (found.code, found.argument)


def test_what_a_validator_locates_is_invalid_whatever_it_says() -> None:
    found = read_result('{"detail": [{"loc": ["body", "unit"], "msg": "unit not found", "type": "value_error"}]}')
    assert found is not None
    assert ("invalid_arguments", "unit") == (found.code, found.argument)


def checked(found: ToolFailure | None) -> None:
    if found is not None:
        assert found.code in (*CODES["tool_error"], "empty_result")
        assert all(len(name) <= 96 and not any(c.isspace() for c in name) for name in (found.exception, found.argument))


PIECES = st.sampled_from(
    [
        "Error: ",
        "error",
        "'",
        '"',
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\n",
        " ",
        "\t",
        "404",
        "Traceback (most recent call last):\n",
        '  File "',
        "session ",
        "expired",
        "not found",
        "exit code ",
        "1",
        "-",
        "\\",
        "null",
        "retry after ",
        "\x1b[0m",
        "\ud800",
        "<title>",
        "ValueError",
    ]
)


@given(st.text() | st.lists(PIECES, max_size=60).map("".join), st.booleans())
def test_any_text_can_be_read(text: str, retrieval: bool) -> None:
    checked(read_result(text, retrieval=retrieval))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | PIECES
KEYS = st.sampled_from(
    [
        "error",
        "errors",
        "status",
        "code",
        "message",
        "success",
        "isError",
        "content",
        "detail",
        "exit_code",
        "stderr",
        "data",
        "results",
        "total",
        "retry_after",
        "loc",
        "msg",
        "type",
        "text",
        "result",
        "extensions",
    ]
)


@given(
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=24),
    st.booleans(),
)
def test_any_json_can_be_read(value: object, retrieval: bool) -> None:
    checked(read_result(json.dumps(value), retrieval=retrieval))
    checked(read_result(repr(value), retrieval=retrieval))


@given(st.text(max_size=200), st.text(min_size=1, max_size=50))
def test_the_middle_of_a_long_text_makes_no_difference(edge: str, middle: str) -> None:
    padded = edge + "." * 4000
    texts = [padded + filler * 20_000 for filler in ("x", "y")]
    assert len({read_result(text[:20_001] + middle + padded) for text in texts}) == 1


HOSTILE = [
    "a",
    " ",
    "\n",
    "E",
    "Error: ",
    "Error ",
    "_",
    "a.",
    "A::",
    "'",
    "`",
    "<",
    "<style",
    "{",
    "[",
    '[{"error":',
    "session ",
    "unable to read ",
    "404 ",
    "\x1b[",
    "parameter ",
    "    at x\n",
    "status code ",
    "AError",
    "sh: ",
    "the file ",
    "Traceback (most recent call last):\n",
]


@pytest.mark.cost
@pytest.mark.parametrize("characters", [390, 3_990, 190_000, 1_000_000])
def test_hostile_text_costs_little(characters: int) -> None:
    for unit in HOSTILE:
        text = (unit * (characters // len(unit) + 1))[:characters]
        with below(0.25):
            read_result(text, retrieval=True)


def test_objects_nested_deeply_are_no_failure() -> None:
    assert read_result("[" * 90_000 + "]" * 90_000) is None


def test_json_above_the_limit_is_not_parsed() -> None:
    assert read_result(json.dumps({"success": False, "message": "x" * 200_000})) is None
