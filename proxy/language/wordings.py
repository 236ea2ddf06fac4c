"""What the proxy says, in several languages: a TOML file beside the module that says it, ``NAME.words.toml``, a table a language.

Languages are named as in ISO 639-1. A wording is a text or, where there are several, a struct; its parts in braces are filled in by the
module. Patterns that read what others say are no wordings: they stand in code, and large tables of them in a TOML file of their own.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Wordings(dict[str, T]):
    """By language; every other language is said in English."""

    def __missing__(self, language: str) -> T:
        return self["en"]


def wordings(module: str, kind: type[T]) -> Wordings[T]:
    """Those of the module whose ``__file__`` is `module`. Raises `msgspec.ValidationError` where one lacks a part."""
    read = tomllib.loads(Path(module).with_suffix(".words.toml").read_text(encoding="utf-8"))
    return Wordings({language: msgspec.convert(said, kind) for language, said in read.items()})
