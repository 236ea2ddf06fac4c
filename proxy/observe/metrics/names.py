"""The dotted counters that are raised all over the house, what each counts, and which of them are labelled figures, too.

`Counters.count("context.usage_warning_count")` is ``groundwire_context_usage_warning_total``. Every counter of this list is there from the
start, at 0, so that the first event is a rise that Prometheus can see; one that is not in it works, but begins with its first event. A
test holds the list against the code.
"""

from __future__ import annotations

import re

_QUESTIONABLE = ("relevance", "freshness", "accuracy", "completeness", "consistency", "score")
_CLASHES = ("contradictory_preferences", "conflicting_facts", "outdated_information", "duplicate_facts")
_POISON = (
    "wrong_location",
    "wrong_date",
    "invented_date",
    "wrong_number",
    "wrong_unit",
    "wrong_name",
    "false_capability",
    "contradiction",
    "unsupported_claim",
    "outdated",
    "hidden_instruction",
)
_SIGNALS = (
    "tool_error",
    "upstream_error",
    "retrieval_failure",
    "schema_violation",
    "loop",
    "human_correction",
    "budget_pressure",
)
_STOPS = ("ask_human", "system_error")

DOTTED: dict[str, str] = {
    "answers.own_count": "answers that a stage gave in the model's stead",
    "client.gone_count": "clients that left before their answer's end",
    "upstream.retry_count": "calls of an upstream that were tried again",
    "upstream.fallback_count": "calls that went on to a fallback",
    "tools.answered_count": "calls of the proxy's own tools",
    "records.written": "records that reached the store",
    "records.lost": "records that did not",
    "records.write_errors": "writes of records that failed and were tried again",
    # budget
    "context.usage_warning_count": "prompts above the budget's warn_at and below the next threshold",
    "context.compression_triggered_count": "prompts above compress_at and below critical_at",
    "context.critical_alerts_count": "prompts above critical_at",
    "context.allocation_exceeded_count": "prompts of which a component is above its allocation",
    "context.length_exceeded_count": "prompts that were refused as too long for the window",
    "context.length_exceeded_upstream_count": "prompts that the upstream refused as too long",
    # history, compression
    "context.distraction_count": "histories that are too long",
    "context.history_summarize_count": "histories shortened by a summary",
    "context.history_sliding_window_count": "histories shortened to a window",
    "context.compression_count": "prompts that were compressed",
    "context.compression_tokens_before_count": "their tokens before",
    "context.compression_tokens_after_count": "their tokens after",
    "context.compression_failures": "prompts that stayed above the target",
    **{f"context.compression_{name}_count": f"compressions in which {name} did something" for name in ("trim", "summarize", "archive")},
    # tool_rag
    "context.tool_rag_requests_count": "requests whose tools were selected from",
    "context.tools_offered_count": "tools of these requests",
    "context.tools_kept_count": "tools of them that went to the model",
    "context.tool_tokens_before_count": "tokens of their descriptions",
    "context.tool_tokens_kept_count": "tokens of what was sent of them",
    "context.tool_calls_count": "calls by the model where tools had been left out",
    "context.tool_calls_found_count": "calls of them whose tool was there without a search",
    "context.tool_searches_count": "searches by the model for a tool",
    "context.learning_dropped_count": "outcomes that were not learned, as too many waited",
    # relevance, knowledge
    "context.relevance_checked_count": "requests whose context was compared with the question",
    "context.relevance_llm_count": "times a model was asked about it",
    "context.irrelevant_context_count": "requests whose context has little to do with the question",
    "context.relevance_answered_count": "requests answered by the stage for it",
    "context.passages_left_out_count": "passages left out as irrelevant",
    "knowledge.facts_count": "facts that joined the evidence",
    # validation
    "validation.checked_count": "new pieces of context that were validated",
    **{f"validation.{name}_failed_count": f"pieces below the threshold of {name}" for name in _QUESTIONABLE},
    **{f"validation.{name}_count": f"pieces with the action {name}" for name in ("down_rank", "drop", "reject")},
    # poisoning
    "poisoning.checked_count": "new pieces of context that were checked",
    "poisoning.attempts_count": "pieces that were poisoned",
    "poisoning.blocked_count": "pieces that were blocked",
    "poisoning.quarantined_count": "pieces that were quarantined",
    "poisoning.rejected_count": "pieces for which the request was refused",
    "poisoning.annotated_count": "pieces that were only reported",
    "poisoning.answers_count": "answers kept from coming back as history",
    "poisoning.alerts_count": "times the share of poisoned pieces rose above alert_above",
    **{f"poisoning.type_{name}_count": f"poisoned pieces of the type {name}" for name in _POISON},
    **{f"quarantine.{name}_count": f"pieces that a person {name}" for name in ("approved", "rejected")},
    # clash
    "clash.found_count": "clashes found",
    "clash.found_critical_count": "clashes found that are critical",
    "clash.auto_resolved_count": "clashes that the policy resolved",
    "clash.asked_count": "clashes about which the user was asked",
    "clash.user_resolved_count": "clashes that the user resolved",
    "clashes.operator_resolved_count": "clashes that an operator resolved",
    **{
        f"clash.{what}_{name}_count": f"of them: {name}"
        for what in ("found", "auto_resolved", "asked", "user_resolved")
        for name in _CLASHES
    },
    **{f"clash.auto_resolved_{name}_count": f"of them: by {name}" for name in ("prefer_recent", "merge")},
    # reflection, schema
    "reflection.failures_count": "failures found in agents' runs",
    **{f"reflection.failures_{name}_count": f"of them: {name}" for name in _SIGNALS},
    "reflection.resolved_count": "failures that a later success resolved",
    "reflection.injected_count": "failures told in prompts",
    **{f"reflection.escalated_{name}_count": f"requests stopped for a failure without progress: {name}" for name in _STOPS},
    "reflection.capped_count": "arguments of tool calls that were capped",
    "reflection.unkept_count": "stops that could not be kept, the store being away",
    **{f"failures.operator_{name}_count": f"failure records on which a person gave {name}" for name in ("resolved", "feedback")},
    "schema.violations_count": "tool calls and answers against their schemas",
    "schema.repaired_count": "of them mended without loss",
    "schema.retried_count": "answers for which another one was asked",
    "schema.blocked_count": "answers refused",
    # the answer
    "claims.checked_count": "statements of answers that were checked",
    **{f"claims.{name}_count": f"statements found {name}" for name in ("supported", "contradicted", "unsupported", "unsure", "error")},
    "claims.second_opinion_count": "statements on which a second opinion was asked for",
    "claims.second_opinion_failed_count": "second opinions that did not come",
    "claims.redacted_count": "statements taken out",
    "claims.replaced_count": "answers replaced",
    "claims.retried_count": "answers for which another one was asked",
    "claims.blocked_count": "answers refused",
    "citations.checked_count": "citations that were checked",
    **{f"citations.{name}_count": f"citations found {name}" for name in ("verified", "invented", "unsupported", "error")},
    "citations.missing_count": "claims without the citation that they need",
    "citations.context_ignored_count": "answers that use none of their passages",
    "citations.redacted_count": "citations taken out",
    "citations.blocked_count": "answers refused",
    "confidence.checked_count": "claims with a rating of their own",
    "confidence.overclaimed_count": "claims rated higher than the evidence carries",
    "confidence.underclaimed_count": "answers rated lower",
    "confidence.rejected_count": "claims taken out as too weak",
}

_LABELLED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"poisoning\.type_(\w+)_count"), "groundwire_poisoning_types"),
    (re.compile(rf"clash\.found_({'|'.join(_CLASHES)})_count"), "groundwire_clash_types"),
    (re.compile(r"clash\.auto_resolved_(prefer_recent|merge|ask_user)_count"), "groundwire_clash_strategies"),
    (re.compile(r"context\.compression_(trim|summarize|archive)_count"), "groundwire_compression_strategies"),
)


def prometheus_name(dotted: str) -> str:
    """As Prometheus knows the counter, without ``_total``."""
    return "groundwire_" + re.sub(r"[^a-z0-9]+", "_", dotted.lower()).removesuffix("_count")


def labelled(dotted: str) -> tuple[str, str] | None:
    """The family that counts the same under a label, with the label's value; None where there is none."""
    for pattern, family in _LABELLED:
        if found := pattern.fullmatch(dotted):
            return family, found[1]
    return None
