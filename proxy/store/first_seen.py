"""Remembers when the messages of a run were first seen: the `FirstSeen` port of `proxy.ports.stage`, on the database.

One row a run: 16 bytes a message, the oldest first, and a version that every change counts up. A worker that read an older version
reads again, and so takes over the times that the other one has kept.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable, Mapping, Sequence

from proxy.errors import StoreUnavailable
from proxy.offloop import run_in_thread_if_large
from proxy.store.database import Database
from proxy.store.tables import first_seen as table
from proxy.store.tables import key_of
from proxy.store.versioned import VersionedRows

PER_RUN = 5000
_HASH = 40
"""To make one takes as long as a pass over so many characters."""
_SWAPS = 16
"""Tries to keep new times while other workers do; each failure means that another one succeeded."""
_ENTRY = struct.Struct("<Qd")
"""A message's hash, cut to 64 bits, and seconds since the epoch."""


class DatabaseFirstSeen:
    """Implements `proxy.ports.FirstSeen`."""

    def __init__(self, database: Database, *, per_run: int = PER_RUN, clock: Callable[[], float] = time.time) -> None:
        """Of a run's messages beyond `per_run`, those that are no longer sent are forgotten first, then the newest are not kept."""
        self._rows, self._per_run = VersionedRows(database, table, "times", clock), per_run

    async def times(self, run: str, hashes: Sequence[str], now: float, *, client: str) -> list[float]:
        """For each hash when it was first seen, in seconds since the epoch; `now` for new ones, kept. Raises `StoreUnavailable`."""
        key, asked = key_of(client, run), await run_in_thread_if_large(len(hashes) * _HASH, _all_short, hashes)
        for _ in range(_SWAPS):
            content, version = await self._rows.load(key)
            times, packed = await run_in_thread_if_large(len(hashes) * _HASH, _merged, content or b"", asked, now, self._per_run)
            if packed is None or await self._rows.swap(key, packed, version, client):
                return times
        raise StoreUnavailable("other workers keep changing the run's times")


def _merged(content: bytes, asked: Sequence[int], now: float, most: int) -> tuple[list[float], bytes | None]:
    """The times of those `asked` for, and what is to be stored of all; None where that is there."""
    stored = dict(_ENTRY.iter_unpack(content))
    wanted = stored | {hash_: now for hash_ in asked if hash_ not in stored}
    kept = _bounded(wanted, set(asked), most)
    return [wanted[hash_] for hash_ in asked], None if kept.keys() == stored.keys() else _packed(kept)


def _packed(times: Mapping[int, float]) -> bytes:
    return b"".join(_ENTRY.pack(*entry) for entry in times.items())


def _bounded(times: Mapping[int, float], asked: set[int], most: int) -> dict[int, float]:
    """At most `most` of `times`, in their order: first those that are not `asked` for go, the oldest of them first, then the newest."""
    gone = [hash_ for hash_ in times if hash_ not in asked][: max(0, len(times) - most)]
    left = dict(times)
    for hash_ in gone:
        del left[hash_]
    return dict(list(left.items())[:most])


def _all_short(hashes: Sequence[str]) -> list[int]:
    return [_short(hash_) for hash_ in hashes]


def _short(hash_: str) -> int:
    return int.from_bytes(hashlib.blake2b(hash_.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
