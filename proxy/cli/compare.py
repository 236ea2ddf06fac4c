"""Several policies side by side, for ``groundwire explain NAME NAME…``: a row a stage, option and action, a column a policy.

Options on which the policies agree are left out; of actions there are all but notes in the record.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Column, Table
from rich.text import Text

from proxy.cli.explain import purpose
from proxy.cli.stage_words import option_rows, plain
from proxy.cli.terminal import Terminal, cut
from proxy.policy.loading import Delivery, Policy, StageSpec
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES

_LABEL, _VALUE = 25, (10, 24)
"""Columns of the first column at least, and of a policy's at least and at most."""
_LONGEST = 72
"""Characters of an option's value that are shown: `groundwire explain NAME` has the whole."""
_DELIVERIES: Mapping[Delivery, str] = {"tap": "as they come", "gate": "by sentence", "hold": "when whole"}
_Row = tuple[str, tuple[str, ...], bool]
"""Label, a cell for each policy, and whether it begins a stage."""


def compare(policies: Sequence[Policy], terminal: Terminal, columns: int) -> Iterator[str]:
    """Lines of at most `columns`: when to take each, then the table, in parts where it has more policies than fit."""
    for policy in policies:
        said = f"{policy.name}: {purpose(policy.file)}"
        yield from textwrap.wrap(said, columns, subsequent_indent="  ")
    at_once = max(1, (columns - _LABEL) // (_VALUE[0] + 1))
    marks = ("✓", "·") if terminal.can_write("✓·") else ("yes", "-")
    for i in range(0, len(policies), at_once):
        yield ""
        table = _table(policies[i : i + at_once], columns, marks)
        yield from (line.rstrip() for line in terminal.shown(table).splitlines())
    yield from ("", *textwrap.wrap("Options in which they agree are left out: groundwire explain NAME shows a policy's own.", columns))


def _table(policies: Sequence[Policy], columns: int, marks: tuple[str, str]) -> Table:
    value = min(_VALUE[1], max(_VALUE[0], (columns - _LABEL) // len(policies) - 1))
    label = min(44, max(_LABEL, columns - len(policies) * (value + 1)))
    made = Table(
        Column(width=label, no_wrap=True),
        *(Column(Text(policy.name, "bold"), width=value, overflow="fold") for policy in policies),
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="",
    )
    for said, cells, begins in rows(policies, marks):
        first = textwrap.fill(said, label, subsequent_indent="  ", break_on_hyphens=False)
        made.add_row(Text(first, "bold" if begins else ""), *(Text(cell) for cell in cells))
    return made


def rows(policies: Sequence[Policy], marks: tuple[str, str] = ("✓", "·")) -> Iterator[_Row]:
    """What the table holds, in the order of the flow; `marks` stand for yes and no."""
    yield "answers leave", tuple(_DELIVERIES[policy.delivery] for policy in policies), True
    if not all(policy.enforce for policy in policies):
        yield "shadow mode", tuple(marks[policy.enforce] for policy in policies), True
    if len({policy.load_models for policy in policies}) > 1:
        yield "models are read", tuple(policy.load_models.replace("_", " ") for policy in policies), True
    closed = [{spec.options.on_error for spec in policy.stages} for policy in policies]
    together = all(len(found) <= 1 for found in closed)
    if together and len({value for found in closed for value in found}) > 1:
        yield "on_error of all stages", tuple("".join(found) or marks[1] for found in closed), True
    for stage in _stages(policies):
        specs = [next((spec for spec in policy.stages if spec.stage is stage), None) for policy in policies]
        yield stage.name, tuple(marks[spec is None] for spec in specs), True
        yield from _options(stage, specs, marks[1], without=("on_error",) if together else ())
        yield from _actions(specs, marks)


def _stages(policies: Sequence[Policy]) -> list[type[Stage]]:
    """Of all of them: Groundwire's own in the order of the flow, then the others as they come."""
    used = dict.fromkeys(spec.stage for policy in policies for spec in policy.stages)
    return [*(stage for stage in STAGES if stage in used), *(stage for stage in used if stage not in STAGES)]


def _options(stage: type[Stage], specs: Sequence[StageSpec | None], no: str, without: Sequence[str]) -> Iterator[_Row]:
    for name, _, _ in option_rows(stage):
        values = [getattr(spec.options, name) for spec in specs if spec is not None]
        if name not in without and any(value != values[0] for value in values):
            shown = (_value(getattr(spec.options, name)) if spec is not None else no for spec in specs)
            yield f"  {name}", tuple(shown), False


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return cut(", ".join(map(plain, value)), _LONGEST) or "none"
    return cut(plain(value), _LONGEST)


def _actions(specs: Sequence[StageSpec | None], marks: tuple[str, str]) -> Iterator[_Row]:
    """Codes of one kind that the same policies may use stand in one row."""
    found: dict[str, dict[str, list[bool]]] = {}
    for i, spec in enumerate(specs):
        for action in spec.stage.actions(spec.options) if spec is not None else ():
            if action.kind != "annotate":
                found.setdefault(action.kind, {}).setdefault(action.code, [False] * len(specs))[i] = True
    for kind, codes in found.items():
        together: dict[tuple[bool, ...], list[str]] = {}
        for code, having in codes.items():
            together.setdefault(tuple(having), []).append(code)
        for which, names in together.items():
            yield f"  {kind}: {', '.join(names)}", tuple(marks[not has] for has in which), False
