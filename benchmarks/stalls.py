"""Does anything in a request or an answer make the server stand still for everybody else?

    python -m benchmarks.stalls [--sizes 20000,100000,400000] [--share 1.0] [--texts NAME,…] [--places answer] [--watch]

Every text of `benchmarks.stall_texts`, in five places of an exchange and three sizes, is sent through a real server process with the
shipped policies while a process of its own asks `/health` every 10 ms. A cell stalls where a look takes `STALL_S` or more, in the median of
three tries for one that did so at first: another process on the machine's cores may take as long from the server once. Prints the cells
that stall, and the worst; ``--watch`` says whether the server itself held its loop, and where (`benchmarks.stall_server`). Writes
results/stalls.json.
"""

from __future__ import annotations

import argparse
import http.client
import http.server
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.load.processes import free_port
from benchmarks.load.systems import REPOSITORY
from benchmarks.stall_texts import MANY, PLACES, TEXTS, Asked, request_of

RESULTS = Path(__file__).parent / "results" / "stalls.json"
SIZES = (20_000, 100_000, 400_000)
POLICIES = ("default", "rag", "strict", "agent")
STALL_S = 0.1
OWN_S = 0.08
"""CPU time in one piece from which the server itself is the reason; below it, others had the cores (seen with ``--watch``)."""
TRIES = 3
PATIENCE_S = 120.0
EVENT_CHARS = 200
POLLER = """
import http.client, json, sys, threading, time
port, every, found, since = int(sys.argv[1]), 0.01, [], [0.0]
def look():
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    while True:
        since[0] = t = time.perf_counter()
        try:
            c.request("GET", "/health"); c.getresponse().read()
        except OSError:
            c.close()
        found.append(time.perf_counter() - t); since[0] = 0.0; time.sleep(every)
threading.Thread(target=look, daemon=True).start()
for line in sys.stdin:
    n = len(found)
    while since[0] and len(found) == n: time.sleep(0.001)
    said, found[:] = found[:], []
    print(json.dumps(said), flush=True)
"""


class Cell(NamedTuple):
    """One text in one place, in one size, under one policy."""

    text: str
    place: str
    size: int
    policy: str
    stream: bool

    @property
    def asked(self) -> Asked:
        """The request and its answer."""
        return request_of(self.place, TEXTS[self.text](self.size), stream=self.stream)


class Looked(NamedTuple):
    """What came of one."""

    status: int
    took_s: float
    worst_s: float
    """The longest that a look at `/health` took meanwhile."""
    verdict: str
    held_s: float = 0.0
    """The longest that the server's own threads held the loop or the interpreter, in their CPU time; 0 where nobody watches."""


