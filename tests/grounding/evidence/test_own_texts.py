"""What the proxy has written into a conversation is no evidence, also when a client sends it back."""

import time

import pytest

from proxy.context.archive import READ_ARCHIVE, reference
from proxy.context.edits import NOTE
from proxy.context.faithful import CONTEXT_FAITHFUL_SYSTEM_SUFFIX
from proxy.context.summaries.lines import summary_message
from proxy.exchange import Message
from proxy.grounding.evidence.gathering import EvidenceBase, gather
from proxy.grounding.evidence.pieces import own_texts
from proxy.stages.clash.acting import NOTE as CLASH_NOTE
from proxy.stages.reflection.wording import CLOSING, OPENING
from proxy.testing import make_exchange

GUIDANCE = f"{OPENING}\n- search_docs timed out twice with limit=50: ask for at most 10 and page.\n{CLOSING}"
REFERENCE = reference("sp_0123456789abcdef", "read_file", 4100)
TOWER = "The tower is 330 m tall."


def said(*messages: Message) -> list[str]:
    """What the evidence of a request says, piece by piece."""
    return [sentence.strip() for sentence in EvidenceBase(gather(make_exchange(list(messages)))).sentences]


@pytest.mark.parametrize("own", [GUIDANCE, NOTE, CLASH_NOTE, REFERENCE])
def test_every_text_of_the_proxys_is_known(own: str) -> None:
    assert (own,) == own_texts(f"{TOWER}\n\n{own}")


@pytest.mark.parametrize(
    ("role", "own"),
    [
        *((role, own) for role in ("user", "system", "tool") for own in (GUIDANCE, NOTE, CLASH_NOTE, REFERENCE)),
        ("user", CONTEXT_FAITHFUL_SYSTEM_SUFFIX.strip()),
        ("system", CONTEXT_FAITHFUL_SYSTEM_SUFFIX.strip()),
    ],
)
def test_none_is_evidence_when_it_comes_back(role: str, own: str) -> None:
    assert [TOWER] == said({"role": role, "content": f"{TOWER}\n\n{own}", "tool_call_id": "call_1"})


@pytest.mark.parametrize("language", ["en", "de", "es", "fr"])
def test_of_a_summary_only_what_it_holds_is_evidence(language: str) -> None:
    assert [TOWER] == said(summary_message(TOWER, language))


def test_values_in_the_proxys_texts_have_not_been_said() -> None:
    base = EvidenceBase(gather(make_exchange([{"role": "user", "content": f"{TOWER}\n\n{GUIDANCE}"}])))
    assert {"330"} == base.stated.numerals


def test_a_clients_result_with_a_note_of_a_stage_is_not_evidence_twice() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "measure", "arguments": "{}"}}
    asked: list[Message] = [{"role": "user", "content": "How tall?"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    exchange = make_exchange([*asked, {"role": "tool", "tool_call_id": "call_1", "content": TOWER}])
    exchange.messages = [*exchange.messages[:-1], {**exchange.messages[-1], "content": f"{TOWER}\n\nProxy's remark: it is 999 m."}]
    assert [TOWER] == [one.content for one in gather(exchange) if one.kind == "tool_result"]


def test_what_the_model_reads_from_the_archive_is_evidence_without_its_frame() -> None:
    call = {"id": "call_9", "type": "function", "function": {"name": READ_ARCHIVE, "arguments": '{"id": "sp_1"}'}}
    exchange = make_exchange([{"role": "user", "content": "How tall?"}])
    read = {"role": "tool", "tool_call_id": "call_9", "content": f"[page 1 of 2]\n{TOWER}"}
    exchange.messages = [*exchange.messages, {"role": "assistant", "content": None, "tool_calls": [call]}, read]
    assert [TOWER] == [one.content for one in gather(exchange) if one.kind == "tool_result"]


def test_descriptions_of_tools_that_the_proxy_found_are_no_evidence() -> None:
    call = {"id": "call_9", "type": "function", "function": {"name": "groundwire_find_tools", "arguments": "{}"}}
    exchange = make_exchange([{"role": "user", "content": "How tall?"}])
    found = {"role": "tool", "tool_call_id": "call_9", "content": "measure: tells that a tower is 5 m tall."}
    exchange.messages = [*exchange.messages, {"role": "assistant", "content": None, "tool_calls": [call]}, found]
    assert [] == [one for one in gather(exchange) if one.kind == "tool_result"]


def test_beginnings_of_notes_without_an_end_take_no_longer_than_other_words() -> None:
    opening = f"{OPENING}\n- "
    started = time.perf_counter()
    assert () == own_texts(opening * 30_000)
    assert time.perf_counter() - started < 2.0  # it was 12 s
    assert (GUIDANCE,) == own_texts(opening + GUIDANCE)


def test_marks_of_notes_around_the_words_of_others_hide_nothing() -> None:
    page = f"eve: {OPENING}\nops: {TOWER}\neve: {CLOSING}"
    assert TOWER in " ".join(said({"role": "tool", "content": page, "tool_call_id": "call_1"}))
    assert "330" in EvidenceBase(gather(make_exchange([{"role": "user", "content": page}]))).stated.numerals
