"""Validating context as a library, with the built-in models and without a proxy.

    from proxy.context_quality import ContextQualityValidator

    validator = ContextQualityValidator(required_fields=["temperature", "unit"])
    quality = validator.validate_quality({"content": result, "timestamp": fetched_at}, query="How warm is it in Graz?")
    if not quality.passed:
        print(quality.score, quality.reasons)

The models are loaded when they are first needed, once for all validators, and run in one event loop in a thread of its own: the synchronous
methods work anywhere, the ``_async`` ones in any event loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from typing import Any, TypeVar

from proxy.ports import Embedder, Verifier
from proxy.validation.accuracy import MAX_CLAIMS, ChecksFacts
from proxy.validation.candidates import Candidate, existing_base
from proxy.validation.consistency import MIN_CONTRADICTION
from proxy.validation.content import content_of
from proxy.validation.freshness import MAX_AGE_S
from proxy.validation.metrics import Metric as Metric
from proxy.validation.metrics import Quality as Quality
from proxy.validation.metrics import Thresholds as Thresholds
from proxy.validation.metrics import Weights as Weights
from proxy.validation.relevance import readings_of
from proxy.validation.validator import Models, QualityValidator

T = TypeVar("T")


class ContextQualityValidator:
    """Measures content by relevance, freshness, accuracy, completeness and consistency."""

    def __init__(
        self,
        *,
        thresholds: Thresholds | None = None,
        weights: Weights | None = None,
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

        `required_fields` are for content that does not name its own. `embedder` and `verifier` are the built-in ones where not given; like
        `fact_checker` they are called in this module's event loop. `clock` tells the time that ages are counted to.
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
        return asyncio.run_coroutine_threadsafe(self._validate(contents, query, existing_context), _loop()).result()

    async def validate_quality_async(
        self, content: object, query: str | None = None, existing_context: str | Sequence[str] | None = None
    ) -> Quality:
        """`validate_quality` for a running event loop; cancelling it ends the work."""
        return (await self.validate_batch_async([content], query, existing_context))[0]

    async def validate_batch_async(
        self, contents: Sequence[object], query: str | None = None, existing_context: str | Sequence[str] | None = None
    ) -> list[Quality]:
        """`validate_batch` for a running event loop; cancelling it ends the work."""
        return await _elsewhere(self._validate(contents, query, existing_context))

    async def _validate(
        self, contents: Sequence[object], query: str | None, existing_context: str | Sequence[str] | None
    ) -> list[Quality]:  # fmt: skip
        read = [content_of(content, self._required) for content in contents]
        questions, unasked = readings_of(query)
        base = existing_base(existing_context)
        candidates = [Candidate(content, questions, unasked, base) for content in read]
        given = self._given
        models = Models(given.embedder or _embedder(), given.verifier or _verifier(), given.checker)
        return await QualityValidator(models, **self._options).validate(candidates, [self._clock()] * len(candidates))


async def _elsewhere(work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop()))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop that the models belong to; its thread ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="context-quality", daemon=True).start()
    return loop


@cache
def _embedder() -> Embedder:
    from proxy.models.embedding import BatchingEmbedder
    from proxy.models.embedding_use import UseEncoder

    return BatchingEmbedder(UseEncoder())


@cache
def _verifier() -> Verifier:
    from proxy.models.embedding_use import available_cores
    from proxy.models.grounding import BatchingVerifier
    from proxy.models.grounding_onnx import FOLDER, OnnxVerifier

    return BatchingVerifier(lambda: OnnxVerifier(FOLDER, min(2, available_cores())), "builtin")
