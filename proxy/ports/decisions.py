"""Questions put to a decision model, and its answers: one call, a probability for every possible answer.

The shapes that servers offer for it (``POST /v1/decisions``, ``POST /v1/systemone``) are alike in what they mean; here is that meaning,
without any shape's names. `proxy.wire.decisions` reads and writes the shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

YES_NO = ("yes", "no")
"""What may be answered to a predicate."""


class Question(Struct, frozen=True, kw_only=True):
    """One question over the state of a call."""

    name: str
    """Names the question in its call; letters, digits and ``_``."""
    kind: Literal["predicate", "choice", "score"] = "choice"
    instructions: str
    """What is asked, in words."""
    choices: tuple[str, ...] = ()
    """What may be answered, each once: of a choice its options, of a score its levels in ascending order; a predicate has none here."""
    descriptions: tuple[str, ...] = ()
    """What each possible answer means, in the order of `options`, "" for one that its name tells; empty where none is described."""

    @property
    def options(self) -> tuple[str, ...]:
        """The possible answers: the keys of `Answer.probabilities`."""
        return YES_NO if self.kind == "predicate" else self.choices


class Answer(Struct, frozen=True):
    """What became of one question."""

    probabilities: Mapping[str, float] = {}
    """For each of the question's options, 0 to 1, summing to one; empty where there is none that can be used."""
    problem: str = ""
    """Why there is none: ``refused``, ``missing``, ``not a number: …``, ``wrong names: …``, ``does not sum to one: …``, ``unasked: …``
    (its call failed, or has no room for it)."""


class Decision(Struct, frozen=True):
    """What one call brought."""

    answers: Mapping[str, Answer]
    """One for every question, by its name."""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    """By the provider's word, config.yaml or the list of prices; None where none of them knows."""


class DecisionModel(Protocol):
    """Asks a configured upstream that speaks one of the shapes; implemented in `proxy.upstreams.asking`."""

    async def decide(self, upstream: str, model: str, state: str, questions: Sequence[Question], *, timeout_s: float = 4.0) -> Decision:
        """Answers to `questions`, whose names differ, over `state`, in as many calls side by side as the upstream's limits ask for.

        `timeout_s` is for all of it, retries included. Raises `ProxyError`: the upstream is unknown, speaks no decisions, is unreachable,
        too slow, or answers with an error. Where some calls fail and others do not, the questions of those have a `problem` instead.
        """
