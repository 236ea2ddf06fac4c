"""Models that say what a test wants: a decision model and a judge, as ports without a network, and a knowledge base in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from proxy.exchange import Exchange
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.knowledge.reading import make_fact
from proxy.grounding.knowledge.retrieval import first_that_holds, sayings
from proxy.ports.decisions import Answer, Decision, Question
from proxy.ports.facts import Fact, FactHit, normalised
from proxy.ports.judge import AskAbout, JudgeAnswer, JudgeQuestion

Judge = Callable[[str, Question], Answer]
"""State and question -> its answer; one without probabilities is a refusal."""


def evenly(state: str, question: Question) -> Answer:
    """A model that knows nothing: every possible answer is as likely as the others."""
    return Answer(dict.fromkeys(question.options, 1 / len(question.options)))


@dataclass
class ScriptedDecisions:
    """A `proxy.ports.decisions.DecisionModel` that answers as its `judge` does, or raises its `failure`, and keeps what it was asked."""

    judge: Judge = evenly
    failure: Exception | None = None
    usd: float | None = None
    """Of one call."""
    asked: list[tuple[str, str, str, tuple[Question, ...]]] = field(default_factory=list)
    """Upstream, model, state and questions of every call, in order."""

    async def decide(self, upstream: str, model: str, state: str, questions: Sequence[Question], *, timeout_s: float = 4.0) -> Decision:
        """Implements `DecisionModel`; a word is a token."""
        self.asked.append((upstream, model, state, tuple(questions)))
        if self.failure is not None:
            raise self.failure
        return judged(self.judge, state, questions, self.usd)


def judged(judge: Judge, state: str, questions: Sequence[Question], usd: float | None = None) -> Decision:
    """What `judge` says of each question; a word is a token."""
    words = len(state.split()) + sum(len(question.instructions.split()) for question in questions)
    return Decision({question.name: judge(state, question) for question in questions}, words, 0, usd)


class ScriptedJudge:
    """Implements `proxy.ports.judge.Judge` and `JudgeSession`."""

    name = "scripted/judge"
    local_model = ""

    def __init__(self, script: Callable[[JudgeQuestion], str], ask: AskAbout = "unsure") -> None:
        """`script` names the choice that a question is answered with, at a probability of 0.9; "" is no answer."""
        self._script, self.ask = script, ask
        self.asked: list[list[JudgeQuestion]] = []
        """Every batch, in order."""

    def session(self, exchange: Exchange, stage: str) -> ScriptedJudge:
        """Implements `Judge`."""
        return self

    async def answers(self, questions: Sequence[JudgeQuestion], timeout_s: float | None = None) -> list[JudgeAnswer]:
        """Implements `JudgeSession`."""
        if questions:
            self.asked.append(list(questions))
        return [self._answer(question) for question in questions]

    def _answer(self, question: JudgeQuestion) -> JudgeAnswer:
        choice = self._script(question)
        if not choice:
            return JudgeAnswer(by=self.name, problem="away")
        rest = 0.1 / (len(question.choices) - 1)
        return JudgeAnswer({one: 0.9 if one == choice else rest for one in question.choices}, choice, self.name, "So it is.")

    def ahead(self, questions: Sequence[JudgeQuestion], timeout_s: float | None = None) -> None:
        """Implements `JudgeSession`."""

    def join(self) -> None:
        """Implements `JudgeSession`."""

    def leave(self) -> None:
        """Implements `JudgeSession`."""

    def close(self) -> None:
        """Implements `JudgeSession`."""


class MemoryKnowledge:
    """Facts, or statements to make facts of. A fact's score for a text is the share of the text's terms that it has."""

    version = "memory@1"

    def __init__(self, *facts: Fact | str) -> None:
        self.facts = [make_fact("", fact, "facts.csv") if isinstance(fact, str) else fact for fact in facts]
        self.searched: list[str] = []
        """Every text that was looked for, in order."""
        self.failure: Exception | None = None
        """Raised instead of an answer, when set."""

    @property
    def size(self) -> int:
        """How many facts it has."""
        return len(self.facts)

    def get(self, folder: str) -> MemoryKnowledge:
        """Implements `proxy.ports.KnowledgeBases`: the same for every folder."""
        return self

    async def current(self) -> MemoryKnowledge:
        """Implements `proxy.ports.KnowledgeBase`."""
        if self.failure is not None:
            raise self.failure
        return self

    async def search(self, texts: Sequence[str], *, k: int = 5) -> list[list[FactHit]]:
        """Implements `proxy.ports.KnowledgeBase`."""
        if self.failure is not None:
            raise self.failure
        self.searched += texts
        return [self._search(text, k) for text in texts]

    async def exact(self, texts: Sequence[str]) -> list[Fact | None]:
        """Implements `proxy.ports.KnowledgeBase`."""
        said = {text: [fact for fact in self.facts if normalised(text) in sayings(fact)] for text in texts}
        return [first_that_holds(said[text], time.time()) for text in texts]

    def _search(self, text: str, k: int) -> list[FactHit]:
        wanted = set(terms(text))
        hits = [FactHit(fact, len(wanted & set(terms(fact.text))) / max(1, len(wanted))) for fact in self.facts]
        return sorted((hit for hit in hits if hit.score > 0), key=lambda hit: -hit.score)[:k]
