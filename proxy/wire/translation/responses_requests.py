"""Responses' requests: read into the neutral form, and written from it.

What a request only names of its conversation (``previous_response_id``, references) must have come by here, and is given to `read` as
messages: no other server knows it. Reference: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import structs

from proxy.ports.upstream import Past
from proxy.wire.bodies import present, string_at
from proxy.wire.responses.items import TOOLS_ITEM, is_result, item_type
from proxy.wire.translation import fields, neutral
from proxy.wire.translation.chat_requests import CACHE_OPTIONS, EFFORTS, MARKS, read_turns

MIN_TOKENS = 16
"""Of an answer, the least that the API takes as its limit; agents look whether a model is there with a limit of 1."""
_SUMMARIES = ("auto", "concise", "detailed")
"""How long the summary of the reasoning is to be: a wish, as the model's reasoning may be told in no words at all."""
FIELDS: tuple[fields.Field, ...] = (
    fields.Field("max_output_tokens", "max_tokens", write=fields.no_less_than(MIN_TOKENS), note="16 at least, as the API wants"),
    fields.Field("temperature", "temperature"),
    fields.Field("top_p", "top_p"),
    fields.Field("text.format", "form", nothing=({"type": "text"},), read=fields.openai_form, write=fields.to_responses_form),
    fields.Field("text.verbosity", "verbosity", nothing=("medium",)),
    fields.Field("tool_choice", "tool_choice", read=fields.openai_choice, write=fields.to_responses_choice),
    fields.Field("parallel_tool_calls", "parallel", nothing=(True,)),
    fields.Field("reasoning.effort", "effort", write=fields.among(*EFFORTS)),
    fields.Field("reasoning.summary", "summary", nothing=_SUMMARIES, note="what the server tells of its reasoning is the summary"),
    fields.Field("reasoning.context", "thoughts_kept", nothing=("auto",)),
    fields.Field("reasoning.mode", "reasoning_mode", nothing=("standard",)),
    fields.Field("reasoning.generate_summary", "summary", nothing=_SUMMARIES),
    fields.Field("user", "user", write=fields.user_of, note="one of more than 64 characters as its SHA-256"),
    fields.Field("safety_identifier", "user"),
    fields.Field("metadata", "metadata", nothing=({},)),
    fields.Field("service_tier", "service_tier", nothing=("auto",)),
    fields.Field("store", note="whether the proxy keeps the turn, so that a request can go on from it"),
    fields.Field("include", "include", nothing=([], ["reasoning.encrypted_content"]), note="`reasoning.encrypted_content` alone"),
    fields.Field("top_logprobs", "logprobs_of_parts", nothing=(0,)),
    fields.Field("truncation", "truncation", nothing=("disabled",)),
    fields.Field("background", "background", nothing=(False,)),
    *CACHE_OPTIONS,
    fields.Field("prompt_cache_options.prewarm", "prewarm", nothing=(False,)),
    fields.Field("client_metadata", note="tells the provider of the client"),
    fields.Field("stream_options.include_obfuscation", note="pads a stream"),
)
_ELSEWHERE = ("model", "input", "instructions", "tools", "stream", "previous_response_id")
_OF_OTHERS = ("include_usage", "store")
_CALL_ID_CHARS = 64
_TEXTS = ("input_text", "output_text", "text")
_ABOUT = ("type", "id", "status", "internal_chat_message_metadata_passthrough")
"""Of an item: what says nothing to the model."""
NAMESPACE = "__"
"""Between the name of a namespace and that of a tool in it, where an API has tools alone."""


def read(body: Mapping[str, Any], bounds: neutral.Bounds, past: Past) -> neutral.NeutralRequest:
    """With what the body only names. Raises `InvalidRequest` with the field."""
    ask = neutral.NeutralRequest(neutral.string(body, "model", ""), stream=body.get("stream") is True)
    if isinstance(body.get("instructions"), str):
        ask.turns.append(neutral.Turn("system", [neutral.Text(body["instructions"], "instructions")], "instructions"))
    if body.get("previous_response_id") is not None and past.messages is None:
        bounds.refuse("previous_response_id", "does not keep conversations, and not all of this one has come by here")
    if body.get("previous_response_id") is not None:
        ask.turns += read_turns(list(past.messages or ()), bounds, "previous_response_id")
    ask.turns += _read_input(body.get("input"), past, bounds)
    ask.tools = [one for at, tool in _offered_tools(body) for one in _read_tools(at, tool, bounds)]
    fields.read_fields(ask, body, FIELDS, _ELSEWHERE, bounds)
    return ask


