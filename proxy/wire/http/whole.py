"""A whole response in one write: an extension of the ASGI server, which `proxy.wire.http.bounds` offers and `asgi.Responder` takes.

uvicorn writes status and headers when they are told, and the body when that is: two calls of the system, and two wake-ups of whoever waits
for them. An answer that is there in one piece goes out in one, and what is the same for each (a header's name, whether it is one) is
looked at once. Where anything is not as usual nothing is written, and the response goes the ordinary way.

https://asgi.readthedocs.io/en/latest/extensions.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HEADER_RE, STATUS_LINE, RequestResponseCycle

EXTENSION = "groundwire.whole"
Whole = Callable[[int, Sequence[tuple[bytes, bytes]], bytes], bool]
"""Status, headers with the ``content-length``, body -> whether they were written."""
_CONTROLS = bytes(code for code in (*range(32), 127) if code != 9)
"""What no header's value may have in it (RFC 9110 section 5.5)."""
_UNUSUAL = frozenset((b"connection", b"transfer-encoding"))
"""Headers by which the connection goes on in another way."""
_WITHOUT_BODY = (204, 304)
_ONE_PIECE_BYTES = 65_536
"""A longer body is not copied behind the headers."""
_MAX_NAMES = 512
_names: dict[bytes, bytes] = {}


def offer(cycle: RequestResponseCycle) -> None:
    """Let the application answer the request of this cycle so."""
    scope: dict[str, Any] = cycle.scope  # type: ignore[assignment]
    scope["extensions"] = {EXTENSION: partial(write, cycle)}


def offered(scope: dict[str, Any]) -> Whole | None:
    """What the server offers with a request; None where it is another server's.

    It is taken out of the scope, which what is offered refers to: left in, each request would wait for the garbage collector.
    """
    extensions = scope.get("extensions")
    found: Whole | None = extensions.pop(EXTENSION, None) if extensions else None
    return found


def write(cycle: RequestResponseCycle, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
    """Answer the request, as two messages to `cycle.send` would; False, and nothing is done, where that has to decide or to wait."""
    if cycle.response_started or cycle.disconnected or cycle.flow.write_paused or cycle.access_log:
        return False
    if cycle.scope["method"] == "HEAD" or status < 200 or status in _WITHOUT_BODY:
        return False
    pieces = [STATUS_LINE[status]]
    fields = [*cycle.default_headers, *headers]
    for name, value in fields:
        beginning = _names[name] if name in _names else _begun(name)
        if not beginning:
            return False
        pieces += (beginning, value, b"\r\n")
    told = b"".join([value for _, value in fields])
    if len(told.translate(None, _CONTROLS)) != len(told):
        return False
    pieces.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    if len(body) <= _ONE_PIECE_BYTES:
        pieces.append(body)
        cycle.transport.write(b"".join(pieces))
    else:
        cycle.transport.write(b"".join(pieces))
        cycle.transport.write(body)
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def _begun(name: bytes) -> bytes:
    """The beginning of a header's line; b"" for a name that is none, or unusual."""
    lower = name.lower()
    if not name or lower in _UNUSUAL or HEADER_RE.search(name):
        return b""
    begun = lower + b": "
    if len(_names) < _MAX_NAMES and len(name) <= 64:  # of those that an upstream may think of, the first ones
        _names[name] = begun
    return begun
