"""The words of grounding: a claim, the evidence for it, a verifier's word on the two, and the judgement that follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct, field

Label = Literal["supported", "contradicted", "unsupported", "unsure", "not_checkable", "error"]
"""``unsure``: nothing exact decides it, and a model's opinion alone does not either; or no model knows its language."""
UNKNOWN_LANGUAGE = "unknown_language"
"""Reason of a claim that nobody is sure of because no verifier knows its language: nothing was checked, and nothing has failed."""
DecidedBy = Literal["", "literal", "exact", "recomputed", "model", "judge", "knowledge"]
"""What a label rests on: the same words in the evidence, another value in their place, a calculation, a model of this process,
the judge that the policy names, the knowledge base."""


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
    before: str = ""
    """What was stated before it, where it begins with a pronoun ("Its price is 9."): whose price is said there. Of a label with its
    value in a list ("Price: 9"), the line above the list, with a colon at its end."""

    wrong_sum: str = ""
    """Of the total of a list or table that does not add up to it: the sum that it says, written out: ``£116 + £57 = £183``."""

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
    decides: bool = False
    """Whether its word alone is enough to call a claim contradicted: that of a model which the policy names, not the built-in one's."""
    by: str = ""
    """Which model said so, where a verifier has several."""


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
    language: str = ""
    """Of the claim, ISO 639-1, where no verifier knows it."""
    by_table: bool = False
    """Whether a cell of a table contradicts it, bound to the claim by row and column."""


_BY_RULE: tuple[DecidedBy, ...] = ("literal", "exact", "recomputed")
"""What decides for certain, whatever a verifier thinks."""
_UNKNOWN = 0.5
"""The probability of a statement that nobody could judge: it may as well hold as not."""


class Judged(Protocol):
    """A judgement, or what a record has of it."""

    @property
    def label(self) -> Label:
        """What was found."""

    @property
    def score(self) -> float | None:
        """As `Judgement.score`."""

    @property
    def decided_by(self) -> str:
        """As `Judgement.decided_by`."""


def support(judgement: Judged) -> float:
    """Calibrated probability that the evidence supports a checkable claim; 1 or 0 where a rule decided, 0 without evidence."""
    label = judgement.label
    if judgement.score is None or judgement.decided_by in _BY_RULE:
        certain = {"supported": 1.0, "contradicted": 0.0, "unsupported": 0.0}.get(label)
        if certain is not None:
            return certain
    return _UNKNOWN if judgement.score is None else judgement.score


def was_judged(judgement: Judgement) -> bool:
    """Whether anything was found of a claim: it is checkable, its check did not fail, and a verifier knows its language."""
    return judgement.label not in ("not_checkable", "error") and judgement.reason != UNKNOWN_LANGUAGE


def faithfulness(judgements: Iterable[Judgement]) -> float | None:
    """Expected share of supported claims: the mean of `support` over all that are checkable; None where none of them was judged."""
    found = _checkable(judgements)
    return sum(support(judgement) for judgement in found) / len(found) if found else None


def share_labelled(label: Label, judgements: Iterable[Judgement]) -> float | None:
    """Claims with this label / checkable claims; None where none was judged."""
    found = _checkable(judgements)
    return sum(judgement.label == label for judgement in found) / len(found) if found else None


def _checkable(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Those of checkable claims; none where not one of them was judged."""
    found = [judgement for judgement in judgements if judgement.label != "not_checkable"]
    return found if any(map(was_judged, found)) else []


# ---- what a knowledge base says to a claim ----
#
# The words of fact checking: what a knowledge base says to a claim.
#
# VALID       the knowledge base says so: word by word (confidence 1.0), or the verifier finds it supported by facts that hold now
# INVALID     a fact says otherwise: it has another number, date or name in the same place of the same statement, or one of the two has a
#             "not", and the verifier reads a contradiction (`reason`: what differs); or the verifier has hardly a doubt of one, though
#             nothing that can be compared differs (``contradicted``). `correct_fact` is what it says
# SUSPICIOUS  the knowledge base speaks of the very thing that a claim states, and may be against it: ``outdated`` (the only facts that say
#             so are over, or not yet begun), ``conflicting_facts`` (one fact supports it, another contradicts it) or ``values_differ`` (a
#             value in the same place is another one, and the verifier sees little or no contradiction)
# UNKNOWN     the knowledge base says nothing to it (``no_fact``), speaks of the same subject, but of another matter (``other_matter``), or
#             neither bears it out nor contradicts it (``unsure``): to be unlike a fact is not to be against it. It never counts as VALID.
# ERROR       the check could not run (``timeout``, ``verifier_unavailable``, ``not_judged``, ``knowledge_unavailable``). Nor does it.

Status = Literal["VALID", "INVALID", "SUSPICIOUS", "UNKNOWN", "ERROR"]
KNOWLEDGE_BASE = "knowledge_base"
"""`FactVerdict.source` of a claim that stands in the knowledge base word by word."""


class FactVerdict(Struct, frozen=True):
    """What the knowledge base says to one claim."""

    status: Status
    confidence: float = 0.0
    """0 to 1. VALID: that it is supported; INVALID: that it is contradicted; SUSPICIOUS: the higher of the two. 0 for the others."""
    correct_fact: str = ""
    """INVALID and SUSPICIOUS: what the knowledge base says, in the fact's own words."""
    source: str = ""
    """Where the fact comes from; ``knowledge_base`` for an exact match, whose own source stands in `detail`."""
    fact_id: str = ""
    reason: str = ""
    """Why it is not VALID, or ``exact``."""
    version: str = ""
    """Of the knowledge base that judged."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """For the record: ``fact_source``, ``support``, ``contradiction``, ``conflict`` (the kind of what differs), ``differs``
    (the claim's words for it), ``instead`` (the fact's), ``subject``, ``verifier``, as far as they are known."""

    @property
    def valid(self) -> bool:
        """Whether the claim may be relied on: VALID, and nothing else."""
        return self.status == "VALID"
