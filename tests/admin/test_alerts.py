"""A server that goes wrong: the alert comes through the channel, stands on ``/ready``, the dashboard and ``/metrics``, and clears."""

import asyncio
from typing import Any

from proxy.testing import ScriptedUpstream, completion, reply
from tests.conftest import Start

PASSAGE = "The Kestrel cargo bike has a range of 120 km on one charge."
RIGHT, WRONG = ("The Kestrel cargo bike has a range of " + km + " km on one charge." for km in ("120", "300"))
POLICY = "name: rag\ndelivery: hold\nstages: [budget, {claims: {action: annotate}}]\n"
QUESTION = "What range does the Kestrel cargo bike have?"


def ask(number: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"{QUESTION} ({number})"}]
    return {"model": "gpt-4o", "messages": messages, "groundwire": {"context": [{"content": PASSAGE}]}}


def config(url: str) -> str:
    return (
        "alerts:\n  every_s: 0.05\n"
        f"  channels: {{ops: {{kind: webhook, url: '{url}', secret: '${{OPS}}'}}}}\n"
        "  rules: [{figure: unsupported, above: 0.4, clear_at: 0.3, min_count: 4}]\n"
    )


async def told(sink: ScriptedUpstream, number: int) -> Any:
    """What the sink got as its `number`-th, awaited."""
    async with asyncio.timeout(10):
        while len(sink.calls) < number:
            await asyncio.sleep(0.01)
    return sink.calls[number - 1].json


async def test_a_server_whose_answers_go_wrong_rings_once_and_clears(start: Start) -> None:
    async with ScriptedUpstream(reply({})) as sink:
        text = config(sink.base_url)
        async with start(reply(completion(WRONG)), policy=POLICY, config=text, environ={"OPS": "s3cret"}) as proxy:
            for number in range(5):
                assert "warn" == (await proxy.post(ask(number))).verdict
            await proxy.app.records_writer.flush()
            first = await told(sink, 1)
            ready, page = (await proxy.get("/ready")).json, (await proxy.get("/dashboard")).body.decode()
            metrics = (await proxy.get("/metrics")).body.decode()
            proxy.upstream.say(reply(completion(RIGHT)))
            for number in range(12):
                assert "pass" == (await proxy.post(ask(100 + number))).verdict
            await proxy.app.records_writer.flush()
            second = await told(sink, 2)
            after = (await proxy.get("/ready")).json
    assert [("unsupported", "firing"), ("unsupported", "cleared")] == [(one["rule"], one["event"]) for one in (first, second)]
    assert {"firing": ["unsupported"]} == ready["runs"]["alerts"]
    assert ('aria-label="Alerts"' in page, "groundwire_alerts_firing 1.0" in metrics) == (True, True)
    assert "alerts" not in after["runs"]
    words = str([call.body for call in sink.calls])
    assert [False, False] == [text in words for text in ("Kestrel", "s3cret")]


async def test_a_rule_of_a_route_counts_that_route_alone(start: Start) -> None:
    async with ScriptedUpstream(reply({})) as sink:
        rule = "{figure: unsupported, above: 0.4, min_count: 4"
        text = config(sink.base_url).partition("  rules:")[0] + f"  rules: [{rule}, route: /other}}, {rule}, route: /}}]\n"
        two = "allow_skip: true}, {prefix: /other, upstream: main, policy: policy.yaml"
        async with start(reply(completion(WRONG)), policy=POLICY, config=text, route_options=two, environ={"OPS": "s3cret"}) as proxy:
            for number in range(5):
                assert "warn" == (await proxy.post(ask(number))).verdict
            await proxy.app.records_writer.flush()
            message = await told(sink, 1)
            rules = {name: state.firing for name, state in proxy.app.alerts._row.rules.items()}
    assert ("unsupported /", "/") == (message["rule"], message["route"])
    assert {"unsupported /other": False, "unsupported /": True} == rules


async def test_without_rules_nothing_is_looked_at(start: Start) -> None:
    async with start() as proxy:
        assert not proxy.app.alerts._rounds.is_running
