"""The Grafana dashboard and the alert rules, held against what a running proxy exposes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.exchange import CompressionResult, ContextUse, Verdict
from proxy.testing import completion, reply
from tests.conftest import CHAT, Start
from tests.observe.metrics.reading import parsed
from tests.observe.metrics.test_exchanges import add, judged

FOLDER = Path(__file__).parents[3] / "monitoring"
_FUNCTIONS = {"rate", "increase", "sum", "min", "max", "topk", "histogram_quantile", "absent", "by", "and", "or", "unless"}
_WORD = re.compile(r"[a-zA-Z_][\w]*")


def dashboard() -> Any:
    return json.loads((FOLDER / "grafana.json").read_text("utf-8"))


def rules() -> list[Any]:
    return [rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"] for rule in group["rules"]]


def queries() -> dict[str, str]:
    """Every expression by where it stands."""
    found = {
        f"{panel['title']} {target['refId']}": target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())
    }
    return found | {rule["alert"]: rule["expr"] for rule in rules()}


def metrics_of(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric of an expression with the labels that are asked of it: in its braces, and of the groups that it is put into."""
    plain = re.sub(r'"[^"]*"', '""', expression)
    groups = {label for given in re.findall(r"\bby\s*\(([^)]*)\)", plain) for label in _WORD.findall(given)}
    rest = re.sub(r"\bby\s*\([^)]*\)|\[[^\]]*\]", " ", plain)
    for found in re.finditer(r"([a-zA-Z_]\w*)\s*(\{[^}]*\})?", rest):
        if found[1] not in _FUNCTIONS and not _inside_braces(rest, found.start()):
            yield found[1], groups | set(re.findall(r"([a-z_]+)\s*[=!]", found[2] or ""))


def _inside_braces(text: str, at: int) -> bool:
    return text.rfind("{", 0, at) > text.rfind("}", 0, at)


@pytest.fixture
async def exposed(start: Start) -> dict[str, set[str]]:
    """What a proxy exposes after a short life with something of everything: metrics, and the labels of each."""
    refused = reply({"error": {"message": "no", "code": "bad_things"}}, 500)
    policy = "name: small\ndelivery: hold\nstages: [budget: {}]\n"
    async with start(reply(completion()), refused, reply(completion()), policy=policy) as proxy:
        for _ in range(3):
            await proxy.post(CHAT)
        metrics = proxy.app.metrics
        for name in ("poisoning.type_outdated", "clash.found_conflicting_facts", "clash.auto_resolved_merge", "context.compression_trim"):
            metrics.count(f"{name}_count")
        alert = Verdict("history", "warn", code="DISTRACTION", detail={"severity": "HIGH", "recommended_action": "summarize"})
        facts: dict[str, Any] = {"quality": 0.9, "faithfulness": 1.0, "relevance": 0.4, "citations": (1, 2), "retries": 1}
        use = ContextUse(95, 100, True)
        more = judged(
            alert, Verdict("budget", "warn", code="context_usage_critical"), Verdict("claims", "error"), **facts, context_before=use
        )
        more.facts.context, more.facts.compression = use, CompressionResult(("trim",), 9, 3)
        add(metrics, more)
        text = (await proxy.get("/metrics")).body
    found: dict[str, set[str]] = {}
    for name, labels in parsed(text):
        found.setdefault(name, set()).update(label for label, _ in labels)
    return found


async def test_every_query_asks_for_metrics_and_labels_that_exist(exposed: dict[str, set[str]]) -> None:
    unknown = {
        (where, name): sorted(labels - exposed.get(name, set()))
        for where, expression in queries().items()
        for name, labels in metrics_of(expression)
        if name not in exposed or labels - exposed[name]
    }
    assert {} == unknown


def test_every_query_is_whole() -> None:
    assert [] == [where for where, expression in queries().items() if not is_whole(expression)]


def is_whole(expression: str) -> bool:
    """Whether it asks for a metric and closes what it opens."""
    paired = all(expression.count(opening) == expression.count(closing) for opening, closing in ("()", "{}", "[]"))
    return bool(list(metrics_of(expression))) and paired and expression.count('"') % 2 == 0


@pytest.mark.parametrize("expression", ["", "rate(a[5m]", "a{x='1'", "a[5m", 'a{x="1}'])
def test_the_check_of_these_tests_tells_what_is_not_whole(expression: str) -> None:
    assert not is_whole(expression)


def test_a_counter_is_never_asked_for_without_its_rise() -> None:
    bare = re.compile(r"(?<!rate\()(?<!increase\()\b(groundwire_\w+_(?:total|bucket|sum|count))\b")
    assert {} == {where: found for where, expression in queries().items() if (found := bare.findall(expression))}


def test_the_parser_of_these_tests_finds_what_is_asked_for() -> None:
    expression = 'histogram_quantile(0.9, sum by (le, route) (rate(a_bucket{x=~"$y", z!="b{c}"}[5m]))) / sum(d)'
    assert [("a_bucket", {"le", "route", "x", "z"}), ("d", {"le", "route"})] == list(metrics_of(expression))


def test_the_dashboard_has_a_row_for_each_subject_and_no_two_panels_overlap() -> None:
    panels = dashboard()["panels"]
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert ["Traffic", "Context", "Quality", "Safety", "Tools", "Compression", "Upstream", "Cost"] == rows
    assert len(panels) == len({panel["id"] for panel in panels})
    places = [panel["gridPos"] for panel in panels]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_dashboard_can_be_imported_anywhere() -> None:
    found = dashboard()
    assert {"datasource", "route"} == {variable["name"] for variable in found["templating"]["list"]}
    assert {"${datasource}"} == {panel["datasource"]["uid"] for panel in found["panels"] if "datasource" in panel}


def test_alerts_have_all_that_prometheus_and_a_person_need() -> None:
    found = rules()
    assert len(found) == len({rule["alert"] for rule in found})
    for rule in found:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Groundwire[A-Za-z]+", rule["alert"])
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description"} == set(rule["annotations"])


def test_every_alert_is_explained() -> None:
    told = (FOLDER / "README.md").read_text("utf-8")
    assert [] == [rule["alert"] for rule in rules() if rule["alert"] not in told]


@pytest.mark.parametrize(
    "subject",
    [
        "poisoning_attempts",
        "compression_failures",
        "check_errors",
        "upstream_errors",
        'thresholds_total{threshold="critical"}',
        "store_available",
    ],
)
def test_what_must_wake_somebody_has_an_alert(subject: str) -> None:
    assert any(subject in rule["expr"] for rule in rules())


def test_the_poisoning_alert_is_at_five_percent() -> None:
    (rule,) = [rule for rule in rules() if rule["alert"] == "GroundwirePoisoningRateHigh"]
    assert re.search(r"attempts_total.* / .*checked_total.*> 0\.05$", rule["expr"], re.M)
