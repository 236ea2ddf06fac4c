"""OpenAI's chat completions: request body <-> `Request`, answer body <-> `Answer`.

Reference: https://platform.openai.com/docs/api-reference/chat. Parsing checks only what Groundwire itself needs (an object, a model,
a list of messages, …) and leaves the rest for the provider to judge, so that fields newer than this file pass. Rendering splices:
a message, a tool or a field that is still the object it was goes out in the bytes it came in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.errors import InvalidRequest, ProxyError
from proxy.exchange import Answer, Choice, Exchange, Message, Request, Tool, ToolCall
from proxy.language.text import text_of
from proxy.wire.bodies import EXTENSION, flag, kind_of, load, passages_of, same, typed, withhold
from proxy.wire.chat.arguments import with_arguments
from proxy.wire.chat.message import call_entries, token_logprobs
from proxy.wire.chat.output_requirements import output_requirements_of
from proxy.wire.chat.own_answer import own_answer, own_body, own_events
from proxy.wire.chat.own_calls import ChatCallFilter
from proxy.wire.chat.shapes import ChatShapes, asked_of
from proxy.wire.chat.stream import ChatStream, usage
from proxy.wire.chat.unread import unread
from proxy.wire.chat.usual_answer import usual_answer
from proxy.wire.upstream_errors import failure_in
from proxy.wire.usage import added_up

_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


class ChatDialect:
    """``POST /v1/chat/completions``"""

    path = "/chat/completions"
    conversation_field = "messages"
    key_headers: tuple[str, ...] = ("authorization",)
    told_by = ""

    def error(self, error: ProxyError) -> bytes:
        """OpenAI's envelope."""
        return orjson.dumps(error.envelope())

    def error_code(self, body: bytes) -> str:
        """Its code, else its type."""
        return failure_in(body).code

    def parse_request(self, body: bytes) -> Request:
        """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
        fields = load(body)
        model = typed(fields, "model", str, "a string")
        if not model:
            raise InvalidRequest("you must provide a model", param="model")
        messages, hints = _messages(fields)
        tools = _tools(fields)
        stream = flag(fields, "stream")
        params = {k: v for k, v in fields.items() if k not in ("model", "messages", "tools", "stream", "functions", EXTENSION)}
        extension = fields.get(EXTENSION)
        legacy = "functions" in fields and fields["functions"] is not None and fields.get("tools") is None
        return Request(
            model=model,
            messages=messages,
            tools=tools,
            params=params,
            stream=stream,
            wants=output_requirements_of(params),
            read_wants=output_requirements_of,
            passages=passages_of(extension) if extension is not None else (),
            has_context="context" in (extension or {}),
            message_hints=hints,
            wire=_Wire(body, legacy=legacy, extended=EXTENSION in fields),
            size=len(body),
        )

    def render_request(self, exchange: Exchange) -> bytes:
        """The client's body when nothing changed; otherwise its pieces with the changed ones written anew."""
        request = exchange.original
        wire: _Wire = request.wire
        same_messages = same(exchange.messages, request.messages)
        same_tools = same(exchange.tools, request.tools)
        same_params = exchange.params is request.params
        if same_messages and same_tools and same_params and not wire.extended and not request.message_hints:
            return wire.body
        raw = dict(_RAW_FIELDS.decode(wire.body))
        raw.pop(EXTENSION, None)
        if not same_messages or request.message_hints:
            hinted = {id(request.messages[i]) for i in request.message_hints}
            raw["messages"] = _splice(raw["messages"], request.messages, exchange.messages, hinted)
        if not same_tools:
            self._set_tools(raw, wire, request, exchange.tools)
        if not same_params:
            for key in [k for k in raw if k in request.params and k not in exchange.params]:
                del raw[key]
            for key, value in exchange.params.items():
                if key not in request.params or value is not request.params[key]:
                    raw[key] = msgspec.Raw(orjson.dumps(value))
        return msgspec.json.encode(raw)

    @staticmethod
    def _set_tools(raw: dict[str, msgspec.Raw], wire: _Wire, request: Request, tools: Sequence[Tool]) -> None:
        key = "functions" if wire.legacy else "tools"
        if not tools:  # providers refuse an empty list, and a choice among no tools
            for name in (key, "tool_choice", "function_call", "parallel_tool_calls"):
                raw.pop(name, None)
        elif wire.legacy:
            raw[key] = msgspec.Raw(orjson.dumps([tool["function"] for tool in tools]))
        else:
            raw[key] = _splice(raw[key] if request.tools else msgspec.Raw(b"[]"), request.tools, tools, set())

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is not a chat completion."""
        if (usual := usual_answer(body)) is not None:
            return usual
        fields = orjson.loads(body)
        if not isinstance(fields, dict) or not isinstance(fields.get("choices"), list):
            raise ValueError("not a chat completion")
        choices: list[Choice] = []
        said: dict[int, tuple[tuple[str, float], ...]] = {}
        missed = ""
        for i, raw in enumerate(fields["choices"]):
            missed = missed or unread(raw, streamed=False)
            if isinstance(raw, dict):
                choices.append(choice := _choice(raw, i))
                if raw.get("logprobs"):
                    said[choice.index] = tuple(token_logprobs(raw["logprobs"]))
        model = fields.get("model")
        return Answer(tuple(choices), model if isinstance(model, str) else "", usage(fields.get("usage")), said, missed)

    def usage_of(self, body: bytes) -> Mapping[str, object] | None:
        """The field ``usage``, if it is an object."""
        fields = orjson.loads(body)
        return fields["usage"] if isinstance(fields.get("usage"), dict) else None

    def render_answer(
        self, body: bytes, before: Answer, after: Answer, verdict: Mapping[str, object] | None, others: Sequence[Mapping[str, object]] = ()
    ) -> bytes:
        """The upstream's own body where nothing changed; else the changed choices' ``content``, ``refusal`` and arguments of calls, the
        usage with that of the exchange's `others`, and the inline verdict.
        """
        own = self.usage_of(body) if others else None
        said = {"content": after.changed_texts(before), "refusal": after.changed_refusals(before)}
        arguments = after.changed_arguments(before)
        if not any(said.values()) and not arguments and verdict is None and own is None:
            return body
        raw = dict(_RAW_FIELDS.decode(body))
        if any(said.values()) or arguments:
            choices = [
                with_arguments(_saying(c, {name: texts[i] for name, texts in said.items() if i in texts}), arguments.get(i, {}))
                for i, c in _indexed(_RAW_ITEMS.decode(raw["choices"]))
            ]
            raw["choices"] = msgspec.Raw(msgspec.json.encode(choices))
        if own is not None:
            raw["usage"] = msgspec.Raw(orjson.dumps(added_up([*others, own])))
        if verdict is not None:
            raw[EXTENSION] = msgspec.Raw(orjson.dumps(verdict))
        return msgspec.json.encode(raw)

    def own_answer(self, exchange: Exchange) -> Answer:
        """A stage's answer in the form that the request asks for."""
        return own_answer(exchange)

    def render_own(self, exchange: Exchange, verdict: Mapping[str, object] | None) -> tuple[str, bytes]:
        """Content type and bytes of a stage's answer."""
        answer = exchange.answer or own_answer(exchange)
        if exchange.original.stream:
            return "text/event-stream; charset=utf-8", own_events(exchange, answer, verdict)
        return "application/json", own_body(exchange, answer, verdict)

    def recogniser(self, exchange: Exchange, body: bytes) -> ChatShapes:
        """What was asked for is in the `body` as it was sent."""
        return ChatShapes(asked_of(exchange.original, body, (*exchange.original.tools, *exchange.tools)))

    def call_filter(self, exchange: Exchange, *, whole: bool) -> ChatCallFilter:
        """Where a form was asked for, an answer leaves whole too: text before a call would not be JSON with the text after it."""
        return ChatCallFilter(whole=whole or exchange.wants.form != "text")

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Take the tools `own` out, or forbid all calls."""
        wire: _Wire = exchange.original.wire
        withhold(exchange, own, {"function_call" if wire.legacy else "tool_choice": "none"})

    def stream(self, *, separate: bool = False) -> ChatStream:
        """A reader for one streamed answer."""
        return ChatStream(separate=separate)


class _Wire:
    """What the dialect remembers of a request's bytes."""

    __slots__ = ("body", "extended", "legacy")

    def __init__(self, body: bytes, *, legacy: bool, extended: bool) -> None:
        self.body, self.legacy, self.extended = body, legacy, extended


