"""A schema as servers of tools write it, made readable: what is no JSON Schema in it is left out, and told. Pure functions.

In: a parsed schema and what its draft's meta-schema says of it. Out: a copy in which each keyword that cannot be read is gone, and the
names of those keywords: the rest is enforced. Servers write ``type: any``, ``required: true`` of a single property, patterns of other
engines of regular expressions. (OpenAPI 3.0's ``nullable`` is known to `proxy.language.json.schemas`.)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

MOST_REMOVED = 64
"""Keywords. A schema with more of them is none."""
MAX_PATTERN_CHARS = 2000
_PART_KEYWORDS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""Under which names, not keywords, stand."""
Error = Any
"""Of the library jsonschema: where in the schema (`absolute_path`) which keyword of the meta-schema says no."""


def readable(schema: dict[str, Any], errors_of: Callable[[Any], Iterable[Error]]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """`schema` without what `errors_of` refuses in it, and the keywords that went; None where too much would go."""
    made = copy.deepcopy(schema)
    removed: list[str] = []
    while len(removed) < MOST_REMOVED and (paths := {tuple(error.absolute_path) for error in errors_of(made)}):
        for path in sorted(paths, key=repr, reverse=True):
            word = _without(made, path)
            if word is None:
                return None
            removed.append(word)
    return None if len(removed) >= MOST_REMOVED else (made, tuple(filter(None, removed)))


def _without(schema: dict[str, Any], path: tuple[str | int, ...]) -> str | None:
    """Takes the keyword that `path` leads to out of `schema`; its name, or None where the path is none in it."""
    places: list[Any] = [schema]
    for step in path:
        try:
            places.append(places[-1][step])
        except (KeyError, IndexError, TypeError):
            return ""  # gone with another
    while path and not isinstance(places[len(path) - 1], dict):
        path = path[:-1]
    if not path:
        return None
    holder, name = places[len(path) - 1], path[-1]
    if len(path) > 1 and path[-2] in _PART_KEYWORDS:
        holder[name] = {}  # a name must stay known
    else:
        del holder[name]
    return str(name)


def unreadable_patterns(schema: Any) -> Iterator[str]:
    """``pattern`` or ``patternProperties``, for each regular expression of a schema that cannot be read here."""
    if isinstance(schema, dict):
        for word, value in schema.items():
            if word == "pattern" and isinstance(value, str) and compiled(value) is None:
                yield word
            if word == "patternProperties" and isinstance(value, dict):
                yield from (word for pattern in value if compiled(pattern) is None)
            yield from unreadable_patterns(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from unreadable_patterns(value)


@lru_cache(1024)
def compiled(pattern: str) -> Any | None:
    """A regular expression of ECMA-262; None where Python has no form for it."""
    import regex

    if len(pattern) > MAX_PATTERN_CHARS:
        return None
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError):
        return None
