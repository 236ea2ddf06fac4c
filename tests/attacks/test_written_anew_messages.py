"""Messages under a closed policy: nothing leaves that was not read, and nothing is lost of an ordinary answer."""

import json
from typing import Any

import pytest

from proxy.testing import reply, stream
from proxy.wire.messages.dialect import MessagesDialect
from tests import messages as api
from tests.attacks.geographer import ALL, FALSE, TRUE, policy
from tests.conftest import Start
from tests.exchanges import Exchanged, recorded
from tests.messages import ASK, PATH, event, message, streamed, text

STREAM = {**ASK, "stream": True}
TOOLS = {
    "tools": [api.tool("read"), {"type": "web_search_20250305", "name": "web_search"}, {"type": "code_execution_20250825", "name": "code"}]
}
Block = dict[str, Any]


def result(kind: str, content: object) -> Block:
    return {"type": f"{kind}_tool_result", "tool_use_id": "srvtoolu_1", "content": content}


CITED = {"type": "char_location", "document_index": 0, "start_char_index": 0, "end_char_index": 5}
BLOCKS: dict[str, Any] = {
    "an unknown block": {"type": "note", "text": FALSE},
    "a string": FALSE,
    "a text that is an object": {"type": "text", "text": {"value": FALSE}},
    "a tool's result": result("mcp", [{"type": "text", "text": FALSE}]),
    "a result that is a string": result("mcp", FALSE),
    "a page": result(
        "web_search", [{"type": "web_search_result", "url": "https://a.example/", "title": FALSE, "encrypted_content": "Ab=="}]
    ),
    "a page that was fetched": result(
        "web_fetch", {"type": "web_fetch_result", "url": "https://a.example/", "content": {"source": {"type": "text", "data": FALSE}}}
    ),
    "advice": result("advisor", {"type": "advisor_result", "text": FALSE, "stop_reason": "end_turn"}),
    "what a server's tools are said to be": {
        "type": "mcp_tool_listing",
        "mcp_server_name": "s",
        "tools": [{"name": "x", "description": FALSE, "input_schema": {"title": FALSE}}],
    },
    "why a file was not seen": result(
        "text_editor_code_execution", {"type": "text_editor_code_execution_tool_result_error", "error_message": FALSE}
    ),
    "what a program wrote": result("code_execution", {"type": "code_execution_result", "stdout": FALSE, "stderr": FALSE, "return_code": 0}),
    "a file": result("text_editor_code_execution", {"type": "text_editor_code_execution_view_result", "content": FALSE}),
    "a result of an unknown tool": result("weather", FALSE),
    "a plain result": {"type": "tool_result", "tool_use_id": "t", "content": FALSE},
    "a cited text": {**text(" Yes."), "citations": [{**CITED, "cited_text": FALSE, "document_title": FALSE}]},
    "a citation of a page": {
        **text(" Yes."),
        "citations": [{"type": "web_search_result_location", "url": "https://a.example/", "title": FALSE, "cited_text": FALSE}],
    },
    "a field of a text": {**text(" Yes."), "note": FALSE, "display": {"text": FALSE}},
    "a summary of what was said": {"type": "compaction", "content": FALSE},
    "a call of a tool that was not offered": {"type": "tool_use", "id": "t", "name": "say", "input": {"text": FALSE}},
    "a call of an MCP server": {"type": "mcp_tool_use", "id": "t", "name": "say", "server_name": "s", "input": {"text": FALSE}},
    "a signature that is a sentence": {"type": "thinking", "thinking": "Hm.", "signature": FALSE},
}


async def test_of_a_body_only_what_was_read_leaves(start: Start) -> None:
    bodies = [{**message(text(TRUE)), "content": [text(TRUE), block]} for block in BLOCKS.values()]
    async with start(*map(reply, bodies), policy=policy(), stages=ALL) as proxy:
        answers = {shape: await proxy.post({**ASK, **TOOLS}, PATH) for shape in BLOCKS}
    assert [] == [shape for shape, got in answers.items() if b"Rome" in got.body]
    assert dict.fromkeys(BLOCKS, (200, TRUE)) == {shape: (got.status, got.json["content"][0]["text"]) for shape, got in answers.items()}


