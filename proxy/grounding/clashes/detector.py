"""Statements -> the clashes between them: finds the pairs, lets rules decide them, and asks the models about the rest.

The one detector: the stage `clash`, the library `proxy.clash`, and the consistency of the stage `validation` run it. Statements meet by
what they declare, by rare terms and by similarity; a new statement meets a bounded number of old ones, so a long conversation costs what
is new. A pair that rules decide costs nothing. Without a verifier only rules count; with one a bounded number of pairs is judged, the
newest first and however much is known of them already, so that the same statements have the same pairs judged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from proxy.errors import ModelUnavailable
from proxy.grounding.clashes import deciding
from proxy.grounding.clashes.kinds import Pair, Statement, StatementClash
from proxy.grounding.clashes.plain import UNNAMED_ATTRIBUTE
from proxy.grounding.clashes.values import whole
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms
from proxy.grounding.judging.questions import compatible_question
from proxy.offloop import LARGE, each, run_in_thread_if_large
from proxy.ports import Embedder, Verifier
from proxy.ports.judge import JudgeSession

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

log = logging.getLogger("groundwire.clash")

MAX_PAIRS = 64
"""Judged by the verifier for one list of statements: about 2 s of the built-in one."""
UNSURE = 0.2
"""Probability of a contradiction from which the policy's judge is asked, too."""
BATCH = 16
"""Pairs that the verifier is asked about at a time, so that what is judged in time counts."""
SMALL = 40
"""Up to so many statements are paired on the event loop."""
BY_ATTRIBUTE = 24
"""Old statements of its attribute that a new one meets, the latest first."""
BY_WORDS = 6
"""Of those that share a rare term with it."""
BY_SIMILARITY = 6
"""Of those that are most alike in meaning, however little: "I don't drink" and "a glass of Rioja with dinner" are not alike."""
_COMMON_SHARE = 0.3
"""A term that stands in more of the statements than this says nothing of what one is about."""
_ALWAYS_RARE = 6
"""Statements with a term, up to which it is rare however short the conversation."""
_USER_SIDE = frozenset(("user", "system", "memory"))


# ---- which pairs ----


def candidates(statements: Sequence[Statement], *, seen: Collection[str] = (), vectors: Vectors | None = None) -> list[Pair]:
    """The pairs to judge of `statements`, of which no two say the same, in order of the newer statement.

    `seen` are hashes of statements that have been paired with each other before; `vectors` ``(len(statements), d)`` float32 of unit length.
    """
    index = _Index(statements)
    found: dict[str, Pair] = {}
    for i, statement in enumerate(each(statements)):
        if statement.hash in seen:
            continue
        for j in index.near(i, vectors):
            pair = Pair(*in_order(statement, statements[j]))
            found.setdefault(pair.hash, pair)
    return sorted(found.values(), key=lambda pair: (pair.newer.place, pair.older.place))


def in_order(one: Statement, other: Statement) -> tuple[Statement, Statement]:
    """The older and the newer: by their times where both have one, else by their places; what is remembered is older than what is said."""
    if {one.origin, other.origin} == {"user", "memory"} and None in (one.timestamp, other.timestamp):
        return (one, other) if one.origin == "memory" else (other, one)
    if one.timestamp is not None and other.timestamp is not None and one.timestamp != other.timestamp:
        return (one, other) if one.timestamp < other.timestamp else (other, one)
    return (one, other) if one.place <= other.place else (other, one)


def _may_meet(one: Statement, other: Statement) -> bool:
    """Whether one may contradict the other at all: what a user wants is not contradicted by what a passage says of the world."""
    if one.place == other.place:
        return False
    sides = {statement.origin in _USER_SIDE for statement in (one, other)}
    return len(sides) == 1 or one.kind == other.kind == "fact"


class _Index:
    """Statements by what they declare and by rare term."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._statements = statements
        self._terms = [_terms(statement) for statement in each(statements)]
        self._keys = [_keys(statement) for statement in statements]
        self._by_key = _positions(self._keys)
        common = max(_ALWAYS_RARE, _COMMON_SHARE * len(statements))
        self._by_term = {term: found for term, found in _positions(self._terms).items() if len(found) <= common}

    def near(self, i: int, vectors: Vectors | None) -> Iterator[int]:
        """Positions of the statements that the one at `i` should be compared with."""
        own = self._statements[i]
        met: set[int] = set()
        ways = (
            (self._same_attribute(i), BY_ATTRIBUTE),
            (self._same_words(i), BY_WORDS),
            (_by_cosine(vectors @ vectors[i]) if vectors is not None else (), BY_SIMILARITY),
        )
        for positions, most in ways:
            may = (j for j in positions if j != i and j not in met and _may_meet(own, self._statements[j]))
            for j in list(islice(may, most)):
                met.add(j)
                yield j

    def _same_attribute(self, i: int) -> Iterable[int]:
        """What "it" is to be is compared with all that was said before, by whom it is not known of what."""
        if any(one.attribute == UNNAMED_ATTRIBUTE for one in self._statements[i].declares):
            return range(i - 1, -1, -1)
        return sorted({j for key in self._keys[i] for j in self._by_key[key]}, reverse=True)

    def _same_words(self, i: int) -> Iterable[int]:
        """By how many rare terms they share; the later first among equals."""
        shared = Counter(j for term in self._terms[i] for j in self._by_term.get(term, ()))
        return sorted(shared, key=lambda j: (shared[j], j), reverse=True)


def _positions(keys: Sequence[Collection[str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for i, some in enumerate(each(keys)):
        for key in some:
            found.setdefault(key, []).append(i)
    return found


def _terms(statement: Statement) -> frozenset[str]:
    return frozenset(term for term in terms(statement.text) if len(term) > 2) - FUNCTION_WORDS


def _keys(statement: Statement) -> frozenset[str]:
    """By what a statement meets others: attributes, each with what it is of."""
    return frozenset(f"{whole(one.attribute)}\0{one.scope}" for one in statement.declares)


def _by_cosine(cosines: Vectors) -> Iterable[int]:
    """Positions, of the most alike first, the later first among equals; sorted outside of Python, since all of a run's statements are."""
    last = len(cosines) - 1
    return (last - int(j) for j in (-cosines[::-1]).argsort(kind="stable"))


