"""Chat completions under a closed policy: nothing leaves that was not read, and nothing is lost of an ordinary answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from proxy.testing import chunk, completion, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.attacks.geographer import ALL, FALSE, TRUE, policy
from tests.conftest import CHAT, Answer, Start
from tests.exchanges import Exchanged, recorded

STREAM = {**CHAT, "stream": True}
PATH = "/v1/chat/completions"
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
Body = dict[str, Any]


def whole(content: Any = TRUE, **fields: Any) -> Body:
    made = completion(content if isinstance(content, str) else "")
    made["choices"][0]["message"] |= {"content": content, **fields}
    return made


def choices(*texts: str) -> list[Body]:
    return [{"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"} for i, text in enumerate(texts)]


def with_choice(**fields: Any) -> Body:
    made = whole()
    made["choices"][0] |= fields
    return made


BODIES: dict[str, Any] = {
    "more choices than were asked for": {**whole(), "choices": choices(TRUE, FALSE, FALSE)},
    "a word over choices": {**whole(), "choices": choices(TRUE, "It stands in R", "ome.")},
    "a choice twice": {**whole(), "choices": [*choices(TRUE), *choices(FALSE)]},
    "a choice below none": {**whole(), "choices": [*choices(TRUE), {**choices(FALSE)[0], "index": -1}]},
    "text at the top": {**whole(), "output_text": FALSE, "text": FALSE, "content": FALSE, "answer": {"text": FALSE}},
    "an error beside an answer": {**whole(), "error": {"message": FALSE}},
    "legacy text": with_choice(text=FALSE),
    "a delta": with_choice(delta={"content": FALSE}),
    "a title of a page": whole(annotations=[{"type": "url_citation", "url_citation": {"url": "https://a.example/", "title": FALSE}}]),
    "an annotation of another type": whole(annotations=[{"type": "note", "note": FALSE}]),
    "tokens that say something else": with_choice(logprobs={"content": [{"token": FALSE, "logprob": -0.1, "bytes": None}]}),
    "alternatives that are sentences": with_choice(
        logprobs={"content": [{"token": TRUE, "logprob": -0.1, "top_logprobs": [{"token": FALSE, "logprob": -0.2}]}]}
    ),
    "bytes that spell something else": with_choice(logprobs={"content": [{"token": TRUE, "logprob": -0.1, "bytes": list(FALSE.encode())}]}),
    "audio with a transcript": whole(audio={"id": "a", "data": "UklGRg==", "expires_at": 1, "transcript": FALSE}),
    "reasoning told twice": whole(reasoning_content="Hm.", reasoning_details=[{"type": "reasoning.text", "text": FALSE}]),
    "a field of the message": whole(x_text=FALSE, context={"citations": [{"content": FALSE}]}),
    "usage with words": {**whole(), "usage": {"prompt_tokens": 1, "note": FALSE, FALSE: 1}},
    "a model's name": {**whole(), "model": FALSE, "system_fingerprint": FALSE, "id": FALSE},
    "a call of a tool that was not offered": whole(
        tool_calls=[{"id": "c", "type": "function", "function": {"name": "say", "arguments": json.dumps({"text": FALSE})}}]
    ),
    "a custom call that was not offered": whole(tool_calls=[{"id": "c", "type": "custom", "custom": {"name": "say", "input": FALSE}}]),
    "a legacy call that was not offered": whole(function_call={"name": "say", "arguments": FALSE}),
}


def shown(got: Answer) -> str:
    """All that a client could show of an answer: its texts as they stand, and those of all choices and events joined."""
    texts: list[str] = []
    said: list[str] = []
    for fields in _jsons(got.body):
        _collect(fields, texts)
        for choice in fields.get("choices") or ():
            said.append(str((choice.get("message") or choice.get("delta") or {}).get("content") or ""))
    return "\n".join([*texts, "".join(said)])


def _jsons(body: bytes) -> list[Body]:
    if not body.startswith((b"data:", b"event:", b":")):
        return [json.loads(body)]
    return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]


def _collect(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _collect(below, texts)
    if isinstance(value, dict):
        texts.extend(value)
    if isinstance(value, list) and value and all(isinstance(one, int) for one in value):
        texts.append(bytes(one % 256 for one in value).decode("utf-8", "replace"))


async def test_of_a_body_only_what_was_read_leaves(start: Start) -> None:
    async with start(*map(reply, BODIES.values()), policy=policy(), stages=ALL) as proxy:
        answers = {shape: await proxy.post() for shape in BODIES}
    assert [] == [shape for shape, got in answers.items() if "Rome" in shown(got)]
    assert dict.fromkeys(BODIES, (200, TRUE)) == {
        shape: (got.status, got.json["choices"][0]["message"]["content"]) for shape, got in answers.items()
    }


async def test_a_strict_policy_refuses_each_of_them(start: Start) -> None:
    async with start(*map(reply, BODIES.values()), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        answers = {shape: await proxy.post() for shape in BODIES}
    assert dict.fromkeys(BODIES, (400, "answer_unreadable")) == {
        shape: (got.status, got.json.get("error", {}).get("param")) for shape, got in answers.items()
    }


JOINED = {
    "text parts": whole([{"type": "text", "text": "It stands in R"}, {"type": "text", "text": "ome."}]),
    "parts around thoughts": whole(
        [
            {"type": "text", "text": "It stands in R"},
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
            {"type": "text", "text": "ome."},
        ]
    ),
}


async def test_text_is_judged_as_clients_join_it(start: Start) -> None:
    async with start(*map(reply, JOINED.values()), policy=policy(), stages=ALL) as proxy:
        answers = [await proxy.post() for _ in JOINED]
    assert [(400, "wrong")] * len(JOINED) == [(got.status, got.json["error"]["param"]) for got in answers]


def a_lie_first(body: Body) -> bytes:
    """A key twice: readers take the one or the other."""
    good = json.dumps(body)
    return good.replace('"content"', f'"content": {json.dumps(FALSE)}, "content"').encode()


async def test_a_key_stands_once(start: Start) -> None:
    async with start(reply(a_lie_first(whole())), policy=policy(), stages=ALL) as proxy:
        got = await proxy.post()
    assert (200, False, TRUE) == (got.status, b"Rome" in got.body, got.json["choices"][0]["message"]["content"])


def line(delta: Body, index: int = 0) -> bytes:
    return chunk({}).replace(b'"index": 0, "delta": {}', f'"index": {index}, "delta": {json.dumps(delta)}'.encode())


LIE = chunk({"content": FALSE})
STREAMS: dict[str, list[bytes]] = {
    "choices that were not asked for": [line({"content": FALSE}, 1)],
    "a word over choices": [line({"content": "in R"}, 2), line({"content": "ome."}, 3)],
    "a message instead of a delta": [
        chunk({}).replace(b'"delta"', b'"message": ' + json.dumps({"content": FALSE}).encode() + b', "delta"')
    ],
    "a delta that is no text": [chunk({"content": {"text": FALSE}}), chunk({"content": [FALSE]}), chunk({"content": [[FALSE]]})],
    "a comment that some readers read": [b": k\xe2\x80\xa8" + LIE],
    "a comment with a vertical tab": [b": k\x0b" + LIE],
    "a comment with a form feed": [b": k\x0c" + LIE],
    "a comment with a next line": [b": k\xc2\x85" + LIE],
    "a field in another case": [LIE.replace(b"data:", b"DATA:")],
    "a field behind a blank": [b" " + LIE],
    "a field behind a byte order mark": [b"\xef\xbb\xbf" + LIE],
    "a field of another name": [b"datum: 1\ndata2: " + LIE[6:]],
    "an event with a name": [b"event: message\nid: Rome\nretry: 1\n\n"],
    "an unknown chunk": [b'data: {"object": "note", "text": ' + json.dumps(FALSE).encode() + b"}\n\n"],
    "a custom call that was not offered": [
        chunk({"tool_calls": [{"index": 0, "type": "custom", "custom": {"name": "x", "input": FALSE}}]})
    ],
    "a call in pieces that was not offered": [
        chunk({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "lo", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"name": "ok_at", "arguments": json.dumps({"text": FALSE})}}]}),
    ],
    "audio": [chunk({"audio": {"id": "a", "transcript": FALSE}}), chunk({"audio": {"data": "UklGRg=="}})],
    "a title": [chunk({"annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example", "title": FALSE}}]})],
    "tokens that say something else": [
        chunk({"content": ""}).replace(b'"logprobs": null', b'"logprobs": {"content": [{"token": "Rome", "logprob": 0}]}')
    ],
}


def _with(events: list[bytes]) -> list[bytes]:
    head, *rest = streamed([TRUE])
    return [head, *events, *rest]


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_of_a_stream_only_what_was_read_leaves(delivery: str, start: Start) -> None:
    streams = {shape: _with(events) for shape, events in STREAMS.items()}
    async with start(*map(stream, streams.values()), policy=policy(delivery), stages=ALL) as proxy:
        answers = {shape: await proxy.post({**STREAM, "tools": [TOOL]}) for shape in streams}
    assert [] == [shape for shape, got in answers.items() if b"Rome" in got.body]
    assert dict.fromkeys(streams, (200, TRUE)) == {shape: (got.status, _said(got.body)) for shape, got in answers.items()}


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_a_stream_has_one_line_of_data_an_event(delivery: str, start: Start) -> None:
    sep, odd = "\u2028", "One\u2028data: two\u2029three\u0085four\u000bfive\u000csix."
    events = [part for piece in streamed([odd]) for part in (piece.replace(b"\n\n", b"\r\n\r\n"),)]
    several = b'data: {"choices": [{"index": 0,\ndata:  "delta": {"content": " More."}}]}\n\n'
    async with start(stream([events[0], *events[1:-2], several, *events[-2:]]), policy=policy(delivery), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    lines = [one for one in got.body.decode().splitlines() if one and not one.startswith(":")]
    assert [] == [one for one in lines if not one.startswith(("data: {", "data: [DONE]"))]
    assert (odd + " More.", False) == (_said(got.body), sep in got.body.decode())


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_parts_of_deltas_are_judged_joined(delivery: str, start: Start) -> None:
    events = [chunk({"content": [{"type": "text", "text": "in R"}]}), chunk({"content": [{"type": "text", "text": "ome."}]})]
    async with start(stream([*events, *streamed(["x"])[-2:]]), policy=policy(delivery), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"ome" not in got.body


def _said(body: bytes) -> str:
    deltas = [choice["delta"] for fields in _jsons(body) for choice in fields.get("choices") or ()]
    return "".join(delta.get("content") or "" for delta in deltas)


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_calls_arrive_whole_in_whatever_pieces_they_come(delivery: str, start: Start) -> None:
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}
    entries = [first, {"index": 0, "function": {"name": "_up", "arguments": '{"a"'}}, {"index": 0, "function": {"arguments": ": 1}"}}]
    again = {"index": 0, "id": "c2", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    events = [chunk({"tool_calls": [entry]}) for entry in (*entries, again)]
    async with start(stream([*events, chunk({}, "tool_calls"), b"data: [DONE]\n\n"]), policy=policy(delivery), stages=ALL) as proxy:
        got = await proxy.post({**STREAM, "tools": [TOOL]})
    calls: dict[int, list[str]] = {}
    for fields in _jsons(got.body):
        for choice in fields["choices"]:
            for call in choice["delta"].get("tool_calls") or ():
                known = calls.setdefault(call["index"], ["", "", ""])
                known[0] += call.get("id") or ""
                known[1] += call["function"].get("name") or ""
                known[2] += call["function"].get("arguments") or ""
    assert {0: ["c1", "look_up", '{"a": 1}'], 1: ["c2", "look_up", "{}"]} == calls


@pytest.mark.parametrize("streams", [False, True])
async def test_arguments_that_come_as_an_object_leave_as_text(streams: bool, start: Start) -> None:
    given = {"city": "Zürich", "number": 2**64}
    called = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "look_up", "arguments": given}}]
    events = [chunk({"tool_calls": called}), chunk({}, "tool_calls"), b"data: [DONE]\n\n"]
    answer = stream(events) if streams else reply(whole(None, tool_calls=called))
    async with start(answer, policy=policy(unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post({**(STREAM if streams else CHAT), "tools": [TOOL]})
    choice = _jsons(got.body)[0]["choices"][0]
    (call,) = choice["delta" if streams else "message"]["tool_calls"]
    assert ("look_up", given) == (call["function"]["name"], json.loads(call["function"]["arguments"]))


@pytest.mark.parametrize("streams", [False, True])
async def test_thoughts_among_the_parts_of_a_content_leave_as_reasoning(streams: bool, start: Start) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True}
    events = [chunk({"content": [thought]}), *streamed([TRUE])]
    answer = stream(events) if streams else reply(whole([thought, {"type": "text", "text": TRUE}]))
    async with start(answer, policy=policy(unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else CHAT)
    messages = [choice["delta" if streams else "message"] for one in _jsons(got.body) for choice in one["choices"]]
    said = ["".join(message.get(name) or "" for message in messages) for name in ("reasoning_content", "content")]
    assert ["Hm.", TRUE] == said


ORDINARY = [one for one in recorded("chat") if one.status == 200 and one.name != "unknown"]


@pytest.mark.parametrize("one", ORDINARY, ids=lambda one: one.name)
async def test_an_ordinary_stream_says_the_same_behind_the_gate(one: Exchanged, start: Start) -> None:
    async with start(stream([one.events]), policy=policy("gate", unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post(one.streamed_request)
    answers = []
    for body in (one.events, got.body):
        reader = ChatDialect().stream()
        reader.feed(body)
        answers.append((reader.answer, reader.usage, reader.unreadable, reader.complete))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("one", ORDINARY, ids=lambda one: one.name)
async def test_an_ordinary_answer_loses_nothing(one: Exchanged, start: Start) -> None:
    async with start(reply(one.answer), stream([one.events]), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        whole, streamed = await proxy.post(one.request), await proxy.post(one.streamed_request)
    assert (json.loads(one.answer), _jsons(one.events)) == (whole.json, _jsons(streamed.body))


def full() -> Body:
    """An answer with all that the official SDK's types name, and what providers are known to add."""
    token = {"token": TRUE, "bytes": list(TRUE.encode()), "logprob": -0.1}
    made = whole(
        TRUE,
        refusal=None,
        reasoning_content="Hm.",
        annotations=[
            {"type": "url_citation", "url_citation": {"url": "https://a.example/p", "title": "Hi", "start_index": 0, "end_index": 3}}
        ],
        tool_calls=[
            {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}},
            {"id": "c2", "type": "custom", "custom": {"name": "run", "input": "ls"}},
        ],
        audio=None,
    )
    made["choices"][0] |= {
        "logprobs": {"content": [{**token, "top_logprobs": [{**token, "token": " tower", "bytes": list(b" tower")}]}], "refusal": None},
        "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}},
    }
    return made | {
        "service_tier": "default",
        "metadata": {"about": "Hi"},
        "system_fingerprint": "fp_1",
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"jailbreak": {"filtered": False}}}],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 1, "accepted_prediction_tokens": 0},
        },
        "timings": {"predicted_ms": 12.5},
    }


