"""openai-python on the Responses API, as an application would use it."""

import json

from cases import HI, INLINE, QUESTION, WEATHER, case, groundwire, main_by_route, raised, status_error
from openai import APIError, OpenAI
from pydantic import BaseModel

HELLO = {"model": "gpt-5", "input": HI}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "name": "get_weather", "description": "The weather of a city, now.", "parameters": PARAMETERS, "strict": True}
ASK = {"model": "gpt-5", "tools": [TOOL], "instructions": "You know the weather."}


class Report(BaseModel):
    """The weather in a city."""

    city: str
    degrees: float


def responses(url, **options):
    """The API, with a client that does not retry."""
    return OpenAI(base_url=f"{url}/v1", max_retries=0, **options).responses


def calls_of(response):
    return [[item.name, json.loads(item.arguments)] for item in response.output if item.type == "function_call"]


def results_of(response):
    return [
        {"type": "function_call_output", "call_id": item.call_id, "output": WEATHER[json.loads(item.arguments)["city"]]}
        for item in response.output
        if item.type == "function_call"
    ]


@case
def whole(url):
    raw = responses(url).with_raw_response.create(**HELLO)
    response = raw.parse()
    return {
        "text": response.output_text,
        "status": response.status,
        "tokens": [response.usage.input_tokens, response.usage.output_tokens],
        "headers": groundwire(raw.headers),
        "kinds": [item.type for item in response.output],
    }


@case
def stream(url):
    with responses(url).stream(**HELLO) as got:
        deltas = [event.delta for event in got if event.type == "response.output_text.delta"]
        final = got.get_final_response()
    return {"deltas": "".join(deltas), "text": final.output_text, "encrypted": final.output[0].encrypted_content}


@case
def raw_stream(url):
    events = list(responses(url).create(**HELLO, stream=True))
    return {"numbers": [event.sequence_number for event in events] == list(range(len(events))), "last": events[-1].type}


@case
def parse(url):
    with responses(url).stream(**HELLO, text_format=Report) as got:
        streamed = got.get_final_response().output_parsed
    return [responses(url).parse(**HELLO, text_format=Report).output_parsed.model_dump(), streamed.model_dump()]


@case
def tools(url):
    """The client sends the whole conversation each time."""
    said = [{"role": "user", "content": QUESTION}]
    options = {**ASK, "store": False, "include": ["reasoning.encrypted_content"]}
    asked = responses(url).create(**options, input=said)
    final = responses(url).create(**options, input=[*said, *asked.output, *results_of(asked)])
    return {"calls": calls_of(asked), "text": final.output_text}


@case
def chained_tools(url):
    """The provider remembers the conversation."""
    with responses(url).stream(**ASK, input=QUESTION) as got:
        asked = got.get_final_response()
    with responses(url).stream(**ASK, input=results_of(asked), previous_response_id=asked.id) as got:
        final = got.get_final_response()
    return {"calls": calls_of(asked), "text": final.output_text}


def over_socket(connection, **fields):
    """The events of one response over a WebSocket."""
    connection.response.create(**fields)
    found = []
    for event in connection:
        found.append(event)
        if event.type in ("response.completed", "response.incomplete", "response.failed", "error"):
            return found
    return None


@case
def socket_tools(url):
    """Nobody but the connection remembers the conversation."""
    options = {**ASK, "store": False, "stream_id": "main"}
    with responses(url).connect() as connection:
        asked = over_socket(connection, **options, input=QUESTION)[-1].response
        told = over_socket(connection, **options, input=results_of(asked), previous_response_id=asked.id)
    lanes = {event.stream_id for event in told}
    final = told[-1].response
    return {"calls": calls_of(asked), "text": final.output_text, "lanes": list(lanes)}


@case
def socket_stream(url):
    with responses(url, default_headers=INLINE).connect() as connection:
        first, second = (over_socket(connection, **HELLO) for _ in range(2))
        error = over_socket(connection, **{**HELLO, "model": "limited"})[-1]
    deltas = "".join(event.delta for event in second if event.type == "response.output_text.delta")
    names = [event.type for event in first] == [event.type for event in second]
    verdict = second[-1].response.model_extra["groundwire"]["verdict"]
    return {"deltas": deltas, "alike": names, "verdict": verdict, "error": [error.status, error.error.code]}


@case
def inline(url):
    api = responses(url, default_headers=INLINE)
    last = list(api.create(**HELLO, stream=True))[-1]
    return [api.create(**HELLO).model_extra["groundwire"]["verdict"], last.response.model_extra["groundwire"]["verdict"]]


@case
def errors(url):
    create = responses(url).create
    found = {
        "wrong_key": raised(responses(url, api_key="wrong").create, **HELLO),
        "limited": raised(create, **{**HELLO, "model": "limited"}),
        "bad": raised(create, model="gpt-5", input=7),
    }
    return {name: status_error(error) for name, error in found.items()}


@case
def fails(url):
    """Where the provider's stream tells of an error, or breaks off: the last event, or the exception."""
    found = {}
    for model in ("fails", "breaks"):
        try:
            last = list(responses(url).create(model=model, input=HI, stream=True))[-1]
            found[model] = [last.type, last.code if last.type == "error" else last.response.error.code]
        except APIError as error:
            found[model] = [type(error).__name__, error.code]
    return found


main_by_route()
