"""A policy and its stages in words: for ``groundwire explain`` and for the README's table, both from the stages' own declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from proxy.policy.loading import Policy
from proxy.policy.precision import told
from proxy.ports.stage import Stage, StageOptions
from proxy.stages.registry import STAGES
from proxy.wire.http.headers import PREFIX


def explain(policy: Policy) -> str:
    """What each stage of `policy` needs, changes and reports, with its options as loaded."""
    lines = [f"{policy.label} ({policy.file}), delivery {policy.delivery}"]
    if not policy.enforce:
        lines.append("enforce: false: shadow mode, it judges and records everything, and changes and blocks nothing")
    if not policy.stages:
        lines.append("no stages: every request passes as it is")
    if any(spec.stage.reads_passages for spec in policy.stages):
        lines.append(f"retrieval tools, whose results are passages: {', '.join(policy.retrieval_tools) or 'none'}")
    for number, spec in enumerate(policy.stages, 1):
        lines.append(f"\n{number}. {spec.stage.name}: {summary(spec.stage)}")
        for word, values in (
            ("needs", spec.stage.requires),
            ("provides", spec.stage.assigns),
            ("changes", spec.stage.changes),
            ("answers calls of", spec.stage.answers),
            ("reports", (*(f"{PREFIX}{header.name}" for header in spec.stage.headers), *spec.stage.reports)),
        ):
            lines.append(f"   {word}: {', '.join(values) or 'nothing'}")
        lines += [f"   may {told(spec.stage.name, action)}" for action in spec.stage.actions(spec.options)]
        for name, _, description in option_rows(spec.stage):
            value = getattr(spec.options, name)
            lines.append(f"   {name} = {_plain(value)}" + (f"  ({description})" if description else ""))
    return "\n".join(lines)


def stage_table(stages: Sequence[type[Stage]] = STAGES) -> str:
    """Markdown: every stage with its own options, their defaults and meanings; then those that all share."""
    rows = ["| stage | option | default | meaning |", "| --- | --- | --- | --- |"]
    shared = {name for name, _, _ in _rows(StageOptions)}
    for stage in stages:
        rows.append(f"| **{stage.name}** | | | {summary(stage)} |")
        rows += [f"| | `{name}` | `{default}` | {text} |" for name, default, text in option_rows(stage) if name not in shared]
    rows.append("| *every stage* | | | |")
    rows += [f"| | `{name}` | `{default}` | {text} |" for name, default, text in _rows(StageOptions)]
    return "\n".join(rows)


def summary(stage: type[Stage]) -> str:
    """The first line of a stage's docstring."""
    return (stage.__doc__ or "").strip().partition("\n")[0]


def option_rows(stage: type[Stage]) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each option, the stage's own first."""
    shared = {name for name, _, _ in _rows(StageOptions)}
    rows = list(_rows(stage.Options))
    return [r for r in rows if r[0] not in shared] + [r for r in rows if r[0] in shared]


def _rows(options: type[msgspec.Struct]) -> Iterator[tuple[str, str, str]]:
    for field in msgspec.structs.fields(options):
        made = field.default_factory() if field.default is msgspec.NODEFAULT and callable(field.default_factory) else field.default
        yield field.name, _plain(made), _description(field.type)


def _description(kind: Any) -> str:
    found = [meta.description for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, msgspec.Meta) and meta.description]
    return found[0] if found else ""


def _plain(value: Any) -> str:
    """A value as a policy file has it, in YAML's flow style."""
    if value is None:
        return "null"
    if isinstance(value, msgspec.Struct):
        value = {name: inner for name in value.__struct_fields__ if (inner := getattr(value, name)) is not None}
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_plain(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value != "" else "''"
