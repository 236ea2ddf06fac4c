"""The stage `schema`: do tool calls match their tools' schemas, and the text the JSON that was asked for?

An answer that is held is mended where nothing is lost by it (`proxy.language.json.repair`); where it still does not conform, the model is
told what is wrong and asked again, a bounded number of times; in the end it passes with a warning, or is refused. Of several attempts the
first that conforms leaves, else the first. What has left already (gate's tool calls, tap) is judged for the record. A refusal, text beside
a call and answers of the proxy's own are not judged. The verdict's detail says what was wrong (`proxy.language.json.conformance`), without
any value.

The words to the model are English, as most schemas are. Each call gets a result, as providers want it; where calls cannot be answered so
(no ids, the legacy ``function_call``) a user message says the same. What the model wrote is quoted as JSON strings, which it cannot end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from msgspec.structs import replace

from proxy.exchange import Choice, Exchange, Message, Outcome, Tool, ToolCall, Verdict, tool_name
from proxy.language.json.conformance import Unchecked, Violation
from proxy.language.json.schema_problems import SchemaError
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports.stage import Action, Stage
from proxy.stages.schema.rules import CheckedAnswer, SchemaFinding, SchemaOptions, check_answer, needs_check, offered_tools

NAME = "schema"
BLOCKED = "schema_violation"
REPAIRED = "schema_repaired"
INVALID = "schema_invalid"
UNCHECKED = "schema_unchecked"
MAX_LISTED = 16
MAX_CHARS = 600
"""Of a quotation."""
MAX_TOOLS = 30
_NOT_RUN = "Not run, because another call of the same answer was wrong. Call it again."
_ANSWER = (
    "Your last answer does not have the form that was asked for: {what} Write the whole answer again as JSON of that form: nothing before "
    "or after it, no Markdown, no comment. Keep its content and do not mention this request."
)
_SHORTER = " It was cut off by the token limit: make it shorter."
Handling = Literal["none", "repaired", "re-asked", "passed", "blocked"]
COUNTERS = {
    "schema.violations_count": "tool calls and answers against their schemas",
    "schema.repaired_count": "of them mended without loss",
    "schema.retried_count": "answers for which another one was asked",
    "schema.blocked_count": "answers refused",
}


def verdict_of(found: CheckedAnswer, action: Handling, retries: int) -> Verdict:
    """Of an answer: the first violation's code, where one is left."""
    violations = found.violations
    repaired = [finding for finding in found.findings if finding.fixes]
    code = violations[0].problem.code if violations and isinstance(violations[0].problem, Violation) else REPAIRED if repaired else ""
    first = next(iter(violations or repaired), None)
    detail: dict[str, Any] = {"action": action, "calls": found.calls, "texts": found.texts}
    if first is not None:
        listed = [entry(finding) for finding in found.findings if isinstance(finding.problem, Violation)]
        detail |= {"choice": first.choice, "violations": listed[:MAX_LISTED]}
        if len(listed) > MAX_LISTED:
            detail["violations_left_out"] = len(listed) - MAX_LISTED
        if any(finding.truncated for finding in violations):
            detail["truncated"] = True
    if retries:
        detail["retries"] = retries
    outcome: Outcome = "warn" if code else "pass" if found.calls or found.texts else "unchecked"
    return Verdict(NAME, outcome, code=code, detail=detail)


def unchecked_of(findings: Sequence[SchemaFinding]) -> list[Verdict]:
    """Of what could not be judged: a client's wrong schema is a warning, a check that came to its bounds an error."""
    found = [(finding, finding.problem) for finding in findings if isinstance(finding.problem, Unchecked)]
    invalid = [entry(finding) for finding, problem in found if problem.reason == "schema_invalid"]
    rest = [entry(finding) for finding, problem in found if problem.reason != "schema_invalid"]
    made = [Verdict(NAME, "warn", code=INVALID, detail={"unchecked": invalid[:MAX_LISTED]})] if invalid else []
    return made + ([Verdict(NAME, "error", code=UNCHECKED, detail={"unchecked": rest[:MAX_LISTED]})] if rest else [])


def entry(finding: SchemaFinding) -> dict[str, Any]:
    """One finding, without what has no value."""
    problem = finding.problem
    found: dict[str, Any] = {"choice": finding.choice, "call": finding.call, "tool": problem.tool, "call_id": problem.call_id}
    if isinstance(problem, Unchecked):
        found |= {"reason": problem.reason, "keywords": list(problem.keywords)}
    else:
        found |= {"code": problem.code, "errors": [_error(error) for error in problem.errors], "known": list(problem.known)}
    found |= {"fixes": list(finding.fixes), "truncated": finding.truncated or None, "conforms": finding.mended or None}
    return {name: value for name, value in found.items() if value not in ("", None, [])}


def _error(error: SchemaError) -> dict[str, Any]:
    found = {"pointer": error.pointer, "keyword": error.keyword, "name": error.name, "schema": error.schema, "expected": error.expected}
    return {name: value for name, value in found.items() if name == "pointer" or value not in ("", None)}


