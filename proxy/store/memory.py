"""What is remembered of clients' runs and conversations, by keys: one table for all kinds of it, and the ports that need no more than that.

A row has a key made of its kind and of what it is about, some content, a link to another row or word, and a number. Every change is made on
a condition (nobody was there before, or it still has the number that was read), so that workers agree. What is read is marked as used once
an hour, and retention forgets what nobody reads. What one client sent is found by that client alone, as its name is a part of the key.

The scratchpad keeps what left a prompt, byte for byte, in a table of its own. An item's id is made of its client, its run and its bytes, so
that the same content taken out again has the same id in every worker and no client can guess or collide with another's.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, RowMapping, TextClause, and_, func, select, text, update

from proxy.context.archive import ID_CHARS, reference_ids
from proxy.errors import StoreUnavailable
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Compaction, ScratchpadItem, ToolRun
from proxy.store.database import Database
from proxy.store.listing import Listed
from proxy.store.tables import clean, key_of, keys_of, scratchpad
from proxy.store.tables import memory as table

_ID_CHARS = 32
"""128 bits of SHA-256: no two contents of one store will share them."""
_PREFIX = re.compile(r"sp_[0-9a-f]{12,32}")
_LISTED = [column for column in scratchpad.columns if column.name != "content"]


def item_id(content: bytes, client: str, run_id: str) -> str:
    """``sp_`` and 32 hexadecimal digits. Lengths go into the hash, so that no shift of a boundary gives the same id."""
    digest = hashlib.sha256()
    for part in (client.encode("utf-8", "surrogatepass"), run_id.encode("utf-8", "surrogatepass")):
        digest.update(len(part).to_bytes(8, "big") + part)
    digest.update(content)
    return "sp_" + digest.hexdigest()[:_ID_CHARS]


class DatabaseScratchpad(Listed[ScratchpadItem]):
    """Implements `proxy.ports.Scratchpad`; its lists are without contents."""

    table, columns = scratchpad, _LISTED

    async def put(self, content: bytes, *, client: str, run_id: str, media_type: str = "text/plain") -> str:
        """Commit `content` and return its id; content that is there already is only marked as used. Raises `StoreUnavailable`."""
        key, now = item_id(content, client, run_id), self._clock()
        insert = self._database.insert(scratchpad).values(
            id=key,
            client=clean(client),
            run_id=clean(run_id),
            media_type=clean(media_type),
            size_bytes=len(content),
            created_at=now,
            used_at=now,
            content=content,
        )
        used = insert.on_conflict_do_update(index_elements=["id"], set_={"used_at": insert.excluded.used_at})
        await self._database.execute(used, alone=True)
        return key

    async def get(self, item_id: str, *, client: str | None = None) -> bytes | None:
        """The bytes, or None. With `client`, only what belongs to it. Raises `StoreUnavailable`."""
        item = await self.item(item_id, client=client)
        return item.content if item else None

    async def item(self, item_id: str, *, client: str | None = None) -> ScratchpadItem | None:
        """The bytes and what is known of them, or None. With `client`, only what belongs to it. Raises `StoreUnavailable`."""
        async with self._database.transaction() as connection:
            return await self._read(connection, item_id, scratchpad.columns.values(), client)

    async def find(self, prefix: str, *, client: str | None = None) -> ScratchpadItem | None:
        """The one item (of `client`) whose id begins with `prefix`, of at least 12 hexadecimal digits. Raises `StoreUnavailable`."""
        if not _PREFIX.fullmatch(prefix):
            return None
        among = and_(scratchpad.c.id >= prefix, scratchpad.c.id < prefix + "g")  # "g" follows every digit
        if client is not None:
            among = and_(among, scratchpad.c.client == clean(client))
        async with self._database.transaction() as connection:
            ids = (await connection.scalars(select(scratchpad.c.id).where(among).limit(2))).all()
            if len(ids) != 1:
                return None
            row = (await connection.execute(select(scratchpad).where(scratchpad.c.id == ids[0]))).mappings().one()
        return self._made(row)

    def _made(self, row: RowMapping) -> ScratchpadItem:
        return ScratchpadItem(**row)


KEYS_A_QUERY = 500
"""Both databases bound the number of a statement's parameters, at 32,766 or more."""
USED_EVERY_S = 3600.0
"""Retention goes by days, and a read should mostly not be a write."""
PER_RUN = 5000
KEY_COST = 40
"""To make a key or a hash takes as long as a pass over so many characters."""
_SWAPS = 16
"""Tries to keep new times while other workers do; each failure means that another one succeeded."""
_ENTRY = struct.Struct("<Qd")
"""A message's hash, cut to 64 bits, and seconds since the epoch."""


class MemoryRow(Struct, frozen=True):
    """A row, as it is read."""

    id: str
    client: str
    link: str
    number: int
    content: bytes
    created_at: float
    used_at: float


