"""Forward proxies: which one stands before a server, and how a request goes through it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import groundwire_http1 as http1
import pytest
from groundwire_http1.proxies import from_environment, proxy_of
from yarl import URL

from proxy.config.settings import load_settings
from proxy.errors import ConfigError, UpstreamUnreachable
from tests.upstreams.http1.raw_server import OK, Heard, read_request, said, saying, talking
from tests.upstreams.http1.test_connections import CERTIFICATE, LIMITS, _server_tls
from tests.upstreams.test_openai import opened

BOTH = {"HTTPS_PROXY": "http://inner:3128", "HTTP_PROXY": "http://plain:8080"}


@pytest.mark.parametrize(
    ("server", "environment", "place"),
    [
        ("https://api.example.com/v1", {}, None),
        ("https://api.example.com/v1", BOTH, "inner:3128"),
        ("http://api.example.com/v1", BOTH, "plain:8080"),
        ("https://api.example.com/v1", {"https_proxy": "http://lower:1", **BOTH}, "lower:1"),
        ("https://api.example.com/v1", {"https_proxy": "", **BOTH}, None),
        ("https://api.example.com/v1", {"ALL_PROXY": "http://all:1"}, "all:1"),
        ("http://api.example.com/v1", {"ALL_PROXY": "http://all:1", **BOTH}, "plain:8080"),
        ("https://api.example.com/v1", {"HTTPS_PROXY": "inner:3128"}, "inner:3128"),
        ("https://api.example.com/v1", {"HTTPS_PROXY": "http://[::1]:3128/"}, "[::1]:3128"),
        ("http://api.example.com/v1", {"HTTP_PROXY": "http://plain:8080", "REQUEST_METHOD": "GET"}, None),
        ("http://api.example.com/v1", {"http_proxy": "http://plain:8080", "REQUEST_METHOD": "GET"}, "plain:8080"),
        ("http://localhost:11434/v1", BOTH, None),
        ("http://LOCALHOST.:11434/v1", BOTH, None),
        ("http://a.localhost/v1", BOTH, None),
        ("http://127.8.0.1/v1", BOTH, None),
        ("http://0.0.0.0:8000/v1", BOTH, None),
        ("http://[::1]:8000/v1", BOTH, None),
        ("http://[::ffff:127.0.0.1]:8000/v1", BOTH, None),
        ("http://localhost.example.com/v1", BOTH, "plain:8080"),
    ],
)
def test_the_environment_names_a_proxy(server: str, environment: Mapping[str, str], place: str | None) -> None:
    found = from_environment(URL(server), environment)
    assert place == (found and found.place)


@pytest.mark.parametrize(
    ("listed", "server", "exempt"),
    [
        ("*", "https://api.example.com", True),
        ("example.com", "https://example.com", True),
        ("example.com", "https://api.example.com", True),
        ("EXAMPLE.com.", "https://api.Example.com", True),
        (".example.com", "https://api.example.com", True),
        ("*.example.com", "https://api.example.com", True),
        ("example.com", "https://badexample.com", False),
        ("example.com", "https://example.com.evil.org", False),
        ("a.org, example.com b.org", "https://example.com", True),
        ("example.com:443", "https://api.example.com", True),
        ("example.com:8443", "https://api.example.com", False),
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.0.0.0/8", "https://11.1.2.3", False),
        ("10.0.0.0/8", "https://10.example.com", False),
        ("10.0.0.0/99", "https://10.1.2.3", False),
        ("fd00::/8", "https://[fd00::1]", True),
        ("10.1.2.3", "https://10.1.2.3", True),
        ("2.3", "https://10.1.2.3", False),
        ("10.1.2.3:8000", "https://10.1.2.3", False),
        ("10.1.2.3:443", "https://10.1.2.3", True),
        ("[fd00::1]:443", "https://[fd00::1]", True),
        ("fd00::1", "https://[fd00:0::1]", True),
        ("[fd00::1]", "https://[fd00::1]", True),
        (", ,.,:", "https://api.example.com", False),
    ],
)
def test_no_proxy_exempts_hosts_suffixes_ports_and_networks(listed: str, server: str, exempt: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        assert exempt == (from_environment(URL(server), {**BOTH, name: listed}) is None)


@pytest.mark.parametrize(
    "url", ["https://us:secret@inner:3128", "socks5://us:secret@inner:1080", "http://us:secret@", "http://us:secret@h:99999"]
)
def test_a_proxy_of_another_kind_is_refused_without_its_credentials(url: str) -> None:
    with pytest.raises(http1.BadProxy) as raised:
        from_environment(URL("https://api.example.com"), {"HTTPS_PROXY": url})
    assert str(raised.value).startswith("HTTPS_PROXY in the environment: ")
    assert "secret" not in str(raised.value)


def test_a_proxys_credentials_are_in_no_text_of_it() -> None:
    found = proxy_of("http://us%20er:secret@inner:3128")
    assert "Basic dXMgZXI6c2VjcmV0" == found.authorization
    assert "dXMg" not in f"{found!r} {found}"
    assert "inner:3128" == found.place


def test_a_configured_proxy_that_is_none_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "config.yaml"
    path.write_text("upstreams: {main: {kind: openai, base_url: 'https://x.org/v1', proxy: 'socks5://us:secret@h:1'}}\nroutes: []\n")
    with pytest.raises(ConfigError, match=r"upstreams\.main\.proxy") as raised:
        load_settings(path)
    assert "secret" not in str(raised.value)


async def test_an_http_server_is_asked_in_absolute_form() -> None:
    async with saying(OK) as server:
        proxy = server.url.removesuffix("/v1").replace("http://", "http://us:pw@")
        async with opened("http://api.example.test:8000/v1", proxy=proxy) as upstream:
            assert [b"ok"] * 2 == [await said(upstream), await said(upstream)]
    assert 1 == server.connections
    assert 2 == bytes(server.received).count(
        b"POST http://api.example.test:8000/v1/chat/completions HTTP/1.1\r\nHost: api.example.test:8000\r\n"
        b"Proxy-Authorization: Basic dXM6cHc=\r\n"
    )


async def test_the_environments_proxy_is_asked_unless_configuration_says_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with saying(OK) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
        async with opened("http://api.example.test/v1") as upstream:
            assert b"ok" == await said(upstream)
        async with opened("http://api.example.test/v1", proxy="none") as upstream:
            with pytest.raises(UpstreamUnreachable, match="cannot connect"):
                await said(upstream)
        async with saying(OK) as direct, opened(direct.url) as upstream:  # on loopback
            assert b"ok" == await said(upstream)
    assert (1, 1) == (server.connections, direct.connections)


async def test_a_proxy_that_asks_for_credentials_is_no_answer_of_the_upstream() -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n"
    async with saying(refusal) as server, opened("http://api.example.test/v1", proxy=server.url.removesuffix("/v1")) as upstream:
        with pytest.raises(UpstreamUnreachable, match="a proxy on the way asks for credentials"):
            await said(upstream)


@asynccontextmanager
async def tunnelling(to: str, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> AsyncIterator[Heard]:
    """A proxy whose tunnels all end at `to`."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(2**16):
            writer.write(piece)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.received += await read_request(reader)
        writer.write(answer)
        if b" 200 " not in answer:
            return
        there, back = await asyncio.open_connection("127.0.0.1", URL(to).port)
        try:
            await asyncio.gather(pump(reader, back), pump(there, writer))
        finally:
            back.close()

    async with talking(talk) as heard:
        yield heard


