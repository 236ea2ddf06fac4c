"""Dates and times of day in a text, in six languages; numeric ones in both orders where both are possible.

In: a text. Out: its dates with their place. Used by `proxy.language.quantities`, which reads the numbers that are left. `seconds_of`
reads a moment as clients, tools and documents write it, and is the only parser of such.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from msgspec import Struct

from proxy.language.number_words import MAIN_LANGUAGES, word_value
from proxy.language.patterns import LazyPattern, phrases
from proxy.offloop import each

_TEXTS = phrases(Path(__file__).parent)

Reading = tuple[int | None, int | None, int | None]
"""Year, month, day; None for what is not said."""


class Date(Struct, frozen=True):
    """One mention of a date."""

    readings: tuple[Reading, ...]
    start: int
    end: int
    text: str
    decade: bool = False
    """Any year of the ten from the reading's on."""
    bound: str = ""
    """``before`` or ``after`` it, where the text says so."""


MONTHS: dict[str, int] = {
    word: n
    for n, words in enumerate(
        (
            "january jan januar jänner enero janvier gennaio janeiro",
            "february feb februar febrero février febbraio fevereiro",
            "march mar märz marzo mars março",
            "april apr abril avril aprile",
            "may mai mayo maggio maio",
            "june jun juni junio juin giugno junho",
            "july jul juli julio juillet luglio julho",
            "august aug agosto août",
            "september sep sept septiembre setiembre septembre settembre setembro",
            "october oct oktober okt octubre octobre ottobre outubro",
            "november nov noviembre novembre novembro",
            "december dec dezember dez diciembre décembre dicembre dezembro",
        ),
        1,
    )
    for word in words.split()
}
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_YEAR = r"(?:1\d|20)\d\d"
_TWO_DIGITS = r"(?:0\d|[12]\d|3[01])"
_ON = "|".join(rf"(?<=\b{word}\ )" for word in str.split("am vom bis ab zum seit le du au el del al il dal em no dia"))
"""Before a day and a month in figures: without such a word "06.04" may be a number."""
_OF_AMOUNTS = r"(?:[kM]?[€$£]|(?:\d{3}|thousand|millions?|tausend|mio|mil|milliers|mila|milioni|milhões|millones|k?EUR|euros?)\b)"
"""Behind a number that is then no year."""
_DATE = LazyPattern(
    rf"(?<!\w)(?:(?<![./-])(?P<iso>{_YEAR}-[01]?\d-[0-3]?\d)(?!\d)"
    rf"|(?<![.,/-])(?P<year_month>{_YEAR}-(?:0[1-9]|1[0-2]))(?![\d/-])"
    rf"|(?<![.,/-])(?P<numeric>[0-3]?\d(?P<sep>[./-])[0-3]?\d(?P=sep)(?:{_YEAR}|\d\d))(?![\d.,/-]?\d)"
    rf"|(?<![.,])(?P<day>[0-3]?\d)(?:[.º°]|st|nd|rd|th|er)?(?:\ (?:of|de))?"
    rf"\ (?P<month>{_MONTH})\b\.?(?:(?:,|\ del?)?\ (?P<year>{_YEAR})\b)?"
    rf"|(?P<month2>{_MONTH})\b\.?\ (?P<day2>[0-3]?\d)(?:st|nd|rd|th)?(?![\w:]|[.,]\d)(?:,?\ (?P<year2>{_YEAR})\b)?"
    rf"|(?P<month3>{_MONTH})\b\.?(?:,|\ del?)?\ (?P<year3>{_YEAR})(?!\w|[.,]\d)"
    rf"|(?=[0-3]\d[./][01]\d)(?<![\w.,:/-])(?P<short>{_TWO_DIGITS}\.(?:0\d|1[0-2])\.(?=[,;)]|\ (?-i:[a-zäöüßàéè\d(–-]))"
    rf"|(?:{_ON})(?:{_TWO_DIGITS}\.(?:0\d|1[0-2])\.(?!\d)|{_TWO_DIGITS}/(?:0\d|1[0-2])(?![\w/]))|{_TWO_DIGITS}/0\d(?![\w/%]))"
    rf"|(?<![.,$€£/-])(?P<decade>{_YEAR[:-2]}0)['’]?(?:s|er(?:\ Jahren?)?)\b|(?:años|années)\ (?P<decade2>{_YEAR[:-2]}0)\b"
    rf"|(?<![.,$€£/'’])(?<![^\W\d]-)(?P<alone>{_YEAR})(?!\w|[.,/'’]\d|\ {_OF_AMOUNTS}))",
    re.I,
)
_TIME = LazyPattern(
    r"(?<![\w.,:])(?P<hour>[0-2]?\d)(?:(?:[:h]|\ h\ )(?P<minute>[0-5]\d)(?::[0-5]\d)?(?!\d)(?:\s?(?P<half>[ap])\.?m\b)?|"
    r"\.(?P<minute2>[0-5]\d)(?:\ Uhr\b|(?=\s?[ap]\.?m\b)\s?(?P<half3>[ap])\.?m\b)|\s?(?P<half2>[ap])\.?m\b|\ Uhr\b"
    r"|(?:(?<=\blas\ \d)|(?<=\blas\ \d\d)|(?<=\balle\ \d)|(?<=\balle\ \d\d)|(?<=\bore\ \d)|(?<=\bore\ \d\d))"
    r"\.(?P<minute3>[0-5]\d)(?!\d|,\d)"
    r"|(?=(?:\ ?[-–]\ ?|\ (?:to|until|till|bis|und)\ )[0-2]?\d(?:[:.][0-5]\d)?\ ?(?:[ap]\.?m|Uhr)\b)"
    r"|\ ?h(?:eures?)?(?=\ (?:à|et)\ [0-2]?\d\ ?h\b)|(?<=\bà\ \d)\ ?h(?:eures?)?(?![\w])|(?<=\bà\ \d\d)\ ?h(?:eures?)?(?![\w]))",
    re.I,
)
_BEFORE = LazyPattern(
    r"\b(?:before|prior to|by|until|till|vor(?: dem)?|bis(?: zum)?|antes del?|hasta(?: el)?|avant(?: le)?|jusqu['’](?:en|au)"
    r"|prima del|entro il|fino al?|até(?: ao?)?)\s+(?:the\s+)?$",
    re.I,
)
_AFTER = LazyPattern(
    r"\b(?:after|since|nach(?: dem)?|seit(?: dem)?|ab(?: dem)?|después del?|desde(?: el| o)?|a partir del?|après(?: le)?|depuis(?: le)?"
    r"|à partir du|dopo il|dal|depois de)\s+(?:the\s+)?$",
    re.I,
)
_BOUND_CHARS = 18
_DAY, _NOON = 24 * 60, 12 * 60


