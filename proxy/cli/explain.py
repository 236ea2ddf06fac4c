"""One policy in words, for ``groundwire explain NAME``: on one screen, or with everything that its stages declare; and a stage with its
options, from its own declarations, for docs/reference/stages.md, too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from proxy.policy.loading import Delivery, Policy, StageSpec
from proxy.policy.precision import describe
from proxy.ports.stage import Action, ActionKind, Stage, StageOptions
from proxy.wire.http.headers import PREFIX

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


_LEAVING: Mapping[Delivery, str] = {
    "tap": "as they come, and are judged for the record",
    "gate": "sentence by sentence, each after its checks",
    "hold": "whole, after all checks",
}
_KINDS: tuple[ActionKind, ...] = ("block", "edit", "ask", "quarantine", "warn")
_NAME = 15
"""Columns of a stage's number and name."""


def purposes(policies: Sequence[Policy], columns: int) -> str:
    """When to take which, in lines of at most `columns`."""
    texts = (textwrap.fill(f"{policy.name}: {purpose(policy.file)}", columns, subsequent_indent="  ") for policy in policies)
    return "\n".join((*texts, "", textwrap.fill("groundwire explain NAME shows what a policy does.", columns)))


def purpose(file: str | Path) -> str:
    """When to take a policy: the sentence with which its file begins; "" where no comment stands there."""
    said = []
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        said.append(line.lstrip("# ").rstrip())
        if said[-1].endswith("."):
            break
    return " ".join(said)


def explain(policy: Policy, columns: int = 80) -> str:
    """What `policy` does, on one screen: its stages, what they may do, and the options that are not at their defaults."""
    lines = [*_head(policy, columns), ""]
    shared = _shared(policy)
    if shared:
        lines += [f"In every stage: {_options(shared)}.", ""]
    for number, spec in enumerate(policy.stages, 1):
        own = {name: values for name, values in changed_options(spec.options).items() if name not in shared}
        said = [summary(spec.stage).partition(";")[0].rstrip(".") + ".", _actions(policy.actions(spec)), _options(own)]
        for i, text in enumerate(filter(None, said)):
            label = "" if i else f"{number:2} {spec.stage.name}"
            lines += textwrap.wrap(text, columns, initial_indent=label.ljust(_NAME), subsequent_indent=" " * _NAME, break_on_hyphens=False)
    if policy.stages:
        lines += ["", f"All options, needs and precisions: groundwire explain --all {policy.name}"]
    return "\n".join(lines)


def explain_all(policy: Policy, columns: int = 80) -> str:
    """What each stage of `policy` needs, changes and reports, how right its actions are, and every option as loaded."""
    lines = _head(policy, columns)
    if any(spec.stage.reads_passages for spec in policy.stages):
        lines.append(f"retrieval tools, whose results are passages: {', '.join(policy.retrieval_tools) or 'none'}")
    for number, spec in enumerate(policy.stages, 1):
        lines.append(f"\n{number}. {spec.stage.name}: {summary(spec.stage)}")
        lines += _declared(policy, spec)
        for name, _, description in option_rows(spec.stage):
            lines.append(f"   {name} = {plain(getattr(spec.options, name))}" + (f"  ({description})" if description else ""))
    return "\n".join(lines)


def _head(policy: Policy, columns: int) -> list[str]:
    lines = [f"{policy.label} ({policy.file})", *textwrap.wrap(purpose(policy.file), columns)]
    lines.append(f"Answers leave {_LEAVING[policy.delivery]} (delivery: {policy.delivery}).")
    if policy.writes_anew:
        rest = "stays behind" if policy.unknown == "drop" else "makes it an error"
        said = f"An answer is written anew from what is recognised of it; what is not {rest} (unknown: {policy.unknown})."
        lines += textwrap.wrap(said, columns)
    lines += textwrap.wrap(_judge(policy), columns)
    if not policy.enforce:
        lines += textwrap.wrap("enforce: false: shadow mode, it judges and records everything, and changes and blocks nothing", columns)
    if not policy.stages:
        lines.append("no stages: every request passes as it is")
    return lines


def _judge(policy: Policy) -> str:
    """Who says what a text means, where the policy names somebody."""
    judge = policy.judge
    if judge is None:
        return ""
    if judge.kind == "builtin":
        return f"What a text means is judged in this process{f', by {judge.model}' if judge.model else ''} (judge: kind: builtin)."
    about = "every statement that nothing exact decides" if judge.ask == "all" else "what the built-in models are not sure to hold"
    budget = f", for at most {judge.max_usd_per_day:g} USD a day" if judge.max_usd_per_day else ""
    named = f"{judge.upstream}/{judge.model} (judge: kind: {judge.kind}, ask: {judge.ask})"
    return f"{named} is asked about {about}{budget}; where it does not answer within {judge.timeout_ms:g} ms, the built-in models judge."


def _declared(policy: Policy, spec: StageSpec) -> Iterator[str]:
    for word, values in (
        ("needs", spec.stage.requires),
        ("provides", spec.stage.assigns),
        ("changes", spec.stage.changes),
        ("answers calls of", spec.stage.answers),
        ("reports", (*(f"{PREFIX}{header.name}" for header in spec.stage.headers), *spec.stage.reports)),
    ):
        yield f"   {word}: {', '.join(values) or 'nothing'}"
    for action in policy.actions(spec):
        yield f"   may {describe(spec.stage.name, action)}"


def _shared(policy: Policy) -> dict[str, tuple[str, str]]:
    """Options that stand in all stages (of several), with one value, and not their default's."""
    found = [changed_options(spec.options) for spec in policy.stages]
    if len(found) < 2:
        return {}
    return {name: values for name, values in found[0].items() if all(other.get(name) == values for other in found)}


def _options(changed: Mapping[str, tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {value} (not {default})" for name, (value, default) in changed.items())


def _actions(actions: Sequence[Action]) -> str:
    """What a client could notice: ``May block, warn.``; the codes are in the headers, the record and ``--all``."""
    kinds = [kind for kind in _KINDS if any(action.kind == kind for action in actions)]
    return f"May {', '.join(kinds)}." if kinds else ""