def refusal(violations: Sequence[SchemaFinding]) -> str:
    """For the client: what is wrong first, in words without any value."""
    first = violations[0].problem
    assert isinstance(first, Violation)
    where = f" {first.tool}" if first.tool else ""
    places = "; ".join(f"{error.pointer or '/'}: {error.keyword}" for error in first.errors[:3])
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    cut = ": it ends in the middle, at the limit of its tokens" if violations[0].truncated else ""
    words = {
        "unknown_tool": f"the model called a tool that was not offered:{where}",
        "invalid_json": f"the arguments of the model's call of{where} are not valid JSON",
        "arguments_mismatch": f"the arguments of the model's call of{where} do not match the tool's schema ({places})",
        "response_not_json": "the answer is not the JSON that the request asks for" + cut,
        "response_mismatch": f"the answer does not match the schema that the request asks for ({places})",
    }
    return words[first.code] + more


def asked_before(exchange: Exchange, attempt: int) -> Verdict | None:
    """This stage's verdict of an earlier attempt, where it had another asked for."""
    verdict = judged_before(exchange, attempt)
    return verdict if verdict is not None and verdict.detail.get("action") == "re-asked" else None


def judged_before(exchange: Exchange, attempt: int) -> Verdict | None:
    """This stage's verdict of an earlier attempt."""
    return next((v for v in reversed(exchange.attempts[attempt].verdicts) if v.stage == NAME and "action" in v.detail), None)


# ---- asking again ----


def asked_again(messages: Sequence[Message], choice: Choice, findings: Sequence[SchemaFinding], tools: Sequence[Tool]) -> list[Message]:
    """`messages`, the answer, and what is wrong with it. `findings` are those of `choice` that violate."""
    by_call = {finding.call: finding for finding in findings}
    answer = [{"role": "assistant", "content": choice.text, **choice.thoughts}] if choice.text.strip() else []
    if None in by_call:
        return [*messages, *answer, {"role": "user", "content": _of_answer(by_call[None])}]
    calls = choice.tool_calls
    results = {call.index: _result_of(call, by_call[call.index], tools) if call.index in by_call else _NOT_RUN for call in calls}
    if len({call.id for call in calls if call.id and call.name}) == len(calls):
        return [
            *messages,
            _as_message(choice),
            *({"role": "tool", "tool_call_id": call.id, "content": results[call.index]} for call in calls),
        ]
    lines = [f"Your call of {_quote(call.name)} with {_quote(call.arguments)}: {results[call.index]}" for call in calls]
    return [*messages, *answer, {"role": "user", "content": "\n\n".join(lines)}]


def _as_message(choice: Choice) -> dict[str, Any]:
    """The answer as a message. Providers refuse a conversation with arguments that are not JSON."""
    written = [(call, call.arguments if call.arguments.strip() and call.parsed is not None else "{}") for call in choice.tool_calls]
    calls = [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}} for call, text in written]
    return {"role": "assistant", "content": choice.text or None, **choice.thoughts, "tool_calls": calls}


def _result_of(call: ToolCall, finding: SchemaFinding, tools: Sequence[Tool]) -> str:
    violation = finding.problem
    assert isinstance(violation, Violation)
    if violation.code == "unknown_tool":
        names = [name for tool in tools if (name := tool_name(tool))][:MAX_TOOLS]
        near = f" Did you mean {_list_names(violation.known)}?" if violation.known else ""
        return f"Error: there is no tool {_quote(call.name)}.{near} Call one of these, or answer without: {_list_names(names)}."
    if violation.code == "invalid_json":
        rest = _SHORTER if finding.truncated else ""
        what = f"These arguments are not valid JSON: {_quote(call.arguments)}.{rest}"
        return f"Error: not run. {what} Call the tool again with one JSON object."
    what = f"The arguments do not match the tool's schema:\n{_places(violation.errors)}"
    return f"Error: not run. {what}\nCall it again with arguments that do."


def _of_answer(finding: SchemaFinding) -> str:
    violation = finding.problem
    assert isinstance(violation, Violation)
    if violation.code == "response_not_json":
        what = "it is not valid JSON." + (_SHORTER if finding.truncated else "")
    else:
        what = f"it does not match the schema.\n{_places(violation.errors)}\n"
    return _ANSWER.format(what=what)


def _places(errors: Sequence[SchemaError]) -> str:
    """One line for each: pointer, keyword, and what the schema expects."""
    return "\n".join(f"- {_line(error)}" for error in errors)


def _line(error: SchemaError) -> str:
    place = f"at {json.dumps(error.pointer)}" if error.pointer else "at the top"
    if error.keyword == "required":
        return f"{place}: the required property {_quote(error.name)} is missing"
    if error.keyword in ("additionalProperties", "false"):
        only = f"; allowed: {_list_names(error.expected)}" if isinstance(error.expected, list) else ""
        return f"{place}: a property that the schema does not allow{only}"
    return f"{place}: {error.keyword}" + (f", expected {json.dumps(error.expected)}" if error.expected is not None else "")


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(_quote(name) for name in names) or "none"


def _quote(text: str) -> str:
    return json.dumps(text[:MAX_CHARS], ensure_ascii=False)


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
        return self._settle(exchange, found)

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

    def _settle(self, exchange: Exchange, found: CheckedAnswer) -> Verdict:
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
