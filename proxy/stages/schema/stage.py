"""The stage `schema`: do tool calls match their tools' schemas, and the text the JSON that was asked for?

An answer that is held is mended where nothing is lost by it (`proxy.language.json.repair`); where it still does not conform, the model is
told what is wrong and asked again, a bounded number of times; in the end it passes with a warning, or is refused. Of several attempts the
first that conforms leaves, else the first. What has left already (gate's tool calls, tap) is judged for the record. A refusal, text beside
a call and answers of the proxy's own are not judged. The verdict's detail says what was wrong (`proxy.language.json.conformance`), without
any value.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from proxy.exchange import Exchange, Verdict
from proxy.language.json.conformance import Violation
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports.stage import Action, Stage
from proxy.stages.schema.report import (
    BLOCKED,
    COUNTERS,
    INVALID,
    NAME,
    REPAIRED,
    UNCHECKED,
    asked_again,
    asked_before,
    judged_before,
    refusal,
    unchecked_of,
    verdict_of,
)
from proxy.stages.schema.rules import CheckedAnswer, SchemaOptions, check_answer, needs_check, offered_tools

CODES = ("unknown_tool", "invalid_json", "arguments_mismatch", "response_not_json", "response_mismatch")


class Schema(Stage[SchemaOptions]):
    """Checks tool calls and JSON answers against their schemas; mends what can be mended without loss, asks again, warns or refuses."""

    name = NAME
    Options = SchemaOptions
    follows = ("budget", "knowledge", "validation", "poisoning", "clash", "history", "compression", "tool_rag", "relevance", "faithful")
    changes = ("answer",)
    counters = COUNTERS
    reports = (*CODES, REPAIRED, INVALID, UNCHECKED, BLOCKED)

    @classmethod
    def actions(cls, options: SchemaOptions) -> tuple[Action, ...]:
        """All by the schemas that the client sent."""
        return (Action("edit", REPAIRED, exact=True), Action("block" if options.on_violation == "block" else "warn", BLOCKED, exact=True))

    @classmethod
    def blocks_answers(cls, options: SchemaOptions) -> bool:
        """A block; repair only acts where the answer is held."""
        return options.on_violation == "block"

    @classmethod
    def needs_hold(cls, options: SchemaOptions) -> str:
        """What has left cannot be asked for again; calls of tools leave the gate at once."""
        if options.on_violation == "block":
            return "on_violation: block"
        return f"retries: {options.retries}" if options.retries else ""

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Judge, mend, ask again, and sum up."""
        answer = exchange.answer
        if answer is None or not needs_check(answer, exchange.wants):
            return None
        undelivered = bool(exchange.attempts) and not exchange.gated
        tools = offered_tools(exchange.tools, exchange.original.tools)
        found = await run_in_thread_if_large(LARGE, check_answer, answer, tools, exchange.wants, mend=undelivered)
        self._count(found)
        if not found.violations:
            self._apply(exchange, found)
            return self._summed_up(exchange, found)
        if self._may_ask(exchange, found):
            first = found.violations[0].choice
            choice = next(choice for choice in found.answer.choices if choice.index == first)
            wrong = [finding for finding in found.violations if finding.choice == first]
            self._apply(exchange, found)
            exchange.retry = asked_again(exchange.attempts[_start(exchange)].prompt.messages, choice, wrong, tools)
            self.ports.counters.count("schema.retried_count")
            exchange.verdicts.extend(unchecked_of(found.findings))
            return verdict_of(found, "re-asked", _retries(exchange))
        return self._settled(exchange, found)

    def _apply(self, exchange: Exchange, found: CheckedAnswer) -> None:
        """The mended answer is the exchange's."""
        if found.answer is exchange.answer:
            return
        exchange.answer = found.answer
        for finding in found.findings:
            if finding.fixes:
                place = {"choice": finding.choice, **({} if finding.call is None else {"call": finding.call, "tool": finding.problem.tool})}
                exchange.changes.append({"stage": self.name, "what": "repaired", **place, "fixes": list(finding.fixes)})

    def _may_ask(self, exchange: Exchange, found: CheckedAnswer) -> bool:
        """Whether there is a try left: of answers that a limit has cut, one."""
        most = 1 if self.options.retries is None else self.options.retries
        if any(finding.truncated for finding in found.violations):
            most = min(most, 1)
        return exchange.attempts.possible and _retries(exchange) < most

    def _settled(self, exchange: Exchange, found: CheckedAnswer) -> Verdict:
        """An answer that does not conform, and no other is to be had: an earlier one that does, else the first; else a refusal."""
        present = len(exchange.attempts) - 1
        judged = {i: verdict for i in range(max(present, 0)) if (verdict := judged_before(exchange, i)) is not None}
        good = [i for i, verdict in judged.items() if verdict.detail["action"] in ("none", "repaired")]
        retries = _retries(exchange)
        if good:
            exchange.deliver = good[-1]
            return judged[good[-1]]
        if self.options.on_violation == "block":
            self.ports.counters.count("schema.blocked_count")
            verdict = verdict_of(found, "blocked", retries)
            detail = {**verdict.detail, "code": verdict.code}
            return Verdict(self.name, "block", code=BLOCKED, detail=detail, message=refusal(found.violations))
        if judged:
            exchange.deliver = first = min(judged)
            return replace(judged[first], detail={**judged[first].detail, "action": "passed", "retries": retries})
        self._apply(exchange, found)
        return self._summed_up(exchange, found)

    def _summed_up(self, exchange: Exchange, found: CheckedAnswer) -> Verdict:
        """The verdict of the answer as it leaves; what could not be judged weighs more than what was mended, and is said beside it."""
        unchecked, verdict = unchecked_of(found.findings), verdict_of(found, _action(found), _retries(exchange))
        if not unchecked:
            return verdict
        exchange.verdicts.extend([*unchecked[:-1], *([verdict] if verdict.code else [])])
        return unchecked[-1]

    def _count(self, found: CheckedAnswer) -> None:
        violations = sum(isinstance(finding.problem, Violation) for finding in found.findings)
        for name, number in (("violations", violations), ("repaired", sum(finding.mended for finding in found.findings))):
            if number:
                self.ports.counters.count(f"schema.{name}_count", number)


def _action(found: CheckedAnswer) -> Literal["passed", "repaired", "none"]:
    if found.violations:
        return "passed"
    return "repaired" if any(finding.fixes for finding in found.findings) else "none"


def _retries(exchange: Exchange) -> int:
    """How often this stage has had another answer asked for."""
    return sum(asked_before(exchange, i) is not None for i in range(len(exchange.attempts) - 1))


def _start(exchange: Exchange) -> int:
    """The attempt with which the present row of this stage's retries began: its prompt holds no answer of theirs."""
    start = len(exchange.attempts) - 1
    while start > 0 and asked_before(exchange, start - 1) is not None:
        start -= 1
    return start
