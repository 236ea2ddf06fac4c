"""Groundwire's headers: the hints of a request, and what a response tells of itself; a stage declares its own (`Stage.headers`).

Every value is short, ASCII, percent-encoded where needed and below 256 bytes. `RESPONSE` and the stages' headers
are the table of docs/reference/headers.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from urllib.parse import quote

from msgspec import Struct

from proxy.errors import InvalidRequest, RequestTooLarge
from proxy.exchange import Facts, VerdictView, warning_codes
from proxy.ports.stage import StageHeader
from proxy.ports.upstream import Reply
from proxy.wire.http.asgi import RawHeaders, Scope

log = logging.getLogger(__name__)

MAX_VALUE_BYTES = 255
PREFIX = "x-groundwire-"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~@,;:/+> =()*")


@dataclass(slots=True, frozen=True)
class RequestHints:
    """What a client's ``x-groundwire-…`` request headers ask for."""

    policy: str = ""
    skip: frozenset[str] = frozenset()
    run_id: str = ""
    step_id: str = ""
    inline: bool = False


REQUEST: Mapping[str, str] = {
    "policy": "another policy, if the route's allow_policies lists it",
    "skip": "stages to leave out, as tool_rag,claims, or all; if the route allows it",
    "run-id": "the agent's run; without it, derived from the conversation's stable prefix",
    "step-id": "the run's step; without it, counted",
    "inline": "1 puts the verdict into the body too",
}


def parse_hints(headers: Mapping[str, str]) -> RequestHints:
    """Read the request side; `headers` holds only names below ``x-groundwire-``, lower case. Raises `InvalidRequest`."""
    if not headers:
        return _NO_HINTS
    for name in headers:
        if name.removeprefix(PREFIX) not in REQUEST:
            raise InvalidRequest(f"unknown header {name}; known: {', '.join(PREFIX + known for known in REQUEST)}", param=name)
    values = {name.removeprefix(PREFIX): value.strip() for name, value in headers.items()}
    for name in ("run-id", "step-id"):
        if len(values.get(name, "")) > 128:
            raise InvalidRequest(f"{PREFIX}{name}: at most 128 characters", param=PREFIX + name)
    inline = values.get("inline", "0").lower()
    if inline not in ("0", "1", "true", "false"):
        raise InvalidRequest(f"{PREFIX}inline: expected 0 or 1, got {inline!r}", param=PREFIX + "inline")
    skip = frozenset(part.strip() for part in values.get("skip", "").split(",") if part.strip())
    return RequestHints(values.get("policy", ""), skip, values.get("run-id", ""), values.get("step-id", ""), inline in ("1", "true"))


_NO_HINTS = RequestHints()
_NO_FACTS = Facts()


RESPONSE: Mapping[str, str] = {
    "id": "record id",
    "policy": "NAME@hash8 of the loaded file",
    "verdict": (
        "worst outcome: pass (the answer's checkable statements were all judged, and all held), unsure (checked, nothing failed, not "
        "everything could be decided), unchecked (no check of the answer ran; the reason is a warning code), warn, block, error (a check "
        "could not run: never reported as pass), upstream_error, skipped; pending while streaming"
    ),
    "enforced": "false where the policy is in shadow mode: it judges, and changes nothing",
    "quality": "overall score, 0.00 to 1.00",
    "retries": "how often the upstream was asked for another answer",
    "warnings": "comma-separated codes",
    "limits": "open;counter-away or closed;counter-away, where nobody could count the request for its key's limits",
    "overhead-ms": "time the proxy added before the upstream call and after its last byte",
}
"""Those that are no single stage's."""


class ResponseHeaders:
    """Writes the headers of a response, with those that the stages declare."""

    def __init__(self, declared: Iterable[StageHeader] = ()) -> None:
        """A header that several stages declare is written once."""
        every = {header.name: header for header in declared}
        self._without_facts: list[tuple[bytes, bytes]] | None = None
        self._declared = tuple((f"{PREFIX}{name}".encode("ascii"), header.value) for name, header in every.items())

    def __call__(
        self,
        facts: Facts,
        verdicts: Sequence[VerdictView],
        *,
        record_id: str,
        policy: str,
        verdict: str,
        overhead_ms: float,
        enforced: bool = True,
    ) -> list[tuple[bytes, bytes]]:
        """Every header that has a value, ready for ASGI."""
        found = [
            (b"x-groundwire-id", record_id.encode("ascii")),
            (b"x-groundwire-policy", policy.encode("ascii")),
            (b"x-groundwire-verdict", verdict.encode("ascii")),
            (b"x-groundwire-overhead-ms", b"%.2f" % overhead_ms),
        ]
        if not enforced:
            found.append((b"x-groundwire-enforced", b"false"))
        if facts.quality is not None:
            found.append((b"x-groundwire-quality", b"%.2f" % facts.quality))
        if verdicts or facts != _NO_FACTS:
            found += self._of_stages(facts, verdicts, record_id)
        else:  # most that are declared then have no value: they are asked for it once
            if self._without_facts is None:
                self._without_facts = self._of_stages(Facts(), (), record_id)
            found += self._without_facts
        if facts.retries is not None:
            found.append((b"x-groundwire-retries", b"%d" % facts.retries))
        if warnings := warning_codes(verdicts, verdict):
            found.append((b"x-groundwire-warnings", ascii_value(_codes(warnings))))
        return found

    def _of_stages(self, facts: Facts, verdicts: Sequence[VerdictView], record_id: str) -> list[tuple[bytes, bytes]]:
        found = []
        for name, get in self._declared:
            try:
                value = get(facts, verdicts)
            except Exception:  # the code of a stage that may be anybody's: the answer leaves without its header
                log.exception("%s: %s cannot be written", record_id, name.decode("ascii"))
                continue
            if value is not None:
                found.append((name, ascii_value(value)))
        return found


