"""What a JSON Schema validator says of a value, as it may be recorded: pointers, keywords, names of the schema. Pure functions.

In: an error of the library jsonschema, as `proxy.language.json.schemas` finds it, and the names of the schema's properties. Out: a
`SchemaProblem`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from proxy.language.json.fingerprint import identifier

MAX_PROBLEMS = 8
"""Of one value."""
MAX_LISTED = 8
"""Of a list that `Problem.expected` gives."""
_PATH_CHARS = 300


class SchemaProblem(Struct, frozen=True):
    """One place at which a value does not match. Only `path` may hold text of the value."""

    pointer: str
    """JSON pointer into the value; names that are not the schema's are hashed."""
    keyword: str
    """``required``, ``type``, …; ``false`` where the schema allows nothing."""
    name: str
    """The property concerned, as an identifier or a hash; "" for none."""
    schema_pointer: str
    """Which part of the schema says so, along its references."""
    expected: Any
    """What the keyword asks for, where that is a number, a boolean, an identifier or a few of them; else None."""
    path: tuple[str | int, ...]
    """As `pointer`, unmasked: not for a record."""
    strings: tuple[tuple[tuple[str | int, ...], tuple[str, ...]], ...] = ()
    """Strings that stand where something else is wanted: their paths, and the types that would do. More than one, or another than `path`,
    where the schema has alternatives."""


def problem_of(error: Any, names: frozenset[str]) -> SchemaProblem:
    """Of `error`, with the property `names` of its schema."""
    path = tuple(error.absolute_path)
    keyword = str(error.validator or "false")
    shown = [str(token) if isinstance(token, int) or token in names else _hashed(str(token)) for token in path]
    return SchemaProblem(
        pointer=_pointer(shown),
        keyword=keyword,
        name=_name(error, path, names),
        schema_pointer=_pointer(identifier(str(token)) for token in error.absolute_schema_path),
        expected=_expected(error),
        path=path,
        strings=_strings(error),
    )


def _name(error: Any, path: tuple[str | int, ...], names: frozenset[str]) -> str:
    named = error.validator in ("required", "additionalProperties", "dependentRequired") and isinstance(error.validator_value, str)
    name = error.validator_value if named else next((token for token in reversed(path) if isinstance(token, str)), "")
    if not name:
        return ""
    known = name in names or error.validator in ("required", "dependentRequired")
    return identifier(name) if known else _hashed(name)


def _hashed(name: str) -> str:
    """`name`, which is the model's own, as a hash."""
    return "#" + hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _pointer(tokens: Iterable[str]) -> str:
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)[:_PATH_CHARS]


def _expected(error: Any) -> Any:
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
