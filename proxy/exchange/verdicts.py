"""What stages find, from ``unchecked`` to ``block``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

Outcome = Literal["pass", "unchecked", "warn", "upstream_error", "error", "block"]
OUTCOMES: tuple[Outcome, ...] = ("unchecked", "pass", "warn", "upstream_error", "error", "block")
"""From the mildest to the worst: one check that held makes an exchange more than ``unchecked``; an upstream that failed gave no answer to
rely on, whatever was found before; a check that could not run leaves open whether the policy would have refused; a block is certain."""
Would = Literal["", "edit", "answer", "ask", "retry", "block"]
"""What a stage of a policy in shadow mode would have done."""
QUIET: tuple[Outcome, ...] = ("unchecked", "pass")
"""Outcomes that warn of nothing: their codes are facts for the record."""


class Verdict(Struct, frozen=True):
    """What one stage found.

    ``pass``: something was checked, and held. ``unchecked``: there was nothing to check, nothing to check it against, or only something
    to count. ``error``: a check could not run, which is never a ``pass``. ``upstream_error``: the upstream gave no whole answer.
    """

    stage: str
    """The stage's name, as in the policy."""
    outcome: Outcome
    code: str = ""
    """Short identifier, as in ``x-groundwire-warnings`` and in an error's ``param``: ``context_usage_high``."""
    score: float | None = None
    """0 to 1, where the stage has one."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """For the record: numbers and pointers, JSON-able, no text of the conversation unless the stage needs it."""
    message: str = ""
    """For the client, when the outcome is block: what is wrong and what would help."""
    replacement: str | None = None
    """From a sentence check: the text that goes out instead of the sentence, within its white space; "" removes both, white space alone
    stands for both."""
    would: Would = ""
    """Under a policy that is not enforced: what it would have done."""


class Found(Protocol):
    """A verdict, of an exchange or of its record."""

    @property
    def stage(self) -> str:
        """The stage's name."""

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""

    @property
    def code(self) -> str:
        """Short identifier."""

    @property
    def detail(self) -> Mapping[str, Any]:
        """For the record."""


def warning_codes(verdicts: Sequence[Found]) -> list[str]:
    """Codes of every verdict that is not one of `QUIET`, in order, each once."""
    return list(dict.fromkeys([v.code for v in verdicts if v.outcome not in QUIET and v.code])) if verdicts else []
