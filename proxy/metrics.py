"""Counters and histograms behind ``/metrics`` (Prometheus) and ``/groundwire/v1/metrics`` (JSON); implements `proxy.ports.Counters`.

Stages name a counter with dots (``context.usage_warning_count``); Prometheus gets it as ``groundwire_context_usage_warning_total``.
With several workers the figures are added up over their processes through prometheus-client's files in ``PROMETHEUS_MULTIPROC_DIR``,
which ``groundwire serve`` sets before this module is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

OVERHEAD_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_POISONING_TYPE = re.compile(r"groundwire_poisoning_type_(\w+)_total")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def tool_selection(series: Mapping[str, float]) -> dict[str, float | int] | None:
    """How well tools were selected, over all workers since their start; None before the first selection.

    `selection_accuracy` is the share of the model's tool calls whose tool was in the prompt without a search (absent before the
    first call), `average_tools` the client's tools in a prompt, `token_savings` the share of tool description tokens not sent, the
    proxy's own tools counted as sent.
    """

    def total(name: str) -> float:
        return series.get(f"groundwire_context_{name}_total", 0.0)

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
    }


def compression(series: Mapping[str, float]) -> dict[str, float | int] | None:
    """What compression did, over all workers since their start; None before the first time. The ratio is tokens before to after."""

    def total(name: str) -> float:
        return series.get(f"groundwire_context_compression{name}_total", 0.0)

    runs, before, after = total(""), total("_tokens_before"), total("_tokens_after")
    if not runs:
        return None
    return {
        "runs": int(runs),
        "failures": int(total("_failures")),
        "tokens_freed": int(before - after),
        "context.compression_ratio_avg": round(before / max(after, 1.0), 2),
    }


def poisoning(series: Mapping[str, float]) -> dict[str, Any] | None:
    """What was kept out of the context, over all workers since their start; None before the first check.

    `rate` is the share of new pieces that were poisoned; `types` counts what was wrong with them, the most common first.
    """

    def total(name: str) -> int:
        return int(series.get(f"groundwire_poisoning_{name}_total", 0))

    checked = total("checked")
    if not checked:
        return None
    types = {match[1]: int(value) for name, value in series.items() if (match := _POISONING_TYPE.fullmatch(name))}
    return {
        "checked": checked,
        "attempts": total("attempts"),
        "rate": round(total("attempts") / checked, 4),
        **{name: total(name) for name in ("blocked", "quarantined", "rejected", "annotated", "answers", "alerts")},
        "types": dict(sorted(types.items(), key=lambda one: (-one[1], one[0]))),
    }


def clash(series: Mapping[str, float]) -> dict[str, Any] | None:
    """How statements that contradict each other were resolved, over all workers since their start; None before the first one."""

    def total(name: str) -> int:
        return int(series.get(f"groundwire_{name}_total", 0))

    if not total("clash_found"):
        return None
    return {
        "found": total("clash_found"),
        "auto_resolved": total("clash_auto_resolved"),
        "asked": total("clash_asked"),
        "user_resolved": total("clash_user_resolved"),
        "operator_resolved": total("clashes_operator_resolved"),
    }


class Metrics:
    """One per process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._exchanges = Counter(
            "groundwire_exchanges",
            "Exchanges by route, verdict and status class",
            ("route", "verdict", "status"),
            registry=self._registry,
        )
        self._overhead = Histogram(
            "groundwire_overhead_seconds",
            "Time added before the upstream call and after its last byte",
            ("route",),
            buckets=OVERHEAD_BUCKETS_S,
            registry=self._registry,
        )
        self._tokens = Counter("groundwire_tokens", "Tokens as the upstream reported them", ("route", "kind"), registry=self._registry)
        self._children: dict[tuple[str, str, int], Counter] = {}
        self._by_route: dict[str, tuple[Histogram, Counter, Counter]] = {}

    def count(self, name: str, value: int = 1) -> None:
        """Raise the dotted counter `name`."""
        counter = self._counters.get(name)
        if counter is None:
            prometheus = "groundwire_" + re.sub(r"[^a-z0-9]+", "_", name.lower()).removesuffix("_count")
            counter = self._counters[name] = Counter(prometheus, f"Groundwire's counter {name}", registry=self._registry)
        counter.inc(value)

    def exchange(self, route: str, verdict: str, status: int, overhead_s: float | None) -> None:
        """One finished exchange; `overhead_s` where there was something to add time to."""
        key = (route, verdict, status // 100)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._exchanges.labels(route or "/", verdict, f"{status // 100}xx")
        child.inc()
        if overhead_s is not None:
            self._of(route)[0].observe(overhead_s)

    def tokens(self, route: str, prompt: int, completion: int) -> None:
        """Tokens of one exchange."""
        _, prompts, completions = self._of(route)
        prompts.inc(prompt)
        completions.inc(completion)

    def _of(self, route: str) -> tuple[Histogram, Counter, Counter]:
        found = self._by_route.get(route)
        if found is None:
            label = route or "/"
            found = self._overhead.labels(label), self._tokens.labels(label, "prompt"), self._tokens.labels(label, "completion")
            self._by_route[route] = found
        return found

    def prometheus(self) -> bytes:
        """The text exposition, over all workers."""
        return generate_latest(self._collector())

    def as_json(self) -> dict[str, object]:
        """Every figure by its Prometheus name and labels; this process's dotted counters by their own."""
        series = self._series()
        dotted = {name: series.get(f"{c._name}_total", 0.0) for name, c in sorted(self._counters.items())}
        return {
            "object": "metrics",
            "counters": dotted,
            "tool_selection": tool_selection(series),
            "compression": compression(series),
            "poisoning": poisoning(series),
            "clash": clash(series),
            "series": dict(sorted(series.items())),
        }

    def _series(self) -> dict[str, float]:
        """Samples by Prometheus name and labels."""
        series: dict[str, float] = {}
        for family in self._collector().collect():
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")):
                    labels = ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items()))
                    series[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return series

    def _collector(self) -> CollectorRegistry:
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return self._registry
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return registry
