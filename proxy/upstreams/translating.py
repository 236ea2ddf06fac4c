"""An upstream for clients of every API: what its server does not speak itself is translated (`proxy.wire.translation`).

In: a `Call` in the client's API. Out: a reply in the same, in the form asked for. A call in an API that the
server speaks goes on as it is, and so does every path that belongs to none. What the server's API has no form for is a 400 that names the
client's field.

The form that was asked for: events under another content type are a stream; a body where a stream was asked for becomes the API's events;
events where a body was asked for are put together into it. An error object in place of an answer, or as a stream's first event, becomes a
reply with an error's status, so that it is tried again, goes to a fallback and reaches the client as any other. What is neither goes on as
it came.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson
from msgspec.structs import replace

from proxy.config.sections import DECISION_PATHS
from proxy.config.settings import Api
from proxy.errors import InvalidRequest, NotFound, ProxyError, UpstreamUnreachable
from proxy.offloop import run_in_thread_if_large
from proxy.ports.upstream import BodyReply, Call, Headers, Reply, Upstream, WrappedReply, is_event_stream, limit, read_whole
from proxy.wire.api_errors import Failure, envelope, instead_of_answer, is_own, status_of
from proxy.wire.bodies import exact
from proxy.wire.gemini.address import KEY_HEADER
from proxy.wire.sse import BOM, EventSplitter
from proxy.wire.translation.pieces import payload_of
from proxy.wire.translation.translate import API_OF_PATH, FORMS, PATHS, TITLES, Exchange, Server

_EVENTS, _JSON = "text/event-stream; charset=utf-8", "application/json"
_BLANK = b" \t\r\n" + BOM
"""What may stand in front of JSON, or of a stream."""
_FIRST_LINE = re.compile(rb"(?:data|event|id|retry)?:")
"""What a stream of events begins with."""
_MARK_BYTES = len(b"event:")
"""Of what it begins with, at most."""
_LAST_BYTES = 8
"""Of what was read before, looked at again with what comes: more than a mark, or the end of an event, that is cut."""
_NAMES_ERROR = b'"error'
"""In every event that tells of one, ``response.failed`` too."""
_ERROR = re.compile(rb'"(?:error|errors|detail)"\s*:\s*[{\["]')
_ANSWERS: Mapping[Api, bytes] = {"chat": b'"choices"', "responses": b'"output"', "messages": b'"content"', "gemini": b'"candidates"'}
_BAD_GATEWAY = 502


async def as_asked(sending: Awaitable[Reply], api: Api, call: Call, max_bytes: int) -> Reply:
    """The reply to a call of `api`, as it was asked for. Raises what `sending` raises, `UpstreamUnreachable`, `UpstreamTimeout`."""
    reply = await sending
    if not 200 <= reply.status < 300:
        return reply
    events = is_event_stream(reply.headers)
    try:
        if call.stream:
            return await _ReplyAsAsked(reply, api, call, max_bytes).open()
        body = await read_whole(reply, max_bytes)
        if body[:1] == b"{" and not events and not _may_fail(api, body):  # what most answers are
            await reply.close()
            return BodyReply(reply.upstream, reply.status, reply.headers, body, reply.attempts)
        return await _ReplyAsAsked(reply, api, call, max_bytes).take(body)
    except BaseException as error:
        await reply.close()
        if isinstance(error, ProxyError):
            error.answered_status = reply.status
        if isinstance(error, UpstreamUnreachable):
            error.repeatable = False  # the server has answered once
        raise


class _ReplyAsAsked(WrappedReply):
    """Implements `proxy.ports.upstream.Reply`."""

    def __init__(self, reply: Reply, api: Api, call: Call, max_bytes: int) -> None:
        super().__init__(reply)
        self._api, self._max_bytes = api, max_bytes
        self._request_body, self._streams = call.body if isinstance(call.body, bytes) else b"", call.stream
        self._body: bytes | None = None
        """All of it, where that was read."""
        self._first = b""
        self._pieces: AsyncIterator[bytes] | None = None

    async def open(self) -> _ReplyAsAsked:
        """Find out what came where a stream was asked for: its first piece is waited for, and a body is read to its end."""
        self._pieces = self._reply.chunks()
        labelled = is_event_stream(self.headers)
        await self._read_first(lambda read: len(read.strip(_BLANK)) >= (1 if labelled else _MARK_BYTES))
        if not self._first.lstrip(_BLANK).startswith((b"{", b"[")) if labelled else _begins_stream(self._first):
            if _NAMES_ERROR in self._first:
                await self._read_first(lambda read: b"\n\n" in read or b"\r\n\r\n" in read)
                if (found := _first_failure(self._api, self._first)) is not None:
                    self._refuse(*found)
                    return self
            if not labelled:
                self.headers = _with_type(self.headers, _EVENTS)
        else:
            await self.take(await self._read_remaining())
            if self.status == self._reply.status and self._body is not None:
                events = await run_in_thread_if_large(len(self._body), self._events, self._body)
                if events is not None:
                    self._body, self.headers = events, _with_type(self.headers, _EVENTS)
                elif labelled:
                    self.headers = self._reply.headers
        return self

    async def take(self, body: bytes) -> _ReplyAsAsked:
        """A whole body, which leaves as it is where it is an answer, but for a byte order mark: that is no part of JSON (RFC 8259, 8.1)."""
        body = body.removeprefix(BOM)
        made: bytes | Failure = body
        if not body.startswith(b"{") and _begins_stream(body):
            made = await run_in_thread_if_large(len(body), self._whole, body)
        elif _may_fail(self._api, body):
            made = await run_in_thread_if_large(len(body), self._check_body, body)
        if isinstance(made, Failure):
            self._refuse(made, body)
        else:
            self._body = made
            if made is not body or is_event_stream(self.headers):
                self.headers = _with_type(self.headers, _JSON)
        return self

    def _refuse(self, failure: Failure, body: bytes) -> None:
        """Be the error that `body` tells of."""
        self.status = status_of(failure) or _BAD_GATEWAY
        self._body = body if is_own(self._api, body) else orjson.dumps(envelope(self._api, failure, self.status))
        if self._body is not body or is_event_stream(self.headers):
            self.headers = _with_type(self.headers, _JSON)

    async def _read_first(self, enough: Callable[[bytes], bool]) -> None:
        """Read on until what came last, with the end of what came before, is `enough`, or all has been read."""
        assert self._pieces is not None
        read, last = bytearray(self._first), self._first
        while not enough(last) and (piece := await anext(self._pieces, None)) is not None:
            limit(len(read), self._max_bytes)
            last = bytes(read[-_LAST_BYTES:]) + piece
            read += piece
        self._first = bytes(read)

    async def _read_remaining(self) -> bytes:
        assert self._pieces is not None
        pieces, size = [self._first], len(self._first)
        self._first = b""
        async for piece in self._pieces:
            size += len(piece)
            limit(size, self._max_bytes)
            pieces.append(piece)
        return b"".join(pieces)

    # ---- what it is ----

    def _check_body(self, body: bytes) -> bytes | Failure:
        """The body, or the error that it is."""
        try:
            return instead_of_answer(self._api, orjson.loads(body)) or body
        except orjson.JSONDecodeError:
            return body

    def _events(self, body: bytes) -> bytes | None:
        """A body as events; None for what is no answer of the API."""
        try:
            found = exact(body)
            return FORMS[self._api].to_events(found, self._request_body) if isinstance(found, dict) else None
        except (ValueError, TypeError):
            return None

    def _whole(self, body: bytes) -> bytes | Failure:
        """Events as a body, or the error in them. Raises `UpstreamUnreachable` for a stream that broke off."""
        payloads, marked = [], False
        for payload in _payloads(body):
            if payload is None:
                marked = True
            elif (failure := _failure_in(self._api, payload)) is not None:
                return failure
            else:
                payloads.append(payload)
        try:
            made = FORMS[self._api].to_whole(payloads, marked=marked)
        except ValueError as error:
            raise UpstreamUnreachable(f"the upstream sent events that make no answer: {error}") from error
        if made is None:
            raise UpstreamUnreachable("the upstream's stream ended before its answer was whole")
        return orjson.dumps(made)

    # ---- its bytes ----

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces. Raises `UpstreamUnreachable`, `UpstreamTimeout`."""
        if self._body is not None:
            body, self._body = self._body, b""
            yield body
            return
        assert self._pieces is not None
        yield self._first
        async for piece in self._pieces:
            yield piece

    async def close(self) -> None:
        """Give the connection up."""
        self._body = b"" if self._body is not None else None
        await self._reply.close()


