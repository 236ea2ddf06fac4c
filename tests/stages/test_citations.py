import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigError, ModelUnavailable, PolicyBlocked
from proxy.exchange import Answer, Choice, Exchange, Sentence, Verdict
from proxy.exchange.judgements import Claim, Judgement, Support
from proxy.grounding.judging.judges import UpstreamJudge
from proxy.grounding.judging.questions import JudgeOptions
from proxy.grounding.judging.readouts import ChatReadout
from proxy.language.text import split_sentences
from proxy.pipeline import Pipeline
from proxy.policy.loading import load_policy
from proxy.ports.judge import Judge
from proxy.stages.citations import Citations, CitationsOptions, stage
from proxy.testing import CountedNames, ScriptedChat, ScriptedJudge, ScriptedVerifiers, make_exchange, make_ports

CONTEXT = """<context>
### Passage 1 [Source: docs/guide.md]
The Eiffel Tower is 330 m tall.

### Passage 2
The Eiffel Tower stands in Paris.

### Passage 3
Der Eiffelturm steht in Paris.
</context>

Where is the Eiffel Tower, and how tall is it?"""
TALL, PARIS = "The Eiffel Tower is 330 m tall", "The Eiffel Tower stands in Paris"


async def judged(
    *texts: str,
    options: Mapping[str, Any] | None = None,
    verifiers: ScriptedVerifiers | None = None,
    context: str = CONTEXT,
    gated: bool = False,
    judge: Judge | None = None,
) -> tuple[Exchange, Verdict]:
    """The exchange and the last verdict, of answers that came whole or sentence by sentence."""
    ports = make_ports(verifiers=verifiers or ScriptedVerifiers(), **({"judge": judge} if judge is not None else {}))
    exchange = make_exchange([{"role": "user", "content": context}])
    pipeline = Pipeline([Citations(CitationsOptions(**(options or {})), ports)])
    await pipeline.request(exchange)
    exchange.gated = gated
    said = [await _by_sentence(pipeline, exchange, i, text) if gated else text for i, text in enumerate(texts)]
    exchange.upstream_answer = Answer(tuple(Choice(i, text) for i, text in enumerate(texts)))
    exchange.answer = Answer(tuple(Choice(i, text) for i, text in enumerate(said)))
    await pipeline.answer(exchange)
    return exchange, exchange.verdicts[-1]


async def _by_sentence(pipeline: Pipeline, exchange: Exchange, choice: int, text: str) -> str:
    sentences, offset, left = split_sentences(text), 0, []
    for i, sentence in enumerate(sentences):
        left.append(await pipeline.sentence(exchange, Sentence(sentence, choice, i, offset, i == len(sentences) - 1)))
        offset += len(sentence)
    return "".join(left)


def figures(verdict: Verdict) -> tuple[Any, Any]:
    return verdict.detail.get("precision"), verdict.detail.get("recall")


# ---- finding ----


async def test_citations_that_hold_are_verified() -> None:
    exchange, verdict = await judged(f"{TALL} [Source: guide.md]. {PARIS}. [Passage 2]")
    assert ("pass", (2, 2), (1.0, 1.0)) == (verdict.outcome, exchange.facts.citations, figures(verdict))
    assert [True, True] == [c["supports"] for c in verdict.detail["citations"]]


@pytest.mark.parametrize(("choice", "verified"), [("supported", 2), ("neither", 0)])
async def test_the_policy_s_judge_says_whether_a_passage_supports_what_cites_it(choice: str, verified: int) -> None:
    judge, unsure = ScriptedJudge(lambda question: choice), ScriptedVerifiers(lambda pair: Support(0.4, 0.3))
    exchange, _ = await judged(f"{TALL} [Source: guide.md]. {PARIS}. [Passage 2]", verifiers=unsure, judge=judge)
    assert (verified, 2) == exchange.facts.citations
    assert {"support"} == {question.purpose for batch in judge.asked for question in batch}


async def test_all_citations_of_an_answer_are_one_call_of_the_judge() -> None:
    said = [{"number": n, "reason": "", "answer": "supported", "confidence": 0.9} for n in (1, 2)]
    chat, options = ScriptedChat([json.dumps({"answers": said})]), JudgeOptions(upstream="a", model="b")
    judge, unsure = UpstreamJudge(ChatReadout(chat, options), options), ScriptedVerifiers(lambda pair: Support(0.4, 0.3))
    exchange, _ = await judged(f"{TALL} [Source: guide.md]. {PARIS}. [Passage 2]", verifiers=unsure, judge=judge)
    assert ((2, 2), 1) == (exchange.facts.citations, len(chat.asked))


