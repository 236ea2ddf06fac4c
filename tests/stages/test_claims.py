"""The stage `claims` on whole answers: what it finds, and what it says of it."""

import json
from typing import Any

import pytest

from proxy.errors import ModelUnavailable
from proxy.exchange import Choice, Sentence
from proxy.exchange.judgements import Support
from proxy.ports import Ports
from proxy.ports.judge import AskAbout
from proxy.stages.claims import Claims, ClaimsOptions
from proxy.stages.claims.options import Sensitivity
from proxy.stages.claims.reading import MAX_STATEMENTS, bounded, has_bare_values, read_choice
from proxy.stages.claims.reporting import MAX_CHARS, MAX_CLAIMS
from proxy.testing import CountedNames, ScriptedJudge, ScriptedVerifiers
from tests.claims import GOLD, LONDON, PARIS, TALL, TOWER, answering, checked, judged_by_words, labels, make_stage, ports_with, texts_of
from tests.cost import below


async def test_a_supported_answer_passes_with_its_evidence() -> None:
    exchange = answering(PARIS)
    verdict = await checked(exchange)
    (judgement,) = exchange.judgements[0]
    assert ("pass", "", 1.0, 1.0) == (verdict.outcome, verdict.code, verdict.score, exchange.facts.faithfulness)
    assert ("supported", 0.96) == (judgement.label, judgement.score)
    assert judgement.evidence is not None
    assert TOWER[judgement.evidence.start : judgement.evidence.end] == judgement.evidence.text
    assert "file0.txt" == judgement.evidence.source


async def test_a_contradicted_claim_is_a_warning_that_says_what_the_context_says() -> None:
    exchange = answering(LONDON)
    verdict = await checked(exchange)
    assert ("warn", "claims_contradicted", 0.0) == (verdict.outcome, verdict.code, exchange.facts.faithfulness)
    (claim,) = verdict.detail["claims"]
    assert ("contradicted", "Paris", LONDON) == (claim["label"], claim["instead"], claim["text"])
    assert "Paris" in claim["evidence"]["text"]


async def test_an_unsupported_claim_is_a_warning() -> None:
    exchange = answering(f"{PARIS} {GOLD}")
    verdict = await checked(exchange)
    assert ("warn", "claims_unsupported", (1.0 + 0.04) / 2) == (verdict.outcome, verdict.code, exchange.facts.faithfulness)
    assert ["supported", "unsupported"] == labels(exchange)


async def test_only_contradicted_claims_fail_where_the_policy_says_so() -> None:
    assert "unsure" == (await checked(answering(GOLD), fail_on="contradicted")).outcome
    assert "warn" == (await checked(answering(LONDON), fail_on="contradicted")).outcome


def test_by_default_only_what_is_contradicted_fails() -> None:
    assert "contradicted" == ClaimsOptions().fail_on


@pytest.mark.parametrize(("fail_on", "code"), [("contradicted", ""), ("unsupported", ""), ("unsure", "claims_unsure")])
async def test_what_is_unsure_fails_only_where_the_policy_says_so(fail_on: str, code: str) -> None:
    verifiers = ScriptedVerifiers(lambda pair: Support(0.1, 0.8))
    assert code == (await checked(answering("The Eiffel Tower is not made of iron."), ports_with(verifiers), fail_on=fail_on)).code


@pytest.mark.parametrize(
    ("sensitivity", "expected"),
    [
        ("low", ["supported", "supported", "unsure", "unsupported"]),
        ("balanced", ["supported", "unsure", "unsupported", "unsupported"]),
        ("high", ["unsure", "unsupported", "unsupported", "unsupported"]),
    ],
)
async def test_how_readily_a_claim_is_doubted_is_the_policy_s(sensitivity: Sensitivity, expected: list[str]) -> None:
    for support, label in zip((0.6, 0.35, 0.15, 0.05), expected, strict=True):
        exchange = answering("The Eiffel Tower is not made of iron.")
        await checked(exchange, ports_with(ScriptedVerifiers(lambda pair, support=support: Support(support))), sensitivity=sensitivity)
        assert [label] == labels(exchange)


