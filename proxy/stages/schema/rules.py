"""What the stage `schema` can be told, and one answer, judged and mended by it. Pure functions, to be run off the event loop: a schema may
take its time.

In: an answer, the tools of its request, what the client wants. Out: the answer with what could be mended in it, and a `SchemaFinding`
for everything that is, or was, wrong. What was checked last has what is left of the time; what is beyond it is unchecked, never passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from proxy.exchange import Answer, Choice, Tool, ToolCall
from proxy.exchange.answers import OutputRequirements
from proxy.language.json.conformance import Unchecked, Violation, examine_call, examine_response, schema_of, tool_named
from proxy.language.json.repair import Repaired, repair
from proxy.language.json.schemas import CHECK_S, NotChecked, SchemaInvalid
from proxy.ports.stage import StageOptions

ANSWER_S = 1.0
"""Processor time for all checks and repairs of one answer."""
MAX_CALLS = 128
"""Of one choice."""
_MENDABLE = ("invalid_json", "arguments_mismatch", "response_not_json", "response_mismatch")


class SchemaOptions(StageOptions, frozen=True, kw_only=True):
    """``schema:``"""

    removed = {
        "unknown_tools": "leave it out: a call of a tool that was not offered is a violation",
        "check": "leave it out: tool calls and JSON answers are checked, where the request has a schema for them",
        "repair": "leave it out: what can be is mended without loss, where the answer is held",
    }
    retries: Annotated[
        Annotated[int, Meta(ge=0, le=3)] | None,
        Meta(
            description="how often the model is asked again where the answer still does not conform; null: once, where the answer is held. "
            "One that a token limit has cut is asked for again once at most"
        ),
    ] = None
    on_violation: Annotated[
        Literal["warn", "block"],
        Meta(
            description="an answer that does not conform in the end: passes with a warning, or block (400 policy_blocked; delivery: hold)"
        ),
    ] = "warn"


class SchemaFinding(Struct, frozen=True):
    """What is wrong with one call, or with one choice's text."""

    choice: int
    call: int | None
    """The call's index in its choice; None for the text."""
    problem: Violation | Unchecked
    """As it came, or, where it was mended in part, as it is now."""
    fixes: tuple[str, ...] = ()
    """What was mended."""
    mended: bool = False
    """Whether it conforms now."""
    truncated: bool = False
    """Whether a limit had cut the answer."""

    @property
    def violates(self) -> bool:
        """Whether it does not conform."""
        return isinstance(self.problem, Violation) and not self.mended


class CheckedAnswer(Struct, frozen=True):
    """An answer after the check."""

    answer: Answer
    findings: tuple[SchemaFinding, ...]
    calls: int
    """How many were checked."""
    texts: int

    @property
    def violations(self) -> list[SchemaFinding]:
        """What does not conform."""
        return [finding for finding in self.findings if finding.violates]


def needs_check(answer: Answer, wants: OutputRequirements) -> bool:
    """Whether there is anything to check."""
    return wants.form == "json" or any(choice.tool_calls for choice in answer.choices)


def check_answer(answer: Answer, tools: Sequence[Tool], wants: OutputRequirements, *, mend: bool) -> CheckedAnswer:
    """Judge `answer`; with `mend`, repair it too."""
    until = time.thread_time() + ANSWER_S
    findings: list[SchemaFinding] = []
    calls = texts = 0
    for choice in answer.choices:
        if choice.tool_calls:
            calls += len(choice.tool_calls)
            found = _calls(choice, tools, mend, until)
            findings += [finding for finding, _ in found.values()]
            if mended := {index: text for index, (finding, text) in found.items() if finding.fixes}:
                calls_then = [replace(call, arguments=mended.get(call.index, call.arguments)) for call in choice.tool_calls]
                answer = answer.with_calls(choice.index, calls_then)
        if _should_conform(choice, wants):
            texts += 1
            judged = _text(choice, wants, mend, until)
            if judged is not None:
                findings.append(judged[0])
                answer = answer.with_text(choice.index, judged[1]) if judged[0].fixes else answer
    return CheckedAnswer(answer, tuple(findings), calls, texts)


def _calls(choice: Choice, tools: Sequence[Tool], mend: bool, until: float) -> dict[int, tuple[SchemaFinding, str]]:
    """By the call's index: what is wrong with it, and its arguments then."""
    found: dict[int, tuple[SchemaFinding, str]] = {}
    for position, call in enumerate(choice.tool_calls):

        def examine(text: str, seconds: float, call: ToolCall = call) -> Violation | Unchecked | None:
            return examine_call(call.name, text, call.id, tools, seconds=seconds)

        tool = tool_named(call.name, tools)
        finding = SchemaFinding(choice.index, call.index, Unchecked("time", call_id=call.id), truncated=choice.finish_reason == "length")
        schema = schema_of(tool) if tool is not None else None
        left = until if position < MAX_CALLS else 0.0
        if (judged := _judge(finding, call.arguments, examine, schema, mend and tool is not None, left)) is not None:
            found[call.index] = judged
    return found


def _text(choice: Choice, wants: OutputRequirements, mend: bool, until: float) -> tuple[SchemaFinding, str] | None:
    """What is wrong with a choice's text, and the text then; None for nothing."""
    finding = SchemaFinding(choice.index, None, Unchecked("time"), truncated=choice.finish_reason == "length")
    return _judge(finding, choice.text, lambda text, seconds: examine_response(text, wants, seconds=seconds), wants.schema, mend, until)


def _judge(
    finding: SchemaFinding,
    text: str,
    examine: Callable[[str, float], Violation | Unchecked | None],
    schema: object,
    mend: bool,
    until: float,
) -> tuple[SchemaFinding, str] | None:
    """What is wrong with `text`, and the text then; None for nothing, and `finding` as it is where there is no time."""
    if (seconds := _remaining_s(until)) is None:
        return finding, text
    if (problem := examine(text, seconds)) is None:
        return None
    finding = replace(finding, problem=problem)
    if mend:
        finding, text = _mend(finding, text, schema, until)
        if finding.fixes:
            again = examine(text, _remaining_s(until) or 0.0)
            finding = replace(finding, problem=again or problem, mended=again is None)
    return finding, text


def _mend(finding: SchemaFinding, text: str, schema: object, until: float) -> tuple[SchemaFinding, str]:
    """The finding after a repair, not yet judged anew, and the text then."""
    if not isinstance(finding.problem, Violation) or finding.problem.code not in _MENDABLE or (seconds := _remaining_s(until)) is None:
        return finding, text
    found: Repaired | None
    try:
        found = repair(text, schema, cut=finding.truncated, seconds=seconds)
    except (NotChecked, SchemaInvalid):
        found = repair(text, {}, cut=True)  # what can be said without the schema
    if found is None or not found.fixes:
        return finding, text
    return replace(finding, fixes=found.fixes), found.text


def _should_conform(choice: Choice, wants: OutputRequirements) -> bool:
    """Whether the choice's text is the JSON that was asked for: not a refusal, nor what is said beside a call, nor what was filtered."""
    is_answer = not choice.refusal and choice.finish_reason != "content_filter"
    return wants.form == "json" and is_answer and not choice.tool_calls


def _remaining_s(until: float) -> float | None:
    """What is left for one check; None for nothing."""
    left = until - time.thread_time()
    return min(left, CHECK_S) if left > 0 else None


def offered_tools(*lists: Sequence[Tool]) -> list[Tool]:
    """The tools of several lists, each once: those sent to the model, and the client's own, which it may know from earlier turns."""
    return list({id(tool): tool for tools in lists for tool in tools}.values())
