"""What happened over a day or a week: figures of the records, by hour or by any other length of time.

In: two times and the length of a bucket. Out: a `Bucket` for each. What has a column is added up by the database; the rest is read from the
records' details, page by page, decoded in a thread. What is over does not change any more, so buckets that ended some minutes ago
are remembered: a page that is looked at again costs the present hour. Clashes and quarantined pieces come from their own tables, on
every call, since a person may decide on them later. To see what it costs: ``python -m benchmarks.metrics``.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import BigInteger, ColumnElement, Integer, and_, case, cast, func, or_, select

from proxy.exchange import Facts, ToolSelection
from proxy.language.lru import LRU
from proxy.store.database import Database
from proxy.store.detail import RecordDetail, StageNotes, decode
from proxy.store.tables import clashes, quarantine, records

MAX_BUCKETS = 1000
MAX_DETAILS = 200_000
"""Records whose detail one call reads, the newest first."""
_PAGE = 2000
_SETTLED_S = 600.0
"""After its end, until when a bucket may still get records: those that waited for a store that was away come later."""
_TIMEOUT_S = 60.0
"""For one query: more than other operations get, as this one may go through all records."""
_MAX_CODES = 100
_SHARES = (("70", 0.7), ("80", 0.8), ("90", 0.9))


class Bucket(Struct, kw_only=True):
    """What happened from `start` on for `seconds`."""

    start: float
    """Seconds since the epoch, a multiple of `seconds`."""
    seconds: int
    exchanges: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    """Exchanges with a status of 500 or more."""
    duration_ms: float = 0.0
    """Of all exchanges together, as every sum here."""
    prompt_tokens: int = 0
    """As they went upstream."""
    completion_tokens: int = 0
    tokens_before: int = 0
    """Prompt tokens as the client sent them, where they were counted; `tokens_after` are these prompts as they went upstream."""
    tokens_after: int = 0
    details: int = 0
    """Exchanges whose detail was read; all that follows (up to the clashes) is of these. Less than `exchanges` where there are too many."""
    warnings: dict[str, int] = field(default_factory=dict)
    """Exchanges with a verdict that warns, refuses or failed, by its code."""
    thresholds: dict[str, int] = field(default_factory=dict)
    """Prompts, as sent, that took 70, 80 and 90% of the window or more."""
    compressions: int = 0
    compression_tokens_before: int = 0
    compression_tokens_after: int = 0
    tool_requests: int = 0
    """Requests whose tools were selected from."""
    tools_offered: int = 0
    tools_kept: int = 0
    tool_tokens_before: int = 0
    tool_tokens_after: int = 0
    distractions: dict[str, int] = field(default_factory=dict)
    """Histories that are too long, by severity."""
    recommended: dict[str, int] = field(default_factory=dict)
    """The same by the recommended action."""
    quality_count: int = 0
    quality_sum: float = 0.0
    faithfulness_count: int = 0
    faithfulness_sum: float = 0.0
    poisoning_checked: int = 0
    """New pieces of context that were checked."""
    poisoned: dict[str, int] = field(default_factory=dict)
    """Pieces that came into quarantine, by type, those that were blocked at once too."""
    quarantine: dict[str, int] = field(default_factory=dict)
    """The same by what was decided until now."""
    clashes: dict[str, int] = field(default_factory=dict)
    """Clashes found, by type."""
    clash_strategies: dict[str, int] = field(default_factory=dict)
    """Of these, what the policy resolved, by strategy."""
    clashes_open: int = 0
    """Of these, what nobody has resolved until now."""

    def as_json(self) -> dict[str, Any]:
        """All of it, with the ratios and means that follow; null where there is nothing to divide."""
        return msgspec.structs.asdict(self) | {
            "compression_ratio": _ratio(self.compression_tokens_before, self.compression_tokens_after),
            "average_tools": _ratio(self.tools_kept, self.tool_requests),
            "tool_token_savings": _share(self.tool_tokens_before - self.tool_tokens_after, self.tool_tokens_before),
            "quality": _ratio(self.quality_sum, self.quality_count),
            "faithfulness": _ratio(self.faithfulness_sum, self.faithfulness_count),
            "poisoning_rate": _share(sum(self.poisoned.values()), self.poisoning_checked),
        }


def total(buckets: Iterable[Bucket]) -> Bucket | None:
    """All of them as one; None for none."""
    found: Bucket | None = None
    for bucket in buckets:
        if found is None:
            found = msgspec.convert(msgspec.to_builtins(bucket), Bucket)
            continue
        found.seconds += bucket.seconds
        for name in Bucket.__struct_fields__[2:]:
            value, more = getattr(found, name), getattr(bucket, name)
            if isinstance(value, dict):
                for key, number in more.items():
                    value[key] = value.get(key, 0) + number
            else:
                setattr(found, name, value + more)
    return found


class DatabaseFigures:
    """Figures over time."""

    def __init__(self, database: Database, *, max_details: int = MAX_DETAILS, clock: Callable[[], float] = time.time) -> None:
        self._database, self._max_details, self._clock = database, max_details, clock
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
            missing = [start for start in starts if start not in found]
            if missing:
                found |= await self._read(missing[0], min(until, missing[-1] + bucket_s), bucket_s)
            made = {start: replace(found[start], poisoned={}, quarantine={}, clashes={}, clash_strategies={}) for start in starts}
            await self._reviewed(made, starts[0], until, bucket_s)
        return [made[start] for start in starts]

    async def _read(self, since: float, until: float, bucket_s: int) -> dict[float, Bucket]:
        """What the records say; what is settled is remembered."""
        number = math.ceil((until - since) / bucket_s)
        made = {start: Bucket(start=start, seconds=bucket_s) for start in (since + i * bucket_s for i in range(number))}
        await self._columns(made, since, until, bucket_s)
        await self._details(made, since, until, bucket_s)
        for start, bucket in made.items():
            end = start + bucket_s
            if end <= until and end + _SETTLED_S <= self._clock() and bucket.details == bucket.exchanges:
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
                func.count(),
                func.sum(c.duration_ms),
                func.sum(case((c.status >= 500, 1), else_=0)),
                func.sum(c.prompt_tokens),
                func.sum(c.completion_tokens),
                func.sum(c.prompt_tokens_before),
                func.sum(case((counted, c.prompt_tokens), else_=0)),
            )
            .where(c.created_at >= since, c.created_at < until)
            .group_by(at, c.outcome)
        )
        async with self._database.transaction(_TIMEOUT_S) as connection:
            rows = (await connection.execute(query)).all()
        for index, outcome, number, ms, errors, prompt, completion, before, after in rows:
            bucket = made[since + int(index) * bucket_s]
            bucket.verdicts[outcome] = int(number)
            bucket.exchanges += int(number)
            bucket.errors += int(errors or 0)
            bucket.duration_ms += float(ms or 0.0)
            bucket.prompt_tokens += int(prompt or 0)
            bucket.completion_tokens += int(completion or 0)
            bucket.tokens_before += int(before or 0)
            bucket.tokens_after += int(after or 0)

    async def _details(self, made: Mapping[float, Bucket], since: float, until: float, bucket_s: int) -> None:
        """Add up what only the details have, the newest first."""
        c, read = records.c, 0
        page: Sequence[Any] = ()
        while read < self._max_details:
            query = select(c.created_at, c.id, c.detail).where(c.created_at >= since)
            if page:
                at, last = page[-1][0], page[-1][1]
                # The first condition is what an index can begin at; the second alone would look through all that was read before.
                query = query.where(c.created_at <= at, or_(c.created_at < at, and_(c.created_at == at, c.id < last)))
            else:
                query = query.where(c.created_at < until)
            query = query.order_by(c.created_at.desc(), c.id.desc()).limit(min(_PAGE, self._max_details - read))
            async with self._database.transaction(_TIMEOUT_S) as connection:
                page = (await connection.execute(query)).all()
            if not page:
                return
            await asyncio.to_thread(_add_details, made, page, since, bucket_s)
            read += len(page)

    async def _reviewed(self, made: Mapping[float, Bucket], since: float, until: float, bucket_s: int) -> None:
        """Add clashes and quarantined pieces, as they stand now."""
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
        async with self._database.transaction(_TIMEOUT_S) as connection:
            quarantined = (await connection.execute(pieces)).all()
            clashed = (await connection.execute(found)).all()
        for index, kind, status, number in quarantined:
            bucket = made[since + int(index) * bucket_s]
            _raise(bucket.poisoned, kind, int(number))
            _raise(bucket.quarantine, status, int(number))
        for bucket in made.values():
            bucket.clashes_open = 0
        for index, kind, strategy, status, policy, number in clashed:
            bucket = made[since + int(index) * bucket_s]
            _raise(bucket.clashes, kind, int(number))
            if policy and status == "resolved":
                _raise(bucket.clash_strategies, strategy, int(number))
            if status == "open":
                bucket.clashes_open += int(number)

    def _bucket(self, column: ColumnElement[float], since: float, bucket_s: int) -> ColumnElement[int]:
        """Which bucket after `since` a time is in: PostgreSQL's cast rounds, SQLite's cuts and may be built without floor()."""
        number = (column - since) / float(bucket_s)
        return cast(number, Integer) if self._database.is_sqlite else cast(func.floor(number), BigInteger)


# ---- details ----


def _add_details(made: Mapping[float, Bucket], rows: Sequence[Any], since: float, bucket_s: int) -> None:
    for i, (created_at, _, detail) in enumerate(rows):
        bucket = made[since + int((created_at - since) / float(bucket_s)) * bucket_s]
        bucket.details += 1
        try:
            _add(bucket, decode(detail))
        except msgspec.DecodeError:  # another version's: counted, not read
            continue
        if i % 100 == 99:
            time.sleep(0)  # lets the event loop's thread have the interpreter


def _add(bucket: Bucket, detail: RecordDetail) -> None:
    facts = detail.facts or Facts()
    for name, threshold in _SHARES:
        if facts.context is not None and facts.context.share >= threshold:
            _raise(bucket.thresholds, name)
    if facts.compression is not None and facts.compression.strategies:
        bucket.compressions += 1
        bucket.compression_tokens_before += facts.compression.before_tokens
        bucket.compression_tokens_after += facts.compression.after_tokens
    if facts.quality is not None:
        bucket.quality_count += 1
        bucket.quality_sum += facts.quality
    if facts.faithfulness is not None:
        bucket.faithfulness_count += 1
        bucket.faithfulness_sum += facts.faithfulness
    for code in detail.warnings:
        _raise(bucket.warnings, code if code in bucket.warnings or len(bucket.warnings) < _MAX_CODES else "other")
    for verdict in detail.verdicts:
        if verdict.stage in ("history", "poisoning", "tool_rag"):
            _add_notes(bucket, verdict.stage, facts.tools, verdict.notes)


def _add_notes(bucket: Bucket, stage: str, tools: ToolSelection | None, notes: StageNotes) -> None:
    if stage == "poisoning":
        bucket.poisoning_checked += notes.checked
    elif stage == "history" and notes.severity:
        _raise(bucket.distractions, notes.severity)
        _raise(bucket.recommended, notes.recommended_action)
    elif stage == "tool_rag" and tools is not None and notes.tool_tokens[0]:
        bucket.tool_requests += 1
        bucket.tools_offered += tools.offered
        bucket.tools_kept += tools.kept
        bucket.tool_tokens_before += notes.tool_tokens[0]
        bucket.tool_tokens_after += notes.tool_tokens[1]


def _raise(counts: dict[str, int], name: str, by: int = 1) -> None:
    counts[name] = counts.get(name, 0) + by


def _key(start: float, bucket_s: int) -> bytes:
    return b"%d/%d" % (start, bucket_s)


def _ratio(value: float, by: float) -> float | None:
    return round(value / by, 4) if by else None


def _share(value: float, of: float) -> float | None:
    return round(min(value / of, 1.0), 4) if of else None
