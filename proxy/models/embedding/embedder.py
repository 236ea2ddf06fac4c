"""Text -> vectors for every part that compares texts: implements `proxy.ports.Embedder` around an `Encoder`.

In come texts of any request, out go rows of unit length. A text is embedded once, in turns of one thread (`proxy.models.turns`); texts that
one caller wants together (a query with its parts) are kept together. A turn of bulk work ends after the texts at hand when somebody waits,
so that a query waits for one or two texts of a 5,000-tool catalogue, not for the catalogue.

Threads and no child process: most of a text's time is matrix products, which let go of the interpreter. While 1,500 tools are embedded on
two cores, the event loop wakes up late by 1 to 4 ms at p99 (`benchmarks/embedding_serving.py`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from proxy.errors import ModelUnavailable
from proxy.language.lru import LRU, key_of
from proxy.language.text import whole_characters
from proxy.models.turns import Queue, SharedTurns, TurnJob, parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]

Texts: TypeAlias = tuple[str, ...]
"""One item of work: a text, or those that go through the model together."""

MAX_CHARS = 4000
"""Where a text is cut unless config.yaml says otherwise: about 900 tokens of English, 17 ms of the built-in model."""
MAX_WAITING = 8192
"""Texts that may wait, of each urgency; about 30 s of work for the built-in model."""
SLICE = 256
"""Texts of one call that wait at a time, so that a long list neither fills the queue nor stands before everyone else's."""
TURN_TEXTS = 32
TURN_CHARS = 16_000
"""What is handed to the thread at once: the first of them is answered when the last is done."""
BULK_TEXTS = 128
"""The same of bulk work, whose turn may end before: most of them words."""
BULK_CHARS = 1600
"""Of bulk work that a model takes at once: 400 tokens, 5 to 10 ms. A few texts of a catalogue alone cost it half as much again."""
OVERHEAD_BYTES = 350
"""Of a vector kept, beside its numbers: array object, key, place in the cache (`sys.getsizeof`)."""
BULK_SHARE = 4
"""Every fourth turn is bulk work's while both wait, for one text: a catalogue is embedded under load, too."""


class Encoder(Protocol):
    """A model. Used by one thread at a time."""

    name: str
    lanes: int
    """1: it divides what it gets itself."""
    batch: int
    """Texts of bulk work that it takes at once; 1 where a text's vector would depend, in its last bits, on the texts beside it."""
    dimensions: int
    """0 until `load` where only the model tells."""

    def version(self) -> str:
        """Name and checksum of the weights, also before they are loaded; "" where they are not known: then the store keeps no vector."""

    def load(self) -> None:
        """Read the weights. Raises `ModelUnavailable`, saying what to do."""

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """``(len(texts), dimensions)``, of any length; texts are valid Unicode and short enough."""

    def rough(self, texts: list[str]) -> NDArray[np.float32] | None:
        """``(len(texts), any)`` of unit length, at a small part of the work and by any thread; None where there is nothing of the kind."""


