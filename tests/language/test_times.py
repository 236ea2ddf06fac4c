"""One parser of times for everything that a client, a tool or a document says."""

import pytest

from proxy.language.dates import seconds_of
from tests.conftest import CHAT, Start


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (12, 12.0),
        (1.5, 1.5),
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T00:01:00", 60.0),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("1970-01-02", 86400.0),
        (1_700_000_000_000, 1_700_000_000.0),
        ("1700000000", 1_700_000_000.0),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 60.0),
        ("soon", None),
        (True, None),
        (None, None),
        (float("nan"), None),
        ({}, None),
    ],
)
def test_numbers_iso_8601_and_the_dates_of_mail_are_times(value: object, expected: float | None) -> None:
    assert expected == seconds_of(value)


def test_small_numbers_are_none_where_they_may_be_something_else() -> None:
    assert (None, 2e8) == (seconds_of(2024, earliest=1e8), seconds_of(2e8, earliest=1e8))


@pytest.mark.parametrize(("timestamp", "status"), [("2026-03-01T00:00:00Z", 200), (1_700_000_000, 200), ("yesterday", 400), ([], 400)])
async def test_a_passages_time_may_be_written_in_each_way(timestamp: object, status: int, start: Start) -> None:
    async with start() as proxy:
        got = await proxy.post({**CHAT, "groundwire": {"context": [{"content": "x", "timestamp": timestamp}]}})
    assert status == got.status
