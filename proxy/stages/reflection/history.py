"""A conversation as what happened to failures in it: which occurred, which were overcome. Pure; the same conversation gives the same.

Every request brings its whole conversation, so all of it is read each time, and each event carries a cause by which the store knows it
again. What counts as overcoming depends on the failure:

    a failing call          the same call succeeds, or one that does what was recommended (less, in other words, with another argument, with
                            another tool): resolved; another call of the tool succeeds, something is changed, or a person speaks: progress
    a loop of calls         a call that is not part of it succeeds: resolved; a person speaks: progress
    a rejection             the person's next words are none: resolved; an explicit override stands for the rest of the run
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property

from msgspec import Struct

from proxy.context.tool_results.error_kinds import classify
from proxy.context.tool_results.names import changes
from proxy.context.tool_results.result_text import is_sentence
from proxy.context.tool_results.turns import AgentTurn, CalledTool, calls_in, read_turns
from proxy.exchange import Message, Tool, tool_name
from proxy.grounding.judging.questions import correction_question, failed_question
from proxy.language.json.conformance import check_call
from proxy.language.json.fingerprint import identifier
from proxy.ports.failures import EventKind, Failure, FailureEvent, FailureRecord
from proxy.ports.judge import JudgeQuestion, JudgeSession
from proxy.stages.reflection.adjustments import another_item, follows
from proxy.stages.reflection.corrections import Correction, corrections, is_short, of_correction
from proxy.stages.reflection.failures import Outcomes, of_result, of_violation, outcomes
from proxy.stages.reflection.loops import STALL_AFTER, find_loops, of_loop
from proxy.stages.reflection.records import Situation

RECENT_TURNS = 3
"""Assistant turns whose failures count as the present situation."""
MAX_EVENTS = 400
"""Of one conversation, the newest."""
MAX_RECENT = 16
MAX_FOLLOWING = 8
"""Calls of a tool after a failing one that are asked whether they do what was recommended."""
UNMOVED = ("permission_denied", "missing_pointer", "rate_limited")
"""Codes of failures that nothing the agent changes can help."""
MAX_LISTS = 4
"""Texts before a failing call, of the user and of tools, in which the next of a list may stand beside what failed."""
MAX_CHECKED = 64
"""Failing calls that are held against the tools' schemas, the newest."""


class Reading(Struct, frozen=True):
    """What the rules, and the policy's judge, have read in one conversation."""

    turns: Sequence[AgentTurn]
    outcomes: Outcomes
    corrections: Sequence[Failure]
    """What users objected to."""


class FailureHistory(Struct, frozen=True, dict=True):
    """What one conversation shows."""

    turns: Sequence[AgentTurn]
    outcomes: Outcomes
    failures: tuple[Failure, ...]
    """In the order in which they came to light."""
    tools: tuple[str, ...]
    """Names of the tools that are offered now."""

    @cached_property
    def events(self) -> list[FailureEvent]:
        """In order."""
        return _Progress(self).events()[-MAX_EVENTS:]

    @cached_property
    def newest(self) -> list[Failure]:
        """The failures that came to light since the assistant last spoke, and with its last words: what the next step has to deal with."""
        last = self._assistant(1)
        return [failure for failure in self.failures if failure.position >= last]

    @cached_property
    def newest_successes(self) -> list[CalledTool]:
        """The calls of the last step that succeeded."""
        last = self._assistant(1)
        return [call for call in self.outcomes.succeeded if call.message >= last]

    def resolved(self, records: Sequence[FailureRecord]) -> list[FailureEvent]:
        """Of active `records`, those whose action has just succeeded, and whose failure the conversation does not hold any more."""
        shown = {failure.fingerprint for failure in self.failures}
        done = {call.key: call for call in self.newest_successes}
        found = [r for r in records if r.action_key in done and r.fingerprint not in shown and r.signal_type != "loop"]
        return [FailureEvent(kind="resolved", fingerprint=r.fingerprint, cause=f"{done[r.action_key].cause}>resolved") for r in found]

    def still_varies(self, fingerprint: str, times: int) -> bool:
        """Whether the calls behind a failure differ in anything, and none of them was made so often: the agent is trying other ways."""
        causes = {failure.cause for failure in self.failures if failure.fingerprint == fingerprint}
        calls = Counter(json.dumps(call.parsed, sort_keys=True) for call, _ in self.outcomes.failed if call.cause in causes and call.parsed)
        return len(calls) > 1 and max(calls.values()) < times

    @property
    def situation(self) -> Situation:
        """Where the run stands."""
        since = self._assistant(RECENT_TURNS)
        recent = [failure.fingerprint for failure in reversed(self.failures) if failure.position >= since]
        called = [identifier(call.tool) for call in reversed(calls_in(self.turns)) if call.message >= since]
        return Situation(
            fingerprints=tuple(dict.fromkeys(recent))[:MAX_RECENT],
            tools=tuple(identifier(tool) for tool in self.tools),
            recent_tools=tuple(dict.fromkeys(called))[:MAX_RECENT],
        )

    def now(self) -> tuple[Situation, list[Failure]]:
        """Where the run stands, and what the next step has to deal with."""
        return self.situation, self.newest

    def _assistant(self, number: int) -> int:
        """Position of the assistant's turn `number` from the end; 0 where there are fewer."""
        spoken = [turn.message for turn in self.turns if turn.role == "assistant"]
        return spoken[-number] if len(spoken) >= number else 0


