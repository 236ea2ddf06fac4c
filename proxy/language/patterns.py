"""Words in several languages, which stand in TOML files beside the module that needs them: expressions that read what others say
(``phrases.toml``), and what the proxy says itself (``NAME.words.toml``).

Regular expressions are compiled at their first use: the large ones take milliseconds each, and most servers judge no claims.

A long text is searched in steps, with a `check` before each: an expression has the interpreter for itself until it is done, and some
read 3 characters a microsecond. No match may be longer than `LONGEST_CHARS`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec

from proxy.offloop import check, uncounted

_STEP_CHARS = 6_000
"""About 2 ms of the slowest."""
LONGEST_CHARS = 4_000
"""Of a match in a text of more than two steps; patterns are bounded well below."""


_PART = re.compile(r"\(\?&(\w+)\)")


@cache
def phrases(folder: Path) -> SimpleNamespace:
    """The expressions in a folder's ``phrases.toml``, by name: lines of one are joined, and ``(?&NAME)`` stands for one before it; several
    of one name are a tuple. Plain words, which stand in the table ``words``, are tuples of them.
    """
    read = tomllib.loads((folder / "phrases.toml").read_text(encoding="utf-8"))
    words = {name: tuple(text.split()) for name, text in read.pop("words", {}).items()}
    found: dict[str, Any] = {}

    def whole(text: str) -> str:
        return _PART.sub(lambda match: str(found[match[1]]), text.replace("\n", ""))

    for name, value in read.items():
        found[name] = whole(value) if isinstance(value, str) else tuple(map(whole, value))
    return SimpleNamespace(**found, **words)


class LazyPattern:
    """A `re.Pattern` to be; the methods are its own."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern, self._flags = pattern, flags

    @cached_property
    def _compile(self) -> re.Pattern[str]:
        with uncounted():
            return re.compile(self.pattern, self._flags)

    def match(self, text: str, at: int = 0, until: int = sys.maxsize) -> re.Match[str] | None:
        """As `re.Pattern.match`."""
        return self._compile.match(text, at, until)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.fullmatch`."""
        return self._compile.fullmatch(text)

    def search(self, text: str, at: int = 0, until: int = sys.maxsize) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        until = min(until, len(text))
        while until - at > 2 * _STEP_CHARS:
            check()
            found = self._compile.search(text, at, at + _STEP_CHARS + LONGEST_CHARS)
            if found is None or found.start() >= at + _STEP_CHARS:
                at += _STEP_CHARS
            elif (whole := self._compile.match(text, found.start(), until)) is not None:
                return whole
            else:  # only the end of what was looked at made it one
                at = found.start() + 1
        return self._compile.search(text, at, until)

    def findall(self, text: str) -> list[str]:
        """As `re.Pattern.findall`, of a pattern with one group at most."""
        if len(text) <= 2 * _STEP_CHARS:
            return self._compile.findall(text)
        return [match[match.re.groups] or "" for match in self.finditer(text)]

    def finditer(self, text: str, at: int = 0, until: int = sys.maxsize) -> Iterator[re.Match[str]]:
        """As `re.Pattern.finditer`."""
        until = min(until, len(text))
        return self._compile.finditer(text, at, until) if until - at <= 2 * _STEP_CHARS else self._steps(text, at, until)

    def _steps(self, text: str, at: int, until: int) -> Iterator[re.Match[str]]:
        while until - at > 2 * _STEP_CHARS and (found := self.search(text, at, until)) is not None:
            yield found
            at = max(found.end(), found.start() + 1)
        yield from self._compile.finditer(text, at, until) if until - at <= 2 * _STEP_CHARS else ()

    def sub(self, put: str | Callable[[re.Match[str]], str], text: str) -> str:
        """As `re.Pattern.sub`."""
        if len(text) <= 2 * _STEP_CHARS:
            return self._compile.sub(put, text)
        pieces, at = [], 0
        for match in self.finditer(text):
            pieces += [text[at : match.start()], match.expand(put) if isinstance(put, str) else put(match)]
            at = match.end()
        return "".join([*pieces, text[at:]])

    def split(self, text: str) -> list[str]:
        """As `re.Pattern.split`."""
        return self._compile.split(text)


# ---- wordings ----

T = TypeVar("T")


class Wordings(dict[str, T]):
    """By language; every other language is said in English."""

    def __missing__(self, language: str) -> T:
        return self["en"]


def wordings(module: str, kind: type[T]) -> Wordings[T]:
    """What the module whose ``__file__`` is `module` says: its ``NAME.words.toml``, a table for each language as ISO 639-1 names it.

    A wording is a text or, where there are several, a struct; its parts in braces are filled in by the module. Raises
    `msgspec.ValidationError` where one lacks a part.
    """
    read = tomllib.loads(Path(module).with_suffix(".words.toml").read_text(encoding="utf-8"))
    return Wordings({language: msgspec.convert(said, kind) for language, said in read.items()})
