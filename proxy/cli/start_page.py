"""The start page of ``groundwire serve`` on a terminal; into a pipe, a file or a JSON log the same goes as log lines.

And a line that moves while something takes its time (`Waiting`): what is being done, and for how many seconds. The cursor waits at its
beginning, so that whatever is written meanwhile (a log line) takes its place.
"""

from __future__ import annotations

import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

import proxy
from proxy.observe.logs import writes_json
from proxy.server.start_page import StartPage, StartRoute, log_page

if TYPE_CHECKING:
    from rich.text import Text


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


_DOCS = Path(proxy.__file__).parents[1] / "README.md"
"""In a checkout; an installed package has none beside it."""
_INDENT = "  "


def announcer() -> Callable[[StartPage], None]:
    """What shows the page where standard error goes."""
    if not sys.stderr.isatty() or writes_json():
        return log_page
    from proxy.cli.terminal import Terminal  # with rich, which a service never needs

    terminal = Terminal(sys.stderr)

    def show(page: StartPage) -> None:
        for line in lines(page, terminal.columns or 80):
            terminal.line(line)

    return show


def lines(page: StartPage, columns: int) -> Iterator[Text]:
    """The page, in at most `columns`, but for addresses and the line to paste, which are never broken."""
    from rich.text import Text

    yield Text()
    yield Text.assemble(_INDENT, (f"Groundwire {proxy.__version__} is up at {page.address}", "bold green"))
    yield Text()
    for route in page.routes:
        yield from _route(route, columns)
    yield Text()
    yield Text.assemble(_INDENT, ("dashboard  ", "dim"), page.dashboard)
    yield from _wrapped(page.admin_key, columns, 13, "dim")
    if _DOCS.is_file():
        yield Text.assemble(_INDENT, ("docs       ", "dim"), str(_DOCS))
    for note in page.notes:
        yield from _wrapped(f"! {note}", columns, 2, "yellow")
    yield Text()
    yield Text(f"{_INDENT}Try it in another terminal:", "dim")
    yield Text()
    yield Text(page.curl)
    yield Text()
    for said in ("tail shows each exchange", "explain says what a policy does", "demo is a tour without a key"):
        yield Text(f"{_INDENT}groundwire {said}", "dim")
    yield Text(f"{_INDENT}Ctrl-C stops the server.", "dim")
    yield Text()


def _route(route: StartRoute, columns: int) -> Iterator[Text]:
    from rich.text import Text

    yield Text.assemble(_INDENT, ("base_url   ", "dim"), (route.for_client, "bold"))
    yield from _wrapped(f"to {route.upstream} ({route.kind}), policy {route.policy}, {route.how}", columns, 13, "")
    for note in route.notes:
        yield from _wrapped(f"! {note}", columns, 13, "yellow")


def _wrapped(text: str, columns: int, indent: int, style: str) -> Iterator[Text]:
    from rich.text import Text

    space = " " * indent
    found = textwrap.wrap(text, columns, initial_indent=space, subsequent_indent=space, break_long_words=False, break_on_hyphens=False)
    return (Text(line, style) for line in found)
