"""Tools that the proxy answers itself: the many forms in which providers send calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.testing import chunk, completion, make_exchange, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import CHAT, Start
from tests.own_tools import ALL, FIND, STREAM, TAP, call_events, called, calling, names, read


@pytest.mark.parametrize("streams", [True, False])
async def test_the_legacy_form_works_too(start: Start, streams: bool) -> None:
    body = {**CHAT, "functions": [{"name": "search_flights", "parameters": {}}], "stream": streams}
    function_call = {"name": FIND, "arguments": '{"q":"hotel"}'}
    if streams:
        pieces = [{"name": FIND, "arguments": ""}, {"arguments": '{"q":'}, {"arguments": '"hotel"}'}]
        events = [chunk({"role": "assistant", "content": None}), *(chunk({"function_call": p}) for p in pieces)]
        first = stream([*events, chunk({}, "function_call"), b"data: [DONE]\n\n"])
    else:
        message = {"role": "assistant", "content": None, "function_call": function_call}
        first = reply(completion(choices=[{"index": 0, "message": message, "finish_reason": "function_call"}]))
    last = stream(streamed(["Booked."])) if streams else reply(completion("Booked."))
    async with start(first, last, policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(body)
    assert "Booked." == (read(got.body).text if streams else got.json["choices"][0]["message"]["content"])
    second = proxy.upstream.calls[1].json
    assert ["search_flights", FIND, "book_hotel"] == [f["name"] for f in second["functions"]]
    assert [
        {"role": "assistant", "content": None, "function_call": function_call},
        {"role": "function", "name": FIND, "content": "found for hotel"},
    ] == second["messages"][1:]


@pytest.mark.parametrize("tools", [{}, {"tools": None}, {"tools": []}])
async def test_a_client_without_tools_can_be_offered_one(start: Start, tools: dict[str, Any]) -> None:
    async with start(reply(calling(called())), reply(completion()), policy=TAP, stages=ALL) as proxy:
        await proxy.post({**CHAT, **tools})
    assert [[FIND], [FIND, "book_hotel"]] == [names(call) for call in proxy.upstream.calls]


def quirks() -> list[tuple[str, list[dict[str, Any]], str]]:
    whole = called()
    bare = {"function": whole["function"]}
    return [
        ("the whole call at once", [{"tool_calls": [{**whole, "index": 0}]}], "tool_calls"),
        ("no index", [{"tool_calls": [whole]}], "tool_calls"),
        ("neither index nor id", [{"tool_calls": [bare]}], "stop"),
        ("finish_reason stop", [{"tool_calls": [{**whole, "index": 0}]}], "stop"),
        (
            "the name in pieces",
            [
                {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": FIND[:7], "arguments": ""}}]},
                {"tool_calls": [{"index": 0, "function": {"name": FIND[7:]}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": '{"q":"hotel"}'}}]},
            ],
            "tool_calls",
        ),
        (
            "an empty name first, and the name again each time",
            [
                {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": ""}}]},
                {"tool_calls": [{"index": 0, "function": {"name": FIND, "arguments": '{"q":'}}]},
                {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": FIND, "arguments": '"hotel"}'}}]},
            ],
            "tool_calls",
        ),
        ("arguments as an object", [{"tool_calls": [{"index": 0, "function": {"name": FIND, "arguments": {"q": "hotel"}}}]}], "tool_calls"),
        ("an empty text beside", [{"role": "assistant", "content": "", "tool_calls": [{**whole, "index": 0}]}], "tool_calls"),
    ]


@pytest.mark.parametrize(("deltas", "finish"), [q[1:] for q in quirks()], ids=[q[0] for q in quirks()])
async def test_providers_send_calls_in_many_ways(start: Start, deltas: list[dict[str, Any]], finish: str) -> None:
    events = [chunk({"role": "assistant"}), *(chunk(d) for d in deltas), chunk({}, finish), b"data: [DONE]\n\n"]
    last = streamed(["Booked."])
    async with start(stream(events), stream(last), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    turn, result = proxy.upstream.calls[1].json["messages"][1:]
    assert b"".join(last) == got.body
    assert {"q": "hotel"} == json.loads(turn["tool_calls"][0]["function"]["arguments"])
    assert (FIND, "found for hotel") == (turn["tool_calls"][0]["function"]["name"], result["content"])
    assert turn["tool_calls"][0]["id"] == result["tool_call_id"] != ""


def thought(**fields: Any) -> dict[str, Any]:
    return {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, **fields}


SUMMARY = {"type": "reasoning.summary", "index": 0}
SEALED = {"type": "reasoning.encrypted", "data": "x", "index": 0}
BLOCK = {"type": "thinking", "thinking": "", "signature": ""}
TEXT = {"type": "text", "text": "Hm."}
THOUGHTS: list[tuple[str, str, list[Any], Any]] = [
    (
        "OpenRouter",
        "reasoning_details",
        [
            [thought(text="Let")],
            [thought(text=" me.")],
            [thought(signature="s1")],
            [thought(text="Now", index=1)],
            [thought(signature="s2", index=1)],
        ],
        [thought(text="Let me.", signature="s1"), thought(text="Now", index=1, signature="s2")],
    ),
    (
        "OpenRouter, two signed thoughts of one index",
        "reasoning_details",
        [[thought(text="a", signature="s1")], [thought(text="b")], [thought(signature="s2")]],
        [thought(text="a", signature="s1"), thought(text="b", signature="s2")],
    ),
    (
        "OpenRouter, a summary and what is sealed",
        "reasoning_details",
        [[{**SUMMARY, "summary": "a"}], [{**SUMMARY, "summary": "b"}], [SEALED], [SEALED]],
        [{**SUMMARY, "summary": "ab"}, SEALED, SEALED],
    ),
    (
        "LiteLLM",
        "thinking_blocks",
        [[{**BLOCK, "thinking": "Let"}], [{**BLOCK, "thinking": " me."}], [{**BLOCK, "signature": "s"}]],
        [{"type": "thinking", "thinking": "Let me.", "signature": "s"}],
    ),
    (
        "LiteLLM, which says the whole once more",
        "thinking_blocks",
        [[{**BLOCK, "thinking": "Let"}], [{**BLOCK, "thinking": " me."}], [{**BLOCK, "thinking": "Let me.", "signature": "s"}]],
        [{"type": "thinking", "thinking": "Let me.", "signature": "s"}],
    ),
    (
        "Mistral",
        "content",
        [[{"type": "thinking", "thinking": [TEXT]}], [{"type": "thinking", "thinking": [TEXT]}], "Let", " me."],
        [{"type": "thinking", "thinking": [TEXT, TEXT]}, {"type": "text", "text": "Let me."}],
    ),
    ("what nobody knows", "reasoning_details", [[1], [{"type": []}], [{"type": "reasoning.text", "text": 1}], [thought(text="a")]], ...),
]


@pytest.mark.parametrize(("field", "pieces", "expected"), [t[1:] for t in THOUGHTS], ids=[t[0] for t in THOUGHTS])
async def test_a_provider_gets_thoughts_back_whole_where_it_sent_them_in_pieces(
    start: Start, field: str, pieces: list[Any], expected: Any
) -> None:
    deltas = [*({field: piece} for piece in pieces), {"tool_calls": [{**called(), "index": 0}]}]
    events = [chunk({"role": "assistant"}), *(chunk(d) for d in deltas), chunk({}, "tool_calls"), b"data: [DONE]\n\n"]
    async with start(stream(events), stream(streamed(["Booked."])), policy=TAP, stages=ALL) as proxy:
        await proxy.post(STREAM)
    turn = proxy.upstream.calls[1].json["messages"][1]
    assert turn[field] == ([part for piece in pieces for part in piece] if expected is ... else expected)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_provider_that_says_that_it_had_no_thoughts_is_told_so(start: Start, streams: bool) -> None:
    events = call_events(called())
    events[1:1] = [chunk({"reasoning_content": "", "reasoning": ""})]
    answer = calling(called())
    answer["choices"][0]["message"]["reasoning_content"] = ""
    answers = (stream(events), stream(streamed(["Booked."]))) if streams else (reply(answer), reply(completion()))
    async with start(*answers, policy=TAP, stages=ALL) as proxy:
        await proxy.post({**STREAM, "stream": streams})
    turn = proxy.upstream.calls[1].json["messages"][1]
    assert ("", False) == (turn["reasoning_content"], "reasoning" in turn)


async def test_a_provider_gets_thoughts_back_as_they_came_whole(start: Start) -> None:
    details = [thought(text="a"), thought(text="b", signature="s")]
    answer = calling(called())
    answer["choices"][0]["message"]["reasoning_details"] = details
    async with start(reply(answer), reply(completion()), policy=TAP, stages=ALL) as proxy:
        await proxy.post({**STREAM, "stream": False})
    assert details == proxy.upstream.calls[1].json["messages"][1]["reasoning_details"]


async def test_calls_that_share_an_index_or_have_none_are_told_apart(start: Start) -> None:
    for index in ({"index": 0}, {}):
        deltas = [{"tool_calls": [{**called("search_flights"), **index}]}, {"tool_calls": [{**called(identity="call_2"), **index}]}]
        events = [chunk({"role": "assistant"}), *(chunk(d) for d in deltas), chunk({}, "tool_calls"), b"data: [DONE]\n\n"]
        async with start(stream(events), policy=TAP, stages=ALL) as proxy:
            got = await proxy.post(STREAM)
        assert ["search_flights"] == [call.name for call in read(got.body).tool_calls]


async def test_text_call_and_end_in_one_event(start: Start) -> None:
    first = [chunk({"role": "assistant", "content": "Hm.", "tool_calls": [{**called(), "index": 0}]}, "tool_calls"), b"data: [DONE]\n\n"]
    async with start(stream(first), stream(streamed(["Booked."])), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert ("Hm.\n\nBooked.", "stop", ()) == (read(got.body).text, read(got.body).finish_reason, read(got.body).tool_calls)


async def test_a_name_that_only_begins_like_an_own_one_is_the_clients(start: Start) -> None:
    events = call_events(called("groundwire"), called("ground", identity="call_2"))
    async with start(stream(events), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"".join(events) == got.body


def scripts() -> list[tuple[str, bytes, bytes]]:
    mixed = called("search_flights", identity="call_2")
    crlf = b"".join(call_events(called(), words=["Größe."])).replace(b"\n", b"\r\n")
    return [
        ("text", b"".join(call_events(called(), words=["Let me look."])), b"".join(streamed(["漢字。", " End."]))),
        ("mixed", b"".join(call_events(called(), mixed)), b""),
        ("line ends", crlf, b"".join(streamed(["Fin."])).removesuffix(b"\n\n")),
        ("two rounds", b"".join(call_events(called())), b": c\n\n" + b"".join(call_events(called(), words=["Hm."]))),
    ]


@pytest.mark.parametrize(("first", "second"), [s[1:] for s in scripts()], ids=[s[0] for s in scripts()])
@pytest.mark.parametrize("whole", [True, False])
def test_the_same_stream_however_the_upstream_cuts_its_bytes(first: bytes, second: bytes, whole: bool) -> None:
    def left(size: int) -> bytes:
        calls, out = ChatDialect().own_tool_filter(make_exchange(), whole=whole), b""
        for answer in (first, second) if second else (first,):
            calls.begin({FIND})
            out += b"".join(calls.feed(answer[i : i + size]) for i in range(0, len(answer), size)) + calls.finish()
        return out + calls.close()

    whole_answer = left(len(first) + len(second))
    assert FIND.encode() not in whole_answer
    assert 1 == whole_answer.count(b"[DONE]")
    for size in (1, 2, 3, 7, 64):
        assert whole_answer == left(size)


def one_event(calls: Sequence[Mapping[str, Any]], words: Sequence[str]) -> list[bytes]:
    """Everything at once, as some servers send it."""
    delta = {"role": "assistant", "content": "".join(words), "tool_calls": [{**call, "index": i} for i, call in enumerate(calls)]}
    return [chunk(delta, "tool_calls", id="one"), b"data: [DONE]\n\n"]


@given(
    own=st.lists(st.booleans(), max_size=5),
    words=st.lists(st.sampled_from(["Hm.", " ", "漢字", "x" * 40]), max_size=4),
    at_once=st.booleans(),
    whole=st.booleans(),
    data=st.data(),
)
def test_no_own_call_leaves_and_everything_else_does(own: list[bool], words: list[str], at_once: bool, whole: bool, data: Any) -> None:
    calls = [called(FIND if mine else "book", f'{{"q":{i}}}', f"call_{i}") for i, mine in enumerate(own)]
    body = b"".join(one_event(calls, words) if at_once else call_events(*calls, words=words))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    reader = ChatDialect().own_tool_filter(make_exchange(), whole=whole)
    reader.begin({FIND})
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    choice = read(b"".join([*(reader.feed(piece) for piece in pieces), reader.finish(), reader.close()]))
    theirs = [f'{{"q":{i}}}' for i, mine in enumerate(own) if not mine]
    assert (theirs, list(range(len(theirs)))) == ([c.arguments for c in choice.tool_calls], [c.index for c in choice.tool_calls])
    assert ("".join(words), "tool_calls" if theirs or not own else "stop") == (choice.text, choice.finish_reason)
    assert [f'{{"q":{i}}}' for i, mine in enumerate(own) if mine] == [call.arguments for call in reader.turn.calls]
