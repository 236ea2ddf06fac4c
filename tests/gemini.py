"""Google's ``generateContent``, as a provider would answer it, and requests for it."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec.structs import replace

from proxy.exchange import Exchange, Prompt
from proxy.testing import make_exchange
from proxy.wire.gemini.dialect import GeminiDialect

MODEL = "gemini-2.5-flash"
WHOLE = f"/v1beta/models/{MODEL}:generateContent"
STREAM = f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
COUNT = f"/v1beta/models/{MODEL}:countTokens"
ASK: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "When does the tide turn?"}]}]}
USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12, "cachedContentTokenCount": 4}
THOUGHT = {"text": "Tides follow the moon.", "thought": True}
SIGNATURE = "CiQBVKhc7o+/AAEC"


def path(model: str = MODEL, *, streams: bool = False) -> str:
    """The address of a model."""
    return f"/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if streams else "generateContent")


_ADDRESS = re.compile(rb',\s*"model"\s*:\s*"([^"]+)"\s*,\s*"stream"\s*:\s*(true|false)(?=\s*}\s*\Z)')


def addressed(body: bytes) -> tuple[str, bytes]:
    """Path and body of a request that is kept with what its address says as its last fields."""
    match = _ADDRESS.search(body)
    assert match is not None
    return path(match[1].decode(), streams=match[2] == b"true"), body[: match.start()] + body[match.end() :]


def exchange_of(body: object) -> Exchange:
    """An exchange as the endpoint makes it."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = GeminiDialect().parse_request(GeminiDialect().merge_address(sent, f"/generateContent?model={MODEL}&stream=false"))
    return replace(make_exchange(), original=request, prompt=Prompt(request.messages, request.tools, request.params), model=request.model)


def text(said: str, **more: object) -> dict[str, Any]:
    return {"text": said, **more}


def call(name: str = "read", arguments: object = None, id: str = "", **more: object) -> dict[str, Any]:
    given = {"name": name, "args": arguments if arguments is not None else {"path": "a.txt"}}
    return {"functionCall": {"id": id, **given} if id else given, **more}


def result(response: object, name: str = "read", id: str = "") -> dict[str, Any]:
    given = {"name": name, "response": response}
    return {"functionResponse": {"id": id, **given} if id else given}


def said(*parts: dict[str, Any], role: str = "user") -> dict[str, Any]:
    """An item of ``contents``."""
    return {"role": role, "parts": list(parts)}


def function(name: str, **more: object) -> dict[str, Any]:
    return {"name": name, "description": f"To {name}.", "parameters": {"type": "OBJECT", "properties": {}}, **more}


def answer(*parts: dict[str, Any], reason: str = "STOP", **more: object) -> dict[str, Any]:
    """A whole answer."""
    candidate = {"content": {"parts": list(parts or (text("At noon."),)), "role": "model"}, "finishReason": reason, "index": 0}
    return {"candidates": [{**candidate, **more}], "usageMetadata": USAGE, "modelVersion": MODEL, "responseId": "resp-1"}


def event(payload: dict[str, Any]) -> bytes:
    """One event in the provider's own spelling."""
    return f"data: {json.dumps(payload)}\n\n".encode()


def streamed(*parts: dict[str, Any], reason: str = "STOP", size: int = 7, **more: object) -> list[bytes]:
    """The events of an answer: texts in pieces, the end with the last of them."""
    cut: list[dict[str, Any]] = []
    for part in parts or (text("At noon."),):
        words = part.get("text")
        pieces = [words[i : i + size] for i in range(0, len(words), size)] if words else []
        cut += [{**part, "text": piece} for piece in pieces] if pieces else [part]
    whole = answer(reason=reason, **more)
    found = []
    for i, part in enumerate(cut):
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
        if i == len(cut) - 1:
            candidate = {**whole["candidates"][0], **candidate}
        found.append(event({**whole, "candidates": [candidate]}))
    return found


def payloads(stream: bytes) -> list[dict[str, Any]]:
    """What a client reads of a stream."""
    lines = [line for line in stream.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def read(stream: bytes) -> dict[str, Any]:
    """A stream as the answer that it comes to: texts of one kind joined, all else in its order."""
    parts: list[dict[str, Any]] = []
    found: dict[str, Any] = {}
    candidate: dict[str, Any] = {}
    for payload in payloads(stream):
        found |= payload
        for one in payload.get("candidates", ()):
            candidate |= one
            for part in one.get("content", {}).get("parts", ()):
                if part.keys() <= {"text", "thought"} and parts and parts[-1].keys() == part.keys():
                    parts[-1] = {**part, "text": parts[-1]["text"] + part["text"]}
                elif part != {"text": ""}:
                    parts.append(part)
    return {**found, "candidates": [{**candidate, "content": {"parts": parts, "role": "model"}}]}


def text_of(whole: dict[str, Any]) -> str:
    """The words of an answer."""
    return "".join(part.get("text", "") for one in whole["candidates"][:1] for part in one["content"]["parts"] if not part.get("thought"))
