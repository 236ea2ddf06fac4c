"""Where requests go, and what the head of one looks like.

In: a method, a path and headers as text. Out: the bytes of the head. What the same server gets with each request is put together once. A
name or value with a line break or a NUL is refused: it would be another header, or another request (RFC 9110 section 5.5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from yarl import URL

from groundwire_http1.failures import Unsendable
from groundwire_http1.proxies import Proxy, basic, from_environment, proxy_of

CHUNKED = "Transfer-Encoding: chunked\r\n\r\n"
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_TARGET = re.compile(r"[\x00-\x20\x7f]")
_MAX_STARTS = 256


class Origin:
    """One server, as its base URL names it."""

    def __init__(self, base_url: str, host_header: str = "", *, proxy: str = "none", environment: Mapping[str, str] | None = None) -> None:
        """`host_header` is sent instead of the URL's own host; `proxy` is a URL, ``none``, or empty for the one of the `environment`.
        A query of the URL (``?api-version=``) goes with each request, but for the parameters that the request has itself.

        Raises `BadProxy`, and `ValueError` for a URL that is none.
        """
        base, _, query = base_url.partition("?")
        self._base, self._query = base.rstrip("/"), [pair for pair in query.split("&") if pair]
        url = URL(self._base, encoded=True)
        if not url.raw_host:
            raise ValueError("a URL without a host")
        self.host = url.raw_host
        self.port = url.port or 80
        self.tls = url.scheme == "https"
        self.proxy: Proxy | None = None
        """Through which it is reached."""
        if proxy and proxy != "none":
            self.proxy = proxy_of(proxy)
        elif not proxy:
            self.proxy = from_environment(url, environment or {})
        self.signed = bool(url.raw_user or url.raw_password)
        """Whether the URL brings its own credentials."""
        same = f"Host: {host_header or url.host_port_subcomponent}\r\n"
        if self.signed:
            same += f"Authorization: Basic {basic(url.user or '', url.password or '')}\r\n"
        if self.proxy is not None and not self.tls:
            same += self.proxy.header
        self._same = same
        self._lines = 1 + same.count("\n")
        self._starts: dict[tuple[str, str], str] = {}

    def head(self, method: str, path: str, headers: Sequence[tuple[str, str]], framing: str) -> bytes:
        """A request's head, for a `path` below the base URL; `framing` ends it, with an empty line. Raises `Unsendable`."""
        start = self._starts.get((method, path)) or self._start(method, path)
        text = "".join([start, *[f"{name}: {value}\r\n" for name, value in headers], framing])
        lines = self._lines + len(headers) + (2 if framing != "\r\n" else 1)
        if text.count("\n") != lines or text.count("\r") != lines or "\0" in text:
            raise Unsendable("a header with a line break or a NUL")
        if self.signed and any(name == "authorization" for name, _ in headers):
            raise Unsendable("an authorization header beside the credentials in base_url")
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise Unsendable("a header that is no text") from error

    def _start(self, method: str, path: str) -> str:
        """The request line and what is the same for every request."""
        url = URL(self._base + (self._with_query(path) if self._query else path), encoded=True)
        target = url.raw_path_qs
        if self.proxy is not None and not self.tls:
            target = f"http://{url.host_port_subcomponent}{target}"
        if not _METHOD.fullmatch(method) or _NO_TARGET.search(target):
            raise Unsendable("a method or path that is none")
        start = f"{method.upper()} {target} HTTP/1.1\r\n{self._same}"
        if "?" not in path and len(self._starts) < _MAX_STARTS:
            self._starts[method, path] = start
        return start

    def _with_query(self, path: str) -> str:
        """`path` with the base URL's parameters behind its own."""
        own = path.partition("?")[2]
        names = {pair.partition("=")[0] for pair in own.split("&")}
        more = [pair for pair in self._query if pair.partition("=")[0] not in names]
        return path + ("&" if "?" in path else "?") * bool(more) + "&".join(more)
