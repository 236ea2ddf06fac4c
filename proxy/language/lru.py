"""A bounded memory: the entry unused for longest makes room. For what can be worked out again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from cachetools import LRUCache

T = TypeVar("T")


class LRU(Generic[T]):
    """cachetools' LRUCache for threads to share: that one moves an entry in two steps."""

    def __init__(self, size: int, size_of: Callable[[T], int] | None = None) -> None:
        """`size` is the number of entries, or what `size_of` of all of them adds up to; with 0 nothing is kept."""
        self._kept: LRUCache[Hashable, T] = LRUCache(size, size_of)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def get(self, key: Hashable) -> T | None:
        """The value, which then counts as just used; None where there is none."""
        with self._lock:
            try:
                return self._kept[key]
            except KeyError:
                return None

    def put(self, key: Hashable, value: T) -> None:
        """Keep it, unless it alone is larger than all the room."""
        with self._lock:
            try:
                self._kept[key] = value
            except ValueError:
                self._kept.pop(key, None)


def key_of(*parts: str) -> bytes:
    """A name for `parts` in a memory; where one ends and the next begins is part of it."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.digest()
