"""Judge: the evidence of an exchange, what it says to the claims of the answer, and what is known of them while the exchange lasts.

In: claims with the choice that each is of. Out: a judgement for each. `ClaimJudge` is one policy's and keeps nothing; `ClaimCase` is one
exchange's: made when the request leaves for the model, dropped when the exchange has ended, never kept for another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.conversation import unread_size
from proxy.errors import ModelUnavailable
from proxy.exchange import Exchange, FactCheck
from proxy.exchange.judgements import UNKNOWN_LANGUAGE, Claim, Judgement
from proxy.grounding.claims.checkable import asks_to_make_up
from proxy.grounding.claims.claims import ClaimReader
from proxy.grounding.evidence.gathering import EvidenceBase, EvidenceScope, gather, question_of
from proxy.grounding.evidence.retrieval import EVIDENCE_CHARS, words_of
from proxy.grounding.judging.grounder import EMBED_ALL, Grounder
from proxy.grounding.judging.reconsidering import ask_ahead, reconsider_judgements
from proxy.language.detection import language
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Ports
from proxy.ports.judge import JudgeSession
from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.claims.reading import TOO_MANY_STATEMENTS

MAX_JUDGED = 100
"""Claims of one choice; the rest of a longer answer is unsure, and said to be."""
FEW = 256
"""Judgements that are summed up with each sentence."""
NOT_KNOWN = "not_known"
"""Reason of a claim of which nothing that was declared says anything."""
AGAINST = 0.5
"""Probability of a contradiction from which it counts there."""
MAX_SAMPLE_CHARS = 600
"""Of an answer, to tell its language."""
NO_CONTEXT, MADE_UP = "no context", "text to be made up"
"""Why no claim of an answer is judged."""
CLAIM = 100
"""What is done for a claim beside its judgement takes as long as a pass over so many characters."""
_SHORT_CHARS = 60
"""A shorter answer may not tell its language."""
_DEADLINE = 0.9
"""Share of the stage's time after which what is still open is an error, so that what was found is not lost."""


class Ground(Struct, frozen=True):
    """What the answer is judged by."""

    base: EvidenceBase
    grounder: Grounder
    question: str
    """The user's: which language a short answer is in."""
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


class JudgedClaim(Struct, frozen=True):
    """One judgement."""

    choice: int
    judgement: Judgement
    ms: float
    """How long its batch took."""
    refusal: bool = False
    """Whether its claim, and the claim's place, are of the choice's refusal."""


class JudgedAttempt(Struct, frozen=True):
    """One answer of those that a retry has asked for, and what was found of it."""

    claims: tuple[JudgedClaim, ...]
    rank: tuple[float, ...]
    """The higher, the better."""


