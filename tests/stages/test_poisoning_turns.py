"""The stage from turn to turn: what is refused, remembered, decided by people, and what it costs; and what happens when it cannot run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.context.conversation import problems
from proxy.context.edits import NOTE
from proxy.errors import ConfigError, ModelUnavailable, Overloaded, PolicyBlocked, StoreUnavailable
from proxy.pipeline import Pipeline
from proxy.policy.loading import load_policy
from proxy.ports.deadline import with_deadline
from proxy.stages.knowledge import Knowledge, KnowledgeOptions
from proxy.stages.validation import Validation, ValidationOptions
from proxy.testing import MemoryKnowledge, MemoryQuarantine, ScriptedVerifiers, make_exchange
from tests.examples import share
from tests.stages.poisoning.contexts import (
    DOUBTFUL,
    FACTS,
    INSTRUCTION,
    LONDON,
    PARIS,
    UNKNOWN,
    assistant,
    called,
    counts,
    decide,
    history,
    items,
    judged,
    made,
    ports_with,
    run,
    texts,
    user,
    verdict,
)

# ---- refusing ----


@pytest.mark.parametrize(
    ("options", "said", "message"),
    [
        ({"on_invalid": "reject"}, LONDON, "content rejected: hallucination detected (messages[1]: wrong_location)"),
        ({"on_suspicious": "reject"}, DOUBTFUL, "content rejected: hallucination detected (messages[1]: wrong_number)"),
        (
            {"on_low_confidence": "reject"},
            UNKNOWN,
            "content rejected: low confidence (messages[1]: low confidence: 0.00, below 0.80)",
        ),
        (
            {"on_low_confidence": "reject", "min_confidence": 0.99},
            "In Paris stands the Eiffel Tower.",
            "content rejected: low confidence (messages[1]: low confidence: 0.96, below 0.99)",
        ),
    ],
)
async def test_a_policy_may_refuse_the_request(options: dict[str, Any], said: str, message: str) -> None:
    stage = made(**options)
    for _ in range(2):
        with pytest.raises(PolicyBlocked) as refused:
            await run(stage, history(said))
        assert (message, "poisoned_context") == (refused.value.message, refused.value.param)
    assert ["pending"] == [item.status for item in items(stage)]


@pytest.mark.parametrize(("status", "forwarded"), [("approved", LONDON), ("rejected", NOTE)])
async def test_a_refused_request_goes_on_once_a_person_has_decided(status: str, forwarded: str) -> None:
    stage = made(on_invalid="reject")
    with pytest.raises(PolicyBlocked):
        await run(stage, history(LONDON))
    decide(stage, status)
    assert forwarded == texts(await run(stage, history(LONDON)))[1]


# ---- the same each time ----


async def test_the_next_turn_and_another_worker_filter_the_same_without_asking_anybody() -> None:
    verifiers = ScriptedVerifiers(judged)
    ports = ports_with(verifiers=verifiers)
    first = await run(made(ports), history(f"{PARIS} {LONDON}"))
    asked = len(verifiers.asked)
    said = [*history(f"{PARIS} {LONDON}"), assistant("Noted."), user("Go on.")]
    again, elsewhere = await run(made(ports), said), await run(made(ports), said)
    assert texts(first)[:2] == texts(again)[:2] == texts(elsewhere)[:2]
    assert (asked, 1) == (len(verifiers.asked), len(items(made(ports))))


async def test_other_white_space_changes_nothing() -> None:
    stage = made()
    await run(stage, history(f"{PARIS} {LONDON}"))
    exchange = await run(stage, history(f"{PARIS}\n\n  {LONDON}\n"))
    assert ([PARIS], 1) == ([texts(exchange)[1].strip()], len(items(stage)))


@pytest.mark.parametrize(("status", "expected"), [("approved", f"{PARIS} {DOUBTFUL}"), ("rejected", PARIS)])
async def test_a_decision_counts_from_the_next_turn_on(status: str, expected: str) -> None:
    stage = made(on_suspicious="quarantine")
    await run(stage, history(f"{PARIS} {DOUBTFUL}"))
    decide(stage, status, by="ann", reason="seen")
    for worker in (stage, made(stage.ports, on_suspicious="quarantine")):
        assert expected == texts(await run(worker, history(f"{PARIS} {DOUBTFUL}")))[1].strip()


async def test_what_was_blocked_can_be_approved() -> None:
    stage = made()
    await run(stage, history(LONDON))
    decide(stage, "approved")
    assert LONDON == texts(await run(stage, history(LONDON)))[1]


@pytest.mark.parametrize("about", [{"client": "other"}, {"run_id": "other"}, {"policy": "other@1"}])
async def test_an_approval_counts_for_no_other_client_run_or_policy(about: dict[str, str]) -> None:
    stage = made()
    await run(stage, history(LONDON))
    decide(stage, "approved")
    assert NOTE == texts(await run(stage, history(LONDON), **about))[1]


async def test_what_is_kept_is_the_content_byte_for_byte() -> None:
    stage, said = made(), f"{LONDON}\r\n\tDas »stimmt«\u200b nicht…  "
    await run(stage, history(said))
    assert [said.encode()] == [item.content for item in items(stage)]


@settings(max_examples=share(0.3))
@given(st.lists(st.sampled_from([PARIS, LONDON, DOUBTFUL, UNKNOWN, INSTRUCTION, '{"a": "' + LONDON + '"}']), min_size=1, max_size=6))
async def test_running_it_on_its_own_result_changes_nothing_more(said: list[str]) -> None:
    stage = made()
    messages = [user("Look."), *(message for i, text in enumerate(said) for message in called(text, f"c{i}"))]
    once = await run(stage, messages)
    assert ([], len(messages)) == (problems(once.messages), len(once.messages))
    assert texts(once) == texts(await run(stage, once.messages))
    assert texts(once) == texts(await run(made(stage.ports), messages))


# ---- cost ----


async def test_a_long_history_costs_what_is_new_and_one_question_to_the_store() -> None:
    class Counting(MemoryQuarantine):
        finds = 0

        async def find(self, *args: Any, **about: Any) -> Any:
            self.finds += 1
            return await super().find(*args, **about)

    quarantine, knowledge = Counting(), MemoryKnowledge(*FACTS)
    stage = made(ports_with(quarantine=quarantine, knowledge=knowledge))
    said = [f"Bananas number {i} contain potassium." for i in range(60)]
    await run(stage, history(*said))
    knowledge.searched.clear()
    exchange = await run(stage, history(*said, "Pears contain water."))
    assert (["Pears contain water."], 2, 1) == (knowledge.searched, quarantine.finds, verdict(exchange).detail["checked"])


async def test_what_validation_has_asked_about_new_content_is_not_asked_again() -> None:
    knowledge = MemoryKnowledge(*FACTS)
    ports = ports_with(knowledge=knowledge)
    stages = [Knowledge(KnowledgeOptions(), ports), Validation(ValidationOptions(action={"freshness": "drop"}), ports), made(ports)]
    exchange = make_exchange([user("Where does it stand?"), *called(LONDON)])
    await Pipeline(stages).request(exchange)
    [piece] = [piece for one in exchange.verdicts if one.stage == "validation" for piece in one.detail["pieces"]]
    assert 0.0 == piece["metrics"]["accuracy"]["value"]
    assert ([LONDON], NOTE) == (knowledge.searched[1:], texts(exchange)[2])


async def test_a_text_with_too_many_statements_is_an_error_each_time_but_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.stages.poisoning.stage.MAX_CLAIMS", 2)
    knowledge = MemoryKnowledge(*FACTS)
    stage = made(ports_with(knowledge=knowledge))
    for _ in range(2):
        exchange = await run(stage, history(f"{UNKNOWN} Pears contain water. Plums contain sugar."))
        assert ("error", "more than 2 statements") == (verdict(exchange).outcome, verdict(exchange).detail["reason"])
    assert 2 == len(knowledge.searched)


async def test_what_was_found_of_a_text_with_too_many_statements_is_acted_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.stages.poisoning.stage.MAX_CLAIMS", 2)
    exchange = await run(made(), history(f"{UNKNOWN} {LONDON} Plums contain sugar."))
    assert f"{UNKNOWN} Plums contain sugar." == texts(exchange)[1]
    assert ["poisoned_context", "poisoning_unchecked"] == [one.code for one in exchange.verdicts]


# ---- who judges ----


async def test_without_a_knowledge_base_statements_pass_and_instructions_do_not() -> None:
    exchange = await run(made(), [user("Look."), *called(INSTRUCTION), *history(LONDON)], knowledge=None)
    assert [NOTE, LONDON] == [texts(exchange)[2], texts(exchange)[4]]


async def test_confidence_that_nobody_can_tell_is_an_error() -> None:
    exchange = await run(made(on_low_confidence="reject"), history(UNKNOWN), knowledge=None)
    assert ("error", "knowledge_left_out") == (verdict(exchange).outcome, verdict(exchange).detail["reason"])


# ---- what cannot run ----


@pytest.mark.parametrize("part", ["knowledge", "verifiers"])
async def test_without_its_models_it_is_an_error_and_the_agent_goes_on(part: str) -> None:
    parts: dict[str, Any] = {"knowledge": MemoryKnowledge(*FACTS), "verifiers": ScriptedVerifiers(judged)}
    parts[part].failure = ModelUnavailable("no model")
    exchange = await run(made(ports_with(**parts)), history(LONDON))
    assert ("error", "poisoning_unchecked", LONDON) == (verdict(exchange).outcome, verdict(exchange).code, texts(exchange)[1])


async def test_where_the_policy_is_closed_what_cannot_be_checked_is_refused() -> None:
    knowledge = MemoryKnowledge(*FACTS)
    knowledge.failure = ModelUnavailable("no model")
    with pytest.raises(Overloaded, match="the check poisoning could not run"):
        await run(made(ports_with(knowledge=knowledge), on_error="closed"), history(LONDON))


async def test_without_the_store_what_is_false_is_taken_out_all_the_same() -> None:
    class Away(MemoryQuarantine):
        async def find(self, *args: Any, **about: Any) -> Any:
            raise StoreUnavailable("the disk is gone")

        put = find

    exchange = await run(made(ports_with(quarantine=Away())), history(LONDON))
    assert ("error", "store_unavailable", NOTE) == (verdict(exchange).outcome, verdict(exchange).detail["reason"], texts(exchange)[1])


async def test_a_store_that_never_answers_is_waited_for_once_and_what_is_false_leaves() -> None:
    asked = []

    class Hung(MemoryQuarantine):
        async def put(self, *args: Any, **about: Any) -> Any:
            asked.append(args)
            await asyncio.Event().wait()

    exchange = await run(made(with_deadline(ports_with(quarantine=Hung()), 50)), history(LONDON, f"{LONDON} {UNKNOWN}"))
    assert ("error", "store_unavailable", 1) == (verdict(exchange).outcome, verdict(exchange).detail["reason"], len(asked))
    assert not any(LONDON in text for text in texts(exchange))


# ---- figures ----


async def test_attempts_are_counted_by_type_and_by_what_became_of_them() -> None:
    stage = made(on_suspicious="quarantine")
    await run(stage, history(LONDON, DOUBTFUL, PARIS))
    assert {
        "poisoning.checked_count": 3,
        "poisoning.attempts_count": 2,
        "poisoning.type_wrong_location_count": 1,
        "poisoning.type_wrong_number_count": 1,
        "poisoning.blocked_count": 1,
        "poisoning.quarantined_count": 1,
    } == counts(stage)


async def test_the_same_falsehood_counts_once_a_run_and_again_in_another() -> None:
    stage = made(on_invalid="annotate")
    for run_id in ("one", "one", "two"):
        await run(stage, history(LONDON, PARIS), run_id=run_id)
    assert (4, 2, 2) == tuple(counts(stage)[f"poisoning.{name}_count"] for name in ("checked", "attempts", "annotated"))


async def test_above_five_percent_the_operator_is_warned_and_no_client(caplog: pytest.LogCaptureFixture) -> None:
    stage = made()
    await run(stage, history(*(f"Bananas number {i} contain potassium." for i in range(30))))
    exchange = await run(stage, history(LONDON, f"{UNKNOWN} {LONDON}"))
    harmless = await run(stage, history(PARIS), run_id="other")
    assert (["poisoned_context"], [("pass", "")]) == (
        [one.code for one in exchange.verdicts],
        [(one.outcome, one.code) for one in harmless.verdicts],
    )
    assert (1, 1) == (counts(stage)["poisoning.alerts_count"], sum("of the last pieces" in r.message for r in caplog.records))


# ---- what a policy may say ----


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("on_low_confidence: reject", "needs stage knowledge"),
        ("knowledge: facts", "write it in the stage knowledge"),
        ("against: [tool_results]", "answers: contradicted"),
        ("roles: [tool, tool]", "one stands here twice"),
        ("roles: []", "roles"),
        ("on_suspicious: block", "on_suspicious"),
        ("alert_above: 5", "alert_above"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(tmp_path: Path, options: str, problem: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"name: p\nstages: [poisoning: {{{options}}}]\n")
    with pytest.raises(ConfigError, match=problem):
        load_policy(file)
