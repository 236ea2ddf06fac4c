"""The fields of JSON records and of "Key: value" lines, as slots: what a tool says of one thing at one time.

In: a tool result's or a passage's text. Out: `Field`s with their place. A record is known by its id or name; the same field of the same
record with another value is another state of it, or an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from proxy.language.names import folded

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|-?\d[\d.eE+-]*|true|false|null')
_IDENTITY = re.compile(r"(?:^|_)(?:id|name|title|key|code|number|no|nr|email|sku|iban|isbn|symbol|ticker|poi|event|location)$", re.I)
_UNSTABLE = re.compile(
    r"(?:^|_)(?:timestamp|time|updated|created|at|date|request_id|trace_id|page|offset|limit|cursor|took|latency\w*|score|distance|rank)(?:$|_)",
    re.I,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
MAX_FIELDS = 400
MAX_CHARS = 100_000
_MAX_VALUE_CHARS = 80


class Field(Struct, frozen=True):
    """One scalar of one record."""

    name: str
    value: str
    """Folded; numbers as they are written."""
    entity: str
    """The record's id or name, folded; "" where it has none."""
    start: int
    """Of the value's literal, in the text."""
    end: int


def read_fields(text: str) -> list[Field]:
    """The fields of the records in a JSON text, in order; none of a text that is no JSON, and of a record without an identity."""
    if text.strip()[:1] not in ("{", "[") or len(text) > MAX_CHARS:
        return []
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return []
    return list(_fields(text))[:MAX_FIELDS]


class _Record:
    __slots__ = ("array", "fields", "key", "value_next")

    def __init__(self, array: bool) -> None:
        self.array, self.key, self.value_next = array, "", False
        self.fields: list[tuple[str, str, int, int]] = []


def _fields(text: str) -> Iterator[Field]:
    levels: list[_Record] = []
    for match in _TOKEN.finditer(text):
        read = match[0]
        top = levels[-1] if levels else None
        if read in "{[":
            if top is not None:
                top.value_next = False
            levels.append(_Record(read == "["))
        elif read in "}]":
            yield from _of_record(levels.pop())
        elif top is None or top.array:
            continue
        elif read == ":":
            top.value_next = True
        elif read == ",":
            top.value_next = False
        elif top.value_next:
            top.fields.append((top.key, _scalar(read), *match.span()))
            top.value_next = False
        else:
            top.key = _CAMEL.sub("_", str(json.loads(read))).lower()


def _scalar(literal: str) -> str:
    value = json.loads(literal)
    return " ".join(folded(value).split()) if isinstance(value, str) else literal


def _of_record(record: _Record) -> Iterator[Field]:
    identity = next((key for key, value, *_ in record.fields if _IDENTITY.search(key) and value), None)
    if identity is None:
        return
    values: Mapping[str, str] = {key: value for key, value, *_ in record.fields}
    for key, value, start, end in record.fields:
        if key != identity and value not in ("null", "", "-") and len(value) <= _MAX_VALUE_CHARS and not _UNSTABLE.search(key):
            yield Field(key, value, f"{identity}={values[identity]}", start, end)
