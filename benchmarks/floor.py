"""The floor: a bare ASGI + uvicorn + aiohttp pass-through, what any proxy of this kind costs before it does anything.

Reads the body, forwards it over a pooled session, streams the answer back. Written as one would for production speed.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import aiohttp
import uvicorn
from multidict import CIMultiDict
from yarl import URL

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"host", b"content-length"})


class Floor:
    def __init__(self, upstream: str) -> None:
        self.upstream = upstream

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            connector = aiohttp.TCPConnector(limit=0)  # no cap on connections
            async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as session:
                self.session = session
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        url = URL(self.upstream + scope["raw_path"].decode(), encoded=True)
        headers = CIMultiDict((k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"] if k not in HOP_BY_HOP)
        async with self.session.request(scope["method"], url, headers=headers, data=body, allow_redirects=False) as answer:
            kept = [(k, v) for k, v in answer.raw_headers if k.lower() not in HOP_BY_HOP or k.lower() == b"content-length"]
            await send({"type": "http.response.start", "status": answer.status, "headers": kept})
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--upstream", required=True)
    given = options.parse_args()
    uvicorn.run(Floor(given.upstream), port=given.port, loop="uvloop", http="httptools", access_log=False, log_level="warning")
