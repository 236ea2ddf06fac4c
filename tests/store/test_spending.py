"""What is spent of a budget, on both databases."""

import asyncio

import pytest

from proxy.errors import StoreUnavailable
from proxy.store.database import Database
from proxy.store.memory import DatabaseSpending
from proxy.store.retention import Retention
from tests.store.conftest import opened


async def test_a_day_and_a_budget_each_have_their_sum(database: Database) -> None:
    spending = DatabaseSpending(database)
    assert [0.0, 0.25, 0.75] == [await spending.add("rag/a/b", 20_000, usd) for usd in (0.0, 0.25, 0.5)]
    assert [0.1, 0.2] == [await spending.add("rag/a/b", 20_001, 0.1), await spending.add("other/a/b", 20_000, 0.2)]


async def test_what_several_processes_add_at_once_is_all_counted(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        await asyncio.gather(*(DatabaseSpending(database).add("rag/a/b", 20_000, 0.000001) for database in (first, second) * 20))
        assert 0.00004 == await DatabaseSpending(first).add("rag/a/b", 20_000, 0.0)


async def test_what_was_spent_today_is_not_what_retention_takes_for_old(database: Database) -> None:
    now = 20_000 * 86_400.0
    spending, retention = DatabaseSpending(database, clock=lambda: now), Retention(database, days=0.5, clock=lambda: now)
    await spending.add("rag/a/b", 20_000, 1.0)
    await retention.run_once()
    now += 80_000.0
    await spending.add("rag/a/b", 20_000, 0.5)
    await retention.run_once()
    assert 1.5 == await spending.add("rag/a/b", 20_000, 0.0)


async def test_a_store_that_is_away_is_said(database: Database) -> None:
    await database.stop()
    with pytest.raises(StoreUnavailable):
        await DatabaseSpending(database).add("rag/a/b", 20_000, 1.0)
