"""The target of client libraries: shapes of answers through the proxy under closed policies, to every client; nothing may be shown that
was not read. It needs what `make test-clients` installs, so it runs where it is named: ``python -m tests.fuzz --target clients``.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.clients.oracle.generate import any_shape
from tests.clients.oracle.house import House
from tests.clients.oracle.judge import said, unread
from tests.clients.oracle.shape import decoded

FOLDER = "clients"


class Clients:
    """Fails with the first text that a client shows and no check read."""

    name = folder = FOLDER

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="groundwire-oracle")
        self._house = House(Path(self._folder.name)).__enter__()
        self.counts: Counter[str] = Counter()
        """Shapes by pair of APIs and by what came of them."""

    @staticmethod
    def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
        """Another shape: what it was made from is no better than a right answer."""
        return any_shape(rng).encode()

    def run(self, data: bytes) -> None:
        """Raises `AssertionError`. What is no shape is none of a failure: the shrinker makes such."""
        try:
            shape = decoded(data)
        except (ValueError, KeyError):
            return
        seen = self._house.see(shape)
        found = unread(seen)
        outcome = "failing" if found else "shown" if any(said(seen)) else "refused" if seen.status != 200 else "silent"
        self.counts[f"{shape.client} before {shape.server}: {outcome}"] += 1
        first = min(found, key=lambda one: (one.how != "joined", one), default=None)
        assert first is None, f"{shape.client}<{shape.server} {first.how} {_top(first.place)} '{first}'"

    def close(self) -> None:
        """Ends the processes, and says how many shapes there were."""
        self._house.__exit__(None, None, None)
        self._folder.cleanup()
        print("\n".join(f"{name:40} {count}" for name, count in sorted(self.counts.items())), flush=True)


def _top(place: str) -> str:
    """The first name of a path in an object: failures in one field are of one kind."""
    return next((name for name in place.split(".") if name not in ("", "data")), place)
