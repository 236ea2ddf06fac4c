"""The verdicts of the stage `claims`: of a sentence, of an answer that is refused, of the whole answer and its tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from proxy.exchange import Exchange, Outcome, Sentence, Verdict
from proxy.exchange.judgements import UNKNOWN_LANGUAGE, Judgement, faithfulness, support, was_judged
from proxy.exchange.verdicts import UNCHECKED
from proxy.ports import Counters
from proxy.stages.claims.acting import failing_of
from proxy.stages.claims.arguments import Argument
from proxy.stages.claims.checks import Checks, FoundClaims, Ground
from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.claims.reporting import MAX_CHARS, detail_of, entry, refusal, worst_code

BLOCKED = "hallucination_detected"
CHECKED = ("supported", "contradicted", "unsupported", "unsure", "error")
"""Labels of what was, or should have been, judged."""
NO_CONTEXT, MADE_UP, NO_STATEMENTS = "no context", "text to be made up", "nothing to check"
UNCHECKED_CODES = {
    NO_CONTEXT: f"{UNCHECKED}no_context",
    MADE_UP: f"{UNCHECKED}made_up",
    NO_STATEMENTS: f"{UNCHECKED}no_statements",
    UNKNOWN_LANGUAGE: f"{UNCHECKED}language",
}
"""By the reason for which no statement was judged: the code that says so; behind that of a language stands which."""
CERTAIN = 0.8
"""Probability of support from which a statement that a verifier alone supports is good enough for a ``pass``. Of sentences of answers over
tables, logs and prose 7% of the right ones and 2% of those with one thing wrong reach it (0.7: 21% and 12%): `benchmarks.answers`."""
_SAYS_SOMETHING = frozenset(("value", "not_known", "code", "instruction", "hedge", "plan", "refusal"))
"""Reasons of statements that nobody checks, although something can be wrong with them."""


def holds(judgement: Judgement) -> bool:
    """Whether a statement is good enough for a ``pass``: it is supported for certain, or there is nothing in it to be wrong."""
    if judgement.label == "not_checkable":
        return judgement.reason not in _SAYS_SOMETHING
    return judgement.label == "supported" and support(judgement) >= CERTAIN


class Verdicts:
    """Of one policy's stage."""

    def __init__(self, name: str, options: ClaimsOptions, counters: Counters) -> None:
        self._name, self._options, self._counters = name, options, counters

    def of_sentence(self, sentence: Sentence, outcome: Outcome, code: str, replacement: str | None) -> Verdict:
        """Of one sentence, before it leaves."""
        detail = {"choice": sentence.choice, "sentence": sentence.index, "action": self._options.action}
        return Verdict(self._name, outcome, code=code, detail=detail, replacement=replacement)

    def blocked(self, checks: Checks) -> Verdict:
        """The answer is refused."""
        self._counters.count("claims.blocked_count")
        score, message = faithfulness(one.judgement for one in checks.found), refusal(failing_of(checks.found, self._options.fail_on))
        detail = {"action": self._options.action, **detail_of(checks.found)}
        return Verdict(self._name, "block", code=BLOCKED, score=score, detail=detail, message=message)

    def summed_up(
        self,
        exchange: Exchange,
        checks: Checks,
        ground: Ground,
        arguments: Sequence[tuple[Argument, Judgement]],
        of_claims: Mapping[str, Any],
    ) -> Verdict:
        """The verdict of the whole answer; where it is an error, what failed is one of its own before it."""
        detail = {"action": self._options.action, "evidence": len(ground.base.evidence), **of_claims}
        score, failing = exchange.facts.faithfulness, failing_of(checks.found, self._options.fail_on)
        unchecked = [one.judgement for one in checks.found if one.judgement.label == "error"]
        if reason := _unchecked_reason(checks, ground):
            detail["reason"] = reason
        if languages := sorted({one.judgement.language for one in checks.found if one.judgement.language}):
            detail["languages"] = languages
        of_answer = Verdict(self._name, "warn", worst_code(failing), score, detail, scope="statements")
        if not failing:
            outcome: Outcome = "unchecked" if reason else "pass" if _all_hold(checks) else "unsure"
            code = UNCHECKED_CODES.get(reason, "")
            of_answer = replace(of_answer, outcome=outcome, code=f"{code}_{'_'.join(languages)}" if code and languages else code)
        blocked = self._report_arguments(exchange, arguments)
        if blocked is not None:
            exchange.verdicts.append(of_answer)
            return blocked
        unchecked += [judgement for _, judgement in arguments if judgement.label == "error"]
        if unchecked:
            if failing:
                exchange.verdicts.append(Verdict(self._name, "warn", code=worst_code(failing), score=score))
            reason = unchecked[0].reason[:MAX_CHARS]
            return Verdict(self._name, "error", code="claims_unchecked", score=score, detail={"reason": reason, **detail})
        return of_answer

    def _report_arguments(self, exchange: Exchange, arguments: Sequence[tuple[Argument, Judgement]]) -> Verdict | None:
        """Note what was found of tool calls; a block, where it failed and the policy says so."""
        if not arguments:
            return None
        failing = [judgement for _, judgement in arguments if judgement.label in ("unsupported", "contradicted")]
        listed = [{"tool": a.tool, "argument": a.path[:MAX_CHARS], **entry(FoundClaims(a.choice, j, 0.0))} for a, j in arguments]
        detail = {"tool_arguments": listed}
        if failing and self._options.tool_arguments == "block":
            self._counters.count("claims.blocked_count")
            message = "a tool call takes for granted what the context does not hold: " + failing[0].claim.text[:MAX_CHARS]
            return Verdict(self._name, "block", code=BLOCKED, detail=detail, message=message)
        outcome: Outcome = "warn" if failing else "pass"
        code = "tool_arguments_unsupported" if failing else ""
        exchange.verdicts.append(Verdict(self._name, outcome, code, detail=detail, scope="answer"))
        return None


def _unchecked_reason(checks: Checks, ground: Ground) -> str:
    """Why no statement was judged; "" where one was, or should have been."""
    checkable = [one.judgement for one in checks.found if one.judgement.label in CHECKED]
    if not checkable:
        return ground.skipped or NO_STATEMENTS
    unknown = not any(was_judged(judgement) or judgement.label == "error" for judgement in checkable)
    return UNKNOWN_LANGUAGE if unknown else ""


def _all_hold(checks: Checks) -> bool:
    return not checks.values and all(holds(one.judgement) for one in checks.found)
