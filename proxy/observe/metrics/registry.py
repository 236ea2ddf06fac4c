"""`Metrics`: where everything is counted, and where it is read from. One per process; implements `proxy.ports.Counters`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from prometheus_client import CollectorRegistry, Metric, generate_latest

from proxy.observe.finished import Finished
from proxy.observe.metrics import processes
from proxy.observe.metrics.exchanges import Exchanges
from proxy.observe.metrics.figures import Samples, figures
from proxy.observe.metrics.names import DOTTED, labelled, prometheus_name
from proxy.observe.metrics.tally import CounterTally, Tallies
from proxy.observe.metrics.upstreams import UpstreamTally
from proxy.ports import ModelInfo

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PUBLISH_EVERY_S = 1.0
"""How old another worker's figures can be; also what a worker that is killed takes with it."""
_DOTTED_HELP = re.compile(r"\(([\w.]+)\)$")


class Metrics:
    """Every figure of this process, and of all workers where they share a folder."""

    def __init__(self, model: Callable[[str], ModelInfo] | None = None) -> None:
        """`model` knows the prices of models; without it no cost is counted."""
        self._folder = processes.folder()
        if self._folder is not None:
            processes.settle(self._folder)
        self._registry = CollectorRegistry()
        self._tallies = Tallies(self._registry)
        self._exchanges = Exchanges(self._tallies, model)
        self._dotted: dict[str, tuple[CounterTally, ...]] = {}
        for name in DOTTED:
            self._named(name)
        self.watch("groundwire_workers", lambda: 1.0)
        self._publishing: asyncio.Task[None] | None = None

    # ---- counting ----

    def count(self, name: str, value: int = 1) -> None:
        """Raise the dotted counter `name`."""
        for one in self._dotted.get(name) or self._named(name):
            one.value += value

    def exchange(self, finished: Finished) -> None:
        """One that is over."""
        self._exchanges.add(finished)

    def upstream(self, name: str) -> UpstreamTally:
        """Where the calls of the upstream `name` are counted."""
        return UpstreamTally(self._tallies, name)

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
        self._tallies.watch(gauge, probe)

    def _named(self, name: str, meaning: str = "Counted by a stage") -> tuple[CounterTally, ...]:
        found = [self._tallies.plain(prometheus_name(name), f"{DOTTED.get(name, meaning)} ({name})")]
        if twin := labelled(name):
            found.append(self._tallies.count(*twin))
        made = self._dotted[name] = tuple(found)
        return made

    # ---- several workers ----

    def start(self) -> None:
        """Hand figures on in the background, where others read them. Needs a running event loop."""
        if self._folder is not None and self._publishing is None:
            self._publishing = asyncio.create_task(self._publish(), name="metrics")

    async def stop(self) -> None:
        """Hand the last ones on."""
        if self._publishing is not None:
            self._publishing.cancel()
            with suppress(asyncio.CancelledError):
                await self._publishing
            self._publishing = None
            self.publish()

    def publish(self) -> None:
        """Hand on what has been counted since the last time."""
        self._exchanges.settle()
        self._tallies.publish()

    async def _publish(self) -> None:
        while True:
            self.publish()
            await asyncio.sleep(PUBLISH_EVERY_S)

    # ---- reading ----

    async def exposition(self) -> bytes:
        """As `prometheus`, put together in a thread: it takes some 10 ms."""
        self.publish()
        return await asyncio.to_thread(lambda: generate_latest(_Families(self._collected())))

    async def told(self) -> dict[str, object]:
        """As `as_json`, put together in a thread."""
        self.publish()
        return await asyncio.to_thread(self._told)

    def prometheus(self) -> bytes:
        """The text exposition, over all workers."""
        self.publish()
        return generate_latest(_Families(self._collected()))

    def as_json(self) -> dict[str, object]:
        """Every figure by its Prometheus name and labels, the dotted counters by their own, and what follows from them."""
        self.publish()
        return self._told()

    def _told(self) -> dict[str, object]:
        families = list(self._collected())
        samples = Samples(families)
        counters = {
            found[1]: samples.plain[total]
            for family in families
            if (found := _DOTTED_HELP.search(family.documentation)) and samples.plain.get(total := f"{family.name}_total")
        }
        return {"object": "metrics", "counters": dict(sorted(counters.items())), **figures(samples), "series": samples.series()}

    def _collected(self) -> Iterator[Metric]:
        """The families over all workers, without the times at which series began."""
        for family in self._registry.collect() if self._folder is None else processes.collected(self._folder):
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


class _Families:
    """What `generate_latest` reads."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        return self._families
