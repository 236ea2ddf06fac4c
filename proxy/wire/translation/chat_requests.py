"""Chat completions' requests: read into the neutral form, and written from it.

Reference: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.wire.bodies import entries_of, exact_object, objects_of, present, unexpected
from proxy.wire.gemini.contents import sign_calls
from proxy.wire.translation import fields, neutral

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
CACHES = "a hint to the provider's cache"
CACHE_OPTIONS = (
    fields.Field("prompt_cache_key", note=CACHES),
    fields.Field("prompt_cache_retention", note=CACHES),
    fields.Field("prompt_cache_options.mode", note=CACHES),
    fields.Field("prompt_cache_options.ttl", note=CACHES),
    fields.Field("prompt_cache_options.comparison_response_id", note="asks how the cache was used"),
)
MARKS = ("cache_control", "prompt_cache_breakpoint")
"""Of a part: hints to a cache."""
FIELDS: tuple[fields.Field, ...] = (
    fields.Field("max_tokens", "max_tokens", note="`max_completion_tokens` before OpenAI and Azure"),
    fields.Field("max_completion_tokens", "max_tokens"),
    fields.Field("temperature", "temperature"),
    fields.Field("top_p", "top_p"),
    fields.Field("stop", "stop", nothing=([],), read=fields.stops_of),
    fields.Field("response_format", "form", read=fields.openai_form, write=fields.to_chat_form),
    fields.Field("tool_choice", "tool_choice", read=fields.openai_choice, write=fields.to_chat_choice),
    fields.Field("parallel_tool_calls", "parallel", nothing=(True,)),
    fields.Field("reasoning_effort", "effort", write=fields.among(*EFFORTS)),
    fields.Field("verbosity", "verbosity", nothing=("medium",)),
    fields.Field("user", "user", write=fields.user_of, note="one of more than 64 characters as its SHA-256"),
    fields.Field("safety_identifier", "user"),
    fields.Field("metadata", "metadata", nothing=({},)),
    fields.Field("service_tier", "service_tier", nothing=("auto",)),
    fields.Field("store", "store", nothing=(False,)),
    *CACHE_OPTIONS,
    fields.Field("stream_options.include_usage", "include_usage", nothing=(False,), note="the answer's writer goes by it"),
    fields.Field("stream_options.include_obfuscation", note="pads a stream"),
    fields.Field("n", "choices", nothing=(1,)),
    fields.Field("seed", "seed"),
    fields.Field("logprobs", "logprobs", nothing=(False,)),
    fields.Field("top_logprobs", "top_logprobs", nothing=(0,)),
    fields.Field("logit_bias", "logit_bias", nothing=({},)),
    fields.Field("frequency_penalty", "frequency_penalty", nothing=(0, 0.0)),
    fields.Field("presence_penalty", "presence_penalty", nothing=(0, 0.0)),
    fields.Field("modalities", "modalities", nothing=(["text"],)),
)
_ELSEWHERE = ("model", "messages", "tools", "stream")
OF_CHAT = frozenset(("include_usage",))
"""OutputRequirements that only this API's own clients have, and that ask nothing of the server."""
_CALL_ID_CHARS = 40
"""Longest id of a call that OpenAI takes."""
_SYSTEM = ("system", "developer")
SIGNED = ("reasoning_details", "thinking_blocks")
"""Fields of an answer's message in which servers sign thoughts (OpenRouter, LiteLLM), and want them back."""
SIGNED_OF_CALL = ("extra_content", "provider_specific_fields")
"""The same of a call (Google's own chat API, LiteLLM)."""


