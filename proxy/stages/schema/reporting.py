"""What was found, for the record: verdicts with codes, pointers and names, no value. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from proxy.exchange import Exchange, Outcome, Verdict
from proxy.language.json.conformance import Unchecked, Violation
from proxy.language.json.schema_problems import SchemaError
from proxy.stages.schema.checking import CheckedAnswer, SchemaFinding

NAME = "schema"
BLOCKED = "schema_violation"
REPAIRED = "schema_repaired"
INVALID = "schema_invalid"
UNCHECKED = "schema_unchecked"
MAX_LISTED = 16
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
