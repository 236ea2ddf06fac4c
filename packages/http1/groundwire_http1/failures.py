"""Why there is no answer, or none that is whole.

Failure
├── Unsendable        the request is none: nothing was sent
├── ConnectTimeout    no connection in time
├── NotConnected      no connection
├── Closed            the server closed the connection before an answer
├── Silent            nothing came in time
├── BadAnswer         the answer's head is no HTTP, or could be read in two ways
├── Broken            the body ended before it was whole, or is no HTTP
└── Overdue           the answer was not whole within its total time
"""

from __future__ import annotations


class Failure(Exception):
    """Any of them."""


class Unsendable(Failure):
    """The request is none: nothing was sent."""


class ConnectTimeout(Failure):
    """No connection in time."""


class NotConnected(Failure):
    """No connection; says why."""


class Closed(Failure):
    """The server closed the connection before an answer."""

    def __init__(self, *, stale: bool = False) -> None:
        super().__init__("closed before an answer")
        self.stale = stale
        """Whether not a byte came: a server that does so on a kept connection had as a rule closed it before the request."""


class Silent(Failure):
    """Nothing came in time."""

    def __init__(self, *, answering: bool) -> None:
        super().__init__("nothing came in time")
        self.answering = answering
        """Whether the answer's head was there."""


class BadAnswer(Failure):
    """The answer's head is no HTTP, or could be read in two ways; says what is wrong."""


class Broken(Failure):
    """The body ended before it was whole, or is no HTTP."""


class Overdue(Failure):
    """The answer was not whole within its total time."""
