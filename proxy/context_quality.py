"""Checking facts and validating context as a library, with the built-in models and without a proxy.

    from proxy.context_quality import ContextQualityValidator, FactChecker

    checker = FactChecker("examples/knowledge")  # a folder of facts, built (groundwire knowledge build) or small
    verdict = checker.verify("The Eiffel Tower is 324 metres tall.")
    print(verdict.status, verdict.confidence, verdict.correct_fact, verdict.source)

    validator = ContextQualityValidator(fact_checker=checker, required_fields=["temperature", "unit"])
    quality = validator.validate_quality({"content": result, "timestamp": fetched_at}, query="How warm is it in Graz?")
    if not quality.is_valid:
        print(quality.quality_score, quality.reasons, quality.metrics["freshness_score"])

The models are loaded when they are first needed, once for all of them, and run in one event loop in a thread of its own. A method waits for
them; in a running event loop it is called by `asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from proxy.errors import UpstreamUnreachable
from proxy.exchange import Exchange, Message, Prompt, Request
from proxy.exchange.judgements import FactVerdict as FactVerdict
from proxy.grounding.claims.claims import read_content
from proxy.grounding.judging.judges import UpstreamJudge
from proxy.grounding.judging.questions import JudgeOptions
from proxy.grounding.judging.readouts import ChatReadout
from proxy.grounding.knowledge import checking as facts
from proxy.language.json.strings import parse_json
from proxy.models import making as builtin_models
from proxy.models.knowledge.bases import FolderKnowledge, check_folder
from proxy.ports import Completion, Embedder, Verifier
from proxy.ports.judge import JudgeSession
from proxy.stages.validation.content import Candidate, content_of, existing_base
from proxy.stages.validation.quality import MAX_AGE_S, MIN_CONTRADICTION, completeness, freshness
from proxy.stages.validation.quality import Metric as Metric
from proxy.stages.validation.quality import Quality as Quality
from proxy.stages.validation.quality import QualityThresholds as QualityThresholds
from proxy.stages.validation.relevance import readings_of, relevance_of
from proxy.stages.validation.validator import MAX_CLAIMS, ChecksFacts, Models, accuracy_of, consistency_of, validate


class FactChecker:
    """Checks claims against a folder of facts: VALID, INVALID, SUSPICIOUS or UNKNOWN, or ERROR where the check could not run.

    `proxy.exchange.judgements` says what each means. A folder that changes, or is built again, is taken over within a second or two.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        top_k: int = facts.TOP_K,
        min_support: float = 0.5,
        min_contradiction: float = 0.5,
        embedder: Embedder | None = None,
        verifier: Verifier | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises `ConfigError` where the folder is missing, or needs an index first.

        The options are those of `proxy.grounding.knowledge.checking.FactChecker`. `embedder` and `verifier` are the built-in ones where not
        given; they are called in the library's event loop. `clock` tells the time at which facts are to hold.
        """
        embedder, path = embedder or builtin_models.embedder(), Path(folder).resolve()
        check_folder(path, lambda: embedder.name)
        self._checker = facts.KnowledgeChecker(
            FolderKnowledge(path, embedder),
            verifier or builtin_models.verifier(),
            top_k=top_k,
            min_support=min_support,
            min_contradiction=min_contradiction,
            clock=clock,
        )

    def verify(self, claim: str) -> FactVerdict:
        """What the facts say to `claim`, one sentence."""
        return self.verify_batch([claim])[0]

    def verify_batch(self, claims: Sequence[str]) -> list[FactVerdict]:
        """A verdict for each claim, in order, all from one version of the facts."""
        return builtin_models.wait_for(self._checker.verify_many(claims))

    async def verify_many(self, claims: Sequence[str]) -> list[FactVerdict]:
        """`verify_batch` for a running event loop; cancelling it ends the work. Implements
        `proxy.stages.validation.validator.ChecksFacts`."""
        return await builtin_models.elsewhere(self._checker.verify_many(claims))


AskLLM = Callable[[Sequence[Message]], str | Awaitable[str]]
"""Chat messages in, the model's answer out; one that is not awaited runs in a thread."""


