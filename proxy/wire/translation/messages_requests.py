"""Messages' requests: read into the neutral form, and written from it.

Reference: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from proxy.wire.bodies import object_at, objects_of, present
from proxy.wire.translation import fields, neutral
from proxy.wire.translation.chat_requests import CACHES


def _thinking(value: Any) -> None:
    """What sets no budget leaves it to the model, as the other APIs do; a budget has no counterpart."""
    if not isinstance(value, Mapping) or value.get("type") not in ("adaptive", "between_tools", "disabled"):
        raise ValueError("has no budget for thinking")


def _context_management(value: Any) -> None:
    """What keeps all thinking changes nothing, as no other API takes any away."""
    edits = value.get("edits") if isinstance(value, Mapping) else None
    for edit in edits if isinstance(edits, list) else [None]:
        if not isinstance(edit, Mapping) or not str(edit.get("type")).startswith("clear_thinking") or edit.get("keep") != "all":
            raise ValueError("edits no conversation")


FIELDS: tuple[fields.Field, ...] = (
    fields.Field("max_tokens", "max_tokens", note="where the client sets none: the model's own limit, else 4,096"),
    fields.Field("temperature", "temperature", write=fields.at_most(1)),
    fields.Field("top_p", "top_p"),
    fields.Field("top_k", "top_k"),
    fields.Field("stop_sequences", "stop", nothing=([],)),
    fields.Field("output_config.format", "form", read=fields.messages_form, write=fields.to_messages_form),
    fields.Field("output_config.effort", "effort", write=fields.among("low", "medium", "high", "xhigh", "max")),
    fields.Field("output_format", "form", read=fields.messages_form),
    fields.Field("tool_choice", "tool_choice", read=fields.messages_choice, write=fields.to_messages_choice),
    fields.Field("tool_choice.disable_parallel_tool_use", "parallel", note="turned around"),
    fields.Field("metadata.user_id", "user"),
    fields.Field("thinking", "thinking", read=_thinking, note="a budget is refused"),
    fields.Field("service_tier", "anthropics_tier", nothing=("auto",)),
    fields.Field("speed", "speed", nothing=("standard",)),
    fields.Field("context_management", "context_management", read=_context_management),
    fields.Field("cache_control", note=CACHES),
    fields.Field("diagnostics", note="asks how the cache was used"),
)
_ELSEWHERE = ("model", "messages", "system", "tools", "stream")
_WRITTEN_ELSEWHERE = ("parallel", "include_usage")
_MARK = "cache_control"
_REFERENCE = "tool_reference"
"""A block of a result that stands for a deferred tool; here for its name."""
_TOOL = ("type", "name", "description", "input_schema", "strict", _MARK, "eager_input_streaming", "defer_loading")
_ID = re.compile(r"[A-Za-z0-9_-]+")
_MEDIA_TYPES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
"""Names in use that the API does not know."""
_BILLING = "x-anthropic-billing-header:"
"""Begins a block of ``system`` that Claude Code writes anew into each request, for Anthropic's servers: elsewhere it spoils the cache."""
_ID_CHARS = 64
MAX_TOKENS = 4096
"""Of an answer whose client sets no limit and whose model is not known: the API wants one, and every model of it can write as much."""


