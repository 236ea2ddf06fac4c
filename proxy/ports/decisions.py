"""Questions put to a decision model, and its answers: one call, a probability for every possible answer.

The two shapes that servers offer for it (``POST /v1/decisions`` and ``POST /v1/systemone``) are alike in what they mean; here is that
meaning, without either's names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct


class Question(Struct, frozen=True, kw_only=True):
    """One question over the state of a call."""

    name: str
    """Names the question in its call; letters, digits and ``_``."""
    kind: Literal["predicate", "choice", "score"] = "choice"
    instructions: str
    """What is asked, in words."""
    choices: tuple[str, ...] = ()
    """What may be answered: of a choice its options, of a score its levels in ascending order; a predicate's are ``yes`` and ``no``."""


class Answer(Struct, frozen=True):
    """What became of one question."""

    probabilities: Mapping[str, float] = {}
    """For each possible answer, 0 to 1, summing to one; empty where there is none that can be used."""
    problem: str = ""
    """Why there is none: ``refused: …``, ``missing``, ``not a number``, ``does not sum to one``."""


class Decision(Struct, frozen=True):
    """What one call brought."""

    answers: Mapping[str, Answer]
    """One for every question, by its name."""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    """By the provider's word or the list of prices; None where neither is known."""


class DecisionModel(Protocol):
    """Asks a configured upstream that speaks one of the two shapes."""

    async def decide(self, upstream: str, model: str, state: str, questions: Sequence[Question], *, timeout_s: float = 4.0) -> Decision:
        """Answers to `questions` over `state`, in as many calls as the shape's limits ask for.

        Raises `ProxyError`: the upstream is unknown, unreachable, too slow, or answers with an error.
        """
