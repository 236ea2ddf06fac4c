"""Text -> vectors for every part that compares texts: implements `proxy.ports.Embedder` around an `Encoder`.

In come texts of any request, out go rows of unit length. A text is embedded once: found vectors stay in a bounded cache under the
hash of the text, and callers that ask for a text which is waiting or running share the one computation.

The encoder runs in one thread of its own. While it works, further texts gather and leave together in its next turn, so a burst costs
few hand-overs and a lone text none of waiting. A turn of bulk work ends after the text at hand when somebody waits, so that a query
waits for one text of a 5,000-tool catalogue, not for the catalogue.

A thread and no child process: most of a text's time is matrix products, which let go of the interpreter, and the tokenizer, which is
Python, holds it for a millisecond at a time. While 1,500 tools are embedded on two cores, the event loop wakes up late by 1 to 4 ms at
p99 (`benchmarks/embedding_serving.py`); with four other processes on the same cores by 7 ms, and there by as much without bulk work.
A shorter switch interval of the interpreter made no difference.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

import numpy as np

from proxy.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Row = NDArray[np.float32]

log = logging.getLogger("groundwire.embedding")

MAX_CHARS = 4000
"""Where a text is cut unless config.yaml says otherwise: about 900 tokens of English, 40 ms of the built-in model."""
MAX_WAITING = 8192
"""Texts that may wait, of each urgency; about 30 s of work for the built-in model."""
SLICE = 256
"""Texts of one call that wait at a time, so that a long list neither fills the queue nor stands before everyone else's."""
TURN_TEXTS = 32
TURN_CHARS = 4000
"""What is handed to the thread at once: the first of them is answered when the last is done."""
BULK_SHARE = 4
"""Every fourth turn is bulk work's while both wait, for one text: a catalogue is embedded under load, too."""


class Encoder(Protocol):
    """A model. Used by one thread at a time."""

    name: str
    batch: int
    """Texts that it takes at once; 1 where a text's vector would depend, in its last bits, on the texts beside it."""
    dimensions: int
    """0 until `load` where only the model tells."""

    def load(self) -> None:
        """Read the weights. Raises `ModelUnavailable`, saying what to do."""

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """``(len(texts), dimensions)``, of any length; texts are valid Unicode and short enough."""


class _Job:
    """A text that waits or runs, and how many callers want it."""

    __slots__ = ("bulk", "future", "key", "text", "wanted")

    def __init__(self, key: bytes, text: str, bulk: bool, future: asyncio.Future[Row]) -> None:
        self.key, self.text, self.bulk, self.future, self.wanted = key, text, bulk, future, 0