def read(body: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.NeutralRequest:
    """Raises `InvalidRequest` with the field that is malformed, or has no counterpart."""
    ask = neutral.NeutralRequest(neutral.string(body, "model", ""), stream=body.get("stream") is True)
    if system := [part for part in neutral.parts_of(body.get("system"), "system", _read_block, bounds) if not _is_billing(part)]:
        ask.turns.append(neutral.Turn("system", system, "system"))
    every = (_read_item(at, item, bounds) for at, item in neutral.objects(body.get("messages"), "messages"))
    ask.turns += [turn for turn in every if turn is not None]
    neutral.refuse_prefill(ask, bounds)
    tools = list(neutral.objects(body.get("tools") or [], "tools"))
    found = _found(body["messages"]) if all(_is_own(tool) for _, tool in tools) else None
    offered = ((at, tool) for at, tool in tools if found is None or tool.get("defer_loading") is not True or str(tool.get("name")) in found)
    ask.tools = [_read_tool(at, tool, bounds) for at, tool in offered]
    fields.read_fields(ask, body, FIELDS, _ELSEWHERE, bounds)
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and choice.get("disable_parallel_tool_use") is True:
        ask.settings["parallel"] = neutral.Setting(False, "tool_choice.disable_parallel_tool_use")
    return ask


def _found(messages: Any) -> set[str]:
    """Names of the deferred tools that a search of the client's own has found: as before Anthropic's servers, the model knows no others."""
    blocks = (block for message in objects_of(messages) for block in objects_of(message.get("content")))
    parts = (part for block in blocks for part in objects_of(block.get("content")))
    return {str(part.get("tool_name")) for part in parts if part.get("type") == _REFERENCE}


def _is_own(tool: Mapping[str, Any]) -> bool:
    return tool.get("type") in (None, "custom")


def _is_billing(part: neutral.Part) -> bool:
    return isinstance(part, neutral.Text) and part.text.lstrip().lower().startswith(_BILLING) and "\n" not in part.text.strip()


def _read_item(at: str, item: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.Turn | None:
    bounds.others(item, ("role", "content"), at)
    role = item.get("role")
    if role not in ("user", "assistant", "system"):
        bounds.refuse(f"{at}.role")
        return None
    return neutral.Turn(str(role), neutral.parts_of(item.get("content"), f"{at}.content", _read_block, bounds), at)


def _read_block(at: str, block: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.Part | None:
    kind = block.get("type")
    if kind == "text":
        bounds.others(block, ("type", "text", _MARK), at)
        return neutral.text_of(block, at)
    if kind == _REFERENCE:
        bounds.others(block, ("type", "tool_name", _MARK), at)
        return neutral.text_of(block, at, "tool_name")
    if kind == "tool_use":
        bounds.others(block, ("type", "id", "name", "input", _MARK), at)
        arguments = orjson.dumps(block.get("input") if block.get("input") is not None else {}).decode()
        return neutral.Call(neutral.string(block, "id", at), neutral.string(block, "name", at), arguments, f"{at}.input")
    if kind == "tool_result":
        bounds.others(block, ("type", "tool_use_id", "content", "is_error", _MARK), at)
        shown = neutral.of_result(neutral.parts_of(block.get("content"), f"{at}.content", _read_block, bounds), bounds)
        return neutral.Result(neutral.string(block, "tool_use_id", at), shown, at, block.get("is_error") is True)
    if kind == "thinking":
        return neutral.ThinkingPart(neutral.string(block, "thinking", at), _wrap_signature(block.get("signature"), "messages"), at)
    if kind == "redacted_thinking":
        return neutral.ThinkingPart("", _wrap_signature(block.get("data"), "redacted"), at)
    if kind in ("image", "document"):
        return _read_source(at, block, bounds)
    bounds.refuse(f"{at}.type", f"has no block {kind!r}")
    return None


def _wrap_signature(given: object, kind: str) -> str:
    return str(given) if neutral.unwrap(given) is not None else neutral.wrap(kind, str(given or ""))


def _read_source(at: str, block: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.Part | None:
    source, image = object_at(block.get("source"), f"{at}.source"), block.get("type") == "image"
    bounds.others(block, ("type", "source", "title", _MARK), at)
    kind = source.get("type")
    if kind == "base64" and (image or source.get("media_type") == "application/pdf"):
        url = f"data:{source.get('media_type')};base64,{neutral.string(source, 'data', f'{at}.source')}"
    elif kind == "url":
        url = neutral.string(source, "url", f"{at}.source")
    else:
        bounds.refuse(f"{at}.source.type", f"has no source {kind!r}")
        return None
    return neutral.Image(url, at) if image else neutral.File(url, at, str(block.get("title") or ""))


def _read_tool(at: str, tool: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.Tool:
    if not _is_own(tool):
        bounds.refuse(f"{at}.type", f"has no tool {tool.get('type')!r}")
        return neutral.Tool("", at)
    bounds.others(tool, _TOOL, at)
    return neutral.Tool(neutral.string(tool, "name", at), at, tool.get("description"), tool.get("input_schema"), tool.get("strict"))


def write(ask: neutral.NeutralRequest, bounds: neutral.Bounds, *, limit: int | None = None) -> dict[str, Any]:
    """The body; `limit` is the longest answer of the model, in tokens, if it is known. Raises `InvalidRequest`."""
    body: dict[str, Any] = {"model": ask.model, "max_tokens": limit or MAX_TOKENS}
    begin = next((i for i, turn in enumerate(ask.turns) if turn.role != "system"), len(ask.turns))
    words = [part.text for turn in ask.turns[:begin] for part in turn.parts if isinstance(part, neutral.Text) and part.text.strip()]
    if words:
        body["system"] = _plain([{"type": "text", "text": text} for text in words])
    body["messages"] = _write_turns(neutral.opened_by_user(ask.turns, begin), bounds)
    if ask.tools:
        body["tools"] = [_write_tool(tool, bounds) for tool in ask.tools if tool.name]
    effort = ask.settings.get("effort")
    if effort is not None and effort.value == "none":
        body["thinking"] = {"type": "disabled"}
    skipped = ("effort",) if "thinking" in body else ()
    body |= fields.write_fields(ask, FIELDS, (*_WRITTEN_ELSEWHERE, *skipped), bounds)
    silent = next((name for name in ("top_p", "temperature") if body.get(name) == 1), "")
    if silent and {"temperature", "top_p"} <= body.keys():  # newer models take one alone; 1 is what each is where it is not set
        del body[silent]
    parallel = ask.settings.get("parallel")
    if parallel is not None and ask.tools and (choice := body.setdefault("tool_choice", fields.to_messages_choice(neutral.Choice("auto")))):
        body["tool_choice"] = choice if choice["type"] == "none" else {**choice, "disable_parallel_tool_use": not parallel.value}
    return body | ({"stream": True} if ask.stream else {})


def _write_turns(turns: list[neutral.Turn], bounds: neutral.Bounds) -> list[dict[str, Any]]:
    """One message for each side's turn: the results of parallel calls stand in one, in front of what the user says."""
    found: list[dict[str, Any]] = []
    for turn in turns:
        blocks = [block for part in turn.parts if (block := _write_part(part, bounds)) is not None]
        if not blocks:
            continue
        if found and found[-1]["role"] == turn.role:
            found[-1]["content"] += blocks
        else:
            found.append({"role": turn.role, "content": blocks})
    if found and found[-1]["role"] == "assistant" and (end := found[-1]["content"][-1])["type"] == "text":
        end["text"] = end["text"].rstrip()  # the API wants a begun answer without it
    return [{**one, "content": _plain(sorted(one["content"], key=lambda block: block["type"] != "tool_result"))} for one in found]


def _plain(blocks: list[dict[str, Any]]) -> Any:
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _write_part(part: neutral.Part, bounds: neutral.Bounds) -> dict[str, Any] | None:
    if isinstance(part, neutral.Text | neutral.Refusal):
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if isinstance(part, neutral.Call):
        return {"type": "tool_use", "id": _id(part.id), "name": part.name, "input": neutral.arguments_of(part, bounds)}
    if isinstance(part, neutral.Result):
        blocks = [block for one in part.content if (block := _write_part(one, bounds)) is not None]
        failed = {"is_error": True} if part.failed else {}
        return {"type": "tool_result", "tool_use_id": _id(part.id), "content": _plain(blocks) if blocks else "", **failed}
    if isinstance(part, neutral.ThinkingPart):
        kind, data = neutral.own_thought(part, bounds, "messages", "redacted") or ("", "")
        if kind == "messages":
            return {"type": "thinking", "thinking": part.text, "signature": data}
        return {"type": "redacted_thinking", "data": data} if kind else None
    return _write_source(part, bounds)


def _write_source(part: neutral.Image | neutral.File, bounds: neutral.Bounds) -> dict[str, Any] | None:
    if isinstance(part, neutral.Image) and part.detail != "auto":
        bounds.refuse(part.at, f"has no detail {part.detail!r} of an image")
    inline = neutral.split_data_url(part.url)
    if isinstance(part, neutral.File) and inline is not None and inline[0] != "application/pdf":
        bounds.refuse(part.at, "takes PDF files alone")
        return None
    source = {"type": "url", "url": part.url}
    if inline is not None:
        source = {"type": "base64", "media_type": _MEDIA_TYPES.get(inline[0], inline[0]), "data": inline[1]}
    if isinstance(part, neutral.Image):
        return {"type": "image", "source": source}
    return {"type": "document", "source": source} | ({"title": part.name} if part.name else {})


def _write_tool(tool: neutral.Tool, bounds: neutral.Bounds) -> dict[str, Any]:
    if tool.custom is not None:
        bounds.refuse(tool.at, "has no custom tools")
    schema = neutral.object_schema(tool.parameters if isinstance(tool.parameters, Mapping) else {})
    return {"name": tool.name, **present(description=tool.description, strict=tool.strict or None), "input_schema": schema}


def _id(identity: str) -> str:
    return neutral.fitting(identity, "toolu_", _ID_CHARS, _ID)
