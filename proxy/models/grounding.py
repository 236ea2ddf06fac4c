"""(claim, evidence) -> calibrated support, for every part that checks an answer: implements `proxy.ports.Verifier` and `Verifiers`.

In come pairs of any request, out goes one `Support` for each, or None where the model does not know the claim's language. A pair is
judged once: found answers stay in a bounded cache under the hash of claim, evidence and language, and callers that ask for a pair
which waits or runs share the one computation.

The model runs in one thread of its own, a turn at a time. While it works, the sentences of all streaming answers gather; the oldest
goes next, together with those of about its length where the model takes several at once. A pair that nobody waits for any more leaves
the queue: a cancelled client costs the rest of one turn. More pairs than `max_waiting` are refused at once rather than late.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from proxy.errors import ModelUnavailable
from proxy.grounding.verdicts import ClaimPair, Support
from proxy.lru import LRU

log = logging.getLogger("groundwire.grounding")

CACHE_SIZE = 20_000
"""Judgements, 200 to 300 bytes each."""
MAX_WAITING = 512
"""Pairs; about 8 s of work for the built-in verifier on two cores."""
SLICE = 64
"""Pairs of one call that wait at a time, so that a long answer neither fills the queue nor stands before everyone else's."""
NEAR = 1.3
"""Pairs share a turn when the longer is at most so many times as long: padding is work for nothing."""
MAX_CHARS = 20_000
"""Of a claim or of evidence; far above what any of the models reads."""


class PairModel(Protocol):
    """A model. Used by one thread at a time."""

    name: str
    """Model and version; final once loaded."""
    batch: int
    """Pairs that it takes at once; 1 where a pair's answer would depend on the pairs beside it."""

    def load(self) -> None:
        """Read the weights. Raises `ModelUnavailable`, saying what to do."""

    def judge(self, pairs: list[ClaimPair]) -> list[Support | None]:
        """One answer for each; None for a language it does not know. Texts are valid Unicode."""


Answer = Support | None


class _Job:
    """A pair that waits or runs, and how many callers want it."""

    __slots__ = ("future", "key", "length", "pair", "wanted")

    def __init__(self, key: bytes, pair: ClaimPair, future: asyncio.Future[Answer]) -> None:
        self.key, self.pair, self.future, self.wanted = key, pair, future, 0
        self.length = len(pair.claim) + len(pair.evidence)


class BatchingVerifier:
    """Cache, queue and thread around a model that is made and loaded at its first use. Belongs to one event loop."""

    def __init__(self, make: Callable[[], PairModel], label: str, *, cache_size: int = CACHE_SIZE, max_waiting: int = MAX_WAITING) -> None:
        """`make` is called in the thread, so that it may import what is heavy; `label` names the model until it is loaded."""
        self._make, self._label, self._max_waiting = make, label, max_waiting
        self._model: PairModel | None = None
        self._cache: LRU[tuple[Answer]] = LRU(cache_size)
        self._jobs: dict[bytes, _Job] = {}
        self._queue: OrderedDict[bytes, _Job] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grounding")
        self._runner: asyncio.Task[None] | None = None
        self._asked = False
        self._problem = "still loading"

    @property
    def name(self) -> str:
        """Implements `proxy.ports.Verifier`; the version is known once the model is loaded."""
        return self._label if self._model is None else self._model.name

    @property
    def problem(self) -> str | None:
        """Why it cannot judge although it was asked to, for ``/ready``; None when it can, or nobody has asked."""
        return self._problem if self._asked and self._model is None else None

    async def load(self) -> None:
        """Load the model now, not at the first pair. A failure is logged and tried again at the next pair."""
        self._asked = True
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._loaded)
        except ModelUnavailable as error:
            log.error("%s", error)

    def stop(self) -> None:
        """End the thread after the turn that runs; who still waits gets `ModelUnavailable`."""
        self._queue.clear()
        for job in list(self._jobs.values()):
            self._finish(job, ModelUnavailable("the server is stopping"))
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        """Implements `proxy.ports.Verifier`."""
        self._asked = True
        answers: list[Answer] = []
        for start in range(0, len(pairs), SLICE):
            answers += await self._verify_some([_valid(pair) for pair in pairs[start : start + SLICE]])
            if len(answers) < len(pairs):
                await asyncio.sleep(0)  # hundreds of hits in the cache are no reason to hold the loop
        return answers

    async def _verify_some(self, pairs: list[ClaimPair]) -> list[Answer]:
        keys = [_key_of(pair) for pair in pairs]
        found = {key: known[0] for key in keys if (known := self._cache.get(key)) is not None}
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in found}
        if missing:
            found |= await self._computed(missing)
        return [found[key] for key in keys]

    async def _computed(self, pairs: dict[bytes, ClaimPair]) -> dict[bytes, Answer]:
        """Wait for these pairs; if the caller leaves, what nobody else waits for leaves the queue."""
        waiting = len(self._queue)
        if waiting and waiting + len(pairs) > self._max_waiting:
            advice = "give the server more workers or cores, or raise grounding.max_waiting"
            raise ModelUnavailable(f"the verifier {self.name} is overloaded: {waiting} claims wait for it already; {advice}")
        jobs = [self._job(key, pair) for key, pair in pairs.items()]
        for job in jobs:
            job.wanted += 1
        try:
            await asyncio.wait([job.future for job in jobs])
            return {job.key: job.future.result() for job in jobs}
        finally:
            for job in jobs:
                self._release(job)

    def _job(self, key: bytes, pair: ClaimPair) -> _Job:
        """The computation of `pair`: the one under way, or a new one."""
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = self._queue[key] = _Job(key, pair, asyncio.get_running_loop().create_future())
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run())
        return job

    def _release(self, job: _Job) -> None:
        job.wanted -= 1
        if not job.wanted and self._queue.get(job.key) is job:  # one that runs stays: its answer goes into the cache
            del self._queue[job.key], self._jobs[job.key]

    async def _run(self) -> None:
        """Turn after turn until nothing waits."""
        while self._queue:
            jobs = turn_of(self._queue, self._model.batch if self._model is not None else 1)
            results: Sequence[Answer | Exception]
            try:
                results = await asyncio.get_running_loop().run_in_executor(self._thread, self._turn, [job.pair for job in jobs])
            except Exception as error:  # the model could not be loaded, or the thread has ended
                results = [error] * len(jobs)
            for job, result in zip(jobs, results, strict=True):
                self._finish(job, result)

    def _finish(self, job: _Job, result: Answer | Exception) -> None:
        self._jobs.pop(job.key, None)
        if isinstance(result, Exception):
            if not job.future.done():
                job.future.set_exception(_as_unavailable(result, self.name))
                job.future.exception()  # seen, even if nobody is left to see it
            return
        self._cache.put(job.key, (result,))
        if not job.future.done():
            job.future.set_result(result)

    # ---- in the thread ----

    def _loaded(self) -> PairModel:
        if self._model is None:
            try:
                model = self._make()
                model.load()
            except Exception as error:
                unavailable = _as_unavailable(error, self._label)
                self._problem = str(unavailable)
                raise unavailable from error
            self._model = model
        return self._model

    def _turn(self, pairs: list[ClaimPair]) -> list[Answer | Exception]:
        model = self._loaded()
        return list(self._judged(model, pairs))

    def _judged(self, model: PairModel, pairs: list[ClaimPair]) -> Iterator[Answer | Exception]:
        """Each pair's answer; one that the model fails on does not take its neighbours with it."""
        try:
            answers = model.judge(pairs)
            if len(answers) != len(pairs):
                raise ValueError(f"{len(answers)} answers to {len(pairs)} pairs")
            yield from answers
        except Exception as error:
            if len(pairs) == 1:
                yield error
                return
            for pair in pairs:
                yield from self._judged(model, [pair])


