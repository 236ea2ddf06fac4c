"""The ports of what a person decides on, in memory, for tests; `proxy.testing` gives them out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from proxy.ports import ClashRecord, QuarantineItem
from proxy.ports.review import POLICY, QuarantineStatus, Scope


class MemoryQuarantine:
    """A `proxy.ports.Quarantine` in memory; `decide` stands in for the operator."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.items: dict[str, QuarantineItem] = {}
        """By id, in the order in which they were first put."""
        self._for_all: dict[tuple[str, str, str], QuarantineItem] = {}
        """What was decided for all runs: by client, policy and hash."""
        self._clock = clock

    async def put(self, item: QuarantineItem) -> QuarantineItem:
        """Keep the first."""
        policy, now = item.policy.partition("@")[0], self._clock()
        key = "qr_" + _digest(item.client, item.run_id, policy, item.hash)
        earlier = self.items.get(key)
        if earlier is not None:
            self.items[key] = msgspec.structs.replace(earlier, seen_at=now, seen_count=earlier.seen_count + 1)
        else:
            decided = item.status != "pending"
            new = msgspec.structs.replace(
                item,
                id=key,
                policy=policy,
                size_bytes=len(item.content),
                created_at=now,
                seen_at=now,
                seen_count=1,
                scope="run",
                decided_at=now if decided else None,
                version=int(decided),
                decided_by=(item.decided_by or POLICY) if decided else "",
                decision_reason=item.decision_reason if decided else "",
            )
            shared = self._for_all.get(_owner(new))
            self.items[key] = new if shared is None else _decided_as(new, shared)
        return self.items[key]

    async def find(self, hashes: Sequence[str], *, client: str, run_id: str, policy: str) -> dict[str, QuarantineItem]:
        """Of this run, else what was decided for all runs."""
        name = policy.partition("@")[0]
        found = {}
        for hash_ in hashes:
            item = self.items.get("qr_" + _digest(client, run_id, name, hash_))
            item = item or self._for_all.get((client, name, hash_))
            if item is not None:
                found[hash_] = msgspec.structs.replace(item, content=b"")
        return found

    def decide(
        self, item_id: str, status: QuarantineStatus, *, by: str = "admin", reason: str = "", scope: Scope = "run"
    ) -> QuarantineItem:
        """Approve or reject, in the client's other runs too if `scope` says so."""
        item = self.items[item_id]
        if (item.status, item.decided_by, item.decision_reason, item.scope) == (status, by, reason, scope):
            return item
        decision = msgspec.structs.replace(
            item, status=status, decided_by=by, decision_reason=reason, scope=scope, decided_at=self._clock()
        )
        if scope == "client":
            self._for_all[_owner(item)] = decision
        for other in list(self.items.values()):
            if other.id == item_id or (scope == "client" and _owner(other) == _owner(item)):
                self.items[other.id] = _decided_as(other, decision)
        return self.items[item_id]


def _owner(item: QuarantineItem) -> tuple[str, str, str]:
    return item.client, item.policy, item.hash


def _decided_as(item: QuarantineItem, decision: QuarantineItem) -> QuarantineItem:
    return msgspec.structs.replace(
        item,
        status=decision.status,
        decided_by=decision.decided_by,
        decision_reason=decision.decision_reason,
        scope=decision.scope,
        decided_at=decision.decided_at,
        version=item.version + 1,
    )


class MemoryClashes:
    """A `proxy.ports.Clashes` in memory."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.records: dict[str, ClashRecord] = {}
        """By id, in the order in which they were first put."""
        self._clock = clock

    async def put(self, record: ClashRecord) -> ClashRecord:
        """Keep the first."""
        policy, now, resolved = record.policy.partition("@")[0], self._clock(), record.status != "open"
        key = "cl_" + _digest(record.client, record.run_id, policy, record.pair_hash)
        new = msgspec.structs.replace(
            record,
            id=key,
            policy=policy,
            created_at=now,
            seen_at=now,
            resolved_at=now if resolved else None,
            version=int(resolved),
            resolved_by=(record.resolved_by or POLICY) if resolved else "",
        )
        return self.records.setdefault(key, new)

    async def find(self, *, client: str, run_id: str, policy: str) -> list[ClashRecord]:
        """The run's."""
        owner = (client, run_id, policy.partition("@")[0])
        return [record for record in self.records.values() if (record.client, record.run_id, record.policy) == owner]

    async def resolve(
        self, record_id: str, resolution: str, *, client: str, by: str, reason: str = "", merged: str = "", version: int | None = None
    ) -> ClashRecord | None:
        """Unless it has another version."""
        record = self.records.get(record_id)
        if record is None or record.client != client or version not in (None, record.version):
            return record if record is not None and record.client == client else None
        said = "" if resolution == "dismiss" else resolution
        known = (record.resolution, record.resolved_by, record.reason, record.merged)
        if record.status != "open" and known == (said, by, reason, merged):
            return record
        self.records[record_id] = msgspec.structs.replace(
            record,
            status="resolved" if said else "dismissed",
            resolution=said,
            resolved_by=by,
            reason=reason,
            merged=merged,
            resolved_at=self._clock(),
            version=record.version + 1,
        )
        return self.records[record_id]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
