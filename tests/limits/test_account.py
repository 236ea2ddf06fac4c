"""What an account lets through, second by second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.keys import Limits
from proxy.limits.account import Account, decide, next_day, next_month
from proxy.limits.counter import LEASE_S, Amount, Ask, Settlement, Standing, Subject

NOON, NOTHING = 1_800_000_000.0, Amount()
KEY = (Subject("key", "ann"),)


def ask(account: Account, now: float, limits: Limits, amount: Amount = NOTHING, lease: str = "") -> Standing:
    """Reserves where it may."""
    account.advance(now)
    found = account.standing(now, limits, Ask(amount, amount))
    if found.refused is None:
        account.reserve(now, lease or f"{now}", amount)
    return found


def settled(account: Account, now: float, lease: str, at: float, reserved: Amount, taken: Amount) -> None:
    account.advance(now)
    account.settle(now, Settlement(lease, KEY, at, reserved, taken))


def test_what_was_taken_is_free_again_after_a_minute_and_not_before() -> None:
    account, limits = Account(), Limits(rpm=2)
    found = [ask(account, NOON + s, limits).refused for s in (0, 0.5, 30, 59.9, 60.1, 60.2, 60.3)]
    assert [None, None, "rpm", "rpm", None, None, "rpm"] == found


def test_the_wait_is_as_long_as_it_takes() -> None:
    account, limits = Account(), Limits(rpm=2, tpm=100)
    ask(account, NOON, limits, Amount(10))
    ask(account, NOON + 20, limits, Amount(80))
    refused = ask(account, NOON + 25, limits, Amount(10))
    assert ("rpm", 35.0) == (refused.refused, refused.wait_s)
    refused = ask(account, NOON + 25, limits, Amount(50))  # both requests' tokens have to go
    assert ("tpm", 55.0) == (refused.refused, refused.wait_s)


@given(st.lists(st.tuples(st.floats(0.001, 20), st.integers(0, 40)), max_size=60))
def test_in_no_minute_is_more_let_through_than_the_limit(asked: list[tuple[float, int]]) -> None:
    account, limits, now = Account(), Limits(rpm=5, tpm=100), NOON
    passed: list[tuple[int, int]] = []
    for pause, tokens in asked:
        now += pause
        if ask(account, now, limits, Amount(tokens), str(len(passed))).refused is None:
            passed.append((int(now), tokens))
    for second, _ in passed:
        within = [tokens for at, tokens in passed if second <= at < second + 60]
        assert len(within) <= 5
        assert sum(within) <= 100


def test_settled_once_whatever_comes_twice() -> None:
    account = Account()
    ask(account, NOON, Limits(), Amount(500, 9000), "x")
    for _ in range(3):
        settled(account, NOON + 1, "x", NOON, Amount(500, 9000), Amount(20, 100))
    found = account.standing(NOON + 1)
    assert (20, 100, 100, 0) == (found.tokens, found.day_micro_usd, found.month_micro_usd, found.open)


def test_an_open_request_counts_until_its_lease_runs_out_and_its_money_for_good() -> None:
    account, limits = Account(), Limits(concurrent=1)
    ask(account, NOON, limits, Amount(10, 700), "killed")
    assert "concurrent" == ask(account, NOON + LEASE_S - 1, limits).refused
    assert None is ask(account, NOON + LEASE_S + 1, limits, Amount(), "next").refused
    assert 700 == account.day_micro_usd
    settled(account, NOON + LEASE_S + 2, "killed", NOON, Amount(10, 700), Amount(10, 30))  # it was only slow
    assert 30 == account.day_micro_usd


def test_a_renewed_lease_goes_on_counting() -> None:
    account, limits = Account(), Limits(concurrent=1)
    ask(account, NOON, limits, Amount(), "long")
    account.renew(NOON + 50, "long")
    account.renew(NOON + 50, "unknown")
    assert "concurrent" == ask(account, NOON + 100, limits).refused


def test_days_and_months_are_those_of_utc() -> None:
    account, limits = Account(), Limits(usd_per_day=1, usd_per_month=1.5)
    last = 1_769_903_999.0  # 2026-01-31T23:59:59
    assert (None, 1.0) == (ask(account, last, limits, Amount(0, 900_000)).refused, next_day(last) - last)
    refused = ask(account, last, limits, Amount(0, 200_000))
    assert ("usd_per_day", 1.0) == (refused.refused, refused.wait_s)
    assert None is ask(account, last + 2, limits, Amount(0, 900_000)).refused
    assert 0.9 == account.month_micro_usd / 1e6  # another month, too
    assert 28 * 86_400 + 1 == next_month(last + 1) - last


def test_what_takes_more_than_was_thought_and_longer_than_a_minute_counts_when_it_ends() -> None:
    account = Account()
    ask(account, NOON, Limits(), Amount(10), "x")
    settled(account, NOON + 100, "x", NOON, Amount(10), Amount(35))
    assert 25 == account.standing(NOON + 100).tokens


@pytest.mark.parametrize("at", [1_709_164_800.0, 1_767_225_599.0, 1_798_761_600.0])
def test_a_month_begins_on_its_first(at: float) -> None:
    account = Account()
    account.advance(next_month(at) - 1)
    before = account.month
    account.advance(next_month(at))
    assert before != account.month
    assert account.day.endswith("-01")


def test_the_end_of_a_limit_is_used_by_one_request_after_the_other() -> None:
    account, limits = Account(), Limits(usd_per_day=0.001)
    subjects, asked = (Subject("key", "ann", limits),), Ask(Amount(0, 800), Amount(0, 100))

    def reserved(lease: str) -> tuple[bool, bool, float]:
        account.advance(NOON)
        found = decide([account], NOON, lease, subjects, asked)
        return found.granted, found.reduced, found.standings[0].wait_s

    assert [(True, False, 0.0), (False, False, 1.0)] == [reserved("a"), reserved("b")]  # as much as it may take is not left beside it
    settled(account, NOON, "a", NOON, asked.full, Amount(0, 250))
    assert (True, True, 0.0) == reserved("e")  # nothing is open: what it probably takes is left
    assert 350 == account.day_micro_usd
    settled(account, NOON, "e", NOON, asked.least, Amount(0, 700))
    found = reserved("f")
    assert (False, False) == found[:2]
    assert found[2] > 60
