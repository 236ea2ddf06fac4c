"""A store that cannot be had: requests are answered, /ready stays and says it beside, the counters tell what was not recorded."""

import asyncio
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.testing import ScriptedUpstream, completion, reply, serving
from tests.conftest import Running, Start


def figure(exposition: bytes, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", exposition.decode(), re.M)
    return float(found[1]) if found else 0.0


async def until(condition: Any) -> Any:
    """Poll what happens in the background."""
    async with asyncio.timeout(15):
        while not (found := await condition()):
            await asyncio.sleep(0.02)
    return found


def store_at(path: object) -> str:
    return f"store: {{url: 'sqlite+aiosqlite:///{path}'}}\n"


class Elsewhere:
    """A proxy like that of the `start` fixture, with its store at `path`."""

    def __init__(self, folder: Path, path: object) -> None:
        self._folder, self._path = folder, path

    async def __aenter__(self) -> Running:
        self._upstream = ScriptedUpstream(reply(completion()))
        await self._upstream.__aenter__()
        (self._folder / "policy.yaml").write_text("name: empty\ndelivery: tap\nstages: []\n")
        config = self._folder / "config.yaml"
        config.write_text(
            store_at(self._path)
            + f"upstreams: {{main: {{kind: openai, base_url: '{self._upstream.base_url}'}}}}\nroutes: [{{upstream: main, policy: policy.yaml}}]\n"
        )
        self.app = App(load_settings(config, {}))
        self._serving = serving(self.app)
        url = await self._serving.__aenter__()
        self._session = aiohttp.ClientSession()
        return Running(self.app, self._upstream, url, self._session)

    async def __aexit__(self, *exc: object) -> None:
        await self._session.close()
        await self.app.records_writer.stop(deadline_s=0.01)  # there is nothing to wait for
        await self._serving.__aexit__(None, None, None)
        await self._upstream.__aexit__(None)


async def test_a_store_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path, tmp_path / "missing" / "store.db")
    async with elsewhere as proxy:
        answers = [await proxy.post() for _ in range(3)]
        ready, health = await proxy.get("/ready"), await proxy.get("/health")
        records = await proxy.get("/groundwire/v1/records")
        exposition = await until(lambda: _with_errors(proxy))
    assert [200] * 3 == [a.status for a in answers]
    assert (200, 200, "away") == (ready.status, health.status, dict(ready.headers)["x-groundwire-store"])
    assert f"the folder {tmp_path}/missing does not exist" in ready.json["store"]["problem"]
    assert (503, "overloaded") == (records.status, records.json["error"]["code"])
    assert figure(exposition, "groundwire_records_write_errors_total") >= 1


async def _with_errors(proxy: Running) -> bytes | None:
    exposition = (await proxy.get("/metrics")).body
    return exposition if figure(exposition, "groundwire_records_write_errors_total") else None


async def test_a_store_that_says_nothing_takes_no_node_out(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start() as proxy:
        silent, asked = asyncio.Event(), []

        async def ping() -> None:
            asked.append(1)
            await silent.wait()

        monkeypatch.setattr(proxy.app.database, "ping", ping)
        async with asyncio.timeout(proxy.app.database.timeout_s):  # a query has so long
            found = [await proxy.get("/ready") for _ in range(2)]
        assert [(200, {"status": "away", "problem": "the store gave no answer within 0.5 s"})] * 2 == [
            (one.status, one.json["store"]) for one in found
        ]
        assert 1 == len(asked)
        silent.set()
        assert (200, {"status": "ok"}) == ((ready := await proxy.get("/ready?store=1")).status, ready.json["store"])


async def test_a_folder_that_comes_gets_the_records_that_waited(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    async with Elsewhere(tmp_path, folder / "store.db") as proxy:
        answer = await proxy.post()
        folder.mkdir()
        await until(lambda: _ready(proxy))
        assert 200 == (await proxy.record(answer))["status"]


async def _ready(proxy: Running) -> bool:
    return (await proxy.get("/ready?store=1")).status == 200


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write")
async def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    async with Elsewhere(tmp_path, "/proc/store.db") as proxy:
        assert 200 == (await proxy.post()).status
        assert (503, "away") == ((ready := await proxy.get("/ready?store=1")).status, ready.json["store"]["status"])


async def test_a_store_that_is_a_folder(tmp_path: Path) -> None:
    async with Elsewhere(tmp_path, tmp_path) as proxy:
        assert 200 == (await proxy.post()).status
        assert (503, "away") == ((ready := await proxy.get("/ready?store=1")).status, ready.json["store"]["status"])


async def test_a_store_that_is_locked_delays_nobody_and_gets_its_records_later(start: Start, tmp_path: Path) -> None:
    async with start() as proxy:
        await proxy.record(await proxy.post())
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)) as other:
            await asyncio.to_thread(other.execute, "BEGIN EXCLUSIVE")  # the proxy's own writers may be in mid-transaction
            before = time.monotonic()
            answers = await asyncio.gather(*(proxy.post() for _ in range(20)))
            took_s = time.monotonic() - before
            waiting = len(proxy.app.records_writer)
            other.execute("ROLLBACK")
        listed = (await _flushed(proxy))["data"]
        lost = figure((await proxy.get("/metrics")).body, "groundwire_records_lost_total")
    assert [200] * 20 == [a.status for a in answers]
    assert took_s < 1.5
    assert (20, 21, 0.0) == (waiting, len(listed), lost)