def test_what_a_policy_says_itself_goes_before_its_sensitivity() -> None:
    assert (0.1, 0.35) == ClaimsOptions(sensitivity="low").bounds()
    assert (0.1, 0.7) == ClaimsOptions(sensitivity="low", min_support=0.7).bounds()
    assert (0.35, 0.65) == ClaimsOptions(sensitivity="high").bounds()
    assert (0.05, 0.05) == ClaimsOptions(min_support=0.05).bounds()


async def test_an_answer_in_a_language_that_no_verifier_knows_is_unchecked_and_no_failure() -> None:
    class NoItalian(ScriptedVerifiers):
        def knows(self, language: str) -> bool:
            return language != "it"

    exchange = answering("La torre è alta trecento metri e non si trova a Londra, ma in un'altra città.")
    verdict = await checked(exchange, ports_with(NoItalian(lambda pair: None)))
    assert ("unchecked", "unchecked_language_it", "unknown_language") == (verdict.outcome, verdict.code, verdict.detail["reason"])
    assert (["unsure"], None) == (labels(exchange), exchange.facts.faithfulness)


async def test_what_nobody_is_sure_of_is_counted_and_does_not_fail() -> None:
    exchange = answering(f"{PARIS} The Eiffel Tower is not made of iron.")
    verdict = await checked(
        exchange, ports_with(ScriptedVerifiers(lambda p: Support(0.9) if "not" not in p.claim else Support(0.1, 0.8))), action="block"
    )
    assert ("unsure", (1.0 + 0.1) / 2, 1, ["supported", "unsure"]) == (
        verdict.outcome,
        verdict.score,
        verdict.detail["unsure"],
        labels(exchange),
    )
    assert {"literal": 1, "model": 1} == verdict.detail["decided_by"]


async def test_a_refusal_quotes_the_claim_without_the_question() -> None:
    exchange = answering("London.", question="Where does the Eiffel Tower stand?")
    verifiers = ScriptedVerifiers(lambda pair: Support(0.96, 0.01) if "Paris" in pair.claim else Support(0.02, 0.97))
    verdict = await checked(exchange, ports_with(verifiers), action="block")
    assert "the answer contradicts its context: London.; the context says: Paris" == verdict.message


@pytest.mark.parametrize(
    "question",
    [
        "Write a short story about the Eiffel Tower.",
        "Übersetze das ins Englische: Der Turm steht in London.",
        "Inventa un cuento sobre la torre.",
        "Reformule cette phrase, s'il te plaît.",
    ],
)
async def test_what_the_model_is_asked_to_make_up_is_not_judged(question: str) -> None:
    exchange = answering(LONDON, question=question)
    verdict = await checked(exchange, action="block")
    assert ("unchecked", "text to be made up", []) == (verdict.outcome, verdict.detail["reason"], labels(exchange))


async def test_a_story_that_is_to_keep_to_the_text_is_judged() -> None:
    exchange = answering(LONDON, question="According to the text: write a short story about where the tower stands.")
    assert "block" == (await checked(exchange, action="block")).outcome


# ---- the policy's judge ----

UNSURE = "The Eiffel Tower is ugly."


def with_judge(choice: str, ask: AskAbout = "unsure") -> tuple[Ports, ScriptedJudge]:
    judge = ScriptedJudge(lambda question: choice, ask)
    verifiers = ScriptedVerifiers(lambda pair: Support(0.3, 0.6) if "ugly" in pair.claim else judged_by_words(pair))
    return ports_with(verifiers, judge=judge), judge


@pytest.mark.parametrize(
    ("choice", "outcome", "label"),
    [("contradicted", "block", "contradicted"), ("supported", "pass", "supported"), ("", "unsure", "unsure")],
)
async def test_the_judge_settles_what_is_unsure(choice: str, outcome: str, label: str) -> None:
    ports, judge = with_judge(choice)
    exchange = answering(f"{PARIS} {UNSURE}")
    verdict = await checked(exchange, ports, action="block")
    assert (outcome, ["supported", label], [1]) == (verdict.outcome, labels(exchange), [len(batch) for batch in judge.asked])
    assert ("judge" if choice else "model") == exchange.judgements[0][1].decided_by


