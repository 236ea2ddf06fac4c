"""A reading -> the figures that a person looks at: rates, means, percentiles, costs. All over all workers since their start.

Percentiles come from a histogram's buckets, as Prometheus' ``histogram_quantile`` estimates them: evenly spread within a bucket, and the
last edge for what lies beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from proxy.observe.metrics.counts import Reading
from proxy.observe.metrics.families import FAMILIES
from proxy.ports.panels import ranked

_SCORES = ("quality", "faithfulness", "relevance", "citation_precision")
_LABELS = {family.name: family.labels for family in FAMILIES}
_EDGES = {family.name: family.edges for family in FAMILIES}
Total = Callable[[str], int]


class Values:
    """A histogram, added up over the labels that do not matter."""

    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = edges
        self._counts, self.total = [0] * (len(edges) + 1), 0.0

    def add(self, counts: Sequence[int], total: float) -> None:
        """Add those of one set of labels."""
        self._counts = [a + b for a, b in zip(self._counts, counts, strict=True)]
        self.total += total

    @property
    def count(self) -> int:
        """Observations."""
        return sum(self._counts)

    @property
    def mean(self) -> float | None:
        """None without observations."""
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """The value below which `share` of the observations lie, estimated; None without observations."""
        if not self.count:
            return None
        wanted = share * self.count
        for (low, below), (high, upto) in pairwise([(0.0, 0), *zip(self._edges, accumulate(self._counts), strict=False)]):
            if upto >= wanted:
                return low + (high - low) * (wanted - below) / (upto - below) if upto > below else low
        return self._edges[-1]


class Sums:
    """A reading, added up by labels."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def by(self, family: str, *labels: str, **where: str) -> dict[Any, float]:
        """Sums by the values of `labels` (a string for one, a tuple for several), of what is as `where`; without zeros."""
        found: dict[Any, float] = {}
        for (name, *values), value in self._reading.counts.items():
            if name == family and value:
                given = dict(zip(_LABELS[family], values, strict=True))
                if where.items() <= given.items():
                    key = _key(given, labels)
                    found[key] = found.get(key, 0.0) + value
        return found

    def total(self, family: str, **where: str) -> float:
        """The sum of all that is as `where`."""
        return sum(self.by(family, **where).values())

    def values(self, family: str, *labels: str) -> dict[Any, Values]:
        """Histograms by the values of `labels`, the other labels added up; without empty ones."""
        found: dict[Any, Values] = {}
        for (name, *values), (counts, total) in self._reading.spreads.items():
            if name == family and any(counts):
                key = _key(dict(zip(_LABELS[family], values, strict=True)), labels)
                found.setdefault(key, Values(_EDGES[family])).add(counts, total)
        return found

    def plain(self, prefix: str) -> Total:
        """What reads the counters without labels whose names begin so."""
        return lambda name: int(self._reading.plain.get(f"groundwire_{prefix}{name}", ("", "", 0.0))[2])


def _key(given: Mapping[str, str], labels: Sequence[str]) -> Any:
    return given[labels[0]] if len(labels) == 1 else tuple(given[label] for label in labels)


def series(reading: Reading) -> dict[str, float]:
    """All but buckets, by name and labels, in order."""
    found = {}
    for family in reading.collect():
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                written = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{written}}}" if written else sample.name] = sample.value
    return dict(sorted(found.items()))


def figures(reading: Reading) -> dict[str, object]:
    """What the dashboard shows, by subject; a subject without events is None or empty."""
    sums = Sums(reading)
    return {
        "tool_selection": tool_selection(sums),
        "compression": compression(sums),
        "poisoning": poisoning(sums),
        "clash": clash(sums),
        "distraction": distraction(sums),
        "context": context(sums),
        "exchanges": {
            "total": int(sums.total("groundwire_exchanges")),
            "verdicts": ranked(sums.by("groundwire_exchanges", "verdict")),
            "statuses": counted(sums.by("groundwire_exchanges", "status")),
            "routes": ranked(sums.by("groundwire_exchanges", "route")),
        },
        "tokens": counted(sums.by("groundwire_tokens", "kind")),
        "cost": cost(sums),
        "budget": counted(sums.by("groundwire_context_thresholds", "threshold")),
        "quality": {name: score for name in _SCORES if (score := _score(sums, name)) is not None},
        "latency": latency(sums),
        "upstreams": upstreams(sums),
        "warnings": ranked(sums.by("groundwire_warnings", "code")),
        "check_errors": ranked(sums.by("groundwire_check_errors", "stage")),
    }


