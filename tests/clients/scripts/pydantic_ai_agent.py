"""pydantic-ai, as an application would use it."""

import asyncio

from cases import HI, INLINE, QUESTION, TOO_LONG, WEATHER, case, main, raised, status_error
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ThinkingPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Report(BaseModel):
    """The weather in a city."""

    city: str
    degrees: float


def get_weather(city: str) -> str:
    """The weather of a city, now."""
    return WEATHER[city]


def model(name="gpt-4o", key=None, headers=None):
    """A chat model with a client that does not retry; address and key come from the environment."""
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=AsyncOpenAI(api_key=key, max_retries=0, default_headers=headers)))


def calls_of(messages):
    """Id, name and arguments of every call, and the results that went back."""
    responses = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
    requests = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return {
        "calls": [[p.tool_call_id, p.tool_name, p.args_as_dict()] for p in responses if isinstance(p, ToolCallPart)],
        "results": [p.content for p in requests if isinstance(p, ToolReturnPart)],
    }


@case
def whole():
    result = Agent(model()).run_sync(HI)
    usage = result.usage() if callable(result.usage) else result.usage
    return {"text": result.output, "tokens": [usage.input_tokens, usage.output_tokens]}


@case
async def stream():
    async with Agent(model()).run_stream(HI) as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    return {"text": "".join(pieces), "pieces": len(pieces)}


@case
def tools():
    result = Agent(model(), tools=[get_weather]).run_sync(QUESTION)
    return {"text": result.output, **calls_of(result.all_messages())}


@case
async def stream_tools():
    found = {}
    for name in ("gpt-4o", "interleaver"):
        async with Agent(model(name), tools=[get_weather]).run_stream(QUESTION) as result:
            text = "".join([piece async for piece in result.stream_text(delta=True, debounce_by=None)])
        found[name] = {"text": text, **calls_of(result.all_messages())}
    return found


@case
async def structured():
    """Through a tool (the library's default), through response_format, and through a tool beside another."""
    async with Agent(model(), output_type=Report).run_stream(HI) as result:
        streamed = await result.get_output()
    async with Agent(model(), output_type=NativeOutput(Report)).run_stream(HI) as result:
        native_streamed = await result.get_output()
    found = {
        "tool": (await Agent(model(), output_type=Report).run(HI)).output,
        "tool_streamed": streamed,
        "native": (await Agent(model(), output_type=NativeOutput(Report)).run(HI)).output,
        "native_streamed": native_streamed,
        "beside_tools": (await Agent(model(), output_type=Report, tools=[get_weather]).run(QUESTION)).output,
    }
    return {name: report.model_dump() for name, report in found.items()}


@case
async def reasoning():
    whole = (await Agent(model("reasoner")).run(HI)).all_messages()[-1].parts
    async with Agent(model("reasoner")).run_stream(HI) as result:
        await result.get_output()
    streamed = result.all_messages()[-1].parts
    return [["".join(p.content for p in parts if isinstance(p, kind)) for kind in (ThinkingPart, TextPart)] for parts in (whole, streamed)]


@case
async def inline():
    agent = Agent(model(headers=INLINE))
    async with agent.run_stream(HI) as result:
        streamed = await result.get_output()
    report = await Agent(model(headers=INLINE), output_type=NativeOutput(Report)).run(HI)
    return {"whole": (await agent.run(HI)).output, "stream": streamed, "structured": report.output.model_dump()}


@case
async def many():
    agent = Agent(model())
    results = await asyncio.gather(*(agent.run(f"Echo {i}. Number {i} said. It ends, {i}.") for i in range(12)))
    return [result.output for result in results]


@case
def errors():
    async def read(name):
        async with Agent(model(name)).run_stream(HI) as result:
            await result.get_output()

    found = {
        "wrong_key": raised(Agent(model(key="wrong")).run_sync, HI),
        "too_long": raised(Agent(model()).run_sync, TOO_LONG),
        "limited": raised(Agent(model("limited")).run_sync, HI),
        "breaks": raised(lambda: asyncio.run(read("breaks"))),
        "fails": raised(lambda: asyncio.run(read("fails"))),
    }
    return {
        name: {**status_error(error), "body": error.body if isinstance(error, ModelHTTPError) else None} for name, error in found.items()
    }


main()
