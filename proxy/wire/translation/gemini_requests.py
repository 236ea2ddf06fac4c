"""Requests of Gemini's ``generateContent``: read into the neutral form, and written from it.

Reference: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from proxy.wire.bodies import object_at, object_of, present
from proxy.wire.gemini.contents import FROM_GEMINI_3, call_part, data_part, result_part, sign
from proxy.wire.gemini.fields import address, camel, got, json_schema, kind_of, objects, response_of, text_in
from proxy.wire.gemini.requests import Calls, system_of
from proxy.wire.translation import fields, neutral
from proxy.wire.translation.chat_requests import EFFORTS

SIGNED = "(signed)"
"""The words of a part that carries another API's signature alone: clients take parts without words out of a conversation."""
_OFF = ("OFF", "BLOCK_NONE", "HARM_BLOCK_THRESHOLD_UNSPECIFIED")
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192}
_MOST_BUDGET = 24_576
"""Tokens of thoughts, as Google's own OpenAI-compatible API has them (https://ai.google.dev/gemini-api/docs/openai#thinking)."""
_BY_BUDGET = re.compile(r"(?:models/)?gemini-2\.5")
_LEAST_OF_PRO = 128
"""Tokens: Gemini 2.5 Pro always thinks."""
_THINK_MINIMALLY = re.compile(r"(?:models/)?gemini-(?:3-flash|[^/]*flash-lite)")
"""Models that have a level below low, which all others refuse (https://ai.google.dev/gemini-api/docs/thinking#thinking-levels)."""


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("expects an object")
    return value


def _safety(value: Any) -> None:
    """Filters that are off are what other APIs have."""
    if any(not isinstance(one, Mapping) or one.get("threshold") not in _OFF for one in (value if isinstance(value, list) else [value])):
        raise ValueError("has no safety filters")


def _thinking(value: Any) -> str | None:
    """A level is an effort; a budget is left to the model, as the other APIs have none, and none of it is no effort."""
    value = _object(value)
    level, budget = got(value, "thinkingLevel"), got(value, "thinkingBudget")
    return "none" if budget == 0 else level.lower() if isinstance(level, str) else None


def _choice(value: Any) -> neutral.Choice | None:
    value = _object(value)
    mode, allowed = str(value.get("mode") or "AUTO").upper(), got(value, "allowedFunctionNames")
    if mode == "NONE":
        return neutral.Choice("none")
    if mode not in ("ANY", "AUTO", "VALIDATED", "MODE_UNSPECIFIED"):
        raise ValueError("has no such mode")
    names = tuple(allowed) if isinstance(allowed, list) else ()
    if not all(isinstance(name, str) for name in names):
        raise ValueError("expects the names of functions")
    if mode == "ANY" and len(names) == 1:
        return neutral.Choice("tool", names[0])
    kind = "required" if mode == "ANY" else "auto"
    return neutral.Choice(kind, allowed=names or None) if names or kind == "required" else None


def _to_choice(choice: neutral.Choice) -> dict[str, Any]:
    allowed = (choice.name,) if choice.mode == "tool" else choice.allowed
    mode = {"none": "NONE", "auto": "VALIDATED" if allowed else "AUTO"}.get(choice.mode, "ANY")
    return {"mode": mode} | ({"allowedFunctionNames": list(allowed)} if allowed else {})


def _modalities(value: Any) -> list[str] | None:
    found = [str(one).lower() for one in value] if isinstance(value, list) else []
    return None if found in ([], ["text"]) else found


