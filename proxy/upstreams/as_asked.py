"""An answer in the form that was asked for, whatever its server calls it: a stream of events, or one body; and an error as an error.

In: a server's reply in its own API, with a status of success. Out: the reply as it is, byte for byte, where it has the form asked for.
Events under another content type are a stream; a body where a stream was asked for becomes the API's events; events where a body was asked
for are put together into it. An error object in place of an answer becomes a reply with an error's status, so that it is tried again, goes
to a fallback and reaches the client as any other. What is neither goes on as it came.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

import orjson

from proxy.config.settings import Api
from proxy.errors import ProxyError, UpstreamUnreachable
from proxy.offloop import run_in_thread_if_large
from proxy.ports.upstream import BodyReply, Call, Headers, Reply, WrappedReply, is_event_stream, limit, read_whole
from proxy.wire.bodies import exact
from proxy.wire.chat import forms as chat_forms
from proxy.wire.gemini import answers as gemini_forms
from proxy.wire.messages import events as messages_forms
from proxy.wire.responses import events as responses_forms
from proxy.wire.sse import EventSplitter
from proxy.wire.translation.pieces import payload_of
from proxy.wire.upstream_errors import Failure, envelope, events_of, instead_of_answer, is_own

_EVENTS, _JSON = "text/event-stream; charset=utf-8", "application/json"
_BLANK = b" \t\r\n\xef\xbb\xbf"
"""What may stand in front of JSON, or of a stream."""
_FIRST_LINE = re.compile(rb"(?:data|event|id|retry)?:")
"""What a stream of events begins with."""
_ERROR = re.compile(rb'"(?:error|errors|detail)"\s*:\s*[{\["]')
_ANSWERS: Mapping[Api, bytes] = {"chat": b'"choices"', "responses": b'"output"', "messages": b'"content"', "gemini": b'"candidates"'}
_BAD_GATEWAY = 502
_TO_EVENTS: Mapping[Api, Callable[[Mapping[str, Any], bytes], bytes]] = {
    "chat": chat_forms.to_events,
    "responses": responses_forms.to_events,
    "messages": messages_forms.to_events,
    "gemini": gemini_forms.to_events,
}
_TO_WHOLE: Mapping[Api, Callable[..., dict[str, Any] | None]] = {
    "chat": chat_forms.to_whole,
    "responses": responses_forms.to_whole,
    "messages": messages_forms.to_whole,
    "gemini": gemini_forms.to_whole,
}


async def as_asked(sending: Awaitable[Reply], api: Api, call: Call, max_bytes: int) -> Reply:
    """The reply to a call of `api`, as it was asked for. Raises what `sending` raises, `UpstreamUnreachable`, `UpstreamTimeout`."""
    reply = await sending
    if not 200 <= reply.status < 300:
        return reply
    events = is_event_stream(reply.headers)
    if call.stream and events:
        return _AsAsked(reply, api, call, max_bytes)
    try:
        if call.stream:
            return await _AsAsked(reply, api, call, max_bytes).open()
        body = await read_whole(reply, max_bytes)
        if body[:1] == b"{" and not events and not _may_fail(api, body):  # what most answers are
            await reply.close()
            return BodyReply(reply.upstream, reply.status, reply.headers, body, reply.attempts)
        return await _AsAsked(reply, api, call, max_bytes).take(body)
    except BaseException as error:
        await reply.close()
        if isinstance(error, ProxyError):
            error.answered_status = reply.status
        if isinstance(error, UpstreamUnreachable):
            error.repeatable = False  # the server has answered once
        raise


class _AsAsked(WrappedReply):
    """Implements `proxy.ports.upstream.Reply`."""

    def __init__(self, reply: Reply, api: Api, call: Call, max_bytes: int) -> None:
        super().__init__(reply)
        self._api, self._max_bytes = api, max_bytes
        self._asked, self._streams = call.body if isinstance(call.body, bytes) else b"", call.stream
        self._body: bytes | None = None
        """All of it, where that was read."""
        self._first = b""
        self._pieces: AsyncIterator[bytes] | None = None

    async def open(self) -> _AsAsked:
        """Find out what came where a stream was asked for; a body is read to its end."""
        self._pieces = self._reply.chunks()
        blank = bytearray()
        async for piece in self._pieces:
            blank += piece
            limit(len(blank), self._max_bytes)
            if piece.strip(_BLANK):
                break
        self._first = bytes(blank)
        if _begins_stream(self._first):
            self.headers = _typed(self.headers, _EVENTS)
        else:
            await self.take(await self._rest())
            if self.status == self._reply.status and self._body is not None:
                events = await run_in_thread_if_large(len(self._body), self._events, self._body)
                if events is not None:
                    self._body, self.headers = events, _typed(self.headers, _EVENTS)
        return self

    async def take(self, body: bytes) -> _AsAsked:
        """A whole body, which leaves as it is where it is an answer."""
        made: bytes | Failure = body
        if not body.startswith(b"{") and _begins_stream(body):
            made = await run_in_thread_if_large(len(body), self._whole, body)
        elif _may_fail(self._api, body):
            made = await run_in_thread_if_large(len(body), self._checked, body)
        if isinstance(made, Failure):
            self.status, own = made.status or _BAD_GATEWAY, is_own(self._api, body)
            self._body = body if own else orjson.dumps(envelope(self._api, made, self.status))
        else:
            self._body = made
        if self._body is not body or is_event_stream(self.headers):
            self.headers = _typed(self.headers, _JSON)
        return self

    async def _rest(self) -> bytes:
        assert self._pieces is not None
        pieces, size = [self._first], len(self._first)
        self._first = b""
        async for piece in self._pieces:
            size += len(piece)
            limit(size, self._max_bytes)
            pieces.append(piece)
        return b"".join(pieces)

    # ---- what it is ----

    def _checked(self, body: bytes) -> bytes | Failure:
        """The body, or the error that it is."""
        try:
            return instead_of_answer(self._api, orjson.loads(body)) or body
        except orjson.JSONDecodeError:
            return body

    def _events(self, body: bytes) -> bytes | None:
        """A body as events; None for what is no answer of the API."""
        try:
            found = exact(body)
            return _TO_EVENTS[self._api](found, self._asked) if isinstance(found, dict) else None
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
            made = _TO_WHOLE[self._api](payloads, marked=marked)
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
        first, pieces = self._first, self._pieces or self._reply.chunks()
        if first:
            yield first
        async for piece in pieces:
            if not first and (first := piece).lstrip()[:1] in (b"{", b"["):  # a body by the name of a stream
                self._first, self._pieces = piece, pieces
                yield await self._body_as_events()
                return
            yield piece

    async def _body_as_events(self) -> bytes:
        body = await self._rest()
        found = await run_in_thread_if_large(len(body), self._checked, body) if _may_fail(self._api, body) else body
        if isinstance(found, Failure):
            return events_of(self._api, found)
        return await run_in_thread_if_large(len(body), self._events, body) or body

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


def _typed(headers: Headers, kind: str) -> Headers:
    """Headers of a body that was written anew, or is of another type than they say."""
    return [*((name, value) for name, value in headers if name not in ("content-type", "content-length")), ("content-type", kind)]
