"""A claim and a knowledge base -> a verdict: found word by word, or retrieved, and judged by the verifier fact by fact.

`KnowledgeChecker` guards what enters a context (poisoning, validation) and grounds answers (claims); the statuses are explained in
`proxy.exchange.judgements`. Each claim is judged by itself, so that its verdict is the same whatever is asked beside it; all pairs of a
call go to the verifier together. A check that cannot run is an ``ERROR``, never VALID.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange import Evidence
from proxy.exchange.judgements import (
    KNOWLEDGE_BASE,
    UNKNOWN_LANGUAGE,
    Claim,
    ClaimPair,
    EvidenceSpan,
    FactVerdict,
    Judgement,
    Label,
    Status,
    Support,
)
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.grounding.knowledge.conflicts import MAX_FACTS, FactMatter, exchanges_of, in_the_facts_words, matter_of, shown, subject_names
from proxy.language.detection import language
from proxy.ports import KnowledgeBase, Verifier
from proxy.ports.deadline import within
from proxy.ports.facts import Fact, FactHit
from proxy.ports.judge import JudgeSession

log = logging.getLogger("groundwire.knowledge")

TOP_K = 5
MIN_SCORE = 0.25
"""A fact that scores less is not asked about, unless it is of the same subject."""
MAX_VERIFIED = 3
"""Facts that the verifier is asked about for one claim: 15 ms each on one core."""
LARGE = 40
"""Facts found from which comparing them with their claims leaves the event loop: about 8 ms."""


class _Neighbours(Struct, frozen=True):
    """A claim and the facts that a search has found for it, best first."""

    claim: str
    language: str
    matters: Sequence[tuple[FactHit, FactMatter]]


class KnowledgeChecker:
    """Checks claims against a knowledge base. Keeps nothing between calls unless told to; any number may run at a time."""

    def __init__(
        self,
        base: KnowledgeBase,
        verifier: Verifier,
        *,
        top_k: int = TOP_K,
        min_support: float = 0.5,
        min_contradiction: float = 0.5,
        clock: Callable[[], float] = time.time,
        judge: JudgeSession | None = None,
        remember: bool = False,
    ) -> None:
        """A claim is supported by a fact from the probability `min_support`, contradicted from `min_contradiction`.

        `top_k` facts are retrieved for each claim; `clock` says which of them hold now. `judge` is asked over the verifier about facts that
        have something to do with a claim. With `remember` a claim is judged once: of one exchange, whose stages ask about the same content.
        """
        self._base, self._top_k, self._clock = base, top_k, clock
        self._min_support, self._min_contradiction = min_support, min_contradiction
        self._grounder = Grounder(verifier, min_support=min_support, min_contradiction=min_contradiction, judge=judge, only_related=True)
        self._verifier = verifier
        self._verdicts: dict[str, FactVerdict] | None = {} if remember else None

    async def version(self) -> str:
        """Of the knowledge base as it is now. Raises `ModelUnavailable`."""
        return (await self._base.current()).version

    async def verify(self, claim: str, *, tongue: str = "", deadline_s: float | None = None) -> FactVerdict:
        """What the knowledge base says to `claim`, one sentence; `tongue` is its language (ISO 639-1), if known."""
        return (await self.verify_many([claim], tongue=tongue, deadline_s=deadline_s))[0]

    async def verify_many(self, claims: Sequence[str], *, tongue: str = "", deadline_s: float | None = None) -> list[FactVerdict]:
        """A verdict for each claim, in order, all from one version. Past `deadline_s` what is open is an ``ERROR``, reason ``timeout``."""
        if not claims:
            return []
        distinct = list(dict.fromkeys(claims))
        found = {claim: self._verdicts[claim] for claim in distinct if claim in self._verdicts} if self._verdicts else {}
        version = [""]
        try:
            async with within(deadline_s):
                if new := [claim for claim in distinct if claim not in found]:
                    await self._verify(new, tongue, found, version)
        except TimeoutError:
            return [found.get(claim, _error("timeout", version[0])) for claim in claims]
        except ModelUnavailable as error:
            log.warning("no fact check: %s", error)
            return [found.get(claim, _error("knowledge_unavailable", version[0])) for claim in claims]
        if self._verdicts is not None:
            self._verdicts |= {claim: verdict for claim, verdict in found.items() if verdict.status != "ERROR"}
        return [found[claim] for claim in claims]

    async def judge(self, claims: Sequence[Claim], *, tongue: str = "", deadline_s: float | None = None) -> list[Judgement | None]:
        """A judgement for each claim of an answer, None where the knowledge base has nothing to say (UNKNOWN), or it is not checkable.

        VALID is supported, INVALID contradicted, SUSPICIOUS unsupported, ERROR an error.
        """
        texts = [claim.question_and_text for claim in claims if claim.checkable]
        verdicts = dict(zip(texts, await self.verify_many(texts, tongue=tongue, deadline_s=deadline_s), strict=True))
        return [_judgement(claim, verdicts[claim.question_and_text]) if claim.checkable else None for claim in claims]

    async def search(self, text: str, k: int) -> tuple[list[FactHit], str]:
        """The facts that hold now and bear on `text`, best first, and the version they are of. Raises `ModelUnavailable`."""
        base = await self._base.current()
        now = self._clock()
        [hits] = await base.search([text], k=k)
        return [hit for hit in hits if hit.fact.holds_at(now)], base.version

    # ---- one version of the knowledge base ----

    async def _verify(self, claims: Sequence[str], tongue: str, found: dict[str, FactVerdict], version: list[str]) -> None:
        """Fill `found`; `version` is told as soon as it is known."""
        base = await self._base.current()
        version[0] = base.version
        now = self._clock()
        for claim, fact in zip(claims, await base.exact(claims), strict=True):
            if fact is not None and fact.holds_at(now):
                found[claim] = _exact(fact, base.version)
        open_ = [claim for claim in claims if claim not in found]
        every = await base.search(open_, k=self._top_k)
        if len(open_) * self._top_k > LARGE:
            retrieved = await asyncio.to_thread(_neighbours_of, open_, every, tongue)
        else:
            retrieved = _neighbours_of(open_, every, tongue)
        await asyncio.gather(*(self._settle(one, now, found, base.version) for one in retrieved))

    async def _settle(self, one: _Neighbours, now: float, found: dict[str, FactVerdict], version: str) -> None:
        found[one.claim] = replace(await self._judge_claim(one, now), version=version)

    async def _judge_claim(self, one: _Neighbours, now: float) -> FactVerdict:
        claim, tongue = one.claim, one.language
        chosen = [(hit, matter) for hit, matter in one.matters if hit.score >= MIN_SCORE or matter.likely_subject]
        holding = [pair for pair in chosen if pair[0].fact.holds_at(now)][:MAX_VERIFIED]
        over = [pair for pair in chosen if not pair[0].fact.holds_at(now)][:1]
        if not holding and not over:
            return FactVerdict("UNKNOWN", reason="no_fact")
        judgements = await asyncio.gather(*(self._ask(claim, hit, matter, tongue) for hit, matter in (*holding, *over)))
        failed = next((judgement for judgement in judgements if judgement.label == "error"), None)
        if failed is not None:
            return _error(failed.reason, "")
        if any(judgement.reason == UNKNOWN_LANGUAGE for judgement in judgements):
            return FactVerdict("UNKNOWN", reason=UNKNOWN_LANGUAGE)
        pairs = list(zip((*holding, *over), judgements, strict=True))
        likely = [i for i, ((_, matter), _) in enumerate(pairs) if matter.likely_subject][:MAX_FACTS]
        exchanged = await asyncio.gather(*(self._matter(claim, *pairs[i][0], pairs[i][1], tongue) for i in likely))
        matters = [matter for (_, matter), _ in pairs]
        for i, found in zip(likely, exchanged, strict=True):
            matters[i] = found
        asked = [
            KnownFact(hit, matter, judgement, hit.fact.holds_at(now)) for ((hit, _), judgement), matter in zip(pairs, matters, strict=True)
        ]
        return decide(asked, self._min_support, self._min_contradiction)

    async def _ask(self, claim: str, hit: FactHit, matter: FactMatter, tongue: str) -> Judgement:
        """The verifier's word on a claim by one fact; its numbers that agree with the fact's stand there as the fact writes them."""
        fact = hit.fact
        base = EvidenceBase([Evidence(fact.text, fact.source, "knowledge")])
        text = in_the_facts_words(claim, fact.text, tongue) if matter.likely_subject and not matter.lacks else claim
        return (await self._grounder.judge([Claim(text, 0, len(text))], base, tongue=tongue))[0]

    async def _matter(self, claim: str, hit: FactHit, matter: FactMatter, judgement: Judgement, tongue: str) -> FactMatter:
        """`matter`, with the value that the fact has in place of one of the claim's, where the verifier shows that only that differs."""
        if matter.conflict is not None and judgement.label == "contradicted":
            return matter
        text = hit.fact.text
        found = exchanges_of(claim, text, subject_names(hit), tongue)
        if not found:
            return matter
        of_fact = language(text, default=tongue)
        pairs = [pair for one in found for pair in (ClaimPair(one.text, text, tongue), ClaimPair(text, one.text, of_fact))]
        answers = await self._verifier.verify(pairs)
        own = Support(judgement.score or 0.0, judgement.contradiction or 0.0)
        for i, one in enumerate(found):
            changed, back = answers[2 * i], answers[2 * i + 1]
            conflict = shown(one, own, changed, back) if changed is not None and back is not None else None
            if conflict is not None:
                return replace(matter, conflict=conflict)
        return matter


