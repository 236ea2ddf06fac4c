"""litellm as a client, from the proxy's own environment (its openai must be older than the other clients')."""

import asyncio
import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no price list from the network

import litellm
from cases import HI, INLINE, QUESTION, TOO_LONG, WEATHER, case, main, raised, status_error

HELLO = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": HI}], "num_retries": 0, "max_retries": 0}
# litellm 1.106.0 imports its MCP gateway for every request with tools, and its core install lacks what that needs: leave it out.
ASK = {**HELLO, "messages": [{"role": "user", "content": QUESTION}], "_skip_mcp_handler": True}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city, now.", "parameters": PARAMETERS}}
REPORT = {
    "type": "object",
    "required": ["city", "degrees"],
    "additionalProperties": False,
    "properties": {"city": {"type": "string"}, "degrees": {"type": "number"}},
}


def headers_of(response):
    """litellm gives a provider's headers a prefix of its own."""
    headers = response._hidden_params.get("additional_headers") or {}
    names = {name.removeprefix("llm_provider-"): value for name, value in headers.items()}
    return {name: value for name, value in names.items() if name.startswith("x-groundwire-")}


def calls_of(message):
    """Id, name and arguments."""
    return [[call.id, call.function.name, call.function.arguments] for call in message.tool_calls]


def with_results(message):
    """The conversation with the tools' results."""
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": WEATHER[json.loads(call.function.arguments)["city"]]}
        for call in message.tool_calls
    ]
    return {**ASK, "messages": [*ASK["messages"], message, *results]}


@case
def whole():
    response = litellm.completion(**HELLO)
    choice = response.choices[0]
    return {
        "text": choice.message.content,
        "finish": choice.finish_reason,
        "total": response.usage.total_tokens,
        "headers": headers_of(response),
    }


@case
def stream():
    chunks = list(litellm.completion(**HELLO, stream=True, stream_options={"include_usage": True}))
    rebuilt = litellm.stream_chunk_builder(chunks)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    return {"text": text, "rebuilt": rebuilt.choices[0].message.content, "total": rebuilt.usage.total_tokens}


@case
def tools():
    message = litellm.completion(**ASK, tools=[TOOL]).choices[0].message
    final = litellm.completion(**with_results(message), tools=[TOOL])
    return {"calls": calls_of(message), "text": final.choices[0].message.content}


@case
def stream_tools():
    found = {}
    for name in ("openai/gpt-4o", "openai/interleaver"):
        chunks = list(litellm.completion(**{**ASK, "model": name}, tools=[TOOL], stream=True))
        message = litellm.stream_chunk_builder(chunks).choices[0].message
        final = list(litellm.completion(**with_results(message), tools=[TOOL], stream=True))
        found[name] = {"calls": calls_of(message), "text": "".join(chunk.choices[0].delta.content or "" for chunk in final)}
    return found


@case
def structured():
    form = {"type": "json_schema", "json_schema": {"name": "report", "strict": True, "schema": REPORT}}
    return json.loads(litellm.completion(**HELLO, response_format=form).choices[0].message.content)


@case
def reasoning():
    whole = litellm.completion(**{**HELLO, "model": "openai/reasoner"}).choices[0].message
    chunks = list(litellm.completion(**{**HELLO, "model": "openai/reasoner"}, stream=True))
    streamed = litellm.stream_chunk_builder(chunks).choices[0].message
    return [[message.reasoning_content, message.content] for message in (whole, streamed)]


@case
def inline():
    chunks = list(litellm.completion(**HELLO, stream=True, extra_headers=INLINE))
    return {
        "whole": litellm.completion(**HELLO, extra_headers=INLINE).choices[0].message.content,
        "stream": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
    }


@case
async def many():
    async def one(i):
        asked = [{"role": "user", "content": f"Echo {i}. Number {i} said. It ends, {i}."}]
        chunks = await litellm.acompletion(model="openai/gpt-4o", messages=asked, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

    return await asyncio.gather(*(one(i) for i in range(12)))


@case
def embeddings():
    response = litellm.embedding(model="openai/text-embedding-3-small", input=["a", "b"])
    return [item["embedding"] for item in response.data]


@case
def errors():
    long = {**HELLO, "messages": [{"role": "user", "content": TOO_LONG}]}
    found = {
        "wrong_key": raised(litellm.completion, **HELLO, api_key="wrong"),
        "too_long": raised(litellm.completion, **long),
        "limited": raised(litellm.completion, **{**HELLO, "model": "openai/limited"}),
        "breaks": raised(lambda: list(litellm.completion(**{**HELLO, "model": "openai/breaks"}, stream=True))),
        "fails": raised(lambda: list(litellm.completion(**{**HELLO, "model": "openai/fails"}, stream=True))),
    }
    return {name: status_error(error) for name, error in found.items()}


main()
