"""A stage and its options in words, from its own declarations: for ``groundwire explain`` and for docs/reference/stages.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from proxy.ports.stage import Stage, StageOptions

_LARGE = 100
"""A whole number from here on is no share or weight: it is shown without ``.0``, as people write milliseconds and seconds."""


def summary(stage: type[Stage]) -> str:
    """The first line of a stage's docstring."""
    return (stage.__doc__ or "").strip().partition("\n")[0]


def option_rows(stage: type[Stage]) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each option, the stage's own first."""
    shared = {name for name, _, _ in _rows(StageOptions)}
    rows = list(_rows(stage.Options))
    return [r for r in rows if r[0] not in shared] + [r for r in rows if r[0] in shared]


def changed_options(options: StageOptions) -> dict[str, tuple[str, str]]:
    """Value and default of each option that is not at its default; of one with parts, of each part as ``thresholds.relevance``."""
    found: dict[str, tuple[str, str]] = {}
    for field in msgspec.structs.fields(type(options)):
        value, default = getattr(options, field.name), _default(field)
        if isinstance(value, msgspec.Struct) and type(value) is type(default):
            parts = {name: (getattr(value, name), getattr(default, name)) for name in value.__struct_fields__}
            found |= {f"{field.name}.{name}": (plain(a), plain(b)) for name, (a, b) in parts.items() if a != b}
        elif value != default:
            found[field.name] = plain(value), plain(default)
    return found


def _rows(options: type[msgspec.Struct]) -> Iterator[tuple[str, str, str]]:
    for field in msgspec.structs.fields(options):
        yield field.name, plain(_default(field)), _description(field.type)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default is msgspec.NODEFAULT and callable(field.default_factory) else field.default


def _description(kind: Any) -> str:
    found = [meta.description for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, msgspec.Meta) and meta.description]
    return found[0] if found else ""


def plain(value: Any) -> str:
    """A value as a policy file has it, in YAML's flow style."""
    if value is None:
        return "null"
    if isinstance(value, msgspec.Struct):
        value = {name: inner for name in value.__struct_fields__ if (inner := getattr(value, name)) is not None}
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {plain(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and value >= _LARGE:
        return str(int(value))
    return str(value) if value != "" else "''"
