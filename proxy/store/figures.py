"""What happened over a day or a week: figures of the records, by hour or by any other length of time.

In: two times and the length of a bucket. Out: a `Bucket` for each. What has a column is added up by the database; the rest is read from the
records' details, page by page, decoded in a thread, and given to the stages' panels. What is over does not change any more, so buckets that
ended some minutes ago are remembered: a page that is looked at again costs the present hour. Clashes and quarantined pieces come from their
own tables, on every call, since a person may decide on them later. To see what it costs: ``python -m benchmarks.metrics``.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import BigInteger, ColumnElement, Integer, and_, case, cast, func, or_, select

from proxy.exchange import Facts
from proxy.language.lru import LRU
from proxy.ports.panels import Bucket, StagePanel, raise_count
from proxy.store.database import Database
from proxy.store.detail import RecordDetail, decode
from proxy.store.spreads import time_class
from proxy.store.tables import clashes, feedback, quarantine, records

log = logging.getLogger(__name__)

MAX_BUCKETS = 1000
MAX_DETAILS = 200_000
"""Records whose detail one call reads, the newest first."""
AT_ONCE = 500_000
"""Exchanges that one query goes through: about a second on SQLite. A single bucket is never divided."""
_PAGE = 2000
_SETTLED_S = 600.0
"""After its end, until when a bucket may still get records: those that waited for a store that was away come later."""
_TIMEOUT_S = 60.0
"""For one query: more than other operations get, as this one may go through all records."""
_MAX_CODES = 100
_REVIEWED = ("quarantined", "quarantine", "clashes", "clash_strategies", "feedback")
"""What people decide and say, counted anew each time."""
_SHARES = (("70", 0.7), ("80", 0.8), ("90", 0.9))


def total(buckets: Iterable[Bucket]) -> Bucket | None:
    """All of them as one; None for none."""
    found: Bucket | None = None
    for bucket in buckets:
        if found is None:
            found = deepcopy(bucket)
            continue
        found.seconds += bucket.seconds
        _add_up(found, bucket, Bucket.__struct_fields__[2:])
    return found


def _add_up(whole: Struct, part: Struct, names: Iterable[str]) -> None:
    for name in names:
        value, more = getattr(whole, name), getattr(part, name)
        if isinstance(value, dict):
            for key, number in more.items():
                if isinstance(number, StagePanel):
                    _add_up(value.setdefault(key, type(number)()), number, number.__struct_fields__)
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
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`panels` are those of the stages, which read the records' details; `at_once` is how many exchanges a query may go through."""
        self._database, self._panels, self._max_details, self._clock = database, panels, max_details, clock
        self._at_once = at_once
        self._known: LRU[Bucket] = LRU(2 * MAX_BUCKETS)
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
        starts = [float(first + i * bucket_s) for i in range(number)]
        if not starts:
            return []
        async with self._lock:
            found = {start: known for start in starts if (known := self._known.get(_key(start, bucket_s))) is not None}
            found |= await self._missing([start for start in starts if start not in found], until, bucket_s)
            made = {start: replace(found[start], **{name: {} for name in _REVIEWED}) for start in starts}
            await self._reviewed(made, starts[0], until, bucket_s)
        return [made[start] for start in starts]

    async def _missing(self, starts: Sequence[float], until: float, bucket_s: int) -> dict[float, Bucket]:
        """These buckets, the newest first and as many at a time as one query can go through: what is read is remembered, come what may."""
        found: dict[float, Bucket] = {}
        todo, details_left = [[*starts]] if starts else [], self._max_details
        while todo:
            some = todo.pop()
            gap = next((i for i in range(1, len(some)) if some[i] - some[i - 1] > bucket_s), 0)
            half = gap or (len(some) // 2 if await self._are_many(some[0], min(until, some[-1] + bucket_s)) else 0)
            if half:
                todo += [some[:half], some[half:]]
                continue
            made = await self._read(some[0], min(until, some[-1] + bucket_s), bucket_s, details_left)
            details_left -= sum(bucket.details for bucket in made.values())
            found |= made
        return found

    async def _are_many(self, since: float, until: float) -> bool:
        """Whether so many exchanges came in this time that they are read in parts."""
        c = records.c
        query = select(c.created_at).where(c.created_at >= since, c.created_at < until).order_by(c.created_at).offset(self._at_once)
        async with self._database.transaction(_TIMEOUT_S) as connection:
            return (await connection.execute(query.limit(1))).first() is not None

    async def _read(self, since: float, until: float, bucket_s: int, most_details: int) -> dict[float, Bucket]:
        """What the records say; what is settled is remembered, also where there are more details than are read."""
        number = math.ceil((until - since) / bucket_s)
        made = {start: Bucket(start=start, seconds=bucket_s) for start in (since + i * bucket_s for i in range(number))}
        await self._columns(made, since, until, bucket_s)
        await self._times(made, since, until, bucket_s)
        all_read = await self._details(made, since, until, bucket_s, most_details) < most_details
        for start, bucket in made.items():
            end, whole = start + bucket_s, bucket.details == bucket.exchanges or not all_read
            if end <= until and end + _SETTLED_S <= self._clock() and whole:
                self._known.put(_key(start, bucket_s), bucket)
        return made

    async def _columns(self, made: Mapping[float, Bucket], since: float, until: float, bucket_s: int) -> None:
        """Add up what has columns."""
        c = records.c
        at = self._bucket(c.created_at, since, bucket_s)
        counted = c.prompt_tokens_before.is_not(None)
        query = (
            select(
                at,
                c.outcome,
                c.status,
                c.would,
                func.count(),
                func.sum(c.duration_ms),
                func.sum(c.prompt_tokens),
                func.sum(c.completion_tokens),
                func.sum(c.prompt_tokens_before),
                func.sum(case((counted, c.prompt_tokens), else_=0)),
                func.sum(c.cost_usd),
                func.count(c.cost_usd),
            )
            .where(c.created_at >= since, c.created_at < until)
            .group_by(at, c.outcome, c.status, c.would)
        )
        async with self._database.transaction(_TIMEOUT_S) as connection:
            rows = (await connection.execute(query)).all()
        for index, outcome, status, would, number, ms, prompt, completion, before, after, usd, priced in rows:
            bucket = made[since + int(index) * bucket_s]
            raise_count(bucket.verdicts, outcome, int(number))
            bucket.exchanges += int(number)
            bucket.duration_ms += float(ms or 0.0)
            bucket.prompt_tokens += int(prompt or 0)
            bucket.completion_tokens += int(completion or 0)
            bucket.tokens_before += int(before or 0)
            bucket.tokens_after += int(after or 0)
            bucket.cost_usd += float(usd or 0.0)
            bucket.priced += int(priced)
            if status >= 400:
                raise_count(bucket.statuses, str(status), int(number))
            if status >= 500:
                bucket.errors += int(number)
            if would:
                raise_count(bucket.would, would, int(number))

    async def _times(self, made: Mapping[float, Bucket], since: float, until: float, bucket_s: int) -> None:
        """Count how long exchanges took, outside of the proxy and within it."""
        c = records.c
        taken = (
            select(
                self._bucket(c.created_at, since, bucket_s).label("at"),
                time_class(c.duration_ms - c.overhead_ms).label("provider"),
                time_class(c.overhead_ms).label("own"),
            )
            .where(c.created_at >= since, c.created_at < until, c.overhead_ms.is_not(None))
            .subquery()
        )
        query = select(taken.c.at, taken.c.provider, taken.c.own, func.count()).group_by(taken.c.at, taken.c.provider, taken.c.own)
        async with self._database.transaction(_TIMEOUT_S) as connection:
            rows = (await connection.execute(query)).all()
        for index, provider, own, number in rows:
            bucket = made[since + int(index) * bucket_s]
            raise_count(bucket.provider_ms, str(provider), int(number))
            raise_count(bucket.own_ms, str(own), int(number))

    async def _details(self, made: Mapping[float, Bucket], since: float, until: float, bucket_s: int, most: int) -> int:
        """Add up what only the details have, the newest first and at most so many; how many they were."""
        c, read = records.c, 0
        page: Sequence[Any] = ()
        while read < most:
            query = select(c.created_at, c.id, c.detail).where(c.created_at >= since)
            if page:
                at, last = page[-1][0], page[-1][1]
                # The first condition is what an index can begin at; the second alone would look through all that was read before.
                query = query.where(c.created_at <= at, or_(c.created_at < at, and_(c.created_at == at, c.id < last)))
            else:
                query = query.where(c.created_at < until)
            query = query.order_by(c.created_at.desc(), c.id.desc()).limit(min(_PAGE, most - read))
            async with self._database.transaction(_TIMEOUT_S) as connection:
                page = (await connection.execute(query)).all()
            if not page:
                break
            await asyncio.to_thread(self._add_details, made, page, since, bucket_s)
            read += len(page)
        return read

    async def _reviewed(self, made: Mapping[float, Bucket], since: float, until: float, bucket_s: int) -> None:
        """Add clashes, quarantined pieces and what people said of findings, as they stand now."""
        q, c = quarantine.c, clashes.c
        at_q, at_c = self._bucket(q.created_at, since, bucket_s), self._bucket(c.created_at, since, bucket_s)
        by_policy = case((c.resolved_by == "policy", 1), else_=0)
        pieces = (
            select(at_q, q.type, q.status, func.count()).where(q.created_at >= since, q.created_at < until).group_by(at_q, q.type, q.status)
        )
        found = (
            select(at_c, c.type, c.strategy, c.status, by_policy, func.count())
            .where(c.created_at >= since, c.created_at < until)
            .group_by(at_c, c.type, c.strategy, c.status, by_policy)
        )
        f, at_f = feedback.c, self._bucket(feedback.c.created_at, since, bucket_s)
        words = (
            select(at_f, f.stage, f.said, func.count()).where(f.created_at >= since, f.created_at < until).group_by(at_f, f.stage, f.said)
        )
        async with self._database.transaction(_TIMEOUT_S) as connection:
            quarantined = (await connection.execute(pieces)).all()
            clashed = (await connection.execute(found)).all()
            spoken = (await connection.execute(words)).all()
        for index, stage, word, number in spoken:
            raise_count(made[since + int(index) * bucket_s].feedback, f"{stage}:{word}", int(number))
        for index, kind, status, number in quarantined:
            bucket = made[since + int(index) * bucket_s]
            raise_count(bucket.quarantined, kind, int(number))
            raise_count(bucket.quarantine, status, int(number))
        for bucket in made.values():
            bucket.clashes_open = 0
        for index, kind, strategy, status, policy, number in clashed:
            bucket = made[since + int(index) * bucket_s]
            raise_count(bucket.clashes, kind, int(number))
            if policy and status == "resolved":
                raise_count(bucket.clash_strategies, strategy, int(number))
            if status == "open":
                bucket.clashes_open += int(number)

    def _add_details(self, made: Mapping[float, Bucket], rows: Sequence[Any], since: float, bucket_s: int) -> None:
        for i, (created_at, _, detail) in enumerate(rows):
            bucket = made[since + int((created_at - since) / float(bucket_s)) * bucket_s]
            bucket.details += 1
            try:
                self._add(bucket, decode(detail))
            except msgspec.DecodeError:  # another version's: counted, not read
                continue
            if i % 100 == 99:
                time.sleep(0)  # lets the event loop's thread have the interpreter

    def _add(self, bucket: Bucket, detail: RecordDetail) -> None:
        facts = detail.facts or Facts()
        for name, threshold in _SHARES:
            if facts.context is not None and facts.context.share >= threshold:
                raise_count(bucket.thresholds, name)
        for code in detail.warnings:
            raise_count(bucket.warnings, code if code in bucket.warnings or len(bucket.warnings) < _MAX_CODES else "other")
        for panel in self._panels:
            try:
                bucket.panels.setdefault(panel.name, panel()).add(facts, detail.verdicts)
            except Exception:  # the code of a stage that may be anybody's: its panel counts less, the others all
                log.exception("panel %s: an exchange could not be counted", panel.name)

    def _bucket(self, column: ColumnElement[float], since: float, bucket_s: int) -> ColumnElement[int]:
        """Which bucket after `since` a time is in: PostgreSQL's cast rounds, SQLite's cuts and may be built without floor()."""
        number = (column - since) / float(bucket_s)
        return cast(number, Integer) if self._database.is_sqlite else cast(func.floor(number), BigInteger)


def _key(start: float, bucket_s: int) -> bytes:
    return b"%d/%d" % (start, bucket_s)