def read_conversation(
    turns: Sequence[AgentTurn], tools: Sequence[Tool], retrieves: Callable[[str], bool], *, min_score: float = 0.0, corrects: bool = True
) -> Reading:
    """`retrieves` tells by its name whether a tool searches. What users object to is read where `corrects`."""
    names = [name for tool in tools if (name := tool_name(tool))]
    return Reading(turns, outcomes(calls_in(turns), tools, retrieves, min_score), corrections(turns, names) if corrects else ())


def history_of(reading: Reading, tools: Sequence[Tool], retrieves: Callable[[str], bool], stall_after: int = STALL_AFTER) -> FailureHistory:
    """`tools` are those that the client offers now."""
    turns, results = reading.turns, reading.outcomes
    known = {call.cause for call, _ in results.failed}
    violated = _violations(turns, results, tools)
    failed = [violated.get(call.cause, failure) for call, failure in results.failed]
    failed += [failure for cause, failure in violated.items() if cause not in known]
    loops = [of_loop(loop) for loop in find_loops(turns, failed=known, retrieval=retrieves, stall_after=stall_after)]
    failures = sorted([*failed, *loops, *reading.corrections], key=lambda failure: failure.position)
    return FailureHistory(turns, results, tuple(failures), tuple(name for tool in tools if (name := tool_name(tool))))


@cache
def warm() -> None:
    """Read a first conversation, once in a process: compiling patterns takes 0.1 to 0.2 s, and no request should wait for it."""
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"query": "a"}'}}
    said: list[Message] = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    messages = [*said, {"role": "tool", "tool_call_id": "1", "content": "Error: the request timed out after 30 s"}]
    messages += [*said, {"role": "tool", "tool_call_id": "1", "content": '{"results": []}'}, {"role": "user", "content": "No, look again."}]
    history_of(read_conversation(read_turns(messages), (), lambda tool: True), (), lambda tool: True)


def _violations(turns: Sequence[AgentTurn], found: Outcomes, tools: Sequence[Tool]) -> dict[str, Failure]:
    """Of the calls that failed, and of the last step's that have no result yet, those that break the tools' schemas, by cause.

    A call that worked was no violation, whatever the client says of its tools by now.
    """
    if not tools:
        return {}
    last = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
    calls = [call for call, _ in found.failed][-MAX_CHECKED:]
    calls += [call for call in (last.calls if last is not None else ()) if call.result is None]
    checked = ((call, check_call(call.tool, call.arguments, call.id, tools)) for call in calls)
    return {call.cause: of_violation(call, violation) for call, violation in checked if violation is not None}


