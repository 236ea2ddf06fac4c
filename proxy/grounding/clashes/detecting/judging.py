"""Statements or messages -> the clashes between them: finds the pairs, asks embedder and verifier once for all, lets
`proxy.grounding.clashes.detecting` judge.

A pair that rules decide costs nothing. Without a verifier, or when it is too slow, only rules count: the other pairs are left open, and
are not among those that were judged, so that a later call can ask again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes.detecting import detection
from proxy.grounding.clashes.detecting.candidates import Pair, candidates
from proxy.grounding.clashes.detecting.certainty import SaidSentence, is_certain, is_staged
from proxy.grounding.clashes.detecting.features import Answers, Cosines
from proxy.grounding.clashes.detecting.questions import is_answered, questions, targets, texts
from proxy.grounding.clashes.kinds import Origin, StatedPiece, Statement, StatementClash
from proxy.grounding.clashes.statements.reading import is_memory, read_statements
from proxy.language.text import text_of
from proxy.offloop import LARGE, aside
from proxy.ports import Embedder, Verifier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger("groundwire.clash")

MAX_PAIRS = 64
"""Judged by the verifier in one call, the latest first: about 2 s of the built-in one. What is left is judged by the next call."""
_ORIGINS: Mapping[str, Origin] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_result",
}


class Findings(Struct, frozen=True):
    """What was found in one call."""

    clashes: tuple[StatementClash, ...]
    """In order of the newer statement; changes of mind said as such are among them, with `update`."""
    judged: tuple[str, ...]
    """Hashes of the pairs that need not be judged again."""
    open: tuple[str, ...] = ()
    """Hashes of the pairs that nobody could judge now."""
    problem: str = ""
    """Why: ``timeout``, ``verifier_unavailable``, ``not_judged`` (the verifier had no answer), ``too_many``."""


class ClashDetector:
    """Finds clashes. Keeps nothing between calls."""

    def __init__(self, verifier: Verifier | None = None, *, embedder: Embedder | None = None) -> None:
        """Without `verifier` rules decide alone; without `embedder` pairs are found by slots and words."""
        self._verifier, self._embedder = verifier, embedder

    async def detect(
        self, statements: Sequence[Statement], *, seen: Collection[str] = (), judged: Collection[str] = (), deadline_s: float | None = None
    ) -> Findings:
        """The clashes among `statements`.

        `seen` are hashes of statements that were all paired with each other before, `judged` hashes of pairs that were: what both
        name costs nothing. Past `deadline_s` what is open stays open.
        """
        until = None if deadline_s is None else asyncio.get_running_loop().time() + deadline_s
        pairs = await self._pairs(statements, seen, judged, until)
        found = [clash for pair in pairs if (clash := detection.by_rule(pair)) is not None]
        asked = [pair for pair in pairs if not detection.settled(pair)]
        outcome = await self._judged_in_time(asked[-MAX_PAIRS:], until)
        if len(asked) > MAX_PAIRS:
            outcome = Findings(outcome.clashes, outcome.judged, outcome.open, outcome.problem or "too_many")
        done = {*outcome.judged, *(pair.hash for pair in pairs if detection.settled(pair))}
        every = sorted((*found, *outcome.clashes), key=lambda clash: (clash.newer.place, clash.older.place))
        return Findings(
            clashes=tuple(every),
            judged=tuple(pair.hash for pair in pairs if pair.hash in done),
            open=tuple(sorted(pair.hash for pair in pairs if pair.hash not in done)),
            problem=outcome.problem,
        )

    async def _pairs(
        self, statements: Sequence[Statement], seen: Collection[str], judged: Collection[str], until: float | None
    ) -> list[Pair]:
        """The pairs to compare; by slots and words alone where the embedder is too slow."""
        vectors = None
        if len(statements) > 1:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    vectors = await self._vectors([statement.text for statement in statements])
        return await aside(LARGE, candidates, statements, seen=seen, judged=judged, vectors=vectors)

    async def _judged_in_time(self, pairs: Sequence[Pair], until: float | None) -> Findings:
        """The clashes among pairs that no rule decides, and which of them the verifier had an answer for."""
        if self._verifier is None:
            return Findings((), (), problem="verifier_unavailable" if pairs else "")
        try:
            async with asyncio.timeout_at(until):
                answers, cosines = await self.ask(pairs)
        except TimeoutError:
            return Findings((), (), problem="timeout")
        except ModelUnavailable as error:
            log.warning("clashes are found by rules alone: %s", error)
            return Findings((), (), problem="verifier_unavailable")
        known = [pair for pair in pairs if is_answered(pair.older, pair.newer, answers)]
        clashes = [clash for pair in known if (clash := detection.judged(pair, answers, cosines)) is not None]
        return Findings(tuple(clashes), tuple(pair.hash for pair in known), problem="" if len(known) == len(pairs) else "not_judged")

    async def ask(self, pairs: Sequence[Pair]) -> tuple[Answers, Cosines]:
        """What `proxy.grounding.clashes.detecting.features.features` needs of these pairs. Raises `ModelUnavailable`."""
        asked = list(dict.fromkeys(question for pair in pairs for question in questions(pair.older, pair.newer)))
        answers: dict[ClaimPair, Support] = {}
        if asked and self._verifier is not None:
            found = await self._verifier.verify(asked)
            answers = {question: support for question, support in zip(asked, found, strict=True) if support is not None}
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

    async def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        if self._embedder is None or not texts:
            return None
        try:
            return await self._embedder.embed(texts)
        except ModelUnavailable as error:
            log.warning("clashes are found by words alone: %s", error)
            return None


async def detect_clash(
    said: Sequence[Statement] | Sequence[str | Mapping[str, Any]],
    *,
    verifier: Verifier | None = None,
    embedder: Embedder | None = None,
    known: Collection[str] = (),
    deadline_s: float | None = None,
) -> list[StatementClash]:
    """The clashes in a conversation: its statements, or its messages or a user's sentences, in order.

    `known` are pair hashes that need not be judged again. A change of mind that is said as such has `update` set; `certain` is set where
    both plainly say one thing of one person. With neither verifier nor embedder only rules count: slots of one value, the same thing loved
    and hated.
    """
    statements = [one for one in said if isinstance(one, Statement)]
    pieces = [piece_of(one, i) for i, one in enumerate(said) if not isinstance(one, Statement)]
    if statements and pieces:
        raise TypeError("give either statements or messages, not both")
    if pieces:
        statements = await aside(LARGE, read_statements, pieces)
    detector = ClashDetector(verifier, embedder=embedder)
    found = await detector.detect([s for s in statements if s.origin != "assistant"], judged=known, deadline_s=deadline_s)
    told = _told(pieces) if pieces else [SaidSentence(s.message or 0, s.text, s.origin == "user") for s in statements]
    staged = any(is_staged(one.text, of_user=one.of_user) for one in told)
    return [replace(clash, certain=not staged and is_certain(clash, told)) for clash in found.clashes]


def _told(pieces: Sequence[StatedPiece]) -> list[SaidSentence]:
    return [
        SaidSentence(piece.message or 0, piece.text, piece.origin == "user") for piece in pieces if piece.origin in ("user", "assistant")
    ]


def piece_of(one: str | Mapping[str, Any], position: int) -> StatedPiece:
    """A message, or a user's sentence, as a piece; ``timestamp`` is read where a message has one."""
    if isinstance(one, str):
        return StatedPiece(one, "user", position)
    text = text_of(one.get("content"))
    origin = _ORIGINS.get(str(one.get("role")), "user")
    time = one.get("timestamp")
    known = float(time) if isinstance(time, int | float) and not isinstance(time, bool) else None
    return StatedPiece(text, "memory" if origin in ("system", "assistant") and is_memory(text) else origin, position, timestamp=known)
