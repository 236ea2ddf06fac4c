"""What an agent's calls did, by what their results state in a typed way: a conversation in, a `Run` out. Pure.

A call does work of a kind when its tool's name, or a part of the shell command it ran, says so (`calls`). A call that may have done
anything (a script, another agent, what runs in the background, a result that is not there any more) is taken for any work that it may hide
(`hides`): what comes before it proves nothing about afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from proxy.context.tool_results.names import reads, words_of_name
from proxy.context.tool_results.turns import AgentTurn, CalledTool, calls_in, turns_of
from proxy.exchange import Exchange, tool_name
from proxy.language.text import fold, text_of
from proxy.stages.work_claims.calls import (
    MAX_ARGUMENT_CHARS,
    WRITES,
    Attempt,
    Result,
    attempt_at,
    changed_something,
    command_of,
    hides,
    is_gone,
    is_tool_of,
    looks_elsewhere,
    only_reads,
    paths_of,
    result_of,
    says_done,
)
from proxy.stages.work_claims.figures import MAX_TEXT_CHARS, RunFigures
from proxy.stages.work_claims.statements import Work, is_own_look, is_summary, mentions, tells_of, works

SYSTEM = ("system", "developer")


class Run(Struct, frozen=True, dict=True):
    """What one conversation shows of an agent's work."""

    calls: Sequence[CalledTool]
    tools: frozenset[str]
    """Names of the tools that are offered, and of those that were called."""
    user_turns: Sequence[AgentTurn]
    """What users said, a turn each."""
    whole: bool
    """Whether nothing of it was left out or summed up, as far as it shows."""
    unseen_end: bool = False
    """Whether more may have been done behind it: by tools that the proxy, or the provider, has called for the answer."""

    @cached_property
    def user_text(self) -> str:
        """What users said, folded."""
        return fold("\n".join(turn.text for turn in self.user_turns))

    declared: bool = False
    """Whether the request lists its tools."""
    texts: tuple[str, ...] = ()
    """All that was said and returned, and the arguments."""
    systems: tuple[str, ...] = ()
    """What the system's messages say."""

    @cached_property
    def _hidden(self) -> dict[str, int]:
        return {}

    def hidden_after(self, work: Work, order: int) -> bool:
        """Whether a later call may have done such work unseen."""
        if work.name not in self._hidden:
            orders = (i for i in range(len(self.calls) - 1, -1, -1) if hides(work, self.calls[i]))
            self._hidden[work.name] = next(orders, -1)
        return self.unseen_end or self._hidden[work.name] > order

    @cached_property
    def looks_elsewhere(self) -> bool:
        """Whether a call saw how work went that another machine did, as a pipeline's checks."""
        return any(looks_elsewhere(call) and result_of(call) != "failed" for call in self.calls)

    @cached_property
    def figures(self) -> RunFigures:
        """The figures that messages, arguments and results have."""
        return RunFigures(self.texts, self.calls)

    @property
    def ran_commands(self) -> bool:
        """Whether a command was run."""
        return self.figures.has_commands

    @cached_property
    def _attempts(self) -> dict[str, list[Attempt]]:
        return {}

    def attempts(self, work: Work) -> list[Attempt]:
        """The calls that did work of this kind, in order."""
        if work.name not in self._attempts:
            found = (attempt_at(work, call, i) for i, call in enumerate(self.calls))
            self._attempts[work.name] = [attempt for attempt in found if attempt is not None]
        return self._attempts[work.name]

    def offers(self, work: Work) -> bool:
        """Whether there is a tool that does this work."""
        return any(is_tool_of(work, tool) for tool in self.tools) or (work.commands is not None and self.ran_commands)

    def was_tried_by_user(self, attempt: Attempt) -> bool:
        """Whether a user tells, after this attempt, how the work goes when they try it."""
        return any(turn.message > attempt.call.message and is_own_look(turn.text) for turn in self.user_turns)

    def changes(self, after: int = -1) -> list[CalledTool]:
        """The calls after that one which changed something, or may have."""
        return [call for call in self.calls[after + 1 :] if changed_something(call) and result_of(call) != "failed"]

    def was_returned(self, text: str) -> bool:
        """Whether a result has it, in any case."""
        return any(text in call.result_text.lower() for call in self.calls)

    def is_mentioned_by_users(self, work: Work) -> bool:
        """Whether users speak of such work in any form."""
        return work.tools is not None and any(work.tools.fullmatch(word) for word in words_of_name(self.user_text[:MAX_ARGUMENT_CHARS]))

    def proves(self, work: Work) -> bool:
        """Whether a result says in a field of its own, or in words, that such work is done, or a user says so."""
        return any(tells_of(work, turn.text) for turn in self.user_turns) or any(
            says_done(work, call) for call in self.calls if not (changed_something(call) and result_of(call) == "failed")
        )

    def asks_for(self, work: Work) -> bool:
        """Whether a call asks for what has such work behind it: `git branch --merged main`."""
        return any(mentions(work, fold(call.arguments[:MAX_ARGUMENT_CHARS])) for call in self.calls)

    @cached_property
    def files(self) -> list[tuple[str, int, Result]]:
        """The files that edits name, with the call's place and how it went."""
        return [(path, i, result_of(call)) for i, call in enumerate(self.calls) for path in paths_of(call)]

    @cached_property
    def writes_elsewhere(self) -> bool:
        """Whether files may have been written without an edit's naming them."""
        return self.hidden_after(works()["files"], -1) or any(
            (command := command_of(call)) and WRITES.search(command) for call in self.calls
        )

    @cached_property
    def edited_files(self) -> tuple[tuple[str, int], ...]:
        """The names of the files that edits wrote, without their folders, with the call's place."""
        return tuple((path.rpartition("/")[2], i) for path, i, result in self.files if result != "failed")

    @cached_property
    def _others(self) -> str:
        edits = {i for _, i, _ in self.files}
        return "\n".join(
            call.arguments for i, call in enumerate(self.calls) if i not in edits and not reads(call.tool) and not only_reads(call)
        )

    def mentions_file(self, file: str) -> bool:
        """Whether a command or another tool's arguments name a file."""
        return file.rpartition("/")[2] in self._others


def run_of(exchange: Exchange) -> Run:
    """The run of the conversation as the client sent it."""
    request, turns = exchange.original, turns_of(exchange, exchange.original.messages)
    calls, said = calls_in(turns), [turn for turn in turns if turn.role == "user"]
    systems = tuple(text_of(message.get("content")) for message in request.messages if message.get("role") in SYSTEM)
    unseen = bool(request.unseen_items) or (bool(request.goes_on_from) and not request.held_whole)
    begun = next((message.get("role") for message in request.messages if message.get("role") not in SYSTEM), "")
    gone = unseen or begun != "user" or any(is_gone(call.result_text) for call in calls)
    names = {name for tool in request.tools if (name := tool_name(tool))}
    whole = not (gone or any(map(is_summary, [*(turn.text for turn in said), *systems])))
    called, spoken = (call.arguments for call in calls), (text_of(message.get("content")) for message in request.messages)
    texts = tuple(text[:MAX_TEXT_CHARS] for text in (*spoken, *called))
    tools = frozenset((*names, *(call.tool for call in calls)))
    return Run(calls, tools, said, whole, _ends_unseen(exchange), bool(names), texts, systems)


def _ends_unseen(exchange: Exchange) -> bool:
    """The tools that an operator's server offers are called out of the client's sight, in the turns before as well."""
    choices = exchange.answer.choices if exchange.answer is not None else ()
    return any(choice.inputs for choice in choices) or any(not reads(tool_name(tool)) for tool in exchange.server_tools)