class Time(Struct, frozen=True):
    """One time of day; minutes since midnight, both halves of the day where the text does not say which."""

    minutes: tuple[int, ...]
    start: int
    end: int
    text: str


def read_dates(text: str) -> list[Date]:
    """The dates of `text`, in order; a year alone is one."""
    return list(_dates(text)) if any(c.isdigit() for c in text) else []


def _dates(text: str) -> Iterator[Date]:
    for match in each(_DATE.finditer(text)):
        readings = _readings(match)
        if not readings:
            continue
        before = text[max(0, match.start() - _BOUND_CHARS) : match.start()]
        bound = "before" if _BEFORE.search(before) else "after" if _AFTER.search(before) else ""
        yield Date(readings, match.start(), match.end(), match[0], bool(match["decade"] or match["decade2"]), bound)


def _readings(match: re.Match[str]) -> tuple[Reading, ...]:
    if (year := match["alone"] or match["decade"] or match["decade2"]) is not None:
        return ((int(year), None, None),)
    if match["year_month"]:
        y, m = (int(part) for part in match["year_month"].split("-"))
        return ((y, m, None),)
    if match["iso"]:
        y, m, d = (int(part) for part in match["iso"].split("-"))
        return _possible((y, m, d))
    if match["numeric"]:
        a, b, y = (int(part) for part in match["numeric"].split(match["sep"]))
        years = (y,) if y > 99 else (2000 + y, 1900 + y)
        return _possible(*((y, m, d) for y in years for m, d in ((b, a), (a, b))))
    if match["short"]:
        d, m = (int(part) for part in re.findall(r"\d\d", match["short"]))
        return _possible((None, m, d), *([(None, d, m)] if "/" in match["short"] else []))
    year = match["year"] or match["year2"] or match["year3"]
    month = MONTHS[(match["month"] or match["month2"] or match["month3"]).lower()]
    day = match["day"] or match["day2"]
    return _possible((int(year) if year else None, month, int(day) if day else None))