AROUND = {"text": FALSE, "output_text": FALSE, "completion": FALSE, "stop_sequence": FALSE, "usage": {"note": FALSE, "output_tokens": 3}}


async def test_of_a_message_only_the_known_fields_leave(start: Start) -> None:
    async with start(reply({**message(text(TRUE)), **AROUND}), policy=policy(), stages=ALL) as proxy:
        got = await proxy.post(ASK, PATH)
    assert (200, False, {"output_tokens": 3}) == (got.status, b"Rome" in got.body, got.json["usage"])


@pytest.mark.parametrize("streams", [False, True])
async def test_a_refusal_without_words_stays_one_and_its_explanation_behind(streams: bool, start: Start) -> None:
    credit = {"fallback_credit_token": "Ab==", "fallback_has_prefill_claim": True, "recommended_model": "claude-opus-5"}
    details = {"type": "refusal", "category": "cyber", "explanation": FALSE, **credit}
    end, told = b'"stop_reason": "refusal"', b'"stop_reason": "refusal", "stop_details": ' + json.dumps(details).encode()
    events = [one.replace(end, told) for one in streamed(text(""), reason="refusal")]
    answer = stream(events) if streams else reply(message(text(""), reason="refusal", stop_details=details))
    async with start(answer, policy=policy(), stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else ASK, PATH)
    assert (200, True, False) == (got.status, b'"category":"cyber"' in got.body, b"Rome" in got.body)
    assert json.dumps(credit, separators=(",", ":")).encode()[1:-1] in got.body


