"""Figures and times in the words of a page: thousands apart, shares in per cent, times that the viewer's own zone takes over."""

from __future__ import annotations

import time
from urllib.parse import quote, urlencode

from proxy.admin.dashboard.html import Html, el, own

NONE = "–"


def number(value: float | None) -> str:
    """``12,345``; a dash for nothing."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.1f}"


def share(value: float | None, digits: int = 0) -> str:
    """``71%``; what is there but rounds to nothing is ``<1%``."""
    if value is None:
        return NONE
    return f"{value:.{digits}%}" if value >= 0.005 or value <= 0 or digits else "<1%"


def score(value: float | None) -> str:
    """``0.83``."""
    return NONE if value is None else f"{value:.2f}"


def milliseconds(value: float | None) -> str:
    """``0.42 ms``, ``42 ms``, ``4.2 s``."""
    if value is None:
        return NONE
    if value >= 1000:
        return f"{value / 1000:,.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2f} ms"


def many(count: int, one: str, more: str = "") -> str:
    """``1 exchange``, ``2 exchanges``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def moment(at: float) -> Html:
    """A time, in UTC until the page's script has put it into the viewer's zone; the title stays UTC."""
    utc = time.gmtime(at)
    date, clock = time.strftime("%Y-%m-%d", utc), time.strftime("%H:%M:%S", utc)
    stamp = f"{date}T{clock}.{int(at % 1 * 1000):03d}Z"
    words = el("span", date, class_="date"), " ", el("span", clock, class_="time")
    return el("time", words, datetime=stamp, title=f"{date} {clock} UTC")


def record_path(record_id: str) -> str:
    """The page of an exchange."""
    return f"/dashboard/records/{quote(record_id, safe='')}"


def run_path(run_id: str) -> str:
    """The page of a run."""
    return f"/dashboard/runs/{quote(run_id, safe='')}"


def with_query(path: str, **values: str | None) -> str:
    """`path` with those values that there are."""
    given = {name: value for name, value in values.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def run_link(run_id: str) -> Html:
    """A link to a run, or a dash."""
    return el("a", own(run_id), href=run_path(run_id), class_="id") if run_id else el("span", NONE)


def record_link(record_id: str, text: str = "") -> Html:
    """A link to an exchange, or a dash."""
    return el("a", text or own(record_id), href=record_path(record_id), class_="id") if record_id else el("span", NONE)
