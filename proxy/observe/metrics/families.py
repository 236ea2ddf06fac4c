"""Every labelled family of figures: its name, what it means, its labels, and the edges of a histogram's buckets; and every dotted counter.

Families of a stage's counters are declared by the stage (`Stage.families`). Names follow Prometheus' conventions: base units (seconds,
tokens, USD, ratios from 0 to 1), ``_total`` on counters, which `proxy.observe.metrics.counts` adds. Labels are bounded: routes, upstreams,
stages and hooks are configured, the rest is cut by `Names`: client keys, too. Never a client without a key, a run or free text.

Dotted counters are raised all over the house: ``context.usage_warning_count`` is ``groundwire_context_usage_warning_total``. Each of the
list is there from the start, at 0, so that the first event is a rise that Prometheus can see; one that is not in it works, but begins with
its first event. A test holds the list against the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from proxy.stages.registry import STAGES

OVERHEAD_EDGES_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
STAGE_EDGES_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
UPSTREAM_EDGES_S = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
WINDOW_EDGES = (0.05, 0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""0.7, 0.8 and 0.9 are the default thresholds of the stage budget."""
SCORE_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
COMPRESSION_EDGES = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


class Family(Struct, frozen=True):
    """One family."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    """A histogram's upper edges; none for a counter."""


FAMILIES: tuple[Family, ...] = (
    Family("groundwire_exchanges", "Exchanges by route, verdict and status class", ("route", "verdict", "status")),
    Family(
        "groundwire_overhead_seconds",
        "Time added before, between and after the upstream's calls, for each exchange",
        ("route",),
        OVERHEAD_EDGES_S,
    ),
    Family("groundwire_stage_seconds", "Time that a stage's hook took, for each exchange", ("stage", "hook"), STAGE_EDGES_S),
    Family(
        "groundwire_tokens",
        "Tokens as the upstream reported them, or counted where it did not; cached ones are a part of the prompt's",
        ("route", "kind"),
    ),
    Family("groundwire_model_tokens", "The same by upstream and model", ("upstream", "model", "kind")),
    Family("groundwire_cost_usd", "Cost by the list of prices, in USD", ("upstream", "model")),
    Family("groundwire_unpriced_exchanges", "Exchanges with tokens of a model whose price is not known", ("upstream", "model")),
    Family(
        "groundwire_context_window_ratio",
        "Share of the model's window that a prompt takes, as the client sent it (received) and as it went upstream (sent)",
        ("route", "prompt"),
        WINDOW_EDGES,
    ),
    Family(
        "groundwire_context_thresholds",
        "Exchanges whose prompt, as sent, reached a threshold of the budget (warn, compress, critical: 70, 80 and 90% unless the "
        "policy says otherwise); one that reaches a higher one counts for the lower ones, too",
        ("route", "threshold"),
    ),
    Family("groundwire_quality_ratio", "Overall score of an answer", ("route",), SCORE_EDGES),
    Family("groundwire_faithfulness_ratio", "Share of an answer's checkable claims that the context supports", ("route",), SCORE_EDGES),
    Family("groundwire_relevance_ratio", "Calibrated relevance of the context to the question", ("route",), SCORE_EDGES),
    Family("groundwire_citation_precision_ratio", "Share of an answer's citations that were verified", ("route",), SCORE_EDGES),
    Family(
        "groundwire_compression_ratio",
        "Tokens of a prompt before to after compression, where it did something",
        ("route",),
        COMPRESSION_EDGES,
    ),
    Family(
        "groundwire_judge_questions",
        "Questions that a policy's judge was asked, by what came of them: answered, cached (known already) or unanswered",
        ("judge", "result"),
    ),
    Family("groundwire_judge_tokens", "Tokens of a judge's calls", ("judge", "kind")),
    Family("groundwire_judge_cost_usd", "Cost of a judge's calls by the list of prices, in USD", ("judge",)),
    Family("groundwire_judge_seconds", "Waited for a policy's judge, for each exchange in which it was called", ("judge",), STAGE_EDGES_S),
    Family("groundwire_answer_retries", "Further answers that the upstream was asked for", ("route",)),
    Family("groundwire_warnings", "Exchanges with a verdict that warns, refuses or failed, by its code", ("code", "outcome")),
    Family("groundwire_check_errors", "Checks that could not run, by stage", ("stage",)),
    Family("groundwire_distraction_alerts", "Histories that are too long, and what the proxy recommends", ("severity", "action")),
    Family("groundwire_upstream_calls", "Calls of an upstream, each try", ("upstream",)),
    Family("groundwire_upstream_errors", "Calls of an upstream that failed, each try, by what went wrong", ("upstream", "reason")),
    Family("groundwire_upstream_retries", "Calls that were tried again", ("upstream",)),
    Family("groundwire_upstream_fallbacks", "Calls that went on to the next upstream of the list", ("upstream",)),
    Family(
        "groundwire_upstream_first_byte_seconds",
        "From the call to the answer's headers, of calls that succeeded",
        ("upstream",),
        UPSTREAM_EDGES_S,
    ),
    Family(
        "groundwire_upstream_seconds", "From the call to the answer's last byte, of calls that succeeded", ("upstream",), UPSTREAM_EDGES_S
    ),
    Family("groundwire_key_exchanges", "Requests of a client key that no limit refused", ("team", "key")),
    Family("groundwire_key_tokens", "Tokens that a key's requests took, counted where the upstream did not say", ("team", "key", "kind")),
    Family("groundwire_key_cost_usd", "The same by the list of prices, in USD", ("team", "key")),
    Family("groundwire_limit_refusals", "Requests that a limit of a key or its team refused", ("team", "key", "limit")),
    *(Family(family.name, family.help, (family.label,)) for stage in STAGES for family in stage.families),
)

