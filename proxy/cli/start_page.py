"""The start page of ``groundwire serve`` on a terminal; into a pipe, a file or a JSON log the same goes as log lines."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import proxy
from proxy.observe.logs import writes_json
from proxy.server.start_page import StartPage, StartRoute, log_page

if TYPE_CHECKING:
    from rich.text import Text


def ask_for_patience(what: str) -> None:
    """Say on a terminal what takes its time."""
    if sys.stderr.isatty():
        print(f"{what} ...", file=sys.stderr, flush=True)


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
