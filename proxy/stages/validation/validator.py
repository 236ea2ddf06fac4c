"""Many pieces of content -> their `Quality`, in one pass of each model: the awaiting heart of the stage `validation` and of the library.

Relevance, accuracy and consistency are found side by side: the embedder and the verifier run in threads of their own. A model that is
missing or too slow makes its metric an error, and takes no other with it. A piece's result does not depend on the others in its batch.

Accuracy and consistency are what a piece states, against the knowledge base and against what the context says already.

    accuracy = VALID / (VALID + INVALID + SUSPICIOUS)

Of a piece's statements, those with numbers first, so many are looked up as `MAX_CLAIMS` says, in one call of the fact checker for all
pieces. What the knowledge base says nothing about (UNKNOWN) is not verifiable: it is left out, and counts neither as valid nor as false.
Where nothing is verifiable the accuracy is 1.0, marked as not measured.

Consistency is one call of the verifier for all pieces with the same context. What a piece says of the user (what they like, where they
live, what they may spend) is judged as the stage `clash` judges it, by the same rules; a change of mind that is said as such contradicts
nothing. All else is looked up in the existing context by its words: of the statements that it speaks of, and does not say word by word,
the nearest are judged, at most `MAX_COMPARED` a piece. One that is contradicted makes the consistency 0.0; else it is 1.0. Statements that
share hardly a word with the context are not compared.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import Claim, FactVerdict, Judgement
from proxy.grounding.claims.claims import ReadContent, read_content
from proxy.grounding.clashes.detector import ClashDetector
from proxy.grounding.clashes.kinds import Statement, TextPiece
from proxy.grounding.clashes.reading import is_first_person, read_piece, speaks_of_the_user
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.language.json.strings import parse_json
from proxy.language.words import Vocabulary, content_words
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports import Embedder, Verifier
from proxy.ports.deadline import within
from proxy.ports.judge import JudgeSession
from proxy.stages.validation.content import Candidate
from proxy.stages.validation.quality import (
    MAX_AGE_S,
    MIN_CONTRADICTION,
    Metric,
    MetricName,
    Quality,
    QualityThresholds,
    completeness,
    failed,
    freshness,
    quality_of,
    unmeasured,
)
from proxy.stages.validation.relevance import relevance_of

log = logging.getLogger("groundwire.validation")

MAX_CLAIMS = 4
"""Statements of one piece that are looked up: 3 ms each, and 10 to 20 ms for one that a fact speaks of."""
VALUES_DIFFER = 0.2
"""So much less is enough where a number, date or name of the statement clearly stands as another one in the context."""
MIN_NEARNESS = 0.3
"""Share of a statement's content words, numbers apart, that the nearest part of the context must have to be compared with it. With 0.5 a
fifth fewer contradictions are found, with 0.2 hardly more, and half as many false ones again."""
MAX_COMPARED = 3
EVIDENCE_CHARS = 300
"""Of existing context for one statement: two or three sentences, 11 ms."""
MAX_READ, MAX_READ_CHARS = 6, 4000
"""Sentences of a text that are read in full for what they say of the user, and characters of it in which they are looked for."""
MAX_STATEMENT_CHARS = 400
MAX_CHARS = 200
"""Of a text in a metric's detail."""


@runtime_checkable
class ChecksFacts(Protocol):
    """Who knows what is so: `proxy.grounding.knowledge.checking.KnowledgeChecker`, in an exchange its `knowledge`."""

    async def verify_many(self, claims: Sequence[str]) -> list[FactVerdict]:
        """One verdict for each claim, in order."""


class Models(Struct):
    """Who is asked; without one, what it would measure is not measured."""

    embedder: Embedder | None = None
    verifier: Verifier | None = None
    checker: ChecksFacts | None = None
    judge: JudgeSession | None = None
    """Asked over the verifier."""


async def validate(
    candidates: Sequence[Candidate],
    seen_at: Sequence[float],
    models: Models,
    *,
    thresholds: QualityThresholds | None = None,
    max_age_s: float | None = MAX_AGE_S,
    min_contradiction: float = MIN_CONTRADICTION,
    max_claims: int = MAX_CLAIMS,
    deadline_s: float | None = None,
) -> list[Quality]:
    """A quality for each, in order; `seen_at` is when each came, in seconds since the epoch. Cancelling it ends the work.

    Past `deadline_s` the metrics that are not there yet are errors. `max_age_s` is for pieces that do not say their own; `max_claims` are
    a piece's statements that the checker is asked about.
    """
    texts = [candidate.content.text for candidate in candidates]
    reading = asyncio.ensure_future(run_in_thread_if_large(LARGE, lambda: [read_content(text) for text in texts]))

    async def relevance() -> list[Metric]:
        return await relevance_of(candidates, models.embedder) if models.embedder else [failed("no embedder")] * len(texts)

    async def accuracy() -> list[Metric]:
        return await accuracy_of(await asyncio.shield(reading), models.checker, max_claims=max_claims)

    async def consistency() -> list[Metric]:
        read = await asyncio.shield(reading)
        return await consistency_of(candidates, read, models.verifier, min_contradiction=min_contradiction, judge=models.judge)

    work = (relevance(), accuracy(), consistency())
    measured = await asyncio.gather(*(_guard(one, len(texts), deadline_s) for one in work))
    found = []
    for candidate, seen, relevant, accurate, consistent in zip(candidates, seen_at, *measured, strict=True):
        content = candidate.content
        metrics: dict[MetricName, Metric] = {
            "relevance": relevant,
            "freshness": freshness(content.timestamp, seen, content.max_age_s or max_age_s),
            "accuracy": accurate,
            "completeness": completeness(content.required_fields, content.fields, parse_json(content.text), text=content.text),
            "consistency": consistent,
        }
        found.append(quality_of(metrics, thresholds))
    return found