_CONFIG = "generationConfig."
FIELDS: tuple[fields.Field, ...] = (
    fields.Field(_CONFIG + "maxOutputTokens", "max_tokens"),
    fields.Field(_CONFIG + "temperature", "temperature"),
    fields.Field(_CONFIG + "topP", "top_p"),
    fields.Field(_CONFIG + "topK", "top_k"),
    fields.Field(_CONFIG + "stopSequences", "stop", nothing=([],)),
    fields.Field(_CONFIG + "candidateCount", "choices", nothing=(1,)),
    fields.Field(_CONFIG + "seed", "seed"),
    fields.Field(_CONFIG + "presencePenalty", "presence_penalty", nothing=(0, 0.0)),
    fields.Field(_CONFIG + "frequencyPenalty", "frequency_penalty", nothing=(0, 0.0)),
    fields.Field(_CONFIG + "responseLogprobs", "logprobs", nothing=(False,)),
    fields.Field(_CONFIG + "logprobs", "top_logprobs", nothing=(0,)),
    fields.Field(_CONFIG + "responseModalities", "modalities", read=_modalities),
    fields.Field(_CONFIG + "thinkingConfig", "effort", read=_thinking, note="a level; a budget is left to the model, one of 0 is none"),
    fields.Field(_CONFIG + "responseMimeType", "form", note="`application/json`"),
    fields.Field(_CONFIG + "responseSchema", "form", note="its types in small letters"),
    fields.Field(_CONFIG + "responseJsonSchema", "form"),
    fields.Field("toolConfig.functionCallingConfig", "tool_choice", read=_choice, write=_to_choice),
    fields.Field("safetySettings", "safety", nothing=([],), read=_safety, note="filters that are off"),
)
_ELSEWHERE = ("model", "contents", "systemInstruction", "tools", "stream")
_FORM = tuple(_CONFIG + name for name in ("responseMimeType", "responseSchema", "responseJsonSchema"))
_WRITTEN_ELSEWHERE = ("form", "effort", "include_usage", "user")
"""``user`` has no counterpart, and says nothing to the answer."""
_SAYS_TYPE = ("type", "$ref", "anyOf", "oneOf", "allOf")
"""What a schema has that says of which type its value is; the API wants to know that a function takes an object."""
_PART_FIELDS = ("thought", "thoughtSignature", "partMetadata")
"""Of a part, beside what it holds: what says nothing to another API's model."""
_DECLARATION_FIELDS = ("name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior")


def read(body: Mapping[str, Any], bounds: neutral.Bounds) -> neutral.NeutralRequest:
    """Raises `InvalidRequest` with the field that is malformed, or has no counterpart."""
    body = camel(body)
    for name in ("generationConfig", "toolConfig"):
        if isinstance(body.get(name), Mapping):
            body[name] = camel(body[name])
    ask = neutral.NeutralRequest(neutral.string(body, "model", ""), stream=body.get("stream") is True)
    reader = _Reader(bounds)
    if (system := system_of(body)) and (turn := reader.turn(-1, {**system, "role": "user"}, "systemInstruction")).parts:
        ask.turns.append(neutral.Turn("system", turn.parts, "systemInstruction"))
    for i, item in enumerate(objects(body.get("contents"), "contents")):
        turn = reader.turn(i, item, f"contents[{i}]")
        ask.turns += [turn] if turn.parts else []
    neutral.refuse_prefill(ask, bounds)
    ask.tools = [tool for i, item in enumerate(objects(body.get("tools"), "tools")) for tool in _read_tools(f"tools[{i}]", item, bounds)]
    fields.read_fields(ask, body, FIELDS, (*_ELSEWHERE, *_FORM), bounds)
    _read_form(ask, object_of(body.get("generationConfig")), bounds)
    return ask


def _read_form(ask: neutral.NeutralRequest, config: Mapping[str, Any], bounds: neutral.Bounds) -> None:
    kind, schema = config.get("responseMimeType"), config.get("responseJsonSchema")
    schema = json_schema(config.get("responseSchema")) if schema is None else schema
    at = _FORM[0]
    if kind == "application/json":
        ask.settings["form"] = neutral.Setting(neutral.Form(schema, strict=True if schema is not None else None), at)
    elif kind not in (None, "", "text/plain"):
        bounds.refuse(at, f"knows no form {kind!r}")