async def test_a_judge_of_everything_is_asked_what_nothing_exact_decides() -> None:
    ports, judge = with_judge("contradicted", "all")
    exchange = answering(f"{PARIS} In Paris stands the tower.")
    await checked(exchange, ports)
    assert (["supported", "contradicted"], ["literal", "judge"]) == (
        labels(exchange),
        [judgement.decided_by for judgement in exchange.judgements[0]],
    )
    assert ["In Paris stands the tower."] == [question.statement for batch in judge.asked for question in batch]


async def test_what_has_left_sentence_by_sentence_is_asked_about_once() -> None:
    ports, judge = with_judge("contradicted")
    stage = make_stage(ports)
    exchange = answering(f"{UNSURE} {PARIS}")
    exchange.gated = True
    await stage.on_sentence(exchange, Sentence(f"{UNSURE} ", 0, 0, 0, False))
    await stage.on_sentence(exchange, Sentence(PARIS, 0, 1, len(UNSURE) + 1, True))
    assert [] == judge.asked
    verdict = await stage.on_answer(exchange)
    stage.release(exchange)
    assert (1, ["contradicted", "supported"]) == (len(judge.asked), labels(exchange))
    assert verdict is not None
    assert "claims_contradicted" == verdict.code


async def test_annotate_leaves_the_answer_alone() -> None:
    exchange = answering(f"{LONDON} {GOLD}")
    before = exchange.answer
    await checked(exchange)
    assert exchange.answer is before


async def test_positions_are_those_of_the_model_s_own_text() -> None:
    text = f"Sure!\n\n- {PARIS}\n- {GOLD}\n"
    exchange = answering(text)
    await checked(exchange, action="redact")
    for judgement in exchange.judgements[0]:
        if judgement.label != "not_checkable":
            assert judgement.claim.text in text[judgement.claim.start : judgement.claim.end]
    assert ["supported", "unsupported"] == [label for label in labels(exchange) if label != "not_checkable"]


# ---- nothing to check ----


async def test_a_chat_without_context_is_no_hallucination() -> None:
    exchange = answering(GOLD, passages=())
    verdict = await checked(exchange, action="block")
    assert ("unchecked", "no context", None) == (verdict.outcome, verdict.detail["reason"], exchange.facts.faithfulness)


async def test_a_long_text_in_the_user_s_message_is_context() -> None:
    article = f"Summarise this: {TOWER} " + "It is visited by many people every year. " * 15
    exchange = answering(f"{PARIS} {GOLD}", passages=(), question=article)
    await checked(exchange)
    assert ["supported", "unsupported"] == labels(exchange)


@pytest.mark.parametrize(
    "text",
    ["I don't know: the context does not say.", "Das steht leider nicht im Kontext.", "Where else should I look?", "", "```\nx = 1\n```"],
)
async def test_what_states_nothing_has_no_faithfulness(text: str) -> None:
    exchange = answering(text)
    verdict = await checked(exchange, action="block")
    assert ("unchecked", None, "nothing to check") == (verdict.outcome, exchange.facts.faithfulness, verdict.detail["reason"])
    assert text == texts_of(exchange)[0]


async def test_without_an_answer_there_is_nothing_to_say() -> None:
    exchange = answering()
    exchange.answer = None
    assert await make_stage().on_answer(exchange) is None


# ---- checks that could not run ----


def failing_ports(counters: CountedNames | None = None) -> Any:
    verifiers = ScriptedVerifiers(judged_by_words)
    verifiers.failure = ModelUnavailable("the verifier has too much to do")
    return ports_with(verifiers, counters=counters or CountedNames())


