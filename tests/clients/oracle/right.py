"""Answers as the three APIs give them, whole and streamed: what other shapes are made from, and what every client must show unharmed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from proxy.config.settings import Api
from tests import messages, responses_api
from tests.clients.oracle.words import Words
from tests.wire.translation import chat_api

TOOL = "look_up"
"""The tool that a client offers."""
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
CUSTOM = "run"
"""A custom tool that it offers where it offers tools of every kind."""
KINDS = ("text", "text", "sentences", "parts", "calls", "thinking", "refusal", "logprobs", "cut")
OWN_KINDS = ("served",)
"""Those that no other API has: calls of custom tools, and of tools that the provider runs."""
Body = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Right:
    """A whole answer, with what it says."""

    body: Body
    text: str = ""
    refusal: str = ""
    tools: int = 0
    """What its client must offer for it: nothing, the tool `TOOL`, or tools of every kind."""


def answer(api: Api, kind: str, words: Words) -> Right:
    """One of a kind; a kind that the API has not is a text."""
    text = words.sentence() if kind != "sentences" else " ".join(words.sentence() for _ in range(3))
    make = {"chat": _chat, "responses": _responses, "messages": _messages}[api]
    made = make(kind, text, words)
    return replace(made, body=copy.deepcopy(made.body))  # it will be edited, and shares its usage with others


def _chat(kind: str, text: str, words: Words) -> Right:
    if kind == "calls":
        calls = [chat_api.call(TOOL, json.dumps({"path": words.word()}))]
        return Right(chat_api.whole(text, tool_calls=calls), text, tools=1)
    if kind == "served":
        custom = {"id": "call_2", "type": "custom", "custom": {"name": CUSTOM, "input": words.sentence()}}
        return Right(chat_api.whole(text, tool_calls=[custom]), text, tools=2)
    if kind == "thinking":
        return Right(chat_api.whole(text, reasoning_content=words.sentence()), text)
    if kind == "refusal":
        return Right(chat_api.whole(None, refusal=text), refusal=text)
    body = chat_api.whole(text, "length" if kind == "cut" else "")
    if kind == "logprobs":
        tokens = [text[i : i + 4] for i in range(0, len(text), 4)]
        entries = [{"token": token, "logprob": -0.1, "bytes": list(token.encode()), "top_logprobs": []} for token in tokens]
        body["choices"][0]["logprobs"] = {"content": entries, "refusal": None}
    return Right(body, text)


def _responses(kind: str, text: str, words: Words) -> Right:
    make, item = responses_api.response, responses_api.text_item
    if kind == "calls":
        call = responses_api.call_item(TOOL, json.dumps({"path": words.word()}))
        return Right(make(item(text), call), text, tools=1)
    if kind == "served":
        return Right(make(*_served_items(words), item(text)), text, tools=2)
    if kind == "thinking":
        thought = {**responses_api.reasoning_item(), "summary": [{"type": "summary_text", "text": words.sentence()}]}
        return Right(make(thought, item(text)), text)
    if kind == "refusal":
        return Right(make(responses_api.refusal_item(text)), refusal=text)
    if kind == "parts":
        return Right(make(item(text + " ", more := words.sentence())), f"{text} {more}")
    if kind == "cut":
        return Right(make(item(text), status="incomplete", incomplete_details={"reason": "max_output_tokens"}), text)
    return Right(make(item(text)), text)


def _messages(kind: str, text: str, words: Words) -> Right:
    if kind == "calls":
        return Right(messages.message(messages.text(text), messages.use(TOOL, {"path": words.word()})), text, tools=1)
    if kind == "served":
        search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": words.sentence()}}
        found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
        return Right(messages.message(search, found, messages.text(text)), text, tools=2)
    if kind == "thinking":
        thought = {"type": "thinking", "thinking": words.sentence(), "signature": "EqQB+/=="}
        return Right(messages.message(thought, messages.text(text)), text)
    if kind == "parts":
        return Right(messages.message(messages.text(text + " "), messages.text(more := words.sentence())), f"{text} {more}")
    return Right(messages.message(messages.text(text), reason="max_tokens" if kind == "cut" else None), text)


def _served_items(words: Words) -> list[dict[str, Any]]:
    """Calls of a Responses answer whose words stand in other fields than those of a function's."""
    given = json.dumps({"path": words.word()})
    return [
        {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": words.sentence()}},
        {"id": "fs_1", "type": "file_search_call", "status": "completed", "queries": [words.sentence()], "results": None},
        {
            "id": "ci_1",
            "type": "code_interpreter_call",
            "status": "completed",
            "code": words.sentence(),
            "container_id": "c",
            "outputs": [],
        },
        {"id": "mcp_1", "type": "mcp_call", "status": "completed", "server_label": "s", "name": TOOL, "arguments": given, "output": None},
        {"id": "ctc_1", "type": "custom_tool_call", "status": "completed", "call_id": "call_9", "name": CUSTOM, "input": words.sentence()},
    ]


@dataclass(slots=True)
class Event:
    """One of a stream."""

    data: Any
    """JSON, or text as it is to stand there."""
    name: str | None = None


DONE = "[DONE]"


def events(api: Api, body: Mapping[str, Any]) -> list[Event]:
    """A whole answer as its API streams it."""
    return list(_read(b"".join(_streamed(api, body))))


def _streamed(api: Api, body: Mapping[str, Any]) -> list[bytes]:
    if api == "messages":
        return messages.streamed(*body["content"], reason=body["stop_reason"])
    if api == "responses":
        more = {"incomplete_details": body["incomplete_details"]} if body["incomplete_details"] else {}
        return [piece for one in responses_api.events(*body["output"], ends=body["status"], **more) for piece in _with_deltas(one)]
    custom = [one for one in body["choices"][0]["message"].get("tool_calls") or () if one["type"] == "custom"]
    if custom:
        head, *said, end, usage, mark = chat_api.chunks({**body, "choices": [{**body["choices"][0], "message": {"content": "The."}}]})
        pieces = [{**custom[0], "custom": {**custom[0]["custom"], "input": ""}}, {"custom": {"input": custom[0]["custom"]["input"]}}]
        return [head, *said, *(chat_api.chunk({"tool_calls": [{"index": 0, **one}]}) for one in pieces), end, usage, mark]
    logprobs = body["choices"][0]["logprobs"]
    if logprobs is None:
        return chat_api.chunks(body)
    head, end, usage, mark = chat_api.chunks({**body, "choices": [{**body["choices"][0], "message": {}}]})
    said = []
    for entry in logprobs["content"]:
        choice = {
            "index": 0,
            "delta": {"content": entry["token"]},
            "logprobs": {"content": [entry], "refusal": None},
            "finish_reason": None,
        }
        said.append(chat_api.event({**chat_api.HEAD, "object": "chat.completion.chunk", "choices": [choice]}))
    return [head, *said, end, usage, mark]


_GIVEN = {
    "mcp_call": ("mcp_call_arguments", "arguments"),
    "code_interpreter_call": ("code_interpreter_call_code", "code"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}


def _with_deltas(event: bytes) -> Iterator[bytes]:
    """An event of a Responses stream; before the end of an item, what its call takes, where that comes in pieces."""
    data = responses_api.decoded(event)[0]
    item = data.get("item", {})
    name, field = _GIVEN.get(item.get("type"), ("", ""))
    if name and data["type"] == "response.output_item.added":
        event = responses_api.encode({**data, "item": {**item, field: ""}})
    elif name and data["type"] == "response.output_item.done":
        where = {"item_id": item["id"], "output_index": data["output_index"], "sequence_number": data["sequence_number"]}
        half = len(item[field]) // 2
        for piece in (item[field][:half], item[field][half:]):
            yield responses_api.encode({"type": f"response.{name}.delta", **where, "delta": piece})
        yield responses_api.encode({"type": f"response.{name}.done", **where, field: item[field]})
    yield event


def _read(stream: bytes) -> Iterator[Event]:
    for block in stream.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line)
        if "data" in lines:
            data = lines["data"]
            yield Event(data if data == DONE else json.loads(data), lines.get("event"))


def several(rng: random.Random, words: Words, count: int) -> tuple[Body, list[Event]]:
    """A chat completion of `count` choices, whole and streamed, chunk by chunk in turn."""
    wholes = [chat_api.whole(words.sentence()) for _ in range(count)]
    body = {**copy.deepcopy(wholes[0]), "choices": [{**one["choices"][0], "index": i} for i, one in enumerate(wholes)]}
    lines = [[event for event in events("chat", one) if isinstance(event.data, dict) and event.data["choices"]] for one in wholes]
    for i, line in enumerate(lines):
        for event in line:
            event.data["choices"][0]["index"] = i
    merged = []
    while any(lines):
        merged.append(rng.choice([line for line in lines if line]).pop(0))
    return body, [*merged, Event(DONE)]
