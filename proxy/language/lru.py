"""A bounded memory: the entry unused for longest makes room. For what can be worked out again; `by_text` by the text that it follows from.

A conversation comes again with every turn, and what was read of its messages is still so. A text is known there by its hash and its length,
not kept: 64 bits that nobody outside of the process can foresee (SipHash with its own key).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import Concatenate, Generic, ParamSpec, TypeVar

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


P = ParamSpec("P")
R = TypeVar("R")


def by_text(most: int) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """For a function of a text, and of hashable things beside it, that has small results: the last `most` are kept. Never None."""

    def decorate(work: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
        known: LRU[R] = LRU(most)

        @wraps(work)
        def remembered(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            key = (hash(text), len(text), *args, *kwargs.items())
            found = known.get(key)
            if found is None:
                found = work(text, *args, **kwargs)
                known.put(key, found)
            return found

        return remembered

    return decorate