async def test_a_verifier_that_cannot_run_is_an_error_and_never_a_pass() -> None:
    exchange = answering(PARIS)
    verdict = await checked(exchange, failing_ports(), action="block")
    assert ("error", "claims_unchecked", None) == (verdict.outcome, verdict.code, exchange.facts.faithfulness)
    assert ["error"] == labels(exchange)
    assert "verifier_unavailable" == verdict.detail["reason"]


async def test_a_claim_that_the_verifier_cannot_judge_is_an_error_beside_those_that_failed() -> None:
    exchange = answering(f"{GOLD} The tower is called Klingon House.")
    verdict = await checked(exchange)
    assert ("error", "claims_unchecked") == (verdict.outcome, verdict.code)
    assert ["unsupported", "error"] == labels(exchange)
    assert ["claims_unsupported"] == [v.code for v in exchange.verdicts]


@pytest.mark.parametrize(
    ("text", "outcome", "counts"),
    [
        (PARIS, "pass", {"supported": 1, "contradicted": 0, "unsupported": 0, "unsure": 0}),
        (f"{PARIS} {GOLD}", "unsure", {"supported": 1, "contradicted": 0, "unsupported": 1, "unsure": 0}),
        (f"{PARIS} Is that all?", "pass", {"supported": 1, "contradicted": 0, "unsupported": 0, "unsure": 0}),
        (f"{PARIS}\n\n```\nopen(1889)\n```", "unsure", {"supported": 1, "contradicted": 0, "unsupported": 0, "unsure": 0}),
        ("Is that all?", "unchecked", None),
    ],
)
async def test_a_pass_needs_every_statement_to_hold(text: str, outcome: str, counts: dict[str, int] | None) -> None:
    exchange = answering(text)
    verdict = await checked(exchange, fail_on="contradicted")
    assert (outcome, counts, "statements") == (verdict.outcome, exchange.facts.claims, verdict.scope)


@pytest.mark.parametrize(("share", "outcome"), [(0.6, "unsure"), (0.79, "unsure"), (0.8, "pass"), (0.97, "pass")])
async def test_a_verifier_s_word_must_be_certain_for_a_pass(share: float, outcome: str) -> None:
    exchange = answering("The tower can be visited in the capital of France.")
    verdict = await checked(exchange, ports_with(ScriptedVerifiers(lambda pair: Support(share))))
    assert (outcome, ["supported"], share) == (verdict.outcome, labels(exchange), exchange.facts.faithfulness)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ('{"place": "Paris"}', "pass"),
        ('{"place": "Paris", "metres": 200}', "unsure"),
        ('{"place": "Paris", "open": true}', "unsure"),
        ('{"place": "Paris", "state": "closed"}', "unsure"),
    ],
)
async def test_values_of_json_that_nobody_judges_are_no_pass(answer: str, outcome: str) -> None:
    verifiers = ScriptedVerifiers(lambda pair: Support(0.97))
    exchange = answering(answer, response_format={"type": "json_object"})
    assert outcome == (await checked(exchange, ports_with(verifiers))).outcome


async def test_claims_beyond_the_limit_are_unsure_and_no_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.stages.claims.judging.MAX_JUDGED", 2)
    exchange = answering(f"{PARIS} {TALL} {PARIS}")
    verdict = await checked(exchange)
    assert "unsure" == verdict.outcome
    assert ["supported", "supported", "unsure"] == labels(exchange)
    assert "more than 2 claims" in exchange.judgements[0][2].reason


async def test_the_limit_counts_each_choice_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.stages.claims.judging.MAX_JUDGED", 2)
    exchange = answering(f"{PARIS} {TALL}", f"{PARIS} {TALL}")
    assert "pass" == (await checked(exchange)).outcome


# ---- several choices ----


async def test_every_choice_is_judged_in_one_batch_and_their_figures_are_pooled() -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    exchange = answering(PARIS, LONDON, GOLD)
    verdict = await checked(exchange, ports_with(verifiers))
    assert [["supported"], ["contradicted"], ["unsupported"]] == [labels(exchange, i) for i in range(3)]
    assert pytest.approx((1 + 0 + 0.04) / 3) == exchange.facts.faithfulness
    assert {"0": 1.0, "1": 0.0, "2": 0.04} == verdict.detail["faithfulness"]
    assert [3, 1] == [len({pair.claim for pair in batch}) for batch in verifiers.asked]  # the claims; then one with another value in it