def counted(found: Mapping[str, float]) -> dict[str, int]:
    """As whole numbers, by name."""
    return {name: int(found[name]) for name in sorted(found)}


def tool_selection(sums: Sums) -> dict[str, Any] | None:
    """How well tools were selected; None before the first selection.

    `selection_accuracy` is the share of `calls` (requests in which the model called or searched for a tool) whose called tools were all
    in the first set, without a search (absent before the first), `average_tools` the client's tools in a prompt, `token_savings` the
    share of tool description tokens not sent, the proxy's own tools counted as sent, and `confusion_incidents` the requests that went
    with all of too many tools.
    """
    total = sums.plain("context_")
    requests, calls, before = total("tool_rag_requests"), total("tool_calls"), total("tool_tokens_before")
    if not requests:
        return None
    found: dict[str, Any] = {"requests": requests, "calls": calls}
    if calls:
        found["selection_accuracy"] = round(total("tool_calls_found") / calls, 4)
    return found | {
        "average_tools_offered": round(total("tools_offered") / requests, 2),
        "average_tools": round(total("tools_kept") / requests, 2),
        "token_savings": round(1 - total("tool_tokens_kept") / before, 4) if before else 0.0,
        "confusion_incidents": total("confusion_incidents"),
    }


def compression(sums: Sums) -> dict[str, Any] | None:
    """What compression did; None before the first time. The ratio is tokens before to after; a failure left a prompt above its target."""
    total = sums.plain("context_compression")
    before, after = total("_tokens_before"), total("_tokens_after")
    if not total(""):
        return None
    return {
        "runs": total(""),
        "failures": total("_failures"),
        "tokens_freed": before - after,
        "context.compression_ratio_avg": round(before / max(after, 1.0), 2),
        "strategies": ranked(sums.by("groundwire_compression_strategies", "strategy")),
    }


def poisoning(sums: Sums) -> dict[str, Any] | None:
    """What was kept out of the context; None before the first check.

    `rate` is the share of new pieces that were poisoned; `types` counts what was wrong with them, the most common first.
    """
    total = sums.plain("poisoning_")
    checked = total("checked")
    if not checked:
        return None
    return {
        "checked": checked,
        "attempts": total("attempts"),
        "rate": round(total("attempts") / checked, 4),
        **{name: total(name) for name in ("blocked", "quarantined", "rejected", "annotated", "answers", "alerts")},
        "types": ranked(sums.by("groundwire_poisoning_types", "type")),
    }


def clash(sums: Sums) -> dict[str, Any] | None:
    """How statements that contradict each other were resolved; None before the first one.

    `interventions` are those that the policy left to a person; who resolved them is in `user_resolved` and `operator_resolved`.
    `strategies` counts what each resolved, ``ask_user`` where the user has replied.
    """
    total = sums.plain("clash")
    found, by_policy, replied = (total(f"_{name}") for name in ("found", "auto_resolved", "user_resolved"))
    if not found:
        return None
    strategies = sums.by("groundwire_clash_strategies", "strategy") | ({"ask_user": float(replied)} if replied else {})
    return {
        "found": found,
        "critical": total("_found_critical"),
        "auto_resolved": by_policy,
        "auto_resolved_rate": round(by_policy / found, 4),
        "interventions": found - by_policy,
        "asked": total("_asked"),
        "user_resolved": replied,
        "operator_resolved": total("es_operator_resolved"),
        "types": ranked(sums.by("groundwire_clash_types", "type")),
        "strategies": ranked(strategies),
    }


def distraction(sums: Sums) -> dict[str, Any] | None:
    """Histories that were too long, by severity and by what the proxy recommends; None before the first."""
    severities, actions = (sums.by("groundwire_distraction_alerts", label) for label in ("severity", "action"))
    taken = sums.plain("context_history_")
    if not severities:
        return None
    return {
        "alerts": int(sum(severities.values())),
        "severities": ranked(severities),
        "recommended_actions": ranked(actions),
        "taken": {name: taken(name) for name in ("summarize", "sliding_window")},
    }


