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
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import UNKNOWN_LANGUAGE, Claim, ClaimPair, EvidenceSpan, Judgement, Label, Support
from proxy.grounding.evidence.gathering import EvidenceBase, Selection
from proxy.grounding.evidence.retrieval import EVIDENCE_CHARS
from proxy.grounding.judging.reconsidering import reconsidered
from proxy.grounding.judging.telling import counterpart, missing
from proxy.language.detection import language
from proxy.offloop import OverBudget, each, run_in_thread_if_large
from proxy.ports import Embedder, Verifier, knows
from proxy.ports.deadline import within
from proxy.ports.judge import JudgeSession

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from proxy.grounding.judging.deciding import ClaimDecision, ClaimMatter, ClaimThresholds
    from proxy.grounding.values.slots import Slot

    Similarity = NDArray[np.float64]

log = logging.getLogger("groundwire.grounding")

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
SENTENCE_CHARS, SURE_LANGUAGE = 40, 0.8  # a claim that is as long has a language of its own, where that is as probable
AT_A_TIME = 2
"""Exchanged values of a claim that are asked at once: as many as are judged side by side."""


class _Open(Struct):
    """A claim's text that is to be judged, once however often it is claimed."""

    text: str
    """With the question that it answers."""
    claim: Claim
    selection: Selection
    tongue: str = ""
    """Its language, ISO 639-1."""
    similarity: Similarity | None = None
    support: Support | None = None
    error: str = ""
    decision: ClaimDecision | None = None
    matter: ClaimMatter | None = None
    differs: tuple[Slot | None, list[str]] | None = None
    """Where the evidence has another value, and the claim with such values in it; None while nobody has looked."""


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

        With `only_certain` a claim is contradicted only where something exact says so (`proxy.grounding.judging.deciding`), and unsure
        where the verifier alone speaks against it; up to a support of `low` it is unsupported. `budget_chars` is how much evidence the
        verifier gets for each claim. Without `embedder` evidence is found by words alone; with `compares` other values are asked about.
        `judge` is asked over all that, `only_related` where the evidence has something to do with a claim.
        """
        self._verifier, self._embedder = verifier, embedder
        self._min_support, self._min_contradiction = min_support, min_contradiction
        self._budget_chars, self._only_certain, self._low, self._compares = budget_chars, only_certain, low, compares
        self._judge, self._only_related = judge, only_related

    async def judge(
        self, claims: Sequence[Claim], base: EvidenceBase, *, answer: str = "", tongue: str = "", deadline_s: float | None = None
    ) -> list[Judgement]:
        """A judgement for each claim, in order. Cancelling it ends the work; past `deadline_s` what is open is an ``error``.

        The claims' language is `tongue` (ISO 639-1), or else that of `answer`, or of the claims together; a long claim's is its own.
        """
        if self._judge is None:
            return await self._by_verifier(claims, base, answer, tongue, deadline_s)
        started = time.perf_counter()
        self._judge.join()
        try:
            found = await self._by_verifier(claims, base, answer, tongue, deadline_s)
            left_s = None if deadline_s is None else max(0.01, deadline_s - (time.perf_counter() - started))
            return await reconsidered(found, base, self._judge, left_s, only_related=self._only_related)
        finally:
            self._judge.leave()

    async def _by_verifier(
        self, claims: Sequence[Claim], base: EvidenceBase, answer: str, tongue: str, deadline_s: float | None
    ) -> list[Judgement]:
        distinct = {claim.question_and_text: claim for claim in claims if claim.checkable}
        if not distinct or not len(base):
            return [self._unasked(claim) for claim in claims]
        texts = list(distinct)
        cuts = [_Open(text, claim, Selection((), "")) for text, claim in distinct.items()]
        try:
            async with within(deadline_s):
                tongue = tongue or await asyncio.to_thread(language, answer or " ".join(texts))  # it loads a model the first time
                await asyncio.to_thread(_set_tongues, cuts, tongue)
                if self._only_certain:
                    await run_in_thread_if_large(base.chars, _by_records, cuts, base)
                open_ = [cut for cut in cuts if cut.decision is None]
                await self._find(open_, base)
                likely = await self._likely_swaps(open_, base) if self._only_certain and self._compares else []
                await self._ask(open_, likely)
                if self._only_certain:
                    await self._decide(open_, base)
        except OverBudget:  # to judge what is left is the budget's, too
            raise
        except TimeoutError:
            _fail(cuts, "timeout")
        except ModelUnavailable as error:
            log.warning("no verifier: %s", error)
            _fail(cuts, "verifier_unavailable")
        found = await run_in_thread_if_large(len(texts) * _CLAIM, self._judgements, cuts, base)
        return [self._unasked(claim) if not claim.checkable else replace(found[claim.question_and_text], claim=claim) for claim in claims]

    async def selections(self, claims: Sequence[Claim], base: EvidenceBase) -> list[Selection]:
        """What each of the claims is judged by, in order."""
        cuts = [_Open(claim.question_and_text, claim, Selection((), "")) for claim in claims]
        await self._find(cuts, base)
        return [cut.selection for cut in cuts]

    def _unasked(self, claim: Claim) -> Judgement:
        if not claim.checkable:
            return Judgement(claim, "not_checkable", reason=claim.reason)
        return Judgement(claim, "unsupported", reason="no_evidence")

    # ---- finding and asking ----

    async def _find(self, cuts: Sequence[_Open], base: EvidenceBase) -> None:
        """Set each claim's selection."""
        if not (weak := await run_in_thread_if_large(len(cuts) * len(base), self._by_words, cuts, base)) or self._embedder is None:
            return
        try:
            await self._add_similarity(weak, base, self._embedder)
        except ModelUnavailable as error:  # what was found by words is still evidence
            log.warning("evidence is found by words alone: %s", error)
            return
        await run_in_thread_if_large(len(cuts) * len(base), self._by_similarity, weak, base)

    def _by_words(self, cuts: Sequence[_Open], base: EvidenceBase) -> list[_Open]:
        """Returns those for which words do not tell enough; none where the evidence is taken whole."""
        for cut in each(cuts):
            cut.selection = base.search(cut.text, budget_chars=self._budget_chars)
        unsure = [cut for cut in cuts if len(cut.selection.positions) < base.distinct]
        return [cut for cut in unsure if base.coverage(cut.text, cut.selection.positions) < MIN_COVERAGE]

    def _by_similarity(self, cuts: Sequence[_Open], base: EvidenceBase) -> None:
        for cut in each(cuts):
            cut.selection = base.search(cut.text, cut.similarity, self._budget_chars)

    async def _add_similarity(self, cuts: Sequence[_Open], base: EvidenceBase, embedder: Embedder) -> None:
        """Set each claim's cosine with the pieces; 0 for those that are not embedded."""
        import numpy as np

        every: Sequence[int] = range(len(base))

        def nearest() -> tuple[dict[str, Sequence[int]], list[int]]:
            few = len(base) <= EMBED_ALL
            near = {cut.text: every if few else base.candidates(cut.text, EMBED_BEST) for cut in each(cuts)}
            return near, sorted({i for positions in near.values() for i in positions})

        near, wanted = await run_in_thread_if_large(0, nearest)
        vectors = await embedder.embed([*(cut.text for cut in cuts), *(base.sentences[i] for i in wanted)])
        row = {position: len(cuts) + k for k, position in enumerate(wanted)}
        for vector, cut in zip(vectors, cuts, strict=False):
            cut.similarity = np.zeros(len(base))
            positions = list(near[cut.text])
            if positions:
                cut.similarity[positions] = vectors[[row[i] for i in positions]] @ vector

    async def _likely_swaps(self, cuts: Sequence[_Open], base: EvidenceBase) -> list[ClaimPair]:
        """What will be asked after the claims' own support is known (`_gains`): one of it, where a core would have nothing to do now."""
        asked = [cut for cut in cuts if cut.selection.text]
        if len(asked) % 2 == 0:
            return []
        open_ = [cut for cut in asked if base.literal(cut.claim.text) is None]
        found = await run_in_thread_if_large(max(base.chars, len(open_) * _CLAIM), lambda: [self._read(cut, base) for cut in each(open_)])
        likely = [(cut, swaps[0]) for cut, (slot, swaps) in zip(open_, found, strict=True) if slot is not None and slot.placed and swaps]
        return [_exchanged(cut, text) for cut, text in likely[:1]]

    async def _ask(self, cuts: Sequence[_Open], beside: Sequence[ClaimPair] = ()) -> None:
        """Set the verifier's word on each claim that has evidence; what is asked `beside` is then known to the verifier, too."""
        asked = [cut for cut in cuts if cut.selection.text]
        if not asked:
            return
        answers = await self._verifier.verify([*(ClaimPair(cut.text, cut.selection.text, cut.tongue) for cut in asked), *beside])
        for cut, support in zip(asked, answers, strict=False):
            cut.support = support
            cut.error = cut.error if support is not None else "not_judged" if knows(self._verifier, cut.tongue) else UNKNOWN_LANGUAGE

    # ---- deciding ----

    async def _decide(self, cuts: Sequence[_Open], base: EvidenceBase) -> None:
        """Set the decision on each claim that could be judged."""
        from proxy.grounding.judging.deciding import ClaimDecision, decided, doubted, needs_similarity, plain, told, wanted_gain

        thresholds = self._thresholds()

        def without_a_verifier() -> None:
            for cut in each(cuts):
                if cut.error == UNKNOWN_LANGUAGE:
                    said = plain(self._matter(cut, base), None, base, thresholds)
                    cut.decision = said or ClaimDecision("unsure", "", reason=UNKNOWN_LANGUAGE)

        await run_in_thread_if_large(0, without_a_verifier)
        open_ = [cut for cut in cuts if not cut.error]
        found = await run_in_thread_if_large(max(base.chars, len(open_) * _CLAIM), self._compared, open_, base)
        near = await self._similarities(
            [(cut, slot) for cut, (_, slot, _) in zip(open_, found, strict=True) if needs_similarity(slot)], base
        )
        asked = []
        for cut, (_, slot, swaps) in zip(open_, found, strict=True):
            wanted = wanted_gain(cut.decision, cut.support, slot, near.get(cut.text, 0.0))
            asked += [(cut, swaps, wanted)] if swaps and wanted is not None and self._compares else []
        gains = await self._gains(asked)

        def decide() -> None:
            for cut, (matter, slot, _) in each(zip(open_, found, strict=True)):
                gain = gains.get(cut.text, 0.0)
                if cut.decision is None:
                    cut.decision = decided(matter, cut.support, base, thresholds, slot, near.get(cut.text, 0.0), gain)
                if cut.decision.by == "model":
                    cut.decision = told(matter, slot, gain) or doubted(cut.decision, cut.claim, base, cut.tongue)

        await run_in_thread_if_large(0, decide)

    async def _gains(self, open_: Sequence[tuple[_Open, Sequence[str], float]]) -> dict[str, float]:
        """By claim: by how much it is better supported with another value in it. The most of them, or one that is as much as is wanted:
        two are asked at a time, and the others only where those are not enough.
        """
        found: dict[str, float] = {}
        waiting = [(cut, list(swaps), wanted) for cut, swaps, wanted in open_]
        while waiting:
            asked = [(cut, text) for cut, swaps, _ in waiting for text in swaps[:AT_A_TIME]]
            answers = await self._verifier.verify([_exchanged(cut, text) for cut, text in asked])
            for (cut, _), support in zip(asked, answers, strict=True):
                if support is not None and cut.support is not None:
                    gain = support.supported - cut.support.supported
                    found[cut.text] = max(gain, found.get(cut.text, gain))
            left = [(cut, swaps[AT_A_TIME:], wanted) for cut, swaps, wanted in waiting]
            waiting = [(cut, swaps, wanted) for cut, swaps, wanted in left if swaps and found.get(cut.text, 0.0) < wanted]
        return found

    def _thresholds(self) -> ClaimThresholds:
        from proxy.grounding.judging.deciding import ClaimThresholds

        return ClaimThresholds(self._min_support, self._min_contradiction, self._low)

    def _compared(self, cuts: Sequence[_Open], base: EvidenceBase) -> list[tuple[ClaimMatter, Slot | None, list[str]]]:
        """Each claim with what differs and what could stand in its place; decides those where nothing needs to be compared."""
        from proxy.grounding.judging.deciding import plain

        found: list[tuple[ClaimMatter, Slot | None, list[str]]] = []
        thresholds = self._thresholds()
        for cut in each(cuts):
            matter = self._matter(cut, base)
            cut.decision = plain(matter, cut.support, base, thresholds)
            open_to_it = cut.decision is None or (cut.decision.by == "model" and not (cut.support and cut.support.decides))
            slot, swaps = self._read(cut, base) if open_to_it else (None, [])
            found.append((matter, slot, [] if cut.support is None else swaps))
        return found

    @staticmethod
    def _matter(cut: _Open, base: EvidenceBase) -> ClaimMatter:
        from proxy.grounding.judging.deciding import ClaimMatter

        if cut.matter is None:
            nearest = base.by_terms(cut.text, cut.selection.positions, cut.similarity)
            cut.matter = ClaimMatter(cut.claim.text, cut.claim.asked, nearest, cut.tongue)
        return cut.matter

    def _read(self, cut: _Open, base: EvidenceBase) -> tuple[Slot | None, list[str]]:
        """What of a claim differs from the evidence, and what could stand in its place; read once."""
        from proxy.grounding.judging.deciding import differing, exchanges

        if cut.differs is None:
            matter = self._matter(cut, base)
            slot = differing(matter, base)
            cut.differs = slot, [] if slot is None else exchanges(matter, base)
        return cut.differs

    async def _similarities(self, unsure: Sequence[tuple[_Open, Slot | None]], base: EvidenceBase) -> dict[str, float]:
        """By claim: its cosine with the sentence that differs from it."""
        if not unsure or self._embedder is None:
            return {}
        pairs = [
            (cut.text, base.sentences[base.by_terms(cut.text, cut.selection.positions, cut.similarity)[slot.position]])
            for cut, slot in unsure
            if slot is not None
        ]
        try:
            vectors = await self._embedder.embed([text for pair in pairs for text in pair])
        except ModelUnavailable:
            return {}
        return {text: float(vectors[2 * i] @ vectors[2 * i + 1]) for i, (text, _) in enumerate(pairs)}

    # ---- labelling ----

    def _judgements(self, cuts: Sequence[_Open], base: EvidenceBase) -> dict[str, Judgement]:
        judge = self._certain if self._only_certain else self._judgement
        return {cut.text: judge(cut, base) for cut in each(cuts)}

    def _certain(self, cut: _Open, base: EvidenceBase) -> Judgement:
        """By what was decided."""
        found = cut.decision
        if found is None:
            return Judgement(cut.claim, "error", verifier=self._verifier.name, reason=cut.error or "not_judged")
        support = cut.support or Support(0.0)
        asked = cut.support is not None
        ranked = base.by_terms(cut.text, cut.selection.positions, cut.similarity) if cut.selection.positions else []
        said, position = found.instead, found.position if found.position is not None else next(iter(ranked), None)
        if found.label == "contradicted" and not said and ranked:
            said, position = counterpart(cut.claim.text, ranked, base, cut.tongue)
        span = None if position is None else base.span(position)
        label, reason = found.label, found.reason
        if label == "contradicted" and span is not None and span.opinion and not found.by_table:
            label, said = "unsure", ""  # whoever answers may know better than the user
        if not reason and label not in ("supported",) and asked:
            reason = missing(cut.claim.text, cut.selection.text, cut.tongue) or support.detail
        return Judgement(
            cut.claim,
            label,
            support.supported if asked else None,
            support.contradicted if asked else None,
            span,
            said,
            (support.by or self._verifier.name) if asked else "",
            found.by,
            reason,
            cut.tongue if reason == UNKNOWN_LANGUAGE else "",
            found.by_table,
        )

    def _judgement(self, cut: _Open, base: EvidenceBase) -> Judgement:
        claim = cut.claim
        if cut.error:
            unjudged: tuple[Label, str] = ("unsure", cut.tongue) if cut.error == UNKNOWN_LANGUAGE else ("error", "")
            return Judgement(claim, unjudged[0], verifier=self._verifier.name, reason=cut.error, language=unjudged[1])
        if cut.support is None:  # nothing in the evidence has anything to do with it
            return Judgement(claim, "unsupported", reason="no_evidence")
        label = self.label(cut.support)
        ranked = base.by_terms(cut.text, cut.selection.positions, cut.similarity)
        said, position = ("", ranked[0]) if label != "contradicted" else counterpart(cut.claim.text, ranked, base, cut.tongue)
        evidence: EvidenceSpan = base.span(position)
        reason = "" if label == "supported" else missing(cut.claim.text, cut.selection.text, cut.tongue)
        return Judgement(
            claim,
            label,
            cut.support.supported,
            cut.support.contradicted,
            evidence,
            said,
            cut.support.by or self._verifier.name,
            "model",
            reason or cut.support.detail,
        )

    def label(self, support: Support) -> Label:
        """A verifier's word as a label."""
        if support.supported >= self._min_support:
            return "supported"
        return "contradicted" if support.contradicted >= self._min_contradiction else "unsupported"


def _by_records(cuts: Sequence[_Open], base: EvidenceBase) -> None:
    """Decide those to which the cells of a table say something, before any model."""
    from proxy.grounding.judging.deciding import by_records

    for cut in each(cuts):
        cut.decision = by_records(cut.claim, base, cut.tongue)


def _set_tongues(cuts: Sequence[_Open], tongue: str) -> None:
    """Each claim's language: in an answer of several, a sentence's own."""
    for cut in each(cuts):
        cut.tongue = language(cut.claim.text, tongue, SURE_LANGUAGE) if len(cut.claim.text) >= SENTENCE_CHARS else tongue


def _exchanged(cut: _Open, text: str) -> ClaimPair:
    """The claim as `text` has it, with the claim's question and evidence."""
    return ClaimPair(cut.text.removesuffix(cut.claim.text) + text, cut.selection.text, cut.tongue)


def _fail(cuts: Sequence[_Open], reason: str) -> None:
    for cut in cuts:
        cut.error = cut.error if cut.support is not None else reason
