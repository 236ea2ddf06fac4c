"""What the stages had made of an attempt comes back with it, when a later stage prefers that attempt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from proxy.exchange import Answer, Choice, Exchange, ToolCall, Verdict
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.testing import completion, make_exchange, reply, stream, streamed
from tests.conftest import CHAT, Start
from tests.own_tools import call_events, called, calling, function, read

HOLD = "name: p\ndelivery: hold\nstages: [mending, chooser]\n"
STREAM = {**CHAT, "stream": True, "tools": [function("f")]}


class Mending(Stage):
    """Writes the text in small letters, and other arguments."""

    name = "mending"
    changes = ("answer",)

    async def on_answer(self, exchange: Exchange) -> Verdict:
        assert exchange.answer is not None
        for choice in exchange.answer.choices:
            exchange.answer = exchange.answer.with_text(choice.index, choice.text.lower())
            exchange.answer = exchange.answer.with_calls(
                choice.index, [replace(c, arguments=c.arguments.replace("'", '"')) for c in choice.tool_calls]
            )
        return Verdict(self.name, "pass")


class Chooser(Stage):
    """Wants another answer, and takes the first all the same."""

    name = "chooser"
    changes = ("answer",)
    shouts = False

    async def on_answer(self, exchange: Exchange) -> Verdict:
        if exchange.attempts.possible and len(exchange.attempts) < 2:
            exchange.retry = [*exchange.messages, {"role": "user", "content": "Again."}]
            return Verdict(self.name, "warn", code="again")
        exchange.deliver = 0
        if self.shouts:
            exchange.answer = exchange.attempts[0].upstream_answer.with_text(0, "HEY")
        return Verdict(self.name, "pass")


class Shouting(Chooser):
    shouts = True


ALL = (*STAGES, Mending, Chooser)


@pytest.mark.parametrize("streams", [True, False])
async def test_an_earlier_attempt_leaves_with_the_text_that_the_stages_before_gave_it(start: Start, streams: bool) -> None:
    answers = [stream(streamed([text])) if streams else reply(completion(text)) for text in ("FIRST.", "SECOND.")]
    async with start(*answers, policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else CHAT)
    assert "first." == (read(got.body).text if streams else got.json["choices"][0]["message"]["content"])


@pytest.mark.parametrize("streams", [True, False])
async def test_an_earlier_attempt_leaves_with_the_arguments_that_the_stages_before_gave_it(start: Start, streams: bool) -> None:
    first, second = called("f", "{'a': 1}"), called("f", "{'b': 1}")
    answers = [stream(call_events(c)) if streams else reply(calling(c)) for c in (first, second)]
    async with start(*answers, policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else {**STREAM, "stream": False})
    call = (
        read(got.body).tool_calls[0].arguments if streams else got.json["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    )
    assert '{"a": 1}' == call


async def test_an_answer_that_the_choosing_stage_sets_itself_is_what_leaves(start: Start) -> None:
    answers = [reply(completion(text)) for text in ("FIRST.", "SECOND.")]
    async with start(*answers, policy=HOLD, stages=(*STAGES, Mending, Shouting)) as proxy:
        got = await proxy.post()
    assert "HEY" == got.json["choices"][0]["message"]["content"]


@pytest.mark.parametrize("streams", [True, False])
async def test_an_attempt_that_is_judged_again_after_a_failure_starts_as_it_came(start: Start, streams: bool) -> None:
    first = stream(streamed(["FIRST."])) if streams else reply(json.dumps(completion("FIRST.")).encode())
    async with start(first, reply(b"", 500), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else CHAT)
        record = await proxy.record(got)
    assert "first." == (read(got.body).text if streams else got.json["choices"][0]["message"]["content"])
    assert ["mending", "upstream", "mending", "chooser"][1:] == [verdict["stage"] for verdict in record["detail"]["verdicts"]]


def test_the_attempt_keeps_the_stages_answer_until_it_is_present_again() -> None:
    exchange = make_exchange()
    came: Any = Answer((Choice(0, "", tool_calls=(ToolCall("1", "f", "{'a': 1}"),)),))
    exchange.attempts.present(exchange, came, 1.0)
    made = exchange.answer = came.with_calls(0, [ToolCall("1", "f", '{"a": 1}')])
    exchange.attempts.ask_again(exchange, [])
    assert made is exchange.attempts[0].answer
    exchange.attempts.failed(exchange, Verdict("upstream", "warn", code="retry_failed"))
    assert (None, came) == (exchange.attempts[0].found, exchange.answer)
