"""Regular expressions that are compiled at their first use: the large ones take milliseconds each, and most servers judge no claims."""

from __future__ import annotations

import re
from functools import cached_property


class LazyPattern:
    """A `re.Pattern` to be; the methods are its own."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern, self._flags = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self._flags)

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        """As `re.Pattern.match`."""
        return self._compiled.match(text, at)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.fullmatch`."""
        return self._compiled.fullmatch(text)

    def search(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        return self._compiled.search(text)