@lru_cache(maxsize=256)
def _query(among: str, last: str) -> TextClause:
    return text(f"SELECT {', '.join(MemoryRow.__struct_fields__)} FROM {table.name} WHERE id {among}{last}")  # noqa: S608 - our own names


class Memory:
    """The rows of one kind."""

    def __init__(self, database: Database, kind: str, clock: Callable[[], float] | None = None) -> None:
        self.database, self.kind, self.clock = database, kind, clock or database.clock

    def key(self, *about: str) -> str:
        """Of a row."""
        return f"{self.kind}:{key_of(*about)}"

    def keys(self, names: Iterable[str], *about: str) -> dict[str, str]:
        """`key` of each name with what they are all about before it: the name by its key."""
        key = keys_of(*about)
        return {f"{self.kind}:{key(name)}": name for name in names}

    async def read(self, keys: Sequence[str], last: str = "", *, mark: bool = True) -> list[MemoryRow]:
        """The rows that there are of these keys, marked as used; `last` ends each query. Raises `StoreUnavailable`."""
        rows: list[MemoryRow] = []
        for start in range(0, len(keys), KEYS_A_QUERY):
            among, values = self.database.among("k", keys[start : start + KEYS_A_QUERY])
            rows += [MemoryRow(*row) for row in await self.database.read(_query(among, last), values)]
        if mark:
            await self.mark(rows)
        return rows

    async def mark(self, rows: Sequence[MemoryRow]) -> bool:
        """As used, where that was an hour ago; whether any was."""
        now = self.clock()
        stale = [row.id for row in rows if row.used_at < now - USED_EVERY_S]
        for start in range(0, len(stale), KEYS_A_QUERY):
            async with self.database.writing(alone=True) as connection:
                some = table.c.id.in_(stale[start : start + KEYS_A_QUERY])
                await connection.execute(update(table).where(some).values(used_at=now))
        return bool(stale)

    def row(self, key: str, client: str, content: bytes = b"", link: str = "", number: int = 0, now: float | None = None) -> dict[str, Any]:
        """A new row's values."""
        now = self.clock() if now is None else now
        own = {"id": key, "kind": self.kind, "client": clean(client), "link": link, "number": number, "content": content}
        return own | {"size_bytes": len(key) + len(content), "created_at": now, "used_at": now}

    async def add(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Keep those whose keys are free; how many were. Raises `StoreUnavailable`."""
        insert = self.database.insert(table).values(list(rows)).on_conflict_do_nothing(index_elements=["id"])
        return await self.database.execute(insert, alone=True)

    async def change(self, key: str, condition: ColumnElement[bool], **values: Any) -> bool:
        """Change the row if it still is as the condition says; whether it was. Raises `StoreUnavailable`."""
        statement = update(table).where(table.c.id == key, condition).values(**values, used_at=self.clock())
        return await self.database.execute(statement, alone=True) == 1

    async def load(self, key: str) -> tuple[bytes | None, int]:
        """Content and version; None and 0 where there is no row. Raises `StoreUnavailable`."""
        rows = await self.read([key])
        return (rows[0].content, rows[0].number) if rows else (None, 0)

    async def swap(self, key: str, content: bytes, version: int, client: str) -> bool:
        """Replace the content if the row still has `version`, 0 for none; whether it had. Raises `StoreUnavailable`."""
        if version == 0:
            return await self.add([self.row(key, client, content, number=1)]) == 1
        values = {"content": content, "number": version + 1, "size_bytes": len(key) + len(content)}
        return await self.change(key, table.c.number == version, **values)


class DatabaseSpending:
    """Implements `proxy.ports.Spending`: a row a budget and day, whose number are millionths of a dollar."""

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._memory = Memory(database, "spending", clock)

    async def add(self, name: str, day: int, usd: float) -> float:
        """Count `usd`, and return the day's sum over all processes. Raises `StoreUnavailable`."""
        row = self._memory.row(self._memory.key(name, str(day)), "", number=round(usd * 1e6))
        insert = self._memory.database.insert(table).values(row)
        more = {"number": table.c.number + insert.excluded.number, "used_at": insert.excluded.used_at}
        counted = insert.on_conflict_do_update(index_elements=["id"], set_=more)
        async with self._memory.database.writing(alone=True) as connection:
            return int(await connection.scalar(counted.returning(table.c.number)) or 0) / 1e6


class DatabaseToolRuns:
    """Which tools a run has been shown: implements `proxy.ports.ToolRuns`. A worker that read an older version loses the exchange, reads
    again and adds to what the other one chose, so that all of them end with one list in one order.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._memory = Memory(database, "tool_run", clock)

    async def get(self, run: str, *, client: str) -> ToolRun:
        """What is known of `client`'s `run`. Raises `StoreUnavailable`."""
        content, version = await self._memory.load(self._memory.key(client, run))
        return ToolRun() if content is None else ToolRun(msgspec.json.decode(content, type=tuple[str, ...]), version)

    async def swap(self, run: str, names: Sequence[str], version: int, *, client: str) -> bool:
        """Replace the names if the run still has `version`; False when another worker was first. Raises `StoreUnavailable`."""
        return await self._memory.swap(self._memory.key(client, run), msgspec.json.encode(list(names)), version, client)


class DatabaseCompactions:
    """What is sent in place of a conversation's first messages: implements `proxy.ports.Compactions`. The first worker to put one decides
    what all of them send. Its use marks the scratchpad items that it refers to as used, too: a prompt still names them.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._memory = Memory(database, "compaction", clock)

    async def find(self, covers: Sequence[str], *, client: str) -> Compaction | None:
        """The client's longest compaction whose `covers` is one of these. Raises `StoreUnavailable`."""
        keys = await run_in_thread_if_large(len(covers) * KEY_COST, self._memory.keys, covers, client)
        found = await self._memory.read(list(keys), " ORDER BY number DESC, id LIMIT 1", mark=False)
        if not found:
            return None
        best = max(found, key=lambda row: row.number)
        if await self._memory.mark([best]):
            await self._mark_archived(best)
        return _compaction(keys[best.id], best)

    async def put(self, compaction: Compaction, *, client: str, run_id: str) -> Compaction:
        """Keep it, and return what is kept: another worker's, if that was first. Raises `StoreUnavailable`."""
        key = self._memory.key(client, compaction.covers)
        pieces = json.dumps(compaction.pieces, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        await self._memory.add([self._memory.row(key, client, pieces, number=compaction.length)])
        return _compaction(compaction.covers, (await self._memory.read([key]))[0])

    async def _mark_archived(self, row: MemoryRow) -> None:
        ids = sorted(reference_ids(row.content.decode("utf-8", "surrogatepass")))
        for start in range(0, len(ids), KEYS_A_QUERY):
            named = func.substr(scratchpad.c.id, 1, ID_CHARS).in_(ids[start : start + KEYS_A_QUERY])
            async with self._memory.database.writing(alone=True) as connection:
                mine = scratchpad.c.client == row.client
                await connection.execute(update(scratchpad).where(mine, named).values(used_at=self._memory.clock()))


def _compaction(covers: str, row: MemoryRow) -> Compaction:
    return Compaction(covers, row.number, tuple(json.loads(row.content.decode("utf-8", "surrogatepass"))), row.created_at)


class DatabaseFirstSeen:
    """When the messages of a run were first seen: implements `proxy.ports.FirstSeen`. 16 bytes a message, the oldest first; a worker that
    read an older version reads again, and so takes over the times that the other one has kept.
    """

    def __init__(self, database: Database, *, per_run: int = PER_RUN, clock: Callable[[], float] | None = None) -> None:
        """Of a run's messages beyond `per_run`, those that are no longer sent are forgotten first, then the newest are not kept."""
        self._memory, self._per_run = Memory(database, "first_seen", clock), per_run

    async def times(self, run: str, hashes: Sequence[str], now: float, *, client: str) -> list[float]:
        """For each hash when it was first seen, in seconds since the epoch; `now` for new ones, kept. Raises `StoreUnavailable`."""
        key, asked = self._memory.key(client, run), await run_in_thread_if_large(len(hashes) * KEY_COST, _all_short, hashes)
        for _ in range(_SWAPS):
            content, version = await self._memory.load(key)
            times, packed = await run_in_thread_if_large(len(hashes) * KEY_COST, _merged, content or b"", asked, now, self._per_run)
            if packed is None or await self._memory.swap(key, packed, version, client):
                return times
        raise StoreUnavailable("other workers keep changing the run's times")


def _merged(content: bytes, asked: Sequence[int], now: float, most: int) -> tuple[list[float], bytes | None]:
    """The times of those `asked` for, and what is to be stored of all; None where that is there."""
    stored = dict(_ENTRY.iter_unpack(content))
    wanted = stored | {hash_: now for hash_ in asked if hash_ not in stored}
    bounded = _bounded(wanted, set(asked), most)
    packed = None if bounded.keys() == stored.keys() else b"".join(_ENTRY.pack(*entry) for entry in bounded.items())
    return [wanted[hash_] for hash_ in asked], packed


def _bounded(times: Mapping[int, float], asked: set[int], most: int) -> dict[int, float]:
    """At most `most` of `times`, in their order: first those that are not `asked` for go, the oldest of them first, then the newest."""
    gone = set([hash_ for hash_ in times if hash_ not in asked][: max(0, len(times) - most)])
    return dict([entry for entry in times.items() if entry[0] not in gone][:most])


def _all_short(hashes: Sequence[str]) -> list[int]:
    digests = (hashlib.blake2b(hash_.encode("utf-8", "surrogatepass"), digest_size=8).digest() for hash_ in hashes)
    return [int.from_bytes(digest, "little") for digest in digests]
