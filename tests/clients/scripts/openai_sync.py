"""openai-python, synchronous, as an application would use it."""

import json

from cases import BASE_URL, HI, INLINE, QUESTION, TOO_LONG, WEATHER, case, groundwire, main, raised, server_of, status_error
from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel

client = OpenAI(max_retries=0)
chat = client.chat.completions
HELLO = {"model": "gpt-4o", "messages": [{"role": "user", "content": HI}]}
ASK = {"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}]}


class Report(BaseModel):
    """The weather in a city."""

    city: str
    degrees: float


class GetWeather(BaseModel):
    """The weather of a city, now."""

    city: str


TOOL = pydantic_function_tool(GetWeather, name="get_weather")


def tool_results(message):
    """An assistant message and the results of the calls it asks for."""
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": WEATHER[json.loads(call.function.arguments)["city"]]}
        for call in message.tool_calls
    ]
    return [*ASK["messages"], message, *results]


@case
def whole():
    raw = chat.with_raw_response.create(**HELLO)
    completion = raw.parse()
    message = completion.choices[0].message
    usage = completion.usage
    return {
        "text": message.content,
        "headers": groundwire(raw.headers),
        "request_id": completion._request_id,
        "model": completion.model,
        "finish": completion.choices[0].finish_reason,
        "tokens": [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens],
        "fingerprint": completion.system_fingerprint,
        "tier": completion.service_tier,
    }


@case
def stream():
    with chat.with_streaming_response.create(**HELLO, stream=True) as raw:
        headers = groundwire(raw.headers)
        chunks = list(raw.parse())
    return {
        "text": "".join(c.choices[0].delta.content or "" for c in chunks),
        "headers": headers,
        "role": chunks[0].choices[0].delta.role,
        "finish": [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason],
        "ids": sorted({c.id for c in chunks}),
        "usage": [c.usage for c in chunks if c.usage],
        "extra": sorted({name for c in chunks for name in c.model_extra}),
    }


@case
def verdict_of_a_stream():
    said = chat.create(**HELLO, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in said)
    record_id = said.response.headers["x-groundwire-id"]
    path = f"{server_of(BASE_URL)}/groundwire/v1/verdicts/{record_id}"
    return {
        "text": text,
        "id": record_id,
        "found": client.get(f"{path}?wait_ms=10000", cast_to=object),
        "unknown": status_error(raised(client.get, f"{server_of(BASE_URL)}/groundwire/v1/verdicts/gw_nothing", cast_to=object)),
        "stranger": status_error(raised(OpenAI(api_key="gw-wrong", max_retries=0).get, path, cast_to=object)),
        "wait": status_error(raised(client.get, f"{path}?wait_ms=long", cast_to=object)),
    }


@case
def stream_with_usage():
    chunks = list(chat.create(**HELLO, stream=True, stream_options={"include_usage": True}))
    last = chunks[-1]
    return {"choices": len(last.choices), "total": last.usage.total_tokens, "others": [c.usage for c in chunks[:-1] if c.usage]}


@case
def tools():
    message = chat.create(**ASK, tools=[TOOL]).choices[0].message
    final = chat.create(**{**ASK, "messages": tool_results(message)}, tools=[TOOL])
    return {"calls": [[c.id, c.function.name, c.function.arguments] for c in message.tool_calls], "text": final.choices[0].message.content}


@case
def stream_tools():
    with chat.stream(**ASK, tools=[TOOL]) as events:
        deltas = [event.arguments_delta for event in events if event.type == "tool_calls.function.arguments.delta"]
        message = events.get_final_completion().choices[0].message
    with chat.stream(**{**ASK, "messages": tool_results(message)}, tools=[TOOL]) as events:
        text = "".join(event.delta for event in events if event.type == "content.delta")
    calls = [[c.id, c.function.name, c.function.arguments] for c in message.tool_calls]
    return {"calls": calls, "pieces": len(deltas), "parsed": [c.function.parsed_arguments.city for c in message.tool_calls], "text": text}


@case
def interleaved_tools():
    """Arguments of two calls side by side, put together by their index as the API's reference says."""
    calls = {}
    for chunk in chat.create(**{**ASK, "model": "interleaver"}, tools=[TOOL], stream=True):
        for part in chunk.choices[0].delta.tool_calls or ():
            call = calls.setdefault(part.index, [part.id, part.function.name, ""])
            call[2] += part.function.arguments
    return [calls[index] for index in sorted(calls)]


