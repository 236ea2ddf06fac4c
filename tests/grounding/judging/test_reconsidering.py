"""What the policy's judge is asked of judgements, and what its word changes."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.exchange import Evidence
from proxy.exchange.judgements import UNKNOWN_LANGUAGE, Claim, EvidenceSpan, Judgement, Label
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.grounding.judging.reconsidering import EVIDENCE_CHARS, is_open_to_judge, reconsider_judgements
from proxy.ports.judge import AskAbout, JudgeQuestion
from proxy.testing import ScriptedJudge, ScriptedVerifiers

SPAN = EvidenceSpan("The tower is in Paris.", 0, 22)
BASE = EvidenceBase([Evidence("The tower is in Paris. It is made of iron.", "tower.txt")])


def judgement(label: Label = "unsure", text: str = "The tower is ugly.", by: Any = "model", score: float | None = 0.3) -> Judgement:
    return Judgement(Claim(text, 0, len(text)), label, score, 0.4, SPAN, verifier="builtin", decided_by=by)


@pytest.mark.parametrize(
    ("label", "by", "score", "unsure", "every"),
    [
        ("unsure", "model", 0.3, True, True),
        ("unsupported", "model", 0.1, True, True),
        ("unsure", "recomputed", 0.1, True, True),
        ("supported", "model", 0.7, True, True),
        ("supported", "model", 0.9, False, True),
        ("contradicted", "model", 0.1, True, True),
        ("error", "", None, True, True),
        ("supported", "recomputed", None, False, False),
        ("contradicted", "exact", 0.9, False, False),
        ("unsure", "exact", 0.3, True, True),
        ("supported", "literal", None, False, False),
        ("not_checkable", "", None, False, False),
    ],
)
def test_what_is_open_to_it(label: Label, by: str, score: float | None, unsure: bool, every: bool) -> None:
    one = judgement(label, by=by, score=score)
    assert (unsure, every) == (is_open_to_judge(one, "unsure"), is_open_to_judge(one, "all"))


async def test_all_that_is_open_is_asked_in_one_batch_with_the_whole_evidence_where_it_is_short() -> None:
    judge = ScriptedJudge(lambda question: {"A.": "contradicted", "B.": "supported", "C.": "neither"}[question.statement])
    judged = [judgement(text="A."), judgement("contradicted", by="exact"), judgement(text="B."), judgement(text="C.")]
    found = await reconsider_judgements(judged, BASE, judge)
    assert [("contradicted", "judge"), ("contradicted", "exact"), ("supported", "judge"), ("unsupported", "judge")] == [
        (one.label, one.decided_by) for one in found
    ]
    assert (0.9, "scripted/judge", "So it is.") == (found[0].contradiction, found[0].verifier, found[0].reason)
    (batch,) = judge.asked
    assert {("(tower.txt) The tower is in Paris.\nIt is made of iron.",)} == {question.evidence for question in batch}


async def test_a_claim_with_a_pronoun_is_asked_about_with_what_was_said_before_it() -> None:
    text = "It is made of iron."
    judged = [Judgement(Claim(text, 0, len(text), before="The tower is in Paris."), "unsure", 0.3, 0.4, SPAN, decided_by="model")]
    judge = ScriptedJudge(lambda question: "supported")

    (found,) = await reconsider_judgements(judged, BASE, judge)

    assert ("supported", text) == (found.label, found.claim.text)
    assert [['It is made of iron. (Said right after: "The tower is in Paris.")']] == [[q.statement for q in batch] for batch in judge.asked]


async def test_of_long_evidence_a_claim_gets_what_says_most_to_it() -> None:
    filler = " ".join(f"Line {i} tells of nothing at all." for i in range(EVIDENCE_CHARS // 20))
    judge = ScriptedJudge(lambda question: "supported")
    await reconsider_judgements(
        [judgement(text="The tower is made of iron.")], EvidenceBase([Evidence(f"{filler} The tower is made of iron.")]), judge
    )
    (question,) = judge.asked[0]
    assert "The tower is made of iron." in question.evidence[0]
    assert sum(map(len, question.evidence)) <= EVIDENCE_CHARS


@pytest.mark.parametrize(("label", "after"), [("unsupported", "unsupported"), ("unsure", "unsure"), ("supported", "supported")])
async def test_without_an_answer_what_was_found_stands(label: Label, after: Label) -> None:
    (found,) = await reconsider_judgements([judgement(label, score=0.6)], BASE, ScriptedJudge(lambda question: ""))
    assert (after, "model") == (found.label, found.decided_by)


async def test_without_a_judge_nothing_is_asked() -> None:
    one = judgement()
    assert [one] == await reconsider_judgements([one], BASE, None)


async def test_what_no_verifier_could_judge_is_the_judge_s() -> None:
    (found,) = await reconsider_judgements(
        [Judgement(Claim("Das ist so.", 0, 11), "unsure", reason=UNKNOWN_LANGUAGE, language="xx")],
        BASE,
        ScriptedJudge(lambda question: "supported"),
    )
    assert ("supported", "", "") == (found.label, found.reason, found.language)
    assert found.evidence is not None


@pytest.mark.parametrize(("choice", "label"), [("contradicted", "contradicted"), ("supported", "unsure")])
async def test_a_value_that_differs_from_what_somebody_said_is_never_supported_on_its_word(choice: str, label: str) -> None:
    (found,) = await reconsider_judgements([judgement("unsure", by="exact")], BASE, ScriptedJudge(lambda question: choice))
    assert label == found.label


async def test_what_differs_from_a_user_s_opinion_is_not_wrong_for_that() -> None:
    opinion = EvidenceSpan("I think it is in Rome.", 0, 22, kind="user", opinion=True)
    one = Judgement(Claim("It is in Paris.", 0, 15), "unsure", 0.3, 0.4, opinion, decided_by="model")
    (found,) = await reconsider_judgements([one], BASE, ScriptedJudge(lambda question: "contradicted"))
    assert "unsure" == found.label


async def test_a_text_that_a_user_gave_to_work_with_is_more_than_an_opinion() -> None:
    opinion = EvidenceSpan("It is in Rome.", 0, 14, kind="user", opinion=True)
    one = Judgement(Claim("It is in Paris.", 0, 15), "unsure", 0.3, 0.4, opinion, decided_by="model")
    base = EvidenceBase([Evidence("It is in Rome.\nIt is tall.\nIt is old.\nIt is grey.\n", kind="user")])
    (found,) = await reconsider_judgements([one], base, ScriptedJudge(lambda question: "contradicted"))
    assert "contradicted" == found.label


@pytest.mark.parametrize(("choice", "label"), [("neither", "not_checkable"), ("contradicted", "contradicted"), ("supported", "supported")])
async def test_what_is_reopened_stays_not_checkable_where_the_judge_finds_neither(choice: str, label: str) -> None:
    one = Judgement(Claim("A.", 0, 2), "not_checkable", reason="not_known")
    (found,) = await reconsider_judgements([one], BASE, ScriptedJudge(lambda question: choice, "all"), reopens=lambda judgement: True)
    assert label == found.label


async def test_evidence_that_has_nothing_to_do_with_a_claim_can_be_left_out() -> None:
    judge = ScriptedJudge(lambda question: "contradicted")
    far = Judgement(Claim("A.", 0, 2), "unsupported", 0.05, 0.1, SPAN, decided_by="model")
    assert [far] == await reconsider_judgements([far], BASE, judge, only_related=True)
    assert [] == judge.asked


@pytest.mark.parametrize(("ask", "labels"), [("unsure", ["supported", "contradicted"]), ("all", ["contradicted", "contradicted"])])
async def test_the_grounder_asks_it_over_the_verifier(ask: AskAbout, labels: list[Label]) -> None:
    judge = ScriptedJudge(lambda question: "contradicted", ask)
    grounder = Grounder(ScriptedVerifiers(), judge=judge)
    claims = [Claim(text, 0, len(text)) for text in ("The tower is in Paris, made of iron.", "The tower is made of gold.")]
    assert labels == [one.label for one in await grounder.judge(claims, BASE)]


async def test_a_value_that_differs_in_its_place_is_not_the_judge_s_to_overrule() -> None:
    asked: list[JudgeQuestion] = []
    judge = ScriptedJudge(lambda question: asked.append(question) or "supported", "all")  # type: ignore[func-returns-value]
    grounder = Grounder(ScriptedVerifiers(), judge=judge, only_certain=True)
    base = EvidenceBase([Evidence("The tower is 330 metres tall.")])
    (found,) = await grounder.judge([Claim("2 + 2 = 5.", 0, 10)], base, tongue="en")
    assert ("contradicted", "recomputed", []) == (found.label, found.decided_by, asked)
