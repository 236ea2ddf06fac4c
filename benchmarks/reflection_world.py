"""The world of a simulated agent: its task, the tools, the user, and the client that carries out what the model says.

A task is a list of `Goal`s, each one or several parts that right calls achieve. Its `World` plays the tools by rules, not by a list of
expected calls: it answers whatever is called, also what wrong guidance leads to, and knows the truth about every answer (failed or not, and
which part it achieved). `Agent` is an ordinary client of chat completions; `Run` counts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

STEP_LIMIT = 20
"""Requests of one run."""
ASK, FINAL = "I cannot get any further without you. Could you help me?", "All of it is done."
"""What the model says in words: everything else it does is a call."""
ERRORS_TOLD = "Errors so far:"
"""Where the growing list of the naive peer begins, in the system prompt."""


@dataclass(frozen=True)
class Action:
    """A call of a tool."""

    tool: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The same for the same tool and arguments, whatever the order of keys, letter case and white space."""
        return f"{self.tool} {json.dumps(_plain(self.arguments), sort_keys=True, ensure_ascii=False)}"

    def but(self, **changed: Any) -> Action:
        """With these arguments instead."""
        return Action(self.tool, {**self.arguments, **changed})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return " ".join(value.casefold().split()) if isinstance(value, str) else value


@dataclass(frozen=True)
class Outcome:
    """What a call brought."""

    text: str
    failed: str = ""
    """Kind of failure, "" for none."""
    part: str = ""
    """Of a goal, that it achieved."""


@dataclass(frozen=True)
class Goal:
    """Something to be done."""

    parts: Mapping[str, Action]
    """The right call for each part, in order."""
    tempting: tuple[Action, ...] = ()
    """Wrong calls: the one that comes to mind, and others that make the same mistake."""
    helps: frozenset[str] = frozenset()
    """Advice that leads from a wrong call to the right one, if what it names is right; other advice leads to another wrong call."""
    after: bool = False
    """The temptation is to do it again when it is done."""
    stuck: bool = False
    """Until a person has helped, nothing works, and the agent does not think of asking by itself."""


Rule = Callable[[Action, "World"], Outcome | None]


