"""Checking facts and validating context as a library, with the built-in models and without a proxy.

    from proxy.context_quality import ContextQualityValidator, FactChecker

    checker = FactChecker("examples/knowledge")  # a folder of facts, built (groundwire knowledge build) or small
    verdict = checker.verify("The Eiffel Tower is 324 metres tall.")
    print(verdict.status, verdict.confidence, verdict.correct_fact, verdict.source)

    validator = ContextQualityValidator(fact_checker=checker, required_fields=["temperature", "unit"])
    quality = validator.validate_quality({"content": result, "timestamp": fetched_at}, query="How warm is it in Graz?")
    if not quality.passed:
        print(quality.score, quality.reasons)

The models are loaded when they are first needed, once for all of them, and run in one event loop in a thread of its own: the synchronous
methods work anywhere, the ``_async`` ones in any event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from proxy.exchange.fact_checks import FactVerdict as FactVerdict
from proxy.grounding.knowledge import checking as facts
from proxy.models import builtin as builtin_models
from proxy.models.knowledge.bases import FolderKnowledge, check_folder
from proxy.ports import Embedder, Verifier
from proxy.stages.validation.metrics.accuracy import MAX_CLAIMS, ChecksFacts
from proxy.stages.validation.metrics.candidates import Candidate, existing_base
from proxy.stages.validation.metrics.consistency import MIN_CONTRADICTION
from proxy.stages.validation.metrics.content import content_of
from proxy.stages.validation.metrics.freshness import MAX_AGE_S
from proxy.stages.validation.metrics.quality import Metric as Metric
from proxy.stages.validation.metrics.quality import MetricWeights as MetricWeights
from proxy.stages.validation.metrics.quality import Quality as Quality
from proxy.stages.validation.metrics.quality import QualityThresholds as QualityThresholds
from proxy.stages.validation.metrics.relevance import readings_of
from proxy.stages.validation.metrics.validator import Models, QualityValidator


class FactChecker:
    """Checks claims against a folder of facts: VALID, INVALID, SUSPICIOUS or UNKNOWN, or ERROR where the check could not run.

    `proxy.exchange.fact_checks` says what each means. A folder that changes, or is built again, is taken over within a second or two.
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

    async def verify_async(self, claim: str) -> FactVerdict:
        """`verify` for a running event loop; cancelling it ends the work."""
        return (await self.verify_many([claim]))[0]

    async def verify_many(self, claims: Sequence[str]) -> list[FactVerdict]:
        """`verify_batch` for a running event loop; cancelling it ends the work. Implements
        `proxy.stages.validation.metrics.accuracy.ChecksFacts`."""
        return await builtin_models.elsewhere(self._checker.verify_many(claims))


class ContextQualityValidator:
    """Measures content by relevance, freshness, accuracy, completeness and consistency."""

    def __init__(
        self,
        *,
        thresholds: QualityThresholds | None = None,
        weights: MetricWeights | None = None,
        max_age_s: float = MAX_AGE_S,
        required_fields: Sequence[str] = (),
        fact_checker: ChecksFacts | None = None,
        embedder: Embedder | None = None,
        verifier: Verifier | None = None,
        min_contradiction: float = MIN_CONTRADICTION,
        max_claims: int = MAX_CLAIMS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Without `fact_checker` nothing is verifiable: the accuracy is 1.0, not measured.

        It is a `FactChecker`, or anything with its `verify_many`. `required_fields` are for content that does not name its own. `embedder`
        and `verifier` are the built-in ones where not given; like `fact_checker` they are called in the library's event loop. `clock`
        tells the time that ages are counted to.
        """
        self._given, self._clock, self._required = Models(embedder, verifier, fact_checker), clock, tuple(required_fields)
        self._options: dict[str, Any] = {"thresholds": thresholds, "weights": weights, "max_age_s": max_age_s}
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

    async def validate_quality_async(
        self, content: object, query: str | None = None, existing_context: str | Sequence[str] | None = None
    ) -> Quality:
        """`validate_quality` for a running event loop; cancelling it ends the work."""
        return (await self.validate_batch_async([content], query, existing_context))[0]

    async def validate_batch_async(
        self, contents: Sequence[object], query: str | None = None, existing_context: str | Sequence[str] | None = None
    ) -> list[Quality]:
        """`validate_batch` for a running event loop; cancelling it ends the work."""
        return await builtin_models.elsewhere(self._validate(contents, query, existing_context))

    async def _validate(self, contents: Sequence[object], query: str | None, existing_context: str | Sequence[str] | None) -> list[Quality]:
        read = [content_of(content, self._required) for content in contents]
        questions, unasked = readings_of(query)
        base = existing_base(existing_context)
        candidates = [Candidate(content, questions, unasked, base) for content in read]
        given = self._given
        models = Models(given.embedder or builtin_models.embedder(), given.verifier or builtin_models.verifier(), given.checker)
        return await QualityValidator(models, **self._options).validate(candidates, [self._clock()] * len(candidates))
