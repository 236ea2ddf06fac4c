"""The stage `knowledge`: what it brings into an exchange, and what the stages behind it make of that."""

from pathlib import Path
from typing import Any

import pytest

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.errors import ConfigError, ModelUnavailable
from proxy.exchange import Answer, Choice, Exchange
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.evidence.gathering import question_of
from proxy.grounding.knowledge.reading import make_fact
from proxy.models.knowledge.building import build
from proxy.policy.loading import load_policy
from proxy.stages.claims import Claims, ClaimsOptions
from proxy.stages.knowledge import Knowledge, KnowledgeOptions
from proxy.testing import HashEmbedder, MemoryKnowledge, ScriptedVerifiers, completion, make_exchange, make_ports, reply
from tests.conftest import Start
from tests.processes import write_config

OSLO = make_fact("Norway", "The capital of Norway is Oslo.", "capitals.csv")
ATOMIUM = make_fact("Atomium", "The Atomium is 102 metres tall.", "heights.csv", 0.0)
QUESTION = "What is the capital of Norway?"
BERGEN = "The capital of Norway is Bergen."


def judged(pair: ClaimPair) -> Support:
    """Supported where the evidence says the very words; contradicted where it says Oslo and the claim Bergen."""
    if pair.claim.rstrip(".").casefold() in pair.evidence.casefold():
        return Support(0.95, 0.01)
    return Support(0.02, 0.96) if "Bergen" in pair.claim and "Oslo" in pair.evidence else Support(0.05, 0.05)


def stage(base: MemoryKnowledge, **options: Any) -> Knowledge:
    return Knowledge(KnowledgeOptions(**options), make_ports(knowledge=base, verifiers=ScriptedVerifiers(judged)))


def asking(text: str = QUESTION) -> Exchange:
    return make_exchange([{"role": "user", "content": text}])


async def test_facts_that_bear_on_the_question_become_evidence() -> None:
    exchange = asking()
    verdict = await stage(MemoryKnowledge(OSLO, ATOMIUM)).on_request(exchange)
    (evidence,) = exchange.evidence
    assert (OSLO.text, "capitals.csv", "knowledge", {"fact_id": OSLO.id}) == (
        evidence.content,
        evidence.source,
        evidence.kind,
        evidence.fields,
    )
    assert verdict is not None
    assert ("unchecked", "memory@1", [OSLO.id]) == (
        verdict.outcome,
        verdict.detail["version"],
        [fact["id"] for fact in verdict.detail["facts"]],
    )


async def test_nothing_is_put_into_the_prompt() -> None:
    exchange = asking()
    before = list(exchange.messages)
    await stage(MemoryKnowledge(OSLO)).on_request(exchange)
    assert (before, ()) == (list(exchange.messages), exchange.passages)


async def test_facts_of_little_score_or_of_another_time_are_no_evidence() -> None:
    over = make_fact("Norway", "The capital of Norway is Christiania.", "old.csv", None, 1.0)
    exchange = asking("Is the Atomium taller than a house in Norway or in the capital of Sweden?")
    await stage(MemoryKnowledge(OSLO, ATOMIUM, over), min_score=0.6).on_request(exchange)
    assert () == exchange.evidence


async def test_running_it_twice_adds_nothing_more() -> None:
    exchange = asking()
    knowledge = stage(MemoryKnowledge(OSLO))
    await knowledge.on_request(exchange)
    once = exchange.evidence
    await knowledge.on_request(exchange)
    assert once == exchange.evidence


async def test_a_question_that_repeats_a_fact_is_still_the_question() -> None:
    exchange = asking(OSLO.text)
    await stage(MemoryKnowledge(OSLO)).on_request(exchange)
    assert OSLO.text == question_of(exchange)


async def test_a_knowledge_base_that_fails_leaves_every_claim_an_error() -> None:
    base = MemoryKnowledge(OSLO)
    base.failure = ModelUnavailable("not loaded")
    exchange = asking()
    with pytest.raises(ModelUnavailable):
        await stage(base).on_request(exchange)
    assert exchange.knowledge is not None
    assert ["ERROR"] == [verdict.status for verdict in await exchange.knowledge.verify_many([OSLO.text])]


# ---- the stage claims behind it ----


async def answered(
    text: str, *facts: Any, passages: str = "", question: str = "Hello", script: Any = judged, **options: Any
) -> list[tuple[str, str]]:
    """The label and verifier of each claim of an answer."""
    ports = make_ports(knowledge=MemoryKnowledge(*facts), verifiers=ScriptedVerifiers(script))
    content = f"<context>\n{passages}\n</context>\n{question}" if passages else question
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if passages:
        call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
        messages = [
            {"role": "user", "content": question},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": passages},
        ]
    exchange = make_exchange(messages)
    await Knowledge(KnowledgeOptions(), ports).on_request(exchange)
    exchange.answer = exchange.upstream_answer = Answer((Choice(0, text, finish_reason="stop"),))
    claims = Claims(ClaimsOptions(embed=False, **options), ports)
    await claims.on_answer(exchange)
    claims.release(exchange)
    return [(judgement.label, judgement.verifier.partition("@")[0]) for judgement in exchange.judgements.get(0, [])]


