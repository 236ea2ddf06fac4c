"""The model of a simulated agent: it fails by habit, and may heed what its prompt says.

It is a seeded policy. At each step it reads the messages that it got. Left to itself it makes a wrong call that comes to mind, and
after it failed makes it (or one like it) again with probability `Habits.repeat`, else takes the right way. Where a line of guidance in the
prompt concerns the call that it is about to make, it does with probability `Habits.heed` what the line says: literally, so that wrong
advice leads it astray and advice about something harmless keeps it from its work. Random numbers belong to a goal and an attempt at it, so
that runs with and without guidance share them.

Guidance is read from the prompt as it came in, by its wording; nothing else of the proxy is known here but the mark at which it begins.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.reflection_world import ASK, ERRORS_TOLD, FINAL, Action, Goal, Outcome, Task
from proxy.stages.reflection.wording import OPENING
from proxy.testing import completion

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Habits:
    """Assumptions about the model."""

    heed: float = 0.8
    """It does what guidance says."""
    repeat: float = 0.6
    """It repeats a call that failed, or a loop goes on."""
    again: float = 0.4
    """It falls into the same trap at a later goal."""
    other: float = 0.3
    """Of repetitions: another call that makes the same mistake."""
    hears_user: float = 0.9
    """It takes the right way when the user has just spoken."""


# ---- guidance, as it stands in the prompt ----


@dataclass(frozen=True)
class Advice:
    """One line of guidance."""

    kind: str
    tool: str = ""
    """Whose calls it is about; "" for those of no single tool."""
    argument: str = ""
    most: int = 0
    words: tuple[str, ...] = ()
    """Every word of the advice that could be a name."""


_KINDS: tuple[tuple[str, str], ...] = (
    (r"ask for at most (?P<most>\d+)|ask for less", "cap"),
    (r"keep to at most (?P<most>\d+)", "cap"),
    (r"(?:change |use other arguments)", "change"),
    (r"use other words|search with other words", "rephrase"),
    (r"use another tool|use .+ instead", "other"),
    (r"call .+, which exists|call one of|call an offered tool", "known"),
    (r"read the result", "result"),
    (r"retry (?:after|later)", "later"),
    (r"ask the user", "ask"),
    (r"do not repeat it before|try another way", "another"),
    (r"say that it was not found", "give up"),
    (r"correct |give |use a listed value|use the fixed value|leave out |lower |raise |shorten |lengthen |write ", "fix"),
)
_KINDS_OF_ADVICE = tuple((re.compile(pattern), kind) for pattern, kind in _KINDS)
_WORD = re.compile(r"[\w.\-]*\w")


def read_guidance(messages: Messages, tools: Iterable[str]) -> list[Advice]:
    """The lines of guidance in `messages`, in order; `tools` are the names of those that are offered or were called."""
    names = frozenset(tools)
    found = []
    for message in messages:
        text = _text(message)
        if message.get("role") == "system" and ERRORS_TOLD in text:
            lines = text.partition(ERRORS_TOLD)[2].splitlines()
            found += [Advice("error", line[2:].partition(": ")[0]) for line in lines if line.startswith("- ")]
        elif OPENING in text:
            lines = text.partition(OPENING)[2].splitlines()
            found += [advice for line in lines if line.startswith("- ") and (advice := read_line(line, names)) is not None]
    return found


def read_line(line: str, tools: Iterable[str]) -> Advice | None:
    """What one line says; None where it tells a model nothing to do about a call."""
    happened, _, advised = line.removeprefix("- ").rstrip(".").partition(": ")
    first = _WORD.match(happened)
    tool = first.group() if first and first.group() in tools else ""
    for pattern, kind in _KINDS_OF_ADVICE:
        if match := pattern.match(advised):
            most = int(match.groupdict().get("most") or 0)
            given = re.search(r"at most \d+ \(([\w.\-]+)\)", advised) or re.search(r" with ([\w.\-]+)=", happened)
            return Advice(kind, tool, given.group(1) if given else "", most, tuple(_WORD.findall(advised)))
    return None


# ---- the model ----


@dataclass
class Reading:
    """What the model sees of its own run."""

    calls: list[tuple[Action, Outcome]]
    spoken_since_failure: bool
    """The user has said something after the last call that failed."""
    answered: bool
    """The user's words are the newest message, and not the first."""
    attempts: dict[int, int]
    """Steps for each goal."""
    last_goal: int
    """Of the newest call; -1 without one."""
    just_failed: bool
    """The newest call."""
    achieved: set[str]
    """Parts of goals."""

    @property
    def made(self) -> set[str]:
        """Keys of all calls."""
        return {action.key for action, _ in self.calls}


