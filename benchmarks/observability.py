"""What do the log's lines and the traces cost a request? CPU time, throughput and latency of the same server with and without them.

    python -m benchmarks.observability            # about two minutes
    python -m benchmarks.observability --quick    # half a minute, rough

Prints tables, writes results/observability.json. First what one line and one exchange's spans take on their own, the best of many runs:
figures that other work on the machine moves little. Then servers under load, the same one twice among them, to show the noise. Each runs
policies/default.yaml, writes its log to a file and its spans, if any, to a collector on the generator's core that throws them away.
Needs an otherwise quiet machine with two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from benchmarks.load import measure, report, statistics, systems
from benchmarks.load.processes import cores, free_port
from benchmarks.load.systems import Place, System, start_stub
from proxy.config.sections import TracingSettings
from proxy.exchange import Answer, Choice, HookMark, Usage, Verdict
from proxy.observe import logs
from proxy.observe.finished import Finished, LogLine, log_line
from proxy.observe.trace import Tracing
from proxy.observe.tracing import ProviderServer, UpstreamCall
from proxy.ports.upstream import Call
from proxy.testing import make_exchange

RESULTS = Path(__file__).resolve().parent / "results" / "observability.json"
POLICY = systems.REPOSITORY / "policies" / "default.yaml"
QUIET = "no lines"
VERDICT = Verdict("budget", "pass", score=0.1)
VARIANTS: dict[str, dict[str, Any]] = {
    QUIET: {"logging": {"level": "warning"}},
    "no lines, again": {"logging": {"level": "warning"}},  # how far apart two equal servers are measured: the noise
    "console": {"logging": {"format": "console"}},
    "json": {"logging": {"format": "json"}},
    "traces, none sampled": {"logging": {"level": "warning"}, "tracing": {"sample": 0}},
    "traces, one in ten": {"logging": {"level": "warning"}, "tracing": {"sample": 0.1}},
    "traces, all": {"logging": {"level": "warning"}, "tracing": {"sample": 1}},
}
_COLLECTOR = """
import asyncio, sys
async def take(reader, writer):
    try:
        while head := await reader.readuntil(b"\\r\\n\\r\\n"):
            length = int(head.lower().partition(b"content-length:")[2].split(b"\\r\\n")[0])
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 0\\r\\n\\r\\n")
    except asyncio.IncompleteReadError:
        writer.close()
async def main():
    async with await asyncio.start_server(take, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()
asyncio.run(main())
"""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m benchmarks.observability", description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--rounds", type=int, default=8, help="interleaved rounds over all variants")
    options.add_argument("--seconds", type=float, default=1.0, help="length of one measurement")
    options.add_argument("--concurrency", type=int, nargs="+", default=[1, 64])
    options.add_argument("--variants", nargs="+", choices=list(VARIANTS)[1:], default=list(VARIANTS)[1:], help=f"beside {QUIET!r}")
    options.add_argument("--quick", action="store_true", help="two short rounds")
    options.add_argument("--output", type=Path, default=RESULTS)
    given = options.parse_args(arguments)
    if given.quick:
        given.rounds, given.seconds = 2, 0.4
    return given


def start(place: Place, name: str, more: dict[str, Any], collector: int) -> System:
    """A server with one variant's sections in its config.yaml."""
    port = free_port()
    config = place.folder / f"{port}.yaml"
    if "tracing" in more:
        more = {**more, "tracing": {**more["tracing"], "endpoint": f"http://127.0.0.1:{collector}"}}
    settings = {
        "store": {"url": f"sqlite+aiosqlite:///{place.folder / str(port)}.db"},
        "upstreams": {"stub": {"kind": "openai", "base_url": f"http://127.0.0.1:{place.upstream_port}/v1", "api_key": "forward"}},
        "routes": [{"upstream": "stub", "policy": str(POLICY)}],
        **more,
    }
    config.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "proxy", "serve", "--config", str(config), "--port", str(port)]
    server, ready_s = place.launch(f"{name} {port}", command, port, "/ready", {"PYTHONPATH": str(systems.REPOSITORY)})
    return System(name, port, server, ready_s=ready_s)


def run(given: argparse.Namespace) -> dict[str, Any]:
    server_core, load_core = cores()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="observability-")))
        stub = start_stub(folder, load_core, stack, "--chunks", "20", "--gap-ms", "10")
        os.sched_setaffinity(0, {load_core})
        place = Place(folder, server_core, stub.port, stack)
        collector = free_port()
        Place(folder, load_core, stub.port, stack).launch("collector", [sys.executable, "-c", _COLLECTOR, str(collector)], collector, None)
        started = [
            systems.check(start(place, name, more, collector)) for name, more in VARIANTS.items() if name in (QUIET, *given.variants)
        ]
        results = measure.measure_requests(started, ["small"], given.concurrency, given.rounds, given.seconds)
        single = alone(folder)
    return conclude(given, results, single)