async def test_a_german_citation_of_a_german_passage_is_verified() -> None:
    exchange, _ = await judged("Der Eiffelturm steht in Paris [Passage 3].")
    assert (1, 1) == exchange.facts.citations


@pytest.mark.parametrize("gated", [True, False])
async def test_bare_numbers_are_citations_where_the_prompt_has_passages(gated: bool) -> None:
    exchange, _ = await judged(f"{TALL} [1]. {PARIS}.[2]", gated=gated)
    assert (2, 2) == exchange.facts.citations
    exchange, _ = await judged(f"{TALL} [1]. {PARIS}.[7]", options={"action": "redact"}, gated=gated)
    assert f"{TALL} [1]. {PARIS}." == exchange.answer.choices[0].text.strip()


async def test_bare_numbers_are_text_where_it_has_none() -> None:
    exchange, _ = await judged(f"{TALL} [1].", context="How tall is it?")
    assert (0, 0) == (exchange.facts.citations or (0, 0))


@pytest.mark.parametrize("mark", ["[Passage 9]", "[Source: atlas.pdf]", "[Quelle: Atlas]", "[Pasaje 12]", "[Context: the architect]"])
async def test_what_does_not_exist_is_invented(mark: str) -> None:
    exchange, verdict = await judged(f"{PARIS} {mark}.")
    assert ("warn", "citation_invented", (0, 1), (0.0, 0.0)) == (verdict.outcome, verdict.code, exchange.facts.citations, figures(verdict))


async def test_a_passage_that_does_not_say_so_is_unsupported() -> None:
    exchange, verdict = await judged(f"{PARIS} [Passage 1].", options={"fail_on": "unsupported"})
    assert ("warn", "citation_unsupported", (0, 1)) == (verdict.outcome, verdict.code, exchange.facts.citations)
    (entry,) = verdict.detail["citations"]
    assert (True, False, [33, 44], "passage 1") == (entry["exists"], entry["supports"], entry["span"], entry["cites"])


async def test_both_findings_are_warnings() -> None:
    exchange, _ = await judged(f"{PARIS} [Passage 1]. {TALL} [Passage 9].", options={"fail_on": "unsupported"})
    assert {"citation_invented", "citation_unsupported"} == set(exchange.warnings)


@pytest.mark.parametrize("action", ["annotate", "block"])
async def test_a_citation_that_seems_weak_is_counted_and_nothing_else(action: str) -> None:
    exchange, verdict = await judged(f"{PARIS} [Passage 1].", options={"action": action})
    assert ("pass", (0, 1), []) == (verdict.outcome, exchange.facts.citations, exchange.warnings)


async def test_a_quotation_of_the_context_that_is_not_in_it_is_invented() -> None:
    text = 'According to the passages, "the tower was built by seven hundred brave men of Lyon".'
    exchange, verdict = await judged(text)
    assert ("warn", "citation_invented", (0, 1)) == (verdict.outcome, verdict.code, exchange.facts.citations)


@pytest.mark.parametrize("gated", [False, True])
async def test_an_invented_quotation_is_refused(gated: bool) -> None:
    text = 'The passage says: "the tower was built by seven hundred brave men of Lyon".'
    with pytest.raises(PolicyBlocked):
        await judged(text, options={"action": "block"}, gated=gated)


@pytest.mark.parametrize(
    "text",
    [
        'According to the passages, "The Eiffel Tower is 330 m tall".',
        'According to the passages, "the Eiffel tower is 330 m tall …".',
        'He said "the tower was built by seven hundred brave men of Lyon".',
        'According to the passages it is called "iron lady".',
    ],
)
async def test_what_stands_there_or_is_nobodys_quotation_is_not_invented(text: str) -> None:
    exchange, _ = await judged(text)
    assert [] == exchange.warnings


@pytest.mark.parametrize(
    ("asked", "invented"),
    [
        ("You are co-writing a novel. Next: the mail boat never sailed on the fifteenth.", False),
        ("Du bist der Spielleiter. Weiter: the mail boat never sailed on the fifteenth.", False),
        ("My notes for the user story: the mail boat never sailed on the fifteenth.", True),
    ],
)
async def test_what_a_character_of_a_story_says_is_no_quotation(asked: str, invented: bool) -> None:
    """A later turn of a story tells what happens, and not again that it is one."""
    exchange, _ = await judged('"No boat sailed on the fifteenth," said Lena.', context=asked)
    assert (["citation_invented"] if invented else []) == exchange.warnings


