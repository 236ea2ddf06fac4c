"""Remembers the turns of conversations that their provider holds: the `Histories` port of `proxy.context.histories`, on the database.

One row a turn, with the row of the turn before it, so that conversations that fork share what they have in common; a conversation that
has a name of its own has a row that points to its last turn. Reading marks what is read as used, and retention forgets what nobody went
on with. What one client sent is found by that client alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import delete, literal, select, update

from proxy.exchange.histories import CONVERSATION, ITEM, History, PastTurn
from proxy.offloop import run_in_thread_if_large
from proxy.store.database import Database
from proxy.store.tables import clean, key_of
from proxy.store.tables import histories as table

MAX_TURNS = 500
"""Of one history; earlier ones count as not seen."""
MAX_TURN_BYTES = 1_000_000
"""Of a longer one only is kept that it was there."""
MAX_HISTORY_BYTES = 8_000_000
PER_CLIENT = 20_000
"""Turns and items; the ones that were used last are kept."""
_USED_EVERY_S = 3600.0
_NONE: Mapping[str, Mapping[str, Any]] = {}


class DatabaseHistories:
    """Implements `proxy.context.histories.Histories`."""

    def __init__(self, database: Database, *, per_client: int = PER_CLIENT, clock: Callable[[], float] = time.time) -> None:
        self._database, self._per_client, self._clock = database, per_client, clock

    async def find(self, name: str, *, client: str) -> History:
        """What is remembered of what is called `name`. Raises `StoreUnavailable`."""
        rows = await self._rows(key_of(client, name))
        turns: list[PastTurn] = []
        size, began = 0, False
        for row in rows:
            content = await run_in_thread_if_large(len(row.content), orjson.loads, row.content)
            size += len(row.content)
            began = False
            if content["lost"] or size > MAX_HISTORY_BYTES:
                break
            if content["messages"]:
                turns.append(PastTurn(content["name"], tuple(content["messages"]), content["own"]))
            began = content["began"]
        return History(tuple(reversed(turns)), whole=began)

    async def items(self, ids: Sequence[str], *, client: str) -> dict[str, Mapping[str, Any]]:
        """Those of the items with these ids that are remembered. Raises `StoreUnavailable`."""
        keys = [key_of(client, ITEM + identity) for identity in dict.fromkeys(ids)][-MAX_TURNS:]
        async with self._database.transaction() as connection:
            rows = list(await connection.execute(select(table.c.content).where(table.c.id.in_(keys))))
        contents = [await run_in_thread_if_large(len(row.content), orjson.loads, row.content) for row in rows]
        return {content["name"].removeprefix(ITEM): content["messages"][0] for content in contents if content["messages"]}

    async def add(self, turn: PastTurn, before: str, *, client: str, items: Mapping[str, Mapping[str, Any]] = _NONE) -> None:
        """Keep a turn that went on from what is called `before`, "" for nothing, and its answer's `items`. A conversation's name is its
        last turn's from then on. Raises `StoreUnavailable`.
        """
        size = sum(len(str(message.get("content"))) for message in turn.messages)
        content = await run_in_thread_if_large(size, _content, turn, began=not before)
        also = before if before.startswith(CONVERSATION) else ""
        previous = key_of(client, before) if before else ""
        async with self._database.writing() as connection:
            if also:  # the row that points to the conversation's last turn is about to point here
                query = select(table.c.previous).where(table.c.id == key_of(client, also))
                previous = (await connection.execute(query)).scalar() or ""
            await self._put(connection, turn.name, client, previous, content)
            if also:
                await self._put(connection, also, client, key_of(client, turn.name), _content(PastTurn(also, ())))
            for identity, item in items.items():
                await self._put(connection, ITEM + identity, client, "", _content(PastTurn(ITEM + identity, (item,))))
            newest = select(table.c.id).where(table.c.client == clean(client)).order_by(table.c.used_at.desc()).offset(self._per_client)
            await connection.execute(delete(table).where(table.c.id.in_(newest.limit(100))))

    async def _put(self, connection: Any, name: str, client: str, previous: str, content: bytes) -> None:
        now = self._clock()
        values = {"previous": previous, "content": content, "size_bytes": len(content), "used_at": now}
        row = {"id": key_of(client, name), "client": clean(client), "created_at": now, **values}
        insert = self._database.insert(table).values(**row)
        await connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=values))

    async def _rows(self, key: str) -> list[Any]:
        """A turn's row and those before it, the newest first."""
        chain = select(table.c.id, table.c.previous, literal(0).label("depth")).where(table.c.id == key).cte("chain", recursive=True)
        further = select(table.c.id, table.c.previous, chain.c.depth + 1).where(table.c.id == chain.c.previous, chain.c.depth < MAX_TURNS)
        chain = chain.union_all(further)
        query = select(table.c.id, table.c.content, table.c.used_at).join(chain, chain.c.id == table.c.id).order_by(chain.c.depth)
        async with self._database.transaction() as connection:
            rows = list(await connection.execute(query))
            now = self._clock()
            stale = [row.id for row in rows if row.used_at < now - _USED_EVERY_S]
            if stale:
                await connection.execute(update(table).where(table.c.id.in_(stale)).values(used_at=now))
        return rows


def _content(turn: PastTurn, *, began: bool = False) -> bytes:
    """A row's content. A turn that is too long ends what can be read."""
    told = {"name": turn.name, "messages": turn.messages, "own": turn.own, "began": began, "lost": False}
    content = orjson.dumps(told)
    return content if len(content) <= MAX_TURN_BYTES else orjson.dumps({**told, "messages": [], "lost": True, "began": False})