def alone(folder: Path) -> dict[str, float]:
    """CPU microseconds, best of 20 runs, for one exchange of five spans: its line, written to a file, and its spans until they are sent."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    exchange = make_exchange()
    exchange.answer = Answer((Choice(0, "Hello.", finish_reason="stop"),), "gpt-4o", Usage(9, 3))
    exchange.verdicts = [VERDICT]
    marks = [
        HookMark("budget", "request", 1.0, 2.0),
        HookMark("budget", "forward", 2.0, 3.0, VERDICT),
        HookMark("history", "request", 3.0, 4.0),
    ]
    call = UpstreamCall("stub", Call("POST", "/chat/completions", (), b""))
    call.end()

    finished = Finished(
        id="gw_0660cf058a078b85543e75d1590c",
        exchange=exchange,
        usage=exchange.answer.usage,
        status=200,
        verdict="pass",
        method="POST",
        path="/chat/completions",
        client="auth:0123456789abcdef",
        upstream="stub",
        tries=1,
        received_at=1.7e9 + 1.0,
        started=1.0,
        duration_ms=12.345,
        overhead_ms=0.5,
    )

    def line() -> LogLine:
        return log_line(finished)

    tracing, sent = Tracing({}, TracingSettings(endpoint="http://127.0.0.1:9"), stop_s=0.1), InMemorySpanExporter()
    tracing.servers = {"stub": ProviderServer("openai", "h", 443)}
    tracing._provider.add_span_processor(SimpleSpanProcessor(sent))

    def spans() -> None:
        sent.clear()
        trace = tracing.begin(())
        trace.marks = marks
        trace._calls.append((trace._child("call", SpanKind.CLIENT, call.started), call))
        trace.finish(finished, line())

    found: dict[str, float] = {}
    with (folder / "lines.log").open("w") as file:
        handler = logs.LineHandler(file)
        logs.exchanges.addHandler(handler)
        logs.exchanges.setLevel("INFO")
        logs.exchanges.propagate = False
        for name, formatter in (("console", logs.ConsoleFormatter()), ("json", logs.JsonFormatter())):
            handler.setFormatter(formatter)
            found[f"line, {name}"] = best_us(lambda: logs.exchange(line()), 500)
    found["spans, on the event loop"] = best_us(spans, 200)
    batch = list(sent.get_finished_spans()) * 25
    found["spans, in the exporter's thread"] = best_us(lambda: encode_spans(batch).SerializeToString(), 4) / 25
    return found


def best_us(function: Callable[[], object], times: int) -> float:
    """CPU microseconds of one call, in the best of 20 runs."""
    best = float("inf")
    for _ in range(20):
        started = time.process_time()
        for _ in range(times):
            function()
        best = min(best, (time.process_time() - started) / times * 1e6)
    return round(best, 2)


def conclude(given: argparse.Namespace, results: measure.Results, single: dict[str, float]) -> dict[str, Any]:
    busiest = max(given.concurrency)
    request_us = 1000 * min(results["small", busiest][QUIET]["cpu_ms"])
    rows = [[name, f"{us:.1f}", f"{us / request_us:.1%}"] for name, us in single.items()]
    report.print_table(
        f"one exchange (best of 20 runs; a request at concurrency {busiest}: {request_us:.0f} µs)", ["", "CPU µs", "of it"], rows
    )
    head = ["variant", "CPU ms/request", "of no lines", "requests/s", "of no lines", "p50 ms", "p95 ms", "p99 ms", "n"]
    for (kind, level), cells in results.items():
        rows = [row(cell, cells[QUIET], name) for name, cell in cells.items()]
        report.print_table(f"{kind} request, default policy, concurrency {level} (mean of rounds [95% interval])", head, rows)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "python": platform.python_version(),
        "rounds": given.rounds,
        "seconds": given.seconds,
        "seed": statistics.SEED,
        "alone_us": single,
        "requests": [
            {"load": kind, "concurrency": level, "variant": name, "n": cell.n}
            | {figure: statistics.estimate(values).as_json() for figure, values in cell.figures.items()}
            for (kind, level), cells in results.items()
            for name, cell in cells.items()
        ],
    }
    given.output.write_text(json.dumps(found, indent=1))
    print(f"\nwritten: {given.output}")
    return found


def row(cell: measure.Cell, quiet: measure.Cell, name: str) -> list[str]:
    shares = [measure.ratios(cell[figure], quiet[figure]) for figure in ("cpu_ms", "per_second")]
    return [
        name,
        statistics.estimate(cell["cpu_ms"]).text(3),
        statistics.estimate(shares[0]).text(3),
        statistics.estimate(cell["per_second"]).text(0),
        statistics.estimate(shares[1]).text(3),
        *(f"{statistics.estimate(cell[p]).mean:.3f}" for p in ("p50", "p95", "p99")),
        f"{cell.n:,}",
    ]


if __name__ == "__main__":
    run(parse())
