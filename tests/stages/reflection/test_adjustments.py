"""What to do instead, from the call that failed."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.exchange import Tool
from proxy.stages.reflection.adjustments import alternatives, for_tool_error, smaller
from tests.stages.reflection.talk import TOOLS


def tool(name: str, *arguments: str) -> Tool:
    return {"type": "function", "function": {"name": name, "parameters": {"properties": {a: {"type": "string"} for a in arguments}}}}


QUOTES = (tool("north_quote", "city", "day"), tool("south_quote", "city", "day"), tool("get_user", "id"))


@pytest.mark.parametrize(
    ("code", "arguments", "expected"),
    [
        ("timeout", {"query": "a", "limit": 50}, {"type": "paginate", "argument": "limit", "max": 10, "page_argument": "page"}),
        ("output_too_large", {"query": "a"}, {"type": "paginate", "argument": "limit", "max": 10, "page_argument": "page"}),
        ("timeout", {"query": "a", "limit": 3}, {"type": "paginate", "argument": "limit", "max": 1, "page_argument": "page"}),
        ("permission_denied", {"query": "a"}, {"type": "ask_human"}),
        ("not_found", {"query": "a"}, {"type": "change_arguments", "arguments": ["query"]}),
        ("exception", {}, {"type": "stop_repeating"}),
        ("rate_limited", {"query": "a"}, {"type": "retry_later"}),
    ],
)
def test_the_code_and_the_arguments_say_what_to_do(code: str, arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    assert expected == for_tool_error(code, "search_docs", arguments, TOOLS)


def test_a_tool_without_a_size_that_times_out_is_tried_later() -> None:
    assert {"type": "retry_later"} == for_tool_error("timeout", "get_order", {"id": "A7"}, TOOLS)


def test_the_argument_that_was_blamed_is_named() -> None:
    assert {"type": "fix_arguments", "argument": "id"} == for_tool_error("invalid_arguments", "get_order", {"id": 7}, TOOLS, argument="id")


@pytest.mark.parametrize(("wait", "advice"), [(None, "use_other_tool"), (60.0, "use_other_tool"), (2.0, "retry_later")])
def test_a_tool_that_is_away_for_long_is_replaced_by_one_like_it(wait: float | None, advice: str) -> None:
    told = for_tool_error("rate_limited", "north_quote", {"city": "Rome"}, QUOTES, retry_after_s=wait)
    assert (advice, ["south_quote"] if advice == "use_other_tool" else None) == (told["type"], told.get("tools"))


def test_tools_are_alike_by_their_arguments_and_a_word_of_their_names() -> None:
    assert ["south_quote"] == alternatives("north_quote", QUOTES)
    assert [] == alternatives("get_user", QUOTES)
    assert [] == alternatives("north_quote", [QUOTES[0], tool("south_quote", "account")])


def test_a_word_that_most_tools_have_makes_none_alike() -> None:
    assert [] == alternatives("crm_user", [tool(f"crm_{word}", "id") for word in ("user", "order", "deal", "task")])


def test_what_no_argument_bounds_cannot_be_made_smaller() -> None:
    assert smaller("get_user", {"id": "a"}, QUOTES) is None