def _messages(fields: dict[str, Any]) -> tuple[tuple[Message, ...], dict[int, Mapping[str, Any]]]:
    messages = typed(fields, "messages", list, "a list of messages")
    if not messages:
        raise InvalidRequest("messages: at least one message is needed", param="messages")
    hints: dict[int, Mapping[str, Any]] = {}
    if _are_plain(messages):
        return tuple(messages), hints
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise InvalidRequest(f"messages[{i}]: expected an object, got {kind_of(message)}", param=f"messages[{i}]")
        if not isinstance(message.get("role"), str):
            raise InvalidRequest(f"messages[{i}].role: expected a string, got {kind_of(message.get('role'))}", param=f"messages[{i}].role")
        if EXTENSION in message:
            hint = message.pop(EXTENSION)
            if not isinstance(hint, dict):
                raise InvalidRequest(f"messages[{i}].groundwire: expected an object", param=f"messages[{i}].groundwire")
            hints[i] = hint
    return tuple(messages), hints


def _are_plain(messages: list[Any]) -> bool:
    """Whether each has a role and none an extension: all of them are looked at together, for a third of what one after the other takes."""
    try:
        roles = [message["role"] for message in messages if EXTENSION not in message]
    except (TypeError, KeyError):
        return False
    return len(roles) == len(messages) and {*map(type, messages)} == {dict} and {*map(type, roles)} == {str}


