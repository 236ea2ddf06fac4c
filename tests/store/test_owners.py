"""Whose what a provider keeps is, on both databases."""

from sqlalchemy import select

from proxy.store import memory as module
from proxy.store.conversations import DatabaseOwners
from proxy.store.database import Database
from proxy.store.retention import Retention
from proxy.store.tables import memory as table

_DAY_S = 86_400.0


async def test_who_was_first_is_the_owner(database: Database) -> None:
    owners = DatabaseOwners(database)
    new = [await owners.add("main", ["resp_1", "msg_1", "msg_1"], "ann"), await owners.add("main", ["resp_1", "resp_2"], "bob")]
    assert [True, False] == new
    assert {"resp_1": "ann", "msg_1": "ann", "resp_2": "bob"} == await owners.find("main", {"resp_1", "msg_1", "resp_2", "resp_3"})
    assert {} == await owners.find("another", ["resp_1"])


async def test_many_ids_are_found_in_several_statements(database: Database) -> None:
    owners, ids = DatabaseOwners(database), [f"msg_{n}" for n in range(2 * module.KEYS_A_QUERY + 1)]
    assert await owners.add("main", ids, "ann")
    assert dict.fromkeys(ids, "ann") == await owners.find("main", ids)


async def test_what_is_named_stays_and_what_is_not_goes(database: Database) -> None:
    made = 1_700_000_000.0
    await DatabaseOwners(database, clock=lambda: made).add("main", ["named", "forgotten"], "ann")
    later = made + 28 * _DAY_S
    await DatabaseOwners(database, clock=lambda: later).find("main", ["named"])
    await Retention(database, days=30, clock=lambda: made + 31 * _DAY_S).run_once()
    async with database.transaction() as connection:
        left = await connection.execute(select(table.c.used_at).where(table.c.client == "ann"))
        assert [later] == [row.used_at for row in left]
