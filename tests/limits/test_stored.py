"""Accounts and keys in the store, on both databases: exact over processes, settled once, nothing lost by what happens at once."""

import asyncio

import pytest

from proxy.config.keys import KeySettings, LimitName, Limits, LimitSettings
from proxy.errors import StoreUnavailable
from proxy.limits.accounts import DatabaseAccounts
from proxy.limits.counter import Amount, Ask, CounterAway, Settlement, Subject
from proxy.limits.keys import DatabaseKeyDays, DatabaseKeys
from proxy.limits.limiter import Limiter
from proxy.store.database import Database
from tests.store.conftest import CountingCounters, opened


def of(tokens: int, micro_usd: int) -> Ask:
    return Ask(Amount(tokens, micro_usd), Amount(tokens, micro_usd))


def subjects(key: Limits, team: Limits) -> tuple[Subject, ...]:
    return Subject("key", "ann", key, "red"), Subject("team", "red", team, "red")


@pytest.mark.parametrize(
    ("limits", "name"),
    [(Limits(rpm=10), "rpm"), (Limits(tpm=100), "tpm"), (Limits(concurrent=10), "concurrent"), (Limits(usd_per_day=0.0001), "usd_per_day")],
)
async def test_many_at_once_over_several_processes_get_exactly_the_limit(limits: Limits, name: LimitName, url: str) -> None:
    both = subjects(Limits(rpm=1000), limits)
    async with opened(url) as first, opened(url) as second:
        counters = [DatabaseAccounts(first), DatabaseAccounts(second)]
        found = await asyncio.gather(*(counters[i % 2].reserve(f"x{i}", both, of(10, 10)) for i in range(30)))
        key, team = await counters[0].look(both)
    assert 10 == sum(decision.granted for decision in found)
    assert {(None, None), (None, name)} == {tuple(one.refused for one in decision.standings) for decision in found}
    assert (10, 10, 100, 100) == (key.requests, team.requests, key.tokens, team.day_micro_usd)


async def test_a_request_is_settled_once_and_reserved_once(database: Database) -> None:
    accounts, both = DatabaseAccounts(database), subjects(Limits(rpm=5), Limits(usd_per_month=1))
    for _ in range(3):
        decision = await accounts.reserve("x", both, of(100, 5000))
    assert (True, 1) == (decision.granted, decision.standings[0].requests)
    settlement = Settlement("x", both, decision.at, Amount(100, 5000), Amount(7, 300))
    for _ in range(3):
        await accounts.settle([settlement, settlement])
    assert [(7, 300, 0)] * 2 == [(one.tokens, one.month_micro_usd, one.open) for one in await accounts.look(both)]


async def test_open_requests_are_renewed(database: Database) -> None:
    now = 1_800_000_000.0
    accounts, both = DatabaseAccounts(database, clock=lambda: now), subjects(Limits(concurrent=1), Limits())
    await accounts.reserve("x", both, Ask())
    await accounts.renew([("x", both), ("unknown", both)])
    assert [1, 1] == [one.open for one in await accounts.look(both)]


async def test_a_store_that_is_away_is_said(database: Database) -> None:
    await database.stop()
    for work in (DatabaseAccounts(database).reserve("x", subjects(Limits(), Limits()), Ask()), DatabaseAccounts(database).look(())):
        with pytest.raises(CounterAway):
            await work
    with pytest.raises(StoreUnavailable):
        await DatabaseKeys(database).changes()


async def test_an_answer_that_took_more_than_can_be_counted_holds_up_nobodys_settlement(database: Database) -> None:
    key = (Subject("key", "ann", Limits(tpm=1000), "ann"),)
    limiter = Limiter(DatabaseAccounts(database), LimitSettings(), CountingCounters())
    for name, tokens in (("x", 10**20), ("y", 7)):
        limiter.settle(await limiter.reserve(name, key, Ask()), Amount(tokens, tokens))
    await limiter.stop()
    (standing,) = await limiter.counter.look(key)
    assert (0, 2**53 + 7) == (standing.open, standing.tokens)


# ---- keys ----


def key(name: str, sha256: str = "a" * 64) -> KeySettings:
    return KeySettings(name=name, sha256=sha256, team="red", limits=Limits(rpm=5))


