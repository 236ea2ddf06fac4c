"""Nothing that a client does may end in an exception inside the server, also where the client does not notice."""

from __future__ import annotations

import pytest

from tests.clients.conftest import RunScript

pytestmark = pytest.mark.clients

SCRIPTS = (
    "openai_sync.py",
    "openai_async.py",
    "openai.mjs",
    "langchain_chat.py",
    "pydantic_ai_agent.py",
    "openai_agents.py",
    "litellm_client.py",
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_server_logs_no_error(run: RunScript, delivery: str, script: str) -> None:
    assert [] == run(script, delivery).logged
