"""What no form tells is put to the policy's judge, where there is one: did this call fail, does this message correct the agent?

In: a conversation as the rules read it. Out: the same, without what the judge denies and with what it affirms. A status, an exception's
name, a schema, a typed override or a count needs no judge; without an answer the rules' word stands. All questions of a turn go out in one
batch, and the judge remembers, so that a conversation that comes again costs nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from proxy.exchange import Tool
from proxy.grounding.judging.questions import correction_question, failed_question
from proxy.ports.failure_kinds import Failure
from proxy.ports.judge import JudgeQuestion, JudgeSession
from proxy.stages.reflection.conversation import AgentTurn, CalledTool
from proxy.stages.reflection.corrections import Correction, is_short
from proxy.stages.reflection.error_kinds import classify
from proxy.stages.reflection.failures import Outcomes, of_correction, of_result
from proxy.stages.reflection.history import Reading
from proxy.stages.reflection.result_text import is_sentence

MAX_ASKED = 16
"""Of what the rules found in a conversation, and of what they did not decide, each: the newest."""
MAX_CHARS = 1500
"""Of a message or a result, from its beginning."""
_EXACT = ("status", "exception", "retry_after_s", "score")
"""What a result's own fields say."""
_Pair = tuple[AgentTurn, AgentTurn]
"""A user's turn, and the assistant's before it."""


async def ask_judge(reading: Reading, tools: Sequence[Tool], judge: JudgeSession | None, *, corrects: bool = True) -> Reading:
    """`reading` as the judge would have it; `corrects` tells whether users' messages are asked about."""
    if judge is None:
        return reading
    pairs = [(turn, before) for before, turn in itertools.pairwise(reading.turns) if (before.role, turn.role) == ("assistant", "user")]
    objections = {failure.position: failure.code for failure in reading.corrections}
    rejections = [pair for pair in pairs if objections.get(pair[0].message) == "rejected"]
    others = [pair for pair in pairs if corrects and pair[0].message not in objections and is_short(pair[0].text)]
    doubted = [call for call, failure in reading.outcomes.failed if _by_wording(call, failure)]
    undecided = [call for call in reading.outcomes.succeeded if is_sentence(_text(call))]
    asked = [(call.cause, _of_call(call)) for calls in (doubted, undecided) for call in calls[-MAX_ASKED:]]
    asked += [(_cause(pair), _of_message(pair)) for some in (rejections, others) for pair in some[-MAX_ASKED:]]
    answers = await judge.answers([question for _, question in asked]) if asked else []
    said = {cause: answer.choice for (cause, _), answer in zip(asked, answers, strict=True)}
    return _with_answers(reading, tools, others, said)


def _with_answers(reading: Reading, tools: Sequence[Tool], others: Sequence[_Pair], said: Mapping[str, str]) -> Reading:
    results = reading.outcomes
    failed = [(call, failure) for call, failure in results.failed if said.get(call.cause) != "no"]
    failed += [(call, of_result(call, classify(_text(call)), tools)) for call in results.succeeded if said.get(call.cause) == "yes"]
    succeeded = [call for call in results.succeeded if said.get(call.cause) != "yes"]
    succeeded += [call for call, _ in results.failed if said.get(call.cause) == "no"]
    corrections = [failure for failure in reading.corrections if said.get(f"{failure.position}") != "no"]
    rejected = [pair for pair in others if said.get(_cause(pair)) == "yes"]
    corrections += [of_correction(Correction(kind="rejected", span=(0, len(turn.text))), turn, before) for turn, before in rejected]
    in_order = Outcomes(
        tuple(sorted(failed, key=lambda one: one[0].message)),
        tuple(sorted(succeeded, key=lambda call: call.message)),
    )
    return Reading(reading.turns, in_order, corrections)


def _by_wording(call: CalledTool, failure: Failure) -> bool:
    """Whether no more than a label tells that it failed: neither the client nor a field of JSON."""
    flagged = call.result is not None and (call.result.failed or call.result.text.lstrip()[:1] in ("{", "["))
    return failure.signal_type == "tool_error" and not flagged and not any(name in failure.observed_outcome for name in _EXACT)


def _of_call(call: CalledTool) -> JudgeQuestion:
    return failed_question(_text(call)[:MAX_CHARS], f"{call.tool}({call.arguments})"[:MAX_CHARS])


def _of_message(pair: _Pair) -> JudgeQuestion:
    turn, before = pair
    return correction_question(turn.text[:MAX_CHARS], before.text[:MAX_CHARS])


def _cause(pair: _Pair) -> str:
    return f"{pair[0].message}"


def _text(call: CalledTool) -> str:
    return call.result.text if call.result is not None else ""
