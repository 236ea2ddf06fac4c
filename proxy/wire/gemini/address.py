"""What Gemini's API says in a request's address, for servers and readers that look at bodies: the model, and whether it streams.

In: ``POST {prefix}/v1beta/models/MODEL:streamGenerateContent?alt=sse&key=KEY``. Out: ``POST {prefix}/v1/generateContent``, whose body gets
``model`` and ``stream`` as its last fields (`with_address`) and loses them before a server of the API (`without_address`), so that what
no stage touched leaves in the very bytes it came in. A key of the query becomes a header before anybody sees it. A stream without
``alt=sse`` is a JSON list of the same chunks.

Reference: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

import orjson
from msgspec import DecodeError

from proxy.errors import InvalidRequest
from proxy.wire.bodies import check_model, raw_fields
from proxy.wire.http.asgi import Scope, Send
from proxy.wire.http.headers import raw_path
from proxy.wire.sse import EventSplitter

GENERATE, COUNT = "/generateContent", "/generateContent/countTokens"
"""The paths below ``/v1`` that stand for the API's own."""
KEY_HEADER = "x-goog-api-key"
_METHODS = {"generateContent": GENERATE, "streamGenerateContent": GENERATE, "countTokens": COUNT}
_ADDRESS = re.compile(rf"(.*?)/v1(?:beta|alpha)?/(?:models/)?((?:tunedModels/)?.+):({'|'.join(_METHODS)})")
_OTHER = re.compile(r"(.*?)/v1(?:beta|alpha)(/.*)")
_MODEL = re.compile(r"[\w.@:+-]+(?:/[\w.@:+-]+)*", re.ASCII)
_KEY = re.compile(r"[\x20-\x7e]+")
"""What a header can hold: another one, of a key that is decoded out of a query, is none."""
_TAIL = re.compile(rb'"model":("(?:[^"\\]|\\.)*"),"stream":(true|false)\}\s*\Z')


def readdress(scope: Scope, send: Send) -> tuple[Scope, Send]:
    """A request of Gemini's API as one whose body says all; any other as it is."""
    path = raw_path(scope)
    found, other = _ADDRESS.fullmatch(path), _OTHER.fullmatch(path)
    if other is None and (found is None or scope["method"] != "POST"):
        return scope, send
    keys, rest = without_keys(scope.get("query_string", b"").decode("latin-1"))
    headers = [*scope["headers"], *((name.encode(), key.encode()) for name, key in keys)]
    if found is not None and scope["method"] == "POST":
        prefix, model, method = found.groups()
        inner, streams = _METHODS[method], method == "streamGenerateContent"
        if streams and ("alt", "sse") not in rest:
            scope, send = {key: value for key, value in scope.items() if key != "extensions"}, ListOfChunks(send)
        rest = [("model", unquote(model)), ("stream", "true" if streams else "false")]
    else:
        assert other is not None
        prefix, inner = other.groups()
    raw = f"{prefix}/v1{inner}"
    changed = {"path": unquote(raw), "raw_path": raw.encode("latin-1"), "query_string": urlencode(rest).encode(), "headers": headers}
    return {**scope, **changed}, send


def without_keys(query: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The keys of a query, as headers, and the rest of it."""
    pairs = parse_qsl(query, keep_blank_values=True)
    keys = [(KEY_HEADER, value) for name, value in pairs if name == "key" and _KEY.fullmatch(value)]
    return keys, [pair for pair in pairs if pair[0] != "key"]


def with_address(body: bytes, path: str) -> bytes:
    """`body` with what the query of `path` says; what is no object stays as it is, for its parser to refuse."""
    said = dict(parse_qsl(path.partition("?")[2]))
    end = body.rstrip()
    if "model" not in said or not end.endswith(b"}"):
        return body
    if b'"model"' in body or b'"stream"' in body:
        body = _without(body)
        end = body.rstrip()
    inside = end[:-1]
    comma = b"" if inside.rstrip().endswith(b"{") and inside.strip() == b"{" else b","
    streams = said.get("stream", "false").encode()
    return inside + comma + b'"model":' + orjson.dumps(said["model"]) + b',"stream":' + streams + body[len(inside) :]


def _without(body: bytes) -> bytes:
    try:
        fields = raw_fields(body)
    except (DecodeError, RecursionError, UnicodeError):
        return body
    if "model" not in fields and "stream" not in fields:
        return body
    return _encode({name: value for name, value in fields.items() if name not in ("model", "stream")})


def without_address(body: bytes) -> tuple[str, bool, bytes]:
    """Model, whether it streams, and the body as the API's servers take it. Raises `InvalidRequest` for a name that is no model's."""
    at = body.rfind(b'"model":')
    if at > 0 and (match := _TAIL.match(body, at)):
        head = body[: at - 1] if body[at - 1 : at] == b"," else body[:at]
        return model_name(orjson.loads(match[1])), match[2] == b"true", head + body[match.end(2) :]
    fields = raw_fields(body)
    model, streams = orjson.loads(bytes(fields.pop("model", b'""'))), bytes(fields.pop("stream", b"false")) == b"true"
    return model_name(model), streams, _encode(fields)


def _encode(fields: dict[str, Any]) -> bytes:
    return b"{" + b",".join(orjson.dumps(name) + b":" + bytes(value) for name, value in fields.items()) + b"}"


def model_name(given: object) -> str:
    """A model's name, which becomes a part of an address. Raises `InvalidRequest`."""
    if not isinstance(given, str) or not _MODEL.fullmatch(given) or {".", ".."} & {*given.split("/")}:
        raise InvalidRequest("model: expected a model's name in the path, as models/gemini-2.5-flash:generateContent", param="model")
    return check_model(given)


def address_of(path: str, model: str, *, streams: bool) -> str:
    """Where a server of the API has what stands for it at `path`, below ``/v1beta``."""
    method = "countTokens" if path == COUNT else "streamGenerateContent?alt=sse" if streams else "generateContent"
    name = model if model.startswith("tunedModels/") else f"models/{model.removeprefix('models/')}"
    return f"/{quote(name, safe='/@+')}:{method}"


class ListOfChunks:
    """Sends a response's events as a JSON list; other responses pass."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._splitter = EventSplitter()
        self._streams = False
        self._has_begun = False

    async def __call__(self, message: dict[str, Any]) -> None:
        """ASGI's ``send``."""
        if message["type"] == "http.response.start":
            kinds = [value for name, value in message["headers"] if name == b"content-type"]
            self._streams = bool(kinds) and kinds[0].startswith(b"text/event-stream")
            if self._streams:
                others = [(name, value) for name, value in message["headers"] if name not in (b"content-type", b"content-length")]
                message = {**message, "headers": [(b"content-type", b"application/json"), *others]}
        elif self._streams:
            message = {**message, "body": self._as_items(message.get("body", b""), last=not message.get("more_body", False))}
        await self._send(message)

    def _as_items(self, body: bytes, *, last: bool) -> bytes:
        events = [*self._splitter.feed(body)]
        if last and (rest := self._splitter.finish()) is not None:
            events.append(rest)
        out = []
        for event in events:
            if event.data is not None:
                out.append((b",\r\n" if self._has_begun else b"[") + event.data)
                self._has_begun = True
        if last:
            out.append(b"]" if self._has_begun else b"[]")
        return b"".join(out)
