"""Mends what a model wrote where nothing is lost by it: its JSON, and values of the wrong type that say the right thing. Pure functions.

In: a text that should be JSON and the schema it should match. Out: the text mended and what was done, or None. Text that is right already
is returned byte for byte.

First the text (`read_leniently`): forms that a lenient reader takes for the same value are written as JSON has them: comments, trailing
commas, single or typographic quotation marks, keys without any, Python's ``True``, ``False`` and ``None``, raw control characters in
strings, unusual white space, a Markdown fence around it all, and closing brackets that are missing at the end. Where readers would differ
(an unknown escape, a quotation mark in mid-string, a value or comma that is missing, ``NaN``, anything cut off), there is no result. The
libraries json-repair and json5 do not hold that: of the 43 such texts of `tests/language/json/test_repair.py` the first guesses at all.

Then the values: a string that holds what the schema wants in its place: ``"10"`` where a number is wanted, ``"true"`` for a boolean, a JSON
object or list as text for the object or list. The words stay the same, only quotation marks go. A single value where a list of such is
wanted stays as it is: whether a list of one is meant cannot be told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from msgspec import Struct

from proxy.language.json.conformance import parsed
from proxy.language.json.schemas import CHECK_S, NotChecked, SchemaInvalid, problems_of
from proxy.language.json.strings import path_to, strings_of

MAX_CHARS = 1_000_000
MAX_DEPTH = 200
_FENCE = re.compile(r"```[A-Za-z0-9_+-]{0,20}[ \t]*\r?\n?")
_QUOTED_TEXT = "|".join(rf"{quote}(?:[^{closing}\\]++|\\.)*+{closing}" for quote, closing in ('""', "''", "“”", "‘’"))
_TOKEN = re.compile(
    rf"(?P<space>[ \t\n\r]+)|(?P<odd_space>[\ufeff\u200b\u00a0\u2000-\u200a\u2028\u2029\u202f\u3000\x0b\x0c]+)"
    rf"|(?P<comment>/\*.*?\*/|(?://|\#)[^\n]*)|(?P<string>{_QUOTED_TEXT})|(?P<mark>[{{}}\[\],:])"
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.\w]))|(?P<word>[A-Za-z_$][A-Za-z0-9_$-]*)",
    re.DOTALL,
)
_BETWEEN = ("space", "odd_space", "comment")
_IN_STRING = re.compile(r'\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)|["\x00-\x1f]', re.DOTALL)
_SHARED_ESCAPES = frozenset('"\\bfnrt')
"""Mean the same in JSON, JavaScript and Python."""
_WORDS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_NO_KEYS = frozenset((*_WORDS, "undefined", "NaN", "Infinity"))
_QUOTES = {"'": "quotes", "“": "smart_quotes", "‘": "smart_quotes"}
_CLOSING = {"{": "}", "[": "]"}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})", re.ASCII)
"""Every JSON reader keeps fifteen digits."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?", re.ASCII)
_DIGITS = 15
_Path = tuple[str | int, ...]
_ROUNDS = 3
"""A value taken out of its string may hold more of them; and each check finds only so many."""


class Unreadable(ValueError):
    """There is no one way to read it."""


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
    made, more = _fit_schema(made, wanted, seconds)
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


def _fit_schema(text: str, schema: object, seconds: float) -> tuple[str, tuple[str, ...]]:
    """`text` with values taken out of their strings where `schema` wants them so."""
    fixes: dict[str, None] = {}
    problems = problems_of(schema, parsed(text), seconds=seconds)
    for _ in range(_ROUNDS):
        direct = {path: types for problem in problems for path, types in problem.strings if path == problem.path}
        every = {path: types for problem in problems for path, types in problem.strings}
        for wanted in (every, direct) if len(every) > len(direct) else (every,):
            found = _unwrap_strings(text, wanted)
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


def _unwrap_strings(text: str, wanted: Mapping[_Path, Sequence[str]]) -> tuple[str, list[str]] | None:
    """`text` with what its strings in these places hold, and the fixes; None where that is nothing."""
    if () in wanted:
        inner = _inside(parsed(text), wanted[()])
        return None if inner is None else (inner[0], [inner[1]])
    types = {reduce(path_to, path, ""): kinds for path, kinds in wanted.items()}
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


# ---- almost JSON ----


