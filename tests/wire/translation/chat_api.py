"""What a provider of chat completions says: whole, and as chunks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 3,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
HEAD = {"id": "chatcmpl-1", "created": 1700000000, "model": "gpt-5"}


def call(name: str = "read", arguments: str = '{"path":"a.txt"}', id: str = "call_1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def whole(content: str | None = "At noon.", finish: str = "", **more: Any) -> dict[str, Any]:
    """A completion."""
    message = {"role": "assistant", "content": content, **more}
    finish = finish or ("tool_calls" if "tool_calls" in more else "stop")
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}


def event(payload: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def chunk(delta: Mapping[str, Any], finish: str | None = None, id: str = "chatcmpl-1") -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({**HEAD, "id": id, "object": "chat.completion.chunk", "choices": [choice]})


def chunks(completion: Mapping[str, Any], size: int = 4) -> list[bytes]:
    """The same as a stream with its usage."""
    choice = completion["choices"][0]
    message = choice["message"]
    found = [chunk({"role": "assistant", "content": ""}, id=completion["id"])]
    for name in ("reasoning_content", "content", "refusal"):
        text = message.get(name) or ""
        found += [chunk({name: text[i : i + size]}) for i in range(0, len(text), size)]
    for index, one in enumerate(message.get("tool_calls") or ()):
        given = one["function"]["arguments"]
        head = {**one, "function": {"name": one["function"]["name"], "arguments": ""}}
        found.append(chunk({"tool_calls": [{"index": index, **head}]}))
        pieces = [given[i : i + size] for i in range(0, len(given), size)]
        found += [chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in pieces]
    found.append(chunk({}, choice["finish_reason"]))
    found.append(event({**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": completion["usage"]}))
    return [*found, b"data: [DONE]\n\n"]


def payloads(stream: bytes) -> list[dict[str, Any]]:
    """The chunks of a stream, which must end with its mark."""
    *found, mark, rest = stream.decode().split("\n\n")
    assert ("data: [DONE]", "") == (mark, rest)
    return [json.loads(one.removeprefix("data: ")) for one in found]


def read(stream: bytes) -> dict[str, Any]:
    """A stream as the completion that it comes to; calls stand in the order of their index."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    found: dict[str, Any] = {"usage": None}
    for payload in payloads(stream):
        head = {name: payload[name] for name in HEAD}
        found = {**found, **head, "usage": payload.get("usage") or found["usage"]}
        for choice in payload["choices"]:
            _add(message, choice["delta"])
            found["finish_reason"] = choice["finish_reason"] or found.get("finish_reason")
    return {**found, "message": message}


def _add(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name in ("content", "refusal", "reasoning_content"):
        if delta.get(name):
            message[name] = (message.get(name) or "") + delta[name]
    calls: list[dict[str, Any]] = message.setdefault("tool_calls", []) if delta.get("tool_calls") else []
    for one in delta.get("tool_calls") or ():
        if "id" in one:
            assert len(calls) == one["index"]
            calls.append({"id": one["id"], "type": one["type"], "function": dict(one["function"])})
        else:
            calls[one["index"]]["function"]["arguments"] += one["function"]["arguments"]


def split(stream: bytes, at: int) -> Sequence[bytes]:
    """The stream in two."""
    return stream[:at], stream[at:]
