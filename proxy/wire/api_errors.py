"""Errors in the form of each API: what an upstream's error says, in whatever form its server writes one; and an upstream's error, or one of
the proxy's own, as a client's API has it, as a body and as events.

In: an error's body, or an object that came in place of an answer. Out: its words, its code and the status that it names. OpenAI's and
Anthropic's own envelopes; Google's list of them; FastAPI's ``detail`` (https://fastapi.tiangolo.com/tutorial/handling-errors/); ``errors``
and a ``message`` at the top, as gateways write; the provider's own words in OpenRouter's ``metadata.raw``
(https://openrouter.ai/docs/api-reference/errors); a stream's event; HTML and plain text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

import orjson
from msgspec import Struct

from proxy.config.settings import Api
from proxy.errors import ContextLengthExceeded, ProxyError
from proxy.wire.bodies import object_in

MAX_CHARS = 2000
"""Of a message: it is for a person."""
_MAX_DEPTH = 6
"""Of errors in errors."""
_WORDS = ("message", "Message", "msg", "detail", "error_message", "error_description", "title", "reason")
_CODES = ("code", "type", "status", "error_type", "__type", "Code")
_STATUSES = ("code", "status", "status_code", "statusCode", "http_code", "error_code")
_TITLE = re.compile(r"<(title|h1)\b[^<>]*>([^<]+)</\1", re.I)
_TAGS = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<[^<>]*>", re.I | re.S)
"""Linear in a text of marks that never end: none reaches past the next one, and a script without its end is all that is left."""
_DATA = re.compile(rb"^data: ?(.+)$", re.M)
_SAYS = {"chat": "choices", "responses": "output", "messages": "content", "gemini": "candidates"}
"""The list that an answer's words and calls stand in, by the API."""


class Failure(Struct, frozen=True):
    """An upstream's error."""

    message: str
    """"" where it says nothing."""
    code: str = ""
    """A plain word."""
    status: int = 0
    """An HTTP status, 400 to 599, where it names one; else 0."""


def failure_of(found: object, depth: int = 0) -> Failure | None:
    """The error in parsed JSON; None where there is none."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(found, list):
        items = found[:8] if depth else [item for item in found[:8] if isinstance(item, Mapping) and "error" in item]  # Google's
        every = [one for item in items if (one := _of_item(item, depth + 1)) is not None and (one.message or one.status)]
        told = "; ".join(one.message for one in every if one.message)[:MAX_CHARS]
        return Failure(told, _first(one.code for one in every), next((one.status for one in every if one.status), 0)) if every else None
    if not isinstance(found, Mapping):
        return None
    for name in ("error", "errors", "detail", "fault"):
        inner = found.get(name)
        if inner and (one := _of_item(inner, depth + 1)) is not None:
            return _with_outer(one, found)
    message = _message(found)
    return Failure(message, _code(found), _status(found)) if message else None


def _of_item(item: object, depth: int) -> Failure | None:
    """An error that stands where one is expected: an object may then have a code alone, and a text be its words."""
    if isinstance(item, str):
        return Failure(item.strip()[:MAX_CHARS]) if item.strip() else None
    if isinstance(item, list):
        return failure_of(item, depth)
    if not isinstance(item, Mapping) or not item:
        return None
    inner = failure_of(item, depth)
    raw = _raw_of(item, depth)
    if raw is not None and raw.message:
        outer = inner or Failure("")
        told = raw.message if raw.message in outer.message or not outer.message else f"{outer.message}: {raw.message}"
        return Failure(told[:MAX_CHARS], _code(item) or raw.code, outer.status or raw.status)
    return inner or Failure("", _code(item), _status(item))


def _raw_of(item: Mapping[str, Any], depth: int) -> Failure | None:
    """What the provider behind a gateway said."""
    metadata = item.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if isinstance(raw, str):
        try:
            raw = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return Failure(_plain(raw))
    return _of_item(raw, depth + 1)


def _with_outer(inner: Failure, outer: Mapping[str, Any]) -> Failure:
    """An error with what stands beside it."""
    message = inner.message
    beside = next((text for name in _WORDS if name != "detail" and isinstance(text := outer.get(name), str) and text.strip()), "")
    where = outer.get("loc")
    if isinstance(where, list) and message:
        message = f"{'.'.join(map(str, where))}: {message}"
    elif beside and (not message or not (inner.code or inner.status)):
        message = beside.strip()  # {"error": "Not Found", "message": "what there is to say of it"}
    return Failure(message[:MAX_CHARS], inner.code or _code(outer), inner.status or _status(outer))


def _message(found: Mapping[str, Any]) -> str:
    for name in _WORDS:
        text = found.get(name)
        if isinstance(text, str) and text.strip():
            where = found.get("loc")
            return (f"{'.'.join(map(str, where))}: " if isinstance(where, list) else "") + text.strip()[:MAX_CHARS]
    return ""


def _code(found: Mapping[str, Any]) -> str:
    return _first(value for name in _CODES if is_word(value := found.get(name)) and value != "error")


def _status(found: Mapping[str, Any]) -> int:
    for name in _STATUSES:
        value = found.get(name)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    return 0


def _first(values: Any) -> str:
    return next((str(value) for value in values if value), "")


def is_word(value: object) -> bool:
    """Whether it can be a code: no number, no sentence."""
    return isinstance(value, str) and value.isascii() and value.replace("_", "").isalnum() and not value.isdecimal() and len(value) < 100


def failure_in(body: bytes) -> Failure:
    """The error that a body with an error's status tells of."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        event = _DATA.search(body[:65_536])
        if event is None:
            return Failure(_plain(body[:65_536].decode("utf-8", "replace")))
        try:
            found = orjson.loads(event[1])
        except orjson.JSONDecodeError:
            return Failure(_plain(event[1].decode("utf-8", "replace")))
    return _of_item(found, 0) or Failure("")


