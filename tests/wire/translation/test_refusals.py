"""What has no counterpart is a 400 that names the field."""

from typing import Any

import pytest

from proxy.config.settings import Api
from proxy.errors import InvalidRequest
from tests import gemini as api
from tests.wire.translation.pairs import AGENT, PNG, QUESTION, SCHEMA, asked, chat, messages, responses, said

TOOL = {"type": "function", "function": {"name": "read", "parameters": SCHEMA}}
ITEM = said("Hi")
CLEARS = {"edits": [{"type": "clear_tool_uses_20250919"}]}


IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


def gemini(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": api.MODEL, "contents": [api.said(*(parts or (api.text("Hi"),)))], **more}


def blocks(*content: dict[str, Any]) -> dict[str, Any]:
    return messages({"role": "user", "content": list(content)})


CASES: list[tuple[Api, Api, dict[str, Any], str]] = [
    ("chat", "messages", chat(QUESTION, n=2), "n"),
    ("chat", "responses", chat(QUESTION, n=2), "n"),
    ("chat", "messages", chat(QUESTION, seed=1), "seed"),
    ("chat", "messages", chat(QUESTION, logprobs=True), "logprobs"),
    ("chat", "messages", chat(QUESTION, temperature=1.5), "temperature"),
    ("chat", "responses", chat(QUESTION, stop=["x"]), "stop"),
    ("chat", "messages", chat(QUESTION, response_format={"type": "json_object"}), "response_format"),
    ("chat", "messages", chat(QUESTION, reasoning_effort="minimal"), "reasoning_effort"),
    ("chat", "messages", chat(QUESTION, metadata={"a": "b"}), "metadata"),
    ("chat", "messages", chat(QUESTION, store=True), "store"),
    ("chat", "messages", chat(QUESTION, frequency_penalty=0.5), "frequency_penalty"),
    ("chat", "messages", chat(QUESTION, never_heard_of="it"), "never_heard_of"),
    ("chat", "messages", chat({**QUESTION, "name": "Ann"}), "messages[0].name"),
    (
        "chat",
        "messages",
        chat(QUESTION, {"role": "tool", "tool_call_id": "1", "content": [{"type": "refusal", "refusal": "No."}]}),
        "messages[1].content[0]",
    ),
    ("chat", "messages", chat({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}), "messages[0].content[0].type"),
    (
        "chat",
        "messages",
        chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}]}),
        "messages[0].content[0]",
    ),
    ("chat", "messages", chat(QUESTION, tools=[{"type": "custom", "custom": {"name": "patch"}}]), "tools[0]"),
    ("chat", "messages", chat(QUESTION, tools=[TOOL], tool_choice={"type": "allowed_tools", "allowed_tools": {}}), "tool_choice"),
    ("chat", "messages", chat(QUESTION, web_search_options={}), "web_search_options"),
    ("chat", "responses", chat(QUESTION, tools=[{**TOOL, "defer_loading": True}]), "tools[0].defer_loading"),
    ("chat", "responses", chat(QUESTION, tools=[{"type": "custom", "custom": {"name": "f", "async": True}}]), "tools[0].custom.async"),
    ("chat", "responses", chat(QUESTION, functions=[{"name": "read"}]), "functions"),
    (
        "chat",
        "messages",
        chat(
            QUESTION,
            {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
            {"role": "tool", "tool_call_id": "1", "content": ""},
        ),
        "messages[1].tool_calls[0].function.arguments",
    ),
    ("messages", "chat", {**messages(QUESTION), "top_k": 5}, "top_k"),
    ("messages", "chat", messages(QUESTION, thinking={"type": "enabled", "budget_tokens": 2000}), "thinking"),
    ("messages", "chat", messages(QUESTION, output_config={"effort": "utmost"}), "output_config.effort"),
    ("messages", "chat", messages(QUESTION, context_management=CLEARS), "context_management"),
    ("messages", "chat", messages(QUESTION, mcp_servers=[{}]), "mcp_servers"),
    ("messages", "responses", messages(QUESTION, stop_sequences=["x"]), "stop_sequences"),
    ("messages", "chat", messages(QUESTION, {"role": "assistant", "content": "The tide"}), "messages[1]"),
    ("messages", "chat", messages(QUESTION, tools=[{"type": "web_search_20250305", "name": "web_search"}]), "tools[0].type"),
    ("messages", "chat", messages(QUESTION, tools=[{"name": "a", "input_schema": {}, "input_examples": [{}]}]), "tools[0].input_examples"),
    ("messages", "chat", blocks({"type": "search_result", "source": "x", "title": "x", "content": []}), "messages[0].content[0].type"),
    (
        "messages",
        "chat",
        blocks({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}),
        "messages[0].content[0].source.type",
    ),
    (
        "messages",
        "chat",
        blocks({"type": "document", "source": {"type": "url", "url": "https://x"}, "citations": {"enabled": True}}),
        "messages[0].content[0].citations",
    ),
    ("messages", "chat", blocks({"type": "document", "source": {"type": "url", "url": "https://x"}}), "messages[0].content[0]"),
    (
        "messages",
        "chat",
        blocks({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}),
        "messages[0].content[0].content[0]",
    ),
    (
        "messages",
        "chat",
        messages(QUESTION, {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": "EqQB"}]}, QUESTION),
        "messages[1].content[0]",
    ),
    ("responses", "chat", responses(ITEM, previous_response_id="resp_1"), "previous_response_id"),
    ("responses", "messages", responses(ITEM, conversation="conv_1"), "conversation"),
    ("responses", "chat", responses(ITEM, background=True), "background"),
    ("responses", "chat", responses(ITEM, truncation="auto"), "truncation"),
    ("responses", "chat", responses(ITEM, include=["file_search_call.results"]), "include"),
    ("responses", "chat", responses(ITEM, reasoning={"effort": "low", "summary": "whole"}), "reasoning.summary"),
    ("responses", "messages", responses(ITEM, text={"verbosity": "low"}), "text.verbosity"),
    ("responses", "chat", responses(ITEM, max_tool_calls=2), "max_tool_calls"),
    ("responses", "chat", responses(ITEM, prompt_cache_options={"prewarm": True}), "prompt_cache_options.prewarm"),
    ("responses", "chat", responses(ITEM, reasoning={"mode": "pro"}), "reasoning.mode"),
    (
        "responses",
        "chat",
        responses(ITEM, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}", "caller": {"type": "program"}}),
        "input[1].caller",
    ),
    ("responses", "chat", responses(ITEM, prompt={"id": "p"}), "prompt"),
    ("responses", "chat", responses(ITEM, tools=[{"type": "web_search"}]), "tools[0].type"),
    ("responses", "messages", responses(ITEM, tools=[{"type": "custom", "name": "patch"}]), "tools[0]"),
    ("responses", "chat", responses(ITEM, tools=[{"type": "custom", "name": "f", "defer_loading": True}]), "tools[0].defer_loading"),
    ("responses", "chat", responses({"type": "item_reference", "id": "msg_1"}), "input[0].type"),
    ("responses", "chat", responses({"type": "web_search_call", "id": "ws_1"}, ITEM), "input[0].type"),
    ("responses", "chat", responses({"type": "reasoning", "summary": [], "encrypted_content": "gAAAB"}, ITEM), "input[0]"),
    (
        "responses",
        "chat",
        responses({"role": "user", "content": [{"type": "input_image", "image_url": PNG, "file_id": "file_1"}]}),
        "input[0].content[0].file_id",
    ),
    ("gemini", "chat", gemini(tools=[{"googleSearch": {}}]), "tools[0].googleSearch"),
    ("gemini", "messages", gemini(tools=[{"functionDeclarations": [{"name": "f"}]}, {"code_execution": {}}]), "tools[1].codeExecution"),
    ("gemini", "chat", gemini({**IMAGE, "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}}), "contents[0].parts[0].mediaResolution"),
    ("gemini", "responses", gemini({**IMAGE, "video_metadata": {"fps": 2}}), "contents[0].parts[0].videoMetadata"),
]


@pytest.mark.parametrize(("client", "server", "body", "param"), CASES, ids=[f"{one[0]}-{one[1]}-{one[3]}" for one in CASES])
def test_a_field_without_a_counterpart_is_named(client: Api, server: Api, body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest, match="upstream main is asked in the API") as refused:
        asked(client, server, body)
    assert param == refused.value.param


@pytest.mark.parametrize(
    ("dropped", "body"),
    [
        ("thinking", messages(QUESTION, thinking={"type": "enabled", "budget_tokens": 2000})),
        ("context_management", messages(QUESTION, context_management=CLEARS)),
        ("tools.type", {**messages(QUESTION), "tools": [AGENT["messages"]["tools"][0], {"type": "web_search_20260209", "name": "w"}]}),
        ("tools.input_examples", messages(QUESTION, tools=[{**AGENT["messages"]["tools"][0], "input_examples": [{}]}])),
        ("messages.content", messages(QUESTION, {"role": "user", "content": [{"type": "search_result"}]})),
    ],
)
def test_the_operator_can_let_a_field_be_left_out(dropped: str, body: dict[str, Any]) -> None:
    plain = {name: value for name, value in body.items() if name not in ("thinking", "context_management")}
    plain = {**plain, "messages": [QUESTION]} | ({"tools": AGENT["messages"]["tools"]} if "tools" in body else {})
    assert asked("messages", "chat", plain) == asked("messages", "chat", body, dropped=(dropped,))


@pytest.mark.parametrize(
    ("client", "body", "param"),
    [
        ("chat", {"model": "m", "messages": "Hi"}, "messages"),
        ("chat", chat({"role": "user", "content": [{"type": "text"}]}), "messages[0].content[0].text"),
        ("chat", {"messages": []}, "model"),
        ("messages", messages({"role": "user", "content": [{"type": "image"}]}), "messages[0].content[0].source"),
        ("responses", responses({"type": "function_call", "call_id": "1", "name": "f"}), "input[0].arguments"),
        ("responses", responses(ITEM, tools=[{"type": "function"}]), "tools[0].name"),
    ],
)
def test_what_is_malformed_is_named_too(client: Api, body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        asked(client, "chat" if client == "messages" else "messages", body)
    assert param == refused.value.param


@pytest.mark.parametrize("client", ["chat", "responses", "messages"])
def test_what_is_null_asks_for_nothing(client: Api) -> None:
    body = {**AGENT[client], "seed": None, "never_heard_of": None, "metadata": AGENT[client].get("metadata")}
    server: Api = "chat" if client != "chat" else "messages"
    assert AGENT[server] == asked(client, server, body)