class _Reader:
    """Reads the items of ``contents``."""

    def __init__(self, bounds: neutral.Bounds) -> None:
        self._bounds, self._calls = bounds, Calls()

    def turn(self, i: int, item: Mapping[str, Any], at: str) -> neutral.Turn:
        """One of them. Raises `InvalidRequest`."""
        role = "assistant" if item.get("role") == "model" else "user"
        turn = neutral.Turn(role, [], at)
        thought = ""
        for j, part in enumerate(objects(item.get("parts"), f"{at}.parts")):
            where = f"{at}.parts[{j}]"
            if part.get("thought") is True:
                seal = open_signature(got(part, "thoughtSignature"))
                thought += "" if seal and part.get("text") == SIGNED else str(part.get("text") or "")
                if seal:  # what Google's own models tell of their thoughts no model reads again
                    turn.parts.append(neutral.ThinkingPart(thought, seal, where))
                    thought = ""
            elif (read := self._part(part, (i, j), where)) is not None:
                turn.parts.append(read)
        return turn

    def _part(self, part: Mapping[str, Any], place: tuple[int, int], at: str) -> neutral.Part | None:
        kind = kind_of(part)
        given = got(part, kind) if kind else None
        if not kind:
            return None
        if kind == "text":
            return neutral.text_of(part, at) if part.get("text") else None
        if kind not in ("functionCall", "functionResponse", "inlineData", "fileData"):
            self._bounds.refuse(f"{at}.{kind}", "has no such part")
            return None
        where = f"{at}.{kind}"
        self._bounds.others(camel(part), (kind, *_PART_FIELDS), at)
        given = object_at(given, where)
        if kind == "functionCall":
            arguments = orjson.dumps(given.get("args") if given.get("args") is not None else {}).decode()
            return neutral.Call(self._calls.call(given, place), neutral.string(given, "name", where), arguments, f"{where}.args")
        if kind == "functionResponse":
            return self._result(given, place, where)
        return _data(given, where)

    def _result(self, given: Mapping[str, Any], place: tuple[int, int], at: str) -> neutral.Result:
        response = given.get("response")
        failed = isinstance(response, Mapping) and response.keys() == {"error"}
        content: list[neutral.Text | neutral.Image | neutral.File] = [neutral.Text(text_in(response)[0], f"{at}.response")]
        for j, part in enumerate(objects(given.get("parts"), f"{at}.parts")):
            data = got(part, kind_of(part))
            if isinstance(data, Mapping):
                content.append(_data(data, f"{at}.parts[{j}]"))
        neutral.string(given, "name", at)
        return neutral.Result(self._calls.result(given, place), tuple(content), at, failed)


def _data(given: Mapping[str, Any], at: str) -> neutral.Image | neutral.File:
    url = address(given)
    if str(got(given, "mimeType")).startswith("image/"):
        return neutral.Image(url, at)
    return neutral.File(url, at, str(got(given, "displayName") or ""))


def _read_tools(at: str, item: Mapping[str, Any], bounds: neutral.Bounds) -> list[neutral.Tool]:
    item = camel(item)
    for name, value in item.items():
        if name != "functionDeclarations" and value is not None:  # most of the provider's own have no options: {}
            bounds.refuse(f"{at}.{name}")
    found = []
    for j, given in enumerate(objects(item.get("functionDeclarations"), f"{at}.functionDeclarations")):
        where, one = f"{at}.functionDeclarations[{j}]", camel(given)
        bounds.others(one, _DECLARATION_FIELDS, where)
        schema = one.get("parametersJsonSchema")
        schema = json_schema(one.get("parameters")) if schema is None else schema
        found.append(neutral.Tool(neutral.string(one, "name", where), where, one.get("description"), schema))
    return found


def signature(seal: str) -> str:
    """Another API's seal of a thought as the API's clients bring back bytes."""
    return base64.b64encode(seal.encode()).decode()


def open_signature(given: object) -> str:
    """The seal in such bytes; "" for a signature of Google's own."""
    try:
        text = base64.b64decode(given.replace("-", "+").replace("_", "/"), validate=True).decode() if isinstance(given, str) else ""
    except (binascii.Error, ValueError):
        return ""
    return text if neutral.unwrap(text) is not None else ""


# ---- writing ----


def write(ask: neutral.NeutralRequest, bounds: neutral.Bounds) -> dict[str, Any]:
    """The body, with the fields that stand for the address. Raises `InvalidRequest`."""
    turns = neutral.fit_template(ask.turns)
    begin = 1 if turns and turns[0].role == "system" else 0
    body: dict[str, Any] = {}
    if begin and (system := [{"text": part.text} for part in turns[0].parts if isinstance(part, neutral.Text) and part.text]):
        body["systemInstruction"] = {"parts": system}
    names = {part.id: part.name for turn in turns for part in turn.parts if isinstance(part, neutral.Call)}
    body["contents"] = _write_turns(neutral.opened_by_user(turns, begin), names, bounds, ask.model)
    if ask.tools:
        body["tools"] = [{"functionDeclarations": [_write_tool(tool, bounds) for tool in ask.tools if tool.name]}]
    body |= fields.write_fields(ask, FIELDS, _WRITTEN_ELSEWHERE, bounds)
    if any(tool.strict for tool in ask.tools) and "toolConfig" not in body:
        body["toolConfig"] = {"functionCallingConfig": {"mode": "VALIDATED"}}
    if config := _form_and_effort(ask, bounds):
        body["generationConfig"] = body.get("generationConfig", {}) | config
    return {**body, "model": ask.model, "stream": ask.stream}


