"""Everything that can go wrong, and the one builder of the error body a client sees.

    GroundwireError
    ├── ConfigError              config.yaml or a policy file is refused at start-up; never reaches a client
    ├── StoreUnavailable         the database did not take or give something; never reaches a chat client
    ├── ModelUnavailable         a model of the proxy's own could not be loaded or run; never reaches a chat client
    └── ProxyError               ends a request: status, code, type, param
        ├── InvalidRequest            400  invalid_request
        │   └── ContextLengthExceeded 400  context_length_exceeded
        ├── PolicyBlocked             400  policy_blocked (the sub-code stands in param)
        ├── InvalidApiKey             401  invalid_api_key
        ├── PolicyNotAllowed          403  policy_not_allowed
        ├── NotFound                  404  not_found
        ├── Conflict                  409  conflict
        ├── RequestTooLarge           413  request_too_large
        ├── UnsupportedEncoding       415  unsupported_encoding
        ├── RateLimited               429  rate_limited
        ├── WebSocketRefused          426  websocket_not_supported
        ├── InternalError             500  internal_error
        ├── UpstreamUnreachable       502  upstream_unreachable
        │   └── UpstreamRefused       502  upstream_unreachable (its own status stands in upstream_status)
        ├── Overloaded                503  overloaded
        └── UpstreamTimeout           504  upstream_timeout

An upstream's own error is none of these: it passes through unchanged (status, body, ``retry-after``).
The envelope follows OpenAI's: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

INTERRUPTIONS: tuple[type[BaseException], ...] = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends a program or a task from outside. Every other exception is a bug, also those that are no `Exception` (panics of Rust code)."""
MAX_PATH_CHARS = 300
MAX_PROBLEM_CHARS = 2000
"""Of what is said of a file: it may quote a value, and is to be read by a person."""


class GroundwireError(Exception):
    """Root of the tree."""


class ConfigError(GroundwireError):
    """A file is refused: where (file, path inside it), what is wrong, what was expected."""

    def __init__(self, file: str, path: str, problem: str, *, key: str = "") -> None:
        """`key` is the one that is wrong in the mapping at `path`, where the problem is not with its value."""
        self.file, self.path, self.problem = file, _short(path, MAX_PATH_CHARS), _short(problem, MAX_PROBLEM_CHARS)
        self.place = f"{path}.{key}".removeprefix(".") if key else path
        """What its line is looked for by."""
        self.line: int | None = None
        """Where that is known: from 1."""
        self.also: tuple[ConfigError, ...] = ()
        """What else is wrong: in this file, or in the others that are read with it."""
        super().__init__(f"{file}: {self.path}: {self.problem}" if path else f"{file}: {self.problem}")

    def __iter__(self) -> Iterator[ConfigError]:
        """This one and what else is wrong."""
        yield self
        yield from self.also

    def summary(self) -> str:
        """All that is wrong, in one line."""
        return "; ".join(one.located() for one in self)

    def located(self) -> str:
        """``FILE:LINE: PATH: PROBLEM``, as compilers write it."""
        at = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(filter(None, (at, self.path, self.problem)))


def _short(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


class StoreUnavailable(GroundwireError):
    """The store is locked, read-only, gone or too slow."""


class ModelUnavailable(GroundwireError):
    """An embedding model (or another of the proxy's own) could not be loaded or run; says what to do."""


class ProxyError(GroundwireError):
    """A request ends with this error in the client's envelope."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    type: ClassVar[str] = "server_error"
    outcome: ClassVar[Literal["error", "upstream_error"]] = "error"
    """The verdict of an exchange that it ends as a failure (status 500 and above)."""

    def __init__(self, message: str, *, param: str | None = None, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.headers = headers
        """Extra response headers, such as ``retry-after``."""
        self.attempts = 0
        """Calls to the upstream that it took to come to this."""
        self.answered_status = 0
        """Of an answer that had begun and did not end."""

    def envelope(self) -> dict[str, Any]:
        """The body: ``{"error": {"message", "type", "param", "code"}}``."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class InvalidRequest(ProxyError):
    """The client's request is malformed; ``param`` names the field where there is one."""

    status, code, type = 400, "invalid_request", "invalid_request_error"


class ContextLengthExceeded(InvalidRequest):
    """The prompt, or the answer that is asked for (``param`` then names its limit), does not fit the model's window; nothing is left to
    compress."""

    code = "context_length_exceeded"


class PolicyBlocked(ProxyError):
    """A policy refuses the request or its answer; ``param`` carries the sub-code."""

    status, code, type = 400, "policy_blocked", "invalid_request_error"


class InvalidApiKey(ProxyError):
    """No key, or one that is not known."""

    status, code, type = 401, "invalid_api_key", "invalid_request_error"


class PolicyNotAllowed(ProxyError):
    """The route does not allow the policy or the skip that was asked for, or the key may not use the route or the model."""

    status, code, type = 403, "policy_not_allowed", "invalid_request_error"


class NotFound(ProxyError):
    """No such route, path or object."""

    status, code, type = 404, "not_found", "invalid_request_error"


class Conflict(ProxyError):
    """What a person decided upon has changed since they saw it."""

    status, code, type = 409, "conflict", "invalid_request_error"


class RequestTooLarge(ProxyError):
    """The body is larger than ``server.max_body_bytes``."""

    status, code, type = 413, "request_too_large", "invalid_request_error"


class UnsupportedEncoding(ProxyError):
    """The body's ``content-encoding`` is none that is read here."""

    status, code, type = 415, "unsupported_encoding", "invalid_request_error"


class RateLimited(ProxyError):
    """A limit of the key is reached, or too many wrong keys came from this address; try again after ``retry-after``."""

    status, code, type = 429, "rate_limited", "rate_limit_error"


class WebSocketRefused(ProxyError):
    """A client asks for a WebSocket where there is none: this status lets it go on over HTTP, any other makes it try again first."""

    status, code, type = 426, "websocket_not_supported", "invalid_request_error"


class InternalError(ProxyError):
    """A bug of ours: logged with its traceback, said to the client without it."""


class UpstreamUnreachable(ProxyError):
    """No connection, or one that broke before the answer was whole."""

    status, code = 502, "upstream_unreachable"
    outcome = "upstream_error"
    repeatable = True
    """Whether the same call may be made again: not where the server had read it, and may have done what it asks for."""


class UpstreamRefused(UpstreamUnreachable):
    """An upstream answered a question of the proxy's own with an error; a client's own call passes such an answer through."""

    def __init__(self, message: str, upstream_status: int) -> None:
        super().__init__(message)
        self.upstream_status = upstream_status


class Overloaded(ProxyError):
    """A queue is full; try again after ``retry-after``."""

    status, code = 503, "overloaded"


class UpstreamTimeout(ProxyError):
    """The upstream missed one of its time-outs: connect, first byte, or between chunks."""

    status, code = 504, "upstream_timeout"
    outcome = "upstream_error"