def read(body: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.NeutralRequest:
    """Raises `InvalidRequest` with the field that is malformed, or has no counterpart."""
    ask = neutral.NeutralRequest(neutral.string(body, "model", ""), stream=body.get("stream") is True)
    ask.turns = read_turns(body.get("messages"), bounds)
    ask.tools = [_read_tool(at, tool, bounds) for at, tool in neutral.objects(body.get("tools") or [], "tools")]
    fields.read_fields(ask, body, FIELDS, _ELSEWHERE, bounds)
    return ask


def read_turns(messages: object, bounds: neutral.Bounds, where: str = "messages") -> list[neutral.Turn]:
    """A conversation in chat form, also one that the proxy remembers."""
    return [turn for at, message in neutral.objects(messages, where) for turn in _read_message(at, message, bounds)]


def _read_message(at: str, message: Mapping[str, Any], bounds: neutral.Bounds) -> list[neutral.Turn]:
    role = message.get("role")
    named = ("name",) if role in ("assistant", "tool") else ()
    bounds.others(message, ("role", "content", "refusal", "tool_calls", "tool_call_id", "annotations", *_THOUGHTS, *named), at)
    parts = neutral.parts_of(message.get("content"), f"{at}.content", _read_part, bounds)
    if role == "tool":
        call_id = neutral.string(message, "tool_call_id", at)
        return [neutral.Turn("user", [neutral.Result(call_id, neutral.of_result(parts, bounds), at)], at)]
    if role == "assistant":
        if isinstance(message.get("refusal"), str) and message["refusal"]:
            parts.append(neutral.Refusal(message["refusal"], f"{at}.refusal"))
        parts += [_read_call(where, call) for where, call in neutral.objects(message.get("tool_calls") or [], f"{at}.tool_calls")]
        return [neutral.Turn("assistant", parts, at)]
    if role in _SYSTEM or role == "user":
        return [neutral.Turn("system" if role in _SYSTEM else "user", parts, at)]
    bounds.refuse(f"{at}.role")
    return []


_THOUGHTS = ("reasoning_content", "reasoning")
"""What servers of open models say of their reasoning in an answer, and clients may bring back: no model reads it again."""


def _read_part(at: str, part: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.Part | None:
    kind = part.get("type")
    if kind == "text":
        bounds.others(part, ("type", "text", *MARKS), at)
        return neutral.text_of(part, at)
    if kind == "refusal":
        return neutral.Refusal(neutral.string(part, "refusal", at), at)
    given = part.get(str(kind))
    if kind == "image_url" and isinstance(given, Mapping):
        return neutral.Image(neutral.string(given, "url", f"{at}.image_url"), at, str(given.get("detail") or "auto"))
    if kind == "file" and isinstance(given, Mapping):
        bounds.others(given, ("file_data", "filename"), f"{at}.file")
        return neutral.File(neutral.string(given, "file_data", f"{at}.file"), at, str(given.get("filename") or ""))
    bounds.refuse(f"{at}.type", f"has no {kind!r}")
    return None


def _read_call(at: str, call: Mapping[str, Any]) -> neutral.Call:
    custom = call.get("type") == "custom"
    inner, name = call.get("custom" if custom else "function"), "input" if custom else "arguments"
    if not isinstance(inner, Mapping):
        raise unexpected(at, "a call of a function", inner)
    given, call_id = neutral.string(inner, name, f"{at}.function"), neutral.string(call, "id", at)
    return neutral.Call(call_id, neutral.string(inner, "name", f"{at}.function"), given, f"{at}.function.arguments", custom)


def _read_tool(at: str, tool: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.Tool:
    kind = tool.get("type")
    inner = tool.get(str(kind))
    if kind not in ("function", "custom") or not isinstance(inner, Mapping):
        bounds.refuse(f"{at}.type", f"has no tool {kind!r}")
        return neutral.Tool("", at)
    name = neutral.string(inner, "name", f"{at}.{kind}")
    bounds.others(tool, ("type", kind, *MARKS), at)
    if kind == "custom":
        bounds.others(inner, neutral.CUSTOM_FIELDS, f"{at}.custom")
        return neutral.Tool(name, at, inner.get("description"), custom=inner)
    bounds.others(inner, ("name", "description", "parameters", "strict"), f"{at}.function")
    return neutral.Tool(name, at, inner.get("description"), inner.get("parameters"), inner.get("strict"))


def write(ask: neutral.NeutralRequest, bounds: neutral.Bounds, *, newest: bool = False) -> dict[str, Any]:
    """The body; `newest` for the API's own server, which wants ``max_completion_tokens`` and takes turns in any order.

    Raises `InvalidRequest`.
    """
    turns = ask.turns if newest else neutral.fit_template(ask.turns)
    body: dict[str, Any] = {"model": ask.model, "messages": [one for turn in turns for one in _write_turn(turn, bounds, ask.model)]}
    if ask.tools:
        body["tools"] = [_write_tool(tool) for tool in ask.tools if tool.name]
    body |= fields.write_fields(ask, FIELDS, OF_CHAT, bounds)
    if newest and "max_tokens" in body:
        body["max_completion_tokens"] = body.pop("max_tokens")
    if ask.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _write_turn(turn: neutral.Turn, bounds: neutral.Bounds, model: str) -> list[dict[str, Any]]:
    results = [_write_result(part, bounds) for part in turn.parts if isinstance(part, neutral.Result)]
    rest = [part for part in turn.parts if not isinstance(part, neutral.Result)]
    if turn.role == "assistant":
        return [_write_assistant(rest, bounds, model)] if rest else []
    content = _write_content(rest, bounds)
    return results + ([{"role": turn.role, "content": content}] if content else [])


def _write_assistant(parts: Sequence[neutral.Part], bounds: neutral.Bounds, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": _write_content(parts, bounds) or None}
    refusals = "".join(part.text for part in parts if isinstance(part, neutral.Refusal))
    thoughts = [part for part in parts if isinstance(part, neutral.ThinkingPart)]
    own = [(part.text, seal[1]) for part in thoughts if (seal := neutral.own_thought(part, bounds, "chat")) is not None]
    sealed = [exact_object(data) or {} for _, data in own]
    of_calls = {str(call.get("id")): call for fields in sealed for call in objects_of(fields.get("tool_calls"))}
    calls = [
        {**_write_call(part), **{name: value for name, value in of_calls.get(part.id, {}).items() if name in SIGNED_OF_CALL}}
        for part in parts
        if isinstance(part, neutral.Call)
    ]
    sign_calls(calls, model)
    said = {"refusal": refusals, "reasoning_content": "".join(text for text, _ in own), "tool_calls": calls}
    said |= {name: [one for fields in sealed for one in entries_of(fields.get(name))] for name in SIGNED}
    return message | {name: value for name, value in said.items() if value}


def _write_content(parts: Sequence[neutral.Part], bounds: neutral.Bounds) -> Any:
    """One text as a string, which every server takes; else a list."""
    shown = [one for part in parts if (one := _write_part(part, bounds)) is not None]
    return shown[0]["text"] if len(shown) == 1 and shown[0]["type"] == "text" else shown


def _write_part(part: neutral.Part, bounds: neutral.Bounds) -> dict[str, Any] | None:
    if isinstance(part, neutral.Text):
        return {"type": "text", "text": part.text} if part.text else None
    if isinstance(part, neutral.Image):
        detail = {"detail": part.detail} if part.detail != "auto" else {}
        return {"type": "image_url", "image_url": {"url": part.url, **detail}}
    if isinstance(part, neutral.File):
        if not part.url.startswith("data:"):
            bounds.refuse(part.at, "takes a file's content, not its address")
            return None
        return {"type": "file", "file": {"filename": part.name or "file.pdf", "file_data": part.url}}
    return None


def _write_call(call: neutral.Call) -> dict[str, Any]:
    kind, name = ("custom", "input") if call.custom else ("function", "arguments")
    return {"id": neutral.fitting(call.id, "call_", _CALL_ID_CHARS), "type": kind, kind: {"name": call.name, name: call.arguments}}


def _write_result(result: neutral.Result, bounds: neutral.Bounds) -> dict[str, Any]:
    texts = []
    for part in neutral.with_failure(result):
        if isinstance(part, neutral.Text):
            texts.append(part.text)
        else:
            bounds.refuse(part.at, "takes text alone as the result of a call")
    content: Any = texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts] or ""
    return {"role": "tool", "tool_call_id": neutral.fitting(result.id, "call_", _CALL_ID_CHARS), "content": content}


def _write_tool(tool: neutral.Tool) -> dict[str, Any]:
    if tool.custom is not None:
        return {"type": "custom", "custom": dict(tool.custom)}
    said = present(description=tool.description, parameters=neutral.object_schema(tool.parameters), strict=tool.strict or None)
    return {"type": "function", "function": {"name": tool.name, **said}}
