"""A body of ``generateContent`` -> a `Request` in chat form, and the memory of which of its parts came from which bytes.

An item of ``contents`` becomes one chat message or several: each ``functionResponse`` is a tool's message, what stands before, between or
behind them another. ``systemInstruction`` is the first message. Thoughts are in no chat message; they stay where they stand. A call without
an id, as most are, gets one by its place; a response without one is that of the first call of its name that has none yet. Of ``tools``,
each function is one tool, and each of the provider's own (``googleSearch``) another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.errors import InvalidRequest
from proxy.exchange import Message, Request, Tool
from proxy.exchange.answers import OutputRequirements
from proxy.wire import bodies
from proxy.wire.gemini.address import model_name
from proxy.wire.gemini.fields import CALL_PREFIX, address, field_spelling, got, is_text, json_schema, kind_of, objects, text_in
from proxy.wire.requests import Wire, request_of

SYSTEM = -1
"""The item that ``systemInstruction`` is."""
Place = tuple[int, int]
"""The item, and the part in it."""
_DECLARATIONS = "functionDeclarations"


class GeminiWire(Wire):
    """Also where each message, part and tool came from, by the identity of its object."""

    def __init__(self, body: bytes, fields: Mapping[str, Any]) -> None:
        super().__init__(body, fields)
        self.fields = fields
        self.places: dict[int, Place] = {}
        """Of content parts and calls."""
        self.places_of_message: dict[int, list[Place]] = {}
        """Of each message, all of its parts, thoughts included."""
        self.parts: dict[Place, Mapping[str, Any]] = {}
        """As they came."""
        self.sizes: dict[int, int] = {}
        """How many parts an item has."""
        self.tools: dict[int, tuple[int, str, int]] = {}
        """Of each tool: the item of ``tools``, the field of that, and the place in the list that stands there."""


def read_request(body: bytes) -> Request:
    """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
    fields = bodies.load(body)
    model = model_name(fields.get("model"))
    wire = GeminiWire(body, fields)
    reader = _Reader(wire)
    reader.item(SYSTEM, system_of(fields), field_spelling(fields, "systemInstruction"))
    contents = objects(fields.get("contents"), "contents")
    if not contents:
        raise InvalidRequest("contents: at least one content is needed", param="contents")
    for i, item in enumerate(contents):
        reader.item(i, item, f"contents[{i}]")
    tools = _tools(fields, wire)
    read = ("model", "stream", "contents", field_spelling(fields, "systemInstruction"), "tools", bodies.EXTENSION)
    return request_of(fields, wire, model, reader.messages, tools, read, output_requirements_of, reader.hints)


def system_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """``systemInstruction`` as a content; the API takes plain words, too."""
    found = got(fields, "systemInstruction")
    if isinstance(found, str):
        return {"parts": [{"text": found}]}
    return {} if found is None else bodies.object_at(found, "systemInstruction")


class Calls:
    """Ids of calls, and of their results, in the order in which they come."""

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []
        """Name and id of the calls that have no result yet."""

    def call(self, call: Mapping[str, Any], place: Place) -> str:
        """Of a ``functionCall``."""
        given = call.get("id")
        identity = given if isinstance(given, str) and given else f"{CALL_PREFIX}{place[0]}_{place[1]}"
        self._open.append((str(call.get("name")), identity))
        return identity

    def result(self, response: Mapping[str, Any], place: Place) -> str:
        """Of a ``functionResponse``."""
        name, given = str(response.get("name")), response.get("id")
        for i, (called, identity) in enumerate(self._open):
            if (identity == given) if given else (called == name):
                del self._open[i]
                return identity
        return given if isinstance(given, str) and given else f"{CALL_PREFIX}{place[0]}_{place[1]}"


