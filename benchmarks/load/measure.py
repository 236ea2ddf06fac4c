"""The measuring itself: interleaved rounds over systems, bodies and concurrencies, and what is kept of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.load import bodies
from benchmarks.load.generator import BadAnswer, closed_loop
from benchmarks.load.statistics import percentile
from benchmarks.load.streaming import read_streams
from benchmarks.load.systems import System

BODIES: dict[str, Callable[[], bytes]] = {
    "small": bodies.small,
    "large": bodies.large,
    "agent": bodies.agent,
    "agent, 5 KB": lambda: bodies.agent_of(5_000),
    "agent, 50 KB": lambda: bodies.agent_of(50_000),
    "agent, 200 KB with an image": lambda: bodies.agent_of(200_000),
    "agent, 2 MB": lambda: bodies.agent_of(2_000_000),
}
USUAL = ("small", "large", "agent")
"""Measured unless somebody asks for others."""
_PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(slots=True)
class Cell:
    """One system under one load: a value a round for each figure."""

    figures: dict[str, list[float]] = field(default_factory=dict)
    n: int = 0

    def add(self, **values: float) -> None:
        for name, value in values.items():
            self.figures.setdefault(name, []).append(value)

    def __getitem__(self, figure: str) -> list[float]:
        return self.figures[figure]


Load = tuple[str, int]  # kind of body (or "stream"), concurrency
Results = dict[Load, dict[str, Cell]]


def rotated(systems: Sequence[System], by: int) -> Iterator[System]:
    """All systems, each round beginning with another, so that none always follows the same one."""
    by %= len(systems)
    yield from systems[by:]
    yield from systems[:by]


def measure_requests(systems: Sequence[System], kinds: Sequence[str], levels: Sequence[int], rounds: int, seconds: float) -> Results:
    """Closed loops. Raises `BadAnswer` at the first wrong answer of any system."""
    results: Results = {(kind, level): {s.name: Cell() for s in systems} for kind in kinds for level in levels}
    for number in range(rounds):
        for kind, level in results:
            body = BODIES[kind]()
            for system in rotated(systems, number):
                _one_loop(system, body, level, seconds, results[kind, level][system.name])
        print(f"requests: round {number + 1} of {rounds}", flush=True)
    return results


def _one_loop(system: System, body: bytes, level: int, seconds: float, cell: Cell) -> None:
    with system.awake():
        server = system.server
        clock = server.cpu_s if server else lambda: 0.0
        try:
            sample = closed_loop(system.port, system.request(body), system.expected(), level, seconds, clock)
        except BadAnswer as error:
            raise BadAnswer(f"{system.name}, {level} at once, {len(body):,} bytes: {error}") from error
    if server:
        cell.add(cpu_ms=1000 * sample.cpu_s / len(sample.latencies_ms), busy=sample.cpu_s / sample.seconds)
    cell.n += len(sample.latencies_ms)
    cell.add(per_second=sample.per_second)
    cell.add(**{name: percentile(sample.latencies_ms, share) for name, share in _PERCENTILES.items()})


def measure_streams(systems: Sequence[System], levels: Sequence[int], rounds: int, chunks: int, seconds_each: float) -> Results:
    """Streams read side by side. Raises `BadAnswer`."""
    results: Results = {("stream", level): {s.name: Cell() for s in systems} for level in levels}
    body = bodies.small(stream=True)
    for number in range(rounds):
        for level in levels:
            batches = max(1, round((1.5 if level == 1 else 0.75) / seconds_each))
            for system in rotated(systems, number):
                with system.awake():
                    seen = read_streams(system.port, system.request(body), chunks, level, batches)
                cell = results["stream", level][system.name]
                cell.n += len(seen.first_token_ms)
                for name, values in (("first", seen.first_token_ms), ("gap", seen.gaps_ms), ("delay", seen.delays_ms)):
                    cell.add(**{f"{name}_p50": percentile(values, 0.5), f"{name}_p95": percentile(values, 0.95)})
        print(f"streams: round {number + 1} of {rounds}", flush=True)
    return results


def added(cells: dict[str, Cell], system: str, figure: str) -> list[float]:
    """The figure less the direct call's, round by round."""
    return [a - b for a, b in zip(cells[system][figure], cells["direct"][figure], strict=True)]


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Round by round; a round whose denominator is not positive (lost in noise) is left out."""
    return [a / b for a, b in zip(over, under, strict=True) if b > 0]
