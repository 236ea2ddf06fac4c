"""Ages and what they are worth."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.validation.quality import freshness, seconds_of, spoken, time_in

NOON = 1714564800.0  # 2024-05-01T12:00:00Z


@pytest.mark.parametrize(
    "said",
    [
        NOON,
        int(NOON),
        NOON * 1000,
        "1714564800",
        "1714564800.0",
        "1714564800000",
        "2024-05-01T12:00:00Z",
        "2024-05-01T14:00:00+02:00",
        "2024-05-01 12:00:00",
        " 2024-05-01T12:00:00.000+00:00 ",
        "20240501T120000Z",
        "Wed, 01 May 2024 12:00:00 GMT",
        "Wed, 01 May 2024 08:00:00 -0400",
        datetime(2024, 5, 1, 12, tzinfo=UTC),
        datetime(2024, 5, 1, 12),
        datetime(2024, 5, 1, 15, tzinfo=timezone(timedelta(hours=3))),
    ],
)
def test_a_time_is_read_in_every_common_form(said: object) -> None:
    assert NOON == seconds_of(said)


@pytest.mark.parametrize("said", [None, True, "", "yesterday", "12", 2024, "2024", 0, -5, math.nan, math.inf, 10**400, [], {}, "May"])
def test_what_is_no_time_is_none(said: object) -> None:
    assert seconds_of(said) is None


def test_a_date_alone_is_its_first_second_in_utc() -> None:
    assert NOON - 12 * 3600 == seconds_of("2024-05-01")


def test_a_result_s_own_field_says_when_it_was_so() -> None:
    assert NOON == time_in({"city": "Graz", "fetched_at": "2024-05-01T12:00:00Z"})


def test_when_an_order_was_created_is_no_age_of_its_result() -> None:
    assert time_in({"created_at": "2019-01-01", "date": "2019-01-01"}) is None


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [(0, 1.0), (60, 1.0), (3600, 1.0), (7200, 0.5), (36_000, 0.1), (360_000, 0.01)],
)
def test_content_is_fresh_up_to_the_greatest_age_and_worth_less_beyond(age_s: float, expected: float) -> None:
    assert expected == freshness(NOON - age_s, NOON, 3600).value


def test_without_a_timestamp_nothing_is_measured() -> None:
    metric = freshness(None, NOON)
    assert (None, False, "no timestamp") == (metric.value, metric.measured, metric.note)


def test_a_clock_that_is_a_little_ahead_is_fresh() -> None:
    assert 1.0 == freshness(NOON + 299, NOON).value


def test_a_time_that_is_yet_to_come_tells_no_age() -> None:
    metric = freshness(NOON + 86_400, NOON)
    assert (None, False, "timestamp in the future") == (metric.value, metric.measured, metric.note)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(1, 1e7))
def test_the_older_the_less_fresh(one: float, other: float, max_age: float) -> None:
    young, old = sorted((one, other))
    values = [freshness(2e9 - age, 2e9, max_age).value for age in (young, old)]
    assert values[0] is not None
    assert values[1] is not None
    assert 1 >= values[0] >= values[1] > 0


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (90_000, "25 h"), (172_800, "2 days")]
)
def test_an_age_as_it_is_said(seconds: float, said: str) -> None:
    assert said == spoken(seconds)
