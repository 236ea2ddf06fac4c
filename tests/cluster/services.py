"""Processes of a cluster: started, killed, stopped for a while, started again, and always ended; and TCP links that delay or cut."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.load.processes import tree
from tests.processes import free_port
from tests.store import postgres

PATIENCE_S = 90.0
"""For a process to be up; generous, as other work may have the machine's cores."""
_END_S = 10.0
_PIECE = 65536
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Service:
    """One server and its children, in a session of its own; what it writes goes to a file."""

    ends_on = signal.SIGTERM

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str], **options: Any) -> None:
        self.name, self.command, self.log = name, list(command), log
        self.environment = dict(environment)
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def processes(self) -> list[int]:
        """It and its descendants; empty where it does not run."""
        return tree(self._process.pid) if self._process is not None and self._process.poll() is None else []

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
                preexec_fn=self._end_with_its_parent,
                **self._options,
            )

    def _end_with_its_parent(self) -> None:
        """In the child: should the tests themselves be killed."""
        _LIBC.prctl(_PR_SET_PDEATHSIG, self.ends_on)

    def signal(self, number: signal.Signals, processes: Sequence[int] | None = None) -> None:
        """To all of its processes, or to these of them."""
        for process in self.processes if processes is None else processes:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def kill(self) -> None:
        """At once, with all its children."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float = _END_S) -> None:
        if self._process is not None:
            self._process.wait(timeout_s)

    def end(self) -> None:
        """In order if it can be had in order."""
        running = self.processes
        if self._process is None or not running:
            return
        self.signal(signal.SIGCONT)
        os.kill(self._process.pid, self.ends_on)
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
        self.signal(signal.SIGKILL, [process for process in running if Path(f"/proc/{process}").exists()])

    async def keep(self) -> None:
        """Start it again whenever it has ended, until cancelled: ``restart: unless-stopped``, or systemd's."""
        while True:
            await asyncio.sleep(0.2)
            if self._process is None or self._process.poll() is not None:
                self.start()

    async def up(self, answers: Callable[[], Any]) -> None:
        """Return when `answers`, which may raise, has given something true. Raises `AssertionError` with the log's end where it never does."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self.processes:
                    with suppress(Exception):
                        if await answers():
                            return
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pass
        ended = "" if self._process is None or self._process.poll() is None else f" (it ended with status {self._process.returncode})"
        raise AssertionError(f"{self.name} is not up{ended}:\n{self.log.read_text(errors='replace')[-3000:]}")


class Postgres(Service):
    """A server whose files outlive it, that can be killed and started again on its port."""

    ends_on = signal.SIGINT  # without waiting for its clients

    def __init__(self, folder: Path, options: Sequence[str], *, of: Postgres | None = None) -> None:
        """`options` as ``postgres`` takes them; a replica `of` another one, which runs. Raises `postgres.NoServer`."""
        problems = []
        for binaries in postgres.binaries():
            self.root = Path(tempfile.mkdtemp(prefix="gw-pg-"))  # not below pytest's folder, which only its owner may enter
            try:
                self.as_user = postgres.initialised(binaries, self.root) if of is None else postgres.copied(binaries, self.root, of.port)
                break
            except postgres.NoServer as error:
                problems.append(f"{binaries}: {error}")
                shutil.rmtree(self.root, ignore_errors=True)
        else:
            raise postgres.NoServer("; ".join(problems) or "no PostgreSQL: install the dev dependencies or Debian's postgresql")
        self.port = free_port()
        own = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.root, "fsync": "off"}
        command = [str(binaries / "postgres"), "-D", str(self.root / "data"), *options]
        command += [piece for name, value in own.items() for piece in ("-c", f"{name}={value}")]
        super().__init__(
            "postgres", command, folder / f"{'postgres' if of is None else 'replica'}.log", os.environ, cwd=self.root, **self.as_user
        )

    def url(self, database: str = "groundwire") -> str:
        """For its superuser."""
        return f"postgresql://tester:pass%20word@127.0.0.1:{self.port}/{database}"

    async def started(self) -> None:
        """Start it, and wait until it takes connections."""
        self.start()
        await self.up(lambda: self.run("SELECT 1", database="postgres"))

    async def run(self, *statements: str, database: str = "groundwire") -> list[Any]:
        """The rows of the last of them."""
        import asyncpg

        connection = await asyncpg.connect(self.url(database), timeout=PATIENCE_S)
        try:
            rows: list[Any] = []
            for statement in statements:
                rows = await connection.fetch(statement)
            return rows or [()]
        finally:
            await connection.close()

    def end(self) -> None:
        super().end()
        shutil.rmtree(self.root, ignore_errors=True)


class Link:
    """A port that leads to another one, slowly where `delay_s` says so, or to nowhere."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, 0
        self.delay_s = 0.0
        """What each piece of data takes longer, each way."""
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Link:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self._open.set()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Nothing goes through, and nobody is told: connections stay, what is sent waits."""
        self._open.clear()

    def mend(self) -> None:
        """As before; connections that were there when it was cut break, as their packets' numbers would have moved on."""
        for task in list(self._tasks):
            task.cancel()
        self._open.set()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there: asyncio.StreamWriter | None = None
        with suppress(OSError, asyncio.CancelledError):
            await self._open.wait()
            back, there = await asyncio.open_connection("127.0.0.1", self.target)
            ways = [asyncio.ensure_future(self._pass(reader, there)), asyncio.ensure_future(self._pass(back, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        self._tasks.discard(task)
        for end in (writer, there):
            if end is not None:
                end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                await self._open.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
