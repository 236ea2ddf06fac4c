"""An upstream for clients of every API: what its server does not speak itself is translated (`proxy.wire.translation`).

In: a `Call` in the client's API. Out: a reply in the same, in the form asked for (`proxy.upstreams.as_asked`). A call in an API that the
server speaks goes on as it is, and so does every path that belongs to none. What the server's API has no form for is a 400 that names the
client's field.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec.structs import replace

from proxy.config.sections import DECISION_PATHS
from proxy.config.settings import Api
from proxy.errors import InvalidRequest, NotFound
from proxy.offloop import run_in_thread_if_large
from proxy.ports.upstream import Call, Headers, Reply, Upstream, WrappedReply, is_event_stream, read_whole
from proxy.upstreams.as_asked import as_asked
from proxy.wire.gemini.address import KEY_HEADER
from proxy.wire.translation.translate import PATHS, TITLES, Exchange, Server

_MAX_ERROR_BYTES = 2**20
_BELONG = {"content-length", "content-encoding", "content-type"}
_CLIENTS_OWN = ("anthropic-", "openai-", "x-stainless-", "x-goog-")
"""Beginnings of headers that speak to the client's own API, or of its library."""
_REQUEST_IDS = {"request-id": "x-request-id", "x-request-id": "request-id"}
_APIS: Mapping[str, Api] = {path: api for api, path in PATHS.items()}
_KEPT = ("/responses/", "/conversations")
"""Paths of what a server of Responses keeps."""


def translated_paths(speaks: Sequence[Api]) -> Mapping[str, Api]:
    """The paths of the APIs that a server does not speak, each with the one in which it is asked instead."""
    return {path: speaks[0] for path, api in _APIS.items() if api not in speaks}


def is_openai(base_url: str) -> bool:
    """Whether a server is OpenAI's own, or Azure's."""
    host = urlsplit(base_url).hostname or ""
    return host.endswith((".openai.com", ".openai.azure.com", ".services.ai.azure.com"))


class Translating:
    """Implements `proxy.ports.upstream.Upstream` around another."""

    def __init__(
        self,
        upstream: Upstream,
        speaks: Sequence[Api],
        *,
        newest: bool = False,
        limit_of: Callable[[str], int | None] = lambda model: None,
        dropped: tuple[str, ...] = (),
        max_bytes: int = 100_000_000,
        decides: Literal["also", "only", ""] = "also",
    ) -> None:
        """`speaks` are the APIs of its server; clients of another are translated to the first. `max_bytes` is the longest answer,
        `decides` whether it may have decision models, or nothing else.
        """
        self.inner = upstream
        self.name, self.catalogue_name = upstream.name, upstream.catalogue_name
        self._speaks = tuple(speaks)
        self._server = Server(upstream.name, self._speaks[0], newest, limit_of, dropped)
        self._max_bytes, self._decides = max_bytes, decides
        self._translated = {path: _APIS[path] for path in translated_paths(self._speaks)}

    async def start(self) -> None:
        """Raises `ConfigError`."""
        await self.inner.start()

    async def stop(self) -> None:
        """Close it."""
        await self.inner.stop()

    def takes(self, call: Call) -> bool:
        """Whether its server's API has a form for all that a call says; of those in its own API that is for the server to say."""
        client = self._client(call)
        if call.path in DECISION_PATHS:
            return self._decides != ""
        if self._decides == "only":
            return False
        try:
            if client is not None and isinstance(call.body, bytes):
                Exchange(client, self._server, 0).request(call.body, call.past)
        except InvalidRequest:
            return False
        return True

    def _client(self, call: Call) -> Api | None:
        """The API that is to be translated; None where there is nothing to translate."""
        return self._translated.get(call.path.partition("?")[0]) if call.method == "POST" else None

    def send(self, call: Call) -> Coroutine[Any, Any, Reply]:
        """Make the call. Raises `InvalidRequest` for what cannot be translated, `UpstreamUnreachable`, `UpstreamTimeout`."""
        api = _APIS.get(call.path.partition("?")[0]) if call.method == "POST" else None
        if api is not None and api not in self._speaks:
            return self._send_translated(call, api)
        if "responses" not in self._speaks and call.path.startswith(_KEPT):
            raise NotFound(f"upstream {self.name} keeps no responses: it is asked in the API {TITLES[self._server.api]}")
        if call.raw or not isinstance(call.body, bytes):
            api = None
        return self.inner.send(call) if api is None else as_asked(self.inner.send(call), api, call, self._max_bytes)

    async def _send_translated(self, call: Call, client: Api) -> Reply:
        body = call.body if isinstance(call.body, bytes) else b"".join([piece async for piece in call.body])
        exchange = Exchange(client, self._server, int(time.time()))
        asked = await run_in_thread_if_large(len(body), exchange.request, body, call.past)
        headers = _headers(call.headers, self._server.api)
        translated = replace(call, path=PATHS[self._server.api], body=asked, headers=headers)
        reply = await as_asked(self.inner.send(translated), self._server.api, translated, self._max_bytes)
        return _Translated(reply, exchange, self._max_bytes)


def _headers(headers: Headers, api: Api) -> Headers:
    """A client's, for a server of another API: the key where that API has it, and nothing that speaks to the client's own."""
    found = [(name, value) for name, value in headers if not name.startswith(_CLIENTS_OWN)]
    keys = dict(found)
    scheme, _, token = keys.get("authorization", "").partition(" ")
    plain = keys.get("x-api-key", "") or dict(headers).get(KEY_HEADER, "")
    own = {"messages": "x-api-key", "gemini": KEY_HEADER}.get(api)
    rest = [(name, value) for name, value in found if name != "x-api-key"]
    if own is None:
        return rest + ([("authorization", f"Bearer {plain}")] if plain and not token else [])
    key = plain or (token.strip() if scheme.lower() == "bearer" else "")
    kept = rest if plain or not key else [(name, value) for name, value in rest if name != "authorization"]
    return [*kept, (own, key)] if key else kept


class _Translated(WrappedReply):
    """Implements `proxy.ports.upstream.Reply`."""

    def __init__(self, reply: Reply, exchange: Exchange, max_bytes: int) -> None:
        super().__init__(reply)
        self._exchange = exchange
        self._streams = is_event_stream(reply.headers) and 200 <= reply.status < 300
        self._max_bytes = max_bytes if 200 <= reply.status < 300 else _MAX_ERROR_BYTES
        kind = "text/event-stream; charset=utf-8" if self._streams else "application/json"
        kept = [(_REQUEST_IDS.get(name, name), value) for name, value in reply.headers if name not in _BELONG]
        self.headers = [*kept, ("content-type", kind)]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in the client's API, in the pieces that it arrives in. Raises `UpstreamUnreachable`, `UpstreamTimeout`."""
        if not self._streams:
            yield await self._whole()
            return
        async for chunk in self._reply.chunks():
            if told := self._exchange.feed(chunk):
                yield told
        if left := self._exchange.finish():
            yield left

    async def _whole(self) -> bytes:
        body = await read_whole(self._reply, self._max_bytes)
        if 200 <= self.status < 300:
            return await run_in_thread_if_large(len(body), self._exchange.answer, body)
        return self._exchange.error(self.status, body)