class _Chat:
    """A caller's model as `proxy.ports.ChatModel`."""

    def __init__(self, ask: AskLLM) -> None:
        self._ask = ask

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        return (await self.answer(upstream, model, messages, params=params, timeout_s=timeout_s)).text

    async def answer(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> Completion:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await asyncio.to_thread(self._ask, messages)
                return Completion(answer if isinstance(answer, str) else await answer)
        except Exception as error:  # whatever a caller's model fails with, the built-in verifier's word stands
            raise UpstreamUnreachable(f"llm: {error!r}") from error


def _judge(llm: AskLLM) -> Callable[[], JudgeSession]:
    """Makes sessions with a caller's model, which remembers what it was asked."""
    options = JudgeOptions(upstream="library", model="llm")
    judge = UpstreamJudge(ChatReadout(_Chat(llm), options), options)
    request = Request("", (), (), {}, stream=False)
    return lambda: judge.session(Exchange("library", "", "", "", "", original=request, model="", prompt=Prompt((), (), {})), "library")


class ChecksOneFact(Protocol):
    """A fact checker that takes one claim at a time."""

    def verify(self, claim: str) -> Any:
        """Something with ``valid`` and ``confidence``, and ``correct_fact`` where it knows it."""


class _OneByOne:
    """Such a checker as `proxy.stages.validation.validator.ChecksFacts`."""

    def __init__(self, checker: ChecksOneFact) -> None:
        self._checker = checker

    async def verify_many(self, claims: Sequence[str]) -> list[FactVerdict]:
        return [self._verdict(await asyncio.to_thread(self._checker.verify, claim)) for claim in claims]

    @staticmethod
    def _verdict(found: Any) -> FactVerdict:
        known = str(getattr(found, "correct_fact", None) or "")
        return FactVerdict("VALID" if found.valid else "INVALID", float(found.confidence), known, "fact_checker", "", "", "")


class ContextQualityValidator:
    """Measures content by relevance, freshness, accuracy, completeness and consistency."""

    def __init__(
        self,
        *,
        thresholds: QualityThresholds | None = None,
        max_age_s: float = MAX_AGE_S,
        required_fields: Sequence[str] = (),
        fact_checker: ChecksFacts | ChecksOneFact | None = None,
        llm: AskLLM | None = None,
        embedder: Embedder | None = None,
        verifier: Verifier | None = None,
        min_contradiction: float = MIN_CONTRADICTION,
        max_claims: int = MAX_CLAIMS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Without `fact_checker` nothing is verifiable: the accuracy is 1.0, not measured.

        It is a `FactChecker`, or anything with its `verify_many` or `verify`. `llm` is asked whether content contradicts the context where
        the verifier is unsure. `required_fields` are for content that does not name its own. `embedder`
        and `verifier` are the built-in ones where not given; like `fact_checker` they are called in the library's event loop. `clock`
        tells the time that ages are counted to.
        """
        checker = fact_checker if fact_checker is None or isinstance(fact_checker, ChecksFacts) else _OneByOne(fact_checker)
        self._given, self._clock, self._required = Models(embedder, verifier, checker), clock, tuple(required_fields)
        self._judge = None if llm is None else _judge(llm)
        self._options: dict[str, Any] = {"thresholds": thresholds, "max_age_s": max_age_s}
        self._options |= {"min_contradiction": min_contradiction, "max_claims": max_claims}

    def validate_quality(self, content: object, query: str | None = None, existing_context: str | Sequence[str] | None = None) -> Quality:
        """One piece: a text, or a mapping with ``content`` or ``text``, ``timestamp``, ``source``, ``fields``, ``required_fields``.

        Relevance is to `query`, consistency with `existing_context`; without them, the metric is not measured. Raises `TypeError`.
        """
        return self.validate_batch([content], query, existing_context)[0]

    def validate_batch(
        self, contents: Sequence[object], query: str | None = None, existing_context: str | Sequence[str] | None = None
    ) -> list[Quality]:
        """Several pieces, each judged as if it came alone; in order."""
        return builtin_models.wait_for(self._validate(contents, query, existing_context))

    # ---- one metric at a time ----

    def validate_relevance(self, contents: Sequence[object], query: str) -> list[Metric]:
        """Of each, in order."""
        return builtin_models.wait_for(
            relevance_of(self._candidates(contents, query), self._models().embedder or builtin_models.embedder())
        )

    def validate_freshness(self, contents: Sequence[object]) -> list[Metric]:
        """Of each, in order."""
        read = [content_of(content) for content in contents]
        return [freshness(content.timestamp, self._clock(), self._options["max_age_s"]) for content in read]

    def validate_accuracy(self, content: object) -> Metric:
        """Whether the facts say so."""
        read = [read_content(content_of(content).text)]
        return builtin_models.wait_for(accuracy_of(read, self._given.checker, max_claims=self._options["max_claims"]))[0]

    def validate_completeness(self, content: object, required_fields: Sequence[str]) -> Metric:
        """Whether it has these fields."""
        read = content_of(content)
        return completeness(required_fields, read.fields, parse_json(read.text), text=read.text)

    def validate_consistency(self, content: object, existing_context: str | Sequence[str]) -> Metric:
        """Whether it contradicts `existing_context`."""
        candidates = self._candidates([content], None, existing_context)
        read = [read_content(one.content.text) for one in candidates]
        models, least = self._models(), self._options["min_contradiction"]
        found = consistency_of(candidates, read, models.verifier, min_contradiction=least, judge=models.judge)
        return builtin_models.wait_for(found)[0]

    def _models(self) -> Models:
        """The built-in ones where none were given."""
        given = self._given
        judge = None if self._judge is None else self._judge()
        return Models(given.embedder or builtin_models.embedder(), given.verifier or builtin_models.verifier(), given.checker, judge)

    def _candidates(
        self, contents: Sequence[object], query: str | None, existing_context: str | Sequence[str] | None = None
    ) -> list[Candidate]:
        """Raises `TypeError`."""
        read = [content_of(content, self._required) for content in contents]
        questions, unasked = readings_of(query)
        base = existing_base(existing_context)
        return [Candidate(content, questions, unasked, base) for content in read]

    async def _validate(self, contents: Sequence[object], query: str | None, existing_context: str | Sequence[str] | None) -> list[Quality]:
        candidates = self._candidates(contents, query, existing_context)
        return await validate(candidates, [self._clock()] * len(candidates), self._models(), **self._options)
