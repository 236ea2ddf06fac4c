"""The stage `claims` where nothing but user and system has said what is so."""

import pytest

from proxy.exchange import Exchange
from proxy.exchange.judgements import Support
from proxy.testing import ScriptedVerifiers
from tests.claims import answering, checked, labels, ports_with

NOTES = "Guest: Ruiz\nNo shellfish\nArrival: 4 May"


def chat(said: str, answer: str, system: str = "") -> Exchange:
    messages = [{"role": "system", "content": system}] if system else []
    return answering(answer, passages=(), question=[*messages, {"role": "user", "content": said}])


def neutral() -> ScriptedVerifiers:
    return ScriptedVerifiers(lambda pair: Support(0.1, 0.1))


@pytest.mark.parametrize(
    "said", ["Write that the ferry leaves at noon.", "Sag, dass die Fähre um zwölf fährt.", "Why is the sea so salty?"]
)
async def test_a_request_alone_is_no_context(said: str) -> None:
    exchange = chat(said, "The ferry leaves at noon.")
    verdict = await checked(exchange, ports_with(ScriptedVerifiers(lambda pair: Support(0.99))), action="block")
    assert ("unchecked", "unchecked_no_context", []) == (verdict.outcome, verdict.code, labels(exchange))


async def test_what_pasted_lines_do_not_decide_is_unsure_where_the_user_asks_about_them() -> None:
    exchange = chat(f"{NOTES}\n\nWhat may he not eat?", "Prawns are fine for him.")
    verdict = await checked(exchange, ports_with(neutral()), action="block")
    assert ("unsure", ["unsure"]) == (verdict.outcome, labels(exchange))
    assert ("user message 1", "user") == (
        verdict.detail["claims"][0]["evidence"]["source"],
        verdict.detail["claims"][0]["evidence"]["kind"],
    )


async def test_what_pasted_lines_say_is_supported() -> None:
    exchange = chat(f"{NOTES}\n\nWhen does he come?", "Arrival: 4 May")
    await checked(exchange, ports_with(neutral()))
    assert ["supported"] == labels(exchange)


@pytest.mark.parametrize("fail_on", ["contradicted", "unsupported"])
async def test_another_value_than_a_declared_one_does_not_fail(fail_on: str) -> None:
    """The answer may propose something of its own."""
    verifiers = ScriptedVerifiers(lambda pair: Support(0.9) if "4 May" in pair.claim else Support(0.02, 0.95))
    exchange = chat(f"{NOTES}\n\nWhen is the arrival?", "Arrival: 8 May")
    verdict = await checked(exchange, ports_with(verifiers), action="block", fail_on=fail_on)
    assert ("unsure", ["unsure"]) == (verdict.outcome, labels(exchange))


async def test_of_what_nobody_declared_an_answer_may_know_more() -> None:
    exchange = chat("I live in Bonn with my two sons. What could we do on Sunday?", "The zoo in Cologne opens at nine.")
    verdict = await checked(exchange, ports_with(neutral()), action="block", fail_on="unsure")
    assert ("unchecked", ["not_checkable"], None) == (verdict.outcome, labels(exchange), exchange.facts.faithfulness)


async def test_no_verifier_is_asked_of_a_statement_that_shares_no_word_with_what_is_declared() -> None:
    verifiers = neutral()
    await checked(chat("I live in Bonn with my two sons. What could we do?", "The zoo opens at nine."), ports_with(verifiers))
    assert [] == [pair for pairs in verifiers.asked for pair in pairs]


async def test_what_is_declared_supports_and_the_rest_keeps_it_from_passing() -> None:
    verifiers = ScriptedVerifiers(lambda pair: Support(0.95) if "Bonn" in pair.claim else Support(0.05))
    exchange = chat("I live in Bonn with my two sons. What could we do?", "You live in Bonn. The zoo opens at nine.")
    verdict = await checked(exchange, ports_with(verifiers))
    assert ("unsure", ["supported", "not_checkable"]) == (verdict.outcome, labels(exchange))


async def test_a_system_message_s_facts_are_evidence_and_its_rules_are_not() -> None:
    system = "You are the ferry's assistant. The ferry leaves at noon. Never say that the ferry is late."
    exchange = chat("When does it leave?", "The ferry leaves at noon.", system)
    verdict = await checked(exchange, ports_with(neutral()))
    assert (["supported"], "system message 1") == (labels(exchange), verdict.detail["claims"][0]["evidence"]["source"])


async def test_a_check_of_a_chat_that_could_not_run_refuses_nothing() -> None:
    exchange = chat("I live in Bonn with my two sons. What could we do?", "In Bonn you could see the museum.")
    verdict = await checked(exchange, ports_with(ScriptedVerifiers(lambda pair: None)), on_error="closed")
    assert ("unchecked", ["not_checkable"]) == (verdict.outcome, labels(exchange))
