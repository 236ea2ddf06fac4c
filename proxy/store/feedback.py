"""What people say of findings: that one is right or wrong, and what it should have been. Labelled data, kept with what it is about.

One entry for a finding. Who decides on what nobody has decided yet says so with version 0: the first decision holds, on
whichever node. What an entry is about is copied from the record, so that it stands on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import RowMapping, delete, exists, func, literal_column, select

from proxy.errors import Conflict
from proxy.store.listing import MAX_REASON_CHARS, Listed, packed, page, unpacked
from proxy.store.tables import TO_REVIEW, clean, key_of, records
from proxy.store.tables import feedback as table

Said = Literal["right", "wrong"]
FLAGGED = ("contradicted", "unsupported", "warn", "block")
"""Labels by which a stage says that something is wrong: precision is the share of these that people call right."""
REVIEWED = (*FLAGGED, "unsure")
"""Labels on which a person is asked."""
FILTERS = ("stage", "said", "record_id", "client", "policy")
_TEXTS = ("record_id", "client", "policy", "stage", "place", "label", "said", "expected", "said_by")


class Feedback(Struct, frozen=True, kw_only=True):
    """One person's word on one finding. `id`, `created_at` and `version` are the store's to fill."""

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
    record_findings: int = 0
    """Findings of this exchange on which a person is asked; 0 where this is none of them."""
    version: int = 0
    """Microseconds of `created_at`: another decision has another one."""


_COLUMNS = [table.c[name] for name in Feedback.__struct_fields__ if name != "version"]
_OF_RECORDS = [column for column in records.columns if column.name not in ("size_bytes", "request_body", "answer_body")]


class DatabaseFeedback(Listed[Feedback]):
    """Keeps it."""

    table, columns, keeps_labels = table, _COLUMNS, True

    async def put(self, entry: Feedback, version: int | None = None) -> Feedback:
        """Keep it in place of an earlier one on the same finding, and return what is kept. Raises `StoreUnavailable`.

        `version` is what the person saw there, 0 for nothing: raises `Conflict` if there is another one now. The same word of the same
        person changes nothing.
        """
        key = entry_id(entry.record_id, entry.stage, entry.place)
        content = packed(entry.content)
        row = {name: clean(getattr(entry, name)) for name in _TEXTS} | {
            "id": key,
            "note": clean(entry.note, MAX_REASON_CHARS),
            "content": content,
            "size_bytes": len(content) + len(entry.note),
            "created_at": self._clock(),
            "record_findings": entry.record_findings,
        }
        insert = self._database.insert(table).values(row)
        changed = {name: insert.excluded[name] for name in row if name != "id"}
        async with self._database.writing() as connection:
            new = (await connection.execute(insert.on_conflict_do_nothing(index_elements=["id"]))).rowcount == 1
            there = await self._read(connection, key, lock=True)
            assert there is not None
            if new or (version is not None and _same(there, entry)):
                return there
            _check(there, version)
            await connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changed))
            return self._made((await connection.execute(select(*_COLUMNS).where(table.c.id == key))).mappings().one())

    async def take_back(self, key: str, version: int) -> Feedback | None:
        """Delete it, and return what it was; None where there is none. Raises `Conflict` for another version, `StoreUnavailable`."""
        async with self._database.writing() as connection:
            there = await self._read(connection, key, lock=True)
            if there is not None:
                _check(there, version)
                await connection.execute(delete(table).where(table.c.id == there.id))
            return there

    async def of_records(self, ids: Iterable[str]) -> list[Feedback]:
        """What was said of these exchanges (some hundred at most). Raises `StoreUnavailable`."""
        query = select(*_COLUMNS).where(table.c.record_id.in_([*map(clean, ids)])).order_by(table.c.created_at)
        return [*map(self._made, await self._database.mappings(query))]

    async def records_to_review(self, limit: int, after: str | None = None) -> tuple[Sequence[RowMapping], bool]:
        """Rows of exchanges, without bodies, of whose findings not all have been decided; newest first, and whether there are more.

        Some of them may have none. Raises `StoreUnavailable`.
        """
        own = select(table.c.record_id).where(table.c.record_id == records.c.id, table.c.record_findings > 0).group_by(table.c.record_id)
        decided = exists(own.having(func.count() >= func.max(table.c.record_findings)))
        query = select(*_OF_RECORDS).where(literal_column(f"({TO_REVIEW})"), ~decided)
        async with self._database.transaction() as connection:
            return await page(connection, query, records, limit, after)

    async def by_stage(self) -> dict[str, tuple[int, int]]:
        """Of each stage's flags how many people called right, and on how many they said something. Raises `StoreUnavailable`."""
        query = select(table.c.stage, table.c.said, func.count()).where(table.c.label.in_(FLAGGED)).group_by(table.c.stage, table.c.said)
        found = dict[str, tuple[int, int]]()
        for stage, said, number in await self._database.rows(query):
            right, total = found.get(stage, (0, 0))
            found[stage] = right + (number if said == "right" else 0), total + number
        return dict(sorted(found.items()))

    def _made(self, row: RowMapping) -> Feedback:
        return Feedback(**{**row, "content": unpacked(row["content"])}, version=round(row["created_at"] * 1e6))


def entry_id(record_id: str, stage: str, place: str) -> str:
    """``fb_`` and 32 hexadecimal digits."""
    return "fb_" + key_of(record_id, stage, place)


def _same(one: Feedback, other: Feedback) -> bool:
    return (one.said, one.expected, one.said_by) == (other.said, other.expected, other.said_by)


def _check(there: Feedback, version: int | None) -> None:
    if version is not None and version != there.version:
        raise Conflict(f"{there.said_by or 'somebody'} has called it {there.said} since, and that holds", param="version")
