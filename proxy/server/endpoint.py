"""One HTTP exchange from end to end: bytes in, policy, upstream, policy, bytes out, record.

`Endpoint` serves a route's ``/v1/*``: the paths of a dialect go through the policy pipeline (`completion`), everything else is passed
through untouched (`passthrough`). It is the only place where a request's errors become responses.
"""

from __future__ import annotations

import asyncio
import logging

from proxy.errors import INTERRUPTIONS, InternalError, Overloaded, ProxyError
from proxy.server.completion import Completion
from proxy.server.passthrough import Passthrough
from proxy.server.routes import Route, Services
from proxy.wire.http.asgi import ClientGone, Departures, Receive, Responder, Scope, Send
from proxy.wire.http.headers import tail
from proxy.wire.http.whole import offered

log = logging.getLogger("groundwire.endpoint")


class Endpoint:
    """Serves the routes."""

    def __init__(self, services: Services) -> None:
        self._s = services
        self._departures = Departures()

    async def __call__(self, route: Route, sent: str, scope: Scope, receive: Receive, send: Send) -> None:
        """One request whose path, as it was `sent`, is the route's prefix and ``/v1/…``."""
        path, responder = tail(scope, sent, route.prefix), Responder(receive, send, self._departures, offered(scope))
        dialect = self._s.dialects.of(path.partition("?")[0]) if scope["method"] == "POST" else None
        handler = (Passthrough if dialect is None else Completion)(self._s, route, scope, receive, responder, path, dialect)
        try:
            await handler.run()
        except ClientGone:
            handler.left()
        except asyncio.CancelledError:
            if handler.responder.client_gone:
                handler.left()
            else:
                await handler.failed(Overloaded("the server is stopping and has waited long enough for this answer"))
        except ProxyError as error:
            await handler.failed(error)
        except INTERRUPTIONS:
            raise
        except BaseException:
            log.exception("%s: unexpected failure", handler.id)
            await handler.failed(InternalError("an internal error; the server's log has the details under this request's id"))
        finally:
            if not handler.responder.ended:
                handler.responder.unwatch()
            await handler.finish()
