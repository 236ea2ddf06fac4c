"""What exchanges of some time add up to, read from their records: the source of every figure of the dashboard.

What has a column is added up by the database, in order of time out of one index; the rest is read from the records' details, page by page,
decoded in a thread, and given to the stages' panels. It costs some 30 microseconds for each exchange, so `proxy.store.rollups` keeps what
was found.

Times are counted in classes, from which percentiles are read. A class ends 5% above its beginning, and its value is the one that is equally
far from both: a percentile is wrong by 2.5% at most (2.44%, and what its four digits leave out). What was counted apart is added up by
adding its counts, so that a month's percentile comes from its days' as exactly as from the exchanges themselves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import BigInteger, ColumnElement, Integer, and_, cast, func, literal_column, or_, select

from proxy.exchange import Facts
from proxy.ports.panels import Bucket, StagePanel, raise_count
from proxy.store.database import Database
from proxy.store.records import PENDING, RecordDetail, decode
from proxy.store.tables import Only, are_only, records

_FIRST_MS, _WIDTH = 0.05, 1.05
_CLASSES = 360
"""The last begins at about half an hour."""
_BETWEEN = 2 * _WIDTH / (1 + _WIDTH)
MOST_WRONG = 0.025
"""Share of a percentile, between the first class and the last."""


def time_class(ms: str) -> ColumnElement[int]:
    """The number of a time's class, as SQL; `ms` is SQL that gives the time. A tree of comparisons, as not every SQLite has logarithms."""
    return literal_column(_tree(ms), Integer)


@cache
def _tree(ms: str) -> str:
    def between(low: int, high: int) -> str:
        if high - low == 1:
            return str(low)
        middle = (low + high) // 2
        return f"CASE WHEN {ms} < {_begin_ms(middle)!r} THEN {between(low, middle)} ELSE {between(middle, high)} END"

    return between(0, _CLASSES)


def _begin_ms(number: int) -> float:
    return _FIRST_MS * _WIDTH ** (number - 1)


def percentile(counts: Mapping[str, int], share: float) -> float | None:
    """Milliseconds that `share` of the counted are at or below, to within `MOST_WRONG`; None for nothing counted."""
    rank, seen = share * sum(counts.values()), 0
    for number in sorted(map(int, counts)):
        seen += counts[str(number)]
        if seen and seen >= rank:
            return float(f"{_begin_ms(number) * _BETWEEN:.4g}") if number else _FIRST_MS
    return None


log = logging.getLogger(__name__)

AT_ONCE = 500_000
"""Exchanges that one query goes through: about a second on SQLite."""
MAX_CODES = 100
"""Of warnings, and of models with savings, in a bucket; more are counted as ``other``."""
TIMEOUT_S = 60.0
"""For one query: more than other operations get, as this one may go through very many records."""
_PAGE = 2000
_SHORTEST_S = 1.0
"""Time that is not divided, however much happened in it."""
_BAD, _DOUBTED = ("block", "error", "upstream_error"), ("warn", "unchecked")
_SHARES = (("70", 0.7), ("80", 0.8), ("90", 0.9))


