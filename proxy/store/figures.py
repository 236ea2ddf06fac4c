"""What happened over a day or a week: figures by hour or by any other length of time.

In: two times and the length of a bucket. Out: a `Bucket` for each. Days, hours and minutes whose sums are kept (`proxy.store.rollups`) come
from there, each from the longest that fits; what is left, mostly the last minutes, is read from the records (`proxy.store.record_sums`).
Clashes, quarantined pieces and what people said come from their own tables, on every call, since a person may decide on them later. To see
what it costs: ``python -m benchmarks.dashboard_scale``.

`RollupBuilder` makes the sums that are kept, in the background of every worker: minutes, hours, days once they are over. A row is made of
shorter ones where these are good, and of records where not, so that an hour is read once. Each is claimed before, so that several workers
share the work, and stored only if none of its records changed meanwhile. Where a store was filled by an earlier release, its days are gone
through from the newest to the oldest: this takes about a minute for a million exchanges, a part of the time only, so that requests come
first, and the log says when it begins and ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence, Set
from copy import deepcopy
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Table, and_, case, func, literal_column, or_, select

from proxy.ports.background import RepeatedTask
from proxy.ports.panels import Bucket, StagePanel, raise_count
from proxy.store.database import Database
from proxy.store.feedback import FLAGGED
from proxy.store.record_sums import AT_ONCE, MAX_CODES, TIMEOUT_S, Grid, RecordSums
from proxy.store.rollups import LEVELS_S, Due, Rollups, Row, unpacked
from proxy.store.tables import HELD_BACK, TROUBLED, Only, are_only, clashes, failures, feedback, quarantine, records

MAX_BUCKETS = 1000
MAX_DETAILS = 200_000
"""Records whose detail one call reads, the newest first; what comes from kept sums does not count."""
_FAR = 12
"""Rows of a level between two gaps from which on they are asked for apart."""
Span = tuple[float, float]


def total(buckets: Iterable[Bucket]) -> Bucket | None:
    """All of them as one; None for none."""
    found: Bucket | None = None
    for bucket in buckets:
        if found is None:
            found = deepcopy(bucket)
            continue
        found.seconds += bucket.seconds
        add_up(found, bucket)
    return found


def add_up(whole: Bucket, part: Bucket) -> None:
    """Add everything that is counted."""
    _add_fields(whole, part, Bucket.__struct_fields__[2:])
    for counts in (whole.warnings, whole.reasons, whole.saved_tokens):
        while len(counts) > MAX_CODES + 1:
            _, rarest = min((number, code) for code, number in counts.items() if code != "other")
            raise_count(counts, "other", counts.pop(rarest))


def _add_fields(whole: Struct, part: Struct, names: Iterable[str]) -> None:
    for name in names:
        value, more = getattr(whole, name), getattr(part, name)
        if isinstance(value, dict):
            for key, number in more.items():
                if isinstance(number, StagePanel):
                    _add_fields(value.setdefault(key, type(number)()), number, number.__struct_fields__)
                else:
                    raise_count(value, key, number)
        else:
            setattr(whole, name, value + more)


class DatabaseFigures:
    """Figures over time."""

    def __init__(
        self,
        database: Database,
        panels: Sequence[type[StagePanel]] = (),
        *,
        max_details: int = MAX_DETAILS,
        at_once: int = AT_ONCE,
        only: Only | None = None,
    ) -> None:
        """`panels` are those of the stages; `at_once` is how many exchanges a query may go through.

        Of those with `only` one route, policy, upstream or model no sums are kept: everything is read from their records.
        """
        self._database, self._max_details, self._only = database, max_details, only
        self.clock = database.clock
        self.rollups, self._records = Rollups(database, panels), RecordSums(database, panels, at_once=at_once, only=only)
        self._lock = asyncio.Lock()

    async def between(self, since: float, until: float, bucket_s: int) -> list[Bucket]:
        """A bucket for each `bucket_s` seconds, the oldest first; empty ones too.

        The first begins at the last multiple of `bucket_s` that is not after `since`, the last ends with `until` (exclusive). One call
        at a time is worked on. Raises `ValueError` for more than `MAX_BUCKETS`, `StoreUnavailable`.
        """
        if bucket_s < 1 or not math.isfinite(since) or not math.isfinite(until):
            raise ValueError("expected finite times, and a bucket of at least a second")
        first = math.floor(since / bucket_s) * bucket_s
        number = max(0, math.ceil((until - first) / bucket_s))
        if number > MAX_BUCKETS:
            raise ValueError(f"{number} buckets of {bucket_s} s; at most {MAX_BUCKETS}: use longer ones, or a shorter time")
        if not number:
            return []
        async with self._lock:
            made = await self._added(Grid(float(first), bucket_s), number, until, self._max_details)
            await self._reviewed(made, Grid(float(first), bucket_s), until)
        return list(made.values())

    async def whole(self, since: float, until: float) -> Bucket:
        """All of a time as one bucket, every detail read. Raises `StoreUnavailable`."""
        grid = Grid(since, max(1, math.ceil(until - since)))
        made = await self._added(grid, 1, until, None)
        await self._reviewed(made, grid, until)
        return made[since]

    async def troubled_runs(self, since: float, until: float, most: int = 10) -> list[dict[str, Any]]:
        """The runs with most exchanges that failed or were refused, and then with most that were warned of. Raises `StoreUnavailable`."""
        c = records.c
        failed = or_(c.outcome.in_(("block", "error", "upstream_error")), c.status >= 500)
        counts = [func.sum(case((which, 1), else_=0)) for which in (failed, and_(c.outcome == "warn", c.status < 500))]
        query = select(c.run_id, *counts).where(*self._records.within(since, until), c.run_id != "", literal_column(f"({TROUBLED})"))
        query = query.group_by(c.run_id).order_by(counts[0].desc(), counts[1].desc(), c.run_id).limit(most)
        return [dict(zip(("run_id", "failed", "warned"), row, strict=True)) for row in await self._rows(query)]

    async def by_model(self, since: float, until: float, most: int = 100) -> list[dict[str, Any]]:
        """Exchanges, tokens and cost of each upstream's models, the most asked for first. Raises `StoreUnavailable`."""
        c, names = records.c, ("upstream", "model", "exchanges", "prompt_tokens", "completion_tokens", "cost_usd")
        sums = [func.count(), func.sum(c.prompt_tokens), func.sum(c.completion_tokens), func.sum(c.cost_usd)]
        query = select(c.upstream, c.model, *sums).where(*self._records.within(since, until), c.upstream != "", c.model != "")
        query = query.group_by(c.upstream, c.model).order_by(func.count().desc(), c.upstream, c.model).limit(most)
        rows = [dict(zip(names, row, strict=True)) for row in await self._rows(query)]
        return [row | {name: int(row[name] or 0) for name in names[2:5]} for row in rows]

    async def held_back(self, since: float, until: float, most: int = 10) -> list[dict[str, Any]]:
        """The newest exchanges that a policy in shadow mode would have refused. Raises `StoreUnavailable`."""
        names = ("id", "created_at", "model", "reason")
        query = select(*(records.c[name] for name in names)).where(*self._records.within(since, until), literal_column(HELD_BACK))
        rows = await self._rows(query.order_by(records.c.created_at.desc(), records.c.id.desc()).limit(most))
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def since_newest(self, since: float, until: float, most: int) -> float:
        """When the first of the newest `most` exchanges of a time came; `since` where there are not so many. Raises `StoreUnavailable`."""
        c = records.c
        query = select(c.created_at).where(c.created_at >= since, c.created_at < until).order_by(c.created_at.desc(), c.id.desc())
        rows = await self._rows(query.offset(most - 1).limit(1))
        return float(rows[0][0]) if rows else since

    async def newest(self) -> float | None:
        """When the last exchange came; None where there is none. Raises `StoreUnavailable`."""
        rows = await self._rows(select(func.max(records.c.created_at)).where(*self._records.within(0.0, math.inf)))
        return None if rows[0][0] is None else float(rows[0][0])

    async def routes(self, most: int = 50) -> list[str]:
        """Prefixes of the routes that exchanges came by, in order, at most so many. Raises `StoreUnavailable`."""
        query = select(records.c.route).where(*self._records.within(0.0, math.inf)).distinct().order_by(records.c.route).limit(most)
        return [route for (route,) in await self._rows(query)]

    async def _rows(self, query: Any) -> Sequence[Any]:
        return await self._database.rows(query, timeout_s=TIMEOUT_S)

    async def sums(self, start: int, seconds: int) -> Bucket:
        """What is kept of a time, as one bucket: only of sums that know all panels, and of all records. Raises `StoreUnavailable`."""
        grid = Grid(float(start), seconds)
        return (await self._added(grid, 1, float(start + seconds), None))[grid.origin]

    async def _added(self, grid: Grid, number: int, until: float, most_details: int | None) -> dict[float, Bucket]:
        """`number` buckets without what is counted anew; all details, and only whole sums, where `most_details` is None."""
        made = {start: Bucket(start=start, seconds=grid.bucket_s) for start in map(grid.start, range(number))}
        gaps = [(start, min(start + grid.bucket_s, until)) for start in made]
        known_from = await self.rollups.complete_from()
        for level_s in LEVELS_S if self._only is None else ():
            gaps = await self._from_rows(made, grid, gaps, level_s, known_from, whole=most_details is None)
        left = most_details if most_details is not None else 10**12
        for since, end in reversed(_joined(gaps)):
            left -= await self._records.add(made, grid, since, end, left)
        return made

    async def _from_rows(
        self, made: Mapping[float, Bucket], grid: Grid, gaps: Sequence[Span], level_s: int, known_from: float, *, whole: bool
    ) -> list[Span]:
        """Add the rows of a level that lie in the gaps, each of which is within one bucket; returns what is missing still."""
        rows: dict[int, Row] = {}
        for since, until in _joined([inner for gap in gaps if (inner := _inside(gap, level_s))], _FAR * level_s):
            rows |= {row.start: row for row in await self.rollups.between(level_s, int(since), int(until))}
        starts, missing = sorted(rows), list[Span]()
        for gap in gaps:
            inner = _inside(gap, level_s)
            if inner is None:
                missing.append(gap)
                continue
            here = [rows[start] for start in starts[bisect_left(starts, inner[0]) : bisect_left(starts, inner[1])]]
            good = [row for row in here if row.is_good and (not whole or self.rollups.is_whole(row))]
            for row in good:
                add_up(made[grid.start_at(gap[0])], unpacked(row, self.rollups.panels))
            missing += _rest(gap, inner, {row.start for row in here}, {row.start for row in good}, level_s, known_from)
        return missing

    async def _reviewed(self, made: Mapping[float, Bucket], grid: Grid, until: float) -> None:
        """Add clashes, quarantined pieces, failures of runs and what people said of findings, as they stand now."""
        q, c, f = quarantine.c, clashes.c, feedback.c
        by_policy = case((c.resolved_by == "policy", 1), else_=0)
        async for bucket, kind, status, number in self._decided(made, grid, until, quarantine, q.type, q.status):
            raise_count(bucket.quarantined, kind, number)
            raise_count(bucket.quarantine, status, number)
        async for bucket, kind, strategy, status, policy, number in self._decided(
            made, grid, until, clashes, c.type, c.strategy, c.status, by_policy
        ):
            raise_count(bucket.clashes, kind, number)
            if policy and status == "resolved":
                raise_count(bucket.clash_strategies, strategy, number)
            if status == "open":
                bucket.clashes_open += number
        async for bucket, stage, word, number in self._decided(made, grid, until, feedback, f.stage, f.said, of=f.label.in_(FLAGGED)):
            raise_count(bucket.feedback, f"{stage}:{word}", number)
        async for bucket, signal, status, number in self._decided(made, grid, until, failures, failures.c.signal_type, failures.c.status):
            raise_count(bucket.failures, f"{signal}:{status}", number)

    async def _decided(
        self, made: Mapping[float, Bucket], grid: Grid, until: float, table: Table, *columns: Any, of: ColumnElement[bool] | None = None
    ) -> AsyncIterator[Any]:
        """A table's rows by these columns, counted, each behind its bucket: of `only` some exchanges what these have made."""
        at = grid.index(table.c.created_at, self._database.is_sqlite)
        query = select(at, *columns, func.count()).where(table.c.created_at >= grid.origin, table.c.created_at < until)
        if of is not None:
            query = query.where(of)
        if self._only is not None:
            made_by = records.c.run_id == table.c.run_id if table is failures else records.c.id == table.c.record_id
            query = query.where(select(records.c.id).where(made_by, are_only(self._only)).exists())
        for index, *values, number in await self._rows(query.group_by(at, *columns)):
            yield made[grid.start(index)], *values, int(number)


