"""Stages that offer tools of the proxy's own, and answers that call them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from proxy.exchange import Exchange, Sentence, ToolCall, Verdict
from proxy.ports.stage import SentenceStage, Stage, can_answer_tools
from proxy.ports.tool_servers import NoServers, ServerTool
from proxy.stages.registry import STAGES
from proxy.testing import chunk, completion
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import CHAT

FIND = "groundwire_find_tools"


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


class Finder(Stage):
    """Offers a tool that finds tools; what it finds joins the request."""

    name = "finder"
    changes = ("tools",)
    answers = (FIND,)
    keeps_from_calls = True

    async def on_request(self, exchange: Exchange) -> None:
        if can_answer_tools(exchange, FIND):
            exchange.tools = [*exchange.tools, function(FIND)]

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        query = (call.parsed or {}).get("q")
        if query == "boom":
            raise RuntimeError("boom")
        if query == "slow":
            await asyncio.sleep(60)
        exchange.tools = [*exchange.tools, function("book_hotel")]
        return f"found for {query}"


class Shop(NoServers):
    """Servers with one tool each."""

    async def tools(self, servers: Sequence[str]) -> list[ServerTool]:
        return [ServerTool(server, "pay", function(f"mcp__{server}__pay")) for server in servers]


class Careless(Finder):
    """Offers it without asking whether its calls can be answered."""

    name = "careless"

    async def on_request(self, exchange: Exchange) -> None:
        exchange.tools = [*exchange.tools, function(FIND)]


class Passing(Stage):
    """Looks at every answer."""

    name = "passing"
    seen: list[str] = []

    async def on_answer(self, exchange: Exchange) -> Verdict:
        assert exchange.answer is not None
        type(self).seen.append(exchange.answer.text)
        return Verdict("passing", "pass")


class Listening(SentenceStage):
    """Looks at every sentence."""

    name = "listening"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> None:
        return None


ALL = (*STAGES, Finder, Careless, Passing, Listening)
TAP, HOLD, GATE = (
    "name: p\ndelivery: tap\nstages: [finder: {timeout_ms: 200}]\n",
    "name: p\ndelivery: hold\nstages: [finder: {timeout_ms: 200}, passing: {}]\n",
    "name: p\ndelivery: gate\nstages: [finder: {timeout_ms: 200}, listening: {}]\n",
)
DELIVERIES = [TAP, HOLD, GATE]
TOOLS = {**CHAT, "tools": [function("search_flights")]}
STREAM = {**TOOLS, "stream": True}


def called(name: str = FIND, arguments: str = '{"q":"hotel"}', identity: str = "call_1", **more: object) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def calling(*calls: Mapping[str, Any], text: str | None = None, finish: str = "tool_calls", **more: object) -> dict[str, Any]:
    """A completion that calls tools."""
    message = {"role": "assistant", "content": text, "refusal": None, "tool_calls": list(calls)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return completion(choices=[choice], **more)


def call_events(*calls: Mapping[str, Any], words: Sequence[str] = (), finish: str = "tool_calls", identity: str = "one") -> list[bytes]:
    """A stream that says something and calls tools, as OpenAI sends it: name first, then the arguments in pieces."""
    events = [chunk({"role": "assistant", "content": None if not words else ""}, id=identity)]
    events += [chunk({"content": word}, id=identity) for word in words]
    for index, call in enumerate(calls):
        arguments = call["function"]["arguments"]
        head = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        events.append(chunk({"tool_calls": [head]}, id=identity))
        for piece in (arguments[:4], arguments[4:]):
            events.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, id=identity))
    return [*events, chunk({}, finish, id=identity), b"data: [DONE]\n\n"]


def usage_event(prompt: int, words: int, identity: str = "one") -> bytes:
    fields = {"id": identity, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    usage = {"prompt_tokens": prompt, "completion_tokens": words, "total_tokens": prompt + words}
    return b"data: " + json.dumps({**fields, "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 2}}}).encode() + b"\n\n"


def read(body: bytes) -> Any:
    """The one choice of a well-formed stream."""
    assert body.endswith(b"data: [DONE]\n\n")
    assert 1 == body.count(b"[DONE]")
    reader = ChatDialect().stream()
    reader.feed(body)
    assert reader.complete
    return reader.answer.choices[0]


def chunks(body: bytes) -> list[Any]:
    return [json.loads(event[6:]) for event in body.split(b"\n\n") if event.startswith(b"data: {")]


def names(call: Any) -> list[str]:
    return [tool["function"]["name"] for tool in call.json.get("tools", [])]
