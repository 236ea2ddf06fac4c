"""langchain-anthropic, as an application would use it."""

from cases import HI, QUESTION, WEATHER, case, main_by_route, raised
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from pydantic import BaseModel


class Report(BaseModel):
    """The weather in a city."""

    city: str
    degrees: float


@tool
def get_weather(city: str) -> str:
    """The weather of a city, now."""
    return WEATHER[city]


def model(url, **options):
    """A chat model that does not retry."""
    return ChatAnthropic(model="claude-sonnet-4-6", base_url=url, max_retries=0, max_tokens=4000, **options)


def summed(chunks):
    total = None
    for chunk in chunks:
        total = chunk if total is None else total + chunk
    return total


def rounds(ask):
    """A question, the calls that it leads to, and the answer to their results."""
    messages = [HumanMessage(QUESTION)]
    asked = ask(messages)
    messages += [asked, *(get_weather.invoke(call) for call in asked.tool_calls)]
    return {"calls": [[call["name"], call["args"]] for call in asked.tool_calls], "text": ask(messages).text}


@case
def whole(url):
    got = model(url).invoke(HI)
    return {"text": got.text, "stop": got.response_metadata["stop_reason"], "tokens": got.usage_metadata["output_tokens"]}


@case
def stream(url):
    return summed(model(url).stream(HI)).text


@case
def tools(url):
    return rounds(model(url).bind_tools([get_weather]).invoke)


@case
def stream_tools_with_thinking(url):
    bound = model(url, thinking={"type": "enabled", "budget_tokens": 2000}).bind_tools([get_weather])
    return rounds(lambda messages: summed(bound.stream(messages)))


@case
def structured(url):
    return model(url).with_structured_output(Report, method="json_schema").invoke(HI).model_dump()


@case
def wrong_key(url):
    return type(raised(model(url, api_key="wrong").invoke, HI)).__name__


main_by_route()
