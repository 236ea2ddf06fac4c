"""An upstream's places over all processes: as many calls as there are, whoever makes them; without the counter each process's own."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from proxy.errors import Overloaded
from proxy.limits.accounts import DatabaseAccounts
from proxy.limits.limiter import CountedPlaces
from proxy.limits.valkey import ValkeyAccounts
from proxy.store.database import Database
from tests.conftest import Start
from tests.limits.valkey import Server
from tests.store.conftest import CountingCounters


async def most_at_once(processes: list[CountedPlaces], calls: int) -> int:
    """Of calls that each take a while, the most that ran at a time."""
    running = most = 0

    async def call(process: CountedPlaces) -> None:
        nonlocal running, most
        release = await process.take("main", 3, 30.0)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        release()

    await asyncio.gather(*(call(processes[i % len(processes)]) for i in range(calls)))
    return most


@pytest.fixture
async def places(database: Database) -> AsyncIterator[list[CountedPlaces]]:
    made = [CountedPlaces(DatabaseAccounts(database), CountingCounters()) for _ in range(2)]
    for one in made:
        await one.start()
    yield made
    for one in made:
        await one.stop()


async def test_the_store_counts_over_processes(places: list[CountedPlaces]) -> None:
    assert 3 == await most_at_once(places, 10)


@pytest.mark.process
async def test_valkey_counts_over_processes(valkey_server: Server) -> None:
    counter = ValkeyAccounts(valkey_server.url)
    await counter.start()
    processes = [CountedPlaces(counter, CountingCounters()) for _ in range(2)]
    for one in processes:
        await one.start()
    assert 3 == await most_at_once(processes, 16)
    for one in processes:
        await one.stop()
    await counter.stop()


async def test_who_waits_too_long_is_refused_and_holds_no_place(places: list[CountedPlaces]) -> None:
    taken: list[Callable[[], None]] = [await places[0].take("main", 2, 5.0) for _ in range(2)]
    with pytest.raises(Overloaded, match=r"none of its 2 places was free within 0\.1 s"):
        await places[1].take("main", 2, 0.1)
    (await places[1].take("other", 2, 5.0))()
    for release in taken:
        release()
    (await places[1].take("main", 2, 5.0))()


async def test_without_the_counter_calls_go_on(database: Database) -> None:
    counters = CountingCounters()
    places = CountedPlaces(DatabaseAccounts(database), counters)
    await database.stop()
    for _ in range(5):
        await places.take("main", 1, 5.0)
    assert 5 == counters["limits.uncounted_count"]


async def test_two_servers_of_one_store_share_an_upstreams_places(start: Start) -> None:
    options = "retries: {attempts: 0}, max_concurrency_everywhere: 1, timeouts: {queue_s: 1}"
    async with start(upstream_options=options) as one, start(upstream_options=options) as other:
        release = await one.app.places.take("main", 1, 5.0)  # type: ignore[union-attr]
        refused = await other.post()
        release()
        served = [(await each.post()).status for each in (one, other, one, other)]
    assert (503, "overloaded", [200] * 4) == (refused.status, refused.json["error"]["code"], served)
