"""Times of day in words, in English, German, Spanish and French: "half past five", "halb sechs", "las siete y media".

In: a text. Out: where such a time stands, its hour and its minutes. Used by `proxy.language.dates`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.language.number_words import LANGUAGES, word_value
from proxy.language.patterns import LazyPattern

_N = r"[0-2]?\d|[a-zäöüéß]{3,7}"
_MAY_BE = re.compile(
    r"(?i:half |quarter |halb |viertel | las? |heures |clock|uhr|in the |du (?:matin|soir)|de l.apr|noon|mid[inm]|medi|mitter|minuit)"
)
"""A first look that is true of whatever `_WORDED` finds: few texts need the closer one."""
_WORDED = LazyPattern(
    rf"\b(?:(?P<part>half|quarter|halb|viertel) ?(?P<way>past|to|nach|vor)? (?P<hour>{_N})(?: Uhr\b)?"
    rf"|(?:a|hasta|desde|de|sobre) las? (?P<spanish>{_N})(?: (?P<more>y media|y cuarto|menos cuarto))?"
    rf"|(?P<french>{_N}) heures (?P<plus>et demie|et quart|moins le quart)"
    rf"|(?P<noon>noon|mediodía|(?<=à )midi)|(?P<midnight>midnight|mitternacht|medianoche|minuit)"
    rf"|(?P<oclock>{_N}) (?:o['’]clock|Uhr)"
    rf"|(?P<bare>{_N})(?= (?:in the (?:morning|afternoon|evening)|du matin|du soir|de l['’]après-midi)\b))(?!\w)",
    re.I,
)
_EVENING = LazyPattern(
    r",? ?(?:in the (?:afternoon|evening)|at night|nachmittags|abends|de la (?:tarde|noche)|du soir|de l['’]après-midi)\b", re.I
)
_MORNING = LazyPattern(r",? ?(?:in the morning|morgens|früh|vormittags|de la mañana|du matin)\b", re.I)
_PARTS = {"half": 30, "y media": 30, "et demie": 30, "y cuarto": 15, "et quart": 15, "menos cuarto": -15, "moins le quart": -15}


def read_worded_times(text: str) -> Iterator[tuple[int, int, int]]:
    """``(minutes since midnight, start, end)`` of each, in order; before noon where the text does not say which half of the day."""
    for match in _WORDED.finditer(text) if _MAY_BE.search(text) else ():
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
    value = float(said) if said.isdigit() else next((v for t in LANGUAGES if (v := word_value(said.lower(), t)) is not None), None)
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
