"""What fields of two or more APIs have in common: tools' choice, the answer's form, who the user is.

Pure functions between one field's value and the neutral one, for the tables. A `ValueError` says why there is no counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from proxy.wire.translation.neutral import Choice, Form

_USER_CHARS = 64
"""Longest ``user`` that OpenAI takes."""
_FORM_NAME = "answer"
"""For a schema without a name, which OpenAI's APIs want."""


def user_of(name: Any) -> str:
    """A user's name as OpenAI takes it: a longer one as its SHA-256, which is the same for the same user."""
    text = str(name)
    return text if len(text) <= _USER_CHARS else sha256(text.encode()).hexdigest()


def stops_of(value: Any) -> list[str]:
    """``stop``: one, or a list."""
    return [value] if isinstance(value, str) else value


def chat_form(value: Any) -> Form | None:
    """Of ``response_format``; None for text."""
    if not isinstance(value, Mapping):
        raise ValueError("expects an object")
    kind, described = value.get("type"), value.get("json_schema")
    if kind == "json_schema" and isinstance(described, Mapping):
        return _form(described)
    return _plain_form(kind)


def to_chat_form(form: Form) -> dict[str, Any]:
    """As ``response_format``."""
    if form.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": _described(form)}


def responses_form(value: Any) -> Form | None:
    """Of ``text.format``; None for text."""
    if not isinstance(value, Mapping):
        raise ValueError("expects an object")
    return _form(value) if value.get("type") == "json_schema" else _plain_form(value.get("type"))


def to_responses_form(form: Form) -> dict[str, Any]:
    """As ``text.format``."""
    return {"type": "json_object"} if form.schema is None else {"type": "json_schema", **_described(form)}


def messages_form(value: Any) -> Form:
    """Of ``output_config.format``, which the API always holds to its schema."""
    if not isinstance(value, Mapping) or value.get("type") != "json_schema" or not isinstance(value.get("schema"), Mapping):
        raise ValueError("has json_schema alone")
    return Form(value["schema"], strict=True)


def to_messages_form(form: Form) -> dict[str, Any]:
    """As ``output_config.format``."""
    if form.schema is None:
        raise ValueError("wants a schema for JSON")
    return {"type": "json_schema", "schema": form.schema}


def _form(described: Mapping[str, Any]) -> Form:
    schema, name, strict = described.get("schema"), described.get("name"), described.get("strict")
    description = described.get("description")
    if not isinstance(schema, Mapping):
        raise ValueError("wants a schema for JSON")
    return Form(
        schema,
        name if isinstance(name, str) else "",
        description if isinstance(description, str) else None,
        strict if isinstance(strict, bool) else None,
    )


def _plain_form(kind: object) -> Form | None:
    if kind == "json_object":
        return Form()
    if kind in ("text", None):
        return None
    raise ValueError(f"knows no form {kind!r}")


def _described(form: Form) -> dict[str, Any]:
    said = {"description": form.description, "strict": form.strict}
    return {"name": form.name or _FORM_NAME, "schema": form.schema} | {name: value for name, value in said.items() if value is not None}


def openai_choice(value: Any) -> Choice | None:
    """Of ``tool_choice``: chat's and Responses', which differ in where a name stands."""
    if value == "auto":
        return None
    if isinstance(value, str) and value in ("none", "required"):
        return Choice(value)
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind in ("function", "custom"):
        return Choice("tool", _name_of(value), custom=kind == "custom")
    if kind == "allowed_tools":
        inner = value.get("allowed_tools", value)
        listed = inner.get("tools") if isinstance(inner, Mapping) else None
        if isinstance(listed, list) and inner.get("mode") in ("auto", "required"):
            return Choice(inner["mode"], allowed=tuple(_name_of(entry) for entry in listed))
    raise ValueError("has no such choice")


def _name_of(entry: Any) -> str:
    """The name of a function or custom tool that a choice speaks of."""
    kind = entry.get("type") if isinstance(entry, Mapping) else None
    inner = entry.get(kind, entry) if kind in ("function", "custom") else {}
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        raise ValueError("knows the client's own tools alone, by their names")
    return name


def to_chat_choice(choice: Choice) -> Any:
    """As chat's ``tool_choice``."""
    if choice.allowed is not None:
        tools = [{"type": "function", "function": {"name": name}} for name in choice.allowed]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
    kind = "custom" if choice.custom else "function"
    return {"type": kind, kind: {"name": choice.name}} if choice.mode == "tool" else choice.mode


def to_responses_choice(choice: Choice) -> Any:
    """As Responses' ``tool_choice``."""
    if choice.allowed is not None:
        tools = [{"type": "function", "name": name} for name in choice.allowed]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
    return {"type": "custom" if choice.custom else "function", "name": choice.name} if choice.mode == "tool" else choice.mode


def messages_choice(value: Any) -> Choice | None:
    """Of Messages' ``tool_choice``, but for what it says of parallel calls."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "tool" and isinstance(value.get("name"), str):
        return Choice("tool", value["name"])
    if kind in ("any", "none"):
        return Choice("required" if kind == "any" else "none")
    if kind == "auto":
        return None
    raise ValueError("has no such choice")


def to_messages_choice(choice: Choice) -> dict[str, Any]:
    """As Messages' ``tool_choice``."""
    if choice.allowed is not None or choice.custom:
        raise ValueError("has no such choice")
    named = {"name": choice.name} if choice.mode == "tool" else {}
    return {"type": {"required": "any"}.get(choice.mode, choice.mode), **named}
