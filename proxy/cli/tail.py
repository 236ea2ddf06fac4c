"""``groundwire tail``: the exchanges of a running server, a line each, as they end.

The source is the server's list of records, so that every worker's exchanges are seen. An exchange is listed by the time at which its
request came but is in the list only once it is over, some time after exchanges that came later. So `Follower` does not go on from the last
one it has seen: each look takes the newest again and tells what is new; a deep look, rarer the more there is to read, goes back further
than an exchange can last. Times are the server's alone, so that its clock and this machine's need not agree.
"""

from __future__ import annotations

import json
import math
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from proxy.cli.admin_client import AdminClient, ServerAway, ServerRefused, admin_key, server_url
from proxy.cli.terminal import Terminal, cut, harmless, refused
from proxy.config.settings import Settings
from proxy.errors import ConfigError
from proxy.exchange import OUTCOMES, ContextUse, Facts
from proxy.store.records import RecordDetail, read

BACK_S = 2100.0
"""How far a deep look goes: longer than an upstream's `total_s`, with the stages' time. What lasts longer is not told."""
LOOK_S = 1.0
_PAGE, _DEEP_PAGE = 200, 1000
_DEEP_EVERY_S, _DEEP_SHARE = 5.0, 0.05
"""A deep look comes this often, but takes at most this share of the time."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_OUTCOMES = {*OUTCOMES, "skipped"}

Record = Mapping[str, Any]


class TailFilters(Struct, frozen=True):
    """Which exchanges; None for all."""

    route: str | None = None
    """A prefix; "" or "/" for the route without one."""
    run: str | None = None
    verdict: str | None = None
    client: str | None = None

    def query(self) -> dict[str, str | None]:
        """As the list of records takes them; the names are a record's own."""
        route = None if self.route is None else self.route.rstrip("/")
        return {"route": route, "run_id": self.run, "outcome": self.verdict, "client": self.client}

    def take(self, record: Record) -> bool:
        """Whether the record is one of them."""
        return all(wanted is None or record.get(name) == wanted for name, wanted in self.query().items())


ALL = TailFilters()


class TailSource(Protocol):
    """A list of records, newest first."""

    def page(self, limit: int, after: str | None = None, filters: TailFilters = ...) -> tuple[Sequence[Record], bool]:
        """At most `limit` that came before the record `after`, and whether there are more. Raises `ServerAway`, `ServerRefused`."""


