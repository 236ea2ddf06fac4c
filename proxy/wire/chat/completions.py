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
from proxy.wire.chat.forms import own_answer, own_body, own_events
from proxy.wire.chat.message import ChoiceParts, unread
from proxy.wire.chat.output_requirements import output_requirements_of
from proxy.wire.chat.own_tools import ChatFilter
from proxy.wire.chat.shapes import ChatShapes, asked_of
from proxy.wire.chat.stream import ChatStream, usage, with_arguments
from proxy.wire.chat.usual_answer import usual_answer
from proxy.wire.dialect import Changes, Dialect


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
        tools = _tools(fields)
        stream = bodies.flag(fields, "stream")
        params = {k: v for k, v in fields.items() if k not in ("model", "messages", "tools", "stream", "functions", bodies.EXTENSION)}
        extension = fields.get(bodies.EXTENSION)
        legacy = "functions" in fields and fields["functions"] is not None and fields.get("tools") is None
        return Request(
            model=model,
            messages=messages,
            tools=tools,
            params=params,
            stream=stream,
            wants=output_requirements_of(params),
            read_wants=output_requirements_of,
            passages=bodies.passages_of(extension) if extension is not None else (),
            has_context="context" in (extension or {}),
            message_hints=hints,
            wire=_Wire(body, legacy=legacy, extended=bodies.EXTENSION in fields),
            size=len(body),
        )

    def render_request(self, exchange: Exchange) -> bytes:
        """The client's body when nothing changed; otherwise its pieces with the changed ones written anew."""
        request = exchange.original
        wire: _Wire = request.wire
        same_messages = bodies.same(exchange.messages, request.messages)
        same_tools = bodies.same(exchange.tools, request.tools)
        same_params = exchange.params is request.params
        if same_messages and same_tools and same_params and not wire.extended and not request.message_hints:
            return wire.body
        raw = bodies.raw_fields(wire.body)
        raw.pop(bodies.EXTENSION, None)
        if not same_messages or request.message_hints:
            sent = [None if i in request.message_hints else message for i, message in enumerate(request.messages)]
            raw["messages"] = bodies.spliced(raw["messages"], sent, exchange.messages)
        if not same_tools:
            self._set_tools(raw, wire, request, exchange.tools)
        if not same_params:
            bodies.splice_fields(raw, request.params, exchange.params)
        return msgspec.json.encode(raw)

    @staticmethod
    def _set_tools(raw: dict[str, msgspec.Raw], wire: _Wire, request: Request, tools: Sequence[Tool]) -> None:
        key = "functions" if wire.legacy else "tools"
        if not tools:  # providers refuse an empty list, and a choice among no tools
            for name in (key, "tool_choice", "function_call", "parallel_tool_calls"):
                raw.pop(name, None)
        elif wire.legacy:
            raw[key] = bodies.dumped([tool["function"] for tool in tools])
        else:
            raw[key] = bodies.spliced(raw[key] if request.tools else msgspec.Raw(b"[]"), request.tools, tools)

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is not a chat completion."""
        if (usual := usual_answer(body)) is not None:
            return usual
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
        return Answer(tuple(choices), model if isinstance(model, str) else "", usage(fields.get("usage")), missed)

    def _change(self, raw: dict[str, msgspec.Raw], changes: Changes) -> None:
        said = {"content": changes.texts, "refusal": changes.refusals}
        choices = [
            with_arguments(_saying(c, {name: texts[i] for name, texts in said.items() if i in texts}), changes.arguments.get(i, {}))
            for i, c in _indexed(bodies.raw_items(raw["choices"]))
        ]
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
        return ChatShapes(asked_of(exchange.original, body, (*exchange.original.tools, *exchange.tools)))

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Take the tools `own` out, or forbid all calls."""
        wire: _Wire = exchange.original.wire
        bodies.withhold(exchange, own, {"function_call" if wire.legacy else "tool_choice": "none"})

    def stream(self, *, separate: bool = False) -> ChatStream:
        """A reader for one streamed answer."""
        return ChatStream(separate=separate)


class _Wire:
    """What the dialect remembers of a request's bytes."""

    __slots__ = ("body", "extended", "legacy")

    def __init__(self, body: bytes, *, legacy: bool, extended: bool) -> None:
        self.body, self.legacy, self.extended = body, legacy, extended


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


def _indexed(choices: list[msgspec.Raw]) -> list[tuple[int, msgspec.Raw]]:
    """Each raw choice with its own ``index``, or its position; -1 for what is no choice."""
    found = []
    for position, raw in enumerate(choices):
        choice = orjson.loads(bytes(raw))
        index = choice.get("index") if isinstance(choice, dict) else -1
        found.append((index if isinstance(index, int) else position, raw))
    return found


def _saying(raw: msgspec.Raw, texts: Mapping[str, str]) -> msgspec.Raw:
    """A choice whose message has these `texts`, by field; one without a message gets one."""
    choice = bodies.raw_fields(raw) if texts else {}
    if not choice:
        return raw
    given = bytes(choice.get("message", b""))
    message = bodies.raw_fields(given) if given.startswith(b"{") else {"role": msgspec.Raw(b'"assistant"')}
    message |= {name: bodies.dumped(text) for name, text in texts.items()}
    choice["message"] = bodies.as_raw(message)
    if "logprobs" in choice:  # they belong to the words that were replaced
        choice["logprobs"] = msgspec.Raw(b"null")
    return bodies.as_raw(choice)
