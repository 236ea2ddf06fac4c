"""What a reply says for the very thing that two statements clash on: "700 €", "Hamburg", "the cheaper one", "I don't want to fly".

The slots that the two fill are looked for in the reply with less to go by than in a statement, because the question was about nothing
else. Read by `proxy.stages.clash.asking.replies` after numbers and the options' own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from proxy.grounding.clashes.kinds import SlotValue, Statement
from proxy.grounding.clashes.statements import places, slot_words
from proxy.grounding.clashes.statements.slot_cues import NEGATED_BEFORE
from proxy.grounding.clashes.statements.slots import compatible, read_slots
from proxy.language.quantities import Quantities, read_quantities
from proxy.stages.clash.asking.reply_cues import BARE_AMOUNT, LESS, MORE, NEGATORS, folded

_MAX_PLACE_WORDS = 3
_SMALLEST_SPELLED = 20
""""The lower one" is no amount, "seven hundred" is."""


def chosen_by_value(said: str, older: Statement, newer: Statement) -> Literal["older", "newer", "other"] | None:
    """The statement that the reply agrees with, ``other`` for a value of its own; None where it has none for what they are about."""
    values = list(_values(said, older, newer))
    agrees = [_agrees(values, one) for one in (older, newer)]
    if True in agrees and agrees[0] != agrees[1]:
        return "older" if agrees[0] else "newer"
    return "other" if values or _names_another(said, older, newer) else _by_size(said, older, newer)


def _values(said: str, older: Statement, newer: Statement) -> Iterator[SlotValue]:
    """The reply's values of the slots that the two fill."""
    slots = {value.slot for statement in (older, newer) for value in statement.slots}
    read = [value for value in read_slots(said, newer.language) if value.slot in slots]
    yield from read
    known = {value.slot for value in read}
    for slot in slots - known:
        yield from _of_list(slot, said)
    if "location" in slots - known:
        yield from (SlotValue("location", name, 0, 0) for name in _places(said))


def _of_list(slot: str, said: str) -> Iterator[SlotValue]:
    """Values whose words are known, whatever else a statement would have to say: "by bus"."""
    for value, pattern in slot_words.closed().get(slot, {}).items():
        if (match := pattern.search(said)) is not None:
            yield SlotValue(slot, value, *match.span(), negated=_is_denied(said, match.start()))


def _is_denied(said: str, at: int) -> bool:
    return bool(NEGATORS & set(folded(said).split())) or NEGATED_BEFORE.search(said[:at]) is not None


def _places(said: str) -> list[str]:
    words = folded(said).split()
    spans = (words[i : i + n] for n in range(_MAX_PLACE_WORDS, 0, -1) for i in range(len(words) - n + 1))
    return list(dict.fromkeys(places.place(name) for span in spans if places.is_known(name := " ".join(span))))


def _agrees(values: Sequence[SlotValue], statement: Statement) -> bool | None:
    """Whether all values go together with the statement's; None where it has none of the same slots."""
    pairs = [(replace(value, scope=own.scope), own) for value in values for own in statement.slots if own.slot == value.slot]
    return all(compatible(value, own) for value, own in pairs) if pairs else None


def _names_another(said: str, older: Statement, newer: Statement) -> bool:
    """Whether it has an amount or a date, where the two statements have one."""
    sides = [value for statement in (older, newer) for value in statement.slots]
    units = {value.unit for value in sides if value.unit}
    read = read_quantities(said, newer.language)
    if units and (_has_amount(read, units) or BARE_AMOUNT.search(said)):
        return True
    return bool(read.dates) and bool({value.slot for value in sides} & {"date", "birthday"})


def _has_amount(read: Quantities, units: set[str]) -> bool:
    like_years = any(date.text.isdigit() for date in read.dates)  # "at most 1000"
    return like_years or any(
        number.dimension in units or (not number.dimension and not (number.spelled and number.base_values()[0] < _SMALLEST_SPELLED))
        for number in read.numbers
    )


def _by_size(said: str, older: Statement, newer: Statement) -> Literal["older", "newer"] | None:
    """The smaller or the larger of two amounts: "the cheaper one"."""
    plain = folded(said)
    less, more = LESS.search(plain), MORE.search(plain)
    sizes = [_size(older, newer), _size(newer, older)]
    if (
        (less is None) == (more is None)
        or re.search(r"\d", plain)
        or NEGATORS & set(plain.split())
        or None in sizes
        or sizes[0] == sizes[1]
    ):
        return None
    return "older" if (sizes[0] < sizes[1]) == (less is not None) else "newer"  # type: ignore[operator]


def _size(statement: Statement, other: Statement) -> float | None:
    """Of the amount that both statements give."""
    slots = {value.slot for value in other.slots}
    sizes = (value.high if value.high is not None else value.low for value in statement.slots if value.slot in slots)
    return next((size for size in sizes if size is not None), None)
