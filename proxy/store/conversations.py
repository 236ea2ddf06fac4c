"""What is remembered of conversations, on `proxy.store.memory`: their runs, the turns that a provider keeps, and whose its ids are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

import orjson
from sqlalchemy import TextClause, delete, literal, literal_column, select, text

from proxy.context.lineage import Beginnings, branch_of
from proxy.errors import StoreUnavailable
from proxy.exchange.histories import CONVERSATION, ITEM, History, PastTurn
from proxy.offloop import run_in_thread_if_large
from proxy.store.database import Database
from proxy.store.memory import KEYS_A_QUERY, Memory, MemoryRow
from proxy.store.tables import clashes, clean, keys_of, quarantine
from proxy.store.tables import memory as table

_TRIES = 8
"""Each failure means that another worker has changed the row."""
MAX_TURNS = 500
"""Of one history; earlier ones count as not seen."""
MAX_TURN_BYTES = 1_000_000
"""Of a longer one only is kept that it was there."""
MAX_HISTORY_BYTES = 8_000_000
PER_CLIENT = 20_000
"""Turns and items; the ones that were used last are kept."""
_NONE: Mapping[str, Mapping[str, Any]] = {}


class DatabaseLineages:
    """Which run each conversation's beginnings belong to.

    A row a beginning: its run, and a link to the beginning that went on from it. Who goes on first goes on with the run; whoever goes on
    otherwise, or opens again what has gone on, leaves it.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._memory = Memory(database, "lineage", clock)

    async def run_of(self, beginnings: Beginnings, *, client: str, route: str) -> str:
        """The run of a conversation; from now on its present end belongs to it. Raises `StoreUnavailable`."""
        keys = self._memory.keys(beginnings.hashes, client, route)
        for _ in range(_TRIES):
            known = {keys[row.id]: (row.content.decode(), row.link) for row in await self._memory.read(list(keys))}
            found = await self._take(beginnings, known, client, route)
            if found is not None:
                return found
        raise StoreUnavailable("other workers keep changing the run's beginnings")

    async def _take(self, beginnings: Beginnings, known: Mapping[str, tuple[str, str]], client: str, route: str) -> str | None:
        """Find the run, and note it; None where another worker has changed what is known meanwhile."""
        end = beginnings.hashes[0]
        last = next((hash_ for hash_ in beginnings.hashes if hash_ in known), None)
        if last is None:
            return await self._begun(beginnings, client, route)
        run, continued_by = known[last]
        if last == end:
            if not continued_by:
                return run
            again = branch_of(run, end)  # it has gone on from here already: this is another conversation, or the same taken up anew
            key, before = self._memory.key(client, route, end), table.c.link == continued_by
            return again if await self._memory.change(key, before, content=again.encode(), link="") else None
        if continued_by and continued_by not in beginnings.hashes:
            run = branch_of(run, end)
        return await self._add(end, run, client, route, after="" if continued_by else last)

    async def _begun(self, beginnings: Beginnings, client: str, route: str) -> str | None:
        """The run of a conversation of which nothing is known. Met in the middle it has had the opening's name until now, and goes on with
        it as if it had been noted from its opening on: another that opens alike finds it taken.
        """
        end, run = beginnings.hashes[0], beginnings.opening
        after = "" if beginnings.is_opening or not beginnings.whole else beginnings.hashes[-1]
        if not beginnings.is_opening and not beginnings.whole:
            run = branch_of(run, end)
        return await self._add(end, run, client, route, after=after)

    async def _add(self, end: str, run: str, client: str, route: str, *, after: str = "") -> str | None:
        """Note that `end` is the run's, and that the beginning `after` goes on with it unless it has gone on already, in one statement;
        the run, or None where another worker was first.
        """
        row = self._memory.row
        key, before = self._memory.key(client, route, end), self._memory.key(client, route, after) if after else ""
        rows = [row(key, client, run.encode()), *([row(before, client, run.encode(), end)] if after else [])]
        noted = _noting(len(rows))
        values = {f"{column}_{n}": value for n, row in enumerate(rows) for column, value in row.items()}
        async with self._memory.database.writing(alone=True) as connection:
            found = (await connection.execute(noted, {**values, "about": clean(client), "run": clean(run)})).all()
        done = {row[0] for row in found}
        if key in done:
            names = [name for name, none in zip(("quarantine", "clashes"), found[0][1:], strict=True) if none]
            self._memory.database.note_without(names, client, run)
        if key in done and after and before not in done:  # it went on otherwise meanwhile: not noted, until that is known
            await self._memory.database.execute(delete(table).where(table.c.id == key, table.c.link == ""), alone=True)
            return None
        return run if key in done else None


@cache
def _noting(rows: int) -> TextClause:
    """Keeps so many rows, links those that have no link yet, and tells of which tables the run has nothing: of the quarantine nothing of
    the client's, as a decision of another run may be for all of them.

    In words, as SQLAlchemy takes a millisecond to compile a statement that has an ON CONFLICT, each time anew.
    """
    names = [column.name for column in table.columns]
    values = ", ".join(f"({', '.join(f':{name}_{n}' for name in names)})" for n in range(rows))
    return text(
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {values} "  # noqa: S608 - our own names
        "ON CONFLICT (id) DO UPDATE SET link = excluded.link, used_at = excluded.used_at "
        f"WHERE {table.name}.link = '' AND excluded.link <> '' "
        f"RETURNING id, NOT EXISTS (SELECT 1 FROM {quarantine.name} WHERE client = :about), "
        f"NOT EXISTS (SELECT 1 FROM {clashes.name} WHERE client = :about AND run_id = :run)"
    )


