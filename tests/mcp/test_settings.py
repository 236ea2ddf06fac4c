"""``mcp:`` of config.yaml and the stage's servers: what is refused, with its place; and what is secret."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from proxy.config.mcp import McpServerSettings
from proxy.config.settings import load_settings
from proxy.errors import ConfigError
from proxy.policy.loading import load_policies
from proxy.testing import completion, reply
from tests.conftest import Start
from tests.mcp.servers import make_server, over_http
from tests.mcp.test_offering import TAP, asked

BASE = "upstreams: {main: {kind: openai, base_url: 'http://127.0.0.1:1/v1'}}\nroutes: [{upstream: main, policy: policy.yaml}]\n"


def problems(tmp_path: Path, mcp: str, environ: dict[str, str] | None = None) -> list[str]:
    (tmp_path / "config.yaml").write_text(f"{BASE}mcp: {mcp}\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path / "config.yaml", environ or {})
    return [line.removeprefix(f"{tmp_path}/config.yaml: ") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize(
    ("mcp", "expected"),
    [
        ("{servers: {shop: {}}}", "mcp.servers.shop: expected a url (streamable HTTP), or a command"),
        ("{servers: {shop: {url: 'http://a', command: b}}}", "mcp.servers.shop: expected a url (streamable HTTP), or a command"),
        ("{servers: {Shop_1: {url: 'http://a'}}}", "mcp.servers.Shop_1: expected a name of small letters"),
        ("{servers: {a-b-c-d-e-f-g-h-i-j-k-l-m: {url: 'http://a'}}}", "l-m: expected a name of small letters"),
        ("{servers: {shop: {url: 'ftp://a'}}}", "mcp.servers.shop.url: expected http://"),
        ("{servers: {shop: {url: 'http://a', args: [x]}}}", "mcp.servers.shop.args: is for a server with a command"),
        ("{servers: {shop: {command: a, headers: {b: c}}}}", "mcp.servers.shop.headers: is for a server with a url"),
        ("{servers: {shop: {url: 'http://a', timeout: 3}}}", "timeout_s"),
        ("{servers: {shop: {url: 'http://a', approve: never}}}", "mcp.servers.shop.approve"),
        ("{servers: {shop: {url: 'http://a', headers: {Authorization: 'Bearer ${NO_SUCH}'}}}}", "NO_SUCH is not set"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(tmp_path: Path, mcp: str, expected: str) -> None:
    found = problems(tmp_path, mcp)
    assert any(expected in line for line in found), found


def test_a_policy_that_names_a_server_that_is_not_there_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("name: p\nstages: [mcp: {servers: [shpo]}]\n")
    (tmp_path / "config.yaml").write_text(f"{BASE}mcp: {{servers: {{shop: {{url: 'http://127.0.0.1:1/mcp'}}}}}}\n")
    with pytest.raises(ConfigError, match=r"stages.mcp.servers\[0\].*no MCP server 'shpo'.*did you mean 'shop'"):
        load_policies(load_settings(tmp_path / "config.yaml", {}))


def test_secrets_are_headers_named_variables_and_what_a_url_hides() -> None:
    url = "https://me:secret-password@host/mcp?region=eu-west-10&api_key=0123%2F56789"
    server = McpServerSettings(url=url, headers={"Authorization": "Bearer abcdefghij"})
    of_url = {"me:secret-password", "secret-password", "region=eu-west-10&api_key=0123%2F56789", "0123%2F56789", "0123/56789"}
    assert of_url | {"Bearer abcdefghij", "abcdefghij"} == set(server.secrets)
    assert ("token-0123456789",) == McpServerSettings(command="x", env={"SHOP_TOKEN": "token-0123456789", "REGION": "eu-west-10"}).secrets


async def test_a_servers_secrets_reach_no_log_no_record_and_no_model(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "groundwire")
    secret = "shop-secret-0123456789"
    server = make_server()

    @server.tool(structured_output=False)
    def leak() -> str:
        """Says what it knows."""
        return f"my key is {secret}"

    replies = reply(asked("mcp__shop__leak", "{}")), reply(completion())
    async with over_http(server) as url:
        shop, away = f"url: '{url}?key={secret}', headers: {{X-Key: {secret}}}", f"url: 'http://127.0.0.1:1/mcp?key={secret}'"
        config = f"mcp: {{servers: {{shop: {{{shop}}}, other: {{{away}}}}}}}\n"
        async with start(*replies, policy=TAP, config=config) as proxy:
            while set(proxy.app.mcp.away()) != {"other"} or "not connected" in proxy.app.mcp.away()["other"]:
                await asyncio.sleep(0.01)
            got = await proxy.post()
            assert "my key is [masked]" == proxy.upstream.calls[1].json["messages"][-1]["content"]
            assert secret not in str(await proxy.record(got))
            assert secret not in (await proxy.get("/ready")).body.decode()
    assert "MCP server other is away" in caplog.text
    assert secret not in "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("groundwire"))
