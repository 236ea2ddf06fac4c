"""A judge: questions about texts, answered with probabilities.

Every stage that asks something of meaning asks it here: does the evidence support this statement, can these passages answer this question,
can both of two statements be true. What is exact (the same words, another value in a row's place, a calculation) is decided before, by
whoever asks; what the models of this process think is theirs, too. A `Judge` is the one that the policy's ``judge:`` names, and is asked
over them: about what they are unsure of, or about everything that nothing exact decides. Where it gives no answer, theirs stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from proxy.exchange import Exchange

AskAbout = Literal["unsure", "all"]


class JudgeQuestion(Struct, frozen=True, kw_only=True):
    """One question. Those of a call do not see each other's evidence."""

    purpose: str
    """What it is asked for, as ``support`` or ``relevance``: for the record; questions of one purpose have one wording."""
    kind: Literal["choice", "predicate", "score"] = "choice"
    instructions: str
    """What is asked, in words; the same for all questions of its purpose."""
    choices: tuple[str, ...]
    """What may be answered; of a predicate ``yes`` and ``no``, of a score its levels in ascending order."""
    statement: str
    """What is asked about."""
    evidence: tuple[str, ...]
    """What it is to be answered by, in numbered pieces."""
    language: str = "en"
    """Of the statement, ISO 639-1."""


class JudgeAnswer(Struct, frozen=True):
    """What became of one question."""

    probabilities: Mapping[str, float] = {}
    """By choice, summing to one; empty where there is none that can be used."""
    choice: str = ""
    """The choice that is probable enough to count; "" where the judge is unsure."""
    by: str = ""
    """Who answered: ``UPSTREAM/MODEL``, ``builtin@1``."""
    reason: str = ""
    """What a judge that can speak says to it."""
    cached: bool = False
    """Whether it was known already."""
    problem: str = ""
    """Why there is no answer."""


class JudgeSession(Protocol):
    """A judge at the service of one stage in one exchange: what it is asked and what that cost goes into the exchange's record."""

    @property
    def name(self) -> str:
        """``UPSTREAM/MODEL``."""

    @property
    def ask(self) -> AskAbout:
        """What it is to be asked about."""

    async def answers(self, questions: Sequence[JudgeQuestion], timeout_s: float | None = None) -> list[JudgeAnswer]:
        """One for each question, in order. Never raises for a judge that is away, too slow or too dear: then there is a `problem`."""

    def ahead(self, questions: Sequence[JudgeQuestion], timeout_s: float | None = None) -> None:
        """Begin to ask what will be asked for in a moment; `answers` then waits for the same call."""

    def join(self) -> None:
        """Work has begun that may end in questions: those of all who have joined go out together, as soon as each has asked or left."""

    def leave(self) -> None:
        """That work has ended."""

    def close(self) -> None:
        """Nobody waits for its answers any more."""


class Judge(Protocol):
    """Whom a policy asks; implemented in `proxy.grounding.judging.judges`."""

    @property
    def local_model(self) -> str:
        """What `ports.verifiers.get` is to be asked for: whose word stands where nobody else is asked. "" is the built-in one."""

    def session(self, exchange: Exchange, stage: str) -> JudgeSession | None:
        """For one stage in one exchange; None where the models of this process judge alone."""


class Builtin:
    """The models of this process, and nobody else: implements `Judge`."""

    def __init__(self, local_model: str = "") -> None:
        self.local_model = local_model

    def session(self, exchange: Exchange, stage: str) -> JudgeSession | None:
        """Implements `Judge`."""
        return None
