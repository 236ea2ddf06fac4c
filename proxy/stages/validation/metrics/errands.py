"""Of a request that something be done somewhere, what is to be done: "Book flight to Paris" -> "Book flight". Pure.

A heading that shares nothing with such a request but the place ("Hotel recommendations Paris") is near it by its words and by its vector,
and does not help. So a heading is also held against the request without its place, and both count (`ERRAND_WEIGHT`). A whole text is not:
what is so in Paris, or at the customer whom a mail goes to, may be just what is needed.
"""

from __future__ import annotations

import re

from proxy.language.patterns import LazyPattern
from proxy.language.word_overlap import content_words

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
