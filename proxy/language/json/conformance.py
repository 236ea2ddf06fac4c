"""Does an answer keep to the forms it was given: tool calls to the tools' schemas, the text to the JSON that was asked for? Pure functions.

In: a call with the tools that were offered, or an answer's text with what the client wants. Out: a `Violation`, `Unchecked` where
that cannot be said, or None. A violation names pointers, keywords and names of the schema; no value goes into it, and a name that is not
the schema's only as a hash.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from proxy.exchange import Tool, tool_name
from proxy.exchange.answers import OutputRequirements
from proxy.language.json.fingerprint import identifier
from proxy.language.json.schema_problems import SchemaError
from proxy.language.json.schemas import CHECK_S, NotChecked, SchemaInvalid, left_out_of, problems_of

MAX_CHARS = 2_000_000
"""Longer arguments and answers are not checked."""
_MAX_SUGGESTED = 3
_MAX_NAMES = 500
_MAX_NAME_CHARS = 128
_THINK_BLOCK = re.compile(r"\A\s*<(think|thinking)>.*?</\1>", re.DOTALL)
_ALIKE = 0.6
"""difflib's own threshold for a close match."""

Reason = Literal["schema_invalid", "time", "depth", "size", "unsupported", "failed"]


class Violation(Struct, frozen=True):
    """What is wrong with a call or an answer."""

    code: str
    """``unknown_tool``, ``invalid_json``, ``arguments_mismatch``, ``response_not_json``, ``response_mismatch``."""
    tool: str = ""
    """An identifier, or a hash of a name that is none."""
    call_id: str = ""
    errors: tuple[SchemaError, ...] = ()
    """`proxy.language.json.schema_problems.MAX_PROBLEMS` at most."""
    known: tuple[str, ...] = ()
    """Of an unknown tool: the offered ones whose names are closest, three at most."""


class Unchecked(Struct, frozen=True):
    """Whether it conforms cannot be said."""

    reason: Reason
    """``schema_invalid`` is the client's fault; the others are bounds of the check."""
    tool: str = ""
    call_id: str = ""
    keywords: tuple[str, ...] = ()
    """Of a schema that can be read in part: what cannot be, and is not enforced; all else holds."""


def check_call(tool: str, arguments: str, call_id: str, tools: Sequence[Tool]) -> Violation | None:
    """What is wrong with a call, as far as it can be told."""
    found = examine_call(tool, arguments, call_id, tools)
    return found if isinstance(found, Violation) else None


def check_response(text: str, wants: OutputRequirements) -> Violation | None:
    """What is wrong with an answer's text, as far as it can be told."""
    found = examine_response(text, wants)
    return found if isinstance(found, Violation) else None


def examine_call(
    tool: str, arguments: str, call_id: str, tools: Sequence[Tool], *, seconds: float = CHECK_S
) -> Violation | Unchecked | None:
    """A call against the offered `tools`. No arguments at all are an empty object; a tool without a schema takes any object."""
    name = identifier(tool)
    offered = tool_named(tool, tools)
    if offered is None:
        return Violation("unknown_tool", name, call_id, known=_closest(tool, tools))
    if len(arguments) > MAX_CHARS:
        return Unchecked("size", name, call_id)
    try:
        value = parsed(arguments) if arguments.strip() else {}
        value = {} if value is None else value  # some models write null for no arguments
        if not isinstance(value, dict):
            return Violation("arguments_mismatch", name, call_id, (SchemaError("", "type", expected="object"),))
        schema = schema_of(offered)
        errors = errors_of(schema, value, seconds=seconds)
        if not errors and (left_out := _left_out(schema)):
            return Unchecked("schema_invalid", name, call_id, left_out)
    except SchemaInvalid:
        return Unchecked("schema_invalid", name, call_id)
    except NotChecked as problem:
        return Unchecked(cast(Reason, str(problem)), name, call_id)
    except ValueError:
        return Violation("invalid_json", name, call_id)
    return Violation("arguments_mismatch", name, call_id, errors) if errors else None


def examine_response(text: str, wants: OutputRequirements, *, seconds: float = CHECK_S) -> Violation | Unchecked | None:
    """An answer's text against the JSON that was asked for; another form than JSON is not checked."""
    if wants.form != "json":
        return None
    if len(text) > MAX_CHARS:
        return Unchecked("size")
    try:
        value = parsed(without_thought(text))
        if wants.schema is None and not isinstance(value, dict):
            return Violation("response_mismatch", errors=(SchemaError("", "type", expected="object"),))
        errors = errors_of(wants.schema, value, seconds=seconds)
        if not errors and (left_out := _left_out(wants.schema)):
            return Unchecked("schema_invalid", keywords=left_out)
    except SchemaInvalid:
        return Unchecked("schema_invalid")
    except NotChecked as problem:
        return Unchecked(cast(Reason, str(problem)))
    except ValueError:
        return Violation("response_not_json")
    return Violation("response_mismatch", errors=errors) if errors else None


def tool_named(name: str, tools: Sequence[Tool]) -> Tool | None:
    """The tool that is called `name`."""
    return next((tool for tool, known in _names_of_tools(tools) if known == name), None)


def schema_of(tool: Tool) -> Any:
    """Of its arguments; None where it has none."""
    described = tool.get(str(tool.get("type", "function")))
    for place in (described, tool):
        if isinstance(place, Mapping):
            for key in ("parameters", "input_schema"):
                if place.get(key) is not None:
                    return place[key]
    return None


def without_thought(text: str) -> str:
    """An answer's text without the ``<think>`` block that reasoning models put in front of it where their server leaves it there."""
    return _THINK_BLOCK.sub("", text, count=1)


def _left_out(schema: object) -> tuple[str, ...]:
    return () if schema is None or schema in ({}, True) else left_out_of(schema)


def errors_of(schema: object, value: object, *, seconds: float = CHECK_S) -> tuple[SchemaError, ...]:
    """Where `value` does not match. Raises `SchemaInvalid`, `NotChecked`."""
    if schema is None or schema in ({}, True):
        return ()
    return tuple(replace(error, path=(), strings=()) for error in problems_of(schema, value, seconds=seconds))


def parsed(text: str) -> Any:
    """The JSON value (RFC 8259) that `text` is. Raises ValueError, `NotChecked` when it is too deep."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_int=_integer)
    except RecursionError:
        raise NotChecked("depth") from None


def _names_of_tools(tools: Sequence[Tool]) -> Iterator[tuple[Tool, str]]:
    """Each with its name; a provider's built-in tool goes by its type."""
    for tool in tools:
        name = tool_name(tool) or tool.get("name") or tool.get("type")
        if isinstance(name, str):
            yield tool, name


def _closest(name: str, tools: Sequence[Tool]) -> tuple[str, ...]:
    names = list(dict.fromkeys(known for _, known in _names_of_tools(tools) if len(known) <= _MAX_NAME_CHARS))[:_MAX_NAMES]
    close = difflib.get_close_matches(name[:_MAX_NAME_CHARS], names, _MAX_SUGGESTED, _ALIKE)
    return tuple(identifier(known) for known in close)


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _integer(digits: str) -> int | float:
    """Python refuses to read thousands of digits; a number they are all the same."""
    return int(digits) if len(digits) <= 4000 else float("-inf" if digits.startswith("-") else "inf")
