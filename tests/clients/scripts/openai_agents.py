"""openai-agents (the Agents SDK) on the chat completions API, as an application would use it."""

import json

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.items import ToolCallItem, ToolCallOutputItem
from cases import HI, QUESTION, TOO_LONG, WEATHER, case, main, raised, status_error
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)


class Report(BaseModel):
    """The weather in a city."""

    city: str
    degrees: float


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city, now."""
    return WEATHER[city]


def agent(name="gpt-4o", key=None, **options):
    """An agent with a client that does not retry; address and key come from the environment."""
    client = AsyncOpenAI(api_key=key, max_retries=0)
    return Agent(name="tester", model=OpenAIChatCompletionsModel(model=name, openai_client=client), **options)


def items_of(result):
    """Calls that the model asked for and the results that went back."""
    calls = [item.raw_item for item in result.new_items if isinstance(item, ToolCallItem)]
    return {
        "calls": [[call.call_id, call.name, json.loads(call.arguments)] for call in calls],
        "results": [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)],
    }


async def streamed(result):
    """The text deltas of a run, read to its end."""
    deltas = [
        e.data.delta async for e in result.stream_events() if e.type == "raw_response_event" and e.data.type == "response.output_text.delta"
    ]
    return "".join(deltas)


@case
def whole():
    return Runner.run_sync(agent(), HI).final_output


@case
async def stream():
    result = Runner.run_streamed(agent(), HI)
    return {"deltas": await streamed(result), "final": result.final_output}


@case
def tools():
    result = Runner.run_sync(agent(tools=[get_weather]), QUESTION)
    return {"text": result.final_output, **items_of(result)}


@case
async def stream_tools():
    found = {}
    for name in ("gpt-4o", "interleaver"):
        result = Runner.run_streamed(agent(name, tools=[get_weather]), QUESTION)
        found[name] = {"text": await streamed(result), **items_of(result)}
    return found


@case
async def structured():
    result = Runner.run_streamed(agent(output_type=Report), HI)
    await streamed(result)
    return {
        "whole": (await Runner.run(agent(output_type=Report), HI)).final_output.model_dump(),
        "stream": result.final_output.model_dump(),
    }


@case
def errors():
    found = {
        "wrong_key": raised(Runner.run_sync, agent(key="wrong"), HI),
        "too_long": raised(Runner.run_sync, agent(), TOO_LONG),
        "limited": raised(Runner.run_sync, agent("limited"), HI),
    }
    return {name: status_error(error) for name, error in found.items()}


@case
async def breaks():
    try:
        await streamed(Runner.run_streamed(agent("breaks"), HI))
    except Exception as error:
        return status_error(error)
    raise AssertionError("nothing was raised")


main()