async def test_an_https_server_is_reached_through_a_tunnel_and_shows_its_own_certificate() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await read_request(reader):
            asked.append(request)
            writer.write(OK)

    asked: list[bytes] = []
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    async with talking(talk, ssl=_server_tls()) as server, tunnelling(server.url) as proxy:
        way = proxy.url.removesuffix("/v1").replace("http://", "http://us:pw@")
        pool = http1.Pool(http1.Origin("https://localhost:8443/v1", proxy=way), LIMITS, tls=trusting)
        connection = await pool.connect()
        for _ in range(2):
            await connection.ask(pool.origin.head("GET", "/models", [], "\r\n"), b"", None, 5.0)
            assert b"ok" == await connection.piece()
            connection.release()
            assert connection is pool.kept()
        await pool.close()
        other = http1.Pool(http1.Origin("https://example.test/v1", proxy=way), LIMITS, tls=trusting)
        with pytest.raises(http1.NotConnected, match="CERTIFICATE_VERIFY_FAILED"):
            await other.connect()
    assert b"CONNECT localhost:8443 HTTP/1.1\r\nHost: localhost:8443\r\nProxy-Authorization: Basic dXM6cHc=\r\n\r\n" in proxy.received
    assert [b"GET /v1/models HTTP/1.1\r\nHost: localhost:8443\r\n\r\n"] * 2 == asked


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n", "refused with status 407"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\nno", "refused with status 502"),
        (b"SSH-2.0-x\r\n\r\n", "an answer that is none"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "an answer that is none"),
        (b"HTTP/1.1 201 OK\r\n\r\n\x16\x03\x01", "an answer that is none"),
        (b"HTTP/1.1 200\n\n", "no answer"),
        (b"HTTP/1.1 20", "no answer"),
        (b"HTTP/1.1 502 x\r\n" + b"x: 1\r\n" * 10_000, "no answer"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_a_failure_that_says_so(answer: bytes, why: str) -> None:
    async with saying(answer, close=True) as proxy:
        url = f"http://us:secret@127.0.0.1:{URL(proxy.url).port}"
        async with opened("https://api.example.test/v1", proxy=url) as upstream:
            with pytest.raises(UpstreamUnreachable, match=f"the proxy 127.*{why}") as raised:
                await said(upstream)
    assert "secret" not in str(raised.value)
