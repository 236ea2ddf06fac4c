"""What a store of failures holds, whatever its status: for tests of the database's and of the one in memory."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.ports.failures import FailureRecord
from proxy.store.failures import DatabaseFailures
from proxy.testing import MemoryFailures


async def known(store: DatabaseFailures | MemoryFailures, *, client: str, run_id: str, fingerprints: Sequence[str]) -> list[FailureRecord]:
    """The run's records with these fingerprints, each once, in their order."""
    if isinstance(store, MemoryFailures):
        records = [r for r in store.records.values() if (r.client, r.run_id) == (client, run_id)]
    else:
        records, _ = await store.list(10_000, client=client, run_id=run_id)
    by_fingerprint = {record.fingerprint: record for record in records}
    return [by_fingerprint[name] for name in dict.fromkeys(fingerprints) if name in by_fingerprint]
