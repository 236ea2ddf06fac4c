"""Plain numbers that are raised on the request's path, and handed on to prometheus-client now and then.

A rise of one of prometheus-client's own counters takes 0.3 µs, or 1 µs where processes share their figures, and an exchange makes a dozen
of them (``python -m benchmarks.metrics``). Raised at once, an exchange under token counting costs 8 µs instead of 3, or 19 where processes
share. So the path only adds to a Python number; `publish` passes on what has been added since the last time. Everything here runs on the
event loop's thread.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from proxy.observe.metrics.families import FAMILIES, GAUGES

OTHER = "other"
_PLAIN = re.compile(r"[\w./:@+-]{1,100}", re.ASCII)


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


class CounterTally:
    """A counter's child, made when figures are first handed on: there are some hundred, and a server is to start soon."""

    __slots__ = ("_child", "_make", "_published", "value")

    def __init__(self, make: Callable[[], Counter]) -> None:
        self._make, self._published = make, 0.0
        self._child: Counter | None = None
        self.value = 0.0
        """To be raised directly."""

    def publish(self) -> None:
        """Hand on what is new."""
        if self._child is None:
            self._child = self._make()
        if self.value != self._published:
            self._child.inc(self.value - self._published)
            self._published = self.value


class HistogramTally:
    """A histogram's child."""

    __slots__ = ("_child", "_counts", "_edges", "_published", "_published_sum", "_sum")

    def __init__(self, child: Histogram, edges: tuple[float, ...]) -> None:
        self._child, self._edges = child, edges
        self._counts, self._published = [0] * (len(edges) + 1), [0] * (len(edges) + 1)
        self._sum = self._published_sum = 0.0

    def observe(self, value: float) -> None:
        """Count `value`."""
        self._counts[bisect_left(self._edges, value)] += 1
        self._sum += value

    def publish(self) -> None:
        """Hand on what is new."""
        if self._counts == self._published:
            return
        # prometheus-client has no public way to add several observations at once.
        for i, (now, before) in enumerate(zip(self._counts, self._published, strict=True)):
            if now != before:
                self._child._buckets[i].inc(now - before)
        self._child._sum.inc(self._sum - self._published_sum)
        self._published, self._published_sum = self._counts.copy(), self._sum


class Tallies:
    """All of a process, by family and labels; each is made once and then kept by who raises it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._edges = {family.name: family.edges for family in FAMILIES}
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        for family in FAMILIES:
            if family.edges:
                made = Histogram(family.name, family.help, family.labels, buckets=family.edges, registry=registry)
                self._histograms[family.name] = made
            else:
                self._counters[family.name] = Counter(family.name, family.help, family.labels, registry=registry)
        self._gauges = {
            name: Gauge(name, text, multiprocess_mode=mode, registry=registry)  # type: ignore[arg-type]
            for name, text, mode in GAUGES
        }
        self._made: dict[tuple[str, ...], CounterTally] = {}
        self._spreads: dict[tuple[str, ...], HistogramTally] = {}
        self._probes: list[tuple[Gauge, Callable[[], float]]] = []

    def count(self, family: str, *labels: str) -> CounterTally:
        """The counter `family` with these labels."""
        found = self._made.get((family, *labels))
        if found is None:
            found = self._made[family, *labels] = CounterTally(partial(self._counters[family].labels, *labels))
        return found

    def spread(self, family: str, *labels: str) -> HistogramTally:
        """The histogram `family` with these labels."""
        found = self._spreads.get((family, *labels))
        if found is None:
            found = self._spreads[family, *labels] = HistogramTally(self._histograms[family].labels(*labels), self._edges[family])
        return found

    def plain(self, name: str, text: str) -> CounterTally:
        """A counter without labels that is in no list. Raises `ValueError` for a name of one that is."""
        found = self._made.get((name,))
        if found is None:
            if name in self._edges or name in self._gauges:
                raise ValueError(f"{name} is another figure's name")
            found = self._made[name,] = CounterTally(partial(Counter, name, text, registry=self._registry))
        return found

    def watch(self, name: str, probe: Callable[[], float]) -> None:
        """Ask `probe` for the gauge `name` whenever figures are handed on."""
        self._probes.append((self._gauges[name], probe))

    def publish(self) -> None:
        """Hand everything on."""
        every: Iterable[CounterTally | HistogramTally] = (*self._made.values(), *self._spreads.values())
        for one in every:
            one.publish()
        for gauge, probe in self._probes:
            gauge.set(probe())
