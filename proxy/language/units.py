"""Units of measurement: which dimension a unit's word belongs to, and how much of the dimension's base unit it is.

Used by `proxy.language.quantities`; the words stand in ``units.toml``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from msgspec import Struct


class Unit(Struct, frozen=True):
    """One unit: ``value * factor + offset`` is the same in the dimension's base unit."""

    dimension: str
    factor: float = 1.0
    offset: float = 0.0


UNITS: dict[str, Unit] = {
    word.replace("_", " "): Unit(dimension, float(factor))
    for dimension, rows in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
    for factor, words in rows.items()
    for word in words.split()
}
UNITS |= dict.fromkeys(("°C", "degrees celsius", "grad celsius", "grados celsius", "degrés celsius"), Unit("temperature"))
UNITS |= dict.fromkeys(("°F", "degrees fahrenheit", "grad fahrenheit"), Unit("temperature", 5 / 9, -160 / 9))
MONEY = frozenset(("USD", "EUR", "GBP", "JPY", "CHF", "INR"))
CURRENCY_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}


def unit_of(word: str) -> Unit | None:
    """The unit that is written `word`: symbols by their exact case, words by any."""
    if (unit := UNITS.get(word)) is not None:
        return unit
    return UNITS.get(word.lower()) if len(word) > 2 else None