async def test_a_store_that_takes_no_records_is_away_though_it_can_be_reached(start: Start, tmp_path: Path) -> None:
    async with start() as proxy:
        await proxy.record(await proxy.post())
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)) as other:
            # As on a full disk, all but the insert works. In a thread: the proxy's own writers may be in mid-transaction.
            await asyncio.to_thread(other.execute, "ALTER TABLE records RENAME TO elsewhere")
            await proxy.post()
            told = await until(lambda: _not_ready(proxy, "wait to be written"))
            await asyncio.to_thread(other.execute, "ALTER TABLE elsewhere RENAME TO records")
        assert await until(lambda: _is_ready(proxy))
    assert "wait to be written" in told["store"]["problem"]


async def test_a_store_without_the_table_of_what_is_remembered_is_away(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.store.processes.BEAT_S", 0.05)
    monkeypatch.setattr("proxy.store.processes.CHANGE_S", 0.05)
    async with start() as proxy:
        await until(lambda: _is_ready(proxy))
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)) as other:
            await asyncio.to_thread(other.execute, "ALTER TABLE memory RENAME TO elsewhere")
            told = await until(lambda: _not_ready(proxy, "cannot say that it lives"))
            await asyncio.to_thread(other.execute, "ALTER TABLE elsewhere RENAME TO memory")
        assert await until(lambda: _is_ready(proxy))
    assert "no such table: memory" in told["store"]["problem"]


async def _not_ready(proxy: Running, problem: str = "") -> Any:
    found = await proxy.get("/ready?store=1")
    return found.json if found.status == 503 and problem in found.json["store"]["problem"] else None


async def _is_ready(proxy: Running) -> bool:
    return (await proxy.get("/ready?store=1")).status == 200


async def _flushed(proxy: Running) -> Any:
    await proxy.app.records_writer.flush()
    return (await proxy.get("/groundwire/v1/records?limit=100")).json


async def test_a_store_file_that_is_deleted_is_noticed_and_made_anew(start: Start, tmp_path: Path) -> None:
    async with start() as proxy:
        await proxy.record(await proxy.post())
        for file in tmp_path.glob("store.db*"):
            file.unlink()
        assert 200 == (await proxy.post()).status
        await until(lambda: _ready(proxy))
        after = await proxy.post()
        assert (await _record_of(proxy, after))["id"] == after.headers["x-groundwire-id"]
    assert (tmp_path / "store.db").is_file()


async def _record_of(proxy: Running, answer: Any) -> Any:
    async def found() -> Any:
        got = await proxy.get(f"/groundwire/v1/records/{answer.headers['x-groundwire-id']}")
        return got.json if got.status == 200 else None

    return await until(found)


async def test_records_that_can_never_be_written_are_counted_as_lost_at_the_end(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path, tmp_path / "missing" / "store.db")
    async with elsewhere as proxy:
        for _ in range(3):
            await proxy.post()
        await elsewhere.app.records_writer.stop(deadline_s=0.01)
        exposition = (await proxy.get("/metrics")).body
    assert 3.0 == figure(exposition, "groundwire_records_lost_total")


CLOSED = "name: p\ndelivery: hold\nstages:\n- poisoning: {injections: quarantine, on_error: closed}\n"


async def test_a_closed_policy_without_its_store_asks_to_come_again(start: Start) -> None:
    messages = [
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "Rain in Oslo."},
    ]
    async with start(policy=CLOSED) as proxy:
        await proxy.app.database.stop()
        answer = await proxy.post({"model": "m", "messages": messages})
    assert (503, "overloaded", "poisoning_unchecked") == (answer.status, *(answer.json["error"][name] for name in ("code", "param")))
    assert "1" == answer.headers["retry-after"]
