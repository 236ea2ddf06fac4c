"""google-genai under the shipped policies before a provider of its own API, and before those of the three others."""

from __future__ import annotations

import pytest

from tests import gemini
from tests.clients.conftest import GEMINI_ROUTES, TRANSLATED_ROUTES, Outcome, RunByRoute
from tests.clients.expected import TOLD, WEATHER_CALLS
from tests.clients.gemini_provider import COUNTED
from tests.clients.provider import REPORT, TEXT

pytestmark = pytest.mark.clients
OTHERS = (*TRANSLATED_ROUTES, "messages-default")


@pytest.fixture(scope="module", params=GEMINI_ROUTES + OTHERS)
def route(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def got(run_by_route: RunByRoute, route: str) -> Outcome:
    return run_by_route("genai_models.py", route)


def test_an_answer_whole_and_streamed(got: Outcome) -> None:
    whole = got["whole"]
    assert (TEXT, "STOP", "unchecked") == (whole["text"], whole["finish"], whole["headers"]["x-groundwire-verdict"])
    assert ({"text": TEXT, "finish": "STOP"}, TEXT) == (got["stream"], got["asynchronous_stream"])


def test_tool_round_trips(got: Outcome) -> None:
    assert {"calls": WEATHER_CALLS, "text": TOLD} == got["tools"]
    assert TOLD == got["library_calls_functions"]


def test_thoughts_and_signatures_come_back(got: Outcome, route: str) -> None:
    found = got["stream_tools_with_thinking"]
    assert (WEATHER_CALLS, TOLD) == (found["calls"], found["text"])
    if route in GEMINI_ROUTES:
        assert (gemini.THOUGHT["text"], [True, False]) == (found["thoughts"], found["signed"])


def test_the_library_keeps_a_conversation(got: Outcome) -> None:
    assert [TEXT, TEXT] == got["chat"][:2]


def test_an_answer_of_one_form(got: Outcome) -> None:
    assert REPORT == got["structured"]


def test_tokens_are_counted(got: Outcome, route: str) -> None:
    assert COUNTED == got["count_tokens"] if route in GEMINI_ROUTES else 0 < got["count_tokens"] < 30


def test_the_inline_verdict_does_not_break_parsing(got: Outcome) -> None:
    assert [TEXT, TEXT] == got["inline"]


def test_errors_are_the_librarys_own(got: Outcome) -> None:
    expected = {
        "wrong_key": {"kind": "ClientError", "code": 401, "status": "UNAUTHENTICATED"},
        "limited": {"kind": "ClientError", "code": 429, "status": "RESOURCE_EXHAUSTED"},
        "breaks": {"kind": "ServerError", "code": 502, "status": "UNAVAILABLE"},
    }
    assert expected == got["failures"]


def test_a_block_is_a_candidate_that_a_filter_has_ended(got: Outcome, route: str) -> None:
    found = got["contradicted"]
    if route == "gemini-strict":
        assert [("SAFETY", "")] * 2 == [(one["finish"], one["text"]) for one in found.values()]
    else:
        assert (["STOP"] * 2, TEXT) == ([one["finish"] for one in found.values()], found["whole"]["text"])