class RecordList:
    """The list of a running server."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    def page(self, limit: int, after: str | None = None, filters: TailFilters = ALL) -> tuple[Sequence[Record], bool]:
        """One page. Raises `ServerAway`, `ServerRefused`."""
        body = self._client.get("/records", limit=limit, after=after, **filters.query())
        try:
            found = json.loads(body)
            records = [record for record in found["data"] if isinstance(record, dict) and isinstance(record.get("id"), str)]
            return records, bool(found["has_more"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ServerRefused(f"{self._client.url} is not a Groundwire server: its list of records cannot be read") from error


class Follower:
    """Tells each record of a source once.

    The list is asked for without filters, but for the first ones: a page of it costs the server the same however large its store is, where
    a filter that few records pass makes it go through all of them.
    """

    def __init__(self, source: TailSource, filters: TailFilters = ALL, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._source, self._filters, self._monotonic = source, filters, monotonic
        self._seen: dict[str, float] | None = None
        """Ids with the times at which they came; None before the first look."""
        self._newest = 0.0
        self._deep_at = 0.0

    def look(self, first: int = 0) -> list[Record]:
        """What is new, in the order of its end; on the first look, the last `first` of what there is already.

        Raises `ServerAway`, `ServerRefused`; what it had read until then is told by a later look.
        """
        begun, seen = self._monotonic(), self._seen
        deep = seen is None or begun >= self._deep_at
        shown, last = list[Record](), ""
        if seen is None:  # what is there already is seen; what comes while this takes a look is told
            newest = self._source.page(1)[0]
            shown = [*reversed(self._source.page(min(first, _DEEP_PAGE), None, self._filters)[0])] if first else []
            seen = {str(record["id"]): _came(record) for record in (*newest, *shown)}
            last, self._newest = max((record["id"] for record in newest), default=""), max(seen.values(), default=0.0)
        new: dict[str, float] = {}
        told: dict[str, Record] = {}
        for page in self._unseen(_DEEP_PAGE if deep else _PAGE, seen, whole=deep):
            new |= {record["id"]: _came(record) for record in page}
            told |= {record["id"]: record for record in page if record["id"] > last and self._filters.take(record)}
        self._seen = seen | new
        self._newest = max([self._newest, *new.values()])
        if deep:
            self._rest(begun)
        return [*shown, *sorted(told.values(), key=_ended)]

    def _unseen(self, limit: int, seen: Mapping[str, float], *, whole: bool) -> Iterator[list[Record]]:
        """What is not in `seen`, page by page: until a page has nothing new, or the `whole` of what is not too old."""
        oldest = self._newest - BACK_S
        after: str | None = None
        while True:
            page, more = self._source.page(limit, after)
            fresh = [record for record in page if record["id"] not in seen and _came(record) >= oldest]
            if fresh:
                yield fresh
            if not more or not page or _came(page[-1]) < oldest or not (fresh or whole):
                return
            after = page[-1]["id"]

    def _rest(self, begun: float) -> None:
        """Say when the next deep look is due, and forget what is too old to be told."""
        now = self._monotonic()
        self._deep_at = now + max(_DEEP_EVERY_S, (now - begun) / _DEEP_SHARE)
        oldest = self._newest - BACK_S
        self._seen = {name: came for name, came in (self._seen or {}).items() if came >= oldest}


def _came(record: Record) -> float:
    found = record.get("created_at")
    return float(found) if isinstance(found, int | float) else 0.0


def _ended(record: Record) -> tuple[float, str]:
    lasted = record.get("duration_ms")
    return _came(record) + (lasted / 1000 if isinstance(lasted, int | float) else 0.0), str(record["id"])


class Tail:
    """Follows a server and writes lines."""

    def __init__(
        self,
        source: TailSource,
        terminal: Terminal,
        filters: TailFilters = ALL,
        *,
        as_json: bool = False,
        first: int = 0,
        tell: Callable[[str], None] | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        """`tell` takes what is said of the server, standard error without it."""
        self._follower, self._terminal, self._as_json, self._first = Follower(source, filters), terminal, as_json, first
        self._tell, self._sleep = tell or _say, sleep or pause
        self._failing = False
        self._pause_s = _FIRST_PAUSE_S

    def run(self) -> None:
        """Until it is interrupted. Raises `ServerRefused`."""
        while True:
            self.step()

    def step(self) -> None:
        """One look, and the pause after it."""
        try:
            found = self._follower.look(self._first)
        except ServerAway as error:
            if not self._failing:
                self._failing = True
                self._tell(f"{error}; trying on")
            self._sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
            return
        if self._failing:
            self._failing, self._pause_s = False, _FIRST_PAUSE_S
            self._tell("the server answers again")
        for record in found:
            self._terminal.line(json_line(record) if self._as_json else line(record, self._terminal))
        self._sleep(LOOK_S)


def json_line(record: Record) -> str:
    """The record as JSON in ASCII, so that nothing in it can end the line or reach the terminal."""
    return json.dumps(record, separators=(",", ":")).replace("\x7f", "\\u007f")


def _say(message: str) -> None:
    print(f"groundwire: {harmless(message)}", file=sys.stderr, flush=True)


def pause(seconds: float) -> None:
    """Sleep, but notice at once when nobody reads any more. Raises `BrokenPipeError`."""
    try:
        descriptor = sys.stdout.fileno()
        waiting = select.poll()
    except (OSError, ValueError, AttributeError):  # no file, or a system without poll
        time.sleep(seconds)
        return
    waiting.register(descriptor, 0)  # its end is told even so
    if waiting.poll(seconds * 1000):
        raise BrokenPipeError("nobody reads the output")


def tail(settings: Callable[[], Settings], *, url: str | None, filters: TailFilters, first: int, as_json: bool) -> int:
    """Follow the server until interrupted; returns 2 where it will not answer. Raises `ConfigError`."""
    if first < 0:
        raise ConfigError("command line", "-n", "expected a number of at least 0")
    if filters.verdict is not None and filters.verdict not in _OUTCOMES:
        raise ConfigError("command line", "--verdict", f"expected one of {', '.join(sorted(_OUTCOMES))}")
    address, key = server_url(url, lambda: settings().server), admin_key(settings)
    client, terminal = AdminClient(address, key), Terminal()
    if terminal.is_terminal and not as_json:
        _say(f"exchanges of {address}, as they end; Ctrl-C ends this")
    try:
        Tail(RecordList(client), terminal, filters, as_json=as_json, first=first).run()
    except ServerRefused as error:
        return refused(harmless(str(error)))
    return 0


# ---- a line ----

_LOOKS = {
    "pass": ("✓", "+", "green"),
    "unsure": ("~", "~", "cyan"),
    "unchecked": ("○", "o", "dim"),
    "warn": ("!", "!", "yellow"),
    "block": ("✗", "x", "bold red"),
    "error": ("?", "?", "bold magenta"),
    "upstream_error": ("↯", "^", "bold magenta"),
    "interrupted": ("⊘", "0", "bold magenta"),
    "skipped": ("·", "-", "dim"),
}
"""A verdict's sign, its sign in ASCII, and its style."""
_SHORT = {"upstream_error": "upstream", "interrupted": "cut off"}
_NAME_COLUMNS, _LEAST_NAME_COLUMNS = 40, 12
"""Of a route, a policy or a model, at most; on a narrow screen."""
_MOST_CODES = 20
_MOST_NUMBER = 10**15
"""Beyond this, no server has counted it."""


