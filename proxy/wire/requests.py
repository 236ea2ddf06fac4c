"""What the dialects' requests have in common: a body -> a `Request`, and an exchange -> the body that goes upstream, spliced.

What is still the object it was goes out in the bytes it came in: the whole body, a field, a tool; what of the messages, each dialect says.

Also what parameters ask of the answer: OpenAI's, and those that other servers of the same API take beside them. In: the fields of a body.
Out: `OutputRequirements`. A field that makes no sense asks for nothing: the provider refuses it in its own words.

The forms of structured output, each from its server's reference: OpenAI ``response_format``; Fireworks and llama.cpp ``schema`` and Text
Generation Inference ``value`` in it; vLLM ``structured_outputs``, before 0.12 ``guided_*``; llama.cpp and SGLang ``json_schema``,
``grammar``, ``regex``, ``ebnf``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
import orjson

from proxy.exchange import Exchange, Message, Request, Tool, tool_name
from proxy.exchange.answers import OutputRequirements
from proxy.wire.bodies import (
    EXTENSION,
    check_extension,
    encode_raw,
    entries_of,
    flag,
    is_number,
    object_of,
    passages_of,
    raw_fields,
    reading,
    splice,
)

_ABOUT_TOOLS = ("tools", "functions", "tool_choice", "function_call", "parallel_tool_calls")
"""Fields that providers refuse where there are no tools."""


class Wire:
    """What a dialect remembers of a request's bytes."""

    def __init__(self, body: bytes, fields: Mapping[str, Any]) -> None:
        self.body, self.extended = body, EXTENSION in fields
        """The bytes; whether they have Groundwire's own field at the top."""


def request_of(
    fields: Mapping[str, Any],
    wire: Wire,
    model: str,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    read: Collection[str],
    read_wants: Callable[[Mapping[str, Any]], OutputRequirements],
    hints: Mapping[int, Mapping[str, Any]],
    **more: Any,
) -> Request:
    """The request that a body's `fields` are; those that are not `read` are parameters. Raises `InvalidRequest`."""
    params = {name: value for name, value in fields.items() if name not in read}
    extension = fields.get(EXTENSION)
    check_extension(extension)
    return Request(
        model=model,
        messages=tuple(messages),
        tools=tuple(tools),
        params=params,
        stream=flag(fields, "stream"),
        wants=read_wants(params),
        read_wants=read_wants,
        passages=passages_of(extension),
        has_context="context" in (extension or {}),
        message_hints=hints,
        wire=wire,
        size=len(wire.body),
        quick_size=reading(wire.body),
        **more,
    )


class RequestRendering(Protocol):
    """Splices the body of an exchange; each dialect says how it writes a tool, and messages."""

    def render_request(self, exchange: Exchange) -> bytes:
        """The body to send upstream: the client's own bytes wherever no stage changed anything."""
        request = exchange.original
        same_messages = self._same_messages(exchange)
        same_tools, same_params = same(exchange.tools, request.tools), exchange.params is request.params
        if same_messages and same_tools and same_params and not request.wire.extended:
            body: bytes = request.wire.body
            return body
        raw = raw_fields(request.wire.body)
        raw.pop(EXTENSION, None)
        if not same_tools:
            self._set_tools(raw, request, exchange.tools)
        if not same_params:
            _splice_fields(raw, request.params, exchange.params)
        if not same_messages:
            self._set_messages(raw, exchange)
        return msgspec.json.encode(raw)

    def _same_messages(self, exchange: Exchange) -> bool:
        """Whether the conversation is sent as it came."""
        return same(exchange.messages, exchange.original.messages) and not exchange.original.message_hints

    def _set_messages(self, raw: dict[str, msgspec.Raw], exchange: Exchange) -> None:
        """Bring the conversation into a body's fields."""

    def _set_tools(self, raw: dict[str, msgspec.Raw], request: Request, tools: Sequence[Tool]) -> None:
        if not tools:
            for name in _ABOUT_TOOLS:
                raw.pop(name, None)
            return
        known = {tool_name(tool) for tool in request.tools}
        given = raw["tools"] if request.tools else msgspec.Raw(b"[]")
        raw["tools"] = splice(given, request.tools, tools, lambda tool: self._describe_tool(tool, known=tool_name(tool) in known))

    def _describe_tool(self, tool: Tool, *, known: bool) -> Mapping[str, Any]:
        """A tool in the API's form; `known` is whether the client sent one of this name."""
        return tool


def same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether both hold the same objects."""
    return new is old or (len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True)))


def _splice_fields(raw: dict[str, msgspec.Raw], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Bring a body's fields from `before` to `after`; one that is still the same object stays in its own bytes."""
    for key in [key for key in raw if key in before and key not in after]:
        del raw[key]
    for key, value in after.items():
        if key not in before or value is not before[key]:
            raw[key] = encode_raw(value)


