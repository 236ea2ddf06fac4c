"""What a verifier says of a claim and each fact -> the verdict on the claim. Pure; `proxy.exchange.fact_checks` says what each means."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from proxy.exchange.fact_checks import FactVerdict, Status
from proxy.exchange.judgements import Judgement
from proxy.grounding.knowledge.subjects import FactMatter
from proxy.ports.facts import FactHit

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


class Asked(Struct, frozen=True):
    """A fact that the verifier was asked about."""

    hit: FactHit
    matter: FactMatter
    judgement: Judgement
    holds: bool
    """Whether it holds now."""


def decide(asked: Sequence[Asked], min_support: float, min_contradiction: float) -> FactVerdict:
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
    return _undecided(now)


def _bears_on(one: Asked) -> bool:
    """Whether a fact is of the claim's subject, and lacks none of its numbers, dates, units and names."""
    same = one.matter.same_subject or (one.matter.likely_subject and not one.matter.one_language)
    return same and not one.matter.lacks


def _speaks_against(one: Asked, min_support: float, min_contradiction: float) -> bool:
    """Whether a fact says something else in the place of the claim's words, or the verifier has hardly a doubt that it does."""
    if one.matter.conflict is not None and one.matter.conflict.shown:
        return True
    if _support(one) >= min_support:
        return False
    if one.matter.conflict is not None:
        return _contradiction(one) >= min_contradiction
    return one.matter.same_matter and one.matter.settles and _contradiction(one) >= max(READ, min_contradiction)


def _undecided(now: Sequence[Asked]) -> FactVerdict:
    """Doubtful is only what conflicts with a fact in its own language; what the facts merely do not say is not known."""
    if (differing := _best([one for one in now if _may_differ(one)])) is not None:
        return _verdict("SUSPICIOUS", differing, "values_differ")
    if any(one.matter.same_matter and one.matter.settles and max(_support(one), _contradiction(one)) >= DOUBT for one in now):
        return FactVerdict("UNKNOWN", reason="unsure")
    about = any(one.matter.same_subject for one in now)
    return FactVerdict("UNKNOWN", reason="other_matter" if about else "no_fact")


def _may_differ(one: Asked) -> bool:
    """Whether a fact in the claim's language has another value, and the words or the verifier say that it is in its place."""
    conflict = one.matter.conflict
    return conflict is not None and one.matter.one_language and (conflict.plain or _contradiction(one) >= DOUBT)


def _best(asked: Sequence[Asked]) -> Asked | None:
    """The nearest fact; the earlier of equals."""
    return max(asked, key=lambda one: one.hit.score, default=None)


def _support(one: Asked) -> float:
    return one.judgement.score or 0.0


def _contradiction(one: Asked) -> float:
    return one.judgement.contradiction or 0.0


def _verdict(status: Status, one: Asked, reason: str) -> FactVerdict:
    fact, support, contradiction = one.hit.fact, _support(one), _contradiction(one)
    shown = one.matter.conflict.shown if one.matter.conflict else 0.0
    confidence = {"VALID": support, "INVALID": max(contradiction, shown)}.get(status, max(support, contradiction))
    conflict = one.matter.conflict
    detail = {
        "fact_source": fact.source,
        "subject": fact.subject,
        "score": round(one.hit.score, 4),
        "support": round(support, 4),
        "contradiction": round(contradiction, 4),
        "instead": (conflict.evidence if conflict else one.judgement.instead) if status != "VALID" else "",
        "conflict": conflict.kind if conflict and status != "VALID" else "",
        "differs": conflict.claim if conflict and status != "VALID" else "",
        "verifier": one.judgement.verifier,
    }
    correct = "" if status == "VALID" else fact.text
    return FactVerdict(
        status, round(confidence, 4), correct, fact.source, fact.id, reason, detail={k: v for k, v in detail.items() if v != ""}
    )
