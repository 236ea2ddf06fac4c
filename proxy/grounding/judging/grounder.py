"""Claims and the request's evidence -> judgements: retrieve, ask the verifier once for all, label, say what the evidence has instead.

The evidence for a claim is found by its words. Where those leave much of the claim unexplained (another wording, another language), the
embedder's similarity joins in. Nothing that could not be asked counts as supported: a verifier that is missing or too slow makes every
claim that is still open an ``error``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import UNKNOWN_LANGUAGE, Claim, ClaimPair, Judgement
from proxy.grounding.evidence.gathering import EvidenceBase, Selection
from proxy.grounding.evidence.retrieval import EVIDENCE_CHARS
from proxy.grounding.judging import labelling
from proxy.grounding.judging.labelling import EARLIER_CHARS, ClaimThresholds, OpenClaim
from proxy.grounding.judging.reconsidering import reconsider_judgements
from proxy.grounding.values.stated import follows
from proxy.language.detection import SURE, language, language_if_sure
from proxy.offloop import OverBudget, each, run_in_thread_if_large
from proxy.ports import Embedder, Verifier, knows
from proxy.ports.deadline import within
from proxy.ports.judge import JudgeSession

log = logging.getLogger("groundwire.grounding")

OUTDATED = "outdated"
"""A judgement's reason: what contradicts the claim was read before a call that may have changed it."""
_CLAIM = 2500
"""To label a claim takes as long as a pass over so many characters."""
MIN_COVERAGE = 0.6
"""Where the evidence found by words has less than this share of a claim's terms, similarity is asked, too. Asking always finds no more on
the development data (gold sentences of German Wikipedia questions in 4,000 characters: 0.94 by words, 0.97 with either) and costs 1 ms a
sentence."""
EMBED_ALL = 200
"""Up to so many pieces all are embedded: 0.2 s once for a context, then they are cached."""
EMBED_BEST = 32
"""Of more pieces, those nearest to the claim by words, and the ones beside them."""
SENTENCE_CHARS = 40
"""A claim that is as long has a language of its own, where that is sure."""
AT_A_TIME = 2
"""Exchanged values of a claim that are asked at once: as many as are judged side by side."""


