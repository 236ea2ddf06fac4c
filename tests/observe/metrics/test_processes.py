"""Figures of several processes in one folder, written by real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.observe.metrics.reading import Series, parsed, value

pytestmark = pytest.mark.process

_ROOT = Path(__file__).parents[3]
_COUNT = """
import sys
from proxy.observe.finished import Finished
from proxy.observe.metrics import Metrics
from proxy.testing import make_exchange
metrics = Metrics()
metrics.watch("groundwire_records_waiting", lambda: 5.0)
metrics.count("records.lost", int(sys.argv[1]))
metrics.count("mine.own_count")
for ms in sys.argv[2:]:
    metrics.exchange(Finished(id="gw_1", route="/rag", verdict="pass", status=200, overhead_ms=float(ms), exchange=make_exchange()))
sys.stdout.buffer.write(metrics.prometheus())
sys.stdout.flush()
if sys.argv[1] == "9":
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""
_JSON = """
import json
from proxy.observe.metrics import Metrics
print(json.dumps(Metrics().as_json()))
"""


def process(folder: Path, code: str, *arguments: str) -> str:
    """What a process that shares `folder` prints."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder), "PYTHONPATH": str(_ROOT)}
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert "" == done.stderr
    return done.stdout


def counted(folder: Path, *arguments: str) -> Series:
    return parsed(process(folder, _COUNT, *arguments))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_counters_and_histograms_of_processes_that_have_ended_still_count(folder: Path) -> None:
    counted(folder, "3", "1", "40")
    counted(folder, "4", "1")
    found = counted(folder, "0", "700")
    assert (7.0, 3.0) == (value(found, "groundwire_records_lost_total"), value(found, "groundwire_mine_own_total"))
    assert (4.0, 4.0) == (value(found, "groundwire_exchanges_total"), value(found, "groundwire_overhead_seconds_count"))
    assert [2.0, 3.0, 4.0] == [value(found, "groundwire_overhead_seconds_bucket", le=le) for le in ("0.001", "0.05", "1.0")]
    assert pytest.approx(0.742) == value(found, "groundwire_overhead_seconds_sum")


def test_gauges_are_of_living_processes_only(folder: Path) -> None:
    counted(folder, "1")
    found = counted(folder, "1")
    assert (1.0, 5.0) == (value(found, "groundwire_workers"), value(found, "groundwire_records_waiting"))


def test_a_process_that_was_killed_counts_with_what_it_had_handed_on(folder: Path) -> None:
    counted(folder, "9", "1")
    assert 10.0 == value(counted(folder, "1"), "groundwire_records_lost_total")


def test_files_do_not_gather(folder: Path) -> None:
    for _ in range(4):
        counted(folder, "1", "2")
    found = counted(folder, "1", "2")
    assert 5.0 == value(found, "groundwire_records_lost_total")
    files = sorted(path.name for path in folder.glob("*.figures"))
    assert (2, "0.figures") == (len(files), files[0])  # those that have ended, and the last process


def test_the_dotted_counters_of_another_process_keep_their_names(folder: Path) -> None:
    counted(folder, "2")
    import json

    assert {"mine.own_count": 1.0, "records.lost": 2.0} == json.loads(process(folder, _JSON))["counters"]