def context(sums: Sums) -> dict[str, Any]:
    """The health of the contexts in one flat list, by the names under which it is commonly asked for; zeros and nulls before the first.

    Lists are the most common first.
    """
    total = sums.plain("")
    parts: Sequence[Callable[[Sums], dict[str, Any] | None]] = (tool_selection, clash, poisoning, compression)
    tools, clashes, poisoned, compressed = (part(sums) or {} for part in parts)
    strategies = {**clashes.get("strategies", {}), "ask_user": total("clash_asked")}
    return {
        **{f"{name}_count": total(f"context_{name}") for name in ("usage_warning", "compression_triggered", "critical_alerts")},
        "compression_ratio_avg": compressed.get("context.compression_ratio_avg"),
        "compression_failures": compressed.get("failures", 0),
        "poisoning_attempts": poisoned.get("attempts", 0),
        "poisoning_blocked": poisoned.get("blocked", 0),
        "poisoning_attempts_blocked": sum(poisoned.get(name, 0) for name in ("blocked", "quarantined", "rejected")),
        "poisoning_rate": poisoned.get("rate"),
        "common_poisoning_types": list(poisoned.get("types", ())),
        "distraction_alerts": total("context_distraction"),
        "tool_selection_accuracy": tools.get("selection_accuracy"),
        "avg_tools_in_context": tools.get("average_tools"),
        "token_savings": tools.get("token_savings"),
        "confusion_incidents": tools.get("confusion_incidents", 0),
        "total_clashes_detected": clashes.get("found", 0),
        "auto_resolved": clashes.get("auto_resolved", 0),
        "user_intervention_required": clashes.get("interventions", 0),
        "common_clash_types": list(clashes.get("types", ())),
        "resolution_strategies_used": ranked({name: count for name, count in strategies.items() if count}),
    }


def cost(sums: Sums) -> dict[str, Any]:
    """USD by the list of prices, and how many exchanges it says nothing of."""
    models = sorted(sums.by("groundwire_cost_usd", "model").items(), key=lambda one: -one[1])
    return {
        "usd": round(sums.total("groundwire_cost_usd"), 6),
        "models": {model: round(usd, 6) for model, usd in models},
        "unpriced_exchanges": int(sums.total("groundwire_unpriced_exchanges")),
        "unpriced_models": ranked(sums.by("groundwire_unpriced_exchanges", "model")),
    }


def latency(sums: Sums) -> dict[str, Any]:
    """Added milliseconds: of each stage's hook, and of whole exchanges by route."""
    stages = sums.values("groundwire_stage_seconds", "stage", "hook")
    routes = sums.values("groundwire_overhead_seconds", "route")
    return {
        "overhead": {route: _milliseconds(found) for route, found in sorted(routes.items())},
        "stages": {f"{stage}.{hook}": _milliseconds(found) for (stage, hook), found in sorted(stages.items())},
    }


def upstreams(sums: Sums) -> dict[str, Any]:
    """Each upstream's calls, errors and times."""
    prefix = "groundwire_upstream_"
    calls = sums.by(f"{prefix}calls", "upstream")
    first, whole = (sums.values(f"{prefix}{name}", "upstream") for name in ("first_byte_seconds", "seconds"))
    return {
        name: {
            "calls": int(calls[name]),
            "errors": ranked(sums.by(f"{prefix}errors", "reason", upstream=name)),
            "retries": int(sums.total(f"{prefix}retries", upstream=name)),
            "fallbacks": int(sums.total(f"{prefix}fallbacks", upstream=name)),
            **({"first_byte": _milliseconds(first[name])} if name in first else {}),
            **({"whole": _milliseconds(whole[name])} if name in whole else {}),
        }
        for name in sorted(calls)
    }


def _milliseconds(found: Values) -> dict[str, float | int | None]:
    def ms(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds * 1000, 3)

    return {"count": found.count, "mean_ms": ms(found.mean), "p50_ms": ms(found.quantile(0.5)), "p95_ms": ms(found.quantile(0.95))}


def _score(sums: Sums, name: str) -> dict[str, Any] | None:
    """Count, mean and percentiles over all routes; None before the first."""
    found = sums.values(f"groundwire_{name}_ratio").get(())
    if found is None or found.mean is None:
        return None
    percentiles = {f"p{share}": round(found.quantile(share / 100) or 0.0, 4) for share in (10, 50, 90)}
    return {"count": found.count, "mean": round(found.mean, 4), **percentiles}