class _Progress:
    """Puts a history's events in order."""

    def __init__(self, history: FailureHistory) -> None:
        self._failures = history.failures
        self._users = [turn.message for turn in history.turns if turn.role == "user"]
        self._corrected = {failure.position for failure in history.failures if failure.signal_type == "human_correction"}
        said = [(turn.message, turn.text) for turn in history.turns if turn.role == "user"]
        results = (call.result for call in calls_in(history.turns) if call.result is not None)
        self._texts = sorted([*said, *((result.message, result.text) for result in results)])
        self._by_key: dict[str, list[CalledTool]] = {}
        self._by_tool: dict[str, list[CalledTool]] = {}
        for call in history.outcomes.succeeded:
            self._by_key.setdefault(call.key, []).append(call)
            self._by_tool.setdefault(call.tool, []).append(call)
        self._succeeded = history.outcomes.succeeded
        self._changing = [call for call in self._succeeded if changes(call.tool)]
        self._failed = {call.cause: call for call, _ in history.outcomes.failed}

    def events(self) -> list[FailureEvent]:
        """Every occurrence, and what first followed it before it occurred again."""
        by_fingerprint: dict[str, list[Failure]] = {}
        for failure in self._failures:
            by_fingerprint.setdefault(failure.fingerprint, []).append(failure)
        found: list[tuple[int, int, FailureEvent]] = []
        for same in by_fingerprint.values():
            for i, failure in enumerate(same):
                until = same[i + 1].position if i + 1 < len(same) else None
                occurred = FailureEvent(kind="occurred", fingerprint=failure.fingerprint, cause=failure.cause, failure=failure)
                found.append((failure.position, 0, occurred))
                found += [(at, 1, _overcome(kind, failure)) for kind, at in self._after(failure) if until is None or at < until]
        return [event for _, _, event in sorted(found, key=lambda one: one[:2])]

    def _after(self, failure: Failure) -> list[tuple[EventKind, int]]:
        """The first progress after a failure, and its resolution, each with the message that shows it."""
        at = failure.position
        if failure.signal_type == "human_correction":
            spoken = next((user for user in self._users if user > at and user not in self._corrected), None)
            return [("resolved", spoken)] if spoken is not None and failure.code == "rejected" else []
        progress = [i for i in (_later(self._users, at), self._tool_success(failure), self._worked_on(failure)) if i is not None]
        found: list[tuple[EventKind, int]] = [("progress", min(progress))] if progress else []
        resolved = self._resolution(failure)
        return found if resolved is None else [*found, ("resolved", resolved)]

    def _tool_success(self, failure: Failure) -> int | None:
        """Where the failing call's tool gave a result."""
        call = self._failed.get(failure.cause)
        return _first_result(self._by_tool.get(call.tool, ()), failure.position) if call is not None else None

    def _worked_on(self, failure: Failure) -> int | None:
        """Where something was changed after the failure that may be its cause: a build that still breaks after an edit is tried anew."""
        if failure.signal_type != "tool_error" or failure.code in UNMOVED:
            return None
        return _first_result(self._changing, failure.position)

    def _resolution(self, failure: Failure) -> int | None:
        if failure.signal_type != "loop":
            same = _first_result(self._by_key.get(failure.action_key, ()), failure.position)
            return min((at for at in (same, self._adjusted_success(failure)) if at is not None), default=None)
        return _first_result([call for call in self._succeeded if call.key != failure.action_key], failure.position)

    def _adjusted_success(self, failure: Failure) -> int | None:
        """Where what was recommended for the failing call was done, and succeeded."""
        failed, told = self._failed.get(failure.cause), failure.recommended_adjustment
        if failed is None:
            return None
        others = told.get("tools", ()) if told.get("type") in ("use_other_tool", "use_known_tool") else ()
        tools = [tool for tool in self._by_tool if identifier(tool) in others] if others else [failed.tool]
        soon = [call for tool in tools for call in _next(self._by_tool.get(tool, ()), failure.position)]
        done = sorted((call for call in soon if follows(told, failed, call)), key=lambda call: call.message)
        if done and told.get("type") in ("change_arguments", "fix_arguments"):
            end = bisect_right(self._texts, failed.message, key=lambda one: one[0])
            lists = [text for _, text in self._texts[max(0, end - MAX_LISTS) : end]]
            done = [call for call in done if not another_item(failed, call, lists)]
        return _first_result(done, failure.position)


def _overcome(kind: EventKind, failure: Failure) -> FailureEvent:
    """Known by the occurrence that it follows: where messages are trimmed, positions change, and the first of its kind it remains."""
    return FailureEvent(kind=kind, fingerprint=failure.fingerprint, cause=f"{failure.cause}>{kind}")


def _next(calls: Sequence[CalledTool], after: int) -> Sequence[CalledTool]:
    """The first of `calls` that were made after that message."""
    i = bisect_right(calls, after, key=lambda call: call.message)
    return calls[i : i + MAX_FOLLOWING]


def _first_result(calls: Sequence[CalledTool], after: int) -> int | None:
    """The result of the first of `calls` that was made after that message."""
    i = bisect_right(calls, after, key=lambda call: call.message)
    result = calls[i].result if i < len(calls) else None
    return None if result is None else result.message


def _later(positions: Sequence[int], after: int) -> int | None:
    i = bisect_right(positions, after)
    return positions[i] if i < len(positions) else None


# ---- what no form tells is put to the policy's judge: did this call fail, does this message correct the agent? ----
#
# A status, an exception's name, a schema, a typed override or a count needs no judge; without an answer the rules' word stands. All
# questions of a turn go out in one batch, and the judge remembers, so that a conversation that comes again costs nothing.

MAX_JUDGED = 16
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
    undecided = [call for call in reading.outcomes.succeeded if is_sentence(call.result_text)]
    asked = [(call.cause, _of_call(call)) for calls in (doubted, undecided) for call in calls[-MAX_JUDGED:]]
    asked += [(_cause(pair), _of_message(pair)) for some in (rejections, others) for pair in some[-MAX_JUDGED:]]
    answers = await judge.answers([question for _, question in asked]) if asked else []
    said = {cause: answer.choice for (cause, _), answer in zip(asked, answers, strict=True)}
    return _with_answers(reading, tools, others, said)


def _with_answers(reading: Reading, tools: Sequence[Tool], others: Sequence[_Pair], said: Mapping[str, str]) -> Reading:
    results = reading.outcomes
    failed = [(call, failure) for call, failure in results.failed if said.get(call.cause) != "no"]
    failed += [(call, of_result(call, classify(call.result_text), tools)) for call in results.succeeded if said.get(call.cause) == "yes"]
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
    return failed_question(call.result_text[:MAX_CHARS], f"{call.tool}({call.arguments})"[:MAX_CHARS])


def _of_message(pair: _Pair) -> JudgeQuestion:
    turn, before = pair
    return correction_question(turn.text[:MAX_CHARS], before.text[:MAX_CHARS])


def _cause(pair: _Pair) -> str:
    return f"{pair[0].message}"
