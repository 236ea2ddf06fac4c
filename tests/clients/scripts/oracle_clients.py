"""openai, anthropic, langchain, httpx and httpx-sse as oracles."""

import json
import warnings

import httpx
from anthropic import Anthropic
from httpx_sse import EventSource
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from openai import OpenAI
from oracle import HELLO, SCHEMA, TIMEOUT_S, serve

warnings.simplefilter("ignore")
OPTIONS = {"api_key": "k", "max_retries": 0, "timeout": TIMEOUT_S}
_clients = {}


def openai(ask):
    """One client for all: only its address changes."""
    if "openai" not in _clients:
        _clients["openai"] = OpenAI(base_url="http://127.0.0.1/v1", **OPTIONS)
    _clients["openai"].base_url = ask["url"] + "/v1"
    return _clients["openai"]


def anthropic(ask):
    if "anthropic" not in _clients:
        _clients["anthropic"] = Anthropic(base_url="http://127.0.0.1", **OPTIONS)
    _clients["anthropic"].base_url = ask["url"]
    return _clients["anthropic"]


def chat(ask):
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}]
    return {"model": "gpt-5", "messages": HELLO, **({"tools": tools} if ask["tools"] else {})}


def responses(ask):
    tools = [{"type": "function", "name": "look_up", "parameters": SCHEMA, "strict": False}]
    return {"model": "gpt-5", "input": "Where is it?", **({"tools": tools} if ask["tools"] else {})}


def messages(ask):
    tools = [{"name": "look_up", "input_schema": SCHEMA}]
    return {"model": "claude-sonnet-4-6", "max_tokens": 99, "messages": HELLO, **({"tools": tools} if ask["tools"] else {})}


# ---- openai ----


def openai_chat(ask, shown):
    got = openai(ask).chat.completions.create(**chat(ask))
    shown.look(got)
    for i in range(ask["choices"]):
        message = got.choices[i].message
        shown.say(f"text {i}", message.content)
        shown.say(f"refusal {i}", message.refusal)


def openai_chat_stream(ask, shown):
    for chunk in openai(ask).chat.completions.create(**chat(ask), stream=True):
        shown.look(chunk)
        for choice in chunk.choices or ():
            shown.say(f"text {choice.index}", choice.delta.content)
            shown.say(f"refusal {choice.index}", choice.delta.refusal)
        if chunk.choices and ask["choices"] == 1:  # as most programs read it
            shown.say("text of choices[0]", chunk.choices[0].delta.content)


def openai_chat_helper(ask, shown):
    with openai(ask).chat.completions.stream(**chat(ask)) as stream:
        for event in stream:
            shown.look(event)
            if event.type in ("content.delta", "refusal.delta"):
                if ask["choices"] == 1:
                    shown.say(event.type, event.delta)
            elif event.type == "content.done" and ask["choices"] == 1:
                shown.say("content.done", event.content)
        final = stream.get_final_completion()
        shown.look(final)
        for i in range(ask["choices"]):
            shown.say(f"final text {i}", final.choices[i].message.content)
            shown.say(f"final refusal {i}", final.choices[i].message.refusal)


def openai_responses(ask, shown):
    got = openai(ask).responses.create(**responses(ask))
    shown.look(got)
    shown.say("output_text", got.output_text)


def openai_responses_stream(ask, shown):
    for event in openai(ask).responses.create(**responses(ask), stream=True):
        shown.look(event)
        if event.type in ("response.output_text.delta", "response.refusal.delta"):
            shown.say(event.type, event.delta)
        elif event.type in ("response.completed", "response.incomplete"):
            shown.texts.pop("output_text", None)
            shown.say("output_text", event.response.output_text)


def openai_responses_helper(ask, shown):
    with openai(ask).responses.stream(**responses(ask)) as stream:
        for event in stream:
            shown.look(event)
            if event.type == "response.output_text.delta":
                shown.say("delta", event.delta)
                shown.texts.pop("snapshot", None)
                shown.say("snapshot", event.snapshot)
        final = stream.get_final_response()
        shown.look(final)
        shown.say("output_text", final.output_text)


# ---- anthropic ----


def anthropic_messages(ask, shown):
    got = anthropic(ask).messages.create(**messages(ask))
    shown.look(got)
    for block in got.content:
        if getattr(block, "type", "") == "text":
            shown.say("text", block.text)


def anthropic_messages_stream(ask, shown):
    for event in anthropic(ask).messages.create(**messages(ask), stream=True):
        shown.look(event)
        if event.type == "content_block_start" and event.content_block.type == "text":
            shown.say("text", event.content_block.text)
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            shown.say("text", event.delta.text)


def anthropic_messages_helper(ask, shown):
    with anthropic(ask).messages.stream(**messages(ask)) as stream:
        for event in stream:
            shown.look(event)
        final = stream.get_final_message()
        shown.look(final)
        for block in final.content:
            if block.type == "text":
                shown.say("final text", block.text)
        shown.say("get_final_text", stream.get_final_text())


def anthropic_text_stream(ask, shown):
    with anthropic(ask).messages.stream(**messages(ask)) as stream:
        for text in stream.text_stream:
            shown.say("text_stream", text)


# ---- langchain ----


