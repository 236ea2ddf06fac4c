"""What leaves for Google where stages changed the conversation, the tools or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.errors import InvalidRequest
from proxy.exchange import Message
from proxy.stages.compression.allocations import shorten_tool
from proxy.wire.gemini.address import readdress, with_address, without_address
from proxy.wire.gemini.dialect import GeminiDialect
from tests import gemini

PATH = "/generateContent?model=gemini-2.5-flash&stream=false"
AGENT: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        gemini.said(gemini.text("When does the tide turn?")),
        gemini.said(gemini.THOUGHT, gemini.text("I look."), gemini.call(thoughtSignature="c2ln"), gemini.call("list", {}), role="model"),
        gemini.said(gemini.result({"output": "At noon."}), gemini.result({"files": [1, 2]}, "list")),
        gemini.said(gemini.text("And then?")),
    ],
}


def rendered(body: dict[str, Any], change: Any) -> dict[str, Any]:
    """The body for Google with the messages that `change` makes of the client's."""
    exchange = gemini.exchange_of(body)
    exchange.messages = change(list(exchange.messages))
    _, _, sent = without_address(GeminiDialect().render_request(exchange))
    found: dict[str, Any] = json.loads(sent)
    return found


def test_stages_see_a_chat_whose_results_have_their_calls_ids() -> None:
    messages = gemini.exchange_of(AGENT).messages
    assert ["system", "user", "assistant", "tool", "tool", "user"] == [one["role"] for one in messages]
    calls = [call["id"] for call in messages[2]["tool_calls"]]
    assert calls == [one["tool_call_id"] for one in messages[3:5]] == ["call_1_2", "call_1_3"]
    assert ("I look.", "At noon.", '{"files":[1,2]}') == tuple(messages[i]["content"] for i in (2, 3, 4))


def test_a_changed_text_leaves_thoughts_calls_and_signatures_where_they_stood() -> None:
    sent = rendered(AGENT, lambda said: [*said[:2], {**said[2], "content": "I looked."}, *said[3:]])
    expected = json.loads(json.dumps(AGENT).replace("I look.", "I looked."))
    assert expected == sent


def test_a_changed_result_stays_in_its_field() -> None:
    sent = rendered(AGENT, lambda said: [*said[:3], {**said[3], "content": "At one."}, {**said[4], "content": "2 files"}, *said[5:]])
    parts = sent["contents"][2]["parts"]
    assert [{"output": "At one."}, {"output": "2 files"}] == [part["functionResponse"]["response"] for part in parts]


def test_changed_arguments_keep_the_signature() -> None:
    def change(said: list[Message]) -> list[Message]:
        call = said[2]["tool_calls"][0]
        changed = {**call, "function": {**call["function"], "arguments": '{"path":"b.txt"}'}}
        return [*said[:2], {**said[2], "tool_calls": [changed, said[2]["tool_calls"][1]]}, *said[3:]]

    part = rendered(AGENT, change)["contents"][1]["parts"][2]
    assert {"functionCall": {"name": "read", "args": {"path": "b.txt"}}, "thoughtSignature": "c2ln"} == part


@pytest.mark.parametrize(("model", "signed"), [("gemini-2.5-flash", None), ("gemini-3-pro", "skip_thought_signature_validator")])
def test_a_call_that_a_stage_adds_says_that_it_has_no_signature(model: str, signed: str | None) -> None:
    call = {"id": "gw0000000", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    turn = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "gw0000000", "content": "Error: no path."}]
    body = with_address(json.dumps(gemini.ASK).encode(), PATH.replace("gemini-2.5-flash", model))
    exchange = gemini.exchange_of(body)
    request = GeminiDialect().parse_request(body)
    exchange.original, exchange.messages = request, [*request.messages, *turn]
    sent = json.loads(without_address(GeminiDialect().render_request(exchange))[2])["contents"][-2:]
    call_part = {"functionCall": {"name": "read", "args": {}}} | ({"thoughtSignature": signed} if signed else {})
    assert [gemini.said(call_part, role="model"), gemini.said(gemini.result({"output": "Error: no path."}))] == sent


def test_rules_stand_behind_the_clients_instruction() -> None:
    sent = rendered(AGENT, lambda said: [said[0], {"role": "system", "content": "Cite."}, *said[1:]])
    assert [{"text": "Be brief."}, {"text": "Cite."}] == sent["systemInstruction"]["parts"]
    assert AGENT["contents"] == sent["contents"]


