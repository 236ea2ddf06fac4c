"""Statements -> the clashes between them: finds the pairs, lets rules judge them, and asks embedder and verifier about the rest.

The one detector: the stage `clash`, the library `proxy.clash`, and the consistency of the stage `validation` run it. A pair that rules
decide costs nothing. Without a verifier only rules count; with one a bounded number of pairs is judged, the newest first and however much
is known of them already, so that the same statements have the same pairs judged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes.detecting import detection
from proxy.grounding.clashes.detecting.candidates import Pair, candidates
from proxy.grounding.clashes.detecting.features import Answers, Cosines
from proxy.grounding.clashes.detecting.questions import is_answered, questions, targets, texts
from proxy.grounding.clashes.kinds import Statement, StatementClash
from proxy.grounding.judging.questions import compatible_question
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports import Embedder, Verifier
from proxy.ports.judge import JudgeSession

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger("groundwire.clash")

MAX_PAIRS = 64
"""Judged by the verifier for one list of statements: about 2 s of the built-in one."""
MIN_SCORE = 0.5
"""Probability from which two statements count as clashing for a verifier."""
UNSURE = 0.2
"""Probability from which the policy's judge is asked, too."""
BATCH = 16
"""Pairs that the verifier is asked about at a time, so that what is judged in time counts."""
SMALL = 40
"""Up to so many statements are paired on the event loop."""


class DetectedClashes(Struct):
    """What came of comparing; filled while the time lasts."""

    clashes: list[StatementClash] = []
    """In order of the newer statement; changes of mind said as such are among them, with `update`."""
    compatible: list[Pair] = []
    """What the verifier judged and found to go together."""
    judged: int = 0
    skipped: int = 0
    """Pairs that nobody judged, because there were too many of them."""
    problem: str = ""
    """Why some pairs are still open: ``timeout``, ``verifier_unavailable``, ``not_judged`` (it had no answer); the clashes count."""