class Grid(Struct, frozen=True):
    """Buckets that follow each other."""

    origin: float
    """Where the first begins."""
    bucket_s: int

    def start(self, index: float) -> float:
        """Of a bucket."""
        return self.origin + int(index) * self.bucket_s

    def start_at(self, at: float) -> float:
        """Of the bucket that a time is in."""
        return self.start((at - self.origin) // self.bucket_s)

    def index(self, column: ColumnElement[float], is_sqlite: bool) -> ColumnElement[int]:
        """The same in SQL: PostgreSQL's cast rounds, SQLite's cuts and may be built without floor()."""
        number = (column - self.origin) / float(self.bucket_s)
        return cast(number, Integer) if is_sqlite else cast(func.floor(number), BigInteger)


class RecordSums:
    """Reads them."""

    def __init__(
        self, database: Database, panels: Sequence[type[StagePanel]] = (), *, at_once: int = AT_ONCE, only: Only | None = None
    ) -> None:
        """`panels` are those of the stages, which read the records' details; `at_once` is how many exchanges a query may go through.

        `only` says which of them count, None for all.
        """
        self._database, self.panels, self._at_once, self._only = database, panels, at_once, only

    def within(self, since: float, until: float) -> list[ColumnElement[bool]]:
        """What exchanges count that came in this time: those that are over."""
        c = records.c
        over = c.outcome != PENDING
        return [c.created_at >= since, c.created_at < until, over, *([are_only(self._only)] if self._only is not None else [])]

    async def add(self, made: Mapping[float, Bucket], grid: Grid, since: float, until: float, most_details: int) -> int:
        """Add what happened from `since` to `until` (exclusive) to the buckets of `grid` in `made`; returns how many details were read.

        These are the newest, where there are more than `most_details`. Raises `StoreUnavailable`.
        """
        todo, read = [(since, until)], 0
        while todo:
            first, end = todo.pop()
            if end - first > _SHORTEST_S and await self._are_many(first, end):
                middle = (first + end) / 2
                todo += [(first, middle), (middle, end)]
                continue
            await self._columns(made, grid, first, end)
            await self._times(made, grid, first, end)
            read += await self._details(made, grid, first, end, most_details - read)
        return read

    async def _are_many(self, since: float, until: float) -> bool:
        """Whether so many exchanges came in this time that they are read in parts."""
        c = records.c
        query = select(c.created_at).where(*self.within(since, until)).order_by(c.created_at).offset(self._at_once)
        return bool(await self._database.rows(query.limit(1), timeout_s=TIMEOUT_S))

    async def _columns(self, made: Mapping[float, Bucket], grid: Grid, since: float, until: float) -> None:
        """Add up what has columns."""
        c = records.c
        at = grid.index(c.created_at, self._database.is_sqlite)
        sums = {
            "exchanges": func.count(),
            "duration_ms": func.sum(c.duration_ms),
            "prompt_tokens": func.sum(c.prompt_tokens),
            "completion_tokens": func.sum(c.completion_tokens),
            "cost_usd": func.sum(c.cost_usd),
            "priced": func.count(c.cost_usd),
        }
        query = (
            select(at, c.outcome, c.status, c.would, c.reason, *sums.values())
            .where(*self.within(since, until))
            .group_by(at, c.outcome, c.status, c.would, c.reason)
        )
        rows = await self._database.rows(query, timeout_s=TIMEOUT_S)
        for index, outcome, status, would, reason, *values in rows:
            bucket, number = made[grid.start(index)], int(values[0])
            raise_count(bucket.verdicts, outcome, number)
            for name, value in zip(sums, values, strict=True):
                before = getattr(bucket, name)
                setattr(bucket, name, before + type(before)(value or 0))
            if status >= 400 and outcome != "block":  # a refusal is the policy's work, and no error
                raise_count(bucket.statuses, str(status), number)
            if status >= 500:
                bucket.errors += number
            if reason and (outcome in _BAD or status >= 500 or (outcome in _DOUBTED and status < 400)):
                _raise_bounded(bucket.reasons, f"{outcome}: {reason}", number)
            if would:
                raise_count(bucket.would, would, number)

    async def _times(self, made: Mapping[float, Bucket], grid: Grid, since: float, until: float) -> None:
        """Count how long exchanges took, outside of the proxy and within it."""
        c = records.c
        taken = (
            select(
                grid.index(c.created_at, self._database.is_sqlite).label("at"),
                time_class("records.duration_ms - records.overhead_ms").label("provider"),
                time_class("records.overhead_ms").label("own"),
            )
            .where(*self.within(since, until), c.overhead_ms.is_not(None))
            .subquery()
        )
        query = select(taken.c.at, taken.c.provider, taken.c.own, func.count()).group_by(taken.c.at, taken.c.provider, taken.c.own)
        rows = await self._database.rows(query, timeout_s=TIMEOUT_S)
        for index, provider, own, number in rows:
            bucket = made[grid.start(index)]
            raise_count(bucket.provider_ms, str(provider), int(number))
            raise_count(bucket.own_ms, str(own), int(number))

    async def _details(self, made: Mapping[float, Bucket], grid: Grid, since: float, until: float, most: int) -> int:
        """Add up what only the details have, the newest first and at most so many; how many they were."""
        c, read = records.c, 0
        page: Sequence[Any] = ()
        while read < most:
            query = select(c.created_at, c.id, c.detail, c.outcome, c.upstream, c.model, c.prompt_tokens).where(*self.within(since, until))
            if page:
                at, last = page[-1][0], page[-1][1]
                # The first condition is what an index can begin at; the second alone would look through all that was read before.
                query = query.where(c.created_at <= at, or_(c.created_at < at, and_(c.created_at == at, c.id < last)))
            query = query.order_by(c.created_at.desc(), c.id.desc()).limit(min(_PAGE, most - read))
            page = await self._database.rows(query, timeout_s=TIMEOUT_S)
            if not page:
                break
            await asyncio.to_thread(self._add_details, made, grid, page)
            read += len(page)
        return read

    def _add_details(self, made: Mapping[float, Bucket], grid: Grid, rows: Sequence[Any]) -> None:
        for i, (created_at, _, detail, outcome, upstream, model, prompt_tokens) in enumerate(rows):
            bucket = made[grid.start_at(created_at)]
            bucket.details += 1
            try:
                self._add(bucket, decode(detail), outcome, f"{upstream}/{model}", was_sent=prompt_tokens is not None)
            except msgspec.DecodeError:  # another version's: counted, not read
                continue
            if i % 100 == 99:
                time.sleep(0)  # lets the event loop's thread have the interpreter

    def _add(self, bucket: Bucket, detail: RecordDetail, outcome: str, model: str, *, was_sent: bool) -> None:
        facts = detail.facts or Facts()
        if facts.faithfulness is not None:
            raise_count(bucket.judged, outcome)
        if facts.context_before is not None and facts.context is not None and was_sent:
            before, after = facts.context_before.used_tokens, facts.context.used_tokens
            bucket.tokens_before += before
            bucket.tokens_after += after
            if before != after:
                _raise_bounded(bucket.saved_tokens, model, before - after)
        for name, threshold in _SHARES:
            if facts.context is not None and facts.context.share >= threshold:
                raise_count(bucket.thresholds, name)
        for code in detail.warnings:
            _raise_bounded(bucket.warnings, code)
        scores = {name: (1, getattr(facts, name)) for name in ("quality", "faithfulness", "relevance")}
        if facts.citations is not None:
            scores["citations"] = facts.citations[1], facts.citations[0]
        for name, (number, score) in scores.items():
            if score is not None:
                raise_count(bucket.scored, name, number)
                raise_count(bucket.scores, name, float(score))
        if detail.usage is not None:
            bucket.cached_tokens += detail.usage.cached
        for panel in self.panels:
            try:
                bucket.panels.setdefault(panel.name, panel()).add(facts, detail.verdicts)
            except Exception:  # the code of a stage that may be anybody's: its panel counts less, the others all
                log.exception("panel %s: an exchange could not be counted", panel.name)


def _raise_bounded(counts: dict[str, int], code: str, by: int = 1) -> None:
    raise_count(counts, code if code in counts or len(counts) < MAX_CODES else "other", by)
