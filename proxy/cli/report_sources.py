"""Where a report's exchanges come from: the store itself, or a running server's lists. One page at a time is in memory.

Out: `ReportFigures` of a period, what waits in quarantine now, and when the last exchange came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from proxy.cli.admin_client import AdminClient, ServerRefused
from proxy.cli.report_figures import ReportEntry, ReportFigures
from proxy.store.reading import StoreReading

T = TypeVar("T")
_PAGE = 1000


class ReportSource(Protocol):
    """Tells of one route, or all."""

    async def read(self, figures: ReportFigures, since: float, until: float) -> None:
        """Add what happened in [since, until). Raises `StoreUnavailable`, `ServerAway`, `ServerRefused`."""

    async def waiting(self) -> int | None:
        """Pieces in quarantine that wait for a decision now; None where that is not known."""

    async def newest(self) -> float | None:
        """When the last exchange came; None where there is none."""


class StoreSource:
    """The store."""

    def __init__(self, reading: StoreReading) -> None:
        self._reading = reading

    async def read(self, figures: ReportFigures, since: float, until: float) -> None:
        """Add it. Raises `StoreUnavailable`."""
        async for page in self._reading.exchanges(since, until, ReportEntry.__struct_fields__):
            for row in page:
                figures.add(ReportEntry(*(*row[:-1], Raw(row[-1]))))
        figures.add_pieces(await self._reading.pieces(since, until))
        figures.add_clashes(await self._reading.clashes(since, until))
        figures.add_failures(await self._reading.failures(since, until))

    async def waiting(self) -> int | None:
        """How many. Raises `StoreUnavailable`."""
        return await self._reading.waiting()

    async def newest(self) -> float | None:
        """When. Raises `StoreUnavailable`."""
        return await self._reading.newest()


class _Exchanges(Struct):
    data: list[ReportEntry]
    has_more: bool


class _Item(Struct):
    """A piece in quarantine, a clash or a failure, as the lists have it."""

    id: str
    created_at: float
    type: str = ""
    signal_type: str = ""
    status: str = ""
    resolved_by: str = ""


class _Items(Struct):
    data: list[_Item]
    has_more: bool


class _Metrics(Struct):
    quarantine: dict[str, int] | None = None


class ServerSource:
    """A running server's lists. Blocking, as nothing else has to go on meanwhile."""

    def __init__(self, client: AdminClient, route: str | None) -> None:
        self._client, self._route = client, route

    async def read(self, figures: ReportFigures, since: float, until: float) -> None:
        """Add it; pieces, clashes and failures of one route cannot be told apart in the lists. Raises `ServerAway`, `ServerRefused`."""
        query: dict[str, Any] = {"since": since, "until": until, "route": self._route}
        for page in self._pages("/records", _Exchanges, **query):
            for entry in page.data:
                figures.add(entry)
        if self._route is not None:
            figures.add_pieces(None)
            figures.add_clashes(None)
            figures.add_failures(None)
            return
        figures.add_pieces((item.type, item.status, 1) for item in self._items("/quarantine", since, until))
        figures.add_clashes((item.type, item.status, item.resolved_by, 1) for item in self._items("/clashes", since, until))
        figures.add_failures((item.signal_type, item.status, 1) for item in self._items("/failures", since, until))

    async def waiting(self) -> int | None:
        """How many. Raises `ServerAway`, `ServerRefused`."""
        counts = self._get("/metrics", _Metrics).quarantine
        return None if counts is None or self._route is not None else counts.get("pending", 0)

    async def newest(self) -> float | None:
        """When. Raises `ServerAway`, `ServerRefused`."""
        data = self._get("/records", _Exchanges, limit=1, route=self._route).data
        return data[0].created_at if data else None

    def _items(self, path: str, since: float, until: float) -> Iterator[_Item]:
        """Those of [since, until); the lists are by time, the newest first."""
        for page in self._pages(path, _Items):
            for item in page.data:
                if item.created_at < since:
                    return
                if item.created_at < until:
                    yield item

    def _pages(self, path: str, kind: type[T], **query: Any) -> Iterator[T]:
        after: str | None = None
        while True:
            page: Any = self._get(path, kind, limit=_PAGE, after=after, **query)
            yield page
            if not page.has_more or not page.data:
                return
            after = page.data[-1].id

    def _get(self, path: str, kind: type[T], **query: Any) -> T:
        body = self._client.get(path, **query)
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise ServerRefused(f"{self._client.url} is not a Groundwire server, or of another version: {error}") from error