class DatabaseHistories:
    """The turns of conversations that their provider keeps.

    A row a turn, with a link to the turn before it, so that conversations that fork share what they have in common; a conversation that has
    a name of its own has a row that links to its last turn.
    """

    def __init__(self, database: Database, *, per_client: int = PER_CLIENT, clock: Callable[[], float] | None = None) -> None:
        self._memory, self._per_client = Memory(database, "history", clock), per_client

    async def find(self, name: str, *, client: str) -> History:
        """What is remembered of what is called `name`. Raises `StoreUnavailable`."""
        rows = await self._chain(self._memory.key(client, name))
        turns: list[PastTurn] = []
        size, began = 0, False
        for row in rows:
            content = await run_in_thread_if_large(len(row.content), orjson.loads, row.content)
            size += len(row.content)
            began = False
            if size > MAX_HISTORY_BYTES:
                break
            results = tuple(content.get("results", ()))
            if content["messages"] or results:
                turns.append(PastTurn(content["name"], tuple(content["messages"]), content["own"], results))
            if content["lost"]:
                break
            began = content["began"]
        return History(tuple(reversed(turns)), whole=began)

    async def items(self, ids: Sequence[str], *, client: str) -> dict[str, Mapping[str, Any]]:
        """Those of the items with these ids that are remembered. Raises `StoreUnavailable`."""
        rows = await self._memory.read([self._memory.key(client, ITEM + identity) for identity in dict.fromkeys(ids)][-MAX_TURNS:])
        contents = [await run_in_thread_if_large(len(row.content), orjson.loads, row.content) for row in rows]
        return {content["name"].removeprefix(ITEM): content["messages"][0] for content in contents if content["messages"]}

    async def add(self, turn: PastTurn, before: str, *, client: str, items: Mapping[str, Mapping[str, Any]] = _NONE) -> None:
        """Keep a turn that went on from what is called `before`, "" for nothing, and its answer's `items`. A conversation's name is its
        last turn's from then on. Raises `StoreUnavailable`.
        """
        size, key = sum(len(str(message.get("content"))) for message in turn.messages), self._memory.key
        content = await run_in_thread_if_large(size, _content, turn, began=not before)
        also = before if before.startswith(CONVERSATION) else ""
        previous = key(client, before) if before else ""
        rows = [(ITEM + identity, "", _content(PastTurn(ITEM + identity, (item,)))) for identity, item in items.items()]
        async with self._memory.database.writing() as connection:
            if also:  # the row that links to the conversation's last turn is about to link to this one
                previous = (await connection.execute(select(table.c.link).where(table.c.id == key(client, also)))).scalar() or ""
                if previous == key(client, turn.name):  # a second try, and the first one was done
                    return
                rows.insert(0, (also, key(client, turn.name), _content(PastTurn(also, ()))))
            for name, link, packed in [(turn.name, previous, content), *rows]:
                insert = self._memory.database.insert(table).values(self._memory.row(key(client, name), client, packed, link))
                changed = {column: insert.excluded[column] for column in ("link", "content", "size_bytes", "used_at")}
                await connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changed))
            mine = table.c.client == clean(client), table.c.kind == literal_column("'history'")  # as its index has it
            newest = select(table.c.id).where(*mine).order_by(table.c.used_at.desc()).offset(self._per_client)
            await connection.execute(delete(table).where(table.c.id.in_(newest.limit(100))))

    async def _chain(self, key: str) -> list[MemoryRow]:
        """A turn's row and those before it, the newest first."""
        chain = select(table.c.id, table.c.link, literal(0).label("depth")).where(table.c.id == key).cte("chain", recursive=True)
        further = select(table.c.id, table.c.link, chain.c.depth + 1).where(table.c.id == chain.c.link, chain.c.depth < MAX_TURNS)
        chain = chain.union_all(further)
        columns = (table.c[name] for name in MemoryRow.__struct_fields__)
        query = select(*columns).join(chain, chain.c.id == table.c.id).order_by(chain.c.depth)
        rows = [MemoryRow(*row) for row in await self._memory.database.rows(query)]
        await self._memory.mark(rows)
        return rows


def _content(turn: PastTurn, *, began: bool = False) -> bytes:
    """A row's content. A turn that is too long ends what can be read."""
    results = {"results": turn.results} if turn.results else {}
    fields = {"name": turn.name, "messages": turn.messages, "own": turn.own, "began": began, "lost": False, **results}
    content = orjson.dumps(fields)
    return content if len(content) <= MAX_TURN_BYTES else orjson.dumps({**fields, "messages": [], "lost": True, "began": False})


class DatabaseOwners:
    """Which client each thing belongs to that a provider keeps under the operator's key: a response, an item of one, a conversation.

    Whoever brought a thing about owns it for as long as it is remembered; another client that is given the same id later does not.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._memory = Memory(database, "owner", clock)

    async def find(self, upstream: str, ids: Collection[str]) -> dict[str, str]:
        """The clients that own those of `ids` that are remembered. Raises `StoreUnavailable`."""
        named = self._named(upstream, ids)
        return {named[row.id]: row.client for row in await self._memory.read(list(named))}

    async def add(self, upstream: str, ids: Collection[str], client: str) -> bool:
        """They are `client`'s, but for those that are somebody's already: whether there are none such. Raises `StoreUnavailable`."""
        rows = [self._memory.row(key, client) for key in self._named(upstream, ids)]
        added = [await self._memory.add(rows[start : start + KEYS_A_QUERY]) for start in range(0, len(rows), KEYS_A_QUERY)]
        return sum(added) == len(rows)

    def _named(self, upstream: str, ids: Collection[str]) -> dict[str, str]:
        key = keys_of(upstream)
        return {f"{self._memory.kind}:{key(one)}": one for one in ids}
