"""Doing what was recommended, with success, is what overcomes a failure."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.context.tool_results.turns import CalledTool
from proxy.stages.reflection.adjustments import follows
from tests.stages.reflection.talk import NOT_FOUND, TIMED_OUT, Talk, read_history
from tests.stages.reflection.test_history import kept, kinds

FOUND = '{"id": "B8", "state": "sent"}'

CAP = {"type": "cap_output", "argument": "limit", "max": 10}
PAGES = {"type": "paginate", "argument": "limit", "max": 10, "page_argument": "page"}
FIX = {"type": "fix_arguments", "argument": "date"}
WORDS = {"type": "rephrase_query", "argument": "query"}
OTHER = {"type": "use_other_tool", "tools": ["search_web"]}
ERROR = {"pointer": "", "keyword": "required", "name": "id"}
NESTED = {"pointer": "/to/zip", "keyword": "pattern", "name": ""}


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
        ({"type": "fix_arguments"}, call("s", q="a"), call("s", q="b"), True),
        ({"type": "fix_arguments"}, call("s", q="a", date="soon"), call("s", q="a", date="2026-01-02"), True),
        ({"type": "fix_arguments"}, call("s", q="a", date="soon"), call("s", q="b", date="2026-01-02"), False),
        ({"type": "fix_arguments", "errors": [ERROR]}, call("s"), call("s", id="A7"), True),
        ({"type": "fix_arguments", "errors": [ERROR]}, call("s", q="a"), call("s", q="b", id="A7"), False),
        ({"type": "fix_arguments", "errors": [NESTED]}, call("s", to={"zip": "x"}), call("s", to={"zip": "8010"}), True),
        (WORDS, call("s", query="batery"), call("s", query="battery"), True),
        (OTHER, call("search_docs", q="a"), call("search_web", q="a"), True),
        (OTHER, call("search_docs", q="a"), call("search_web", q="b"), False),
        (OTHER, call("search_docs", q="a"), call("search_files", q="a"), False),
        ({"type": "use_known_tool", "tools": ["search_docs"]}, call("find_docs", q="a"), call("search_docs", q="a"), True),
        ({"type": "retry_later"}, call("s", file="a"), call("s", file="a", chunked=True), True),
        ({"type": "retry_later"}, call("s", file="a"), call("s", file="b"), False),
        ({"type": "retry_later"}, call("s", file="a", size=4), call("s", file="a"), False),
        ({"type": "stop_repeating"}, call("s", q="a"), call("s", q="b"), False),
        ({"type": "change_arguments", "arguments": ["id"]}, call("s", id=1), call("s", id=2), True),
        ({"type": "change_arguments", "arguments": ["id"]}, call("s", id=1), call("s", id=1), False),
        ({"type": "change_arguments", "arguments": ["id"]}, call("s", id=1), call("s", id=1, region="eu"), True),
        ({"type": "change_arguments", "arguments": ["path", "word"]}, call("s", path="a", word="x"), call("s", path="b", word="x"), True),
        ({"type": "change_arguments", "arguments": ["path", "word"]}, call("s", path="a", word="x"), call("s", path="b", word="y"), False),
        ({"type": "return_valid_json"}, CalledTool("c", "s", "{id:", 1), call("s", id="A7"), True),
        ({"type": "return_valid_json"}, CalledTool("c", "s", "{id:", 1), call("t", id="A7"), False),
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


def test_another_order_that_is_found_is_the_advice_followed() -> None:
    talk = Talk("Where is my order?").calls("get_order", NOT_FOUND, id="A7").calls("get_order", FOUND, id="A-7")
    assert ["occurred", "progress", "resolved"] == kinds(talk.messages)


@pytest.mark.parametrize("asked", ["Where are my orders A7 and B8?", "Status von A7, B8 und C9 bitte.", "Busca B8 y A7."])
def test_the_next_of_a_list_is_no_correction_of_the_one_that_failed(asked: str) -> None:
    talk = Talk(asked).calls("get_order", NOT_FOUND, id="A7").calls("get_order", FOUND, id="B8")
    assert "resolved" not in kinds(talk.messages)


def test_nor_is_the_next_of_a_list_that_a_tool_gave() -> None:
    talk = Talk("Where are my orders?").calls("list_orders", '["A7", "B8"]').calls("get_order", NOT_FOUND, id="A7")
    assert "resolved" not in kinds(talk.calls("get_order", FOUND, id="B8").messages)


@pytest.mark.parametrize(
    ("tool", "error", "wrong", "right"),
    [
        ("read_file", "Error: no such file: src/mian.py", {"path": "src/mian.py"}, {"path": "src/main.py"}),
        (
            "get_weather",
            '{"error": "invalid date", "param": "date"}',
            {"city": "Graz", "date": "soon"},
            {"city": "Graz", "date": "2026-01-02"},
        ),
        ("run_query", "Error: column nmae does not exist", {"sql": "select nmae from t"}, {"sql": "select name from t"}),
        ("consultar_pedido", '{"status": 404, "error": "no existe"}', {"numero": "7"}, {"numero": "0007"}),
        ("termin_anlegen", '{"status": 400, "error": "ungültiges Datum"}', {"tag": "31.2.", "raum": "B2"}, {"tag": "1.3.", "raum": "B2"}),
    ],
)
def test_an_argument_that_was_changed_or_fixed_resolves_it(tool: str, error: str, wrong: dict[str, Any], right: dict[str, Any]) -> None:
    talk = Talk().calls(tool, error, **wrong).calls(tool, '{"ok": true, "rows": 3}', **right)
    offered = {"type": "function", "function": {"name": tool, "parameters": {"type": "object", "properties": {}}}}
    history = read_history(talk.messages, [offered], lambda name: False, stall_after=6)
    assert "resolved" in [event.kind for event in history.events]