def test_rules_stand_behind_what_the_user_said_where_the_instruction_is_cached() -> None:
    body = {"contents": AGENT["contents"], "cachedContent": "cachedContents/1"}
    sent = rendered(body, lambda said: [{"role": "system", "content": "Cite."}, *said])
    assert "systemInstruction" not in sent
    assert [{"text": "And then?"}, {"text": "Cite."}] == sent["contents"][-1]["parts"]


def test_what_is_left_of_a_cut_conversation_begins_with_the_user() -> None:
    sent = rendered(AGENT, lambda said: [said[0], *said[2:]])
    assert ("user", "model") == tuple(item["role"] for item in sent["contents"][:2])
    assert AGENT["contents"][1:] == sent["contents"][1:]


def test_an_emptied_message_is_left_out() -> None:
    sent = rendered(AGENT, lambda said: [*said[:-1], {**said[-1], "content": " "}])
    assert AGENT["contents"][:-1] == sent["contents"]


def test_both_spellings_and_single_objects_are_read() -> None:
    part = {"inline_data": {"mime_type": "image/png", "data": "iVBO"}}
    body = {"contents": {"parts": [{"text": "See:"}, part]}, "system_instruction": {"parts": {"text": "Be brief."}}}
    messages = gemini.exchange_of(body).messages
    assert "Be brief." == messages[0]["content"]
    assert [{"type": "text", "text": "See:"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}] == messages[1][
        "content"
    ]
    sent = rendered(body, lambda said: [{**said[0], "content": "Be long."}, *said[1:]])
    assert ({"parts": [{"text": "Be long."}]}, [{"parts": [{"text": "See:"}, part]}]) == (sent["system_instruction"], sent["contents"])


def test_a_hint_of_a_message_is_read_and_does_not_leave() -> None:
    body = {"contents": [{**gemini.said(gemini.text("Hi")), "groundwire": {"timestamp": 5}}]}
    exchange = gemini.exchange_of(body)
    assert {0: {"timestamp": 5}} == exchange.original.message_hints
    assert {"contents": [gemini.said(gemini.text("Hi"))]} == rendered(body, lambda said: said)


TOOLS = [
    {"functionDeclarations": [gemini.function("read"), gemini.function("write")], "codeExecution": {}},
    {"googleSearch": {"timeRangeFilter": {}}},
    {"function_declarations": [{**gemini.function("list"), "behavior": "BLOCKING"}]},
]


def with_tools(change: Any) -> Any:
    exchange = gemini.exchange_of({**gemini.ASK, "tools": TOOLS, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}})
    exchange.tools = change(list(exchange.tools))
    return json.loads(without_address(GeminiDialect().render_request(exchange))[2])


def test_functions_leave_in_the_order_of_the_stages_and_other_tools_as_they_came() -> None:
    sent = with_tools(lambda tools: [tools[4], tools[0], tools[2], tools[3]])
    functions = [{**gemini.function("list"), "behavior": "BLOCKING"}, gemini.function("read")]
    assert [{"functionDeclarations": functions, "codeExecution": {}}, {"googleSearch": {"timeRangeFilter": {}}}] == sent["tools"]


def test_a_tool_of_the_providers_may_have_any_name() -> None:
    exchange = gemini.exchange_of({**gemini.ASK, "tools": [{"googleSearch": {"name": "x"}}, {"mcpServers": [{"name": "y"}]}]})
    exchange.tools = [*exchange.tools, {"type": "function", "function": {"name": "find"}}]
    sent = json.loads(without_address(GeminiDialect().render_request(exchange))[2])
    assert [{"googleSearch": {"name": "x"}}, {"mcpServers": [{"name": "y"}]}, {"functionDeclarations": [{"name": "find"}]}] == sent["tools"]


def test_a_shorter_description_changes_nothing_else() -> None:
    sent = with_tools(lambda tools: [{**tools[0], "function": {**tools[0]["function"], "description": "Reads."}}, *tools[1:]])
    assert {**gemini.function("read"), "description": "Reads."} == sent["tools"][0]["functionDeclarations"][0]


def test_parameters_that_a_stage_has_shortened_leave_as_json_schema() -> None:
    where = {"type": "STRING", "description": "Where it is. A path.", "nullable": True}
    declared = {**gemini.function("read"), "parameters": {"type": "OBJECT", "properties": {"path": where}}}
    exchange = gemini.exchange_of({**gemini.ASK, "tools": [{"functionDeclarations": [declared, gemini.function("list")]}]})
    exchange.tools = [shorten_tool(tool, 1, 1) for tool in exchange.tools]
    (sent,) = json.loads(without_address(GeminiDialect().render_request(exchange))[2])["tools"]
    made = {"type": "object", "properties": {"path": {"type": ["string", "null"], "description": "Where it is."}}}
    assert [
        {"name": "read", "description": "To read.", "parametersJsonSchema": made},
        gemini.function("list"),
    ] == sent["functionDeclarations"]