def _possible(*readings: Reading) -> tuple[Reading, ...]:
    return tuple(dict.fromkeys(r for r in readings if 1 <= (r[1] or 1) <= 12 and 1 <= (1 if r[2] is None else r[2]) <= 31))


def read_times(text: str) -> list[Time]:
    """The times of day in `text`, in order."""
    found = []
    for match in each(_TIME.finditer(text)):
        hour, minute, half = (
            int(match["hour"]),
            int(match["minute"] or match["minute2"] or match["minute3"] or 0),
            (match["half"] or match["half2"] or match["half3"] or "").lower(),
        )
        half = half or half_of_day(text, match.end())
        if hour > 24 or (half and hour > 12):
            continue
        minutes = hour * 60 + minute
        readings = _readings_of(minutes, half) if minutes != _NOON or half else (_NOON, 0)
        found.append(Time(readings, match.start(), match.end(), match[0]))
    taken = {at for time in found for at in range(time.start, time.end)}
    for minutes, start, end in read_worded_times(text):
        if start not in taken and end - 1 not in taken:
            found.append(Time(_readings_of(minutes, half_of_day(text, end)), start, end, text[start:end]))
    return sorted(found, key=lambda time: time.start)


def _readings_of(minutes: int, half: str) -> tuple[int, ...]:
    """Minutes since midnight of a time up to noon in each half of the day that it may be in."""
    if minutes >= 13 * 60:
        return (minutes % _DAY,)
    if minutes in (0, _NOON) and not half:
        return (minutes,)
    if half:
        return (minutes % _NOON + (_NOON if half == "p" else 0),)
    return (minutes % _DAY, (minutes + _NOON) % _DAY)


def date_agrees(claim: Date, evidence: Date) -> bool:
    """Whether the claim's date is the evidence's, or one that follows from it: its year, its decade, a time before or after it."""
    return any(_reading_agrees(claim, c, e) for c in claim.readings for e in evidence.readings)


def _reading_agrees(claim: Date, c: Reading, e: Reading) -> bool:
    if claim.decade:
        return c[0] is not None and e[0] is not None and c[0] <= e[0] < c[0] + 10
    if all(part is None or part == e[i] for i, part in enumerate(c)):
        return True
    if not claim.bound or c[0] is None or e[0] is None:
        return False
    first, second = [part or 0 for part in c], [part or 0 for part in e]
    return second <= first if claim.bound == "before" else second >= first


# ---- clock words ----


