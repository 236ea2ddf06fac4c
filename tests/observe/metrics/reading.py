"""Reads an exposition."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from proxy.observe.metrics import Metrics

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(exposition: bytes | str) -> Series:
    """Every sample by name and labels."""
    text = exposition.decode() if isinstance(exposition, bytes) else exposition
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Metrics | Series, name: str, **labels: str) -> float:
    """The sum of the samples called `name` that have these labels."""
    series = parsed(found.prometheus()) if isinstance(found, Metrics) else found
    return sum(v for (known, given), v in series.items() if known == name and labels.items() <= dict(given).items())


def by(found: Metrics | Series, name: str, label: str) -> Mapping[str, float]:
    """The samples called `name` that are not 0, added up by a label."""
    series = parsed(found.prometheus()) if isinstance(found, Metrics) else found
    made: dict[str, float] = {}
    for (known, given), v in series.items():
        if known == name and v:
            key = dict(given)[label]
            made[key] = made.get(key, 0.0) + v
    return made
