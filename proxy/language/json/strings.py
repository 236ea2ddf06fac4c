"""JSON answers: their string values are what is judged, and may be replaced without touching anything else.

In: an answer's text. Out: its string values with their paths and spans; or the text with some values replaced, still valid JSON
(RFC 8259) and every other byte as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from msgspec import Struct

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]')
_START = re.compile(r"\s*(?:\{|\[\s*(?:[\[{\"]|$))")
_NAME = re.compile(r"[A-Za-z_]\w*")
MAX_DEPTH = 200
"""Paths grow with the depth: deeper text is not read as JSON."""


class JsonString(Struct, frozen=True):
    """One string value."""

    path: str
    """Where it stands: ``answer.items[0].name``; a key that is no plain name as ``["its name"]``."""
    value: str
    start: int
    """Characters of the text before its literal, which begins with a quotation mark."""
    end: int


class _Level:
    """An open object or array."""

    __slots__ = ("array", "index", "key", "prefix")

    def __init__(self, prefix: str, array: bool) -> None:
        self.prefix, self.array, self.index = prefix, array, 0
        self.key: str | None = None

    def path(self) -> str:
        return path_to(self.prefix, self.index if self.array else self.key or "")


def path_to(prefix: str, token: str | int) -> str:
    """The path of a list's item or an object's value, as `JsonString.path` has it, where `prefix` is the path of the list or object."""
    if isinstance(token, int):
        return f"{prefix}[{token}]"
    if not _NAME.fullmatch(token):
        return f"{prefix}[{json.dumps(token, ensure_ascii=False)}]"
    return f"{prefix}.{token}" if prefix else token


def looks_json(text: str) -> bool:
    """Whether `text` begins as a JSON object or a list of objects, lists or strings does."""
    return _START.match(text) is not None


def strings_of(text: str) -> list[JsonString] | None:
    """The string values of a JSON object or array, in order, keys not among them; None where `text` is neither."""
    if text.strip()[:1] not in ("{", "[") or not text.strip():
        return None
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    levels: list[_Level] = []
    found: list[JsonString] = []
    for match in _TOKEN.finditer(text):
        if not _take(match, levels, found):
            return None
    return found


def _take(match: re.Match[str], levels: list[_Level], found: list[JsonString]) -> bool:
    """One token of valid JSON; False where it is too deep."""
    piece, level = match[0], levels[-1] if levels else None
    if piece in "{[":
        levels.append(_Level(level.path() if level else "", piece == "["))
        return len(levels) <= MAX_DEPTH
    if level is None:
        return True
    if piece in "}]":
        levels.pop()
    elif piece == ",":
        level.index, level.key = level.index + 1, None
    elif piece != ":":
        value = json.loads(piece)
        if level.array or level.key is not None:
            found.append(JsonString(level.path(), value, *match.span()))
        else:
            level.key = value
    return True


def with_values(text: str, values: Mapping[int, str]) -> str:
    """`text` with the string values at these positions of `strings_of` replaced. Raises ValueError where `text` is no JSON, IndexError."""
    strings = strings_of(text)
    if strings is None:
        raise ValueError("the text is not a JSON object or array")
    for index in sorted(values, reverse=True):
        if index < 0:
            raise IndexError(index)
        string = strings[index]
        text = text[: string.start] + json_string(values[index]) + text[string.end :]
    return text


def json_string(value: str) -> str:
    """A JSON string; half a surrogate pair, which UTF-8 cannot carry, is escaped."""
    literal = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if any("\ud800" <= c <= "\udfff" for c in literal) else literal


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
