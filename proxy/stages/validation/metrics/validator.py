"""Many pieces of content -> their `Quality`, in one pass of each model. The awaiting heart of the stage `validation` and of the library.

Relevance, accuracy and consistency are found side by side: the embedder and the verifier run in threads of their own. A model that is
missing or too slow makes its metric an error, and takes no other with it. A piece's result does not depend on the others in its batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from proxy.errors import ModelUnavailable
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports import Embedder, Verifier
from proxy.ports.deadline import within
from proxy.ports.judge import JudgeSession
from proxy.stages.validation.metrics.accuracy import MAX_CLAIMS, ChecksFacts, accuracy_of
from proxy.stages.validation.metrics.candidates import Candidate
from proxy.stages.validation.metrics.completeness import completeness
from proxy.stages.validation.metrics.consistency import MIN_CONTRADICTION, consistency_of
from proxy.stages.validation.metrics.content import statements_of
from proxy.stages.validation.metrics.freshness import MAX_AGE_S, freshness
from proxy.stages.validation.metrics.quality import Metric, MetricWeights, Quality, QualityThresholds, failed, judged
from proxy.stages.validation.metrics.relevance import relevance_of

log = logging.getLogger("groundwire.validation")


class Models:
    """Who is asked; without one, what it would measure is not measured."""

    def __init__(
        self,
        embedder: Embedder | None = None,
        verifier: Verifier | None = None,
        checker: ChecksFacts | None = None,
        judge: JudgeSession | None = None,
    ) -> None:
        """`judge` is asked over the verifier."""
        self.embedder, self.verifier, self.checker, self.judge = embedder, verifier, checker, judge


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
        stating = asyncio.ensure_future(run_in_thread_if_large(LARGE, lambda: [statements_of(c.content.text) for c in candidates]))
        work = (self._relevance(candidates), self._accuracy(stating), self._consistency(candidates, stating))
        relevance, accuracy, consistency = await asyncio.gather(*(self._guarded(one, len(candidates), deadline_s) for one in work))
        found = []
        for i, candidate in enumerate(candidates):
            content = candidate.content
            metrics: dict[str, Metric] = {
                "relevance": relevance[i],
                "freshness": freshness(content.timestamp, seen_at[i], content.max_age_s or self._max_age_s),
                "accuracy": accuracy[i],
                "completeness": completeness(content.required_fields, content.fields, content.data, text=content.text),
                "consistency": consistency[i],
            }
            found.append(judged(metrics, self._thresholds, self._weights))  # type: ignore[arg-type]  # literal keys
        return found

    async def _relevance(self, candidates: Sequence[Candidate]) -> list[Metric]:
        if self._models.embedder is None:
            return [failed("no embedder")] * len(candidates)
        return await relevance_of(candidates, self._models.embedder)

    async def _accuracy(self, stating: asyncio.Future[list[list[str]]]) -> list[Metric]:
        return await accuracy_of(await asyncio.shield(stating), self._models.checker, max_claims=self._max_claims)

    async def _consistency(self, candidates: Sequence[Candidate], stating: asyncio.Future[list[list[str]]]) -> list[Metric]:
        stated = await asyncio.shield(stating)
        models, least = self._models, self._min_contradiction
        return await consistency_of(candidates, stated, models.verifier, min_contradiction=least, judge=models.judge)

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
