"""Arguments that a stage has changed: the body's other choices and the stream's other events stay in their bytes, whatever the calls' form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.exchange import Answer
from proxy.testing import chunk, completion
from proxy.wire import sse
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.dialect import StreamPiece, changes_of
from tests.own_tools import call_events, called, calling, usage_event

DIALECT = ChatDialect()


def changed(answer: Answer, arguments: dict[tuple[int, int], str]) -> Answer:
    for choice in answer.choices:
        calls = [replace(c, arguments=arguments.get((choice.index, c.index), c.arguments)) for c in choice.tool_calls]
        answer = answer.with_calls(choice.index, calls)
    return answer


def body_with(body: bytes, arguments: dict[tuple[int, int], str], text: str | None = None) -> bytes:
    before = DIALECT.parse_answer(body)
    after = changed(before, arguments)
    return DIALECT.render_answer(body, before, after if text is None else after.with_text(0, text), None)


def stream_with(events: Sequence[bytes], arguments: dict[tuple[int, int], str]) -> list[StreamPiece]:
    reader = DIALECT.stream()
    pieces = [piece for event in events for piece in reader.feed(event)] + reader.finish()
    return reader.apply_changes(pieces, changes_of(reader.answer, changed(reader.answer, arguments)))


def read(pieces: Sequence[StreamPiece]) -> Answer:
    reader = DIALECT.stream()
    reader.feed(b"".join(piece.raw for piece in pieces))
    return reader.answer


def arguments_of(answer: Answer) -> list[list[str]]:
    return [[call.arguments for call in choice.tool_calls] for choice in answer.choices]


# ---- bodies ----


def test_only_the_arguments_of_that_call_change_in_a_body() -> None:
    first, second = called("a", "{'x': 1}", "1", extra={"k": 1.50}), called("b", '{ "y":2 }', "2")
    body = json.dumps(calling(first, second, text="Hm."), indent=1).encode()
    made = body_with(body, {(0, 0): '{"x": 1}'})
    expected = json.loads(body)
    expected["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"x": 1}'
    assert expected == json.loads(made)
    assert b'"usage":{\n' in made, "what is outside of the choice stays in its bytes"
    assert body == body_with(body, {})


def test_a_legacy_function_call_changes_too() -> None:
    message = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{'x': 1}"}}
    body = completion(choices=[{"index": 0, "message": message, "finish_reason": "function_call"}])
    made = json.loads(body_with(json.dumps(body).encode(), {(0, 0): '{"x": 1}'}))
    assert {"name": "f", "arguments": '{"x": 1}'} == made["choices"][0]["message"]["function_call"]


def test_text_and_arguments_can_change_in_one_choice_and_others_stay() -> None:
    body = calling(called("a", "{", "1"), text="Hm.")
    other = {"index": 1, "message": {"role": "assistant", "content": "x", "n": 1e2}, "finish_reason": "stop"}
    body["choices"] = [other, body["choices"][0]]
    made = json.loads(body_with(json.dumps(body).encode(), {(0, 0): "{}"}, "Aha."))
    assert other == made["choices"][0]
    message = made["choices"][1]["message"]
    assert ("Aha.", "{}") == (message["content"], message["tool_calls"][0]["function"]["arguments"])


# ---- streams ----


def test_the_first_delta_with_arguments_gets_all_of_them_and_every_other_event_stays() -> None:
    events = [
        *call_events(called("a", "{'x': 1}", "1"), called("b", '{"y": 2}', "2"), words=["Hm."])[:-1],
        usage_event(1, 2),
        b"data: [DONE]\n\n",
    ]
    pieces = stream_with(events, {(0, 0): '{"x": 1}'})
    written = [json.loads(p.raw[6:])["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] for p in pieces[3:5]]
    assert ['{"x": 1}', ""] == written
    assert [e for i, e in enumerate(events) if i not in (3, 4)] == [p.raw for i, p in enumerate(pieces) if i not in (3, 4)]
    assert [['{"x": 1}', '{"y": 2}']] == arguments_of(read(pieces))


def test_calls_of_another_choice_stay_in_their_bytes() -> None:
    def delta(index: int, call: int, arguments: str) -> bytes:
        entry = {"index": call, "id": f"{index}{call}", "type": "function", "function": {"name": "f", "arguments": arguments}}
        return chunk({"tool_calls": [entry]}, index=index)

    events = [
        delta(0, 0, "{'a'"),
        delta(1, 0, "{'b'"),
        delta(0, 0, ":1}"),
        delta(1, 0, ":1}"),
        chunk({}, "tool_calls"),
        chunk({}, "stop", 1),
    ]
    pieces = stream_with(events, {(1, 0): '{"b":1}'})
    assert [["{'a':1}"], ['{"b":1}']] == arguments_of(read(pieces))
    assert [events[0], events[2], events[4], events[5]] == [pieces[i].raw for i in (0, 2, 4, 5)]


def test_an_event_of_several_choices_keeps_what_it_says_of_the_others() -> None:
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    call = {"index": 0, "id": "1", "function": {"name": "f", "arguments": "{'a':1}"}}
    choices = [
        {"index": 0, "delta": {"content": "Hello"}, "finish_reason": None, "x": 1},
        {"index": 1, "delta": {"role": "assistant", "tool_calls": [call]}, "finish_reason": None},
    ]
    pieces = stream_with([sse.encode(json.dumps({**head, "choices": choices}).encode())], {(1, 0): '{"a":1}'})
    made = json.loads(pieces[0].raw[6:])
    assert choices[0] == made["choices"][0]
    assert {**call, "function": {"name": "f", "arguments": '{"a":1}'}} == made["choices"][1]["delta"]["tool_calls"][0]


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([{"function_call": {"name": "f", "arguments": "{'x'"}}, {"function_call": {"arguments": ": 1}"}}], id="legacy"),
        pytest.param([{"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{'x': 1}"}}]}], id="no index, whole"),
        pytest.param(
            [
                {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f"}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": "{'x': 1}"}}]},
            ],
            id="name alone",
        ),
        pytest.param(
            [
                {
                    "tool_calls": [
                        {"index": 0, "id": "1", "function": {"name": "f", "arguments": "{'x'"}},
                        None,
                        {"index": 0, "function": {"arguments": ": 1}"}},
                    ]
                }
            ],
            id="two entries in one delta",
        ),
    ],
)
def test_each_dialect_of_deltas_is_rewritten(deltas: list[Any]) -> None:
    pieces = stream_with([*(chunk(delta) for delta in deltas), chunk({}, "tool_calls"), b"data: [DONE]\n\n"], {(0, 0): '{"x": 1}'})
    assert [['{"x": 1}']] == arguments_of(read(pieces))


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.text("abc{}'\"é", max_size=4)), max_size=12),
    st.dictionaries(st.tuples(st.integers(0, 1), st.integers(0, 2)), st.text("xyzü", min_size=1, max_size=4), max_size=4),
)
def test_a_rewritten_stream_says_what_it_should_and_the_rest_as_before(parts: Any, wanted: Any) -> None:
    events = []
    for choice, call, arguments in parts:
        entry = {"index": call, "id": f"{choice}-{call}", "function": {"name": f"f{call}", "arguments": arguments}}
        events.append(chunk({"tool_calls": [entry]}, index=choice))
    before = read([StreamPiece(event) for event in events])
    after = changed(before, wanted)
    said = {(c.index, call.index) for c in before.choices for call in c.tool_calls if call.arguments}
    silent = {key for key in after.changed_arguments(before).items() for key in [(key[0], i) for i in key[1]]} - said
    made = read(stream_with(events, {key: text for key, text in wanted.items() if key not in silent}))
    expected = changed(before, {key: text for key, text in wanted.items() if key not in silent})
    assert expected == made
