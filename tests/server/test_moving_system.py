"""Thirty turns of a coding agent whose system message moves with every request: one run, and what was decided in it is kept."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from proxy.testing import reply
from tests.conftest import Start
from tests.messages import message, text

AGENT = (Path(__file__).parents[2] / "policies/agent.yaml").read_text(encoding="utf-8")
TURNS = 30
WINDOW = "models: {claude-sonnet-4-6: {window: 9000, max_output_tokens: 256, encoding: o200k_base}}\n"
TOOLS = [
    {"name": name, "description": name.replace("_", " "), "input_schema": {"type": "object"}}
    for name in [
        f"{verb}_{thing}"
        for verb in ("find", "book", "cancel", "rate")
        for thing in ("flight", "hotel", "car", "table", "train", "taxi", "guide", "tour")
    ]
]


def system(turn: int) -> list[dict[str, Any]]:
    return [
        text(f"x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch={turn * 7919:05x};"),
        text(f"You are a coding agent that works carefully. It is 10:{turn:02d} now. Tokens so far: {turn * 311}."),
    ]


def shared(before: bytes, after: bytes) -> int:
    """Bytes at their beginning that are the same."""
    return next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))


async def conversation(start: Start, *, moves: bool) -> tuple[set[str], list[list[str]], float, list[str]]:
    """Runs, names of the tools sent, the share of each request's turns with which the next one begins, what compression said."""
    turns, runs, said = [], set(), []
    async with start(reply(message(text("Done, and the tests pass."))), policy=AGENT, config=WINDOW) as proxy:
        await proxy.app.models.load()
        for i in range(TURNS):
            words = " ".join(f"{'move' if moves else 'stay'}{i}word{k}" for k in range(60))
            turns.append({"role": "user", "content": f"Step {i}: {words}"})
            body = {"model": "claude-sonnet-4-6", "max_tokens": 50, "system": system(i if moves else 1), "messages": turns, "tools": TOOLS}
            got = await proxy.post(body, "/v1/messages")
            runs.add((await proxy.record(got))["run_id"])
            said.append(got.headers["x-groundwire-compression"])
            turns.append({"role": "assistant", "content": "Done, and the tests pass."})
        calls = [call.json for call in proxy.upstream.calls]
    sent = [json.dumps(call["messages"])[:-1].encode() for call in calls]
    stable = sum(shared(a, b) for a, b in pairwise(sent)) / sum(map(len, sent[:-1]))
    return runs, [[tool["name"] for tool in call.get("tools", [])] for call in calls], stable, said


async def test_thirty_turns_are_one_run_that_keeps_what_it_decided(start: Start) -> None:
    runs, tools, stable, said = await conversation(start, moves=True)
    assert 1 == len(runs)
    assert all(set(before) <= set(after) for before, after in pairwise(tools))
    assert sum(one.startswith("stored") for one in said) >= sum(one.startswith("summarize") for one in said)
    _, _, still, _ = await conversation(start, moves=False)
    assert stable >= 0.98 * still