class LocalVerifiers:
    """Implements `proxy.ports.Verifiers`: one verifier a model, made at its first use."""

    def __init__(self, make: Callable[[str], PairModel], *, cache_size: int = CACHE_SIZE, max_waiting: int = MAX_WAITING) -> None:
        """`make` makes the model of a name ("" for the built-in one) and is called in the verifier's thread."""
        self._make, self._cache_size, self._max_waiting = make, cache_size, max_waiting
        self._made: dict[str, BatchingVerifier] = {}

    def get(self, model: str = "") -> BatchingVerifier:
        """Implements `proxy.ports.Verifiers`. Nothing is imported or loaded yet."""
        if model not in self._made:
            self._made[model] = BatchingVerifier(
                lambda: self._make(model), model or "builtin", cache_size=self._cache_size, max_waiting=self._max_waiting
            )
        return self._made[model]

    @property
    def problem(self) -> str | None:
        """Of the first verifier that was asked and cannot judge, for ``/ready``; None where there is none."""
        return next((verifier.problem for verifier in self._made.values() if verifier.problem), None)

    async def load(self, models: Iterable[str] = ("",)) -> None:
        """Load these models now. A failure is logged there, and shown by `problem`."""
        for model in models:
            await self.get(model).load()

    def stop(self) -> None:
        """End what runs."""
        for verifier in self._made.values():
            verifier.stop()


def turn_of(queue: OrderedDict[bytes, _Job], batch: int) -> list[_Job]:
    """Take the next jobs off the queue: the oldest, and up to `batch` of about its length, in the order in which they came."""
    _, first = queue.popitem(last=False)
    jobs = [first]
    if batch > 1:
        fitting = [job for job in queue.values() if max(job.length, first.length) <= NEAR * min(job.length, first.length)]
        for job in fitting[: batch - 1]:
            jobs.append(queue.pop(job.key))
    return jobs


def _valid(pair: ClaimPair) -> ClaimPair:
    """Texts of bounded length, with U+FFFD for lone surrogates."""
    claim, evidence = (
        text[:MAX_CHARS].encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in (pair.claim, pair.evidence)
    )
    return ClaimPair(claim, evidence, pair.language)


def _key_of(pair: ClaimPair) -> bytes:
    claim = pair.claim.encode()
    text = b"%s\n%d\n%s%s" % (pair.language.encode("utf-8", "replace"), len(claim), claim, pair.evidence.encode())
    return hashlib.blake2b(text, digest_size=16).digest()


def _as_unavailable(error: Exception, name: str) -> ModelUnavailable:
    if isinstance(error, ModelUnavailable):
        return error
    return ModelUnavailable(f"the verifier {name} failed: {type(error).__name__}: {str(error)[:200]}")
