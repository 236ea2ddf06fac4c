"""Does a piece contradict what the context says already? One call of the verifier for all pieces with the same context.

What a piece says of the user (what they like, where they live, what they may spend) is judged as the stage `clash` judges it, by the same
rules; a change of mind that is said as such contradicts nothing. All else is looked up in the existing context by its words: of the
statements that it speaks of, and does not say word by word, the nearest are judged, at most `MAX_CLAIMS` a piece. One that is contradicted
makes the consistency 0.0; else it is 1.0. Statements that share hardly a word with the context are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from proxy.exchange.judgements import Claim, Judgement
from proxy.grounding.clashes.detecting.judging import ClashDetector
from proxy.grounding.clashes.kinds import StatedPiece, Statement
from proxy.grounding.clashes.statements.cues import is_first_person
from proxy.grounding.clashes.statements.reading import read_piece, speaks_of_the_user
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.language.detection import language
from proxy.language.word_overlap import Vocabulary, content_words
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports import Verifier
from proxy.ports.judge import JudgeSession
from proxy.stages.validation.metrics.candidates import Candidate
from proxy.stages.validation.metrics.quality import Metric, failed, unmeasured

MIN_CONTRADICTION = 0.65
"""Calibrated probability from which a statement counts as contradicted: of supported statements 2.6% come that far on public development
rows and 5.3% on written ones, of contradicted ones 55% and 12%. ``python -m benchmarks.validation`` says what it finds, and how often it
finds a contradiction between texts that agree."""
VALUES_DIFFER = 0.2
"""So much less is enough where a number, date or name of the statement clearly stands as another one in the context."""
MIN_NEARNESS = 0.3
"""Share of a statement's content words, numbers apart, that the nearest part of the context must have to be compared with it. With 0.5 a
fifth fewer contradictions are found, with 0.2 hardly more, and half as many false ones again."""
MAX_CLAIMS = 3
EVIDENCE_CHARS = 300
"""Of existing context for one statement: two or three sentences, 11 ms."""
MAX_READ, MAX_READ_CHARS = 6, 4000
"""Sentences of a text that are read in full for what they say of the user, and characters of it in which they are looked for."""
MAX_CHARS = 200
"""Of a text in a metric's detail."""


class _Compared(Struct, frozen=True):
    """What of one piece is to be judged."""

    statements: tuple[str, ...] = ()
    note: str = ""
    """Why there is nothing."""
    language: str = ""


async def consistency_of(
    candidates: Sequence[Candidate],
    stated: Sequence[Sequence[str]],
    verifier: Verifier | None,
    *,
    min_contradiction: float = MIN_CONTRADICTION,
    judge: JudgeSession | None = None,
) -> list[Metric]:
    """One metric for each, in order; `stated` has the statements of each. A verifier that cannot judge is the metric's error."""
    found = [await _clashing(candidate) for candidate in candidates]
    open_ = [i for i, metric in enumerate(found) if metric is None]
    if verifier is None:
        return [metric or failed("no verifier") for metric in found]
    supported = await _supported([candidates[i] for i in open_], [stated[i] for i in open_], verifier, min_contradiction, judge)
    for i, metric in zip(open_, supported, strict=True):
        found[i] = metric
    return [metric for metric in found if metric is not None]


async def _clashing(candidate: Candidate) -> Metric | None:
    """The metric of a piece that says of the user what the existing context excludes; None for any other."""
    base, content = candidate.existing, candidate.content
    if base is None or not (new := await run_in_thread_if_large(LARGE, _of_the_user, content.text, content.origin, len(base.evidence))):
        return None
    hashes = {one.hash for one in new}  # a system message stands in the context that it is compared with
    every = await run_in_thread_if_large(
        LARGE, lambda: [s for i, one in enumerate(base.evidence) for s in _of_the_user(one.content, one.kind, i)]
    )
    old = {one.hash: one for one in every if one.hash not in hashes}
    detected = await ClashDetector().detect([*old.values(), *new], seen=old)
    clashes = [clash for clash in detected.clashes if not clash.update and {clash.older.hash, clash.newer.hash} & set(old)]
    if not clashes:
        return None
    entries = [_pair_entry(*((c.newer, c.older) if c.older.hash in old else (c.older, c.newer)), c.score) for c in clashes]
    reason = f"“{entries[0]['claim']}” contradicts “{entries[0]['evidence']}”"
    return Metric(0.0, detail={"compared": len(new), "contradicted": entries, "reason": reason})


def _pair_entry(new: Statement, old: Statement, score: float) -> dict[str, Any]:
    return {"claim": new.text[:MAX_CHARS], "probability": score, "evidence": old.text[:MAX_CHARS], "message": None, "instead": ""}


