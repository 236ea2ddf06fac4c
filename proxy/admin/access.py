"""Who may use the operator's surface.

With an admin key: whoever sends it as a bearer token. Without one, a server on loopback is open to its own machine's programs
(`proxy.wire.http.peers`). A server on any other address always has a key; `proxy.__main__` makes one where none is set.
"""

from __future__ import annotations

import hmac

from starlette.requests import HTTPConnection

from proxy.errors import InvalidApiKey, PolicyNotAllowed
from proxy.wire.http.peers import not_from_here


def check(connection: HTTPConnection, admin_key: str) -> None:
    """Raises `InvalidApiKey` or `PolicyNotAllowed`."""
    if admin_key:
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), admin_key.encode()):
            raise InvalidApiKey("the admin key is needed here: send it as 'Authorization: Bearer KEY'")
        return
    problem = not_from_here(connection.scope)
    if problem:
        raise PolicyNotAllowed(f"without an admin key {problem}; server.admin_key sets one")
