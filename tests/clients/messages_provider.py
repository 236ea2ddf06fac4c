"""A provider of Anthropic's Messages: the model of `tests.clients.model` behind the rules of that API."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import Any

from proxy.testing import ReceivedCall, reply, stream
from tests.clients.model import Asked, next_step
from tests.clients.provider import PIECE_BYTES
from tests.messages import THINKING, message, streamed, text, use

COUNTED = 14
"""What the provider's own count of tokens says."""
Block = dict[str, Any]
_numbers = count()
"""Of messages: clients take two with one id for one."""


async def answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """The reply to ``POST /v1/messages`` and to ``/count_tokens`` below it."""
    body = call.json
    if call.path.partition("?")[0].endswith("/count_tokens"):
        await reply({"input_tokens": COUNTED})(writer, call)
    elif body["model"] == "limited":
        await reply(_error("rate_limit_error", "Too many requests."), 429, {"retry-after": "7"})(writer, call)
    elif problem := broken_rule(body, call):
        await reply(_error("invalid_request_error", problem), 400)(writer, call)
    else:
        await _answer(writer, call, body)


async def _answer(writer: asyncio.StreamWriter, call: ReceivedCall, body: Any) -> None:
    step = next_step(_asked(body))
    thinks = [THINKING] if _thinks(body) else []
    if isinstance(step, str):
        blocks = [*thinks, text(step)]
    else:
        calls = (use(name, given, f"toolu_{len(body['messages'])}_{i}_{name}") for i, (name, given) in enumerate(step))
        blocks = [*thinks, text("Let me look."), *calls]
    named = {"id": f"msg_{next(_numbers)}", "model": body["model"]}
    if not body.get("stream"):
        await reply(message(*blocks, **named), headers={"request-id": "req_test"})(writer, call)
        return
    events = streamed(*blocks, **named)
    data = b"".join(events)
    if body["model"] == "breaks":
        await stream([b"".join(events[: len(events) // 2])], broken=True)(writer, call)
    else:
        await stream(data[i : i + PIECE_BYTES] for i in range(0, len(data), PIECE_BYTES))(writer, call)


def broken_rule(body: Any, call: ReceivedCall) -> str:
    """The rule of the API that a request breaks, or ""."""
    key = call.headers.get("x-api-key") or call.headers.get("authorization", "").removeprefix("Bearer ")
    if not (key.startswith("sk-") and call.headers.get("anthropic-version")):
        return "a key and anthropic-version are wanted"
    names = [tool["name"] for tool in body.get("tools") or ()]
    if len(set(names)) < len(names):
        return "tools: names must be unique"
    if json.dumps(body).count('"cache_control": {') > 4:
        return "a maximum of 4 blocks with cache_control may be provided"
    if "groundwire" in body:
        return "groundwire: extra inputs are not permitted"
    return _broken_pairs(body)


def _broken_pairs(body: Any) -> str:
    """Calls and results, and the thinking in front of them."""
    open_ids: set[str] = set()
    for i, said in enumerate(body["messages"]):
        blocks = _blocks(said)
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != open_ids:
            return f"messages.{i}: tool_use ids {sorted(open_ids)} must be answered by tool_result blocks, found {sorted(results)}"
        open_ids = {block["id"] for block in blocks if block["type"] == "tool_use"}
        if open_ids and _thinks(body) and blocks[0] != THINKING:
            return f"messages.{i}.content.0: thinking blocks cannot be modified"
    return ""


def _asked(body: Any) -> Asked:
    messages = [(said["role"], _blocks(said)) for said in body["messages"]]
    asks = [i for i, (role, blocks) in enumerate(messages) if role == "user" and not any(b["type"] == "tool_result" for b in blocks)]
    since = [block for _, blocks in messages[asks[-1] :] for block in blocks]
    return Asked(
        question=" ".join(block["text"] for block in messages[asks[-1]][1] if block["type"] == "text"),
        tools=tuple(tool["name"] for tool in body.get("tools") or ()),
        called=tuple(block["name"] for block in since if block["type"] == "tool_use"),
        results=tuple(_result(block["content"]) for block in since if block["type"] == "tool_result"),
        wants_json=bool((body.get("output_config") or {}).get("format") or body.get("output_format")),
    )


def _thinks(body: Any) -> bool:
    return (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")


def _blocks(said: Any) -> list[Block]:
    content = said["content"]
    return [text(content)] if isinstance(content, str) else content


def _result(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())


def _error(kind: str, problem: str) -> Block:
    return {"type": "error", "error": {"type": kind, "message": problem}, "request_id": "req_test"}
