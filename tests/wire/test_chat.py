import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.errors import InvalidRequest
from proxy.exchange import Exchange, Prompt, Usage
from proxy.testing import chunk, completion, make_exchange
from proxy.wire.chat.completions import ChatDialect

DIALECT = ChatDialect()
BODY = (
    b'{ "model":"gpt-4o",\n "messages": [ {"role":"system","content":"Be \\u00fcber brief."}, {"role": "user",  "content":"Hi", "x":1.50} ],'
    b' "temperature": 1.0, "future_field": {"a":[1,2.0e0]}, "seed": 12345678901234567890 }'
)


def exchange_of(body: bytes) -> Exchange:
    request = DIALECT.parse_request(body)
    return replace(make_exchange(), original=request, prompt=Prompt(request.messages, request.tools, request.params), model=request.model)


def refused(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        DIALECT.parse_request(body)
    return caught.value


def test_an_untouched_request_goes_out_in_its_own_bytes() -> None:
    assert BODY == DIALECT.render_request(exchange_of(BODY))


def test_a_changed_message_leaves_every_other_byte_as_it_was() -> None:
    exchange = exchange_of(BODY)
    exchange.messages = (exchange.messages[0], {"role": "user", "content": "Bye"})
    rendered = DIALECT.render_request(exchange)
    assert b'{"role":"system","content":"Be \\u00fcber brief."}' in rendered
    assert b'"future_field":{"a":[1,2.0e0]}' in rendered
    assert b'"seed":12345678901234567890' in rendered
    assert [{"role": "user", "content": "Bye"}] == json.loads(rendered)["messages"][1:]


def test_a_changed_parameter_is_written_and_a_removed_one_is_gone() -> None:
    exchange = exchange_of(BODY)
    exchange.params = {**{k: v for k, v in exchange.params.items() if k != "seed"}, "temperature": 0.5}
    fields = json.loads(DIALECT.render_request(exchange))
    assert 0.5 == fields["temperature"]
    assert "seed" not in fields


def test_the_extension_is_read_and_stripped() -> None:
    body = json.dumps(
        {
            "model": "m",
            "messages": [{"role": "user", "content": "Q", "groundwire": {"timestamp": 5}}],
            "groundwire": {"context": [{"content": "P", "source": "a.md", "score": 0.5}]},
        }
    ).encode()
    exchange = exchange_of(body)
    assert ("P", "a.md", 0.5) == (
        exchange.original.passages[0].content,
        exchange.original.passages[0].source,
        exchange.original.passages[0].score,
    )
    assert {0: {"timestamp": 5}} == exchange.original.message_hints
    assert {"model": "m", "messages": [{"role": "user", "content": "Q"}]} == json.loads(DIALECT.render_request(exchange))


def test_legacy_functions_are_tools_to_a_stage_and_functions_on_the_wire() -> None:
    functions = [{"name": "a", "parameters": {}}, {"name": "b", "parameters": {}}]
    exchange = exchange_of(json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "functions": functions}).encode())
    assert ["a", "b"] == [tool["function"]["name"] for tool in exchange.tools]
    exchange.tools = exchange.tools[:1]
    assert functions[:1] == json.loads(DIALECT.render_request(exchange))["functions"]


def test_no_tools_left_means_no_tools_field_at_all() -> None:
    tool = {"type": "function", "function": {"name": "a"}}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [tool],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }
    exchange = exchange_of(json.dumps(body).encode())
    exchange.tools = ()
    assert {"model", "messages"} == set(json.loads(DIALECT.render_request(exchange)))


def test_a_tool_choice_stays_when_the_tool_it_names_is_taken_out() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("a", "b")]
    choice = {"type": "function", "function": {"name": "a"}}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools, "tool_choice": choice}
    exchange = exchange_of(json.dumps(body).encode())
    exchange.tools = exchange.tools[1:]
    assert {**body, "tools": tools[1:]} == json.loads(DIALECT.render_request(exchange))