class BatchingEmbedder(SharedTurns[Encoder, Texts, "Rows"]):
    """Vectors in turns around an encoder. Belongs to one event loop."""

    def __init__(
        self,
        encoder: Encoder,
        *,
        max_chars: int = MAX_CHARS,
        cache_mb: float = 64,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        cache = vector_cache(int(cache_mb * 1024 * 1024))
        super().__init__(lambda: encoder, cache, room="embedding", title="the embedding model", slice_items=SLICE)
        self._encoder, self._max_chars, self._max_waiting = encoder, max_chars, max_waiting
        self._urgent: Queue[Texts, Rows] = OrderedDict()
        self._bulk: Queue[Texts, Rows] = OrderedDict()

    @property
    def name(self) -> str:
        """Implements `proxy.ports.Embedder`."""
        return self._encoder.name

    def version(self) -> str:
        """Of the model and its weights; "" where it is not known."""
        return self._encoder.version()

    @property
    def dimensions(self) -> int:
        """Implements `proxy.ports.Embedder`."""
        if not self._encoder.dimensions:
            raise ModelUnavailable(f"the embedding model {self.name} is not loaded yet")
        return self._encoder.dimensions

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> NDArray[np.float32]:
        """Implements `proxy.ports.Embedder`."""
        if not texts:
            return np.empty((0, self._encoder.dimensions), np.float32)
        queue = self._bulk if bulk else self._urgent
        items = [tuple(texts)] if together else [(text,) for text in texts]
        return np.concatenate(await self._results(items, queue))

    async def unknown(self, texts: Sequence[str]) -> int:
        """Implements `proxy.ports.Embedder`."""
        missing: set[int] = set()
        for some in parts(texts, SLICE):
            keys = {self._prepared((text,))[0] for text in some}
            missing |= {key for key in keys if self._cache.get(key) is None}
            await asyncio.sleep(0)
        return len(missing)

    async def rough(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Implements `proxy.ports.Embedder`."""
        if self._stopped:
            raise ModelUnavailable("the server is stopping")
        given = [whole_characters(text[: self._max_chars]) for text in texts]
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._loaded().rough(given))

    def _prepared(self, item: Texts) -> tuple[int, Texts]:
        texts = tuple(whole_characters(text[: self._max_chars]) for text in item)
        return key_of(*texts), texts

    def _admit(self, waiting: int, items: int) -> None:
        if waiting + items > self._max_waiting:
            raise ModelUnavailable(f"{waiting} texts wait for the embedding model already; give the server more workers or cores")

    def _job(self, key: int, item: Texts, queue: Queue[Texts, Rows]) -> TurnJob[Texts, Rows]:
        """The one under way is made urgent if this caller is."""
        job = super()._job(key, item, queue)
        if queue is self._urgent and job.queue is self._bulk:
            job.queue = self._urgent
            if key in self._bulk:
                self._urgent[key] = self._bulk.pop(key)
        return job

    def _next_turn(self, number: int) -> list[TurnJob[Texts, Rows]]:
        bulk = not self._urgent or (bool(self._bulk) and number % BULK_SHARE == 0)
        queue = self._bulk if bulk else self._urgent
        jobs: list[TurnJob[Texts, Rows]] = []
        chars = 0
        while queue and len(jobs) < (BULK_TEXTS if bulk else TURN_TEXTS) and chars < TURN_CHARS:
            jobs.append(queue.popitem(last=False)[1])
            chars += sum(map(len, jobs[-1].item))
        return jobs

    def _batches(self, model: Encoder, jobs: list[TurnJob[Texts, Rows]]) -> Iterator[list[TurnJob[Texts, Rows]]]:
        """All that is urgent, where the model takes several; of bulk work only so much that somebody who comes need not wait long."""
        if model.batch == 1:
            return super()._batches(model, jobs)
        return _by_length(jobs, BULK_CHARS) if jobs[0].queue is self._bulk else iter([jobs])

    def _makes_way(self, queue: Queue[Texts, Rows]) -> bool:
        return queue is self._bulk and bool(self._urgent)

    def _compute(self, model: Encoder, items: list[Texts]) -> list[Rows]:
        rows = iter(unit(model.encode([text for texts in items for text in texts])))
        return [np.stack(list(islice(rows, len(texts)))) for texts in items]


def _by_length(jobs: Sequence[TurnJob[Texts, Rows]], most_chars: int) -> Iterator[list[TurnJob[Texts, Rows]]]:
    """In order, together as long as they are no longer than that; at least one."""
    some: list[TurnJob[Texts, Rows]] = []
    chars = 0
    for job in jobs:
        size = sum(map(len, job.item))
        if some and chars + size > most_chars:
            yield some
            some, chars = [], 0
        some.append(job)
        chars += size
    if some:
        yield some


def vector_cache(max_bytes: int) -> LRU[Rows]:
    """Vectors by the hash of their text; bounded by what they take, not by their number."""
    return LRU(max_bytes, lambda rows: rows.nbytes + OVERHEAD_BYTES)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """``(n, d)`` float32 with rows of unit length; a row without direction (zero, NaN, infinite) becomes the first unit vector."""
    found = np.array(vectors, np.float32, ndmin=2)
    lengths = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
    lost = ~np.isfinite(lengths[:, 0]) | (lengths[:, 0] < 1e-12)
    found[lost] = np.eye(1, found.shape[1], dtype=np.float32)
    lengths[lost] = 1
    rows: NDArray[np.float32] = (found / lengths).astype(np.float32)
    return rows
