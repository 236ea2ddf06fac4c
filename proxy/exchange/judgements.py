"""The words of grounding: a claim, the evidence for it, a verifier's word on the two, and the judgement that follows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Label = Literal["supported", "contradicted", "unsupported", "unsure", "not_checkable", "error"]
"""``unsure``: nothing exact decides it, and a model's opinion alone does not either; or no model knows its language."""
UNKNOWN_LANGUAGE = "unknown_language"
"""Reason of a claim that nobody is sure of because no verifier knows its language: nothing was checked, and nothing has failed."""
DecidedBy = Literal["", "literal", "exact", "recomputed", "model", "second_opinion", "knowledge"]
"""What a label rests on: the same words in the evidence, another value in their place, a calculation, the policy's verifiers, the model
asked for a second opinion, the knowledge base."""


class Claim(Struct, frozen=True):
    """One statement of an answer."""

    text: str
    """What is checked: the answer's words without marks of citation, list or emphasis; a row of a table with its column names."""
    start: int
    """Characters of the choice's text before it."""
    end: int
    """Where it ends; `start` and `end` hold the whole sentence, list item or row with its marks, not the white space around it."""
    checkable: bool = True
    reason: str = ""
    """Why it is not: ``code``, ``greeting``, ``question``, ``hedge``, ``refusal``, ``heading``, ``instruction``, ``rating``,
    ``lead_in``, ``plan``, ``opinion``, ``empty``."""
    asked: str = ""
    """The question that it answers, where it says nothing without one ("In Paris."). Read beside the claim, never a part of it."""

    @property
    def question_and_text(self) -> str:
        """What is searched for, and judged."""
        return f"{self.asked} {self.text}" if self.asked else self.text


class EvidenceSpan(Struct, frozen=True):
    """The piece of evidence that a judgement rests on."""

    text: str
    start: int
    """Characters of the evidence's content before it: ``content[start:end] == text``."""
    end: int
    source: str = ""
    kind: str = "passage"
    message_index: int | None = None
    """Position in the request's messages, if it stood there."""
    message_start: int | None = None
    """Characters of that message's text (`proxy.language.text.text_of`) before it, where it stands there as it is."""
    opinion: bool = False
    """Whether it is what a user says of something that is not their own: what differs from it is not wrong for that."""


class Support(Struct, frozen=True):
    """A verifier's word on one claim with one piece of evidence; calibrated probabilities, what is left to 1 is "not mentioned"."""

    supported: float
    contradicted: float = 0.0
    detail: str = ""
    """What a verifier that can speak says to it."""
    decides: bool = False
    """Whether its word alone is enough to call a claim contradicted: that of a model which the policy names, not the built-in one's."""
    by: str = ""
    """The verifier of several whose word it is; "" where there is but one, or all have a part in it."""


class ClaimPair(Struct, frozen=True):
    """What a verifier is asked."""

    claim: str
    evidence: str
    language: str = "en"
    """Of the claim, ISO 639-1."""


class Judgement(Struct, frozen=True):
    """What was found of one claim."""

    claim: Claim
    label: Label
    score: float | None = None
    """Calibrated probability that the evidence supports it; None where nothing was asked."""
    contradiction: float | None = None
    """Calibrated probability that the evidence contradicts it."""
    evidence: EvidenceSpan | None = None
    """The sentence of the evidence that says most to it, for a supported or contradicted claim, and the nearest one for another."""
    instead: str = ""
    """Where contradicted, and it could be found: what the evidence has in place of the claim's words (``Paris``)."""
    verifier: str = ""
    """Who judged."""
    decided_by: DecidedBy = ""
    """What the label rests on; "" where nothing was asked."""
    reason: str = ""
    """Why it is not checkable or an error, or which number, name or unit is not in the evidence."""


def faithfulness(judgements: Iterable[Judgement]) -> float | None:
    """Supported claims / those found supported, contradicted or unsupported; None where there are none.

    What nobody is sure of counts neither way, nor does a claim whose check failed.
    """
    checked = [j for j in judgements if j.label in ("supported", "contradicted", "unsupported")]
    return sum(j.label == "supported" for j in checked) / len(checked) if checked else None
