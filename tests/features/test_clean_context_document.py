"""The acceptance cases of RF-006 with its own inputs and values, on the built-in models; the other scenarios are in the features of the stages."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from proxy.clash import detect_clash, resolve_clash
from proxy.context_quality import FactChecker
from proxy.observe.metrics import Metrics
from proxy.testing import make_ports
from tests.conftest import Answer, Start
from tests.stages.clash.talk import assistant, send, user

pytestmark = pytest.mark.slow

FACTS = """subject,statement,source
Eiffel Tower,"The Eiffel Tower is in Paris, France.",knowledge_base
Paris,Paris has a population of 2.1 million.,knowledge_base
Claude 3,Claude 3 release date: March 2024,knowledge_base
"""
BUDGET, LUXURY = "I prefer budget hotels.", "I prefer luxury hotels."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "facts.csv").write_text(FACTS, encoding="utf-8")
    return tmp_path / "facts"


class Sent:
    """A statement that the agent once made, sent back as history."""

    def __init__(self, start: Start, statement: str, options: str, *, approve: bool = False) -> None:
        self.policy = f"name: careful\ndelivery: tap\nstages: [knowledge: {{folder: facts}}, poisoning: {{timeout_ms: 60000{options}}}]\n"
        self.messages = [
            {"role": "user", "content": "What do you know?"},
            {"role": "assistant", "content": statement},
            {"role": "user", "content": "Go on."},
        ]
        self.answer: Answer
        self.items: list[Any] = []
        self.counters: dict[str, float] = {}
        self.forwarded: list[str] = []
        asyncio.run(self._send(start, approve))

    async def _send(self, start: Start, approve: bool) -> None:
        async with start(policy=self.policy) as proxy:
            self.answer = await proxy.post({"model": "gpt-4o", "messages": self.messages}, x_groundwire_run_id="run-1")
            self.items = (await proxy.get("/groundwire/v1/quarantine")).json["data"]
            self.counters = proxy.app.metrics.as_json()["counters"]
            self.forwarded = [call.json["messages"][1]["content"] for call in proxy.upstream.calls]
            if approve:
                decided = {"reason": "checked", "by": "ann"}
                await proxy.post(decided, path=f"/groundwire/v1/quarantine/{self.items[0]['id']}/approve")
                await proxy.post({"model": "gpt-4o", "messages": self.messages}, x_groundwire_run_id="run-1")
                self.forwarded.append(proxy.upstream.calls[-1].json["messages"][1]["content"])


# ---- poisoning ----


def test_a_hallucination_is_refused_with_the_correct_fact(start: Start, folder: Path) -> None:
    """Scenario 1, under the policy that refuses."""
    sent = Sent(start, "The Eiffel Tower is located in London.", ", on_invalid: reject, on_inexact: reject, on_suspicious: reject")
    error = sent.answer.json["error"]
    assert (400, "policy_blocked", "poisoned_context") == (sent.answer.status, error["code"], error["param"])
    assert "content rejected: hallucination detected" in error["message"]
    assert [] == sent.forwarded
    assert 1 == sent.counters["poisoning.attempts_count"]
    (item,) = sent.items
    (statement,) = item["detail"]["statements"]
    assert ("wrong_location", "The Eiffel Tower is in Paris, France.") == (item["type"], statement["correct_fact"])
    assert statement["confidence"] >= 0.9


def test_the_sample_knowledge_base_answers_its_own_scenario() -> None:
    """Scenario 1, by examples/knowledge."""
    checker = FactChecker(Path(__file__).parents[2] / "examples" / "knowledge")
    false, true = checker.verify_batch(["The Eiffel Tower is located in London", "The Eiffel Tower is in Paris"])
    assert ("INVALID", "VALID") == (false.status, true.status)
    assert "Paris" in false.correct_fact
    assert false.confidence >= 0.9


def test_what_names_nothing_of_a_fact_is_not_known() -> None:
    """ "Answer 2." has nothing to do with inches, nor "Answer 14." with Einstein."""
    checker = FactChecker(Path(__file__).parents[2] / "examples" / "knowledge")
    assert ["UNKNOWN"] * 3 == [verdict.status for verdict in checker.verify_batch(["Answer 2.", "Answer 11.", "Answer 14."])]


def test_a_suspicious_figure_waits_in_quarantine_until_a_person_lets_it_in(start: Start, folder: Path) -> None:
    """Scenario 2."""
    quarantine = ", on_invalid: quarantine, on_inexact: quarantine, on_suspicious: quarantine"
    sent = Sent(start, "Paris population is 500 million.", quarantine, approve=True)
    (item,) = sent.items
    assert ("pending", "wrong_number") == (item["status"], item["type"])
    assert item["id"].startswith("qr_")
    assert ["[This content was removed by the proxy's policy.]", "Paris population is 500 million."] == sent.forwarded


@pytest.mark.parametrize(("content", "least"), [("Claude 3 release date: March 2024", 1.0), ("Claude 3 was released in March 2024", 0.8)])
def test_what_the_knowledge_base_says_is_valid_by_its_source(folder: Path, content: str, least: float) -> None:
    """Scenario 3: word by word without a doubt, in other words nearly so."""
    verdict = FactChecker(folder).verify(content)
    assert ("VALID", "knowledge_base") == (verdict.status, verdict.source)
    assert verdict.confidence >= least


def test_a_claim_that_nothing_bears_out_is_refused_where_the_policy_demands_confidence(start: Start, folder: Path) -> None:
    """Scenario 4, with its threshold of 0.8."""
    sent = Sent(start, "The next solar eclipse will be on 31 May 2027.", ", on_low_confidence: reject, min_confidence: 0.8")
    assert 400 == sent.answer.status
    assert "low confidence" in sent.answer.json["error"]["message"]
    assert "below 0.80" in sent.answer.json["error"]["message"]
    assert [] == sent.forwarded


# ---- clash ----


def said(text: str, hours_ago: float) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": time.time() - hours_ago * 3600}


def test_contradictory_preferences_are_found() -> None:
    """Scenario 16, in its own words."""
    (clash,) = detect_clash(["User prefers budget hotels (< $50/night)", "User prefers luxury 5-star hotels"])
    assert "CONTRADICTORY_PREFERENCES" == clash.type
    assert ("User prefers budget hotels (< $50/night)", "User prefers luxury 5-star hotels") == (clash.older.text, clash.newer.text)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_more_recent_preference_counts(order: tuple[int, int]) -> None:
    """Scenario 17: an hour against two days, in whatever order they stand."""
    both = [said(BUDGET, 48), said(LUXURY, 1)]
    (clash,) = detect_clash([both[i] for i in order])
    done = resolve_clash(clash, "prefer_recent")
    assert ([LUXURY], [BUDGET]) == ([s.text for s in done.kept], [s.text for s in done.dropped])
    assert "new statement is more recent (1 h against 48 h)" == done.reason


def test_the_more_recent_preference_counts_by_iso_8601() -> None:
    """The document's own test: dates as strings, the newer one first."""
    said = [
        {"role": "user", "content": LUXURY, "timestamp": "2025-11-16"},
        {"role": "user", "content": BUDGET, "timestamp": "2025-11-14"},
    ]
    (clash,) = detect_clash(said)
    done = resolve_clash(clash, "prefer_recent")
    assert ([LUXURY], [BUDGET]) == ([s.text for s in done.kept], [s.text for s in done.dropped])
    assert "more recent" in done.reason