def _neighbours_of(claims: Sequence[str], every: Sequence[Sequence[FactHit]], tongue: str) -> list[_Neighbours]:
    """How the facts that were found for each claim bear on it; 0.2 ms a fact."""
    found = []
    for claim, hits in zip(claims, every, strict=True):
        spoken = tongue or language(claim)
        found.append(_Neighbours(claim, spoken, [(hit, matter_of(claim, hit, spoken, _ahead(hit, hits))) for hit in hits]))
    return found


def _ahead(hit: FactHit, hits: Sequence[FactHit]) -> float:
    """By how much a fact scores more than those of other subjects."""
    return hit.score - max((other.score for other in hits if other is not hit and other.fact.subject != hit.fact.subject), default=0.0)


def _exact(fact: Fact, version: str) -> FactVerdict:
    detail = {"fact_source": fact.source, "subject": fact.subject}
    return FactVerdict("VALID", 1.0, "", KNOWLEDGE_BASE, fact.id, "exact", version, {k: v for k, v in detail.items() if v})


def _error(reason: str, version: str) -> FactVerdict:
    return FactVerdict("ERROR", reason=reason or "not_judged", version=version)


def _judgement(claim: Claim, verdict: FactVerdict) -> Judgement | None:
    """A verdict in the words of grounding."""
    detail, who = verdict.detail, f"knowledge@{verdict.version}"
    if verdict.status == "UNKNOWN":
        return None
    if verdict.status == "ERROR":
        return Judgement(claim, "error", verifier=who, decided_by="knowledge", reason=verdict.reason)
    label: Label = "supported" if verdict.status == "VALID" else "contradicted" if verdict.status == "INVALID" else "unsupported"
    support = 1.0 if verdict.reason == "exact" else 0.0 if label == "contradicted" and "conflict" in detail else detail.get("support")
    said = verdict.correct_fact or claim.text
    span = EvidenceSpan(said, 0, len(said), str(detail.get("fact_source", verdict.source)), "knowledge")
    return Judgement(
        claim,
        label,
        support,
        detail.get("contradiction"),
        span,
        str(detail.get("instead", "")),
        who,
        "knowledge",
        "" if label == "supported" else verdict.reason,
    )


