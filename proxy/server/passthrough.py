"""A path that no policy judges: passed to the upstream and back byte for byte; decision models' answers; counts of tokens."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import orjson
from msgspec import structs

from proxy.config.sections import DECISION_PATHS
from proxy.config.settings import Api
from proxy.errors import InvalidRequest, ProxyError
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports.upstream import Call, Reply, header_of, read_whole
from proxy.server.cross_origin import is_preflight
from proxy.server.handler import Handler
from proxy.server.owners import id_in, is_collection
from proxy.wire.bodies import check_keys
from proxy.wire.decisions.asked import MOST_DECODED_BYTES, Billing, billing_of, read_billing
from proxy.wire.dialect import TokenCounting
from proxy.wire.gemini.address import GENERATE, without_keys
from proxy.wire.http import asgi
from proxy.wire.http.encodings import PLAIN, decode_body
from proxy.wire.http.headers import NOT_RETURNED_RAW, ClientHeaders, RequestHints, has_body, returned_headers
from proxy.wire.responses.items import SEARCH_SPEEDUP, ids_of_body, may_name, named_in
from proxy.wire.translation.models import models_for
from proxy.wire.translation.translate import API_OF_PATH

log = logging.getLogger("groundwire.endpoint")

ESTIMATED = b"tokens_estimated"
"""Warns of a count of tokens that is this proxy's own."""
MAX_COUNT_BYTES = 2**20
"""Of an upstream's count, or its error instead."""
KEPT = ("/responses/", "/conversations")
"""Paths whose bodies name what was made before."""
_MODELS = "/models"
_EVERY_MODEL = "?pageSize=1000"
"""Gemini's API lists 50 at once, and 1,000 at most."""
_OF_THE_BYTES = ("accept-encoding", "content-encoding", "content-length")
_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS", "TRACE")


class AnswerEnds:
    """Both ends of an answer that passes as it is: every API says at the last, in JSON or in a last event, how many tokens it took, and at
    one of them which model answered. Of a compressed one all is kept, as far as `MOST_DECODED_BYTES`; a longer one is not read.
    """

    _FIRST_BYTES, _LAST_BYTES = 4096, 65_536

    def __init__(self, encoding: str) -> None:
        """`encoding` is its ``content-encoding``."""
        self._encoding = "" if encoding.strip().lower() in PLAIN else encoding
        self._most_bytes = MOST_DECODED_BYTES if self._encoding else 2 * self._LAST_BYTES
        self._bytes = bytearray()

    def feed(self, chunk: bytes) -> None:
        """More of it."""
        self._bytes += chunk
        if len(self._bytes) > self._most_bytes:
            del self._bytes[self._FIRST_BYTES : -self._LAST_BYTES]

    async def read(self) -> Billing:
        """What the answer says that it took; nothing where it says nothing, or cannot be read."""
        return await run_in_thread_if_large(LARGE if self._encoding else 0, self._read)

    def _read(self) -> Billing:
        try:
            plain = decode_body(bytes(self._bytes), self._encoding, MOST_DECODED_BYTES)
        except ProxyError:
            return Billing()
        if len(plain) > self._FIRST_BYTES + self._LAST_BYTES:
            plain = plain[: self._FIRST_BYTES] + plain[-self._LAST_BYTES :]
        return billing_of({name: _last_value(plain, name) for name in ("usage", "model")})


def _last_value(body: bytes, name: str) -> Any:
    """What stands behind the last key of that name; None without one. In a string of JSON no key stands: its quotes are escaped."""
    _, key, behind = body.rpartition(f'"{name}"'.encode())
    text = behind.decode("utf-8", "replace").lstrip(" \t\r\n:") if key else ""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
        return orjson.loads(text[:end])  # which reads no number that is none, and no half of a character
    except (ValueError, RecursionError):
        return None


