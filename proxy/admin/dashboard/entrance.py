"""Who may see the pages, what every response of theirs carries, signing in and out, and what the server's own address shows.

A page is shown to a session, to the bearer key, and to the server's own machine where there is no key; anybody else gets the form that
asks for the key. Errors become pages here. The server's address is open to anybody, so it says nothing that the server's own errors do not
say: no upstreams, no policies, no traffic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import msgspec
from msgspec import structs
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response

from proxy import __version__
from proxy.admin.access import COOKIE, LIFETIME_S, AdminAuth, check_admin_key, json_answer, read_body
from proxy.admin.dashboard.rendering import STATIC, Visitor, page
from proxy.errors import InvalidApiKey, InvalidRequest, ProxyError, RateLimited, StoreUnavailable

Handler = Callable[[Request, Visitor], Awaitable[Response]]
Waiting = Callable[[], Awaitable[Mapping[str, int]]]

POLICY = (
    f"default-src 'none'; script-src 'self'; style-src {STATIC.style_source}; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content-Security-Policy: our own files, nothing inline but the style; no string ever becomes markup or code. https://www.w3.org/TR/CSP3/"""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # "no-referrer" would take the Origin off a form's own post
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
PATHS = {"dashboard": "/dashboard", "health": "/health", "ready": "/ready", "metrics": "/metrics", "api": "/groundwire/v1"}
_MAX_FIELDS = 20
_START = "/dashboard"


