"""Valkey's script decides as an account does, keeps on when its server comes back, and counts over clients exactly."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.config.keys import LimitName, Limits
from proxy.limits import valkey
from proxy.limits.account import Account, decide
from proxy.limits.counter import Amount, Ask, CounterAway, Decision, Settlement, Standing, Subject
from proxy.limits.valkey import ValkeyAccounts
from tests.limits.valkey import Server

pytestmark = pytest.mark.process


@pytest.fixture
async def counter(valkey_server: Server) -> AsyncIterator[ValkeyAccounts]:
    made = ValkeyAccounts(valkey_server.url)
    await made.start()
    yield made
    await made.stop()


LIMIT = st.none() | st.integers(1, 12)
LIMITS = st.builds(
    lambda rpm, tpm, concurrent, day, month: Limits(
        rpm=rpm, tpm=tpm and tpm * 10, concurrent=concurrent, usd_per_day=day and day / 10, usd_per_month=month and month / 10
    ),
    LIMIT,
    LIMIT,
    LIMIT,
    LIMIT,
    LIMIT,
)
AMOUNT = st.builds(Amount, st.integers(0, 40), st.integers(0, 300_000))
STEP = st.tuples(st.sampled_from(["reserve", "settle", "again"]), AMOUNT, st.integers(0, 15))
_runs = iter(range(10**9))


def alike(one: Standing, other: Standing) -> bool:
    """The same, whenever the clock was looked at."""
    exact: tuple[str, ...] = ("refused", "requests", "tokens", "open", "day_micro_usd", "month_micro_usd")
    return all(getattr(one, name) == getattr(other, name) for name in exact)


def near(one: Standing, other: Standing) -> bool:
    """The same at one moment."""
    return alike(one, other) and abs(one.wait_s - other.wait_s) < 0.01 and abs(one.reset_s - other.reset_s) < 0.01


@given(LIMITS, LIMITS, st.lists(STEP, max_size=25))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_script_and_the_account_decide_alike(
    valkey_server: Server, key: Limits, team: Limits, steps: list[tuple[str, Amount, int]]
) -> None:
    asyncio.run(_alike(valkey_server.url, key, team, steps))


async def _alike(url: str, key: Limits, team: Limits, steps: list[tuple[str, Amount, int]]) -> None:
    counter, run = ValkeyAccounts(url), f"run{next(_runs)}"
    await counter.start()
    subjects = (Subject("key", run, key, run), Subject("team", run, team, run))
    accounts, granted = [Account(), Account()], dict[str, tuple[float, Amount]]()
    try:
        for i, (op, amount, which) in enumerate(steps):
            lease = f"x{which}" if op != "reserve" else f"x{i}"
            if op == "settle":
                at, reserved = granted.get(lease, (0.0, Amount()))
                one = Settlement(lease, subjects, at, reserved, amount)
                await counter.settle([one])
                now = (await _looked(counter, subjects, accounts)).at
                for account in accounts:
                    account.advance(now)
                    account.settle(now, one)
            elif op == "reserve" or lease in granted:
                asked = Ask(amount, Amount(amount.tokens // 3, amount.micro_usd // 3))
                decision = await counter.reserve(lease, subjects, asked)
                for account in accounts:
                    account.advance(decision.at)
                expected = decide(accounts, decision.at, lease, subjects, asked)
                assert expected.reduced == decision.reduced
                assert all(map(near, decision.standings, expected.standings)), (decision, expected)
                if decision.granted:
                    granted.setdefault(lease, (decision.at, amount))
            found = await counter.look(subjects)
            assert all(map(alike, found, [account.standing((await _looked(counter, subjects, accounts)).at) for account in accounts]))
    finally:
        await counter.stop()


async def _looked(counter: ValkeyAccounts, subjects: tuple[Subject, ...], accounts: list[Account]) -> Decision:
    """The server's clock."""
    answer = await counter._run("look", subjects, {})
    return valkey._decision(answer)


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(rpm=100), "rpm"),
        (Limits(tpm=1000), "tpm"),
        (Limits(concurrent=100), "concurrent"),
        (Limits(usd_per_month=0.001), "usd_per_month"),
    ],
)
async def test_many_at_once_over_several_clients_get_exactly_the_limit(limits: Limits, name: LimitName, valkey_server: Server) -> None:
    counters = [ValkeyAccounts(valkey_server.url) for _ in range(4)]
    subject = (Subject("key", f"many-{name}", limits, name),)
    for counter in counters:
        await counter.start()
    found = await asyncio.gather(*(counters[i % 4].reserve(f"x{i}", subject, Ask(Amount(10, 10), Amount(10, 10))) for i in range(400)))
    for counter in counters:
        await counter.stop()
    assert 100 == sum(decision.granted for decision in found)
    assert {name, None} == {decision.standings[0].refused for decision in found}


async def test_a_window_ends(counter: ValkeyAccounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(valkey._FIXED, "window", 1)
    subject = (Subject("key", "window", Limits(rpm=1), "window"),)
    first, second = await counter.reserve("a", subject, Ask()), await counter.reserve("b", subject, Ask())
    assert first.granted
    if int(first.at) == int(second.at):
        assert not second.granted
    await asyncio.sleep(1.01)
    assert (await counter.reserve("c", subject, Ask())).granted


async def test_a_lease_of_a_killed_process_runs_out_and_a_renewed_one_does_not(
    counter: ValkeyAccounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(valkey._FIXED, "lease_s", 0.3)
    subject = (Subject("key", "lease", Limits(concurrent=2), "lease"),)
    await counter.reserve("killed", subject, Ask(Amount(1, 5), Amount(1, 5)))
    await counter.reserve("alive", subject, Ask(Amount(1, 5), Amount(1, 5)))
    assert not (await counter.reserve("next", subject, Ask())).granted
    for _ in range(4):
        await asyncio.sleep(0.1)
        await counter.renew([("alive", subject)])
    (standing,) = await counter.look(subject)
    assert (1, 10) == (standing.open, standing.day_micro_usd)


async def test_a_server_that_is_away_is_said_and_one_that_is_back_counts_on(valkey_server: Server) -> None:
    server = Server(valkey_server._binary)
    server.start()
    try:
        counter, subject = ValkeyAccounts(server.url), (Subject("key", "away", Limits(rpm=9), "away"),)
        await counter.start()
        assert (await counter.reserve("a", subject, Ask())).granted
        server.stop()
        with pytest.raises(CounterAway, match="Valkey"):
            await counter.reserve("b", subject, Ask())
        server.start()
        assert (await counter.reserve("c", subject, Ask())).granted  # over a new connection, with a script that it does not know yet
        await counter.stop()
    finally:
        server.stop()
