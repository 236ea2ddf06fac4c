"""The list of dotted counters, held against the code that raises them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from proxy.observe.metrics import Metrics
from proxy.observe.metrics.families import DOTTED, FAMILIES, GAUGES, labelled, prometheus_name
from tests.observe.metrics.reading import parsed, value

PROXY = Path(__file__).parents[3] / "proxy"


@cache
def raised() -> dict[str, str]:
    """A pattern for each name that the code gives to a counter, or keeps in a table of such names, with its file."""
    found = {}
    for path in PROXY.rglob("*.py"):
        if path.parent.name == "metrics":
            continue
        tree = ast.parse(path.read_text("utf-8"))
        tree.body = [node for node in tree.body if not _declares(node)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _called(node.func) in ("count",) and node.args:
                if pattern := _pattern(node.args[0]):
                    found[pattern] = path.name
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[a-z]+\.[a-z_]+_count", node.value):
                found[re.escape(node.value)] = path.name
    return found


def _declares(node: ast.stmt) -> bool:
    """Whether it is a stage's list of its counters, and not what raises them."""
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "COUNTERS"


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def _pattern(name: ast.expr) -> str:
    """A regular expression for a literal or an f-string, where it has a dot."""
    if isinstance(name, ast.Constant):
        return re.escape(name.value) if isinstance(name.value, str) and re.fullmatch(r"[a-z]+\.[a-z_]+", name.value) else ""
    if isinstance(name, ast.JoinedStr):
        return "".join(re.escape(part.value) if isinstance(part, ast.Constant) else r"\w+" for part in name.values)  # type: ignore[arg-type]
    return ""


def test_every_counter_that_the_code_raises_is_in_the_list() -> None:
    patterns = raised()
    assert len(patterns) > 50
    assert {} == {pattern: file for pattern, file in patterns.items() if not any(re.fullmatch(pattern, name) for name in DOTTED)}


def test_every_counter_of_the_list_is_raised_somewhere() -> None:
    patterns = list(raised())
    assert [] == [name for name in DOTTED if not any(re.fullmatch(pattern, name) for pattern in patterns)]


def test_every_counter_of_the_list_is_there_from_the_start() -> None:
    series = parsed(Metrics().prometheus())
    assert set() == {f"{prometheus_name(name)}_total" for name in DOTTED} - {name for name, _ in series}


def test_what_another_stage_declares_is_there_from_the_start_too() -> None:
    metrics = Metrics()
    metrics.declare({"links.unknown_count": "links that stood nowhere"})
    text = metrics.prometheus().decode()
    assert "# HELP groundwire_links_unknown_total links that stood nowhere (links.unknown_count)\n" in text
    assert "\ngroundwire_links_unknown_total 0.0\n" in text


def test_no_two_counters_have_the_same_name_in_prometheus() -> None:
    names = [prometheus_name(name) for name in DOTTED] + [family.name for family in FAMILIES] + [name for name, _, _ in GAUGES]
    assert len(names) == len(set(names))


def test_names_say_their_unit() -> None:
    assert [] == [family.name for family in FAMILIES if family.edges and not family.name.endswith(("_seconds", "_ratio"))]
    assert [] == [family.name for family in FAMILIES if family.name.endswith("_total")]  # prometheus-client adds it
    assert [] == [
        name for name in (*(f.name for f in FAMILIES), *(n for n, _, _ in GAUGES)) if not re.fullmatch(r"groundwire_[a-z_]+[a-z]", name)
    ]


def test_labels_are_never_a_run_nor_a_client_without_a_key() -> None:
    known = {
        "key",  # client keys and teams, up to a bound
        "team",
        "limit",
        "route",
        "verdict",
        "status",
        "stage",
        "hook",
        "kind",
        "upstream",
        "model",
        "prompt",
        "threshold",
        "code",
        "outcome",
        "severity",
        "action",
        "reason",
        "type",
        "strategy",
        "judge",
        "result",
    }
    assert set() == {label for family in FAMILIES for label in family.labels} - known


@pytest.mark.parametrize(
    ("dotted", "expected"),
    [
        ("poisoning.type_wrong_date_count", ("groundwire_poisoning_types", "wrong_date")),
        ("clash.found_conflicting_facts_count", ("groundwire_clash_types", "conflicting_facts")),
        ("clash.auto_resolved_prefer_recent_count", ("groundwire_clash_strategies", "prefer_recent")),
        ("clash.auto_resolved_conflicting_facts_count", None),
        ("clash.found_critical_count", None),
        ("context.compression_trim_count", ("groundwire_compression_strategies", "trim")),
        ("context.compression_tokens_before_count", None),
    ],
)
def test_types_and_strategies_are_labels_too(dotted: str, expected: tuple[str, str] | None) -> None:
    assert expected == labelled(dotted)


def test_a_counter_and_its_label_are_raised_together() -> None:
    metrics = Metrics()
    metrics.count("poisoning.type_outdated_count", 4)
    assert (4.0, 4.0) == (
        value(metrics, "groundwire_poisoning_type_outdated_total"),
        value(metrics, "groundwire_poisoning_types_total", type="outdated"),
    )
