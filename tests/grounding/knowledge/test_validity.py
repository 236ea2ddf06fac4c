"""Dates of a row -> instants."""

from datetime import UTC, datetime

import pytest

from proxy.grounding.knowledge.reading import instant


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("value", "begin", "end"),
    [
        ("2024-01-31", utc(2024, 1, 31), utc(2024, 2, 1)),
        ("2024-12", utc(2024, 12, 1), utc(2025, 1, 1)),
        ("2024-02", utc(2024, 2, 1), utc(2024, 3, 1)),
        (" 2024 ", utc(2024, 1, 1), utc(2025, 1, 1)),
        ("2024-01-31T12:00:00+02:00", utc(2024, 1, 31, 10), utc(2024, 1, 31, 10)),
        ("2024-01-31 12:00", utc(2024, 1, 31, 12), utc(2024, 1, 31, 12)),
        (86400, 86400.0, 86400.0),
        ("", None, None),
        (None, None, None),
    ],
)
def test_a_date_stands_for_all_of_it(value: object, begin: float | None, end: float | None) -> None:
    assert (begin, end) == (instant(value), instant(value, end=True))


@pytest.mark.parametrize("value", ["31.01.2024", "2024-13-01", "soon", True, ["2024"]])
def test_anything_else_is_refused_with_what_was_expected(value: object) -> None:
    with pytest.raises(ValueError, match="expected a date as 2024-01-31"):
        instant(value)
