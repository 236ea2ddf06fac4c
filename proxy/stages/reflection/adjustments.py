"""What to do instead of a call that failed, and whether a later call does it. Pure; no prose.

A typed adjustment is made of the failure's code and the call. A call follows it where it does what was recommended, and everything that the
adjustment does not speak of is as it was: a search for something else that succeeds says nothing of the first one. Where it names no
argument, or all of them, one of several must stay. `another_item` tells a corrected argument from the next of a list.

Parameters are numbers, names of tools and of arguments, and JSON pointers; a client's own names are kept only where they are identifiers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from proxy.context.tool_results.turns import CalledTool
from proxy.exchange import Tool, tool_name
from proxy.language.json.fingerprint import identifier
from proxy.language.lru import by_text

Adjustment = Mapping[str, Any]
SIZE_ARGUMENT = re.compile(
    r"(?:max_?|num_?|n_?|top_?)?(?:results?|items?|rows?|records?|hits?|count|size|limit|lines?|pages?_?size|tokens?|chars|k|n)"
    r"|page_?size|per_?page|limit|size|first|last|take",
    re.I,
)
"""Names of arguments that say how much a tool gives back."""
PAGE_ARGUMENT = re.compile(
    r"page(?:_?(?:number|no|num|token))?|offset|cursor|skip|start(?:_?(?:index|at))?|after|from_?index|next_?token", re.I
)
QUERY_ARGUMENT = re.compile(r"(?:search_?)?(?:query|q|question|terms?|text|keywords?|prompt|search|suchbegriff|consulta|requete)", re.I)
SHRINK = 5
"""A size that was too much is divided by it: 50 results become 10."""
DEFAULT_CAP = 10
"""Where a call named no size: what search tools commonly give as a first page."""
MAX_NAMES = 8
SOON_S = 5.0
"""A tool that asks to wait no longer than this is worth waiting for."""
MAX_ALTERNATIVES = 3
CAPPING = ("cap_output", "paginate")
"""Types of adjustment that bound a number."""
_CHANGING = ("fix_arguments", "change_arguments", "rephrase_query")
_OTHER_TOOL = ("use_other_tool", "use_known_tool")
_UNKNOWN_ARGUMENT = ("additionalProperties", "unevaluatedProperties")
_MISSING = object()
MAX_VALUE_CHARS = 80
"""Of an argument that is looked for in a text."""
MAX_TEXT_CHARS = 8_000
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def for_tool_error(code: str, tool: str, arguments: Mapping[str, Any], tools: Sequence[Tool], **known: Any) -> Adjustment:
    """For `tool`, called with `arguments`, that failed with `code`. `known` are the reading's ``argument`` and ``retry_after_s``."""
    if code in ("timeout", "output_too_large"):
        return smaller(tool, arguments, tools) or _later_or_changed(code, arguments)
    if code in ("rate_limited", "unavailable"):
        after, instead = known.get("retry_after_s"), alternatives(tool, tools)
        if instead and (after is None or after > SOON_S):
            return {"type": "use_other_tool", "tools": instead}
        return {"type": "retry_later", **({"after_s": after} if after else {})}
    if code == "permission_denied":
        return {"type": "ask_human"}
    if code == "invalid_arguments":
        named = known.get("argument")
        return {"type": "fix_arguments", **({"argument": identifier(named)} if named else {})}
    names = _names(name for name, value in arguments.items() if not isinstance(value, bool))
    if names:
        return {"type": "change_arguments", "arguments": names}
    return {"type": "stop_repeating"}


def smaller(tool: str, arguments: Mapping[str, Any], tools: Sequence[Tool]) -> Adjustment | None:
    """Ask for less at a time: the size that was given divided, or a cap where the tool takes one; None where nothing says how much."""
    properties = properties_of(tool, tools)
    page = next((name for name in (*arguments, *properties) if PAGE_ARGUMENT.fullmatch(name)), None)
    sized = [(name, value) for name, value in arguments.items() if is_size(name, value)]
    if sized:
        name, value = max(sized, key=lambda pair: pair[1])
        cap = max(1, int(value) // SHRINK)
    else:
        name = next((name for name, kind in properties.items() if SIZE_ARGUMENT.fullmatch(name) and kind in ("integer", "number", "")), "")
        cap = DEFAULT_CAP
    if not name:
        return None
    given = {"argument": identifier(name), "max": cap}
    return {"type": "cap_output", **given} if page is None else {"type": "paginate", **given, "page_argument": identifier(page)}


def is_size(name: str, value: object) -> bool:
    """Whether the argument says how much is asked for."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 1 < value < 2**53 and SIZE_ARGUMENT.fullmatch(name) is not None
    )


def query_argument(arguments: Mapping[str, Any]) -> str:
    """The name of the argument that is a search query, "" without one."""
    texts = [name for name, value in arguments.items() if isinstance(value, str)]
    return next((name for name in texts if QUERY_ARGUMENT.fullmatch(name)), texts[0] if len(texts) == 1 else "")


def rephrase(arguments: Mapping[str, Any]) -> Adjustment:
    """Ask in other words."""
    name = query_argument(arguments)
    return {"type": "rephrase_query", **({"argument": identifier(name)} if name else {})}


def alternatives(tool: str, tools: Sequence[Tool]) -> list[str]:
    """Tools that may do the same: they take the same arguments, and their names share a word that not most tools' names have."""
    offered = {name: described for described in reversed(tools) if (name := tool_name(described))}  # of two with one name the first counts
    words = {name: _words(name) for name in offered}
    common = {word for word, count in Counter(chain.from_iterable(words.values())).items() if count * 2 > len(words) > 3}
    own = _words(tool) - common
    like = {name: shared for name, of_name in words.items() if name != tool and (shared := own & of_name)}
    if not like:
        return []
    takes = set(_properties(offered[tool])) if tool in offered else set[str]()
    found = []
    for name, shared in like.items():
        others = set(_properties(offered[name]))
        alike = len(takes & others) / len(takes | others) if takes | others else 1.0
        if alike >= 0.5:
            found.append((-alike, -len(shared), name))
    return _names(name for _, _, name in sorted(found)[:MAX_ALTERNATIVES])


def properties_of(tool: str, tools: Sequence[Tool]) -> dict[str, str]:
    """The properties of a tool's parameters with their type, "" where it is not one word."""
    return next((_properties(offered) for offered in tools if tool_name(offered) == tool), {})


def _properties(offered: Tool) -> dict[str, str]:
    described = offered.get(str(offered.get("type", "function")))
    schema = described.get("parameters") if isinstance(described, Mapping) else None
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return {str(name): _type(value) for name, value in found.items()} if isinstance(found, Mapping) else {}


@by_text(4096)
def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(name[:200]))


