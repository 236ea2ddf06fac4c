"""What happened over a day or a week: figures by hour or by any other length of time.

In: two times and the length of a bucket. Out: a `Bucket` for each. Days, hours and minutes whose sums are kept (`proxy.store.rollups`) come
from there, each from the longest that fits; what is left, mostly the last minutes, is read from the records (`proxy.store.record_sums`).
Clashes, quarantined pieces and what people said come from their own tables, on every call, since a person may decide on them later. To see
what it costs: ``python -m benchmarks.dashboard_scale``.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import deepcopy

from msgspec import Struct
from sqlalchemy import case, func, select

from proxy.ports.panels import Bucket, StagePanel, raise_count
from proxy.store.database import Database
from proxy.store.record_sums import AT_ONCE, MAX_CODES, TIMEOUT_S, Grid, RecordSums
from proxy.store.rollups import LEVELS_S, Rollups, Row, unpacked
from proxy.store.tables import clashes, feedback, quarantine

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
    while len(whole.warnings) > MAX_CODES + 1:
        rarest = min((code for code in whole.warnings if code != "other"), key=lambda code: (whole.warnings[code], code))
        raise_count(whole.warnings, "other", whole.warnings.pop(rarest))


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
    ) -> None:
        """`panels` are those of the stages; `at_once` is how many exchanges a query may go through."""
        self._database, self._max_details = database, max_details
        self.rollups, self._records = Rollups(database, panels), RecordSums(database, panels, at_once=at_once)
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

    async def sums(self, start: int, seconds: int) -> Bucket:
        """What is kept of a time, as one bucket: only of sums that know all panels, and of all records. Raises `StoreUnavailable`."""
        grid = Grid(float(start), seconds)
        return (await self._added(grid, 1, float(start + seconds), None))[grid.origin]

    async def _added(self, grid: Grid, number: int, until: float, most_details: int | None) -> dict[float, Bucket]:
        """`number` buckets without what is counted anew; all details, and only whole sums, where `most_details` is None."""
        made = {start: Bucket(start=start, seconds=grid.bucket_s) for start in map(grid.start, range(number))}
        gaps = [(start, min(start + grid.bucket_s, until)) for start in made]
        known_from = await self.rollups.complete_from()
        for level_s in LEVELS_S:
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
        for since, until in _near([inner for gap in gaps if (inner := _inside(gap, level_s))], _FAR * level_s):
            rows |= {row.start: row for row in await self.rollups.between(level_s, since, until)}
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
        """Add clashes, quarantined pieces and what people said of findings, as they stand now."""
        q, c, f, since = quarantine.c, clashes.c, feedback.c, grid.origin
        at_q, at_c, at_f = (grid.index(table.c.created_at, self._database.is_sqlite) for table in (quarantine, clashes, feedback))
        by_policy = case((c.resolved_by == "policy", 1), else_=0)
        pieces = (
            select(at_q, q.type, q.status, func.count()).where(q.created_at >= since, q.created_at < until).group_by(at_q, q.type, q.status)
        )
        found = (
            select(at_c, c.type, c.strategy, c.status, by_policy, func.count())
            .where(c.created_at >= since, c.created_at < until)
            .group_by(at_c, c.type, c.strategy, c.status, by_policy)
        )
        words = (
            select(at_f, f.stage, f.said, func.count()).where(f.created_at >= since, f.created_at < until).group_by(at_f, f.stage, f.said)
        )
        async with self._database.transaction(TIMEOUT_S) as connection:
            quarantined = (await connection.execute(pieces)).all()
            clashed = (await connection.execute(found)).all()
            spoken = (await connection.execute(words)).all()
        for index, stage, word, number in spoken:
            raise_count(made[grid.start(index)].feedback, f"{stage}:{word}", int(number))
        for index, kind, status, number in quarantined:
            bucket = made[grid.start(index)]
            raise_count(bucket.quarantined, kind, int(number))
            raise_count(bucket.quarantine, status, int(number))
        for index, kind, strategy, status, policy, number in clashed:
            bucket = made[grid.start(index)]
            raise_count(bucket.clashes, kind, int(number))
            if policy and status == "resolved":
                raise_count(bucket.clash_strategies, strategy, int(number))
            if status == "open":
                bucket.clashes_open += int(number)


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


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that touch each other as one, without empty ones."""
    found: list[Span] = []
    for since, until in spans:
        if until <= since:
            continue
        if found and found[-1][1] == since:
            since = found.pop()[0]
        found.append((since, until))
    return found


def _near(spans: Sequence[tuple[int, int]], far_s: int) -> list[tuple[int, int]]:
    """Spans in order, those that are not far from each other as one."""
    found: list[tuple[int, int]] = []
    for since, until in spans:
        if found and since - found[-1][1] < far_s:
            since = found.pop()[0]
        found.append((since, until))
    return found
