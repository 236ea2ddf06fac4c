"""Wrong keys are counted over all processes: by the store, by Valkey, and by each process alone where those are away."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.errors import RateLimited
from proxy.ledger import Ledger
from proxy.limits.accounts import DatabaseAccounts
from proxy.limits.counter import CounterAway, Subject
from proxy.limits.limiter import BUCKETS, CountedGuesses, subject_of
from proxy.limits.valkey import ValkeyAccounts
from proxy.store.database import Database
from tests.conftest import Start
from tests.limits.valkey import Server
from tests.store.conftest import CountingCounters


async def waits(shared: Sequence[CountedGuesses], number: int, network: str = "10.0.0.1") -> list[bool]:
    """Whether each of `number` wrong keys, to one process after the other, has to wait."""
    return [await shared[i % len(shared)].add("admin", network, 5) > 0 for i in range(number)]


def processes(counter: Any) -> list[CountedGuesses]:
    return [CountedGuesses(counter, CountingCounters()) for _ in range(3)]


async def test_the_store_counts_over_processes(database: Database) -> None:
    shared = processes(DatabaseAccounts(database))
    assert [False] * 5 + [True] * 3 == await waits(shared, 8)
    assert [False] * 5 + [True] == await waits(shared, 6, "10.0.0.2")
    [standing] = await DatabaseAccounts(database).look([subject_of("admin", "10.0.0.1", 5)])
    assert (5, 0) == (standing.requests, standing.open)


@pytest.mark.process
async def test_valkey_counts_over_processes(valkey_server: Server) -> None:
    counter = ValkeyAccounts(valkey_server.url)
    await counter.start()
    shared = processes(counter)
    found = await asyncio.gather(*(waits([one], 5, "10.9.0.1") for one in shared))
    assert Counter({False: 5, True: 10}) == Counter(wait for one in found for wait in one)
    await counter.stop()


class Asked:
    """Counts what it is asked, and answers that all have to wait, or nothing."""

    def __init__(self, answer: float | None) -> None:
        self.answer, self.asked = answer, 0

    async def add(self, kind: str, network: str, most: int) -> float:
        self.asked += 1
        return self.answer or 0.0


async def test_who_has_to_wait_everywhere_is_asked_about_once() -> None:
    ledger = Ledger()
    ledger.shared = shared = Asked(30.0)
    for _ in range(4):
        with pytest.raises(RateLimited, match="wait 30 s"):
            await ledger.wrong_key(ledger.wrong_client_keys, "10.0.0.1")
    assert 1 == shared.asked


async def test_without_the_counter_each_process_counts_for_itself(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    await database.stop()
    counters, ledger = CountingCounters(), Ledger()
    ledger.shared = CountedGuesses(DatabaseAccounts(database), counters)
    with caplog.at_level(logging.WARNING, "groundwire.limits"):
        for _ in range(5):
            await ledger.wrong_key(ledger.wrong_admin_keys, "10.0.0.1")
        with pytest.raises(RateLimited):
            await ledger.wrong_key(ledger.wrong_admin_keys, "10.0.0.1")
    assert 5 == counters["ledger.guess_uncounted_count"]
    assert 1 == sum("this process counts those that come to it" in one for one in caplog.messages)


async def test_a_flood_of_guesses_does_not_take_the_counter_from_others() -> None:
    class Slow:
        asked = 0

        async def reserve(self, *_: object) -> object:
            self.asked += 1
            await asyncio.sleep(0.05)
            raise CounterAway("slow")

    slow, counters = Slow(), CountingCounters()
    shared = CountedGuesses(slow, counters)  # type: ignore[arg-type]
    await asyncio.gather(*(shared.add("client", f"10.0.{n}.1", 30) for n in range(100)))
    assert (16, 100) == (slow.asked, counters["ledger.guess_uncounted_count"])


def test_addresses_without_end_are_accounts_with_one() -> None:
    subjects: set[Subject] = {subject_of("client", f"2001:db8:{n:x}::/64", 30) for n in range(1000)}
    assert 950 < len(subjects) <= 1000
    assert all(int(subject.name.partition(":")[2], 16) < BUCKETS for subject in subjects)


async def test_two_servers_of_one_store_let_five_wrong_admin_keys_by(start: Start) -> None:
    config = "server: {admin_key: s3cret, workers: 2}\n"
    async with start(config=config) as one, start(config=config) as other:
        wrong = [await (one, other)[i % 2].get("/groundwire/v1/metrics", authorization=f"Bearer {i}") for i in range(8)]
        right = [(await each.get("/groundwire/v1/metrics", authorization="Bearer s3cret")).status for each in (one, other)]
    assert [401] * 5 + [429] * 3 == [answer.status for answer in wrong]
    assert (True, [200, 200]) == (1 <= int(wrong[-1].headers["retry-after"]) <= 60, right)


async def test_two_servers_of_one_store_let_thirty_wrong_client_keys_by(start: Start) -> None:
    key = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"  # of foo
    config = f"server: {{workers: 2}}\nkeys: [{{name: ann, sha256: {key}}}]\n"
    async with start(config=config) as one, start(config=config) as other:
        wrong = [(await (one, other)[i % 2].post(authorization=f"Bearer {i}")).status for i in range(32)]
        right = (await one.post(authorization="Bearer foo")).status
    assert ([401] * 30 + [429] * 2, 200) == (wrong, right)