class Grounder:
    """Judges claims by evidence. Keeps nothing between calls."""

    def __init__(
        self,
        verifier: Verifier,
        *,
        embedder: Embedder | None = None,
        min_support: float = 0.5,
        min_contradiction: float = 0.5,
        budget_chars: int = EVIDENCE_CHARS,
        only_certain: bool = False,
        low: float = 0.2,
        compares: bool = True,
        judge: JudgeSession | None = None,
        only_related: bool = False,
    ) -> None:
        """A claim is supported from the probability `min_support`, else contradicted from `min_contradiction`.

        With `only_certain` a claim is contradicted only where something exact says so (`proxy.grounding.judging.labelling`), and unsure
        where the verifier alone speaks against it; up to a support of `low` it is unsupported. `budget_chars` is how much evidence the
        verifier gets for each claim. Without `embedder` evidence is found by words alone; with `compares` other values are asked about.
        `judge` is asked over all that, `only_related` where the evidence has something to do with a claim.
        """
        self._verifier, self._embedder = verifier, embedder
        self._thresholds = ClaimThresholds(min_support, min_contradiction, low)
        self._budget_chars, self._only_certain, self._compares = budget_chars, only_certain, compares
        self._judge, self._only_related = judge, only_related

    async def judge(
        self, claims: Sequence[Claim], base: EvidenceBase, *, answer: str = "", tongue: str = "", deadline_s: float | None = None
    ) -> list[Judgement]:
        """A judgement for each claim, in order. Cancelling it ends the work; past `deadline_s` what is open is an ``error``.

        `answer` is the text that they stand in: what it says before a claim may be what the claim works its values out of. The claims'
        language is `tongue` (ISO 639-1), or else that of `answer`, or of the claims together; a long claim's is its own.
        """
        if self._judge is None:
            return await self._judge_by_verifier(claims, base, answer, tongue, deadline_s)
        started = time.perf_counter()
        self._judge.join()
        try:
            found = await self._judge_by_verifier(claims, base, answer, tongue, deadline_s)
            left_s = None if deadline_s is None else max(0.01, deadline_s - (time.perf_counter() - started))
            return await reconsider_judgements(found, base, self._judge, left_s, only_related=self._only_related)
        finally:
            self._judge.leave()

    async def _judge_by_verifier(
        self, claims: Sequence[Claim], base: EvidenceBase, answer: str, tongue: str, deadline_s: float | None
    ) -> list[Judgement]:
        distinct = {_key(claim): claim for claim in claims if claim.checkable}
        if not distinct or not len(base):
            return [_without_evidence(claim, base) for claim in claims]
        open_claims = [
            OpenClaim(claim.question_and_text, claim, answer[max(0, claim.start - EARLIER_CHARS) : claim.start])
            for claim in distinct.values()
        ]
        try:
            async with within(deadline_s):
                sample = answer or " ".join(one.text for one in open_claims)
                tongue = tongue or await asyncio.to_thread(language, sample)  # it loads a model the first time
                await asyncio.to_thread(_set_languages, open_claims, tongue)
                if self._only_certain:
                    await run_in_thread_if_large(base.chars, _decide_by_records, open_claims, base)
                left = [one for one in open_claims if one.decision is None]
                await self._select_evidence(left, base)
                await self._ask_verifier(left)
                await self._decide(left, base)
        except OverBudget:  # to judge what is left is the budget's, too
            raise
        except TimeoutError:
            _set_error(open_claims, "timeout")
        except ModelUnavailable as error:
            log.warning("no verifier: %s", error)
            _set_error(open_claims, "verifier_unavailable")

        def judgements() -> dict[tuple[str, str, str], Judgement]:
            return {_key(one.claim): self._judgement(one, base) for one in each(open_claims)}

        found = await run_in_thread_if_large(len(open_claims) * _CLAIM, judgements)
        return [replace(found[_key(claim)], claim=claim) if claim.checkable else _not_checkable(claim) for claim in claims]

    async def selections(self, claims: Sequence[Claim], base: EvidenceBase) -> list[Selection]:
        """What each of the claims is judged by, in order."""
        open_claims = [OpenClaim(claim.question_and_text, claim) for claim in claims]
        await self._select_evidence(open_claims, base)
        return [one.selection for one in open_claims]

    # ---- finding and asking ----

    async def _select_evidence(self, claims: Sequence[OpenClaim], base: EvidenceBase) -> None:
        """Set each claim's selection."""
        weak = await run_in_thread_if_large(len(claims) * len(base), self._select_by_words, claims, base)
        if not weak or self._embedder is None:
            return
        try:
            await self._add_similarity(weak, base, self._embedder)
        except ModelUnavailable as error:  # what was found by words is still evidence
            log.warning("evidence is found by words alone: %s", error)
            return
        await run_in_thread_if_large(len(claims) * len(base), self._select_by_similarity, weak, base)

    def _select_by_words(self, claims: Sequence[OpenClaim], base: EvidenceBase) -> list[OpenClaim]:
        """Returns those for which words do not tell enough; none where the evidence is taken whole."""
        for one in each(claims):
            one.selection = base.search(one.text, budget_chars=self._budget_chars)
        unsure = [one for one in claims if len(one.selection.positions) < base.distinct]
        return [one for one in unsure if base.coverage(one.text, one.selection.positions) < MIN_COVERAGE]

    def _select_by_similarity(self, claims: Sequence[OpenClaim], base: EvidenceBase) -> None:
        for one in each(claims):
            one.selection = base.search(one.text, one.similarity, self._budget_chars)

    async def _add_similarity(self, claims: Sequence[OpenClaim], base: EvidenceBase, embedder: Embedder) -> None:
        """Set each claim's cosine with the pieces; 0 for those that are not embedded."""
        import numpy as np

        every: Sequence[int] = range(len(base))

        def nearest() -> tuple[dict[str, Sequence[int]], list[int]]:
            few = len(base) <= EMBED_ALL
            near = {one.text: every if few else base.candidates(one.text, EMBED_BEST) for one in each(claims)}
            return near, sorted({i for positions in near.values() for i in positions})

        near, wanted = await run_in_thread_if_large(0, nearest)
        vectors = await embedder.embed([*(one.text for one in claims), *(base.sentences[i] for i in wanted)])
        row = {position: len(claims) + k for k, position in enumerate(wanted)}
        for vector, one in zip(vectors, claims, strict=False):
            one.similarity = np.zeros(len(base))
            positions = list(near[one.text])
            if positions:
                one.similarity[positions] = vectors[[row[i] for i in positions]] @ vector

    async def _ask_verifier(self, claims: Sequence[OpenClaim]) -> None:
        """Set the verifier's word on each claim that has evidence."""
        asked = [one for one in claims if one.selection.text]
        if not asked:
            return
        answers = await self._verifier.verify([ClaimPair(one.text, one.selection.text, one.language) for one in asked])
        for one, support in zip(asked, answers, strict=False):
            one.support = support
            if support is None:
                both = one.language, language_if_sure(one.selection.text, one.language)
                one.unread = next((tongue for tongue in both if not knows(self._verifier, tongue)), "")
                one.error = UNKNOWN_LANGUAGE if one.unread else "not_judged"

    # ---- deciding ----

    async def _decide(self, claims: Sequence[OpenClaim], base: EvidenceBase) -> None:
        """Set the decision on each claim that could be judged."""
        thresholds = self._thresholds
        if not self._only_certain:
            for one in claims:
                one.decision = labelling.by_verifier(one, thresholds)
            return

        def compare() -> None:
            for one in each(judgeable):
                labelling.compare(one, base, thresholds)

        def conclude() -> None:
            for one in each(judgeable):
                one.decision = labelling.conclude(one, base, thresholds, near.get(one.text, 0.0), gains.get(one.text, 0.0))

        judgeable = [one for one in claims if one.error in ("", UNKNOWN_LANGUAGE)]
        await run_in_thread_if_large(max(base.chars, len(judgeable) * _CLAIM), compare)
        near = await self._similarities([one for one in judgeable if labelling.needs_similarity(one)], base)
        wanted = [(one, labelling.wanted_gain(one, near.get(one.text, 0.0))) for one in judgeable if one.swaps and self._compares]
        gains = await self._gains([(one, least) for one, least in wanted if least is not None])
        await run_in_thread_if_large(0, conclude)

    async def _gains(self, claims: Sequence[tuple[OpenClaim, float]]) -> dict[str, float]:
        """By claim: by how much it is better supported with another value in it. The most of them, or one that is as much as is wanted:
        two are asked at a time, and the others only where those are not enough.
        """
        found: dict[str, float] = {}
        waiting = [(one, list(one.swaps), wanted) for one, wanted in claims]
        while waiting:
            asked = [(one, text) for one, swaps, _ in waiting for text in swaps[:AT_A_TIME]]
            answers = await self._verifier.verify([_pair_with(one, text) for one, text in asked])
            for (one, _), support in zip(asked, answers, strict=True):
                if support is not None and one.support is not None:
                    gain = support.supported - one.support.supported
                    found[one.text] = max(gain, found.get(one.text, gain))
            left = [(one, swaps[AT_A_TIME:], wanted) for one, swaps, wanted in waiting]
            waiting = [(one, swaps, wanted) for one, swaps, wanted in left if swaps and found.get(one.text, 0.0) < wanted]
        return found

    async def _similarities(self, claims: Sequence[OpenClaim], base: EvidenceBase) -> dict[str, float]:
        """By claim: its cosine with the sentence that differs from it."""
        differing = [(one, one.nearest(base)[one.differs.position]) for one in claims if one.differs is not None]
        if not differing or self._embedder is None:
            return {}
        try:
            vectors = await self._embedder.embed([text for one, i in differing for text in (one.text, base.sentences[i])])
        except ModelUnavailable:
            return {}
        return {one.text: float(vectors[2 * i] @ vectors[2 * i + 1]) for i, (one, _) in enumerate(differing)}

    # ---- the judgement ----

    def _judgement(self, one: OpenClaim, base: EvidenceBase) -> Judgement:
        """By what was decided."""
        found, support = one.decision, one.support
        if found is None or found.label == "error":
            return Judgement(one.claim, "error", verifier=self._verifier.name, reason=one.error or "not_judged")
        ranked = one.nearest(base)
        label, instead, reason = found.label, found.instead, found.reason
        position = found.position if found.position is not None else next(iter(ranked), None)
        if label == "contradicted" and not instead and ranked:
            instead, position = labelling.counterpart(one.claim.text, ranked, base, one.language)
        span = None if position is None else base.span(position)
        if label == "contradicted" and self._only_certain and span is not None and span.opinion and not found.by_table:
            label, instead = "unsure", ""  # whoever answers may know better than the user
        if label == "contradicted" and found.by != "recomputed" and position is not None and base.is_outdated(position):
            label, instead, reason = "unsure", "", OUTDATED
        if not reason and label != "supported" and support is not None:
            reason = labelling.missing(one.claim.text, one.selection.text, one.language)
        return Judgement(
            one.claim,
            label,
            None if support is None else support.supported,
            None if support is None else support.contradicted,
            span,
            instead,
            "" if support is None else support.by or self._verifier.name,
            found.by,
            reason,
            one.unread if reason == UNKNOWN_LANGUAGE else "",
            found.by_table,
        )


