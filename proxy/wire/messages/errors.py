"""Anthropic's error envelope: ``{"type": "error", "error": {"type", "message"}}``, with the proxy's ``code`` and ``param`` beside them.

Reference: https://docs.anthropic.com/en/api/errors
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.errors import ContextLengthExceeded, ProxyError
from proxy.wire.upstream_errors import Failure, failure_in

TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    402: "billing_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    524: "timeout_error",
    529: "overloaded_error",
}
"""The API's word for an error, by its status."""
_TOO_LONG = ("prompt is too long", "exceed context limit", "exceeds the context")
"""How the API says that a prompt does not fit its model's window: its type is that of any invalid request."""


def envelope(error: ProxyError) -> dict[str, Any]:
    """The body for `error`."""
    about = {"type": TYPES.get(error.status, "api_error"), "message": error.message, "param": error.param, "code": error.code}
    return {"type": "error", "error": about}


def code_of(body: bytes) -> str:
    """The type of an upstream's error; ``context_length_exceeded`` where it says that the prompt is too long."""
    found = failure_in(body)
    return ContextLengthExceeded.code if is_too_long(found) else found.code


def is_too_long(failure: Failure) -> bool:
    """Whether an upstream refuses a prompt for its length."""
    return failure.code == ContextLengthExceeded.code or any(words in failure.message.lower() for words in _TOO_LONG)
