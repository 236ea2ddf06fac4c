"""Findings and rules make a decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.poisoning.injection import InjectionFinding
from proxy.stages.poisoning.rules import ACTIONS, PieceDecision, PoisoningFinding, decide
from proxy.stages.poisoning.rules import PoisoningOptions as Rules


def finding(status: str, confidence: float = 0.9, text: str = "It is so.", **more: object) -> PoisoningFinding:
    return PoisoningFinding(text, 0, len(text), status, confidence, **{"kind": "wrong_number", **more})  # type: ignore[arg-type]


VALID, INVALID, SUSPICIOUS, UNKNOWN, ERROR = (finding(s) for s in ("VALID", "INVALID", "SUSPICIOUS", "UNKNOWN", "ERROR"))
HIDDEN = InjectionFinding(0.9, (), ("asks to leave the given instructions",), grade="certain")
CAREFUL = Rules(on_invalid="block", on_suspicious="quarantine")


@pytest.mark.parametrize(
    ("findings", "action"),
    [
        ([], "pass"),
        ([VALID, UNKNOWN], "pass"),
        ([VALID, INVALID], "block"),
        ([VALID, SUSPICIOUS], "quarantine"),
        ([SUSPICIOUS, INVALID], "block"),
    ],
)
def test_the_hardest_action_that_a_finding_asks_for_counts(findings: list[PoisoningFinding], action: str) -> None:
    assert decide(findings, None, CAREFUL).action == action


def test_low_confidence_is_rejected_with_its_reason_where_the_policy_demands_confidence() -> None:
    found = decide([finding("VALID", 0.62)], None, Rules(on_low_confidence="reject", min_confidence=0.8))
    assert (found.action, found.reason, found.low_confidence) == ("reject", "low confidence: 0.62, below 0.80", True)


def test_what_nothing_is_known_of_has_no_confidence_at_all() -> None:
    assert decide([finding("UNKNOWN", 0.0)], None, Rules(on_low_confidence="reject")).action == "reject"


def test_enough_confidence_passes() -> None:
    assert decide([finding("VALID", 0.8)], None, Rules(on_low_confidence="reject", min_confidence=0.8)) == PieceDecision()


def test_one_false_statement_of_three_leaves_the_others() -> None:
    found = decide([VALID, INVALID, VALID], None, CAREFUL)
    assert (found.whole, [one.finding for one in found.failing]) == (False, [INVALID])


def test_where_most_is_false_all_of_it_goes() -> None:
    assert decide([INVALID, INVALID, VALID], None, CAREFUL).whole


def test_an_instruction_goes_also_where_a_false_statement_weighs_more() -> None:
    found = decide([INVALID, VALID, VALID], HIDDEN, CAREFUL)
    assert (found.action, found.instruction, found.whole) == ("block", True, True)
    assert found.reason.startswith("looks like instructions to the model: asks to leave the given instructions; wrong_number: ")


def test_an_instruction_that_is_only_noted_takes_nothing() -> None:
    found = decide([INVALID, VALID, VALID], HIDDEN, Rules(on_invalid="block", injections="annotate"))
    assert (found.action, found.instruction, found.whole) == ("block", False, False)


@pytest.mark.parametrize("kind", ["contradiction", "false_capability", "unsupported_claim", "outdated", "invented_date"])
def test_what_no_number_date_or_name_decides_is_for_the_record_unless_the_policy_says_more(kind: str) -> None:
    other_words = finding("INVALID", kind=kind)
    assert ["note", "block"] == [decide([other_words], None, rules).action for rules in (Rules(), Rules(on_inexact="block"))]


def test_a_suspicion_of_an_instruction_is_for_the_record_unless_the_policy_says_more() -> None:
    unsure = InjectionFinding(0.9, (), ("asks to leave the given instructions",))
    found = [decide([], unsure, rules) for rules in (Rules(), Rules(act_on="suspicious"))]
    assert [("note", False), ("quarantine", True)] == [(one.action, one.instruction) for one in found]


def test_what_the_users_own_files_say_is_for_the_record() -> None:
    assert "note" == decide([], HIDDEN, Rules(act_on="suspicious"), outside=False).action


def test_an_instruction_takes_the_whole_piece() -> None:
    found = decide([VALID], HIDDEN, Rules())
    assert (found.action, found.kind, found.whole, found.score) == ("quarantine", "hidden_instruction", True, 0.9)
    assert found.reason == "looks like instructions to the model: asks to leave the given instructions"


def test_a_weak_sign_of_an_instruction_is_none() -> None:
    assert decide([], InjectionFinding(0.4), Rules()) == PieceDecision()


def test_injections_that_the_policy_does_not_look_for_pass() -> None:
    assert decide([], HIDDEN, Rules(injections="ignore")) == PieceDecision()


def test_a_false_statement_beside_an_instruction_counts_where_it_is_graver() -> None:
    found = decide([INVALID], HIDDEN, Rules(on_invalid="reject"))
    assert (found.action, found.kind) == ("reject", "wrong_number")


statuses = st.sampled_from(["VALID", "INVALID", "SUSPICIOUS", "UNKNOWN", "ERROR"])


@given(st.lists(st.builds(finding, statuses, st.floats(0, 1))), st.builds(finding, statuses, st.floats(0, 1)))
def test_one_more_finding_never_makes_it_milder(findings: list[PoisoningFinding], more: PoisoningFinding) -> None:
    before, after = decide(findings, None, Rules()), decide([*findings, more], None, Rules())
    assert ACTIONS.index(after.action) >= ACTIONS.index(before.action)


def test_a_likely_instruction_from_outside_is_a_warning() -> None:
    likely = InjectionFinding(0.9, (), ("asks to leave the given instructions",), grade="likely")
    assert [decide([], likely, Rules(), outside=outside).action for outside in (True, False)] == ["annotate", "note"]
