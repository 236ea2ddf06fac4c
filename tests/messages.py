"""Anthropic's Messages, as a provider would send them, and requests for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from proxy.exchange import Exchange, Prompt
from proxy.testing import make_exchange
from proxy.wire.messages.dialect import MessagesDialect

PATH = "/v1/messages"
ASK = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "When does the tide turn?"}]}
STREAM = {**ASK, "stream": True}
USAGE = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 3}


def exchange_of(body: object) -> Exchange:
    """An exchange as the endpoint makes it."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = MessagesDialect().parse_request(sent)
    return replace(make_exchange(), original=request, prompt=Prompt(request.messages, request.tools, request.params), model=request.model)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(name: str = "read", arguments: object = None, id: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments if arguments is not None else {"path": "a.txt"}}


def result(content: object = "It turns at noon.", id: str = "toolu_1", **more: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


THINKING = {"type": "thinking", "thinking": "Tides follow the moon.", "signature": "EqQB+/=="}


def tool(name: str, **more: object) -> dict[str, Any]:
    return {"name": name, "description": f"To {name}.", "input_schema": {"type": "object", "properties": {}}, **more}


def message(*blocks: dict[str, Any], reason: str | None = None, **more: object) -> dict[str, Any]:
    """A whole answer."""
    content = blocks or (text("At noon."),)
    calls = any(block["type"] == "tool_use" for block in content)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": list(content),
        "stop_reason": reason or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": USAGE,
        **more,
    }


def event(payload: dict[str, Any]) -> bytes:
    """One event in the provider's own spelling."""
    return f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n".encode()


def deltas(block: dict[str, Any], size: int = 7) -> list[dict[str, Any]]:
    """The deltas of a block."""
    if block["type"] == "thinking":
        return [{"type": "thinking_delta", "thinking": block["thinking"]}, {"type": "signature_delta", "signature": block["signature"]}]
    said = block.get("text") or (json.dumps(block["input"]) if block["type"] == "tool_use" else "")
    kind, name = ("text_delta", "text") if block["type"] == "text" else ("input_json_delta", "partial_json")
    made = [{"type": kind, name: said[i : i + size]} for i in range(0, len(said), size)]
    return made + [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]


def streamed(*blocks: dict[str, Any], reason: str | None = None, **more: object) -> list[bytes]:
    """The events of an answer."""
    whole = message(*blocks, reason=reason, **more)
    head = {**whole, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1}}
    found: list[dict[str, Any]] = [{"type": "message_start", "message": head}, {"type": "ping"}]
    for index, block in enumerate(whole["content"]):
        empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}.get(block["type"], {})
        bare = {key: value for key, value in {**block, **empty}.items() if key != "citations"}
        found.append({"type": "content_block_start", "index": index, "content_block": bare})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas(block)]
        found.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    found += [{"type": "message_delta", "delta": end, "usage": {"output_tokens": 3}}, {"type": "message_stop"}]
    return [event(payload) for payload in found]


def payloads(body: bytes) -> list[dict[str, Any]]:
    """The events of a stream, parsed; each event's name must be its type."""
    found = []
    for part in body.split(b"\n\n"):
        lines = dict(line.split(b": ", 1) for line in part.split(b"\n") if line and not line.startswith(b":"))
        if lines:
            found.append(json.loads(lines[b"data"]))
            assert lines[b"event"].decode() == found[-1]["type"]
    return found


def read(body: bytes) -> dict[str, Any]:
    """A stream as the message that it comes to, by the API's rules: blocks open and close in order, each in its place."""
    whole: dict[str, Any] = {}
    open_block: int | None = None
    arguments = ""
    for payload in payloads(body):
        kind = payload["type"]
        if kind == "message_start":
            whole = {**payload["message"], "content": []}
        elif kind == "content_block_start":
            assert (None, len(whole["content"])) == (open_block, payload["index"])
            open_block, arguments = payload["index"], ""
            whole["content"].append(dict(payload["content_block"]))
        elif kind == "content_block_delta":
            assert open_block == payload["index"]
            block, delta = whole["content"][-1], payload["delta"]
            if delta["type"] == "input_json_delta":
                arguments += delta["partial_json"]
            elif delta["type"] == "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] += delta[name]
        elif kind == "content_block_stop":
            assert open_block == payload["index"]
            open_block = None
            if whole["content"][-1]["type"] == "tool_use":
                whole["content"][-1]["input"] = json.loads(arguments or "{}")
        elif kind == "message_delta":
            whole = {**whole, **payload["delta"], "usage": {**whole["usage"], **payload["usage"]}}
    assert open_block is None
    return whole


def says(blocks: Sequence[dict[str, Any]]) -> list[str]:
    """The texts of blocks, and the types of what is no text."""
    return [block["text"] if block["type"] == "text" else block["type"] for block in blocks]
