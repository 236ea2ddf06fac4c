"""openai-python with two hundred tools, whole and streamed: what an application sees of every answer."""

import gzip
import json
import os
import time
from pathlib import Path

from cases import case, groundwire, main
from openai import OpenAI

DATA = json.loads(gzip.decompress(Path(os.environ["TOOLS_FILE"]).read_bytes()))
client = OpenAI(max_retries=0)
chat = client.chat.completions


def request(query):
    """One query over all tools."""
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": query}], "tools": DATA["tools"]}


def seen(completion):
    """An answer as an application reads it."""
    choice, usage = completion.choices[0], completion.usage
    calls = [[c.id, c.type, c.function.name, c.function.arguments] for c in choice.message.tool_calls or ()]
    return {
        "text": choice.message.content,
        "calls": calls,
        "finish": choice.finish_reason,
        "model": completion.model,
        "usage": usage is not None,
    }


@case
def whole():
    return [seen(chat.create(**request(asked["query"]))) for asked in DATA["queries"]]


@case
def streamed():
    found = []
    for asked in DATA["queries"]:
        with client.chat.completions.stream(**request(asked["query"]), stream_options={"include_usage": True}) as stream:
            found.append(seen(stream.get_final_completion()))
    return found


@case
def chunks():
    """The events of one stream, as a client that reads them itself would."""
    events = list(chat.create(**request(DATA["queries"][0]["query"]), stream=True))
    return {
        "ids": len({event.id for event in events}),
        "roles": [event.choices[0].delta.role for event in events if event.choices and event.choices[0].delta.role],
        "finishes": [event.choices[0].finish_reason for event in events if event.choices and event.choices[0].finish_reason],
        "indexes": sorted({c.index for event in events if event.choices for c in event.choices[0].delta.tool_calls or ()}),
    }


@case
def looked_up():
    """A question that says nothing of the tool it needs: the model has to look for it."""
    return [seen(chat.create(**request(f"Please do what we spoke of. Item {i}."))) for i in range(3)]


@case
def looked_up_streamed():
    found = []
    for i in range(3):
        with client.chat.completions.stream(**request(f"Please do what we spoke of. Item {i}.")) as stream:
            found.append(seen(stream.get_final_completion()))
    return found


@case
def headers():
    raw = chat.with_raw_response.create(**request(DATA["queries"][0]["query"]))
    return groundwire(raw.headers)


def wait_for_index():
    """Until the proxy, if there is one, has indexed the tools: before, it sends all of them and says so."""
    while "indexing" in chat.with_raw_response.create(**request("Hello?") | {"model": "warm"}).headers.get("x-groundwire-tools", ""):
        time.sleep(0.2)


wait_for_index()
main()
