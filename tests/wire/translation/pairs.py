"""One conversation in the four APIs, part by part: what is a request of one is, translated, the request of another."""

from __future__ import annotations

import json
from typing import Any

from proxy.config.settings import Api
from proxy.ports.upstream import Past
from proxy.wire.translation.translate import Exchange, Server
from tests import gemini

PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": False}


def asked(client: Api, server: Api, body: dict[str, Any], past: Past | None = None, **more: Any) -> dict[str, Any]:
    """The server's body."""
    found = exchange(client, server, **more).request(json.dumps(body).encode(), past or Past())
    decoded: dict[str, Any] = json.loads(found)
    return decoded


def exchange(client: Api, server: Api, **more: Any) -> Exchange:
    return Exchange(client, Server("main", server, **more), 1700000000, "1")


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **more}


def responses(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "input": list(items), **more}


def messages(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 100, "messages": list(items), **more}


def said(text: str, role: str = "user") -> dict[str, Any]:
    """An item of Responses."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


QUESTION = {"role": "user", "content": "When does the tide turn?"}

AGENT: dict[Api, dict[str, Any]] = {
    "chat": chat(
        {"role": "system", "content": "Be brief."},
        QUESTION,
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a.txt"}'}},
                {"id": "call_2", "type": "function", "function": {"name": "read", "arguments": '{"path":"b.txt"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "At noon."},
        {"role": "tool", "tool_call_id": "call_2", "content": "Naïve ☕"},
        {"role": "user", "content": "And then?"},
        tools=[{"type": "function", "function": {"name": "read", "description": "To read.", "parameters": SCHEMA}}],
        tool_choice={"type": "function", "function": {"name": "read"}},
        parallel_tool_calls=False,
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        reasoning_effort="low",
        user="u-1",
    ),
    "responses": responses(
        said("Be brief.", "system"),
        said("When does the tide turn?"),
        said("I look.", "assistant"),
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path":"a.txt"}'},
        {"type": "function_call", "call_id": "call_2", "name": "read", "arguments": '{"path":"b.txt"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "At noon."},
        {"type": "function_call_output", "call_id": "call_2", "output": "Naïve ☕"},
        said("And then?"),
        tools=[{"type": "function", "name": "read", "strict": False, "description": "To read.", "parameters": SCHEMA}],
        tool_choice={"type": "function", "name": "read"},
        parallel_tool_calls=False,
        max_output_tokens=100,
        temperature=0.5,
        top_p=0.9,
        reasoning={"effort": "low"},
        user="u-1",
        store=False,
    ),
    "messages": messages(
        QUESTION,
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "a.txt"}},
                {"type": "tool_use", "id": "call_2", "name": "read", "input": {"path": "b.txt"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "At noon."},
                {"type": "tool_result", "tool_use_id": "call_2", "content": "Naïve ☕"},
                {"type": "text", "text": "And then?"},
            ],
        },
        system="Be brief.",
        tools=[{"name": "read", "description": "To read.", "input_schema": SCHEMA}],
        tool_choice={"type": "tool", "name": "read", "disable_parallel_tool_use": True},
        temperature=0.5,
        top_p=0.9,
        output_config={"effort": "low"},
        metadata={"user_id": "u-1"},
    ),
    "gemini": {
        "model": "m",
        "stream": False,
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            gemini.said(gemini.text("When does the tide turn?")),
            gemini.said(
                gemini.text("I look."),
                gemini.call("read", {"path": "a.txt"}, "call_1"),
                gemini.call("read", {"path": "b.txt"}, "call_2"),
                role="model",
            ),
            gemini.said(
                gemini.result({"output": "At noon."}, "read", "call_1"),
                gemini.result({"output": "Naïve ☕"}, "read", "call_2"),
                gemini.text("And then?"),
            ),
        ],
        "tools": [{"functionDeclarations": [{"name": "read", "description": "To read.", "parametersJsonSchema": SCHEMA}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}},
        "generationConfig": {"maxOutputTokens": 100, "temperature": 0.5, "topP": 0.9, "thinkingConfig": {"thinkingLevel": "LOW"}},
    },
}
"""The same request of an agent, with two parallel calls and their results."""


def between(client: Api, server: Api, one: Api) -> dict[str, Any]:
    """The agent's request in the API `one`, without what Gemini's API has no field for where one of the two speaks it."""
    body = dict(AGENT[one])
    if "gemini" in (client, server):
        for name in ("parallel_tool_calls", "user", "metadata"):
            body.pop(name, None)
        if one == "messages":
            body["tool_choice"] = {"type": "tool", "name": "read"}
    return body


FORM = {"name": "tide", "schema": SCHEMA, "strict": True}
SEEN: dict[Api, dict[str, Any]] = {
    "chat": chat(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
            ],
        },
        max_tokens=100,
        response_format={"type": "json_schema", "json_schema": FORM},
    ),
    "responses": responses(
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": PNG, "detail": "auto"},
                {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
                {"type": "input_file", "file_data": PDF, "filename": "a.pdf"},
            ],
        },
        max_output_tokens=100,
        text={"format": {"type": "json_schema", **FORM}},
        store=False,
    ),
    "messages": messages(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}, "title": "a.pdf"},
            ],
        },
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
    ),
    "gemini": {
        "model": "m",
        "stream": False,
        "contents": [
            gemini.said(
                gemini.text("What is this?"),
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"}},
                {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}},
            )
        ],
        "generationConfig": {"maxOutputTokens": 100, "responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
    },
}
"""The same request with pictures and a file, for an answer of one form."""