def _of_the_user(text: str, kind: str, position: int) -> list[Statement]:
    """What a text says of the user; nothing where it may be of somebody else. Other texts than the user's own have to name them."""
    own = kind == "user"
    if not own and (kind not in ("system", "memory") or not speaks_of_the_user(text)):
        return []
    piece = StatedPiece(text[:MAX_READ_CHARS], "user" if own else "memory", position)
    found = read_piece(piece, limit=MAX_READ).statements
    return [one for one in found if one.subject == "user" and (own or is_first_person(one.text) or speaks_of_the_user(one.text))]


async def _supported(
    candidates: Sequence[Candidate],
    stated: Sequence[Sequence[str]],
    verifier: Verifier,
    min_contradiction: float,
    judge: JudgeSession | None,
) -> list[Metric]:
    bases = [candidate.existing for candidate in candidates]
    chosen = await run_in_thread_if_large(LARGE, lambda: [_compared(base, texts) for base, texts in zip(bases, stated, strict=True)])
    found = [unmeasured(one.note) for one in chosen]
    least = max(0.0, min_contradiction - VALUES_DIFFER)
    grounder = Grounder(verifier, min_contradiction=least, budget_chars=EVIDENCE_CHARS, judge=judge, only_related=True)
    groups: dict[tuple[int, str], list[int]] = {}  # by context and language: so a piece's result is the same in any batch
    for i, one in enumerate(chosen):
        if one.statements:
            groups.setdefault((id(bases[i]), one.language), []).append(i)
    for (_, tongue), group in groups.items():
        base = bases[group[0]]
        assert base is not None
        claims = [Claim(text, 0, len(text)) for i in group for text in chosen[i].statements]
        answers = iter(await grounder.judge(claims, base, tongue=tongue))
        for i in group:
            found[i] = _metric([next(answers) for _ in chosen[i].statements], min_contradiction, tongue)
    return found


def _compared(base: EvidenceBase | None, statements: Sequence[str]) -> _Compared:
    """The statements to compare, or why there are none."""
    if base is None:
        return _Compared(note="no existing context")
    if not statements:
        return _Compared(note="states nothing")
    said = {_plain(sentence) for sentence in base.sentences}
    near = [(nearness(text, base), -i, text) for i, text in enumerate(statements) if _plain(text) not in said]
    chosen = tuple(text for score, _, text in sorted(near, reverse=True)[:MAX_CLAIMS] if score >= MIN_NEARNESS)
    if not chosen:
        return _Compared(note="the context says nothing about it")
    return _Compared(chosen, language=language(" ".join(statements)))


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def nearness(text: str, base: EvidenceBase) -> float:
    """The share of a statement's content words, numbers apart, that the part of the context nearest to it has."""
    wanted = [word for word in content_words(text) if not word[0].isdigit()]
    near = base.search(text, budget_chars=EVIDENCE_CHARS)
    return Vocabulary(near.text).coverage(wanted)


def _metric(judgements: Sequence[Judgement], min_contradiction: float, tongue: str) -> Metric:
    contradicted = [j for j in judgements if j.label == "contradicted" and _is_clear(j, min_contradiction, tongue)]
    detail: dict[str, Any] = {"compared": len(judgements)}
    if contradicted:
        worst = max(contradicted, key=lambda j: j.contradiction or 0.0)
        detail["contradicted"] = [_entry(j) for j in contradicted]
        detail["reason"] = (
            f"“{worst.claim.text[:MAX_CHARS]}” contradicts “{worst.evidence.text.strip()[:MAX_CHARS] if worst.evidence else ''}”"
        )
        return Metric(0.0, detail=detail)
    errors = [j.reason for j in judgements if j.label == "error"]
    return failed(errors[0] or "not_judged") if errors else Metric(1.0, detail=detail)


def _is_clear(judgement: Judgement, min_contradiction: float, tongue: str) -> bool:
    """Whether a contradiction is probable enough, for one with a value that differs or without."""
    if judgement.contradiction is None or judgement.contradiction >= min_contradiction or judgement.evidence is None:
        return True
    if judgement.decided_by == "judge":
        return True
    from proxy.grounding.values.consistency import differences  # 20 ms that a server without such a stage need not wait for

    return any(difference.evidence for difference in differences(judgement.claim.text, judgement.evidence.text, tongue))


def _entry(judgement: Judgement) -> dict[str, Any]:
    evidence = judgement.evidence
    return {
        "claim": judgement.claim.text[:MAX_CHARS],
        "probability": round(judgement.contradiction or 0.0, 3),
        "evidence": evidence.text.strip()[:MAX_CHARS] if evidence else "",
        "message": evidence.message_index if evidence else None,
        "instead": judgement.instead[:MAX_CHARS],
    }
