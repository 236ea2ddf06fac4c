"""Whether a call does what was recommended after another one failed: a call, the failing one and its adjustment in, yes or no out. Pure.

Everything that the adjustment does not speak of must be as it was: a search for something else that succeeds says nothing of the first one.
Where it names no argument, or all of them, one of several must stay. `another_item` tells a corrected argument from the next of a list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from proxy.language.json.fingerprint import identifier
from proxy.stages.reflection.failures.adjustments import PAGE_ARGUMENT, Adjustment
from proxy.stages.reflection.failures.overrides import CAPPING
from proxy.stages.reflection.failures.steps import CalledTool

_CHANGING = ("fix_arguments", "change_arguments", "rephrase_query")
_OTHER_TOOL = ("use_other_tool", "use_known_tool")
_UNKNOWN_ARGUMENT = ("additionalProperties", "unevaluatedProperties")
_MISSING = object()
MAX_VALUE_CHARS = 80
"""Of an argument that is looked for in a text."""
MAX_TEXT_CHARS = 8_000


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
    named = _named(adjustment)
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


def _named(adjustment: Adjustment) -> set[str]:
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
