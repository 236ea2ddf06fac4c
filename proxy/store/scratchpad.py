"""Keeps what left a prompt, byte for byte: the `Scratchpad` port of `proxy.ports.stage`, on the database.

An item's id is made of its client, its run and its bytes, so that the same content taken out again has the same id in every worker
and no client can guess or collide with another's. `put` returns after the commit.
"""

from __future__ import annotations

import hashlib
import re

from sqlalchemy import RowMapping, and_, select

from proxy.ports import ScratchpadItem
from proxy.store.listing import Listed
from proxy.store.tables import clean
from proxy.store.tables import scratchpad as table

_ID_CHARS = 32
"""128 bits of SHA-256: no two contents of one store will share them."""
_PREFIX = re.compile(r"sp_[0-9a-f]{12,32}")
_LISTED = [column for column in table.columns if column.name != "content"]


def item_id(content: bytes, client: str, run_id: str) -> str:
    """``sp_`` and 32 hexadecimal digits. Lengths go into the hash, so that no shift of a boundary gives the same id."""
    digest = hashlib.sha256()
    for part in (client.encode("utf-8", "surrogatepass"), run_id.encode("utf-8", "surrogatepass")):
        digest.update(len(part).to_bytes(8, "big") + part)
    digest.update(content)
    return "sp_" + digest.hexdigest()[:_ID_CHARS]


class DatabaseScratchpad(Listed[ScratchpadItem]):
    """Implements `proxy.ports.Scratchpad`; its lists are without contents."""

    table, columns = table, _LISTED

    async def put(self, content: bytes, *, client: str, run_id: str, media_type: str = "text/plain") -> str:
        """Commit `content` and return its id; content that is there already is only marked as used. Raises `StoreUnavailable`."""
        key, now = item_id(content, client, run_id), self._clock()
        insert = self._database.insert(table).values(
            id=key,
            client=clean(client),
            run_id=clean(run_id),
            media_type=clean(media_type),
            size_bytes=len(content),
            created_at=now,
            used_at=now,
            content=content,
        )
        async with self._database.writing() as connection:
            await connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_={"used_at": insert.excluded.used_at}))
        return key

    async def get(self, item_id: str, *, client: str | None = None) -> bytes | None:
        """The bytes, or None. With `client`, only what belongs to it. Raises `StoreUnavailable`."""
        item = await self.item(item_id, client=client)
        return item.content if item else None

    async def item(self, item_id: str, *, client: str | None = None) -> ScratchpadItem | None:
        """The bytes and what is known of them, or None. With `client`, only what belongs to it. Raises `StoreUnavailable`."""
        async with self._database.transaction() as connection:
            return await self._read(connection, item_id, table.columns.values(), client)

    async def find(self, prefix: str, *, client: str | None = None) -> ScratchpadItem | None:
        """The one item (of `client`) whose id begins with `prefix`, of at least 12 hexadecimal digits. Raises `StoreUnavailable`."""
        if not _PREFIX.fullmatch(prefix):
            return None
        among = and_(table.c.id >= prefix, table.c.id < prefix + "g")  # "g" follows every digit
        if client is not None:
            among = and_(among, table.c.client == clean(client))
        async with self._database.transaction() as connection:
            ids = (await connection.scalars(select(table.c.id).where(among).limit(2))).all()
            if len(ids) != 1:
                return None
            row = (await connection.execute(select(table).where(table.c.id == ids[0]))).mappings().one()
        return self._made(row)

    def _made(self, row: RowMapping) -> ScratchpadItem:
        return ScratchpadItem(**row)
