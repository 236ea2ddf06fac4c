"""The stage `clash`: what it forwards and remembers, on ports in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.context.conversation import problems
from proxy.exchange import Evidence
from proxy.exchange.judgements import ClaimPair, Support
from proxy.testing import CountedNames, ScriptedVerifiers, make_ports
from tests.examples import share
from tests.stages.clash.talk import MOVED, Message, assistant, contents, made, send, tool, user, verdict


def contradicted(word: str) -> Callable[[ClaimPair], Support]:
    """A verifier that finds a contradiction where both sides have `word`."""
    return lambda pair: Support(0.01, 0.99) if word in pair.claim and word in pair.evidence else Support(0.05, 0.05)


# ---- what leaves ----


async def test_the_older_sentence_leaves_its_message() -> None:
    sent = await send(make_ports(), MOVED, edits="all")
    assert ["Hello. ", "Noted.", "I live in Munich. Which doctor is near?"] == contents(sent)
    assert ("warn", "clash_removed") == (verdict(sent).outcome, verdict(sent).code)


async def test_a_message_of_which_nothing_is_left_says_so() -> None:
    sent = await send(make_ports(), [user("I live in Berlin."), assistant(), user("I live in Munich.")], edits="all")
    assert "[Another statement took the place of this one.]" == contents(sent)[0]


async def test_a_sentence_that_says_several_things_stays() -> None:
    older = "I am allergic to nuts and I live in Berlin."
    sent = await send(make_ports(), [user(older), assistant(), user("I live in Munich.")], edits="all")
    assert older == contents(sent)[0]


@pytest.mark.parametrize(
    ("request_", "change"),
    [
        ("Book a table for four at 7 pm.", "Actually, make it 8 pm."),
        ("Find me a hotel in Rome for under 500 € with breakfast.", "Actually, make it 900 €."),
        ("Plan a trip to Rome with a budget of 500 €.", "Make that 900 €."),
        ("Finde ein Hotel in Rom für höchstens 500 €, mit Frühstück.", "Bitte mach es zu 900 €."),
        ("Busca un hotel en Roma por menos de 500 €, con desayuno.", "Mejor 900 €."),
        ("Trouve un hôtel à Rome pour moins de 500 €, avec déjeuner.", "Plutôt 900 €."),
    ],
)
async def test_a_request_stays_and_a_note_says_what_was_changed(request_: str, change: str) -> None:
    sent = await send(make_ports(), [user(request_), assistant(), user(change)], edits="all")
    assert (request_, "clash_noted") == (contents(sent)[0], verdict(sent).code)


async def test_parts_that_are_no_text_stay() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    sent = await send(
        make_ports(),
        [{"role": "user", "content": [{"type": "text", "text": "I live in Berlin."}, image]}, assistant(), user("I live in Munich.")],
        edits="all",
    )
    assert image in contents(sent)[0]
    assert "Berlin" not in str(contents(sent)[0])


async def test_what_is_not_touched_stays_the_same_object() -> None:
    sent = await send(make_ports(), MOVED, edits="all")
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
    sent = await send(make_ports(), MOVED, edits="all")
    assert "Hello. " == sent.conversation[0]["content"]


@pytest.mark.parametrize(
    ("early", "late"),
    [("2025-11-14T10:00:00", "2025-11-16T09:00:00+00:00"), (1763114400, 1763283600), ("Fri, 14 Nov 2025 10:00:00 GMT", 1763283600000)],
)
async def test_of_a_memory_tool_s_records_the_older_gives_way_wherever_it_stands(early: object, late: object) -> None:
    records = [{"memory": "User lives in Oslo.", "updated_at": late}, {"memory": "User lives in Rome.", "updated_at": early}]
    sent = await send(make_ports(), [user("Which doctor is near?"), *tool(json.dumps({"results": records}), name="search_memory")])
    assert ["User lives in Oslo.", ""] == [record["memory"] for record in json.loads(contents(sent)[-1])["results"]]


async def test_times_in_iso_8601_say_which_message_is_the_newer() -> None:
    hints = {0: {"timestamp": "2025-11-16T09:30:00"}, 2: {"timestamp": "2025-11-14T10:30:00"}}
    sent = await send(make_ports(), [user("I live in Oslo."), assistant(), user("I live in Rome.")], hints=hints, at=1763289000.0)
    (found,) = verdict(sent).detail["clashes"]
    assert (0, "new statement is more recent (1 h against 48 h)") == (found["newer"]["message"], found["reason"])


async def test_the_older_of_two_remembered_hints_gives_way() -> None:
    old = Evidence("The user lives in Rome.", "memory", timestamp=1000.0)
    new = Evidence("The user lives in Milan.", "memory", timestamp=9000.0)
    sent = await send(make_ports(), [user("Which doctor is near?")], passages=[new, old])
    assert [new] == list(sent.passages)
    assert (new,) == sent.evidence


async def test_what_only_the_verifier_finds_is_reported() -> None:
    old = Evidence("The city museum opens at 9 am on Sunday.", "a", timestamp=1000.0)
    new = Evidence("The city museum opens at 11 am on Sunday.", "b", timestamp=9000.0)
    ports = make_ports(verifiers=ScriptedVerifiers(contradicted("opens")))
    sent = await send(ports, [user("When does it open?")], passages=[new, old], between=["passages"], semantic=True, edits="all")
    assert [new, old] == list(sent.passages)
    assert ("pass", 1) == (verdict(sent).outcome, sent.facts.clashes)


async def test_a_memory_block_in_a_system_message_can_be_edited() -> None:
    system = {"role": "system", "content": "Be brief. <user_memory>The user lives in Berlin. The user is vegan.</user_memory> Be kind."}
    sent = await send(make_ports(), [system, user("I live in Munich.")])
    assert "Be brief. <user_memory>The user is vegan.</user_memory> Be kind." == contents(sent)[0]


async def test_the_rest_of_a_system_message_cannot() -> None:
    system = {"role": "system", "content": "Always answer in English."}
    sent = await send(make_ports(), [system, user("Answer in German.")], between=["system", "user"], edits="all")
    assert (1, "Always answer in English.") == (sent.facts.clashes, contents(sent)[0])


async def test_parts_that_are_not_compared_do_not_clash() -> None:
    system = {"role": "system", "content": "Always answer in English."}
    sent = await send(make_ports(), [system, user("Answer in German.")], between=["user"])
    assert 0 == sent.facts.clashes


# ---- notes ----


async def test_the_users_words_stay_and_the_newer_message_tells_which_counts() -> None:
    sent = await send(make_ports(), MOVED)
    note = '[Note: "I live in Berlin." no longer counts. What counts is: "I live in Munich."]'
    assert ["Hello. I live in Berlin.", "Noted.", f"I live in Munich. Which doctor is near?\n\n{note}"] == contents(sent)
    assert ("warn", "clash_noted", 1) == (verdict(sent).outcome, verdict(sent).code, verdict(sent).detail["noted"])


async def test_a_note_stands_in_the_same_place_on_later_turns() -> None:
    ports = make_ports()
    first = await send(ports, MOVED)
    later = await send(ports, [*MOVED, assistant(), user("Thanks.")], id_="gw_2")
    assert contents(first) == contents(later)[:3]
    assert "Thanks." == contents(later)[-1]


async def test_what_was_noted_is_no_part_of_what_the_user_said() -> None:
    sent = await send(make_ports(), MOVED)
    assert MOVED == list(sent.conversation)


@pytest.mark.parametrize(
    ("older", "newer", "note"),
    [
        (
            "Ich wohne in Berlin.",
            "Ich wohne in Hamburg.",
            "[Hinweis: „Ich wohne in Berlin.“ gilt nicht mehr. Es gilt: „Ich wohne in Hamburg.“]",
        ),
        ("Vivo en Sevilla y trabajo mucho aquí.", "Hola. Ahora vivo en Bilbao.", ""),
        (
            "J'habite à Lyon.",
            "J'habite maintenant à Nantes.",
            "[Note : « J'habite à Lyon. » ne vaut plus. Ce qui vaut : « J'habite maintenant à Nantes. »]",
        ),
    ],
)
async def test_a_note_is_in_the_users_language(older: str, newer: str, note: str) -> None:
    sent = await send(make_ports(), [user(older), assistant("Ok."), user(newer)])
    assert (f"{newer}\n\n{note}" if note else newer) == contents(sent)[-1]


async def test_a_note_is_a_part_of_its_own_behind_parts() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    said = {"role": "user", "content": [{"type": "text", "text": "I live in Munich."}, image]}
    sent = await send(make_ports(), [user("I live in Berlin."), assistant(), said])
    assert [*said["content"], {"type": "text", "text": contents(sent)[-1][-1]["text"]}] == contents(sent)[-1]
    assert contents(sent)[-1][-1]["text"].startswith("[Note:")


async def test_forwarding_again_adds_no_second_note() -> None:
    ports = make_ports()
    stage = made(ports)
    sent = await send(ports, MOVED, stage=stage)
    before = sent.messages
    await stage.on_forward(sent)
    assert before is sent.messages
    stage.release(sent)


async def test_what_the_user_says_counts_before_what_was_remembered_later_in_the_list() -> None:
    hint = Evidence("The user lives in Berlin.", "memory")
    sent = await send(make_ports(), [user("I live in Munich. Which doctor is near?")], passages=[hint])
    assert ([], "clash_removed") == (list(sent.passages), verdict(sent).code)


# ---- what is not compared ----


@pytest.mark.parametrize(
    "text", ["Basic costs 10 €. Pro costs 25 €.", "I live in Rome. I live in Paris.", "The office opens at 9. It opens at 11."]
)
async def test_tool_results_passages_and_system_prompts_are_not_compared(text: str) -> None:
    passages = [Evidence(text, "a"), Evidence("I live in Milan.", "b")]
    sent = await send(make_ports(), [{"role": "system", "content": text}, user("I live in Munich."), *tool(text)], passages=passages)
    assert 0 == sent.facts.clashes


async def test_where_several_people_speak_nothing_is_certain() -> None:
    said = [{**user("I live in Berlin."), "name": "ann"}, assistant(), {**user("I live in Munich."), "name": "bob"}]
    sent = await send(make_ports(), said)
    assert sent.messages is sent.original.messages


async def test_in_a_conversation_that_is_a_game_nothing_is_certain() -> None:
    system = {"role": "system", "content": "You play the role of a customs officer in a story."}
    sent = await send(make_ports(), [system, *MOVED])
    assert sent.messages is sent.original.messages


# ---- bounds ----


async def test_a_long_message_is_read_in_part_and_said_to_be() -> None:
    long = " ".join(f"I paid {i} euros for the {i}th of my books." for i in range(60))
    first, again = [await send(make_ports(), [user(long)]) for _ in range(2)]
    assert ("unchecked", "clash_skipped", 54) == (verdict(first).outcome, verdict(first).code, verdict(first).detail["skipped"])
    assert verdict(first) == verdict(again)


async def test_the_same_request_has_the_same_verdict_from_one_stage() -> None:
    ports = make_ports()
    stage = made(ports)
    long = " ".join(f"My meeting with Ann is on {i} May." for i in range(1, 30))
    first, again = [await send(ports, [user(long), assistant(), user("I live in Rome.")], stage=stage) for _ in range(2)]
    assert (verdict(first).outcome, verdict(first).code) == (verdict(again).outcome, verdict(again).code)


async def test_what_is_plainly_declared_is_read_however_much_was_said_before() -> None:
    talk = [message for i in range(40) for message in (user(f"I paid {i} euros for {i} books."), assistant())]
    sent = await send(make_ports(), [*talk, user("I live in Berlin."), assistant(), user("I live in Munich.")])
    assert "clash_noted" == verdict(sent).code


async def test_without_semantic_no_model_is_loaded() -> None:
    verifiers = ScriptedVerifiers()
    stage = made(make_ports(verifiers=verifiers))
    assert (False, False) == (stage.embeds, stage.verifies)
    await send(make_ports(verifiers=verifiers), [user("I love long walks by the sea."), assistant(), user("I enjoy walks by the sea.")])
    assert [] == verifiers.asked


# ---- when it was said ----


async def test_what_the_client_tells_of_time_is_in_the_reason() -> None:
    hints = {0: {"timestamp": 1_699_000_000.0}, 2: {"timestamp": 1_699_996_400.0}}
    sent = await send(make_ports(), MOVED, hints=hints, at=1_700_000_000.0)
    assert "new statement is more recent (1 h against 11.6 d)" == verdict(sent).detail["clashes"][0]["reason"]


async def test_what_came_in_one_request_goes_by_its_order() -> None:
    sent = await send(make_ports(), MOVED, at=1_700_000_000.0)
    assert "new statement is more recent (message 3 after message 1)" == verdict(sent).detail["clashes"][0]["reason"]


# ---- the same on every turn ----


async def test_another_worker_forwards_the_same_on_the_next_turn() -> None:
    ports = make_ports()
    first = await send(ports, MOVED, edits="all")
    second = await send(ports, [*MOVED, assistant(), user("Thanks.")], id_="gw_2", edits="all")
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
    stage = made(ports, semantic=True)
    history = [user("I love long walks by the sea."), assistant(), user("I enjoy walks by the sea in winter.")]
    await send(ports, history, stage=stage)
    asked = len(verifiers.asked)
    assert asked
    await send(ports, history, stage=stage)
    await send(ports, [*history, assistant(), user("Thanks.")], stage=stage)
    assert asked == len(verifiers.asked)


async def test_one_clients_decisions_are_not_anothers() -> None:
    ports = make_ports()
    await send(ports, MOVED, client="ann", edits="all")
    (record,) = ports.clashes.records.values()
    await ports.clashes.resolve(record.id, "keep_older", client="ann", by="admin")
    sent = await send(ports, MOVED, client="bob", edits="all")
    assert "Hello. " == contents(sent)[0]


async def test_a_client_that_forgets_the_newer_statement_has_no_clash() -> None:
    ports = make_ports()
    await send(ports, MOVED)
    sent = await send(ports, [*MOVED[:2], user("Thanks.")])
    assert ("Hello. I live in Berlin.", 0) == (contents(sent)[0], sent.facts.clashes)


async def test_saying_the_older_one_again_begins_a_new_clash() -> None:
    ports = make_ports()
    await send(ports, MOVED, edits="all")
    sent = await send(ports, [*MOVED, assistant(), user("I live in Berlin.")], edits="all")
    assert ["Hello. ", "Noted.", "Which doctor is near?", "Noted.", "I live in Berlin."] == contents(sent)


async def test_a_merged_statement_leaves_when_one_of_its_sides_loses() -> None:
    ports = make_ports()
    history = [user("Hello. My budget is 500 €."), assistant(), user("My budget is 900 €. Thanks.")]
    merged = await send(ports, history, strategy="merge", edits="all")
    assert "Hello. My budget is between 500 € and 900 €." == contents(merged)[0]
    sent = await send(ports, [*history, assistant(), user("Actually, make my budget 300 €.")], strategy="merge", edits="all")
    assert ["Hello. ", "Thanks."] == [contents(sent)[0], contents(sent)[2]]


# ---- whatever the conversation ----

_SENTENCES = (
    "I live in Berlin.",
    "I live in Munich.",
    "My budget is 500 €.",
    "My budget is 900 €.",
    "I am vegan.",
    "I eat meat.",
    "Hello.",
    "What is new?",
    "Actually, I live in Rome.",
    "I prefer budget hotels.",
    "Make it luxury.",
)
_TURN = st.one_of(
    st.lists(st.sampled_from(_SENTENCES), min_size=1, max_size=3).map(lambda said: [user(" ".join(said)), assistant()]),
    st.sampled_from(["A1", "B2", "C3"]).map(lambda gate: [*tool(f'{{"flight_id": "LH1", "gate": "{gate}"}}', gate), assistant()]),
)
_TALK = st.lists(_TURN, min_size=1, max_size=5).map(lambda turns: [message for turn in turns for message in turn])


@settings(max_examples=share(0.6))
@given(
    _TALK,
    st.sampled_from(["Thanks.", "I live in Paris.", "My budget is 700 €."]),
    st.sampled_from(["prefer_recent", "merge", "ask_user"]),
    st.sampled_from(["memory", "all"]),
)
def test_the_forwarded_list_is_legal_and_stays_the_same(talk: list[Message], last: str, strategy: str, edits: str) -> None:
    async def run() -> None:
        ports = make_ports()
        messages = [{"role": "system", "content": "Be brief."}, *talk, user(last)]
        first = await send(ports, messages, strategy=strategy, edits=edits)
        again = await send(ports, messages, strategy=strategy, edits=edits)
        assert [] == problems(first.messages)
        assert len(messages) == len(first.messages)
        assert [message["role"] for message in messages] == [message["role"] for message in first.messages]
        assert messages[0] == first.messages[0]
        assert first.messages[-1]["content"].startswith(messages[-1]["content"])
        assert contents(first) == contents(again)

    asyncio.run(run())


@settings(max_examples=share(0.4))
@given(_TALK)
def test_what_is_left_has_no_clash_that_a_rule_resolves(talk: list[Message]) -> None:
    async def run() -> None:
        sent = await send(make_ports(), [*talk, user("Thanks.")], edits="all")
        left = await send(make_ports(), list(sent.conversation), edits="all")
        assert [message["content"] for message in sent.conversation] == [message["content"] for message in left.conversation]

    asyncio.run(run())
