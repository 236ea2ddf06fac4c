"""What open pages are told: exchanges of every worker, what waits, that the server lives; and how it ends."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from proxy.admin.dashboard.events import Feed, when_told_to_stop
from proxy.errors import Overloaded, StoreUnavailable
from proxy.store.database import Database
from proxy.store.records import Records
from tests.admin.pages import WITH_KEY, Browser
from tests.browser import making
from tests.conftest import Running, Start

QUICK_S = 0.01


_MADE: list[Feed] = []
"""Feeds, which are stopped before the store closes, as the server stops them."""


@pytest.fixture
async def database(tmp_path: Any, migrated_file: Any) -> AsyncIterator[Database]:
    import shutil

    shutil.copy(migrated_file, tmp_path / "events.db")
    found = Database(f"sqlite+aiosqlite:///{tmp_path}/events.db")
    await found.start()
    yield found
    while _MADE:
        await _MADE.pop().stop()
    await found.stop()


class Counts:
    """How much waits, as a test says."""

    def __init__(self) -> None:
        self.now = {"quarantine": 0, "clashes": 0}
        self.problem: Exception | None = None

    async def __call__(self) -> dict[str, int]:
        if self.problem is not None:
            raise self.problem
        return dict(self.now)


def make_feed(database: Database, counts: Counts | None = None, **more: Any) -> Feed:
    _MADE.append(Feed(Records(database), counts or Counts(), look_s=QUICK_S, **more))
    return _MADE[-1]


def parsed(event: bytes) -> list[tuple[str, Any, str]]:
    """Name, data and id of the events in a piece of the stream."""
    found = []
    for block in event.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"]), fields.get("id", "")))
    return found


async def until(stream: AsyncIterator[bytes], name: str) -> tuple[Any, str]:
    """Data and id of the next event called so."""
    async with asyncio.timeout(10):
        async for piece in stream:
            for event, data, event_id in parsed(piece):
                if event == name:
                    return data, event_id
    raise AssertionError(f"the stream ended without {name}")


async def test_a_new_exchange_is_told_with_its_figures(database: Database) -> None:
    feed = make_feed(database)
    stream = feed.listen()
    await until(stream, "counts")
    await until(stream, "counts")  # the first look is over
    new = making.record(5, time.time())
    await making.keep(database, [new])
    data, event_id = await until(stream, "exchanges")
    await stream.aclose()  # type: ignore[attr-defined]
    (told,) = data["exchanges"]
    assert (new.id, 1, new.id, "/agent", 0.4) == (event_id, data["number"], told["id"], told["route"], round(told["share"], 1))


async def test_an_exchange_that_began_before_others_and_ended_after_them_is_told(database: Database) -> None:
    feed, now = make_feed(database), time.time()
    stream = feed.listen()
    await until(stream, "counts")
    await until(stream, "counts")
    await making.keep(database, [making.record(2, now)])
    await until(stream, "exchanges")
    slow = making.record(1, now - 60)
    await making.keep(database, [slow])
    data, _ = await until(stream, "exchanges")
    await stream.aclose()  # type: ignore[attr-defined]
    assert [slow.id] == [one["id"] for one in data["exchanges"]]


async def test_a_page_that_comes_back_is_told_what_it_missed(database: Database) -> None:
    now = time.time()
    made = [making.record(number, now - 30 + number) for number in range(4)]
    await making.keep(database, made)
    stream = make_feed(database).listen(made[1].id)
    data, event_id = await until(stream, "exchanges")
    await stream.aclose()  # type: ignore[attr-defined]
    assert ([made[3].id, made[2].id], made[3].id) == ([one["id"] for one in data["exchanges"]], event_id)


async def test_what_waits_is_told_when_it_changes(database: Database) -> None:
    counts = Counts()
    stream = make_feed(database, counts).listen()
    first, _ = await until(stream, "counts")
    counts.now = {"quarantine": 3, "clashes": 0}
    while (last := (await until(stream, "counts"))[0]) == first:
        pass
    await stream.aclose()  # type: ignore[attr-defined]
    assert {"quarantine": 3, "clashes": 0} == last


async def test_a_store_that_is_away_is_told_and_does_not_end_the_stream(database: Database) -> None:
    counts = Counts()
    stream = make_feed(database, counts).listen()
    await until(stream, "counts")
    counts.problem = StoreUnavailable("locked")
    problem, _ = await until(stream, "problem")
    counts.problem, counts.now = None, {"quarantine": 1, "clashes": 0}
    again, _ = await until(stream, "counts")
    while again["quarantine"] != 1:
        again, _ = await until(stream, "counts")
    await stream.aclose()  # type: ignore[attr-defined]
    assert {"message": "locked"} == problem


async def test_a_quiet_stream_has_a_heartbeat(database: Database) -> None:
    stream = make_feed(database, heartbeat_s=QUICK_S).listen()
    async with asyncio.timeout(10):
        pieces = [await anext(stream) for _ in range(6)]
    await stream.aclose()  # type: ignore[attr-defined]
    assert b": still here\n\n" in pieces


async def test_listeners_are_bounded_and_make_room_when_they_go(database: Database) -> None:
    feed = make_feed(database, max_listeners=1)
    stream = feed.listen()
    await anext(stream)
    with pytest.raises(Overloaded):
        feed.listen()
    await stream.aclose()  # type: ignore[attr-defined]
    assert 0 == feed.listeners
    again = feed.listen()
    await anext(again)
    await again.aclose()  # type: ignore[attr-defined]


async def test_nobody_looks_at_the_store_when_nobody_listens(database: Database) -> None:
    feed = make_feed(database)
    stream = feed.listen()
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(10):
        assert feed._looking is not None
        await feed._looking


async def test_a_listener_that_does_not_read_is_let_go(database: Database) -> None:
    counts = Counts()
    feed = make_feed(database, counts)
    stream = feed.listen()
    await anext(stream)
    async with asyncio.timeout(20):
        while feed.listeners:
            counts.now = {"quarantine": counts.now["quarantine"] + 1, "clashes": 0}
            await asyncio.sleep(0)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_the_end_of_the_server_ends_every_stream(database: Database) -> None:
    feed = make_feed(database)
    streams = [feed.listen() for _ in range(3)]
    for stream in streams:
        await anext(stream)
    feed.close()
    async with asyncio.timeout(10):
        rest = [[piece async for piece in stream] for stream in streams]
    assert 3 == len(rest)
    with pytest.raises(Overloaded):
        feed.listen()


async def test_a_signal_is_heard_before_the_servers_own_handler() -> None:
    heard: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("server"))
    try:
        called = asyncio.Event()
        when_told_to_stop(called.set)
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            await called.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ["server"] == heard


# ---- over HTTP ----


async def test_the_stream_is_for_the_operator_only(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        without = await browser.get("/dashboard/events")
        from_elsewhere = await browser.get("/dashboard/events", sec_fetch_site="cross-site")
    assert (401, 401) == (without.status, from_elsewhere.status)


async def test_asking_for_the_streams_head_does_not_open_it(start: Start) -> None:
    async with start() as proxy, proxy._session.head(f"{proxy.url}/dashboard/events") as response:
        assert (200, "text/event-stream; charset=utf-8") == (response.status, response.headers["content-type"])


async def test_an_exchange_is_told_to_who_listens_to_another_worker(start: Start) -> None:
    async with start() as one, start() as other, other._session.get(f"{other.url}/dashboard/events") as response:
        assert ("text/event-stream; charset=utf-8", "no-store") == (response.headers["content-type"], response.headers["cache-control"])
        found = await _exchange_told(one, response)
    assert 1 == found["number"]


async def _exchange_told(proxy: Running, response: Any) -> Any:
    sent = False
    async with asyncio.timeout(20):
        async for line in response.content:
            if line.startswith(b"data: ") and b'"exchanges"' in line:
                return json.loads(line[6:])
            if line.startswith(b"event: counts") and not sent:
                sent = True
                await asyncio.gather(*(proxy.post() for _ in range(1)))
    raise AssertionError("the stream ended")
