"""One pass-through app, many HTTP clients: what `benchmarks.http_clients` compares.

A client is an async context manager that yields a function forwarding one request and sending its answer as ASGI messages.
All get the same server (uvicorn, uvloop, httptools) and the same work; only the client differs.

    python -m benchmarks.load.clients --client aiohttp --port 9001 --upstream http://127.0.0.1:9000
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.floor import HOP_BY_HOP

Headers = list[tuple[bytes, bytes]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Forward = Callable[[str, str, Headers, bytes, Send], Awaitable[None]]
Opener = Callable[[str], AbstractAsyncContextManager[Forward]]
TEXT_HEADERS = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})


async def _answer(send: Send, status: int, headers: Any, pieces: AsyncIterator[bytes]) -> None:
    """The answer as it comes in; the same for every client."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _bytes_headers(items: Any) -> Headers:
    return [(k.lower().encode(), v.encode("latin-1")) for k, v in items if k.lower() not in TEXT_HEADERS]


def _text_headers(headers: Headers) -> list[tuple[str, str]]:
    return [(k.decode("latin-1"), v.decode("latin-1")) for k, v in headers]


AIOHTTP_CHANGES = {
    "string URL": "URL given as a string: parsed and quoted for each request",
    "list of headers": "headers as a list of pairs instead of a CIMultiDict",
    "cookie jar": "the default cookie jar instead of DummyCookieJar",
    "auto decompress": "auto_decompress left on",
    "no timeout": "ClientTimeout() with nothing set instead of the default total of 300 s",
    "socket timeouts": "ClientTimeout(total=None, sock_connect=10, sock_read=120)",
    "skip auto headers": "skip_auto_headers for Accept, Accept-Encoding, User-Agent, Content-Type",
    "read at once": "await read() and one final ASGI message instead of piece by piece",
    "whole answer in one message": "pieces, but the last one is sent with more_body=False, seen by content.at_eof()",
    "read buffer 1 MB": "read_bufsize=1 MiB instead of 64 KiB",
    "keep alive 60 s": "keepalive_timeout=60 instead of 15",
    "connector limit 100": "the default connection limit instead of none",
    "memoryview body": "the request body as a memoryview instead of bytes",
}


def _aiohttp(change: str = "") -> Opener:
    """The floor's client, with at most one thing changed."""

    @asynccontextmanager
    async def opened(upstream: str) -> AsyncIterator[Forward]:
        import aiohttp
        from multidict import CIMultiDict
        from yarl import URL

        limit = 100 if change == "connector limit 100" else 0
        connector = aiohttp.TCPConnector(limit=limit, keepalive_timeout=60 if change == "keep alive 60 s" else 15)
        settings: dict[str, Any] = {"connector": connector, "auto_decompress": change == "auto decompress"}
        if change != "cookie jar":
            settings["cookie_jar"] = aiohttp.DummyCookieJar()
        if change == "read buffer 1 MB":
            settings["read_bufsize"] = 2**20
        if change == "skip auto headers":
            settings["skip_auto_headers"] = ["Accept", "Accept-Encoding", "User-Agent", "Content-Type"]
        if change == "no timeout":
            settings["timeout"] = aiohttp.ClientTimeout()
        if change == "socket timeouts":
            settings["timeout"] = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)

        async def forward(method: str, path: str, headers: Headers, body: bytes, send: Send) -> None:
            url: Any = upstream + path if change == "string URL" else URL(upstream + path, encoded=True)
            given: Any = _text_headers(headers) if change == "list of headers" else CIMultiDict(_text_headers(headers))
            data: Any = memoryview(body) if change == "memoryview body" else body
            async with session.request(method, url, headers=given, data=data, allow_redirects=False) as answer:
                kept = [(k, v) for k, v in answer.raw_headers if k.lower() not in HOP_BY_HOP or k.lower() == b"content-length"]
                if change == "read at once":
                    whole = await answer.read()
                    await send({"type": "http.response.start", "status": answer.status, "headers": kept})
                    await send({"type": "http.response.body", "body": whole})
                elif change == "whole answer in one message":
                    await send({"type": "http.response.start", "status": answer.status, "headers": kept})
                    more = True
                    while more:
                        piece = await answer.content.readany()
                        more = not answer.content.at_eof()
                        await send({"type": "http.response.body", "body": piece, "more_body": more})
                else:
                    await _answer(send, answer.status, kept, answer.content.iter_any())

        async with aiohttp.ClientSession(**settings) as session:
            yield forward

    return opened


def _httpx(module: str, aiohttp_transport: bool = False) -> Opener:
    @asynccontextmanager
    async def opened(upstream: str) -> AsyncIterator[Forward]:
        httpx = import_module(module)
        settings: dict[str, Any] = {"limits": httpx.Limits(max_connections=None, max_keepalive_connections=None), "timeout": 300}
        if aiohttp_transport:
            settings = {"timeout": 300, "transport": import_module("httpx_aiohttp").AiohttpTransport(limits=settings["limits"])}

        async def forward(method: str, path: str, headers: Headers, body: bytes, send: Send) -> None:
            async with client.stream(method, upstream + path, headers=headers, content=body) as answer:
                kept = [(k, v) for k, v in answer.headers.raw if k.lower() not in HOP_BY_HOP or k.lower() == b"content-length"]
                await _answer(send, answer.status_code, kept, answer.aiter_raw())

        async with httpx.AsyncClient(**settings) as client:
            yield forward

    return opened


