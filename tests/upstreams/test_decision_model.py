"""The proxy's own questions to decision models of every shape, and what is made of servers that misbehave, over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.config.sections import DecisionApi, DecisionsSettings, Shape, decision_api
from proxy.config.settings import OpenAISettings, Retries
from proxy.errors import NotFound, UpstreamRefused, UpstreamTimeout, UpstreamUnreachable
from proxy.ports import ModelInfo
from proxy.ports.decisions import Answer, Decision, Question
from proxy.testing import CountedNames, ScriptedReply, ScriptedUpstream, WordCounter, hang, reply
from proxy.upstreams.asking import UpstreamDecisions
from proxy.upstreams.openai import OpenAIUpstream
from proxy.upstreams.resilience import Resilient, Slots
from tests.decision_server import cut_off, enveloped, judging, refusing, renamed, with_probabilities

USUAL = DecisionApi()
SHAPES: tuple[Shape, ...] = ("openai", "systemone", "gemini")
QUESTIONS = (
    Question(name="told", kind="predicate", instructions="The parcel has arrived."),
    Question(
        name="label",
        instructions="Is it so?",
        choices=("supported", "contradicted", "neither"),
        descriptions=("The text says so.", "The text says otherwise.", ""),
    ),
    Question(name="urgent", kind="score", instructions="How urgent?", choices=("can wait", "this week", "today")),
)
RIGHT = {
    "told": {"yes": 0.75, "no": 0.25},
    "label": {"supported": 0.5, "contradicted": 0.25, "neither": 0.25},
    "urgent": {"can wait": 0.25, "this week": 0.25, "today": 0.5},
}


def rightly(state: str, question: Question) -> Answer:
    """The same in every shape."""
    chances = {2: (0.75, 0.25), 3: (0.25, 0.25, 0.5) if question.kind == "score" else (0.5, 0.25, 0.25)}
    return Answer(dict(zip(question.options, chances[len(question.options)], strict=True)))


class Priced(WordCounter):
    def model(self, name: str) -> ModelInfo:
        return ModelInfo(name, 8192, input_usd_per_token=1e-6, output_usd_per_token=5e-6)


@asynccontextmanager
async def asking(
    *replies: ScriptedReply, retries: int = 0, api: DecisionApi | None = USUAL, forwarding: tuple[str, ...] = ()
) -> AsyncIterator[tuple[UpstreamDecisions, ScriptedUpstream]]:
    async with ScriptedUpstream(*replies) as server:
        upstream = OpenAIUpstream("judge", OpenAISettings(base_url=server.base_url, api_key="sk-own"))
        await upstream.start()
        resilient = Resilient(upstream, Retries(attempts=retries, base_s=1e-6, max_s=1.0), Slots(9, 9), ("other",), CountedNames())
        apis = {} if api is None else {"judge": api}
        try:
            yield UpstreamDecisions({"judge": resilient}, apis, Priced(), forwarding), server
        finally:
            await upstream.stop()


def api_of(shape: Shape, **more: Any) -> DecisionApi:
    return decision_api("http://127.0.0.1", DecisionsSettings(shape=shape, **more))


async def decided(shape: Shape, *replies: ScriptedReply, questions: tuple[Question, ...] = QUESTIONS, **more: Any) -> Decision:
    async with asking(*replies, api=api_of(shape), **more) as (model, _):
        return await model.decide("judge", "small", "Parcel 7 has arrived.", questions)


@pytest.mark.parametrize("shape", SHAPES)
async def test_each_question_gets_its_probabilities(shape: Shape) -> None:
    found = await decided(shape, judging(shape, rightly))
    assert RIGHT == {name: answer.probabilities for name, answer in found.answers.items()}
    assert 13 == found.input_tokens
    assert pytest.approx(13e-6) == found.usd


@pytest.mark.parametrize(
    ("shape", "path", "sent"),
    [
        (
            "openai",
            "/v1/decisions",
            {
                "model": "small",
                "input": "It has.",
                "questions": [
                    {"type": "predicate", "name": "told", "instructions": "The parcel has arrived."},
                    {
                        "type": "choice",
                        "name": "label",
                        "instructions": "Is it so?",
                        "choices": [
                            {"value": "supported", "description": "The text says so."},
                            {"value": "contradicted", "description": "The text says otherwise."},
                            {"value": "neither"},
                        ],
                    },
                    {
                        "type": "score",
                        "name": "urgent",
                        "instructions": "How urgent?",
                        "levels": [{"label": "can wait"}, {"label": "this week"}, {"label": "today"}],
                    },
                ],
            },
        ),
        (
            "systemone",
            "/v1/systemone",
            {
                "model": "small",
                "state": "It has.",
                "questions": {
                    "told": {"type": "noul", "instructions": "The parcel has arrived."},
                    "label": {
                        "type": "choice",
                        "instructions": "Is it so?",
                        "criteria": {"supported": "The text says so.", "contradicted": "The text says otherwise.", "neither": None},
                    },
                    "urgent": {"type": "score", "instructions": "How urgent?", "criteria": ["can wait", "this week", "today"]},
                },
            },
        ),
    ],
)
async def test_what_is_sent(shape: Shape, path: str, sent: Any) -> None:
    async with asking(judging(shape), api=api_of(shape)) as (model, server):
        await model.decide("judge", "small", "It has.", QUESTIONS)
    call = server.calls[0]
    assert ("POST", path, "Bearer sk-own") == (call.method, call.path, call.headers["authorization"])
    assert sent == call.json


async def test_what_a_yes_means_stands_where_the_shape_has_room_for_it() -> None:
    asked = Question(name="q", kind="predicate", instructions="Spam?", descriptions=("It is advertising.", "It is a letter."))
    sent = {}
    for shape in SHAPES:
        async with asking(judging(shape), api=api_of(shape)) as (model, server):
            await model.decide("judge", "small", "Hi.", (asked,))
        sent[shape] = server.calls[0].json["questions"]
    assert "Spam?\n\nAnswer yes when: It is advertising.\n\nAnswer no when: It is a letter." == sent["openai"][0]["instructions"]
    assert {"true": "It is advertising.", "false": "It is a letter."} == sent["systemone"]["q"]["criteria"]
    assert {"true_description": "It is advertising.", "false_description": "It is a letter."} == sent["gemini"]["q"]["criteria"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (renamed, "missing"),
        (with_probabilities(lambda p: float("nan")), "not a number: nan"),
        (with_probabilities(lambda p: None), "not a number: None"),
        (with_probabilities(lambda p: "0.5"), "not a number: '0.5'"),
        (with_probabilities(lambda p: p + 1), "not a number: 1."),
        (with_probabilities(lambda p: -p), "not a number: -0."),
        (with_probabilities(lambda p: True), "not a number: True"),
        (lambda fields: {**fields, "answers": type(fields["answers"])()}, "missing"),
    ],
)
async def test_what_is_no_probability_is_no_answer(shape: Shape, spoil: Callable[[Any], Any], problem: str) -> None:
    found = await decided(shape, judging(shape, rightly, spoil=spoil))
    assert {"told", "label", "urgent"} == set(found.answers)
    for answer in found.answers.values():
        assert ({}, problem) == (answer.probabilities, answer.problem[: len(problem)])


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_does_not_sum_to_one_is_no_answer(shape: Shape) -> None:
    found = await decided(shape, judging(shape, rightly, spoil=with_probabilities(lambda p: p / 2)), questions=QUESTIONS[1:])
    assert {"does not sum to one: 0.5"} == {answer.problem for answer in found.answers.values()}


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_is_rounded_sums_to_one(shape: Shape) -> None:
    spoil = with_probabilities(lambda p: round(p * 0.99, 2))
    found = await decided(shape, judging(shape, rightly, spoil=spoil), questions=QUESTIONS[1:])
    assert [pytest.approx(1.0, abs=1e-12)] * 2 == [sum(answer.probabilities.values()) for answer in found.answers.values()]


@pytest.mark.parametrize(("shape", "problem"), [("openai", "refused"), ("systemone", "missing")])
async def test_a_refusal_is_no_answer(shape: Shape, problem: str) -> None:
    found = await decided(shape, judging(shape, refusing))
    assert [Answer(problem=problem)] * 3 == list(found.answers.values())


async def test_of_a_refusal_in_place_of_an_answer_system_one_s_too() -> None:
    found = await decided("systemone", reply({"answers": {"told": {"type": "refusal"}}}), questions=QUESTIONS[:1])
    assert "refused" == found.answers["told"].problem


async def test_google_s_blocked_input_is_a_refusal_of_every_question() -> None:
    found = await decided("gemini", reply({"prompt_feedback": {"block_reason": "safety"}}))
    assert {"refused"} == {answer.problem for answer in found.answers.values()}


async def test_one_option_more_or_less_is_a_wrong_name() -> None:
    entry = {"type": "choice", "probabilities": {"supported": 0.5, "contradicted": 0.25, "other": 0.25}}
    found = await decided("systemone", reply({"answers": {"label": entry}}), questions=QUESTIONS[1:2])
    assert "wrong names: 'other'" == found.answers["label"].problem
    entry = {"type": "choice", "probabilities": {"supported": 0.5, "contradicted": 0.5}}
    found = await decided("systemone", reply({"answers": {"label": entry}}), questions=QUESTIONS[1:2])
    assert "wrong names: nothing for 'neither'" == found.answers["label"].problem


@pytest.mark.parametrize("answers", [[{"type": "predicate", "name": "told", "probability": p} for p in (0.9, 0.1)]])
async def test_two_answers_of_one_name_are_none(answers: Any) -> None:
    found = await decided("openai", reply({"answers": answers}), questions=QUESTIONS[:1])
    assert "wrong names: 2 answers to one question" == found.answers["told"].problem


async def test_answers_without_names_belong_to_the_questions_in_order() -> None:
    answers = [{"type": "predicate", "name": None, "probability": 0.9}, {"type": "refusal", "name": None}]
    found = await decided("openai", reply({"answers": answers}), questions=QUESTIONS[:2])
    assert 0.9 == found.answers["told"].probabilities["yes"]
    assert "refused" == found.answers["label"].problem
    found = await decided("openai", reply({"answers": answers[:1]}), questions=QUESTIONS[:2])
    assert {"missing"} == {answer.problem for answer in found.answers.values()}


async def test_an_answer_of_another_kind_is_none() -> None:
    answers = [{"type": "choice", "name": "told", "probabilities": [{"value": "yes", "probability": 1.0}]}]
    found = await decided("openai", reply({"answers": answers}), questions=QUESTIONS[:1])
    assert "missing" == found.answers["told"].problem


@pytest.mark.parametrize("shape", SHAPES)
async def test_confidence_is_not_read(shape: Shape) -> None:
    def with_confidence(node: Any) -> Any:
        if isinstance(node, list):
            return [with_confidence(one) for one in node]
        if not isinstance(node, dict):
            return node
        changed = {name: with_confidence(value) for name, value in node.items()}
        return {**changed, "confidence": 0.0} if "type" in node else changed

    assert RIGHT == {n: a.probabilities for n, a in (await decided(shape, judging(shape, rightly, spoil=with_confidence))).answers.items()}


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_envelope_is_taken_off(shape: Shape) -> None:
    found = await decided(shape, judging(shape, rightly, spoil=enveloped))
    assert RIGHT == {name: answer.probabilities for name, answer in found.answers.items()}


async def test_an_error_with_a_status_of_success_is_one() -> None:
    body = {"result": None, "success": False, "errors": [{"code": 3036, "message": "daily allocation used up"}], "messages": []}
    with pytest.raises(UpstreamRefused, match="daily allocation used up"):
        await decided("systemone", reply(body))


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]", b"[" * 5000, {"answers": "yes"}, {"answers": None}, {"result": []}])
@pytest.mark.parametrize("shape", SHAPES)
async def test_what_is_no_decision_is_an_error(shape: Shape, body: Any) -> None:
    with pytest.raises(UpstreamUnreachable, match="not a decision"):
        await decided(shape, reply(body))


@pytest.mark.parametrize("shape", SHAPES)
async def test_429_and_5xx_are_tried_again_within_the_deadline(shape: Shape) -> None:
    busy = reply({"error": {"message": "slow down"}}, 429, {"retry-after": "0"})
    found = await decided(shape, busy, reply({}, 503), judging(shape, rightly), retries=2)
    assert RIGHT["told"] == found.answers["told"].probabilities


async def test_429_that_stays_is_an_error_with_its_status() -> None:
    with pytest.raises(UpstreamRefused, match="status 429: slow down") as caught:
        await decided("systemone", reply({"error": {"message": "slow down"}}, 429), retries=1)
    assert 429 == caught.value.upstream_status


async def test_a_pause_longer_than_the_deadline_is_not_waited_for() -> None:
    async with asking(reply({}, 429, {"retry-after": "1"}), retries=2) as (model, _):
        with pytest.raises(UpstreamTimeout, match=r"within 0\.05 s"):
            await model.decide("judge", "small", "It has.", QUESTIONS, timeout_s=0.05)


async def test_a_slow_server_is_given_up() -> None:
    async with asking(hang) as (model, server):
        with pytest.raises(UpstreamTimeout, match=r"within 0\.05 s"):
            await model.decide("judge", "small", "It has.", QUESTIONS, timeout_s=0.05)
        await asyncio.wait_for(server.gone.wait(), 2)


async def test_an_answer_that_breaks_off_is_an_error() -> None:
    with pytest.raises(UpstreamUnreachable, match="broke before the answer was whole"):
        await decided("systemone", cut_off)


@pytest.mark.parametrize(
    ("body", "said"), [({"detail": [{"loc": ["body", "state"], "msg": "Field required"}]}, "body.state: Field required")]
)
async def test_a_refused_request_says_what_was_wrong(body: Any, said: str) -> None:
    with pytest.raises(UpstreamRefused, match=f"status 422: {said}"):
        await decided("systemone", reply(body, 422))


def many(n: int) -> tuple[Question, ...]:
    return tuple(Question(name=f"q{i}", kind="predicate", instructions="It has arrived.") for i in range(n))


@pytest.mark.parametrize("shape", SHAPES)
async def test_65_questions_are_two_calls_where_64_are_allowed(shape: Shape) -> None:
    async with asking(judging(shape, rightly, max_questions=64), api=api_of(shape, max_questions=64)) as (model, server):
        found = await model.decide("judge", "small", "It has.", many(65))
    assert [64, 1] == sorted((len(call.json["questions"]) for call in server.calls), reverse=True)
    assert {0.75} == {answer.probabilities["yes"] for answer in found.answers.values()}
    assert (65, 65 * 3 + 2 * 2) == (len(found.answers), found.input_tokens)


async def test_a_server_that_allows_fewer_says_so() -> None:
    with pytest.raises(UpstreamRefused, match="at most 64 questions"):
        async with asking(judging("systemone", max_questions=64), api=api_of("systemone", max_questions=100)) as (model, _):
            await model.decide("judge", "small", "It has.", many(65))


async def test_of_two_calls_the_one_that_fails_leaves_the_other_s_answers() -> None:
    replies = judging("systemone", rightly), reply({"error": {"message": "no"}}, 400)
    async with asking(*replies, api=api_of("systemone", max_questions=2)) as (model, _):
        found = await model.decide("judge", "small", "It has.", many(3))
    problems = sorted(answer.problem for answer in found.answers.values())
    assert "" in problems
    assert problems[-1].startswith("unasked: upstream judge answered the proxy's own question with status 400: no")


async def test_a_question_with_too_many_options_is_not_asked() -> None:
    wide = Question(name="wide", instructions="Which?", choices=tuple(f"o{i}" for i in range(300)))
    async with asking(judging("systemone", rightly)) as (model, server):
        found = await model.decide("judge", "small", "It has.", (wide, QUESTIONS[0]))
    assert "unasked: 300 options, of at most 255" == found.answers["wide"].problem
    assert ["told"] == list(server.calls[0].json["questions"])


async def test_no_question_is_no_call() -> None:
    async with asking(judging("systemone")) as (model, server):
        assert Decision({}, usd=0) == await model.decide("judge", "small", "It has.", ())
    assert [] == server.calls


async def test_no_fallback_answers_in_its_stead() -> None:
    with pytest.raises(UpstreamRefused, match="status 503"):
        await decided("systemone", reply({}, 503))


@pytest.mark.parametrize(
    ("usage", "api", "usd"),
    [
        ({"input_tokens": 1000, "cost": 0.5}, DecisionApi(usd_per_million_tokens=2.0), 0.5),
        ({"input_tokens": 1000}, DecisionApi(usd_per_million_tokens=2.0), 0.002),
        ({"input_tokens": 1000, "output_tokens": 9}, DecisionApi(), 0.001),
        ({"total_input_tokens": 1000}, DecisionApi(), 0.001),
        ({"input_tokens": -1, "cost": float("inf")}, DecisionApi(), 0.0),
    ],
)
async def test_what_a_decision_costs(usage: Any, api: DecisionApi, usd: float) -> None:
    body = json.dumps({"answers": {"told": {"type": "noul", "noul": 0.5}}, "usage": usage}).encode()
    async with asking(reply(body), api=api) as (model, _):
        assert pytest.approx(usd) == (await model.decide("judge", "small", "It has.", QUESTIONS[:1])).usd


async def test_the_model_s_name_may_stand_in_the_path() -> None:
    api = decision_api("https://api.cloudflare.com/client/v4/accounts/0/ai", None)
    async with asking(judging("systemone", rightly, spoil=enveloped), api=api) as (model, server):
        await model.decide("judge", "clef-flash", "It has.", QUESTIONS)
        assert ("/v1/run/@cf/cloudflare/clef-flash", "clef-flash") == (server.calls[0].path, server.calls[0].json["model"])
        with pytest.raises(NotFound, match="cannot stand in a path"):
            await model.decide("judge", "../../other", "It has.", QUESTIONS)


@pytest.mark.parametrize(
    ("name", "more", "problem"),
    [
        ("absent", {}, "no upstream 'absent' to ask; known: judge"),
        ("judge", {"forwarding": ("judge",)}, "api_key: forward"),
        ("judge", {"api": None}, "speaks no decisions"),
    ],
)
async def test_who_cannot_be_asked(name: str, more: Any, problem: str) -> None:
    async with asking(judging("systemone"), **more) as (model, server):
        with pytest.raises(NotFound, match=problem):
            await model.decide(name, "small", "It has.", QUESTIONS)
    assert [] == server.calls


@pytest.mark.parametrize(
    ("base_url", "given", "expected"),
    [
        ("https://api.openai.com/v1", None, ("openai", "/decisions", 400, 255)),
        ("https://generativelanguage.googleapis.com/v1beta", None, ("gemini", "/decisions", 1000, 255)),
        ("https://api.fireworks.ai/inference/v1", None, ("systemone", "/systemone", 64, 208)),
        ("http://localhost:11434/v1", None, ("systemone", "/systemone", 64, 255)),
        ("http://litellm:4000/v1", DecisionsSettings(shape="openai", max_questions=128), ("openai", "/decisions", 128, 255)),
        ("https://api.openai.com/v1", DecisionsSettings(max_questions=10), ("openai", "/decisions", 10, 255)),
        ("https://api.openai.com/v1", DecisionsSettings(shape="systemone"), ("systemone", "/systemone", 400, 255)),
        ("http://localhost/v1", DecisionsSettings(path="/judge/systemone"), ("systemone", "/judge/systemone", 64, 255)),
    ],
)
def test_what_a_server_offers(base_url: str, given: DecisionsSettings | None, expected: Any) -> None:
    found = decision_api(base_url, given)
    assert expected == (found.shape, found.path, found.max_questions, found.max_options)
