"""Many pieces of content -> their `Quality`, in one pass of each model. The awaiting heart of the stage `validation` and of the library.

Relevance, accuracy and consistency are found side by side: the embedder and the verifier run in threads of their own. A model that is
missing or too slow makes its metric an error, and takes no other with it. A piece's result does not depend on the others in its batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from msgspec import Struct

from proxy.errors import ModelUnavailable
from proxy.grounding.claims.content import read_content
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports import Embedder, Verifier
from proxy.ports.deadline import within
from proxy.ports.judge import JudgeSession
from proxy.stages.validation.content import Candidate, parsed
from proxy.stages.validation.options import MIN_CONTRADICTION
from proxy.stages.validation.quality import (
    MAX_AGE_S,
    Metric,
    MetricName,
    MetricWeights,
    Quality,
    QualityThresholds,
    completeness,
    failed,
    freshness,
    judged,
)
from proxy.stages.validation.relevance import relevance_of
from proxy.stages.validation.statements import MAX_CLAIMS, ChecksFacts, accuracy_of, consistency_of

log = logging.getLogger("groundwire.validation")


class Models(Struct):
    """Who is asked; without one, what it would measure is not measured."""

    embedder: Embedder | None = None
    verifier: Verifier | None = None
    checker: ChecksFacts | None = None
    judge: JudgeSession | None = None
    """Asked over the verifier."""


class QualityValidator:
    """Measures pieces of content. Keeps nothing between calls."""

    def __init__(
        self,
        models: Models,
        *,
        thresholds: QualityThresholds | None = None,
        weights: MetricWeights | None = None,
        max_age_s: float | None = MAX_AGE_S,
        min_contradiction: float = MIN_CONTRADICTION,
        max_claims: int = MAX_CLAIMS,
    ) -> None:
        """`max_age_s` is for pieces that do not say their own; `max_claims` are a piece's statements that the checker is asked about."""
        self._models, self._thresholds, self._weights = models, thresholds or QualityThresholds(), weights or MetricWeights()
        self._max_age_s, self._min_contradiction, self._max_claims = max_age_s, min_contradiction, max_claims

    async def validate(
        self, candidates: Sequence[Candidate], seen_at: Sequence[float], *, deadline_s: float | None = None
    ) -> list[Quality]:
        """A quality for each, in order; `seen_at` is when each came, in seconds since the epoch. Cancelling it ends the work.

        Past `deadline_s` the metrics that are not there yet are errors.
        """
        texts, models = [candidate.content.text for candidate in candidates], self._models
        reading = asyncio.ensure_future(run_in_thread_if_large(LARGE, lambda: [read_content(text) for text in texts]))

        async def relevance() -> list[Metric]:
            return await relevance_of(candidates, models.embedder) if models.embedder else [failed("no embedder")] * len(texts)

        async def accuracy() -> list[Metric]:
            return await accuracy_of(await asyncio.shield(reading), models.checker, max_claims=self._max_claims)

        async def consistency() -> list[Metric]:
            read, least = await asyncio.shield(reading), self._min_contradiction
            return await consistency_of(candidates, read, models.verifier, min_contradiction=least, judge=models.judge)

        work = (relevance(), accuracy(), consistency())
        measured = await asyncio.gather(*(self._guarded(one, len(texts), deadline_s) for one in work))
        return [self._quality(*one) for one in zip(candidates, seen_at, *measured, strict=True)]

    def _quality(self, candidate: Candidate, seen_at: float, relevance: Metric, accuracy: Metric, consistency: Metric) -> Quality:
        content = candidate.content
        metrics: dict[MetricName, Metric] = {
            "relevance": relevance,
            "freshness": freshness(content.timestamp, seen_at, content.max_age_s or self._max_age_s),
            "accuracy": accuracy,
            "completeness": completeness(content.required_fields, content.fields, parsed(content.text), text=content.text),
            "consistency": consistency,
        }
        return judged(metrics, self._thresholds, self._weights)

    @staticmethod
    async def _guarded(work: Awaitable[list[Metric]], count: int, deadline_s: float | None) -> list[Metric]:
        try:
            async with within(deadline_s):
                return await work
        except TimeoutError:
            return [failed("timeout")] * count
        except ModelUnavailable as error:
            log.warning("validation goes on without a model: %s", error)
            return [failed("model_unavailable")] * count
