"""The section ``server:`` of config.yaml: where it listens, who may do what, and how much of everything there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from proxy.config.models import Positive, Seconds, Section
from proxy.ledger import MAX_BODIES_BYTES, MAX_CONNECTIONS, SHARE


class ServerSettings(Section, frozen=True, kw_only=True):
    """``server:``"""

    host: str = "127.0.0.1"
    """Address to listen on; one that other machines can reach needs client keys, or `allow_anonymous`."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 4000
    """0 takes any free one."""
    workers: Positive = 1
    """Processes that serve, side by side."""
    admin_key: str = ""
    """For the dashboard and the operator's API below ``/groundwire``; empty leaves them open on loopback, elsewhere one is made."""
    allow_anonymous: bool = False
    """Whether clients without a key of their own may spend the operator's: from other machines, through a proxy, from web pages."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or ranges of reverse proxies whose ``x-forwarded-for`` is believed, as ``[127.0.0.1, 10.0.0.0/8]``."""
    max_body_bytes: Positive = 20_000_000
    """A longer request is a 413, ``request_too_large``."""
    max_answer_bytes: Positive = 100_000_000
    """Longest answer that is held in memory."""
    max_bodies_bytes: Positive | None = None
    """Of all requests that are being sent or answered, in each worker; past it, and past a party's share, an answer is 503 ``overloaded``.
    By default 256,000,000, or four times `max_body_bytes` if that is more; not below twice `max_body_bytes`."""
    max_connections: Positive = MAX_CONNECTIONS
    """Open connections of clients, in each worker. Past a party's share its own that has been idle longest is closed for a new one."""
    party_share: Annotated[float, Meta(ge=0.5, le=1)] = SHARE
    """Of connections, bytes of bodies and each upstream's places that one party may have: a client key, or else an ``Authorization`` and
    (half of the rest more) an address; of what it leaves free the next party the same part. 1 leaves nothing free for others."""
    write_stall_s: Seconds = 60.0
    """How long a client may read nothing of what waits for it before its connection is closed and its place at the upstream is free."""
    hosts: tuple[str, ...] = ()
    """Further names, beside loopback ones, under which a server on loopback without client keys may be asked, as ``[groundwire.test]``."""
    drain_s: Seconds = 30.0
    """How long running streams may go on after SIGTERM."""
    keep_alive_s: Seconds = 10.0
    """Pause after which a stream gets an SSE comment, whatever the delivery. Where nothing of the answer is there by then, the response
    begins all the same (200, verdict ``pending``), and what fails afterwards is an event."""

    @property
    def bodies_bytes(self) -> int:
        """`max_bodies_bytes`, or its default."""
        return self.max_bodies_bytes or max(MAX_BODIES_BYTES, 4 * self.max_body_bytes)


Origin = Annotated[str, Meta(pattern=r"^(\*|https?://[^/*\s]+)$")]


class CorsSettings(Section, frozen=True, kw_only=True):
    """``cors:``, for web pages that ask the proxy themselves."""

    origins: tuple[Origin, ...] = ()
    """Of pages that may read answers, as ``https://app.example.com``, or ``*`` for all. Empty: what each upstream allows."""


def server_problems(server: ServerSettings) -> Iterator[tuple[str, str]]:
    """Path and problem of what no single field shows."""
    if server.bodies_bytes < 2 * server.max_body_bytes:
        yield "server.max_bodies_bytes", f"expected at least twice max_body_bytes ({server.max_body_bytes}), got {server.bodies_bytes}"
    for i, name in enumerate(server.hosts):
        if not re.fullmatch(r"[a-z0-9._-]+", name):
            yield f"server.hosts[{i}]", f"expected a name in lower case without port, as groundwire.test, got {name!r}"
