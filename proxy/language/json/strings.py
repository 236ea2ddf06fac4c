"""JSON texts with the places of their parts: the one reader that knows places.

In: a text. Out: its values as `JsonNode`s, to be cut into pieces or read as records; of an answer its string values, which are judged, with
their paths and spans; or the text with some of these replaced, still valid JSON (RFC 8259) and every other byte as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_START = re.compile(r"\s*(?:\{|\[\s*(?:[\[{\"]|$))")
_NAME = re.compile(r"[A-Za-z_]\w*")
MAX_DEPTH = 200
"""Paths grow with the depth: deeper text is not read as JSON."""


class JsonNode(Struct):
    """A value, with its place."""

    kind: Literal["object", "list", "string", "plain"]
    start: int
    end: int
    text: str = ""
    """What a string says; a number, a boolean or null as it is written."""
    children: list[tuple[str | int, int, JsonNode]] = []
    """Of an object its keys with where they begin and their values; of a list the positions."""


class JsonString(Struct, frozen=True):
    """One string value."""

    path: str
    """Where it stands: ``answer.items[0].name``; a key that is no plain name as ``["its name"]``."""
    value: str
    start: int
    """Characters of the text before its literal, which begins with a quotation mark."""
    end: int


def nodes_of(text: str, start: int = 0, end: int | None = None) -> list[JsonNode] | None:
    """The values in a part of `text` that is known to be valid JSON, or lines of it; None where it is too deep."""
    root = JsonNode("list", start, 0)
    levels, key = [root], ("", -1)
    for match in _TOKEN.finditer(text, start, len(text) if end is None else end):
        piece, level = match[0], levels[-1]
        if piece in "}]":
            levels.pop().end = match.end()
        elif piece in ",:":
            continue
        elif level.kind == "object" and key[1] < 0:
            key = _said(piece), match.start()
        else:
            node = _node(piece, *match.span())
            level.children.append((*key, node) if key[1] >= 0 else (len(level.children), node.start, node))
            key = "", -1
            if node.kind in ("object", "list"):
                levels.append(node)
                if len(levels) > MAX_DEPTH + 1:
                    return None
    return [node for _, _, node in root.children]


def _node(piece: str, start: int, end: int) -> JsonNode:
    if piece in "{[":
        return JsonNode("object" if piece == "{" else "list", start, end)
    return JsonNode("string", start, end, _said(piece)) if piece[0] == '"' else JsonNode("plain", start, end, piece)


def _said(literal: str) -> str:
    return str(json.loads(literal)) if "\\" in literal else literal[1:-1]


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
    nodes = nodes_of(text)
    return None if nodes is None else [string for node in nodes for string in _strings(node, "")]


def _strings(node: JsonNode, path: str) -> Iterator[JsonString]:
    if node.kind == "string":
        yield JsonString(path, node.text, node.start, node.end)
    for token, _, child in node.children:
        yield from _strings(child, path_to(path, token))


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
