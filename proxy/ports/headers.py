"""A stage's own header of the response: ``x-groundwire-NAME``, what it says and where the value comes from.

A stage lists them in `Stage.headers`. `proxy.wire.http.headers` writes them, behind those that every response has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from proxy.exchange import Facts, Found


class StageHeader(Struct, frozen=True):
    """One header."""

    name: str
    """Without the prefix: small letters, digits and hyphens."""
    meaning: str
    """For docs/reference/headers.md."""
    value: Callable[[Facts, Sequence[Found]], str | None]
    """Of the facts and verdicts so far, also those of a record; None leaves it out. It is encoded and cut as headers need it."""


def score_text(value: float | None) -> str | None:
    """0.00 to 1.00; None for nothing."""
    return None if value is None else f"{value:.2f}"


def count_text(value: int | None) -> str | None:
    """A whole number; None for nothing."""
    return None if value is None else str(value)
