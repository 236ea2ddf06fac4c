"""Whether a call does what was recommended after another one failed: a call, the failing one and its adjustment in, yes or no out. Pure.

Everything that the adjustment does not speak of must be as it was: a search for something else that succeeds says nothing of the first one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from proxy.language.json.fingerprint import identifier
from proxy.stages.reflection.failures.adjustments import PAGE_ARGUMENT, Adjustment
from proxy.stages.reflection.failures.overrides import CAPPING
from proxy.stages.reflection.failures.steps import CalledTool

_CHANGING = ("fix_arguments", "rephrase_query")


def follows(adjustment: Adjustment, failed: CalledTool, call: CalledTool) -> bool:
    """Whether `call` is `failed` with the `adjustment` made."""
    kind = adjustment.get("type")
    before, after = failed.parsed, call.parsed
    if before is None or after is None:
        return False
    if kind == "use_other_tool":
        return identifier(call.tool) in adjustment.get("tools", ()) and before == after
    name = str(adjustment.get("argument", ""))
    if call.tool != failed.tool or not name:
        return False
    if kind in CAPPING:
        pages = {identifier(key) for key in (*before, *after) if PAGE_ARGUMENT.fullmatch(key)}
        return _at_most(_value(after, name), adjustment.get("max")) and _same(before, after, {name, *pages})
    return kind in _CHANGING and _value(before, name) != _value(after, name) and _same(before, after, {name})


def _value(arguments: Mapping[str, Any], name: str) -> Any:
    return next((value for key, value in arguments.items() if identifier(key) == name), None)


def _at_most(value: Any, most: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isinstance(most, int) and 0 < value <= most


def _same(before: Mapping[str, Any], after: Mapping[str, Any], but: Collection[str]) -> bool:
    """Whether the arguments are the same, without those that are called so."""
    return _without(before, but) == _without(after, but)


def _without(arguments: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if identifier(key) not in names}
