"""A judge that says what it was told, for tests: `proxy.testing` gives it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proxy.exchange import Exchange
from proxy.ports.judge import AskAbout, JudgeAnswer, JudgeQuestion


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
