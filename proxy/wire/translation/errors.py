"""A server's error answer in the client's API."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from proxy.errors import ContextLengthExceeded
from proxy.wire.messages.errors import TYPES, code_of
from proxy.wire.translation import chat_answers, messages_answers
from proxy.wire.translation.pieces import words

_TOO_LONG = "prompt is too long: "
"""How Messages says what OpenAI's APIs have a code for."""
_OPENAI_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}


def to_messages(status: int, body: bytes) -> bytes:
    """OpenAI's envelope, or any other body, as Anthropic's."""
    told = chat_answers.failed(_error(body))
    long = told.code == ContextLengthExceeded.code and not told.message.startswith(_TOO_LONG)
    about = {"type": TYPES.get(status, "api_error"), "message": (_TOO_LONG if long else "") + told.message}
    return orjson.dumps({"type": "error", "error": about})


def to_openai(status: int, body: bytes) -> bytes:
    """Anthropic's envelope, or any other body, as OpenAI's."""
    told, code = messages_answers.failed(_error(body)), code_of(body)
    kind = _OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return orjson.dumps({"error": {"message": told.message, "type": kind, "param": None, "code": code or None}})


def _error(body: bytes) -> object:
    """The error in a body; its words where it is no envelope."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {"message": body.decode("utf-8", "replace")[:500]}
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, dict) else {"message": words(error) or words(found.get("message") if isinstance(found, dict) else "")}