async def test_what_the_types_of_the_sdk_name_passes(start: Start) -> None:
    custom = {"type": "custom", "custom": {"name": "run"}}
    async with start(reply(full()), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post({**CHAT, "tools": [TOOL, custom]})
    assert full() == got.json


async def test_unknown_fields_with_nothing_in_them_are_no_loss(start: Start) -> None:
    body = {**full(), "prompt_logprobs": None, "x_list": [], "x_text": ""}
    custom = {"type": "custom", "custom": {"name": "run"}}
    async with start(reply(body), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post({**CHAT, "tools": [TOOL, custom]})
    assert full() == got.json


async def test_a_name_that_clients_need_is_there(start: Start) -> None:
    async with start(reply({**whole(), "model": "Large Model 3", "id": FALSE}), policy=policy(), stages=ALL) as proxy:
        named, other = await proxy.post({**CHAT, "model": "Large Model 3"}), await proxy.post()
    assert ("Large Model 3", "", "") == (named.json["model"], named.json["id"], other.json["model"])


async def test_a_call_of_a_tool_that_the_client_has_but_the_proxy_did_not_send_passes(start: Start) -> None:
    tools = [
        {"type": "function", "function": {"name": f"tool_{i}", "description": f"Does {i}.", "parameters": {"type": "object"}}}
        for i in range(9)
    ]
    call = {"id": "c", "type": "function", "function": {"name": "tool_8", "arguments": "{}"}}
    narrow = policy().replace("stages: [", "stages: [budget, tool_rag: {above: 3, top_k: 2}, ")
    async with start(reply(whole(None, tool_calls=[call])), policy=narrow, stages=ALL) as proxy:
        got = await proxy.post({**CHAT, "tools": tools})
    assert [call] == got.json["choices"][0]["message"]["tool_calls"]


async def test_as_many_choices_as_were_asked_for(start: Start) -> None:
    body = {**whole(), "choices": choices(TRUE, "Yes.", "No.")}
    async with start(reply(body), policy=policy(), stages=ALL) as proxy:
        got = await proxy.post({**CHAT, "n": 2})
    assert [TRUE, "Yes."] == [choice["message"]["content"] for choice in got.json["choices"]]


async def test_what_stays_behind_is_counted_and_in_the_record(start: Start) -> None:
    async with start(reply({**whole(), "x_new": 1, "x_other": {"a": 1}}), policy=policy(), stages=ALL) as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
        figures = (await proxy.get("/metrics")).body.decode()
    changes = [change for change in record["detail"]["changes"] if change["stage"] == "upstream"]
    assert [{"completion.x_new": 1, "completion.x_other": 1}] == [change["fields"] for change in changes]
    assert "groundwire_answers_left_out_total 2" in figures


LOST: dict[str, Body] = {
    "audio": whole(None, audio={"id": "a", "transcript": FALSE}),
    "images": whole(None, images=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}]),
    "a part of an unknown type": whole([{"type": "image_url", "image_url": {"url": "https://a.example/"}}]),
    "words in an unknown field": {**whole(""), "reply": FALSE},
    "a word in a field of another API": {**whole(""), "choices": [{"index": 0, "text": "Rome", "finish_reason": "stop"}]},
    "words deeper in one": whole("", answer={"parts": [{"text": "Rome"}]}),
}


