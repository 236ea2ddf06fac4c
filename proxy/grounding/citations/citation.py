"""One thing that an answer cites: shared by those who read marks, find sources and judge."""

from __future__ import annotations

from msgspec import Struct


class Citation(Struct, frozen=True):
    """One thing that a mark cites; ``[Passages 1-3]`` is three of them with one span."""

    start: int
    """Characters of the choice's text before its mark."""
    end: int
    kind: str
    """``passage``, ``source``, ``context``, ``author`` or ``link``."""
    number: int | None = None
    name: str = ""
    """Of a source, of a part of the context, of an author with the year, or a link's address."""

    @property
    def label(self) -> str:
        """What it cites, in words."""
        return f"passage {self.number}" if self.number is not None else f"{self.kind}: {self.name}"