@asynccontextmanager
async def _niquests(upstream: str) -> AsyncIterator[Forward]:
    niquests = import_module("niquests")

    async def forward(method: str, path: str, headers: Headers, body: bytes, send: Send) -> None:
        answer = await session.request(method, upstream + path, headers=dict(_text_headers(headers)), data=body)
        await send({"type": "http.response.start", "status": answer.status_code, "headers": _bytes_headers(answer.headers.items())})
        await send({"type": "http.response.body", "body": answer.content})

    async with niquests.AsyncSession(pool_connections=1, pool_maxsize=256) as session:
        yield forward


@asynccontextmanager
async def _pyreqwest(upstream: str) -> AsyncIterator[Forward]:
    builder = import_module("pyreqwest.client").ClientBuilder()

    async def forward(method: str, path: str, headers: Headers, body: bytes, send: Send) -> None:
        request = client.request(method, upstream + path).headers(_text_headers(headers)).body_bytes(body).build_streamed()
        async with request as answer:
            await send({"type": "http.response.start", "status": answer.status, "headers": _bytes_headers(answer.headers.items())})
            while piece := await answer.body_reader.read_chunk():
                await send({"type": "http.response.body", "body": bytes(piece), "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async with builder.http1_only().follow_redirects(False).no_proxy().build() as client:
        yield forward


@asynccontextmanager
async def _pyqwest(upstream: str) -> AsyncIterator[Forward]:
    pyqwest = import_module("pyqwest")

    async def forward(method: str, path: str, headers: Headers, body: bytes, send: Send) -> None:
        async with client.stream(method, upstream + path, headers=_text_headers(headers), content=body) as answer:
            await send({"type": "http.response.start", "status": answer.status, "headers": _bytes_headers(answer.headers.items())})
            async for piece in answer.content:
                await send({"type": "http.response.body", "body": bytes(piece), "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    transport = pyqwest.HTTPTransport(http_version=pyqwest.HTTPVersion.HTTP1, enable_gzip=False, enable_brotli=False, enable_zstd=False)
    client = pyqwest.Client(transport)
    yield forward


@asynccontextmanager
async def _own(upstream: str) -> AsyncIterator[Forward]:
    """The proxy's, `groundwire_http1`."""
    import groundwire_http1 as http1

    pool = http1.Pool(http1.Origin(upstream), http1.Limits(10.0, 120.0, 120.0))

    async def pieces(connection: http1.Connection) -> AsyncIterator[bytes]:
        while piece := await connection.piece():
            yield piece

    async def forward(method: str, path: str, headers: Headers, body: bytes, send: Send) -> None:
        head = pool.origin.head(method, path, _text_headers(headers), f"Content-Length: {len(body)}\r\n\r\n")
        connection = pool.kept() or await pool.connect()
        await connection.ask(head, body, None, 300.0)
        kept = [(k.encode(), v.encode("utf-8", "surrogateescape")) for k, v in connection.headers]
        kept = [(k, v) for k, v in kept if k not in HOP_BY_HOP or k == b"content-length"]
        await _answer(send, connection.status, kept, pieces(connection))
        connection.release()

    yield forward
    await pool.close()


CLIENTS: dict[str, Opener] = {
    "aiohttp": _aiohttp(),
    "httpx": _httpx("httpx"),
    "httpx2": _httpx("httpx2"),
    "httpx-aiohttp": _httpx("httpx", aiohttp_transport=True),
    "niquests": _niquests,
    "pyreqwest": _pyreqwest,
    "pyqwest": _pyqwest,
    "own": _own,
    **{f"aiohttp: {change}": _aiohttp(change) for change in AIOHTTP_CHANGES},
}
PACKAGES = ["aiohttp", "httpx", "httpx2", "httpx-aiohttp", "niquests", "pyreqwest", "pyqwest", "uvicorn", "uvloop", "httptools"]


class App:
    """The floor's pass-through with any client."""

    def __init__(self, opener: Opener, upstream: str) -> None:
        self.opener, self.upstream = opener, upstream

    async def __call__(self, scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Any]], send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            async with self.opener(self.upstream) as self.forward:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = [(k, v) for k, v in scope["headers"] if k not in HOP_BY_HOP]
        await self.forward(scope["method"], scope["raw_path"].decode(), headers, body, send)


if __name__ == "__main__":
    import uvicorn

    options = argparse.ArgumentParser()
    options.add_argument("--client", choices=list(CLIENTS), required=True)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--upstream", required=True)
    given = options.parse_args()
    app = App(CLIENTS[given.client], given.upstream)
    uvicorn.run(app, port=given.port, loop="uvloop", http="httptools", access_log=False, log_level="warning")
