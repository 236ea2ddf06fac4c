"""A provider of OpenAI's Responses: the model of `tests.clients.model` behind the rules of that API."""

from __future__ import annotations

import asyncio
from typing import Any

from proxy.testing import ReceivedCall, reply, stream
from tests.clients.model import Asked, arguments_json, next_step
from tests.clients.provider import PIECE_BYTES
from tests.responses_api import Item, call_item, encode, event, events, reasoning_item, response, text_item

_kept: dict[str, list[Item]] = {}
"""What the provider remembers of a response: its input and its output, by id."""
CALLS, RESULTS = ("function_call",), ("function_call_output",)


async def answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """The reply to ``POST /v1/responses``."""
    body = call.json
    items = _items(body)
    if body["model"] == "limited":
        await reply(_error("Too many requests.", "rate_limit_exceeded"), 429, {"retry-after": "7"})(writer, call)
    elif problem := broken_rule(body, items, call):
        await reply(_error(problem, "invalid_request_error"), 400)(writer, call)
    else:
        await _answer(writer, call, body, items)


async def _answer(writer: asyncio.StreamWriter, call: ReceivedCall, body: Any, items: list[Item]) -> None:
    number = len(_kept)
    step = next_step(_asked(body, items))
    output = [reasoning_item(f"rs_{number}")]
    if isinstance(step, str):
        output.append(text_item(step, identity=f"msg_{number}"))
    else:
        output += [
            _call(name, arguments_json(given), f"call_{i}_{name.rpartition('.')[2]}_{number}") for i, (name, given) in enumerate(step)
        ]
    named = {"id": f"resp_{number}", "model": body["model"]}
    _kept[named["id"]] = [*items, *output]
    if not body.get("stream"):
        await reply(response(*output, **named), headers={"x-request-id": "req_test"})(writer, call)
        return
    told = events(*output, **named)
    data = b"".join(told)
    if body["model"] == "breaks":
        await stream([b"".join(told[: len(told) // 2])], broken=True)(writer, call)
    elif body["model"] == "fails":
        failed = event("error", code="server_error", message="The server had an error", param=None, sequence_number=2)
        await stream([b"".join(told[:2]), encode(failed)])(writer, call)
    else:
        await stream(data[i : i + PIECE_BYTES] for i in range(0, len(data), PIECE_BYTES))(writer, call)


def broken_rule(body: Any, items: list[Item], call: ReceivedCall) -> str:
    """The rule of the API that a request breaks, or ""."""
    if not call.headers.get("authorization", "").startswith("Bearer sk-"):
        return "a key is wanted"
    if "groundwire" in body:
        return "Unknown parameter: 'groundwire'."
    if body.get("previous_response_id") and body["previous_response_id"] not in _kept:
        return f"Previous response with id '{body['previous_response_id']}' not found."
    calls = [item["call_id"] for item in items if item.get("type") in CALLS]
    results = [item["call_id"] for item in items if item.get("type") in RESULTS]
    if sorted(calls) != sorted(results):
        return f"No tool output found for function calls, or no call for an output: {sorted({*calls} ^ {*results})}."
    if any(item.get("encrypted_content") not in (None, reasoning_item()["encrypted_content"]) for item in items):
        return "The encrypted content could not be verified."
    return ""


def _items(body: Any) -> list[Item]:
    """The whole conversation: what the provider remembers, then what was sent."""
    sent = body["input"]
    own = [{"type": "message", "role": "user", "content": sent}] if isinstance(sent, str) else sent
    return [*_kept.get(body.get("previous_response_id") or "", []), *own]


def _asked(body: Any, items: list[Item]) -> Asked:
    beside = {i + 1 for i, item in enumerate(items) if item.get("type") in RESULTS}  # words that come with a result are no question
    asks = [i for i, item in enumerate(items) if item.get("role") == "user" and i not in beside]
    since = items[asks[-1] :]
    return Asked(
        question=_text(since[0]["content"]),
        tools=tuple(name for tool in body.get("tools") or () for name in _names(tool)),
        called=tuple(item["name"] for item in since if item.get("type") in CALLS),
        results=tuple(_text(item["output"]) for item in since if item.get("type") in RESULTS),
        wants_json=((body.get("text") or {}).get("format") or {}).get("type", "text") != "text",
    )


def _names(tool: Any) -> list[str]:
    """Of a namespace, as Codex has one for each MCP server, those of its tools: ``mcp__tides.tide_table``."""
    if tool["type"] == "namespace":
        return [f"{tool['name']}.{one['name']}" for one in tool["tools"]]
    return [tool["name"]] if "name" in tool else []


def _call(name: str, arguments: str, call_id: str) -> Item:
    namespace, _, own = name.rpartition(".")
    return {**call_item(own, arguments, call_id), **({"namespace": namespace} if namespace else {})}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _error(problem: str, code: str) -> dict[str, Any]:
    return {"error": {"message": problem, "type": "invalid_request_error", "param": None, "code": code}}
