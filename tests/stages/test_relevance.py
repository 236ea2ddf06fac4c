"""The stage: what it does with a score."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from proxy.context.faithful_texts import NO_ANSWER
from proxy.errors import ModelUnavailable
from proxy.exchange import Evidence, Exchange, Message, Verdict
from proxy.language.words import content_words
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.ports.judge import AskAbout
from proxy.stages.relevance import Relevance, RelevanceOptions
from proxy.stages.relevance.stage import newest
from proxy.testing import CountedNames, HashEmbedder, ScriptedJudge, make_exchange, make_ports

TOWER = "The Eiffel Tower in Paris is 330 metres tall."
BREAD = (
    "Knead the dough for ten minutes, then bake the bread for forty. Flour, water, yeast and salt are all that goes into it; a spoon of "
    "honey makes the crust brown. Cover the bowl with a damp cloth and let the dough rise in a warm corner until it has doubled. Shape a "
    "loaf, cut its surface with a sharp knife, and slide it onto the hot stone. A dish of water at the bottom of the oven keeps the crumb "
    "moist. Cool it on a rack before slicing."
)
PUMP = (
    "Replace the seal of the pump when oil drips from its housing. Switch the motor off, close both valves and drain the line before you "
    "open the cover. Four screws hold it; mark their order, since they differ in length. Lift the old ring with a plastic hook, never with "
    "metal, and clean the groove with a dry rag. Grease the new ring, press it home with both thumbs, and close the cover crosswise. Run "
    "the motor for a minute, then look for drops."
)
TALL = "How tall is the Eiffel Tower?"
TOOLS = [{"type": "function", "function": {"name": "session_search", "parameters": {}}}]


def asking(
    question: str | list[Message] = TALL, *passages: str | Evidence, tools: Any = (), client: str = "anonymous", **params: Any
) -> Exchange:
    messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
    exchange = make_exchange(messages, tools, **params)
    exchange.client = client
    exchange.passages = tuple(Evidence(p) if isinstance(p, str) else p for p in passages)
    return exchange


class ContentWords(HashEmbedder):
    """Texts are close when they share words that say something, as they are for a real model."""

    dimensions = 4096

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> Any:
        return await super().embed([" ".join(content_words(text)) or text for text in texts])


def make_stage(ports: Ports | None = None, **options: Any) -> Relevance:
    return Relevance(RelevanceOptions(**options), ports or make_ports(embedder=ContentWords()))


def searched(question: str | list[Message] = TALL, **params: Any) -> Exchange:
    """A request with an empty ``groundwire.context``."""
    exchange = asking(question, **params)
    exchange.original = msgspec.structs.replace(exchange.original, has_context=True)
    return exchange


async def judged(exchange: Exchange, ports: Ports | None = None, **options: Any) -> Verdict:
    verdict = await make_stage(ports, **options).on_request(exchange)
    assert verdict is not None
    return verdict


async def test_good_passages_pass_and_leave_the_request_alone() -> None:
    exchange = asking(TALL, BREAD, TOWER)
    passages = exchange.passages
    verdict = await judged(exchange)
    assert ("pass", None) == (verdict.outcome, exchange.answer)
    assert exchange.passages is passages
    assert exchange.messages is exchange.original.messages


async def test_the_score_is_the_header_s_probability() -> None:
    exchange = asking(TALL, TOWER)
    verdict = await judged(exchange)
    assert verdict.score == exchange.facts.relevance
    assert exchange.facts.relevance is not None
    assert exchange.facts.relevance > 0.8


async def test_useless_passages_are_answered_in_the_model_s_stead() -> None:
    exchange = asking(TALL, BREAD)
    verdict = await judged(exchange)
    assert ("warn", "low_relevance", "answer") == (verdict.outcome, verdict.code, verdict.detail["action"])
    assert exchange.answer is not None
    assert (NO_ANSWER["en"], "stop", "gpt-4o") == (exchange.answer.text, exchange.answer.choices[0].finish_reason, exchange.answer.model)


async def test_the_policy_may_go_on_with_a_warning() -> None:
    exchange = asking(TALL, BREAD)
    verdict = await judged(exchange, action="warn")
    assert ("warn", "low_relevance", "warn", None) == (verdict.outcome, verdict.code, verdict.detail["action"], exchange.answer)


async def test_min_decides_what_is_too_low() -> None:
    verdict = await judged(asking(TALL, BREAD), min=0.0)
    assert "pass" == verdict.outcome


@pytest.mark.parametrize(
    ("question", "language"),
    [
        (TALL, "en"),
        ("Wie hoch ist der Eiffelturm in Paris eigentlich genau?", "de"),
        ("¿Cuánto mide la torre Eiffel de París exactamente?", "es"),
        ("Quelle est la hauteur exacte de la tour Eiffel à Paris ?", "fr"),
    ],
)
async def test_the_no_answer_text_is_in_the_question_s_language(question: str, language: str) -> None:
    exchange = searched(question)
    await judged(exchange)
    assert exchange.answer is not None
    assert NO_ANSWER[language] == exchange.answer.text


async def test_a_policy_s_own_text_by_language() -> None:
    exchange = searched("Wie hoch ist der Eiffelturm in Paris eigentlich genau?")
    await judged(exchange, no_answer={"de": "Steht nicht im Handbuch."})
    assert exchange.answer is not None
    assert "Steht nicht im Handbuch." == exchange.answer.text


async def test_a_policy_s_one_text_for_all() -> None:
    exchange = asking(TALL, BREAD)
    await judged(exchange, no_answer="404")
    assert exchange.answer is not None
    assert "404" == exchange.answer.text


@pytest.mark.parametrize(
    ("question", "passages", "reason"),
    [
        (TALL, (), "no passages"),
        ("Thanks, that's great!", (BREAD,), "thanks"),
        ("Translate that to German, please.", (BREAD,), "instruction"),
        ("Fasse den Text in drei Sätzen zusammen", (BREAD,), "instruction"),
        ("", (BREAD,), "no question"),
    ],
)
async def test_where_there_is_nothing_to_judge_it_says_why(question: str, passages: tuple[str, ...], reason: str) -> None:
    exchange = asking(question, *passages)
    verdict = await judged(exchange)
    assert ("unchecked", reason, None, None) == (verdict.outcome, verdict.detail["reason"], exchange.facts.relevance, exchange.answer)


async def test_a_follow_up_is_judged_with_the_question_before_it() -> None:
    talk = [
        {"role": "user", "content": "Where does the Eiffel Tower stand?"},
        {"role": "assistant", "content": "In Paris."},
        {"role": "user", "content": "And how high is it?"},
    ]
    alone = asking("And how high is it?", TOWER)
    whole = asking(talk, TOWER)
    await judged(alone)
    verdict = await judged(whole)
    assert alone.facts.relevance is not None
    assert whole.facts.relevance is not None
    assert whole.facts.relevance > alone.facts.relevance
    assert 2 == verdict.detail["readings"]


def in_a_loop(result: str) -> list[Message]:
    call = {"id": "c1", "type": "function", "function": {"name": "session_search", "arguments": "{}"}}
    return [
        {"role": "user", "content": TALL},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]


async def test_an_agent_that_can_search_again_is_only_warned() -> None:
    exchange = asking(in_a_loop(BREAD), Evidence(BREAD, kind="tool_result", message_index=2), tools=TOOLS)
    verdict = await judged(exchange)
    assert ("low_relevance", "warn", None) == (verdict.code, verdict.detail["action"], exchange.answer)


async def test_after_a_tool_call_the_question_is_the_user_s() -> None:
    verdict = await judged(asking(in_a_loop(TOWER), Evidence(TOWER, kind="tool_result", message_index=2), tools=TOOLS))
    assert "pass" == verdict.outcome


async def test_an_agent_at_its_end_is_answered() -> None:
    exchange = asking(in_a_loop(BREAD), Evidence(BREAD, message_index=2), tools=TOOLS, tool_choice="none")
    await judged(exchange)
    assert exchange.answer is not None


def test_too_many_passages_leave_those_of_the_request_and_the_newest() -> None:
    passages = [Evidence("a", message_index=0), Evidence("b", message_index=2), Evidence("c"), Evidence("d", message_index=2)]
    assert [1, 2] == newest(passages, 2)
    assert [1, 2, 3] == newest(passages, 3)


async def test_the_record_says_how_each_passage_did() -> None:
    verdict = await judged(asking(TALL, BREAD, TOWER))
    detail = verdict.detail
    assert ("embedding", 0.4, verdict.score) == (detail["mode"], detail["min"], pytest.approx(detail["score"], abs=1e-4))
    assert [0, 1] == [p["index"] for p in detail["passages"]]
    assert detail["passages"][0]["score"] < 0.4 < detail["passages"][1]["score"]
    assert "best passage 1: cosine" in detail["reason"]
    assert TOWER not in str(detail)


async def test_counters() -> None:
    counters = CountedNames()
    ports = make_ports(embedder=ContentWords(), counters=counters)
    await judged(asking(TALL, TOWER), ports)
    await judged(asking(TALL, BREAD), ports)
    assert {
        "context.relevance_checked_count": 2,
        "context.irrelevant_context_count": 1,
        "context.relevance_answered_count": 1,
    } == counters.counts


# ---- the policy's judge ----


def with_judge(choice: str, ask: AskAbout = "unsure", **parts: Any) -> tuple[Ports, ScriptedJudge]:
    judge = ScriptedJudge(lambda question: choice, ask)
    return make_ports(embedder=ContentWords(), judge=judge, **parts), judge


async def test_the_judge_decides() -> None:
    ports, _ = with_judge("no")
    exchange = asking(TALL, TOWER)
    verdict = await judged(exchange, ports, mode="llm")
    assert ("low_relevance", pytest.approx(0.1)) == (verdict.code, exchange.facts.relevance)
    assert ("So it is.", {"by": "scripted/judge", "yes": 0.1}) == (verdict.detail["reason"], verdict.detail["judge"])
    assert exchange.answer is not None


async def test_it_gets_the_question_and_the_passages() -> None:
    ports, judge = with_judge("yes")
    await judged(asking(TALL, TOWER, BREAD), ports, mode="llm")
    assert [(TALL, (TOWER, BREAD))] == [(question.statement, question.evidence) for question in judge.asked[0]]


async def test_hybrid_asks_only_when_the_embedding_is_uncertain() -> None:
    ports, judge = with_judge("yes")
    stage = make_stage(ports, mode="hybrid", uncertain=(0.3, 0.7))
    await stage.on_request(asking(TALL, TOWER))
    await stage.on_request(asking(TALL, BREAD))
    assert [] == judge.asked


async def test_hybrid_asks_where_the_embedding_may_not_answer() -> None:
    ports, judge = with_judge("no")
    verdict = await judged(asking("How tall?", BREAD), ports, mode="hybrid", uncertain=(0.3, 0.7))
    assert (1, "low_relevance", "warn") == (len(judge.asked), verdict.code, verdict.detail["action"])


@pytest.mark.parametrize("mode", ["hybrid", "auto"])
async def test_hybrid_asks_in_the_uncertain_band(mode: str) -> None:
    counters = CountedNames()
    ports, judge = with_judge("yes", counters=counters)
    exchange = asking(TALL, BREAD)
    verdict = await judged(exchange, ports, mode=mode, uncertain=(0.0, 1.0))
    assert ("pass", 0.9, 1) == (verdict.outcome, exchange.facts.relevance, len(judge.asked))
    assert 1 == counters.counts["context.relevance_llm_count"]


async def test_a_judge_of_everything_is_asked_of_every_context() -> None:
    ports, judge = with_judge("yes", "all")
    await judged(asking(TALL, TOWER), ports)
    assert 1 == len(judge.asked)


async def test_by_similarity_alone_nobody_is_asked() -> None:
    ports, judge = with_judge("yes", "all")
    await judged(asking(TALL, BREAD), ports, mode="embedding")
    assert [] == judge.asked


@pytest.mark.parametrize("mode", ["llm", "hybrid"])
async def test_a_judge_without_an_answer_leaves_it_to_the_similarity(mode: str) -> None:
    ports, judge = with_judge("")
    exchange, alone = asking(TALL, TOWER), asking(TALL, TOWER)
    verdict = await judged(exchange, ports, mode=mode, uncertain=(0.0, 1.0))
    await judged(alone, make_ports(embedder=ContentWords()))
    assert ("pass", alone.facts.relevance) == (verdict.outcome, exchange.facts.relevance)
    assert judge.asked


async def test_an_embedder_that_fails_is_an_error_never_a_pass() -> None:
    class Broken(HashEmbedder):
        async def embed(self, texts: Sequence[str]) -> Any:
            raise ModelUnavailable("no weights")

    exchange = make_exchange([{"role": "user", "content": f"<context>{TOWER}</context>\n\n{TALL}"}])
    await Pipeline([make_stage(make_ports(embedder=Broken()))]).request(exchange)
    assert (["error"], None) == ([verdict.outcome for verdict in exchange.verdicts], exchange.facts.relevance)


# ---- options ----


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"uncertain": [0.8, 0.2]}, "expected .low, high."),
        ({"min": 1.5}, "<= 1"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert(options, RelevanceOptions)
