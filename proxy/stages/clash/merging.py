"""Two statements that can both hold -> one that says so: a range, or a list of what is welcome. Else None.

The words are the user's own, put together; only what joins them is new ("between … and …", "or"), in English, German,
Spanish or French. What excludes each other (vegan and steak, Berlin and Munich as home) is not merged: that is for the user to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from proxy.grounding.clashes.kinds import SlotValue, Statement, StatementClash
from proxy.language.patterns import LazyPattern
from proxy.language.wordings import wordings
from proxy.stages.clash.asking.questions import without_lead_in

ALTERNATIVES = frozenset(("seat", "price level", "price_level"))
"""Slots (`proxy.grounding.clashes.statements.slots`) of which a list can be welcome: "window or aisle"."""
_MAX_WORDS = 10
"""More words than this are no item of a list."""


class _Words(Struct, frozen=True):
    """What joins two statements."""

    between: str
    either: str


_WORDS = wordings(__file__, _Words)
_BOUND = LazyPattern(
    r"(?:\b(?:at most|at least|up to|no more than|no less than|not more than|less than|more than|under|over|below|above|around|about|"
    r"maximum(?: of)?|minimum(?: of)?|max\.?|höchstens|mindestens|maximal|bis zu|unter|über|etwa|rund|ungefähr|"
    r"como máximo|como mucho|al menos|hasta|menos de|más de|unos|alrededor de|au plus|au moins|jusqu'à|moins de|plus de|environ)\s+)$",
    re.I,
)
"""What stands before an amount and is part of it."""
_DENIAL = LazyPattern(r"\b(?:not?|never|nicht|kein\w{0,2}|nie|nunca|jamás|pas|jamais|aucune?|without|ohne|sin|sans)\b|n['’]t\b", re.I)
_AMOUNT = LazyPattern(r"(?:[$€£¥]\s?)?\d+(?:[.,'’ \u00a0\u202f]\d{1,3})*\s?k?\b")
_JOIN = LazyPattern(r"[^\W_]+(?:['’-][^\W_]+)*|\S")


def merged(clash: StatementClash) -> str | None:
    """One statement in place of the two, in the newer one's language; None where they cannot both hold."""
    older, newer = clash.older, clash.newer
    if older.language != newer.language and not _ranges(older, newer):
        return None
    return _range(older, newer) or (_list(older, newer) if _may_list(clash) else None)


# ---- a range ----


class _Bounds(Struct, frozen=True):
    """An amount as a range: from `low` to `high`, and the words for each."""

    low: float
    high: float
    low_text: str
    high_text: str

    @property
    def single(self) -> bool:
        return self.low == self.high


def _range(older: Statement, newer: Statement) -> str | None:
    """The newer statement with the range in which both hold: what two ranges share, or what lies between two single amounts."""
    pair = _ranges(older, newer)
    if pair is None or "fact" in (older.kind, newer.kind):
        return None
    one, other = _bounds(older, pair[0]), _bounds(newer, pair[1])
    if one.single and other.single:
        if not pair[0].unit:  # for two, or for four: no range
            return None
        low, high = sorted((one, other), key=lambda bounds: bounds.low)
    else:
        low, high = max((one, other), key=lambda bounds: bounds.low), min((one, other), key=lambda bounds: bounds.high)
    if not low.low < high.high or not low.low_text or not high.high_text:
        return None
    return _in_place(newer, pair[1], _words(newer).between.format(low.low_text, high.high_text))


def _ranges(older: Statement, newer: Statement) -> tuple[SlotValue, SlotValue] | None:
    """The amounts of the same slot, scope and unit that the two name."""
    for new in newer.slots:
        for old in older.slots:
            same = (old.slot, old.scope, old.unit) == (new.slot, new.scope, new.unit) and not (old.negated or new.negated)
            if same and _is_amount(old) and _is_amount(new):
                return old, new
    return None


def _is_amount(value: SlotValue) -> bool:
    return value.low is not None or value.high is not None


def _bounds(statement: Statement, value: SlotValue) -> _Bounds:
    said = statement.text[value.start : value.end]
    amounts = list(_AMOUNT.finditer(said))
    if not amounts:
        return _Bounds(float("inf"), float("-inf"), "", "")
    first, last = amounts[0][0].strip(), said[amounts[-1].start() :].strip()
    low = value.low if value.low is not None else float("-inf")
    high = value.high if value.high is not None else float("inf")
    return _Bounds(low, high, last if len(amounts) == 1 else first, last)


def _in_place(statement: Statement, value: SlotValue, phrase: str) -> str:
    """The statement with `phrase` for the amount and the bound before it ("at most 150 €")."""
    before = _BOUND.sub("", statement.text[: value.start])
    said = statement.text[value.start : value.end]
    inside = re.match(r"\s*", said)
    lead = said[: inside.end()] if inside else ""
    return without_lead_in(f"{before}{lead}{phrase}{statement.text[value.end :]}".strip())


# ---- a list ----


def _clause(statement: Statement) -> str:
    return without_lead_in(statement.text.strip()).rstrip(" .!;,")


def _may_list(clash: StatementClash) -> bool:
    """Whether alternatives are welcome: two likings of the user's, of something of which one can like several."""
    slots = {value.slot for statement in (clash.older, clash.newer) for value in statement.slots}
    kinds = {"preference", "constraint"} if "price_level" in slots else {"preference"}  # a "budget hotel" is no bound
    both = {clash.older.kind, clash.newer.kind} <= kinds and clash.older.polarity == clash.newer.polarity == 1
    slots -= {"budget"} if "price_level" in slots else frozenset()
    return both and (slots <= ALTERNATIVES if slots else clash.topic in ALTERNATIVES)


def _list(older: Statement, newer: Statement) -> str | None:
    """Two sentences that differ in one item, as one that names both."""
    said, says = _clause(older), _clause(newer)
    one, other = list(_JOIN.finditer(said)), list(_JOIN.finditer(says))
    mine, its = ([match[0].casefold() for match in found] for found in (one, other))
    start = _shared(mine, its)
    end = _shared(mine[start:][::-1], its[start:][::-1])
    items = one[start : len(one) - end], other[start : len(other) - end]
    if not start or not all(0 < len(item) <= _MAX_WORDS for item in items) or _DENIAL.search(f"{older.text} {newer.text}"):
        return None
    (first, last), (new_first, new_last) = ((item[0].start(), item[-1].end()) for item in items)
    both = _words(newer).either.format(said[first:last], says[new_first:new_last])
    return f"{says[:new_first]}{both}{says[new_last:]}."


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items two sequences have in common at the start."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _words(statement: Statement) -> _Words:
    return _WORDS[statement.language]
