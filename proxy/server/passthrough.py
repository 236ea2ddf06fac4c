"""A path that no policy judges: passed to the upstream and back byte for byte, and counts of a prompt's tokens."""

from __future__ import annotations

import logging
import time
from typing import Any

from msgspec import structs

from proxy.delivery.buffering import read_whole
from proxy.errors import InvalidRequest, ProxyError
from proxy.offloop import LARGE, aside
from proxy.ports.upstream import Call
from proxy.server.handler import Handler
from proxy.wire.dialect import TokenCount
from proxy.wire.http import asgi
from proxy.wire.http.encodings import decoded
from proxy.wire.http.forwarding import NOT_RETURNED_RAW, has_body, returned_headers
from proxy.wire.http.headers import RequestHints, plain_headers

log = logging.getLogger("groundwire.endpoint")

ESTIMATED = b"tokens_estimated"
"""Warns of a count of tokens that is this proxy's own."""
MAX_COUNT_BYTES = 2**20
"""Of an upstream's count, or its error instead."""
_OF_THE_BYTES = ("accept-encoding", "content-encoding", "content-length")
_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS", "TRACE")


class Passthrough(Handler):
    """A request that is passed on where its route allows that."""

    async def _serve(self, path: str, forwarded: list[tuple[str, str]], hints: RequestHints) -> None:
        self._check_passes(path)
        await self._pass_through(forwarded)

    def _check_passes(self, path: str) -> None:
        """Raises `ProxyError` for what this route does not pass on."""
        method = self._scope["method"]
        if method in _WITHOUT_BODY and has_body(self._scope):
            raise InvalidRequest(f"a {method} has no body here: what a server makes of one differs")
        if method == "OPTIONS" and self._s.dialects.of(path) is not None:  # the upstream alone knows which pages may ask it
            return
        refusal = self.route.paths.refusal(method, path, strict=self._policy.refuses)
        if refusal is not None:
            raise refusal

    async def _pass_through(self, forwarded: list[tuple[str, str]]) -> None:
        """Any other path, byte for byte."""
        body: Any = b""
        if has_body(self._scope):
            body = asgi.body_chunks(self._scope, self._receive, self._s.server.max_body_bytes)
        else:
            self.responder.watch()
        call = Call(self._scope["method"], self.path, forwarded, body, raw=True)
        self._before_ms = (time.perf_counter() - self._started) * 1000
        if (count := self._counting()) is not None:
            await self._count(count, call)
            return
        reply = await self._call(call)
        self._replies.append(reply)
        if body:
            self.responder.watch()
        headers = returned_headers(reply, NOT_RETURNED_RAW) + plain_headers(self.id, "skipped")
        await self.responder.start(reply.status, headers)
        try:
            async for chunk in reply.chunks():
                await self.responder.write(chunk)
        except ProxyError as error:  # bytes have left: only a broken connection, which an unended response becomes, can tell the client
            self._error = error
            log.warning("%s: %s", self.id, error.message)
        else:
            await self.responder.end()

    def _counting(self) -> TokenCount | None:
        return self._s.counts.get(self.path.partition("?")[0]) if self._scope["method"] == "POST" else None

    async def _count(self, count: TokenCount, call: Call) -> None:
        """The upstream's count of a prompt's tokens, or this proxy's own, which says that it is an estimate."""
        body = b"".join([piece async for piece in call.body]) if not isinstance(call.body, bytes) else call.body
        self.responder.watch()
        if encoding := asgi.encoding_of(self._scope):
            body = await aside(LARGE, decoded, body, encoding, self._s.server.max_body_bytes)
        forwarded = [(name, value) for name, value in call.headers if name not in _OF_THE_BYTES]
        reply = await self._call(structs.replace(call, headers=forwarded, body=body, raw=False))
        self._replies.append(reply)
        answer, headers = await read_whole(reply, MAX_COUNT_BYTES), plain_headers(self.id, "skipped")
        if not count.missing(reply.status, answer):
            await self.responder.whole(reply.status, returned_headers(reply) + headers, answer)
            return
        request = await aside(len(body), count.parse, body)
        model = self._s.tokens.model(self.route.upstream.upstream.catalogue_name(request.model))
        use = await self._s.tokens.count_request(request.messages, request.tools, request.wants, model)
        headers += [(b"content-type", b"application/json"), *([] if use.exact else [(b"x-groundwire-warnings", ESTIMATED)])]
        await self.responder.whole(200, headers, count.render(use.used_tokens))