async def test_a_claim_finds_its_own_facts_whatever_the_question_was() -> None:
    assert [("supported", "knowledge"), ("contradicted", "knowledge")] == await answered(f"{ATOMIUM.text} {BERGEN}", OSLO, ATOMIUM)


async def test_without_context_what_the_knowledge_base_does_not_know_is_not_checkable() -> None:
    assert [("supported", "knowledge"), ("not_checkable", "")] == await answered(f"{OSLO.text} Tea grows in Assam.", OSLO)


async def test_with_context_it_is_the_contexts_to_judge() -> None:
    found = await answered("Tea grows in Assam. Coffee grows in Kerala.", OSLO, passages="Tea grows in Assam. It rains there.")
    assert [("supported", "scripted"), ("unsupported", "scripted")] == found


async def test_a_fact_holds_against_a_context_that_says_otherwise() -> None:
    assert [("contradicted", "knowledge")] == await answered(BERGEN, OSLO, passages=BERGEN)


async def test_a_claim_that_only_a_fact_supports_is_supported_beside_a_context() -> None:
    assert [("supported", "knowledge")] == await answered(OSLO.text, OSLO, passages="Tea grows in Assam.")


async def test_a_doubt_of_the_knowledge_base_does_not_take_the_contexts_support_away() -> None:
    claim = "An Atomium is 90 metres tall."
    assert [("supported", "scripted")] == await answered(claim, ATOMIUM, passages=claim)
    assert [("unsupported", "knowledge")] == await answered(claim, ATOMIUM, passages="Tea grows in Assam.")


async def test_redaction_takes_out_what_a_fact_contradicts() -> None:
    ports = make_ports(knowledge=MemoryKnowledge(OSLO), verifiers=ScriptedVerifiers(judged))
    exchange = asking()
    await Knowledge(KnowledgeOptions(), ports).on_request(exchange)
    exchange.answer = exchange.upstream_answer = Answer((Choice(0, f"Tea grows in Assam. {BERGEN}", finish_reason="stop"),))
    await Claims(ClaimsOptions(embed=False, action="redact"), ports).on_answer(exchange)
    assert "Tea grows in Assam." == exchange.answer.text.strip()


# ---- in a policy ----


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("{folder: ''}", "stages[0].knowledge.folder"),
        ("{top_k: 0}", "stages[0].knowledge.top_k"),
        ("{fodler: x}", "did you mean 'folder'?"),
    ],
)
def test_options_are_checked_with_their_path(tmp_path: Path, options: str, said: str) -> None:
    (tmp_path / "p.yaml").write_text(f"name: p\nstages: [knowledge: {options}]\n")
    with pytest.raises(ConfigError) as refused:
        load_policy(tmp_path / "p.yaml")
    assert said in str(refused.value)


async def test_a_missing_folder_is_refused_with_file_path_and_folder(start: Start, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        async with start(policy="name: p\nstages: [knowledge: {folder: nowhere}]\n"):
            pass
    assert f"{tmp_path}/policy.yaml: stages.knowledge.folder: no such folder: {tmp_path}/nowhere" == str(refused.value)


async def test_another_embedders_index_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "a.csv").write_text("statement\nWater is wet.\n")
    await build(tmp_path / "facts", HashEmbedder())
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    (tmp_path / "policy.yaml").write_text("name: p\nstages: [knowledge: {folder: facts}]\n")
    app = App(load_settings(config, {}))
    with pytest.raises(ConfigError, match="was built with the embedding model hash-64"):
        await app.start()


@pytest.mark.slow
async def test_an_answer_is_checked_against_the_folder_and_a_change_of_it_is_taken_over(start: Start, tmp_path: Path) -> None:
    """Built-in embedder and verifier."""
    facts = tmp_path / "facts" / "capitals.csv"
    facts.parent.mkdir()
    facts.write_text("subject,statement,source\nNorway,The capital of Norway is Oslo.,atlas\n")
    policy = "name: p\ndelivery: hold\nstages: [knowledge: {folder: facts, timeout_ms: 60000}, claims: {timeout_ms: 60000}]\n"
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}]}
    async with start(reply(completion(BERGEN)), policy=policy) as proxy:
        wrong = await proxy.post(body)
        record = await proxy.record(wrong)
        (claim,) = next(v for v in record["detail"]["verdicts"] if v["stage"] == "claims")["detail"]["claims"]
        version = next(v for v in record["detail"]["verdicts"] if v["stage"] == "knowledge")["detail"]["version"]
        assert ("warn", "0.00") == (wrong.verdict, wrong.headers["x-groundwire-faithfulness"])
        assert ("contradicted", "Oslo", f"knowledge@{version}", "atlas") == (
            claim["label"],
            claim["instead"],
            claim["verifier"],
            claim["evidence"]["source"],
        )
        facts.write_text("subject,statement,source\nNorway,The capital of Norway is Bergen.,atlas 2\n")
        proxy.app.knowledge.get("facts")._looked_at -= 10
        await proxy.app.knowledge.get("facts").settled()
        right = await proxy.post(body)
        after = await proxy.record(right)
        assert ("pass", "1.00") == (right.verdict, right.headers["x-groundwire-faithfulness"])
        assert version != next(v for v in after["detail"]["verdicts"] if v["stage"] == "knowledge")["detail"]["version"]
