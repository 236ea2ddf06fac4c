"""The stage `clash`: what it asks the user, what it understands, and what it says when something goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from proxy.errors import ModelUnavailable, Overloaded, StoreUnavailable
from proxy.exchange import Exchange
from proxy.grounding.clashes import detector
from proxy.ports import Ports
from proxy.stages.clash import ClashOptions
from proxy.testing import HashEmbedder, MemoryClashes, ScriptedVerifiers, make_ports
from tests.stages.clash.talk import MOVED, Message, assistant, contents, made, send, user, verdict

POLICIES = Path(__file__).parents[3] / "policies"

# ---- asking ----


async def ask(ports: Ports, messages: Sequence[Message], **more: Any) -> Exchange:
    return await send(ports, messages, **{"strategy": "ask_user", "edits": "all", **more})


async def test_the_question_is_in_the_users_language() -> None:
    ports = make_ports()
    sent = await ask(ports, [user("Ich wohne in Berlin."), assistant("Gut."), user("Ich wohne in München. Welcher Arzt ist in der Nähe?")])
    assert sent.answer is not None
    assert "Woran soll ich mich halten?" in sent.answer.text


async def test_the_policy_for_agents_asks_nothing() -> None:
    policy = yaml.safe_load((POLICIES / "agent.yaml").read_text(encoding="utf-8"))
    options = next(stage["clash"] for stage in policy["stages"] if "clash" in stage)
    memory = {"role": "system", "content": "## User profile\n- The user lives in Munich.\n- The user lives in Oslo."}
    answers = [(await send(make_ports(), [memory, user(text)], **options)).answer for text in ("Turn the heating on.", "Hello!")]
    assert [None, None] == answers


async def test_the_reply_is_no_statement_against_what_it_chose() -> None:
    ports = make_ports()
    history = [user("My budget is 500 €."), assistant(), user("My budget is 900 €.")]
    question = (await ask(ports, history)).answer
    assert question is not None
    sent = await ask(ports, [*history, assistant(question.text), user("My budget is 500 €.")])
    assert (None, 1, "keep_older") == (sent.answer, sent.facts.clashes, verdict(sent).detail["clashes"][0]["resolution"])


async def test_of_three_the_one_that_was_chosen_is_asked_about_next() -> None:
    ports = make_ports()
    history = [user("My budget is 500 €."), assistant(), user("My budget is 700 €."), assistant(), user("My budget is 900 €.")]
    question = (await ask(ports, history)).answer
    assert question is not None
    assert "1. My budget is 500 €.\n2. My budget is 700 €." in question.text
    sent = await ask(ports, [*history, assistant(question.text), user("1")])
    assert sent.answer is not None
    assert "1. My budget is 500 €.\n2. My budget is 900 €." in sent.answer.text


async def test_a_reply_to_a_client_that_changed_its_white_space_is_found() -> None:
    ports = make_ports()
    history = [user("My budget is 500 €."), assistant(), user("My budget is 900 €.")]
    question = (await ask(ports, history)).answer
    assert question is not None
    sent = await ask(ports, [*history, assistant("  " + question.text.replace("\n\n", "\n")), user("2")])
    assert "keep_newer" == verdict(sent).detail["clashes"][0]["resolution"]


async def test_a_client_that_keeps_no_answers_is_not_asked_again_and_again() -> None:
    ports = make_ports()
    said = [user("My budget is 500 €."), user("My budget is 900 €.")]
    assert (await ask(ports, said, id_="gw_1")).answer is not None
    again = await ask(ports, [*said, user("2")], id_="gw_2")
    assert (None, "clash_unresolved") == (again.answer, verdict(again).code)


async def test_the_same_request_sent_again_is_asked_the_same() -> None:
    ports = make_ports()
    history = [user("My budget is 500 €."), assistant(), user("My budget is 900 €.")]
    first, again = [await ask(ports, history, id_=id_) for id_ in ("gw_1", "gw_2")]
    assert first.answer is not None
    assert again.answer is not None
    assert first.answer.text == again.answer.text


async def test_an_operators_decision_comes_before_the_reply() -> None:
    ports = make_ports()
    history = [user("My budget is 500 €. Hello."), assistant(), user("My budget is 900 €.")]
    question = (await ask(ports, history)).answer
    assert question is not None
    (record,) = ports.clashes.records.values()
    await ports.clashes.resolve(record.id, "keep_older", client="anonymous", by="ann")
    sent = await ask(ports, [*history, assistant(question.text), user("2")])
    assert ("keep_older", "ann") == (verdict(sent).detail["clashes"][0]["resolution"], verdict(sent).detail["clashes"][0]["by"])
    assert "My budget is 500 €. Hello." == contents(sent)[0]


# ---- what goes wrong ----


class Away(MemoryClashes):
    async def put(self, record: Any) -> Any:
        raise StoreUnavailable("the disk is full")


async def test_what_cannot_be_remembered_is_not_taken_out() -> None:
    sent = await send(make_ports(clashes=Away()), MOVED)
    assert ("error", "clash_unchecked", "store_unavailable") == (verdict(sent).outcome, verdict(sent).code, verdict(sent).detail["problem"])
    assert sent.messages is sent.original.messages


async def test_a_policy_that_is_closed_has_it_tried_again() -> None:
    with pytest.raises(Overloaded) as error:
        await send(make_ports(clashes=Away()), MOVED, on_error="closed")
    assert ("clash_unchecked", (("retry-after", "1"),)) == (error.value.param, error.value.headers)


LIKES = [user("I live in Berlin. I love long walks by the sea."), assistant(), user("I live in Munich. I enjoy walks by the sea.")]


async def test_what_rules_decide_counts_when_the_verifier_is_away() -> None:
    verifiers = ScriptedVerifiers()
    verifiers.failure = ModelUnavailable("more is waiting than it can do")
    sent = await send(make_ports(verifiers=verifiers), LIKES, semantic=True, edits="all")
    codes = [(one.outcome, one.code) for one in sent.verdicts]
    assert {("error", "clash_unchecked"), ("warn", "clash_removed")} == set(codes)
    assert "I love long walks by the sea." == contents(sent)[0]


class Slow(HashEmbedder):
    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> Any:
        raise TimeoutError


TALK = [user("I love long walks by the sea."), assistant(), user("I enjoy walks by the sea.")]


async def test_when_the_time_is_up_pairs_are_found_by_words_alone() -> None:
    sent = await send(make_ports(embedder=Slow()), TALK, semantic=True)
    assert ("pass", "clash_skipped", "timeout") == (verdict(sent).outcome, verdict(sent).code, verdict(sent).detail["problem"])


async def test_a_policy_that_is_closed_has_a_missed_deadline_tried_again() -> None:
    with pytest.raises(Overloaded):
        await send(make_ports(embedder=Slow()), TALK, semantic=True, on_error="closed")


async def test_what_was_not_judged_is_judged_on_the_next_turn() -> None:
    verifiers = ScriptedVerifiers()
    verifiers.failure = ModelUnavailable("not yet")
    ports = make_ports(verifiers=verifiers)
    stage = made(ports, semantic=True)
    assert "error" == verdict(await send(ports, TALK, stage=stage)).outcome
    verifiers.failure = None
    assert "pass" == verdict(await send(ports, TALK, stage=stage)).outcome


async def test_pairs_beyond_the_bound_are_said_to_be_skipped_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector, "MAX_PAIRS", 2)
    walks = [message for i in range(6) for message in (user(f"I enjoy walks by the sea with {i} dogs."), assistant())]
    ports = make_ports()
    stage = made(ports, semantic=True)
    first, again = [await send(ports, [*walks, user("Thanks.")], stage=stage) for _ in range(2)]
    assert ("pass", "clash_skipped") == (verdict(first).outcome, verdict(first).code)
    assert verdict(first).detail["skipped"] == verdict(again).detail["skipped"] > 0


async def test_a_pair_that_the_verifier_has_no_word_on_is_skipped() -> None:
    sent = await send(make_ports(verifiers=ScriptedVerifiers(lambda pair: None)), TALK, semantic=True)
    assert ("clash_skipped", "not_judged") == (verdict(sent).code, verdict(sent).detail["problem"])


async def test_a_change_said_as_such_is_never_asked_about() -> None:
    history = [user("My budget is 500 €."), assistant(), user("Actually, my budget is 900 €.")]
    sent = await ask(make_ports(), history, edits="memory", critical_strategy="ask_user")
    assert (None, "clash_noted") == (sent.answer, verdict(sent).code)


async def test_what_the_user_chose_is_noted_where_their_words_stay() -> None:
    ports = make_ports()
    history = [user("My budget is 500 €."), assistant(), user("My budget is 900 €.")]
    question = (await ask(ports, history, edits="memory")).answer
    assert question is not None
    sent = await ask(ports, [*history, assistant(question.text), user("1")], edits="memory")
    note = '[Note: "My budget is 900 €." no longer counts. What counts is: "My budget is 500 €."]'
    assert ["My budget is 500 €.", f"My budget is 900 €.\n\n{note}"] == [contents(sent)[0], contents(sent)[2]]


async def test_the_detail_is_bounded() -> None:
    cities = ("Berlin", "Munich", "Rome", "Paris", "Madrid", "Vienna")
    moves = [message for i in range(40) for message in (user(f"I live in {cities[i % 6]}."), assistant())]
    ports = make_ports()
    for end in range(1, len(moves), 2):
        sent = await send(ports, moves[:end])
    assert (39, 20) == (sent.facts.clashes, len(verdict(sent).detail["clashes"]))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"between": ["user", "user"]}, "twice"),
        ({"between": []}, "between"),
        ({"strategy": "coin"}, "strategy"),
        ({"max_asked": -1}, "max_asked"),
        ({"critical_strategy": "keep"}, "critical_strategy"),
        ({"strategies": "merge"}, "strategies"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert(options, ClashOptions)