class _Reader:
    """Reads items into chat messages."""

    def __init__(self, wire: GeminiWire) -> None:
        self._wire = wire
        self._calls = Calls()
        self.messages: list[Message] = []
        self.hints: dict[int, Mapping[str, Any]] = {}

    def item(self, i: int, item: Mapping[str, Any], at: str) -> None:
        """An item of ``contents``, or ``systemInstruction``."""
        role = item.get("role")
        if role is not None:
            bodies.string_at(role, f"{at}.role")
        parts = objects(item.get("parts"), f"{at}.parts")
        self._wire.sizes[i] = len(parts)
        begin = len(self.messages)
        says: dict[str, Any] = {"role": "system" if i == SYSTEM else "assistant" if role == "model" else "user"}
        spoken: list[tuple[dict[str, Any], Place]] = []
        held: list[Place] = []
        for j, part in enumerate(parts):
            place, where = (i, j), f"{at}.parts[{j}]"
            self._wire.parts[place] = part
            kind = kind_of(part)
            given = got(part, kind, where) if kind else None
            if kind == "functionResponse" and says["role"] == "user":
                self._close(says, spoken, held)
                spoken, held = [], []
                self._result(bodies.object_at(given, f"{where}.{kind}"), place, where)
                continue
            held.append(place)
            if kind == "functionCall" and says["role"] == "assistant":
                self._call(says, bodies.object_at(given, f"{where}.{kind}"), place, where)
            elif kind == "text" and not isinstance(given, str):
                raise bodies.unexpected(f"{where}.text", "a string", given)
            elif kind and part.get("thought") is not True:
                spoken.append((_part(kind, part, given, where), place))
        self._close(says, spoken, held)
        if bodies.EXTENSION in item:
            self.hints |= dict.fromkeys(range(begin, len(self.messages)), bodies.hint_of(item, at))

    def _call(self, says: dict[str, Any], given: Mapping[str, Any], place: Place, at: str) -> None:
        name = bodies.read_typed(dict(given), "name", str, "a string") if "name" in given else None
        if name is None:
            raise bodies.unexpected(f"{at}.functionCall.name", "a string", None)
        arguments = orjson.dumps(given.get("args") if given.get("args") is not None else {}).decode()
        call = {"id": self._calls.call(given, place), "type": "function", "function": {"name": name, "arguments": arguments}}
        self._wire.places[id(call)] = place
        says.setdefault("tool_calls", []).append(call)

    def _result(self, given: Mapping[str, Any], place: Place, at: str) -> None:
        name = bodies.string_at(given.get("name"), f"{at}.functionResponse.name")
        text, _ = text_in(given.get("response"))
        message = {"role": "tool", "tool_call_id": self._calls.result(given, place), "name": name, "content": text}
        self._wire.places_of_message[id(message)] = [place]
        self.messages.append(message)

    def _close(self, says: Mapping[str, Any], spoken: list[tuple[dict[str, Any], Place]], held: list[Place]) -> None:
        """A message of what has come, if anything has."""
        if not held:
            return
        parts = [part for part, _ in spoken]
        single = len(parts) == 1 and parts[0].keys() == {"type", "text"}
        message = {**says, "content": parts[0]["text"] if single else parts or None}
        if not single:
            self._wire.places.update((id(part), place) for part, place in spoken)
        self._wire.places_of_message[id(message)] = held
        self.messages.append(message)


def _part(kind: str, part: Mapping[str, Any], given: Any, at: str) -> dict[str, Any]:
    """The part that stands for one; an object of its own, by which it is found again."""
    if is_text(part):
        return {"type": "text", "text": part["text"]}
    if kind in ("inlineData", "fileData"):
        data = bodies.object_at(given, f"{at}.{kind}")
        if str(got(data, "mimeType")).startswith("image/"):
            return {"type": "image_url", "image_url": {"url": address(data)}}
        inline = {"file_data": address(data)} if kind == "inlineData" else {}
        return {"type": "file", "file": {"filename": str(got(data, "displayName") or got(data, "fileUri") or "document"), **inline}}
    return {"type": kind, kind: given}


def _tools(fields: Mapping[str, Any], wire: GeminiWire) -> list[Tool]:
    found: list[Tool] = []
    for i, item in enumerate(objects(fields.get("tools"), "tools")):
        declared = field_spelling(item, _DECLARATIONS, f"tools[{i}]")
        for name, value in item.items():
            if name != declared:
                tools: list[Tool] = [{"type": name, name: value}]
            else:
                tools = [function_of(one) for one in objects(value, f"tools[{i}].{declared}")]
            for j, tool in enumerate(tools):
                wire.tools[id(tool)] = (i, name, j)
            found += tools
    return found


def function_of(declared: Mapping[str, Any]) -> Tool:
    """The tool that an item of ``functionDeclarations`` is."""
    schema = got(declared, "parametersJsonSchema")
    schema = json_schema(declared.get("parameters")) if schema is None else schema
    function = bodies.present(name=declared.get("name"), description=declared.get("description"), parameters=schema)
    return {"type": "function", "function": function}


_SAMPLING = {"temperature": "temperature", "topP": "top_p", "seed": "seed", "frequencyPenalty": "frequency_penalty"}
_SAMPLING |= {"presencePenalty": "presence_penalty"}
_MODES = {"ANY": "required", "NONE": "none"}


def output_requirements_of(params: Mapping[str, Any]) -> OutputRequirements:
    """Read from ``generationConfig`` and ``toolConfig``."""
    config = bodies.object_of(got(params, "generationConfig"))
    calling = bodies.object_of(got(bodies.object_of(got(params, "toolConfig")), "functionCallingConfig"))
    kind, limit, number = got(config, "responseMimeType"), got(config, "maxOutputTokens"), got(config, "candidateCount")
    schema = got(config, "responseJsonSchema")
    allowed = got(calling, "allowedFunctionNames")
    values = {name: got(config, own) for own, name in _SAMPLING.items()}
    return OutputRequirements(
        form="json" if kind == "application/json" else "text" if kind in (None, "", "text/plain") else "constrained",
        schema=json_schema(got(config, "responseSchema")) if schema is None else schema,
        calls=_MODES.get(str(calling.get("mode") or "").upper(), "auto"),  # type: ignore[arg-type]
        chosen_tools=frozenset(name for name in allowed if isinstance(name, str)) if isinstance(allowed, list) else frozenset(),
        choices=number if isinstance(number, int) and number > 0 else 1,
        max_output_tokens=limit if isinstance(limit, int) and limit > 0 else None,
        limit_field="generationConfig.maxOutputTokens",
        stream_usage=True,
        sampling={name: value for name, value in values.items() if bodies.is_number(value)},
    )
