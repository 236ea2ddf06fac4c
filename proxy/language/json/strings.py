"""JSON texts with the places of their parts: the one reader that knows places.

In: a text. Out: its values as `JsonNode`s, to be cut into pieces or read as records; of an answer its string values, which are judged, with
their paths and spans; or the text with some of these replaced, still valid JSON (RFC 8259) and every other byte as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import orjson
from msgspec import Struct

from proxy.offloop import each

_TOKEN = re.compile(r'[\s,:]*("[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^\s\[\]{},:"]+)')
_START = re.compile(r"\s*(?:\{|\[\s*(?:[\[{\"]|$))")
_NAME = re.compile(r"[A-Za-z_]\w*")
MAX_DEPTH = 200
"""Paths grow with the depth: deeper text is not read as JSON."""
KEY_WORDS = 4
"""Names of fields, also those of people's tables, mostly have less; a sentence has more."""


class JsonNode(Struct, gc=False):
    """A value, with its place. A text may have half a million: the collector of cycles need not look at them."""

    kind: Literal["object", "list", "string", "plain"]
    start: int
    end: int
    text: str = ""
    """What a string says; a number, a boolean or null as it is written."""
    children: Sequence[tuple[str | int, int, JsonNode]] = ()
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
    children: list[tuple[str | int, int, JsonNode]] = []
    level = JsonNode("list", start, 0, "", children)
    above: list[tuple[JsonNode, list[tuple[str | int, int, JsonNode]]]] = []
    key: str | None = None
    key_start = 0
    for match in each(_TOKEN.finditer(text, start, len(text) if end is None else end)):
        piece, first = match[1], match[1][0]
        begin, stop = match.span(1)
        if first in "}]":
            level.end, level.children = stop, children or ()
            level, children = above.pop()
            continue
        if first == '"':
            said = str(json.loads(piece)) if "\\" in piece else piece[1:-1]
            if level.kind == "object" and key is None:
                key, key_start = said, begin
                continue
            node = JsonNode("string", begin, stop, said)
        elif first in "{[":
            node = JsonNode("object" if first == "{" else "list", begin, stop)
        else:
            node = JsonNode("plain", begin, stop, piece)
        children.append((len(children), begin, node) if key is None else (key, key_start, node))
        key = None
        if first in "{[":
            above.append((level, children))
            level, children = node, []
            if len(above) > MAX_DEPTH:
                return None
    return [node for _, _, node in children]


def path_to(prefix: str, token: str | int) -> str:
    """The path of a list's item or an object's value, as `JsonString.path` has it, where `prefix` is the path of the list or object."""
    if isinstance(token, int):
        return f"{prefix}[{token}]"
    if not _NAME.fullmatch(token):
        return f"{prefix}[{json.dumps(token, ensure_ascii=False)}]"
    return f"{prefix}.{token}" if prefix else token


def parse_json(text: str) -> Any:
    """The object or list that `text` is in JSON; None for anything else."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def looks_json(text: str) -> bool:
    """Whether `text` begins as a JSON object or a list of objects, lists or strings does."""
    return _START.match(text) is not None


def strings_of(text: str) -> list[JsonString] | None:
    """The string values of a JSON object or array, in order, keys not among them; None where `text` is neither."""
    nodes = _checked_nodes(text)
    return None if nodes is None else [string for node in nodes for string in _strings(node, "")]


def texts_of(text: str) -> tuple[list[JsonString], list[JsonString]] | None:
    """`strings_of`, and the keys that are more than a name: those with at least `KEY_WORDS` words."""
    nodes = _checked_nodes(text)
    return None if nodes is None else ([string for node in nodes for string in _strings(node, "")], _sentence_keys(text, nodes))


def _checked_nodes(text: str) -> list[JsonNode] | None:
    if text.strip()[:1] not in ("{", "[") or not text.strip():
        return None
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return nodes_of(text)


def _sentence_keys(text: str, nodes: Sequence[JsonNode]) -> list[JsonString]:
    found, waiting = list[JsonString](), list(nodes)
    for node in each(waiting):  # which grows by what stands in each
        for token, start, child in node.children:
            if isinstance(token, str) and len(token.split(None, KEY_WORDS)) >= KEY_WORDS:
                literal = _TOKEN.match(text, start)
                found.append(JsonString(token, token, start, literal.end(1) if literal is not None else start))
            if child.children:
                waiting.append(child)
    return found


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