async def test_an_answer_of_which_nothing_is_left_is_refused(start: Start) -> None:
    async with start(*map(reply, LOST.values()), policy=policy(), stages=ALL) as proxy:
        answers = {shape: await proxy.post() for shape in LOST}
    assert dict.fromkeys(LOST, (400, "answer_unreadable")) == {
        shape: (got.status, got.json.get("error", {}).get("param")) for shape, got in answers.items()
    }


RIDERS: dict[str, Body] = {
    "a provider's name": {"provider": "Google AI Studio"},
    "a filter's list": {"prompt_filter_results": [{"content_filter_results": {"custom_blocklists": {"details": [{"id": "my list"}]}}}]},
    "an unknown name": {"metadata": {"weight_version": "default"}},
    "unknown figures": {"x_new": {"a": [1, True]}},
}


async def test_an_answer_without_words_that_lost_none_is_not_refused(start: Start) -> None:
    async with start(*(reply({**whole(""), **fields}) for fields in RIDERS.values()), policy=policy(), stages=ALL) as proxy:
        answers = {shape: await proxy.post() for shape in RIDERS}
    assert dict.fromkeys(RIDERS, (200, "", "stop")) == {
        shape: (got.status, got.json["choices"][0]["message"]["content"], got.json["choices"][0]["finish_reason"])
        for shape, got in answers.items()
    }