def _type(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _names(names: Iterable[str]) -> list[str]:
    return [identifier(name) for name in names][:MAX_NAMES]


def _later_or_changed(code: str, arguments: Mapping[str, Any]) -> Adjustment:
    if code == "timeout":
        return {"type": "retry_later"}
    names = _names(arguments)
    return {"type": "change_arguments", "arguments": names} if names else {"type": "stop_repeating"}


# ---- whether a call follows ----


def follows(adjustment: Adjustment, failed: CalledTool, call: CalledTool) -> bool:
    """Whether `call` is `failed` with the `adjustment` made."""
    kind = adjustment.get("type")
    before, after = failed.parsed, call.parsed
    if after is None:
        return False
    if before is None:
        return kind == "return_valid_json" and call.tool == failed.tool
    if kind in _OTHER_TOOL:
        return identifier(call.tool) in adjustment.get("tools", ()) and before == after
    if call.tool != failed.tool:
        return False
    if kind in CAPPING:
        name = str(adjustment.get("argument", ""))
        pages = {identifier(key) for key in (*before, *after) if PAGE_ARGUMENT.fullmatch(key)}
        return bool(name) and _at_most(_value(after, name), adjustment.get("max")) and _same(before, after, {name, *pages})
    if kind == "retry_later":  # with an argument more it is the same attempt
        return all(after.get(name, _MISSING) == value for name, value in before.items())
    return kind in _CHANGING and _is_changed(adjustment, before, after)


def another_item(failed: CalledTool, call: CalledTool, texts: Iterable[str]) -> bool:
    """Whether what differs in `call` was asked for beside what failed: one of `texts` has both values."""
    before, after = failed.parsed or {}, call.parsed or {}
    pairs = [(before[name], after[name]) for name in before if name in after and before[name] != after[name]]
    patterns = [(_whole(old), _whole(new)) for old, new in pairs if _is_short(old) and _is_short(new)]
    return any(old.search(text[-MAX_TEXT_CHARS:]) and new.search(text[-MAX_TEXT_CHARS:]) for text in texts for old, new in patterns)


def _is_changed(adjustment: Adjustment, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the named arguments differ, and they alone; one that was not there before may come with a change."""
    changed = {name for name in (*before, *after) if before.get(name, _MISSING) != after.get(name, _MISSING)}
    named = _named_arguments(adjustment)
    if named and adjustment.get("type") != "change_arguments":
        left_out = {name for name in before if name not in after} if _is_too_many(adjustment) else set()
        return bool(changed) and {identifier(name) for name in changed - left_out} <= named
    stays = len(before) < 2 or any(name not in changed for name in before)
    return bool(changed) and stays and (not named or all(name not in before or identifier(name) in named for name in changed))


def _is_too_many(adjustment: Adjustment) -> bool:
    """Whether a schema knows none of some arguments, whose names are not kept."""
    errors = adjustment.get("errors", ())
    listed = errors if isinstance(errors, list | tuple) else ()
    return any(isinstance(error, Mapping) and error.get("keyword") in _UNKNOWN_ARGUMENT for error in listed)


def _named_arguments(adjustment: Adjustment) -> set[str]:
    """The arguments that it speaks of: its own, or those at the top of what a schema's errors point at."""
    listed, errors = adjustment.get("arguments", ()), adjustment.get("errors", ())
    names = [adjustment.get("argument"), *(listed if isinstance(listed, list | tuple) else ())]
    for error in errors if isinstance(errors, list | tuple) else ():
        if isinstance(error, Mapping):
            names.append(str(error.get("pointer") or "").strip("/").partition("/")[0] or error.get("name"))
    return {str(name) for name in names if name}


def _value(arguments: Mapping[str, Any], name: str) -> Any:
    return next((value for key, value in arguments.items() if identifier(key) == name), None)


def _at_most(value: Any, most: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isinstance(most, int) and 0 < value <= most


def _same(before: Mapping[str, Any], after: Mapping[str, Any], but: Collection[str]) -> bool:
    """Whether the arguments are the same, without those that are called so."""
    return _without(before, but) == _without(after, but)


def _without(arguments: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if identifier(key) not in names}


def _is_short(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and 0 < len(str(value)) <= MAX_VALUE_CHARS


def _whole(value: object) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(str(value))}(?!\w)")