@dataclass(frozen=True)
class Task:
    """What one run has to do."""

    kind: str
    seed: int
    goals: tuple[Goal, ...]
    tools: tuple[Mapping[str, Any], ...]
    system: str
    user: str
    rules: tuple[Rule, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tools that are offered."""
        return tuple(tool["function"]["name"] for tool in self.tools)


@dataclass
class World:
    """The tools of one run, and the truth about what they answered."""

    task: Task
    granted: bool = False
    """A person has helped."""
    done: dict[str, int] = field(default_factory=dict)
    """Calls so far, by `Action.key`."""
    changes: int = 0
    """Calls that changed something."""

    def __post_init__(self) -> None:
        self._numbers = random.Random(f"numbers-{self.task.kind}-{self.task.seed}")

    def call(self, action: Action) -> Outcome:
        """Answer a call."""
        for rule in self.task.rules:
            found = rule(action, self)
            if found is not None:
                break
        else:
            found = _nobody(action, self)
        self.done[action.key] = self.done.get(action.key, 0) + 1
        return Outcome(self._filled(found.text), found.failed, found.part)

    def times(self, action: Action) -> int:
        """How often this very call was made before."""
        return self.done.get(action.key, 0)

    def _filled(self, text: str) -> str:
        """With an id and a number that differ with every call."""
        return text.replace("<id>", f"{self._numbers.getrandbits(48):012x}").replace("<ms>", str(self._numbers.randrange(29_000, 31_000)))


def _nobody(action: Action, world: World) -> Outcome:
    """What no rule knows: a tool that does not exist, or a call beside the point."""
    if action.tool not in world.task.names:
        return Outcome(f"Error: tool '{action.tool}' not found", "unknown_tool")
    return Outcome('{"ok": true, "note": "nothing to do here"}')


# ---- the client ----


@dataclass
class Run:
    """What happened in one run."""

    kind: str
    seed: int
    solved: bool = False
    stopped: bool = False
    """The proxy ended it with an error."""
    steps: int = 0
    """Requests of the client."""
    calls: list[tuple[Action, Outcome]] = field(default_factory=list)
    questions: list[bool] = field(default_factory=list)
    """The proxy's, and whether each was due."""
    stop_due: bool = False
    asked: int = 0
    """Questions of the model's own."""
    unchecked: int = 0
    """Requests in which a check of the proxy could not run."""
    told: int = 0
    """Lines of guidance, over all prompts."""
    tokens: int = 0
    """Of all prompts, as they reached the upstream."""
    prompts: int = 0
    prefix: list[float] = field(default_factory=list)
    """For each prompt but the first: the share of the one before with which it begins."""
    uncached: list[float] = field(default_factory=list)
    """Tokens of each such prompt after what it shares with the one before."""
    trace: list[str] = field(default_factory=list)

    @property
    def failures(self) -> int:
        """Calls that failed, needless repetitions among them."""
        return sum(bool(outcome.failed) for _, outcome in self.calls)

    @property
    def repeats(self) -> int:
        """Calls that failed just as they had failed before: same tool, same arguments."""
        return _again(action.key for action, outcome in self.calls if outcome.failed)

    @property
    def repeats_by_kind(self) -> int:
        """Calls that failed as one of the same tool had failed before, whatever the arguments."""
        return _again(f"{action.tool}/{outcome.failed}" for action, outcome in self.calls if outcome.failed)

    @property
    def steps_to_success(self) -> int:
        """The limit where there was none."""
        return self.steps if self.solved else STEP_LIMIT


def _again(names: Iterable[str]) -> int:
    every = list(names)
    return len(every) - len(set(every))


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: Any
    asked: bool = False
    """A stage answered with a question to the user."""
    unchecked: bool = False
    """A check of the proxy could not run."""


Post = Callable[[Mapping[str, Any]], Awaitable[Reply]]


class Agent:
    """Carries out what the model says, and answers as the tools and the user would."""

    def __init__(self, task: Task, *, tells_errors: bool = False) -> None:
        self.task, self.world, self.run = task, World(task), Run(task.kind, task.seed)
        self.truth: dict[str, Outcome] = {}
        """By the id of the call."""
        self._tells_errors = tells_errors
        self._errors: list[str] = []
        self._since: list[str] = []
        """Calls that failed since the user has last spoken, or the last progress."""
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": task.user}]

    async def work(self, post: Post) -> Run:
        """All steps, to the end."""
        for _ in range(STEP_LIMIT):
            self.run.steps += 1
            reply = await post({"model": "gpt-4o", "messages": self.messages(), "tools": list(self.task.tools)})
            self.run.unchecked += reply.unchecked
            if reply.status != 200:
                self._ended(reply)
                break
            message = reply.body["choices"][0]["message"]
            self._messages.append({name: message[name] for name in ("role", "content", "tool_calls") if message.get(name) is not None})
            if message.get("tool_calls"):
                for call in message["tool_calls"]:
                    self._carry_out(call)
            elif reply.asked or message["content"] == ASK:
                self._asked(by_proxy=reply.asked)
            else:
                self.run.solved = self._complete()
                break
        return self.run

    def messages(self) -> list[dict[str, Any]]:
        """The conversation; the naive peer puts every error so far into its system prompt."""
        system = self.task.system
        if self._errors:
            system += "\n\n" + "\n".join((ERRORS_TOLD, *self._errors))
        return [{"role": "system", "content": system}, *self._messages]

    def _carry_out(self, call: Mapping[str, Any]) -> None:
        action = Action(call["function"]["name"], json.loads(call["function"]["arguments"]))
        outcome = self.truth[call["id"]] = self.world.call(action)
        known = {one.part for _, one in self.run.calls}
        self.run.calls.append((action, outcome))
        self.run.trace.append(f"{action.tool} {json.dumps(action.arguments)} -> {outcome.failed or 'ok'}: {outcome.text[:60]}")
        self._messages.append({"role": "tool", "tool_call_id": call["id"], "content": outcome.text})
        if outcome.failed:
            self._since.append(action.key)
        elif outcome.part not in known:
            self._since.clear()
        if outcome.failed not in ("", "loop") and self._tells_errors:
            self._errors.append(f"- {action.tool}: {json.dumps(action.arguments)} {outcome.text}")

    def _asked(self, *, by_proxy: bool) -> None:
        said = str(self._messages[-1]["content"])
        self.run.trace.append(f"{'PROXY' if by_proxy else 'model'} asks: {said}")
        if by_proxy:
            self.run.questions.append(self._due())
        else:
            self.run.asked += 1
        needs_help = any(goal.stuck for goal in self.task.goals)
        self.world.granted = self.world.granted or needs_help
        answer = "I have opened it for you, it works now." if needs_help else "Please take another way, whichever you think is best."
        self._messages.append({"role": "user", "content": answer})
        self._since.clear()

    def _due(self) -> bool:
        """Whether one call has failed three times with no progress since, or two have in turn."""
        return any(self._since.count(key) >= 3 for key in self._since)

    def _ended(self, reply: Reply) -> None:
        error = reply.body.get("error", {}) if isinstance(reply.body, Mapping) else {}
        self.run.stopped, self.run.stop_due = True, self._due()
        self.run.trace.append(f"ERROR {reply.status} {error.get('code')} {error.get('param')}: {error.get('message')}")

    def _complete(self) -> bool:
        achieved = {outcome.part for _, outcome in self.run.calls}
        return all(achieved.issuperset(goal.parts) for goal in self.task.goals)
