"""A bounded memory: the entry unused for longest makes room. For what can be worked out again; `by_text` by the text that it follows from.

A conversation comes again with every turn, and what was read of its messages is still so. A text is known there by its hash and its length,
not kept: 64 bits that nobody outside of the process can foresee (SipHash with its own key).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from threading import Lock
from typing import Concatenate, Generic, ParamSpec, TypeVar

T = TypeVar("T")


class LRU(Generic[T]):
    """For threads to share."""

    def __init__(self, size: int, size_of: Callable[[T], int] | None = None) -> None:
        """`size` is the number of entries, or what `size_of` of all of them adds up to; with 0 nothing is kept."""
        self._entries: OrderedDict[Hashable, T] = OrderedDict()
        self._size, self._free, self._size_of = size, size, size_of
        self._sizes: dict[Hashable, int] = {}
        """Where there is `size_of`: of a value as it was put."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def get(self, key: Hashable) -> T | None:
        """The value, which then counts as just used; None where there is none."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def put(self, key: Hashable, value: T) -> None:
        """Keep it, unless it alone is larger than all the room."""
        size = 1 if self._size_of is None else self._size_of(value)
        with self._lock:
            if key in self._entries:
                self._remove(key)
            if size > self._size:
                return
            while size > self._free:
                self._remove(next(iter(self._entries)))
            self._entries[key] = value
            self._free -= size
            if self._size_of is not None:
                self._sizes[key] = size

    def _remove(self, key: Hashable) -> None:
        del self._entries[key]
        self._free += self._sizes.pop(key, 1)


def key_of(*parts: str) -> int:
    """A name for `parts` in a memory of this process; where one ends and the next begins is part of it."""
    return hash(parts)


P = ParamSpec("P")
R = TypeVar("R")


def by_text(most: int) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """For a function of a text, and of hashable things beside it, that has small results: the last `most` are kept. Never None.

    Also for names: what a client calls its tools and sources may be as long as any text.
    """

    def decorate(work: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
        known: LRU[R] = LRU(most)

        @wraps(work)
        def remembered(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            beside = (hash(one) if isinstance(one, str) else one for one in args)
            key = (hash(text), len(text), *beside, *kwargs.items())
            found = known.get(key)
            if found is None:
                found = work(text, *args, **kwargs)
                known.put(key, found)
            return found

        return remembered

    return decorate
