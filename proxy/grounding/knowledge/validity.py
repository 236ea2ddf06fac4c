"""``valid_from`` and ``valid_to`` of a row -> seconds since the epoch.

A date stands for its whole day, a month or year for all of it, in UTC: ``valid_from: 2024`` begins with 1 January, ``valid_to: 2024`` ends
with 31 December. ISO 8601 (https://www.iso.org/iso-8601-date-and-time-format.html); a number is seconds since the epoch.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")


def instant(value: object, *, end: bool = False) -> float | None:
    """When it begins, or with `end` when it is over; None for no value. Raises `ValueError`, saying what was expected."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise ValueError(f"expected a date as 2024-01-31, got {value!r}")
    text = value.strip()
    try:
        if (match := _DATE.fullmatch(text)) is not None:
            return _of_date(match, end).timestamp()
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"expected a date as 2024-01-31, got {text[:40]!r}") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _of_date(match: re.Match[str], end: bool) -> datetime:
    year, month, day = int(match[1]), match[2], match[3]
    start = datetime(year, int(month or 1), int(day or 1), tzinfo=UTC)
    if not end:
        return start
    if day:
        return start + timedelta(days=1)
    following = (year, int(month) + 1) if month and int(month) < 12 else (year + 1, 1)
    return datetime(*following, 1, tzinfo=UTC)
