"""A run's page: its exchanges and its failure records on one time line, and how its context grew.

Failure records come from whoever keeps them (`FailuresOfRun`); without one, the time line has exchanges only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from proxy.admin.dashboard.charts import usage_chart
from proxy.admin.dashboard.exchange_rows import bar
from proxy.admin.dashboard.failures import adjustment, what_failed
from proxy.admin.dashboard.frame import View, badge, card, empty, facts, heading, page
from proxy.admin.dashboard.html import Child, Html, cut, el, own
from proxy.admin.dashboard.summaries import RecordSummary
from proxy.admin.dashboard.words import moment, record_path, run_path, with_query
from proxy.language.amounts import dollars, many, milliseconds, number, share

FailuresOfRun: TypeAlias = Callable[[str], Awaitable[Sequence[Mapping[str, Any]]]]
"""Of a run's id: its failure records, with ``id``, ``signal_type``, ``code``, ``severity``, ``subject``, ``status``, ``occurrence_count``,
``created_at``, ``last_seen_at`` (seconds since the epoch) and ``recommended_adjustment``."""
PER_PAGE = 100
_TEXT_CHARS = 600
_OVER = ("resolved", "superseded")
_CHANGED = {
    "reflection": "guidance about failures",
    "history": "older messages",
    "compression": "the prompt",
    "tool_rag": "the tools",
    "poisoning": "content kept out",
    "clash": "contradicting statements",
    "claims": "the answer",
}
"""What a stage changes, as a person would say it."""


class Turn(Struct, frozen=True):
    """One exchange of the run."""

    summary: RecordSummary
    step: str
    changes: Sequence[Mapping[str, Any]]
    """What the stages changed."""


def run_page(view: View, run_id: str, turns: Sequence[Turn], failures: Sequence[Mapping[str, Any]], more: bool, after: str) -> Html:
    """The whole page; `turns` newest first."""
    if not turns and not failures:
        hint = el("p", "Its records may be past their retention, or its id may be mistyped.")
        return page(
            view,
            "Run",
            heading("Run"),
            empty("No exchange of this run is known.", hint, el("p", el("a", "All exchanges", href="/dashboard/exchanges"))),
        )
    rows = [turn.summary for turn in turns]
    usage = None
    if any(s.share is not None for s in rows):
        label = "Share of the context window that each exchange of this run took, with lines at 70, 80 and 90 per cent"
        usage = card("How its context grew", usage_chart(rows, "run", label), id_="usage", class_="chart")
    older = el("p", el("a", "Older exchanges »", href=with_query(run_path(run_id), after=rows[-1].id), class_="button")) if more else None
    newest = el("p", el("a", "« Newest", href=run_path(run_id), class_="button")) if after else None
    line = card("What happened", older, el("ol", _entries(turns, failures), class_="timeline"), newest, id_="timeline")
    listed = el("a", "As a list", href=with_query("/dashboard/exchanges", run=run_id), class_="button")
    return page(view, "Run", heading("Run", listed), _known(run_id, rows, failures, more), usage, line, here="Exchanges")


def _known(run_id: str, rows: Sequence[RecordSummary], failures: Sequence[Mapping[str, Any]], more: bool) -> Html:
    times = [s.at for s in rows] + [_time(f, "created_at") for f in failures]
    still = [f for f in failures if str(f.get("status", "")) not in _OVER]
    costs = [s.usd for s in rows if s.usd is not None]
    ended = Counter(s.outcome for s in rows)
    tokens = sum(s.tokens or 0 for s in rows), sum(s.answer or 0 for s in rows)
    return facts(
        [
            ("Run", el("code", own(run_id))),
            ("Began" if not more else "Shown from", moment(min(times))),
            ("Last seen", moment(max(times))),
            ("Exchanges", f"{len(rows):,}{' or more' if more else ''}"),
            ("How they ended", ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in ended.most_common())),
            ("Failures", f"{many(len(failures), 'record')}, {len(still):,} unresolved" if failures else "none"),
            ("Tokens", f"{number(tokens[0])} → {number(tokens[1])}"),
            ("Cost", dollars(sum(costs)) if costs else None),
            ("Time with the provider", milliseconds(sum(s.ms - (s.own_ms or 0.0) for s in rows)) if rows else None),
        ]
    )


def _entries(turns: Sequence[Turn], failures: Sequence[Mapping[str, Any]]) -> list[Html]:
    """Oldest first; what was asked is told where it is new."""
    found, asked = [(_time(f, "created_at"), _failure(f)) for f in failures], ""
    for turn in sorted(turns, key=lambda one: one.summary.at):
        found.append((turn.summary.at, _exchange(turn, turn.summary.question != asked)))
        asked = turn.summary.question
    return [entry for _, entry in sorted(found, key=lambda one: one[0])]


def _exchange(turn: Turn, asked: bool) -> Html:
    s = turn.summary
    title = el("a", f"Step {turn.step}" if turn.step else "Exchange", href=record_path(s.id))
    full: Child = (bar(s.share), share(s.share)) if s.share is not None else None
    figures = f"{number(s.tokens)} → {number(s.answer)} tokens, {milliseconds(s.ms)}"
    told = [
        el("p", el("strong", "Asked: "), own(s.question)) if s.question and asked else None,
        el("p", el("strong", "Changed: "), own(_changed(turn.changes)), class_="dim") if turn.changes else None,
        el("p", el("strong", "Answered: "), own(s.said)) if s.said else None,
    ]
    return el(
        "li",
        _at(s.at),
        el(
            "div",
            el("p", badge(s.outcome), " ", title, class_="what"),
            el("p", full, el("span", figures, class_="dim"), class_="figures"),
            el("p", own(s.why), class_="dim") if s.why else None,
            el("div", told, class_="told-of") if any(told) else None,
        ),
        class_=f"exchange {s.outcome}",
    )


def _changed(changes: Sequence[Mapping[str, Any]]) -> str:
    """What the stages changed, in few words: guidance about failures is among it."""
    said = [_CHANGED.get(str(one.get("stage"))) or f"{one.get('what', '')} (by {one.get('stage', '')})" for one in changes]
    return cut(", ".join(dict.fromkeys(said)), _TEXT_CHARS)


def _failure(failure: Mapping[str, Any]) -> Html:
    severity, status = str(failure.get("severity", "")), str(failure.get("status", ""))
    resolved = status in _OVER
    count = failure.get("occurrence_count")
    again = f", {count}× until " if isinstance(count, int) and count > 1 else ""
    title = el(
        "p",
        el("span", "✓" if resolved else "▲", class_="mark", aria_hidden="true"),
        el("strong", own(what_failed(failure))),
        " ",
        el("code", own(str(failure.get("code", "")))),
    )
    told = el(
        "p",
        el("span", " · ".join(filter(None, (severity.lower(), status.lower().replace("_", " ")))), class_="dim"),
        again,
        moment(_time(failure, "last_seen_at")) if again else None,
    )
    subject = cut(str(failure.get("subject") or ""), _TEXT_CHARS)
    adjust = adjustment(failure.get("recommended_adjustment"))
    return el(
        "li",
        _at(_time(failure, "created_at")),
        el(
            "div",
            title,
            told,
            el("p", own(subject)) if subject else None,
            el("p", el("strong", "Recommended: "), own(cut(adjust, _TEXT_CHARS))) if adjust else None,
        ),
        class_=f"failure {'resolved' if resolved else 'active'}",
        id=str(failure.get("id", "")) or None,
    )


def _at(at: float) -> Html:
    return el("span", moment(at), class_="at")


def _time(failure: Mapping[str, Any], name: str) -> float:
    value = failure.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