def read_leniently(text: str, *, cut: bool = False) -> tuple[str, tuple[str, ...]] | None:
    """`text` as JSON, and what was mended; None where it cannot be. With `cut`, the text was ended by a limit: no bracket is added."""
    if len(text) > MAX_CHARS:
        return None
    inner, fenced = _without_fence(text)
    fixes = {"code_fence": None} if fenced else {}
    try:
        made = _written(inner, cut, fixes)
        json.loads(made, parse_int=float)  # nothing is handed out that is not JSON
    except (ValueError, RecursionError):
        return None
    return made, tuple(fixes)


def _without_fence(text: str) -> tuple[str, bool]:
    """What a Markdown fence holds, where one is around all of it."""
    whole = text.strip()
    start = _FENCE.match(whole)
    if start is None or not whole.endswith("```") or len(whole) < start.end() + 3:
        return text, False
    return whole[start.end() : -3].strip(), True


def _written(text: str, cut: bool, fixes: dict[str, None]) -> str:
    """`text` with each token as JSON has it, in one pass; whether they make a value is a JSON reader's to say. Raises `Unreadable`."""
    out: list[str] = []
    places = [-1, -1]
    """Of the tokens in `out`, white space left out."""
    opened: list[str] = []
    kind, at, end = "", 0, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or (len(opened) > MAX_DEPTH):
            raise Unreadable
        before, piece, at = kind, match[0], match.end()
        found = str(match.lastgroup)
        if found in _BETWEEN:
            out.append(piece if found == "space" else "")
            fixes |= {"comment": None} if found == "comment" else {"white_space": None} if found == "odd_space" else {}
            continue
        kind, end = found, at
        if before == "word":
            out[places[-1]] = _word(out[places[-1]], fixes, named=piece == ":")
        if kind != "mark" and before not in ("", "mark"):
            raise Unreadable  # two values side by side
        if piece in ("}", "]"):
            _close(piece, opened, out, places, fixes)
        elif piece in _CLOSING:
            opened.append(_CLOSING[piece])
        places = [places[-1], len(out)]
        out.append(_string(piece, fixes) if kind == "string" else piece)
    if kind == "word":
        out[places[-1]] = _word(out[places[-1]], fixes, named=False)
    if opened:
        ended = kind in ("string", "word") or (kind == "number" and end < len(text)) or out[places[-1]] in ("}", "]")
        if cut or not ended:  # a number may be cut where it looks whole
            raise Unreadable
        fixes["closing_bracket"] = None
    return "".join([*out, *reversed(opened)])


def _close(bracket: str, opened: list[str], out: list[str], places: Sequence[int], fixes: dict[str, None]) -> None:
    """A comma before a bracket goes, where it follows a value."""
    if not opened or opened.pop() != bracket:
        raise Unreadable
    if out[places[-1]] == "," and out[places[-2]] not in ("{", "[", ",", ":"):
        out[places[-1]] = ""
        fixes["trailing_comma"] = None


def _word(word: str, fixes: dict[str, None], *, named: bool) -> str:
    """A value's word, or, `named`, a key without quotation marks."""
    if named and word not in _NO_KEYS:
        fixes["unquoted_key"] = None
        return f'"{word}"'
    if named or word not in _WORDS:
        raise Unreadable
    if word != _WORDS[word]:
        fixes["python_literal"] = None
    return _WORDS[word]


def _string(piece: str, fixes: dict[str, None]) -> str:
    body = _IN_STRING.sub(lambda match: _escape(match[0], piece[0], fixes), piece[1:-1])
    if piece[0] in _QUOTES:
        fixes[_QUOTES[piece[0]]] = None
    return f'"{body}"'


def _escape(found: str, quote: str, fixes: dict[str, None]) -> str:
    """An escape of a string as JSON has it, or a character that must not stand there as it is."""
    if len(found) == 1:
        fixes |= {"control_character": None} if found != '"' else {}
        return json.dumps(found)[1:-1]
    kind = found[1]
    if kind in _SHARED_ESCAPES or len(found) == 6 or (kind == "/" and quote == '"'):
        return found
    if kind != "'" and len(found) != 4:
        raise Unreadable
    fixes["escape"] = None
    return "'" if kind == "'" else "\\u00" + found[2:]


__all__ = ["NotChecked", "Repaired", "SchemaInvalid", "repair"]
