"""A provider of Google's ``generateContent``: the model of `tests.clients.model` behind the rules of that API."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from proxy.testing import ReceivedCall, reply, stream
from tests import gemini
from tests.clients.model import Asked, next_step
from tests.clients.provider import PIECE_BYTES

COUNTED = 14
"""What the provider's own count of tokens says."""
ADDRESS = re.compile(r"/v1(?:beta)?/models/([^:]+):(generateContent|streamGenerateContent\?alt=sse|countTokens)")
_FIELDS = frozenset(
    ("contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "cachedContent", "labels", "serviceTier")
)
Part = dict[str, Any]


async def answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """The reply to the methods of a model."""
    found, body = ADDRESS.fullmatch(call.path), call.json
    assert found is not None
    model, method = found.groups()
    if method == "countTokens":
        await reply({"totalTokens": COUNTED})(writer, call)
    elif model == "limited":
        await reply(_error(429, "RESOURCE_EXHAUSTED", "Too many requests."), 429, {"retry-after": "7"})(writer, call)
    elif problem := broken_rule(body, call):
        await reply(_error(400, "INVALID_ARGUMENT", problem), 400)(writer, call)
    else:
        await _answer(writer, call, model, method)


async def _answer(writer: asyncio.StreamWriter, call: ReceivedCall, model: str, method: str) -> None:
    step = next_step(_asked(call.json))
    thinking = (call.json.get("generationConfig") or {}).get("thinkingConfig") or {}
    thinks = [gemini.THOUGHT] if thinking.get("includeThoughts") or thinking.get("include_thoughts") else []
    if isinstance(step, str):
        parts = [*thinks, gemini.text(step)]
    else:
        signed = [{"thoughtSignature": gemini.SIGNATURE}, *({} for _ in step)]
        calls = [gemini.call(name, given, **more) for (name, given), more in zip(step, signed, strict=False)]
        parts = [*thinks, gemini.text("Let me look."), *calls]
    if method == "generateContent":
        await reply(gemini.answer(*parts))(writer, call)
        return
    events = gemini.streamed(*parts)
    data = b"".join(events).replace(b"\n\n", b"\r\n\r\n")  # as Google's servers end them
    if model == "breaks":
        await stream([b"".join(events[: len(events) // 2])], broken=True)(writer, call)
    else:
        await stream(data[i : i + PIECE_BYTES] for i in range(0, len(data), PIECE_BYTES))(writer, call)


def broken_rule(body: Any, call: ReceivedCall) -> str:
    """The rule of the API that a request breaks, or ""."""
    if not call.headers.get("x-goog-api-key", "").startswith("sk-") or "key=" in call.path:
        return "a key in its header is wanted"
    if unknown := body.keys() - _FIELDS:
        return f'Invalid JSON payload received. Unknown name "{min(unknown)}": Cannot find field.'
    names = [one["name"] for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    if len(set(names)) < len(names):
        return "Duplicate function declaration found"
    return _broken_pairs(body["contents"])


def _broken_pairs(contents: Any) -> str:
    """Each turn's calls are answered by as many responses in the next turn, and the first call of a turn is signed."""
    called: list[str] = []
    for i, item in enumerate(contents):
        if item["role"] not in ("user", "model"):
            return "Please use a valid role: user, model."
        answered = [part["functionResponse"]["name"] for part in item["parts"] if "functionResponse" in part]
        if sorted(answered) != sorted(called):
            return f"contents[{i}]: the number of function response parts must be equal to the number of function call parts"
        calls = [part for part in item["parts"] if "functionCall" in part]
        called = [part["functionCall"]["name"] for part in calls]
        if calls and "thoughtSignature" not in calls[0]:
            return f"contents[{i}]: function call is missing a thought_signature"
    return ""


def _asked(body: Any) -> Asked:
    contents = body["contents"]
    asks = [i for i, item in enumerate(contents) if item["role"] == "user" and not any("functionResponse" in p for p in item["parts"])]
    since: list[Part] = [part for item in contents[asks[-1] :] for part in item["parts"]]
    responses = [part["functionResponse"]["response"] for part in since if "functionResponse" in part]
    return Asked(
        question=" ".join(part["text"] for part in contents[asks[-1]]["parts"] if "text" in part),
        tools=tuple(one["name"] for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()),
        called=tuple(part["functionCall"]["name"] for part in since if "functionCall" in part),
        results=tuple(" ".join(map(str, response.values())) for response in responses),
        wants_json=(body.get("generationConfig") or {}).get("responseMimeType") == "application/json",
    )


def _error(code: int, status: str, problem: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": problem, "status": status}}
