"""anthropic-python, as an application would use it."""

import anthropic
from anthropic import beta_tool
from cases import HI, INLINE, QUESTION, WEATHER, case, groundwire, main_by_route, raised, server_of, status_error

HELLO = {"model": "claude-sonnet-4-6", "max_tokens": 4000, "messages": [{"role": "user", "content": HI}]}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "description": "The weather of a city, now.", "input_schema": SCHEMA}
SYSTEM = [{"type": "text", "text": "You know the weather.", "cache_control": {"type": "ephemeral"}}]
ASK = {**HELLO, "messages": [{"role": "user", "content": QUESTION}], "tools": [TOOL], "system": SYSTEM}
THINK = {"thinking": {"type": "enabled", "budget_tokens": 2000}}


def client(url, **options):
    """A client that does not retry."""
    return anthropic.Anthropic(base_url=url, max_retries=0, **options)


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def calls_of(message):
    return [[block.name, block.input] for block in message.content if block.type == "tool_use"]


def answered(message):
    """The conversation with the message and the results of its calls."""
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": WEATHER[block.input["city"]]}
        for block in message.content
        if block.type == "tool_use"
    ]
    return [*ASK["messages"], {"role": "assistant", "content": message.content}, {"role": "user", "content": results}]


@case
def whole(url):
    raw = client(url).messages.with_raw_response.create(**HELLO)
    message = raw.parse()
    return {
        "text": text_of(message),
        "stop": message.stop_reason,
        "tokens": [message.usage.input_tokens, message.usage.output_tokens],
        "headers": groundwire(raw.headers),
        "request_id": message._request_id,
    }


@case
def stream(url):
    with client(url).messages.stream(**HELLO) as got:
        pieces = list(got.text_stream)
        final = got.get_final_message()
    return {"deltas": "".join(pieces), "pieces": len(pieces), "text": text_of(final), "stop": final.stop_reason}


@case
def verdict_of_a_stream(url):
    said = client(url)
    with said.messages.stream(**HELLO) as got:
        got.until_done()
        record_id = got.response.headers["x-groundwire-id"]
    found = said.get(f"{server_of(url)}/groundwire/v1/verdicts/{record_id}?wait_ms=10000", cast_to=object)
    return [record_id == found["id"], found["verdict"]]


@case
def raw_stream(url):
    return [event.type for event in client(url).messages.create(**HELLO, stream=True) if event.type != "content_block_delta"]


@case
def tools(url):
    messages = client(url).messages
    asked = messages.create(**ASK)
    final = messages.create(**{**ASK, "messages": answered(asked)})
    return {"calls": calls_of(asked), "stop": asked.stop_reason, "text": text_of(final)}


@case
def stream_tools_with_thinking(url):
    messages = client(url).messages
    with messages.stream(**ASK, **THINK) as got:
        asked = got.get_final_message()
    with messages.stream(**{**ASK, "messages": answered(asked)}, **THINK) as got:
        final = got.get_final_message()
    kinds = [block.type for block in asked.content]
    return {"calls": calls_of(asked), "kinds": kinds, "signature": asked.content[0].signature, "text": text_of(final)}


@case
def tool_runner(url):
    """The library's own loop. It begins on a thread, whose conversation the provider would hold, and goes on without one."""

    @beta_tool
    def get_weather(city: str) -> str:
        """The weather of a city, now.

        Args:
            city: Its name.
        """
        return WEATHER[city]

    return text_of(client(url).beta.messages.tool_runner(**{**ASK, "tools": [get_weather]}).until_done())


@case
def count_tokens(url):
    return client(url).messages.count_tokens(model=ASK["model"], messages=ASK["messages"], tools=ASK["tools"]).input_tokens


@case
def inline(url):
    messages = client(url, default_headers=INLINE).messages
    events = list(messages.create(**HELLO, stream=True))
    return [messages.create(**HELLO).model_extra["groundwire"]["verdict"], events[-1].model_extra["groundwire"]["verdict"]]


@case
def errors(url):
    create = client(url).messages.create
    found = {
        "wrong_key": raised(client(url, api_key="wrong").messages.create, **HELLO),
        "limited": raised(create, **{**HELLO, "model": "limited"}),
        "bad": raised(create, **{**HELLO, "messages": "Hi"}),
        "breaks": raised(lambda: list(create(**{**HELLO, "model": "breaks"}, stream=True))),
        "thread": raised(client(url).beta.messages.thread(model=HELLO["model"], max_tokens=4000).send, HELLO["messages"]),
    }
    return {name: {**status_error(error), "type": getattr(error, "type", None)} for name, error in found.items()}


main_by_route()