def withhold(exchange: Exchange, own: Collection[str], none: Mapping[str, Any]) -> None:
    """Take the tools `own` out of the request; where there are no others, leave them and add the parameters `none`, which forbid calls: the
    APIs want to see the tools of earlier calls.
    """
    others = [tool for tool in exchange.tools if tool_name(tool) not in own]
    if others:
        exchange.tools = others
    else:
        exchange.params = {**exchange.params, **none}


def content_parts(content: Any) -> Sequence[Any]:
    """A message's content as parts."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def counterparts(before: Sequence[Message], after: Sequence[Message]) -> list[int | None]:
    """For each message to send, the position of the one it is, or was made from: its place says so, or what it has of it (`_keys`)."""
    position = {id(message): i for i, message in enumerate(before)}
    found = [position.get(id(message)) for message in after]
    _pair_gaps(before, after, found)
    taken = {*found}
    known: dict[tuple[Any, Any], list[int]] = {}
    for i in reversed(range(len(before))):  # the last of a list comes first
        for key in _keys(before[i]) if i not in taken else ():
            known.setdefault(key, []).append(i)
    for i, message in enumerate(after):
        if found[i] is None:
            found[i] = next((old for key in _keys(message) if (old := _first(known.get(key, []), taken)) is not None), None)
            taken.add(found[i])
    _pair_gaps(before, after, found)
    return found


def _keys(message: Message) -> list[tuple[Any, Any]]:
    """By what a message is known when another is made from it: calls, else parts that are still the same, else its first line."""
    content = message.get("content")
    keys = call_ids(message) or ([id(part) for part in content] if isinstance(content, list) else [])
    if not keys and isinstance(content, str) and (line := content.lstrip().partition("\n")[0]):
        keys = [line]
    return [(message.get("role"), key) for key in keys]


def _first(positions: list[int], taken: Collection[int | None]) -> int | None:
    """The first that is not taken; those before it are left out for good."""
    while positions and positions[-1] in taken:
        positions.pop()
    return positions[-1] if positions else None


def _pair_gaps(before: Sequence[Message], after: Sequence[Message], found: list[int | None]) -> None:
    """Where as many messages of the same roles and calls stand between two that are known, they are those, edited."""
    start = 0
    for end in range(len(after) + 1):
        if end < len(after) and found[end] is None:
            continue
        low = found[start - 1] if start else -1
        high = found[end] if end < len(after) else len(before)
        as_many = low is not None and high is not None and end > start and high - low - 1 == end - start
        if as_many and low is not None and all(map(_fits, before[low + 1 : high], after[start:end])):
            found[start:end] = range(low + 1, low + 1 + end - start)
        start = end + 1


def _fits(old: Message, new: Message) -> bool:
    """Whether one may have been made from the other."""
    ids = {*call_ids(new)}
    return old.get("role") == new.get("role") and (not ids or not ids.isdisjoint(call_ids(old)))


def call_ids(message: Message) -> list[Any]:
    """The ids of the calls that a message makes, or of the one whose result it is."""
    if message.get("role") == "tool":
        return [message.get("tool_call_id")]
    return [call.get("id") for call in message.get("tool_calls") or () if isinstance(call, Mapping)]


_CONSTRAINTS = ("guided_regex", "guided_choice", "guided_grammar", "structural_tag", "grammar", "regex", "ebnf")
_STRUCTURED = ("regex", "choice", "grammar", "structural_tag")
_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed")
_LIMITS = ("max_completion_tokens", "max_tokens")
_REQUIREMENT_FIELDS = frozenset(
    (
        *_CONSTRAINTS,
        "stream_options",
        "response_format",
        "structured_outputs",
        "guided_json",
        "json_schema",
        "tool_choice",
        "function_call",
        "n",
    )
)
"""What is looked at beside `_SAMPLING` and `_LIMITS`: most requests have none of it."""

Calls = Literal["auto", "none", "required"]


def output_requirements_of(params: Mapping[str, Any]) -> OutputRequirements:
    """Read from them."""
    sampling = {name: params[name] for name in _SAMPLING if name in params and is_number(params[name])}
    limit, field = None, "max_tokens"
    for name in _LIMITS:
        if limit is None and name in params:
            limit, field = _whole(params[name]), name
    if _REQUIREMENT_FIELDS.isdisjoint(params):
        return OutputRequirements(max_output_tokens=limit, limit_field=field, sampling=sampling)
    options, form = object_of(params.get("stream_options")), object_of(params.get("response_format"))
    schemas = list(_schemas(params, form))
    return OutputRequirements(
        form="json" if schemas else "constrained" if _is_constrained(params, form) else "text",
        schema=schemas[0] if schemas else None,
        shown_schema=form["json_schema"] if isinstance(form.get("json_schema"), Mapping) else None,
        calls=_calls(params),
        chosen_tools=frozenset(_chosen(params)),
        choices=_choices(params.get("n")),
        max_output_tokens=limit,
        limit_field=field,
        stream_usage=options.get("include_usage") is True,
        sampling=sampling,
    )


def with_format(params: Mapping[str, Any], limit: str, form: Mapping[str, Any], *, constrained: bool = False) -> OutputRequirements:
    """For the APIs that have one object for the form, a name for the ``limit``, and chat's ways to choose tools."""
    kind = str(form.get("type", "text"))
    is_json = kind.startswith("json")
    return OutputRequirements(
        form="json" if is_json else "constrained" if constrained or kind != "text" else "text",
        schema=form.get("schema") if is_json else None,
        shown_schema=form if kind == "json_schema" and "name" in form else None,
        calls=_calls(params),
        chosen_tools=frozenset(_chosen(params)),
        max_output_tokens=_whole(params.get(limit)),
        limit_field=limit,
        stream_usage=True,
        sampling={name: params[name] for name in ("temperature", "top_p") if is_number(params.get(name))},
    )


