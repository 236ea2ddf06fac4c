"""How does a server start, what does it hold, and do its plain requests suffer from those that are judged beside them?

    python -m benchmarks.busy_server [--rounds 5] [--seconds 2] [--starts 3]

*Start*: from exec to the first answer of ``/ready``, and to the one that says that nothing is still loading, of a server with a route for
every shipped policy. *Memory*: resident and proportional set size when it is ready, of one with the default policy alone before its first
request, and of each of two workers after judged answers. *Beside*: the p99 of plain chats under the default policy, 64 at a time on one
core, alone and while two clients have answers to new passages judged; rounds take turns. Prints a table with the goals, writes
results/busy_server.json. Needs two cores.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import yaml

from benchmarks.load import bodies, stub
from benchmarks.load.generator import Expected, closed_loop, request_bytes
from benchmarks.load.processes import Server, cores, free_port, tree
from benchmarks.load.statistics import estimate, percentile
from benchmarks.load.systems import REPOSITORY, Place, start_stub
from benchmarks.stage_costs_texts import Texts

RESULTS = Path(__file__).parent / "results" / "busy_server.json"
POLICIES = ("default", "agent", "rag", "strict", "observe")
JUDGED = ("rag", "strict", "default")
GOALS = {"first answer s": 1.5, "idle RSS MB": 100.0, "all models RSS MB": 350.0, "p99 beside / alone": 3.0}
CLIENTS, JUDGING = 64, 2


def start(place: Place, name: str, policies: tuple[str, ...], *, workers: int = 1) -> tuple[Server, dict[str, float]]:
    """A server with a route for each policy, and the seconds to its first answer and to being ready."""
    port = free_port()
    base = place.folder / f"{name}-{port}"
    routes = [
        {"prefix": f"/{policy}", "upstream": "stub", "policy": str(REPOSITORY / "policies" / f"{policy}.yaml")} for policy in policies
    ]
    settings = {
        "store": {"url": f"sqlite+aiosqlite:///{base}.db"},
        "upstreams": {"stub": {"kind": "openai", "base_url": f"http://127.0.0.1:{place.upstream_port}/v1", "api_key": "forward"}},
        "routes": routes,
    }
    base.with_suffix(".yaml").write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "proxy", "serve", "--config", f"{base}.yaml", "--port", str(port), "--workers", str(workers)]
    server, first_s = place.launch(name, command, port, None, {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": ""}, 120)
    found = {"accepting s": first_s, "first answer s": 0.0, "first answer CPU s": 0.0}
    while (status := _status(port)) != 200:
        if status and not found["first answer s"]:
            found |= {"first answer s": time.perf_counter() - server.started_s, "first answer CPU s": server.cpu_s()}
        time.sleep(0.005)
    found["ready s"], found["ready CPU s"] = time.perf_counter() - server.started_s, server.cpu_s()
    found["first answer s"] = found["first answer s"] or found["ready s"]
    return server, found


def _status(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def memory(server: Server) -> list[dict[str, float]]:
    """RSS and PSS in MB of each process of a server, the largest first."""
    found = []
    for pid in tree(server.process.pid):
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        found.append({name: float(fields[name.title()].split()[0]) / 1024 for name in ("rss", "pss")})
    return sorted(found, key=lambda one: -one["rss"])


# ---- judged requests ----


def judged(number: int, place: Texts) -> tuple[str, bytes]:
    """A policy's path, and a question with five new passages."""
    name, passages, _ = place.passages(5, 150)
    context = [{"content": text, "source": f"records {i}"} for i, text in enumerate(passages)]
    messages = [{"role": "user", "content": place.question(name)}]
    body = {"model": "gpt-4o", "messages": messages, "groundwire": {"context": context}}
    return f"/{JUDGED[number % len(JUDGED)]}/v1/chat/completions", json.dumps(body).encode()


