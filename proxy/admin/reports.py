"""What happened in a period, and in the one before it: for ``GET /groundwire/v1/report`` and ``groundwire report``.

The figures are the dashboard's (`proxy.store.figures`), of a time and perhaps of one route, in the words of JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from proxy.admin.dashboard.panels import caught
from proxy.ports.panels import Bucket, StagePanel, feedback_by_stage, interval, raise_count, ranked, ratio
from proxy.ports.stage import Stage
from proxy.stages.compression.stage import CompressionPanel
from proxy.stages.poisoning.report import PoisoningPanel
from proxy.stages.registry import HOUSEKEEPING
from proxy.stages.tool_rag.panel import ToolRagPanel
from proxy.store.database import Database
from proxy.store.figures import DatabaseFigures
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.record_sums import percentile
from proxy.store.records import NOTHING

_SCORES = ("quality", "faithfulness", "relevance")
WEEK_S = 7 * 86_400.0


class Period(Struct, frozen=True):
    """Seconds since the epoch; `until` is not part of it."""

    since: float
    until: float

    def before(self) -> Period | None:
        """The period of the same length before this one; None where that would begin before all time."""
        earlier = 2 * self.since - self.until
        return Period(earlier, self.since) if earlier >= 0 else None

    def as_json(self) -> dict[str, Any]:
        """Epoch seconds and ISO 8601, UTC."""
        return {"since": self.since, "until": self.until, "since_iso": _iso(self.since), "until_iso": _iso(self.until)}


def panels_of(stages: Sequence[type[Stage]]) -> tuple[type[StagePanel], ...]:
    """Of each name one."""
    return tuple({stage.panel.name: stage.panel for stage in stages if stage.panel is not None}.values())


async def make_report(
    database: Database, panels: Sequence[type[StagePanel]], wanted: Period, route: str | None, source: str
) -> dict[str, Any]:
    """As JSON; `route` is a prefix, "" for the route without one, None for all, and `source` names the store.

    ``other_routes`` are those that there are exchanges of, where there are none of `route` at any time. Raises `StoreUnavailable`.
    """
    figures, earlier = DatabaseFigures(database, panels, only=None if route is None else ("route", route)), wanted.before()
    now, newest = await _figures(figures, wanted), await figures.newest()
    return {
        "object": "report",
        "period": wanted.as_json(),
        "route": route,
        "source": source,
        "figures": now,
        "before": {"period": earlier.as_json(), "figures": await _figures(figures, earlier)} if earlier is not None else None,
        "waiting": (await DatabaseQuarantine(database).counts())["pending"],
        "newest": newest,
        "other_routes": await DatabaseFigures(database).routes() if route is not None and newest is None else [],
    }


async def _figures(figures: DatabaseFigures, wanted: Period) -> dict[str, Any]:
    since, until = wanted.since, wanted.until
    found = figures_of(await figures.whole(since, until))
    found["shadow"]["newest_blocked"] = await figures.held_back(since, until) if found["shadow"]["blocked"] else []
    return found | {"runs": {"top": await figures.troubled_runs(since, until)}}


def figures_of(whole: Bucket) -> dict[str, Any]:
    """A bucket in words; null where there is nothing to divide.

    ``exchanges.judged`` are those of which statements were judged, by verdict. ``exchanges.statuses`` are of 400 and more, without what a
    policy refused: ``blocked`` has that.
    """
    saved, tools, compressed = whole.tokens_before - whole.tokens_after, whole.of(ToolRagPanel), whole.of(CompressionPanel)
    tokens = {"before": whole.tokens_before, "after": whole.tokens_after, "prompt": whole.prompt_tokens}
    blocked = {name.removeprefix("block: "): count for name, count in whole.reasons.items() if name.startswith("block: ")}
    codes = ranked(whole.warnings)
    warnings = {name: count for name, count in codes.items() if name not in HOUSEKEEPING}
    times = {"provider": whole.provider_ms, "own": whole.own_ms}
    return {
        "exchanges": {
            "total": whole.exchanges,
            "verdicts": ranked(whole.verdicts),
            "judged": ranked(whole.judged),
            "statuses": dict(sorted(whole.statuses.items())),
        },
        "caught": {"total": caught(whole)},
        "tokens": tokens
        | {"completion": whole.completion_tokens, "cached": whole.cached_tokens}
        | {"saved": saved, "saved_share": ratio(saved, whole.tokens_before), "saved_by_model": ranked(whole.saved_tokens)},
        "cost": {
            "usd": round(whole.cost_usd, 6) if whole.priced else None,
            "priced": whole.priced,
            "unpriced": whole.exchanges - whole.priced,
        },
        "quality": {name: {"count": whole.scored.get(name, 0), "mean": _mean(whole, name)} for name in _SCORES},
        "citations": {
            "verified": int(whole.scores.get("citations", 0)),
            "total": whole.scored.get("citations", 0),
            "precision": _mean(whole, "citations"),
        },
        "warnings": warnings,
        "housekeeping": {name: count for name, count in codes.items() if name in HOUSEKEEPING},
        "blocked": {"total": whole.verdicts.get("block", 0), "reasons": ranked(blocked)},
        "shadow": _shadow(whole),
        "errors": ranked(_errors(whole)),
        "poisoning": _poisoning(whole),
        "clashes": _clashes(whole) | {"asked_exchanges": warnings.get("clash_asked", 0)},
        "failures": _failures(whole)
        | {"asked_exchanges": warnings.get("human_asked", 0), "stopped_exchanges": blocked.get("system_error", 0)},
        "feedback": {stage: _precision(*counts) for stage, counts in feedback_by_stage(whole).items()},
        "compression": {
            "runs": compressed.compressions,
            "tokens_before": compressed.compression_tokens_before,
            "tokens_after": compressed.compression_tokens_after,
            "failures": codes.get("compression_failed", 0),
            "ratio": ratio(compressed.compression_tokens_before, compressed.compression_tokens_after),
        },
        "tools": {
            "requests": tools.tool_requests,
            "average_offered": ratio(tools.tools_offered, tools.tool_requests),
            "average_kept": ratio(tools.tools_kept, tools.tool_requests),
            "tokens_before": tools.tool_tokens_before,
            "tokens_after": tools.tool_tokens_after,
            "savings": tools.saved,
        },
        "latency_ms": {who: {"p50": percentile(counts, 0.5), "p95": percentile(counts, 0.95)} for who, counts in times.items()},
    }


def _errors(whole: Bucket) -> dict[str, int]:
    """What failed, by code; neither refusals nor what a check had to say."""
    found: dict[str, int] = {}
    for name, count in whole.reasons.items():
        verdict, _, code = name.rpartition(": ")
        if verdict not in ("block", "warn") and (verdict != "unchecked" or code.startswith("status_")):
            raise_count(found, code, count)
    return found


def _mean(whole: Bucket, score: str) -> float | None:
    return ratio(whole.scores.get(score, 0.0), whole.scored.get(score, 0))


def _shadow(whole: Bucket) -> dict[str, Any]:
    """``judged`` are the exchanges in shadow mode, ``would`` how many of them it would have blocked, changed, asked about."""
    would = {name: count for name, count in whole.would.items() if name != NOTHING}
    return {"judged": sum(whole.would.values()), "would": ranked(would), "blocked": would.get("block", 0)}


def _poisoning(whole: Bucket) -> dict[str, Any]:
    """`attempts` are pieces that came into quarantine, `blocked` those that no person has approved since."""
    checked, attempts = whole.of(PoisoningPanel).poisoning_checked, sum(whole.quarantined.values())
    return {
        "checked": checked,
        "attempts": attempts,
        "blocked": attempts - whole.quarantine.get("approved", 0),
        "rate": ratio(min(attempts, checked), checked),
        "types": ranked(whole.quarantined),
        "decided": ranked(whole.quarantine),
    }


def _clashes(whole: Bucket) -> dict[str, Any]:
    found, by_policy = sum(whole.clashes.values()), sum(whole.clash_strategies.values())
    people = found - by_policy - whole.clashes_open
    states = {"auto_resolved": by_policy, "resolved_by_people": people, "open": whole.clashes_open}
    return {"found": found, **states, "types": ranked(whole.clashes)}


def _precision(right: int, looked_at: int) -> dict[str, Any]:
    """Of a stage's flags those that people looked at, and how many they called right; `low` and `high` are the 95% interval."""
    low, high = interval(right, looked_at)
    return {"looked_at": looked_at, "right": right, "precision": ratio(right, looked_at), "low": round(low, 4), "high": round(high, 4)}


def _failures(whole: Bucket) -> dict[str, Any]:
    """Records made, and how they stand now."""
    states, types = dict.fromkeys(("active", "resolved", "superseded"), 0), dict[str, int]()
    for name, count in whole.failures.items():
        signal, _, status = name.rpartition(":")
        types[signal], states[status] = types.get(signal, 0) + count, states.get(status, 0) + count
    return {"recorded": sum(types.values()), **states, "types": ranked(types)}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
