"""A bounded memory: the entry unused for longest makes room. For what can be worked out again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class LRU(Generic[T]):
    """Values by the hash of what they were made from. Threads may share it: each step is one of the interpreter's own."""

    def __init__(self, size: int) -> None:
        """`size` is the number of entries; with 0 nothing is kept."""
        self._size = size
        self._kept: OrderedDict[bytes, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    def get(self, key: bytes) -> T | None:
        """The value, which then counts as just used; None where there is none."""
        try:
            self._kept.move_to_end(key)
            return self._kept[key]
        except KeyError:  # not there, or not any more
            return None

    def put(self, key: bytes, value: T) -> None:
        """Keep it."""
        self._kept.pop(key, None)
        self._kept[key] = value
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
