"""An upstream's error in a client's API: as a body, and as the last events of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.config.settings import Api
from proxy.errors import ContextLengthExceeded
from proxy.wire import sse
from proxy.wire.messages import events as messages_events
from proxy.wire.messages.errors import TYPES, is_too_long
from proxy.wire.responses import events as responses_events
from proxy.wire.upstream_errors import Failure

_TOO_LONG = "prompt is too long: "
"""How Messages says what OpenAI's APIs have a code for."""
_OPENAI_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def envelope(client: Api, failure: Failure, status: int) -> dict[str, Any]:
    """An error in the client's API."""
    message, long = failure.message or f"the upstream answered with status {status}", is_too_long(failure)
    if client == "messages":
        about = {"type": TYPES.get(status, "api_error"), "message": (_TOO_LONG if long and _TOO_LONG not in message else "") + message}
        return {"type": "error", "error": about}
    kind = _OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    code = ContextLengthExceeded.code if long else failure.code or None
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def events_of(client: Api, failure: Failure) -> bytes:
    """The last events of a stream that ends with an error."""
    code = failure.code or TYPES.get(failure.status) or "server_error"
    message = failure.message or "the upstream failed"
    if client == "chat":
        return sse.encode(orjson.dumps({"error": {"message": message, "type": "server_error", "param": None, "code": code}})) + sse.DONE
    if client == "messages":
        return messages_events.encode({"type": "error", "error": {"type": TYPES.get(failure.status, "api_error"), "message": message}})
    return responses_events.encode({"type": "error", "code": code, "message": message, "param": None, "sequence_number": 0}, named=True)
