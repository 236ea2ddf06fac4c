"""(claim, evidence) -> calibrated support, for every part that checks an answer: implements `proxy.ports.Verifier` and `Verifiers`.

In come pairs of any request, out goes one `Support` for each, or None where the model does not know the claim's language. A pair (claim,
evidence and language) is judged once, in turns of few threads (`proxy.models.turns`). While the model works, the sentences of all
streaming answers gather; the oldest goes next, together with those of about its length where the model takes several at once. More pairs
than `max_waiting` are refused at once rather than late.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.language.lru import LRU, key_of
from proxy.language.text import whole_characters
from proxy.models.turns import Queue, SharedTurns, TurnJob
from proxy.ports import knows

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
    """A model. Used by as many threads at a time as it has lanes."""

    name: str
    """Model and version; final once loaded."""
    lanes: int
    """Turns that it takes side by side."""
    batch: int
    """Pairs that it takes at once; 1 where a pair's answer would depend on the pairs beside it."""

    def load(self) -> None:
        """Read the weights. Raises `ModelUnavailable`, saying what to do."""

    def judge(self, pairs: list[ClaimPair]) -> list[Support | None]:
        """One answer for each; None for a language it does not know. Texts are valid Unicode."""


class WithFallback:
    """A `PairModel` of two: what the first does not answer, for it does not know the language, the second does. Named like the first;
    `Support.by` says whose an answer is.
    """

    batch = 1

    def __init__(self, first: PairModel, second: PairModel) -> None:
        self._both = first, second
        self.name, self.lanes = first.name, first.lanes

    def load(self) -> None:
        """Implements `PairModel`."""
        for model in self._both:
            model.load()
        self.name = self._both[0].name

    def knows(self, language: str) -> bool:
        """Implements `proxy.ports.KnowsLanguages`."""
        return any(knows(model, language) for model in self._both)

    def judge(self, pairs: list[ClaimPair]) -> list[Support | None]:
        """Implements `PairModel`."""
        first, second = self._both
        found = first.judge(pairs)
        left = [i for i, answer in enumerate(found) if answer is None]
        for i, answer in zip(left, second.judge([pairs[i] for i in left]), strict=True):
            found[i] = answer
        return found


Judged = tuple[Support | None]
"""An answer; in a tuple, for the cache says None where it has nothing."""


class BatchingVerifier(SharedTurns[PairModel, ClaimPair, Judged]):
    """Judgements in turns around a model that is made and loaded at its first use. Belongs to one event loop."""

    def __init__(self, make: Callable[[], PairModel], label: str, *, cache_size: int = CACHE_SIZE, max_waiting: int = MAX_WAITING) -> None:
        """`make` is called in the thread, so that it may import what is heavy; `label` names the model until it is loaded."""
        super().__init__(make, LRU[Judged](cache_size), room="grounding", title="the verifier", slice_items=SLICE)
        self._label, self._max_waiting = label, max_waiting
        self._queue: Queue[ClaimPair, Judged] = OrderedDict()

    @property
    def name(self) -> str:
        """Implements `proxy.ports.Verifier`; the version is known once the model is loaded."""
        return self._label if self._model is None else self._model.name

    def knows(self, language: str) -> bool:
        """Implements `proxy.ports.KnowsLanguages`; of a model that is not loaded nothing is known."""
        return self._model is None or knows(self._model, language)

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        """Implements `proxy.ports.Verifier`."""
        return [answer for (answer,) in await self._results(pairs, self._queue)]

    def _prepared(self, item: ClaimPair) -> tuple[int, ClaimPair]:
        pair = ClaimPair(whole_characters(item.claim[:MAX_CHARS]), whole_characters(item.evidence[:MAX_CHARS]), item.language)
        return key_of(pair.language, pair.claim, pair.evidence), pair

    def _admit(self, waiting: int, items: int) -> None:
        if waiting and waiting + items > self._max_waiting:
            advice = "give the server more workers or cores"
            raise ModelUnavailable(f"the verifier {self.name} is overloaded: {waiting} claims wait for it already; {advice}")

    def _next_turn(self, number: int) -> list[TurnJob[ClaimPair, Judged]]:
        """The oldest, and up to a batch of about its length, in the order in which they came."""
        if not self._queue:
            return []
        _, first = self._queue.popitem(last=False)
        batch = 1 if self._model is None else self._model.batch
        fitting = (job for job in self._queue.values() if _alike(first.item, job.item))
        return [first, *(self._queue.pop(job.key) for job in list(islice(fitting, batch - 1)))]

    def _compute(self, model: PairModel, items: list[ClaimPair]) -> list[Judged]:
        answers = model.judge(items)
        if len(answers) != len(items):
            raise ValueError(f"{len(answers)} answers to {len(items)} pairs")
        return [(answer,) for answer in answers]


class LocalVerifiers:
    """Implements `proxy.ports.Verifiers`: one verifier a model, made at its first use."""

    def __init__(self, make: Callable[[str], PairModel], *, cache_size: int = CACHE_SIZE) -> None:
        """`make` makes the model of a name, "" for the built-in one, in the verifier's thread."""
        self._make, self._cache_size = make, cache_size
        self._made: dict[str, BatchingVerifier] = {}

    def get(self, model: str = "") -> BatchingVerifier:
        """Implements `proxy.ports.Verifiers`. Nothing is imported or loaded yet."""
        if model not in self._made:
            self._made[model] = BatchingVerifier(lambda: self._make(model), model or "builtin", cache_size=self._cache_size)
        return self._made[model]

    @property
    def problem(self) -> str | None:
        """Of the first verifier that was asked and cannot judge, for ``/ready``; None where there is none."""
        return next((verifier.problem for verifier in self._made.values() if verifier.problem), None)

    def reading_since(self, moment: float) -> bool:
        """Whether one of the models was being read at some time after `moment`, in `time.perf_counter`'s seconds."""
        return any(verifier.reading_since(moment) for verifier in self._made.values())

    async def load(self, models: Iterable[str] = ("",)) -> None:
        """Load these models now. A failure is logged there, and shown by `problem`."""
        for model in models:
            await self.get(model).load()

    def stop(self) -> None:
        """End what runs."""
        for verifier in self._made.values():
            verifier.stop()


def _alike(a: ClaimPair, b: ClaimPair) -> bool:
    lengths = len(a.claim) + len(a.evidence), len(b.claim) + len(b.evidence)
    return max(lengths) <= NEAR * min(lengths)
