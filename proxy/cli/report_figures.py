"""Exchanges of a period -> the figures of ``groundwire report``, in bounded memory whatever their number.

In: an `ReportEntry` for each exchange, and counts of pieces in quarantine, clashes and failures. Out: `Figures.as_json`. Counts and sums
are exact; percentiles are of a histogram whose buckets are 2% wide (after DDSketch, https://arxiv.org/abs/1908.10693), so they are within
1%.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from proxy.cli.report_shadow import ShadowTally
from proxy.cli.report_tallies import Mean, Runs, ValueSpread, raised, ranked, share
from proxy.exchange import QUIET, Facts
from proxy.stages.compression.panel import CompressionPanel
from proxy.stages.poisoning.report import PoisoningPanel
from proxy.stages.tool_rag.panel import ToolRagPanel
from proxy.store.detail import RecordDetail, RecordUsage, decode

Price = Callable[[str, str, RecordUsage], float | None]
"""Upstream, model and usage -> USD; None where no price is known."""


class ReportEntry(Struct):
    """One exchange, as far as it is counted; the names are the record's, the detail comes last."""

    id: str
    created_at: float
    outcome: str
    status: int
    duration_ms: float = 0.0
    policy: str = ""
    """Empty for what was passed through or refused before a policy applied."""
    upstream: str = ""
    model: str = ""
    run_id: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    detail: Raw = field(default_factory=Raw)


