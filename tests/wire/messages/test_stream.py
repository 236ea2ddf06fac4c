"""A stream of the API's events: what it says, however it is cut, and what becomes of a changed text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamTimeout
from proxy.exchange import Answer, Usage
from proxy.wire.answers import add_usage, usage_in
from proxy.wire.dialect import Changes, changes_of
from proxy.wire.messages.dialect import MessagesDialect
from proxy.wire.messages.events import to_whole
from proxy.wire.messages.stream import MessagesStream
from tests.messages import THINKING, event, message, payloads, read, streamed, text, use

CITED = {**text("It turns at noon."), "citations": [{"type": "search_result_location", "source": "s", "cited_text": "noon"}]}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
BLOCKS = st.lists(st.sampled_from([THINKING, text("Ünï. And so on."), CITED, use(), use("a", {}, "t2"), SEARCH, text("")]), max_size=5)


def streaming(chunks: list[bytes]) -> tuple[MessagesStream, list[Any]]:
    stream = MessagesStream()
    return stream, [piece for chunk in chunks for piece in stream.feed(chunk)] + stream.finish()


def rewritten(events: list[bytes], text_after: str) -> dict[str, Any]:
    """The message that a held stream comes to with another text."""
    stream, pieces = streaming(events)
    changes = changes_of(stream.answer, stream.answer.with_text(0, text_after))
    kept = stream.apply_changes([piece for piece in pieces if not piece.done], changes)
    return read(b"".join([*(stream.encode_outgoing(piece) for piece in kept), stream.end()]))


def comparable(answer: Answer) -> Any:
    choice = answer.choices[0]
    calls = [(call.id, call.name, call.parsed) for call in choice.tool_calls]
    return choice.text, choice.reasoning, calls, choice.finish_reason, answer.model, answer.usage


@given(BLOCKS)
def test_a_stream_and_a_body_come_to_the_same_answer(blocks: list[dict[str, Any]]) -> None:
    events = streamed(*blocks)
    stream, _ = streaming(events)
    body = json.dumps(message(*blocks)).encode()
    assert (comparable(MessagesDialect().parse_answer(body)), True, True, "") == (
        comparable(stream.answer),
        stream.complete,
        stream.done,
        stream.unreadable,
    )


@given(BLOCKS, st.data())
def test_a_stream_may_be_cut_anywhere(blocks: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = b"".join(streamed(*blocks))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    stream, pieces = streaming(chunks)
    other, others = streaming([whole])
    assert (other.answer, [piece.raw for piece in others]) == (stream.answer, [piece.raw for piece in pieces])
    assert whole == b"".join(piece.raw for piece in pieces)


def test_a_stream_may_be_cut_at_every_byte() -> None:
    whole = b"".join(streamed(THINKING, text("Ünï."), use()))
    stream, pieces = streaming([whole[i : i + 1] for i in range(len(whole))])
    assert (whole, "Ünï.") == (b"".join(piece.raw for piece in pieces), stream.answer.text)


@given(BLOCKS)
def test_every_piece_that_leaves_as_it_is_leaves_in_its_bytes(blocks: list[dict[str, Any]]) -> None:
    events = streamed(*blocks)
    stream, pieces = streaming(events)
    out = b"".join([*(stream.encode_outgoing(piece) for piece in pieces if not piece.done), stream.end()])
    assert b"".join(events) == out


@given(BLOCKS, st.text("ab. \n", max_size=12))
def test_a_changed_text_is_what_the_message_says(blocks: list[dict[str, Any]], said: str) -> None:
    got = rewritten(streamed(*blocks), said)
    others = [block for block in (blocks or [text("At noon.")]) if block["type"] != "text"]
    assert others == [block for block in got["content"] if block["type"] != "text"]
    assert said.split() == "\n".join(block["text"] for block in got["content"] if block["type"] == "text").split()


def test_unknown_events_and_fields_pass_and_those_with_words_are_named() -> None:
    events = streamed(text("Hi."))
    quiet, loud = {"type": "future_event", "n": 5}, {"type": "future_event", "text": "Read this."}
    for extra, problem in ((quiet, ""), (loud, "text in content.event future_event is not read")):
        stream, pieces = streaming([*events[:3], event(extra), *events[3:]])
        assert (problem, True) == (stream.unreadable, event(extra) in [piece.raw for piece in pieces])


def test_what_is_no_event_is_unreadable() -> None:
    stream, _ = streaming([b"data: {\n\n"])
    assert "1 events are not those of a message" == stream.unreadable


def test_usage_is_that_of_the_start_with_what_the_end_tells() -> None:
    stream, _ = streaming(streamed(text("Hi.")))
    assert {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 3} == stream.usage
    usage = stream.answer.usage
    assert usage is not None
    assert (13, 3, 4) == (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)


def test_what_is_kept_for_an_hour_is_known_from_the_start() -> None:
    kept, none = ({"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour} for five, hour in ((1, 3), (0, 0)))
    first, *events, _, stop = streamed(text("At noon."))
    begun = json.loads(first.partition(b"data: ")[2])
    begun["message"]["usage"] |= {"cache_creation_input_tokens": 4, "cache_creation": kept}
    told = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_creation": none, "output_tokens": 3}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": told}
    stream, _ = streaming([event(begun), *events, event(end), stop])
    usage = stream.answer.usage
    assert usage is not None
    assert (17, 4, 3) == (usage.prompt_tokens, usage.written_tokens, usage.written_1h_tokens)


@pytest.mark.parametrize("kind", ["compaction", "advisor_message"])
@pytest.mark.parametrize("streams", [False, True])
def test_what_the_provider_did_beside_the_answer_is_counted(kind: str, streams: bool) -> None:
    beside = {"type": kind, "input_tokens": 180_000, "cache_read_input_tokens": 20, "output_tokens": 3500}
    own = {"input_tokens": 23_000, "cache_read_input_tokens": 0, "output_tokens": 10}
    usage = {**own, "iterations": [beside, {"type": "message", **own}, {"type": "fallback_message", **own}]}
    *events, _, stop = streamed(text("At noon."))
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage}
    whole = MessagesDialect().parse_answer(json.dumps({**message(text("At noon.")), "usage": usage}).encode())
    answer = streaming([*events, event(end), stop])[0].answer if streams else whole
    assert Usage(203_020, 3510, 20, calls=2) == answer.usage


@pytest.mark.parametrize(
    ("told", "tier"),
    [
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "standard", "speed": "fast", "inference_geo": "global"}, "fast"),
        ({"service_tier": "standard", "speed": "fast", "inference_geo": "us"}, "us fast"),
        ({"speed": ["fast"], "inference_geo": {}, "service_tier": 3}, ""),
        ({}, ""),
    ],
)
def test_what_makes_an_answer_dearer_is_its_tier(told: dict[str, Any], tier: str) -> None:
    assert Usage(1, 2, tier=tier) == usage_in("messages", {"input_tokens": 1, "output_tokens": 2, **told})


def test_what_several_answers_did_beside_themselves_is_all_of_it() -> None:
    one, other = ({"input_tokens": 1, "iterations": [{"type": "compaction", "input_tokens": tokens}]} for tokens in (7, 8))
    assert Usage(17, 0, calls=3) == usage_in("messages", add_usage(one, other))


@pytest.mark.parametrize(
    ("told", "counted"),
    [
        ({"input_tokens": 0, "output_tokens": 3}, (13, 3)),
        ({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 3}, (13, 3)),
        ({"input_tokens": 20, "output_tokens": 3}, (24, 3)),
        ({"input_tokens": 0, "cache_read_input_tokens": 25, "output_tokens": 3}, (25, 3)),
        ({"output_tokens": 0}, (13, 0)),
    ],
)
def test_an_end_with_zeros_for_the_prompt_says_nothing_of_it(told: dict[str, int], counted: tuple[int, int]) -> None:
    *events, _, stop = streamed(text("At noon."))
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": told}
    stream, _ = streaming([*events, event(end), stop])
    usage = stream.answer.usage
    assert usage is not None
    assert counted == (usage.prompt_tokens, usage.completion_tokens)
    whole = to_whole(payloads(b"".join([*events, event(end), stop])), marked=False)
    assert whole is not None
    assert counted[0] == sum(whole["usage"][name] for name in ("input_tokens", "cache_read_input_tokens"))


def test_changed_arguments_stand_in_the_calls_first_delta() -> None:
    stream, pieces = streaming(streamed(text("I look."), use(), use("list", {}, "t2")))
    before = stream.answer
    kept = stream.apply_changes(
        [piece for piece in pieces if not piece.done], Changes(arguments={0: {0: '{"path": "b"}', 1: '{"all": true}'}})
    )
    got = read(b"".join([*(stream.encode_outgoing(piece) for piece in kept), stream.end()]))
    assert [{"path": "b"}, {"all": True}] == [block["input"] for block in got["content"][1:]]
    assert before.choices[0].tool_calls[0].parsed == {"path": "a.txt"}


def test_a_body_changes_where_the_answer_does() -> None:
    body = json.dumps(message(THINKING, CITED, use(), stop_details=None, future=[1])).encode()
    before = MessagesDialect().parse_answer(body)
    assert body == MessagesDialect().render_answer(body, before, before, None, ())
    choice = before.choices[0]
    call = choice.tool_calls[0]
    after = before.with_text(0, "It is unclear.").with_calls(0, [type(call)(call.id, call.name, '{"path": "b"}', 0)])
    got = json.loads(MessagesDialect().render_answer(body, before, after, {"verdict": "warn"}, [{"input_tokens": 1, "output_tokens": 2}]))
    said = {**text("It is unclear."), "citations": None}
    assert [THINKING, said, use(arguments={"path": "b"})] == got["content"]
    assert (10, 5, [1], "warn") == (
        got["usage"]["input_tokens"],
        got["usage"]["output_tokens"],
        got["future"],
        got["groundwire"]["verdict"],
    )


def test_unknown_blocks_pass_and_those_with_words_are_named() -> None:
    for block, missed in (({"type": "future", "n": 1}, ""), ({"type": "future", "text": "Hi"}, "content.future")):
        assert missed == MessagesDialect().parse_answer(json.dumps(message(text("A."), block)).encode()).unread


def test_the_error_of_a_stream_is_the_apis() -> None:

    error = payloads(MessagesStream().encode_failure(UpstreamTimeout("late")))[0]
    assert ("error", "timeout_error", "late", "upstream_timeout") == (
        error["type"],
        *(error["error"][k] for k in ("type", "message", "code")),
    )
