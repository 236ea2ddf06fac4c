"""Samples -> the figures that a person looks at: rates, means, percentiles, costs. All over all workers since their start.

Percentiles come from a histogram's buckets, as Prometheus' ``histogram_quantile`` estimates them: evenly spread within a bucket, and the
last edge for what lies beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from prometheus_client import Metric

_SCORES = ("quality", "faithfulness", "relevance", "citation_precision")


class Spreads:
    """A histogram's buckets, added up over the labels that do not matter."""

    def __init__(self) -> None:
        self.buckets: dict[float, float] = {}
        """Upper edge -> observations up to it."""
        self.total = 0.0

    @property
    def count(self) -> int:
        """Observations."""
        return int(max(self.buckets.values(), default=0))

    @property
    def mean(self) -> float | None:
        """None without observations."""
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """The value below which `share` of the observations lie, estimated; None without observations."""
        return quantile(sorted(self.buckets.items()), share)


def quantile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """Of cumulative `buckets` (upper edge, observations up to it), the last of which is infinite; None without observations."""
    wanted = share * (buckets[-1][1] if buckets else 0.0)
    if not wanted:
        return None
    for (low, below), (high, upto) in pairwise([(0.0, 0.0), *buckets]):
        if upto >= wanted:
            return low if math.isinf(high) else low + (high - low) * (wanted - below) / (upto - below)
    return buckets[-1][0]