def _read_input(given: object, past: Past, bounds: neutral.Bounds) -> list[neutral.Turn]:
    if given is None:
        return []
    if isinstance(given, str):
        return [neutral.Turn("user", [neutral.Text(given, "input")], "input")]
    turns: list[neutral.Turn] = []
    for at, item in neutral.objects(given, "input"):
        if is_result(item) and item["call_id"] in past.results:
            continue
        known = past.items.get(str(item.get("id"))) if item_type(item) == "item_reference" else None
        role, parts = _read_item(at, item if known is None else known, bounds)
        if turns and role == "assistant" == turns[-1].role:  # items of one turn
            turns[-1].parts += parts
        elif role:
            turns.append(neutral.Turn(role, parts, at))
    return turns


def _read_item(at: str, item: Mapping[str, Any], bounds: neutral.Bounds) -> tuple[str, list[neutral.Part]]:
    """Who says it, and what; "" for nobody."""
    kind = item_type(item)
    if kind == "message":
        role = {"developer": "system"}.get(str(item.get("role")), item.get("role"))
        if role not in ("system", "user", "assistant"):
            bounds.refuse(f"{at}.role")
            return "", []
        bounds.others(item, (*_ABOUT, "role", "content", "phase"), at)
        return str(role), neutral.parts_of(item.get("content"), f"{at}.content", _read_part, bounds)
    if kind in ("function_call", "custom_tool_call"):
        bounds.others(item, (*_ABOUT, "call_id", "name", "namespace", "arguments", "input"), at)
        custom = kind == "custom_tool_call"
        name = "input" if custom else "arguments"
        call_id, called = neutral.string(item, "call_id", at), flat_name(item, neutral.string(item, "name", at))
        return "assistant", [neutral.Call(call_id, called, neutral.string(item, name, at), f"{at}.{name}", custom)]
    if kind in ("function_call_output", "custom_tool_call_output"):
        bounds.others(item, (*_ABOUT, "call_id", "name", "namespace", "output"), at)
        content = neutral.of_result(neutral.parts_of(item.get("output"), f"{at}.output", _read_part, bounds), bounds)
        return "user", [neutral.Result(neutral.string(item, "call_id", at), content, at)]
    if kind == "reasoning":
        return "assistant", _read_reasoning(at, item)
    if kind == TOOLS_ITEM:
        bounds.others(item, (*_ABOUT, "role", "tools"), at)
        return "", []
    bounds.refuse(f"{at}.type", f"has no item {kind!r}")
    return "", []


def _read_reasoning(at: str, item: Mapping[str, Any]) -> list[neutral.Part]:
    """Nothing where the item only says that there was a thought."""
    said = [part.get("text") for name in ("summary", "content") for _, part in neutral.objects(item.get(name) or [], f"{at}.{name}")]
    seal = item.get("encrypted_content")
    own = str(seal) if neutral.unwrap(seal) is not None else neutral.wrap("responses", str(seal or ""))
    text = "\n\n".join(text for text in said if isinstance(text, str))
    return [neutral.ThinkingPart(text, own, at)] if text or seal else []