def test_without_tools_nothing_is_said_of_them() -> None:
    assert gemini.ASK == with_tools(lambda tools: [])


PARTS = st.one_of(
    st.builds(gemini.text, st.text(min_size=1, max_size=9)),
    st.builds(lambda said: {"text": said, "thought": True}, st.text(max_size=9)),
    st.builds(gemini.call, st.sampled_from(["read", "list"]), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)),
    st.builds(gemini.result, st.one_of(st.just({"output": "x"}), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2))),
    st.sampled_from([{"inlineData": {"mimeType": "image/png", "data": "iVBO"}}, {"thoughtSignature": "c2ln"}, {"newPart": {"x": 1}}]),
)
ITEMS = st.lists(
    st.builds(lambda role, parts: {"role": role, "parts": parts}, st.sampled_from(["user", "model"]), st.lists(PARTS, max_size=4)),
    min_size=1,
)


@example([gemini.said(gemini.result({"output": "x"})), gemini.said(gemini.result({"output": "x"}))])
@given(ITEMS)
def test_whatever_is_not_changed_leaves_in_its_bytes(items: Sequence[dict[str, Any]]) -> None:
    body = json.dumps({"contents": items}, indent=1).encode()
    exchange = gemini.exchange_of(body)
    assert (gemini.MODEL, False, body) == without_address(GeminiDialect().render_request(exchange))
    exchange.messages = [*exchange.messages, {"role": "user", "content": "More."}]
    _, _, sent = without_address(GeminiDialect().render_request(exchange))
    there = [item for item in items if item["parts"]]
    lead = len(json.loads(sent)["contents"]) - 1 - len(there)
    assert (there, lead in (0, 1)) == (json.loads(sent)["contents"][lead:-1], True)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3), st.sampled_from([None, 1]), st.booleans())
def test_an_address_goes_into_a_body_and_out_of_it_again(fields: dict[str, Any], indent: int | None, streams: bool) -> None:
    fields = {name: value for name, value in fields.items() if name not in ("model", "stream")}
    body = json.dumps(fields, indent=indent).encode() + b"\n"
    whole = with_address(body, f"/generateContent?model=a%2Fb&stream={str(streams).lower()}")
    assert {**fields, "model": "a/b", "stream": streams} == json.loads(whole)
    assert ("a/b", streams, body) == without_address(whole)


@pytest.mark.parametrize("name", ["", "../files", "a/../b", "a b", "x?y", "a%2F", "é"])
def test_what_is_no_models_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="model"):
        without_address(json.dumps({"contents": [], "model": name, "stream": False}).encode())


@pytest.mark.parametrize(
    ("path", "query", "inner", "asked"),
    [
        ("/p/v1beta/models/g:generateContent", "key=K", "/p/v1/generateContent", "model=g&stream=false"),
        ("/v1beta/models/qwen3:8b:generateContent", "", "/v1/generateContent", "model=qwen3%3A8b&stream=false"),
        ("/v1beta/models/g:generateContent", "key=K&key=%0aX:1&key=%00", "/v1/generateContent", "model=g&stream=false"),
        ("/v1/models/a/b:streamGenerateContent", "alt=sse", "/v1/generateContent", "model=a%2Fb&stream=true"),
        ("/v1beta/tunedModels/t:countTokens", "", "/v1/generateContent/countTokens", "model=tunedModels%2Ft&stream=false"),
        ("/v1beta/models/g", "key=K&x=1", "/v1/models/g", "x=1"),
        ("/v1/chat/completions", "x=1", "/v1/chat/completions", "x=1"),
    ],
)
def test_an_address_becomes_a_path_and_a_query(path: str, query: str, inner: str, asked: str) -> None:
    async def send(message: dict[str, Any]) -> None:
        raise AssertionError

    scope = {"method": "POST", "path": path, "raw_path": path.encode(), "query_string": query.encode(), "headers": []}
    found, _ = readdress(scope, send)
    assert (inner, asked.encode()) == (found["path"], found["query_string"])
    assert ([(b"x-goog-api-key", b"K")] if "key=K" in query else []) == found["headers"]