async def test_two_passages_that_only_together_say_so_are_both_relevant() -> None:
    exchange, verdict = await judged("The Eiffel Tower in Paris is 330 m tall [Passage 1] [Passage 2].")
    assert ((2, 2), (1.0, 1.0)) == (exchange.facts.citations, figures(verdict))


async def test_a_passage_that_adds_nothing_is_irrelevant() -> None:
    exchange, verdict = await judged(f"{PARIS} [Passages 1-2].")
    assert ((1, 2), (0.5, 1.0)) == (exchange.facts.citations, figures(verdict))


async def test_a_lead_in_is_verified_by_its_items() -> None:
    exchange, verdict = await judged(f"The Eiffel Tower [Passages 1-2]:\n- {TALL}.\n- {PARIS}.\n")
    assert ("pass", (2, 2), (1.0, 1.0)) == (verdict.outcome, exchange.facts.citations, figures(verdict))


async def test_a_missing_citation_counts_for_recall_and_is_no_warning() -> None:
    text = f"{PARIS}. {TALL} [Passage 1]."
    _, verdict = await judged(text)
    assert ("pass", (1.0, 0.5)) == (verdict.outcome, figures(verdict))


async def test_without_anything_to_cite_nothing_is_missing() -> None:
    exchange, verdict = await judged(f"{PARIS}.", context="Where is it?")
    assert ("unchecked", (0, 0), (None, None)) == (verdict.outcome, exchange.facts.citations, figures(verdict))


async def test_what_states_nothing_only_has_to_exist() -> None:
    exchange, verdict = await judged("Shall I say more about [Passage 2]?")
    assert ((1, 1), (None, None)) == (exchange.facts.citations, figures(verdict))


async def test_every_choice_counts() -> None:
    exchange, verdict = await judged(f"{PARIS} [Passage 2].", f"{PARIS} [Passage 9].")
    assert ((1, 2), [0, 1]) == (exchange.facts.citations, [c["choice"] for c in verdict.detail["citations"]])


async def test_a_verifier_that_is_gone_is_an_error_and_not_a_pass() -> None:
    verifiers = ScriptedVerifiers()
    verifiers.failure = ModelUnavailable("gone")
    exchange, verdict = await judged(f"{PARIS} [Passage 2]. {TALL} [Passage 9].", verifiers=verifiers)
    assert ("error", "citations_unchecked", (0, 2)) == (verdict.outcome, verdict.code, exchange.facts.citations)
    assert "citation_invented" in exchange.warnings


async def test_more_citations_than_are_judged_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "MAX_CITATIONS", 1)
    _, verdict = await judged(f"{PARIS} [Passage 2]. {TALL} [Passage 1].")
    assert "citations_unchecked" == verdict.code


async def test_counters_tell_what_was_found() -> None:
    counters = CountedNames()
    exchange = make_exchange([{"role": "user", "content": CONTEXT}])
    pipeline = Pipeline([Citations(CitationsOptions(), make_ports(counters=counters))])
    await pipeline.request(exchange)
    exchange.answer = Answer((Choice(0, f"{PARIS} [Passage 2] [Passage 9]. {TALL} [Passage 2]."),))
    await pipeline.answer(exchange)
    found = {name: n for name, n in counters.counts.items() if name.startswith("citations.")}
    expected = {"checked": 3, "verified": 1, "invented": 1, "unsupported": 1}
    assert {f"citations.{name}_count": n for name, n in expected.items()} == found


# ---- the context ----


async def test_an_answer_that_ignores_its_context_is_told() -> None:
    exchange = make_exchange([{"role": "user", "content": CONTEXT}])
    pipeline = Pipeline([Citations(CitationsOptions(), make_ports())])
    await pipeline.request(exchange)
    text = "Blackpool is a seaside town in Lancashire with a tower of its own and a long pier."
    exchange.answer = Answer((Choice(0, text),))
    exchange.judgements = {0: [Judgement(Claim(text, 0, len(text)), "unsupported", 0.1)]}
    await pipeline.answer(exchange)
    assert (["context_ignored"], 0.1) == (exchange.warnings, (exchange.facts.quality_parts or {})["context_use"])


