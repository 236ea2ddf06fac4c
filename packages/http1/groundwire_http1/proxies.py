"""A forward proxy between here and a server: which one, and the tunnel through it.

In: a server's URL, and what configuration or the environment (``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``, ``NO_PROXY``) says. Out: a
`Proxy`, or None. An https server is reached by ``CONNECT`` (RFC 9110 section 9.3.6), an http one by requests in absolute form (RFC 9112
section 3.2.2). Proxies that want TLS themselves, and SOCKS, are refused. The environment never puts a proxy before a loopback address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from yarl import URL

from groundwire_http1.failures import NotConnected

_MAX_HEAD_BYTES = 2**14
_OPENED = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n\0]*)?")
_PORT = re.compile(r"(.*?):([0-9]{1,5})", re.S)


class BadProxy(ValueError):
    """A proxy's URL is none, or of another kind; its text has no credentials in it."""


@dataclass(slots=True, frozen=True)
class Proxy:
    """Where it listens. Its credentials are in no text that is made of it."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)
    """The value of ``Proxy-Authorization``, or empty."""

    @property
    def place(self) -> str:
        """For messages."""
        return f"{bracketed(self.host)}:{self.port}"

    @property
    def header(self) -> str:
        """What it wants to know of who asks: a line, or nothing."""
        return f"Proxy-Authorization: {self.authorization}\r\n" if self.authorization else ""


def proxy_of(url: str) -> Proxy:
    """The proxy at a URL. Raises `BadProxy`."""
    if "://" not in url:  # as curl takes it
        url = f"http://{url}"
    try:
        found = URL(url)
        host, port = found.raw_host, found.port
    except ValueError:
        raise BadProxy("not a URL") from None
    if found.scheme != "http":
        raise BadProxy(f"a proxy is reached by http://, not by {found.scheme}://")
    if not host or not port or found.raw_path not in ("", "/") or found.raw_query_string:
        raise BadProxy("expected http://HOST:PORT")
    signed = bool(found.raw_user or found.raw_password)
    return Proxy(host, port, f"Basic {basic(found.user or '', found.password or '')}" if signed else "")


def from_environment(server: URL, environment: Mapping[str, str]) -> Proxy | None:
    """The proxy that the environment names for a server; lower-case names come first, as curl reads them. Raises `BadProxy`."""
    host, port = server.raw_host or "", server.port or 0
    if is_loopback(host) or _is_exempt(host, port, _variable(environment, "no_proxy")[1]):
        return None
    own = f"{server.scheme}_proxy"
    name, url = _variable(environment, own)
    if own == "http_proxy" and name.isupper() and "REQUEST_METHOD" in environment:  # a client's header `Proxy`, under CGI
        url = ""
    if not url:
        name, url = _variable(environment, "all_proxy")
    if not url:
        return None
    try:
        return proxy_of(url)
    except BadProxy as error:
        raise BadProxy(f"{name} in the environment: {error}") from None


def _variable(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """A variable's name as it is spelled there, and its value, or nothing."""
    for spelled in (name, name.upper()):
        if spelled in environment:
            return spelled, environment[spelled].strip()
    return name, ""


def is_loopback(host: str) -> bool:
    """Whether it is this machine."""
    name = host.rstrip(".").lower()
    address = _address(name)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address is not None:
        return address.is_loopback or address.is_unspecified
    return name == "localhost" or name.endswith(".localhost")


def _is_exempt(host: str, port: int, listed: str) -> bool:
    """Whether ``NO_PROXY`` has it: ``*``, a host with all below it, ``.suffix``, an address, a network, each with or without a port."""
    name = host.rstrip(".").lower()
    return any(_covers(entry.lower(), name, port) for entry in re.split(r"[,\s]+", listed) if entry)


def _covers(entry: str, name: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(name)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if _address(entry) is None and (found := _PORT.fullmatch(entry)):
        entry = found[1]
        if int(found[2]) != port:
            return False
    exempt = _address(entry.removeprefix("[").removesuffix("]"))
    if address is not None or exempt is not None:
        return address == exempt
    entry = entry.removeprefix("*").strip(".")
    return bool(entry) and (name == entry or name.endswith("." + entry))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def bracketed(host: str) -> str:
    """As a URL has it."""
    return f"[{host}]" if ":" in host else host


def basic(user: str, password: str) -> str:
    """RFC 7617, in Latin-1 where that has all of its letters."""
    both = f"{user}:{password}"
    try:
        return b64encode(both.encode("latin-1")).decode()
    except UnicodeEncodeError:
        return b64encode(both.encode()).decode()


async def tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Ask the proxy at the other end of `sock` for a tunnel to a server. Raises `NotConnected`, `OSError`."""
    loop = asyncio.get_running_loop()
    place = f"{bracketed(host)}:{port}"
    await loop.sock_sendall(sock, f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{proxy.header}\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = await loop.sock_recv(sock, 4096)
        head += piece
        if not piece or len(head) > _MAX_HEAD_BYTES:
            raise NotConnected(f"the proxy {proxy.place} gave no answer")
    head, _, behind = head.partition(b"\r\n\r\n")
    found = _OPENED.fullmatch(head.partition(b"\r\n")[0])
    if found is None or (behind and found[1].startswith(b"2")):  # the server waits for us: nothing can come before TLS begins
        raise NotConnected(f"the proxy {proxy.place} gave an answer that is none")
    if not found[1].startswith(b"2"):
        raise NotConnected(f"the proxy {proxy.place} refused with status {found[1].decode()}")