class BatchingEmbedder:
    """Cache, queue and thread around an encoder. Belongs to one event loop."""

    def __init__(self, encoder: Encoder, *, max_chars: int = MAX_CHARS, cache_mb: float = 64, max_waiting: int = MAX_WAITING) -> None:
        self._encoder = encoder
        self._max_chars = max_chars
        self._max_waiting = max_waiting
        self._cache = VectorCache(int(cache_mb * 1024 * 1024))
        self._jobs: dict[bytes, _Job] = {}
        self._urgent: OrderedDict[bytes, _Job] = OrderedDict()
        self._bulk: OrderedDict[bytes, _Job] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedding")
        self._runner: asyncio.Task[None] | None = None
        self._loaded = False
        self._problem = "still loading"

    @property
    def name(self) -> str:
        """Implements `proxy.ports.Embedder`."""
        return self._encoder.name

    @property
    def dimensions(self) -> int:
        """Implements `proxy.ports.Embedder`."""
        if not self._encoder.dimensions:
            raise ModelUnavailable(f"the embedding model {self.name} is not loaded yet")
        return self._encoder.dimensions

    @property
    def problem(self) -> str | None:
        """Why it cannot embed, for ``/ready``; None when it can."""
        return None if self._loaded else self._problem

    async def load(self) -> None:
        """Load the model now, not at the first text. A failure is logged and tried again at the next text."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._load)
        except ModelUnavailable as error:
            log.error("%s", error)

    def stop(self) -> None:
        """End the thread after the turn that runs; who still waits gets `ModelUnavailable`."""
        self._urgent.clear()
        self._bulk.clear()
        for job in list(self._jobs.values()):
            self._finish(job, ModelUnavailable("the server is stopping"))
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> NDArray[np.float32]:
        """Implements `proxy.ports.Embedder`."""
        rows: list[Row] = []
        for some in _parts(texts, SLICE):
            rows += await self._embed_some([valid(text, self._max_chars) for text in some], bulk)
            if len(rows) < len(texts):
                await asyncio.sleep(0)  # thousands of hits in the cache are no reason to hold the loop
        return np.stack(rows) if rows else np.empty((0, self._encoder.dimensions), np.float32)

    async def _embed_some(self, texts: list[str], bulk: bool) -> list[Row]:
        keys = [key_of(text) for text in texts]
        found = {key: self._cache.get(key) for key in keys}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if found[key] is None}
        if missing:
            found |= await self._computed(missing, bulk)
        return [row for key in keys if (row := found[key]) is not None]

    async def _computed(self, texts: dict[bytes, str], bulk: bool) -> dict[bytes, Row]:
        """Wait for these texts; if the caller leaves, what nobody else waits for leaves the queue."""
        waiting = len(self._bulk if bulk else self._urgent)
        if waiting + len(texts) > self._max_waiting:
            raise ModelUnavailable(f"{waiting} texts wait for the embedding model already; give the server more workers or cores")
        jobs = [self._job(key, text, bulk) for key, text in texts.items()]
        for job in jobs:
            job.wanted += 1
        try:
            await asyncio.wait([job.future for job in jobs])
            return {job.key: job.future.result() for job in jobs}
        finally:
            for job in jobs:
                self._release(job)

    def _job(self, key: bytes, text: str, bulk: bool) -> _Job:
        """The computation of `text`: the one under way, made urgent if this caller is, or a new one."""
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = _Job(key, text, bulk, asyncio.get_running_loop().create_future())
            (self._bulk if bulk else self._urgent)[key] = job
        elif job.bulk and not bulk:
            job.bulk = False
            if key in self._bulk:
                self._urgent[key] = self._bulk.pop(key)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        return job

    def _release(self, job: _Job) -> None:
        job.wanted -= 1
        queue = self._bulk if job.bulk else self._urgent
        if not job.wanted and queue.get(job.key) is job:  # one that runs stays: its vector goes into the cache
            del queue[job.key], self._jobs[job.key]

    async def _run(self) -> None:
        """Turn after turn until nothing waits."""
        for number in itertools.count(1):
            if not self._urgent and not self._bulk:
                return
            bulk = not self._urgent or (bool(self._bulk) and number % BULK_SHARE == 0)
            jobs = _turn_of(self._bulk if bulk else self._urgent)
            try:
                work = asyncio.get_running_loop().run_in_executor(self._thread, self._turn, [job.text for job in jobs], bulk)
                results: Sequence[Row | Exception] = await work
            except Exception as error:  # the model could not be loaded, or the thread has ended
                results = [error] * len(jobs)
            for job, result in zip(jobs, results, strict=False):
                self._finish(job, result)
            self._put_back(jobs[len(results) :])

    def _put_back(self, jobs: list[_Job]) -> None:
        """The end of a bulk turn that made way."""
        for job in reversed(jobs):
            if not job.wanted:
                self._jobs.pop(job.key, None)
            elif not job.future.done():
                queue = self._bulk if job.bulk else self._urgent
                queue[job.key] = job
                queue.move_to_end(job.key, last=False)

    def _finish(self, job: _Job, result: Row | Exception) -> None:
        self._jobs.pop(job.key, None)
        if isinstance(result, Exception):
            if not job.future.done():
                job.future.set_exception(_as_unavailable(result, self.name))
                job.future.exception()  # seen, even if nobody is left to see it
            return
        self._cache.put(job.key, result)
        if not job.future.done():
            job.future.set_result(result)

    # ---- in the thread ----

    def _load(self) -> None:
        if self._loaded:
            return
        try:
            self._encoder.load()
        except Exception as error:
            unavailable = _as_unavailable(error, self.name)
            self._problem = str(unavailable)
            raise unavailable from error
        self._loaded = True

    def _turn(self, texts: list[str], bulk: bool) -> list[Row | Exception]:
        """A result for each text, or for the first ones, if this is bulk work and something urgent has come."""
        self._load()
        found: list[Row | Exception] = []
        for some in _parts(texts, self._encoder.batch):
            if bulk and found and self._urgent:
                break
            found += self._encoded(some)
        return found

    def _encoded(self, texts: list[str]) -> Iterable[Row | Exception]:
        """Each text's row; one that the model fails on does not take its neighbours with it."""
        try:
            return [row.copy() for row in unit(self._encoder.encode(texts))]
        except Exception as error:
            if len(texts) == 1:
                return [error]
            return itertools.chain.from_iterable(self._encoded([text]) for text in texts)


class VectorCache:
    """Vectors by the hash of their text; the one unused for longest makes room."""

    OVERHEAD_BYTES = 350
    """Of an entry beside its numbers: array object, key, place in the dictionary (`sys.getsizeof`)."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rows: OrderedDict[bytes, Row] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: bytes) -> Row | None:
        """The vector, which then counts as just used."""
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
        return row

    def put(self, key: bytes, row: Row) -> None:
        """Keep it."""
        if key in self._rows:
            return
        self._rows[key] = row
        self._bytes += row.nbytes + self.OVERHEAD_BYTES
        while self._bytes > self._max_bytes:
            _, old = self._rows.popitem(last=False)
            self._bytes -= old.nbytes + self.OVERHEAD_BYTES


def valid(text: str, max_chars: int) -> str:
    """`text` up to `max_chars` characters, with U+FFFD for lone surrogates."""
    text = text[:max_chars]
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def key_of(text: str) -> bytes:
    """The text's name in the cache."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """``(n, d)`` float32 with rows of unit length; a row without direction (zero, NaN, infinite) becomes the first unit vector."""
    found = np.array(vectors, np.float32, ndmin=2)
    lengths = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
    lost = ~np.isfinite(lengths[:, 0]) | (lengths[:, 0] < 1e-12)
    found[lost] = np.eye(1, found.shape[1], dtype=np.float32)
    lengths[lost] = 1
    rows: NDArray[np.float32] = (found / lengths).astype(np.float32)
    return rows


def _as_unavailable(error: Exception, name: str) -> ModelUnavailable:
    if isinstance(error, ModelUnavailable):
        return error
    return ModelUnavailable(f"the embedding model {name} failed: {type(error).__name__}: {str(error)[:200]}")


def _turn_of(queue: OrderedDict[bytes, _Job]) -> list[_Job]:
    """Take the next jobs off the queue."""
    jobs: list[_Job] = []
    chars = 0
    while queue and len(jobs) < TURN_TEXTS and chars < TURN_CHARS:
        jobs.append(queue.popitem(last=False)[1])
        chars += len(jobs[-1].text)
    return jobs


def _parts(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(texts), size):
        yield list(texts[start : start + size])
