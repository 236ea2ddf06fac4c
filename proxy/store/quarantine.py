"""Keeps content from the model until a person decides: the `Quarantine` port, on the database, and the operator's side of it.

An item's id is made of its client, run, policy and content hash, so that every worker has the same and no client can collide with
another's. The first to put it decides what is kept; a decision changes its status and adds a row to the audit trail, and every worker
reads it at its next turn. A decision with scope ``client`` goes to the same content in the client's other runs of the policy, those to
come included: where two decisions meet, the newest counts, and any person's before a stage's.

Items that nobody has decided are not deleted for their age (see `proxy.store.retention`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, get_args

import msgspec
from sqlalchemy import ColumnElement, RowMapping, Select, TextClause, and_, func, or_, select, text, update

from proxy.errors import Conflict
from proxy.ports.review import POLICY, QuarantineItem, QuarantineStatus, Scope
from proxy.store.drivers import AsyncConnection
from proxy.store.listing import MAX_REASON_CHARS, Listed, add_decisions, decided_before, mark_seen, packed, policy_name, unpacked
from proxy.store.tables import clean, key_of, keys_of
from proxy.store.tables import decisions as trail_table
from proxy.store.tables import quarantine as table

_HASHES_A_QUERY = 400
"""Two parameters each; both databases bound the number of a statement's parameters, at 32,766 or more."""
_ASKED_EVERY_S = 3600.0
"""An item that is asked for is marked as seen this often: retention goes by days, and a read should mostly not be a write."""
_PUT_EVERY_S = 60.0
"""A client sends its whole history each turn, so an item that is put again is counted this often."""
_DECIDED_LATER_S = 1e-6
"""A decision comes after those it replaces, whatever the workers' clocks say."""
_FIELDS = [table.c[name] for name in QuarantineItem.__struct_fields__]
_LISTED = [column for column in _FIELDS if column.name != "content"]
FILTERS = ("status", "run_id", "client", "policy", "type")


def item_id(client: str, run_id: str, policy: str, content_hash: str) -> str:
    """``qr_`` and 32 hexadecimal digits; `policy` may be a label."""
    return "qr_" + key_of(client, run_id, policy_name(policy), content_hash)


