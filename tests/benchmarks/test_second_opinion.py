"""Which claims of a record `benchmarks.second_opinion` counts: those that the product would ask about."""

import itertools

import pytest

from benchmarks.second_opinion import line, open_to_it
from proxy.exchange.judgements import UNKNOWN_LANGUAGE, Claim, EvidenceSpan, Judgement
from proxy.grounding.judging.second_opinion import open_to

LABELS = ("supported", "contradicted", "unsupported", "unsure")
DECIDERS = ("literal", "exact", "recomputed", "model", "knowledge")


@pytest.mark.parametrize(
    ("label", "by", "reason", "found"), list(itertools.product(LABELS, DECIDERS, ("", UNKNOWN_LANGUAGE), (True, False)))
)
def test_what_is_counted_is_what_would_be_asked(label: str, by: str, reason: str, found: bool) -> None:
    evidence = EvidenceSpan("text", 0, 4) if found else None
    judgement = Judgement(Claim("text", 0, 4), label, 0.3, 0.3, evidence, decided_by=by, reason=reason)  # type: ignore[arg-type]
    told = {"label": label, "decided_by": by, "reason": reason, "evidence": {"text": "text"} if found else None}
    assert open_to(judgement) == open_to_it(told)


def test_an_answer_is_one_call_however_many_statements_it_is_about() -> None:
    assert ["rows", "4", "50 [15, 85]", "67", "2.0"] == line("rows", [3, 1, 0, -1])