async def _guard(work: Awaitable[list[Metric]], count: int, deadline_s: float | None) -> list[Metric]:
    try:
        async with within(deadline_s):
            return await work
    except TimeoutError:
        return [failed("timeout")] * count
    except ModelUnavailable as error:
        log.warning("validation goes on without a model: %s", error)
        return [failed("model_unavailable")] * count


# ---- accuracy ----


async def accuracy_of(read: Sequence[ReadContent], checker: ChecksFacts | None, *, max_claims: int = MAX_CLAIMS) -> list[Metric]:
    """One metric for each piece, in order."""
    if checker is None:
        return [unmeasured("no knowledge base", 1.0) for _ in read]
    stated = [_sentences(one) for one in read]
    chosen = [_numbers_first(sentences, max_claims) for sentences in stated]
    claims = list(dict.fromkeys(text for texts in chosen for text in texts))
    verdicts = dict(zip(claims, await checker.verify_many(claims), strict=True)) if claims else {}
    found = ([(text, verdicts[text]) for text in texts] for texts in chosen)
    return [_accuracy(one, len(sentences)) for one, sentences in zip(found, stated, strict=True)]


def _sentences(read: ReadContent) -> list[str]:
    """What is stated in words: numbers, codes and names in fields of a result are data, and state nothing that could be judged alone."""
    return [text for text in read.sentences if 0 < len(text) <= MAX_STATEMENT_CHARS]


def _numbers_first(sentences: Sequence[str], most: int) -> list[str]:
    """At most `most` of them, in order; those with a number come before the others."""
    ranked = sorted(range(len(sentences)), key=lambda i: (not any(c.isdigit() for c in sentences[i]), i))
    return [sentences[i] for i in sorted(ranked[:most])]


def _accuracy(found: Sequence[tuple[str, FactVerdict]], stated: int) -> Metric:
    statuses = [verdict.status for _, verdict in found]
    detail: dict[str, Any] = {status.lower(): statuses.count(status) for status in dict.fromkeys(statuses)}
    if stated > len(found):
        detail["not_looked_up"] = stated - len(found)
    if version := next((verdict.version for _, verdict in found if verdict.version), ""):
        detail["knowledge"] = version
    wrong = [(text, verdict) for text, verdict in found if verdict.status in ("INVALID", "SUSPICIOUS")]
    if "ERROR" in statuses and not wrong:
        return failed(next(verdict.reason for _, verdict in found if verdict.status == "ERROR") or "not_judged")
    valid = statuses.count("VALID")
    if not valid and not wrong:
        return Metric(1.0, measured=False, note="nothing verifiable", detail=detail)
    if wrong:
        text, verdict = wrong[0]
        known = f", known is “{verdict.correct_fact[:MAX_CHARS]}”" if verdict.correct_fact else ""
        detail |= {"wrong": [_wrong_entry(*one) for one in wrong], "reason": f"“{text[:MAX_CHARS]}”{known}"}
    return Metric(valid / (valid + len(wrong)), detail=detail)


def _wrong_entry(text: str, verdict: FactVerdict) -> dict[str, Any]:
    return {
        "claim": text[:MAX_CHARS],
        "status": verdict.status,
        "confidence": round(verdict.confidence, 3),
        "correct_fact": verdict.correct_fact[:MAX_CHARS],
        "source": verdict.source[:MAX_CHARS],
        "reason": verdict.reason,
    }


# ---- consistency ----


class _Comparison(NamedTuple):
    """What of one piece is to be judged by a context."""

    base: EvidenceBase
    statements: Sequence[str]
    language: str


