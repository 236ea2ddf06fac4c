"""Times and dates that follow from others that were said: so long apart, so long before or after, in another zone.

In: a time, a date or a duration of an answer, and what was said. Pure; bounded by `MAX_OPERANDS` of a kind.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from itertools import combinations
from math import inf

from msgspec.structs import replace

from proxy.language.dates import Date, Time
from proxy.language.quantities import Quantities, Quantity
from proxy.language.text import stretches
from proxy.offloop import each

MAX_OPERANDS = 24
"""Numbers of one kind that are tried with each other."""
MAX_RELATIVE_DAYS = 31
"""How far from another date a day may be that is told by it ("the second Monday after")."""
_UNIT_SECONDS = 86400.0
_ZONE = re.compile(
    r"\b(?:UTC|GMT|CES?T|MES?Z|EES?T|WES?T|BST|IST|MSK|[ECMP][SD]T|AE[SD]?T|JST|KST|SGT|HKT|NZ[SD]?T)\b|(?<=[\dmM.] )[ECMP]T\b|"
    r"\d(?:Z|[+-]\d\d:?\d\d)\b|(?<=[\dmM.] )[A-Z]\w+ time\b|\b(?:[Ll]ocal|Eastern|Central|Pacific|Mountain|European) "
    r"(?:[Ss]tandard |[Dd]aylight )?[Tt]ime\b|\bOrtszeit\b|\b\w+er Zeit\b|\b[Hh]ora (?:local|peninsular|de [A-Z]\w+)|"
    r"\b[Hh]eure (?:locale|de [A-Z]\w+)"
)
"""The name of a time zone, as it stands beside times."""
_ZONE_STEP_MINUTES = 30
"""Time zones are full hours apart, and some a half."""


def is_span(number: Quantity, quantities: Quantities) -> bool:
    """Whether two dates or times that were said are so far apart; to the day, hour or minute that the claim names, ends counted or not."""
    seconds = [abs(a - b) * 60.0 for a, b in combinations([m for t in quantities.times for m in t.minutes][:MAX_OPERANDS], 2)]
    days = [d for one in quantities.dates if (d := _day(one)) is not None][:MAX_OPERANDS]
    seconds += [abs((a - b).days + extra) * _UNIT_SECONDS for a, b in combinations(days, 2) for extra in (-1, 0, 1)]
    years = list(dict.fromkeys(y for one in quantities.dates for y, _, _ in one.readings if y is not None))[:MAX_OPERANDS]
    seconds += [abs(a - b + extra) * 31556952.0 for a, b in combinations(years, 2) for extra in (-1, 0, 1)]
    unit = number.unit.factor if number.unit else 1.0
    reach = 0.5 * unit if unit >= 604800 else 1.0
    return any(abs(wanted - made) <= max(reach, 0.0) for wanted in number.base_values() for made in seconds)


def _day(one: Date) -> date | None:
    year, month, day = one.readings[0]
    try:
        return None if month is None or day is None else date(year or 2001, month, day)
    except ValueError:
        return None


def _days_apart(one: Date, other: Date) -> float:
    """Days between two; where one has no year, within a year."""
    if any(day.readings[0][0] is None for day in (one, other)):
        one, other = (replace(day, readings=tuple((None, m, d) for _, m, d in day.readings)) for day in (one, other))
    mine, theirs = _day(one), _day(other)
    return inf if mine is None or theirs is None else abs((mine - theirs).days)


def time_derived(time: Time, quantities: Quantities) -> bool:
    """Whether a time is another that was said plus or minus a duration that was said."""
    steps = [q.base_values()[0] / 60 for q in quantities.numbers if q.dimension == "duration"][:MAX_OPERANDS]
    starts = [m for t in quantities.times for m in t.minutes][:MAX_OPERANDS]
    made = {round(start + sign * step) % 1440 for start in starts for step in steps for sign in (1, -1)}
    return not made.isdisjoint(time.minutes)


@lru_cache(maxsize=16)
def _zones(text: str) -> frozenset[str]:
    """The zones that a text names; what was said is asked about for each time of a claim."""
    return frozenset(zone for start, end in each(stretches(text)) for zone in _ZONE.findall(text, start, end))


def time_in_zone(time: Time, claim: str, said: str, quantities: Quantities) -> bool:
    """Whether a time may be one that was said, in another zone's: a zone is named, the claim is not in that one, and full or half hours lie
    between them.
    """
    named, own = _zones(said), _zones(claim)
    if not (named or own) or (own and own <= named):
        return False
    return any((minute - start) % _ZONE_STEP_MINUTES == 0 for t in quantities.times for start in t.minutes for minute in time.minutes)


def date_derived(one: Date, quantities: Quantities, *, told_by_others: bool = False) -> bool:
    """Whether a date is another that was said plus or minus a duration that was said; a day's name or a year alone is worked out, too.

    Where the text names days by others (`told_by_others`), one within a month of a date that was said may be meant.
    """
    days = {q.base_values()[0] / _UNIT_SECONDS for q in quantities.numbers if q.dimension == "duration"}
    steps = [round(step) for step in list(days)[:MAX_OPERANDS]]
    wanted = _day(one)
    if wanted is not None:
        known = [d for other in quantities.dates if (d := _day(other)) is not None][:MAX_OPERANDS]
        if told_by_others and any(_days_apart(one, other) <= MAX_RELATIVE_DAYS for other in quantities.dates[:MAX_OPERANDS]):
            return True
        return any(abs((wanted - d).days) in (step - 1, step, step + 1) for d in known for step in steps)
    years = [y for other in quantities.dates for y, _, _ in other.readings if y is not None][:MAX_OPERANDS]
    spans = [round(step / 365.2425) for step in days if step >= 300]
    return any(y is not None and any(abs(y - known) in spans[:MAX_OPERANDS] for known in years) for y, _, _ in one.readings)