# ---- the record, counters, memory ----


async def test_the_record_is_bounded_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.stages.claims.judging.MAX_JUDGED", 500)
    sentences = [f"The Eiffel Tower has {i} doors painted {'very ' * 200}red." for i in range(100, 100 + MAX_CLAIMS + 20)]
    exchange = answering(" ".join([PARIS] * 30 + sentences))
    detail = (await checked(exchange)).detail
    assert MAX_CLAIMS == len(detail["claims"])
    assert len(exchange.judgements[0]) - MAX_CLAIMS == detail["claims_left_out"]
    assert {"unsupported"} == {claim["label"] for claim in detail["claims"]}
    assert all(len(claim["text"]) <= MAX_CHARS for claim in detail["claims"])


async def test_counters_tell_what_was_found() -> None:
    counters = CountedNames()
    await checked(answering(f"{PARIS} {LONDON} {GOLD}"), ports_with(counters=counters))
    expected = {"checked": 3, "supported": 1, "contradicted": 1, "unsupported": 1}
    assert {f"claims.{name}_count": n for name, n in expected.items()} == counters.counts


async def test_nothing_is_kept_of_an_exchange_that_has_ended() -> None:
    stage, exchange = make_stage(), answering(PARIS)
    await stage.on_forward(exchange)
    await stage.on_answer(exchange)
    stage.release(exchange)
    assert {} == stage._cases


async def test_an_exchange_without_an_answer_is_forgotten_too() -> None:
    stage, exchange = make_stage(), answering(PARIS)
    await stage.on_forward(exchange)
    task = stage._cases[exchange.id]._ground
    stage.release(exchange)
    assert task is not None
    assert task.cancelling()
    assert {} == stage._cases


# ---- what a policy may say ----


def test_every_action_but_annotate_can_change_or_hold_back_an_answer() -> None:
    said = {action: Claims.blocks_answers(ClaimsOptions(action=action)) for action in ("annotate", "redact", "retry", "replace", "block")}
    assert {"annotate": False, "redact": True, "retry": True, "replace": True, "block": True} == said


def test_to_ask_again_needs_the_whole_answer() -> None:
    assert ("action: retry", "") == (Claims.needs_hold(ClaimsOptions(action="retry")), Claims.needs_hold(ClaimsOptions(action="block")))


def test_statements_beyond_the_bound_are_one_that_nobody_judges() -> None:
    statements = read_choice(Choice(0, "The tower is old. " * (MAX_STATEMENTS + 5)), "", json=False)
    kept = bounded(statements)
    assert (MAX_STATEMENTS + 1, "too_many_statements") == (len(kept), kept[-1].claim.reason)
    assert (statements[MAX_STATEMENTS].span[0], statements[-1].span[1]) == kept[-1].span
    assert bounded(statements[:MAX_STATEMENTS]) == statements[:MAX_STATEMENTS]


def test_of_strings_beyond_the_bound_only_the_last_that_states_something_is_read() -> None:
    text = json.dumps(["The tower is old."] * (MAX_STATEMENTS + 5) + [" " * 9])
    statements = read_choice(Choice(0, text), "", json=True)
    kept = bounded(statements)
    assert MAX_STATEMENTS + 2 == len(statements)
    assert (MAX_STATEMENTS + 1, len(text) - 1) == (len(kept), kept[-1].claim.end)


@pytest.mark.cost
@pytest.mark.parametrize("unit", ['{\\"a\\": 1}, ', '"a', '\\"', '"a\\\n', "\\"])
def test_quotation_marks_that_never_close_cost_no_more_than_their_text(unit: str) -> None:
    text = "[" + unit * (400_000 // len(unit))
    with below(1.0):
        has_bare_values(text, json=True)
    with below(8.0):
        bounded(read_choice(Choice(0, text), "", json=True))
