"""The stage `claims` sentence by sentence, as the gate asks it."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.context.faithful_texts import NO_ANSWER
from proxy.errors import ModelUnavailable, Overloaded, PolicyBlocked
from proxy.exchange import Exchange, Sentence
from proxy.exchange.judgements import ClaimPair, Support
from proxy.language.text import split_sentences
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.testing import HashEmbedder, ScriptedVerifiers
from tests.claims import GOLD, LONDON, PARIS, TALL, answering, judged_by_words, labels, make_stage, ports_with
from tests.examples import share


class Gate:
    """One exchange whose sentences leave one by one."""

    def __init__(self, exchange: Exchange | None = None, ports: Ports | None = None, **options: Any) -> None:
        self.stage = make_stage(ports, **options)
        self.pipeline = Pipeline([self.stage])
        self.exchange = exchange or answering()
        self.exchange.gated = True

    async def says(self, *texts: str) -> list[str]:
        """What leaves of each choice."""
        left = []
        for choice, text in enumerate(texts):
            out, offset = [], 0
            cuts = split_sentences(text)
            for i, cut in enumerate(cuts):
                out.append(await self.pipeline.sentence(self.exchange, Sentence(cut, choice, i, offset, i == len(cuts) - 1)))
                offset += len(cut)
            left.append("".join(out))
        self.exchange.answer = answering(*left).answer
        await self.pipeline.answer(self.exchange)
        self.pipeline.release(self.exchange)
        return left

    def codes(self) -> list[tuple[str, str]]:
        return [(verdict.outcome, verdict.code) for verdict in self.exchange.verdicts]


async def test_annotate_lets_every_sentence_go_and_sums_up() -> None:
    gate = Gate()
    assert [f"{PARIS} {LONDON} {TALL}"] == await gate.says(f"{PARIS} {LONDON} {TALL}")
    assert [("warn", "claims_contradicted")] == gate.codes()
    assert ["supported", "contradicted", "supported"] == labels(gate.exchange)


async def test_a_failing_sentence_is_taken_out_before_it_leaves() -> None:
    gate = Gate(action="redact")
    assert [f"{PARIS} {TALL}"] == await gate.says(f"{PARIS} {GOLD} {TALL}")
    assert ("warn", "claims_unsupported") in gate.codes()
    assert round(2 / 3, 4) == round(gate.exchange.facts.faithfulness or 0, 4)


async def test_an_answer_of_which_nothing_would_leave_ends_with_the_no_answer_text() -> None:
    (left,) = await Gate(action="redact").says(f"{GOLD} {LONDON}")
    assert NO_ANSWER["en"] == left.strip()


async def test_replace_ends_the_answer_at_the_first_failing_sentence() -> None:
    gate = Gate(action="replace")
    assert [f"{PARIS} {NO_ANSWER['en']}"] == await gate.says(f"{PARIS} {GOLD} {TALL} {PARIS}")


async def test_block_ends_the_answer_before_the_failing_sentence_leaves() -> None:
    gate = Gate(action="block")
    with pytest.raises(PolicyBlocked) as blocked:
        await gate.says(f"{PARIS} {LONDON}")
    assert "hallucination_detected" == blocked.value.param
    assert ["supported", "contradicted"] == labels(gate.exchange)
    assert "Paris" == gate.exchange.verdicts[-1].detail["claims"][1]["instead"]


async def test_each_choice_goes_its_own_way() -> None:
    gate = Gate(action="replace")
    assert [NO_ANSWER["en"], f"{PARIS} {TALL}"] == await gate.says(f"{GOLD} {TALL}", f"{PARIS} {TALL}")
    assert [["unsupported"], ["supported", "supported"]] == [labels(gate.exchange, i) for i in range(2)]


async def test_a_check_that_cannot_run_lets_the_sentence_go_only_where_the_policy_is_open() -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    verifiers.failure = ModelUnavailable("overloaded")
    gate = Gate(ports=ports_with(verifiers), action="redact")
    assert [PARIS] == await gate.says(PARIS)
    assert [("error", "claims_unchecked")] == gate.codes()
    closed = Gate(ports=ports_with(verifiers), action="redact", on_error="closed")
    with pytest.raises(Overloaded) as refused:
        await closed.says(PARIS)
    assert ("claims_unchecked", (("retry-after", "1"),)) == (refused.value.param, refused.value.headers)


class Stuck(ScriptedVerifiers):
    """Never comes to an end."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.cancelled = asyncio.Event(), False

    async def verify(self, pairs: Any) -> list[Support | None]:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True
        return []