class DatabaseQuarantine(Listed[QuarantineItem]):
    """Implements `proxy.ports.Quarantine`; its lists and findings are without contents."""

    table, columns, statuses = table, _LISTED, get_args(QuarantineStatus)

    async def put(self, item: QuarantineItem) -> QuarantineItem:
        """Keep `item`, and return what is kept, decided or not; the first one is kept as it was. Raises `StoreUnavailable`."""
        key, now = item_id(item.client, item.run_id, item.policy, item.hash), self._clock()
        insert = self._database.insert(table).values(_row(item, key, now)).on_conflict_do_nothing(index_elements=["id"])
        async with self._database.writing() as connection:
            new = (await connection.execute(insert)).rowcount == 1
            if not new:
                again = update(table).where(table.c.id == key, table.c.seen_at < now - _PUT_EVERY_S)
                await connection.execute(again.values(seen_at=now, seen_count=table.c.seen_count + 1))
            kept = self._made((await connection.execute(select(*_FIELDS).where(table.c.id == key))).mappings().one())
            if new and kept.decided_at is not None:
                await add_decisions(connection, [(key, kept.version)], kept.status, kept.decided_at, kept.decided_by, kept.decision_reason)
            shared = (await connection.execute(_decided_for_all([_client_key(item)]))).mappings().first()
            return kept if shared is None else await self._follow(connection, kept, self._made(shared))

    async def find(self, hashes: Sequence[str], *, client: str, run_id: str, policy: str) -> dict[str, QuarantineItem]:
        """What is known of these contents, by hash and without the bytes. Raises `StoreUnavailable`."""
        found: dict[str, QuarantineItem] = {}
        wanted = list(dict.fromkeys(hashes))
        if self._database.is_without("quarantine", client, run_id) or not await self._holds(wanted, client, run_id, policy_name(policy)):
            return found
        async with self._database.transaction() as connection:
            for start in range(0, len(wanted), _HASHES_A_QUERY):
                some = wanted[start : start + _HASHES_A_QUERY]
                found |= await self._find(connection, some, client, run_id, policy_name(policy))
            await self._mark(connection, found.values())
        return found

    async def decide(
        self, item_id: str, status: QuarantineStatus, *, by: str, reason: str = "", scope: Scope = "run", version: int | None = None
    ) -> QuarantineItem | None:
        """Approve or reject, and return the item without its bytes; None where there is none. Raises `StoreUnavailable`.

        The very decision that the item has already changes nothing. Another one counts from now on, and both stay in the trail; with
        `version` only if the item still has it, else `Conflict` is raised.
        """
        by, reason = clean(by), clean(reason, MAX_REASON_CHARS)
        async with self._database.writing() as connection:
            rows = await self._lock(connection, item_id)
            item = await self._read(connection, item_id)
            if item is None or (item.status, item.decided_by, item.decision_reason, item.scope) == (status, by, reason, scope):
                return item
            _check(item, version)
            ids = [row.id for row in rows] if scope == "client" else [item.id]
            await _decide(connection, ids, rows[0].client_key, status, self._after(rows), by, reason, scope)
            return await self._read(connection, item_id)

    async def take_back(self, item_id: str, *, by: str, reason: str, version: int) -> QuarantineItem | None:
        """Take the last decision back, and return the item without its bytes; None where there is none. Raises `StoreUnavailable`, and
        `Conflict` if the item has another `version`.

        What was decided before counts again: where the decision was for the client, in each of its runs what was decided for that run, and
        for all others what was decided for the client. A run that was decided anew since keeps that.
        """
        by, reason = clean(by), clean(reason, MAX_REASON_CHARS)
        async with self._database.writing() as connection:
            rows = await self._lock(connection, item_id)
            item = await self._read(connection, item_id)
            if item is not None:
                _check(item, version)
            if item is None or item.decided_at is None:
                return item
            key, at = rows[0].client_key, self._after(rows)
            if item.scope == "run":
                own = {item.id: "pending", **await _before(connection, [item.id], item.decided_at)}
            else:
                ids = [row.id for row in rows if (row.scope, row.decided_at) == (item.scope, item.decided_at)]
                shared = await connection.scalar(_client_decision_before(key, item.decided_at)) or "pending"
                await _decide(connection, ids, key, shared, at, by, reason, "client")
                before = await _before(connection, ids, item.decided_at, "run")
                own = {one: decision for one, decision in before.items() if decision != shared}
            for status in sorted({*own.values()}):
                ids = [one for one, decision in own.items() if decision == status]
                await _decide(connection, ids, key, status, at + _DECIDED_LATER_S, by, reason, "run")
            return await self._read(connection, item_id)

    async def _lock(self, connection: AsyncConnection, item_id: str) -> Sequence[Any]:
        """The item and those of the same content in the client's other runs: nobody else decides on them until the transaction ends."""
        same_content = select(table.c.client_key).where(table.c.id == clean(item_id)).scalar_subquery()
        rows = select(table.c.id, table.c.client_key, table.c.scope, table.c.decided_at).where(table.c.client_key == same_content)
        return (await connection.execute(rows.order_by(table.c.id).with_for_update())).all()

    def _after(self, rows: Sequence[Any]) -> float:
        """Now, but later than what was decided on any of these."""
        return max(self._clock(), *(float(row.decided_at or 0.0) + _DECIDED_LATER_S for row in rows))

    async def get(self, item_id: str, *, content: bool = True) -> QuarantineItem | None:
        """The item, with its bytes if asked for. Raises `StoreUnavailable`."""
        async with self._database.transaction() as connection:
            return await self._read(connection, item_id, _FIELDS if content else _LISTED)

    async def _holds(self, hashes: Sequence[str], client: str, run_id: str, policy: str) -> bool:
        """Whether anything is known of one of these: mostly not, and that takes one trip to the database."""
        own, others = keys_of(client, run_id, policy), keys_of(client, policy)
        for start in range(0, len(hashes), _HASHES_A_QUERY):
            some = hashes[start : start + _HASHES_A_QUERY]
            ids, named = self._database.among("i", [f"qr_{own(hash_)}" for hash_ in some])
            contents, shared = self._database.among("c", [others(hash_) for hash_ in some])
            if await self._database.read(_known_query(ids, contents), {**named, **shared}):
                return True
        return False

    async def _find(
        self, connection: AsyncConnection, hashes: Sequence[str], client: str, run_id: str, policy: str
    ) -> dict[str, QuarantineItem]:
        own = {item_id(client, run_id, policy, hash_): hash_ for hash_ in hashes}
        others = {key_of(client, policy, hash_): hash_ for hash_ in hashes}
        rows = (await connection.execute(select(*_LISTED).where(table.c.id.in_(own)))).mappings()
        found = {own[row["id"]]: self._made(row) for row in rows}
        for row in (await connection.execute(_decided_for_all(list(others)))).mappings().all():
            hash_, shared = others[row["client_key"]], self._made(row)
            found[hash_] = await self._follow(connection, found[hash_], shared) if hash_ in found else shared
        return found

    async def _mark(self, connection: AsyncConnection, items: Iterable[QuarantineItem]) -> None:
        now = self._clock()
        due = sorted(item.id for item in items if item.seen_at < now - _ASKED_EVERY_S)
        if due:
            await mark_seen(connection, table, table.c.id.in_(due), now)

    async def _follow(self, connection: AsyncConnection, own: QuarantineItem, shared: QuarantineItem) -> QuarantineItem:
        """`own`, decided as `shared` if that is what counts: an item can be put just while the others are decided."""
        if shared.decided_at is None or _rank(shared) <= _rank(own):
            return own
        older = or_(table.c.decided_at.is_(None), table.c.decided_at < shared.decided_at, table.c.decided_by == POLICY)
        by, reason = shared.decided_by, shared.decision_reason
        await _decide(connection, [own.id], _client_key(own), shared.status, shared.decided_at, by, reason, shared.scope, older)
        now = await self._read(connection, own.id)
        return own if now is None else msgspec.structs.replace(now, content=own.content)

    def _made(self, row: RowMapping) -> QuarantineItem:
        fields = {name: row[name] for name in QuarantineItem.__struct_fields__ if name in row}
        return QuarantineItem(**fields | {"detail": unpacked(row["detail"])})


