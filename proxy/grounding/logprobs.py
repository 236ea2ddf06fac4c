"""What a model's own token probabilities say about its answer.

In: the tokens of one choice with their log probabilities, as the upstream gave them. Out: the geometric mean of the probabilities (the
inverse of the perplexity), and where the model was least sure. These are the model's, not calibrated: they are reported beside the
measured support and do not replace it (Kadavath et al. 2022, arXiv 2207.05221, find that they tell more where a model is large).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from proxy.language.text import split_sentences

Tokens = Sequence[tuple[str, float]]


class AnswerLikelihood(Struct, frozen=True):
    """How sure a model was of a text."""

    probability: float
    """Geometric mean of its tokens' probabilities, 0 to 1."""
    lowest: float
    """The least probable token's probability."""
    start: int = 0
    """Characters of the choice's text before it."""
    end: int = 0


def of_answer(tokens: Tokens) -> AnswerLikelihood | None:
    """Over the whole answer; None without tokens."""
    return _likelihood(tokens, 0) if tokens else None


def by_sentence(tokens: Tokens, text: str) -> list[AnswerLikelihood]:
    """Over each sentence of `text`; empty where the tokens are not the text's (a tokenizer that shows bytes, an answer that was changed).

    A token that lies in two sentences counts for the one it starts in.
    """
    if not tokens or "".join(token for token, _ in tokens) != text:
        return []
    starts = list(accumulate((len(token) for token, _ in tokens), initial=0))
    found, start = [], 0
    for sentence in split_sentences(text):
        end = start + len(sentence)
        own = tokens[bisect_left(starts, start) : bisect_left(starts, end)]
        if own:
            found.append(_likelihood(own, start, end))
        start = end
    return found


def _likelihood(tokens: Tokens, start: int, end: int = 0) -> AnswerLikelihood:
    values = [min(0.0, value) for _, value in tokens]
    return AnswerLikelihood(
        math.exp(sum(values) / len(values)), math.exp(min(values)), start, end or start + sum(len(t) for t, _ in tokens)
    )
