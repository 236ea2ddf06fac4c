"""Doing what was recommended, with success, is what overcomes a failure."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.stages.reflection.failures.following import follows
from proxy.stages.reflection.failures.steps import CalledTool
from tests.stages.reflection.talk import NOT_FOUND, TIMED_OUT, Talk
from tests.stages.reflection.test_history import kept, kinds

CAP = {"type": "cap_output", "argument": "limit", "max": 10}
PAGES = {"type": "paginate", "argument": "limit", "max": 10, "page_argument": "page"}
FIX = {"type": "fix_arguments", "argument": "date"}
WORDS = {"type": "rephrase_query", "argument": "query"}
OTHER = {"type": "use_other_tool", "tools": ["search_web"]}


def call(tool: str, **arguments: Any) -> CalledTool:
    from json import dumps

    return CalledTool("c", tool, dumps(arguments), 1)


@pytest.mark.parametrize(
    ("adjustment", "failed", "later", "expected"),
    [
        (CAP, call("s", q="a", limit=50), call("s", q="a", limit=10), True),
        (CAP, call("s", q="a", limit=50), call("s", q="a", limit=4), True),
        (CAP, call("s", q="a", limit=50), call("s", q="a", limit=20), False),
        (CAP, call("s", q="a", limit=50), call("s", q="b", limit=10), False),
        (CAP, call("s", q="a", limit=50), call("s", q="a"), False),
        (CAP, call("s", q="a", limit=50), call("t", q="a", limit=10), False),
        (CAP, call("s", q="a", limit=50), call("s", q="a", limit=True), False),
        (PAGES, call("s", q="a", limit=50), call("s", q="a", limit=10, page=2), True),
        (FIX, call("s", q="a", date="soon"), call("s", q="a", date="2026-01-02"), True),
        (FIX, call("s", q="a", date="soon"), call("s", q="b", date="2026-01-02"), False),
        (FIX, call("s", q="a"), call("s", q="a"), False),
        ({"type": "fix_arguments"}, call("s", q="a"), call("s", q="b"), False),
        (WORDS, call("s", query="batery"), call("s", query="battery"), True),
        (OTHER, call("search_docs", q="a"), call("search_web", q="a"), True),
        (OTHER, call("search_docs", q="a"), call("search_web", q="b"), False),
        (OTHER, call("search_docs", q="a"), call("search_files", q="a"), False),
        ({"type": "stop_repeating"}, call("s", q="a"), call("s", q="b"), False),
        ({"type": "change_arguments", "arguments": ["id"]}, call("s", id=1), call("s", id=2), False),
    ],
)
def test_what_follows_a_recommendation(adjustment: dict[str, Any], failed: CalledTool, later: CalledTool, expected: bool) -> None:
    assert expected == follows(adjustment, failed, later)


def test_asking_for_no_more_than_was_recommended_resolves_it_once_it_succeeds() -> None:
    """Told "at most 10", the model asked for 10: the note came back on every turn."""
    talk = Talk().calls("search_docs", TIMED_OUT, query="battery", limit=50).calls("search_docs", "Three hits", query="battery", limit=10)
    assert ["occurred", "progress", "resolved"] == kinds(talk.messages)
    assert "resolved" == kept(talk.messages)["timeout"].status


def test_following_that_fails_again_resolves_nothing() -> None:
    talk = Talk().calls("search_docs", TIMED_OUT, query="battery", limit=50).calls("search_docs", TIMED_OUT, query="battery", limit=10)
    assert "resolved" not in kinds(talk.messages)


def test_another_search_that_succeeds_is_progress_alone() -> None:
    talk = Talk().calls("search_docs", TIMED_OUT, query="battery", limit=50).calls("search_docs", "Three hits", query="screen", limit=10)
    assert ["occurred", "progress"] == kinds(talk.messages)
    assert "active" == kept(talk.messages)["timeout"].status


def test_another_customers_record_resolves_nothing() -> None:
    talk = Talk().calls("get_order", NOT_FOUND, id="A7").calls("get_order", '{"id": "B8", "state": "sent"}', id="B8")
    assert "resolved" not in kinds(talk.messages)
