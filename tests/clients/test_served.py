"""openai-python against `groundwire serve` as a process of its own: shipped policies, the litellm upstream, the embedded model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from proxy.upstreams.gguf import default_model_path
from tests.clients.conftest import HERE, ROOT, Outcome, client_python, run_at_each, run_script
from tests.clients.expected import CALLS, TOLD
from tests.clients.provider import REPORT, SECOND, TEXT, USAGE
from tests.clients.servers import serve

pytestmark = pytest.mark.clients

POLICIES, TRANSLATED_ROUTE = ("default", "rag", "agent", "strict"), "translated"


@pytest.fixture(scope="module")
def by_route(address: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """openai-python's cases on every route."""
    base_urls = {name: f"{address}/{name}/v1" for name in (*POLICIES, TRANSLATED_ROUTE)}
    return run_at_each("openai_sync.py", tmp_path_factory.mktemp("served"), base_urls)


@pytest.fixture
def got(request: pytest.FixtureRequest, by_route: dict[str, Outcome]) -> Outcome:
    """Those on the route named by the parameter."""
    return by_route[request.param]


SHIPPED = pytest.mark.parametrize("got", POLICIES, indirect=True)
TRANSLATED = pytest.mark.parametrize("got", [pytest.param(TRANSLATED_ROUTE, marks=pytest.mark.slow)], indirect=True)


@SHIPPED
def test_a_shipped_policy_lets_chats_and_streams_pass(got: Outcome) -> None:
    assert [TEXT, TEXT] == [got["whole"]["text"], got["stream"]["text"]]
    assert "unchecked" == got["whole"]["headers"]["x-groundwire-verdict"]
    assert {"choices": 0, "total": USAGE["total_tokens"], "others": []} == got["stream_with_usage"]


@SHIPPED
def test_a_shipped_policy_lets_tools_pass(got: Outcome) -> None:
    assert {"calls": CALLS, "text": TOLD} == got["tools"]
    assert (CALLS, TOLD) == (got["stream_tools"]["calls"], got["stream_tools"]["text"])
    assert CALLS == got["interleaved_tools"]


@SHIPPED
def test_a_shipped_policy_lets_structured_output_and_choices_pass(got: Outcome) -> None:
    assert [REPORT, REPORT] == [got["parsed"]["whole"], got["parsed"]["stream"]]
    assert {"whole": [TEXT, SECOND], "stream": [TEXT, SECOND]} == got["two_choices"]


@SHIPPED
def test_a_shipped_policy_can_say_its_verdict_inline(got: Outcome) -> None:
    assert ([TEXT, "unchecked"], [0, "unchecked"]) == (got["inline"]["whole"], got["inline"]["last"])


@SHIPPED
def test_a_shipped_policy_refuses_what_cannot_fit(got: Outcome) -> None:
    error = got["errors"]["too_long"]
    assert ("BadRequestError", "context_length_exceeded") == (error["kinds"][0], error["code"])


@TRANSLATED
def test_chats_and_streams_through_the_litellm_upstream(got: Outcome) -> None:
    assert [TEXT, TEXT] == [got["whole"]["text"], got["stream"]["text"]]
    assert {"choices": 0, "total": USAGE["total_tokens"], "others": []} == got["stream_with_usage"]
    assert {"whole": [TEXT, SECOND], "stream": [TEXT, SECOND]} == got["two_choices"]


@TRANSLATED
def test_tools_through_the_litellm_upstream(got: Outcome) -> None:
    assert {"calls": CALLS, "text": TOLD} == got["tools"]


@TRANSLATED
def test_streamed_tools_through_the_litellm_upstream(got: Outcome) -> None:
    assert (CALLS, TOLD) == (got["stream_tools"]["calls"], got["stream_tools"]["text"])
    assert CALLS == got["interleaved_tools"]


@TRANSLATED
def test_structured_output_through_the_litellm_upstream(got: Outcome) -> None:
    assert [REPORT, REPORT] == [got["parsed"]["whole"], got["parsed"]["stream"]]


@TRANSLATED
@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("wrong_key", "AuthenticationError", "invalid_api_key"),
        ("limited", "RateLimitError", "rate_limit_exceeded"),
        ("refused", "BadRequestError", "unsupported_value"),
    ],
)
def test_errors_through_the_litellm_upstream(got: Outcome, name: str, kind: str, code: str) -> None:
    assert (kind, code) == (got["errors"][name]["kinds"][0], got["errors"][name]["code"])


@pytest.mark.slow
def test_the_default_config_answers_with_the_embedded_model(tmp_path: Path) -> None:
    if not default_model_path().exists():
        pytest.skip("no embedded model: `groundwire fetch-model` fetches it")
    shutil.copytree(ROOT / "policies", tmp_path / "policies")
    shutil.copy(ROOT / "config.yaml", tmp_path / "config.yaml")
    with serve(tmp_path) as url:
        got = run_script([client_python(), HERE / "scripts/embedded.py"], tmp_path, f"{url}/v1")
    whole, stream = got["whole"], got["stream"]
    assert "paris" in whole["text"].lower()
    assert whole["headers"]["x-groundwire-policy"].startswith("default@")
    assert ("unchecked", "assistant") == (whole["headers"]["x-groundwire-verdict"], whole["role"])
    assert whole["tokens"][0] > 0
    assert whole["text"] == stream["text"]
    assert stream["pieces"] > 2
    assert whole["tokens"] == stream["tokens"]
    assert got["models"]
    assert "BadRequestError" in got["errors"]["too_long"]["kinds"]
    assert "context_length_exceeded" == got["errors"]["too_long"]["code"]
