"""Times that the viewer's own zone takes over, and links to exchanges and runs."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from proxy.admin.dashboard.html import Html, el, own
from proxy.errors import InvalidRequest
from proxy.language.amounts import NONE

_SHORT_CHARS = 14
_MINUTE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")


def moment(at: float) -> Html:
    """A time, in UTC until the page's script has put it into the viewer's zone; the title stays UTC."""
    utc = time.gmtime(at)
    date, clock = time.strftime("%Y-%m-%d", utc), time.strftime("%H:%M:%S", utc)
    stamp = f"{date}T{clock}.{int(at % 1 * 1000):03d}Z"
    words = el("span", date, class_="date"), " ", el("span", clock, class_="time")
    return el("time", words, datetime=stamp, title=f"{date} {clock} UTC")


def minute(at: float) -> str:
    """A time in UTC as a browser's field for it takes it; with seconds where it has some."""
    return time.strftime("%Y-%m-%dT%H:%M:%S" if at % 60 >= 1 else "%Y-%m-%dT%H:%M", time.gmtime(at))


def seconds_of(text: str, name: str) -> float | None:
    """What such a field gives; None for nothing. Raises `InvalidRequest`."""
    if not text:
        return None
    try:
        if _MINUTE.fullmatch(text) is None:
            raise ValueError(text)
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidRequest(f"{name}: expected a minute in UTC, as 2026-02-03T14:05", param=name) from None


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


def short(name: str) -> str:
    """The end of a long id, which tells it from others of its kind."""
    return name if len(name) <= _SHORT_CHARS else f"…{name[-8:]}"


def run_link(run_id: str) -> Html:
    """A link to a run, or a dash."""
    return el("a", own(short(run_id)), href=run_path(run_id), class_="id", title=run_id) if run_id else el("span", NONE)


def record_link(record_id: str, text: str = "") -> Html:
    """A link to an exchange, or a dash."""
    return el("a", text or own(record_id), href=record_path(record_id), class_="id") if record_id else el("span", NONE)
