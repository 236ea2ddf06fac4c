"""Which headers and which path go on: a client's to the upstream, the upstream's back to the client. Pure functions.

Specification: RFC 9110 section 7.6.1 (hop-by-hop headers).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from urllib.parse import quote

from msgspec import Struct

from proxy.errors import RequestTooLarge
from proxy.ports.upstream import Reply
from proxy.wire.http.asgi import RawHeaders, Scope
from proxy.wire.http.headers import PREFIX

_HOP_BY_HOP = frozenset(
    bytes.split(b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade host expect")
)
"""RFC 9110 section 7.6.1, host, and expect (the server has answered it)."""
_MAX_HEADERS_BYTES = 65536
_ACTS_ON_CLIENT = frozenset(
    str.split(
        "alt-svc clear-site-data location nel public-key-pins refresh report-to reporting-endpoints service-worker-allowed "
        "set-cookie set-cookie2 sourcemap strict-transport-security x-sendfile x-sourcemap"
    )
)
"""An upstream's headers by which a browser, or a server in front of this proxy, does something in the name of this proxy's origin."""
_ACTING_PREFIXES = (PREFIX, "x-accel-", "x-reproxy-")
_OVERRIDES = frozenset(
    bytes.split(b"x-http-method x-http-method-override x-method-override x-original-method x-original-url x-rewrite-url")
)
"""A client's headers by which many servers take another method or path than those that were looked at."""
NOT_RETURNED = _ACTS_ON_CLIENT | frozenset(
    str.split("connection keep-alive proxy-authenticate trailer transfer-encoding upgrade content-length content-encoding")
)
"""An upstream's headers that act on clients, or describe its own connection and encoding of the body."""
NOT_RETURNED_RAW = NOT_RETURNED - {"content-length", "content-encoding"}
"""Those of a body that passes as it is."""
_NOT_SENT = _HOP_BY_HOP | _OVERRIDES
_REWRITTEN = _NOT_SENT | {b"content-length", b"content-encoding", b"accept-encoding"}
"""Headers of a client that do not go on; the second of a request whose body is written anew."""
_KEYS = ("authorization", "x-api-key")
_MAX_NAMES = 512
_names: dict[bytes, tuple[str, bool]] = {}


class ClientHeaders(Struct):
    """A request's headers, sorted."""

    forwarded: list[tuple[str, str]]
    """What goes upstream."""
    hints: dict[str, str]
    """Groundwire's own."""
    keys: dict[str, str]
    """What says who the client is, by header: of several, the last."""
    encoding: str = ""
    """The ``content-encoding`` of its body; several with commas between them."""
    websocket: bool = False
    """Whether it asks for another protocol than HTTP, which is one of the two that it may."""


def client_headers(headers: Sequence[tuple[bytes, bytes]], *, raw: bool) -> ClientHeaders:
    """Sort a request's headers; `raw` is for a body that passes as it is. Raises `RequestTooLarge`."""
    if sum(map(len, chain.from_iterable(headers))) > _MAX_HEADERS_BYTES:
        raise RequestTooLarge(f"the headers are larger than {_MAX_HEADERS_BYTES} bytes")
    hints: dict[str, str] = {}
    keys: dict[str, str] = {}
    forwarded: list[tuple[str, str]] = []
    dropped = _NOT_SENT if raw else _REWRITTEN
    named, encoding, websocket = _connection_names(headers), "", False
    for name, value in headers:
        if name == b"content-encoding":
            encoding += ("," if encoding else "") + value.decode("latin-1")
        elif name == b"upgrade" and value.lower() == b"websocket":
            websocket = True
        if name in dropped:
            continue
        known, is_hint = _names[name] if name in _names else _decoded(name)
        if is_hint:
            hints[known] = value.decode("latin-1")
        elif name not in named:
            try:
                text = value.decode()
            except UnicodeDecodeError:  # RFC 9110 leaves the bytes above ASCII open; as text it must encode to UTF-8 again
                text = value.decode("latin-1")
            forwarded.append((known, text))
            if known in _KEYS:
                keys[known] = text
    return ClientHeaders(forwarded, hints, keys, encoding, websocket)


def _decoded(name: bytes) -> tuple[str, bool]:
    """A header's name, and whether it is Groundwire's own; those that come again with each request are decoded once."""
    text = name.decode("latin-1")
    found = text, text.startswith(PREFIX)
    if len(_names) < _MAX_NAMES and len(name) <= 64:
        _names[name] = found
    return found


def following(headers: Sequence[tuple[str, str]], call: int) -> list[tuple[str, str]]:
    """The headers of an exchange's upstream call number `call` after its first: another request has another idempotency key."""
    return [(name, f"{value}-{call}" if name == "idempotency-key" else value) for name, value in headers]


def returned_headers(reply: Reply, dropped: frozenset[str] = NOT_RETURNED) -> RawHeaders:
    """The upstream's headers for the client; those that only this proxy may set, or that act in its name, are none of its."""
    return [
        (k.encode(), v.encode("utf-8", "surrogateescape"))
        for k, v in reply.headers
        if k not in dropped and not k.startswith(_ACTING_PREFIXES)
    ]


def sent_path(scope: Scope) -> str:
    """The path as it was sent, without its query: what routes are chosen by, and what goes on."""
    raw: bytes | None = scope.get("raw_path")
    return raw.decode("latin-1") if raw else quote(scope["path"])


def tail(scope: Scope, path: str, prefix: str) -> str:
    """What follows ``/v1`` of a `sent_path` that begins with `prefix`, with the query."""
    rest, query = path[len(prefix) + len("/v1") :], scope.get("query_string")
    return f"{rest}?{query.decode('latin-1')}" if query else rest


def has_body(scope: Scope) -> bool:
    """Whether the request says that a body follows."""
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in scope["headers"])


def _connection_names(headers: Sequence[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Headers that ``connection`` declares to be for this hop only."""
    for name, value in headers:
        if name == b"connection" and value.lower() not in (b"keep-alive", b"close"):
            return frozenset(part.strip().lower() for part in value.split(b","))
    return frozenset()
