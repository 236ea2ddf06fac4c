"""Codes of verdicts and errors in the words of a person who has not read the manual. A code that is not here is shown as it is."""

from __future__ import annotations

from proxy.store.records import NOTHING

REASONS = {
    "hallucination_detected": "the answer says what its context does not",
    "claims_unsupported": "a statement that the context does not support",
    "claims_contradicted": "a statement that the context contradicts",
    "claims_unsure": "statements that nothing decides",
    "claims_unchecked": "statements could not be checked",
    "judge_unavailable": "the policy's judge gave no answer",
    "judge_over_budget": "the judge's budget of the day is spent",
    "unchecked_no_context": "no context to check the answer against",
    "unchecked_made_up": "a text to be made up",
    "unchecked_no_statements": "an answer without a statement to check",
    "unchecked_language": "a language that was not measured",
    "unchecked_model_loading": "a model was still being read",
    "unchecked_no_answer_check": "no check of answers in the policy",
    "citations_invalid": "a citation that does not hold",
    "citation_invented": "a citation of what is not there",
    "citation_unsupported": "a citation of what does not say so",
    "citations_missing": "no citation where one is due",
    "citations_unchecked": "citations could not be checked",
    "insufficient_confidence": "too unsure of itself",
    "overclaimed": "surer than its evidence",
    "confidence_unchecked": "its confidence could not be checked",
    "poisoned_context": "false or harmful content kept out",
    "context_quarantined": "content waits in quarantine",
    "context_suspicious": "suspicious content in the context",
    "answer_quarantined": "the answer is kept from coming back",
    "poisoning_unchecked": "content could not be checked",
    "context_quality": "the content that came in is not good enough",
    "context_unchecked": "content could not be checked",
    "context_inaccurate": "the content that came in is not right",
    "context_inconsistent": "the content that came in contradicts itself",
    "context_stale": "the content that came in is out of date",
    "context_incomplete": "something is missing in what came in",
    "context_irrelevant": "the content that came in is about something else",
    "context_low_quality": "the content that came in is not good enough",
    "context_ignored": "the answer does not use its context",
    "context_usage_high": "the context window is nearly full",
    "context_usage_compress": "so full that the prompt is compressed",
    "context_usage_critical": "the context window is all but full",
    "allocation_exceeded": "a part of the prompt is larger than its share",
    "allocation_compressed": "a part of the prompt was cut to its share",
    "window_unknown": "how large the context window is, is not known",
    "context_length_exceeded": "the context window is full",
    "DISTRACTION": "a very long conversation",
    "history_too_long": "a very long conversation",
    "compression_failed": "the context could not be compressed",
    "CLASH": "statements contradict each other",
    "clash_skipped": "too much to look for contradictions in",
    "clash_found": "statements contradict each other",
    "clash_removed": "one of two contradicting statements was left out",
    "clash_noted": "the model was told of a contradiction",
    "clash_asked": "the user was asked about a contradiction",
    "clash_unresolved": "a contradiction that nobody has settled",
    "clash_unchecked": "contradictions could not be looked for",
    "CONFUSION": "too many tools to choose from",
    "tool_confusion": "too many tools to choose from",
    "low_relevance": "the context is not about the question",
    "relevance_llm_failed": "relevance could not be judged",
    "schema_violation": "not in the form that was asked for",
    "schema_invalid": "not in the form that was asked for",
    "unknown_tool": "a call of a tool that there is not",
    "invalid_json": "JSON that cannot be read",
    "arguments_mismatch": "a tool call with wrong arguments",
    "response_not_json": "no JSON, where JSON was asked for",
    "response_mismatch": "not in the form that was asked for",
    "json_value_kept": "a wrong value stays, as its form allows no other",
    "tool_arguments_unsupported": "a tool call with what nobody said",
    "schema_repaired": "its form was repaired",
    "schema_unchecked": "its form could not be checked",
    "human_asked": "the agent asks a person",
    "system_error": "something broke in the agent's surroundings",
    "arguments_capped": "a tool call asked for too much and was cut",
    "failures_unchecked": "failures could not be looked for",
    "failure_repeated": "the agent repeats a failure",
    "invalid_arguments": "a tool call with wrong arguments",
    "retry_impossible": "a better answer cannot be had here",
    "check_failed": "a check broke",
    "check_timeout": "a check took too long",
    "check_over_budget": "a check took too much processor time",
    "retry_failed": "a better answer could not be had",
    "store_unavailable": "the store was away",
    "answer_unreadable": "an answer that cannot be read",
    "upstream_error": "the provider broke off",
    "upstream_unreachable": "the provider cannot be reached",
    "upstream_timeout": "the provider took too long",
    "rate_limited": "too many requests",
    "overloaded": "the proxy is busy",
    "invalid_api_key": "a wrong key",
    "invalid_request": "a request that is not valid",
    "internal_error": "an error of the proxy",
}
_WOULD = {
    "block": "would have refused it",
    "retry": "would have asked for another answer",
    "answer": "would have answered itself",
    "ask": "would have asked the user",
    "edit": "would have changed it",
}


def in_words(code: str) -> str:
    """A code as a phrase; "" for none."""
    if code in REASONS:
        return REASONS[code]
    if code.startswith("unchecked_language_"):
        return f"{REASONS['unchecked_language']}: {code.removeprefix('unchecked_language_').replace('_', ', ')}"
    if code.startswith("upstream_"):
        return f"the provider said {code.removeprefix('upstream_').replace('_', ' ')}"
    return code.replace("_", " ")


def why(reason: str, would: str) -> str:
    """What happened, in a few words: what a policy in shadow mode held back comes first."""
    held = _WOULD.get(would, "") if would not in ("", NOTHING) else ""
    return ": ".join(part for part in (held, in_words(reason)) if part)