def _inside(gap: Span, level_s: int) -> tuple[int, int] | None:
    """The part of a gap that rows of a level can fill."""
    since, until = math.ceil(gap[0] / level_s) * level_s, math.floor(gap[1] / level_s) * level_s
    return (since, until) if since < until else None


def _rest(gap: Span, inner: tuple[int, int], there: Set[int], good: Set[int], level_s: int, known_from: float) -> list[Span]:
    """What good rows do not fill: both ends, rows that are not good, and where there is no row before `known_from`."""
    missing = [(gap[0], float(inner[0]))]
    at = float(inner[0])
    for start in (*sorted(there), inner[1]):
        missing.append((at, min(float(start), known_from)))
        at = float(start + level_s)
        if start in there and start not in good:
            missing.append((float(start), at))
    missing.append((float(inner[1]), gap[1]))
    return _joined(missing)


def _joined(spans: Iterable[Span], apart_s: float = 0.0) -> list[Span]:
    """Spans in order, those that touch each other or are not so far apart as one, without empty ones."""
    found: list[Span] = []
    for since, until in spans:
        if until <= since:
            continue
        if found and since - found[-1][1] <= apart_s:
            since = found.pop()[0]
        found.append((since, until))
    return found


log = logging.getLogger(__name__)

SETTLED_S = 30.0
"""After its end, until when a row is left alone: exchanges that began in it end."""
_FIRST_S, _EVERY_S = 5.0, 10.0
"""After a start, and between two rounds."""
_END_S = 2.0
_AGAIN_S = 30.0
"""Between two times that the same row is made, where late records keep changing it."""
_CLAIMED_S = 120.0
"""A worker that died in the middle leaves a row to the others after this time."""
_AT_ONCE = 32
_MANY = 48
"""Rows to be made from which on the log tells."""
_LOOK_EVERY_S = 3600.0
BUSY_SHARE = 0.4
"""Of the time that is worked at most."""


