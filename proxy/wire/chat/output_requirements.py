"""What a chat completion's parameters ask for: OpenAI's, and those that other servers of the same API take beside them.

In: the fields of a body. Out: `OutputRequirements`. A field that makes no sense asks for nothing: the provider refuses it in its own words.

The forms of structured output, each from its server's reference: OpenAI ``response_format``; Fireworks and llama.cpp ``schema`` and Text
Generation Inference ``value`` in it; vLLM ``structured_outputs``, before 0.12 ``guided_*``; llama.cpp and SGLang ``json_schema``,
``grammar``, ``regex``, ``ebnf``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import orjson

from proxy.exchange.answers import OutputRequirements
from proxy.wire.bodies import is_number, object_of

_CONSTRAINTS = ("guided_regex", "guided_choice", "guided_grammar", "structural_tag", "grammar", "regex", "ebnf")
_STRUCTURED = ("regex", "choice", "grammar", "structural_tag")
_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed")
_LIMITS = ("max_completion_tokens", "max_tokens")
_SAID = frozenset(
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
    limit = None
    for name in _LIMITS:
        if limit is None and name in params:
            limit = _whole(params[name])
    if _SAID.isdisjoint(params):
        return OutputRequirements(max_output_tokens=limit, sampling=sampling)
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
            yield _parsed(given)
    if structured.get("json_object"):
        yield None


def _parsed(schema: Any) -> Any:
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
        allowed = _allowed(choice)
        kind = choice.get("type")
        choice = allowed.get("mode") if allowed is not None else kind if kind in ("auto", "none") else "required"
    return "none" if choice == "none" else "required" if choice in ("required", "any") else "auto"


def _allowed(choice: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The mode and tools of ``allowed_tools``, which stand in an object of that name, or beside the type."""
    inner = choice.get("allowed_tools")
    return inner if isinstance(inner, Mapping) else choice if choice.get("type") == "allowed_tools" else None


def _chosen(params: Mapping[str, Any]) -> Iterator[str]:
    """Names in ``tool_choice`` (a tool, or ``allowed_tools``) and in the legacy ``function_call``."""
    for choice in (params.get("tool_choice"), params.get("function_call")):
        if isinstance(choice, Mapping):
            listed = (_allowed(choice) or choice).get("tools")
            for entry in (choice, *(listed if isinstance(listed, list) else ())):
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
