"""Plain numbers that are raised on the request's path, and what they are at one moment, over all workers.

The path only adds to a Python number (`Count`, `Spread`); everything runs on the event loop's thread. A `Reading` is made when somebody
asks. Where several workers share their figures, each writes its reading into a file of a folder once a second, and whoever asks adds the
files up. What a process counted still counts when it has ended: it goes into the file of process 0, which is none, so that files do not
gather. Its gauges do not. A lock keeps readers from seeing a sum half made.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import msgspec
from msgspec import Struct, field
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from proxy.observe.metrics.families import FAMILIES, GAUGES

OTHER = "other"
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder; ``groundwire serve`` sets it."""
_PLAIN = re.compile(r"[\w./:@+-]{1,100}", re.ASCII)
_BY_NAME = {family.name: family for family in FAMILIES}
_GAUGES = {name: text for name, text, _ in GAUGES}
Key = tuple[str, ...]
"""A family's name, and the values of its labels."""


class Names:
    """Label values that come from elsewhere: the first `most` distinct ones are themselves, every later one is ``other``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The label for `name`; what is not a plain word of at most 100 characters is ``other``, too."""
        found = self._known.get(name)
        if found is not None:
            return found
        if len(self._known) >= self._most or not _PLAIN.fullmatch(name):
            return OTHER
        self._known[name] = name
        return name


class Count:
    """A counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0
        """To be raised directly."""


class Spread:
    """A histogram: how many values are in each of its buckets, the last of which has no upper edge, and their sum."""

    __slots__ = ("counts", "edges", "total")

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = edges
        self.counts, self.total = [0] * (len(edges) + 1), 0.0

    def observe(self, value: float) -> None:
        """Count `value`."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value


class Counts:
    """All of a process, by family and labels; each is made once and then kept by who raises it."""

    def __init__(self) -> None:
        self._counts: dict[Key, Count] = {}
        self._spreads: dict[Key, Spread] = {}
        self._plain: dict[str, tuple[str, str, Count]] = {}
        self._probes: dict[str, Callable[[], float]] = {}

    def count(self, family: str, *labels: str) -> Count:
        """The counter `family` with these labels."""
        found = self._counts.get((family, *labels))
        if found is None:
            found = self._counts[family, *labels] = Count()
        return found

    def spread(self, family: str, *labels: str) -> Spread:
        """The histogram `family` with these labels."""
        found = self._spreads.get((family, *labels))
        if found is None:
            found = self._spreads[family, *labels] = Spread(_BY_NAME[family].edges)
        return found

    def plain(self, name: str, dotted: str, text: str) -> Count:
        """A counter without labels that is in no list. Raises `ValueError` for a name of one that is."""
        if name in _BY_NAME or name in _GAUGES:
            raise ValueError(f"{name} is another figure's name")
        return self._plain.setdefault(name, (dotted, text, Count()))[2]

    def watch(self, gauge: str, probe: Callable[[], float]) -> None:
        """Ask `probe` whenever figures are read."""
        self._probes[gauge] = probe

    def reading(self) -> Reading:
        """As they are now."""
        return Reading(
            {key: one.value for key, one in self._counts.items()},
            {key: (one.counts[:], one.total) for key, one in self._spreads.items()},
            {name: (dotted, text, one.value) for name, (dotted, text, one) in self._plain.items()},
            {name: probe() for name, probe in self._probes.items()},
        )


class Reading(Struct):
    """Figures at one moment, of one process or of all."""

    counts: dict[Key, float] = field(default_factory=dict)
    spreads: dict[Key, tuple[list[int], float]] = field(default_factory=dict)
    plain: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    """By Prometheus' name: the dotted name, what it counts, how many."""
    gauges: dict[str, float] = field(default_factory=dict)

    def add(self, other: Reading) -> None:
        """Add another process's figures."""
        for key, value in other.counts.items():
            self.counts[key] = self.counts.get(key, 0.0) + value
        for key, (counts, total) in other.spreads.items():
            before, sum_ = self.spreads.get(key, ([0] * len(counts), 0.0))
            self.spreads[key] = [a + b for a, b in zip(before, counts, strict=True)], sum_ + total
        for name, (dotted, text, value) in other.plain.items():
            self.plain[name] = dotted, text, self.plain.get(name, ("", "", 0.0))[2] + value
        for name, _, together in GAUGES:
            if name in other.gauges:
                self.gauges[name] = together((self.gauges[name], other.gauges[name])) if name in self.gauges else other.gauges[name]

    def collect(self) -> Iterator[Metric]:
        """As prometheus-client's `generate_latest` reads them."""
        counts, spreads = (_grouped(found) for found in (self.counts, self.spreads))
        for family in FAMILIES:
            if family.edges:
                histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
                edges = [*map(floatToGoString, family.edges), "+Inf"]
                for labels in spreads[family.name]:
                    found, total = self.spreads[family.name, *labels]
                    histogram.add_metric(labels, list(zip(edges, accumulate(found), strict=True)), total)
                yield histogram
            else:
                counter = CounterMetricFamily(family.name, family.help, labels=family.labels)
                for labels in counts[family.name]:
                    counter.add_metric(labels, self.counts[family.name, *labels])
                yield counter
        for name, value in self.gauges.items():
            yield GaugeMetricFamily(name, _GAUGES[name], value)
        for name, (dotted, text, value) in self.plain.items():
            yield CounterMetricFamily(name, f"{text} ({dotted})", value)


def _grouped(keys: Iterable[Key]) -> dict[str, list[Key]]:
    """The labels, by family."""
    found: dict[str, list[Key]] = defaultdict(list)
    for family, *labels in keys:
        found[family].append(tuple(labels))
    return found


# ---- several workers ----


def folder() -> Path | None:
    """Where workers share their figures, if they do."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def write(place: Path, reading: Reading) -> None:
    """This process's."""
    _write(_file(place, os.getpid()), reading)


def added_up(place: Path) -> Reading:
    """Of all processes."""
    with _locked(place, alone=False):
        return _sum(_files(place))


def settle(place: Path) -> None:
    """Make the folder where there is none; add up what processes counted that have ended. A file of this one's number is another's."""
    place.mkdir(parents=True, exist_ok=True)
    with _locked(place, alone=True):
        ended = {process: path for process, path in _files(place).items() if process == os.getpid() or _has_ended(process)}
        if ended:
            _write(_file(place, 0), _sum({0: _file(place, 0), **ended}))
        for path in ended.values():
            path.unlink(missing_ok=True)


def _files(place: Path) -> dict[int, Path]:
    return {int(path.stem): path for path in place.glob("*.figures")}


def _file(place: Path, process: int) -> Path:
    return place / f"{process}.figures"


def _write(path: Path, reading: Reading) -> None:
    made = path.with_suffix(".new")
    made.write_bytes(msgspec.msgpack.encode(reading))
    made.replace(path)


def _sum(files: dict[int, Path]) -> Reading:
    whole = Reading()
    for process, path in files.items():
        if path.exists():
            found = msgspec.msgpack.decode(path.read_bytes(), type=Reading)
            if not process or _has_ended(process):
                found.gauges = {}
            whole.add(found)
    return whole


def _has_ended(process: int) -> bool:
    if process:
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
