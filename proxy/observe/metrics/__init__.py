"""`Metrics`: where everything is counted, and where it is read from. One per process; implements `proxy.ports.Counters`.

In: every finished exchange (`Metrics.exchange`), every call of an upstream (`Metrics.upstream`), and the dotted counters that stages raise
(`Metrics.count`; `families` lists them). They are added up in plain numbers (`counts`), which prometheus-client writes when somebody asks;
several workers share them in files. Out: the families in `families`, and `figures` made of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import generate_latest

from proxy.observe.finished import Finished
from proxy.observe.metrics import counts
from proxy.observe.metrics.counts import Count, Counts, Reading
from proxy.observe.metrics.exchanges import Exchanges, KeyCounts, Keys, UpstreamCounts
from proxy.observe.metrics.families import DOTTED, labelled, prometheus_name
from proxy.observe.metrics.figures import figures, series
from proxy.ports.background import RepeatedTask

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PUBLISH_EVERY_S = 1.0
"""How old another worker's figures can be; also what a worker that is killed takes with it."""


class Metrics:
    """Every figure of this process, and of all workers where they share a folder."""

    def __init__(self) -> None:
        self._folder = counts.folder()
        if self._folder is not None:
            counts.settle(self._folder)
        self._counts = Counts()
        self._exchanges, self._keys = Exchanges(self._counts), Keys(self._counts)
        self._dotted: dict[str, tuple[Count, ...]] = {}
        for name in DOTTED:
            self._named(name)
        self.watch("groundwire_workers", lambda: 1.0)
        problem = "figures could not be handed to other workers"
        self._publishing = RepeatedTask(self._publish, PUBLISH_EVERY_S, name="metrics", problem=problem, log=log)

    # ---- counting ----

    def count(self, name: str, value: int = 1) -> None:
        """Raise the dotted counter `name`."""
        for one in self._dotted.get(name) or self._named(name):
            one.value += value

    def exchange(self, finished: Finished, usd: float | None = None) -> None:
        """One that is over, and its cost as its record has it; None where no price is known."""
        self._exchanges.add(finished, usd)

    def upstream(self, name: str) -> UpstreamCounts:
        """Where the calls of the upstream `name` are counted."""
        return UpstreamCounts(self._counts, name)

    def key(self, team: str, key: str) -> KeyCounts:
        """Where the requests of a client key are counted."""
        return self._keys.of(team, key)

    def expect(self, stages: Sequence[str]) -> None:
        """These stages are in use: their errors are counted from 0."""
        self._exchanges.expect(stages)

    def declare(self, counters: Mapping[str, str]) -> None:
        """These dotted counters are raised by a stage that is not Groundwire's own: they are counted from 0, too."""
        for name, meaning in counters.items():
            if name not in self._dotted:
                self._named(name, meaning)

    def watch(self, gauge: str, probe: Callable[[], float]) -> None:
        """Ask `probe` whenever the gauge is read."""
        self._counts.watch(gauge, probe)

    def _named(self, name: str, meaning: str = "Counted by a stage") -> tuple[Count, ...]:
        found = [self._counts.plain(prometheus_name(name), name, DOTTED.get(name, meaning))]
        if twin := labelled(name):
            found.append(self._counts.count(*twin))
        made = self._dotted[name] = tuple(found)
        return made

    # ---- several workers ----

    def start(self) -> None:
        """Hand figures on in the background, where others read them. Needs a running event loop."""
        if self._folder is not None:
            self._publishing.start()

    async def stop(self) -> None:
        """Hand the last ones on."""
        if self._publishing.is_running:
            await self._publishing.stop()
            self.publish()

    def publish(self) -> Reading:
        """Hand on what has been counted until now, and return it."""
        self._exchanges.settle()
        reading = self._counts.reading()
        if self._folder is not None:
            counts.write(self._folder, reading)
        return reading

    async def _publish(self) -> None:
        self.publish()

    # ---- reading ----

    async def exposition(self) -> bytes:
        """As `prometheus`, put together in a thread: it takes some 10 ms."""
        return await asyncio.to_thread(self._exposition, self.publish())

    async def figures(self) -> dict[str, object]:
        """As `as_json`, put together in a thread."""
        return await asyncio.to_thread(self._figures, self.publish())

    def prometheus(self) -> bytes:
        """The text exposition, over all workers."""
        return self._exposition(self.publish())

    def as_json(self) -> dict[str, object]:
        """Every figure by its Prometheus name and labels, the dotted counters by their own, and what follows from them."""
        return self._figures(self.publish())

    def _exposition(self, own: Reading) -> bytes:
        return generate_latest(self._whole(own))

    def _figures(self, own: Reading) -> dict[str, object]:
        whole = self._whole(own)
        counters = {dotted: value for dotted, _, value in whole.plain.values() if value}
        return {"object": "metrics", "counters": dict(sorted(counters.items())), **figures(whole), "series": series(whole)}

    def _whole(self, own: Reading) -> Reading:
        """Over all workers."""
        return own if self._folder is None else counts.added_up(self._folder)
