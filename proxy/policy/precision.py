"""How right each action is, measured, and how right it has to be: the floors under what a policy may do by default.

In: `action_precision.json`, made by benchmarks on data that no rule was made from, and the actions that a stage's options allow
(`proxy.ports.stage.Stage.actions`). Out: a line for each for ``groundwire explain``, and what ``groundwire check`` remarks on. The point
estimate must reach the floor; its 95% interval is shown beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from proxy.ports.stage import Action, ActionKind

FLOORS: Mapping[ActionKind, float] = {"block": 0.98, "edit": 0.98, "ask": 0.95, "quarantine": 0.95, "warn": 0.85, "annotate": 0.0}
"""What is harder to undo must be right more often. A note in the record needs no precision."""
ACTING: tuple[ActionKind, ...] = ("block", "edit", "ask", "quarantine")
"""Actions that a client notices."""


class Precision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measurement."""

    stage: str
    action: ActionKind
    code: str
    """As `Action.code`."""
    precision: float
    """Share of the actions taken that were right."""
    low: float
    """Of the 95% interval."""
    high: float
    n: int
    """Actions taken."""
    data: str
    """What it was measured on."""
    command: str
    """What measures it again."""


@cache
def table() -> tuple[Precision, ...]:
    """Every measurement."""
    return msgspec.json.decode(files("proxy.policy").joinpath("action_precision.json").read_bytes(), type=tuple[Precision, ...])


def measured(stage: str, action: Action) -> Precision | None:
    """Of one action of a stage; None where nobody has measured it."""
    return next((row for row in table() if (row.stage, row.action, row.code) == (stage, action.kind, action.code)), None)


def describe(stage: str, action: Action) -> str:
    """One line: the action, its precision, its interval, on what, and the floor."""
    floor = FLOORS[action.kind]
    if action.exact:
        return f"{action.kind} ({action.code}): exact, counted, looked up or checked against a schema"
    if not floor:
        return f"{action.kind} ({action.code}): for the record"
    row = measured(stage, action)
    if row is None:
        return f"{action.kind} ({action.code}): not measured (floor {floor:.2f})"
    figure = f"precision {row.precision:.3f} [{row.low:.3f}, {row.high:.3f}], n {row.n}"
    return f"{action.kind} ({action.code}): {figure}, floor {floor:.2f}; {row.data}"


def below_floor(stage: str, actions: Sequence[Action]) -> list[str]:
    """What a policy takes upon itself: actions that were measured below their floor, and acting ones that were not measured."""
    found = []
    for action in actions:
        row = measured(stage, action)
        if action.exact or (row is None and action.kind not in ACTING):
            continue
        if row is None or row.precision < FLOORS[action.kind]:
            found.append(describe(stage, action))
    return found
