"""Who sent a request, as far as can be told: this machine's own programs, a web page, another machine, a proxy in front of this one.

A server without keys is for its own machine. Then the peer must be on it, the ``Host`` must be a loopback name (a web page that rebinds a
name of its own to 127.0.0.1 sends that name), no page of another site may have made the request, and no reverse proxy may stand in front:
what comes through one has its address and not its client's. ``server.trusted_proxies`` says whose word on the client's address is believed.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from proxy.errors import ConfigError

_CLIENT_IS_KNOWN = "groundwire.client_known"
"""In a scope: a trusted proxy has said whose address ``client`` is."""
_FORWARDING = frozenset(
    (b"forwarded", b"via", b"x-real-ip", *(b"x-forwarded-" + name for name in (b"for", b"host", b"port", b"prefix", b"proto", b"server")))
)
"""What reverse proxies add: RFC 7239, RFC 9110 section 7.6.3, and custom."""
_UNKNOWN_NAME = "this is open only under a loopback name: use http://127.0.0.1 or http://localhost (server.hosts adds a name)"
_ORIGIN_HEADERS = (b"host", b"origin", b"sec-fetch-site")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be this machine."""
    if host in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def foreign_name(scope: Mapping[str, Any], hosts: tuple[str, ...] = ()) -> str:
    """Why a request over loopback may be a web page's that rebinds a name of its own; "" when it cannot. `hosts` are further names."""
    client, server = scope.get("client"), scope.get("server")
    if client is None or server is None or scope.get(_CLIENT_IS_KNOWN) or not is_loopback(client[0]) or not is_loopback(server[0]):
        return ""
    for name, value in scope["headers"]:
        if name == b"host":
            return "" if _is_own(value, hosts) else _UNKNOWN_NAME
    return ""  # every browser names one


@lru_cache(maxsize=1024)
def _is_own(netloc: bytes, hosts: tuple[str, ...]) -> bool:
    """Whether it cannot be a name that somebody else gives this machine."""
    plain = _host_name(netloc.decode("latin-1")).lower().removesuffix(".")
    return is_loopback(plain) or plain.endswith(".localhost") or plain in hosts or plain == socket.gethostname().lower()


def reason_for_remote(scope: Mapping[str, Any], hosts: Sequence[str] = ()) -> str:
    """Why a request may have come from elsewhere than this machine's own programs; "" when it cannot. `hosts` are further names of it."""
    client = scope.get("client")
    if client is None or not is_loopback(client[0]):
        return "this is open to the server's own machine only"
    told: dict[bytes, str] = {}
    proxied = False
    for name, value in scope["headers"]:
        proxied = proxied or name in _FORWARDING
        if name in _ORIGIN_HEADERS:
            told.setdefault(name, value.decode("latin-1"))
    if proxied and not scope.get(_CLIENT_IS_KNOWN):
        return "this is open to the server's own machine only, and the request came through a proxy (server.trusted_proxies)"
    host = _host_name(told.get(b"host", ""))
    if not is_loopback(host) and host.lower() not in hosts:
        return _UNKNOWN_NAME
    origin = told.get(b"origin")
    if told.get(b"sec-fetch-site") == "cross-site" or (origin and not is_loopback(_host_name(origin.partition("://")[2]))):
        return "requests from another site's page are refused"
    return ""


def _host_name(netloc: str) -> str:
    """A netloc without its port."""
    if netloc.startswith("["):
        return netloc.partition("]")[0].strip("[]")
    return netloc.rpartition(":")[0] or netloc


def _without_port(address: str) -> str:
    """An address as some proxies write it, Azure's among them: ``192.0.2.1:50123``, ``[2001:db8::1]:50123``. The port tells no client from
    another, and each connection has its own."""
    return _host_name(address) if address.startswith("[") or address.count(":") == 1 else address


class TrustedProxies:
    """Finds the client's own address behind the proxies that may tell it."""

    def __init__(self, networks: Sequence[str]) -> None:
        """`networks` are addresses or ranges, as ``10.0.0.0/8``. Raises `ConfigError`."""
        self._networks: list[Network] = []
        for i, network in enumerate(networks):
            try:
                self._networks.append(ipaddress.ip_network(network))
            except ValueError as error:
                raise ConfigError("config.yaml", f"server.trusted_proxies[{i}]", str(error)) from None

    def resolve(self, scope: dict[str, Any]) -> dict[str, Any]:
        """`scope` with the client's own address: the last one of ``x-forwarded-for`` that is no trusted proxy's."""
        client = scope.get("client")
        if client is None or not self.trusts(client[0]):
            return scope
        lines = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        passed = [_without_port(address.strip()) for line in lines for address in line.split(",")]
        if not passed:
            return scope
        while len(passed) > 1 and self.trusts(passed[-1]):
            passed.pop()
        return {**scope, "client": (passed[-1], 0), _CLIENT_IS_KNOWN: True}

    def trusts(self, address: str) -> bool:
        """Whether many clients come from there."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)