@case
def two_choices():
    whole = chat.create(**HELLO, n=2)
    texts = {0: "", 1: ""}
    for chunk in chat.create(**HELLO, n=2, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    return {"whole": [choice.message.content for choice in whole.choices], "stream": list(texts.values())}


@case
def parsed():
    whole = chat.parse(**HELLO, response_format=Report).choices[0].message
    with chat.stream(**HELLO, response_format=Report) as events:
        streamed = next(event for event in list(events) if event.type == "content.done")
    return {"whole": whole.parsed.model_dump(), "raw": [whole.content, streamed.content], "stream": streamed.parsed.model_dump()}


@case
def logprobs():
    whole = chat.create(**HELLO, logprobs=True).choices[0].logprobs.content
    chunks = list(chat.create(**HELLO, logprobs=True, stream=True))
    pairs = [(c.choices[0].delta.content, entry) for c in chunks if c.choices[0].logprobs for entry in c.choices[0].logprobs.content]
    return {
        "whole": [[entry.token, entry.logprob] for entry in whole],
        "stream": [[entry.token, entry.logprob] for _, entry in pairs],
        "said": [text for text, _ in pairs],
    }


@case
def inline():
    whole = chat.create(**HELLO, extra_headers=INLINE)
    chunks = list(chat.create(**HELLO, stream=True, stream_options={"include_usage": True}, extra_headers=INLINE))
    with chat.stream(**HELLO, response_format=Report, extra_headers=INLINE) as events:
        report = events.get_final_completion().choices[0].message.parsed
    return {
        "whole": [whole.choices[0].message.content, whole.groundwire["verdict"]],
        "stream": "".join(c.choices[0].delta.content or "" for c in chunks if c.choices),
        "last": [len(chunks[-1].choices), chunks[-1].groundwire["verdict"]],
        "total": [c.usage.total_tokens for c in chunks if c.usage],
        "parsed": report.model_dump(),
    }


@case
def inline_parse():
    with chat.stream(**HELLO, extra_headers=INLINE) as events:
        text = events.get_final_completion().choices[0].message.content
    return {
        "whole": chat.parse(**HELLO, response_format=Report, extra_headers=INLINE).choices[0].message.parsed.model_dump(),
        "stream": text,
    }


@case
def hints():
    passages = {"context": [{"content": "Zürich is warm.", "source": "a.txt"}]}
    headers = {"x-groundwire-run-id": "run-7", "x-groundwire-step-id": "3"}
    raw = chat.with_raw_response.create(**HELLO, extra_body={"groundwire": passages}, extra_headers=headers)
    skipped = chat.with_raw_response.create(**HELLO, extra_headers={"x-groundwire-skip": "all"})
    return {"text": raw.parse().choices[0].message.content, "headers": groundwire(raw.headers), "skipped": groundwire(skipped.headers)}


@case
def other_paths():
    models = [model.id for model in client.models.list()]
    raw = client.embeddings.with_raw_response.create(model="text-embedding-3-small", input=["a", "b"])
    floats = client.embeddings.create(model="text-embedding-3-small", input=["a", "b"], encoding_format="float")
    vectors = [item.embedding for item in raw.parse().data]
    return {"models": models, "base64": vectors, "float": [item.embedding for item in floats.data], "headers": groundwire(raw.headers)}


@case
def retry():
    """The library's own retry after a 429 that says when."""
    return client.with_options(max_retries=1).chat.completions.create(**{**HELLO, "model": f"flaky-{BASE_URL}"}).choices[0].message.content


@case
def errors():
    stranger = OpenAI(api_key="wrong", max_retries=0).chat.completions
    long = {**HELLO, "messages": [{"role": "user", "content": TOO_LONG}]}
    found = {
        "wrong_key": raised(stranger.create, **HELLO),
        "too_long": raised(chat.create, **long),
        "too_long_streamed": raised(chat.create, **long, stream=True),
        "limited": raised(chat.create, **{**HELLO, "model": "limited"}),
        "limited_streamed": raised(chat.create, **{**HELLO, "model": "limited"}, stream=True),
        "refused": raised(chat.create, **{**HELLO, "model": "refused"}),
        "bad_hint": raised(chat.create, **HELLO, extra_headers={"x-groundwire-policy": "nothing"}),
    }
    return {name: status_error(error) for name, error in found.items()}


@case
def broken_streams():
    found = {}
    for model in ("breaks", "fails"):
        said = []

        def read(model=model, said=said):
            for chunk in chat.create(**{**HELLO, "model": model}, stream=True):
                said.append(chunk.choices[0].delta.content or "")

        found[model] = {**status_error(raised(read)), "said": "".join(said)}
    return found


main()