def line(record: Record, terminal: Terminal) -> Text:
    """The record on one line, what counts most first; a screen shows as much of it as it has columns.

    Nothing in a record is trusted: a field of a wrong type is left out, a name is made harmless.
    """
    names = _NAME_COLUMNS if terminal.columns is None else max(_LEAST_NAME_COLUMNS, terminal.columns // 5)
    found = [piece for piece in pieces(record, symbols=terminal.can_write("✓✗·…"), name_columns=names) if piece[0]]
    shown = Text(" ").join(Text(text.ljust(len(text) + least - cell_len(text)), style) for text, style, least in found)
    shown.rstrip()
    if terminal.columns is not None:
        shown.truncate(terminal.columns, overflow="ellipsis")
    return shown


def pieces(record: Record, *, symbols: bool = True, name_columns: int = _NAME_COLUMNS) -> list[tuple[str, str, int]]:
    """Text, style and least columns of all that a line can tell; what this record lacks is empty."""
    detail = read(record.get("detail"), RecordDetail)
    facts = detail.facts or Facts()
    verdict, status = _text(record, "outcome") or "?", _whole(record, "status")
    bad_status = "bold red" if status is None or status >= 500 else "yellow" if status >= 400 else ""
    sign, plain_sign, style = _LOOKS.get(verdict, (" ", " ", ""))
    return [
        (clock_time(_number(record, "created_at") or 0.0), "dim", 0),
        (f"{sign if symbols else plain_sign} {cut(_SHORT.get(verdict, verdict), 9)}", style, 9),
        (str(status) if status is not None else "---", bad_status, 0),
        (_text(record, "route", name_columns) or "/", "", 6),
        (_text(record, "model", name_columns) or _text(record, "path", name_columns), "", 11),
        (milliseconds(_number(record, "duration_ms")), "", 0),
        (",".join(warnings(detail)), "yellow", 0),
        (tokens(record, facts.context), "", 0),
        (f"faith={facts.faithfulness:.2f}" if facts.faithfulness is not None else "", "", 0),
        (_text(record, "id", 64), "dim", 0),
    ]


def clock_time(at: float, now: float | None = None) -> str:
    """``14:03:07``, local; with ``11-20`` before it where that was not today."""
    try:
        given, today = time.localtime(at), time.localtime(now)
        return time.strftime("%H:%M:%S" if given[:3] == today[:3] else "%m-%d %H:%M:%S", given)
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def tokens(record: Mapping[str, Any], use: ContextUse | None) -> str:
    """Of the prompt, as it went upstream, with the window and the share of it: ``1.2k/128k 1%``."""
    if use is not None and use.window_tokens and use.used_tokens < _MOST_NUMBER:
        return f"{thousands(use.used_tokens)}/{thousands(use.window_tokens)} {use.share:.0%}"
    sent = use.used_tokens if use is not None else _whole(record, "prompt_tokens")
    return f"{thousands(sent)} tok" if sent is not None else ""


def thousands(number: int) -> str:
    """``950``, ``1.2k``, ``128k``, ``1.0M``."""
    if abs(number) >= _MOST_NUMBER:
        return "…"
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if abs(number) >= size:
            scaled = number / size
            return f"{scaled:.1f}{unit}" if scaled < 10 and number % size else f"{scaled:.0f}{unit}"
    return str(number)


def milliseconds(ms: float | None) -> str:
    """``0.4ms``, ``42ms``, ``4.2s``."""
    if ms is None:
        return ""
    if ms >= 999.5:
        return f"{ms / 1000:.1f}s" if ms < 99_950 else f"{ms / 1000:.0f}s"
    return f"{ms:.0f}ms" if ms >= 9.95 else f"{ms:.1f}ms"


def warnings(detail: RecordDetail) -> list[str]:
    """The error that ended it, then the codes of all verdicts that are not a pass, each once."""
    ended = [detail.error.param or detail.error.code] if detail.error is not None else []
    codes = [_shown(code) for code in (*ended, *detail.warnings)]
    return [code for code in dict.fromkeys(codes) if code][:_MOST_CODES]


def _text(mapping: Mapping[str, Any], name: str, most: int = 80) -> str:
    found = mapping.get(name)
    return _shown(found, most) if isinstance(found, str) else ""


def _shown(text: str, most: int = 80) -> str:
    return cut(harmless(text.strip(), most), most)


def _number(mapping: Mapping[str, Any], name: str) -> float | None:
    found = mapping.get(name)
    if not isinstance(found, int | float) or isinstance(found, bool):
        return None
    return float(found) if abs(found) < 1e15 and math.isfinite(found) else None


def _whole(mapping: Mapping[str, Any], name: str) -> int | None:
    found = _number(mapping, name)
    return int(found) if found is not None else None
