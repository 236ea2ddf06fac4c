"""Regular expressions that are compiled at their first use: the large ones take milliseconds each, and most servers judge no claims."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cached_property


class LazyPattern:
    """A `re.Pattern` to be; the methods are its own."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern, self._flags = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self._flags)

    def match(self, text: str, at: int = 0, until: int = sys.maxsize) -> re.Match[str] | None:
        """As `re.Pattern.match`."""
        return self._compiled.match(text, at, until)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.fullmatch`."""
        return self._compiled.fullmatch(text)

    def search(self, text: str, at: int = 0, until: int = sys.maxsize) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        return self._compiled.search(text, at, until)

    def findall(self, text: str) -> list[str]:
        """As `re.Pattern.findall`, of a pattern with one group at most."""
        return self._compiled.findall(text)

    def finditer(self, text: str, at: int = 0, until: int = sys.maxsize) -> Iterator[re.Match[str]]:
        """As `re.Pattern.finditer`."""
        return self._compiled.finditer(text, at, until)

    def sub(self, put: str | Callable[[re.Match[str]], str], text: str) -> str:
        """As `re.Pattern.sub`."""
        return self._compiled.sub(put, text)

    def split(self, text: str) -> list[str]:
        """As `re.Pattern.split`."""
        return self._compiled.split(text)