class Samples:
    """The samples of one reading, by name."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._by_name: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        self.plain: dict[str, float] = {}
        """Those without labels."""
        for family in families:
            for sample in family.samples:
                self._by_name.setdefault(sample.name, []).append((sample.labels, sample.value))
                if not sample.labels:
                    self.plain[sample.name] = sample.value

    def series(self) -> dict[str, float]:
        """All but buckets, by name and labels, in order."""
        found = {}
        for name, samples in self._by_name.items():
            if not name.endswith("_bucket"):
                for labels, value in samples:
                    written = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
                    found[f"{name}{{{written}}}" if written else name] = value
        return dict(sorted(found.items()))

    def by(self, name: str, *labels: str, **where: str) -> dict[Any, float]:
        """Sums by the values of `labels` (a string for one, a tuple for several), of the samples that are as `where`; without zeros."""
        found: dict[Any, float] = {}
        for given, value in self._by_name.get(name, ()):
            if value and all(given[key] == wanted for key, wanted in where.items()):
                key = given[labels[0]] if len(labels) == 1 else tuple(given[label] for label in labels)
                found[key] = found.get(key, 0.0) + value
        return found

    def total(self, name: str, **where: str) -> float:
        """The sum of all samples that are as `where`."""
        return sum(self.by(name, **where).values())

    def spreads(self, family: str, *labels: str) -> dict[Any, Spreads]:
        """Histograms by the values of `labels`, the other labels added up; without empty ones."""
        found: dict[Any, Spreads] = {}

        def of(given: Mapping[str, str]) -> Spreads:
            key = given[labels[0]] if len(labels) == 1 else tuple(given[label] for label in labels)
            return found.setdefault(key, Spreads())

        for given, value in self._by_name.get(f"{family}_bucket", ()):
            buckets, edge = of(given).buckets, float(given["le"])
            buckets[edge] = buckets.get(edge, 0.0) + value
        for given, value in self._by_name.get(f"{family}_sum", ()):
            of(given).total += value
        return {key: one for key, one in found.items() if one.count}


def figures(samples: Samples) -> dict[str, object]:
    """What the dashboard shows, by subject; a subject without events is None or empty."""
    return {
        "tool_selection": tool_selection(samples.plain),
        "compression": compression(samples),
        "poisoning": poisoning(samples),
        "clash": clash(samples),
        "distraction": distraction(samples),
        "context": context(samples),
        "exchanges": exchanges(samples),
        "tokens": counted(samples.by("groundwire_tokens_total", "kind")),
        "cost": cost(samples),
        "budget": counted(samples.by("groundwire_context_thresholds_total", "threshold")),
        "quality": {name: score for name in _SCORES if (score := _score(samples, name)) is not None},
        "latency": latency(samples),
        "upstreams": upstreams(samples),
        "warnings": ranked(samples.by("groundwire_warnings_total", "code")),
        "check_errors": ranked(samples.by("groundwire_check_errors_total", "stage")),
    }


def counted(found: Mapping[str, float]) -> dict[str, int]:
    """As whole numbers, by name."""
    return {name: int(found[name]) for name in sorted(found)}


def ranked(found: Mapping[str, float]) -> dict[str, int]:
    """As whole numbers, the highest first."""
    return {name: int(value) for name, value in sorted(found.items(), key=lambda one: (-one[1], one[0]))}


def tool_selection(plain: Mapping[str, float]) -> dict[str, float | int] | None:
    """How well tools were selected; None before the first selection.

    `selection_accuracy` is the share of `calls` (requests in which the model called or searched for a tool) whose called tools were all
    in the first set, without a search (absent before the first), `average_tools` the client's tools in a prompt, `token_savings` the
    share of tool description tokens not sent, the proxy's own tools counted as sent, and `confusion_incidents` the requests that went
    with all of too many tools.
    """

    def total(name: str) -> float:
        return plain.get(f"groundwire_context_{name}_total", 0.0)

    requests, calls, before = total("tool_rag_requests"), total("tool_calls"), total("tool_tokens_before")
    if not requests:
        return None
    found: dict[str, float | int] = {"requests": int(requests), "calls": int(calls)}
    if calls:
        found["selection_accuracy"] = round(total("tool_calls_found") / calls, 4)
    return found | {
        "average_tools_offered": round(total("tools_offered") / requests, 2),
        "average_tools": round(total("tools_kept") / requests, 2),
        "token_savings": round(1 - total("tool_tokens_kept") / before, 4) if before else 0.0,
        "confusion_incidents": int(total("confusion_incidents")),
    }


def compression(samples: Samples) -> dict[str, Any] | None:
    """What compression did; None before the first time. The ratio is tokens before to after; a failure left a prompt above its target."""

    def total(name: str) -> float:
        return samples.plain.get(f"groundwire_context_compression{name}_total", 0.0)

    runs, before, after = total(""), total("_tokens_before"), total("_tokens_after")
    if not runs:
        return None
    return {
        "runs": int(runs),
        "failures": int(total("_failures")),
        "tokens_freed": int(before - after),
        "context.compression_ratio_avg": round(before / max(after, 1.0), 2),
        "strategies": ranked(samples.by("groundwire_compression_strategies_total", "strategy")),
    }


def poisoning(samples: Samples) -> dict[str, Any] | None:
    """What was kept out of the context; None before the first check.

    `rate` is the share of new pieces that were poisoned; `types` counts what was wrong with them, the most common first.
    """

    def total(name: str) -> int:
        return int(samples.plain.get(f"groundwire_poisoning_{name}_total", 0))

    checked = total("checked")
    if not checked:
        return None
    return {
        "checked": checked,
        "attempts": total("attempts"),
        "rate": round(total("attempts") / checked, 4),
        **{name: total(name) for name in ("blocked", "quarantined", "rejected", "annotated", "answers", "alerts")},
        "types": ranked(samples.by("groundwire_poisoning_types_total", "type")),
    }


def clash(samples: Samples) -> dict[str, Any] | None:
    """How statements that contradict each other were resolved; None before the first one.

    `interventions` are those that the policy left to a person; who resolved them is in `user_resolved` and `operator_resolved`.
    `strategies` counts what each resolved, ``ask_user`` where the user has replied.
    """

    def total(name: str) -> int:
        return int(samples.plain.get(f"groundwire_{name}_total", 0))

    if not total("clash_found"):
        return None
    replied = {"ask_user": float(total("clash_user_resolved"))} if total("clash_user_resolved") else {}
    return {
        "found": total("clash_found"),
        "critical": total("clash_found_critical"),
        "auto_resolved": total("clash_auto_resolved"),
        "auto_resolved_rate": round(total("clash_auto_resolved") / total("clash_found"), 4),
        "interventions": total("clash_found") - total("clash_auto_resolved"),
        "asked": total("clash_asked"),
        "user_resolved": total("clash_user_resolved"),
        "operator_resolved": total("clashes_operator_resolved"),
        "types": ranked(samples.by("groundwire_clash_types_total", "type")),
        "strategies": ranked(samples.by("groundwire_clash_strategies_total", "strategy") | replied),
    }


def distraction(samples: Samples) -> dict[str, Any] | None:
    """Histories that were too long, by severity and by what the proxy recommends; None before the first."""
    alerts = samples.by("groundwire_distraction_alerts_total", "severity", "action")
    if not alerts:
        return None
    severities, actions = dict[str, float](), dict[str, float]()
    for (severity, action), number in alerts.items():
        severities[severity] = severities.get(severity, 0.0) + number
        actions[action] = actions.get(action, 0.0) + number
    history = "groundwire_context_history_{}_total"
    return {
        "alerts": int(sum(alerts.values())),
        "severities": ranked(severities),
        "recommended_actions": ranked(actions),
        "taken": {name: int(samples.plain.get(history.format(name), 0)) for name in ("summarize", "sliding_window")},
    }


def context(samples: Samples) -> dict[str, Any]:
    """The health of the contexts in one flat list, by the names under which it is commonly asked for; zeros and nulls before the first.

    Lists are the most common first.
    """

    def total(name: str) -> int:
        return int(samples.plain.get(f"groundwire_{name}_total", 0))

    tools, clashes = tool_selection(samples.plain) or {}, clash(samples) or {}
    poisoned, compressed = poisoning(samples) or {}, compression(samples) or {}
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


def exchanges(samples: Samples) -> dict[str, Any]:
    """How many, and how they ended."""
    name = "groundwire_exchanges_total"
    return {
        "total": int(samples.total(name)),
        "verdicts": ranked(samples.by(name, "verdict")),
        "statuses": counted(samples.by(name, "status")),
        "routes": ranked(samples.by(name, "route")),
    }


def cost(samples: Samples) -> dict[str, Any]:
    """USD by the list of prices, and how many exchanges it says nothing of."""
    name = "groundwire_cost_usd_total"
    models = sorted(samples.by(name, "model").items(), key=lambda one: -one[1])
    return {
        "usd": round(samples.total(name), 6),
        "models": {model: round(usd, 6) for model, usd in models},
        "unpriced_exchanges": int(samples.total("groundwire_unpriced_exchanges_total")),
        "unpriced_models": ranked(samples.by("groundwire_unpriced_exchanges_total", "model")),
    }


def latency(samples: Samples) -> dict[str, Any]:
    """Added milliseconds: of each stage's hook, and of whole exchanges by route."""
    stages = samples.spreads("groundwire_stage_seconds", "stage", "hook")
    routes = samples.spreads("groundwire_overhead_seconds", "route")
    return {
        "overhead": {route: _milliseconds(found) for route, found in sorted(routes.items())},
        "stages": {f"{stage}.{hook}": _milliseconds(found) for (stage, hook), found in sorted(stages.items())},
    }


