"""The port that keeps failure records, in memory, for tests; `proxy.testing` gives it out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from proxy.ports import FailureEvent, FailureRecord
from proxy.ports.failures import LATER, EventKind, advance, first


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
            key = about[event.fingerprint] = _key(client, run_id, event.fingerprint)
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


def _key(*parts: str) -> str:
    return "fl_" + hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