async def test_what_is_cited_from_the_request_stays(start: Start) -> None:
    citation = {**CITED, "cited_text": "the tide", "document_title": None}
    block = {**text(TRUE), "citations": [citation]}
    async with start(reply(message(block)), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post(ASK, PATH)
    assert [block] == got.json["content"]


def _started(block: Any, index: int = 1) -> list[Block]:
    return [{"type": "content_block_start", "index": index, "content_block": block}, {"type": "content_block_stop", "index": index}]


def _delta(delta: Any, index: int = 0) -> Block:
    return {"type": "content_block_delta", "index": index, "delta": delta}


LIE = {"type": "text_delta", "text": FALSE}
EVENTS: dict[str, list[Any]] = {
    **{
        f"{shape}, streamed": _started(block)
        for shape, block in BLOCKS.items()
        if "tool that" in shape or "result" in shape or "an " in shape
    },
    "text before its block": [{**_delta(LIE), "index": 7}],
    "text of no block": [{"type": "content_block_delta", "delta": LIE}],
    "a block that begins twice": [*_started(text(FALSE), 0), _delta(LIE)],
    "a text for a block of another type": [_started({"type": "thinking", "thinking": ""})[0], _delta(LIE, 1), _started(None)[1]],
    "arguments of a text": [_started(text(""))[0], _delta({"type": "input_json_delta", "partial_json": FALSE}, 1), _started(None)[1]],
    "a delta of another type": [_started(text(""))[0], _delta({"type": "note_delta", "text": FALSE}, 1), _started(None)[1]],
    "a delta that is no text": [_started(text(""))[0], _delta({"type": "text_delta", "text": [FALSE]}, 1), _started(None)[1]],
    "an unknown event": [{"type": "note", "text": FALSE}],
    "a field of a ping": [{"type": "ping", "text": FALSE}],
    "a delta of what was said": [{"type": "message_delta", "delta": {"stop_reason": None, "text": FALSE}, "usage": {"output_tokens": 1}}],
    "a citation": [
        _started(text(""))[0],
        _delta({"type": "citations_delta", "citation": {**CITED, "cited_text": FALSE}}, 1),
        _started(None)[1],
    ],
}


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_of_a_stream_only_what_was_read_leaves(delivery: str, start: Start) -> None:
    whole = streamed(text(TRUE))
    streams = {shape: [*whole[:-2], *map(event, events), *whole[-2:]] for shape, events in EVENTS.items()}
    async with start(*map(stream, streams.values()), policy=policy(delivery), stages=ALL) as proxy:
        answers = {shape: await proxy.post({**STREAM, **TOOLS}, PATH) for shape in streams}
    assert [] == [shape for shape, got in answers.items() if b"Rome" in got.body]
    assert dict.fromkeys(streams, (200, text(TRUE))) == {
        shape: (got.status, api.read(got.body)["content"][0]) for shape, got in answers.items()
    }


async def test_a_message_that_begins_with_its_text(start: Start) -> None:
    head, *rest = streamed(text(TRUE))
    begun = json.loads(head.split(b"data: ")[1])
    begun["message"]["content"] = [text(FALSE)]
    events = [event(begun), *rest, event(_delta(LIE)), event({"type": "note", "text": FALSE})]
    async with start(stream(events), policy=policy("gate"), stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH)
    assert (False, [text(TRUE)]) == (b"Rome" in got.body, api.read(got.body)["content"])


SPLIT = {
    "next to each other": [text("It stands in R"), text("ome.")],
    "around what is left out": [text("It stands in R"), {"type": "note"}, text("ome.")],
}


@pytest.mark.parametrize("delivery", ["hold", "gate"])
@pytest.mark.parametrize("shape", SPLIT)
async def test_blocks_are_judged_as_clients_join_them(shape: str, delivery: str, start: Start) -> None:
    async with start(reply(message(*SPLIT[shape])), stream(streamed(*SPLIT[shape])), policy=policy(delivery), stages=ALL) as proxy:
        whole, streamed_ = await proxy.post(ASK, PATH), await proxy.post(STREAM, PATH)
    assert (400, False) == (whole.status, b"ome." in streamed_.body)


@pytest.mark.parametrize("delivery", ["hold", "gate"])
@pytest.mark.parametrize(("one", "other"), [("It stands in R", "ome."), ("It stands in the", " city."), ("It is 3.", "5 m"), ("U.", "S.")])
async def test_texts_around_thoughts_make_no_word_that_was_not_read(one: str, other: str, delivery: str, start: Start) -> None:
    blocks = [text(one), api.THINKING, text(other)]
    async with start(reply(message(*blocks)), stream(streamed(*blocks)), policy=policy(delivery), stages=ALL) as proxy:
        whole, streamed_ = await proxy.post(ASK, PATH), await proxy.post(STREAM, PATH)
    for left in (whole.json["content"], api.read(streamed_.body)["content"]):
        assert f"{one}\n\n{other}" == "".join(block.get("text", "") for block in left)


async def test_plain_texts_around_a_call_are_not_changed(start: Start) -> None:
    blocks = [text("Let me look."), api.THINKING, text("The tower stands in Paris."), api.use()]
    async with start(reply(message(*blocks)), stream(streamed(*blocks)), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        whole, streamed_ = await proxy.post({**ASK, **TOOLS}, PATH), await proxy.post({**STREAM, **TOOLS}, PATH)
    assert (blocks, blocks) == (whole.json["content"], api.read(streamed_.body)["content"])


ORDINARY = [one for one in recorded("messages") if one.status == 200 and one.name != "unknown"]


@pytest.mark.parametrize("one", ORDINARY, ids=lambda one: one.name)
async def test_an_ordinary_stream_says_the_same_behind_the_gate(one: Exchanged, start: Start) -> None:
    async with start(stream([one.events]), policy=policy("gate", unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post(one.streamed_request, PATH)
    answers = []
    for body in (one.events, got.body):
        reader = MessagesDialect().stream()
        reader.feed(body)
        answers.append((reader.answer, reader.usage, reader.unreadable, reader.complete))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("one", ORDINARY, ids=lambda one: one.name)
async def test_an_ordinary_answer_loses_nothing(one: Exchanged, start: Start) -> None:
    async with start(reply(one.answer), stream([one.events]), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        whole, streamed_ = await proxy.post(one.request, PATH), await proxy.post(one.streamed_request, PATH)
    assert (json.loads(one.answer), api.payloads(one.events)) == (whole.json, api.payloads(streamed_.body))


async def test_what_the_types_of_the_sdk_name_passes(start: Start) -> None:
    page = {"type": "web_search_result", "url": "https://a.example/", "title": "a.example", "encrypted_content": "Ab==", "page_age": None}
    cited = {
        "type": "web_search_result_location",
        "url": "https://a.example/",
        "title": "a.example",
        "cited_text": "",
        "encrypted_index": "Eo8=",
    }
    blocks = [
        api.THINKING,
        {"type": "redacted_thinking", "data": "EmwKAhgB=="},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "the tower"},
            "caller": {"type": "direct"},
        },
        result("web_search", [page]),
        {**result("advisor", {"type": "advisor_redacted_result", "encrypted_content": "Ab==", "stop_reason": "end_turn"})},
        {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": [{"name": "x", "description": "", "input_schema": {}}]},
        result("mcp", ""),
        {**text(TRUE), "citations": [cited]},
        api.use(arguments={"n": 12345678901234567890123, "path": "a.txt"}),
    ]
    more = {
        "container": {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z", "skills": None},
        "stop_details": None,
        "context_management": {"applied_edits": []},
        "input_transformations": [{"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "model_binding_mismatch"}],
    }
    body = message(*blocks, **more)
    async with start(reply(body), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post({**ASK, **TOOLS}, PATH)
    assert (b"", body) == (got.body if got.status != 200 else b"", json.loads(got.body))


@pytest.mark.parametrize("depth", [300, 1000, 5000])
async def test_what_is_nested_too_deep_is_refused(depth: int, start: Start) -> None:
    body = json.dumps(message(api.use(arguments="DEEP"))).replace('"DEEP"', '{"a":' * depth + "1" + "}" * depth).encode()
    bodies = [body, body.replace(b'"input"', b'"caller"'), body.replace(b":1}", b":12345678901234567890123}")]
    async with start(*map(reply, bodies), policy=policy(), stages=ALL) as proxy:
        answers = [await proxy.post({**ASK, **TOOLS}, PATH) for _ in bodies]
    assert [400] * 3 == [got.status for got in answers]


async def test_errors_are_those_of_the_api(start: Start) -> None:
    sent = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded", "text": FALSE},
        "request_id": "req_1",
        "x": FALSE,
    }
    async with start(reply(sent, 529), reply({"detail": "Down", "x": FALSE}, 500), policy=policy(), stages=ALL) as proxy:
        known, other = await proxy.post(ASK, PATH), await proxy.post(ASK, PATH)
    told = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}
    assert (529, told, 500) == (known.status, known.json, other.status)
    assert {"type": "error", "error": {"type": "api_error", "message": "Down"}} == other.json


async def test_a_known_key_has_one_spelling(start: Start) -> None:
    bodies = {
        "System": {**ASK, "System": FALSE},
        "Messages": {**ASK, "Messages": []},
        "Content": {**ASK, "messages": [{"role": "user", "content": "Hi", "Content": FALSE}]},
    }
    async with start(reply(message()), policy=policy(), stages=ALL) as proxy:
        answers = {key: await proxy.post(body, PATH) for key, body in bodies.items()}
    assert dict.fromkeys(bodies, 400) == {key: got.status for key, got in answers.items()}


@pytest.mark.parametrize("kind", [FALSE, "web_search_tool_result"])
async def test_a_translated_answer_that_cannot_be_told_names_no_type_that_was_made_up(kind: str, start: Start) -> None:
    ask = {"model": "m", "messages": [{"role": "user", "content": "Where?"}]}
    made = {**api.message(api.text(TRUE)), "content": [{"type": kind, "text": TRUE}]}
    async with start(reply(made), policy=policy(), stages=ALL, kind="anthropic", apis="[messages]") as proxy:
        got = await proxy.post(ask, "/v1/chat/completions")
    assert (502, kind == "web_search_tool_result") == (got.status, kind.encode() in got.body)
