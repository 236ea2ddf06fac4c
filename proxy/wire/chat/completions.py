"""OpenAI's chat completions: request body <-> `Request`, answer body <-> `Answer`.

Reference: https://platform.openai.com/docs/api-reference/chat. Parsing checks only what Groundwire itself needs (an object, a model,
a list of messages, …) and leaves the rest for the provider to judge, so that fields newer than this file pass. Rendering splices:
a message, a tool or a field that is still the object it was goes out in the bytes it came in.

The filter that takes calls of the proxy's own tools out of answers (`proxy.wire.own_tools`) stands first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Answer, Choice, Exchange, Message, Request, Tool, ToolCall
from proxy.wire import bodies, sse
from proxy.wire.answers import add_usage, end_of, usage_in
from proxy.wire.api_errors import envelope, failure_in, is_own
from proxy.wire.chat.forms import own_answer, own_body, own_events
from proxy.wire.chat.message import CallParts, ChoiceParts, MessageParts, call_entries, delta_of, repeats, unread
from proxy.wire.chat.shapes import ChatShapes
from proxy.wire.chat.stream import ChatStream
from proxy.wire.dialect import Changes, Dialect
from proxy.wire.gemini.contents import sign_calls, signature_of
from proxy.wire.own_tools import AnswerEvent, AnswerItem, Fields, OwnToolFilter, legible
from proxy.wire.requests import Wire, output_requirements_of, request_of, withhold
from proxy.wire.shapes import answer_bounds

_CALL_FINISHES = ("tool_calls", "function_call")
"""The ``finish_reason`` of a completion that calls tools."""


class ChatFilter(OwnToolFilter):
    """Of chat completions. Own tools are never offered where several choices are asked for."""

    def __init__(self, *, whole: bool, stored: bool = True) -> None:
        self._head: Fields = {}
        """``id`` and ``created`` of the first event that left."""
        self._last = ""
        """The last character of text that left."""
        super().__init__(whole=whole, stored=stored)

    def _reset(self) -> None:
        self._parted = False
        """Whether text of this answer has left."""
        self._message = MessageParts()
        self._of: dict[int, AnswerItem] = {}
        """By the call's identity."""
        self._has_signed = False
        """Whether the client's first call has got what `_missing_signature` says."""

    def _read(self, event: sse.Event) -> AnswerEvent:
        if event.done:
            self._end = self._end or "stop"
            return AnswerEvent(event.raw, kind="ends")
        chunk = bodies.object_in(event.data or b"")
        if chunk is None:
            return AnswerEvent(event.raw)
        self._failed = self._failed or isinstance(chunk.get("error"), dict)
        self._usage = chunk["usage"] if isinstance(chunk.get("usage"), dict) else self._usage
        choice = _choice(chunk)
        if choice is None:
            silent = "error" not in chunk
            return AnswerEvent(event.raw, chunk, kind="ends" if isinstance(chunk.get("usage"), dict) else "begins" if silent else "says")
        delta, ends = delta_of(choice), isinstance(choice.get("finish_reason"), str)
        items = self._items_of_calls(self._message.absorb(delta))
        self._end = end_of(choice["finish_reason"]) or "stop" if ends else self._end
        says = items or ends or _says(delta) or choice.get("logprobs")
        return AnswerEvent(event.raw, chunk, items, "ends" if ends else "says" if says else "begins")

    def _items_of_calls(self, calls: Sequence[CallParts], *, final: bool = False) -> list[AnswerItem]:
        """The items of calls; whose each is, as soon as its name says so."""
        found = []
        for call in calls:
            item = self._of.setdefault(id(call), AnswerItem(True, call.index))
            found.append(item)
            if item.own is None and call.name in self._tools:
                self._decide_owner(item, True)
            elif item.own is None and (final or call.arguments or not any(name.startswith(call.name) for name in self._tools)):
                self._decide_owner(item, False)
                if not self._has_own:  # up to here the client has them as they came
                    item.client_index = item.index
        return found

    def _settle(self) -> None:
        self._items_of_calls(self._message.calls.parts, final=True)

    def _without_own(self, event: AnswerEvent) -> tuple[AnswerEvent | None, AnswerEvent | None]:
        chunk = event.payload
        choice = _choice(chunk) if chunk is not None else None
        if chunk is None or choice is None:
            return super()._without_own(event)
        first, missing = self._missing_signature(chunk.get("model")) if event.items and not self._has_signed else (None, {})
        if event.kind != "ends" and not any(item.own or item.client_index != item.index or item is first for item in event.items):
            return event, None
        delta, kept = dict(delta_of(choice)), []
        for (entry, legacy), item in zip(call_entries(delta), event.items, strict=True):
            if legacy and item.own:
                delta.pop("function_call")
            elif not legacy and not item.own:
                kept.append({**entry, "index": item.client_index, **(missing if item is first else {})})
                self._has_signed = self._has_signed or item is first
        delta.pop("tool_calls", None)
        if kept:
            delta["tool_calls"] = kept
        ends = event.kind == "ends"
        left = _with(chunk, {**choice, "delta": delta, "finish_reason": None}, usage=not ends)
        rest = AnswerEvent(b"", left, (), "says" if _says(delta) else "begins")
        bare = {**choice, "delta": {}, **({"logprobs": None} if "logprobs" in choice else {})}
        return rest, AnswerEvent(b"", _with(chunk, bare), kind="ends") if ends else None

    def _missing_signature(self, model: object) -> tuple[AnswerItem | None, Fields]:
        """The client's first call, and what it is to have; None where it lacks nothing. Of calls at once Gemini signs the first: where that
        one stays here, the client's first says that it has no signature.
        """
        calls = [(part.fields, self._of[id(part)]) for part in self._message.calls.parts]
        left = [(fields, item) for fields, item in calls if item.own is False]
        if not left or not any(item.own and signature_of(fields) for fields, item in calls):
            return None, {}
        (fields, first), made = left[0], [{**fields} for fields, _ in left]
        sign_calls(made, str(model))
        missing = {name: value for name, value in made[0].items() if value is not fields.get(name)}
        return (first, missing) if missing else (None, {})

    def _render(self, event: AnswerEvent) -> bytes:
        chunk = event.payload
        if chunk is None:
            return event.raw
        new = self._continue_chunk(chunk) if self._joins else chunk
        if self._before is not None and isinstance(new.get("usage"), dict):
            new = {**new, "usage": add_usage(self._before, new["usage"])}
        choice = _choice(new)
        if choice is not None:
            self._head = self._head or {key: new[key] for key in ("id", "created") if key in new}
            text = delta_of(choice).get("content")
            self._last = text[-1] if isinstance(text, str) and text else self._last
        return event.raw if new is chunk and event.raw else sse.encode_json(new)

    def _continue_chunk(self, chunk: Fields) -> Fields:
        """A later answer's chunk as one of the stream that has begun; its first text stands apart from the text before."""
        choice = _choice(chunk)
        if choice is None:
            return {**chunk, **self._head}
        delta = {key: value for key, value in delta_of(choice).items() if key != "role"}
        text = delta.get("content")
        if isinstance(text, str) and text and self._last:
            if not self._parted and not self._last.isspace():
                delta["content"] = "\n\n" + text
            self._parted = True
        return {**_with(chunk, {**choice, "delta": delta}), **self._head}

    def _ended_plainly(self, event: AnswerEvent) -> AnswerEvent:
        choice = _choice(event.payload or {})
        if event.payload is None or choice is None or choice.get("finish_reason") not in _CALL_FINISHES:
            return event
        return AnswerEvent(b"", _with(event.payload, {**choice, "finish_reason": "stop"}))

    def _read_whole(self, fields: Fields) -> bool:
        choice = _choice(fields)
        if choice is None:
            return False
        self._message.absorb(bodies.object_of(choice.get("message")), whole=True)
        self._usage = fields["usage"] if isinstance(fields.get("usage"), dict) else None
        self._end = end_of(choice.get("finish_reason")) or "stop"
        return True

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        first, *others = bodies.raw_items(raw["choices"])
        choice = bodies.raw_fields(first)
        message = bodies.raw_fields(choice["message"])
        items = self._items()
        if "tool_calls" in message:
            entries = [entry for entry in bodies.raw_items(message["tool_calls"]) if bytes(entry).startswith(b"{")]
            unsigned, missing = self._missing_signature(orjson.loads(bytes(raw.get("model", b"null"))))
            new = {id(unsigned): missing}
            kept = [_renumber(entry, item, new.get(id(item), {})) for entry, item in zip(entries, items, strict=False) if not item.own]
            message["tool_calls"] = bodies.as_raw(kept)
            if not kept:
                del message["tool_calls"]
        if any(part.legacy and item.own for part, item in zip(self._message.calls.parts, items, strict=True)):
            message.pop("function_call")
        if all(item.own for item in items):
            if orjson.loads(bytes(choice.get("finish_reason", b"null"))) in _CALL_FINISHES:
                choice["finish_reason"] = msgspec.Raw(b'"stop"')
            if bytes(message.get("content", b"null")) == b"null":
                message["content"] = msgspec.Raw(b'""')
        choice["message"] = bodies.as_raw(message)
        raw["choices"] = bodies.as_raw([bodies.as_raw(choice), *others])

    def _items(self) -> Collection[AnswerItem]:
        return self._items_of_calls(self._message.calls.parts)

    def _calls(self) -> Iterator[ToolCall]:
        """Each with an id of its own: providers may leave it out, but want results to name one."""
        taken: set[str] = set()
        for position, (call, item) in enumerate(zip(self._message.calls.parts, self._items(), strict=True)):
            made = f"gw{self._answers:03d}{position:04d}"  # nine letters or digits: Mistral's form
            identity = call.id if call.id and call.id not in taken else made
            taken.add(identity)
            if item.own:
                yield ToolCall(identity, call.name, "".join(call.arguments), position)

    def _turn_of(self, calls: Sequence[ToolCall]) -> Message:
        turn: dict[str, Any] = {"role": "assistant", "content": None, **self._message.fields}
        if self._message.calls.parts[0].legacy:
            return {**turn, "function_call": {"name": calls[0].name, "arguments": legible(calls[0])}}
        made = [
            {"type": "function", **part.fields, "id": call.id, "function": {"name": call.name, "arguments": legible(call)}}
            for part, call in zip(self._message.calls.parts, calls, strict=True)
        ]
        return {**turn, "tool_calls": made}

    def messages(self, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
        """In the legacy form a result names its function."""
        if self._message.calls.parts[0].legacy:
            return [self._turn_of(calls), {"role": "function", "name": calls[0].name, "content": results[0]}]
        return super().messages(calls, results)

    def encode_failure(self, status: int, body: bytes) -> bytes:
        """An event with the error."""
        error = (bodies.object_in(body) or {}).get("error") if is_own("chat", body) else envelope("chat", failure_in(body), status)["error"]
        return sse.encode_json({"error": error})


def _renumber(raw: msgspec.Raw, item: AnswerItem, more: Mapping[str, Any]) -> msgspec.Raw:
    call = bodies.raw_fields(raw)
    index = {"index": msgspec.Raw(b"%d" % item.client_index)} if "index" in call else {}
    return bodies.as_raw({**call, **index, **more}) if index or more else raw


def _choice(chunk: Mapping[str, Any]) -> Fields | None:
    choices = chunk.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _with(chunk: Fields, choice: Fields, *, usage: bool = True) -> Fields:
    """`chunk` with another choice, with or without its usage."""
    return {**{key: value for key, value in chunk.items() if usage or key != "usage"}, "choices": [choice]}


def _says(delta: Mapping[str, Any]) -> bool:
    """Whether a delta says more than who speaks."""
    return any(value for key, value in delta.items() if key != "role")


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
        raw["messages"] = bodies.splice(raw["messages"], sent, exchange.messages)

    def _set_tools(self, raw: dict[str, msgspec.Raw], request: Request, tools: Sequence[Tool]) -> None:
        if tools and request.wire.legacy:
            raw["functions"] = bodies.encode_raw([tool["function"] for tool in tools])
        else:
            super()._set_tools(raw, request, tools)

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is not a chat completion."""
        fields = bodies.listing(body, "choices", "a chat completion")
        choices: list[Choice] = []
        missed = ""
        for position, raw in enumerate(fields["choices"]):
            missed = missed or unread(raw, streamed=False)
            if isinstance(raw, dict):
                (parts := ChoiceParts()).absorb(raw, whole=True)
                index = given if isinstance(given := raw.get("index"), int) else position
                choices.append(parts.choice(index))
        model, usage = fields.get("model"), usage_in("chat", fields.get("usage"), fields.get("service_tier"))
        return Answer(tuple(choices), model if isinstance(model, str) else "", usage, missed)

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
                choices[position] = bodies.encode_raw(_change_choice(choice, texts, arguments))
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
        return ChatShapes(answer_bounds(exchange, body))

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
        bodies.string_at(bodies.object_at(message, f"messages[{i}]").get("role"), f"messages[{i}].role")
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


def _change_choice(choice: dict[str, Any], texts: Mapping[str, str], arguments: Mapping[int, str]) -> dict[str, Any]:
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
    changed = {**choice, "message": message, **logprobs}
    if repeats(choice.get("delta"), bodies.object_of(given)):  # as some servers have it
        changed.pop("delta", None)
    return changed
