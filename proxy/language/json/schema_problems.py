"""What a JSON Schema validator says: of a value, as it may be recorded, and of a schema, to leave out what is none in it. Pure functions.

Of an error of the library jsonschema, as `proxy.language.json.schemas` finds it, `error_of` makes a `SchemaError`: pointers, keywords,
names of the schema. Of a schema as servers of tools write it, `readable` makes a copy in which each keyword that cannot be read is gone,
and tells their names: the rest is enforced. Servers write ``type: any``, ``required: true`` of a single property, patterns of other engines
of regular expressions. (OpenAPI 3.0's ``nullable`` is known to `proxy.language.json.schemas`.)
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct

from proxy.language.json.fingerprint import identifier

MAX_PROBLEMS = 8
"""Of one value."""
MAX_LISTED = 8
"""Of a list that `SchemaError.expected` gives."""
_PATH_CHARS = 300


class SchemaError(Struct, frozen=True):
    """One place at which a value does not match. Only `path` and `strings` may hold text of the value."""

    pointer: str
    """JSON pointer into the value, "" for the whole; names that are not the schema's are hashed."""
    keyword: str
    """``required``, ``type``, …; ``false`` where the schema allows nothing."""
    name: str = ""
    """The property concerned, as an identifier or a hash; "" for none."""
    schema: str = ""
    """JSON pointer into the schema, along its references: which part says so."""
    expected: Any = None
    """What the keyword asks for, where that is a number, a boolean, an identifier or a few of them; else None."""
    path: tuple[str | int, ...] = ()
    """As `pointer`, unmasked: not for a record."""
    strings: tuple[tuple[tuple[str | int, ...], tuple[str, ...]], ...] = ()
    """Strings that stand where something else is wanted: their paths, and the types that would do. More than one, or another than `path`,
    where the schema has alternatives."""


def error_of(error: Any, names: frozenset[str]) -> SchemaError:
    """Of `error`, with the property `names` of its schema."""
    path = tuple(error.absolute_path)
    keyword = str(error.validator or "false")
    shown = [str(token) if isinstance(token, int) or token in names else _hash_name(str(token)) for token in path]
    return SchemaError(
        pointer=_pointer(shown),
        keyword=keyword,
        name=_name(error, path, names),
        schema=_pointer(identifier(str(token)) for token in error.absolute_schema_path),
        expected=_expectation(error),
        path=path,
        strings=_strings(error),
    )


def _name(error: Any, path: tuple[str | int, ...], names: frozenset[str]) -> str:
    named = error.validator in ("required", "additionalProperties", "dependentRequired") and isinstance(error.validator_value, str)
    name = error.validator_value if named else next((token for token in reversed(path) if isinstance(token, str)), "")
    if not name:
        return ""
    known = name in names or error.validator in ("required", "dependentRequired")
    return identifier(name) if known else _hash_name(name)


def _hash_name(name: str) -> str:
    """`name`, which is the model's own, as a hash."""
    return "#" + hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _pointer(tokens: Iterable[str]) -> str:
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)[:_PATH_CHARS]


def _expectation(error: Any) -> Any:
    value = error.validator_value
    if error.validator in ("required", "dependentRequired"):
        return None
    if error.validator == "additionalProperties":
        listed = error.schema.get("properties") if isinstance(error.schema, dict) else None
        value = list(listed) if isinstance(listed, dict) else None
    if isinstance(value, list):
        plain = [_plain(item) for item in value[:MAX_LISTED]]
        return plain if plain and all(item is not None for item in plain) else None
    return _plain(value)


def _plain(value: object) -> Any:
    if isinstance(value, bool | int | float):
        return value
    return value if isinstance(value, str) and value and identifier(value) == value else None


def _strings(error: Any) -> tuple[tuple[tuple[str | int, ...], tuple[str, ...]], ...]:
    """Where strings stand in the place of other types, with the types; of alternatives all that would do."""
    found: dict[tuple[str | int, ...], dict[str, None]] = {}
    open_ = [error]
    while open_ and len(found) < MAX_PROBLEMS:
        one = open_.pop()
        if one.validator == "type" and isinstance(one.instance, str):
            types = one.validator_value
            found.setdefault(tuple(one.absolute_path), {}).update(dict.fromkeys([types] if isinstance(types, str) else types))
        elif one.validator in ("anyOf", "oneOf"):
            open_ += reversed(one.context)
    return tuple((path, tuple(types)) for path, types in found.items())


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
