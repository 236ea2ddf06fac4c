"""The messages of Responses over a WebSocket: a client's ``response.create`` -> the body of a streamed request, and its events back.

A message is the body of ``POST /v1/responses`` without what belongs to HTTP, with ``type`` and perhaps ``stream_id``, the lane whose
responses come one after another. Events are those of the stream, with the lane's name. What the provider does not keep (``store: false``)
a connection remembers itself, of each lane the last response: a message that goes on from it brings only what is new, and the whole of it
goes upstream. Specification: https://developers.openai.com/api/docs/guides/websocket-mode
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.errors import InvalidRequest, ProxyError
from proxy.exchange import Usage
from proxy.wire import bodies
from proxy.wire.responses.events import to_events
from proxy.wire.responses.output import ECHOED_FIELDS, sendable, usage_object

Fields = dict[str, msgspec.Raw]
CREATE, STEER, PROCESSED = "response.create", "response.steer", "response.processed"
"""Types of what a client sends; the last is Codex's note that it has used an answer, and wants no reply."""
MAX_NAMED_LANES = 32
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_NOT_OF_THE_BODY = ("type", "stream_id", "generate", "stream")
_PREVIOUS = "previous_response_id"
_TRUE = bodies.encode_raw(True)


class SocketRefused(Exception):
    """An error of this protocol alone, in the API's own words."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.error = {"type": "invalid_request_error", "code": code, "message": message, "param": param}


def previous_not_found(name: str) -> SocketRefused:
    """For a response that nobody keeps any more: clients then send the whole conversation."""
    return SocketRefused("previous_response_not_found", f"Previous response with id '{name[:100]}' not found.", _PREVIOUS)


def connection_limit(minutes: int) -> SocketRefused:
    """For a connection that is too old: clients open another."""
    message = f"Responses websocket connection limit reached ({minutes} minutes). Create a new websocket connection to continue."
    return SocketRefused("websocket_connection_limit_reached", message)


def lane_limit() -> SocketRefused:
    """For one name too many."""
    message = f"This WebSocket connection has reached its maximum number of distinct stream IDs ({MAX_NAMED_LANES})."
    return SocketRefused("websocket_stream_limit_reached", message + " Reuse an existing stream_id or open a new one.", "stream_id")


class Past(msgspec.Struct, frozen=True):
    """What a response that its provider does not keep has said, and was asked."""

    items: bytes
    """Its input and its output, with commas between them."""
    before: str
    """The response that the provider keeps, which the first of them goes on from; else ""."""


class Create(msgspec.Struct, frozen=True):
    """A client's wish for a response."""

    fields: Fields
    goes_on_from: str
    """A response's id, or ""."""
    stores: bool
    """Whether the provider keeps the response."""
    generates: bool
    """Whether there is to be one: else its input is only said beforehand."""

    def size_behind(self, past: Past | None) -> int:
        """Bytes of the whole conversation."""
        return (len(past.items) if past is not None else 0) + len(self.fields.get("input", b""))

    def body(self, past: Past | None) -> bytes:
        """As it is posted, behind what is remembered of the response that it goes on from. Raises `InvalidRequest`."""
        body = {name: value for name, value in self.fields.items() if name not in _NOT_OF_THE_BODY}
        if past is not None:
            body["input"] = msgspec.Raw(b"[" + self.conversation(past, ()).items + b"]")
            body.pop(_PREVIOUS, None)
            body |= {_PREVIOUS: bodies.encode_raw(past.before)} if past.before else {}
        return msgspec.json.encode({"stream": _TRUE, **body})

    def conversation(self, past: Past | None, output: Sequence[Any]) -> Past:
        """All that has been said with the answer, for the response after it. Raises `InvalidRequest`."""
        items = [past.items if past is not None else b"", _items_in(self.fields.get("input"))]
        items += [orjson.dumps(item) for item in sendable(output)]
        return Past(b",".join(filter(None, items)), past.before if past is not None else self.goes_on_from)

    def encode_prepared(self, name: str, now: float) -> bytes:
        """The events of the response, called `name`, that is none. Raises `ValueError` where a field cannot be read."""
        echo = {field: orjson.loads(bytes(self.fields[field])) for field in ("model", *ECHOED_FIELDS) if field in self.fields}
        fixed = {"id": name, "object": "response", "created_at": int(now), "status": "completed", "error": None}
        rest: dict[str, Any] = {"incomplete_details": None, "output": [], "usage": usage_object(Usage(0, 0))}
        return to_events({**ECHOED_FIELDS, **fixed, **rest, **echo}, b"")