def cells(sizes: Sequence[int], texts: Sequence[str], places: Sequence[str], share: float = 1.0, seed: int = 0) -> list[Cell]:
    """The matrix, or an evenly drawn `share` of it in which each text stands at least once; policies and streaming take turns."""
    found = []
    for i, text in enumerate(texts):
        grid = [(place, size) for place in places for size in sizes]
        drawn = random.Random(f"{seed} {text}").sample(grid, max(1, round(share * len(grid))))
        for place, size in sorted(drawn, key=grid.index):
            turn = i + places.index(place) + seed + sizes.index(size)
            found.append(Cell(text, place, size, POLICIES[turn % len(POLICIES)], bool(turn // len(POLICIES) % 2)))
    return found


class _Upstream(http.server.ThreadingHTTPServer):
    """Says what the cell's answer is."""

    daemon_threads = True
    answer = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_POST(self) -> None:
        stream = b'"stream":true' in self.rfile.read(int(self.headers["content-length"] or 0)).replace(b" ", b"")
        said: str = self.server.answer  # type: ignore[attr-defined]
        body = _events(said) if stream else json.dumps(_completion(said)).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "stall-model", "choices": [choice], "usage": usage}


def _events(text: str) -> bytes:
    def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "stall-model", "choices": [choice]}
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    parts = [event({"content": text[at : at + EVENT_CHARS]}) for at in range(0, len(text), EVENT_CHARS)]
    return b"".join([*parts, event({}, "stop"), b"data: [DONE]\n\n"])


class Place:
    """A server, its upstream, and the process that looks at `/health`."""

    def __init__(self, port: int, upstream: _Upstream, poller: subprocess.Popen[str], watch: Path | None = None) -> None:
        self.port, self._upstream, self._poller, self._watch = port, upstream, poller, watch

    def looks(self) -> list[float]:
        """Seconds that each look took since the last call."""
        assert self._poller.stdin is not None
        assert self._poller.stdout is not None
        self._poller.stdin.write("\n")
        self._poller.stdin.flush()
        found: list[float] = json.loads(self._poller.stdout.readline())
        return found

    def idle(self, seconds: float) -> list[float]:
        """The looks of a while in which nothing else is asked."""
        self.looks()
        time.sleep(seconds)
        return self.looks()

    def look(self, cell: Cell) -> Looked:
        """Send it once."""
        body, self._upstream.answer = cell.asked
        sent = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        self.looks()
        before = self._watch.stat().st_size if self._watch is not None and self._watch.exists() else 0
        started = time.perf_counter()
        status, verdict = self._ask(cell.policy, sent)
        took = time.perf_counter() - started
        return Looked(status, took, max(self.looks(), default=0.0), verdict, self._held(before))

    def _held(self, before: int) -> float:
        if self._watch is None or not self._watch.exists():
            return 0.0
        with self._watch.open("rb") as file:
            file.seek(before)
            said = [json.loads(line) for line in file if line.endswith(b"\n")]
        return max((one.get("slice_s") or one.get("collector_s") or min(one["silent_s"], one["cpu_s"]) for one in said), default=0.0)

    def _ask(self, policy: str, body: bytes) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(
                "POST", f"/{policy}/v1/chat/completions", body, {"content-type": "application/json", "authorization": "Bearer sk-1"}
            )
            response = connection.getresponse()
            response.read()
            return response.status, response.getheader("x-groundwire-verdict") or ""
        except OSError as error:
            return 0, type(error).__name__
        finally:
            connection.close()

    def median(self, cell: Cell, least_s: float = STALL_S) -> Looked:
        """What came of it; of one that seems to stall, the median of three tries."""
        tries = [self.look(cell)]
        if tries[0].worst_s >= least_s:
            tries += [self.look(cell) for _ in range(TRIES - 1)]
        worst, held = (statistics.median(some) for some in zip(*((one.worst_s, one.held_s) for one in tries), strict=True))
        return tries[0]._replace(worst_s=worst, held_s=held)


@contextmanager
def started(folder: Path, watch: Path | None = None) -> Iterator[Place]:
    """A server with a route for each policy, warm."""
    upstream, port = _Upstream(), free_port()
    routes = [{"prefix": f"/{name}", "upstream": "stub", "policy": str(REPOSITORY / "policies" / f"{name}.yaml")} for name in POLICIES]
    config = {
        "store": {"url": f"sqlite+aiosqlite:///{folder}/store.db"},
        "upstreams": {"stub": {"kind": "openai", "base_url": f"http://127.0.0.1:{upstream.server_port}/v1", "api_key": "forward"}},
        "models": {"stall-model": {"window": 1_000_000, "encoding": "o200k_base"}},
        "routes": routes,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    module = ["proxy"] if watch is None else ["benchmarks.stall_server", str(watch)]
    command = [sys.executable, "-m", *module, "serve", "--config", str(folder / "config.yaml"), "--port", str(port)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=subprocess.STDOUT)
    poller = None
    try:
        _wait(port, server, folder / "log")
        poller = subprocess.Popen([sys.executable, "-c", POLLER, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        place = Place(port, upstream, poller, watch)
        for policy in POLICIES:  # what is loaded and compiled at its first use
            for where in PLACES:
                for stream in (False, True):
                    place.look(Cell("sentences", where, 2000, policy, stream))
        yield place
    finally:
        for process in (poller, server):
            if process is not None:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        for pipe in (poller.stdin, poller.stdout) if poller is not None else ():
            if pipe is not None:
                pipe.close()
        upstream.shutdown()
        upstream.server_close()


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    raise RuntimeError(f"the server did not come up: {log.read_text()[-1000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--share", type=float, default=1.0, help="of the places and sizes of each text")
    parser.add_argument("--seed", type=int, default=0, help="which share, and which policies")
    parser.add_argument("--texts", default="")
    parser.add_argument("--places", default=",".join(PLACES), help=f"also {' and '.join(MANY)}: cut up")
    parser.add_argument("--watch", type=Path, help="a file to say in where the time went")
    parser.add_argument("--seconds", type=float, default=1e9, help="end then")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    texts = [name for name in given.texts.split(",") if name] or list(TEXTS)
    wanted = cells([int(size) for size in given.sizes.split(",")], texts, given.places.split(","), given.share, given.seed)
    random.Random(given.seed).shuffle(wanted)
    found: list[tuple[Cell, Looked]] = []
    until = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory() as folder, started(Path(folder), given.watch) as place:
        idle = sorted(place.idle(3))
        for cell in wanted:
            if time.monotonic() > until:
                break
            looked = place.median(cell)
            found.append((cell, looked))
            if looked.worst_s >= STALL_S or looked.took_s > 5 or looked.status not in (200, 400):
                held = f"{looked.held_s * 1000:4.0f} ms held" if given.watch is not None else ""
                print(
                    f"{looked.worst_s * 1000:7.0f} ms {held} {looked.took_s:5.1f} s {looked.status} {looked.verdict:9} {tuple(cell)}",
                    flush=True,
                )
    stalls = [(c, x) for c, x in found if x.worst_s >= STALL_S]
    own = sum(x.held_s >= OWN_S for _, x in stalls)
    p50, p99, worst = (1000 * idle[at] for at in (len(idle) // 2, len(idle) * 99 // 100, -1))
    print(
        f"{len(found)} of {len(wanted)} cells, {len(stalls)} stall (>= {STALL_S * 1000:.0f} ms), {own} held by the server itself", end="; "
    )
    print(f"idle: median {p50:.1f} ms, p99 {p99:.1f} ms, worst {worst:.1f} ms")
    made = {
        "cells": len(found),
        "stalls": len(stalls),
        "own": own,
        "idle_ms": {"p50": p50, "p99": p99, "worst": worst},
        "worst_ms": [
            [*c, round(x.worst_s * 1000, 1), round(x.held_s * 1000, 1), round(x.took_s, 2)]
            for c, x in sorted(found, key=lambda one: -one[1].worst_s)[:100]
        ],
    }
    given.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