@pytest.mark.parametrize("none", [{}, {"tools": None}, {"tools": []}, {"functions": None}])
def test_a_tool_can_be_offered_where_there_was_none(none: dict[str, object]) -> None:
    exchange = exchange_of(json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], **none}).encode())
    exchange.tools = ({"type": "function", "function": {"name": "a"}},)
    assert list(exchange.tools) == json.loads(DIALECT.render_request(exchange))["tools"]


def test_all_roles_and_content_parts_pass() -> None:
    messages = [
        {"role": "developer", "content": "d"},
        {"role": "user", "content": [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "data:x"}}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}, {"type": "file", "file": {"file_id": "f"}}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "r"},
        {"role": "assistant", "content": None, "refusal": "no", "reasoning_content": "because"},
        {"role": "function", "name": "f", "content": "r"},
    ]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    assert tuple(messages) == exchange_of(body).messages


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b'"x"', None),
        (b"\xff\xfe", None),
        (b'{"model": "m", "messages": [{"role": "user", "content": "\\ud800"}]}', None),
        (b"[" * 100_000 + b"]" * 100_000, None),
        (b'{"messages": [{"role": "user"}]}', "model"),
        (b'{"model": 3, "messages": [{"role": "user"}]}', "model"),
        (b'{"model": "", "messages": [{"role": "user"}]}', "model"),
        (b'{"model": "m"}', "messages"),
        (b'{"model": "m", "messages": []}', "messages"),
        (b'{"model": "m", "messages": {}}', "messages"),
        (b'{"model": "m", "messages": ["x"]}', "messages[0]"),
        (b'{"model": "m", "messages": [{"content": "x"}]}', "messages[0].role"),
        (b'{"model": "m", "messages": [{"role": "user"}], "stream": "yes"}', "stream"),
        (b'{"model": "m", "messages": [{"role": "user"}], "tools": {}}', "tools"),
        (b'{"model": "m", "messages": [{"role": "user"}], "tools": [1]}', "tools[0]"),
        (b'{"model": "m", "messages": [{"role": "user"}], "groundwire": 1}', "groundwire"),
        (b'{"model": "m", "messages": [{"role": "user"}], "groundwire": {"context": [{}]}}', "groundwire.context[0]"),
        (b'{"model": "m", "messages": [{"role": "user"}], "groundwire": {"contxt": []}}', "groundwire.contxt"),
        (b'{"model": "m", "messages": [{"role": "user", "groundwire": 1}]}', "messages[0].groundwire"),
    ],
)
def test_a_malformed_request_is_refused_with_its_field(body: bytes, param: str | None) -> None:
    assert param == refused(body).param