class RollupBuilder:
    """The task."""

    def __init__(self, figures: DatabaseFigures, *, busy_share: float = BUSY_SHARE, clock: Callable[[], float] | None = None) -> None:
        self._figures, self._rollups, self._busy_share, self._clock = figures, figures.rollups, busy_share, clock or figures.clock
        self._lacking: list[str] = []
        self._look_at = 0.0
        problem, long = "figures could not be added up", {"jitter": 0.25, "end_s": _END_S}
        self._rounds = RepeatedTask(self.run_once, _EVERY_S, name="rollups", problem=problem, log=log, **long)

    def start(self, first_s: float = _FIRST_S) -> None:
        """Begin, `first_s` seconds from now. Needs a running event loop; the database need not be available."""
        self._rounds.start(first_s)

    async def stop(self) -> None:
        """End the task: the row that is made now is finished, if that takes no longer than a moment."""
        await self._rounds.stop()

    async def run_once(self) -> int:
        """Make all that is due; returns how many rows were made. Raises `StoreUnavailable`."""
        made, past, began = 0, 0, time.monotonic()
        if began > self._look_at:
            await self._look()
            self._look_at = began + _LOOK_EVERY_S
        while not self._rounds.stopping.is_set() and (due := await self._next()):
            if not past and (past := await self._rollups.left()) >= _MANY:
                log.info("figures: past exchanges are added up in the background, %d hours and days; pages read them until then", past)
            for one in due:
                if self._rounds.stopping.is_set():
                    return made
                made += await self._make(one)
        if past >= _MANY:
            log.info("figures: past exchanges are added up, in %.0f s", time.monotonic() - began)
        return made

    async def _look(self) -> None:
        """For what nobody touched: records of an earlier release, rows of a process that does not know all panels."""
        await self._rollups.begin(self._clock())
        more = True
        while more:  # a day at a time: writers come in between
            more = await self._rollups.mark_past()
        self._lacking = await self._rollups.panels_kept()

    async def _next(self) -> list[Due]:
        """Some that are due, the shortest first, as the longer are made of them."""
        for seconds in reversed(LEVELS_S):
            if due := await self._rollups.due(seconds, self._clock(), SETTLED_S, self._lacking, _AT_ONCE):
                return due
        return []

    async def _make(self, due: Due) -> bool:
        """One row; whether it was stored."""
        if not await self._rollups.claim(due, self._clock(), _CLAIMED_S):
            return False
        began = time.monotonic()
        bucket = await self._figures.sums(due.start, due.seconds)
        stored = await self._rollups.put(due, bucket, self._clock() + _AGAIN_S)
        await self._rounds.pause((time.monotonic() - began) * (1 / self._busy_share - 1))
        return stored
