"""What is new for open pages, which ask every few seconds; and a record in the few figures that lists, charts and open pages need: the same
for the first load and for every answer after it.

The source is the store, so that every worker's exchanges show in every page: a worker looks there when a page asks it, at most once a
second for all of them. An exchange is listed by the time at which its request came but is written when it is over, so the look goes some
minutes back and notes when each was seen first. A page says when it was last told, and is told what this worker has seen since; where the
worker has not looked as long as that, what came after the newest that the page has. A page drops what it has already.
"""

from __future__ import annotations

import asyncio
import json
import time
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from proxy.exchange import QUIET
from proxy.stages.registry import HOUSEKEEPING
from proxy.store.records import NOTHING, PENDING, Record, Records

WORDS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
REASONS = WORDS["reasons"]
MAX_MODEL_CHARS = 80
"""Of a model's name, which a client chooses, in lists; the record's page has it whole."""


class RecordSummary(Struct, frozen=True, kw_only=True):
    """One exchange on one line."""

    id: str
    at: float
    """Seconds since the epoch."""
    route: str
    """``/`` for the one without a prefix."""
    run: str
    model: str
    policy: str
    upstream: str = ""
    faithfulness: float | None = None
    outcome: str
    status: int
    tokens: int | None
    """Of the prompt, as it went upstream."""
    window: int | None
    """None where the model's is not known, or nothing measured it."""
    share: float | None
    """Of the window, 0 to 1."""
    answer: int | None
    """Tokens of the answer."""
    ms: float
    """From the request's first byte to the answer's last."""
    own_ms: float | None = None
    """Of it, Groundwire's own."""
    client: str = ""
    why: str = ""
    """What happened, in words."""
    usd: float | None = None
    question: str = ""
    """First words, where bodies are kept; so `said` of the answer."""
    said: str = ""
    reviewed: str = ""
    """What people said of its findings, in lists of exchanges."""


SIGNS = {
    "pass": "✓",
    "unsure": "~",
    "unchecked": "○",
    "warn": "!",
    "block": "✕",
    "error": "?",
    "upstream_error": "↯",
    "skipped": "–",
    "pending": "…",
    "interrupted": "⊘",
}
"""By verdict; so in ``static/format.js``."""
_POINT = ("id", "at", "route", "run", "share", "tokens", "window")
_FAILED = 500
"""From this status on an upstream has given no answer, whatever was found before: also of a path that no policy applies to."""


def outcome_of(record: Record) -> str:
    """The verdict as a person has to see it: what came back as an error of the server is none that passed."""
    return "upstream_error" if record.status >= _FAILED and record.outcome in (*QUIET, "skipped") else record.outcome


def summary(record: Record) -> RecordSummary:
    """The record in short."""
    facts = record.typed_detail.facts
    use = facts.context if facts is not None else None
    used, window = (use.used_tokens, use.window_tokens) if use is not None else (None, None)
    tokens = record.prompt_tokens if record.prompt_tokens is not None else used
    return RecordSummary(
        id=record.id,
        at=record.created_at,
        route=record.route or "/",
        run=record.run_id,
        model=record.model[:MAX_MODEL_CHARS],
        policy=record.policy,
        upstream=record.upstream,
        faithfulness=facts.faithfulness if facts is not None else None,
        outcome=outcome_of(record),
        status=record.status,
        tokens=tokens,
        window=window,
        share=round(used / window, 4) if used is not None and window else None,
        answer=record.completion_tokens,
        ms=round(record.duration_ms, 2),
        own_ms=None if record.overhead_ms is None else round(record.overhead_ms, 2),
        client=record.client,
        why=why("" if record.outcome == PENDING else record.reason, record.would),
        usd=record.cost_usd,
        question=record.question,
        said=record.answer,
    )


def in_words(code: str) -> str:
    """A code as a phrase; "" for none."""
    if code in REASONS:
        return REASONS[code]
    if code.startswith("unchecked_language_"):
        return f"{REASONS['unchecked_language']}: {code.removeprefix('unchecked_language_').replace('_', ', ')}"
    if code.startswith("upstream_"):
        return f"the provider said {code.removeprefix('upstream_').replace('_', ' ')}"
    return code.replace("_", " ")