async def test_every_change_of_a_key_is_seen(database: Database) -> None:
    keys, seen = DatabaseKeys(database), set()
    for change in (
        keys.changes(),
        keys.add(key("ann")),
        keys.set_limits("ann", Limits(tpm=7)),
        keys.rotate("ann", "b" * 64, 60.0),
        keys.revoke("ann"),
        keys.set_team("red", Limits(rpm=1)),
        keys.set_team("red", Limits(rpm=2)),
    ):
        await change
        seen.add(await keys.changes())
    assert 7 == len(seen)
    found = await keys.all()
    (ann,) = found.keys
    assert ("revoked", "b" * 64, Limits(tpm=7), {"red": Limits(rpm=2)}) == (ann.status, ann.key.sha256, ann.key.limits, found.teams)
    assert {("a" * 64, 0.0), ("b" * 64, 0.0)} == {(sha256, until) for sha256, (_, until) in ann.hashes().items()}


async def test_a_name_is_taken_once_and_a_revoked_key_does_not_come_back(database: Database) -> None:
    keys = DatabaseKeys(database)
    assert [True, False] == [await keys.add(key("ann")), await keys.add(key("ann", "b" * 64))]
    assert await keys.revoke("ann")
    assert [None, None, None] == [await keys.revoke("ann"), await keys.rotate("ann", "c" * 64, 0), await keys.set_limits("ann", Limits())]
    assert not await keys.add(key("ann"))


async def test_spending_is_added_up_by_what_it_is_asked_for(url: str) -> None:
    one = ("2026-01-31", "ann", "red", "gpt-4o")
    async with opened(url) as first, opened(url) as second:
        stores = DatabaseKeyDays(first), DatabaseKeyDays(second)
        await asyncio.gather(*(stores[i % 2].add({one: (1, 0, 10, 2, 500)}) for i in range(20)))
        await stores[0].add(
            {("2026-02-01", "bob", "red", "o3"): (1, 3, 1, 1, 2_000_000), ("2025-12-01", "ann", "red", "o3"): (9, 0, 0, 0, 0)}
        )
        by_client = await stores[1].spending(("client",), "2026-01-01")
        by_team_and_day = await stores[1].spending(("team", "day"), "2026-01-01")
        of_ann = await stores[1].spending(("model",), "2026-01-01", client="ann")
        await stores[0].forget("2026-01-01")
        assert 2 == len(await stores[1].spending(("day",), "2000-01-01"))
    assert [("bob", 1, 3, 2.0), ("ann", 20, 0, 0.01)] == [(row.client, row.requests, row.refused, row.usd) for row in by_client]
    assert [("2026-02-01", "red", ""), ("2026-01-31", "red", "")] == [(row.day, row.team, row.model) for row in by_team_and_day]
    assert [("gpt-4o", 200, 40)] == [(row.model, row.prompt_tokens, row.completion_tokens) for row in of_ann]


async def test_what_waited_while_the_store_was_away_is_added_however_much_it_is(database: Database) -> None:
    days = DatabaseKeyDays(database)
    await days.add({("2026-01-31", "ann", "red", f"model-{n}"): (1, 0, 1, 1, 1) for n in range(5000)})
    assert [5000] == [row.requests for row in await days.spending(("client",), "2026-01-01")]
    assert database.available


async def test_names_that_the_store_cuts_to_the_same_are_added_to_one_row(database: Database) -> None:
    days = DatabaseKeyDays(database)
    await days.add({("2026-01-31", "ann", "red", "m" * 600 + end): (1, 0, 1, 1, 1) for end in "ab"})
    assert [("m" * 512, 2)] == [(row.model, row.requests) for row in await days.spending(("model",), "2026-01-01")]


async def test_a_settlement_that_is_dropped_as_too_many_wait_is_counted_and_said_once(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("proxy.limits.limiter._MAX_WAITING", 2)
    counters = CountingCounters()
    limiter = Limiter(DatabaseAccounts(database), LimitSettings(), counters)  # not started: nothing is settled
    for number in range(4):
        limiter.settle(await limiter.reserve(f"gw_{number}", (), Ask()), Amount())
    assert ["gw_2", "gw_3"] == [one.lease for one in limiter._waiting]
    assert 2 == counters["limits.dropped_count"]
    assert 1 == caplog.text.count("wait to be settled")