def _tools(fields: dict[str, Any]) -> tuple[Tool, ...]:
    if "tools" not in fields and "functions" not in fields:
        return ()
    name = "tools" if fields.get("tools") is not None else "functions"
    items = fields.get(name)
    if items is None:
        return ()
    if not isinstance(items, list):
        raise InvalidRequest(f"{name}: expected a list, got {kind_of(items)}", param=name)
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidRequest(f"{name}[{i}]: expected an object, got {kind_of(item)}", param=f"{name}[{i}]")
    return tuple(items) if name == "tools" else tuple({"type": "function", "function": item} for item in items)


def _choice(choice: dict[str, Any], position: int) -> Choice:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    index = choice.get("index")
    finish = choice.get("finish_reason")
    return Choice(
        index=index if isinstance(index, int) else position,
        text=text_of(message.get("content")),
        refusal=_string(message.get("refusal")),
        reasoning=_string(message.get("reasoning_content")) or _string(message.get("reasoning")),
        tool_calls=_tool_calls(message),
        finish_reason=finish if isinstance(finish, str) else None,
        inputs=tuple(_inputs(message)),
    )


def _tool_calls(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    calls = message.get("tool_calls")
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        calls = [{"id": "", "function": legacy}]
    if not isinstance(calls, list):
        return ()
    found = [(i, c, c["function"]) for i, c in enumerate(calls) if isinstance(c, dict) and isinstance(c.get("function"), dict)]
    return tuple(ToolCall(_string(c.get("id")), _string(f.get("name")), _string(f.get("arguments")), i) for i, c, f in found)


def _inputs(message: dict[str, Any]) -> Iterator[str]:
    """What calls of custom tools take."""
    for call, _ in call_entries(message):
        custom = call.get("custom")
        if isinstance(custom, dict) and (given := _string(custom.get("input"))):
            yield given


def _splice(raw: msgspec.Raw, old: Sequence[object], new: Sequence[object], rewritten: set[int]) -> msgspec.Raw:
    """`new` as a JSON array in which every object of `old` stands in its own bytes (but those whose id is in `rewritten`)."""
    bytes_of = {id(item): piece for item, piece in zip(old, _RAW_ITEMS.decode(raw), strict=True) if id(item) not in rewritten}
    return msgspec.Raw(msgspec.json.encode([bytes_of.get(id(item)) or msgspec.Raw(orjson.dumps(item)) for item in new]))


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
    choice = dict(_RAW_FIELDS.decode(raw)) if texts else {}
    if not choice:
        return raw
    given = bytes(choice.get("message", b""))
    message = dict(_RAW_FIELDS.decode(given)) if given.startswith(b"{") else {"role": msgspec.Raw(b'"assistant"')}
    message |= {name: msgspec.Raw(orjson.dumps(text)) for name, text in texts.items()}
    choice["message"] = msgspec.Raw(msgspec.json.encode(message))
    if "logprobs" in choice:  # they belong to the words that were replaced
        choice["logprobs"] = msgspec.Raw(b"null")
    return msgspec.Raw(msgspec.json.encode(choice))


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