async def test_a_sentence_whose_time_is_over_is_an_error() -> None:
    gate = Gate(ports=ports_with(Stuck()), timeout_ms=50)
    assert [PARIS] == await gate.says(PARIS)
    assert ["error"] == labels(gate.exchange)
    assert ("error", "claims_unchecked") == gate.codes()[-1]


async def test_a_client_that_leaves_stops_the_check() -> None:
    verifiers = Stuck()
    gate = Gate(ports=ports_with(verifiers))
    task = asyncio.create_task(gate.says(PARIS))
    await verifiers.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert verifiers.cancelled
    gate.pipeline.release(gate.exchange)
    assert {} == gate.stage._cases


async def test_json_that_the_request_asks_for_is_not_judged_by_sentences() -> None:
    for params, by_sentence in (
        ({"response_format": {"type": "json_object"}}, False),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, False),
        ({"response_format": {"type": "text"}}, True),
        ({"guided_json": {"type": "object"}}, False),
        ({}, True),
    ):
        gate = Gate(answering(**params))
        assert by_sentence == gate.pipeline.judges_sentences(gate.exchange)


async def test_json_that_nobody_asked_for_leaves_whole_and_is_judged_at_its_end() -> None:
    text = json.dumps({"a": GOLD, "b": PARIS}, indent=1)
    gate = Gate(action="redact")
    assert [text] == await gate.says(text)
    assert ["unsupported", "supported"] == labels(gate.exchange)
    assert [("warn", "json_value_kept"), ("warn", "claims_unsupported")] == gate.codes()
    with pytest.raises(PolicyBlocked):
        await Gate(action="block").says(text)


async def test_the_evidence_is_prepared_once_and_embedded_while_the_model_writes() -> None:
    class Embedder(HashEmbedder):
        bulk_texts: list[str] = []

        async def embed(self, texts: Any, *, bulk: bool = False) -> Any:
            self.bulk_texts += texts if bulk else []
            return await super().embed(texts, bulk=bulk)

    embedder = Embedder()
    passage = " ".join(f"Room {i} of the museum shows {i} vases." for i in range(60))
    gate = Gate(answering(passages=[passage]), ports_with(embedder=embedder))
    await gate.pipeline.forward(gate.exchange)
    checks = gate.stage._cases[gate.exchange.id]
    base = (await checks.ground()).base
    assert checks._warming is not None
    await checks._warming
    assert list(base.sentences) == embedder.bulk_texts
    await gate.pipeline.sentence(gate.exchange, Sentence("Room 7 of the museum shows 7 vases.", 0, 0, 0, True))
    assert (await checks.ground()).base is base
    gate.pipeline.release(gate.exchange)


_TEXTS = st.lists(st.sampled_from([PARIS, TALL, GOLD, LONDON, "Sure!", "I don't know.", "\n\n- ", "Why?"]), min_size=1, max_size=7)


@settings(max_examples=share(0.6))
@given(parts=_TEXTS)
async def test_nothing_that_fails_leaves_and_nothing_that_is_supported_stays(parts: list[str]) -> None:
    (left,) = await Gate(action="redact").says(" ".join(parts))
    for text in (PARIS, TALL):
        assert parts.count(text) == left.count(text)
    assert GOLD not in left
    assert LONDON not in left


@settings(max_examples=share(0.4))
@given(parts=_TEXTS)
async def test_the_gate_finds_what_is_found_in_the_whole_answer(parts: list[str]) -> None:
    text = " ".join(parts)
    gate, whole = Gate(), answering(text)
    await gate.says(text)
    await make_stage().on_answer(whole)
    assert whole.judgements == gate.exchange.judgements


def test_the_script_of_these_tests_tells_what_it_should() -> None:
    assert judged_by_words(ClaimPair(PARIS, PARIS)) == Support(0.96, 0.01)