async def test_headers_are_those_of_a_list(start: Start) -> None:
    sent = {
        "x-request-id": "r1",
        "openai-processing-ms": "12",
        "x-ratelimit-remaining-requests": "9",
        "ratelimit-policy": "100;w=60, 5000;w=3600",
        "retry-after": "Sat, 28 Nov 2026 08:46:31 GMT",
        "openai-note": FALSE,
        "x-request-id-note": FALSE,
        "x-lie": FALSE,
        "link": "<a>",
        "server": "x",
    }
    async with start(reply(whole(), headers={**sent, "content-type": "text/html"}), policy=policy(), stages=ALL) as proxy:
        got = await proxy.post()
    kept = ("x-request-id", "openai-processing-ms", "x-ratelimit-remaining-requests", "ratelimit-policy", "retry-after")
    assert {name: sent[name] for name in kept} | {"content-type": "application/json"} == {
        name: got.headers.get(name) for name in (*kept, "content-type")
    }
    assert [] == [name for name in ("x-lie", "link", "openai-note", "x-request-id-note") if name in got.headers]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"error": {"message": "Too many.", "type": "requests", "code": "rate_limit_exceeded"}, "text": FALSE}, "Too many."),
        ({"detail": "Too many.", "text": FALSE, "x": [{"detail": FALSE}]}, "Too many."),
        ([{"error": {"code": 429, "message": "Too many.", "details": [FALSE]}}], "Too many."),
        ({"text": FALSE}, "the upstream answered with status 429"),
    ],
)
async def test_errors_are_those_of_the_api(sent: Any, message: str, start: Start) -> None:
    async with start(reply(sent, 429, {"retry-after": "3"}), policy=policy(), stages=ALL) as proxy:
        got = await proxy.post()
    assert (429, message, "3", False) == (got.status, got.json["error"]["message"], got.headers["retry-after"], b"Rome" in got.body)