def upstreams(samples: Samples) -> dict[str, Any]:
    """Each upstream's calls, errors and times."""
    prefix = "groundwire_upstream_"
    calls = samples.by(f"{prefix}calls_total", "upstream")
    first, whole = (samples.spreads(f"{prefix}{name}", "upstream") for name in ("first_byte_seconds", "seconds"))
    return {
        name: {
            "calls": int(calls[name]),
            "errors": ranked(samples.by(f"{prefix}errors_total", "reason", upstream=name)),
            "retries": int(samples.total(f"{prefix}retries_total", upstream=name)),
            "fallbacks": int(samples.total(f"{prefix}fallbacks_total", upstream=name)),
            **({"first_byte": _milliseconds(first[name])} if name in first else {}),
            **({"whole": _milliseconds(whole[name])} if name in whole else {}),
        }
        for name in sorted(calls)
    }


def _milliseconds(found: Spreads) -> dict[str, float | int | None]:
    def ms(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds * 1000, 3)

    return {"count": found.count, "mean_ms": ms(found.mean), "p50_ms": ms(found.quantile(0.5)), "p95_ms": ms(found.quantile(0.95))}


def _score(samples: Samples, name: str) -> dict[str, Any] | None:
    """Count, mean and percentiles over all routes; None before the first."""
    found = samples.spreads(f"groundwire_{name}_ratio").get(())
    if found is None or found.mean is None:
        return None
    percentiles = {f"p{share}": round(found.quantile(share / 100) or 0.0, 4) for share in (10, 50, 90)}
    return {"count": found.count, "mean": round(found.mean, 4), **percentiles}
