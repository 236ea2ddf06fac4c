"""Calls of the proxy's own tools in the API's answers: taken out of what the client sees, and kept for the next request."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.messages.dialect import MessagesFilter
from tests.messages import THINKING, event, message, payloads, read, streamed, text, use

OWN = "groundwire_find_tools"
MINE = use(OWN, {"q": "boat"}, "toolu_0")
BLOCKS = st.lists(st.sampled_from([THINKING, text("Let me look."), use(), use("b", {}, "t2"), MINE]), min_size=1, max_size=5)


def filtering(*answers: list[bytes], whole: bool = False) -> tuple[MessagesFilter, bytes]:
    """The filter after these answers, and what the client has got, without the close."""
    calls, out = MessagesFilter(whole=whole), b""
    for chunks in answers:
        calls.begin({OWN})
        out += b"".join([calls.feed(chunk) for chunk in chunks]) + calls.finish()
    return calls, out


@given(BLOCKS.filter(lambda blocks: MINE not in blocks))
def test_an_answer_without_own_calls_passes_byte_for_byte(blocks: list[dict[str, Any]]) -> None:
    events = streamed(*blocks)
    calls, out = filtering(events)
    assert (b"".join(events), (), b"") == (out, calls.turn.calls, calls.close())


@given(BLOCKS, st.booleans(), st.data())
def test_own_calls_are_left_out_wherever_the_stream_is_cut(blocks: list[dict[str, Any]], whole: bool, data: st.DataObject) -> None:
    events = b"".join(streamed(*blocks))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(events)), max_size=5)))
    calls, out = filtering([events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)], whole=whole)
    got = read(out + calls.close())
    left = [block for block in blocks if block != MINE]
    others = any(block["type"] == "tool_use" for block in left)
    assert (left, blocks.count(MINE)) == (got["content"], len(calls.turn.calls))
    assert ("tool_use" if others else "end_turn") == got["stop_reason"]
    assert (True, others) == (calls.turn.whole, calls.turn.has_client_calls)


def test_a_later_answer_goes_on_with_the_message_and_counts_the_earlier_one() -> None:
    calls, out = filtering(streamed(THINKING, text("Let me look."), MINE), streamed(THINKING, text("There.")))
    got = read(out + calls.close())
    assert [THINKING, text("Let me look."), THINKING, text("There.")] == got["content"]
    assert (18, 8, 6) == tuple(got["usage"][name] for name in ("input_tokens", "cache_read_input_tokens", "output_tokens"))
    assert ["message_start", "message_stop"] == [p["type"] for p in payloads(out + calls.close()) if p["type"].startswith("message_st")]


def test_of_an_answer_that_is_held_only_the_last_leaves() -> None:
    second = streamed(text("There."))
    calls, out = filtering(streamed(THINKING, text("Let me look."), MINE), second, whole=True)
    assert ([text("There.")], b"") == (read(out + calls.close())["content"], out)


def test_the_turn_is_what_the_next_request_carries() -> None:
    calls, _ = filtering(streamed(THINKING, text("Let me look."), MINE))
    turn, found = calls.messages(calls.turn.calls, ["A boat."])
    assert ([THINKING, text("Let me look.")], {"q": "boat"}) == (turn["content"], calls.turn.calls[0].parsed)
    assert {"role": "tool", "tool_call_id": "toolu_0", "content": "A boat."} == found


def test_what_the_provider_has_compacted_goes_back_whole() -> None:
    deltas = [{"content": None}, {"content": "Boats "}, {"content": "were asked for.", "encrypted_content": "Eq+/="}]
    begun = {"type": "compaction", "content": None, "encrypted_content": None}
    events: list[dict[str, Any]] = [{"type": "content_block_start", "index": 0, "content_block": begun}]
    events += [{"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", **delta}} for delta in deltas]
    own = [{**payload, **({"index": 1} if "index" in payload else {})} for payload in payloads(b"".join(streamed(MINE)))]
    calls, _ = filtering([*map(event, [own[0], *events, {"type": "content_block_stop", "index": 0}, *own[1:]])])
    turn, _ = calls.messages(calls.turn.calls, ["A boat."])
    assert [{"type": "compaction", "content": "Boats were asked for.", "encrypted_content": "Eq+/="}] == turn["content"]


def test_a_body_leaves_without_own_calls_and_with_the_usage_of_all() -> None:
    calls = MessagesFilter(whole=False)
    for blocks in ((THINKING, MINE), (text("There."), use(), MINE)):
        calls.begin({OWN})
        calls.read(json.dumps(message(*blocks)).encode())
    got = json.loads(calls.close())
    assert ([text("There."), use()], "tool_use", 18, True) == (
        got["content"],
        got["stop_reason"],
        got["usage"]["input_tokens"],
        calls.turn.has_client_calls,
    )


def test_an_answer_that_was_cut_is_not_gone_on_with() -> None:
    calls, _ = filtering(streamed(text("Let me"), MINE, reason="max_tokens"))
    assert not calls.turn.whole
