"""openai-python, asynchronous: many streams at once, and leaving one."""

import asyncio
import json

from cases import BASE_URL, HI, QUESTION, TOO_LONG, WEATHER, case, main, server_of, status_error
from openai import APIError, AsyncOpenAI, pydantic_function_tool
from pydantic import BaseModel

HELLO = {"model": "gpt-4o", "messages": [{"role": "user", "content": HI}]}


class Report(BaseModel):
    """The weather in a city."""

    city: str
    degrees: float


class GetWeather(BaseModel):
    """The weather of a city, now."""

    city: str


TOOL = pydantic_function_tool(GetWeather, name="get_weather")


@case
async def many():
    async with AsyncOpenAI(max_retries=0) as client:

        async def one(i):
            asked = [{"role": "user", "content": f"Echo {i}. Number {i} said. It ends, {i}."}]
            said = ""
            async for chunk in await client.chat.completions.create(model="gpt-4o", messages=asked, stream=True):
                said += chunk.choices[0].delta.content or ""
            return said

        return await asyncio.gather(*(one(i) for i in range(24)))


@case
async def verdicts_of_streams():
    async with AsyncOpenAI(max_retries=0) as client:

        async def one():
            said = await client.chat.completions.create(**HELLO, stream=True)
            record_id = said.response.headers["x-groundwire-id"]
            asking = asyncio.create_task(
                client.get(f"{server_of(BASE_URL)}/groundwire/v1/verdicts/{record_id}?wait_ms=20000", cast_to=object)
            )
            async for _ in said:
                pass
            found = await asking
            return [record_id == found["id"], found["verdict"]]

        return await asyncio.gather(*(one() for _ in range(8)))


@case
async def stream_tools():
    messages = [{"role": "user", "content": QUESTION}]
    async with AsyncOpenAI(max_retries=0) as client:
        async with client.chat.completions.stream(model="gpt-4o", messages=messages, tools=[TOOL]) as events:
            message = (await events.get_final_completion()).choices[0].message
        messages.append(message)
        for call in message.tool_calls:
            city = json.loads(call.function.arguments)["city"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": WEATHER[city]})
        async with client.chat.completions.stream(model="gpt-4o", messages=messages, tools=[TOOL]) as events:
            text = (await events.get_final_completion()).choices[0].message.content
    return {"calls": [[c.id, c.function.name, c.function.arguments] for c in message.tool_calls], "text": text}


@case
async def parsed():
    async with AsyncOpenAI(max_retries=0) as client:
        whole = await client.chat.completions.parse(**HELLO, response_format=Report)
        async with client.chat.completions.stream(**HELLO, response_format=Report) as events:
            streamed = await events.get_final_completion()
    return {"whole": whole.choices[0].message.parsed.model_dump(), "stream": streamed.choices[0].message.parsed.model_dump()}


@case
async def leaves():
    async with AsyncOpenAI(max_retries=0) as client:
        async with await client.chat.completions.create(**HELLO, stream=True) as chunks:
            async for chunk in chunks:
                began = chunk.choices[0].delta.role == "assistant"
                break
        then = await client.chat.completions.create(**HELLO)
    return {"began": began, "then": then.choices[0].message.content}


@case
async def errors():
    found = {}
    long = {**HELLO, "messages": [{"role": "user", "content": TOO_LONG}]}
    async with AsyncOpenAI(max_retries=0) as client:
        stranger = client.with_options(api_key="wrong")
        for name, who, request in (
            ("wrong_key", stranger, HELLO),
            ("too_long", client, long),
            ("limited", client, {**HELLO, "model": "limited"}),
            ("breaks", client, {**HELLO, "model": "breaks"}),
        ):
            try:
                async for _ in await who.chat.completions.create(**request, stream=True):
                    pass
            except APIError as error:
                found[name] = status_error(error)
    return found


main()