def _read_part(at: str, part: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.Part | None:
    kind = part.get("type")
    if kind in _TEXTS:
        bounds.others(part, ("type", "text", "annotations", "logprobs", *MARKS), at)
        return neutral.text_of(part, at)
    if kind == "refusal":
        return neutral.Refusal(neutral.string(part, "refusal", at), at)
    if kind == "input_image":
        bounds.others(part, ("type", "image_url", "detail", *MARKS), at)
        return neutral.Image(neutral.string(part, "image_url", at), at, str(part.get("detail") or "auto"))
    if kind == "input_file":
        bounds.others(part, ("type", "file_data", "file_url", "filename", *MARKS), at)
        url = string_at(part.get("file_data") or part.get("file_url"), f"{at}.file_data")
        return neutral.File(url, at, str(part.get("filename") or ""))
    bounds.refuse(f"{at}.type", f"has no {kind!r}")
    return None


def _offered_tools(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tools of a request and those that items of its input offer, each with its place; of one name, the last.
    Raises `InvalidRequest`."""
    found = {}
    items = neutral.objects(body["input"], "input") if isinstance(body.get("input"), list) else ()
    offers = [("tools", body), *((f"{at}.tools", item) for at, item in items if item_type(item) == TOOLS_ITEM)]
    for at, tool in (one for where, offer in offers for one in neutral.objects(offer.get("tools") or [], where)):
        found[str(tool.get("type")), str(tool.get("name", at))] = at, tool
    yield from found.values()


def _read_tools(at: str, tool: Mapping[str, Any], bounds: neutral.Bounds) -> list[neutral.Tool]:
    """One, or those of a namespace under its name, with what is said of it."""
    if tool.get("type") != "namespace":
        return [_read_tool(at, tool, bounds)]
    bounds.others(tool, ("type", "name", "description", "tools"), at)
    space, about = neutral.string(tool, "name", at), tool.get("description")
    found = []
    for one in (_read_tool(where, inner, bounds) for where, inner in neutral.objects(tool.get("tools"), f"{at}.tools")):
        name, said = space + NAMESPACE + one.name, "\n\n".join(text for text in (about, one.description) if text) or None
        custom = None if one.custom is None else {**one.custom, "name": name, **({"description": said} if said else {})}
        found += [structs.replace(one, name=name, description=said, custom=custom)] if one.name else []
    return found


def flat_name(item: Mapping[str, Any], name: str) -> str:
    """The name of the tool that a call is of, its namespace in front."""
    space = item.get("namespace")
    return f"{space}{NAMESPACE}{name}" if isinstance(space, str) and space else name


def spaces_of(body: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The namespace and name of each tool of a request that stands in one, by the name that it has where there are none."""
    found = {}
    for _, tool in _offered_tools(body):
        if tool.get("type") == "namespace":
            for one in tool.get("tools") or ():
                found[flat_name({"namespace": tool["name"]}, str(one.get("name")))] = (str(tool["name"]), str(one.get("name")))
    return found


def _read_tool(at: str, tool: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.Tool:
    kind = tool.get("type")
    if kind == "custom":
        bounds.others(tool, ("type", *neutral.CUSTOM_FIELDS), at)
        described = {name: tool[name] for name in neutral.CUSTOM_FIELDS if name in tool}
        return neutral.Tool(neutral.string(tool, "name", at), at, tool.get("description"), custom=_chat_grammar(described))
    if kind != "function":
        bounds.refuse(f"{at}.type", f"has no tool {kind!r}")
        return neutral.Tool("", at)
    bounds.others(tool, ("type", "name", "description", "parameters", "strict"), at)
    return neutral.Tool(neutral.string(tool, "name", at), at, tool.get("description"), tool.get("parameters"), tool.get("strict"))


def _chat_grammar(described: dict[str, Any]) -> dict[str, Any]:
    """A custom tool in chat's form, where a grammar stands one object deeper."""
    given = described.get("format")
    if not isinstance(given, Mapping) or given.get("type") != "grammar":
        return described
    return {**described, "format": {"type": "grammar", "grammar": {name: value for name, value in given.items() if name != "type"}}}


def write(ask: neutral.NeutralRequest, bounds: neutral.Bounds) -> dict[str, Any]:
    """The body. Raises `InvalidRequest`."""
    custom = {part.id for turn in ask.turns for part in turn.parts if isinstance(part, neutral.Call) and part.custom}
    body: dict[str, Any] = {"model": ask.model, "input": [item for turn in ask.turns for item in _write_turn(turn, custom, bounds)]}
    if ask.tools:
        body["tools"] = [_write_tool(tool) for tool in ask.tools if tool.name]
    body |= fields.write_fields(ask, FIELDS, _OF_OTHERS, bounds)
    kept = ask.settings.get("store")
    body["store"] = kept is not None and kept.value is True  # the other APIs keep nothing unless they are asked to
    return body | ({"stream": True} if ask.stream else {})


def _write_turn(turn: neutral.Turn, custom: Collection[str], bounds: neutral.Bounds) -> list[dict[str, Any]]:
    """A turn's items: its words as one message, what else it has in its place."""
    items: list[dict[str, Any]] = []
    for part in turn.parts:
        if isinstance(part, neutral.Call):
            kind, name = ("custom_tool_call", "input") if part.custom else ("function_call", "arguments")
            call_id = neutral.fitting(part.id, "call_", _CALL_ID_CHARS)
            items.append({"type": kind, "call_id": call_id, "name": part.name, name: part.arguments})
        elif isinstance(part, neutral.Result):
            items.append(_write_result(part, custom, bounds))
        elif isinstance(part, neutral.ThinkingPart):
            items = [*_without_loose_thought(items), *_write_thought(part, bounds)]
        elif (shown := _write_part(part, turn.role, bounds)) is not None:
            if items and items[-1].get("role") == turn.role:
                items[-1]["content"].append(shown)
            else:
                items.append({"type": "message", "role": turn.role, "content": [shown]})
    return _without_loose_thought(items)


def _without_loose_thought(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without an encrypted thought at the end: OpenAI refuses one that leads to nothing, as to a call of the proxy's own."""
    return items[:-1] if items and items[-1].get("encrypted_content") else items


def _write_part(
    part: neutral.Text | neutral.Image | neutral.File | neutral.Refusal, role: str, bounds: neutral.Bounds
) -> dict[str, Any] | None:
    if isinstance(part, neutral.Text):
        return {"type": "output_text" if role == "assistant" else "input_text", "text": part.text} if part.text else None
    if isinstance(part, neutral.Refusal):
        return {"type": "refusal", "refusal": part.text}
    if isinstance(part, neutral.Image):
        return {"type": "input_image", "image_url": part.url, "detail": part.detail}
    where = "file_data" if part.url.startswith("data:") else "file_url"
    named = {"filename": part.name or "file.pdf"} if where == "file_data" else {}
    return {"type": "input_file", where: part.url, **named}


def _write_result(result: neutral.Result, custom: Collection[str], bounds: neutral.Bounds) -> dict[str, Any]:
    content = neutral.with_failure(result)
    shown = [one for part in content if (one := _write_part(part, "user", bounds)) is not None]
    plain = not shown or (len(shown) == 1 and shown[0]["type"] == "input_text")
    output: Any = (shown[0]["text"] if shown else "") if plain else shown
    kind = "custom_tool_call_output" if result.id in custom else "function_call_output"
    return {"type": kind, "call_id": neutral.fitting(result.id, "call_", _CALL_ID_CHARS), "output": output}


def _write_thought(thought: neutral.ThinkingPart, bounds: neutral.Bounds) -> list[dict[str, Any]]:
    """A server that encrypts nothing gets its words back, under a name, which such servers want."""
    seal = neutral.own_thought(thought, bounds, "responses")
    if seal is None:
        return []
    if not seal[1]:
        if not thought.text:
            return []
        content = [{"type": "reasoning_text", "text": thought.text}]
        return [{"type": "reasoning", "id": neutral.fitting(thought.text, "rs_", 0), "summary": [], "content": content}]
    summary = [{"type": "summary_text", "text": thought.text}] if thought.text else []
    return [{"type": "reasoning", "summary": summary, "encrypted_content": seal[1]}]


def _write_tool(tool: neutral.Tool) -> dict[str, Any]:
    if tool.custom is not None:
        return {"type": "custom", **_flat_grammar(tool.custom)}
    said = present(description=tool.description, parameters=neutral.object_schema({} if tool.parameters is None else tool.parameters))
    return {"type": "function", "name": tool.name, "strict": tool.strict is True, **said}


def _flat_grammar(described: Mapping[str, Any]) -> dict[str, Any]:
    given = described.get("format")
    inner = given.get("grammar") if isinstance(given, Mapping) else None
    return {**described, "format": {"type": "grammar", **inner}} if isinstance(inner, Mapping) else dict(described)
