"""Results by the text that they follow from: a conversation comes again with every turn, and what was read of its messages is still so.

A text is known by its hash and its length, not kept: 64 bits that nobody outside of the process can foresee (SipHash with its own key).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from proxy.language.lru import LRU

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
