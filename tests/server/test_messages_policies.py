"""Stages at work on Anthropic's Messages: what they add, take out and change stands where the API wants it, and nothing else moves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.exchange import Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage
from proxy.stages.registry import STAGES
from proxy.testing import ScriptedVerifiers, reply, stream
from tests.conftest import Start
from tests.messages import ASK, PATH, STREAM, THINKING, message, read, result, streamed, text, tool, use

MARK = {"cache_control": {"type": "ephemeral"}}
READ = {**tool("read"), "input_schema": {"type": "object", "properties": {"lines": {"type": "integer"}}, "required": ["lines"]}}


class Rewriting(SentenceStage):
    """Replaces every sentence that names the moon."""

    name = "rewriting"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict:
        if "moon" in sentence.text:
            return Verdict("rewriting", "warn", code="moon", replacement="It is not said why.")
        return Verdict("rewriting", "pass")


ALL = (*STAGES, Rewriting)


def cited(said: str) -> dict[str, Any]:
    return {**text(said), "citations": [{"type": "search_result_location", "source": "s", "cited_text": said}]}


@pytest.mark.parametrize("how", ["gate", "hold"])
async def test_a_sentence_over_several_blocks_is_replaced_in_the_first(start: Start, how: str) -> None:
    blocks = (text("High water is at noon. It follows "), cited("the moon"), text(", always. Boats leave then."), use("read", {}))
    async with start(stream(streamed(*blocks)), policy=f"name: p\ndelivery: {how}\nstages: [rewriting: {{}}]\n", stages=ALL) as proxy:
        got = read((await proxy.post(STREAM, PATH)).body)["content"]
    assert ["High water is at noon. It is not said why.", " Boats leave then."] == [
        block["text"] for block in got if block["type"] == "text"
    ]
    assert use("read", {}) == got[-1]


@pytest.mark.parametrize("how", ["gate", "hold"])
async def test_texts_that_a_providers_tool_stands_between_keep_their_places(start: Start, how: str) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    blocks = (text("I look it up"), search, found, text("The moon does it. Boats know."), THINKING, text("That is all"))
    async with start(stream(streamed(*blocks)), policy=f"name: p\ndelivery: {how}\nstages: [rewriting: {{}}]\n", stages=ALL) as proxy:
        got = read((await proxy.post(STREAM, PATH)).body)["content"]
    assert [text("I look it up"), search, found, text("It is not said why. Boats know."), THINKING, text("That is all")] == got


@pytest.mark.parametrize("body", [ASK, STREAM])
async def test_arguments_that_do_not_fit_their_tool_are_mended(start: Start, body: dict[str, Any]) -> None:
    blocks = (THINKING, use(arguments={"lines": "5"}))
    answer = stream(streamed(*blocks)) if "stream" in body else reply(message(*blocks))
    policy = "name: p\ndelivery: hold\nstages: [schema: {}]\n"
    async with start(answer, policy=policy) as proxy:
        got = await proxy.post({**body, "tools": [READ]}, PATH)
    whole = read(got.body) if "stream" in body else got.json
    assert [THINKING, use(arguments={"lines": 5})] == whole["content"]


async def test_many_tools_become_few_and_deferred_ones_stay(start: Start) -> None:
    names = ["tide_times", "moon_phase", *(f"mcp__files__tool_{i}" for i in range(40))]
    tools = [tool(name) for name in names] + [tool("later", defer_loading=True), {**tool("last_one"), **MARK}]
    tools.insert(0, {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"})
    policy = "name: p\ndelivery: tap\nstages: [tool_rag: {above: 10, top_k: 3}]\n"
    async with start(reply(message()), policy=policy) as proxy:
        await proxy.app.models.load()
        got = await proxy.post({**ASK, "tools": tools}, PATH)
        while "indexing" in got.headers["x-groundwire-tools"]:  # on a busy machine
            got = await proxy.post({**ASK, "tools": tools}, PATH)
    sent = proxy.upstream.calls[-1].json["tools"]
    assert len(tools) > len(sent) + 15, got.headers.get("x-groundwire-tools")
    assert {"tool_search_tool_regex", "later", "groundwire_find_tools"} <= {one["name"] for one in sent}
    assert [one for one in sent if one["name"] == "later"] == [tools[-2]]
    assert 1 == json.dumps(sent).count("cache_control")


async def test_failures_are_told_behind_what_the_provider_caches(start: Start) -> None:
    failing = [
        item
        for i in range(3)
        for item in (
            {"role": "assistant", "content": [use("fetch", {"id": 7}, f"t{i}")]},
            {"role": "user", "content": [{**result("Something went wrong here", f"t{i}", is_error=True), **(MARK if i == 2 else {})}]},
        )
    ]
    body = {**ASK, "system": [{**text("You fetch."), **MARK}], "messages": [*ASK["messages"], *failing], "tools": [tool("fetch")]}
    async with start(reply(message()), policy="name: p\ndelivery: tap\nstages: [reflection: {}]\n") as proxy:
        got = await proxy.post(body, PATH)
    sent = proxy.upstream.calls[0].json
    assert "x-groundwire-failures" in got.headers
    assert (body["system"], body["messages"][:-1]) == (sent["system"], sent["messages"][:-1])
    content = sent["messages"][-1]["content"]
    assert (failing[-1]["content"], ["text"]) == (content[:1], [block["type"] for block in content[1:]])


async def test_claims_are_checked_against_search_results(start: Start) -> None:
    found = {
        "type": "search_result",
        "source": "https://t.example",
        "title": "Tides",
        "content": [text("High water is at noon in Bergen.")],
    }
    items = [{"role": "user", "content": [found, text("When is high water in Bergen?")]}]
    policy = "name: p\ndelivery: hold\nstages: [relevance: {}, claims: {}]\n"
    replies = [reply(message(text(said))) for said in ("High water is at noon in Bergen.", "High water is at midnight in Bergen.")]
    async with start(*replies, policy=policy, verifiers=ScriptedVerifiers()) as proxy:
        right, wrong = [await proxy.post({**ASK, "messages": items}, PATH) for _ in replies]
    assert ("1.00", "High water is at noon in Bergen.") == (right.headers["x-groundwire-faithfulness"], right.json["content"][0]["text"])
    assert "0.05" == wrong.headers["x-groundwire-faithfulness"]
    assert "x-groundwire-relevance" in right.headers


@pytest.mark.parametrize("cached", [False, True])
async def test_the_faithful_rules_stand_behind_cached_messages(start: Start, cached: bool) -> None:
    said = {**text("When is high water?"), **(MARK if cached else {})}
    body = {
        **ASK,
        "system": "You know tides.",
        "messages": [{"role": "user", "content": [said]}],
        "groundwire": {"context": [{"content": "High water is at noon."}]},
    }
    async with start(reply(message()), policy="name: p\ndelivery: hold\nstages: [relevance: {action: note}, faithful: {}]\n") as proxy:
        await proxy.post(body, PATH)
    sent = proxy.upstream.calls[0].json
    blocks = sent["messages"][0]["content"]
    assert "High water is at noon." in json.dumps(blocks)
    assert cached == (sent["system"] == "You know tides.")
    assert not any("cache_control" in block for block in blocks[1:])


async def test_a_long_conversation_is_trimmed_in_whole_turns(start: Start) -> None:
    turns = [
        item
        for i in range(30)
        for item in (
            {"role": "user", "content": f"Question {i}: what is in file {i}? " + "Please look closely. " * 10},
            {"role": "assistant", "content": [THINKING, use("read", {"n": i}, f"t{i}")]},
            {"role": "user", "content": [result(f"File {i} has {i} lines. " * 8, f"t{i}")]},
            {"role": "assistant", "content": f"It has {i} lines."},
        )
    ]
    body = {**ASK, "system": "You read files.", "messages": [*turns, {"role": "user", "content": "And now?"}], "tools": [tool("read")]}
    policy = "name: p\ndelivery: tap\nstages: [budget: {window: 4000, reserve_output_tokens: 100}, compression: {}]\n"
    async with start(reply(message()), policy=policy) as proxy:
        got = await proxy.post(body, PATH)
    sent = proxy.upstream.calls[0].json
    assert (200, "user", "You read files.") == (got.status, sent["messages"][0]["role"], sent["system"])
    assert len(sent["messages"]) < len(body["messages"])
    made = [block["id"] for item in sent["messages"] if isinstance(item["content"], list) for block in item["content"] if "input" in block]
    given = [
        b["tool_use_id"] for item in sent["messages"] if isinstance(item["content"], list) for b in item["content"] if "tool_use_id" in b
    ]
    assert made == given
    assert {"role": "user", "content": "And now?"} == sent["messages"][-1]
