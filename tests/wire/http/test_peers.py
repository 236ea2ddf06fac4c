"""Whose word on a client's address is believed."""

import pytest

from proxy.errors import ConfigError
from proxy.wire.http.peers import TrustedProxies, foreign_name, reason_for_remote


def scope(peer: str, *forwarded: str, **headers: str) -> dict[str, object]:
    raw = [(b"x-forwarded-for", line.encode()) for line in forwarded]
    return {
        "type": "http",
        "client": (peer, 1),
        "headers": [*raw, (b"host", b"localhost"), *((k.encode(), v.encode()) for k, v in headers.items())],
    }


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("127.0.0.1", ("198.51.100.7",), "198.51.100.7"),
        ("127.0.0.1", ("203.0.113.9, 198.51.100.7, 10.1.2.3",), "198.51.100.7"),
        ("127.0.0.1", ("203.0.113.9", "198.51.100.7"), "198.51.100.7"),
        ("127.0.0.1", ("10.1.2.3, 10.1.2.4",), "10.1.2.3"),
        ("127.0.0.1", ("203.0.113.9, 198.51.100.7:50123, 10.1.2.3:443",), "198.51.100.7"),
        ("127.0.0.1", ("[2001:db8::1]:50123",), "2001:db8::1"),
        ("127.0.0.1", ("2001:db8::1",), "2001:db8::1"),
        ("127.0.0.1", (), "127.0.0.1"),
        ("198.51.100.1", ("127.0.0.1",), "198.51.100.1"),
    ],
    ids=[
        "one",
        "what the client itself wrote is not believed",
        "two lines",
        "trusted all the way",
        "with ports",
        "IPv6 with a port",
        "IPv6",
        "none",
        "not a trusted proxy",
    ],
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(peer: str, forwarded: tuple[str, ...], expected: str) -> None:
    resolved = TrustedProxies(["127.0.0.1", "10.0.0.0/8"]).resolve(scope(peer, *forwarded))
    assert expected == resolved["client"][0]


def test_a_client_behind_a_trusted_proxy_is_not_this_machine() -> None:
    proxies = TrustedProxies(["127.0.0.1"])
    assert "own machine only" in reason_for_remote(proxies.resolve(scope("127.0.0.1", "198.51.100.7")))
    assert "" == reason_for_remote(proxies.resolve(scope("127.0.0.1", "127.0.0.1")))


def test_a_proxy_that_says_nothing_of_its_client_is_not_believed() -> None:
    assert "proxy" in reason_for_remote(TrustedProxies(["127.0.0.1"]).resolve(scope("127.0.0.1", via="1.1 gateway")))


def test_a_network_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"server\.trusted_proxies\[1\]"):
        TrustedProxies(["10.0.0.0/8", "10.0.0.0/99"])


@pytest.mark.parametrize(
    ("host", "foreign"),
    [
        *[(host, False) for host in ("127.0.0.1:4000", "localhost", "LOCALHOST:4000", "[::1]:4000", "app.localhost", "named.test:4000")],
        *[(host, True) for host in ("evil.example", "evil.example:4000", "127.0.0.1.evil.example", "", "localhost.evil.example")],
    ],
)
def test_a_name_that_a_web_page_could_have_rebound_is_foreign_on_loopback(host: str, foreign: bool) -> None:
    found = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 4000), "headers": [(b"host", host.encode())]}
    elsewhere = {**found, "client": ("10.0.0.5", 1), "server": ("10.0.0.1", 4000)}
    assert (foreign, "") == (foreign_name(found, ("named.test",)) != "", foreign_name(elsewhere))
