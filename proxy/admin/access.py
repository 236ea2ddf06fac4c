"""Who may use the operator's surface.

With an admin key: whoever sends it as a bearer token. Without one, a server on loopback is open to its own machine: then the peer
must be on it, the ``Host`` must be a loopback name (so that a web page cannot reach it by rebinding a name of its own), and a
request from another site's page is refused. A server on any other address always has a key; `proxy.__main__` makes one where
none is set.
"""

from __future__ import annotations

import hmac
import ipaddress

from starlette.requests import HTTPConnection

from proxy.errors import InvalidApiKey, PolicyNotAllowed


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be this machine."""
    if host in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check(connection: HTTPConnection, admin_key: str) -> None:
    """Raises `InvalidApiKey` or `PolicyNotAllowed`."""
    if admin_key:
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), admin_key.encode()):
            raise InvalidApiKey("the admin key is needed here: send it as 'Authorization: Bearer KEY'")
        return
    if connection.client is None or not is_loopback(connection.client.host):
        raise PolicyNotAllowed("without an admin key this is open to the server's own machine only: set server.admin_key")
    if not is_loopback(_host_name(connection.headers.get("host", ""))):
        raise PolicyNotAllowed("without an admin key this is open only under a loopback name: use http://127.0.0.1 or http://localhost")
    origin = connection.headers.get("origin")
    if connection.headers.get("sec-fetch-site") == "cross-site" or (origin and not is_loopback(_host_name(origin.partition("://")[2]))):
        raise PolicyNotAllowed("requests from another site's page are refused")


def _host_name(netloc: str) -> str:
    """A netloc without its port."""
    if netloc.startswith("["):
        return netloc.partition("]")[0].strip("[]")
    return netloc.rpartition(":")[0] or netloc
