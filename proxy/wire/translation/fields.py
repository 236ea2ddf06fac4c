"""The fields of a body as a table: which of them says what, how it is read, and how it is written.

A reader goes through a client's body by its API's table; what stands in no table is refused. A writer goes through what was read, the
settings, by the table of the server's API; a setting that has no field there is refused by the name of the client's field. The same tables
are printed in docs/reference/translation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from proxy.wire.bodies import present
from proxy.wire.translation.neutral import Bounds, Choice, Form, NeutralRequest, Setting


def same(value: Any) -> Any:
    """As it is."""
    return value


class Field(Struct, frozen=True):
    """One field of a body; with a dot, a field of an object in it."""

    name: str
    setting: str = ""
    """What it says, whatever an API calls it; "" for one that is left out, as it says nothing to the answer."""
    nothing: tuple[Any, ...] = ()
    """Values beside null that ask for nothing."""
    read: Callable[[Any], Any] = same
    """The client's value -> the setting. Raises `ValueError` for what has no counterpart."""
    write: Callable[[Any], Any] = same
    """The setting -> the server's value. Raises `ValueError` likewise."""
    note: str = ""
    """For the reference."""


def among(*values: Any) -> Callable[[Any], Any]:
    """One of these alone."""

    def check(value: Any) -> Any:
        if value not in values:
            raise ValueError(f"knows {', '.join(str(one) for one in values)} alone")
        return value

    return check


def no_less_than(limit: int) -> Callable[[Any], Any]:
    """A whole number, `limit` in place of less."""
    return lambda value: limit if type(value) is int and 0 < value < limit else value


def at_most(limit: float) -> Callable[[Any], Any]:
    """A number up to `limit`."""

    def check(value: Any) -> Any:
        if isinstance(value, int | float) and value > limit:
            raise ValueError(f"takes no more than {limit:g}")
        return value

    return check


def read_fields(ask: NeutralRequest, body: Mapping[str, Any], table: Sequence[Field], elsewhere: Collection[str], bounds: Bounds) -> None:
    """Put what `body` sets into the settings of `ask`; `elsewhere` are fields that are read by other means. Raises `InvalidRequest`."""
    known = {one.name: one for one in table}
    opened = {name.partition(".")[0] for name in known if "." in name}
    for name, value in body.items():
        if name in elsewhere or value is None:
            continue
        inner = value.items() if name in opened and name not in known and isinstance(value, Mapping) else ()
        silent = value == {} and (name in opened or name in known)  # in a field that is not known it may ask for much
        for at, given in ((f"{name}.{key}", one) for key, one in inner) if inner else [] if silent else [(name, value)]:
            if given is not None and at not in elsewhere:
                _read(ask, at, given, known.get(at), bounds)


def _read(ask: NeutralRequest, at: str, given: Any, field: Field | None, bounds: Bounds) -> None:
    if field is None:
        bounds.refuse(at)
    elif not any(type(given) is type(nothing) and given == nothing for nothing in field.nothing) and field.setting:
        try:
            value = field.read(given)
        except ValueError as error:
            bounds.refuse(at, str(error))
        else:
            if value is not None and field.setting not in ask.settings:
                ask.settings[field.setting] = Setting(value, at)


def write_fields(ask: NeutralRequest, table: Sequence[Field], elsewhere: Collection[str], bounds: Bounds) -> dict[str, Any]:
    """The fields for the settings of `ask`; those `elsewhere` are written by other means. Raises `InvalidRequest`."""
    body: dict[str, Any] = {}
    for name, setting in ask.settings.items():
        if name not in elsewhere:
            _write(body, setting, next((one for one in table if one.setting == name), None), bounds)
    return body


def _write(body: dict[str, Any], setting: Setting, field: Field | None, bounds: Bounds) -> None:
    if field is None:
        bounds.refuse(setting.at)
        return
    try:
        value = field.write(setting.value)
    except ValueError as error:
        bounds.refuse(setting.at, str(error))
        return
    if value is not None:
        outer, dot, inner = field.name.partition(".")
        if dot:
            body.setdefault(outer, {})[inner] = value
        else:
            body[outer] = value


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


def openai_form(value: Any) -> Form | None:
    """Of ``response_format``, where a schema stands one object deeper, or ``text.format``; None for text."""
    if not isinstance(value, Mapping):
        raise ValueError("expects an object")
    kind, described = value.get("type"), value.get("json_schema", value)
    if kind in ("text", None):
        return None
    if kind == "json_object":
        return Form()
    if kind != "json_schema" or not isinstance(described, Mapping):
        raise ValueError(f"knows no form {kind!r}")
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


def to_chat_form(form: Form) -> dict[str, Any]:
    """As ``response_format``."""
    return {"type": "json_object"} if form.schema is None else {"type": "json_schema", "json_schema": _form_details(form)}


def to_responses_form(form: Form) -> dict[str, Any]:
    """As ``text.format``."""
    return {"type": "json_object"} if form.schema is None else {"type": "json_schema", **_form_details(form)}


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


def _form_details(form: Form) -> dict[str, Any]:
    return {"name": form.name or _FORM_NAME, "schema": form.schema, **present(description=form.description, strict=form.strict)}


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