async def consistency_of(
    candidates: Sequence[Candidate],
    read: Sequence[ReadContent],
    verifier: Verifier | None,
    *,
    min_contradiction: float = MIN_CONTRADICTION,
    judge: JudgeSession | None = None,
) -> list[Metric]:
    """One metric for each, in order. A verifier that cannot judge is the metric's error."""
    found = [await _clashing(candidate) for candidate in candidates]
    open_ = [i for i, metric in enumerate(found) if metric is None]
    if verifier is None:
        return [metric or failed("no verifier") for metric in found]
    chosen = await run_in_thread_if_large(LARGE, lambda: {i: _chosen(candidates[i].existing, read[i]) for i in open_})
    least = max(0.0, min_contradiction - VALUES_DIFFER)
    grounder = Grounder(verifier, min_contradiction=least, budget_chars=EVIDENCE_CHARS, judge=judge, only_related=True)
    groups: dict[tuple[int, str], list[int]] = {}  # by context and language: so a piece's result is the same in any batch
    for i, one in chosen.items():
        if isinstance(one, str):
            found[i] = unmeasured(one)
        else:
            groups.setdefault((id(one.base), one.language), []).append(i)
    for (_, tongue), group in groups.items():
        same = [one for i in group if not isinstance(one := chosen[i], str)]
        claims = [Claim(text, 0, len(text)) for one in same for text in one.statements]
        answers = iter(await grounder.judge(claims, same[0].base, tongue=tongue))
        for i, one in zip(group, same, strict=True):
            found[i] = _consistency([next(answers) for _ in one.statements], min_contradiction, tongue)
    return [metric for metric in found if metric is not None]


def _chosen(base: EvidenceBase | None, read: ReadContent) -> _Comparison | str:
    """The statements to compare, or why there are none."""
    statements = _sentences(read)
    if base is None:
        return "no existing context"
    if not statements:
        return "states nothing"
    sentences = {_plain(sentence) for sentence in base.sentences}
    near = [(nearness(text, base), -i, text) for i, text in enumerate(statements) if _plain(text) not in sentences]
    chosen = [text for score, _, text in sorted(near, reverse=True)[:MAX_COMPARED] if score >= MIN_NEARNESS]
    return _Comparison(base, chosen, read.language) if chosen else "the context says nothing about it"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def nearness(text: str, base: EvidenceBase) -> float:
    """The share of a statement's content words, numbers apart, that the part of the context nearest to it has."""
    wanted = [word for word in content_words(text) if not word[0].isdigit()]
    return Vocabulary(base.search(text, budget_chars=EVIDENCE_CHARS).text).coverage(wanted)


def _consistency(judgements: Sequence[Judgement], min_contradiction: float, tongue: str) -> Metric:
    contradicted = [j for j in judgements if j.label == "contradicted" and _is_clear(j, min_contradiction, tongue)]
    if contradicted:
        contradicted.sort(key=lambda j: -(j.contradiction or 0.0))
        return _contradiction_metric(len(judgements), [_contradiction_entry(j) for j in contradicted])
    errors = [j.reason for j in judgements if j.label == "error"]
    return failed(errors[0] or "not_judged") if errors else Metric(1.0, detail={"compared": len(judgements)})


def _is_clear(judgement: Judgement, min_contradiction: float, tongue: str) -> bool:
    """Whether a contradiction is probable enough, for one with a value that differs or without."""
    if judgement.contradiction is None or judgement.contradiction >= min_contradiction or judgement.evidence is None:
        return True
    if judgement.decided_by == "judge":
        return True
    from proxy.grounding.values.consistency import differences  # 20 ms that a server without such a stage need not wait for

    return any(difference.evidence for difference in differences(judgement.claim.text, judgement.evidence.text, tongue))


def _contradiction_metric(compared: int, entries: Sequence[dict[str, Any]]) -> Metric:
    """The gravest of `entries` first."""
    reason = f"“{entries[0]['claim']}” contradicts “{entries[0]['evidence']}”"
    return Metric(0.0, detail={"compared": compared, "contradicted": list(entries), "reason": reason})


def _contradiction_entry(judgement: Judgement) -> dict[str, Any]:
    evidence = judgement.evidence
    return {
        "claim": judgement.claim.text[:MAX_CHARS],
        "probability": round(judgement.contradiction or 0.0, 3),
        "evidence": evidence.text.strip()[:MAX_CHARS] if evidence else "",
        "message": evidence.message_index if evidence else None,
        "instead": judgement.instead[:MAX_CHARS],
    }


# ---- what is said of the user ----


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
    pairs = [(clash, *((clash.newer, clash.older) if clash.older.hash in old else (clash.older, clash.newer))) for clash in clashes]
    entries = [
        {"claim": mine.text[:MAX_CHARS], "probability": clash.score, "evidence": other.text[:MAX_CHARS], "message": None, "instead": ""}
        for clash, mine, other in pairs
    ]
    return _contradiction_metric(len(new), entries) if entries else None


def _of_the_user(text: str, kind: str, position: int) -> list[Statement]:
    """What a text says of the user; nothing where it may be of somebody else. Other texts than the user's own have to name them."""
    own = kind == "user"
    if not own and (kind not in ("system", "memory") or not speaks_of_the_user(text)):
        return []
    piece = TextPiece(text[:MAX_READ_CHARS], "user" if own else "memory", position)
    found = read_piece(piece, limit=MAX_READ).statements
    return [one for one in found if own or is_first_person(one.text) or speaks_of_the_user(one.text)]
