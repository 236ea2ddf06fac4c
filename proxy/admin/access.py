"""Who may use the operator's surface, an operator's session in a browser, and how the operator's API reads requests and writes answers.

With an admin key: whoever sends it as a bearer token, or a browser that has exchanged it for a signed cookie, whose forms carry a token.
Without one, a server on loopback is open to its own machine's programs (`proxy.wire.http.peers`). A server on any other address always has
a key; `proxy.__main__` makes one where none is set.

Nothing of a session is kept on the server: the signature's key is derived from the admin key, so that every worker knows every session,
and another admin key ends them all. On a server without an admin key the cookie proves nothing, and needs not: it only ties the decision's
token to the browser that was given the page.

Lists answer as OpenAI's do: ``{"object": "list", "data": [...], "has_more"}``, newest first, with ``limit`` and ``after``.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import msgspec
import orjson
from msgspec import Struct
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response

from proxy.errors import InvalidApiKey, InvalidRequest, NotFound, PolicyNotAllowed, ProxyError, RequestTooLarge
from proxy.ledger import Ledger
from proxy.wire.http.peers import reason_for_remote

COOKIE = "groundwire_session"
CSRF_HEADER = "x-groundwire-csrf"
LIFETIME_S = 12 * 3600
"""A working day; then the key is asked for again."""
_READING = ("GET", "HEAD")


def check_admin_key(connection: HTTPConnection, admin_key: str) -> None:
    """Raises `InvalidApiKey` or `PolicyNotAllowed`."""
    if admin_key:
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), admin_key.encode()):
            raise InvalidApiKey("the admin key is needed here: send it as 'Authorization: Bearer KEY'")
        return
    problem = reason_for_remote(connection.scope)
    if problem:
        raise PolicyNotAllowed(f"without an admin key {problem}; server.admin_key sets one")


class Sessions:
    """Makes sessions and knows its own again."""

    def __init__(self, admin_key: str, *, clock: Callable[[], float] = time.time) -> None:
        self._admin_key, self._clock = admin_key, clock
        self._key = hmac.digest(admin_key.encode(), b"groundwire dashboard session, version 1", sha256)

    def opens(self, key: str) -> bool:
        """Whether this is the admin key, told in constant time."""
        return hmac.compare_digest(key.encode(), self._admin_key.encode())

    def issue(self) -> str:
        """A new session's cookie."""
        named = f"{int(self._clock()) + LIFETIME_S}.{secrets.token_urlsafe(18)}"
        return f"{named}.{self._signed('session', named)}"

    def valid(self, cookie: str) -> bool:
        """Whether it is one of ours and not over."""
        named, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signed("session", named).encode()):
            return False
        expires = named.partition(".")[0]
        return expires.isdecimal() and int(expires) > self._clock()

    def csrf(self, cookie: str) -> str:
        """The token of a session's decisions; another site can neither read nor guess it."""
        return self._signed("csrf", cookie)

    def _signed(self, purpose: str, value: str) -> str:
        return hmac.new(self._key, f"{purpose}:{value}".encode(), sha256).hexdigest()


class AdminAuth:
    """Lets the operator in: by the bearer key, by a session's cookie, or without either on a loopback server that has no key."""

    def __init__(self, admin_key: str, ledger: Ledger, *, clock: Callable[[], float] = time.time) -> None:
        self._admin_key, self._ledger = admin_key, ledger
        self.sessions = Sessions(admin_key, clock=clock)

    @property
    def open(self) -> bool:
        """Whether there is no key to sign in with."""
        return not self._admin_key

    def session(self, connection: HTTPConnection) -> str:
        """The cookie of a session that is valid, else ""."""
        cookie = connection.cookies.get(COOKIE, "")
        return cookie if cookie and self.sessions.valid(cookie) else ""

    async def check(self, connection: HTTPConnection) -> None:
        """For the JSON API: as `check_admin_key`, or a session from our own page; decisions then need its token in a header.

        Raises `InvalidApiKey`, `RateLimited` or `PolicyNotAllowed`.
        """
        try:
            self._check(connection)
        except InvalidApiKey:
            if "authorization" in connection.headers:
                await self.wrong_key(connection)
            raise

    def knows(self, connection: HTTPConnection) -> bool:
        """Whether it is the operator, where others may ask, too, whose keys are no guesses."""
        try:
            self._check(connection)
        except ProxyError:
            return False
        return True

    def _check(self, connection: HTTPConnection) -> None:
        cookie = "" if self.open or "authorization" in connection.headers else self.session(connection)
        decides = connection.scope["method"] not in _READING
        if not cookie:
            check_admin_key(connection, self._admin_key)
        if cookie or (self.open and decides):  # then a browser needs nothing that a page must know
            self.check_origin(connection)
        if cookie and decides:
            self.check_token(cookie, connection.headers.get(CSRF_HEADER, ""))

    async def wrong_key(self, connection: HTTPConnection) -> None:
        """It came with one. A right key never waits. Raises `RateLimited` where too many came from its address."""
        await self._ledger.wrong_key(self._ledger.wrong_admin_keys, connection.client.host if connection.client is not None else "")

    def check_token(self, cookie: str, token: str) -> None:
        """Raises `PolicyNotAllowed` for a decision that did not come from a page of this session."""
        if not cookie or not hmac.compare_digest(token.encode(), self.sessions.csrf(cookie).encode()):
            raise PolicyNotAllowed("this decision did not come from a page of your session: load the page again, and decide there")

    def check_origin(self, connection: HTTPConnection) -> None:
        """Raises `PolicyNotAllowed` for a request that another site's page, or another server's on this machine, has made."""
        headers = connection.headers
        origin = headers.get("origin")
        elsewhere = origin is not None and origin.partition("://")[2] != headers.get("host", "")
        site = headers.get("sec-fetch-site", "none")
        if elsewhere or site not in ("same-origin", "none"):
            hint = "; a reverse proxy before this server has to pass on the Host that the browser sent" if site == "same-origin" else ""
            raise PolicyNotAllowed(f"requests from another site's page are refused{hint}")


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
_LIST_MAX = 1000
MAX_BODY_BYTES = 256 * 1024
"""A decision with its reason, or a merged statement."""
_FIELD = re.compile(r"field `([^`]+)`|at `\$\.([^`]+)`")
"""Where msgspec says which field is wrong; https://jcristharif.com/msgspec/usage.html#validation."""

