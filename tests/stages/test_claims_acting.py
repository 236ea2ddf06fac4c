"""The stage `claims` acts on whole answers: redact, replace, block, retry, and JSON answers that stay JSON."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.context.faithful_texts import NO_ANSWER, no_answer
from proxy.exchange import Answer, Choice, Exchange
from proxy.exchange.judgements import Support
from proxy.stages.claims.acting import correction
from proxy.testing import CountedNames, ScriptedVerifiers
from tests.claims import GOLD, LONDON, PARIS, TALL, TOWER, answering, checked, labels, make_stage, ports_with, texts_of
from tests.examples import share

AS_JSON = {"response_format": {"type": "json_object"}}


async def test_redact_takes_failing_sentences_out_and_leaves_the_rest() -> None:
    exchange = answering(f"{PARIS} {GOLD} {TALL}")
    verdict = await checked(exchange, action="redact")
    assert [f"{PARIS} {TALL}"] == texts_of(exchange)
    assert "warn" == verdict.outcome
    assert [{"stage": "claims", "what": "redact", "choice": 0, "claims": 1}] == exchange.changes


async def test_redact_acts_on_each_choice() -> None:
    exchange = answering(f"{PARIS} {GOLD}", PARIS, f"{LONDON} {TALL}")
    await checked(exchange, action="redact")
    assert [PARIS, PARIS, TALL] == [text.strip() for text in texts_of(exchange)]


async def test_an_answer_of_which_nothing_is_left_becomes_the_no_answer_text() -> None:
    exchange = answering(GOLD)
    await checked(exchange, action="redact")
    assert [NO_ANSWER["en"]] == texts_of(exchange)


@pytest.mark.parametrize(
    ("text", "tongue"),
    [
        ("Der Eiffelturm steht in der Hauptstadt von England und gehört dem König.", "de"),
        ("La torre Eiffel está en la capital de Inglaterra y pertenece al rey.", "es"),
        ("La tour Eiffel se trouve dans la capitale de l'Angleterre et appartient au roi.", "fr"),
    ],
)
async def test_replace_answers_in_the_answer_s_language(text: str, tongue: str) -> None:
    exchange = answering(text)
    await checked(exchange, action="replace")
    assert [NO_ANSWER[tongue]] == texts_of(exchange)


async def test_the_policy_has_its_own_words() -> None:
    exchange = answering(GOLD)
    await checked(exchange, action="replace", replacement="Ask a colleague.")
    assert ["Ask a colleague."] == texts_of(exchange)
    assert "Fragen Sie." == no_answer({"de": "Fragen Sie."}, "", "Wo steht der Eiffelturm in Paris?")


async def test_replace_leaves_good_choices_alone() -> None:
    exchange = answering(PARIS, GOLD)
    await checked(exchange, action="replace")
    assert [PARIS, NO_ANSWER["en"]] == texts_of(exchange)


async def test_block_says_what_is_wrong_and_what_the_context_says() -> None:
    verdict = await checked(answering(LONDON), action="block")
    assert ("block", "hallucination_detected") == (verdict.outcome, verdict.code)
    assert "London" in verdict.message
    assert "Paris" in verdict.message
    assert "Paris" == verdict.detail["claims"][0]["instead"]


@pytest.mark.parametrize(("action", "outcome"), [("block", "block"), ("replace", "warn"), ("redact", "warn"), ("annotate", "warn")])
async def test_an_answer_of_which_nobody_is_sure_fails_where_the_policy_says_so(action: str, outcome: str) -> None:
    ports = ports_with(ScriptedVerifiers(lambda pair: Support(0.35, 0.1)))
    exchange = answering(GOLD)
    verdict = await checked(exchange, ports, action=action, fail_on="unsure")
    assert (outcome, ["unsure"]) == (verdict.outcome, labels(exchange))
    assert (action in ("replace", "redact")) == (texts_of(exchange) == [NO_ANSWER["en"]])


async def test_one_that_nothing_supports_fails_where_the_policy_says_so() -> None:
    ports = ports_with(ScriptedVerifiers(lambda pair: Support(0.05, 0.1)))
    assert "block" == (await checked(answering(GOLD), ports, action="block", fail_on="unsupported")).outcome
    assert "unsure" == (await checked(answering(GOLD), ports, action="block", fail_on="contradicted")).outcome


async def test_one_bad_choice_blocks_the_answer() -> None:
    assert "block" == (await checked(answering(PARIS, PARIS, GOLD), action="block")).outcome


# ---- JSON ----


async def test_json_is_judged_by_its_strings_and_redacted_inside_them() -> None:
    text = json.dumps({"summary": f"{PARIS} {GOLD}", "n": [1, None], "city": "Paris"}, indent=1)
    exchange = answering(text, **AS_JSON)
    verdict = await checked(exchange, action="redact")
    assert {"summary": PARIS, "n": [1, None], "city": "Paris"} == json.loads(texts_of(exchange)[0])
    assert "warn" == verdict.outcome
    claim = exchange.judgements[0][1].claim
    assert GOLD in text[claim.start : claim.end]


async def test_a_short_json_value_is_judged_with_its_key_and_never_edited() -> None:
    text = json.dumps({"city": "Atlantis", "summary": PARIS})
    exchange = answering(text, **AS_JSON)
    await checked(exchange, action="redact")
    assert [text] == texts_of(exchange)
    assert ["city: Atlantis", PARIS] == [judgement.claim.text for judgement in exchange.judgements[0]]
    assert ["json_value_kept"] == [verdict.code for verdict in exchange.verdicts]


async def test_fixed_values_in_json_are_no_claims() -> None:
    exchange = answering('{"mood": "positive", "state": "IN_PROGRESS", "link": "https://example.com/a", "id": ""}', **AS_JSON)
    assert "unchecked" == (await checked(exchange, action="block")).outcome
    assert ["not_checkable"] * 4 == labels(exchange)


async def test_replace_keeps_json_well_formed() -> None:
    exchange = answering(json.dumps({"summary": GOLD, "city": "Paris"}), **AS_JSON)
    await checked(exchange, action="replace")
    assert {"summary": NO_ANSWER["en"], "city": "Paris"} == json.loads(texts_of(exchange)[0])


async def test_json_that_nobody_asked_for_stays_json_too() -> None:
    exchange = answering(json.dumps([{"text": f"{GOLD} {PARIS}"}]))
    await checked(exchange, action="redact")
    assert [{"text": PARIS}] == json.loads(texts_of(exchange)[0])


async def test_json_in_a_fence_is_json_where_json_was_asked_for() -> None:
    text = "```json\n" + json.dumps({"a": f"{PARIS} {GOLD}"}) + "\n```\n"
    exchange = answering(text, **AS_JSON)
    await checked(exchange, action="redact")
    assert ["```json\n" + json.dumps({"a": PARIS}) + "\n```\n"] == texts_of(exchange)
    claim = exchange.judgements[0][1].claim
    assert GOLD in text[claim.start : claim.end]


async def test_what_only_looks_like_json_is_a_text() -> None:
    exchange = answering(f"{{not json}} {GOLD}", **AS_JSON)
    await checked(exchange)
    assert "unsupported" in labels(exchange)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([PARIS, GOLD, f"{GOLD} {TALL}\n\n{LONDON}", "London", "ok", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "é b", 'q"', "n\n"]), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=share(0.6))
@given(
    value=st.lists(_VALUES, max_size=3) | st.dictionaries(st.text(max_size=3), _VALUES, max_size=3),
    action=st.sampled_from(["redact", "replace"]),
)
async def test_no_action_makes_json_invalid(value: Any, action: str) -> None:
    exchange = answering(json.dumps(value, ensure_ascii=False), **AS_JSON)
    await checked(exchange, action=action)

    def shape(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: shape(inner) for key, inner in item.items()}
        return [shape(inner) for inner in item] if isinstance(item, list) else "text" if isinstance(item, str) else item

    assert shape(value) == shape(json.loads(texts_of(exchange)[0]))
    assert GOLD not in texts_of(exchange)[0]


# ---- retry ----


def attempted(exchange: Exchange, text: str, *, can_retry: bool = True) -> Exchange:
    """The exchange with one more answer, as the delivery presents it."""
    answer = Answer((Choice(0, text, finish_reason="stop"),), "gpt-4o")
    exchange.attempts.present(exchange, answer, 1.0)
    exchange.attempts.possible, exchange.retry = can_retry, None
    return exchange


async def test_retry_asks_again_with_the_failed_claims_and_their_evidence() -> None:
    counters = CountedNames()
    exchange = attempted(answering(), f"{TALL} {LONDON}")
    await checked(exchange, ports_with(counters=counters), action="retry")
    assert exchange.retry is not None
    *before, said, wish = exchange.retry
    assert list(exchange.messages) == before
    assert {"role": "assistant", "content": f"{TALL} {LONDON}"} == said
    assert json.dumps(LONDON) in wish["content"]
    assert "stands in Paris" in wish["content"]
    assert TALL not in wish["content"]
    assert 1 == counters.counts["claims.retried_count"]


async def test_retry_gives_the_model_its_thoughts_back() -> None:
    exchange = answering()
    choice = Choice(0, LONDON, reasoning="Hm.", finish_reason="stop", reasoning_field="reasoning_content")
    exchange.attempts.present(exchange, Answer((choice,), "gpt-4o"), 1.0)
    exchange.attempts.possible = True
    await checked(exchange, action="retry")
    assert exchange.retry is not None
    assert {"role": "assistant", "content": LONDON, "reasoning_content": "Hm."} == exchange.retry[-2]


async def test_a_good_answer_is_not_asked_for_again() -> None:
    exchange = attempted(answering(), PARIS)
    assert "pass" == (await checked(exchange, action="retry")).outcome
    assert exchange.retry is None


async def test_the_second_answer_stands_where_it_is_good() -> None:
    stage, exchange = make_stage(action="retry"), attempted(answering(), LONDON)
    await stage.on_answer(exchange)
    verdict = await stage.on_answer(attempted(exchange, PARIS))
    assert verdict is not None
    assert ("pass", None, 1.0) == (verdict.outcome, exchange.deliver, exchange.facts.faithfulness)


async def test_the_better_answer_wins() -> None:
    stage, exchange = make_stage(action="retry"), attempted(answering(), f"{PARIS} {GOLD}")
    await stage.on_answer(exchange)
    verdict = await stage.on_answer(attempted(exchange, LONDON))
    assert verdict is not None
    assert (None, 0, 0.52) == (exchange.retry, exchange.deliver, exchange.facts.faithfulness)
    assert ("warn", "claims_unsupported") == (verdict.outcome, verdict.code)
    assert ["supported", "unsupported"] == labels(exchange)


async def test_an_empty_answer_is_no_better() -> None:
    stage, exchange = make_stage(action="retry"), attempted(answering(), f"{PARIS} {GOLD}")
    await stage.on_answer(exchange)
    await stage.on_answer(attempted(exchange, ""))
    assert 0 == exchange.deliver


async def test_an_admission_is_better_than_an_invention() -> None:
    stage, exchange = make_stage(action="retry"), attempted(answering(), f"{PARIS} {GOLD}")
    await stage.on_answer(exchange)
    await stage.on_answer(attempted(exchange, "I don't know: the context does not say."))
    assert exchange.deliver is None


async def test_tries_are_bounded_and_start_from_the_first_request() -> None:
    stage, exchange = make_stage(action="retry", retries=2), attempted(answering(), GOLD)
    asked = []
    for text in (LONDON, f"{GOLD} {LONDON}"):
        await stage.on_answer(exchange)
        assert exchange.retry is not None
        asked.append(exchange.retry)
        exchange.messages = exchange.retry
        attempted(exchange, text)
    await stage.on_answer(exchange)
    assert exchange.retry is None
    assert [3, 3] == [len(messages) for messages in asked]


async def test_where_no_other_answer_can_be_had_it_decides() -> None:
    exchange = attempted(answering(), GOLD, can_retry=False)
    verdict = await checked(exchange, action="retry")
    assert (None, "warn") == (exchange.retry, verdict.outcome)


def test_what_is_asked_is_in_the_answer_s_language_and_quotes_what_it_quotes() -> None:
    exchange_claims = correction("Der Eiffelturm steht in London, der Hauptstadt von England.", [])
    assert exchange_claims.startswith("Deine letzte Antwort")
    assert TOWER not in exchange_claims
