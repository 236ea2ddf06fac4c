"""Asks a running server's operator API, for the commands that look at it from outside.

Follows no redirect and uses no proxy, so that the admin key goes to the address that was named and nowhere else. Blocking. To find the
server: `--url`, else ``server:`` of config.yaml; the key: GROUNDWIRE_ADMIN_KEY, else ``server.admin_key``.
"""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from proxy.config.settings import ServerSettings, Settings
from proxy.errors import ConfigError, GroundwireError

KEY_VARIABLE = "GROUNDWIRE_ADMIN_KEY"
TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 512_000_000
"""A page of records is a few megabytes; whatever sends this much is not a Groundwire server."""


class ServerAway(GroundwireError):
    """The server does not answer, or not now; it may later."""


class ServerRefused(GroundwireError):
    """The server, or what stands at its address, will not answer this: says what to do."""


def server_url(given: str | None, server: Callable[[], ServerSettings]) -> str:
    """The address without a slash at its end: the one given, else that of `server`. Raises `ConfigError`."""
    if given is None:
        found = server()
        if not found.port:
            raise ConfigError("server", "port", "is 0, so that the address is known only once it runs: name it with --url")
        host = "127.0.0.1" if found.host in ("0.0.0.0", "::", "") else found.host  # noqa: S104
        return f"http://[{host}]:{found.port}" if ":" in host else f"http://{host}:{found.port}"
    try:
        parts = urlsplit(given)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or not given.isascii() or not given.isprintable() or " " in given:
        raise ConfigError("command line", "--url", "expected an address as http://127.0.0.1:4000")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError("command line", "--url", f"expected only scheme, host and port; the admin key comes from {KEY_VARIABLE}")
    return given.rstrip("/")


def admin_key(settings: Callable[[], Settings], environ: Mapping[str, str] | None = None) -> str:
    """The operator's key, "" for none. Raises `ConfigError`."""
    key = (os.environ if environ is None else environ).get(KEY_VARIABLE, "").strip() or settings().server.admin_key
    if not key.isascii() or not key.isprintable():
        raise ConfigError("environment", KEY_VARIABLE, "cannot be sent: it has characters that no header can carry")
    return key


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """The key goes nowhere else."""


class AdminClient:
    """One server's operator API."""

    def __init__(self, url: str, key: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url, self._timeout_s = url, timeout_s
        self._headers = {"accept": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        self._has_key = bool(key)
        self._opener = build_opener(ProxyHandler({}), _NoRedirects)

    def get(self, path: str, **query: str | int | float | None) -> bytes:
        """The JSON at `path` below ``/groundwire/v1``, as bytes. Raises `ServerAway`, `ServerRefused`."""
        given = {name: repr(value) if isinstance(value, float) else value for name, value in query.items() if value is not None}
        target = f"{self.url}/groundwire/v1{path}" + (f"?{urlencode(given)}" if given else "")
        try:
            with self._open(target) as response:
                status, kind, body = response.status, response.headers.get("content-type", ""), response.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)
            if isinstance(why, ssl.SSLCertVerificationError):
                raise ServerRefused(f"{self.url}: its certificate is not trusted: {why.verify_message}") from error
            raise ServerAway(f"{self.url} does not answer: {_words(why if isinstance(why, Exception) else error)}") from error
        if len(body) > MAX_ANSWER_BYTES:
            raise ServerAway(f"{self.url} does not answer: more than {MAX_ANSWER_BYTES} bytes")
        self._check(status, kind, body)
        return bytes(body)

    def _open(self, target: str) -> Any:
        try:
            return self._opener.open(Request(target, headers=self._headers), timeout=self._timeout_s)  # noqa: S310 - http or https, see above
        except HTTPError as error:  # an answer, too
            return error

    def _check(self, status: int, kind: str, body: bytes) -> None:
        """Raise what an answer that is not one means."""
        if status == 200 and kind.startswith("application/json"):
            return
        message = _message(body)
        if status == 401:
            why = f"refuses the admin key in {KEY_VARIABLE} or server.admin_key" if self._has_key else "wants the admin key"
            raise ServerRefused(f"{self.url} {why} (401): set {KEY_VARIABLE} to it, or server.admin_key in the file that --config names")
        if status == 403:
            raise ServerRefused(f"{self.url} refuses (403): {message or 'no reason given'}")
        if status >= 500 or status == 429:
            raise ServerAway(f"{self.url} cannot answer now ({status}): {message or 'no reason given'}")
        if message:
            raise ServerRefused(f"{self.url} refuses ({status}): {message}")
        raise ServerRefused(f"{self.url} is not a Groundwire server, or another one stands before it ({status}): see --url")


def _message(body: bytes) -> str:
    """The message of an error in OpenAI's envelope; "" where it is none."""
    import msgspec

    try:
        found = msgspec.json.decode(body)
        return " ".join(str(found["error"]["message"]).split())[:500]
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError, IndexError):
        return ""


def _words(error: BaseException) -> str:
    """An error in words, on one line."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:200]