def langchain(ask, *, openai_responses=False):
    if ask["api"] == "messages":
        made = ChatAnthropic(model="claude-sonnet-4-6", base_url=ask["url"], max_tokens=99, **OPTIONS)
    else:
        more = {"n": ask["choices"]} if ask["choices"] > 1 else {}
        made = ChatOpenAI(model="gpt-5", base_url=ask["url"] + "/v1", use_responses_api=ask["api"] == "responses", **more, **OPTIONS)
    return made


def langchain_whole(ask, shown):
    got = langchain(ask).invoke("Where is it?")
    shown.look(got)
    shown.look(got.content_blocks)
    shown.say("text", got.text)


def langchain_stream(ask, shown):
    total = None
    for chunk in langchain(ask).stream("Where is it?"):
        shown.look(chunk)
        if ask["choices"] == 1:
            shown.say("text", chunk.text)
        total = chunk if total is None else total + chunk
    if total is not None and ask["choices"] == 1:  # of several it makes one
        shown.look(total)
        shown.say("summed", total.text)


# ---- readers of one's own ----

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
HEADERS = {"authorization": "Bearer k", "x-api-key": "k", "anthropic-version": "2023-06-01"}
_http = httpx.Client(timeout=TIMEOUT_S, follow_redirects=True, headers=HEADERS)


class Pairs(list):
    """An object with every key, also one that stands twice."""


def parsed(text):
    try:
        return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return None


def look_at_pairs(value, shown, path=""):
    if isinstance(value, Pairs):
        kind = next((one for key, one in value if key == "type"), None)
        for key, one in value:
            if key == "error" or (kind == "error" and not path):  # a client raises it
                continue
            shown.look(key, f"{path}{{}}")
            look_at_pairs(one, shown, f"{path}.{key}")
    elif isinstance(value, list):
        for one in value:
            look_at_pairs(one, shown, f"{path}[]")
    else:
        shown.look(value, path)


def look_at_head(response, shown):
    for name, value in response.headers.items():
        if not name.startswith("x-groundwire-"):
            shown.look(value, f"header {name}")


def httpx_body(ask, shown):
    got = _http.post(ask["url"] + PATHS[ask["api"]], json={})
    look_at_head(got, shown)
    if got.status_code < 400:
        value = parsed(got.text)
        look_at_pairs(value if value is not None else got.text, shown)


def say_event(api, data, name, shown, label):
    """As programs without a library do: by the type inside, and by the event's name."""
    if not isinstance(data, dict):
        return
    if api == "chat":
        choices = data.get("choices")
        delta = choices[0].get("delta") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
        text = delta.get("content") if isinstance(delta, dict) else None
        if isinstance(text, str):
            shown.say(f"{label} text of choices[0]", text)
        return
    for by, kind in (("type", data.get("type")), ("name", name)):
        delta = data.get("delta")
        if api == "responses" and kind == "response.output_text.delta" and isinstance(delta, str):
            shown.say(f"{label} text by {by}", delta)
        elif api == "messages" and kind == "content_block_delta" and isinstance(delta, dict) and isinstance(delta.get("text"), str):
            shown.say(f"{label} text by {by}", delta["text"])


def plain(text):
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def httpx_sse_stream(ask, shown):
    with _http.stream("POST", ask["url"] + PATHS[ask["api"]], json={}) as response:
        if response.status_code >= 400:
            return
        look_at_head(response, shown)
        for event in EventSource(response).iter_sse():
            value = parsed(event.data)
            look_at_pairs(value if value is not None else event.data, shown, "data")
            shown.look(event.event, "event")
            shown.look(event.id, "id")
            if event.data == "[DONE]":
                break
            if ask["choices"] == 1:
                say_event(ask["api"], plain(event.data), event.event, shown, "sse")


def httpx_lines_stream(ask, shown):
    """A loop over lines, as httpx cuts them, that is generous about what a data line is."""
    with _http.stream("POST", ask["url"] + PATHS[ask["api"]], json={}) as response:
        if response.status_code >= 400:
            return
        look_at_head(response, shown)
        for line in response.iter_lines():
            head, colon, data = line.strip("\ufeff \t\x1c\x1d\x1e\x85").partition(":")
            if colon and head.strip().lower() == "data":
                value = parsed(data.strip())
                look_at_pairs(value if value is not None else data, shown, "data")
                if ask["choices"] == 1:
                    say_event(ask["api"], plain(data.strip()), None, shown, "lines")
            else:
                shown.look(line, f"line {head.strip().lower()}" if head.isascii() and len(head) < 9 else "line")


RUNS = {
    ("chat", False): [openai_chat, langchain_whole, httpx_body],
    ("chat", True): [openai_chat_stream, openai_chat_helper, langchain_stream, httpx_sse_stream, httpx_lines_stream],
    ("responses", False): [openai_responses, langchain_whole, httpx_body],
    ("responses", True): [openai_responses_stream, openai_responses_helper, langchain_stream, httpx_sse_stream, httpx_lines_stream],
    ("messages", False): [anthropic_messages, langchain_whole, httpx_body],
    ("messages", True): [
        anthropic_messages_stream,
        anthropic_messages_helper,
        anthropic_text_stream,
        langchain_stream,
        httpx_sse_stream,
        httpx_lines_stream,
    ],
}

if __name__ == "__main__":
    serve(RUNS)
