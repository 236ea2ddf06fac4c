"""`Grounder` with ``only_certain``: what a claim's label rests on."""

import pytest

from proxy.exchange import Evidence
from proxy.exchange.judgements import Claim, Judgement, Support
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.testing import ScriptedVerifiers

PARIS = "The Eiffel Tower is in Paris."


async def judged(text: str, support: Support, *contents: str, asked: str = "") -> Judgement:
    """`support` is the verifier's word on the claim; with another value in it, it finds the claim supported."""
    grounder = Grounder(ScriptedVerifiers(lambda pair: support if pair.claim.endswith(text) else Support(0.9, 0.02)), only_certain=True)
    base = EvidenceBase([Evidence(content) for content in contents or (PARIS,)])
    (found,) = await grounder.judge([Claim(text, 0, len(text), asked=asked)], base, tongue="en")
    return found


AGAINST, IN_BETWEEN, NOTHING = Support(0.02, 0.9), Support(0.4, 0.3), Support(0.05, 0.1)


@pytest.mark.parametrize(
    ("text", "support", "label", "by"),
    [
        ("The tower stands in Paris.", Support(0.9, 0.02), "supported", "model"),
        ("The Eiffel Tower is in Paris.", AGAINST, "supported", "literal"),
        ("The Eiffel Tower is in Rome.", AGAINST, "contradicted", "exact"),
        ("The Eiffel Tower is in Rome.", Support(0.6, 0.3), "supported", "model"),
        ("The Eiffel Tower is in Rome.", Support(0.88, 0.01), "supported", "model"),
        ("The Eiffel Tower is in Rome.", Support(0.45, 0.01), "unsure", "model"),
        ("The Eiffel Tower is in Rome.", Support(0.3, 0.01), "contradicted", "exact"),
        ("The Eiffel Tower is not in Paris.", AGAINST, "unsure", "model"),
        ("The Eiffel Tower is ugly.", AGAINST, "unsure", "model"),
        ("The Eiffel Tower is ugly.", IN_BETWEEN, "unsure", "model"),
        ("The Eiffel Tower is ugly.", NOTHING, "unsupported", "model"),
        ("The tower was painted in 1968.", NOTHING, "unsupported", "model"),
        ("The tower was painted in 1968.", AGAINST, "unsure", "model"),
        ("The Eiffel Tower makes 2 + 3 = 6 metres.", AGAINST, "contradicted", "recomputed"),
    ],
)
async def test_the_label_and_what_it_rests_on(text: str, support: Support, label: str, by: str) -> None:
    found = await judged(text, support)
    assert (label, by) == (found.label, found.decided_by)


@pytest.mark.parametrize(
    ("support", "label"), [(Support(0.1, 0.8, decides=True), "contradicted"), (Support(0.3, 0.3, decides=True), "unsupported")]
)
async def test_a_model_that_the_policy_names_may_decide_by_itself(support: Support, label: str) -> None:
    assert label == (await judged("The Eiffel Tower is ugly.", support)).label


@pytest.mark.parametrize(
    ("support", "asked"),
    [(0.02, 4), (0.45, 4), (0.95, 0)],
)
async def test_other_values_are_asked_about_only_where_the_answer_can_matter(support: float, asked: int) -> None:
    """Two claims, so that nothing is asked beside them, and two names to put into each."""
    claims = ["The Eiffel Tower is in Rome.", "The Big Tower is in Bonn."]
    verifiers = ScriptedVerifiers(lambda pair: Support(support, 0.02))
    base = EvidenceBase([Evidence(PARIS), Evidence("The Big Tower is in Cologne.")])
    await Grounder(verifiers, only_certain=True).judge([Claim(text, 0, len(text)) for text in claims], base, tongue="en")
    assert [2, asked][: 1 + bool(asked)] == [len(pairs) for pairs in verifiers.asked]


async def test_an_exact_contradiction_says_what_the_evidence_has_instead() -> None:
    found = await judged("The Eiffel Tower is in Rome.", AGAINST, "Rain fell. " + PARIS)
    assert ("Paris", "name Rome (evidence: Paris)", PARIS) == (found.instead, found.reason, found.evidence and found.evidence.text)


async def test_another_value_that_makes_the_claim_no_better_supported_is_no_contradiction() -> None:
    grounder = Grounder(ScriptedVerifiers(lambda pair: AGAINST), only_certain=True)
    claim = "The Eiffel Tower is in Rome."
    (found,) = await grounder.judge([Claim(claim, 0, len(claim))], EvidenceBase([Evidence(PARIS)]), tongue="en")
    assert ("unsure", "model") == (found.label, found.decided_by)


async def test_a_result_that_may_be_worked_out_is_unsure_whatever_the_verifier_thinks() -> None:
    found = await judged("In total it costs 330 euros.", AGAINST, "The flight costs 300 euros.", "The bag costs 30 euros.")
    assert ("unsure", "recomputed") == (found.label, found.decided_by)


async def test_a_result_that_many_numbers_could_make_is_unsure() -> None:
    rows = " ".join(f"Item {i} costs {i * 7 + 3} euros." for i in range(1, 12))
    found = await judged("In total two items cost 27 euros.", AGAINST, rows)
    assert ("unsure", "recomputed") == (found.label, found.decided_by)


async def test_the_question_is_searched_and_judged_with_the_answer_and_is_no_part_of_it() -> None:
    verifiers = ScriptedVerifiers(lambda pair: Support(0.9, 0.02) if "Paris" in pair.claim else AGAINST)
    claim = Claim("In Rome.", 0, 8, asked="Where is the Eiffel Tower?")
    (found,) = await Grounder(verifiers, only_certain=True).judge([claim], EvidenceBase([Evidence(PARIS)]), tongue="en")
    asked = [[pair.claim for pair in pairs] for pairs in verifiers.asked]
    assert [["Where is the Eiffel Tower? In Rome."], ["Where is the Eiffel Tower? In Paris."]] == asked
    assert ("In Rome.", "contradicted") == (found.claim.text, found.label)


PLANS = "The Harbour plan costs 40 euros a month. The Garden plan costs 25 euros a month."


@pytest.mark.parametrize(
    ("support", "label", "by"),
    [
        (Support(0.1, 0.8), "unsure", "model"),
        (Support(0.45, 0.5), "unsure", "model"),
        (Support(0.6, 0.3), "supported", "model"),
        (Support(0.1, 0.2, decides=True), "unsupported", "model"),
    ],
)
async def test_a_value_that_was_said_of_something_else_is_the_verifiers_to_judge(support: Support, label: str, by: str) -> None:
    found = await judged("Subscribers to the Garden plan pay 40 euros a month.", support, PLANS)
    assert (label, by) == (found.label, found.decided_by)


async def test_a_value_said_of_something_else_is_unsure_where_the_right_one_is_no_better_supported() -> None:
    grounder = Grounder(ScriptedVerifiers(lambda pair: AGAINST), only_certain=True)
    claim = "Subscribers to the Garden plan pay 40 euros a month."
    (found,) = await grounder.judge([Claim(claim, 0, len(claim))], EvidenceBase([Evidence(PLANS)]), tongue="en")
    assert ("unsure", "model") == (found.label, found.decided_by)


async def test_more_values_than_can_be_compared_are_undecided_and_it_is_said() -> None:
    said = ", ".join(str(i) for i in range(1000, 1900))
    claim = f"The numbers of the tower are {', '.join(str(i) for i in range(2000, 2300))}."
    found = await judged(claim, AGAINST, f"The tower has these numbers: {said}.")
    assert ("unsure", "too_many_values") == (found.label, found.reason)
