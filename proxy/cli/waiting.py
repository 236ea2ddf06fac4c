"""A line that moves while something takes its time: what is being done, and for how many seconds. Written on a terminal alone.

The cursor waits at the beginning of the line, so that whatever is written meanwhile (a log line) takes its place.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import IO

_EVERY_S = 0.5
_CLEAR = "\x1b[K"


class Waiting:
    """``with Waiting("Groundwire starts"):`` says so until the block ends, or until `over`."""

    def __init__(self, what: str, stream: IO[str] | None = None, every_s: float = _EVERY_S) -> None:
        """Standard error without `stream`."""
        self._what, self._stream, self._every_s = what, sys.stderr if stream is None else stream, every_s
        self._began, self._ended = time.monotonic(), threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Waiting:
        if self._stream.isatty():
            from proxy.cli.terminal import NARROWEST, cut  # with rich, which a service never needs

            self._what = cut(self._what, NARROWEST * 2 - 8)
            self._write()
            self._thread = threading.Thread(target=self._move, name="waiting", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.over()

    def over(self) -> None:
        """Take the line away; nothing where it has gone."""
        with self._lock:
            if self._thread is not None and not self._ended.is_set():
                self._stream.write(f"\r{_CLEAR}")
                self._stream.flush()
            self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _move(self) -> None:
        while not self._ended.wait(self._every_s):
            with self._lock:
                if not self._ended.is_set():
                    self._write()

    def _write(self) -> None:
        self._stream.write(f"\r{self._what} {time.monotonic() - self._began:.0f} s{_CLEAR}\r")
        self._stream.flush()