GAUGES: tuple[tuple[str, str, Callable[[Sequence[float]], float]], ...] = (
    ("groundwire_workers", "Worker processes", sum),
    ("groundwire_store_available", "1 while every worker's store takes and gives, else 0", min),
    ("groundwire_mcp_servers_away", "MCP servers that cannot be called now", max),
    ("groundwire_mcp_tools_held", "Tools of MCP servers that are listed and wait for a person", max),
    ("groundwire_records_waiting", "Records that are not in the store yet", sum),
    ("groundwire_processes", "Processes of all nodes that the store serves", max),
    ("groundwire_alerts_firing", "Rules of alerts that ring now", max),
    ("groundwire_drift", "1 where those have differed in release, policies, keys or knowledge for a minute, else 0", max),
)
"""Name, meaning, and how it is put together over processes: only living ones count."""

UPSTREAM_REASONS = ("429", "4xx", "5xx", "unreachable", "timeout", "overloaded", "broken")
"""``overloaded``: the proxy's own queue for it was full. ``broken``: the answer ended before it was whole."""

# ---- dotted counters ----

_SAID = {"right": "called right", "wrong": "called wrong", "taken_back": "has taken a word back on"}
_OWN = {
    "answers.left_out_count": "fields and events of upstreams' answers that a closed policy did not recognise and left out",
    "answers.own_count": "answers that a stage gave in the model's stead",
    "client.gone_count": "clients that left before their answer's end",
    "ledger.connection_refused_count": "connections past all places, or past an address's share",
    "ledger.connection_closed_count": "idle connections that made room for another of their address",
    "ledger.body_refused_count": "requests whose bodies were past the room for all, or past a party's share",
    "ledger.place_refused_count": "calls that got no place at an upstream",
    "ledger.history_refused_count": "conversations of WebSockets that were not remembered for want of room: their clients send all again",
    "ledger.reader_stalled_count": "clients that were let go, as they read nothing of their answer",
    "ledger.guess_refused_count": "wrong keys past those that an address may send in a minute",
    "ledger.guess_uncounted_count": "wrong keys that their process alone counted, as who counts over all was away or busy",
    "ledger.owner_refused_count": "requests that named what is another client's, or nobody's",
    "alerts.sent_count": "messages of alerts that a channel took",
    "alerts.failed_count": "messages of alerts that were given up after all tries",
    "limits.dropped_count": "requests whose settlement was dropped, as too many waited: what was reserved counts as spent",
    "limits.uncounted_count": "requests that went on uncounted, as who counts them was away",
    "limits.closed_count": "requests that were refused because who counts them was away",
    "upstream.retry_count": "calls of an upstream that were tried again",
    "upstream.fallback_count": "calls that went on to a fallback",
    "tools.answered_count": "calls of the proxy's own tools",
    "records.written": "records that reached the store",
    "records.lost": "records that did not",
    "records.write_errors": "writes of records that failed and were tried again",
    "context.length_exceeded_upstream_count": "prompts that the upstream refused as too long",
    "context.learning_dropped_count": "outcomes that were not learned, as too many waited",
    **{f"quarantine.{name}_count": f"pieces that a person {name}" for name in ("approved", "rejected")},
    "clashes.operator_resolved_count": "clashes that an operator resolved",
    **{f"feedback.{name}_count": f"findings that a person {done}" for name, done in _SAID.items()},
    **{f"failures.operator_{name}_count": f"failure records on which a person gave {name}" for name in ("resolved", "feedback")},
}
"""Of the server, and of what people do over HTTP; a stage declares its own (`Stage.counters`)."""
DOTTED = _OWN | {name: meaning for stage in STAGES for name, meaning in stage.counters.items()}

_LABELLED = tuple((re.compile(family.pattern), family.name) for stage in STAGES for family in stage.families)


def prometheus_name(dotted: str) -> str:
    """As Prometheus knows the counter, without ``_total``."""
    return "groundwire_" + re.sub(r"[^a-z0-9]+", "_", dotted.lower()).removesuffix("_count")


def labelled(dotted: str) -> tuple[str, str] | None:
    """The family that counts the same under a label, with the label's value; None where there is none."""
    for pattern, family in _LABELLED:
        if found := pattern.fullmatch(dotted):
            return family, found[1]
    return None
