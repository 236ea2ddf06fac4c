"""HTTP/1.1 to one server, over kept connections: httptools' parser (llhttp), and as few calls of Python a request as that allows.

`origin` writes a request's head, `pool` makes connections and keeps them, `connection` sends one request at a time and reads its answer,
`failures` names what may go wrong. Nothing here knows of upstreams. Specification: RFC 9110, RFC 9112.
"""

from proxy.upstreams.http1.connection import Body, Connection, Limits
from proxy.upstreams.http1.failures import (
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
from proxy.upstreams.http1.origin import CHUNKED, Origin
from proxy.upstreams.http1.pool import Pool

__all__ = [
    "CHUNKED",
    "BadAnswer",
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
