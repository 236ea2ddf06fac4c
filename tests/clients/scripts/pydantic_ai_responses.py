"""pydantic-ai on the Responses API (``openai:`` models), as an application would use it."""

from cases import HI, QUESTION, WEATHER, case, main_by_route
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Report(BaseModel):
    """The weather in a city."""

    city: str
    degrees: float


def get_weather(city: str) -> str:
    """The weather of a city, now."""
    return WEATHER[city]


def agent(url, **options):
    """An agent with a client that does not retry."""
    provider = OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{url}/v1", max_retries=0))
    return Agent(OpenAIResponsesModel("gpt-5", provider=provider), **options)


def told(messages):
    """Calls and results."""
    responses = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
    requests = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return {
        "calls": [[p.tool_name, p.args_as_dict()] for p in responses if isinstance(p, ToolCallPart)],
        "results": [p.content for p in requests if isinstance(p, ToolReturnPart)],
    }


@case
async def stream(url):
    async with agent(url).run_stream(HI) as result:
        return "".join([piece async for piece in result.stream_text(delta=True, debounce_by=None)])


@case
async def tools(url):
    result = await agent(url, tools=[get_weather]).run(QUESTION)
    return {"text": result.output, **told(result.all_messages())}


@case
async def stream_tools(url):
    async with agent(url, tools=[get_weather]).run_stream(QUESTION) as result:
        text = "".join([piece async for piece in result.stream_text(delta=True, debounce_by=None)])
    return {"text": text, **told(result.all_messages())}


@case
async def structured(url):
    return (await agent(url, output_type=NativeOutput(Report)).run(HI)).output.model_dump()


main_by_route()
