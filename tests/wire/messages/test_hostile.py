"""Whatever a client or a provider sends: a request is read or refused by name, an answer is read or said to be none."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import InvalidRequest
from proxy.wire.messages.dialect import MessagesDialect, MessagesFilter
from proxy.wire.messages.stream import MessagesStream
from tests.messages import ASK, event, exchange_of

KEYS = st.sampled_from(
    [
        "type",
        "role",
        "content",
        "text",
        "id",
        "name",
        "input",
        "tool_use_id",
        "source",
        "index",
        "delta",
        "content_block",
        "message",
        "usage",
    ]
)
WORDS = st.sampled_from(
    [
        "text",
        "user",
        "assistant",
        "tool_use",
        "tool_result",
        "search_result",
        "document",
        "image",
        "thinking",
        "base64",
        "url",
        "text_delta",
    ]
)
TYPES = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error", "x"]
)
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(allow_nan=False, allow_infinity=False), WORDS, st.text(max_size=4)
)
ANY = st.recursive(PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)), max_leaves=12)
OBJECT = st.dictionaries(KEYS, ANY, max_size=6)
DIALECT = MessagesDialect()


@given(st.lists(st.one_of(ANY, OBJECT), max_size=3), ANY, ANY)
def test_a_body_is_read_and_written_again_or_refused(items: list[Any], system: Any, tools: Any) -> None:
    body = {**ASK, "messages": items, "system": system, "tools": tools}
    try:
        exchange = exchange_of(body)
    except InvalidRequest:
        return
    exchange.messages = [dict(message) for message in exchange.messages]
    exchange.tools = [dict(tool) for tool in exchange.tools]
    assert json.loads(DIALECT.render_request(exchange))["model"] == body["model"]


@given(st.one_of(ANY, OBJECT, st.lists(OBJECT, max_size=4).map(lambda blocks: {"content": blocks})))
def test_an_answer_is_read_or_is_none(answer: Any) -> None:
    body = json.dumps(answer).encode()
    try:
        before = MessagesDialect().parse_answer(body)
    except ValueError:
        return
    assert body == MessagesDialect().render_answer(body, before, before, None, ())
    changed = json.loads(
        MessagesDialect().render_answer(body, before, before.with_text(0, "Other."), {"verdict": "warn"}, [{"output_tokens": 1}])
    )
    assert "Other." in json.dumps(changed)


@given(st.lists(st.tuples(TYPES, OBJECT).map(lambda made: {**made[1], "type": made[0]}), max_size=6))
def test_a_stream_of_anything_is_read_to_its_end(made: list[dict[str, Any]]) -> None:
    events = [event(payload) for payload in made]
    stream, calls = MessagesStream(), MessagesFilter(whole=False)
    calls.begin({"x"})
    pieces = [piece for raw in events for piece in stream.feed(raw)] + stream.finish()
    out = b"".join([*(calls.feed(raw) for raw in events), calls.finish(), calls.close()])
    assert (b"".join(events), True) == (b"".join(piece.raw for piece in pieces), isinstance(out, bytes))
    assert isinstance(stream.answer.text, str)
    left = b"".join([*(stream.encode_outgoing(piece) for piece in pieces if not piece.done), stream.encode_block([0]), stream.end()])
    assert left.endswith(b"\n\n") or stream.error is not None
