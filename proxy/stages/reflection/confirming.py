"""What only wording says to be a failure is put to the policy's judge, where there is one: did this call fail, does this message correct?

In: a history as rules read it. Out: the same, without what the judge denies. A status, an exception's name, a schema or a count needs no
judge; without an answer the rules' word stands. The judge remembers, so that a conversation that comes again costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from proxy.grounding.judging.questions import correction_question, failed_question
from proxy.ports.failure_kinds import Failure
from proxy.ports.judge import JudgeQuestion, JudgeSession
from proxy.stages.reflection.failures.history import FailureHistory
from proxy.stages.reflection.failures.steps import calls_in

MAX_ASKED = 8
"""Failures of a conversation that are asked about, the newest."""
MAX_CHARS = 1500
"""Of a message or a result, from its beginning."""
_EXACT = ("status", "exception", "retry_after_s", "pointer", "score")
"""What a result's own fields say."""


async def confirmed(history: FailureHistory, judge: JudgeSession | None) -> FailureHistory:
    """Without what the judge says is none."""
    if judge is None:
        return history
    called = ((call, call.result) for call in calls_in(history.turns))
    results = {call.cause: (f"{call.tool}({call.arguments})", result.text) for call, result in called if result is not None}
    said = {turn.message: turn.text for turn in history.turns}
    questions = [(i, question) for i, failure in enumerate(history.failures) if (question := _question(failure, results, said)) is not None]
    asked = questions[-MAX_ASKED:]
    answers = await judge.answers([question for _, question in asked])
    denied = {i for (i, _), answer in zip(asked, answers, strict=True) if answer.choice == "no"}
    if not denied:
        return history
    return replace(history, failures=tuple(failure for i, failure in enumerate(history.failures) if i not in denied))


def _question(failure: Failure, results: Mapping[str, tuple[str, str]], said: Mapping[int, str]) -> JudgeQuestion | None:
    """None where more than wording tells."""
    if failure.signal_type == "human_correction" and failure.code == "rejected":
        before = said.get(failure.attempted_action.get("message", -1), "")
        return correction_question(said.get(failure.position, "")[:MAX_CHARS], before[:MAX_CHARS])
    if failure.signal_type == "tool_error" and failure.cause in results and not any(name in failure.observed_outcome for name in _EXACT):
        call, result = results[failure.cause]
        return failed_question(result[:MAX_CHARS], call[:MAX_CHARS])
    return None
