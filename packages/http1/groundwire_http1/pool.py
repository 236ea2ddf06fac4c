"""Connections to one origin: those that are kept, and how another is made.

The one that was used last is used next, so that those a burst has left run out. New ones look up their addresses anew (a burst once); all
addresses are tried, the next before the one in front has failed (RFC 8305), and each new connection begins with another one, so that
servers that stand behind one name share the load.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from aiohappyeyeballs import start_connection

from groundwire_http1.connection import Connection
from groundwire_http1.failures import ConnectTimeout, NotConnected
from groundwire_http1.limits import Limits
from groundwire_http1.origin import Origin
from groundwire_http1.proxies import tunnel

_NEXT_ADDRESS_S = 0.25
"""RFC 8305 section 5."""
_ADDRESSES_S = 5.0
"""For how long a look-up serves: a burst of connections."""
_SIGNS_OF_LIFE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPALIVE", 60), ("TCP_KEEPINTVL", 60), ("TCP_KEEPCNT", 5))
"""Seconds, and how many go unanswered: what translates addresses on the way forgets a silent connection (GCP after 120 s, AWS after 350 s),
and an answer that takes longer would be waited for in vain. The second is macOS's name for the first.
"""


@functools.cache
def _verified() -> ssl.SSLContext:
    """TLS with the system's certificates."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def turned(addresses: Sequence[Any], by: int) -> list[Any]:
    """As `getaddrinfo` lists them, of each family another one first: which family comes first is the resolver's to say (RFC 6724)."""
    families: dict[int, list[Any]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    return [one for same in families.values() for one in same[by % len(same) :] + same[: by % len(same)]]


def _keep_known(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SIGNS_OF_LIFE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Pool:
    """Use on one event loop: it is the one that makes it."""

    def __init__(self, origin: Origin, limits: Limits, *, keep: bool = True, tls: ssl.SSLContext | None = None) -> None:
        """`keep`: whether a connection may serve more than one request. `tls`: of an https origin, by default the system's certificates."""
        self.origin, self._limits, self._keep = origin, limits, keep
        self._loop = asyncio.get_running_loop()
        self._tls = (tls or _verified()) if origin.tls else None
        self._idle: dict[Connection, None] = {}
        self._open: set[Connection] = set()
        self._closed = False
        self._looking_up = asyncio.Lock()
        self._addresses: list[Any] = []
        self._addresses_until = 0.0
        self._turns = 0

    def kept(self) -> Connection | None:
        """One that has served before, if any is left."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.fresh(self._loop.time()):
                return connection
            connection.abort()
        return None

    def forget(self) -> None:
        """Drop those that are kept: where one was closed the others may be, and a call made again goes out once more only."""
        for connection in list(self._idle):
            connection.abort()

    async def connect(self) -> Connection:
        """A new one. Raises `NotConnected`, `ConnectTimeout`."""
        try:
            async with asyncio.timeout(self._limits.connect_s):
                connection = await self._connect()
        except (OSError, RuntimeError, ValueError) as error:  # a name that cannot be looked up is a ValueError; uvloop has its own
            self._addresses_until = 0.0  # the server may have moved
            if isinstance(error, TimeoutError) and error.errno is None:
                raise ConnectTimeout from error
            raise NotConnected(getattr(error, "strerror", None) or type(error).__name__) from error
        if self._closed:
            connection.abort()
            raise NotConnected("closed")
        return connection

    async def _connect(self) -> Connection:
        sock = await start_connection(turned(await self._looked_up(), self._turn()), happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1)
        _keep_known(sock)
        if self.origin.proxy is not None and self._tls is not None:
            try:
                await tunnel(sock, self.origin.proxy, self.origin.host, self.origin.port)
            except BaseException:
                sock.close()
                raise
        name = self.origin.host.rstrip(".") if self._tls is not None else None
        made = functools.partial(Connection, self._loop, self._limits, self._idle, self._open, keep=self._keep)
        _, connection = await self._loop.create_connection(made, sock=sock, ssl=self._tls, server_hostname=name)
        return connection

    def _turn(self) -> int:
        self._turns += 1
        return self._turns - 1

    async def _looked_up(self) -> list[Any]:
        async with self._looking_up:  # a burst asks once
            if self._loop.time() >= self._addresses_until:
                first = self.origin.proxy or self.origin
                self._addresses = await self._look_up(first.host, first.port)
                self._addresses_until = self._loop.time() + _ADDRESSES_S
            return self._addresses

    async def _look_up(self, host: str, port: int) -> list[Any]:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)

    async def close(self) -> None:
        """Drop every connection."""
        self._closed = True
        for connection in list(self._open):
            connection.fail()
        await asyncio.sleep(0)  # for the transports to close