@lru_cache(maxsize=64)
def _known_query(ids: str, contents: str) -> TextClause:
    """Whether there is an item among these ids, or a decision for all of the client's runs on one of these contents."""
    items = f"SELECT 1 FROM {table.name} WHERE id {ids}"  # noqa: S608 - no text of anybody's
    rulings = f"SELECT 1 FROM {trail_table.name} WHERE scope = 'client' AND client_key {contents}"  # noqa: S608
    return text(f"{items} UNION ALL {rulings} LIMIT 1")


async def _decide(
    connection: AsyncConnection,
    ids: Sequence[str],
    client_key: str,
    status: str,
    at: float,
    by: str,
    reason: str,
    scope: Scope,
    where: ColumnElement[bool] | None = None,
) -> None:
    """Set it on items of one `client_key`, and add it to the trail; `where` leaves items out."""
    values = {"status": status, "decided_at": at, "decided_by": by, "decision_reason": reason, "scope": scope}
    for start in range(0, len(ids), _HASHES_A_QUERY):
        some = table.c.id.in_(ids[start : start + _HASHES_A_QUERY])
        change = update(table).where(some if where is None else and_(some, where)).values(**values, version=table.c.version + 1)
        changed = (await connection.execute(change.returning(table.c.id, table.c.version))).all()
        await add_decisions(connection, [(row.id, row.version) for row in changed], status, at, by, reason, scope, client_key)


