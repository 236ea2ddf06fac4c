"""Names and forms of the API's fields that every reader of it needs: both spellings of a name, parts, schemas.

The API takes ``systemInstruction`` and ``system_instruction`` alike, and one object where it documents a list of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import orjson

from proxy.wire.bodies import exact_object, objects_at, raw_items, unexpected

CALL_PREFIX = "call_"
"""Of the id of a call that the client gave none."""
_CAPITAL = re.compile("[A-Z]")
_ABOUT = frozenset(
    ("thought", "thoughtSignature", "thought_signature", "videoMetadata", "video_metadata", "partMetadata", "mediaResolution")
)
"""Of a part, beside what it holds."""


def new_call_id(answer: int, place: int) -> str:
    """Of a call of an answer to which its server gave none; nobody but this proxy knows it."""
    return f"gw{answer:03d}{place:04d}"


@cache
def snake(name: str) -> str:
    """The other spelling of a field's name."""
    return _CAPITAL.sub(lambda match: "_" + match[0].lower(), name)


def field_spelling(fields: Mapping[str, Any], name: str, at: str = "") -> str:
    """The spelling in which a field stands there, its own where it does not. Raises `InvalidRequest` for one that stands there twice."""
    other = snake(name)
    if other == name or other not in fields:
        return name
    if name in fields:
        raise unexpected(f"{at}.{name}" if at else name, f"one spelling alone, not {other} too", fields[name])
    return other


def got(fields: Mapping[str, Any], name: str, at: str = "") -> Any:
    """A field's value in either spelling; None without one."""
    return fields.get(field_spelling(fields, name, at))


def objects(value: object, at: str) -> list[dict[str, Any]]:
    """A list of objects, or one alone; none for null. Raises `InvalidRequest`."""
    return [value] if isinstance(value, dict) else objects_at(value, at, "a list of objects")


def raw_objects(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The same, each in its own bytes."""
    data = bytes(raw).lstrip()
    return [raw] if data.startswith(b"{") else [] if data == b"null" else raw_items(raw)


def kind_of(part: Mapping[str, Any]) -> str:
    """What a part holds: ``text``, ``functionCall``, …; "" for nothing."""
    for name in part:
        if name not in _ABOUT:
            return re.sub("_([a-z])", lambda match: match[1].upper(), name)
    return ""


def is_text(part: Mapping[str, Any]) -> bool:
    """Whether it is words that are no thought."""
    return isinstance(part.get("text"), str) and part.get("thought") is not True


def text_in(response: object) -> tuple[str, str]:
    """The words of a function's response, and the field that holds them; of one that says more, all of it as JSON, and ""."""
    if isinstance(response, Mapping) and len(response) == 1:
        (name, value), *_ = response.items()
        if isinstance(value, str):
            return value, name
    return orjson.dumps(response if response is not None else {}).decode(), ""


def response_of(text: str, name: str = "") -> dict[str, Any]:
    """A function's response that says `text`."""
    if not name and text.lstrip().startswith("{") and (found := exact_object(text)) is not None:
        return found
    return {name or "output": text}


def json_schema(schema: Any) -> Any:
    """A schema of the API's own dialect, whose types are in capitals, as JSON Schema."""
    if isinstance(schema, list):
        return [json_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "type" and isinstance(value, str):
            kind = value.lower()
            made["type"] = [kind, "null"] if schema.get("nullable") is True else kind
        elif name == "properties" and isinstance(value, dict):
            made[name] = {key: json_schema(one) for key, one in value.items()}
        elif name not in ("nullable", "propertyOrdering", "property_ordering"):
            made[name] = json_schema(value) if name in ("items", "anyOf", "any_of", "prefixItems") else value
    return made


def address(data: Mapping[str, Any]) -> str:
    """The address under which other APIs would name what ``inlineData`` or ``fileData`` holds."""
    uri = got(data, "fileUri")
    return str(uri) if uri is not None else f"data:{got(data, 'mimeType')};base64,{data.get('data')}"


def camel(fields: Mapping[str, Any]) -> dict[str, Any]:
    """An object's fields in the API's own spelling. Raises `InvalidRequest` for one that stands there twice."""
    made: dict[str, Any] = {}
    for name, value in fields.items():
        own = re.sub("_([a-z])", lambda match: match[1].upper(), name)
        if own in made:
            raise unexpected(own, "one spelling alone", value)
        made[own] = value
    return made