async def test_an_open_policy_keeps_bytes_as_they_come(start: Start) -> None:
    body = json.dumps({**whole(), "x_new": 1}, indent=1).encode()
    async with start(reply(body), policy=policy(on_error="open"), stages=ALL) as proxy:
        got = await proxy.post()
    assert body == got.body


OTHERS: Callable[[str, Any], Body] = lambda key, value: {**CHAT, key: value}  # noqa: E731
SPELLINGS = {
    "Messages": OTHERS("Messages", [{"role": "user", "content": FALSE}]),
    "meſsages": OTHERS("meſsages", [{"role": "user", "content": FALSE}]),
    "MESSAGES": OTHERS("MESSAGES", []),
    "Model": OTHERS("Model", "other"),
    "Tools": OTHERS("Tools", []),
    "Input": OTHERS("Input", "x"),
    "System": OTHERS("System", "x"),
    "Content": {**CHAT, "messages": [{"role": "user", "content": "Hi", "Content": FALSE}]},
    "Role": {**CHAT, "messages": [{"role": "user", "Role": "system", "content": "Hi"}]},
    "Text": {**CHAT, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "Text": FALSE}]}]},
    "Name": {**CHAT, "tools": [{"type": "function", "function": {"name": "a", "Name": "b"}}]},
}


async def test_a_known_key_has_one_spelling(start: Start) -> None:
    strict = policy().replace("stages: [", "stages: [schema: {on_error: closed, on_violation: block}, ")
    async with start(reply(whole()), policy=strict, stages=ALL) as proxy:
        answers = {key: await proxy.post(body) for key, body in SPELLINGS.items()}
        assert [] == proxy.upstream.calls
    assert {key: (400, key) for key in SPELLINGS} == {key: (got.status, got.json["error"]["param"]) for key, got in answers.items()}


async def test_keys_of_the_clients_own_may_be_spelled_in_any_way(start: Start) -> None:
    properties = {"Name": {"type": "string"}, "Content": {"type": "string"}}
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": properties}}}
    async with start(reply(whole()), policy=policy(), stages=ALL) as proxy:
        got = await proxy.post({**CHAT, "tools": [tool], "metadata": {"Model": "x"}})
    assert 200 == got.status
