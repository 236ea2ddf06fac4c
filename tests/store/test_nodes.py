"""Two nodes of one store: what one of them has answered, the other one knows as soon as the client does."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proxy.testing import ScriptedUpstream
from proxy.testing.upstream import ReceivedCall, reply, stream
from tests.processes import PATIENCE_S, Process, served
from tests.responses_api import events, response, text_item
from tests.store.conftest import execute

pytestmark = pytest.mark.process
PATH = "/v1/responses"
POLICIES = {
    "tap": "name: nodes\ndelivery: tap\nstages: [budget: {window: 100000}]\n",
    "gate": "name: nodes\ndelivery: gate\nstages: [budget: {window: 100000}, confidence: {}]\n",
    "hold": "name: nodes\ndelivery: hold\nstages: [budget: {window: 100000}, confidence: {}]\n",
}


def numbered() -> ScriptedUpstream:
    """A provider each of whose responses has an id of its own; streamed where the request says so."""
    numbers = itertools.count(1)

    async def answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        identity = f"resp_{next(numbers)}"
        said = text_item(f"That is {identity}.")
        made = stream(events(said, id=identity)) if call.json.get("stream") else reply(response(said, id=identity))
        await made(writer, call)

    return ScriptedUpstream(answer)


@asynccontextmanager
async def nodes(folder: Path, base_url: str, policy: str, store: str) -> AsyncIterator[list[Process]]:
    """Two servers."""
    async with AsyncExitStack() as stack:
        found = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            found.append(await stack.enter_async_context(served(folder / name, base_url, policy=policy, store=store)))
        yield found


async def turn(session: aiohttp.ClientSession, node: Process, previous: str, *, streamed: bool) -> tuple[str, str]:
    """Go on from `previous`: the new response's id, as soon as the client knows that it is whole, and the record's warnings."""
    body = {"model": "gpt-5", "input": "And then?", "stream": streamed, **({"previous_response_id": previous} if previous else {})}
    async with session.post(node.url + PATH, json=body) as answer:
        assert answer.status == 200, await answer.text()
        warnings = answer.headers.get("x-groundwire-warnings", "")
        if not streamed:
            return json.loads(await answer.read())["id"], warnings
        async for line in answer.content:
            if line.startswith(b"data: ") and b'"response.completed"' in line:
                return json.loads(line[6:])["response"]["id"], warnings
    raise AssertionError("the stream had no end")


async def conversation(session: aiohttp.ClientSession, found: list[Process], turns: int) -> Counter[str]:
    """So many turns, each at the other node than the one before; the warnings of all but the first."""
    counted, previous = Counter[str](), ""
    for number in range(turns):
        previous, warnings = await turn(session, found[number % 2], previous, streamed=number % 3 != 0)
        if number:
            counted.update(warnings.split(",") if warnings else ["none"])
    return counted


@pytest.mark.parametrize("delivery", POLICIES)
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_what_a_client_goes_on_from_is_there_at_the_other_node(tmp_path: Path, url: str, delivery: str) -> None:
    async with (
        numbered() as upstream,
        nodes(tmp_path, upstream.base_url, POLICIES[delivery], url) as found,
        aiohttp.ClientSession() as session,
    ):
        counted = sum(await asyncio.gather(*(conversation(session, found, 86) for _ in range(4))), Counter[str]())
    assert 340 == counted.total()
    assert 0 == counted["history_not_seen"], counted


def held_back() -> tuple[ScriptedUpstream, asyncio.Event]:
    """A provider whose streams stop in their middle, and what lets them go on."""
    go = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        if call.json.get("stream"):
            await stream(events(text_item("A whole sentence. Another one.")), wait={5: go})(writer, call)
        else:
            await reply(response(text_item("Done.")))(writer, call)

    return ScriptedUpstream(answer), go


async def listed(session: aiohttp.ClientSession, node: Process, record_id: str) -> dict[str, Any]:
    async with session.get(f"{node.url}/groundwire/v1/records/{record_id}") as answer:
        return {**(await answer.json()), "http": answer.status}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_a_node_that_is_killed_loses_no_exchange_that_a_client_has_seen(tmp_path: Path, url: str) -> None:
    upstream, _ = held_back()
    policy = POLICIES["tap"]
    async with upstream, nodes(tmp_path, upstream.base_url, policy, url) as (one, other), aiohttp.ClientSession() as session:

        async def seen(*, streamed: bool) -> str:
            async with session.post(one.url + PATH, json={"model": "gpt-5", "input": "Hi", "stream": streamed}) as answer:
                if not streamed:
                    await answer.read()
                return str(answer.headers["x-groundwire-id"])

        ids = [await seen(streamed=False) for _ in range(60)]
        opened = [session.post(one.url + PATH, json={"model": "gpt-5", "input": "Hi", "stream": True}) for _ in range(20)]
        answers = await asyncio.gather(*(request.__aenter__() for request in opened))
        ids += [str(answer.headers["x-groundwire-id"]) for answer in answers]
        one.signal(signal.SIGKILL)
        for answer in answers:
            answer.close()
        records = [await listed(session, other, record_id) for record_id in ids]
        await age(url)
        await other.line("exchanges were interrupted")
        later = [await listed(session, other, record_id) for record_id in ids[60:]]
        async with session.get(f"{other.url}/groundwire/v1/verdicts/{ids[-1]}") as verdict:
            told = (verdict.status, (await verdict.json())["verdict"])
    assert [200] * 80 == [record["http"] for record in records]
    assert {"pending", "interrupted"} >= {record["outcome"] for record in records[60:]}  # the other may have seen it at once
    assert [("interrupted", "process_ended")] * 20 == [(record["outcome"], record["reason"]) for record in later]
    assert (200, "interrupted") == told


async def age(url: str) -> None:
    """As if the processes that said nothing since had been silent for long: their signs of life are an hour old."""
    commands = "UPDATE memory SET used_at = used_at - 3600 WHERE kind = 'process'", "UPDATE records SET created_at = created_at - 3600"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10)) as connection, connection:
            for command in commands:
                connection.execute(command)
    else:
        await execute(url, *commands)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_a_stream_whose_client_leaves_has_its_record(tmp_path: Path, url: str) -> None:
    upstream, _ = held_back()
    async with upstream, nodes(tmp_path, upstream.base_url, POLICIES["tap"], url) as (one, other), aiohttp.ClientSession() as session:
        async with session.post(one.url + PATH, json={"model": "gpt-5", "input": "Hi", "stream": True}) as answer:
            record_id = answer.headers["x-groundwire-id"]
            await answer.content.readany()
            answer.close()
        async with asyncio.timeout(PATIENCE_S):
            while (found := await listed(session, other, record_id))["outcome"] == "pending":
                await asyncio.sleep(0.05)
    assert 499 == found["status"]