def _key(claim: Claim) -> tuple[str, str, str]:
    """Claims with the same words are judged once, unless their pronoun may mean another thing, or they are the totals of two lists."""
    return claim.before, claim.question_and_text, claim.wrong_sum


def _not_checkable(claim: Claim) -> Judgement:
    return Judgement(claim, "not_checkable", reason=claim.reason)


def _without_evidence(claim: Claim, base: EvidenceBase) -> Judgement:
    """Where no piece of the evidence says anything: an empty result still supports that nothing was found."""
    if not claim.checkable:
        return _not_checkable(claim)
    if follows(claim.text, base.material):
        return Judgement(claim, "supported", decided_by="recomputed")
    return Judgement(claim, "unsupported", reason="no_evidence")


def _decide_by_records(claims: Sequence[OpenClaim], base: EvidenceBase) -> None:
    """Those to which the cells of a table say something, before any model."""
    for one in each(claims):
        one.decision = labelling.by_calculation(one, base) or labelling.by_records(one, base)


def _set_languages(claims: Sequence[OpenClaim], tongue: str) -> None:
    """Each claim's language: in an answer of several, a sentence's own."""
    for one in each(claims):
        text = one.claim.text
        one.language = language(text, tongue, SURE) if len(text) >= SENTENCE_CHARS else tongue


def _pair_with(one: OpenClaim, text: str) -> ClaimPair:
    """The claim as `text` has it, with the claim's question and evidence."""
    return ClaimPair(one.text.removesuffix(one.claim.text) + text, one.selection.text, one.language)


def _set_error(claims: Sequence[OpenClaim], reason: str) -> None:
    for one in claims:
        one.error = one.error if one.support is not None else reason
