"""Which versions a process runs: in ``/ready``, in records, and where processes differ on the dashboard."""

import hashlib
import time
from pathlib import Path

import pytest

from proxy.config.access import Clients
from proxy.config.keys import KeySettings, Limits
from tests.admin.pages import Browser
from tests.conftest import Start

KEYS = "keys: [{name: ann, sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae}]\n"  # sha256 of foo


@pytest.mark.slow
async def test_ready_and_records_say_which_policies_keys_and_knowledge_count(start: Start, tmp_path: Path) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "a.csv").write_text("statement\nWater is wet.\n")
    async with start(policy="name: p\ndelivery: tap\nstages: [knowledge: {folder: facts}]\n", config=KEYS) as proxy:
        record = await proxy.record(await proxy.post(authorization="Bearer foo"))
        runs = (await proxy.get("/ready")).json["runs"]
    [verdict] = [one for one in record["detail"]["verdicts"] if one["stage"] == "knowledge"]
    assert {"/": record["policy"]} == runs["policies"]
    assert (record["detail"]["keys"], {"facts": verdict["detail"]["version"]}) == (runs["keys"], runs["knowledge"])


async def test_without_keys_and_knowledge_there_are_no_versions_of_them(start: Start) -> None:
    async with start() as proxy:
        assert {"version", "policies"} == {*(await proxy.get("/ready")).json["runs"]}


def test_another_key_or_limit_is_another_version() -> None:
    one, other = (KeySettings(name="a", sha256=hashlib.sha256(text.encode()).hexdigest()) for text in ("1", "2"))
    limited = KeySettings(name="a", sha256=one.sha256, limits=Limits(rpm=1))
    versions = [Clients(keys).version({}) for keys in ((one,), (other,), (limited,), (one, other), (other, one))]
    assert (4, versions[3]) == (len({*versions}), versions[4])
    assert versions[0] != Clients((one,)).version({"team": Limits(rpm=1)})


async def test_the_dashboard_says_in_what_processes_differ(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        assert "Drift" not in (await browser.page()).text
        proxy.app.processes.drift = ("policies",)
        text = (await browser.page()).text
    assert "Drift: the processes of this store differ in policies. This one runs policies / empty@" in text


async def test_ready_and_the_dashboard_say_that_the_clock_is_wrong(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        assert "Clock" not in (await browser.page()).text
        clock = proxy.app.database.clock
        clock.compare(clock() + 3600.0, time.monotonic())
        text, runs = (await browser.page()).text, (await proxy.get("/ready")).json["runs"]
    assert "Clock: this machine's clock is -3600 s from the store's" in text
    assert runs["clock"].startswith("this machine's clock is -3600 s")
