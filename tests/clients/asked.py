"""A request as a scripted model reads it, whatever the API that it came through."""

from __future__ import annotations

from msgspec import Struct


class Asked(Struct):
    """A request, read by the provider of its API."""

    question: str
    """The last thing that the user said."""
    tools: tuple[str, ...]
    """Names."""
    called: tuple[str, ...]
    """Names of the tools that were called since the question."""
    results: tuple[str, ...]
    """What came of them."""
    wants_json: bool = False