def codes_alike(code: str) -> tuple[str, ...]:
    """`code` and those with the same words; nothing for none."""
    return tuple(dict.fromkeys([code, *(one for one, words in REASONS.items() if words == REASONS.get(code))])) if code else ()


def why(reason: str, would: str) -> str:
    """What happened, in a few words: what a policy in shadow mode held back comes first; and that a warning says nothing of the answer."""
    held = WORDS["would"].get(would, "") if would != NOTHING else ""
    return ": ".join(part for part in (held, "housekeeping" if reason in HOUSEKEEPING else "", in_words(reason)) if part)


def usage_points(summaries: Sequence[RecordSummary]) -> dict[str, Any]:
    """The data of the chart of context windows, oldest first."""
    return {"names": _POINT, "rows": [[getattr(s, name) for name in _POINT] for s in reversed(summaries)]}


def mappings_in(mapping: Any, name: str) -> list[Mapping[str, Any]]:
    """The mappings of a list inside a mapping."""
    return [entry for entry in list_in(mapping, name) if isinstance(entry, Mapping)]


def list_in(mapping: Any, name: str) -> list[Any]:
    """A list inside a mapping."""
    found = mapping.get(name) if isinstance(mapping, Mapping) else None
    return found if isinstance(found, list) else []


def adjustment(given: Any) -> str:
    """What to do otherwise, in words: its ``type``, then its parameters."""
    if not isinstance(given, Mapping):
        return str(given or "")
    rest = {name: value for name, value in given.items() if name != "type"}
    said = ", ".join(f"{name.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}" for name, value in rest.items())
    return ": ".join(filter(None, (str(given.get("type", "")).replace("_", " ").lower(), said)))


MAX_AT_ONCE = 100
"""Exchanges that one answer tells of; what is beyond it is counted."""
_LOOK_S = 1.0
_AGAIN_S = 3.0
"""What was seen so long before a page was last told is told again: its question may have gone to another worker, whose look was earlier."""
_GAP_S = 10.0
"""A worker that has not looked for so long begins anew."""
_BACK_S, _BACK_IDS = 600.0, 1000
"""How long an exchange may last and still be noticed, and how many of the newest are told apart."""


class News:
    """One worker's look at the store."""

    def __init__(
        self,
        records: Records,
        waiting: Callable[[], Awaitable[Mapping[str, int]]],
        *,
        look_s: float = _LOOK_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`waiting` tells how much waits for a decision."""
        self._records, self._waiting, self._look_s, self._clock = records, waiting, look_s, clock
        self._looking = asyncio.Lock()
        self._first_seen: dict[str, float] = {}
        """Times by id, newest id first."""
        self._began = self._looked_at = 0.0
        self._counts: Mapping[str, int] = {}

    async def since(self, at: float, after: str) -> dict[str, Any]:
        """What to tell a page that was told at `at`, by this server's clock, and whose newest exchange is `after`; "" is none.

        Raises `StoreUnavailable`.
        """
        async with self._looking:  # a page that leaves does not break a look off for the others
            await asyncio.shield(self._look())
        if at >= self._began:
            ids = [one for one, seen in self._first_seen.items() if seen >= at - _AGAIN_S]
        else:
            ids = [one for one in self._first_seen if one > after] if after else []
        records = await self._records.these(ids[:MAX_AT_ONCE])
        return {"at": self._looked_at, "number": len(ids), "exchanges": [summary(record) for record in records], "waiting": self._counts}

    async def _look(self) -> None:
        now = self._clock()
        if now - self._looked_at < self._look_s:
            return
        ids, self._counts = await self._records.ids(now - _BACK_S, _BACK_IDS), await self._waiting()
        if now - self._looked_at > _GAP_S:
            self._began, self._first_seen = now, dict.fromkeys(ids, 0.0)
        self._first_seen = {one: self._first_seen.get(one, now) for one in ids}
        self._looked_at = now
