"""Whatever a client or a provider sends: a request is read or refused by name, an answer is read or said to be none, and under a closed
policy what is not recognised stays behind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import InvalidRequest
from proxy.testing import reply, stream
from proxy.wire.gemini.address import without_address
from proxy.wire.gemini.dialect import GeminiDialect, GeminiFilter
from proxy.wire.gemini.stream import GeminiStream
from tests import gemini
from tests.conftest import Start
from tests.golden.serving import Passing

KEYS = st.sampled_from(
    str.split(
        "role parts text thought thoughtSignature functionCall functionResponse function_call name args id response inlineData mimeType"
    )
    + str.split(
        "candidates content finishReason index usageMetadata promptFeedback groundingMetadata groundingSupports segment endIndex error"
    )
)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["user", "model", "STOP", "read"]),
    st.text(max_size=4),
)
ANY = st.recursive(PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)), max_leaves=12)
OBJECT = st.dictionaries(KEYS, ANY, max_size=6)
DIALECT = GeminiDialect()


@given(st.lists(st.one_of(ANY, OBJECT), max_size=3), ANY, ANY)
def test_a_body_is_read_and_written_again_or_refused(items: list[Any], system: Any, tools: Any) -> None:
    try:
        exchange = gemini.exchange_of({"contents": items, "systemInstruction": system, "tools": tools})
    except InvalidRequest:
        return
    exchange.messages = [dict(message) for message in exchange.messages]
    exchange.tools = [dict(tool) for tool in exchange.tools]
    assert gemini.MODEL == without_address(DIALECT.render_request(exchange))[0]


@given(st.one_of(ANY, OBJECT, st.lists(OBJECT, max_size=4).map(lambda parts: gemini.answer(*parts))))
def test_an_answer_is_read_or_is_none(answer: Any) -> None:
    body = json.dumps(answer).encode()
    try:
        before = DIALECT.parse_answer(body)
    except ValueError:
        return
    assert body == DIALECT.render_answer(body, before, before, None, ())
    if any(choice.index == 0 for choice in before.choices) and answer.get("candidates"):
        changed = DIALECT.render_answer(body, before, before.with_text(0, "Other."), {"verdict": "warn"}, [gemini.USAGE])
        assert b"Other." in changed


@given(st.lists(st.one_of(OBJECT, st.lists(OBJECT, max_size=3).map(lambda parts: gemini.answer(*parts))), max_size=5), st.booleans())
def test_a_stream_of_anything_is_read_to_its_end(made: list[dict[str, Any]], separate: bool) -> None:
    events = [gemini.event(payload) for payload in made]
    stream, calls = GeminiStream(separate=separate), GeminiFilter(whole=False)
    calls.begin({"read"})
    pieces = [piece for raw in events for piece in stream.feed(raw)] + stream.finish()
    out = b"".join([*(calls.feed(raw) for raw in events), calls.finish(), calls.close()])
    assert (separate or b"".join(events) == b"".join(piece.raw for piece in pieces), isinstance(out, bytes)) == (True, True)
    assert isinstance(stream.answer.text, str)
    assert b"".join([*(stream.encode_outgoing(piece) for piece in pieces if not piece.done), stream.encode_block([0])]).endswith(b"\n\n")


CLOSED = "name: p\ndelivery: {}\nstages: [passing: {{on_error: closed}}]\n"
SMUGGLED: dict[str, dict[str, Any]] = {
    "a part with words of its own": gemini.answer(gemini.text("Fine."), {"newPart": {"text": "Rome is in Spain."}}),
    "a call that was not offered": gemini.answer(gemini.text("Fine."), gemini.call("rm", {"path": "Rome is in Spain."})),
    "a second candidate": {
        **gemini.answer(gemini.text("Fine.")),
        "candidates": [
            *gemini.answer(gemini.text("Fine."))["candidates"],
            {"index": 1, "content": {"parts": [{"text": "Rome is in Spain."}]}},
        ],
    },
    "a result of code": gemini.answer(
        gemini.text("Fine."), {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "Rome is in Spain."}}
    ),
    "a title of a page": gemini.answer(
        gemini.text("Fine."), groundingMetadata={"groundingChunks": [{"web": {"uri": "https://x.example", "title": "Rome is in Spain."}}]}
    ),
    "a suggestion": gemini.answer(gemini.text("Fine."), groundingMetadata={"searchEntryPoint": {"renderedContent": "Rome is in Spain."}}),
    "a message beside": {**gemini.answer(gemini.text("Fine.")), "message": "Rome is in Spain."},
}


@pytest.mark.parametrize("delivery", ["gate", "hold"])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("how", SMUGGLED)
async def test_under_a_closed_policy_what_is_not_read_stays_behind(start: Start, how: str, streams: bool, delivery: str) -> None:
    whole = SMUGGLED[how]
    answers = stream([gemini.event(whole)]) if streams else reply(whole)
    async with start(answers, kind="gemini", policy=CLOSED.format(delivery), stages=(Passing,)) as proxy:
        answer = await proxy.post(gemini.ASK, gemini.STREAM if streams else gemini.WHOLE)
    assert (200, True, False) == (answer.status, b"Fine." in answer.body, b"Rome" in answer.body)


_COUNTED = {**gemini.USAGE, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}], "trafficType": "ON_DEMAND"}
_RATINGS = [{"category": "HARM_CATEGORY_HATE_SPEECH", "probability": "HIGH", "blocked": True}]
ENDINGS: dict[str, dict[str, Any]] = {
    reason: {**gemini.answer(reason=reason), "candidates": [{"finishReason": reason, "index": 0, **more}], "usageMetadata": _COUNTED}
    for reason, more in {
        "STOP": {"content": {"parts": [{"text": ""}], "role": "model"}},
        "MAX_TOKENS": {"content": {"role": "model", "parts": [gemini.THOUGHT]}},
        "MALFORMED_FUNCTION_CALL": {},
        "SAFETY": {"safetyRatings": _RATINGS},
    }.items()
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("reason", ENDINGS)
async def test_under_a_closed_policy_an_answer_without_text_ends_as_it_did(start: Start, reason: str, streams: bool) -> None:
    whole = ENDINGS[reason]
    answers = stream([gemini.event(whole)]) if streams else reply(whole)
    async with start(answers, kind="gemini", policy=CLOSED.format("hold") + "unknown: refuse\n", stages=(Passing,)) as proxy:
        answer = await proxy.post(gemini.ASK, gemini.STREAM if streams else gemini.WHOLE)
    (told,) = gemini.payloads(answer.body) if streams else [answer.json]
    assert (200, whole) == (answer.status, told)


_SEARCH = {
    "toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["It stands in Rome."]}},
    "thoughtSignature": "Ab==",
}
_FOUND = {"toolResponse": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {}}}


@pytest.mark.parametrize("streams", [False, True])
async def test_under_a_closed_policy_what_the_providers_tools_were_asked_passes_where_they_are_offered(start: Start, streams: bool) -> None:
    whole = gemini.answer(_SEARCH, _FOUND, gemini.text("Fine."), reason="CONTINUATION")
    whole["candidates"][0]["continuationToken"] = "Ab=="
    answers = stream([gemini.event(whole)]) if streams else reply(whole)
    async with start(answers, kind="gemini", policy=CLOSED.format("hold") + "unknown: refuse\n", stages=(Passing,)) as proxy:
        path = gemini.STREAM if streams else gemini.WHOLE
        answer = await proxy.post({**gemini.ASK, "tools": [{"googleSearch": {}}]}, path)
        other = await proxy.post(gemini.ASK, path)
    (told,) = gemini.payloads(answer.body) if streams else [answer.json]
    assert (200, whole, False) == (answer.status, told, b"Rome" in other.body)


def test_what_the_providers_tools_were_asked_is_read() -> None:
    assert ("queries", "It stands in Rome.") == DIALECT.parse_answer(json.dumps(gemini.answer(_SEARCH)).encode()).choices[0].inputs


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("CONTINUATION", "length"),
        ("IMAGE_PROHIBITED_CONTENT", "content_filter"),
        ("IMAGE_RECITATION", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
    ],
)
def test_why_an_answer_ends_is_told_in_chats_words(reason: str, end: str) -> None:
    answer = DIALECT.parse_answer(json.dumps(gemini.answer(gemini.text("Fine."), reason=reason)).encode())
    assert end == answer.choices[0].finish_reason
