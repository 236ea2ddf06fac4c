"""How probable is it that pieces help with their questions? One call of the embedder for all of them.

The probability is that of the relevance guard (`proxy.grounding.relevance_scoring`): calibrated on passages, at even odds before. A piece
is read in windows of whole sentences, at most `MAX_WINDOWS` of them, those with most of the question's words. Of several readings of what
was asked, and of what the piece was fetched for, the best counts.

A heading that shares nothing with a request but the place ("Book flight to Paris", "Hotel recommendations Paris") is near it by its words
and by its vector, and does not help. So a heading is also held against the request without its place, and both count (`ERRAND_WEIGHT`). A
whole text is not: what is so in Paris, or at the customer whom a mail goes to, may be just what is needed.

At 0.7, of XQuAD's and ClapNQ's passages that answer the question 85 to 93% pass, 14 to 22% of those on the same subject that do not, and
none of another article's (``python -m benchmarks.validation``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from proxy.context.question import MAX_CHARS, find_question
from proxy.grounding import relevance_scoring as scoring
from proxy.language.patterns import LazyPattern
from proxy.language.words import content_words
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports import Embedder
from proxy.stages.validation.content import Candidate
from proxy.stages.validation.quality import Metric, unmeasured

MAX_WINDOWS = 2
"""Of one piece and one reading: 16 ms each when full."""
_LARGE_CHARS = 40_000
"""From here on, cutting and counting words leaves the event loop."""
ERRAND_WEIGHT = 0.7
"""Of the request without its place, in the mean of the two logits. Chosen on 35 headings for nine errands in four languages, so that none
that shares only the place reaches 0.7, and none that fits falls below it. Of eight other pairs (`tests/stages/validation/errands.tsv`), on
which it was not chosen, all come out right, without it none.
"""
MAX_REQUEST_WORDS, MAX_HEADING_WORDS = 9, 8
_NAME = r"[A-ZÀ-ÖØ-Þ][\w'’-]{0,40}"
_PLACE = LazyPattern(
    rf"(?:\b(?i:to|in|at|near|from|around|nach|im|am|bei|aus|von|a|en|desde|hasta|de|à|dans|depuis|vers)|\b(?i:près de|cerca de)"
    rf"|\b(?i:d)['’])\s{{0,2}}(?:(?i:the|la|el|le|los|las|les|der|die|das|dem) )?{_NAME}(?:[ -](?:{_NAME}|de|del|am)){{0,3}}"
    r"|\b(?:in|at|near) (?:the |my |our )?[a-z]{3,30}$"
)
_ASKS = re.compile(
    r"[?？:\n]|\W{0,2}(?:who|what|when|where|why|how|which|wer|was|wann|wo|warum|wie|qué|quién|qui|que|quand|où|comment)\b", re.I
)
_SENTENCE = re.compile(r"[.!?;:\n{\[<\d]")


def readings_of(query: str | None) -> tuple[tuple[str, ...], str]:
    """The readings of a question, or why there is none."""
    if query is None or not query.strip():
        return (), "no query"
    question = find_question([{"role": "user", "content": query[-MAX_CHARS:]}])
    return question.readings, question.reason


class _Cut(NamedTuple):
    """A reading of what was asked, and a piece's windows for it."""

    reading: str
    windows: list[scoring.Window]


async def relevance_of(candidates: Sequence[Candidate], embedder: Embedder) -> list[Metric]:
    """One metric for each, in order. Raises `ModelUnavailable`."""
    large = sum(len(candidate.content.text) for candidate in candidates) > _LARGE_CHARS
    cuts = await run_in_thread_if_large(LARGE if large else 0, lambda: [_cut(candidate) for candidate in candidates])
    every = [cut for readings in cuts for same in readings for cut in same]
    texts = list(dict.fromkeys(text for cut in every for text in (cut.reading, *(window.text for window in cut.windows))))
    vectors = await embedder.embed(texts) if texts else None
    row = {text: i for i, text in enumerate(texts)}

    def scored(cut: _Cut) -> scoring.PassageScore:
        assert vectors is not None
        return scoring.score(vectors[row[cut.reading]], cut.windows, vectors[[row[w.text] for w in cut.windows]]).ranked[0]

    return [
        _metric([_together([scored(cut) for cut in same]) for same in readings], len(candidate.questions))
        if readings
        else unmeasured(candidate.unasked or ("no text" if candidate.questions or candidate.content.purposes else "no query"))
        for candidate, readings in zip(candidates, cuts, strict=True)
    ]


def _cut(candidate: Candidate) -> list[list[_Cut]]:
    """For each reading its windows, and of a heading those for the reading's errand behind them; nothing of what says nothing."""
    text, found = candidate.content.text, list[list[_Cut]]()
    if candidate.unasked or not text.strip():
        return found
    for reading in (*candidate.questions, *candidate.content.purposes):
        errand = without_place(reading) if is_heading(text) else ""
        words = len(content_words(reading))  # an errand leaves no more unsaid than the whole that it is a part of
        cuts = [_Cut(one, scoring.cut(one, [text], MAX_WINDOWS)) for one in (reading, errand) if one]
        found.append([_Cut(cut.reading, [replace(window, question_words=words) for window in cut.windows]) for cut in cuts])
    return found


def _together(scores: Sequence[scoring.PassageScore]) -> scoring.PassageScore:
    """Of a reading, and of its errand, where it has one."""
    whole, *errand = scores
    return replace(whole, logit=whole.logit + ERRAND_WEIGHT * (errand[0].logit - whole.logit)) if errand else whole


def _metric(scores: Sequence[scoring.PassageScore], questions: int) -> Metric:
    """Of the best score; the first `questions` of them are by readings of the question, the others by what it was fetched for."""
    best = max(range(len(scores)), key=lambda i: scores[i].logit)
    found = scores[best]
    detail = {"by": "question" if best < questions else "purpose", "cosine": round(found.cosine, 3), "coverage": round(found.coverage, 3)}
    return Metric(found.probability, detail=detail)


# ---- errands ----


def without_place(request: str) -> str:
    """The request without its places; "" where it is none, names no place, or nothing would be left."""
    text = request.strip().rstrip(".!")
    if len(text.split()) > MAX_REQUEST_WORDS or _ASKS.search(text):
        return ""
    errand = " ".join(_PLACE.sub(" ", text).split())
    return errand if errand != text and content_words(errand) else ""


def is_heading(text: str) -> bool:
    """Whether a text only names a subject: a few words, no sentence, no data."""
    return len(text.split()) <= MAX_HEADING_WORDS and _SENTENCE.search(text.strip()) is None
