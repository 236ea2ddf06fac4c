"""Run by ``pytest examples/stage``: the stage alone, and in a policy between a client and a scripted provider."""

import pytest
from links import Links, LinksOptions

from proxy.exchange import Answer, Choice
from proxy.testing import make_exchange, make_ports


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("Nothing to link to.", "unchecked"),
        ("See https://a.example/x.", "pass"),
        ("See https://b.example.", "warn"),
    ],
)
async def test_a_link_must_have_stood_in_the_request(answer: str, outcome: str) -> None:
    stage = Links(LinksOptions(), make_ports())
    exchange = make_exchange([{"role": "user", "content": "What does https://a.example/x say?"}])
    exchange.answer = Answer((Choice(0, answer),))
    verdict = await stage.on_answer(exchange)
    assert verdict is not None
    assert outcome == verdict.outcome