class ClaimCase:
    """Of one exchange."""

    def __init__(self, judge: JudgeSession | None = None) -> None:
        self.judge = judge
        """Whom the policy asks over the built-in models; None where nobody."""
        self._ground: asyncio.Task[Ground] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._texts: dict[int, str] = {}
        self._readers: dict[int, ClaimReader] = {}
        self.claims: list[JudgedClaim] = []
        """Of the answer's text, in order."""
        self.checkable: dict[int, int] = {}
        """How many of them could be judged, by choice."""
        self._summed_up = 0
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
        self._ground = _start_task(work)

    def warm(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin what makes later work quicker, which nobody waits for."""
        self._warming = _start_task(work)

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

    def beginning(self, choice: int, sentence: str) -> str:
        """The beginning of `choice`'s text, of which `sentence` is the next sentence."""
        self._texts[choice] = (self._texts.get(choice, "") + sentence)[:MAX_SAMPLE_CHARS]
        return self._texts[choice]

    def add(self, claims: Sequence[JudgedClaim]) -> bool:
        """More judgements; whether it is time to sum up, which costs as much as there is: not at each of a thousand sentences."""
        self.claims += claims
        for one in claims:
            self.checkable[one.choice] = self.checkable.get(one.choice, 0) + (one.judgement.label != "not_checkable")
        due = len(self.claims) < FEW or len(self.claims) >= self._summed_up * 1.125
        if due:
            self._summed_up = len(self.claims)
        return due

    def forget(self) -> None:
        """Another answer is judged, or the same one as a whole."""
        self.claims.clear()
        self.checkable.clear()
        self.values = False
        self._summed_up = 0

    def restore_attempt(self, attempt: int) -> None:
        """No other attempt than this one is delivered."""
        if attempt in self.attempts:
            self.claims = list(self.attempts[attempt].claims)

    def judgements(self) -> dict[int, Sequence[Judgement]]:
        """Of the choices' texts, by choice, in order: whoever looks up a place in a text finds none of its refusal's."""
        by_choice: dict[int, list[Judgement]] = {}
        for one in self.claims:
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


def _start_task(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task; an exception of its that nobody waited for is no news."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)
    return task


class ClaimJudge:
    """Judges claims by the evidence of their exchange."""

    def __init__(self, options: ClaimsOptions, ports: Ports) -> None:
        self._options, self._embedder = options, ports.embedder
        self._verifier = ports.verifiers.get(ports.judge.local_model)

    async def prepare(self, exchange: Exchange, case: ClaimCase) -> Ground:
        """The evidence of an exchange, and how it is to be judged by."""
        size = unread_size(exchange)
        evidence = await run_in_thread_if_large(size, gather, exchange)
        question = await run_in_thread_if_large(size, question_of, exchange)
        base = await run_in_thread_if_large(sum(len(one.content) for one in evidence), EvidenceBase, evidence)
        scope = await run_in_thread_if_large(size, base.scope, question)
        skipped = "" if scope or exchange.knowledge is not None else NO_CONTEXT
        if skipped:
            base = EvidenceBase(())
        elif asks_to_make_up(question):
            skipped = MADE_UP
        words = await run_in_thread_if_large(base.chars, words_of, " ".join(base.sentences)) if scope == "declared" else frozenset[str]()
        if self._options.embed and not skipped and base.chars > EVIDENCE_CHARS and len(base) <= EMBED_ALL:
            case.warm(self._embed(base))
        return Ground(base, self._grounder(scope), question, skipped, exchange.knowledge, scope, words)

    def _grounder(self, scope: EvidenceScope) -> Grounder:
        options, (low, high) = self._options, self._options.bounds()
        return Grounder(
            self._verifier,
            embedder=self._embedder if options.embed else None,
            min_support=high,
            min_contradiction=options.min_contradiction,
            only_certain=True,
            low=low,
            compares=scope != "pasted",  # there another value is never more than unsure
        )

    async def _embed(self, base: EvidenceBase) -> None:
        """So that the embedder has the evidence in its cache when a claim needs it."""
        with suppress(ModelUnavailable):
            await self._embedder.embed(base.sentences, bulk=True)

    async def judge_without_asking(self, case: ClaimCase, claims: Sequence[tuple[int, Claim]]) -> list[Judgement | None]:
        """The judgements of claims that nobody is asked about: not checkable, or too many; None for the others."""
        return await run_in_thread_if_large(len(claims) * CLAIM, self._judge_unasked, await case.ground(), case.checkable, claims)

    def _judge_unasked(self, ground: Ground, checkable: Mapping[int, int], claims: Sequence[tuple[int, Claim]]) -> list[Judgement | None]:
        used = {choice: checkable.get(choice, 0) for choice, _ in claims}
        judged: list[Judgement | None] = []
        for choice, claim in claims:
            used[choice] += claim.checkable
            if claim.reason == TOO_MANY_STATEMENTS:
                judged.append(Judgement(claim, "unsure", reason=TOO_MANY_STATEMENTS))
            elif claim.checkable and used[choice] > MAX_JUDGED:
                judged.append(Judgement(claim, "unsure", reason=f"more than {MAX_JUDGED} claims"))
            else:
                asked, reason = claim.checkable and ground.speaks_of(claim), claim.reason if not claim.checkable else NOT_KNOWN
                judged.append(None if asked else Judgement(claim, "not_checkable", reason=reason))
        return judged

    async def judge(self, case: ClaimCase, claims: Sequence[Claim], text: str, *, with_judge: bool) -> list[Judgement]:
        """By the evidence, by what is known, and by the policy's judge (`with_judge`); the claims are of `text`."""
        if not claims:
            return []
        ground, started = await case.ground(), time.perf_counter()
        if with_judge and case.judge is not None and case.judge.ask == "all" and ground.scope == "all":
            await ask_ahead(claims, ground.base, case.judge, self._left_s(started))
        judged = [limit_to_scope(judgement, ground.scope) for judgement in await self.by_evidence(ground, claims, text)]
        return await self.reconsider(case, judged, started) if with_judge else judged

    async def by_evidence(self, ground: Ground, claims: Sequence[Claim], text: str) -> list[Judgement]:
        """Of claims in `text`, whose language the question tells where it is short; within most of the stage's time."""
        sample = text if len(text) >= _SHORT_CHARS else f"{text}\n{ground.question}"
        deadline_s = self._options.timeout_ms * _DEADLINE / 1000
        by_context = ground.grounder.judge(claims, ground.base, answer=sample, deadline_s=deadline_s)
        if ground.knowledge is None:
            return await by_context
        tongue = await asyncio.to_thread(language, sample)
        judged, known = await asyncio.gather(by_context, ground.knowledge.judge(claims, tongue=tongue, deadline_s=deadline_s))
        return [merge_knowledge(c, k, ground.scope) for c, k in zip(judged, known, strict=True)]

    async def reconsider(self, case: ClaimCase, judged: Sequence[Judgement], started: float) -> list[Judgement]:
        """With the word of the policy's judge on what is open to it, in what is left of the stage's time."""
        ground = await case.ground()
        every = case.judge is not None and case.judge.ask == "all"

        def reopens(judgement: Judgement) -> bool:
            """What is not checkable because the built-in models found nothing of it among the little that was said."""
            return every and judgement.reason == NOT_KNOWN and ground.speaks_of(judgement.claim)

        return await reconsider_judgements(judged, ground.base, case.judge, self._left_s(started), reopens=reopens)

    def _left_s(self, started: float) -> float:
        return max(0.01, self._options.timeout_ms * _DEADLINE / 1000 - (time.perf_counter() - started))


def merge_knowledge(by_context: Judgement, known: Judgement | None, scope: EvidenceScope) -> Judgement:
    """One judgement of what context and knowledge base say to a claim.

    What the knowledge base knows holds, against the context too; a doubt of its own takes away neither the context's support nor its
    contradiction. What it knows nothing of is the context's to judge.
    """
    by_context = limit_to_scope(by_context, scope)
    decided = ("supported", "contradicted") if scope == "all" else ("supported", "contradicted", "unsure")
    if known is not None and (known.label != "unsupported" or by_context.label not in decided):
        return limit_to_scope(known, scope)
    return by_context


def limit_to_scope(judgement: Judgement, scope: EvidenceScope) -> Judgement:
    """A judgement by what user and system have said alone, where there is no context (`scope`).

    What differs from a few lines of theirs is unsure and not contradicted: a plan, a proposal or a result of the answer's has values of its
    own. A cell of a table is another matter, where the system gives it or the user asks about it. What they say nothing of is unsure where
    the user asks about pasted lines. Else it is not checkable, since an answer may know more than its user, unless the verifier holds
    against it a fact with which it shares a word.
    """
    label, span = judgement.label, judgement.evidence
    if scope == "declared" and label == "error":  # too late, or no verifier: nobody has asked for a check of such a chat
        return Judgement(judgement.claim, "not_checkable", reason=NOT_KNOWN)
    if scope == "all" or label not in ("unsupported", "unsure", "contradicted") or judgement.reason == UNKNOWN_LANGUAGE:
        return judgement
    declared = span is not None and span.kind in ("user", "system")
    if label == "contradicted":
        plain = judgement.by_table and span is not None and (scope == "pasted" or span.kind == "system")
        return replace(judgement, label="unsure") if declared and judgement.decided_by == "exact" and not plain else judgement
    against = (judgement.contradiction or 0.0) >= AGAINST and span is not None and words_of(judgement.claim.text) & words_of(span.text)
    if judgement.decided_by == "exact" or against or (scope == "pasted" and declared):
        return replace(judgement, label="unsure")
    return Judgement(judgement.claim, "not_checkable", reason=NOT_KNOWN)
