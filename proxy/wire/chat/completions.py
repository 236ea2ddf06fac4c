"""OpenAI's chat completions: request body <-> `Request`, answer body <-> `Answer`.

Reference: https://platform.openai.com/docs/api-reference/chat. Parsing checks only what Groundwire itself needs (an object, a model,
a list of messages, …) and leaves the rest for the provider to judge, so that fields newer than this file pass. Rendering splices:
a message, a tool or a field that is still the object it was goes out in the bytes it came in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Answer, Choice, Exchange, Message, Request, Tool
from proxy.wire import bodies
from proxy.wire.answers import usage_in
from proxy.wire.chat.forms import own_answer, own_body, own_events
from proxy.wire.chat.message import ChoiceParts, unread
from proxy.wire.chat.output_requirements import output_requirements_of
from proxy.wire.chat.own_tools import ChatFilter
from proxy.wire.chat.shapes import ChatShapes
from proxy.wire.chat.stream import ChatStream
from proxy.wire.dialect import Changes, Dialect
from proxy.wire.requests import Wire, request_of, withhold
from proxy.wire.shapes import asked_of

_READ = ("model", "messages", "tools", "stream", "functions", bodies.EXTENSION)
"""Fields that are no parameters."""


class ChatDialect(Dialect):
    """``POST /v1/chat/completions``"""

    path = "/chat/completions"
    conversation_field = "messages"
    own_tools = ChatFilter

    def parse_request(self, body: bytes) -> Request:
        """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
        fields = bodies.load(body)
        model = bodies.model_of(fields)
        messages, hints = _messages(fields)
        wire = _Wire(body, fields)
        return request_of(fields, wire, model, messages, _tools(fields), _READ, output_requirements_of, hints)

    def _set_messages(self, raw: dict[str, msgspec.Raw], exchange: Exchange) -> None:
        request = exchange.original
        sent = [None if i in request.message_hints else message for i, message in enumerate(request.messages)]
        raw["messages"] = bodies.spliced(raw["messages"], sent, exchange.messages)

    def _set_tools(self, raw: dict[str, msgspec.Raw], request: Request, tools: Sequence[Tool]) -> None:
        if tools and request.wire.legacy:
            raw["functions"] = bodies.dumped([tool["function"] for tool in tools])
        else:
            super()._set_tools(raw, request, tools)

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is not a chat completion."""
        fields = orjson.loads(body)
        if not isinstance(fields, dict) or not isinstance(fields.get("choices"), list):
            raise ValueError("not a chat completion")
        choices: list[Choice] = []
        missed = ""
        for position, raw in enumerate(fields["choices"]):
            missed = missed or unread(raw, streamed=False)
            if isinstance(raw, dict):
                (parts := ChoiceParts()).absorb(raw, whole=True)
                index = given if isinstance(given := raw.get("index"), int) else position
                choices.append(parts.choice(index))
        model = fields.get("model")
        return Answer(tuple(choices), model if isinstance(model, str) else "", usage_in("chat", fields.get("usage")), missed)

    def _change(self, raw: dict[str, msgspec.Raw], changes: Changes) -> None:
        said = {"content": changes.texts, "refusal": changes.refusals}
        choices = bodies.raw_items(raw["choices"])
        for position, piece in enumerate(choices):
            choice = bodies.exact(bytes(piece))
            if not isinstance(choice, dict):
                continue
            index = found if isinstance(found := choice.get("index"), int) else position
            texts, arguments = {name: new[index] for name, new in said.items() if index in new}, changes.arguments.get(index, {})
            if texts or arguments:
                choices[position] = bodies.dumped(_changed(choice, texts, arguments))
        raw["choices"] = bodies.as_raw(choices)

    def own_answer(self, exchange: Exchange) -> Answer:
        """A stage's answer in the form that the request asks for."""
        return own_answer(exchange)

    def own_body(self, exchange: Exchange, answer: Answer) -> dict[str, Any]:
        """The completion."""
        return own_body(exchange, answer)

    def own_events(self, exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
        """Role, text and end of each choice, usage if it was asked for, the inline verdict, the end mark."""
        return own_events(exchange, answer, verdict)

    def recogniser(self, exchange: Exchange, body: bytes) -> ChatShapes:
        """What was asked for is in the `body` as it was sent."""
        return ChatShapes(asked_of(exchange, body))

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Take the tools `own` out, or forbid all calls."""
        wire: _Wire = exchange.original.wire
        withhold(exchange, own, {"function_call" if wire.legacy else "tool_choice": "none"})

    def stream(self, *, separate: bool = False) -> ChatStream:
        """A reader for one streamed answer."""
        return ChatStream(separate=separate)


class _Wire(Wire):
    """Also whether the tools are in the legacy form."""

    def __init__(self, body: bytes, fields: Mapping[str, Any]) -> None:
        super().__init__(body, fields)
        self.legacy = fields.get("functions") is not None and fields.get("tools") is None


def _messages(fields: dict[str, Any]) -> tuple[tuple[Message, ...], dict[int, Mapping[str, Any]]]:
    messages, hints = bodies.messages_of(fields), dict[int, Mapping[str, Any]]()
    for i, message in enumerate(messages if not _are_plain(messages) else ()):
        role = bodies.object_at(message, f"messages[{i}]").get("role")
        if not isinstance(role, str):
            raise bodies.unexpected(f"messages[{i}].role", "a string", role)
        if bodies.EXTENSION in message:
            hints[i] = bodies.hint_of(message, f"messages[{i}]")
            del message[bodies.EXTENSION]
    return tuple(messages), hints


def _are_plain(messages: list[Any]) -> bool:
    """Whether each has a role and none an extension: all of them are looked at together, for a third of what one after the other takes."""
    try:
        roles = [message["role"] for message in messages if bodies.EXTENSION not in message]
    except (TypeError, KeyError):
        return False
    return len(roles) == len(messages) and {*map(type, messages)} == {dict} and {*map(type, roles)} == {str}


def _tools(fields: dict[str, Any]) -> tuple[Tool, ...]:
    if "tools" not in fields and "functions" not in fields:
        return ()
    name = "tools" if fields.get("tools") is not None else "functions"
    items = bodies.objects_at(fields.get(name), name)
    return tuple(items) if name == "tools" else tuple({"type": "function", "function": item} for item in items)


def _changed(choice: dict[str, Any], texts: Mapping[str, str], arguments: Mapping[int, str]) -> dict[str, Any]:
    """A choice whose message, which it may lack, says these `texts`, by field; the legacy ``function_call`` stands behind other calls."""
    given = choice.get("message")
    message: dict[str, Any] = {**(given if isinstance(given, dict) else {"role": "assistant"}), **texts}
    calls = message["tool_calls"] if isinstance(message.get("tool_calls"), list) else []
    places = [i for i, call in enumerate(calls) if isinstance(call, dict)]
    for index, new in arguments.items():
        holder: dict[str, Any] = calls[places[index]] if index < len(places) else message
        name = "function" if index < len(places) else "function_call"
        holder[name] = {**holder[name], "arguments": new}
    logprobs = {"logprobs": None} if texts and "logprobs" in choice else {}  # they belong to the words that were replaced
    return {**choice, "message": message, **logprobs}
