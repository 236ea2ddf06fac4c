"""What the stage keeps of one exchange while it lasts: the evidence being prepared, the reader of each choice, what was found so far.

Made when the request leaves for the model, dropped when the exchange has ended; never kept for another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.exchange import FactCheck
from proxy.exchange.judgements import UNKNOWN_LANGUAGE, Claim, Judgement
from proxy.grounding.claims.claims import ClaimReader
from proxy.grounding.evidence.gathering import EvidenceBase, EvidenceScope
from proxy.grounding.judging.grounder import Grounder
from proxy.grounding.values.places import words_of
from proxy.ports.judge import JudgeSession

FEW = 256
"""Judgements that are summed up with each sentence."""
BEYOND = "not_known"
"""Reason of a claim of which nothing that was declared says anything."""
AGAINST = 0.5
"""Probability of a contradiction from which it counts there."""
MAX_SAMPLE_CHARS = 600
"""Of an answer, to tell its language."""


class Ground(Struct, frozen=True):
    """What the answer is judged by."""

    base: EvidenceBase
    grounder: Grounder
    sample: str
    """The user's question: which language a short answer is in."""
    skipped: str = ""
    """Why nothing is judged by it."""
    knowledge: FactCheck | None = None
    """Asked about each claim, too."""
    scope: EvidenceScope = "all"
    """How much of the answer the context has to support; the rest is only checked by what is known."""
    words: frozenset[str] = frozenset()
    """Where that is only what is declared: its words. A claim without any of them is not asked about."""

    def speaks_of(self, claim: Claim) -> bool:
        """Whether anything there could say something to a claim."""
        return self.scope != "declared" or self.knowledge is not None or bool(words_of(claim.question_and_text) & self.words)


def settled(by_context: Judgement, known: Judgement | None, scope: EvidenceScope) -> Judgement:
    """One judgement of what context and knowledge base say to a claim.

    What the knowledge base knows holds, against the context too; a doubt of its own takes away neither the context's support nor its
    contradiction. What it knows nothing of is the context's to judge.
    """
    by_context = within(by_context, scope)
    decided = ("supported", "contradicted") if scope == "all" else ("supported", "contradicted", "unsure")
    if known is not None and (known.label != "unsupported" or by_context.label not in decided):
        return within(known, scope)
    return by_context


def within(judgement: Judgement, scope: EvidenceScope) -> Judgement:
    """A judgement by what user and system have said alone, where there is no context (`scope`).

    What differs from a few lines of theirs is unsure and not contradicted: a plan, a proposal or a result of the answer's has values of its
    own. A cell of a table is another matter, where the system gives it or the user asks about it. What they say nothing of is unsure where
    the user asks about pasted lines. Else it is not checkable, since an answer may know more than its user, unless the verifier holds
    against it a fact with which it shares a word.
    """
    label, span = judgement.label, judgement.evidence
    if scope == "declared" and label == "error":  # too late, or no verifier: nobody has asked for a check of such a chat
        return Judgement(judgement.claim, "not_checkable", reason=BEYOND)
    if scope == "all" or label not in ("unsupported", "unsure", "contradicted") or judgement.reason == UNKNOWN_LANGUAGE:
        return judgement
    declared = span is not None and span.kind in ("user", "system")
    if label == "contradicted":
        told = judgement.by_table and span is not None and (scope == "pasted" or span.kind == "system")
        return replace(judgement, label="unsure") if declared and judgement.decided_by == "exact" and not told else judgement
    against = (judgement.contradiction or 0.0) >= AGAINST and span is not None and words_of(judgement.claim.text) & words_of(span.text)
    if judgement.decided_by == "exact" or against or (scope == "pasted" and declared):
        return replace(judgement, label="unsure")
    return Judgement(judgement.claim, "not_checkable", reason=BEYOND)


def filled(judged: Sequence[Judgement | None], answers: Mapping[int, Judgement]) -> list[Judgement | None]:
    """`judged` with the answers that came later, by position."""
    return [answers.get(i, judgement) for i, judgement in enumerate(judged)]


