"""The store's ports in memory, for tests; `proxy.testing` gives them out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from proxy.ports import ClashRecord, Compaction, FailureEvent, FailureRecord, QuarantineItem, ScratchpadItem, ToolOutcome, ToolRun
from proxy.ports.failures import LATER, EventKind, advance, first
from proxy.ports.review import POLICY, QuarantineStatus, Scope


class MemoryScratchpad:
    """A `proxy.ports.Scratchpad` in memory."""

    def __init__(self) -> None:
        self.items: dict[str, ScratchpadItem] = {}
        """By id, in the order in which they were first put."""

    async def put(self, content: bytes, *, client: str, run_id: str, media_type: str = "text/plain") -> str:
        """Keep it."""
        item = ScratchpadItem("sp_" + _digest(client, run_id, content), client, run_id, media_type, len(content), 0.0, 0.0, content)
        self.items.setdefault(item.id, item)
        return item.id

    async def get(self, item_id: str, *, client: str | None = None) -> bytes | None:
        """Give it back."""
        item = self.items.get(item_id)
        return item.content if item is not None and client in (None, item.client) else None

    async def find(self, prefix: str, *, client: str) -> ScratchpadItem | None:
        """The one whose id begins so."""
        found = [item for item in self.items.values() if item.client == client and item.id.startswith(prefix)]
        return found[0] if len(found) == 1 and re.fullmatch("sp_[0-9a-f]{12,32}", prefix) else None


class MemoryCompactions:
    """A `proxy.ports.Compactions` in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Compaction] = {}
        """By client and what they cover."""

    async def find(self, covers: Sequence[str], *, client: str) -> Compaction | None:
        """The longest."""
        found = [self.kept[client, hash_] for hash_ in covers if (client, hash_) in self.kept]
        return max(found, key=lambda compaction: compaction.length, default=None)

    async def put(self, compaction: Compaction, *, client: str, run_id: str) -> Compaction:
        """Keep the first."""
        return self.kept.setdefault((client, compaction.covers), compaction)


class MemoryFirstSeen:
    """A `proxy.ports.FirstSeen` in memory, without bounds."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], dict[str, float]] = {}
        """Times by hash, by client and run."""

    async def times(self, run: str, hashes: Sequence[str], now: float, *, client: str) -> list[float]:
        """Kept, or new."""
        known = self.runs.setdefault((client, run), {})
        return [known.setdefault(hash_, now) for hash_ in hashes]


class MemoryToolRuns:
    """A `proxy.ports.ToolRuns` in memory."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], ToolRun] = {}
        """By client and run."""

    async def get(self, run: str, *, client: str) -> ToolRun:
        """What is known."""
        return self.runs.get((client, run), ToolRun())

    async def swap(self, run: str, names: Sequence[str], version: int, *, client: str) -> bool:
        """Replace, if nobody else has."""
        if self.runs.get((client, run), ToolRun()).version != version:
            return False
        self.runs[client, run] = ToolRun(tuple(names), version + 1)
        return True


class MemoryToolOutcomes:
    """A `proxy.ports.ToolOutcomes` in memory, without bounds."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], list[ToolOutcome]] = {}
        """By client and embedder."""

    async def add(self, outcomes: Sequence[ToolOutcome], *, client: str, embedder: str) -> None:
        """Keep them."""
        self.rows.setdefault((client, embedder), []).extend(outcomes)

    async def load(self, *, client: str, embedder: str, tool_keys: Sequence[str] | None = None) -> list[ToolOutcome]:
        """Those of these tools, or all."""
        return [row for row in self.rows.get((client, embedder), []) if tool_keys is None or row.tool_key in tool_keys]

    async def version(self, client: str) -> int:
        """How many there are."""
        return sum(len(rows) for (owner, _), rows in self.rows.items() if owner == client)


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


def _digest(*parts: str | bytes) -> str:
    encoded = (part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in parts)
    return hashlib.sha256(b"\0".join(encoded)).hexdigest()[:32]


class MemoryFailures:
    """A `proxy.ports.Failures` in memory; `say` stands in for the operator."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.records: dict[str, FailureRecord] = {}
        """As they are now, by id, in the order in which they were first met."""
        self.revisions: dict[str, list[FailureRecord]] = {}
        """By id, the first one first."""
        self._known: set[tuple[str, str, str]] = set()
        """Record, kind and cause of every event that was told."""
        self._clock = clock

    async def apply(
        self, events: Sequence[FailureEvent], *, client: str, run_id: str, policy: str, step_id: str, record_id: str
    ) -> list[FailureRecord]:
        """Each event once, in order; the records they are about."""
        began, number, about = self._clock(), 0, {}
        for event in events:
            key = about[event.fingerprint] = "fl_" + _digest(client, run_id, event.fingerprint)
            if (key, event.kind, event.cause) in self._known:
                continue
            self._known.add((key, event.kind, event.cause))
            now, number = began + number * LATER, number + 1
            record = self.records.get(key)
            if record is not None:
                made = advance(record, event, step_id=step_id, now=now)
            elif event.kind == "occurred":
                where = {"client": client, "run_id": run_id, "policy": policy.partition("@")[0], "step_id": step_id, "record_id": record_id}
                made = first(event, key=key, now=now, **where)
            else:
                continue
            self._keep(made)
        return [self.records[key] for key in about.values() if key in self.records]

    async def apply_and_find(
        self, events: Sequence[FailureEvent], *, client: str, run_id: str, across_runs: bool, **about: Any
    ) -> tuple[list[FailureRecord], list[FailureRecord]]:
        """Both, one after the other."""
        happening = {name: about.pop(name) for name in ("policy", "step_id", "record_id")}
        records = await self.apply(events, client=client, run_id=run_id, **happening)
        return records, await self.relevant(client=client, run_id=None if across_runs else run_id, **about)

    async def relevant(
        self, *, client: str, run_id: str | None, fingerprints: Sequence[str], subjects: Sequence[str], limit: int = 64
    ) -> list[FailureRecord]:
        """Active ones: by fingerprint, by subject, the others; each group last seen first, and of one moment those met last."""

        def place(record: FailureRecord) -> tuple[int, float]:
            matched = 2 if record.fingerprint in fingerprints else int(record.subject in subjects)
            return -matched, -record.last_seen_at

        own = [r for r in reversed(self.records.values()) if r.client == client and run_id in (None, r.run_id) and r.status == "active"]
        return sorted(own, key=place)[:limit]

    def say(self, record_id: str, kind: EventKind, *, by: str = "admin", reason: str = "") -> FailureRecord:
        """What a person says of a record: ``resolved``, ``superseded``, ``reopened``, ``helpful``, ``harmful``."""
        record = self.records[record_id]
        event = FailureEvent(kind=kind, fingerprint=record.fingerprint, cause="", by=by, reason=reason)
        self._keep(advance(record, event, step_id=record.last_seen_step_id, now=self._clock()))
        return self.records[record_id]

    def _keep(self, made: FailureRecord | None) -> None:
        if made is not None:
            self.records[made.id] = made
            self.revisions.setdefault(made.id, []).append(made)