class ClashDetector:
    """Finds clashes. Keeps nothing between calls."""

    def __init__(
        self,
        verifier: Verifier | None = None,
        *,
        embedder: Embedder | None = None,
        max_pairs: int = MAX_PAIRS,
        min_score: float = MIN_SCORE,
        judge: JudgeSession | None = None,
    ) -> None:
        """Without `verifier` rules decide alone, and nobody is asked; without `embedder` pairs are found by slots and words. `judge` is
        asked over the verifier.
        """
        self._verifier, self._embedder, self._max_pairs, self._min_score = verifier, embedder, max_pairs, min_score
        self._judge_over = judge

    async def detect(
        self,
        statements: Sequence[Statement],
        *,
        seen: Collection[str] = (),
        known: Callable[[Pair], bool] = lambda pair: False,
        until: float | None = None,
    ) -> DetectedClashes:
        """The clashes among `statements`, which are in the conversation's order; of what is said twice the last time counts.

        `seen` are hashes of statements that were all paired with each other before: rules do not compare them again. What is `known` costs
        nothing. At `until`, in the event loop's time, the verifier's pairs that are still open stay open.
        """
        latest = list({statement.hash: statement for statement in statements}.values())
        found = DetectedClashes()
        vectors = await self._vectors_in_time([statement.text for statement in latest], until, found)
        paired_before = seen if self._verifier is None else ()
        pairs = await run_in_thread_if_large(
            LARGE if len(latest) > SMALL else 0, lambda: candidates(latest, seen=paired_before, vectors=vectors)
        )
        asked = [pair for pair in pairs if not detection.settled(pair)]
        new = {statement.hash for statement in latest} - set(seen)
        decided = [pair for pair in pairs if detection.settled(pair) and {pair.older.hash, pair.newer.hash} & new]
        decided += _said_twice([statement for statement in statements if statement.hash in new])
        self._by_rules([pair for pair in decided if not known(pair)], found)
        if self._verifier is not None:
            await self._by_verifier(asked, known, until, found)
        found.clashes.sort(key=lambda clash: (clash.newer.place, clash.older.place))
        return found

    @staticmethod
    def _by_rules(pairs: Sequence[Pair], found: DetectedClashes) -> None:
        clashes = [clash for pair in pairs if (clash := detection.by_rule(pair)) is not None]
        found.clashes += [clash for clash in clashes if not _is_repeated_field(clash)]
        found.judged += len(pairs)

    async def _by_verifier(self, pairs: list[Pair], known: Callable[[Pair], bool], until: float | None, found: DetectedClashes) -> None:
        """What no rule decides, the newest statements first."""
        pairs.sort(key=lambda pair: pair.newer.place, reverse=True)
        found.skipped = max(0, len(pairs) - self._max_pairs)
        open_ = [pair for pair in pairs[: self._max_pairs] if not known(pair)]
        try:
            async with asyncio.timeout_at(until):
                for start in range(0, len(open_), BATCH):
                    await self._judge(open_[start : start + BATCH], found)
        except TimeoutError:
            found.problem = "timeout"
        except ModelUnavailable as error:
            log.warning("clashes are found by rules alone: %s", error)
            found.problem = "verifier_unavailable"

    async def _judge(self, pairs: Sequence[Pair], found: DetectedClashes) -> None:
        """Have the verifier judge some pairs. Raises `ModelUnavailable`."""
        answers, cosines = await self.ask(pairs)
        judged: list[tuple[Pair, StatementClash | None]] = []
        for pair in pairs:
            if is_answered(pair.older, pair.newer, answers):
                judged.append((pair, detection.judged(pair, answers, cosines)))
            else:
                found.problem = found.problem or "not_judged"
        found.judged += len(judged)
        for pair, clash in await self._reconsidered(judged, answers, cosines):
            if clash is not None and clash.score >= self._min_score:
                found.clashes.append(clash)
            else:
                found.compatible.append(pair)

    async def _reconsidered(
        self, judged: Sequence[tuple[Pair, StatementClash | None]], answers: Answers, cosines: Cosines
    ) -> list[tuple[Pair, StatementClash | None]]:
        """With the policy's judge's word on whether two statements can both be true: on all of them, or on what is unsure or would be
        reported. What is said twice is no question of it.
        """
        judge, found = self._judge_over, list(judged)
        if judge is None:
            return found

        def is_open(pair: Pair, clash: StatementClash | None) -> bool:
            if detection.plainly_compatible(pair) or (clash is not None and clash.type == "DUPLICATE_FACTS"):
                return False
            return judge.ask == "all" or clash is not None or detection.probability(pair, answers, cosines) >= UNSURE

        open_ = [i for i, (pair, clash) in enumerate(judged) if is_open(pair, clash)]
        said = await judge.answers([compatible_question(judged[i][0].older.text, judged[i][0].newer.text) for i in open_])
        for i, answer in zip(open_, said, strict=True):
            pair, _ = judged[i]
            if answer.choice:
                found[i] = pair, detection.incompatible(pair, answer.probabilities["no"], answer.reason) if answer.choice == "no" else None
        return found

    async def ask(self, pairs: Sequence[Pair]) -> tuple[Answers, Cosines]:
        """What `proxy.grounding.clashes.detecting.features.features` needs of these pairs. Raises `ModelUnavailable`."""
        asked = list(dict.fromkeys(question for pair in pairs for question in questions(pair.older, pair.newer)))
        answers: dict[ClaimPair, Support] = {}
        if asked and self._verifier is not None:
            said = await self._verifier.verify(asked)
            answers = {question: support for question, support in zip(asked, said, strict=True) if support is not None}
        return answers, await self._cosines(pairs)

    async def _cosines(self, pairs: Sequence[Pair]) -> Cosines:
        every = list(dict.fromkeys(text for pair in pairs for text in texts(pair.older, pair.newer)))
        vectors = await self._vectors(every)
        if vectors is None:
            return {}
        row = {text: i for i, text in enumerate(every)}
        wanted = {(p.older.text, p.newer.text) for p in pairs}
        for pair in pairs:
            compared = targets(pair.older, pair.newer)
            wanted |= {both for both in (*compared.conflicts, *compared.agreements) if both[0] in row and both[1] in row}
        return {(a, b): float(vectors[row[a]] @ vectors[row[b]]) for a, b in wanted}

    async def _vectors_in_time(self, said: Sequence[str], until: float | None, found: DetectedClashes) -> NDArray[np.float32] | None:
        """For the pairs that only the verifier can judge: without it they are of no use."""
        if self._verifier is None or len(said) < 2:
            return None
        try:
            async with asyncio.timeout_at(until):
                return await self._vectors(said)
        except TimeoutError:
            found.problem = "timeout"
            return None

    async def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        if self._embedder is None or not texts:
            return None
        try:
            return await self._embedder.embed(texts)
        except ModelUnavailable as error:
            log.warning("clashes are found by words alone: %s", error)
            return None


def _said_twice(statements: Sequence[Statement]) -> list[Pair]:
    """What memories and passages say word by word more than once: each with the next."""
    same: dict[str, list[Statement]] = {}
    for statement in statements:
        if statement.origin in ("memory", "passage"):
            same.setdefault(statement.hash, []).append(statement)
    return [Pair(one, other) for some in same.values() for one, other in pairwise(some)]


def _is_repeated_field(clash: StatementClash) -> bool:
    """A record that a tool gives twice has most of its fields twice."""
    return clash.type == "DUPLICATE_FACTS" and clash.newer.slot.startswith("field:")