def fields_of(message: str) -> tuple[str, Fields]:
    """A message's type and its fields. Raises `InvalidRequest`."""
    try:
        fields = bodies.raw_fields(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidRequest(f"a message must be a JSON object: {error}") from None
    kind = _text(fields, "type")
    if not kind:
        raise InvalidRequest(f"type: expected {CREATE!r}", param="type")
    return kind, fields


def lane_of(fields: Fields) -> str:
    """The name of its lane, "" for the one without a name. Raises `SocketRefused`."""
    if "stream_id" not in fields or bytes(fields["stream_id"]) == b"null":
        return ""
    name = _text(fields, "stream_id")
    if not _LANE.fullmatch(name):
        rule = "a non-empty string with at most 256 characters, and may only contain letters, numbers, underscores, hyphens, and periods"
        raise SocketRefused("invalid_stream_id", f"The 'stream_id' field must be {rule}.", "stream_id")
    return name


def create_of(kind: str, fields: Fields) -> Create:
    """Raises `InvalidRequest` for what is no wish for a response."""
    if kind != CREATE:
        raise InvalidRequest(f"type: {kind[:80]!r} is not supported here, only {CREATE!r}", param="type")
    if _is(fields, "background", b"true"):
        raise InvalidRequest("background: a response over a WebSocket cannot be one in the background", param="background")
    warms = _is(fields, "generate", b"false")
    return Create(fields, _text(fields, _PREVIOUS), not _is(fields, "store", b"false"), not warms)


def steer_failed(fields: Fields) -> bytes:
    """The API's answer to more input for a response under way, where that is not supported."""
    steer = {name: fields[name] for name in ("input", _PREVIOUS) if name in fields}
    error = {"type": "invalid_request_error", "code": "steering_not_supported", "message": "Steering is not supported here."}
    event = {"type": "response.steer.failed", "sequence_number": 0, "steer": bodies.as_raw(steer), "error": error}
    return msgspec.json.encode(event)


def in_lane(event: bytes, lane: str) -> str:
    """An event's data as a message, with the name of its lane if that has one."""
    return (b'{"stream_id":%s,' % orjson.dumps(lane) + event.lstrip()[1:] if lane else event).decode("utf-8", "replace")


def error_of_event(event: Mapping[str, Any]) -> bytes:
    """A stream's own ``error`` event in the form that it has here, with what it said before beside it."""
    error = {name: event.get(name) for name in ("code", "message", "param")}
    kind = "server_error" if error["code"] in (None, "server_error") else str(error["code"])
    return orjson.dumps({**event, "status": 500, "error": bodies.object_of(event.get("error")) or {"type": kind, **error}})


def error_of_body(status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bytes:
    """An error that HTTP would have answered with."""
    error = bodies.object_of(bodies.object_in(body)).get("error")
    if not isinstance(error, dict):
        error = {"type": "server_error", "code": None, "message": body[:2000].decode("utf-8", "replace")}
    fields = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if not name.startswith(b"content-")}
    return orjson.dumps({"type": "error", "status": status, "error": error, "headers": fields})


def error_of(error: ProxyError | SocketRefused) -> bytes:
    """An error of the proxy's own, of a message that became no request."""
    if isinstance(error, SocketRefused):
        return orjson.dumps({"type": "error", "status": 400, "error": error.error})
    return orjson.dumps({"type": "error", "status": error.status, **error.envelope()})


def _items_in(raw: msgspec.Raw | None) -> bytes:
    """An input's items. Raises `InvalidRequest`, as what stands behind others is not looked at by itself any more."""
    text = bytes(raw or b"null").strip()
    if text.startswith(b'"'):
        return b'{"type":"message","role":"user","content":' + text + b"}"
    if not text.startswith(b"[") and text != b"null":
        raise InvalidRequest("input: expected a string or a list of items", param="input")
    return text[1:-1].strip() if text != b"null" else b""


def _text(fields: Fields, name: str) -> str:
    raw = bytes(fields.get(name, b""))
    try:
        value = bodies.exact(raw) if raw.startswith(b'"') else ""
    except ValueError as error:
        raise InvalidRequest(f"{name}: {error}", param=name) from None
    return str(value)


def _is(fields: Fields, name: str, literal: bytes) -> bool:
    return bytes(fields.get(name, b"")) == literal
