"""What a server and an application say to each other of a WebSocket beside ASGI's own messages, and how one is answered that is refused."""

from __future__ import annotations

from typing import Any

from proxy.wire.http.asgi import Scope, Send

DRAIN = "groundwire.drain"
"""The type of the message that tells the application to end what is under way, and close."""
IDLE = "groundwire.idle"
"""In a scope's extensions: takes whether nothing is under way, so that the connection may make room for another one."""
_OF_THE_HANDSHAKE = frozenset(
    bytes.split(b"connection upgrade accept-encoding content-encoding content-length content-type transfer-encoding idempotency-key")
)
_SOCKETS = b"responses_websockets"


def as_http(scope: Scope, method: str) -> Scope:
    """The scope of a request that is made over the connection: what the handshake said of the client holds for each."""
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if name not in _OF_THE_HANDSHAKE
        and not name.startswith(b"sec-websocket-")
        and not (name == b"openai-beta" and value.startswith(_SOCKETS))
    ]
    headers += [(b"content-type", b"application/json")] if method == "POST" else []
    return {**scope, "type": "http", "method": method, "scheme": "http", "headers": headers, "extensions": {}}


def denying(send: Send) -> Send:
    """Takes an HTTP response's messages, and sends them in the place of the handshake."""

    async def deny(message: dict[str, Any]) -> None:
        await send({**message, "type": message["type"].replace("http.", "websocket.http.")})

    return deny