_LONE = re.compile("[\ud800-\udfff]")

T = TypeVar("T")
PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Of every answer that is no page: nobody on the way keeps it, and no browser takes it for another type."""


def json_answer(value: Any, status: int = 200) -> Response:
    """JSON. A lone surrogate in stored text, which strict readers refuse, becomes U+FFFD; numbers may go beyond 64 bits."""
    try:
        body = orjson.dumps(value)
    except TypeError:
        body = _LONE.sub("\ufffd", json.dumps(value, ensure_ascii=False)).encode()
    return Response(body, status, PRIVATE, media_type="application/json")


def objects(kind: str, *left_out: str) -> Callable[[Struct], dict[str, Any]]:
    """What makes a row of the store an object of the API, without the fields that are `left_out`."""
    return lambda row: {"object": kind} | {name: getattr(row, name) for name in row.__struct_fields__ if name not in left_out}


def require(row: T | None, what: str, why_not: str = "it may be past its retention") -> T:
    """`row`. Raises `NotFound` where there is none."""
    if row is None:
        raise NotFound(f"no such {what}; {why_not}")
    return row


def listing(
    read: Callable[..., Awaitable[tuple[Sequence[T], bool]]],
    shown: Callable[[T], Mapping[str, Any]],
    filters: Sequence[str] = (),
    known: Mapping[str, Sequence[str]] = MappingProxyType({}),
    numbers: Sequence[str] = (),
) -> Handler:
    """The handler of a list: `read` takes ``limit``, ``after`` and the filters of the query, and gives rows and whether there are more.

    `known` are the values that some filters can have, `numbers` filters that are seconds since the epoch. The handler raises
    `InvalidRequest`.
    """

    async def answer(request: Request) -> Response:
        query = request.query_params
        for name, values in known.items():
            if name in query and query[name] not in values:
                raise InvalidRequest(f"{name}: expected one of {', '.join(values)}", param=name)
        wanted = {name: query.get(name) for name in filters} | {name: number_in(query, name) for name in numbers}
        rows, has_more = await read(limit_in(query), query.get("after"), **wanted)
        return json_answer({"object": "list", "data": [shown(row) for row in rows], "has_more": has_more})

    return answer


def download(content: bytes) -> Response:
    """Byte for byte; as a download, since it is not to be trusted."""
    return Response(content, media_type="application/octet-stream", headers={**PRIVATE, "content-disposition": "attachment"})


def limit_in(query: Mapping[str, str]) -> int:
    """How many entries a query asks for. Raises `InvalidRequest`."""
    value = query.get("limit", "20")
    if not value.isdecimal() or len(value) > len(str(_LIST_MAX)) or not 1 <= int(value) <= _LIST_MAX:
        raise InvalidRequest(f"limit: expected a number from 1 to {_LIST_MAX}", param="limit")
    return int(value)


def number_in(query: Mapping[str, str], name: str) -> float | None:
    """Seconds since the epoch, as a query has them. Raises `InvalidRequest`."""
    try:
        return float(query[name]) if name in query else None
    except ValueError:
        raise InvalidRequest(f"{name}: expected seconds since the epoch", param=name) from None


async def body_of(request: Request, kind: type[T]) -> T:
    """The JSON body as a `kind`. Raises `InvalidRequest`, `RequestTooLarge`.

    Only ``application/json``: a form on another site's page cannot send that without the browser asking this server first.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InvalidRequest("the body must be sent as content-type: application/json", param="content-type")
    try:
        return msgspec.json.decode(await read_body(request), type=kind)
    except msgspec.ValidationError as error:
        named = _FIELD.search(str(error))
        raise InvalidRequest(f"the body is refused: {error}", param=(named[1] or named[2]) if named else None) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None


async def read_body(request: Request) -> bytes:
    """The whole of a small body. Raises `InvalidRequest`, `RequestTooLarge`."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise RequestTooLarge(f"the body is larger than {MAX_BODY_BYTES} bytes")
    except ClientDisconnect:
        raise InvalidRequest("the body ended early") from None
    return bytes(body)