def test_an_answer_is_read_with_its_tool_calls_refusal_and_usage() -> None:
    body = completion("Hi", usage={"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})
    body["choices"][0]["message"] |= {
        "refusal": "no",
        "reasoning_content": "r",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a"'}}],
    }
    answer = DIALECT.parse_answer(json.dumps(body).encode())
    choice = answer.choices[0]
    assert ("Hi", "no", "r", "stop") == (choice.text, choice.refusal, choice.reasoning, choice.finish_reason)
    assert [("c", "f", '{"a"')] == [(c.id, c.name, c.arguments) for c in choice.tool_calls]
    assert answer.usage is not None
    assert (7, 2, 4) == (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.cached_tokens)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"choices": null}', b"<html>", b'{"choices": {}}'])
def test_what_is_no_completion_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        DIALECT.parse_answer(body)


@pytest.mark.parametrize("streams", [False, True])
def test_thoughts_among_the_parts_of_a_content_are_no_part_of_its_text(streams: bool) -> None:
    content = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Hi"}]
    body = completion("")
    body["choices"][0]["message"]["content"] = content
    reader = DIALECT.stream()
    reader.feed(chunk({"content": content[:1]}) + chunk({"content": content[1:]}))
    choice = (reader.answer if streams else DIALECT.parse_answer(json.dumps(body).encode())).choices[0]
    assert ("Hi", "Hm.", {}) == (choice.text, choice.reasoning, choice.thoughts)


@pytest.mark.parametrize("usage", [None, 3, {}, {"prompt_tokens": None}])
def test_null_and_odd_usage_are_no_error(usage: object) -> None:
    DIALECT.parse_answer(json.dumps(completion("x", usage=usage)).encode())


def test_a_count_that_is_missing_or_odd_is_nought() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": "many", "prompt_tokens_details": {"cached_tokens": None}}
    assert Usage(7, 0, 0) == DIALECT.parse_answer(json.dumps(completion("x", usage=usage)).encode()).usage


def echoed(delta: dict[str, str], finish: str | None = None) -> bytes:
    """A chunk as Foundry Local has it: the delta once more as a message."""
    event = json.loads(chunk(delta, finish).removeprefix(b"data: "))
    event["choices"][0]["message"] = delta
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def test_what_is_said_once_more_as_a_message_is_read_and_goes_where_it_is_changed() -> None:
    stream = DIALECT.stream(separate=True)
    begun, text, end = [*stream.feed(echoed({"role": "assistant", "content": "A lie. "})), *stream.feed(echoed({"content": "So."}, "stop"))]
    assert ("", "A lie. So.") == (stream.unreadable, stream.answer.choices[0].text)
    assert b"lie" in stream.encode_outgoing(begun)
    assert b"lie" not in stream.with_text(begun, "Removed. ")
    assert ["So.", ""] == [text.text, end.text]
    assert b"message" not in text.raw + end.raw
    body = completion("A lie.")
    body["choices"][0]["delta"] = body["choices"][0]["message"]
    raw = json.dumps(body).encode()
    before = DIALECT.parse_answer(raw)
    assert ("", raw) == (before.unread, DIALECT.render_answer(raw, before, before, None))
    assert b"lie" not in DIALECT.render_answer(raw, before, before.with_text(0, "Removed."), None)


def test_a_message_that_says_more_than_the_delta_beside_it_is_not_read() -> None:
    stream = DIALECT.stream()
    stream.feed(echoed({"content": "So."}).replace(b'"message": {"content": "So."}', b'"message": {"content": "Not so."}'))
    assert "text in message is not read" == stream.unreadable


def test_a_role_beside_text_stays_with_it_in_one_piece() -> None:
    (piece,) = DIALECT.stream(separate=True).feed(chunk({"role": "assistant", "content": "Hi"}))
    assert ("Hi", {"role": "assistant", "content": "Hi"}) == (piece.text, piece.payload["choices"][0]["delta"])  # type: ignore[index]


def test_only_the_changed_choice_is_written_anew() -> None:
    first = {
        "index": 0,
        "message": {"role": "assistant", "content": "one", "annotations": []},
        "finish_reason": "stop",
        "logprobs": {"content": []},
    }
    second = {"index": 1, "message": {"role": "assistant", "content": "two"}, "finish_reason": "stop"}
    body = json.dumps({"id": "x", "choices": [first, second], "z": 1.50}).encode()
    before = DIALECT.parse_answer(body)
    rendered = json.loads(DIALECT.render_answer(body, before, before.with_text(0, "ONE"), None))
    assert "ONE" == rendered["choices"][0]["message"]["content"]
    assert [] == rendered["choices"][0]["message"]["annotations"]
    assert rendered["choices"][0]["logprobs"] is None
    assert second == rendered["choices"][1]
    assert body == DIALECT.render_answer(body, before, before, None)


@pytest.mark.parametrize("none", ["", "null", "None", "FINISH_REASON_UNSPECIFIED"])
def test_a_finish_reason_in_words_that_say_none_is_none(none: str) -> None:
    stream = DIALECT.stream()
    stream.feed(chunk({"content": "One. "}, none))
    assert (None, False) == (stream.answer.choices[0].finish_reason, stream.complete)
    stream.feed(chunk({"content": "Two."}, "eos"))
    assert ("One. Two.", "stop", True) == (stream.answer.choices[0].text, stream.answer.choices[0].finish_reason, stream.complete)


def test_choices_that_are_none_stay_as_they_came() -> None:
    body = b'{"choices": [5, {"index": 1}, {"message": []}]}'
    before = DIALECT.parse_answer(body)
    assert ("choices", [1, 2]) == (before.unread, [choice.index for choice in before.choices])
    after = DIALECT.render_answer(body, before, before.with_text(1, "a").with_refusal(2, "b"), None)
    said = [{"role": "assistant", "content": "a"}, {"role": "assistant", "refusal": "b"}]
    assert {"choices": [5, {"index": 1, "message": said[0]}, {"message": said[1]}]} == json.loads(after)


def test_an_inline_verdict_is_one_more_field_of_the_completion() -> None:
    body = json.dumps(completion('{"a": 1}')).encode()
    answer = DIALECT.parse_answer(body)
    rendered = json.loads(DIALECT.render_answer(body, answer, answer, {"verdict": "pass"}))
    assert {"verdict": "pass"} == rendered.pop("groundwire")
    assert json.loads(body) == rendered


TOOL_STREAM = [
    chunk(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
        }
    ),
    chunk({"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": '{"y'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"x": '}}]}),
    chunk({"tool_calls": [{"index": 1, "function": {"arguments": '": 2}'}}, {"index": 0, "function": {"arguments": "1}"}}]}),
    chunk({}, "tool_calls"),
    b'data: {"id": "u", "object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}}\n\n',
    b"data: [DONE]\n\n",
]


def test_parallel_tool_call_deltas_are_put_together_by_index() -> None:
    stream = DIALECT.stream()
    for event in TOOL_STREAM:
        stream.feed(event)
    calls = stream.answer.choices[0].tool_calls
    assert [("a", "f", '{"x": 1}'), ("b", "g", '{"y": 2}')] == [(c.id, c.name, c.arguments) for c in calls]
    assert stream.answer.usage is not None
    assert 5 == stream.answer.usage.prompt_tokens
    assert stream.complete
    assert stream.done


def test_a_call_whose_deltas_have_ids_of_their_own_is_one_call() -> None:
    deltas = [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "id": "b", "type": "function", "function": {"name": None, "arguments": '{"x": '}},
        {"index": 0, "id": "c", "function": {"arguments": "1}"}},
        {"index": 0, "id": "d", "function": {"arguments": ""}},
        {"index": 0, "id": "e", "type": "function", "function": {"name": "f", "arguments": '{"x": 2}'}},
    ]
    stream = DIALECT.stream()
    for delta in deltas:
        stream.feed(chunk({"tool_calls": [delta]}))
    calls = stream.answer.choices[0].tool_calls
    assert [("a", "f", '{"x": 1}'), ("e", "f", '{"x": 2}')] == [(c.id, c.name, c.arguments) for c in calls]


@given(st.data())
def test_a_stream_cut_anywhere_gives_the_same_answer(data: st.DataObject) -> None:
    whole = b"".join([*TOOL_STREAM[:-1], chunk({"content": "Größe 漢"}, index=1), chunk({}, "stop", index=1), TOOL_STREAM[-1]])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    expected, stream = DIALECT.stream(), DIALECT.stream()
    expected.feed(whole)
    for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        stream.feed(whole[a:b])
    assert expected.answer == stream.answer


def test_separated_pieces_say_the_same_as_the_events_they_came_from() -> None:
    both = json.loads(
        chunk({"role": "assistant", "content": "Hi", "tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]}, "stop")[6:]
    )
    both["choices"].append({"index": 1, "delta": {"content": "Ho"}, "finish_reason": None})
    event = b"data: " + json.dumps(both).encode() + b"\n\n"
    plain, separate, again = DIALECT.stream(), DIALECT.stream(separate=True), DIALECT.stream()
    plain.feed(event)
    pieces = separate.feed(event)
    assert [(0, "", False), (0, "Hi", False), (0, "", True), (1, "Ho", False)] == [(p.choice, p.text, p.finish) for p in pieces]
    again.feed(b"".join(p.raw for p in pieces))
    assert plain.answer == separate.answer == again.answer


@pytest.mark.parametrize(
    "garbage", [b"data: not json\n\n", b"data: [1]\n\n", b'data: {"choices": [3]}\n\n', b'data: {"choices": null}\n\n']
)
def test_garbage_events_are_kept_and_never_raise(garbage: bytes) -> None:
    stream = DIALECT.stream()
    assert garbage == b"".join(piece.raw for piece in stream.feed(garbage))