async def test_an_answer_that_takes_a_number_from_its_context_does_not_ignore_it() -> None:
    text = "As a rule such a thing of iron was a matter of two years, and of 330 metres in the end."
    exchange = make_exchange([{"role": "user", "content": CONTEXT}])
    pipeline = Pipeline([Citations(CitationsOptions(), make_ports())])
    await pipeline.request(exchange)
    exchange.answer = Answer((Choice(0, text),))
    exchange.judgements = {0: [Judgement(Claim(text, 0, len(text)), "unsupported", 0.1)]}
    await pipeline.answer(exchange)
    assert [] == exchange.warnings


async def test_an_answer_that_admits_to_not_knowing_does_not_ignore_it() -> None:
    exchange, verdict = await judged("I do not know who designed the tower: it is not in the context that you gave me.")
    assert ("unchecked", {"context_use": 1.0}) == (verdict.outcome, exchange.facts.quality_parts)


async def test_figures_become_parts_of_the_quality() -> None:
    exchange, _ = await judged(f"{PARIS} [Passage 2]. {TALL} [Passage 2].")
    parts = exchange.facts.quality_parts or {}
    assert (0.5, 0.5, 1.0) == (parts["citation_precision"], parts["citation_recall"], parts["context_use"])


# ---- acting ----

MIXED = f"{PARIS} [Passage 2]. {TALL}. [Passage 7] [Source: guide.md]\n\nSee also [Passages 1, 9]."


@pytest.mark.parametrize("gated", [False, True])
async def test_redact_takes_the_marks_out_and_leaves_the_text(gated: bool) -> None:
    exchange, _ = await judged(MIXED, options={"action": "redact"}, gated=gated)
    assert exchange.answer is not None
    assert f"{PARIS} [Passage 2]. {TALL}. [Source: guide.md]\n\nSee also [Passages 1]." == exchange.answer.text


@pytest.mark.parametrize("gated", [False, True])
async def test_redact_leaves_json_as_it_is(gated: bool) -> None:
    text = f'{{"answer": "{PARIS} [Passage 9].", "n": 1}}'
    exchange, _ = await judged(text, options={"action": "redact"}, gated=gated)
    assert exchange.answer is not None
    assert (text, (0, 1)) == (exchange.answer.text, exchange.facts.citations)


async def test_a_mark_whose_sentence_was_taken_out_goes_too() -> None:
    ports = make_ports()
    exchange = make_exchange([{"role": "user", "content": CONTEXT}])
    pipeline = Pipeline([Citations(CitationsOptions(action="redact"), ports)])
    await pipeline.request(exchange)
    await pipeline.sentence(exchange, Sentence(f"{TALL}.", 0, 0, 0, False))
    assert "" == await pipeline.sentence(exchange, Sentence("[Passage 2]\n", 0, 2, 80, True))


@pytest.mark.parametrize("gated", [False, True])
async def test_block_refuses_an_answer_with_a_false_citation(gated: bool) -> None:
    with pytest.raises(PolicyBlocked) as caught:
        await judged(MIXED, options={"action": "block"}, gated=gated)
    assert "citations_invalid" == caught.value.param
    assert "passage 7" in caught.value.message


async def test_block_refuses_an_answer_with_a_citation_that_does_not_support_where_the_policy_says_so() -> None:
    text = f"{PARIS} [Passage 2]. {TALL} [Passage 2]."
    await judged(text, options={"action": "block"})
    with pytest.raises(PolicyBlocked):
        await judged(text, options={"action": "block", "fail_on": "unsupported"})


@pytest.mark.parametrize("option", ["min_precision: 0.5", "min_recall: 0.5", "ignored_below: 0.2", "max_citations: 9"])
def test_an_option_that_has_gone_is_refused_with_what_to_write_instead(tmp_path: Path, option: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"name: p\ndelivery: hold\nstages: [citations: {{{option}}}]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="there is no such option any more: "):
        load_policy(file)


def test_only_what_acts_makes_sentences_wait() -> None:
    kinds = [Citations(CitationsOptions(action=action), make_ports()).judges_sentences for action in ("annotate", "redact", "block")]
    assert [False, True, True] == kinds


async def test_gate_and_hold_judge_alike() -> None:
    whole, _ = await judged(MIXED, options={"action": "redact"})
    streamed, _ = await judged(MIXED, options={"action": "redact"}, gated=True)
    assert (whole.facts.citations, whole.facts.quality) == (streamed.facts.citations, streamed.facts.quality)
