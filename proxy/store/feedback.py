"""What people say of findings: that one is right or wrong, and what it should have been. Labelled data, kept with what it is about.

One entry for a finding: who says something else later replaces it. What it is about is copied from the record, so that it stands on
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import RowMapping, select

from proxy.store.listing import MAX_REASON_CHARS, Listed, packed, unpacked
from proxy.store.tables import clean, key_of
from proxy.store.tables import feedback as table

Said = Literal["right", "wrong"]
FILTERS = ("stage", "said", "record_id", "client", "policy")
_TEXTS = ("record_id", "client", "policy", "stage", "place", "label", "said", "expected", "said_by")


class Feedback(Struct, frozen=True, kw_only=True):
    """One person's word on one finding. `id` and `created_at` are the store's to fill."""

    record_id: str
    client: str
    policy: str
    stage: str
    """Whose finding it is."""
    place: str
    """``CHOICE:START-END`` of a sentence of the answer, or the code of a stage's verdict."""
    label: str
    """What the stage said: ``contradicted``, ``warn``, …"""
    said: Said
    expected: str = ""
    """What it should have said."""
    said_by: str = ""
    note: str = ""
    content: Mapping[str, Any] = {}
    """The finding as the record has it: text, evidence, score, reason. JSON values."""
    id: str = ""
    created_at: float = 0.0
    """Seconds since the epoch."""


_COLUMNS = [table.c[name] for name in Feedback.__struct_fields__]


class DatabaseFeedback(Listed[Feedback]):
    """Keeps it."""

    table, columns, keeps_labels = table, _COLUMNS, True

    async def put(self, entry: Feedback) -> Feedback:
        """Keep it in place of an earlier one on the same finding, and return what is kept. Raises `StoreUnavailable`."""
        key = "fb_" + key_of(entry.record_id, entry.stage, entry.place)
        content = packed(entry.content)
        row = {name: clean(getattr(entry, name)) for name in _TEXTS} | {
            "id": key,
            "note": clean(entry.note, MAX_REASON_CHARS),
            "content": content,
            "size_bytes": len(content) + len(entry.note),
            "created_at": self._clock(),
        }
        insert = self._database.insert(table).values(row)
        changed = {name: insert.excluded[name] for name in row if name != "id"}
        async with self._database.writing() as connection:
            await connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changed))
            return self._made((await connection.execute(select(*_COLUMNS).where(table.c.id == key))).mappings().one())

    async def of_record(self, record_id: str) -> dict[tuple[str, str], Feedback]:
        """What was said of an exchange, by stage and place. Raises `StoreUnavailable`."""
        query = select(*_COLUMNS).where(table.c.record_id == clean(record_id))
        async with self._database.transaction() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return {(found.stage, found.place): found for found in map(self._made, rows)}

    def _made(self, row: RowMapping) -> Feedback:
        return Feedback(**{**row, "content": unpacked(row["content"])})
