"""Answers of one API as answers of another: whole, and as streams that say the same."""

import json
from collections.abc import Callable, Mapping
from itertools import permutations, zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.settings import Api
from proxy.errors import UpstreamUnreachable
from proxy.ports.upstream import Past
from proxy.wire.translation import neutral
from proxy.wire.translation.gemini_requests import SIGNED
from proxy.wire.translation.pieces import AnswerEnd, CallDelta, CallStart, Finish, InTurn, Piece, TextDelta
from proxy.wire.translation.translate import APIS, Exchange
from tests import gemini, messages, responses_api
from tests.wire.translation import chat_api
from tests.wire.translation.pairs import AGENT, between, exchange

PAIRS = list(permutations(APIS, 2))
TEXT = "Naïve ☕ at noon."
CALLS = [("read", '{"path":"a.txt"}', "call_1"), ("list", "{}", "call_2")]

WHOLE: dict[str, dict[Api, dict[str, Any]]] = {
    "text": {
        "chat": chat_api.whole(TEXT),
        "responses": responses_api.response(responses_api.text_item(TEXT)),
        "messages": messages.message(messages.text(TEXT)),
        "gemini": gemini.answer(gemini.text(TEXT)),
    },
    "calls": {
        "chat": chat_api.whole("I look.", tool_calls=[chat_api.call(*call) for call in CALLS]),
        "responses": responses_api.response(
            responses_api.text_item("I look."), *(responses_api.call_item(name, given, id) for name, given, id in CALLS)
        ),
        "messages": messages.message(
            messages.text("I look."),
            *(messages.use(name, json.loads(given), id) for name, given, id in CALLS),
        ),
        "gemini": gemini.answer(gemini.text("I look."), *(gemini.call(name, json.loads(given), id) for name, given, id in CALLS)),
    },
    "cut": {
        "chat": chat_api.whole("At no", "length"),
        "responses": responses_api.response(
            responses_api.text_item("At no"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
        ),
        "messages": messages.message(messages.text("At no"), reason="max_tokens"),
        "gemini": gemini.answer(gemini.text("At no"), reason="MAX_TOKENS"),
    },
    "filtered": {
        "chat": chat_api.whole("At no", "content_filter"),
        "responses": responses_api.response(
            responses_api.text_item("At no"), status="incomplete", incomplete_details={"reason": "content_filter"}
        ),
        "messages": messages.message(messages.text("At no"), reason="refusal"),
        "gemini": gemini.answer(gemini.text("At no"), reason="SAFETY"),
    },
    "thinking": {
        "chat": chat_api.whole("At noon.", reasoning_content="Hm."),
        "responses": responses_api.response(responses_api.reasoning_item(), responses_api.text_item("At noon.")),
        "messages": messages.message({"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}, messages.text("At noon.")),
        "gemini": gemini.answer(gemini.text("Hm.", thought=True), gemini.text("At noon.")),
    },
}
"""The same answer in the four APIs."""

Gist = dict[str, Any]


def gist(api: Api, answer: Mapping[str, Any]) -> Gist:
    """What an answer says, whatever the API."""
    found = {"chat": _chat_gist, "responses": _responses_gist, "messages": _messages_gist, "gemini": _gemini_gist}[api](answer)
    model, usage = ("modelVersion", "usageMetadata") if api == "gemini" and "modelVersion" in answer else ("model", "usage")
    return {**found, "model": bool(answer[model]), "usage": _tokens(api, answer[usage])}


def _chat_gist(answer: Mapping[str, Any]) -> Gist:
    message = answer["choices"][0]["message"]
    calls = [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls") or ()]
    thought, reason = message.get("reasoning_content") or "", answer["choices"][0]["finish_reason"]
    return {"text": message["content"] or "", "calls": calls, "thought": thought, "reason": reason}


def _responses_gist(answer: Mapping[str, Any]) -> Gist:
    output = answer["output"]
    calls = [(i["call_id"], i["name"], json.loads(i["arguments"])) for i in output if i["type"] == "function_call"]
    text = "".join(part["text"] for item in output if item["type"] == "message" for part in item["content"])
    thought = "".join(part["text"] for item in output if item["type"] == "reasoning" for part in item["summary"])
    ends = {"max_output_tokens": "length", "content_filter": "content_filter"}
    details = answer["incomplete_details"]
    return {"text": text, "calls": calls, "thought": thought, "reason": ends[details["reason"]] if details else _reason(calls)}


def _messages_gist(answer: Mapping[str, Any]) -> Gist:
    blocks = answer["content"]
    calls = [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
    text = "".join(b["text"] for b in blocks if b["type"] == "text")
    thought = "".join(b["thinking"] for b in blocks if b["type"] == "thinking")
    ends = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}
    return {"text": text, "calls": calls, "thought": thought, "reason": ends[answer["stop_reason"]]}


def _gemini_gist(answer: Mapping[str, Any]) -> Gist:
    (candidate,) = answer["candidates"]
    parts = candidate["content"]["parts"]
    calls = [(call["id"], call["name"], call["args"]) for part in parts if (call := part.get("functionCall"))]
    thought = "".join(part["text"] for part in parts if part.get("thought") and part["text"] != SIGNED)
    ends = {"STOP": _reason(calls), "MAX_TOKENS": "length", "SAFETY": "content_filter"}
    return {"text": gemini.text_of(dict(answer)), "calls": calls, "thought": thought, "reason": ends[candidate["finishReason"]]}


def _reason(calls: list[Any]) -> str:
    return "tool_calls" if calls else "stop"


def _tokens(api: Api, usage: Mapping[str, Any]) -> tuple[int, int, int]:
    """All of the prompt, its cached part, the answer."""
    if api == "gemini":
        thought = usage.get("thoughtsTokenCount", 0)
        return usage["promptTokenCount"], usage.get("cachedContentTokenCount", 0), usage["candidatesTokenCount"] + thought
    if api == "chat":
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]
    cached = usage["cache_read_input_tokens"] if api == "messages" else usage["input_tokens_details"]["cached_tokens"]
    return usage["input_tokens"] + (cached if api == "messages" else 0), cached, usage["output_tokens"]


def streamed(api: Api, answer: Mapping[str, Any]) -> bytes:
    """A whole answer as its server would stream it."""
    if api == "chat":
        return b"".join(chat_api.chunks(answer))
    if api == "gemini":
        (candidate,) = answer["candidates"]
        return b"".join(gemini.streamed(*candidate["content"]["parts"], reason=candidate["finishReason"]))
    if api == "messages":
        reason = answer["stop_reason"]
        return b"".join(messages.streamed(*answer["content"], reason=reason))
    more = {"incomplete_details": answer["incomplete_details"]} if answer["incomplete_details"] else {}
    return b"".join(responses_api.events(*answer["output"], ends=answer["status"], **more))


def read(api: Api, stream: bytes) -> dict[str, Any]:
    """A client's stream as the answer that it comes to; it must follow the API's rules."""
    if api == "messages":
        return messages.read(stream)
    if api == "gemini":
        return gemini.read(stream)
    if api == "chat":
        found = chat_api.read(stream)
        return {**found, "choices": [{"message": found["message"], "finish_reason": found["finish_reason"]}]}
    events = responses_api.decoded(stream)
    assert list(range(len(events))) == [event["sequence_number"] for event in events]
    response: dict[str, Any] = events[-1]["response"]
    _check_items(events, response["output"])
    return response


def _check_items(events: list[dict[str, Any]], output: list[dict[str, Any]]) -> None:
    """Items come one after another, each as it stands in the response, its deltas adding up to it."""
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert list(range(len(output))) == [event["output_index"] for event in done]
    assert output == [event["item"] for event in done]
    for index, item in enumerate(output):
        deltas = "".join(e["delta"] for e in events if e.get("output_index") == index and e["type"].endswith(".delta"))
        told = item.get("arguments") or "".join(part["text"] for part in item.get("content") or item.get("summary") or ())
        assert told == deltas


def begun(client: Api, server: Api) -> Exchange:
    found = exchange(client, server)
    asked = {**between(client, server, client), "stream": True}
    found.request(json.dumps(asked | ({"stream_options": {"include_usage": True}} if client == "chat" else {})).encode(), Past())
    return found


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_whole_answer_says_the_same(client: Api, server: Api, kind: str) -> None:
    told = json.loads(begun(client, server).answer(json.dumps(WHOLE[kind][server]).encode()))
    assert gist(server, WHOLE[kind][server]) == gist(client, told)


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_streamed_answer_is_the_whole_one(client: Api, server: Api, kind: str) -> None:
    found, answer = begun(client, server), WHOLE[kind][server]
    told = read(client, found.feed(streamed(server, answer)) + found.finish())
    assert gist(client, json.loads(begun(client, server).answer(json.dumps(answer).encode()))) == gist(client, told)


@pytest.mark.parametrize("client", ["chat", "messages", "gemini"])
def test_items_that_the_servers_end_orders_anew_are_told_once(client: Api) -> None:
    *events, last = responses_api.decoded(streamed("responses", WHOLE["calls"]["responses"]))
    last["response"]["output"].reverse()
    found = begun(client, "responses")
    told = found.feed(b"".join(map(responses_api.encode, [*events, last]))) + found.finish()
    assert gist("responses", WHOLE["calls"]["responses"]) == gist(client, read(client, told))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("client", ["responses", "messages", "gemini"])
def test_thoughts_among_the_parts_of_a_content_are_thoughts(client: Api, streams: bool) -> None:
    """As Mistral sends them."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True}
    found = begun(client, "chat")
    if streams:
        parts = [[thought], "At ", [{"type": "text", "text": "noon."}]]
        events = [*(chat_api.chunk({"content": part}) for part in parts), *chat_api.chunks(chat_api.whole(""))[-3:]]
        told = read(client, found.feed(b"".join(events)) + found.finish())
    else:
        answer = chat_api.whole("")
        answer["choices"][0]["message"]["content"] = [thought, {"type": "text", "text": "At noon."}]
        told = json.loads(found.answer(json.dumps(answer).encode()))
    assert gist("chat", WHOLE["thinking"]["chat"]) == gist(client, told)


_PAGE = {"url": "https://a.example/tides", "title": "Tides"}


@pytest.mark.parametrize("streams", [False, True])
def test_citations_of_pages_go_from_chat_to_responses(streams: bool) -> None:
    at = {"start_index": 3, "end_index": 7}
    cited = [{"type": "url_citation", "url_citation": {**_PAGE, **at}}]
    found = begun("responses", "chat")
    if streams:
        head, *rest = chat_api.chunks(chat_api.whole("At noon.", annotations=cited))
        events = responses_api.decoded(
            found.feed(b"".join([head, *rest[:-3], chat_api.chunk({"annotations": cited}), *rest[-3:]])) + found.finish()
        )
        told = events[-1]["response"]
        added = [one for one in events if one["type"] == "response.output_text.annotation.added"]
        assert [(0, 0, 0)] == [(one["output_index"], one["content_index"], one["annotation_index"]) for one in added]
    else:
        told = json.loads(found.answer(json.dumps(chat_api.whole("At noon.", annotations=cited)).encode()))
    assert [{"type": "url_citation", **_PAGE, **at}] == told["output"][0]["content"][0]["annotations"]


@pytest.mark.parametrize("streams", [False, True])
def test_citations_of_pages_go_from_responses_to_chat_to_their_places(streams: bool) -> None:
    cited = {"type": "url_citation", **_PAGE, "start_index": 3, "end_index": 7}
    items = [responses_api.text_item("I look."), responses_api.text_item("At noon.", identity="msg_2", annotations=[cited])]
    found = begun("chat", "responses")
    if streams:
        chunks = chat_api.payloads(found.feed(b"".join(responses_api.events(*items))) + found.finish())
        deltas = [choice["delta"] for one in chunks for choice in one["choices"]]
        text, (annotation,) = "".join(one.get("content") or "" for one in deltas), [a for one in deltas for a in one.get("annotations", ())]
    else:
        message = json.loads(found.answer(json.dumps(responses_api.response(*items)).encode()))["choices"][0]["message"]
        text, (annotation,) = message["content"], message["annotations"]
    page = annotation["url_citation"]
    assert ("url_citation", _PAGE) == (annotation["type"], {name: page[name] for name in _PAGE})
    assert "noon" == text[page["start_index"] : page["end_index"]]


MEDIA: dict[str, dict[str, Any]] = {
    "images": {"content": "Here.", "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}]},
    "audio": {"content": None, "audio": {"id": "audio_1", "data": "UklGRg==", "transcript": "At noon."}},
    "image_url": {"content": [{"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}]},
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("media", MEDIA)
@pytest.mark.parametrize("client", ["responses", "messages", "gemini"])
def test_what_no_other_api_has_a_place_for_is_refused_and_not_dropped(client: Api, media: str, streams: bool) -> None:
    found, answer = begun(client, "chat"), chat_api.whole("")
    answer["choices"][0]["message"] |= MEDIA[media]
    with pytest.raises(UpstreamUnreachable, match=f"cannot be told in the client's API .*{media}"):
        (found.feed(chat_api.chunk(MEDIA[media])), found.finish()) if streams else found.answer(json.dumps(answer).encode())


@given(st.data())
def test_a_stream_split_anywhere_is_the_same_stream(data: st.DataObject) -> None:
    client, server = data.draw(st.sampled_from(PAIRS))
    stream = streamed(server, WHOLE[data.draw(st.sampled_from(list(WHOLE)))][server])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    whole, split = begun(client, server), begun(client, server)
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert whole.feed(stream) + whole.finish() == b"".join(split.feed(piece) for piece in pieces) + split.finish()


@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_stream_split_at_every_byte_is_the_same_stream(client: Api, server: Api) -> None:
    stream = streamed(server, WHOLE["calls"][server])
    whole, split = begun(client, server), begun(client, server)
    assert whole.feed(stream) + whole.finish() == b"".join(split.feed(bytes((byte,))) for byte in stream) + split.finish()


@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_stream_that_breaks_off_gets_no_end(client: Api, server: Api) -> None:
    stream = streamed(server, WHOLE["text"][server])
    ends = {
        "chat": b'"finish_reason"',
        "responses": b"event: response.completed",
        "messages": b"event: message_delta",
        "gemini": b'"finishReason"',
    }
    found = begun(client, server)
    told = found.feed(stream[: stream.rindex(ends[server])].rpartition(b"\n\n")[0] + b"\n\n") + found.finish()
    if client == "chat":
        assert {None} == {choice["finish_reason"] for one in chat_chunks(told) for choice in one["choices"]}
    assert not any(mark in told for mark in (b"[DONE]", b"message_stop", b"message_delta", b"response.completed", b"finishReason"))


def chat_chunks(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(part.removeprefix("data: ")) for part in stream.decode().split("\n\n") if part]


ERRORS: dict[Api, bytes] = {
    "chat": chat_api.event({"error": {"message": "too busy", "type": "server_error", "code": "overloaded"}}),
    "responses": responses_api.encode({"type": "error", "code": "overloaded", "message": "too busy", "param": None, "sequence_number": 9}),
    "messages": messages.event({"type": "error", "error": {"type": "overloaded_error", "message": "too busy"}}),
    "gemini": gemini.event({"error": {"code": 503, "message": "too busy", "status": "UNAVAILABLE"}}),
}
TOLD: dict[Api, Callable[[bytes], str]] = {
    "chat": lambda stream: chat_chunks(stream)[-1]["error"]["message"],
    "responses": lambda stream: responses_api.decoded(stream)[-1]["response"]["error"]["message"],
    "messages": lambda stream: messages.payloads(stream)[-1]["error"]["message"],
    "gemini": lambda stream: gemini.payloads(stream)[-1]["error"]["message"],
}


@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_an_error_in_mid_stream_is_told_in_the_clients_words(client: Api, server: Api) -> None:
    stream, found = streamed(server, WHOLE["text"][server]), begun(client, server)
    told = found.feed(stream[: len(stream) // 2].rpartition(b"\n\n")[0] + b"\n\n" + ERRORS[server]) + found.finish()
    assert "too busy" == TOLD[client](told)


@pytest.mark.parametrize("client", ["chat", "responses", "messages"])
def test_a_full_window_in_mid_stream_is_told_as_the_clients_api_tells_it(client: Api) -> None:
    """Codex knows the code, Claude Code the words: either then shortens its conversation."""
    server: Api = "responses" if client == "messages" else "messages"
    long = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}
    failed = responses_api.encode({"type": "response.failed", "response": {**responses_api.response(status="failed"), "error": long}})
    refused = messages.event({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens"}})
    told = begun(client, server).feed(failed if server == "responses" else refused)
    if client == "messages":
        error = {"type": "invalid_request_error", "message": f"prompt is too long: {long['message']}"}
        assert error == messages.payloads(told)[-1]["error"]
    else:
        last = chat_chunks(told)[-1] if client == "chat" else responses_api.decoded(told)[-1]["response"]
        assert "context_length_exceeded" == last["error"]["code"]


def test_a_failed_response_is_an_error() -> None:
    failed = {**responses_api.response(status="failed"), "error": {"code": "server_error", "message": "too busy"}}
    with pytest.raises(UpstreamUnreachable, match="too busy"):
        begun("chat", "responses").answer(json.dumps(failed).encode())


@pytest.mark.parametrize("client", ["responses", "messages"])
def test_a_stream_without_its_end_mark_ends_all_the_same(client: Api) -> None:
    stream = b"".join(chat_api.chunks(WHOLE["text"]["chat"])[:-1])
    found = begun(client, "chat")
    assert gist("chat", WHOLE["text"]["chat"]) == gist(client, read(client, found.feed(stream) + found.finish()))


@pytest.mark.parametrize("client", ["chat", "responses", "messages"])
def test_an_end_that_a_gemini_server_tells_with_each_chunk_is_told_once(client: Api) -> None:
    answer = WHOLE["calls"]["gemini"]
    (candidate,) = answer["candidates"]
    found, told = begun(client, "gemini"), b""
    for few in ([], *([part] for part in candidate["content"]["parts"])):
        told += found.feed(gemini.event({**answer, "candidates": [{**candidate, "content": {"role": "model", "parts": few}}]}))
    told += found.finish()
    assert gist("gemini", answer) == gist(client, read(client, told))
    if client == "chat":
        ends = [choice["finish_reason"] for one in chat_chunks(told.removesuffix(b"data: [DONE]\n\n")) for choice in one["choices"]]
        assert ([None] * (len(ends) - 1), "tool_calls") == (ends[:-1], ends[-1])


def test_a_refusal_is_a_refusal_in_each() -> None:
    answer = chat_api.whole(None, refusal="I can't.")
    told = json.loads(begun("messages", "chat").answer(json.dumps(answer).encode()))
    assert (["I can't."], "refusal") == (messages.says(told["content"]), told["stop_reason"])
    told = json.loads(begun("responses", "chat").answer(json.dumps(answer).encode()))
    assert [{"type": "refusal", "refusal": "I can't."}] == told["output"][0]["content"]
    found = begun("responses", "chat")
    events = responses_api.decoded(found.feed(b"".join(chat_api.chunks(answer))) + found.finish())
    assert "response.refusal.done" in [event["type"] for event in events]
    back = responses_api.response(responses_api.refusal_item("I can't."))
    assert "I can't." == json.loads(begun("chat", "responses").answer(json.dumps(back).encode()))["choices"][0]["message"]["refusal"]


@pytest.mark.parametrize("client", ["responses", "messages"])
def test_calls_whose_arguments_come_by_turns_lose_none(client: Api) -> None:
    """As the API allows, and its servers do not do."""
    first, second = (
        chat_api.chunk({"tool_calls": [{"index": i, "id": f"call_{i}", "type": "function", "function": {"name": "f", "arguments": ""}}]})
        for i in (0, 1)
    )
    given = [
        chat_api.chunk({"tool_calls": [{"index": i, "function": {"arguments": text}}]})
        for i, text in ((0, '{"a":'), (1, '{"b":'), (0, "1}"), (1, "2}"))
    ]
    found = begun(client, "chat")
    stream = first + second + b"".join(given) + chat_api.chunk({}, "tool_calls") + b"data: [DONE]\n\n"
    told = found.feed(stream) + found.finish()
    calls = gist(client, {**read(client, told), "model": "m", "usage": chat_usage(client)})["calls"]
    assert [("call_0", "f", {"a": 1}), ("call_1", "f", {"b": 2})] == calls


def by_turns(server: Api) -> list[bytes]:
    """The events of an answer whose two calls come by turns, as some gateways write them, and words behind."""
    calls = WHOLE["calls"][server]
    if server == "responses":
        row, first, second = responses_api.events(*calls["output"][1:], responses_api.text_item(TEXT)), 5, 5
    else:
        row, first, second = messages.streamed(*calls["content"][1:], messages.text(TEXT)), 5, 3
    end = 2 + first + second
    mixed = [one for pair in zip_longest(row[2 : 2 + first], row[2 + first : end], fillvalue=b"") for one in pair]
    return [*row[:2], *mixed, *row[end:]]


@pytest.mark.parametrize(
    ("client", "server"),
    [("messages", "responses"), ("gemini", "responses"), ("responses", "messages"), ("gemini", "messages")],
)
def test_calls_that_a_server_tells_by_turns_lose_nothing_and_what_follows_does_not_wait(client: Api, server: Api) -> None:
    found, events = begun(client, server), by_turns(server)
    told = found.feed(b"".join(events[:-2]))
    assert b"noo" in told
    told += found.feed(b"".join(events[-2:])) + found.finish()
    assert [(name, json.loads(given)) for name, given, _ in CALLS] == [call[1:] for call in gist(client, read(client, told))["calls"]]


def test_items_whose_events_give_no_positions_are_told_apart() -> None:
    """As llama.cpp sends them; its calls have no names of their own either."""
    events = [json.loads(one.partition(b"data: ")[2]) for one in responses_api.events(*WHOLE["calls"]["responses"]["output"])]
    for one in events:
        one.pop("output_index", None)
        if one.get("item", {}).get("type") == "function_call":
            del one["item"]["id"]
    told = begun("messages", "responses").feed(b"".join(map(responses_api.encode, events)))
    assert gist("responses", WHOLE["calls"]["responses"]) == gist("messages", read("messages", told))


@given(st.data())
def test_pieces_of_calls_in_any_order_are_told_one_call_after_another(data: st.DataObject) -> None:
    """Whatever comes between them."""
    calls = data.draw(st.lists(st.sampled_from(["{}", '{"a": 1}', '{"b": [{"c": "}"}]}', ""]), min_size=1, max_size=4))
    left = {key: [CallStart(key, f"call_{key}", "f"), *(CallDelta(key, char) for char in given)] for key, given in enumerate(calls)}
    row: list[Piece] = []
    while left:
        key = (
            min(left)
            if not row
            else data.draw(
                st.sampled_from(
                    [
                        k
                        for k in left
                        if not any(isinstance(p, CallStart) for p in left[k])
                        or k == min(k for k in left if isinstance(left[k][0], CallStart))
                    ]
                )
            )
        )
        row.append(left[key].pop(0))
        left = {k: pieces for k, pieces in left.items() if pieces}
        if data.draw(st.booleans()):
            row.append(TextDelta("x"))
    turn = InTurn()
    told = [one for piece in [*row, Finish("stop"), AnswerEnd()] for one in turn.feed(piece)]
    at: int | None = None
    given = dict.fromkeys(range(len(calls)), "")
    for piece in told:
        if isinstance(piece, CallStart):
            at = piece.key
        elif isinstance(piece, CallDelta):
            assert at == piece.key
            given[piece.key] += piece.text
        elif isinstance(piece, TextDelta):
            at = None
    assert list(calls) == list(given.values())
    assert sum(isinstance(piece, TextDelta) for piece in row) == sum(isinstance(piece, TextDelta) for piece in told)


def chat_usage(client: Api) -> dict[str, Any]:
    return responses_api.USAGE if client == "responses" else messages.USAGE


def asked_on(client: Api, server: Api, answer: Mapping[str, Any] | bytes) -> dict[str, Any]:
    """The next turn's request, with what the client was told of the server's answer, or of its stream."""
    first = begun(client, server)
    told = (
        read(client, first.feed(answer) + first.finish())
        if isinstance(answer, bytes)
        else json.loads(first.answer(json.dumps(answer).encode()))
    )
    body = between(client, server, client)
    if client == "messages":
        body["messages"] = [{"role": "assistant", "content": told["content"]}, {"role": "user", "content": "And?"}]
    elif client == "gemini":
        body["contents"] = [told["candidates"][0]["content"], {"role": "user", "parts": [gemini.text("And?")]}]
    else:
        body["input"] = [*told["output"], {"role": "user", "content": "And?"}]
    found: dict[str, Any] = json.loads(exchange(client, server).request(json.dumps(body).encode(), Past()))
    return found


@pytest.mark.parametrize("client", ["responses", "messages"])
def test_a_thought_that_goes_back_goes_to_where_it_came_from(client: Api) -> None:
    found = asked_on(client, "chat", WHOLE["thinking"]["chat"])
    assert ("At noon.", "Hm.") == tuple(found["messages"][-2][name] for name in ("content", "reasoning_content"))


def signed_call(place: int, signature: str = "CiQB") -> dict[str, Any]:
    return {**chat_api.call(id=f"call_{place}"), "extra_content": {"google": {"thought_signature": signature}}}


ENCRYPTED = {"type": "reasoning.encrypted", "data": "CiQB", "id": "call_1", "format": "google-gemini-v1", "index": 0}
THOUGHT = {"type": "reasoning.text", "text": "Hm.", "signature": "sig", "format": "anthropic-claude-v1", "index": 0}
IN_PIECES: list[dict[str, Any]] = [
    {"reasoning_content": "H", "reasoning_details": [{"type": "reasoning.text", "text": "H", "format": "anthropic-claude-v1", "index": 0}]},
    {"reasoning_content": "m.", "reasoning_details": [{"type": "reasoning.text", "text": "m.", "index": 0}]},
    {"reasoning_details": [{"type": "reasoning.text", "signature": "sig", "index": 0}]},
    {"content": "I look."},
    {"tool_calls": [{"index": 0, **chat_api.call()}]},
]
LATE: list[dict[str, Any]] = [
    {"tool_calls": [{"index": 0, **chat_api.call(arguments="")}]},
    {"tool_calls": [{"index": 0, "extra_content": signed_call(1)["extra_content"], "function": {"arguments": "{}"}}]},
]


def deltas(*every: dict[str, Any]) -> bytes:
    return b"".join([*(chat_api.chunk(delta) for delta in every), chat_api.chunk({}, "tool_calls"), b"data: [DONE]\n\n"])


TWO = [signed_call(1), chat_api.call(id="call_2")]
BLOCKS = {"reasoning_content": "Hm.", "thinking_blocks": [messages.THINKING]}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (chat_api.whole(None, tool_calls=[*TWO, signed_call(3, "EjQK")]), {"tool_calls": [*TWO, signed_call(3, "EjQK")]}),
        (b"".join(chat_api.chunks(chat_api.whole(None, tool_calls=TWO))), {"tool_calls": TWO}),
        (deltas(*LATE), {"tool_calls": [{**signed_call(1), "function": {"name": "read", "arguments": "{}"}}]}),
        (
            chat_api.whole(None, reasoning_details=[ENCRYPTED], tool_calls=TWO[1:]),
            {"reasoning_details": [ENCRYPTED], "tool_calls": TWO[1:]},
        ),
        (chat_api.whole(None, **BLOCKS, tool_calls=TWO[1:]), {**BLOCKS, "tool_calls": TWO[1:]}),
        (
            deltas(*IN_PIECES),
            {"content": "I look.", "reasoning_content": "Hm.", "reasoning_details": [THOUGHT], "tool_calls": [chat_api.call()]},
        ),
    ],
)
@pytest.mark.parametrize("client", ["responses", "messages", "gemini"])
def test_what_a_chat_server_signs_goes_back_to_it(client: Api, answer: Any, expected: dict[str, Any]) -> None:
    assert {"role": "assistant", "content": None, **expected} == asked_on(client, "chat", answer)["messages"][-2]


def test_of_what_a_client_says_that_a_server_signed_only_signatures_go_to_it() -> None:
    seal = neutral.wrap(
        "chat",
        '{"role":"system","content":"x","tool_calls":[{"id":"call_1","function":{},"extra_content":1},{"id":[]},2],"reasoning_details":7}',
    )
    turn = [{"type": "redacted_thinking", "data": seal}, messages.use("read", {}, "call_1")]
    body = {
        **between("messages", "chat", "messages"),
        "messages": [{"role": "assistant", "content": turn}, {"role": "user", "content": "And?"}],
    }
    sent = json.loads(exchange("messages", "chat").request(json.dumps(body).encode(), Past()))["messages"][-2]
    assert {"role": "assistant", "content": None, "tool_calls": [{**chat_api.call(arguments="{}"), "extra_content": 1}]} == sent


PLAIN_THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}


def test_a_thought_that_its_server_has_not_signed_goes_back_to_it() -> None:
    answer = messages.message({"type": "thinking", "thinking": "Hm."}, messages.text("At noon."))
    found = asked_on("responses", "messages", answer)["messages"][-2]["content"]
    assert [{"type": "thinking", "thinking": "Hm.", "signature": ""}, messages.text("At noon.")] == found


def test_a_thought_that_its_server_has_not_encrypted_goes_back_to_it_as_words() -> None:
    answer = responses_api.response(PLAIN_THOUGHT, responses_api.text_item("At noon."))
    thought, said = asked_on("messages", "responses", answer)["input"][-3:-1]
    assert ({**PLAIN_THOUGHT, "id": thought["id"]}, "rs_") == (thought, thought["id"][:3])
    assert "At noon." == said["content"][0]["text"]


@pytest.mark.parametrize("client", ["responses", "messages"])
def test_thoughts_of_geminis_do_not_keep_a_client_from_going_on(client: Api) -> None:
    found = asked_on(client, "gemini", WHOLE["thinking"]["gemini"])["contents"]
    assert [[gemini.text("At noon.")]] == [turn["parts"] for turn in found if turn["role"] == "model"]


def test_a_thought_in_several_parts_is_one_block_with_its_signature() -> None:
    thought = {**responses_api.reasoning_item(), "summary": [{"type": "summary_text", "text": text} for text in ("Hm.", "So.")]}
    answer = json.loads(begun("messages", "responses").answer(json.dumps(responses_api.response(thought)).encode()))
    assert [{"type": "thinking", "thinking": "Hm.\n\nSo.", "signature": "groundwire:responses:gAAAB=="}] == answer["content"]


def test_anthropics_thoughts_go_back_with_their_signatures() -> None:
    answer = messages.message(messages.THINKING, {"type": "redacted_thinking", "data": "Emc="}, messages.text("At noon."))
    told = json.loads(begun("responses", "messages").answer(json.dumps(answer).encode()))
    body = {**AGENT["responses"], "input": [{"role": "user", "content": "Hi"}, *told["output"], {"role": "user", "content": "And?"}]}
    found = json.loads(exchange("responses", "messages").request(json.dumps(body).encode(), Past()))
    assert answer["content"] == found["messages"][1]["content"]


def test_a_call_of_a_tool_in_a_namespace_names_it() -> None:
    space = {"type": "namespace", "name": "files", "description": "Of files.", "tools": AGENT["responses"]["tools"]}
    found = exchange("responses", "chat")
    found.request(json.dumps({"model": "m", "input": "Hi", "tools": [space]}).encode(), Past())
    answer = chat_api.whole(None, tool_calls=[chat_api.call("files__read")])
    (call,) = json.loads(found.answer(json.dumps(answer).encode()))["output"]
    assert ("files", "read") == (call["namespace"], call["name"])


def test_a_call_of_a_free_tool_in_a_namespace_that_an_item_offers_names_it() -> None:
    space = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    found = exchange("responses", "chat")
    item = {"type": "additional_tools", "role": "developer", "tools": [space]}
    found.request(json.dumps({"model": "m", "input": [item, {"role": "user", "content": "Go"}]}).encode(), Past())
    call = {"id": "call_1", "type": "custom", "custom": {"name": "functions__exec", "input": "ls"}}
    told = json.loads(found.answer(json.dumps(chat_api.whole(None, "tool_calls", tool_calls=[call])).encode()))["output"][0]
    assert ("custom_tool_call", "functions", "exec", "ls") == tuple(told[name] for name in ("type", "namespace", "name", "input"))


@pytest.mark.parametrize(("client", "end"), [("messages", "end_turn"), ("responses", "completed"), ("gemini", "STOP")])
def test_an_end_for_calls_without_any_call_is_a_plain_end(client: Api, end: str) -> None:
    told = json.loads(begun(client, "chat").answer(json.dumps(chat_api.whole("I look.", "tool_calls", tool_calls=[])).encode()))
    assert end == (told["candidates"][0]["finishReason"] if client == "gemini" else told.get("stop_reason") or told["status"])


def test_the_stop_sequence_is_named_where_the_server_names_it() -> None:
    answer = chat_api.whole("At")
    answer["choices"][0]["stop_reason"] = "noon"
    told = json.loads(begun("messages", "chat").answer(json.dumps(answer).encode()))
    assert ("stop_sequence", "noon") == (told["stop_reason"], told["stop_sequence"])


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"choices": []}', b"<html>"])
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_what_is_no_answer_is_said_so(client: Api, server: Api, body: bytes) -> None:
    with pytest.raises(UpstreamUnreachable, match="cannot be told"):
        begun(client, server).answer(body)


def test_a_block_that_no_other_api_has_is_said_so() -> None:
    answer = messages.message({"type": "server_tool_use", "id": "1", "name": "web_search", "input": {}})
    with pytest.raises(UpstreamUnreachable, match="server_tool_use"):
        begun("chat", "messages").answer(json.dumps(answer).encode())


ENVELOPES = [
    (
        "messages",
        "chat",
        429,
        {"error": {"message": "slow", "type": "requests", "code": "rate_limit_exceeded"}},
        ("rate_limit_error", None),
    ),
    ("chat", "messages", 429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, ("rate_limit_error",) * 2),
    (
        "responses",
        "messages",
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "slow"}},
        ("server_error", "overloaded_error"),
    ),
]


@pytest.mark.parametrize(("client", "server", "status", "body", "expected"), ENVELOPES)
def test_a_servers_error_has_the_clients_envelope(client: Api, server: Api, status: int, body: Any, expected: Any) -> None:
    error = json.loads(exchange(client, server).error(status, json.dumps(body).encode()))["error"]
    assert ("slow", *expected) == (error["message"], error["type"], error.get("code"))


def test_a_full_window_is_told_as_each_api_tells_it() -> None:
    openai = {"error": {"message": "9 tokens of 8", "type": "invalid_request_error", "code": "context_length_exceeded"}}
    told = json.loads(exchange("messages", "chat").error(400, json.dumps(openai).encode()))
    assert "prompt is too long: 9 tokens of 8" == told["error"]["message"]
    back = json.loads(exchange("chat", "messages").error(400, json.dumps(told).encode()))
    assert "context_length_exceeded" == back["error"]["code"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"x"', b'{"error": "x"}', b'{"error": {"code": 5}}'])
@pytest.mark.parametrize(("client", "server"), [("messages", "chat"), ("chat", "messages")])
def test_any_error_body_becomes_an_envelope(client: Api, server: Api, body: bytes) -> None:
    assert json.loads(exchange(client, server).error(502, body))["error"]["message"] is not None
