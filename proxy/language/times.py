"""A time as clients, tools and documents write it -> seconds since the epoch. The only parser of such times. Pure.

A number is seconds, or milliseconds where it is as large as they are; a text is ISO 8601 (UTC without an offset), or as mail and HTTP have
it (RFC 2822), or such a number.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MILLISECONDS = 1e11
"""Numbers above are milliseconds: as seconds they would lie in the year 5138."""


def seconds_of(value: object, *, earliest: float = -math.inf) -> float | None:
    """Seconds since the epoch; None for what is no time, or a number below `earliest`, which may then be something else."""
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
