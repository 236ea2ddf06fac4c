"""HTTP/1.1 to one server, over kept connections: httptools' parser (llhttp), and as few calls of Python a request as that allows.

`origin` writes a request's head, `proxies` knows what stands between, `pool` makes connections and keeps them, `connection` sends one
request at a time and reads its answer, `failures` names what may go wrong. Nothing here knows of upstreams, or imports another room of the
proxy. Specification: RFC 9110, RFC 9112.

Supports: bodies of a known length, in chunks, and up to the connection's end; bodies sent while the answer comes; interim answers; limits
of time for each wait; back pressure both ways; several addresses tried side by side and in turn (RFC 8305); TLS; forward proxies, by
configuration and by the environment, with basic credentials.

Refuses: whatever two readers could take for two things (two lengths, other transfer codings, folded lines, bare line ends, NUL), other
protocols and versions, more than 128 headers or 64 KiB without a byte of a body, an end without close_notify where that is what ends a
body. Leaves to its user: redirects, retries, cookies, content codings. No HTTP/2, no pipelining, no SOCKS, no proxy behind TLS.
"""

from groundwire_http1.connection import Body, Connection
from groundwire_http1.failures import (
    BadAnswer,
    Broken,
    Closed,
    ConnectTimeout,
    Failure,
    NotConnected,
    Overdue,
    Silent,
    Unsendable,
)
from groundwire_http1.limits import Limits
from groundwire_http1.origin import CHUNKED, Origin
from groundwire_http1.pool import Pool
from groundwire_http1.proxies import BadProxy

__all__ = [
    "CHUNKED",
    "BadAnswer",
    "BadProxy",
    "Body",
    "Broken",
    "Closed",
    "ConnectTimeout",
    "Connection",
    "Failure",
    "Limits",
    "NotConnected",
    "Origin",
    "Overdue",
    "Pool",
    "Silent",
    "Unsendable",
]
