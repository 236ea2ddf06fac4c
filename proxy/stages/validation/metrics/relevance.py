"""How probable is it that pieces help with their questions? One call of the embedder for all of them.

The probability is that of the relevance guard (`proxy.grounding.relevance.scoring`): calibrated on passages, at even odds before. A piece
is read in windows of whole sentences, at most `MAX_WINDOWS` of them, those with most of the question's words. Of several readings of what
was asked, and of what the piece was fetched for, the best counts. A heading is also held against what is to be done
(`proxy.stages.validation.metrics.errands`).

At 0.7, of XQuAD's and ClapNQ's passages that answer the question 85 to 93% pass, 14 to 22% of those on the same subject that do not, and
none of another article's (``python -m benchmarks.validation``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from proxy.context.question import MAX_CHARS, find_question
from proxy.grounding.relevance import scoring
from proxy.language.word_overlap import content_words
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports import Embedder
from proxy.stages.validation.metrics.candidates import Candidate
from proxy.stages.validation.metrics.errands import ERRAND_WEIGHT, is_heading, without_place
from proxy.stages.validation.metrics.quality import Metric, unmeasured

MAX_WINDOWS = 2
"""Of one piece and one reading: 16 ms each when full."""
_LARGE_CHARS = 40_000
"""From here on, cutting and counting words leaves the event loop."""


def readings_of(query: str | None) -> tuple[tuple[str, ...], str]:
    """The readings of a question, or why there is none."""
    if query is None or not query.strip():
        return (), "no query"
    question = find_question([{"role": "user", "content": query[-MAX_CHARS:]}])
    return question.readings, question.reason


async def relevance_of(candidates: Sequence[Candidate], embedder: Embedder) -> list[Metric]:
    """One metric for each, in order. Raises `ModelUnavailable`."""
    asked = [i for i, candidate in enumerate(candidates) if _readings(candidate) and candidate.content.text.strip()]
    found = [unmeasured(_unasked(candidate)) for candidate in candidates]
    if not asked:
        return found
    large = sum(len(candidates[i].content.text) for i in asked) > _LARGE_CHARS
    every = [candidates[i] for i in asked]
    windows = await run_in_thread_if_large(LARGE if large else 0, _cut, every)
    texts = list(
        dict.fromkeys(text for cuts in windows for c in cuts for cut in c for text in (cut.reading, *(w.text for w in cut.windows)))
    )
    vectors = await embedder.embed(texts)
    row = {text: i for i, text in enumerate(texts)}

    def scored(cut: _Cut) -> scoring.PassageScore:
        return scoring.score(vectors[row[cut.reading]], cut.windows, vectors[[row[w.text] for w in cut.windows]]).ranked[0]

    for i, cuts in zip(asked, windows, strict=True):
        scores = [_together([scored(cut) for cut in same]) for same in cuts if same[0].windows]
        found[i] = _metric(scores, len(candidates[i].questions)) if scores else unmeasured("no text")
    return found


class _Cut(NamedTuple):
    """A reading of what was asked, and a piece's windows for it."""

    reading: str
    windows: list[scoring.Window]


def _readings(candidate: Candidate) -> tuple[str, ...]:
    return () if candidate.unasked else (*candidate.questions, *candidate.content.purposes)


def _unasked(candidate: Candidate) -> str:
    return candidate.unasked or ("no text" if _readings(candidate) else "no query")


def _cut(candidates: Sequence[Candidate]) -> list[list[list[_Cut]]]:
    """For each candidate and reading the windows, and of a heading those for the reading's errand behind them."""
    found = []
    for candidate in candidates:
        text = candidate.content.text
        heading = is_heading(text)
        readings = [[reading, *filter(None, [without_place(reading) if heading else ""])] for reading in _readings(candidate)]
        found.append([[_Cut(one, _windows(one, same[0], text)) for one in same] for same in readings])
    return found


def _windows(reading: str, whole: str, text: str) -> list[scoring.Window]:
    """For a reading, or for an errand that is a part of a `whole` one: it leaves no more unsaid than that."""
    words = len(content_words(whole))
    return [replace(window, question_words=words) for window in scoring.cut(reading, [text], MAX_WINDOWS)]


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