# ---- what they are ----


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

    def __init__(self, verifier: Verifier | None = None, *, embedder: Embedder | None = None, judge: JudgeSession | None = None) -> None:
        """Without `verifier` rules decide alone, and nobody is asked; without `embedder` pairs are found by attributes and words. `judge`
        is asked over the verifier.
        """
        self._verifier, self._embedder, self._judge_over = verifier, embedder, judge

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
        size = LARGE if len(latest) > SMALL else 0
        pairs = await run_in_thread_if_large(size, lambda: candidates(latest, seen=paired_before, vectors=vectors))
        new = {statement.hash for statement in latest} - set(seen)
        decided = [pair for pair in pairs if deciding.settled(pair)]
        open_ = [pair for pair in pairs if not deciding.settled(pair)]
        fresh = [pair for pair in decided if {pair.older.hash, pair.newer.hash} & new]
        fresh += _duplicates([statement for statement in statements if statement.hash in new])
        self._by_rules([pair for pair in fresh if not known(pair)], found)
        if self._verifier is not None:
            await self._by_models(open_, known, until, found)
        found.clashes.sort(key=lambda clash: (clash.newer.place, clash.older.place))
        return found

    @staticmethod
    def _by_rules(pairs: Sequence[Pair], found: DetectedClashes) -> None:
        found.clashes += [clash for pair in pairs if (clash := deciding.by_rule(pair)) is not None]
        found.judged += len(pairs)

    async def _by_models(self, pairs: list[Pair], known: Callable[[Pair], bool], until: float | None, found: DetectedClashes) -> None:
        """What no rule decides, the newest statements first."""
        pairs.sort(key=lambda pair: pair.newer.place, reverse=True)
        found.skipped = max(0, len(pairs) - MAX_PAIRS)
        open_ = [pair for pair in pairs[:MAX_PAIRS] if not known(pair)]
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
        """Have the models judge some pairs. Raises `ModelUnavailable`."""
        assert self._verifier is not None
        asked = list(dict.fromkeys(question for pair in pairs for question in deciding.questions(pair)))
        replies = zip(asked, await self._verifier.verify(asked), strict=True)
        answers = {question: support for question, support in replies if support is not None}
        answered = [pair for pair in pairs if all(question in answers for question in deciding.questions(pair))]
        if len(answered) < len(pairs):
            found.problem = found.problem or "not_judged"
        found.judged += len(answered)
        clashes = {pair.hash: deciding.judged(pair, answers) for pair in answered}
        doubtful = [pair for pair in answered if self._is_doubtful(pair, clashes[pair.hash], deciding.contradiction(pair, answers))]
        await self._ask_judge(doubtful, clashes)
        found.clashes += [clash for clash in clashes.values() if clash is not None]
        found.compatible += [pair for pair in answered if clashes[pair.hash] is None]

    def _is_doubtful(self, pair: Pair, clash: StatementClash | None, contradiction: float) -> bool:
        """Whether the policy's judge is asked: about all, or what is unsure or would be reported; not about what is said twice."""
        if self._judge_over is None or deciding.is_addition(pair) or (clash is not None and clash.type == "DUPLICATE_FACTS"):
            return False
        return self._judge_over.ask == "all" or contradiction >= UNSURE

    async def _ask_judge(self, pairs: Sequence[Pair], clashes: dict[str, StatementClash | None]) -> None:
        """Put the policy's judge's word on whether two statements can both be true in the verifier's place."""
        if self._judge_over is None or not pairs:
            return
        answers = await self._judge_over.answers([compatible_question(pair.older.text, pair.newer.text) for pair in pairs])
        for pair, answer in zip(pairs, answers, strict=True):
            if answer.choice:
                clash = deciding.incompatible(pair, answer.probabilities["no"], answer.reason) if answer.choice == "no" else None
                clashes[pair.hash] = clash

    async def _vectors_in_time(self, texts: Sequence[str], until: float | None, found: DetectedClashes) -> Vectors | None:
        """For the pairs that only the models can judge: without them they are of no use."""
        if self._verifier is None or self._embedder is None or len(texts) < 2:
            return None
        try:
            async with asyncio.timeout_at(until):
                return await self._embedder.embed(texts)
        except TimeoutError:
            found.problem = "timeout"
        except ModelUnavailable as error:
            log.warning("clashes are found by words alone: %s", error)
        return None


def _duplicates(statements: Sequence[Statement]) -> list[Pair]:
    """What memories and passages say word by word more than once: each with the next."""
    same: dict[str, list[Statement]] = {}
    for statement in statements:
        if statement.origin in ("memory", "passage"):
            same.setdefault(statement.hash, []).append(statement)
    return [Pair(one, other) for some in same.values() for one, other in pairwise(some)]