def plain_headers(record_id: str, verdict: str) -> list[tuple[bytes, bytes]]:
    """For what has no exchange: a pass-through, or a request that was refused before it became one."""
    return [(b"x-groundwire-id", record_id.encode("ascii")), (b"x-groundwire-verdict", verdict.encode("ascii"))]


def ascii_value(value: str) -> bytes:
    """`value` as a legal header value: percent-encoded where needed, cut to `MAX_VALUE_BYTES` at a whole character."""
    if len(value) <= MAX_VALUE_BYTES and value.isascii() and _PLAIN.issuperset(value.encode("ascii")):
        return value.encode("ascii")
    encoded = _quote(value)
    if len(encoded) <= MAX_VALUE_BYTES:
        return encoded
    out, size = [], 0
    for character in value:
        piece = _quote(character)
        size += len(piece)
        if size > MAX_VALUE_BYTES:
            break
        out.append(piece)
    return b"".join(out)


def _quote(text: str) -> bytes:
    return quote(text, safe="-._~@,;:/+> =()*", errors="replace").encode("ascii")


def _codes(codes: list[str]) -> str:
    """Comma-separated, as many whole codes as fit."""
    while codes and len(_quote(",".join(codes))) > MAX_VALUE_BYTES:
        codes = codes[:-1]
    return ",".join(codes)


_HOP_BY_HOP = frozenset(
    bytes.split(b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade host expect")
)
"""RFC 9110 section 7.6.1, host, and expect (the server has answered it)."""
_OF_THE_BODY = frozenset((b"content-encoding", b"content-length", b"content-type"))
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
_NO_PAGES = ("application/json", "application/problem+json", "text/event-stream")
_IN_SANDBOX = [(b"content-security-policy", b"sandbox"), (b"x-content-type-options", b"nosniff")]
"""A page with an origin of its own and without scripts, and bytes without a type are none. https://www.w3.org/TR/CSP3/#directive-sandbox"""
_NOT_FORWARDED = _HOP_BY_HOP | _OVERRIDES
_REWRITTEN = _NOT_FORWARDED | {b"content-length", b"content-encoding", b"accept-encoding"}
"""Headers of a client that do not go on; the second of a request whose body is written anew."""
_KEYS = ("authorization", "x-api-key", "x-goog-api-key")
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
    dropped = _NOT_FORWARDED if raw else _REWRITTEN
    named, encoding, websocket = _connection_names(headers), "", False
    for name, value in headers:
        if name == b"content-encoding":
            encoding += ("," if encoding else "") + value.decode("latin-1")
        elif name == b"upgrade" and value.lower() == b"websocket":
            websocket = True
        if name in dropped:
            continue
        known, is_hint = _names[name] if name in _names else _decode_name(name)
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


def _decode_name(name: bytes) -> tuple[str, bool]:
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
    """The upstream's headers for the client; those that only this proxy may set, or that act in its name, are none of its. What a browser
    could show as a page runs nothing there: its origin would be this proxy's, and the dashboard's."""
    found = [
        (k.encode(), v.encode("utf-8", "surrogateescape"))
        for k, v in reply.headers
        if k not in dropped and not k.startswith(_ACTING_PREFIXES)
    ]
    kinds = [v for k, v in reply.headers if k == "content-type"]
    if len(kinds) != 1 or "," in kinds[0] or kinds[0].partition(";")[0].strip().lower() not in _NO_PAGES:
        found += _IN_SANDBOX
    return found


def raw_path(scope: Scope) -> str:
    """The path as it was sent, without its query: what routes are chosen by, and what goes on."""
    raw: bytes | None = scope.get("raw_path")
    return raw.decode("latin-1") if raw else quote(scope["path"])


def tail(scope: Scope, path: str, prefix: str) -> str:
    """What follows ``/v1`` of a `raw_path` that begins with `prefix`, with the query."""
    rest, query = path[len(prefix) + len("/v1") :], scope.get("query_string")
    return f"{rest}?{query.decode('latin-1')}" if query else rest


def has_body(scope: Scope) -> bool:
    """Whether the request says that a body follows."""
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in scope["headers"])


def _connection_names(headers: Sequence[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Headers that ``connection`` declares to be for this hop only; not those that say how the body is to be read."""
    found = frozenset[bytes]()
    for name, value in headers:
        if name == b"connection" and value.lower() not in (b"keep-alive", b"close"):
            found |= {part.strip().lower() for part in value.split(b",")} - _OF_THE_BODY
    return found