def _may_fail(api: Api, body: bytes) -> bool:
    """Whether it may be an error in place of an answer, as far as its names tell."""
    return _ANSWERS[api] not in body or ((b'"error' in body or b'"detail"' in body) and _ERROR.search(body) is not None)


def _begins_stream(body: bytes) -> bool:
    return _FIRST_LINE.match(body.lstrip(_BLANK)[:16]) is not None


def _payloads(body: bytes) -> Iterable[Any]:
    """The data of a stream's events; None for its end mark."""
    splitter = EventSplitter()
    events = list(splitter.feed(body))
    last = splitter.finish()
    for event in events if last is None else [*events, last]:
        if event.done:
            yield None
        elif (payload := payload_of(event)) is not None:
            yield payload


def _failure_in(api: Api, payload: Mapping[str, Any]) -> Failure | None:
    """The error that an event tells of."""
    failed = payload.get("type") in ("error", "response.failed")
    found = payload.get("response") if payload.get("type") == "response.failed" else payload
    if not failed and (api != "chat" and "type" in payload):
        return None
    return instead_of_answer("chat", found) or (Failure("the server failed") if failed else None)


def _first_failure(api: Api, body: bytes) -> tuple[Failure, bytes] | None:
    """The error that a stream begins with, and the event's data."""
    for event in EventSplitter().feed(body):
        if event.data is not None and (payload := payload_of(event)) is not None:
            failure = _failure_in(api, payload)
            return None if failure is None else (failure, event.data)
    return None