def read_run(task: Task, messages: Messages, truth: Mapping[str, Outcome]) -> Reading:
    """`truth` says what each call brought, by its id: it stands for the model's understanding of results."""
    reading = Reading([], False, False, {}, -1, False, set())
    spoken = 0
    for message in messages:
        if message.get("role") == "user":
            spoken += 1
            reading.spoken_since_failure = spoken > 1
        elif message.get("role") == "assistant":
            current = _current(task, reading.achieved)
            for call in message.get("tool_calls") or ():
                action = Action(call["function"]["name"], json.loads(call["function"]["arguments"]))
                outcome = truth[call["id"]]
                reading.calls.append((action, outcome))
                reading.last_goal = current = _goal_of(task, action, current)
                reading.just_failed = bool(outcome.failed)
                reading.achieved.add(outcome.part)
                reading.spoken_since_failure = reading.spoken_since_failure and not outcome.failed
            reading.attempts[current] = reading.attempts.get(current, 0) + 1
    reading.answered = spoken > 1 and bool(messages) and messages[-1].get("role") == "user"
    return reading


@dataclass
class Model:
    """Decides one step."""

    task: Task
    habits: Habits

    def step(self, messages: Messages, truth: Mapping[str, Outcome]) -> Action | str:
        """A call, or `ASK`, or `FINAL`."""
        run = read_run(self.task, messages, truth)
        guidance = read_guidance(messages, (*self.task.names, *(action.tool for action, _ in run.calls)))
        last = run.last_goal
        if last >= 0 and self._loops(last, run) and not self._heard(last, run):
            goal = self.task.goals[last]
            wrong = goal.tempting[run.attempts[last] % len(goal.tempting)]
            decided = self._guided(wrong, last, run, guidance)
            if decided is not None:
                return decided
        for number in self._open(run):
            decided = self._guided(self._intended(number, run), number, run, guidance)
            if decided is not None:
                return decided
        return FINAL

    def _open(self, run: Reading) -> list[int]:
        return [i for i, goal in enumerate(self.task.goals) if not run.achieved.issuperset(goal.parts)]

    def _draw(self, what: str, goal: int, run: Reading) -> float:
        return random.Random(f"{self.task.kind}-{self.task.seed}-{what}-{goal}-{run.attempts.get(goal, 0)}").random()

    def _loops(self, number: int, run: Reading) -> bool:
        goal = self.task.goals[number]
        return goal.after and run.achieved.issuperset(goal.parts) and self._draw("repeat", number, run) < self.habits.repeat

    def _heard(self, number: int, run: Reading) -> bool:
        return run.answered and self._draw("hears", number, run) < self.habits.hears_user

    def _intended(self, number: int, run: Reading) -> Action:
        """What the model would do next for a goal, by habit."""
        goal = self.task.goals[number]
        right = _right(goal, run)
        first = not run.attempts.get(number)
        if not goal.tempting or goal.after or (goal.stuck and run.spoken_since_failure) or self._heard(number, run):
            return right
        if goal.stuck:
            tempted = not any(action.tool == right.tool and not outcome.failed for action, outcome in run.calls)
        elif run.achieved.intersection(goal.parts):
            tempted = False
        elif first:
            earlier = any(other.tempting for other in self.task.goals[:number])
            tempted = not earlier or self._draw("again", number, run) < self.habits.again
        else:
            tempted = self._draw("repeat", number, run) < self.habits.repeat
        if not tempted:
            return right
        varied = not first and self._draw("other", number, run) < self.habits.other
        return goal.tempting[1 + run.attempts[number] % (len(goal.tempting) - 1)] if varied else goal.tempting[0]

    # ---- doing what it is told ----

    def _guided(self, action: Action, number: int, run: Reading, guidance: Sequence[Advice]) -> Action | str | None:
        """The call that is made in the end; None to leave the goal for now."""
        lines = [advice for advice in guidance if self._concerns(advice, action, run)]
        if not lines or self._draw("heed", number, run) >= self.habits.heed:
            return action
        for advice in lines:
            decided = self._follow(advice, action, number, run)
            if decided != action:
                return decided
        return action

    def _concerns(self, advice: Advice, action: Action, run: Reading) -> bool:
        if advice.tool:
            return advice.tool == action.tool or (advice.kind == "known" and action.tool not in self.task.names)
        return advice.kind == "ask" or (advice.kind in ("another", "result") and action.key in run.made)

    def _follow(self, advice: Advice, action: Action, number: int, run: Reading) -> Action | str | None:
        """What the advice means for this call; the call itself where it means nothing."""
        goal = self.task.goals[number]
        right = _right(goal, run)
        if advice.kind == "error":  # no advice: understood is that this call fails, and why
            return right if not goal.stuck or run.spoken_since_failure else ASK
        if advice.kind == "cap":
            return _capped(action, advice)
        if advice.kind == "ask":
            return action if run.spoken_since_failure else ASK
        if advice.kind in ("later", "give up"):
            others = [i for i in self._open(run) if i != number and self._intended(i, run).tool != action.tool]
            return self._intended(others[0], run) if others else action if advice.kind == "later" else FINAL
        if advice.kind in ("result", "another") and goal.after and action.key in run.made:
            return None
        if action.key not in run.made and (action.key == right.key or not goal.tempting):  # its own idea
            led = action if number != run.last_goal or not run.just_failed or advice.kind in ("another", "change") else None
            return led or self._otherwise(advice, action, number, run)
        if advice.kind == "result":
            return None
        return self._otherwise(advice, action, number, run)

    def _otherwise(self, advice: Advice, action: Action, number: int, run: Reading) -> Action | str | None:
        """Another call: the right one where the advice leads there, or else another wrong one."""
        goal = self.task.goals[number]
        right = _right(goal, run)
        if advice.kind in ("other", "known"):
            named = [name for name in self.task.names if name in advice.words]
            chosen = named[int(self._draw("which", number, run) * len(named))] if named else ""
            if f"{advice.kind} {chosen}" in goal.helps:
                return right
            return Action(chosen, action.arguments) if chosen else goal.tempting[-1] if goal.tempting else None
        leads = advice.kind in goal.helps
        if advice.kind == "fix":
            named = [name for name in action.arguments if name in advice.words]
            leads = any(f"fix {name}" in goal.helps for name in named) if named else leads
        if leads:
            return right
        others = [one for one in goal.tempting if one.key != action.key]
        return others[int(self._draw("which", number, run) * len(others))] if others else None


def _capped(action: Action, advice: Advice) -> Action:
    value = action.arguments.get(advice.argument)
    if not isinstance(value, int) or isinstance(value, bool):
        return action
    most = advice.most or max(1, value // 2)
    return action.but(**{advice.argument: most}) if value > most else action


def _right(goal: Goal, run: Reading) -> Action:
    """The call for the first part that is missing; of a goal that is reached, the last one's."""
    return next((call for part, call in goal.parts.items() if part not in run.achieved), list(goal.parts.values())[-1])


def _current(task: Task, achieved: set[str]) -> int:
    return next((i for i, goal in enumerate(task.goals) if not achieved.issuperset(goal.parts)), len(task.goals) - 1)


def _goal_of(task: Task, action: Action, current: int) -> int:
    for i, goal in enumerate(task.goals):
        if any(action.key == call.key for call in (*goal.parts.values(), *goal.tempting)):
            return i
    return current


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return content if isinstance(content, str) else ""


def said(step: Action | str, call_id: str) -> dict[str, Any]:
    """A completion."""
    if isinstance(step, str):
        assert step in (ASK, FINAL)
        return completion(step)
    function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}
    return completion(choices=[{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}])
