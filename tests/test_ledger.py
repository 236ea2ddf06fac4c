"""The accounts of what is scarce: never more than there is, something left for who has nothing, and nothing is kept for good."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import RateLimited
from proxy.ledger import NOBODY, Guesses, Holding, Ledger, Party, Share, network_of

PARTIES: list[Party] = [NOBODY, (("a", 0.75),), (("b", 0.75),), (("a", 0.75), ("10.0.0.1", 0.875)), (("c", 0.5), ("10.0.0.1", 0.875))]


@given(st.integers(1, 60), st.lists(st.tuples(st.sampled_from(PARTIES), st.integers(1, 9), st.booleans()), max_size=80))
def test_it_is_never_more_than_there_is_and_all_of_it_comes_back(total: int, moves: list[tuple[Party, int, bool]]) -> None:
    share, taken = Share(total), list[tuple[Party, int]]()
    for party, amount, back in moves:
        if back and taken:
            share.release(*taken.pop())
        elif share.take(party, amount):
            taken.append((party, amount))
        assert total - share.free == sum(amount for _, amount in taken)
        assert 0 <= share.free <= total
        for name in ("a", "b", "c", "10.0.0.1"):
            assert share.of(name) == sum(amount for party, amount in taken if name in dict(party))
    for party, amount in taken:
        share.release(party, amount)
    assert (total, {}) == (share.free, share._of)


@given(st.integers(16, 5000), st.integers(1, 3))
def test_parties_that_take_all_they_can_leave_some_for_one_that_has_nothing(total: int, greedy: int) -> None:
    share = Share(total)
    for number in range(greedy):
        party = ((f"greedy {number}", 0.75),)
        while share.take(party):
            pass
    assert share.take((("another", 0.75),)) or total < 4 ** (greedy + 1)


def test_a_party_that_is_alone_gets_its_share_and_the_server_itself_gets_the_rest() -> None:
    share, alone = Share(256), (("ann", 0.75),)
    taken = sum(share.take(alone) for _ in range(300))
    assert (192, 64, 64) == (taken, share.free, sum(share.take(NOBODY) for _ in range(300)))


def test_made_up_names_share_their_address() -> None:
    ledger = Ledger(max_connections=256)
    taken = sum(ledger.connections.take(ledger.client(f"auth:{n}", "10.0.0.1", keyed=False)) for n in range(300))
    other = ledger.connections.take(ledger.client("auth:0", "10.0.0.2", keyed=False))
    assert (224, True) == (taken, other)


def test_clients_with_keys_do_not_share_the_address_of_the_server_that_they_come_through() -> None:
    ledger = Ledger()
    assert (("client ann", 0.75),) == ledger.client("ann", "10.0.0.1", keyed=True)


def test_a_trusted_proxy_has_no_share_of_its_own() -> None:
    ledger = Ledger(no_address=lambda address: address == "10.0.0.1")
    assert (NOBODY, (("10.0.0.2", 0.75),)) == (ledger.at("10.0.0.1"), ledger.at("10.0.0.2"))


@pytest.mark.parametrize(
    ("one", "other"), [("2001:db8::1", "2001:db8::2"), ("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("unix", "unix")]
)
def test_what_one_person_has_is_one_network(one: str, other: str) -> None:
    assert network_of(one) == network_of(other)


def test_what_a_request_has_comes_back_once() -> None:
    refused = list[str]()
    ledger = Ledger(max_bodies_bytes=10, count=refused.append)
    holding = Holding(ledger)
    assert (True, True, False) == (holding.take(4), holding.take(5), holding.take(2))
    holding.release()
    holding.release()
    assert (10, ["ledger.body_refused_count"]) == (ledger.bodies.free, refused)


def test_half_of_the_room_is_for_those_who_ask_now() -> None:
    refused = list[str]()
    ledger = Ledger(max_bodies_bytes=10, count=refused.append)
    remembered, asked = Holding(ledger), Holding(ledger)
    assert (True, True, False) == (remembered.remember(2), remembered.remember(3), remembered.remember(1))
    assert (True, 0) == (asked.take(5), ledger.bodies.free)
    remembered.release()
    assert (5, ["ledger.history_refused_count"]) == (ledger.bodies.free, refused)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_wrong_keys_are_counted_by_network_and_forgotten_in_time() -> None:
    clock = Clock()
    guesses = Guesses(5, clock=clock)
    waits = [guesses.add(f"2001:db8::{number}") for number in range(8)]
    other = guesses.add("2001:db8:1::1")
    clock.now += 61
    assert ([0.0] * 5 + [60.0] * 3, 0.0, 0.0) == (waits, other, guesses.add("2001:db8::1"))


def test_only_so_many_addresses_are_remembered() -> None:
    guesses = Guesses(5, addresses=10)
    for number in range(100):
        guesses.add(f"10.0.0.{number}")
    assert 10 == len(guesses)


async def test_who_has_to_wait_is_told_how_long() -> None:
    ledger = Ledger(clock=Clock())
    for _ in range(5):
        await ledger.wrong_key(ledger.wrong_admin_keys, "10.0.0.1")
    with pytest.raises(RateLimited, match="wait 60 s") as raised:
        await ledger.wrong_key(ledger.wrong_admin_keys, "10.0.0.1")
    assert (("retry-after", "60"),) == raised.value.headers


def test_a_refusal_is_counted_each_time_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock, counted = Clock(), list[str]()
    ledger = Ledger(clock=clock, count=counted.append)
    with caplog.at_level(logging.WARNING, "groundwire.ledger"):
        for _ in range(100):
            ledger.refused("body_refused", (("client ann", 0.75),), "no room")
            ledger.refused("body_refused", (("client bob", 0.75),), "no room")
        clock.now += 61
        ledger.refused("body_refused", (("client ann", 0.75),), "no room")
    assert (201, 3) == (len(counted), len(caplog.records))
