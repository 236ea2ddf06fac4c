"""Computations that callers share, in turns of few threads: what `BatchingEmbedder` and `BatchingVerifier` have in common.

In come items of any request (texts, pairs), out goes a result for each. An item is computed once: found results stay in a bounded cache
under the hash of the item, and callers that ask for one that waits or runs share the one computation.

The model runs in threads of its own, mostly one. While it works, further items gather and leave together in its next turn, so a burst costs
few hand-overs and a lone item none of waiting. An item that nobody waits for any more leaves its queue: a caller that goes away costs the
rest of one turn. Where items queue, how many may wait and which ones go next is for the subclass to say.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeAlias, TypeVar

from proxy.errors import ModelUnavailable
from proxy.language.lru import LRU
from proxy.offloop import give_back_memory, step_back

MAX_LANES = 8


class BatchModel(Protocol):
    """Used by as many threads at a time as it has lanes."""

    lanes: int
    """Turns that it takes side by side, each in a thread."""

    batch: int
    """Items that it takes at once, or works on side by side."""

    def load(self) -> None:
        """Read the weights. Raises `ModelUnavailable`, saying what to do."""


M = TypeVar("M", bound=BatchModel)
T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")


class TurnJob(Generic[T, R]):
    """An item that waits in its queue or runs, and how many callers want it."""

    __slots__ = ("future", "item", "key", "queue", "wanted")

    def __init__(self, key: int, item: T, queue: Queue[T, R], future: asyncio.Future[R]) -> None:
        self.key, self.item, self.queue, self.future, self.wanted = key, item, queue, future, 0


Queue: TypeAlias = OrderedDict[int, TurnJob[T, R]]


class SharedTurns(ABC, Generic[M, T, R]):
    """Cache, jobs and thread around a model that is made and loaded at its first use. Belongs to one event loop."""

    def __init__(self, make: Callable[[], M], cache: LRU[R], *, room: str, title: str, slice_items: int) -> None:
        """`make` is called in the thread; `room` names thread and log, `title` stands before the model's name in a message.

        `slice_items` of one call wait at a time, so that a long call neither fills the queue nor stands before everyone else's.
        """
        self._make, self._cache, self._title, self._slice_items = make, cache, title, slice_items
        self._log = logging.getLogger(f"groundwire.{room}")
        self._model: M | None = None
        self._jobs: dict[int, TurnJob[T, R]] = {}
        self._thread = ThreadPoolExecutor(MAX_LANES, thread_name_prefix=room, initializer=step_back)
        self._runners: set[asyncio.Task[None]] = set()
        self._reading_lock = threading.Lock()
        self._problem, self._awaited = "", False
        self._reading, self._read_at = False, -math.inf
        self._stopped = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Of the model."""

    @property
    def problem(self) -> str | None:
        """Why there is no model to run, for ``/ready``; None when there is, or when it is read at its first use and none was."""
        return None if self._model is not None else self._problem or ("still loading" if self._awaited else None)

    def reading_since(self, moment: float) -> bool:
        """Whether the model was being read at some time after `moment`, in `time.perf_counter`'s seconds: who waited, waited for that. Not
        where it could not be read.
        """
        return self._reading or (self._model is not None and self._read_at > moment)

    async def load(self) -> None:
        """Load the model now, not at the first item. A failure is logged and tried again at the next item."""
        self._awaited = True
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._loaded)
        except ModelUnavailable as error:
            self._log.error("%s", error)

    def stop(self) -> None:
        """End the thread after the turn that runs; who still waits gets `ModelUnavailable`."""
        self._stopped = True
        self._give_up(ModelUnavailable("the server is stopping"))
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def _lanes(self) -> int:
        """Turns that run side by side: one while the model is read."""
        return 1 if self._model is None else min(MAX_LANES, self._model.lanes)

    # ---- what a subclass says ----

    @abstractmethod
    def _prepared(self, item: T) -> tuple[int, T]:
        """The key of an item, and what the model gets to read of it."""

    @abstractmethod
    def _admit(self, waiting: int, items: int) -> None:
        """Raises `ModelUnavailable` where so many items are too many behind those that wait."""

    @abstractmethod
    def _next_turn(self, number: int) -> list[TurnJob[T, R]]:
        """Take the jobs of the runner's next turn off one queue, at least one if any waits. `number` counts from 1 since none did."""

    def _makes_way(self, queue: Queue[T, R]) -> bool:
        """In the thread, between two batches: whether a turn out of `queue` ends here; its other jobs wait again, before all others."""
        return False

    def _batches(self, model: M, jobs: list[TurnJob[T, R]]) -> Iterator[list[TurnJob[T, R]]]:
        """In the thread: a turn's jobs as they are computed at once; after each batch the turn may end."""
        return parts(jobs, model.batch)

    @abstractmethod
    def _compute(self, model: M, items: list[T]) -> list[R]:
        """In the thread: a result for each of the items, at most as many as are computed at once."""

    # ---- callers ----

    async def _results(self, items: Sequence[T], queue: Queue[T, R]) -> list[R]:
        """A result for each; what must be computed waits in `queue`."""
        results: list[R] = []
        for some in parts(items, self._slice_items):
            results += await self._results_of_slice([self._prepared(item) for item in some], queue)
            if len(results) < len(items):
                await asyncio.sleep(0)  # thousands of hits in the cache are no reason to hold the loop
        return results

    async def _results_of_slice(self, items: list[tuple[int, T]], queue: Queue[T, R]) -> list[R]:
        found = {key: known for key, _ in items if (known := self._cache.get(key)) is not None}
        missing = {key: item for key, item in items if key not in found}
        if missing:
            found |= await self._computed(missing, queue)
        return [found[key] for key, _ in items]

    async def _computed(self, items: dict[int, T], queue: Queue[T, R]) -> dict[int, R]:
        """Wait for these items; if the caller leaves, what nobody else waits for leaves the queue."""
        if self._stopped:
            raise ModelUnavailable("the server is stopping")
        self._admit(len(queue), len(items))
        jobs = [self._job(key, item, queue) for key, item in items.items()]
        for job in jobs:
            job.wanted += 1
        try:
            await asyncio.wait([job.future for job in jobs])
            return {job.key: job.future.result() for job in jobs}
        finally:
            for job in jobs:
                self._release(job)

    def _job(self, key: int, item: T, queue: Queue[T, R]) -> TurnJob[T, R]:
        """The computation of `item`: the one under way, or a new one."""
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = queue[key] = TurnJob(key, item, queue, asyncio.get_running_loop().create_future())
        if sum(not runner.done() for runner in self._runners) < self._lanes:
            runner = asyncio.create_task(self._run())
            self._runners.add(runner)
            runner.add_done_callback(self._runners.discard)
        return job

    def _release(self, job: TurnJob[T, R]) -> None:
        job.wanted -= 1
        if not job.wanted and job.queue.get(job.key) is job:  # one that runs stays: its result goes into the cache
            del job.queue[job.key], self._jobs[job.key]

    # ---- the runner ----

    async def _run(self) -> None:
        """Turn after turn until nothing waits."""
        for number in itertools.count(1):
            jobs = self._next_turn(number)
            if not jobs:
                return
            try:
                work = asyncio.get_running_loop().run_in_executor(self._thread, self._turn, jobs)
                results: Sequence[R | Exception] = await work
            except Exception as error:  # the model could not be loaded, or the thread has ended
                self._give_up(error)
                return
            for job, result in zip(jobs, results, strict=False):
                self._finish(job, result)
            self._put_back(jobs[len(results) :])

    def _give_up(self, error: Exception) -> None:
        """Of all that waits or runs: what comes later tries again."""
        for job in list(self._jobs.values()):
            job.queue.pop(job.key, None)
            self._finish(job, error)

    def _put_back(self, jobs: list[TurnJob[T, R]]) -> None:
        """The end of a turn that made way."""
        for job in reversed(jobs):
            if not job.wanted:
                self._jobs.pop(job.key, None)
            elif not job.future.done():
                job.queue[job.key] = job
                job.queue.move_to_end(job.key, last=False)

    def _finish(self, job: TurnJob[T, R], result: R | Exception) -> None:
        self._jobs.pop(job.key, None)
        if isinstance(result, Exception):
            if not job.future.done():
                job.future.set_exception(self._unavailable(result))
                job.future.exception()  # seen, even if nobody is left to see it
            return
        self._cache.put(job.key, result)
        if not job.future.done():
            job.future.set_result(result)

    def _unavailable(self, error: Exception) -> ModelUnavailable:
        if isinstance(error, ModelUnavailable):
            return error
        return ModelUnavailable(f"{self._title} {self.name} failed: {type(error).__name__}: {str(error)[:200]}")

    # ---- in the thread ----

    def _loaded(self) -> M:
        with self._reading_lock:
            return self._model if self._model is not None else self._read()

    def _read(self) -> M:
        self._reading = True
        try:
            model = self._make()
            model.load()
        except Exception as error:
            unavailable = self._unavailable(error)
            self._problem = str(unavailable)
            raise unavailable from error
        finally:
            self._reading, self._read_at = False, time.perf_counter()
        self._model = model
        give_back_memory()
        return model

    def _turn(self, jobs: list[TurnJob[T, R]]) -> list[R | Exception]:
        """A result for each job, or for the first ones if the turn makes way, or nobody waits for the others any more."""
        model = self._loaded()
        found: list[R | Exception] = []
        for some in self._batches(model, jobs):
            unwanted = not any(job.wanted for job in jobs[len(found) :])
            if found and (unwanted or self._makes_way(jobs[0].queue)):
                break
            found += self._each(model, [job.item for job in some])
        return found

    def _each(self, model: M, items: list[T]) -> Sequence[R | Exception]:
        """Each item's result; one that the model fails on does not take its neighbours with it."""
        try:
            return self._compute(model, items)
        except Exception as error:
            if len(items) == 1:
                return [error]
            return [result for item in items for result in self._each(model, [item])]


def parts(items: Sequence[U], size: int) -> Iterator[list[U]]:
    """`items`, `size` at a time."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
