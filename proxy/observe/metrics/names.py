"""The dotted counters that are raised all over the house, what each counts, and which of them are labelled figures, too.

`Counters.count("context.usage_warning_count")` is ``groundwire_context_usage_warning_total``. Every counter of this list is there from the
start, at 0, so that the first event is a rise that Prometheus can see; one that is not in it works, but begins with its first event. A
test holds the list against the code.
"""

from __future__ import annotations

import re

from proxy.stages.registry import STAGES

_OWN = {
    "answers.left_out_count": "fields and events of upstreams' answers that a closed policy did not recognise and left out",
    "answers.own_count": "answers that a stage gave in the model's stead",
    "client.gone_count": "clients that left before their answer's end",
    "ledger.connection_refused_count": "connections past all places, or past an address's share",
    "ledger.connection_closed_count": "idle connections that made room for another of their address",
    "ledger.body_refused_count": "requests whose bodies were past the room for all, or past a party's share",
    "ledger.place_refused_count": "calls that got no place at an upstream",
    "ledger.reader_stalled_count": "clients that were let go, as they read nothing of their answer",
    "ledger.guess_refused_count": "wrong keys past those that an address may send in a minute",
    "ledger.owner_refused_count": "requests that named what is another client's, or nobody's",
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
