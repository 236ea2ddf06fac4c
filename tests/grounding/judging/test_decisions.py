"""Questions about a text, answered as claims are judged."""

import pytest

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.judging.decisions import decide, statements
from proxy.grounding.judging.questions import support_question
from proxy.grounding.judging.readouts import state_of
from proxy.ports.decisions import Answer, Question
from proxy.testing import ScriptedVerifiers

STATE = "The order was delivered on 5 March. The customer paid by card."


def asked(**given: object) -> Question:
    return Question(**{"name": "q", "instructions": "", **given})  # type: ignore[arg-type]


async def answered(question: Question, support: Support | None = None, state: str = STATE) -> Answer:
    verifiers = ScriptedVerifiers(None if support is None else lambda pair: support)
    return (await decide(verifiers, state, (question,)))["q"]


@pytest.mark.parametrize(
    "question",
    [
        asked(kind="predicate", instructions="The customer paid."),
        asked(kind="predicate", instructions="Does the text say so?\n\nThe customer paid."),
        asked(kind="predicate", instructions="Is it so? Judge by the evidence alone.\nStatement: The customer paid."),
        asked(kind="predicate", instructions="Statement: Somebody came.\nCLAIM:The customer paid."),
        asked(kind="predicate", instructions="Has anybody paid?", descriptions=("The customer paid.", "Nobody paid.")),
        asked(kind="predicate", descriptions=("The customer paid.", "")),
        asked(instructions="So?\n\nThe customer paid.", choices=("supported", "contradicted", "neither")),
    ],
)
async def test_the_statement_that_is_judged(question: Question) -> None:
    verifiers = ScriptedVerifiers()
    await decide(verifiers, STATE, (question,))
    assert {"The customer paid."} == {pair.claim for batch in verifiers.asked for pair in batch}


@pytest.mark.parametrize(
    "question",
    [
        asked(kind="predicate", instructions="Has the customer paid?"),
        asked(kind="predicate", instructions="Hat der Kunde bezahlt?"),
        asked(kind="predicate", instructions="お客様は支払いましたか？"),
        asked(kind="predicate", instructions="Has anybody paid?", descriptions=("", "Nobody paid.")),
        asked(choices=("billing", "shipping")),
        asked(choices=("a", "b"), descriptions=("The customer paid.", "")),
        asked(choices=("a", "b"), descriptions=("The customer paid.", "Has the customer paid?")),
        asked(kind="score", choices=("1", "2", "3")),
        asked(instructions="Has the customer paid?", choices=("supported", "neither")),
    ],
)
async def test_what_is_no_statement_is_refused(question: Question) -> None:
    verifiers = ScriptedVerifiers()
    found = (await decide(verifiers, STATE, (question,)))["q"]
    assert found.problem.startswith("refused: the built-in judge")
    assert ({}, []) == (found.probabilities, verifiers.asked)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        (("supported", "contradicted", "neither"), (0.5, 0.3, 0.2)),
        (("neutral", "entailment", "contradiction"), (0.2, 0.5, 0.3)),
        (("supported", "unsupported"), (0.5, 0.5)),
        (("supported", "contradicted"), (0.625, 0.375)),
    ],
)
async def test_how_a_text_bears_on_a_statement(choices: tuple[str, ...], expected: tuple[float, ...]) -> None:
    found = await answered(asked(instructions="Somebody came.", choices=choices), Support(0.5, 0.3))
    assert dict(zip(choices, map(pytest.approx, expected), strict=True)) == found.probabilities


async def test_what_the_text_does_not_say_cannot_be_left_to_nothing() -> None:
    found = await answered(asked(instructions="Somebody came.", choices=("supported", "contradicted")), Support(0.1, 0.1))
    assert "refused: the text supports none of the options" == found.problem


async def test_a_value_that_differs_is_a_contradiction_whatever_the_verifier_says() -> None:
    def script(pair: ClaimPair) -> Support:
        return Support(0.9, 0.05) if "5 March" in pair.claim else Support(0.4, 0.5)

    question = asked(instructions="The order was delivered on 7 March.", choices=("supported", "contradicted", "neither"))
    found = (await decide(ScriptedVerifiers(script), STATE, (question,)))["q"]
    assert {"supported": 0.0, "contradicted": 1.0, "neither": 0.0} == found.probabilities


@pytest.mark.parametrize(("statement", "choice"), [("The order was delivered on 7 March.", "contradicted"), (STATE[:34], "supported")])
async def test_another_groundwire_s_judge_can_ask_it(statement: str, choice: str) -> None:
    def script(pair: ClaimPair) -> Support:
        return Support(0.9, 0.05) if "5 March" in pair.claim else Support(0.4, 0.5)

    state, questions = state_of([support_question(statement, [STATE])])
    (found,) = (await decide(ScriptedVerifiers(script), state, questions)).values()
    assert choice == max(found.probabilities, key=lambda name: found.probabilities[name])


async def test_questions_of_the_same_statement_are_judged_once_and_all_in_one_batch() -> None:
    verifiers = ScriptedVerifiers()
    questions = [Question(name=f"q{i}", kind="predicate", instructions=f"The customer paid {i % 3} times.") for i in range(9)]
    found = await decide(verifiers, STATE, questions)
    assert 9 == len(found)
    assert 1 == len(verifiers.asked)
    assert 3 == len({pair.claim for pair in verifiers.asked[0]})


async def test_a_language_that_no_model_knows_is_refused() -> None:
    class English(ScriptedVerifiers):
        def knows(self, language: str) -> bool:
            return False

    question = asked(kind="predicate", instructions="The customer paid.")
    found = (await decide(English(lambda pair: None), STATE, (question,)))["q"]
    assert "refused: not judged (unknown_language)" == found.problem


async def test_a_verifier_that_judges_nothing_is_an_error() -> None:
    with pytest.raises(ModelUnavailable, match="judged nothing: not_judged"):
        await decide(ScriptedVerifiers(lambda pair: None), STATE, (asked(kind="predicate", instructions="Somebody came."),))


async def test_an_empty_state_supports_nothing() -> None:
    found = await answered(asked(kind="predicate", instructions="The customer paid."), state="")
    assert {"yes": 0.0, "no": 1.0} == found.probabilities


def test_how_many_statements_there_are() -> None:
    assert 4 == statements((asked(kind="predicate"), asked(choices=("a", "b", "c"))))
