"""Asking again: what the model is told about a call or an answer that does not conform. Pure functions.

The words are English, as most schemas are; places are JSON pointers. Each call gets a result, as providers want it: what is wrong with it,
or that it was not run. Where calls cannot be answered so (no ids, the legacy ``function_call``), a user message says the same. What the
model wrote is quoted as JSON strings, which it cannot end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from proxy.exchange import Choice, Message, Tool, ToolCall, tool_name
from proxy.language.json.conformance import Violation
from proxy.language.json.schema_problems import SchemaError
from proxy.stages.schema.checking import SchemaFinding

MAX_CHARS = 600
"""Of a quotation."""
MAX_TOOLS = 30
_NOT_RUN = "Not run, because another call of the same answer was wrong. Call it again."
_ANSWER = (
    "Your last answer does not have the form that was asked for: {what} Write the whole answer again as JSON of that form: nothing before "
    "or after it, no Markdown, no comment. Keep its content and do not mention this request."
)
_SHORTER = " It was cut off by the token limit: make it shorter."


def asked_again(messages: Sequence[Message], choice: Choice, findings: Sequence[SchemaFinding], tools: Sequence[Tool]) -> list[Message]:
    """`messages`, the answer, and what is wrong with it. `findings` are those of `choice` that violate."""
    by_call = {finding.call: finding for finding in findings}
    if None in by_call:
        said = [_said(choice.text)] if choice.text.strip() else []
        return [*messages, *said, {"role": "user", "content": _of_answer(by_call[None])}]
    told = {call.index: _told(call, by_call[call.index], tools) if call.index in by_call else _NOT_RUN for call in choice.tool_calls}
    ids = [call.id for call in choice.tool_calls]
    if all(ids) and len(set(ids)) == len(ids) and all(call.name for call in choice.tool_calls):
        results = [{"role": "tool", "tool_call_id": call.id, "content": told[call.index]} for call in choice.tool_calls]
        return [*messages, _called(choice), *results]
    said = [_said(choice.text)] if choice.text.strip() else []
    lines = [f"Your call of {_quoted(call.name)} with {_quoted(call.arguments)}: {told[call.index]}" for call in choice.tool_calls]
    return [*messages, *said, {"role": "user", "content": "\n\n".join(lines)}]


def _said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _called(choice: Choice) -> dict[str, Any]:
    """The answer as a message. Providers refuse a conversation with arguments that are not JSON."""
    written = [(call, call.arguments if call.arguments.strip() and call.parsed is not None else "{}") for call in choice.tool_calls]
    calls = [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}} for call, text in written]
    return {"role": "assistant", "content": choice.text or None, "tool_calls": calls}


def _told(call: ToolCall, finding: SchemaFinding, tools: Sequence[Tool]) -> str:
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
