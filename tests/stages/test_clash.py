"""The stage `clash`: what it forwards, asks, remembers and reports, on ports in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.conversation import problems
from proxy.errors import ModelUnavailable, PolicyBlocked, StoreUnavailable
from proxy.exchange import Evidence, Exchange, Verdict
from proxy.grounding.verdicts import ClaimPair, Support
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.stages.clash import Clash, ClashOptions
from proxy.testing import CountedNames, HashEmbedder, MemoryClashes, ScriptedVerifiers, make_exchange, make_ports

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str = "Noted.") -> Message:
    return {"role": "assistant", "content": text}


def tool(text: str, id_: str = "1") -> list[Message]:
    call = {"id": id_, "type": "function", "function": {"name": "get_flight", "arguments": "{}"}}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": id_, "content": text}]


MOVED = [user("Hello. I live in Berlin."), assistant(), user("I live in Munich. Which doctor is near?")]


def contradicted(word: str) -> Callable[[ClaimPair], Support]:
    """A verifier that finds a contradiction where both sides have `word`."""
    return lambda pair: Support(0.01, 0.99) if word in pair.claim and word in pair.evidence else Support(0.05, 0.05)


async def send(
    ports: Ports, messages: Sequence[Message], *, stage: Clash | None = None, passages: Sequence[Evidence] = (), id_: str = "gw_1",
    hints: Mapping[int, Mapping[str, Any]] | None = None, client: str = "anonymous", params: Mapping[str, Any] | None = None, **options: Any,
) -> Exchange:  # fmt: skip
    """One request through a stage of its own, as another worker would serve it, or through `stage`."""
    exchange = make_exchange(messages, **(params or {}))
    exchange.id, exchange.client = id_, client
    exchange.original = replace(exchange.original, message_hints=dict(hints or {}), passages=tuple(passages))
    exchange.passages, exchange.evidence = tuple(passages), list(passages)
    await Pipeline([stage or made(ports, **options)]).request(exchange)
    return exchange


def made(ports: Ports, **options: Any) -> Clash:
    return Clash(msgspec.convert(options, ClashOptions), ports)


def contents(exchange: Exchange) -> list[Any]:
    return [message["content"] for message in exchange.messages]


def verdict(exchange: Exchange) -> Verdict:
    (found,) = [verdict for verdict in exchange.verdicts if verdict.stage == "clash"]
    return found


# ---- what leaves ----


async def test_the_older_sentence_leaves_its_message() -> None:
    sent = await send(make_ports(), MOVED)
    assert ["Hello. ", "Noted.", "I live in Munich. Which doctor is near?"] == contents(sent)


async def test_a_message_of_which_nothing_is_left_says_so() -> None:
    sent = await send(make_ports(), [user("I live in Berlin."), assistant(), user("I live in Munich.")])
    assert "[A later statement took the place of this one.]" == contents(sent)[0]


async def test_parts_that_are_no_text_stay() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    sent = await send(
        make_ports(),
        [{"role": "user", "content": [{"type": "text", "text": "I live in Berlin."}, image]}, assistant(), user("I live in Munich.")],
    )
    assert image in contents(sent)[0]
    assert "Berlin" not in str(contents(sent)[0])


async def test_what_is_not_touched_stays_the_same_object() -> None:
    sent = await send(make_ports(), MOVED)
    assert sent.messages[1] is sent.original.messages[1]
    assert sent.messages[2] is sent.original.messages[2]


async def test_without_a_clash_the_messages_are_the_clients_own() -> None:
    sent = await send(make_ports(), [user("I live in Berlin."), assistant(), user("I like trains.")])
    assert sent.messages is sent.original.messages
    assert 0 == sent.facts.clashes


async def test_a_change_within_the_last_message_stays_as_it_was_said() -> None:
    ports, messages = make_ports(), [user("I live in Berlin. No wait, actually I live in Munich.")]
    for turn in (messages, [*messages, assistant(), user("Thanks.")]):
        sent = await send(ports, turn)
        assert messages[0]["content"] == contents(sent)[0]
        assert ("pass", 1) == (verdict(sent).outcome, sent.facts.clashes)


async def test_what_left_is_no_evidence_for_the_answer() -> None:
    sent = await send(make_ports(), MOVED)
    assert "Hello. " == sent.conversation[0]["content"]


async def test_the_older_passage_gives_way_to_the_newer_one() -> None:
    old = Evidence("The city museum opens at 9 am on Sunday.", "a", timestamp=1000.0)
    new = Evidence("The city museum opens at 11 am on Sunday.", "b", timestamp=9000.0)
    sent = await send(make_ports(verifiers=ScriptedVerifiers(contradicted("opens"))), [user("When does it open?")], passages=[new, old])
    assert [new] == list(sent.passages)
    assert [new] == sent.evidence


async def test_results_of_one_step_are_equally_new() -> None:
    one, other = tool('{"flight_id": "LH1", "gate": "A1"}', "1"), tool('{"flight_id": "LH1", "gate": "B2"}', "2")
    calls = {**one[0], "tool_calls": [*one[0]["tool_calls"], *other[0]["tool_calls"]]}
    sent = await send(make_ports(), [user("Which gate?"), calls, one[1], other[1]])
    assert "clash_unresolved" == verdict(sent).code
    assert sent.messages is sent.original.messages


async def test_a_memory_block_in_a_system_message_can_be_edited() -> None:
    system = {"role": "system", "content": "Be brief. <user_memory>The user lives in Berlin. The user is vegan.</user_memory> Be kind."}
    sent = await send(make_ports(), [system, user("I live in Munich.")])
    assert "Be brief. <user_memory>The user is vegan.</user_memory> Be kind." == contents(sent)[0]


async def test_the_rest_of_a_system_message_cannot() -> None:
    system = {"role": "system", "content": "Always answer in English."}
    sent = await send(make_ports(), [system, user("Answer in German.")])
    assert ("clash_unresolved", "Always answer in English.") == (verdict(sent).code, contents(sent)[0])


async def test_parts_that_are_not_compared_do_not_clash() -> None:
    system = {"role": "system", "content": "Always answer in English."}
    sent = await send(make_ports(), [system, user("Answer in German.")], between=["user"])
    assert 0 == sent.facts.clashes


async def test_a_topic_of_the_policys_own_is_critical() -> None:
    sent = await send(make_ports(), MOVED, critical_topics=["doctor", "live in"], critical_strategy="ask_user")
    assert sent.answer is not None
    assert verdict(sent).detail["clashes"][0]["critical"] is True


# ---- the same on every turn ----


async def test_another_worker_forwards_the_same_on_the_next_turn() -> None:
    ports = make_ports()
    first = await send(ports, MOVED)
    second = await send(ports, [*MOVED, assistant(), user("Thanks.")], id_="gw_2")
    assert contents(first) == contents(second)[:3]
    assert 1 == len(ports.clashes.records)


async def test_a_clash_is_counted_once() -> None:
    counters = CountedNames()
    ports = make_ports(counters=counters)
    await send(ports, MOVED)
    await send(ports, [*MOVED, assistant(), user("Thanks.")], id_="gw_2")
    assert {"clash.found_count": 1, "clash.auto_resolved_count": 1} == {
        k: counters.counts[k] for k in ("clash.found_count", "clash.auto_resolved_count")
    }


async def test_only_new_pairs_are_judged() -> None:
    verifiers = ScriptedVerifiers()
    ports = make_ports(verifiers=verifiers)
    stage = made(ports)
    history = [user("I love long walks by the sea."), assistant(), user("I enjoy walks by the sea in winter.")]
    await send(ports, history, stage=stage)
    asked = len(verifiers.asked)
    assert asked
    await send(ports, history, stage=stage)
    await send(ports, [*history, assistant(), user("Thanks.")], stage=stage)
    assert asked == len(verifiers.asked)


async def test_one_clients_decisions_are_not_anothers() -> None:
    ports = make_ports()
    await send(ports, MOVED, client="ann")
    (record,) = ports.clashes.records.values()
    await ports.clashes.resolve(record.id, "keep_older", client="ann", by="admin")
    sent = await send(ports, MOVED, client="bob")
    assert "Hello. " == contents(sent)[0]


async def test_a_client_that_forgets_the_newer_statement_has_no_clash() -> None:
    ports = make_ports()
    await send(ports, MOVED)
    sent = await send(ports, [*MOVED[:2], user("Thanks.")])
    assert ("Hello. I live in Berlin.", 0) == (contents(sent)[0], sent.facts.clashes)


async def test_saying_the_older_one_again_begins_a_new_clash() -> None:
    ports = make_ports()
    await send(ports, MOVED)
    sent = await send(ports, [*MOVED, assistant(), user("I live in Berlin.")])
    assert ["Hello. ", "Noted.", "Which doctor is near?", "Noted.", "I live in Berlin."] == contents(sent)


async def test_a_merged_statement_leaves_when_one_of_its_sides_loses() -> None:
    ports = make_ports()
    history = [user("Hello. My budget is 500 €."), assistant(), user("My budget is 900 €. Thanks.")]
    merged = await send(ports, history, strategy="merge")
    assert "Hello. My budget is between 500 € and 900 €." == contents(merged)[0]
    sent = await send(ports, [*history, assistant(), user("Actually, make my budget 300 €.")], strategy="merge")
    assert ["Hello. ", "Thanks."] == [contents(sent)[0], contents(sent)[2]]


# ---- asking ----


async def ask(ports: Ports, messages: Sequence[Message], **more: Any) -> Exchange:
    return await send(ports, messages, strategy="ask_user", **more)


async def test_the_question_is_in_the_users_language() -> None:
    ports = make_ports()
    sent = await ask(ports, [user("Ich wohne in Berlin."), assistant("Gut."), user("Ich wohne in München. Welcher Arzt ist in der Nähe?")])
    assert sent.answer is not None
    assert "Woran soll ich mich halten?" in sent.answer.text


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


async def test_neither_takes_both_out() -> None:
    ports = make_ports()
    history = [user("Hello. My budget is 500 €."), assistant(), user("My budget is 900 €. Thanks.")]
    question = (await ask(ports, history)).answer
    assert question is not None
    sent = await ask(ports, [*history, assistant(question.text), user("Neither of them.")])
    assert ["Hello. ", "Thanks."] == [contents(sent)[0], contents(sent)[2]]


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


async def test_a_policy_that_is_closed_refuses_what_it_cannot_check() -> None:
    with pytest.raises(PolicyBlocked) as error:
        await send(make_ports(clashes=Away()), MOVED, on_error="closed")
    assert "clash_unchecked" == error.value.param


LIKES = [user("I live in Berlin. I love long walks by the sea."), assistant(), user("I live in Munich. I enjoy walks by the sea.")]


async def test_what_rules_decide_counts_when_the_verifier_is_away() -> None:
    verifiers = ScriptedVerifiers()
    verifiers.failure = ModelUnavailable("more is waiting than it can do")
    sent = await send(make_ports(verifiers=verifiers), LIKES)
    assert ("error", "verifier_unavailable") == (verdict(sent).outcome, verdict(sent).detail["problem"])
    assert "I love long walks by the sea." == contents(sent)[0]


class Slow(HashEmbedder):
    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> Any:
        raise TimeoutError


async def test_what_rules_decide_counts_when_the_time_is_up() -> None:
    sent = await send(make_ports(embedder=Slow()), LIKES)
    assert ("error", "timeout") == (verdict(sent).outcome, verdict(sent).detail["problem"])
    assert "I love long walks by the sea." == contents(sent)[0]


async def test_what_was_not_judged_is_judged_on_the_next_turn() -> None:
    verifiers = ScriptedVerifiers()
    verifiers.failure = ModelUnavailable("not yet")
    ports = make_ports(verifiers=verifiers)
    stage = made(ports)
    assert "error" == verdict(await send(ports, LIKES, stage=stage)).outcome
    verifiers.failure = None
    assert "pass" == verdict(await send(ports, LIKES, stage=stage)).outcome


async def test_pairs_beyond_the_bound_are_said_to_be_open() -> None:
    walks = [message for i in range(6) for message in (user(f"I enjoy walks by the sea with {i} dogs."), assistant())]
    sent = await send(make_ports(), [*walks, user("Thanks.")], max_pairs=2)
    assert ("error", "too_many_pairs", 2) == (verdict(sent).outcome, verdict(sent).detail["problem"], verdict(sent).detail["pairs_judged"])


async def test_a_pair_that_the_verifier_has_no_word_on_is_an_error() -> None:
    sent = await send(make_ports(verifiers=ScriptedVerifiers(lambda pair: None)), LIKES)
    assert ("error", "not_judged") == (verdict(sent).outcome, verdict(sent).detail["problem"])


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
        ({"max_asked": 0}, "max_asked"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert(options, ClashOptions)


# ---- whatever the conversation ----

_SENTENCES = (
    "I live in Berlin.", "I live in Munich.", "My budget is 500 €.", "My budget is 900 €.", "I am vegan.", "I eat meat.", "Hello.", "What is new?",
    "Actually, I live in Rome.", "I prefer budget hotels.", "Make it luxury.",
)  # fmt: skip
_TURN = st.one_of(
    st.lists(st.sampled_from(_SENTENCES), min_size=1, max_size=3).map(lambda said: [user(" ".join(said)), assistant()]),
    st.sampled_from(["A1", "B2", "C3"]).map(lambda gate: [*tool(f'{{"flight_id": "LH1", "gate": "{gate}"}}', gate), assistant()]),
)
_TALK = st.lists(_TURN, min_size=1, max_size=5).map(lambda turns: [message for turn in turns for message in turn])


@settings(max_examples=60, deadline=None)
@given(
    _TALK, st.sampled_from(["Thanks.", "I live in Paris.", "My budget is 700 €."]), st.sampled_from(["prefer_recent", "merge", "ask_user"])
)
def test_the_forwarded_list_is_legal_and_stays_the_same(talk: list[Message], last: str, strategy: str) -> None:
    async def run() -> None:
        ports = make_ports()
        messages = [{"role": "system", "content": "Be brief."}, *talk, user(last)]
        first = await send(ports, messages, strategy=strategy)
        again = await send(ports, messages, strategy=strategy)
        assert [] == problems(first.messages)
        assert len(messages) == len(first.messages)
        assert [message["role"] for message in messages] == [message["role"] for message in first.messages]
        assert (messages[0], messages[-1]) == (first.messages[0], first.messages[-1])
        assert contents(first) == contents(again)

    asyncio.run(run())


@settings(max_examples=40, deadline=None)
@given(_TALK)
def test_what_is_left_has_no_clash_that_a_rule_resolves(talk: list[Message]) -> None:
    async def run() -> None:
        sent = await send(make_ports(), [*talk, user("Thanks.")])
        left = await send(make_ports(), list(sent.messages))
        assert contents(sent) == contents(left)

    asyncio.run(run())
