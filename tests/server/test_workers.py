"""Worker processes are forked from one that has read what they share, where that is safe, and spawned elsewhere."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from proxy.server import startup
from proxy.testing import ScriptedUpstream, completion, reply
from tests.processes import PATIENCE_S, Process, free_port, served
from tests.test_workers import all_up, ask

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are spawned")
pytestmark = [pytest.mark.process, linux]
DEFAULT = (Path(__file__).parents[2] / "policies" / "default.yaml").read_text("utf-8")
OWN_STAGE = """
from proxy.ports.stage import Stage

class Own(Stage):
    name = "own"
"""


@asynccontextmanager
async def two_workers(folder: Path, policy: str = DEFAULT) -> AsyncIterator[Process]:
    async with (
        ScriptedUpstream(reply(completion())) as upstream,
        served(folder, upstream.base_url, port=free_port(), server="{workers: 2}", policy=policy) as proxy,
    ):
        await all_up(proxy)
        yield proxy


def serving(proxy: Process) -> dict[int, str]:
    """The workers' command lines."""
    found = Path(f"/proc/{proxy.id}/task/{proxy.id}/children").read_text().split()
    lines = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in found}
    return {child: line for child, line in lines.items() if "resource_tracker" not in line}


def shared_mb(process: int) -> float:
    """Memory of a process that nobody has written to since the fork."""
    found = re.search(r"^Shared_Dirty: +(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text(), re.M)
    assert found
    return int(found[1]) / 1024


async def test_the_vocabulary_and_the_program_are_held_once_for_all_workers(tmp_path: Path) -> None:
    async with two_workers(tmp_path) as proxy:
        assert [200] * 8 == [await ask(proxy.url) for _ in range(8)]
        found = [shared_mb(process) for process in serving(proxy)]
    assert 2 == len(found)
    assert min(found) > 50, found  # of some 80: the vocabulary alone is 40


async def test_stages_of_an_operators_own_are_imported_by_each_worker_for_itself(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_STAGE)
    async with two_workers(tmp_path, "name: p\ndelivery: tap\nstages: ['own.py:Own']\n") as proxy:
        assert ["spawn_main" in line for line in serving(proxy).values()] == [True, True]


async def test_a_worker_that_is_told_to_end_goes_and_another_takes_its_place(tmp_path: Path) -> None:
    async with two_workers(tmp_path) as proxy:
        before = serving(proxy)
        os.kill(min(before), signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            while len(after := serving(proxy)) < 2 or min(before) in after:
                await asyncio.sleep(0.05)
        await all_up(proxy)
        assert 200 == await ask(proxy.url)
        proxy.signal(signal.SIGTERM)
        assert 0 == await proxy.ended()
    assert [] == [line for line in proxy.lines if re.search("Traceback|ERROR", line)]


async def test_a_reload_says_what_each_new_worker_serves_and_a_wrong_policy_replaces_nothing(tmp_path: Path) -> None:
    async with two_workers(tmp_path, "name: before\ndelivery: tap\nstages: []\n") as proxy:
        before = serving(proxy)
        (tmp_path / "policy.yaml").write_text("name: after\ndelivery: tap\nstages:\n  - budget: {warn_att: 0.5}\n")
        proxy.signal(signal.SIGHUP)
        refused = await proxy.line("SIGHUP: nothing is replaced")
        assert before == serving(proxy)
        (tmp_path / "policy.yaml").write_text("name: after\ndelivery: tap\nstages: []\n")
        proxy.signal(signal.SIGHUP)
        await proxy.line("SIGHUP: 2 workers are replaced")
        async with asyncio.timeout(PATIENCE_S):
            while len([line for line in proxy.lines if "serves the policies after@" in line]) < 2 or {*before} & {*serving(proxy)}:
                await asyncio.sleep(0.05)
        await all_up(proxy)
        proxy.signal(signal.SIGTERM)
        assert 0 == await proxy.ended()
    place = f"{tmp_path}/policy.yaml:4: stages[0].budget: unknown key 'warn_att'"
    assert "2 workers go on as they are" in refused
    assert place in refused
    assert 2 == sum("serves the policies before@" in line for line in proxy.lines)
    assert 1 == sum("SIGTERM: 2 workers end" in line for line in proxy.lines)
    assert [] == [line for line in proxy.lines if "Traceback" in line or "not ready in time" in line]


async def test_a_worker_in_the_place_of_one_that_ended_says_in_a_line_why_it_cannot_start(tmp_path: Path) -> None:
    async with two_workers(tmp_path, "name: p\ndelivery: tap\nstages: []\n") as proxy:
        (tmp_path / "policy.yaml").write_text("name: p\ndelivery: tap\nstagess: []\n")
        os.kill(min(serving(proxy)), signal.SIGTERM)
        refused = await proxy.line("cannot start")
        (tmp_path / "policy.yaml").write_text("name: p\ndelivery: tap\nstages: []\n")
        assert 200 == await ask(proxy.url)
    assert f"{tmp_path}/policy.yaml:3: stagess: unknown key" in refused
    assert [] == [line for line in proxy.lines if "Traceback" in line]


def test_a_process_with_several_threads_is_not_forked() -> None:
    over = threading.Event()
    beside = threading.Thread(target=over.wait)
    beside.start()
    try:
        made = startup._process(uvicorn.Config("app"), lambda sockets: None, [])
    finally:
        over.set()
        beside.join()
    assert "SpawnProcess" == type(made).__name__


def test_what_is_preloaded_counts_for_nobody_and_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "policy.yaml").write_text(DEFAULT, encoding="utf-8")
    (tmp_path / "config.yaml").write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/store.db'}}\n"
        "upstreams: {main: {kind: openai, base_url: 'http://127.0.0.1:9/v1', api_key: forward}}\n"
        "routes: [{prefix: '', upstream: main, policy: policy.yaml}]\n"
    )
    code = (
        "import os, sys; from pathlib import Path; from proxy.app import preload; from proxy.config.settings import load_settings\n"
        "preload(load_settings(Path(sys.argv[1]))); print(len(os.listdir('/proc/self/task')), *Path(sys.argv[2]).glob('*.db'))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "config.yaml"), str(tmp_path / "figures")],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "figures")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ("1\n", "") == (ended.stdout, ended.stderr)
    assert not (tmp_path / "store.db").exists()