def _plain(text: str) -> str:
    """The words of a text; of HTML its title, or what is left without its marks."""
    if text.lstrip()[:1] == "<":
        title = _TITLE.search(text)
        text = unescape(title[2] if title is not None else _TAGS.sub(" ", text))
    return " ".join(text.split())[:500]


def instead_of_answer(api: Api, found: object) -> Failure | None:
    """The error that an upstream sent with a status of success in place of an answer; None where there is an answer, or no error."""
    said = found.get(_SAYS[api]) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(said, list):
        return failure_of(found)
    if api == "responses" or (said and (api != "chat" or not all(map(_is_silent, said)))):  # a response that failed is one of the API's
        return None
    errors = [found.get("error"), *(choice.get("error") for choice in said if isinstance(choice, Mapping))]
    return next((one for error in errors if error and (one := failure_of({"error": error})) is not None), None)


def status_of(failure: Failure) -> int:
    """The HTTP status that an error names, by number or by its code; else 0."""
    return failure.status or (ContextLengthExceeded.status if is_too_long(failure) else _BY_CODE.get(failure.code.lower(), 0))


def error_event(data: bytes) -> dict[str, object] | None:
    """What a stream's event that is none of its API tells of an error; None for any other."""
    try:
        failure = failure_of(orjson.loads(data))
    except orjson.JSONDecodeError:
        return None
    return None if failure is None else {"message": failure.message, "code": failure.code or None}


def _is_silent(choice: object) -> bool:
    """Whether a choice, or its part in a chunk, has neither words nor a call."""
    given = (choice.get("message") or choice.get("delta") or {}) if isinstance(choice, Mapping) else {}
    return not isinstance(given, Mapping) or not any(value for name, value in given.items() if name != "role")


def is_own(api: Api, body: bytes) -> bool:
    """Whether an error's body is in the API's envelope already."""
    found = object_in(body) or {}
    if not isinstance(error := found.get("error"), dict):
        return False
    fine = isinstance(error.get("message"), str) and bool(error["message"])
    if api == "gemini":
        return fine and isinstance(error.get("status"), str)
    return fine and (api != "messages" or (found.get("type") == "error" and isinstance(error.get("type"), str)))


_PROMPT_TOO_LONG = "prompt is too long: "
"""How Messages says what OpenAI's APIs have a code for."""
_OPENAI_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def envelope(client: Api, failure: Failure, status: int) -> dict[str, Any]:
    """An error in the client's API."""
    message, long = failure.message or f"the upstream answered with status {status}", is_too_long(failure)
    if client == "messages":
        return {"type": "error", "error": {"type": TYPES.get(status, "api_error"), "message": messages_words(message, long=long)}}
    if client == "gemini":
        long_code = ContextLengthExceeded.code if long else ""
        return _googles(status, message, reason=long_code or failure.code)
    kind = _OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    code = ContextLengthExceeded.code if long else failure.code or None
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def messages_words(message: str, *, long: bool) -> str:
    """The message of an error of Messages, by whose first words its clients know a full window."""
    return _PROMPT_TOO_LONG + message if long and _PROMPT_TOO_LONG not in message else message


