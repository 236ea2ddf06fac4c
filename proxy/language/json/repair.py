"""Mends what a model wrote where nothing is lost by it: its JSON, and values of the wrong type that say the right thing. Pure functions.

In: a text that should be JSON and the schema it should match. Out: the text mended and what was done, or None. What
`proxy.language.json.lenient` lists is mended, then a string that holds what the schema wants in its place: ``"10"`` where a number is
wanted, ``"true"`` for a boolean, a JSON object or list as text for the object or list. The words stay the same, only quotation marks go. A
single value where a list of such is wanted stays as it is: whether a list of one is meant cannot be told. Text that is right already is
returned byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.language.json.conformance import parsed
from proxy.language.json.lenient import MAX_CHARS, read_leniently
from proxy.language.json.schemas import CHECK_S, NotChecked, SchemaInvalid, problems_of
from proxy.language.json.strings import strings_of

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})", re.ASCII)
"""Every JSON reader keeps fifteen digits."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?", re.ASCII)
_DIGITS = 15
_Path = tuple[str | int, ...]
_NAME = re.compile(r"[A-Za-z_]\w*")
_ROUNDS = 3
"""A value taken out of its string may hold more of them; and each check finds only so many."""


class Repaired(Struct, frozen=True):
    """A text as it should have been."""

    text: str
    fixes: tuple[str, ...]
    """What was done, each once; empty where nothing was wrong."""


def repair(text: str, schema: object = None, *, cut: bool = False, seconds: float = CHECK_S) -> Repaired | None:
    """`text` as JSON that matches `schema`, as far as that loses nothing; None where it cannot be read.

    Without `schema` any object will do. What does not match for another reason stays: check the result. With `cut`, a limit has ended the
    text. Raises `SchemaInvalid`, `NotChecked`.
    """
    if len(text) > MAX_CHARS:
        return None
    found = _read(text, cut)
    if found is None:
        return None
    made, fixes = found
    wanted = {"type": "object"} if schema is None else {} if schema is True else schema
    made, more = _fitted(made, wanted, seconds)
    fixes += tuple(name for name in more if name not in fixes)
    if "closing_bracket" in fixes and problems_of(wanted, parsed(made), seconds=seconds):
        return None  # where a bracket is missing, something else may be, too
    return Repaired(made, fixes)


def _read(text: str, cut: bool) -> tuple[str, tuple[str, ...]] | None:
    try:
        parsed(text)
    except ValueError:
        return read_leniently(text, cut=cut)
    return text, ()


def _fitted(text: str, schema: object, seconds: float) -> tuple[str, tuple[str, ...]]:
    """`text` with values taken out of their strings where `schema` wants them so."""
    fixes: dict[str, None] = {}
    problems = problems_of(schema, parsed(text), seconds=seconds)
    for _ in range(_ROUNDS):
        direct = {path: types for problem in problems for path, types in problem.strings if path == problem.path}
        every = {path: types for problem in problems for path, types in problem.strings}
        for wanted in (every, direct) if len(every) > len(direct) else (every,):
            found = _unwrapped(text, wanted)
            if found is None:
                continue
            left = problems_of(schema, parsed(found[0]), seconds=seconds)
            if wanted == direct or len(left) < len(problems):  # an alternative may not be the one that was meant
                text, problems = found[0], left
                fixes |= dict.fromkeys(found[1])
                break
        else:
            break
    return text, tuple(fixes)


def _unwrapped(text: str, wanted: Mapping[_Path, Sequence[str]]) -> tuple[str, list[str]] | None:
    """`text` with what its strings in these places hold, and the fixes; None where that is nothing."""
    if () in wanted:
        inner = _inside(parsed(text), wanted[()])
        return None if inner is None else (inner[0], [inner[1]])
    types = {_spelled(path): kinds for path, kinds in wanted.items()}
    fixes = []
    for string in reversed(strings_of(text) or ()) if types else ():
        inner = _inside(string.value, types[string.path]) if string.path in types else None
        if inner is not None:
            text = text[: string.start] + inner[0] + text[string.end :]
            fixes.append(inner[1])
    return (text, fixes) if fixes else None


def _inside(value: Any, types: Sequence[str]) -> tuple[str, str] | None:
    """What the string `value` holds, as JSON, where that is of one of `types`, and the name of the fix."""
    if not isinstance(value, str):
        return None
    if "boolean" in types and value in ("true", "false", "True", "False"):
        return value.lower(), "boolean_string"
    if ("integer" in types and _INTEGER.fullmatch(value)) or ("number" in types and _is_number(value)):
        return value, "number_string"
    return _structure(value, types)


def _is_number(value: str) -> bool:
    return _NUMBER.fullmatch(value) is not None and sum(c.isdigit() for c in value) <= _DIGITS


def _structure(value: str, types: Sequence[str]) -> tuple[str, str] | None:
    """The object or list that `value` is the text of."""
    kinds = tuple(kind for name, kind in (("object", dict), ("array", list)) if name in types)
    if not kinds or value.strip()[:1] not in ("{", "[", "`"):
        return None
    found = _read(value, True)
    if found is None or not isinstance(parsed(found[0]), kinds):
        return None
    return found[0].strip(), "wrapped_string"


def _spelled(path: Sequence[str | int]) -> str:
    """As `proxy.language.json.strings` writes paths."""
    spelled = ""
    for token in path:
        if isinstance(token, int):
            spelled += f"[{token}]"
        elif not _NAME.fullmatch(token):
            spelled += f"[{json.dumps(token, ensure_ascii=False)}]"
        else:
            spelled += f".{token}" if spelled else token
    return spelled


__all__ = ["NotChecked", "Repaired", "SchemaInvalid", "repair"]