def _check(item: QuarantineItem, version: int | None) -> None:
    """Raises `Conflict` where somebody has decided since the item had this version."""
    if version is None or version == item.version:
        return
    since = {"": "nobody has decided on it", "pending": f"{item.decided_by} has taken a decision on it back"}
    said = since.get(item.status if item.decided_by else "", f"{item.decided_by} has {item.status} it since")
    raise Conflict(f"{said}: it has version {item.version}, not {version}", param="version")


async def _before(connection: AsyncConnection, ids: Sequence[str], at: float, scope: Scope | None = None) -> dict[str, str]:
    """By item, what was decided before the decision of this time, where there is something and it has this scope."""
    found: dict[str, Any] = {}
    trail, over = trail_table.c, set[str]()
    for start in range(0, len(ids), _HASHES_A_QUERY):
        query = select(trail.subject, trail.decision, trail.scope, trail.decided_at)
        query = query.where(trail.subject.in_(ids[start : start + _HASHES_A_QUERY])).order_by(trail.number)
        for row in await connection.execute(query):  # by number: who follows a decision for the client has its time, which may be earlier
            if row.decided_at == at:
                over.add(row.subject)
            elif row.subject not in over:
                found[row.subject] = row
    return {subject: row.decision for subject, row in found.items() if scope in (None, row.scope)}


def _client_decision_before(client_key: str, at: float) -> Select[Any]:
    """What was decided last for all of the client's runs before this time."""
    trail = trail_table.c
    earlier = trail.client_key == client_key, trail.scope == "client", trail.decided_at < at
    return select(trail.decision).where(*earlier).order_by(trail.decided_at.desc(), trail.id).limit(1)


def _decided_for_all(client_keys: Sequence[str]) -> Select[Any]:
    """For each key the newest decision for all of the client's runs, as the item on which it was made; none where it was taken back.

    The trail tells, since the item itself may have been decided anew for its own run.
    """
    rulings = trail_table
    place = func.row_number().over(partition_by=rulings.c.client_key, order_by=(rulings.c.decided_at.desc(), rulings.c.id))
    meant = rulings.c.client_key.in_(client_keys), rulings.c.scope == "client"
    ranked = select(rulings, place.label("place")).join(table, table.c.id == rulings.c.subject).where(*meant).subquery()
    ruling = {
        "status": ranked.c.decision,
        "scope": ranked.c.scope,
        "decided_at": ranked.c.decided_at,
        "decided_by": ranked.c.decided_by,
        "decision_reason": ranked.c.reason,
    }
    fields = [ruling[column.name].label(column.name) if column.name in ruling else column for column in _LISTED]
    return (
        select(*fields, table.c.client_key)
        .join(ranked, ranked.c.subject == table.c.id)
        .where(ranked.c.place == 1, ranked.c.decision != "pending")
    )


def _rank(item: QuarantineItem) -> tuple[bool, float]:
    """What of two decisions counts: a person's, then the newer."""
    return item.decided_at is not None and item.decided_by != POLICY, item.decided_at or 0.0


def _client_key(item: QuarantineItem) -> str:
    return key_of(item.client, policy_name(item.policy), item.hash)


def _row(item: QuarantineItem, key: str, now: float) -> dict[str, Any]:
    decided = item.status != "pending"
    texts = {
        name: clean(getattr(item, name)) for name in ("client", "run_id", "hash", "kind", "role", "type", "source", "record_id", "status")
    }
    return texts | {
        "id": key,
        "policy": clean(policy_name(item.policy)),
        "client_key": _client_key(item),
        "reason": clean(item.reason, MAX_REASON_CHARS),
        "score": item.score,
        "detail": packed(item.detail),
        "content": item.content,
        "size_bytes": len(item.content),
        "created_at": now,
        "seen_at": now,
        "seen_count": 1,
        "scope": "run",
        "decided_by": (clean(item.decided_by) or POLICY) if decided else "",
        "decision_reason": clean(item.decision_reason, MAX_REASON_CHARS) if decided else "",
        "decided_at": now if decided else None,
        "version": decided_before(key) + int(decided),
    }