_HOUR = r"[0-2]?\d|[a-zäöüéß]{3,7}"
_MAY_BE = re.compile(
    r"(?i:half |quarter |halb |viertel | las? |heures |clock|uhr|in the |du (?:matin|soir)|de l.apr|noon|mid[inm]|medi|mitter|minuit)"
)
"""A first look that is true of whatever `_WORD_TIMES` finds: few texts need the closer one."""
_WORD_TIMES = LazyPattern(
    rf"\b(?:(?P<part>half|quarter|halb|viertel) ?(?P<way>past|to|nach|vor)? (?P<hour>{_HOUR})(?: Uhr\b)?"
    rf"|(?:a|hasta|desde|de|sobre) las? (?P<spanish>{_HOUR})(?: (?P<more>y media|y cuarto|menos cuarto))?"
    rf"|(?P<french>{_HOUR}) heures (?P<plus>et demie|et quart|moins le quart)"
    rf"|(?P<noon>noon|mediodía|(?<=à )midi)|(?P<midnight>midnight|mitternacht|medianoche|minuit)"
    rf"|(?P<oclock>{_HOUR}) (?:o['’]clock|Uhr)"
    rf"|(?P<bare>{_HOUR})(?= (?:in the (?:morning|afternoon|evening)|du matin|du soir|de l['’]après-midi)\b))(?!\w)",
    re.I,
)
_EVENING = LazyPattern(
    r",? ?(?:in the (?:afternoon|evening)|at night|nachmittags|abends|de la (?:tarde|noche)|du soir|de l['’]après-midi)\b", re.I
)
_MORNING = LazyPattern(r",? ?(?:in the morning|morgens|früh|vormittags|de la mañana|du matin)\b", re.I)
_PARTS = {"half": 30, "y media": 30, "et demie": 30, "y cuarto": 15, "et quart": 15, "menos cuarto": -15, "moins le quart": -15}


def read_worded_times(text: str) -> Iterator[tuple[int, int, int]]:
    """``(minutes since midnight, start, end)`` of each, in order; before noon where the text does not say which half of the day."""
    for match in _WORD_TIMES.finditer(text) if _MAY_BE.search(text) else ():
        if match["noon"] or match["midnight"]:
            yield 0 if match["midnight"] else 12 * 60, match.start(), match.end()
            continue
        said = match["hour"] or match["spanish"] or match["french"] or match["oclock"] or match["bare"]
        hour = _hour(said)
        if hour is not None and (minutes := _minutes(match)) is not None:
            yield hour * 60 + minutes, match.start(), match.end()


def half_of_day(text: str, end: int) -> str:
    """``a`` or ``p`` where the words behind a time say in which half of the day it is; else ""."""
    return "p" if _EVENING.match(text, end) else "a" if _MORNING.match(text, end) else ""


def _hour(said: str) -> int | None:
    value = float(said) if said.isdigit() else next((v for t in MAIN_LANGUAGES if (v := word_value(said.lower(), t)) is not None), None)
    return int(value) if value is not None and 1 <= value <= 24 else None


def _minutes(match: re.Match[str]) -> int | None:
    part, way = (match["part"] or "").lower(), (match["way"] or "").lower()
    if part in ("quarter", "viertel"):
        return {"past": 15, "nach": 15, "to": -15, "vor": -15}.get(way)
    if part == "halb":
        return -30
    if part == "half":
        return 30 if way == "past" else None
    return _PARTS.get((match["more"] or match["plus"] or "").lower(), 0)


# ---- relative days ----


_RELATIVE = LazyPattern(_TEXTS.RELATIVE)


def tells_days_by_others(text: str) -> bool:
    """Whether `text` names a day by its distance from another."""
    return _RELATIVE.search(text.casefold()) is not None


# ---- moments ----


_MILLISECONDS = 1e11
"""Numbers above are milliseconds: as seconds they would lie in the year 5138."""


def seconds_of(value: object, *, earliest: float = -math.inf) -> float | None:
    """Seconds since the epoch. A number is seconds, or milliseconds where it is as large as they are; a text is ISO 8601 (UTC without an
    offset), or as mail and HTTP have it (RFC 2822), or such a number.

    None for what is no time, or a number below `earliest`, which may then be something else.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _of_number(value, earliest)
    if isinstance(value, datetime):
        return _of_moment(value)
    return _of_text(value.strip(), earliest) if isinstance(value, str) else None


def _of_number(value: float, earliest: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number) or number < earliest:
        return None
    return number / 1000 if number > _MILLISECONDS else number


def _of_moment(moment: datetime) -> float | None:
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, OSError, ValueError):
        return None


def _of_text(text: str, earliest: float) -> float | None:
    if text.replace(".", "", 1).isdecimal() and len(text) > 8:  # "20240501" is a date
        return _of_number(float(text), earliest)
    try:
        return _of_moment(datetime.fromisoformat(text))
    except ValueError:
        pass
    try:
        return _of_moment(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