# ---- the verdict of several facts ----


DOUBT = 0.3
"""A verifier that gives a claim less support, and less contradiction, says that the fact has nothing to do with it."""
READ = 0.8
"""Contradiction from which the verifier's reading alone is against a claim, where nothing that can be compared differs. Of 512 true
and 355 false development statements (`benchmarks.poisoning`, `benchmarks.sample_facts`) 2 and 138 have as much, 19 and 188 0.5."""
CLOSE = 0.03
"""Of two facts that say opposite things, the one that a search finds nearer by this much holds."""
SURE = 0.8
"""Support from which a fact of another subject, or that lacks a number, date, unit or name of the claim, makes it valid all the same. Of
230 development statements (``python -m benchmarks.poisoning``), 10 of the 17 false ones that were called valid lacked one and had less
support; of 86 true ones 2."""


class KnownFact(Struct, frozen=True):
    """A fact that the verifier was asked about."""

    hit: FactHit
    matter: FactMatter
    judgement: Judgement
    holds: bool
    """Whether it holds now."""


def decide(asked: Sequence[KnownFact], min_support: float, min_contradiction: float) -> FactVerdict:
    """The verdict of facts that are not all errors, without its version. `asked` is in the order of the search."""
    now = [one for one in asked if one.holds]
    agreeing = [one for one in now if not (one.matter.conflict and one.matter.conflict.shown)]
    supporting = _best([one for one in agreeing if _support(one) >= (min_support if _bears_on(one) else max(min_support, SURE))])
    against = [one for one in now if _speaks_against(one, min_support, min_contradiction)]
    opposed = _best(against)
    if supporting is not None and opposed is not None and abs(supporting.hit.score - opposed.hit.score) < CLOSE:
        return _verdict("SUSPICIOUS", opposed, "conflicting_facts")
    if supporting is not None and (opposed is None or supporting.hit.score > opposed.hit.score):
        return _verdict("VALID", supporting, "")
    if opposed is not None:
        return _verdict("INVALID", opposed, opposed.matter.conflict.reason if opposed.matter.conflict else "contradicted")
    over = _best([one for one in asked if not one.holds and _support(one) >= min_support])
    if over is not None:
        return _verdict("SUSPICIOUS", over, "outdated")
    return _undecided_verdict(now)


