"""openai-agents on the Responses API, its default, as an application would use it."""

import json

from agents import Agent, OpenAIResponsesModel, OpenAIResponsesWSModel, Runner, function_tool, set_tracing_disabled
from agents.items import HandoffOutputItem, ToolCallItem, ToolCallOutputItem
from cases import HI, QUESTION, WEATHER, case, main_by_route
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


def agent(url, name="weather", **options):
    """An agent with a client that does not retry."""
    client = AsyncOpenAI(base_url=f"{url}/v1", max_retries=0)
    return Agent(name=name, model=OpenAIResponsesModel(model="gpt-5", openai_client=client), **options)


def told(result):
    """Calls that the model asked for, the results that went back, and the last word."""
    calls = [item.raw_item for item in result.new_items if isinstance(item, ToolCallItem)]
    return {
        "calls": [[call.name, json.loads(call.arguments)] for call in calls],
        "results": [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)],
        "text": result.final_output,
    }


async def read(result):
    """The text deltas of a run, read to its end."""
    deltas = [
        e.data.delta async for e in result.stream_events() if e.type == "raw_response_event" and e.data.type == "response.output_text.delta"
    ]
    return "".join(deltas)


@case
async def stream(url):
    result = Runner.run_streamed(agent(url), HI)
    return {"deltas": await read(result), "text": result.final_output}


@case
async def tools(url):
    return told(await Runner.run(agent(url, tools=[get_weather]), QUESTION))


@case
async def stream_tools(url):
    result = Runner.run_streamed(agent(url, tools=[get_weather]), QUESTION)
    return {"deltas": await read(result), **told(result)}


@case
async def chained_tools(url):
    return told(await Runner.run(agent(url, tools=[get_weather]), QUESTION, auto_previous_response_id=True))


@case
async def socket_tools(url):
    client = AsyncOpenAI(base_url=f"{url}/v1", max_retries=0)
    model = OpenAIResponsesWSModel(model="gpt-5", openai_client=client)
    result = Runner.run_streamed(Agent(name="weather", model=model, tools=[get_weather]), QUESTION)
    found = {"deltas": await read(result), **told(result)}
    await model.close()
    return found


@case
async def handoff(url):
    triage = agent(url, "triage", handoffs=[agent(url, "weather", tools=[get_weather])])
    result = await Runner.run(triage, QUESTION)
    passed = [item.source_agent.name for item in result.new_items if isinstance(item, HandoffOutputItem)]
    return {"from": passed, "last": result.last_agent.name, **told(result)}


@case
async def structured(url):
    return (await Runner.run(agent(url, output_type=Report), HI)).final_output.model_dump()


main_by_route()
