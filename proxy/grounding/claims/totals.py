"""Totals at the end of an answer's list or table -> the sums that they say, written out: ``£116 + £57.00 = £183.00``.

In: the items of a list, or the rows of a table, one after the other. Out: equations for `proxy.grounding.values.calculation.calculation`;
none where an item has no amount, several, or only a price of which there are more, or where a total may have more or less in it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from proxy.grounding.values.calculation import DIGITS
from proxy.language.patterns import LazyPattern, phrases

_TEXTS = phrases(Path(__file__).parent)
_TOTAL = LazyPattern(_TEXTS.TOTAL, re.I)
_PART_TOTAL = LazyPattern(_TEXTS.PART_TOTAL, re.I)
_NO_SUM = LazyPattern(_TEXTS.NO_SUM, re.I)
_MARK = r"(?:R\$|[€$£¥₹]|USD|EUR|GBP|CHF|JPY|INR)"
_MONEY = re.compile(rf"(?<![\d.,])(?P<sign>[-−–]?)[ ]?(?P<amount>{_MARK}[ \u00a0]?{DIGITS}|{DIGITS}[ \u00a0]?{_MARK})(?![\w/])")
_COUNT = re.compile(DIGITS)
_OF_MORE = re.compile(r"[×*/~≈%]|\b\d+ ?x\b|\bx ?\d", re.I)
MAX_ADDENDS = 10
"""A calculation has no more (`calculation`)."""


class Totals:
    """Of one answer."""

    def __init__(self) -> None:
        self._amounts: list[str] = []
        self._indent: int | None = None
        self._whole = True
        """Whether each item of the list so far has one amount."""

    def spoil(self) -> None:
        """The item before says more."""
        self._whole = False

    def leave(self) -> None:
        """The list or table is over."""
        self._amounts, self._indent, self._whole = [], None, True

    def line(self, text: str, indent: int, *, item: bool) -> str:
        """The equation that a line says which is a total; "" of any other. White space before it is `indent` columns wide."""
        if not item and _TOTAL.match(text) is None:
            self.leave()
            return ""
        if not item and self._indent is not None:
            indent = self._indent
        if self._indent is None:
            self._indent = indent
        self._whole = self._whole and indent == self._indent
        told = text.rpartition("=")[2]
        found = [f"{'-' if m['sign'] else ''}{m['amount']}" for m in _MONEY.finditer(told)]
        amount = found[0] if len(found) == 1 else ""
        if _TOTAL.match(text) is None:
            self._whole = self._whole and bool(amount) and ("=" in text or not (_OF_MORE.search(text) or _NO_SUM.search(text)))
            self._amounts.append(amount)
            return ""
        equation = _equation(self._amounts, amount) if self._whole and not (_NO_SUM.search(text) or _OF_MORE.search(text)) else ""
        self._amounts, self._whole = [amount], bool(amount) and _PART_TOTAL.match(text) is not None
        return equation


def sums_of(names: Sequence[str], rows: Sequence[Sequence[str]], last: Sequence[str]) -> list[str]:
    """The equations that a row of totals says, one of a column whose cells are all counts or all sums of money."""
    if (
        not 1 < len(rows) <= MAX_ADDENDS
        or not last
        or _TOTAL.fullmatch(last[0].strip(" :")) is None
        or any(len(row) != len(last) for row in rows)
    ):
        return []
    found = []
    for c in range(1, len(last)):
        cells = [*(row[c] for row in rows), last[c]]
        if not _NO_SUM.search(names[c] if c < len(names) else "") and (all(map(_MONEY.fullmatch, cells)) or all(map(_is_count, cells))):
            found.append(_equation(cells[:-1], last[c]))
    return [equation for equation in found if equation]


def _equation(amounts: Sequence[str], total: str) -> str:
    if not 1 < len(amounts) <= MAX_ADDENDS or not total:
        return ""
    return f"{' + '.join(amounts).replace('+ -', '- ')} = {total}"


def has_amount(text: str) -> bool:
    """Whether a text names a sum of money."""
    return _MONEY.search(text) is not None


def _is_count(cell: str) -> bool:
    return _COUNT.fullmatch(cell) is not None and not re.search(r"[.,]\d{1,2}$", cell)
