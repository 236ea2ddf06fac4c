"""Several workers' figures in one folder of files, one set for each process, as prometheus-client's multi-process mode writes them.

Counters and histograms of a process that has ended still count: they are added up into files of process 0, which is none, so that a server
whose workers come and go does not gather files. Gauges of such a process are forgotten. A lock keeps readers from seeing a sum half made.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, values
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder; ``groundwire serve`` sets it before prometheus-client is imported, which looks at it then."""


def folder() -> Path | None:
    """The folder, where workers share their figures."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


@contextmanager
def nobodys() -> Iterator[None]:
    """Figures that are made within are no process's: they get no files."""
    before = values.ValueClass
    values.ValueClass = values.MutexValue
    try:
        yield
    finally:
        values.ValueClass = before


def count_for_itself() -> None:
    """In a process that was forked: figures that are made from here on are its own, and have files of their own in the folder."""
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]


def collected(place: Path) -> Iterable[Metric]:
    """The families over all processes."""
    with _locked(place, alone=False):
        _forget_gauges(place)
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(place))  # type: ignore[no-untyped-call]
        return list(registry.collect())


def settle(place: Path) -> int:
    """Make the folder where there is none; add up the counters and histograms of the processes that have ended; how many files went."""
    place.mkdir(parents=True, exist_ok=True)
    with _locked(place, alone=True):
        dead = [path for path in place.glob("*.db") if _is_dead(_process(path))]
        for kind in ("counter", "histogram"):
            if files := [path for path in dead if path.name.startswith(f"{kind}_")]:
                _add_up(place / f"{kind}_0.db", files)
        for path in dead:
            path.unlink(missing_ok=True)
        return len(dead)


def _add_up(target: Path, files: list[Path]) -> None:
    values: dict[str, float] = defaultdict(float)
    for path in [*files, *([target] if target.exists() else [])]:
        for key, value, _, _ in MmapedDict.read_all_values_from_file(str(path)):  # type: ignore[no-untyped-call]
            values[key] += value
    made = target.with_suffix(".new")
    made.unlink(missing_ok=True)
    written = MmapedDict(str(made))  # type: ignore[no-untyped-call]
    for key, value in values.items():
        written.write_value(key, value, 0.0)  # type: ignore[no-untyped-call]
    written.close()  # type: ignore[no-untyped-call]
    made.replace(target)


def _forget_gauges(place: Path) -> None:
    for path in place.glob("gauge_*.db"):
        if _is_dead(_process(path)):
            path.unlink(missing_ok=True)


def _process(path: Path) -> int:
    number = path.stem.rpartition("_")[2]
    return int(number) if number.isdigit() else 0


def _is_dead(process: int) -> bool:
    if not process:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # another user's: it lives
        return False
    return False


@contextmanager
def _locked(place: Path, *, alone: bool) -> Iterator[None]:
    """With the folder's lock, shared or `alone`."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with open(place / "lock", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
