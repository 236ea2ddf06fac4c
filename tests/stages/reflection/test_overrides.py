"""Caps on tool calls."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange import ToolCall
from proxy.stages.reflection.records import Cap, caps_of, enforce
from tests.stages.reflection.talk import TOOLS
from tests.stages.reflection.test_escalation import record

CAP = Cap("fl_1", "search_docs", "limit", 10)


def called(**arguments: Any) -> ToolCall:
    return ToolCall("c1", "search_docs", json.dumps(arguments))


def after(call: ToolCall, *caps: Cap) -> Any:
    return json.loads(enforce(call, caps, TOOLS)[0].arguments)


def test_a_larger_number_goes_down_to_the_cap_and_is_told() -> None:
    call, capped = enforce(called(query="größe", limit=50), [CAP], TOOLS)
    assert {"query": "größe", "limit": 10} == json.loads(call.arguments)
    assert [("fl_1", "search_docs", "limit", 50, 10)] == [(c.failure, c.tool, c.argument, c.before, c.after) for c in capped]


def test_a_smaller_number_stays_byte_for_byte() -> None:
    call = ToolCall("c1", "search_docs", '{"limit" :  9, "query":"a"}')
    assert call is enforce(call, [CAP], TOOLS)[0]


def test_a_size_that_is_not_named_is_put_where_the_tool_has_it() -> None:
    assert {"query": "a", "limit": 10} == after(called(query="a"), CAP)


def test_an_argument_that_the_tool_does_not_have_is_not_invented() -> None:
    assert {"query": "a"} == after(called(query="a"), Cap("fl_1", "search_docs", "rows", 10))


def test_the_smallest_of_several_caps_counts() -> None:
    assert {"query": "a", "limit": 3} == after(called(query="a", limit=50), CAP, Cap("fl_2", "search_docs", "limit", 3))


def test_a_persons_cap_is_of_results_and_of_no_other_size() -> None:
    of_anything = Cap("fl_1", "", "", 10)
    assert {"rows": 10, "size": 42, "max_tokens": 500} == after(called(rows=40, size=42, max_tokens=500), of_anything)
    assert {"size": 42} == after(called(size=42), of_anything)


def test_another_tools_cap_does_not_count() -> None:
    assert {"query": "a", "limit": 50} == after(called(query="a", limit=50), Cap("fl_1", "get_order", "limit", 10))


def test_a_persons_cap_counts_for_whatever_says_how_much() -> None:
    assert {"query": "a", "limit": 5} == after(called(query="a", limit=50), Cap("fl_1", "", "", 5))


def test_arguments_that_cannot_be_read_stay() -> None:
    call = ToolCall("c1", "search_docs", '{"limit": 50')
    assert (call, []) == enforce(call, [CAP], TOOLS)


def test_caps_come_from_active_records_that_recommend_them() -> None:
    paginate = {"type": "paginate", "argument": "limit", "max": 10, "page_argument": "page"}
    records = [
        record(subject="search_docs", recommended_adjustment=paginate),
        record(id="fl_2", status="resolved", recommended_adjustment=paginate),
        record("override", id="fl_3", subject="", recommended_adjustment={"type": "follow_correction", "cap": 5}),
        record(id="fl_4", recommended_adjustment={"type": "retry_later", "after_s": 3}),
    ]
    assert [CAP, Cap("fl_3", "", "", 5)] == caps_of(records)


@given(
    st.dictionaries(
        st.text(max_size=6) | st.just("limit"),
        st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.booleans() | st.none(),
    )
)
def test_nothing_but_the_capped_number_changes(arguments: dict[str, Any]) -> None:
    call = ToolCall("c1", "search_docs", json.dumps(arguments))
    done, capped = enforce(call, [CAP], TOOLS)
    changed = {one.argument for one in capped}
    kept = call.parsed
    assert kept is None or {k: v for k, v in kept.items() if k not in changed} == {
        k: v for k, v in json.loads(done.arguments).items() if k not in changed
    }
    assert changed <= {"limit"}
