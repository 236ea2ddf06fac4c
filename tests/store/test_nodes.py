"""Two nodes of one store: what one of them has answered, the other one knows as soon as the client does."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from proxy.testing import ScriptedUpstream
from proxy.testing.upstream import ReceivedCall, reply, stream
from tests.processes import Process, served
from tests.responses_api import events, response, text_item

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
