"""What to do instead, in a few words: a typed adjustment in, a clause of English out. Pure.

Names and numbers are shown as `happenings` shows them. Every parameter may be missing, and a stored one may be anything: what is no name
and no short number is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proxy.stages.reflection.failures.wording import MAX_ID_CHARS, named, number

Parameters = Mapping[str, Any]
MAX_SHOWN = 3
"""Names or errors in one clause."""


def advised(adjustment: Parameters, *, shown: str = "") -> str:
    """A clause such as ``ask for at most 10 and page``. `shown` is the argument that the line names already."""
    write = ADVICE.get(str(adjustment.get("type")))
    return write(adjustment, shown) if write else "try another way"


def _cap_output(given: Parameters, shown: str) -> str:
    most, argument = number(given.get("max")), _argument(given, shown)
    if most:
        return f"ask for at most {most}" + (f" ({argument})" if argument else "")
    return f"ask for less ({argument})" if argument else "keep the output short"


def _paginate(given: Parameters, shown: str) -> str:
    page = named(given.get("page_argument"))
    paging = f"page with {page}" if page else "page"
    most, argument = number(given.get("max")), _argument(given, shown)
    if most:
        return f"ask for at most {most}" + (f" ({argument})" if argument else "") + f" and {paging}"
    return f"ask for less ({argument}) and {paging}" if argument else f"{paging} through the results"


def _change_arguments(given: Parameters, _: str) -> str:
    names = _names(given.get("arguments"))
    return f"change {_either(names)}" if names else "use other arguments"


def _fix_arguments(given: Parameters, shown: str) -> str:
    errors = _errors(given.get("errors"))
    argument = named(given.get("argument")) or shown
    if errors:
        return "; ".join(errors)
    return f"correct {argument}" if argument else "correct the arguments as the schema says"


def _use_other_tool(given: Parameters, _: str) -> str:
    names = _names(given.get("tools"))
    return f"use {_either(names)} instead" if names else "use another tool"


def _use_known_tool(given: Parameters, _: str) -> str:
    names = _names(given.get("tools"))
    return (
        f"call {_either(names)}, which exists"
        if len(names) == 1
        else f"call one of {', '.join(names)}"
        if names
        else "call an offered tool"
    )


def _rephrase_query(given: Parameters, _: str) -> str:
    argument = named(given.get("argument"))
    return f"use other words in {argument}" if argument else "search with other words"


def _use_result(given: Parameters, _: str) -> str:
    call = given.get("tool_call_id")
    id_ = named(call) if isinstance(call, str) and len(call) <= MAX_ID_CHARS else ""
    message = number(given.get("message"))
    where = f" of {id_}" if id_ else f" in message {message}" if message else ""
    return f"read the result{where} instead" if where else "read the result that is already there"


def _return_valid_json(given: Parameters, _: str) -> str:
    errors = _errors(given.get("errors"))
    return f"return JSON that fits: {', '.join(errors)}" if errors else "return valid JSON"


def _retry_later(given: Parameters, _: str) -> str:
    after = number(given.get("after_s"))
    return f"retry after {after} s" if after else "retry later"


def _ask_human(_given: Parameters, _: str) -> str:
    return "ask the user"


def _stop_repeating(_given: Parameters, _: str) -> str:
    return "do not repeat it before something has changed"


def _follow_correction(given: Parameters, _: str) -> str:
    cap, forbidden, wanted = number(given.get("cap")), named(given.get("forbidden_tool")), named(given.get("wanted_tool"))
    parts = [f"keep to at most {cap}"] if cap else []
    parts += [f"do not call {forbidden}"] if forbidden else []
    parts += [f"call {wanted}"] if wanted else []
    return ", ".join(parts) or "follow the user's correction"


def _reduce_context(given: Parameters, _: str) -> str:
    used, window = number(given.get("used_tokens")), number(given.get("window_tokens"))
    share = f" ({used} of {window} tokens)" if used and window and window != "0" else f" ({used} tokens)" if used else ""
    return f"keep calls and answers small{share}"


def _say_not_found(_given: Parameters, _: str) -> str:
    return "say that it was not found"


ADVICE: Mapping[str, Callable[[Parameters, str], str]] = {
    "cap_output": _cap_output,
    "paginate": _paginate,
    "change_arguments": _change_arguments,
    "fix_arguments": _fix_arguments,
    "use_other_tool": _use_other_tool,
    "use_known_tool": _use_known_tool,
    "rephrase_query": _rephrase_query,
    "use_result": _use_result,
    "return_valid_json": _return_valid_json,
    "retry_later": _retry_later,
    "ask_human": _ask_human,
    "stop_repeating": _stop_repeating,
    "follow_correction": _follow_correction,
    "reduce_context": _reduce_context,
    "say_not_found": _say_not_found,
}
"""By `proxy.ports.failure_kinds.AdjustmentType`."""
BY_KEYWORD: Mapping[str, str] = {
    "required": "give {name}",
    "additionalProperties": "leave out {name}",
    "unevaluatedProperties": "leave out {name}",
    "type": "give {name} its right type",
    "enum": "use a listed value for {name}",
    "const": "use the fixed value for {name}",
    "maximum": "lower {name}",
    "exclusiveMaximum": "lower {name}",
    "minimum": "raise {name}",
    "exclusiveMinimum": "raise {name}",
    "maxLength": "shorten {name}",
    "minLength": "lengthen {name}",
    "maxItems": "give {name} fewer items",
    "minItems": "give {name} more items",
    "format": "write {name} in its format",
    "pattern": "write {name} in its format",
}
"""What a keyword of JSON Schema that was not met asks for."""


def _errors(errors: object) -> list[str]:
    """What to do about each error of a schema, each once; nothing for one that names no field."""
    found = []
    for error in list(errors)[:MAX_SHOWN] if isinstance(errors, list | tuple) else ():
        if isinstance(error, Mapping):
            name = named(error.get("name")) or _field(error.get("pointer"))
            if name:
                found.append(BY_KEYWORD.get(str(error.get("keyword")), "correct {name}").replace("{name}", name))
    return list(dict.fromkeys(found))


def _field(pointer: object) -> str:
    """The last part of a JSON pointer that is a name (``/filters/0`` is about ``filters``)."""
    parts = pointer[-200:].split("/") if isinstance(pointer, str) else []
    return next((name for part in reversed(parts) if (name := named(part))), "")


def _argument(given: Parameters, shown: str) -> str:
    """The argument's name, unless the line has it already."""
    argument = named(given.get("argument"))
    return "" if argument == shown else argument


def _names(names: object) -> list[str]:
    return [name for one in names if (name := named(one))][:MAX_SHOWN] if isinstance(names, list | tuple) else []


def _either(names: list[str]) -> str:
    return " or ".join(names)