class ReportFigures:
    """The figures of one period."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self.exchanges = 0
        self.unread = 0
        """Exchanges whose detail another version has written: only their columns are counted."""
        self._verdicts: dict[str, int] = {}
        self._statuses: dict[str, int] = {}
        self._tokens = dict.fromkeys(("before", "after", "prompt", "completion", "cached"), 0)
        self._usd, self._priced, self._unpriced = 0.0, 0, 0
        self._means = {name: Mean() for name in ("quality", "faithfulness", "relevance")}
        self._citations = [0, 0]
        self._warnings: dict[str, int] = {}
        self._blocked: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        self._upstream_errors: dict[str, int] = {}
        self._asked, self._compression_failed = 0, 0
        self._failures: dict[str, int] | None = {}
        self._failure_states = dict.fromkeys(("active", "resolved", "superseded"), 0)
        self._compression, self._tools, self._checks = CompressionPanel(), ToolRagPanel(), PoisoningPanel()
        self._duration, self._overhead = ValueSpread(), ValueSpread()
        self._runs, self._shadow = Runs(), ShadowTally()
        self._poisoned: dict[str, int] | None = {}
        self._decided: dict[str, int] = {}
        self._clashes: dict[str, int] | None = {}
        self._clash_states = dict.fromkeys(("auto_resolved", "resolved_by_people", "open"), 0)

    def add(self, entry: ReportEntry) -> None:
        """One exchange."""
        self.exchanges += 1
        raised(self._verdicts, entry.outcome)
        raised(self._statuses, str(entry.status))
        self._duration.add(entry.duration_ms)
        self._tokens["prompt"] += entry.prompt_tokens or 0
        self._tokens["completion"] += entry.completion_tokens or 0
        detail = self._detail(entry)
        codes = set(detail.warnings)
        failed = entry.outcome in ("block", "error", "upstream_error") or entry.status >= 500
        self._runs.add(entry.run_id, failed=failed, warned=bool(codes))
        self._codes(codes)
        self._ends(entry, detail)
        self._shadow.add(detail, entry.id, entry.created_at, entry.model)
        facts = detail.facts or Facts()
        self._facts(facts)
        self._cost(entry, detail.usage)
        if detail.overhead_ms is not None and entry.policy:
            self._overhead.add(detail.overhead_ms + detail.timings_ms.get("after_ms", 0.0))
        for panel in (self._compression, self._tools, self._checks):
            panel.add(facts, detail.verdicts)

    def add_pieces(self, pieces: Iterable[tuple[str, str, int]] | None) -> None:
        """Pieces that came into quarantine, as `proxy.store.reading.Reading.pieces`; None for not known."""
        self._poisoned = None if pieces is None else self._poisoned
        for kind, status, number in pieces or ():
            if self._poisoned is not None:
                raised(self._poisoned, kind, number)
            raised(self._decided, status, number)

    def add_clashes(self, clashes: Iterable[tuple[str, str, str, int]] | None) -> None:
        """Clashes found, as `proxy.store.reading.Reading.clashes`; None for not known."""
        self._clashes = None if clashes is None else self._clashes
        for kind, status, by, number in clashes or ():
            if self._clashes is not None:
                raised(self._clashes, kind, number)
            state = "open" if status == "open" else "auto_resolved" if by == "policy" else "resolved_by_people"
            self._clash_states[state] += number

    def add_failures(self, failures: Iterable[tuple[str, str, int]] | None) -> None:
        """Failures of runs, as `proxy.store.reading.Reading.failures`; None for not known."""
        self._failures = None if failures is None else self._failures
        for signal, status, number in failures or ():
            if self._failures is not None:
                raised(self._failures, signal, number)
            if status in self._failure_states:
                self._failure_states[status] += number

    def as_json(self) -> dict[str, Any]:
        """All figures; null where there is nothing to divide, or nothing is known."""
        tokens, saved = self._tokens, self._tokens["before"] - self._tokens["after"]
        exchanges = {"total": self.exchanges, "verdicts": ranked(self._verdicts), "statuses": dict(sorted(self._statuses.items()))}
        return {
            "exchanges": exchanges,
            "tokens": {**tokens, "saved": saved, "saved_share": share(saved, tokens["before"])},
            "cost": {"usd": round(self._usd, 6) if self._priced else None, "priced": self._priced, "unpriced": self._unpriced},
            "quality": {name: mean.as_json() for name, mean in self._means.items()},
            "citations": {"verified": self._citations[0], "total": self._citations[1], "precision": share(*self._citations)},
            "warnings": ranked(self._warnings),
            "blocked": {"total": self._verdicts.get("block", 0), "reasons": ranked(self._blocked)},
            "shadow": self._shadow.as_json(),
            "errors": ranked(self._errors),
            "upstream_errors": {"total": sum(self._upstream_errors.values()), "by": ranked(self._upstream_errors)},
            "poisoning": self._poisoning(),
            "clashes": self._clashed(),
            "failures": self._remembered(),
            "compression": self._compressed(),
            "tools": self._selected(),
            "latency_ms": {"duration": self._duration.as_json(), "overhead": self._overhead.as_json()},
            "runs": {"complete": self._runs.complete, "top": self._runs.top(10)},
            "unread_details": self.unread,
        }

    # ---- one exchange ----

    def _detail(self, entry: ReportEntry) -> RecordDetail:
        try:
            return decode(entry.detail) if bytes(entry.detail) else RecordDetail()
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.unread += 1
            return RecordDetail()

    def _codes(self, codes: set[str]) -> None:
        for code in codes:
            raised(self._warnings, code)
        self._compression_failed += "compression_failed" in codes
        self._asked += "clash_asked" in codes

    def _ends(self, entry: ReportEntry, detail: RecordDetail) -> None:
        """Why it was blocked, or failed."""
        error = detail.error.code if detail.error is not None else ""
        param = detail.error.param or "" if detail.error is not None else ""
        if entry.outcome == "block":
            said = next((verdict.code for verdict in detail.verdicts if verdict.outcome == "block" and verdict.code), "")
            raised(self._blocked, (param if error == "policy_blocked" else "") or said or error or "unknown")
        elif error:
            raised(self._errors, error)
        of_upstream = {verdict.code for verdict in detail.verdicts if verdict.stage == "upstream" and verdict.outcome not in QUIET}
        if error.startswith("upstream_"):
            of_upstream.add(error)
        elif not entry.policy and not error and entry.status >= 500:
            of_upstream.add(f"upstream_{entry.status}")
        for code in of_upstream:
            raised(self._upstream_errors, f"{entry.upstream or 'unknown'}: {code or 'unknown'}")

    def _facts(self, facts: Facts) -> None:
        for name, mean in self._means.items():
            mean.add(getattr(facts, name))
        if facts.citations is not None:
            self._citations[0] += facts.citations[0]
            self._citations[1] += facts.citations[1]
        if facts.context_before is not None and facts.context is not None:  # both by the proxy's own count, so that they compare
            self._tokens["before"] += facts.context_before.used_tokens
            self._tokens["after"] += facts.context.used_tokens

    def _cost(self, entry: ReportEntry, usage: RecordUsage | None) -> None:
        if usage is None or not (usage.prompt or usage.completion):
            return
        self._tokens["cached"] += usage.cached
        usd = self._price(entry.upstream, entry.model, usage)
        if usd is None:
            self._unpriced += 1
        else:
            self._priced, self._usd = self._priced + 1, self._usd + usd

    # ---- subjects ----

    def _poisoning(self) -> dict[str, Any]:
        """`attempts` are pieces that came into quarantine, `blocked` those that no person has approved since."""
        known, checked = self._poisoned is not None, self._checks.poisoning_checked
        attempts = sum((self._poisoned or {}).values())
        return {
            "checked": checked,
            "attempts": attempts if known else None,
            "blocked": attempts - self._decided.get("approved", 0) if known else None,
            "rate": share(min(attempts, checked), checked) if known else None,
            "types": ranked(self._poisoned or {}),
            "decided": ranked(self._decided),
        }

    def _clashed(self) -> dict[str, Any]:
        known, found = self._clashes is not None, sum((self._clashes or {}).values())
        states = {name: number if known else None for name, number in self._clash_states.items()}
        return {"found": found if known else None, **states, "asked_exchanges": self._asked, "types": ranked(self._clashes or {})}

    def _remembered(self) -> dict[str, Any]:
        """Records made, how they stand now, and the exchanges at which a run was stopped: with a question, or an error."""
        known, found = self._failures is not None, sum((self._failures or {}).values())
        states = {name: number if known else None for name, number in self._failure_states.items()}
        stops = {"asked_exchanges": self._warnings.get("human_asked", 0), "stopped_exchanges": self._blocked.get("system_error", 0)}
        return {"recorded": found if known else None, **states, **stops, "types": ranked(self._failures or {})}

    def _compressed(self) -> dict[str, Any]:
        before, after = self._compression.compression_tokens_before, self._compression.compression_tokens_after
        done = {"runs": self._compression.compressions, "tokens_before": before, "tokens_after": after}
        return {**done, "failures": self._compression_failed, "ratio": share(before, after)}

    def _selected(self) -> dict[str, Any]:
        done = self._tools
        return {
            "requests": done.tool_requests,
            "offered": done.tools_offered,
            "kept": done.tools_kept,
            "tokens_before": done.tool_tokens_before,
            "tokens_after": done.tool_tokens_after,
            "average_offered": share(done.tools_offered, done.tool_requests),
            "average_kept": share(done.tools_kept, done.tool_requests),
            "savings": share(done.tool_tokens_before - done.tool_tokens_after, done.tool_tokens_before),
        }
