"""How often a turn of an agent asks its store, counted: on the way to PostgreSQL, and as SQLite's statements."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy.util import await_only

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.store import drivers
from proxy.testing import ScriptedUpstream, completion, reply, serving

POLICIES = Path(__file__).parents[2] / "policies"
MOST = 4
"""Round trips that an answer waits for."""
FIRST = 6
"""Turns that open connections, prepare statements and read models."""
TURNS = 10
FAILS = 7
"""After this turn, where a counted one is to bring a failure that is new: to remember it is a statement of its own."""


class Relay:
    """Stands before PostgreSQL and counts: what is sent after an answer is another round trip."""

    def __init__(self, port: int) -> None:
        self._port, self.trips, self.port = port, 0, 0

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, there = await asyncio.open_connection("127.0.0.1", self._port)
        answered = True

        async def ask() -> None:
            nonlocal answered
            while data := await reader.read(65536):
                self.trips += answered
                answered = False
                there.write(data)
            there.close()

        async def answer() -> None:
            nonlocal answered
            while data := await answers.read(65536):
                answered = True
                writer.write(data)
            writer.close()

        await asyncio.gather(ask(), answer(), return_exceptions=True)


class Statements:
    """Counts what SQLite is told but for the ends of transactions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trips = 0
        set_up = drivers.set_up_connection

        def traced(connection: Any, busy_timeout_ms: int) -> None:
            set_up(connection, busy_timeout_ms)
            await_only(connection.driver_connection.set_trace_callback(self._count))

        monkeypatch.setattr(drivers, "set_up_connection", traced)

    def _count(self, statement: str) -> None:
        self.trips += not statement.startswith(("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA"))


@asynccontextmanager
async def proxy(folder: Path, policy: str, store: str) -> AsyncIterator[tuple[App, ScriptedUpstream, str]]:
    """Without what runs every few seconds."""
    async with ScriptedUpstream(reply(completion())) as upstream:
        (folder / "config.yaml").write_text(
            f"store: {{url: '{store}'}}\n"
            f"upstreams: {{main: {{kind: openai, base_url: '{upstream.base_url}'}}}}\n"
            f"routes: [{{upstream: main, policy: '{POLICIES / policy}.yaml'}}]\n"
        )
        app = App(load_settings(folder / "config.yaml", {}))
        for part in (app.retention, app.rollups, app.processes):
            part.start = lambda *_: None  # type: ignore[method-assign, assignment]
        async with serving(app) as url:
            yield app, upstream, url


def call(turn: int) -> dict[str, Any]:
    function = {"name": f"tool_{turn % 12}", "arguments": json.dumps({"path": f"/a/{turn}"})}
    tool_call = {"id": f"call_{turn}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [tool_call]}


def tools() -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    described = [{"name": f"tool_{n}", "description": f"Reads thing {n} from the user's disk", "parameters": parameters} for n in range(12)]
    return [{"type": "function", "function": one} for one in described]


async def counted(folder: Path, policy: str, store: str, count: Relay | Statements, *, failing: tuple[int, ...] = (1,)) -> list[int]:
    """Of each turn behind the first ones, how often the store was asked until the answer was there; the tools of `failing` turns fail."""
    found: list[int] = []
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent that works on files, with care."}]
    messages.append({"role": "user", "content": "Please read the files and tell me what stands in them. My name is Ann."})
    async with proxy(folder, policy, store) as (app, upstream, url), aiohttp.ClientSession() as session:
        submit, submitted = app.records_writer.submit, list[str]()
        app.records_writer.submit = lambda record: (submitted.append(record.id), submit(record))[1]  # type: ignore[method-assign]
        for turn in range(TURNS):
            said = call(turn)
            upstream.say(reply(completion(choices=[{"index": 0, "message": said, "finish_reason": "tool_calls"}])))
            await app.records_writer.flush()
            before = count.trips
            body = {"model": "gpt-4o", "messages": messages, "tools": tools()}
            async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()
            found.append(count.trips - before)
            while app.learning_tasks._tasks or len(submitted) <= turn:  # on a busy machine it may be written already
                await asyncio.sleep(0.005)
            failed, read = f"Error: /a/{turn} was not found", f"File {turn} is about an invoice of {400 + turn} euros, due on 3 May 2024."
            messages += [said, {"role": "tool", "tool_call_id": f"call_{turn}", "content": failed if turn in failing else read}]
    return found[FIRST:]


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgres"])
@pytest.mark.parametrize("policy", ["default", "agent"])
async def test_an_answer_waits_for_four_round_trips_at_most(tmp_path: Path, url: str, policy: str) -> None:
    address, _, database = url.rpartition("/")
    host, _, port = address.rpartition(":")
    async with Relay(int(port)) as relay:
        # Over one connection: each prepares a statement once for itself.
        trips = await counted(tmp_path, policy, f"{host}:{relay.port}/{database}?pool_size=1", relay)
    assert max(trips) <= MOST, trips


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgres"])
@pytest.mark.parametrize("policy", ["default", "agent"])
async def test_a_turn_with_a_new_failure_waits_for_one_more(tmp_path: Path, url: str, policy: str) -> None:
    address, _, database = url.rpartition("/")
    host, _, port = address.rpartition(":")
    async with Relay(int(port)) as relay:
        trips = await counted(tmp_path, policy, f"{host}:{relay.port}/{database}?pool_size=1", relay, failing=(1, 3, FAILS))
    assert trips[FAILS + 1 - FIRST] <= MOST + 1, trips


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("policy", ["default", "agent"])
async def test_sqlite_is_told_as_little(tmp_path: Path, url: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = Statements(monkeypatch)
    told = await counted(tmp_path, policy, url, statements)
    assert max(told) <= MOST, told
