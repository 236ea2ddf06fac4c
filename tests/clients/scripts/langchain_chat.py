"""langchain-openai, as an application would use it."""

import asyncio

from cases import HI, INLINE, QUESTION, TOO_LONG, WEATHER, case, groundwire, main, raised, status_error
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, Field


@tool
def get_weather(city: str) -> str:
    """The weather of a city, now."""
    return WEATHER[city]


class Report(BaseModel):
    """The weather in a city."""

    city: str = Field(description="the city")
    degrees: float = Field(description="degrees Celsius")


def model(name="gpt-4o", **options):
    """A chat model that does not retry, on the chat completions API."""
    return ChatOpenAI(model=name, max_retries=0, use_responses_api=False, **options)


def calls_of(message):
    """Id, name and arguments of a message's calls."""
    return [[call["id"], call["name"], call["args"]] for call in message.tool_calls]


@case
def whole():
    message = model(include_response_headers=True).invoke(HI)
    return {
        "text": message.content,
        "headers": groundwire(message.response_metadata["headers"]),
        "finish": message.response_metadata["finish_reason"],
        "total": message.usage_metadata["total_tokens"],
    }


@case
def stream():
    chunks = list(model(include_response_headers=True, stream_usage=True).stream(HI))
    merged = chunks[0]
    for chunk in chunks[1:]:
        merged = merged + chunk
    headers = groundwire(merged.response_metadata.get("headers", {}))
    return {
        "text": merged.content,
        "pieces": len(chunks),
        "headers": headers,
        "finish": merged.response_metadata["finish_reason"],
        "total": merged.usage_metadata["total_tokens"],
    }


@case
def tools():
    bound, messages = model().bind_tools([get_weather]), [HumanMessage(QUESTION)]
    asked = bound.invoke(messages)
    results = [get_weather.invoke(call) for call in asked.tool_calls]
    return {"calls": calls_of(asked), "text": bound.invoke([*messages, asked, *results]).content}


@case
def stream_tools():
    found = {}
    for name in ("gpt-4o", "interleaver"):
        bound, messages = model(name).bind_tools([get_weather]), [HumanMessage(QUESTION)]
        chunks = list(bound.stream(messages))
        asked = chunks[0]
        for chunk in chunks[1:]:
            asked = asked + chunk
        results = [ToolMessage(WEATHER[call["args"]["city"]], tool_call_id=call["id"]) for call in asked.tool_calls]
        text = "".join(chunk.content for chunk in bound.stream([*messages, asked, *results]))
        found[name] = {"calls": calls_of(asked), "text": text}
    return found


@case
def structured():
    return {
        method: model().with_structured_output(Report, method=method).invoke(HI).model_dump()
        for method in ("json_schema", "function_calling", "json_mode")
    }


@case
def structured_streamed():
    return list(model().with_structured_output(Report).stream(HI))[-1].model_dump()


@case
def inline():
    quiet = model(default_headers=INLINE)
    return {
        "whole": quiet.invoke(HI).content,
        "stream": "".join(chunk.content for chunk in quiet.stream(HI)),
        "structured": quiet.with_structured_output(Report).invoke(HI).model_dump(),
    }


@case
def many():
    async def all_of_them():
        chat = model()

        async def one(i):
            return "".join([chunk.content async for chunk in chat.astream(f"Echo {i}. Number {i} said. It ends, {i}.")])

        return await asyncio.gather(*(one(i) for i in range(12)))

    return asyncio.run(all_of_them())


@case
def embeddings():
    return OpenAIEmbeddings(model="text-embedding-3-small", check_embedding_ctx_length=False).embed_documents(["a", "b"])


@case
def errors():
    found = {
        "wrong_key": raised(model(api_key="wrong").invoke, HI),
        "too_long": raised(model().invoke, TOO_LONG),
        "limited": raised(model("limited").invoke, HI),
        "breaks": raised(lambda: list(model("breaks").stream(HI))),
        "fails": raised(lambda: list(model("fails").stream(HI))),
    }
    return {name: status_error(error) for name, error in found.items()}


main()