def _bears_on(one: KnownFact) -> bool:
    """Whether a fact is of the claim's subject, and lacks none of its numbers, dates, units and names."""
    same = one.matter.same_subject or (one.matter.likely_subject and not one.matter.one_language)
    return same and not one.matter.lacks


def _speaks_against(one: KnownFact, min_support: float, min_contradiction: float) -> bool:
    """Whether a fact says something else in the place of the claim's words, or the verifier has hardly a doubt that it does."""
    if one.matter.conflict is not None and one.matter.conflict.shown:
        return True
    if _support(one) >= min_support:
        return False
    if one.matter.conflict is not None:
        return _contradiction(one) >= min_contradiction
    return one.matter.same_matter and one.matter.settles and _contradiction(one) >= max(READ, min_contradiction)


def _undecided_verdict(now: Sequence[KnownFact]) -> FactVerdict:
    """Doubtful is only what conflicts with a fact in its own language; what the facts merely do not say is not known."""
    if (differing := _best([one for one in now if _may_differ(one)])) is not None:
        return _verdict("SUSPICIOUS", differing, "values_differ")
    if any(one.matter.same_matter and one.matter.settles and max(_support(one), _contradiction(one)) >= DOUBT for one in now):
        return FactVerdict("UNKNOWN", reason="unsure")
    about = any(one.matter.same_subject for one in now)
    return FactVerdict("UNKNOWN", reason="other_matter" if about else "no_fact")


def _may_differ(one: KnownFact) -> bool:
    """Whether a fact in the claim's language has another value, and the words or the verifier say that it is in its place."""
    conflict = one.matter.conflict
    return conflict is not None and one.matter.one_language and (conflict.plain or _contradiction(one) >= DOUBT)


def _best(asked: Sequence[KnownFact]) -> KnownFact | None:
    """The nearest fact; the earlier of equals."""
    return max(asked, key=lambda one: one.hit.score, default=None)


def _support(one: KnownFact) -> float:
    return one.judgement.score or 0.0


def _contradiction(one: KnownFact) -> float:
    return one.judgement.contradiction or 0.0


def _verdict(status: Status, one: KnownFact, reason: str) -> FactVerdict:
    fact, support, contradiction = one.hit.fact, _support(one), _contradiction(one)
    conflict = one.matter.conflict if status != "VALID" else None
    shown = conflict.shown if conflict else 0.0
    confidence = {"VALID": support, "INVALID": max(contradiction, shown)}.get(status, max(support, contradiction))
    detail = {
        "fact_source": fact.source,
        "subject": fact.subject,
        "score": round(one.hit.score, 4),
        "support": round(support, 4),
        "contradiction": round(contradiction, 4),
        "instead": (conflict.evidence if conflict else one.judgement.instead) if status != "VALID" else "",
        "conflict": conflict.kind if conflict else "",
        "differs": conflict.claim if conflict else "",
        "verifier": one.judgement.verifier,
    }
    correct = "" if status == "VALID" else fact.text
    return FactVerdict(
        status, round(confidence, 4), correct, fact.source, fact.id, reason, detail={k: v for k, v in detail.items() if v != ""}
    )