def test_two_locations_are_conflicting_facts() -> None:
    """Scenario 19."""
    (clash,) = detect_clash(["User location: New York", "User location: London"])
    assert "CONFLICTING_FACTS" == clash.type


def test_the_user_is_asked_with_both_sides_and_a_way_out() -> None:
    """Scenario 18."""
    (clash,) = detect_clash([BUDGET, LUXURY])
    done = resolve_clash(clash, "ask_user")
    assert not done.resolved
    assert [BUDGET.rstrip("."), LUXURY.rstrip(".")] == [option.rstrip(".") for option in done.options[:2]]
    assert "flexible" in done.options[2]
    assert done.question.count("hotels") == 2


async def test_fifty_clashes_are_counted_by_what_resolved_them() -> None:
    """Scenario 20: 45, 3 and 2."""
    metrics = Metrics()
    ports = make_ports(counters=metrics)
    moved = [user("I live in Berlin."), assistant(), user("I live in Munich. Which doctor is near?")]
    spent = [user("My budget is 500 €."), assistant(), user("My budget is 900 €.")]
    talks = [(moved, "prefer_recent")] * 45 + [(spent, "merge")] * 3 + [(spent, "ask_user")] * 2
    for number, (talk, strategy) in enumerate(talks):
        exchange = await send(ports, talk, strategy=strategy, id_=f"gw_{number}", client=f"client {number}")
        if strategy == "ask_user":
            assert exchange.answer is not None
            asked = assistant(exchange.answer.choices[0].text)
            await send(ports, [*talk, asked, user("2")], strategy=strategy, id_=f"gw_{number}", client=f"client {number}")
    told: Any = metrics.as_json()["clash"]
    assert (50, 48, 2) == (told["found"], told["auto_resolved"], told["user_resolved"])
    assert {"prefer_recent": 45, "merge": 3, "ask_user": 2} == told["strategies"]
