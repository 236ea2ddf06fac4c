"""Libraries of one API, unchanged but for their base URL, before a server of another: text, tools, streams, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.config.settings import Api
from proxy.testing import ReceivedCall, reply, stream
from tests.clients.conftest import TRANSLATED_ROUTES, Outcome, RunByRoute
from tests.clients.expected import ROUND_TRIP, WEATHER_CALLS
from tests.clients.provider import TEXT as REPLY
from tests.conftest import Start
from tests.wire.translation.pairs import SCHEMA
from tests.wire.translation.test_answers import TEXT, WHOLE, streamed

pytestmark = pytest.mark.clients
GATE = "name: gate\ndelivery: gate\nstages: [budget, claims]\n"
CALLS = [("read", {"path": "a.txt"}), ("list", {})]
HELLO = [{"role": "user", "content": "Hi"}]
TOLD = "It turns at noon."


def provider(server: Api) -> Any:
    """Calls tools where there are any and no results, refuses one model, and says a text else."""

    async def answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        body = call.json
        if body["model"] == "busy":
            await reply({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}, 429)(writer, call)
            return
        found = WHOLE["calls" if body.get("tools") and TOLD not in call.body.decode() else "text"][server]
        await (stream([streamed(server, found)]) if body.get("stream") else reply(found))(writer, call)

    return answer


@asynccontextmanager
async def openai(start: Start, server: Api) -> AsyncIterator[Any]:
    library = pytest.importorskip("openai")
    served = start(provider(server), policy=GATE, apis=f"[{server}]")
    async with served as proxy, library.AsyncOpenAI(base_url=proxy.url + "/v1", api_key="k", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("server", ["chat", "messages"])
async def test_openai_responses(start: Start, server: Api) -> None:
    tools: Any = [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name, _ in CALLS]
    async with openai(start, server) as client:
        whole = await client.responses.create(model="m", input="Hi")
        assert (TEXT, "completed") == (whole.output_text, whole.status)
        async with client.responses.stream(model="m", input="Hi", tools=tools) as events:
            deltas = [event.delta async for event in events if event.type == "response.output_text.delta"]
            asked = await events.get_final_response()
        assert "I look." == "".join(deltas)
        calls = [item for item in asked.output if item.type == "function_call"]
        assert CALLS == [(call.name, json.loads(call.arguments)) for call in calls]
        results: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": TOLD} for call in calls]
        told = await client.responses.create(model="m", input=results, tools=tools, previous_response_id=asked.id)
        assert TEXT == told.output_text
        brought = [{"role": "user", "content": "Hi"}, *(item.model_dump(exclude_none=True) for item in asked.output), *results]
        assert TEXT == (await client.responses.create(model="m", input=brought, tools=tools, store=False)).output_text


async def collected(stream: Any) -> tuple[dict[str, Any], int]:
    """The message that the pieces of a streamed completion make, and the prompt's tokens."""
    calls: dict[int, dict[str, Any]] = {}
    text, tokens = "", 0
    async for event in stream:
        tokens = event.usage.prompt_tokens if event.usage else tokens
        for choice in event.choices:
            text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, {"id": piece.id, "type": "function", "function": {"name": "", "arguments": ""}})
                call["function"]["name"] += piece.function.name or ""
                call["function"]["arguments"] += piece.function.arguments or ""
    return {"role": "assistant", "content": text, "tool_calls": [calls[i] for i in sorted(calls)]}, tokens


@pytest.mark.parametrize("server", ["responses", "messages"])
async def test_openai_chat(start: Start, server: Api) -> None:
    tools: Any = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name, _ in CALLS]
    async with openai(start, server) as client:
        whole = await client.chat.completions.create(model="m", messages=HELLO)
        assert (TEXT, "stop") == (whole.choices[0].message.content, whole.choices[0].finish_reason)
        usage = {"include_usage": True}
        stream = await client.chat.completions.create(model="m", messages=HELLO, tools=tools, stream=True, stream_options=usage)
        message, tokens = await collected(stream)
        assert CALLS == [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message["tool_calls"]]
        assert tokens > 0
        results: Any = [{"role": "tool", "tool_call_id": call["id"], "content": TOLD} for call in message["tool_calls"]]
        told = await client.chat.completions.create(model="m", messages=[*HELLO, message, *results], tools=tools)
        assert TEXT == told.choices[0].message.content


@pytest.fixture(scope="module", params=TRANSLATED_ROUTES)
def python(request: pytest.FixtureRequest, run_by_route: RunByRoute) -> Outcome:
    return run_by_route("anthropic_messages.py", str(request.param))


def test_anthropic_messages(python: Outcome) -> None:
    whole, streamed = python["whole"], python["stream"]
    assert (REPLY, "end_turn") == (whole["text"], whole["stop"])
    assert (REPLY, REPLY, "end_turn") == (streamed["deltas"], streamed["text"], streamed["stop"])
    first, *blocks, told, last = python["raw_stream"]
    assert ("message_start", "message_delta", "message_stop") == (first, told, last)
    assert ["content_block_start", "content_block_stop"] * (len(blocks) // 2) == blocks  # a Responses server thinks in a block of its own
    assert {"calls": WEATHER_CALLS, "stop": "tool_use", "text": ROUND_TRIP["text"]} == python["tools"]


def test_anthropics_errors(python: Outcome) -> None:
    errors = python["errors"]
    assert ["AuthenticationError", "RateLimitError", "BadRequestError"] == [
        errors[name]["kinds"][0] for name in ("wrong_key", "limited", "bad")
    ]


async def test_an_error_is_the_librarys_own(start: Start) -> None:
    async with openai(start, "messages") as client:
        kinds = pytest.importorskip("openai")
        with pytest.raises(kinds.RateLimitError, match="slow down"):
            await client.responses.create(model="busy", input="Hi")
        with pytest.raises(kinds.BadRequestError) as refused:
            await client.chat.completions.create(model="m", messages=HELLO, n=2)
        assert "n" == refused.value.param