def code_of(failure: Failure) -> str:
    """OpenAI's code for an error in a stream."""
    return ContextLengthExceeded.code if is_too_long(failure) else failure.code or TYPES.get(failure.status) or "server_error"


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
_BY_CODE: Mapping[str, int] = {
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "billing_error": 402,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "resource_exhausted": 429,
    "api_error": 500,
    "server_error": 500,
    "internal": 500,
    "overloaded": 503,
    "overloaded_error": 503,
    "unavailable": 503,
    "timeout_error": 504,
    "deadline_exceeded": 504,
}
"""The status of an error that has only a word: OpenAI's, Anthropic's and, in small letters, Google's."""
_LONG_WORDS = (
    "prompt is too long",  # Anthropic
    "exceed context limit",
    "exceeds the context",  # OpenAI's Responses
    "exceeds the maximum number of tokens",  # Google
    "maximum context length",  # OpenAI, vLLM, OpenRouter, DeepSeek, Mistral
    "the maximum model length",
    "reduce the length of the messages",  # Azure, Groq, Cerebras
    "model's context length",  # SGLang
    "exceeds the available context",  # llama.cpp
    "greater than the context length",  # LM Studio
    "input is too long",  # Bedrock
    "prompt token count of",  # GitHub Copilot
    "maximum prompt length is",  # xAI
    "exceeded model token limit",  # Moonshot
    "context window exceeds limit",  # MiniMax
    "exceeds max context window",
)
"""How servers say that a prompt does not fit its model's window: few have a code for it, and a client that would shorten its
conversation knows only its own API's way to say so."""


def messages_envelope(error: ProxyError) -> dict[str, Any]:
    """The body for `error`."""
    about = {"type": TYPES.get(error.status, "api_error"), "message": error.message, "param": error.param, "code": error.code}
    details = {"details": {"error_code": "thread_unsupported_request"}} if error.param == "thread" else {}
    return {"type": "error", "error": {**about, **details}}  # upon these details the API's libraries send the whole conversation


_GOOGLES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    504: "DEADLINE_EXCEEDED",
}
"""Google's word for an error, by its status (https://cloud.google.com/apis/design/errors)."""
_RPC = "type.googleapis.com/google.rpc."


def gemini_envelope(error: ProxyError) -> dict[str, Any]:
    """The body for `error` in Google's form: its code as the reason, the field that is wrong, and when to come again."""
    field = "contents" if error.param == "messages" else error.param or ""  # what other APIs call it
    made = _googles(error.status, error.message, reason=error.code, field=field)
    delays = [{"@type": _RPC + "RetryInfo", "retryDelay": f"{value}s"} for name, value in error.headers if name == "retry-after"]
    made["error"]["details"] += delays
    return made


def _googles(status: int, message: str, *, reason: str, field: str = "") -> dict[str, Any]:
    word = _GOOGLES.get(status, "INVALID_ARGUMENT" if status < 500 else "UNAVAILABLE")
    about = {"metadata": {"param": field}} if field else {}
    details: list[dict[str, Any]] = []
    if reason:
        details.append({"@type": _RPC + "ErrorInfo", "reason": reason.upper(), "domain": "groundwire", **about})
    if field and status == 400:
        details.append({"@type": _RPC + "BadRequest", "fieldViolations": [{"field": field, "description": message}]})
    return {"error": {"code": status, "message": message, "status": word, "details": details}}


def code_in(body: bytes) -> str:
    """The code of an error's body; ``context_length_exceeded`` where it says that the prompt is too long."""
    found = failure_in(body)
    return ContextLengthExceeded.code if is_too_long(found) else found.code


def is_too_long(failure: Failure) -> bool:
    """Whether an upstream refuses a prompt for its length."""
    return failure.code == ContextLengthExceeded.code or any(words in failure.message.lower() for words in _LONG_WORDS)
