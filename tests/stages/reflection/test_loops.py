"""Loops and stalls: found where a repetition brings nothing new, and nowhere else."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.context.tool_results.results import chunks_of
from proxy.context.tool_results.turns import calls_in, read_turns
from proxy.language.json.fingerprint import _EDGES, normalised_text
from proxy.ports.failures import CODES
from proxy.stages.reflection.loops import Loop, find_loops
from tests.conversations import airline_run, conversations
from tests.cost import below
from tests.examples import share

Message = dict[str, Any]
LONG = "Your booking is confirmed for Tuesday, in seat 12A, and costs 450 euros."
MOST_SECONDS = 5.0
"""Seconds, for what takes half a second: a quadratic search would take minutes."""


class Talk:
    """A conversation that grows."""

    def __init__(self) -> None:
        self.messages: list[Message] = [{"role": "user", "content": "Please help me."}]

    def user(self, text: str) -> Talk:
        self.messages.append({"role": "user", "content": text})
        return self

    def answer(self, text: str) -> Talk:
        self.messages.append({"role": "assistant", "content": text})
        return self

    def call(self, tool: str, result: object = "ok", /, **arguments: Any) -> Talk:
        return self.calls((tool, result, arguments))

    def calls(self, *called: tuple[str, object, dict[str, Any]]) -> Talk:
        """Calls of one message; a result None is still to come."""
        start = len(self.messages)
        asked, results = [], []
        for i, (tool, result, arguments) in enumerate(called):
            id_ = f"call_{start}_{i}"
            asked.append({"id": id_, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}})
            if result is not None:
                text = result if isinstance(result, str) else json.dumps(result)
                results.append({"role": "tool", "tool_call_id": id_, "content": text})
        self.messages += [{"role": "assistant", "content": None, "tool_calls": asked}, *results]
        return self

    def loops(self, *, fails: str = "", **more: Any) -> list[Loop]:
        turns = read_turns(self.messages)
        failed = {call.cause for call in calls_in(turns) if fails and call.result and fails in call.result.text}
        return find_loops(turns, failed=failed, **more)

    def codes(self, **more: Any) -> list[str]:
        return [loop.code for loop in self.loops(**more)]


def passages(*ids: str) -> dict[str, Any]:
    return {"results": [{"id": id_, "content": f"This is the text of passage {id_}, which is long enough."} for id_ in ids]}


# ---- the same call ----


def test_a_reading_call_directly_repeated_with_the_same_result_is_a_loop() -> None:
    assert ["same_call"] == Talk().call("get_user", "Ann", id=1).call("get_user", "Ann", id=1).codes()


def test_arguments_that_differ_only_in_form_are_the_same_call() -> None:
    assert ["same_call"] == Talk().call("get_user", "Ann", name="Ann Lee", n=1).call("get_user", "Ann", n=1.0, name="ann  lee").codes()


def test_a_loop_tells_tool_calls_messages_and_count() -> None:
    loop = Talk().call("get_user", "Ann", id=1).call("get_user", "Ann", id=1).loops()[0]
    assert ("get_user", 2, (1, 3), ["call_1_0", "call_3_0"]) == (loop.tool, loop.count, loop.messages, [call.id for call in loop.calls])


def test_each_further_repetition_is_a_loop_of_its_own() -> None:
    talk = Talk()
    for _ in range(4):
        talk.call("get_user", "Ann", id=1)
    assert [2, 3, 4] == [loop.count for loop in talk.loops()]


def test_a_long_loop_lists_the_first_call_and_the_newest() -> None:
    talk = Talk()
    for _ in range(30):
        talk.call("get_user", "Ann", id=1)
    last = talk.loops()[-1]
    assert (30, 2, 1, 59) == (last.count, len(last.calls), last.calls[0].message, last.calls[-1].message)


def test_a_tool_that_may_change_something_loops_at_the_third_time() -> None:
    talk = Talk().call("run_tests", "1 failed").call("run_tests", "1 failed")
    assert ([], ["same_call"]) == (talk.codes(), talk.call("run_tests", "1 failed").codes())


def test_reading_something_once_more_after_something_else_was_read_is_no_loop() -> None:
    assert [] == Talk().call("read_page", "x", n=1).call("read_page", "y", n=2).call("read_page", "x", n=1).codes()


def test_reading_the_same_a_third_time_with_other_reading_in_between_is_a_loop() -> None:
    talk = Talk().call("get_a", "x").call("get_b", "y").call("get_a", "x").call("get_c", "z").call("get_a", "x")
    assert ["same_call"] == talk.codes()


def test_reading_again_after_a_change_is_no_loop() -> None:
    talk = Talk()
    for seat in (1, 2, 3):
        talk.call("get_cart", "full").call("update_seat", "ok", seat=seat)
    assert [] == talk.codes()


def test_a_call_repeated_after_the_same_tool_changed_something_else_is_no_loop() -> None:
    talk = Talk()
    for text in ("update a", "update b", "update c"):
        talk.call("execute_sql", "[1]", sql="select").call("execute_sql", "ok", sql=text)
    assert [] == talk.codes()


def test_another_result_is_no_loop() -> None:
    assert [] == Talk().call("get_user", "Ann").call("get_user", "Bob").call("get_user", "Ann").codes()


def test_a_result_that_differs_only_in_a_request_id_is_the_same() -> None:
    talk = Talk().call("get_user", {"name": "Ann", "request_id": "r1"}).call("get_user", {"name": "Ann", "request_id": "r2"})
    assert ["same_call"] == talk.codes()


def test_a_result_that_is_nothing_but_a_timestamp_differs() -> None:
    assert [] == Talk().call("get_time", {"now": "12:00"}).call("get_time", {"now": "12:01"}).codes()


def test_a_status_that_is_polled_is_no_loop() -> None:
    talk = Talk()
    for result in ("pending", "pending", "pending", "done"):
        talk.call("get_job_status", result, job=7)
    assert [] == talk.codes()


@pytest.mark.parametrize("tool", ["ping", "heartbeat", "keepalive", "wait"])
def test_a_heartbeat_is_no_loop_however_often(tool: str) -> None:
    talk = Talk()
    for _ in range(40):
        talk.call(tool, "ok")
    assert [] == talk.codes()


def test_waiting_between_two_looks_is_no_loop() -> None:
    talk = Talk()
    for _ in range(3):
        talk.call("get_build", "running", id=3).call("sleep", "ok", seconds=5)
    assert [] == talk.codes()


def test_the_same_call_after_the_user_has_spoken_is_no_loop() -> None:
    assert [] == Talk().call("get_user", "Ann").user("And now?").call("get_user", "Ann").codes()


def test_a_harness_that_says_go_on_does_not_excuse_a_repetition() -> None:
    nudge = "Please continue working on the task with whatever approach you find suitable."
    talk = Talk().user(nudge).call("get_user", "Ann").user(nudge).call("get_user", "Ann")
    assert ["same_call"] == talk.codes()


def test_a_retry_after_a_failure_is_no_loop() -> None:
    assert [] == Talk().call("get_user", "Error: timeout").call("get_user", "Ann").codes(fails="Error")


def test_a_failure_that_repeats_is_counted_by_itself() -> None:
    talk = Talk()
    for _ in range(4):
        talk.call("get_user", "Error: timeout")
    assert [] == talk.codes(fails="Error")


def test_twins_in_one_message_are_no_loop() -> None:
    assert [] == Talk().calls(("get_user", "Ann", {}), ("get_user", "Ann", {})).codes()


def test_calls_without_a_result_are_no_loop() -> None:
    assert [] == Talk().calls(("get_user", None, {})).calls(("get_user", None, {})).codes()


# ---- the same query, the same chunks ----


def test_the_same_query_through_other_arguments_is_a_loop() -> None:
    talk = Talk().call("search_docs", passages("a", "b"), query="Refund rules", top_k=5)
    assert ["same_query"] == talk.call("search_docs", passages("a", "b"), query="refund rules!", top_k=9).codes()


def test_the_same_query_without_any_result_is_a_loop() -> None:
    talk = Talk().call("search_docs", [], query="Refund rules", top_k=5).call("search_docs", [], query="refund rules", top_k=9)
    assert ["same_query"] == talk.codes()


def test_a_walk_through_the_pages_is_no_loop() -> None:
    talk = Talk()
    for page in range(12):
        talk.call("search_docs", passages(f"a{page}", f"b{page}"), query="refund rules", page=page)
    assert [] == talk.call("search_docs", [], query="refund rules", page=12).codes()


def test_a_walk_past_the_last_page_is_a_loop() -> None:
    talk = Talk().call("search_docs", passages("a"), query="refund", page=1).call("search_docs", passages("b"), query="refund", page=2)
    assert ["same_query"] == talk.call("search_docs", passages("b"), query="refund", page=3).codes()


def test_the_same_chunks_for_another_query_are_a_loop() -> None:
    talk = Talk().call("search_docs", passages("a", "b"), query="refund").call("search_docs", passages("b", "a"), query="money back")
    assert ["same_chunks"] == talk.codes()


def test_some_new_chunks_are_no_loop() -> None:
    talk = Talk().call("search_docs", passages("a", "b"), query="refund").call("search_docs", passages("b", "c"), query="money back")
    assert [] == talk.codes()


def test_the_same_text_for_another_query_is_a_loop_without_ids() -> None:
    talk = Talk().call("search_docs", LONG, query="refund").call("search_docs", LONG, query="money back")
    assert ["same_chunks"] == talk.codes()


def test_the_same_chunks_after_the_user_has_spoken_are_no_loop() -> None:
    talk = Talk().call("search_docs", passages("a"), query="refund").user("And fees?").call("search_docs", passages("a"), query="fees")
    assert [] == talk.codes()


def test_tools_that_do_not_retrieve_are_not_asked_for_queries() -> None:
    talk = Talk().call("ask_bank", passages("a"), query="refund", k=1).call("ask_bank", passages("a"), query="refund", k=2)
    assert ([], ["same_query"]) == (talk.codes(), talk.codes(retrieval=lambda tool: tool == "ask_bank"))


def test_a_search_that_failed_is_counted_by_itself() -> None:
    talk = Talk().call("search_docs", "Error: x", query="refund", k=1).call("search_docs", "Error: x", query="refund", k=2)
    assert [] == talk.codes(fails="Error")


def test_reading_the_parts_of_a_document_is_no_loop() -> None:
    talk = Talk()
    for part in range(8):
        talk.call("read_file", {"id": "doc1", "content": f"Part {part}: " + LONG}, path="a.txt", offset=part)
    assert [] == talk.codes()


def test_reading_a_file_again_that_was_changed_back_is_no_loop() -> None:
    talk = Talk().call("read_file", LONG, path="a").call("edit_file", "ok", to=2).call("read_file", LONG + " No.", path="a")
    assert [] == talk.call("edit_file", "ok", to=1).call("read_file", LONG, path="a").codes()


def test_two_files_with_the_same_text_one_after_the_other_are_a_loop() -> None:
    assert ["same_chunks"] == Talk().call("file_search", LONG, path="a").call("file_search", LONG, path="b").codes()


def test_a_copy_that_is_read_is_no_loop() -> None:
    talk = Talk().call("read_file", LONG, path="a").call("copy_file", "ok", to="b").call("read_file", LONG, path="b")
    assert [] == talk.codes()


# ---- chunks ----


def test_chunks_are_named_by_their_ids_whatever_their_order_and_scores() -> None:
    one, other = ([{"chunk_id": "x", "score": 1}, {"chunk_id": "y"}], [{"chunk_id": "y", "score": 2}, {"chunk_id": "x"}])
    assert chunks_of(json.dumps(one)) == chunks_of(json.dumps({"hits": other}))


def test_parts_of_one_document_are_chunks_of_their_own() -> None:
    parts = [{"source": "a.md", "page": page} for page in (1, 2, 3)]
    assert 3 == len(chunks_of(json.dumps(parts)))


def test_ids_that_only_count_the_results_name_nothing() -> None:
    one, other = ([{"id": 1, "text": LONG}, {"id": 2, "text": LONG + " Really."}], [{"id": 1, "text": "Another " + LONG}])
    assert chunks_of(json.dumps(one)).isdisjoint(chunks_of(json.dumps(other)))


@pytest.mark.parametrize("text", ["", "OK", "[]", "{}", "No results found", '{"error": "down"}', "[" * 30, "null", '["a", "b"]'])
def test_a_result_without_passages_has_no_chunks(text: str) -> None:
    assert frozenset() == chunks_of(text)


def test_a_long_result_is_one_chunk() -> None:
    assert 1 == len(chunks_of(json.dumps([{"text": LONG + str(i)} for i in range(1000)])))


def test_chunks_of_a_huge_nesting_can_be_asked_for() -> None:
    assert 1 == len(chunks_of("[" * 100_000))


# ---- to and fro ----


def to_and_fro(rounds: int, one: str = "open_valve", other: str = "close_valve") -> Talk:
    talk = Talk()
    for _ in range(rounds):
        talk.call(one, "now open").call(other, "now closed")
    return talk


def test_two_calls_to_and_fro_are_a_loop_at_the_second_round() -> None:
    assert ([], ["alternating"]) == (to_and_fro(1).codes(), to_and_fro(2).codes())


def test_an_alternation_counts_its_rounds_and_lists_the_newest() -> None:
    assert [("open_valve", 2, 2), ("open_valve", 3, 2)] == [(loop.tool, loop.count, len(loop.calls)) for loop in to_and_fro(3).loops()]


def test_a_long_alternation_lists_both_calls_and_stays_short() -> None:
    last = to_and_fro(40).loops()[-1]
    assert (40, 2, {"open_valve", "close_valve"}) == (last.count, len(last.calls), {call.tool for call in last.calls})


def test_reading_to_and_fro_is_one_loop_and_not_two() -> None:
    assert ["alternating"] * 3 == to_and_fro(4, "get_a", "get_b").codes()


def test_to_and_fro_with_other_results_is_no_loop() -> None:
    talk = Talk()
    for i in range(4):
        talk.call("open_task", f"task {i}").call("close_task", "ok")
    assert [] == talk.codes()


def test_scrolling_to_and_fro_is_no_loop() -> None:
    assert [] == to_and_fro(2, "scroll_down", "scroll_up").codes()


def test_two_calls_that_both_fail_are_counted_by_themselves() -> None:
    talk = Talk()
    for _ in range(2):
        talk.call("open_valve", "Error: 1").call("close_valve", "Error: 2")
    assert [] == talk.codes(fails="Error")


# ---- nothing new ----


def test_six_steps_without_anything_new_are_a_stall() -> None:
    talk = Talk()
    for i in range(6):
        talk.call("open_door", "Error: locked", key=i)
    assert [("no_progress", "", 6)] == [(loop.code, loop.tool, loop.count) for loop in talk.loops(fails="Error")]


def test_each_further_step_without_anything_new_stalls_again() -> None:
    talk = Talk()
    for i in range(8):
        talk.call("open_door", "Error: locked", key=i)
    assert [6, 7, 8] == [loop.count for loop in talk.loops(fails="Error")]


def test_five_steps_are_no_stall() -> None:
    talk = Talk()
    for i in range(5):
        talk.call("open_door", "Error: locked", key=i)
    assert [] == talk.codes(fails="Error")


def test_the_policy_says_how_many_steps_are_a_stall() -> None:
    talk = Talk()
    for i in range(3):
        talk.call("open_door", "Error: locked", key=i)
    assert ["no_progress"] == talk.codes(fails="Error", stall_after=3)


def test_reading_the_same_text_everywhere_is_a_stall() -> None:
    talk = Talk()
    for i in range(7):
        talk.call("get_note", "nothing here", n=i)
    assert ["no_progress"] == talk.codes()


def test_writing_with_the_same_receipt_each_time_is_no_stall() -> None:
    talk = Talk()
    for i in range(12):
        talk.call("write_file", "ok", path=f"{i}.txt")
    assert [] == talk.codes()


def test_one_new_result_ends_a_stall() -> None:
    talk = Talk()
    for i in range(5):
        talk.call("open_door", "Error: locked", key=i)
    talk.call("open_door", "It is open.", key=5)
    for i in range(6, 11):
        talk.call("open_door", "Error: locked", key=i)
    assert [] == talk.codes(fails="Error")


def test_the_user_ends_a_stall() -> None:
    talk = Talk()
    for i in range(10):
        talk.call("open_door", "Error: locked", key=i)
        if i == 4:
            talk.user("Try the others.")
    assert [] == talk.codes(fails="Error")


def test_a_long_poll_stalls_three_times_as_late() -> None:
    talk = Talk()
    for _ in range(18):
        talk.call("get_job_status", "pending")
    assert ([], ["no_progress"]) == (talk.codes(), talk.call("get_job_status", "pending").codes())


# ---- invariants ----


@given(conversations())
def test_new_calls_with_new_results_are_no_loops(messages: list[Message]) -> None:
    assert [] == find_loops(read_turns(messages))


@given(st.lists(st.sampled_from(["get_a", "search_docs", "write_b", "click", "wait"]), max_size=40))
def test_calls_that_each_bring_something_new_are_no_loops(tools: list[str]) -> None:
    talk = Talk()
    for i, tool in enumerate(tools):
        talk.call(tool, f"Result number {i} is unlike every other result, as it should be.", n=i)
    assert [] == talk.codes()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=60),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "function", "name", "id", "x"]), below, max_size=3)
    ),
    max_leaves=6,
)
CALL = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["", "1", "2"]) | ANYTHING,
        "function": st.fixed_dictionaries(
            {
                "name": st.sampled_from(["search_docs", "get_a", "wait"]) | ANYTHING,
                "arguments": st.sampled_from(["{}", '{"q": "a b"}', "{", '{"q": ["x", 1]}']) | ANYTHING,
            }
        ),
    }
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "function", "system"]), "content": ANYTHING | st.just(LONG)},
    optional={
        "tool_calls": st.lists(CALL, max_size=3) | ANYTHING,
        "tool_call_id": st.sampled_from(["", "1", "2"]),
        "function_call": ANYTHING,
    },
)


@settings(max_examples=share(3))
@given(st.lists(MESSAGE, max_size=25))
def test_no_conversation_is_too_strange(messages: list[Message]) -> None:
    assert set(CODES["loop"]) >= {loop.code for loop in find_loops(read_turns(messages), stall_after=2)}


@given(st.lists(st.tuples(st.sampled_from(["get_a", "search_docs", "write_b", "wait"]), st.integers(0, 2), st.integers(0, 1)), max_size=40))
def test_what_comes_later_does_not_change_what_was_found(steps: list[tuple[str, int, int]]) -> None:
    talk, before = Talk(), 0
    for tool, n, result in steps:
        before = len(talk.loops())
        talk.call(tool, f"result {result}", n=n)
    if steps:
        whole = talk.loops()
        del talk.messages[-2:]
        assert [(one.code, one.count) for one in talk.loops()] == [(one.code, one.count) for one in whole[:before]]


@given(st.text(alphabet='[]{}",:ab1 \n', max_size=200) | ANYTHING.map(lambda value: json.dumps(value)))
def test_chunks_of_any_text_can_be_asked_for(text: str) -> None:
    assert all(len(name) == 16 for name in chunks_of(text))


def test_a_recorded_run_of_an_agent_has_no_loops() -> None:
    assert [] == find_loops(read_turns(airline_run()))


@pytest.mark.parametrize("repeat", [1, 3, 5000])
@pytest.mark.cost
def test_ten_thousand_messages_take_linear_time(repeat: int) -> None:
    talk = Talk()
    for i in range(5000):
        talk.call("search_docs" if i % 2 else "get_a", passages(f"p{i % repeat}"), query=f"q {i % repeat}", n=i % repeat)
    turns = read_turns(talk.messages)
    with below(MOST_SECONDS):
        find_loops(turns)


@pytest.mark.cost
def test_results_of_a_megabyte_take_linear_time() -> None:
    talk = Talk()
    for i in range(10):
        talk.call("search_docs", [{"content": f"{LONG} {j}", "id": f"c{j}"} for j in range(10_000)], query="a", n=i)
    turns = read_turns(talk.messages)
    with below(MOST_SECONDS):
        assert 9 == len(find_loops(turns))


def test_a_result_that_is_not_the_last_word_may_be_asked_for_again() -> None:
    for state in ('{"state": "queued"}', "The build is still running.", '{"progress": 40}', "Bericht in Bearbeitung"):
        talk = Talk()
        for _ in range(4):
            talk.call("check_build", state, id="7")
        assert [] == talk.loops()


def test_the_first_verb_of_a_name_says_whether_a_tool_reads() -> None:
    for tool in ("get_order", "read_post", "list_book", "fetchOrder"):
        talk = Talk().call(tool, "the same", id="7").call(tool, "the same", id="7")
        assert ["same_call"] == [loop.code for loop in talk.loops()]
    for tool in ("order_book", "get_or_create", "check_out", "book_get"):
        talk = Talk().call(tool, "the same", id="7").call(tool, "the same", id="7")
        assert [] == talk.loops()


@given(st.text("aB_ -.é\n\x1f²", max_size=80))
def test_a_text_is_normalised_as_by_its_pattern(text: str) -> None:
    folded = unicodedata.normalize("NFKC", text).casefold()
    assert normalised_text(text) == (_EDGES.sub(" ", folded).strip() or folded)