def _schemas(params: Mapping[str, Any], form: Mapping[str, Any]) -> Iterator[Any]:
    """The schema of every demand for JSON: None for any object, true for any value."""
    kind = str(form.get("type"))
    if kind.startswith("json"):
        described = form.get("json_schema")
        beside = form.get("schema", form.get("value", None if kind in ("json_object", "json_schema") else True))
        yield described.get("schema") if isinstance(described, Mapping) else beside
    structured = object_of(params.get("structured_outputs"))
    for given in (structured.get("json"), params.get("guided_json"), params.get("json_schema")):
        if given not in (None, ""):
            yield _parse_schema(given)
    if structured.get("json_object"):
        yield None


def _parse_schema(schema: Any) -> Any:
    """vLLM takes a schema as text too."""
    try:
        return orjson.loads(schema) if isinstance(schema, str) else schema
    except orjson.JSONDecodeError:
        return schema


def _is_constrained(params: Mapping[str, Any], form: Mapping[str, Any]) -> bool:
    structured = object_of(params.get("structured_outputs"))
    by_form = form.get("type") not in (None, "text")
    return by_form or any(params.get(name) for name in _CONSTRAINTS) or any(structured.get(name) for name in _STRUCTURED)


def _calls(params: Mapping[str, Any]) -> Calls:
    """``tool_choice``, else the legacy ``function_call``; either can forbid calls."""
    modes = [_mode(choice) for choice in (params.get("tool_choice"), params.get("function_call")) if choice]
    return "none" if "none" in modes else modes[0] if modes else "auto"


def _mode(choice: object) -> Calls:
    """Of one: an object forces a call, unless it says otherwise (``allowed_tools``, and Anthropic's ``{"type": "auto"}``)."""
    if isinstance(choice, Mapping):
        allowed = _allowed_tools(choice)
        kind = choice.get("type")
        choice = allowed.get("mode") if allowed is not None else kind if kind in ("auto", "none") else "required"
    return "none" if choice == "none" else "required" if choice in ("required", "any") else "auto"


def _allowed_tools(choice: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The mode and tools of ``allowed_tools``, which stand in an object of that name, or beside the type."""
    inner = choice.get("allowed_tools")
    return inner if isinstance(inner, Mapping) else choice if choice.get("type") == "allowed_tools" else None


def _chosen(params: Mapping[str, Any]) -> Iterator[str]:
    """Names in ``tool_choice`` (a tool, or ``allowed_tools``) and in the legacy ``function_call``."""
    for choice in (params.get("tool_choice"), params.get("function_call")):
        if isinstance(choice, Mapping):
            for entry in (choice, *entries_of((_allowed_tools(choice) or choice).get("tools"))):
                for part in (entry, object_of(entry).get("function"), object_of(entry).get("custom")):
                    if isinstance(part, Mapping) and isinstance(part.get("name"), str):
                        yield part["name"]


def _choices(n: object) -> int:
    """Some servers take ``"2"``, too."""
    try:
        return max(1, int(n)) if isinstance(n, int | float | str) else 1
    except (ValueError, OverflowError):
        return 1


def _whole(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def fits(text: str, wants: OutputRequirements) -> bool:
    """Whether a text has the form that was asked for."""
    try:
        return wants.form == "text" or (wants.form == "json" and isinstance(orjson.loads(text), dict))
    except orjson.JSONDecodeError:
        return False
