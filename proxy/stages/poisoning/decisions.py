"""What was found of a piece of the context -> what becomes of it, by the policy's rules.

In: a `PoisoningFinding` for each statement, what the injection detector says, and `Rules`. Out: a `PieceDecision`: the hardest action that
any finding asks for, and which statements it is about. A finding that could not be made is no pass: the piece is ``unchecked``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from proxy.stages.poisoning.injections.injection import THRESHOLD, InjectionFinding
from proxy.stages.poisoning.kinds import Kind

Status = Literal["VALID", "INVALID", "SUSPICIOUS", "UNKNOWN", "ERROR"]
"""As in `proxy.exchange.fact_checks`."""
Action = Literal["pass", "note", "annotate", "quarantine", "block", "reject"]
ACTIONS: tuple[Action, ...] = ("pass", "note", "annotate", "quarantine", "block", "reject")
"""From the mildest to the hardest. ``note`` is for the record alone; ``annotate`` warns; ``quarantine`` and ``block`` keep the content
from the model, the one until a person decides, the other unless a person decides otherwise; ``reject`` refuses the request."""
EXACT: tuple[Kind, ...] = ("wrong_location", "wrong_date", "wrong_number", "wrong_unit", "wrong_name")
"""Kinds that a number, a date or a name decides: the evidence has another in its place. Others are a model's reading of two sentences, but
for a "not" that one of two sentences in the same words has."""
MOST = 0.5
"""Where more than this share of a piece's checkable statements fails, all of it goes: what is left would say little, and is doubtful."""


class PoisoningFinding(Struct, frozen=True):
    """What was found of one statement."""

    text: str
    """As it stands in the piece."""
    start: int
    """Characters of the piece's text before it."""
    end: int
    status: Status
    confidence: float = 0.0
    kind: Kind = "unsupported_claim"
    """What is wrong with it, if anything is."""
    reason: str = ""
    correct_fact: str = ""
    source: str = ""
    """Of what it was judged by."""
    negation: bool = False
    """Whether a fact says the same words, one of the two with a "not"."""

    @property
    def exact(self) -> bool:
        """Whether a number, a date, a name or a "not" decides, and no model alone."""
        return self.kind in EXACT or self.negation


class Rules(Struct, frozen=True):
    """What a policy makes of findings."""

    on_invalid: Action = "annotate"
    on_inexact: Action = "note"
    """What becomes of false statements that are not `PoisoningFinding.exact`."""
    on_suspicious: Action = "note"
    """What becomes of doubtful statements, and at least of false ones."""
    on_low_confidence: Action = "pass"
    """What becomes of statements that are not known to be true with `min_confidence`, where the policy demands it."""
    min_confidence: float = 0.8
    injections: Action = "quarantine"
    act_on: Literal["certain", "suspicious"] = "certain"
    """Which instructions the rule for `injections` is for; of the others the likely ones are a warning, the rest is a note."""
    injection_threshold: float = THRESHOLD


class Failing(Struct, frozen=True):
    """A statement that fails, and what the rules say of it."""

    finding: PoisoningFinding
    action: Action
    reason: str
    """In words, for the person who reviews it."""


class PieceDecision(Struct, frozen=True):
    """What becomes of a piece."""

    action: Action = "pass"
    kind: Kind | None = None
    """Of what weighs most."""
    reason: str = ""
    score: float | None = None
    """How sure the check is of it."""
    failing: tuple[Failing, ...] = ()
    """The statements that the action is about; those that are only annotated stay in the text."""
    whole: bool = False
    """Whether all of the piece goes: most of it is false, or it holds an instruction."""
    instruction: bool = False
    """Whether it holds an instruction that is kept from the model, whatever else is wrong with it."""
    low_confidence: bool = False
    """Whether what weighs most is not false, but not known to be true."""
    unchecked: str = ""
    """Why some of it could not be checked."""


def decide(
    findings: Sequence[PoisoningFinding], injection: InjectionFinding | None, rules: Rules, *, outside: bool = True
) -> PieceDecision:
    """The decision for one piece; what does not come from `outside` is full of prompts, and none of them is acted on."""
    failing = [found for finding in findings if (found := _failing(finding, rules)) is not None]
    instruction = injection is not None and injection.score >= rules.injection_threshold and rules.injections != "pass"
    unchecked = next((finding.reason or "not_judged" for finding in findings if finding.status == "ERROR"), "")
    worst = max(failing, key=lambda one: (ACTIONS.index(one.action), one.finding.confidence), default=None)
    action = _of_instruction(injection, rules) if instruction and injection is not None and outside else "note"
    held = instruction and _index(action) >= _index("quarantine")
    says = f"looks like instructions to the model: {'; '.join(injection.reasons)}" if instruction and injection is not None else ""
    whole = held or _is_most(failing, findings)
    if injection is not None and says and (worst is None or _index(action) >= _index(worst.action)):
        return PieceDecision(action, "hidden_instruction", says, injection.score, tuple(failing), whole, held, unchecked=unchecked)
    if worst is None:
        return PieceDecision(unchecked=unchecked)
    reason = f"{says}; {worst.reason}" if says else worst.reason
    return PieceDecision(
        worst.action,
        worst.finding.kind,
        reason,
        worst.finding.confidence,
        tuple(failing),
        whole,
        held,
        worst.finding.status in ("VALID", "UNKNOWN"),
        unchecked,
    )


def _of_instruction(injection: InjectionFinding, rules: Rules) -> Action:
    """By how sure it is that an instruction from outside is one."""
    if injection.certain or rules.act_on == "suspicious":
        return rules.injections
    return "annotate" if injection.likely else "note"


def _failing(finding: PoisoningFinding, rules: Rules) -> Failing | None:
    """What the rules say of one statement; None where they let it pass."""
    action: Action = "pass"
    reason = _reason(finding)
    if finding.status == "INVALID":
        action = max(rules.on_invalid if finding.exact else rules.on_inexact, rules.on_suspicious, key=_index)
    elif finding.status == "SUSPICIOUS":
        action = rules.on_suspicious
    elif finding.status in ("VALID", "UNKNOWN") and _support(finding) < rules.min_confidence:
        action = rules.on_low_confidence
        reason = f"low confidence: {_support(finding):.2f}, below {rules.min_confidence:.2f}"
    return None if action == "pass" else Failing(finding, action, reason)


def _support(finding: PoisoningFinding) -> float:
    """How sure it is that a statement is true: what nothing is known of is not confirmed at all."""
    return finding.confidence if finding.status == "VALID" else 0.0


def _reason(finding: PoisoningFinding) -> str:
    words = "contradicted by" if finding.status == "INVALID" else "not borne out by"
    said = f"{finding.kind}: {words} {finding.source or 'the knowledge base'}"
    said += f" ({finding.reason})" if finding.reason else ""
    return said + (f": {finding.correct_fact}" if finding.correct_fact else "")


def _is_most(failing: Sequence[Failing], findings: Sequence[PoisoningFinding]) -> bool:
    held = [one for one in failing if _index(one.action) >= _index("quarantine")]
    return bool(held) and len(held) > MOST * sum(finding.status != "ERROR" for finding in findings)


def _index(action: Action) -> int:
    return ACTIONS.index(action)