def _form_and_effort(ask: neutral.NeutralRequest, bounds: neutral.Bounds) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if (form := ask.settings.get("form")) is not None:
        found["responseMimeType"] = "application/json"
        found |= {} if form.value.schema is None else {"responseJsonSchema": form.value.schema}
    if (effort := ask.settings.get("effort")) is not None:
        if effort.value not in EFFORTS:
            bounds.refuse(effort.at, f"knows {', '.join(EFFORTS)} alone")
        elif _BY_BUDGET.match(ask.model):
            least = _LEAST_OF_PRO if "-pro" in ask.model else 0
            found["thinkingConfig"] = {"thinkingBudget": max(least, _BUDGETS.get(effort.value, _MOST_BUDGET))}
        else:
            level = {"none": "MINIMAL", "xhigh": "HIGH", "max": "HIGH"}.get(effort.value, str(effort.value).upper())
            found["thinkingConfig"] = {"thinkingLevel": "LOW" if level == "MINIMAL" and not _THINK_MINIMALLY.match(ask.model) else level}
    return found


def _write_turns(turns: Sequence[neutral.Turn], names: Mapping[str, str], bounds: neutral.Bounds, model: str) -> list[dict[str, Any]]:
    """One content for each side's turn: the responses to parallel calls stand in one."""
    found: list[dict[str, Any]] = []
    for turn in turns:
        role, parts = "model" if turn.role == "assistant" else "user", list[dict[str, Any]]()
        seal = ""
        for part in turn.parts:
            if isinstance(part, neutral.ThinkingPart):
                seal = (neutral.own_thought(part, bounds, "gemini") or ("", ""))[1]
                continue
            made = _write_part(part, names, bounds, model)
            if seal and made:
                made[0]["thoughtSignature"], seal = seal, ""
            parts += made
        sign(parts, model)
        if parts and found and found[-1]["role"] == role:
            found[-1]["parts"] += parts
        elif parts:
            found.append({"role": role, "parts": parts})
    return found


def _write_part(part: neutral.Part, names: Mapping[str, str], bounds: neutral.Bounds, model: str) -> list[dict[str, Any]]:
    if isinstance(part, neutral.Text | neutral.Refusal):
        return [{"text": part.text}] if part.text else []
    if isinstance(part, neutral.Call):
        return [call_part(part.id, part.name, neutral.arguments_of(part, bounds))]
    if isinstance(part, neutral.Result):
        content = part.content if part.failed else neutral.with_failure(part)
        text = "\n".join(one.text for one in content if isinstance(one, neutral.Text))
        said = response_of(text, "error" if part.failed else "")
        shown = [_write_data(one) for one in content if not isinstance(one, neutral.Text)]
        inside = [one for one in shown if "inlineData" in one] if FROM_GEMINI_3.match(model) else []
        return [result_part(part.id, names.get(part.id, "unknown"), said, inside), *(one for one in shown if one not in inside)]
    return [_write_data(part)] if isinstance(part, neutral.Image | neutral.File) else []


def _write_data(part: neutral.Image | neutral.File) -> dict[str, Any]:
    usual = "image/jpeg" if isinstance(part, neutral.Image) else "application/pdf"
    return data_part(part.url, (neutral.split_data_url(part.url) is None and mimetypes.guess_type(part.url)[0]) or usual)


def _write_tool(tool: neutral.Tool, bounds: neutral.Bounds) -> dict[str, Any]:
    if tool.custom is not None:
        bounds.refuse(tool.at, "has no custom tools")
    schema = tool.parameters
    if isinstance(schema, Mapping) and not any(name in schema for name in _SAYS_TYPE):  # as {}, for a function that takes nothing
        schema = {"type": "object", **schema}
    return {"name": tool.name, **present(description=tool.description, parametersJsonSchema=schema)}