def ask(port: int, path: str, body: bytes) -> int:
    """The status of one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, body, {"content-type": "application/json", "authorization": "Bearer sk-benchmark"})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def _judge(port: int, seed: str, until: Event, answered: Any) -> None:
    texts = Texts(seed)
    for number in itertools.count():
        if until.is_set():
            return
        ask(port, *judged(number, texts))
        with answered.get_lock():
            answered.value += 1


@contextmanager
def judging(port: int, seed: str) -> Iterator[Any]:
    """Two clients that go on asking; yields the count of their answers."""
    context = multiprocessing.get_context("fork")
    until, answered = context.Event(), context.Value("i", 0)
    clients = [context.Process(target=_judge, args=(port, f"{seed} {i}", until, answered)) for i in range(JUDGING)]
    for client in clients:
        client.start()
    try:
        yield answered
    finally:
        until.set()
        for client in clients:
            client.join()


def beside(port: int, rounds: int, seconds: float) -> dict[str, Any]:
    """p50 and p99 of plain chats by round, alone and beside judged ones."""
    request = request_bytes("/default/v1/chat/completions", bodies.small(), "sk-benchmark", {})
    expected = Expected(len(stub.COMPLETION), b"The stub upstream answers every question", exact=True)
    found: dict[str, list[float]] = {
        "alone p50": [],
        "alone p99": [],
        "beside p50": [],
        "beside p99": [],
        "judged a second": [],
        "ratio": [],
    }
    for number in range(rounds):
        alone = closed_loop(port, request, expected, CLIENTS, seconds)
        with judging(port, f"round {number}") as answered:
            time.sleep(0.3)
            before, began = answered.value, time.perf_counter()
            busy = closed_loop(port, request, expected, CLIENTS, seconds)
            found["judged a second"].append((answered.value - before) / (time.perf_counter() - began))
        for name, sample in (("alone", alone), ("beside", busy)):
            found[f"{name} p50"].append(percentile(sample.latencies_ms, 0.5))
            found[f"{name} p99"].append(percentile(sample.latencies_ms, 0.99))
        found["ratio"].append(found["beside p99"][-1] / found["alone p99"][-1])
    return {name: estimate(values).as_json() for name, values in found.items()}


# ---- all of it ----


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Start, load, measure."""
    server_core, load_core = cores()
    found: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="busy-")))
        upstream = start_stub(folder, load_core, stack, "--chunks", "20", "--gap-ms", "10")
        os.sched_setaffinity(0, {load_core})
        place = Place(folder, server_core, upstream.port, stack)
        start(place, "compiled", POLICIES)[0].stop()  # leaves the modules compiled, as an installed package's are
        starts = []
        for _ in range(given.starts):
            server, times = start(place, "all", POLICIES)
            found["ready MB"] = memory(server)[0]
            server.stop()
            starts.append(times)
        found["start"] = {name: estimate([one[name] for one in starts]).as_json() for name in starts[0]}
        idle, _ = start(place, "idle", ("default",))
        found["idle MB"] = memory(idle)[0]
        idle.stop()
        texts = Texts("memory")
        many, _ = start(place, "workers", POLICIES, workers=2)
        for number in range(24):
            ask(many.port, *judged(number, texts))
        found["workers MB"] = memory(many)
        many.stop()
        server, _ = start(place, "busy", POLICIES)
        for number in range(12):
            ask(server.port, *judged(number, texts))
        found["used MB"] = memory(server)[0]
        found["beside"] = beside(server.port, given.rounds, given.seconds)
    return found


def show(found: dict[str, Any]) -> None:
    """The figures that have goals, and what explains them."""
    rows = {
        "first answer s": found["start"]["first answer s"]["mean"],
        "idle RSS MB": found["idle MB"]["rss"],
        "all models RSS MB": found["used MB"]["rss"],
        "p99 beside / alone": found["beside"]["ratio"]["mean"],
    }
    print(f"cores {found['cores']}, load at the start {found['load']:.1f}")
    for name, value in rows.items():
        print(f"{name:22}{value:9.2f}   goal {GOALS[name]:g}{'' if value <= GOALS[name] else '  missed'}")
    for name, one in {**found["start"], **found["beside"]}.items():
        print(f"  {name:20}{one['mean']:9.2f} [{one['low']:.2f}, {one['high']:.2f}]")
    for name in ("idle MB", "ready MB", "used MB"):
        print(f"  {name:20} RSS {found[name]['rss']:.0f}, PSS {found[name]['pss']:.0f}")
    print("  two workers          " + "; ".join(f"RSS {one['rss']:.0f}, PSS {one['pss']:.0f}" for one in found["workers MB"]))
    print(f"  all their processes  PSS {sum(one['pss'] for one in found['workers MB']):.0f}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    found = run(given)
    show(found)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
