"""Server processes: pinned to a core, waited for, measured from /proc, and gone when the benchmark is."""

from __future__ import annotations

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_STOP_S = 5.0


class StartFailed(Exception):
    """A server did not come up; the message ends with its log."""


def cores() -> tuple[int, int]:
    """The core for the server under test and the one for generator and stub (the same on a machine with one)."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[1] if len(usable) > 1 else usable[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _child_setup(core: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None)

    def setup() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # should the benchmark itself be killed
        os.sched_setaffinity(0, {core})

    return setup


class Server:
    """One process (with its children) on one core, in a session of its own."""

    def __init__(self, name: str, command: Sequence[str], port: int, log: Path, core: int, env: Mapping[str, str] | None = None) -> None:
        self.name, self.port, self.log = name, port, log
        self.started_s = time.perf_counter()
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                preexec_fn=_child_setup(core),  # this process has one thread
            )

    def wait_ready(self, path: str | None, timeout_s: float = 30.0) -> float:
        """Seconds from exec to `path` answering 200 (None: to the port accepting). Raises `StartFailed`."""
        while time.perf_counter() - self.started_s < timeout_s:
            if self.process.poll() is not None:
                break
            if self._is_ready(path):
                return time.perf_counter() - self.started_s
            time.sleep(0.005)
        tail = self.log.read_text(errors="replace")[-1500:]
        raise StartFailed(f"{self.name} is not ready after {time.perf_counter() - self.started_s:.1f} s: …{tail}")

    def _is_ready(self, path: str | None) -> bool:
        try:
            if path is None:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
            try:
                connection.request("GET", path)
                return connection.getresponse().status == 200
            finally:
                connection.close()
        except (OSError, http.client.HTTPException):
            return False

    def cpu_s(self) -> float:
        """CPU seconds of the process and its children, user and system, since they started."""
        ticks = sum(_cpu_ticks(pid) for pid in tree(self.process.pid))
        return ticks / os.sysconf("SC_CLK_TCK")

    def scheduled_s(self) -> float:
        """As `cpu_s`, of its own threads only, and by the scheduler's clock, which counts nanoseconds and not hundredths of a second."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def pss_mb(self) -> float:
        """Proportional set size of process and children in MB: shared pages counted once over all who share them."""
        return sum(_pss_kb(pid) for pid in tree(self.process.pid)) / 1024

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, sign: signal.Signals) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, sign)  # its own session, made above: nobody else's processes

    def stop(self) -> None:
        for sign, patience_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, _STOP_S)):
            self._signal(sign)
            self.resume()
            try:
                self.process.wait(patience_s)
                return
            except subprocess.TimeoutExpired:
                continue
        print(f"could not end {self.name} (pid {self.process.pid})", file=sys.stderr)


def tree(root: int) -> list[int]:
    """`root` and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += parents.get(pid, [])
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third (state) on; empty when the process has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_ticks(pid: int) -> int:
    return sum(int(field) for field in _stat(pid)[11:15])  # utime, stime, cutime, cstime


def _pss_kb(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1])
        return 0.0
    except OSError:
        return 0.0
