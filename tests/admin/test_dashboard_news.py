"""What open pages are told: exchanges of every worker, and what waits."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proxy.admin.dashboard.summaries import MAX_AT_ONCE, News
from proxy.errors import StoreUnavailable
from proxy.store.database import Database
from proxy.store.records import Records
from tests.admin.pages import WITH_KEY, Browser
from tests.browser import making
from tests.conftest import Start


@pytest.fixture
async def database(tmp_path: Path, migrated_file: Path) -> AsyncIterator[Database]:
    shutil.copy(migrated_file, tmp_path / "news.db")
    found = Database(f"sqlite+aiosqlite:///{tmp_path}/news.db")
    await found.start()
    yield found
    await found.stop()


class Page:
    """Asks as a page does, at times of its own."""

    def __init__(self, database: Database, after: str = "") -> None:
        self.now, self.waiting, self.looks = time.time(), {"quarantine": 0, "clashes": 0}, 0
        self.problem: Exception | None = None
        self.news = News(Records(database), self._counts, clock=lambda: self.now)
        self._at, self._after = 0.0, after

    async def _counts(self) -> dict[str, int]:
        self.looks += 1
        if self.problem is not None:
            raise self.problem
        return self.waiting

    async def ask(self, later_s: float = 2.0) -> dict[str, Any]:
        """What it is told `later_s` after the last time."""
        self.now += later_s
        found = await self.news.since(self._at, self._after)
        self._at = found["at"]
        return found

    async def ids(self, later_s: float = 2.0) -> list[str]:
        return [one.id for one in (await self.ask(later_s))["exchanges"]]


async def test_a_new_exchange_is_told_with_its_figures(database: Database) -> None:
    page = Page(database)
    await page.ask()
    new = making.record(5, page.now)
    await making.keep(database, [new])
    told = await page.ask()
    (one,) = told["exchanges"]
    assert (1, new.id, "/agent", 0.4) == (told["number"], one.id, one.route, round(one.share, 1))


async def test_an_exchange_that_began_before_others_and_ended_after_them_is_told(database: Database) -> None:
    page = Page(database)
    await page.ask()
    await making.keep(database, [making.record(2, page.now)])
    await page.ask()
    slow = making.record(1, page.now - 60)
    await making.keep(database, [slow])
    assert slow.id in await page.ids()


async def test_a_page_is_told_what_came_between_its_making_and_its_first_question(database: Database) -> None:
    now = time.time()
    made = [making.record(number, now - 30 + number) for number in range(4)]
    await making.keep(database, made)
    assert [made[3].id, made[2].id] == await Page(database, made[1].id).ids()
    assert [] == await Page(database).ids()


async def test_what_was_told_long_ago_is_not_told_again(database: Database) -> None:
    page = Page(database)
    await page.ask()
    await making.keep(database, [making.record(1, page.now)])
    assert [1, 1, 1, 0] == [len(await page.ids()) for _ in range(4)]  # some times more: the one before may have asked another worker


async def test_a_worker_that_has_not_looked_for_long_tells_what_the_page_has_not(database: Database) -> None:
    page = Page(database)
    await page.ask()
    first, second = making.record(1, page.now), making.record(2, page.now + 1)
    await making.keep(database, [first, second])
    other = Page(database, first.id)
    other.now, other._at = page.now, page._at
    assert [second.id] == await other.ids(60.0)


async def test_of_very_many_the_newest_are_told_and_the_rest_are_counted(database: Database) -> None:
    page = Page(database)
    await page.ask()
    await making.keep(database, [making.record(number, page.now + number / 100) for number in range(MAX_AT_ONCE + 5)])
    told = await page.ask()
    assert (MAX_AT_ONCE, MAX_AT_ONCE + 5) == (len(told["exchanges"]), told["number"])


async def test_what_waits_is_told(database: Database) -> None:
    page = Page(database)
    page.waiting = {"quarantine": 3, "clashes": 0}
    assert {"quarantine": 3, "clashes": 0} == (await page.ask())["waiting"]


async def test_the_store_is_asked_once_a_second_for_all_pages(database: Database) -> None:
    page = Page(database)
    await asyncio.gather(*(page.ask(0.0) for _ in range(20)))
    await page.ask(1.0)
    assert 2 == page.looks


async def test_a_store_that_is_away_is_told_and_asked_again(database: Database) -> None:
    page = Page(database)
    page.problem = StoreUnavailable("locked")
    with pytest.raises(StoreUnavailable, match="locked"):
        await page.ask()
    page.problem = None
    assert 0 == (await page.ask(0.0))["number"]


# ---- over HTTP ----


async def test_news_are_for_the_operator_only(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        without = await browser.get("/dashboard/news")
        from_elsewhere = await browser.get("/dashboard/news", sec_fetch_site="cross-site")
    assert (401, 401) == (without.status, from_elsewhere.status)


async def test_a_store_that_is_away_is_a_503(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("locked")

    async with start() as proxy:
        monkeypatch.setattr(Records, "ids", away)
        got = await proxy.get("/dashboard/news")
    assert (503, {"problem": "locked"}) == (got.status, got.json)


async def test_an_exchange_is_told_to_who_asks_another_worker(start: Start) -> None:
    async with start() as one, start() as other:
        at = (await other.get("/dashboard/news")).json["at"]
        posted = await one.post()
        async with asyncio.timeout(20):
            while not (told := (await other.get(f"/dashboard/news?at={at}")).json)["exchanges"]:
                await asyncio.sleep(0.05)
    assert [posted.headers["x-groundwire-id"]] == [exchange["id"] for exchange in told["exchanges"]]