class FoundClaims(Struct, frozen=True):
    """One judgement."""

    choice: int
    judgement: Judgement
    ms: float
    """How long its batch took."""
    refusal: bool = False
    """Whether its claim, and the claim's place, are of the choice's refusal."""


class JudgedAttempt(Struct, frozen=True):
    """One answer of those that a retry has asked for, and what was found of it."""

    found: tuple[FoundClaims, ...]
    rank: tuple[float, ...]
    """The higher, the better."""


class Checks:
    """Of one exchange."""

    def __init__(self, judge: JudgeSession | None = None) -> None:
        self.judge = judge
        """Whom the policy asks over the built-in models; None where nobody."""
        self._ground: asyncio.Task[Ground] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._said: dict[int, str] = {}
        self._readers: dict[int, ClaimReader] = {}
        self.found: list[FoundClaims] = []
        """Of the answer's text, in order."""
        self.checkable: dict[int, int] = {}
        """How many of them could be judged, by choice."""
        self._told = 0
        self.attempts: dict[int, JudgedAttempt] = {}
        """By position in `exchange.attempts`."""
        self.json: set[int] = set()
        """Choices that turn out to be JSON while they stream."""
        self.values = False
        """Whether an answer has numbers, true or false as values of JSON: only its strings are judged."""
        self.replaced: dict[int, str] = {}
        """Choices that the no-answer text has ended while they stream, each with the code of what failed."""
        self.left: set[int] = set()
        """Choices of which some text has left."""

    def prepare(self, work: Coroutine[Any, Any, Ground]) -> None:
        """Begin to prepare the evidence; what an earlier call began is out of date."""
        self.close()
        self._ground = asyncio.get_running_loop().create_task(work)
        self._ground.add_done_callback(_seen)

    def warm(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin what makes later work quicker, which nobody waits for."""
        self._warming = asyncio.get_running_loop().create_task(work)
        self._warming.add_done_callback(_seen)

    @property
    def prepared(self) -> bool:
        """Whether the evidence is there, or being prepared."""
        return self._ground is not None

    async def ground(self) -> Ground:
        """The evidence, once it is ready. Raises what its preparation raised."""
        assert self._ground is not None
        return await asyncio.shield(self._ground)  # the next sentence needs it, too, when this one's time is over

    def reader(self, choice: int, question: str) -> ClaimReader:
        """The reader of `choice`, which has read its earlier sentences."""
        if choice not in self._readers:
            self._readers[choice] = ClaimReader(question)
        return self._readers[choice]

    def said(self, choice: int, text: str) -> str:
        """The beginning of what `choice` has said, with `text` as its next sentence."""
        self._said[choice] = (self._said.get(choice, "") + text)[:MAX_SAMPLE_CHARS]
        return self._said[choice]

    def note(self, found: Sequence[FoundClaims]) -> bool:
        """Add to what was found; whether it is time to sum up, which costs as much as there is: not at each of a thousand sentences."""
        self.found += found
        for one in found:
            self.checkable[one.choice] = self.checkable.get(one.choice, 0) + (one.judgement.label != "not_checkable")
        due = len(self.found) < FEW or len(self.found) >= self._told * 1.125
        if due:
            self._told = len(self.found)
        return due

    def forget(self) -> None:
        """Another answer is judged, or the same one as a whole."""
        self.found.clear()
        self.checkable.clear()
        self.values = False
        self._told = 0

    def back_to(self, attempt: int) -> None:
        """No other attempt than this one is delivered."""
        if attempt in self.attempts:
            self.found = list(self.attempts[attempt].found)

    def judgements(self) -> dict[int, Sequence[Judgement]]:
        """Of the choices' texts, by choice, in order: whoever looks up a place in a text finds none of its refusal's."""
        by_choice: dict[int, list[Judgement]] = {}
        for one in self.found:
            if not one.refusal:
                by_choice.setdefault(one.choice, []).append(one.judgement)
        return {**by_choice}

    def close(self) -> None:
        """Stop what runs."""
        for task in (self._ground, self._warming):
            if task is not None:
                task.cancel()
        if self.judge is not None:
            self.judge.close()


def _seen(task: asyncio.Task[Any]) -> None:
    """An exception that nobody waited for is no news."""
    if not task.cancelled():
        task.exception()