def _with_type(headers: Headers, kind: str) -> Headers:
    """Headers of a body that was written anew, or is of another type than they say."""
    return [*((name, value) for name, value in headers if name not in ("content-type", "content-length")), ("content-type", kind)]


_MAX_ERROR_BYTES = 2**20
_BELONG = {"content-length", "content-encoding", "content-type"}
_CLIENTS_OWN = ("anthropic-", "openai-", "x-stainless-", "x-goog-")
"""Beginnings of headers that speak to the client's own API, or of its library."""
_REQUEST_IDS = {"request-id": "x-request-id", "x-request-id": "request-id"}
_STORED = re.compile(r"/responses/(?!input_tokens$)|/conversations")
"""Paths of what a server of Responses keeps."""


def translated_paths(speaks: Sequence[Api]) -> Mapping[str, Api]:
    """The paths of the APIs that a server does not speak, each with the one in which it is asked instead."""
    return {path: speaks[0] for path, api in API_OF_PATH.items() if api not in speaks}


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
        self.name, self.catalogue_name, self.start, self.stop = upstream.name, upstream.catalogue_name, upstream.start, upstream.stop
        self._speaks = tuple(speaks)
        self._server = Server(upstream.name, self._speaks[0], newest, limit_of, dropped)
        self._max_bytes, self._decides = max_bytes, decides
        self._translated = {path: API_OF_PATH[path] for path in translated_paths(self._speaks)}

    def takes(self, call: Call) -> bool:
        """Whether its server's API has a form for all that a call says; of those in its own API that is for the server to say."""
        client = self._translated.get(call.path.partition("?")[0]) if call.method == "POST" else None
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

    def send(self, call: Call) -> Coroutine[Any, Any, Reply]:
        """Make the call. Raises `InvalidRequest` for what cannot be translated, `UpstreamUnreachable`, `UpstreamTimeout`."""
        api = API_OF_PATH.get(call.path.partition("?")[0]) if call.method == "POST" else None
        if api is not None and api not in self._speaks:
            return self._send_translated(call, api)
        if "responses" not in self._speaks and _STORED.match(call.path):
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
        return _TranslatedReply(reply, exchange, self._max_bytes)


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


class _TranslatedReply(WrappedReply):
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
