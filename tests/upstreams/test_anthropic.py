import pytest

from proxy.config.settings import AnthropicSettings
from proxy.ports.upstream import Call
from proxy.testing import ScriptedUpstream, reply
from proxy.upstreams.openai import VERSION, AnthropicUpstream
from tests.messages import message

CLIENTS = [("x-api-key", "sk-client"), ("authorization", "Bearer sk-client"), ("anthropic-beta", "b-1")]


async def sent(path: str, headers: list[tuple[str, str]], **settings: str) -> dict[str, str]:
    """The headers that arrive."""
    async with ScriptedUpstream(reply(message())) as server:
        upstream = AnthropicUpstream("claude", AnthropicSettings(base_url=server.base_url, **settings))
        await upstream.start()
        try:
            answer = await upstream.send(Call("POST", path, headers, b"{}"))
            await answer.read()
            await answer.close()
        finally:
            await upstream.stop()
    return dict(server.calls[0].headers)


async def test_the_operators_key_takes_the_place_of_the_clients() -> None:
    headers = await sent("/messages", CLIENTS, api_key="sk-own")
    assert ("sk-own", "b-1", VERSION) == tuple(headers[name] for name in ("x-api-key", "anthropic-beta", "anthropic-version"))
    assert "sk-client" not in str(headers)


async def test_forward_passes_the_clients_own_key_and_version() -> None:
    headers = await sent("/messages", [*CLIENTS, ("anthropic-version", "2031-01-01")], api_key="forward")
    assert ("sk-client", "Bearer sk-client", "2031-01-01") == tuple(
        headers[name] for name in ("x-api-key", "authorization", "anthropic-version")
    )


@pytest.mark.parametrize("path", ["/chat/completions"])
async def test_a_path_in_openais_form_gets_the_key_in_openais_header(path: str) -> None:
    headers = await sent(path, CLIENTS, api_key="sk-own")
    assert "Bearer sk-own" == headers["authorization"]
    assert "x-api-key" not in headers


def test_its_address_is_anthropics_unless_another_is_given() -> None:
    assert "https://api.anthropic.com/v1" == AnthropicSettings().base_url
