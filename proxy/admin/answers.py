"""How the operator's API reads requests and writes answers: lists, JSON, downloads, JSON bodies.

Lists answer as OpenAI's do: ``{"object": "list", "data": [...], "has_more"}``, newest first, with ``limit`` and ``after``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import msgspec
import orjson
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from proxy.errors import InvalidRequest, NotFound, RequestTooLarge

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
_LIST_MAX = 1000
MAX_BODY_BYTES = 256 * 1024
"""A decision with its reason, or a merged statement."""
_FIELD = re.compile(r"field `([^`]+)`|at `\$\.([^`]+)`")
"""Where msgspec says which field is wrong; https://jcristharif.com/msgspec/usage.html#validation."""

_LONE = re.compile("[\ud800-\udfff]")

T = TypeVar("T")


def json_answer(value: Any, status: int = 200) -> Response:
    """JSON. A lone surrogate in stored text, which strict readers refuse, becomes U+FFFD; numbers may go beyond 64 bits."""
    try:
        body = orjson.dumps(value)
    except TypeError:
        body = _LONE.sub("\ufffd", json.dumps(value, ensure_ascii=False)).encode()
    return Response(body, status, media_type="application/json")


def objects(kind: str, *left_out: str) -> Callable[[Struct], dict[str, Any]]:
    """What makes a row of the store an object of the API, without the fields that are `left_out`."""
    return lambda row: {"object": kind} | {name: getattr(row, name) for name in row.__struct_fields__ if name not in left_out}


def require(row: T | None, what: str, why_not: str = "it may be past its retention") -> T:
    """`row`. Raises `NotFound` where there is none."""
    if row is None:
        raise NotFound(f"no such {what}; {why_not}")
    return row


def listing(
    read: Callable[..., Awaitable[tuple[Sequence[T], bool]]],
    shown: Callable[[T], Mapping[str, Any]],
    filters: Sequence[str] = (),
    known: Mapping[str, Sequence[str]] = MappingProxyType({}),
    numbers: Sequence[str] = (),
) -> Handler:
    """The handler of a list: `read` takes ``limit``, ``after`` and the filters of the query, and gives rows and whether there are more.

    `known` are the values that some filters can have, `numbers` filters that are seconds since the epoch. The handler raises
    `InvalidRequest`.
    """

    async def answer(request: Request) -> Response:
        query = request.query_params
        for name, values in known.items():
            if name in query and query[name] not in values:
                raise InvalidRequest(f"{name}: expected one of {', '.join(values)}", param=name)
        wanted = {name: query.get(name) for name in filters} | {name: number_in(query, name) for name in numbers}
        rows, has_more = await read(_limit(query.get("limit", "20")), query.get("after"), **wanted)
        return json_answer({"object": "list", "data": [shown(row) for row in rows], "has_more": has_more})

    return answer


def download(content: bytes) -> Response:
    """Byte for byte; as a download, since it is not to be trusted."""
    headers = {"content-disposition": "attachment", "x-content-type-options": "nosniff"}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _limit(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= _LIST_MAX:
        raise InvalidRequest(f"limit: expected a number from 1 to {_LIST_MAX}", param="limit")
    return int(value)


def number_in(query: Mapping[str, str], name: str) -> float | None:
    """Seconds since the epoch, as a query has them. Raises `InvalidRequest`."""
    try:
        return float(query[name]) if name in query else None
    except ValueError:
        raise InvalidRequest(f"{name}: expected seconds since the epoch", param=name) from None


async def body_of(request: Request, kind: type[T]) -> T:
    """The JSON body as a `kind`. Raises `InvalidRequest`, `RequestTooLarge`.

    Only ``application/json``: a form on another site's page cannot send that without the browser asking this server first.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InvalidRequest("the body must be sent as content-type: application/json", param="content-type")
    try:
        return msgspec.json.decode(await read_body(request), type=kind)
    except msgspec.ValidationError as error:
        named = _FIELD.search(str(error))
        raise InvalidRequest(f"the body is refused: {error}", param=(named[1] or named[2]) if named else None) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None


async def read_body(request: Request) -> bytes:
    """The whole of a small body. Raises `InvalidRequest`, `RequestTooLarge`."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise RequestTooLarge(f"the body is larger than {MAX_BODY_BYTES} bytes")
    except ClientDisconnect:
        raise InvalidRequest("the body ended early") from None
    return bytes(body)
