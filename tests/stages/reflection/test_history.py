"""What a conversation shows of failures, and how it is put into a store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange import Message, Tool
from proxy.ports.failures import FailureEvent, FailureRecord
from proxy.stages.reflection.history import FailureHistory
from proxy.testing import MemoryFailures
from tests.stages.reflection.kept import known
from tests.stages.reflection.talk import NOT_FOUND, TIMED_OUT, TOOLS, Talk, read_history

OWNER = {"client": "alice", "run_id": "r", "policy": "agent", "step_id": "1", "record_id": "gw_1"}


def read(messages: Sequence[Message]) -> FailureHistory:
    return read_history(messages, TOOLS, lambda name: name.startswith("search_"), stall_after=6)


def kept(*turns: Sequence[Message]) -> dict[str, FailureRecord]:
    """What a store holds after these requests, by code; each brings its whole conversation."""
    store = MemoryFailures()

    async def run() -> list[FailureRecord]:
        fingerprints = []
        for messages in turns:
            events = read(messages).events
            await store.apply(events, **OWNER)
            fingerprints += [event.fingerprint for event in events]
        return await known(store, client="alice", run_id="r", fingerprints=list(dict.fromkeys(fingerprints)))

    return {record.code: record for record in asyncio.run(run())}


def kinds(messages: Sequence[Message]) -> list[str]:
    return [event.kind for event in read(messages).events]


def test_a_failing_call_is_an_occurrence_with_pointers() -> None:
    history = read(Talk().calls("search_docs", TIMED_OUT, query="battery", limit=50).messages)
    (failure,) = history.failures
    assert ("tool_error", "timeout", "search_docs", 3) == (failure.signal_type, failure.code, failure.subject, failure.position)
    assert ({"kind": "tool_call", "message": 2, "tool_call": "call_1"}, {"kind": "message", "message": 3}) == failure.context_refs
    assert {"type": "paginate", "argument": "limit", "max": 10, "page_argument": "page"} == failure.recommended_adjustment
    assert ["call_1"] == failure.attempted_action["tool_call_ids"]


def test_the_same_call_failing_alike_has_one_fingerprint_and_counts_up() -> None:
    talk = Talk().calls("get_order", NOT_FOUND, id="A7").calls("get_order", NOT_FOUND, id="a7")
    record = kept(talk.messages)["not_found"]
    assert (2, 2, "active") == (record.occurrence_count, record.stuck_count, record.status)


@pytest.mark.parametrize(
    ("tool", "result", "expected"),
    [
        ("find_docs", "Tool find_docs does not exist.", ["unknown_tool"]),
        ("find_docs", "The door is open.", []),
        ("get_order", "Invalid value for parameter 'id': expected a text", ["arguments_mismatch"]),
        ("get_order", "Sent on Monday.", []),
    ],
)
def test_a_call_that_breaks_its_schema_has_failed_where_its_result_names_an_error(tool: str, result: str, expected: list[str]) -> None:
    assert expected == [failure.code for failure in read(Talk().calls(tool, result, id=7).messages).failures]


def test_a_call_that_keeps_its_schema_has_not_failed_by_words_alone() -> None:
    assert () == read(Talk().calls("get_order", "The order does not exist.", id="A7").messages).failures


def test_numbers_and_ids_in_the_error_text_make_no_difference() -> None:
    first = Talk().calls("get_order", "Error 404: order 17 not found (request 9f3b, 12:01:07)", id="A7")
    second = Talk().calls("get_order", "Error 404: order 99 not found (request 11aa, 23:59:59)", id="A7")
    assert read(first.messages).failures[0].fingerprint == read(second.messages).failures[0].fingerprint


def test_the_same_call_succeeding_later_resolves_it() -> None:
    talk = Talk().calls("get_order", NOT_FOUND, id="A7").calls("get_order", '{"id": "A7", "state": "sent"}', id="A7")
    assert "resolved" == kept(talk.messages)["not_found"].status


def test_another_call_of_the_tool_succeeding_is_progress() -> None:
    talk = (
        Talk()
        .calls("search_docs", TIMED_OUT, query="battery", limit=50)
        .calls("search_docs", '[{"id": 1, "text": "x"}]', query="screen", limit=10)
    )
    record = kept(talk.messages)["timeout"]
    assert ("active", 1, 0) == (record.status, record.occurrence_count, record.stuck_count)


def test_a_person_speaking_is_progress() -> None:
    talk = Talk().calls("get_order", NOT_FOUND, id="A7").says("I cannot find it.").user("Try again, please.")
    assert 0 == kept(talk.messages)["not_found"].stuck_count


def test_what_fails_again_after_progress_counts_from_one() -> None:
    talk = Talk().calls("get_order", NOT_FOUND, id="A7").calls("get_order", NOT_FOUND, id="A7").says("It is not there.").user("It is.")
    record = kept(talk.calls("get_order", NOT_FOUND, id="A7").messages)["not_found"]
    assert (3, 1) == (record.occurrence_count, record.stuck_count)


def test_a_failure_that_comes_back_is_active_again() -> None:
    talk = Talk().calls("get_order", NOT_FOUND, id="A7").calls("get_order", '{"id": "A7"}', id="A7").calls("get_order", NOT_FOUND, id="A7")
    record = kept(talk.messages)["not_found"]
    assert ("active", 2, 1) == (record.status, record.occurrence_count, record.stuck_count)


def test_results_of_parallel_calls_are_no_progress_for_each_other() -> None:
    talk = Talk()
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "get_order", "arguments": f'{{"id": "{i}"}}'}} for i in range(2)]
    talk.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    talk.messages.append({"role": "tool", "tool_call_id": "c0", "content": NOT_FOUND})
    talk.messages.append({"role": "tool", "tool_call_id": "c1", "content": '{"id": "1"}'})
    assert ["occurred"] == kinds(talk.messages)


def test_an_empty_search_is_a_retrieval_failure() -> None:
    history = read(Talk().calls("search_docs", "[]", query="battery").messages)
    assert [("retrieval_failure", "empty_result")] == [(f.signal_type, f.code) for f in history.failures]
    assert {"type": "rephrase_query", "argument": "query"} == history.failures[0].recommended_adjustment


def test_an_unknown_tool_is_a_schema_violation_and_not_the_clients_error_text() -> None:
    history = read(Talk().calls("search_doc", "Error: unknown tool search_doc", query="battery").messages)
    assert [("schema_violation", "unknown_tool")] == [(f.signal_type, f.code) for f in history.failures]
    assert ["search_docs"] == history.failures[0].recommended_adjustment["tools"]


def test_arguments_against_the_schema_are_a_violation() -> None:
    history = read(Talk().calls("get_order", "Error: invalid arguments", order="A7").messages)
    assert "arguments_mismatch" == history.failures[0].code
    assert "fix_arguments" == history.failures[0].recommended_adjustment["type"]


def test_a_call_that_worked_is_no_violation_whatever_its_schema() -> None:
    assert () == read(Talk().calls("get_order", '{"id": "A7"}', order="A7").messages).failures


def test_invalid_json_is_a_violation() -> None:
    assert "invalid_json" == read(Talk().calls_raw("get_order", '{"id": "A7', "Error: bad arguments").messages).failures[0].code


def test_a_rejection_is_a_correction_until_the_person_speaks_without_one() -> None:
    talk = Talk("Book a table for two.").says("I have booked it for Monday.").user("No, that is wrong, I said Tuesday.")
    assert ["occurred"] == kinds(talk.messages)
    assert ["occurred", "resolved"] == kinds(talk.says("Tuesday it is.").user("And a taxi, please.").messages)


def test_the_newest_failures_are_those_since_the_assistant_last_spoke() -> None:
    talk = Talk().calls("get_order", NOT_FOUND, id="A7").calls("search_docs", TIMED_OUT, query="x", limit=50)
    assert ["timeout"] == [failure.code for failure in read(talk.messages).newest]


def test_the_situation_names_newest_failures_and_tools_first() -> None:
    talk = Talk().calls("get_order", NOT_FOUND, id="A7").calls("search_docs", TIMED_OUT, query="x", limit=50)
    history = read(talk.messages)
    assert [failure.fingerprint for failure in reversed(history.failures)] == list(history.situation.fingerprints)
    assert (("search_docs", "get_order"), ("search_docs", "get_order")) == (history.situation.recent_tools, history.situation.tools)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["get_order", "search_docs"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([TIMED_OUT, NOT_FOUND, "[]", '{"x": 1}']),
    )
    | st.just("user"),
    max_size=12,
)


def talk_of(steps: Sequence[object]) -> Talk:
    talk = Talk()
    for i, step in enumerate(steps):
        if isinstance(step, tuple):
            tool, value, result = step
            talk.calls(tool, result, **{"id" if tool == "get_order" else "query": value})
        else:
            talk.says(f"So far so good, that was step {i}.").user(f"Then go on with part {i}.")
    return talk


def loopless(records: dict[str, FailureRecord]) -> dict[str, tuple[object, ...]]:
    """Loops are told as far as they have come, so they count by how often they were looked at."""
    return {
        code: (record.status, record.occurrence_count, record.stuck_count)
        for code, record in records.items()
        if record.signal_type != "loop"
    }


@given(STEPS)
def test_turn_by_turn_or_all_at_once_gives_the_same(steps: list[object]) -> None:
    talk = talk_of(steps)
    turns = [talk.messages[:i] for i in range(2, len(talk.messages) + 1) if talk.messages[i - 1]["role"] in ("user", "tool")]
    assert loopless(kept(talk.messages)) == loopless(kept(*turns))


@given(STEPS)
def test_the_same_conversation_again_changes_nothing(steps: list[object]) -> None:
    messages = talk_of(steps).messages
    assert kept(messages) == kept(messages, messages)


@given(STEPS)
def test_every_event_has_a_name_of_its_own(steps: list[object]) -> None:
    events = read(talk_of(steps).messages).events
    names = [(event.fingerprint, event.kind, event.cause) for event in events]
    assert len(set(names)) == len(names)


def test_events_are_bounded() -> None:
    talk = Talk()
    for i in range(600):
        talk.calls("get_order", NOT_FOUND, id=str(i))
    events: list[FailureEvent] = read(talk.messages).events
    assert 400 == len(events)


BROKEN = "make: *** [all] Error 2\nexit code: 2"


@pytest.mark.parametrize(
    ("between", "progress"),
    [("edit_file", 2), ("write_file", 2), ("applyPatch", 2), ("read_file", 0), ("think", 0), ("list_files", 0)],
)
def test_a_change_in_between_is_progress_and_reading_is_none(between: str, progress: int) -> None:
    talk = Talk("Fix the build.")
    tools: list[Tool] = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("bash", between)]
    for number in range(3):
        talk.calls("bash", BROKEN, command="make").calls(between, f"done {number}", path=f"{number}.c")
    history = read_history(talk.messages[:-2], tools, lambda name: False, stall_after=9)
    assert (3, progress) == tuple([event.kind for event in history.events].count(kind) for kind in ("occurred", "progress"))


@pytest.mark.parametrize(("error", "progress"), [("Error: permission denied", 0), ('{"status": 404, "error": "not found"}', 1)])
def test_what_no_change_can_help_is_not_passed_by_one(error: str, progress: int) -> None:
    tools: list[Tool] = [*TOOLS, {"type": "function", "function": {"name": "send_mail", "parameters": {"type": "object"}}}]
    talk = Talk().calls("get_order", error, id="A7").calls("send_mail", "sent", to="ann").calls("get_order", error, id="A7")
    history = read_history(talk.messages, tools, lambda name: False, stall_after=9)
    assert progress == [event.kind for event in history.events].count("progress")
