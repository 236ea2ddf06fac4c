"""What of a statement one person has one of: where they live, what they may spend, what they eat, who they are, when they travel.

In: a sentence and its language. Out: `SlotValue`s with normalised values, and whether two of them can both hold: an amount within a range,
a district within its city, an addition ("and also Rome"), another trip, another person. Amounts, dates, times and names are read by
`proxy.grounding.values`; the cues are this project's own, English, German, Spanish and French.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from proxy.grounding.clashes.kinds import SlotValue, Statement
from proxy.grounding.clashes.statements import places, slot_cues, slot_words
from proxy.grounding.clashes.statements.stance import read_stance
from proxy.language.dates import Date, read_dates
from proxy.language.names import folded
from proxy.language.quantities import Quantity, read_quantities
from proxy.language.units import MONEY, unit_of

CRITICAL = frozenset(("diet", "budget", "email", "phone"))
"""A wrong value costs health, money, or sends something to somebody else."""
OF_THE_ASSISTANT = frozenset(("reply_language", "answer_length", "answer_format", "tone"))
"""How to answer: whoever says it, it is said of the same."""
_ABOUT_SHARE = 0.1
_SAME_SHARE = 0.02
_LINKS = frozenset(("de", "la", "del", "las", "los", "am", "an", "der", "of", "the", "upon", "sur", "le", "les", "den"))
_WORD = re.compile(r"[\w'’.&-]*\w")
_AMOUNT = re.compile(r"\d|\b(?:hundred|thousand|hundert|tausend|cien|mil|cent|mille)", re.I)
_UNIT_AFTER = re.compile(r"\s?([$€£¥]|[^\W\d_]+)")
_RANGE = re.compile(
    r"(?:\b(?:between|from|zwischen|von|entre|de)\s+)?"
    r"(?:[$€£¥]?\s?\d[\d.,' ]{0,12}\d|[$€£¥]?\s?\d)\s?(?:[$€£¥]|eur\w*|usd|dollars?)?\s*"
    r"(?:-|–|—|to|and|bis|und|a|y|à|et)\s*(?:[$€£¥]?\s?\d[\d.,']{0,12}\s?(?:k\b)?)",
    re.I,
)


@lru_cache(maxsize=512)
def read_slots(sentence: str, language: str = "en") -> tuple[SlotValue, ...]:
    """The values that `sentence` gives, in its order, one for each slot and scope; none where it lists several of one."""
    found: list[SlotValue] = []
    for read in (_by_words, _places, _amounts, _dates_and_times):
        found += read(sentence, language)
    one: dict[tuple[str, str], list[SlotValue]] = {}
    for value in sorted(found, key=lambda value: value.start):
        one.setdefault((value.slot, value.scope), []).append(value)
    return tuple(single for values in one.values() if (single := _single(values)) is not None)


def _single(values: list[SlotValue]) -> SlotValue | None:
    """The one that is meant: of "an aisle seat, not a window seat" the first; None of "Rome or Naples"."""
    meant = [value for value in values if not value.negated] or values
    return meant[0] if len({value.value for value in meant}) == 1 else None


def _value(slot: str, value: str, match: re.Match[str], sentence: str, scope: str = "") -> SlotValue:
    start, end = match.span("value") if match.groupdict().get("value") is not None else match.span()
    denied = slot_cues.NEGATED_BEFORE.search(sentence[max(0, start - 40) : start]) is not None
    rejected = any(match[0] in target for target in read_stance(sentence).disliked)
    return SlotValue(slot, value, start, end, scope=scope, negated=denied or rejected)


# ---- words of a closed list ----


def _by_words(sentence: str, language: str) -> Iterator[SlotValue]:
    """Slots whose values are words of a list: diet, seat, cabin, …"""
    of_the_speaker = slot_words.SPEAKER_DOES.search(sentence) is not None
    for slot, patterns in slot_words.closed().items():
        needed = slot_words.NEEDED.get(slot)
        if (needed is not None and needed.search(sentence) is None) or (of_the_speaker and slot in OF_THE_ASSISTANT):
            continue
        for value, pattern in patterns.items():
            if (match := pattern.search(sentence)) is not None:
                scope = _scope(sentence, slot_cues.budget_scopes()) if slot == "price_level" else ""
                yield _value(slot, value, match, sentence, scope)


# ---- names of places ----


def _places(sentence: str, language: str) -> Iterator[SlotValue]:
    for slot, pattern in slot_cues.place_cues().items():
        for match in pattern.finditer(sentence):
            words = _capitalised(sentence, match.end())
            if words is not None:
                start, end = words
                negated = slot_cues.NEGATED_BEFORE.search(sentence[max(0, match.start() - 20) : start]) is not None
                yield SlotValue(slot, places.place(_plain(sentence[start:end])), start, end, negated=negated)


def _capitalised(sentence: str, at: int) -> tuple[int, int] | None:
    """The span of the capitalised words from `at` on, or of a known place in small letters."""
    first = end = -1
    for match in _WORD.finditer(sentence, at, at + 80):
        gap = sentence[end if end >= 0 else at : match.start()]
        if gap.strip() and not (gap.strip() == "," and end >= 0 and _is_place(match[0])):
            break
        if match[0][0].isupper() or (end >= 0 and match[0] in _LINKS and sentence[match.end() + 1 : match.end() + 2].isupper()):
            first, end = (match.start() if first < 0 else first), match.end()
        else:
            break
    if first >= 0:
        return None if folded(sentence[first:end]) in slot_cues.NO_NAMES else (first, end)
    if (near := re.compile(r"\s*((?:[\w-]+ )?[\w-]+)").match(sentence, at)) is not None:
        for name in (near[1], near[1].split(" ")[0]):
            if _is_place(name):
                return near.start(1), near.start(1) + len(name)
    return None


def _is_place(name: str) -> bool:
    return places.is_known(folded(name))


def _plain(text: str) -> str:
    return " ".join(folded(text).strip(" .,;:!'\"").split())


# ---- amounts ----


def _amounts(sentence: str, language: str) -> Iterator[SlotValue]:
    """Budgets: amounts of money, or bare numbers after the word itself."""
    cue = slot_cues.BUDGET.search(sentence)
    if cue is None or _AMOUNT.search(sentence) is None:
        return
    read = read_quantities(sentence, language)
    quantities = [q for q in read.numbers if q.dimension in MONEY or (cue["own"] and not q.dimension and not q.spelled)]
    quantities += [amount for date in read.dates if (amount := _amount_like_a_year(sentence, date)) is not None]
    if not quantities:
        return
    scope = _scope(sentence, slot_cues.budget_scopes())
    unit = next((q.dimension for q in quantities if q.dimension), "")
    first = quantities[0]
    if len(quantities) > 1 and _RANGE.search(sentence) is not None:
        second = quantities[1]
        bounds = sorted((first.base_values()[0], second.base_values()[0]))
        yield _budget(first.start, second.end, (bounds[0], bounds[1]), unit, scope)
    elif cue["own"] or len({q.base_values()[0] for q in quantities}) == 1:
        yield _budget(first.start, first.end, _bounds(first, sentence), unit, scope)


def _amount_like_a_year(sentence: str, date: Date) -> Quantity | None:
    """ "2000 dollars", which reads as a year."""
    unit_word = _UNIT_AFTER.match(sentence[date.end :])
    unit = unit_of(unit_word[1]) if unit_word is not None else None
    if unit is None or unit.dimension not in MONEY or not date.text.isdigit():
        return None
    return Quantity((float(date.text),), unit, 1.0, date.start, date.end + (unit_word.end() if unit_word else 0), date.text)


def _budget(start: int, end: int, bounds: tuple[float | None, float | None], unit: str, scope: str) -> SlotValue:
    low, high = bounds
    shown = "–".join(f"{bound:g}" for bound in dict.fromkeys(bound for bound in bounds if bound is not None))
    relation = "≤" if low is None else "≥" if high is None else ""
    return SlotValue("budget", f"{relation}{shown} {unit}".strip(), start, end, low, high, unit, scope)


def _bounds(quantity: Quantity, sentence: str) -> tuple[float | None, float | None]:
    worth = quantity.base_values()[0]
    before = sentence[max(0, quantity.start - 30) : quantity.start]
    if quantity.relation == "max" or slot_cues.AT_MOST.search(before):
        return None, worth
    if quantity.relation == "min":
        return worth, None
    if quantity.relation == "about":
        return worth * (1 - _ABOUT_SHARE), worth * (1 + _ABOUT_SHARE)
    return worth, worth


# ---- dates and times ----


def _dates_and_times(sentence: str, language: str) -> Iterator[SlotValue]:
    scope = _scope(sentence, slot_cues.date_scopes())
    if not scope or slot_cues.SEVERAL_OF_THEM.search(sentence) is not None:
        return  # a date of nothing in particular cannot be another's
    companion = slot_cues.COMPANION.search(sentence)
    if companion is not None and scope in ("meeting", "appointment", "event", "booking"):
        scope = f"{scope} with {folded(companion['who'])}"
    dates = [date for date in read_dates(sentence) if not date.decade and any(month for _, month, _ in date.readings)]
    slot = "birthday" if scope == "birthday" else "date"
    for date in dates:
        yield SlotValue(slot, _iso(date), date.start, date.end, scope="" if slot == "birthday" else scope)
    if not dates and (day := slot_cues.WEEKDAY.search(sentence)) is not None:
        yield SlotValue(slot, slot_cues.weekday(day[0]), *day.span(), scope=scope)
    times = read_quantities(sentence, language).times
    for time in times:
        yield SlotValue("time", "/".join(f"{m // 60:02d}:{m % 60:02d}" for m in time.minutes), time.start, time.end, scope=scope)
    if not times and (hour := slot_cues.HOUR.search(sentence)) is not None:
        yield SlotValue("time", f"{int(hour['hour']):02d}:00/{(int(hour['hour']) + 12) % 24:02d}:00", *hour.span("hour"), scope=scope)


def _iso(date: Date) -> str:
    """``2026-05-14``, ``05-14``, ``2026-05``; readings that cannot be told apart are joined."""
    return "/".join("-".join(f"{part:02d}" for part in reading if part is not None) for reading in date.readings)


def _scope(sentence: str, scopes: dict[str, re.Pattern[str]]) -> str:
    """What the sentence is about: the first that it names, but of a return flight the return."""
    found = {name: match.start() for name, pattern in scopes.items() if (match := pattern.search(sentence)) is not None}
    return "return" if "return" in found else min(found, key=found.__getitem__, default="")


# ---- two values ----


def compatible(one: SlotValue, other: SlotValue) -> bool:
    """Whether both can hold of one person at one time. Values of two slots always can."""
    if one.slot != other.slot or (one.scope != other.scope and not (one.slot == "price_level" and "" in (one.scope, other.scope))):
        return True
    same = _same_value(one, other)
    if one.negated or other.negated:
        return one.negated == other.negated or not same
    return same


def _same_value(one: SlotValue, other: SlotValue) -> bool:
    if one.low is not None or one.high is not None:
        return _amounts_meet(one, other)
    judge: Callable[[str, str], bool] | None = _JUDGES.get(one.slot)
    return one.value == other.value or (judge is not None and judge(one.value, other.value))


def _amounts_meet(one: SlotValue, other: SlotValue) -> bool:
    """Whether a value lies within a range, or two ranges overlap; two values, or two limits of one sort, answer the same question."""
    if one.unit and other.unit and one.unit != other.unit:
        return False
    if _sort(one) == _sort(other) != "range":
        return _near(one.low, other.low) and _near(one.high, other.high)
    low = max(bound for bound in (one.low, other.low, float("-inf")) if bound is not None)
    high = min(bound for bound in (one.high, other.high, float("inf")) if bound is not None)
    return low <= high * (1 + _SAME_SHARE)


def _sort(amount: SlotValue) -> str:
    if amount.low is None or amount.high is None:
        return "most" if amount.low is None else "least"
    return "value" if amount.low == amount.high else "range"


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _SAME_SHARE * max(abs(one), abs(other)) if max(abs(one), abs(other)) > 200 else one == other


def _either_of(one: str, other: str) -> bool:
    """Readings that cannot be told apart meet, 05-06 of two orders, and dates of which one leaves out the year or the day."""
    return any(_same_day(a, b) for a in one.split("/") for b in other.split("/"))


def _same_day(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long.endswith(short) or long.startswith(f"{short}-")


def _names_meet(one: str, other: str) -> bool:
    return set(one.split()) <= set(other.split()) or set(other.split()) <= set(one.split())


def _diets_meet(one: str, other: str) -> bool:
    """Only what one eats of animals excludes: gluten-free and vegan go together."""
    return not {one, other} <= slot_words.OF_ANIMALS


_JUDGES: dict[str, Callable[[str, str], bool]] = {
    "location": places.can_both_hold,
    "date": _either_of,
    "time": _either_of,
    "birthday": _either_of,
    "name": _names_meet,
    "employer": _names_meet,
    "diet": _diets_meet,
}
"""Slots of which two different values may hold at once."""


def clashing(older: Statement, newer: Statement) -> tuple[SlotValue, SlotValue] | None:
    """The first two values of `older` and `newer` that cannot both hold of one subject; None where there are none."""
    found = [
        (old, new)
        for new in newer.slots
        for old in older.slots
        if old.slot == new.slot and (older.subject == newer.subject or new.slot in OF_THE_ASSISTANT) and not compatible(old, new)
    ]
    return found[0] if found else None
