"""Calls of the proxy's own tools in the API's answers: taken out of what the client sees, and kept for the next request."""

from __future__ import annotations

import json
from typing import Any

from proxy.wire.responses.dialect import ResponsesFilter
from proxy.wire.responses.rendering import OUTPUT_ITEMS
from tests.responses_api import Item, call_item, decoded, encode, events, reasoning_item, response, text_item

OWN = "groundwire_find_tools"
MINE = call_item(OWN, '{"q":"boat"}', "call_0")
PLAIN_THOUGHT = {name: value for name, value in reasoning_item().items() if name != "encrypted_content"}


def filtering(chunks: list[bytes], *, stored: bool = True) -> tuple[ResponsesFilter, list[Item]]:
    """The filter after an answer, and what the client has got."""
    calls = ResponsesFilter(whole=False, stored=stored)
    calls.begin({OWN})
    out = b"".join([calls.feed(chunk) for chunk in chunks]) + calls.finish()
    return calls, decoded(out + calls.close())


def items_of_turn(calls: ResponsesFilter) -> list[dict[str, Any]]:
    turn, _ = calls.messages(calls.turn.calls, ["A boat."])
    found: list[dict[str, Any]] = turn[OUTPUT_ITEMS]
    return found


def test_an_own_call_that_the_end_counts_otherwise_is_one_call_and_stays_behind() -> None:
    *told, last = decoded(b"".join(events(text_item("Let me look."), MINE)))
    last["response"]["output"].reverse()
    calls, got = filtering([encode(one) for one in (*told, last)])
    assert (["call_0"], False) == ([call.id for call in calls.turn.calls], calls.turn.has_client_calls)
    assert [text_item("Let me look.")] == got[-1]["response"]["output"]


def test_what_the_provider_keeps_goes_back_as_it_came() -> None:
    calls, _ = filtering(events(PLAIN_THOUGHT, MINE))
    assert [PLAIN_THOUGHT, MINE] == items_of_turn(calls)


def test_what_it_does_not_keep_goes_back_without_thoughts_that_only_it_could_read() -> None:
    said_so_in_its_answer, _ = filtering(events(PLAIN_THOUGHT, MINE, store=False))
    asked_for, _ = filtering(events(PLAIN_THOUGHT, MINE), stored=False)
    assert [MINE] == items_of_turn(said_so_in_its_answer) == items_of_turn(asked_for)
    encrypted, _ = filtering(events(reasoning_item(), MINE, store=False))
    assert [reasoning_item(), MINE] == items_of_turn(encrypted)


def test_the_client_is_not_told_of_the_tools_that_it_did_not_offer() -> None:
    offered = [{"type": "function", "name": name, "parameters": {}} for name in (OWN, "read")]
    for output in ((MINE,), (text_item("At noon."),)):
        _, got = filtering(events(*output, tools=offered))
        assert [["read"]] * 3 == [[tool["name"] for tool in one["response"]["tools"]] for one in got if "response" in one]
        whole = ResponsesFilter(whole=False)
        whole.begin({OWN})
        whole.read(json.dumps(response(*output, tools=offered)).encode())
        assert ["read"] == [tool["name"] for tool in json.loads(whole.close())["tools"]]
