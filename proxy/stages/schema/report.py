"""What was found, for the record: verdicts with codes, pointers and names, no value; and what the model is results when it is asked again.

The words to the model are English, as most schemas are; places are JSON pointers. Each call gets a result, as providers want it: what is
wrong with it, or that it was not run. Where calls cannot be answered so (no ids, the legacy ``function_call``), a user message says the
same. What the model wrote is quoted as JSON strings, which it cannot end. Pure functions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from proxy.exchange import Choice, Exchange, Message, Outcome, Tool, ToolCall, Verdict, tool_name
from proxy.language.json.conformance import Unchecked, Violation
from proxy.language.json.schema_problems import SchemaError
from proxy.stages.schema.rules import CheckedAnswer, SchemaFinding

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
Action = Literal["none", "repaired", "re-asked", "passed", "blocked"]
COUNTERS = {
    "schema.violations_count": "tool calls and answers against their schemas",
    "schema.repaired_count": "of them mended without loss",
    "schema.retried_count": "answers for which another one was asked",
    "schema.blocked_count": "answers refused",
}


def verdict_of(found: CheckedAnswer, action: Action, retries: int) -> Verdict:
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
    answer = [{"role": "assistant", "content": choice.text}] if choice.text.strip() else []
    if None in by_call:
        return [*messages, *answer, {"role": "user", "content": _of_answer(by_call[None])}]
    calls = choice.tool_calls
    results = {call.index: _result_of(call, by_call[call.index], tools) if call.index in by_call else _NOT_RUN for call in calls}
    if len({call.id for call in calls if call.id and call.name}) == len(calls):
        return [
            *messages,
            _called(choice),
            *({"role": "tool", "tool_call_id": call.id, "content": results[call.index]} for call in calls),
        ]
    lines = [f"Your call of {_quoted(call.name)} with {_quoted(call.arguments)}: {results[call.index]}" for call in calls]
    return [*messages, *answer, {"role": "user", "content": "\n\n".join(lines)}]


def _called(choice: Choice) -> dict[str, Any]:
    """The answer as a message. Providers refuse a conversation with arguments that are not JSON."""
    written = [(call, call.arguments if call.arguments.strip() and call.parsed is not None else "{}") for call in choice.tool_calls]
    calls = [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}} for call, text in written]
    return {"role": "assistant", "content": choice.text or None, "tool_calls": calls}


def _result_of(call: ToolCall, finding: SchemaFinding, tools: Sequence[Tool]) -> str:
    violation = finding.problem
    assert isinstance(violation, Violation)
    if violation.code == "unknown_tool":
        names = [name for tool in tools if (name := tool_name(tool))][:MAX_TOOLS]
        near = f" Did you mean {_listed(violation.known)}?" if violation.known else ""
        return f"Error: there is no tool {_quoted(call.name)}.{near} Call one of these, or answer without: {_listed(names)}."
    if violation.code == "invalid_json":
        rest = _SHORTER if finding.truncated else ""
        what = f"These arguments are not valid JSON: {_quoted(call.arguments)}.{rest}"
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
        return f"{place}: the required property {_quoted(error.name)} is missing"
    if error.keyword in ("additionalProperties", "false"):
        only = f"; allowed: {_listed(error.expected)}" if isinstance(error.expected, list) else ""
        return f"{place}: a property that the schema does not allow{only}"
    return f"{place}: {error.keyword}" + (f", expected {json.dumps(error.expected)}" if error.expected is not None else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(_quoted(name) for name in names) or "none"


def _quoted(text: str) -> str:
    return json.dumps(text[:MAX_CHARS], ensure_ascii=False)
