"""What stages find, and the one word for an exchange that follows: from ``pass`` to ``error``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

Outcome = Literal["pass", "unchecked", "unsure", "warn", "upstream_error", "block", "error"]
OUTCOMES: tuple[Outcome, ...] = ("pass", "unchecked", "unsure", "warn", "upstream_error", "block", "error")
"""From the mildest to the worst. An upstream that failed gave no answer to rely on, whatever was found before; a check that could not run
leaves open what else is wrong, also with what was refused."""
Would = Literal["", "edit", "answer", "ask", "retry", "block"]
"""What a stage of a policy in shadow mode would have done."""
Scope = Literal["request", "answer", "statements"]
"""What a verdict is about: what the client sent, something of the answer (its form, its citations, its own rating), or every statement that
the answer makes."""
QUIET: tuple[Outcome, ...] = ("pass", "unchecked", "unsure")
"""Outcomes that warn of nothing: their codes are facts for the record."""
UNCHECKED = "unchecked_"
"""How the code begins that says why nothing of an answer was checked: ``unchecked_no_context``."""
NO_ANSWER_CHECK = f"{UNCHECKED}no_answer_check"
"""No stage of the policy looks at answers, or the client has left out those that do."""
JUDGE_UNAVAILABLE, JUDGE_OVER_BUDGET = "judge_unavailable", "judge_over_budget"
"""The judge that the policy names gave no answer in time, or its budget of the day is spent: the built-in models judged alone."""
NOT_IN_PROMPT = "context_not_in_prompt"
"""Passages came in ``groundwire.context``, and nothing put them into the prompt: what is judged by them, the model had not read."""
_NOTICES = frozenset((JUDGE_UNAVAILABLE, JUDGE_OVER_BUDGET, NOT_IN_PROMPT))
"""Codes that a client is told of though their outcome warns of nothing."""


class Verdict(Struct, frozen=True):
    """What one stage found.

    ``pass``: all that the stage checks was checked, and held. ``unsure``: something was checked, nothing failed, and not all of it could
    be decided. ``unchecked``: there was nothing to check, nothing to check it against, or only something to count. ``error``: a check
    could not run, which is never a ``pass``. ``upstream_error``: the upstream gave no whole answer.
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
    scope: Scope = "request"
    """What it is about; of a hook that sees the answer it is ``answer`` at least."""


class VerdictView(Protocol):
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


def worst_outcome(verdicts: Sequence[Verdict]) -> Outcome:
    """The outcome of an exchange: the worst of what went wrong, else what is known of the answer.

    A check of the request never makes an answer ``pass``: only a stage that judged every statement of it does (`Scope`). Where other
    checks of the answer held and its statements were not judged, it is ``unsure``.
    """
    worst: Outcome = max({verdict.outcome for verdict in verdicts}, key=OUTCOMES.index, default="unchecked")
    if worst not in QUIET:
        return worst
    of_answer = {(verdict.scope, verdict.outcome) for verdict in verdicts if verdict.scope != "request"}
    if any(outcome == "unsure" for _, outcome in of_answer):
        return "unsure"
    if ("statements", "pass") in of_answer:
        return "pass"
    return "unsure" if ("answer", "pass") in of_answer else "unchecked"


def warning_codes(verdicts: Sequence[VerdictView], outcome: str = "") -> list[str]:
    """Codes of every verdict that is not one of `QUIET`, in order, each once; of an exchange whose outcome is ``unchecked`` also why. That
    the policy's judge was not asked, or the client's passages not handed over, is among them, the latter behind what was found.
    """
    found = dict.fromkeys([v.code for v in verdicts if (v.outcome not in QUIET or v.code in _NOTICES) and v.code]) if verdicts else {}
    if NOT_IN_PROMPT in found:  # known first, and no reason for anything else
        found[NOT_IN_PROMPT] = found.pop(NOT_IN_PROMPT)
    if outcome == "unchecked":
        found[unchecked_reason(verdicts)] = None
    return list(found)


def unchecked_reason(verdicts: Sequence[VerdictView]) -> str:
    """The code that says why nothing of the answer was checked."""
    return next((v.code for v in verdicts if v.outcome == "unchecked" and v.code.startswith(UNCHECKED)), NO_ANSWER_CHECK)
