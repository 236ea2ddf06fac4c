"""Amounts as a person reads them: thousands apart, shares in per cent, scores with two digits, times with their unit."""

from __future__ import annotations

NONE = "–"


def number(value: float | None) -> str:
    """``12,345``; a dash for nothing."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.1f}"


def share(value: float | None, digits: int = 0) -> str:
    """``71%``; what is there but rounds to nothing is ``<1%``."""
    if value is None:
        return NONE
    return f"{value:.{digits}%}" if value >= 0.005 or value <= 0 or digits else "<1%"


def score(value: float | None) -> str:
    """``0.83``."""
    return NONE if value is None else f"{value:.2f}"


def milliseconds(value: float | None) -> str:
    """``0.42 ms``, ``42 ms``, ``4.2 s``."""
    if value is None:
        return NONE
    if value >= 1000:
        return f"{value / 1000:,.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2f} ms"


def many(count: int, one: str, more: str = "") -> str:
    """``1 exchange``, ``2 exchanges``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def dollars(value: float | None) -> str:
    """``$12.30``, ``$0.0042``; what is there but less is ``<$0.0001``."""
    if value is None:
        return NONE
    if value < 0:
        return f"-{dollars(-value)}"
    if value == 0 or value >= 1:
        return f"${value:,.2f}"
    return f"${value:.4f}" if value >= 0.0001 else "<$0.0001"