class Passthrough(Handler):
    """A request that is passed on where its route allows that."""

    _encoding = ""
    """Of its body."""

    async def _serve(self, path: str, headers: ClientHeaders, hints: RequestHints) -> None:
        self._check_passes(path)
        self._begin_record()
        self._encoding = headers.encoding
        await self._pass_through(headers.forwarded)

    def _check_passes(self, path: str) -> None:
        """Raises `ProxyError` for what this route does not pass on."""
        method = self._scope["method"]
        if method in _WITHOUT_BODY and has_body(self._scope):
            raise InvalidRequest(f"a {method} has no body here: what a server makes of one differs")
        if method == "OPTIONS" and self._services.dialects.of(path) is not None:  # the upstream alone knows which pages may ask it
            return
        refusal = self.route.paths.refusal(method, path, strict=self._policy.refuses)
        if refusal is not None:
            raise refusal

    async def _pass_through(self, forwarded: list[tuple[str, str]]) -> None:
        """Any other path, byte for byte."""
        body: Any = b""
        if has_body(self._scope):
            body = asgi.body_chunks(self._scope, self._receive, self._services.server.max_body_bytes)
        call = Call(self._scope["method"], self.path, forwarded, body, raw=True, party=self.party)
        count = self._counting()
        takes = call.method == "POST" and count is None
        if self._admission is not None and takes and self._admission.reads:
            call = await self._admit(call)
        if self.route.keeps_for_operator:
            call = await self._check_owner(call)
            if count is None and call.method in ("GET", "POST") and is_collection(self.path):
                await self._make(call)
                return
        self._before_ms = (time.perf_counter() - self._started) * 1000
        if self.path.partition("?")[0] in DECISION_PATHS and call.method == "POST":
            await self._decide(call)
            return
        if count is not None:
            await self._count(count, call)
            return
        if (apis := self._lists_otherwise()) is not None:
            await self._list_models(call, *apis)
            return
        reply = await self._ask(call)
        headers = returned_headers(reply, NOT_RETURNED_RAW) + self._own_headers("skipped")
        await self.responder.start(reply.status, headers)
        ends = AnswerEnds(header_of(reply.headers, "content-encoding")) if takes and 200 <= reply.status < 300 else None
        try:
            async for chunk in reply.chunks():
                if ends is not None:
                    ends.feed(chunk)
                await self.responder.write(chunk)
        except ProxyError as error:  # bytes have left: only a broken connection, which an unended response becomes, can tell the client
            self._error = error
            log.warning("%s: %s", self.id, error.message)
        else:
            await self.responder.end()
        finally:
            if ends is not None:
                self._bill(await ends.read())

    def _bill(self, told: Billing) -> None:
        """What the answer has told of what it took is for the record, the figures and the key's account."""
        asked = self._admission.model if self._admission is not None else ""
        self._billing = structs.replace(told, model=asked or told.model)

    async def _ask(self, call: Call) -> Reply:
        """The upstream's reply. The client's leaving is listened for once its body has been read: before that, the body would be taken."""
        read = isinstance(call.body, bytes)
        if read:
            self.responder.watch()
        reply = await self._call(call)
        self._replies.append(reply)
        if not read:
            self.responder.watch()
        return reply

    async def _body(self, call: Call) -> bytes:
        """The call's, read where it has not been."""
        return call.body if isinstance(call.body, bytes) else await asgi.join_body(call.body, self.room)

    async def _admit(self, call: Call) -> Call:
        """The call with its body, which was read for the client's key; its answer will be, too."""
        assert self._admission is not None
        body = await self._body(call)
        read = await self.decode(body, self._encoding) if self._encoding else body
        await self._admission.admit_body(read, self._client_dialect)
        headers = [(name, value) for name, value in call.headers if name != "accept-encoding"]
        return structs.replace(call, body=body, headers=[*headers, ("accept-encoding", "identity")])

    async def _check_owner(self, call: Call) -> Call:
        """The call, with its body if that was read. Raises `NotFound` where it is about, or goes on from, what is another client's."""
        owners, upstream, one = self._services.owners, self.route.upstream.name, id_in(self.path)
        if one and not is_preflight(self._scope):
            await owners.check(upstream, [one], self._client, self.party)
        if call.body == b"" or not self.path.startswith(KEPT):
            return call
        body = await self._body(call)
        read = await self.decode(body, self._encoding) if self._encoding else body
        named, brought = await run_in_thread_if_large(len(read), named_in, read)
        if self._services.clients.keyed and await run_in_thread_if_large(len(read) // SEARCH_SPEEDUP, may_name, read):
            await run_in_thread_if_large(len(read), check_keys, read, "input")
        await owners.check(upstream, named, self._client, self.party, brought)
        return structs.replace(call, body=body)

    async def _make(self, call: Call) -> None:
        """Something of an account's own is made, from then on the client's; or a list of what is there, of which it gets its own."""
        owners, upstream = self._services.owners, self.route.upstream.name
        forwarded = [(name, value) for name, value in call.headers if name != "accept-encoding"]
        self._before_ms = (time.perf_counter() - self._started) * 1000
        reply = await self._ask(structs.replace(call, headers=[*forwarded, ("accept-encoding", "identity")]))
        answer = await read_whole(reply, self._services.server.max_answer_bytes)
        if 200 <= reply.status < 300:
            if call.method == "POST":
                (ends := AnswerEnds(header_of(reply.headers, "content-encoding"))).feed(answer)
                self._bill(await ends.read())
                await owners.add(upstream, await run_in_thread_if_large(len(answer), ids_of_body, answer), self._client)
            elif call.method == "GET":
                answer = await owners.only_own(upstream, answer, self._client)
        headers = [item for item in returned_headers(reply, NOT_RETURNED_RAW) if item[0] != b"content-length"]
        await self.responder.whole(reply.status, headers + self._own_headers("skipped"), answer)

    async def _decide(self, call: Call) -> None:
        """A decision model's answer, byte for byte."""
        reply = await self._ask(structs.replace(call, body=await self._body(call)))
        answer = await read_whole(reply, self._services.server.max_answer_bytes)
        if 200 <= reply.status < 300:
            self._bill(await run_in_thread_if_large(len(answer), read_billing, answer, header_of(reply.headers, "content-encoding")))
        headers = [item for item in returned_headers(reply, NOT_RETURNED_RAW) if item[0] != b"content-length"]
        await self.responder.whole(reply.status, headers + self._own_headers("skipped"), answer)

    def _lists_otherwise(self) -> tuple[Api, Api] | None:
        """The client's API and the upstream's, where they tell of models in two forms, and the client asks for some; else None."""
        path, _, query = self.path.partition("?")
        if self._scope["method"] != "GET" or not (path + "/").startswith(_MODELS + "/"):
            return None
        spoken = GENERATE if without_keys(query)[0] else self._client_dialect.path  # no other API has keys in a query
        client, server = API_OF_PATH[spoken], self.route.asked_in.get(self.route.upstream.name, {}).get(spoken)
        return (client, server) if server is not None and "gemini" in (client, server) else None

    async def _list_models(self, call: Call, client: Api, server: Api) -> None:
        """The upstream's models, all of them, or one, as the client's API tells of them."""
        forwarded = [(name, value) for name, value in call.headers if name != "accept-encoding"]
        path = self.path.partition("?")[0]  # its query is of the client's API
        asked = path + _EVERY_MODEL if server == "gemini" and path == _MODELS else path
        reply = await self._ask(structs.replace(call, path=asked, headers=[*forwarded, ("accept-encoding", "identity")]))
        answer = await read_whole(reply, self._services.server.max_answer_bytes)
        if 200 <= reply.status < 300:
            answer = await run_in_thread_if_large(len(answer), models_for, client, answer)
        headers = [item for item in returned_headers(reply, NOT_RETURNED_RAW) if item[0] != b"content-length"]
        await self.responder.whole(reply.status, headers + self._own_headers("skipped"), answer)

    def _counting(self) -> TokenCounting | None:
        return self._services.counts.get(self.path.partition("?")[0]) if self._scope["method"] == "POST" else None

    async def _count(self, count: TokenCounting, call: Call) -> None:
        """The upstream's count of a prompt's tokens, or this proxy's own, which says that it is an estimate."""
        body = await self._body(call)
        if self._encoding:
            body = await self.decode(body, self._encoding)
        forwarded = [(name, value) for name, value in call.headers if name not in _OF_THE_BYTES]
        body = count.merge_address(body, self.path)
        reply = await self._ask(structs.replace(call, headers=forwarded, body=body, raw=False))
        answer, headers = await read_whole(reply, MAX_COUNT_BYTES), self._own_headers("skipped")
        if not count.missing(reply.status, answer):
            await self.responder.whole(reply.status, returned_headers(reply) + headers, answer)
            return
        request = await run_in_thread_if_large(len(body), count.parse, body)
        model = self._services.tokens.model(self.route.upstream.upstream.catalogue_name(request.model))
        use = await self._services.tokens.count_request(request.messages, request.tools, request.wants, model)
        headers += [(b"content-type", b"application/json"), *([] if use.exact else [(b"x-groundwire-warnings", ESTIMATED)])]
        await self.responder.whole(200, headers, count.render(use.used_tokens))