class Entrance:
    """Lets people in, and dresses what they get."""

    def __init__(self, auth: AdminAuth, waiting: Waiting) -> None:
        self._auth, self._waiting = auth, waiting

    def page(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """`handler` for those who may."""

        async def guard(request: Request) -> Response:
            try:
                cookie, new = await self._admit(request)
            except InvalidApiKey:
                return await self._ask(request)
            except ProxyError as error:
                return _dressed(await page("refused.html", None, error.status, title="Not here", message=error.message))
            response = _dressed(await self._answer(handler, request, cookie))
            if new:
                set_cookie(request, response, cookie)
            return response

        return guard

    async def sign_in(self, request: Request) -> Response:
        """The form, and what it sends."""
        if self._auth.open:
            return _dressed(RedirectResponse("/dashboard", 303))
        if request.method != "POST":
            return await _sign_in_page(request.query_params.get("then", ""))
        then = ""
        try:
            self._auth.check_origin(request)
            fields = fields_of(await form_of(request))
            then = fields.get("then", "")
        except ProxyError as error:
            return await _sign_in_page("", error.message, error.status)
        if not self._auth.sessions.opens(fields.get("key", "")):
            try:
                await self._auth.wrong_key(request)
            except RateLimited as error:
                words = error.message[0].upper() + error.message[1:] + "."
                return await _sign_in_page(then, words, 429, dict(error.headers))
            return await _sign_in_page(then, "This is not the admin key.", 401)
        response = _dressed(RedirectResponse(local(then), 303))
        set_cookie(request, response, self._auth.sessions.issue())
        return response

    async def sign_out(self, request: Request, visitor: Visitor) -> Response:
        """Take the cookie back."""
        await self.decision(request)
        response = RedirectResponse("/dashboard", 303)
        response.delete_cookie(COOKIE, path="/", secure=_secure(request), httponly=True, samesite="strict")
        return response

    async def decision(self, request: Request) -> dict[str, list[str]]:
        """What a form asks for. Raises `PolicyNotAllowed` where it is not from a page of this session."""
        form = await form_of(request)
        self._auth.check_origin(request)
        self._auth.check_token(self._auth.session(request), fields_of(form).get("csrf", ""))
        return form

    async def _admit(self, request: Request) -> tuple[str, bool]:
        """The session's cookie, "" for a bearer key, and whether it is new. Raises `InvalidApiKey` or `PolicyNotAllowed`."""
        auth = self._auth
        if auth.open:
            check_admin_key(request, "")
            cookie = auth.session(request)
            return (cookie, False) if cookie else (auth.sessions.issue(), True)
        cookie = auth.session(request)
        if not cookie:
            await auth.check(request)
        return cookie, False

    async def _answer(self, handler: Handler, request: Request, cookie: str) -> Response:
        visitor = Visitor(csrf=self._auth.sessions.csrf(cookie) if cookie else "", signed_in=bool(cookie) and not self._auth.open)
        try:
            waiting = await self._waiting()
            visitor = structs.replace(visitor, pending=waiting["quarantine"], open_clashes=waiting["clashes"])
            return await handler(request, visitor)
        except ProxyError as error:
            title = "Not found" if error.status == 404 else "Refused"
            return await page("refused.html", visitor, error.status, title=title, message=error.message)
        except StoreUnavailable as error:
            told = f"The store is away ({error}). Requests go through meanwhile; this page needs it. Load it again in a moment."
            return await page("refused.html", visitor, 503, {"retry-after": "5"}, title="The store is away", message=told)

    async def _ask(self, request: Request) -> Response:
        """The form to sign in, in place of a page."""
        query = f"?{request.url.query}" if request.url.query else ""
        then = request.url.path + query if request.method == "GET" else ""
        problem = "Your session is over." if request.cookies.get(COOKIE) else ""
        return await _sign_in_page(then, problem, 401, {"www-authenticate": "Bearer"})


def front(prefixes: Sequence[str]) -> Callable[[Request], Awaitable[Response]]:
    """The handler; `prefixes` are the routes'."""

    async def answer(request: Request) -> Response:
        addresses = [f"{str(request.base_url).rstrip('/')}{prefix}/v1" for prefix in prefixes]
        if prefers_html(request.headers.get("accept", "")):
            return await page("front.html", None, 200, HEADERS | {"vary": "accept"}, addresses=addresses)
        found = json_answer({"object": "groundwire", "version": __version__, "base_urls": addresses, "paths": PATHS})
        found.headers["vary"] = "accept"
        return found

    return answer


def prefers_html(accept: str) -> bool:
    """Whether HTML comes before JSON in an ``accept`` header; browsers name it first (RFC 9110, section 12.5.1)."""
    kinds: dict[str, float] = {}
    for entry in accept.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        weight = next((p.removeprefix("q=") for p in parameters if p.startswith("q=")), "1")
        kinds.setdefault(name, float(weight) if weight.replace(".", "", 1).isdecimal() else 0.0)
    return kinds.get("text/html", 0.0) > kinds.get("application/json", 0.0)


def local(path: str) -> str:
    """`path` if it is one of our pages, else the first."""
    inside = path == _START or path.startswith(("/dashboard/", "/dashboard?"))
    harmless = not any(c in path for c in "\\\r\n") and not path.startswith(("/dashboard/sign", "/dashboard/news"))
    return path if inside and harmless else _START


async def _sign_in_page(then: str, problem: str = "", status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return _dressed(await page("sign_in.html", None, status, headers, then=local(then), problem=problem))


async def form_of(request: Request) -> dict[str, list[str]]:
    """A form's fields, each with all its values. Raises `InvalidRequest`, `RequestTooLarge`."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise InvalidRequest("a form is expected here", param="content-type")
    try:
        return parse_qs((await read_body(request)).decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="replace")
    except ValueError as error:
        raise InvalidRequest("the form cannot be read") from error


def form_body(fields: Mapping[str, str], kind: type[Any]) -> Any:
    """Those of a form's fields that the API's `kind` has, as it takes them; what is blank is not given. Raises `InvalidRequest`."""
    return converted({name: fields[name] for name in kind.__struct_fields__ if fields.get(name, "").strip()}, kind)


def converted(given: Mapping[Any, Any], kind: type[Any]) -> Any:
    """A form's values as the `kind` takes them. Raises `InvalidRequest`."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        missing = "`reason`" in str(error)
        raise InvalidRequest("give a reason: it stays in the audit trail" if missing else f"the form is refused: {error}") from None


def fields_of(form: Mapping[str, list[str]]) -> dict[str, str]:
    """The last value of each field."""
    return {name: values[-1] for name, values in form.items()}


def _dressed(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def set_cookie(
    request: HTTPConnection, response: Response, value: str, *, name: str = COOKIE, path: str = "/", max_age_s: int = LIFETIME_S
) -> None:
    """The session's, unless it has another name: for the pages below `path` alone, out of scripts' reach."""
    response.set_cookie(name, value, max_age=max_age_s, path=path, secure=_secure(request), httponly=True, samesite="strict")


def _secure(request: HTTPConnection) -> bool:
    """Whether the browser came by https, also to a proxy before this server: saying so wrongly harms only who says it."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "").strip().lower() == "https"
