"""A run's page: its exchanges and its failure records on one time line, and how its context grew.

Failure records come from whoever keeps them (`FailuresOfRun`); without one, the time line has exchanges only.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from proxy.admin.dashboard.charts import usage_chart
from proxy.admin.dashboard.exchange_rows import bar
from proxy.admin.dashboard.frame import View, badge, card, empty, facts, heading, page
from proxy.admin.dashboard.html import Child, Html, cut, el, own
from proxy.admin.dashboard.summaries import RecordSummary
from proxy.admin.dashboard.words import moment, record_path, run_path, with_query
from proxy.language.amounts import many, milliseconds, number, share

FailuresOfRun: TypeAlias = Callable[[str], Awaitable[Sequence[Mapping[str, Any]]]]
"""Of a run's id: its failure records, with ``id``, ``signal_type``, ``code``, ``severity``, ``subject``, ``status``, ``occurrence_count``,
``created_at``, ``last_seen_at`` (seconds since the epoch) and ``recommended_adjustment``."""
PER_PAGE = 100
_TEXT_CHARS = 600
_OVER = ("resolved", "superseded")


def run_page(
    view: View,
    run_id: str,
    rows: Sequence[RecordSummary],
    steps: Mapping[str, str],
    failures: Sequence[Mapping[str, Any]],
    more: bool,
    after: str,
) -> Html:
    """The whole page; `rows` newest first, `steps` by record id."""
    if not rows and not failures:
        hint = el("p", "Its records may be past their retention, or its id may be mistyped.")
        return page(
            view,
            "Run",
            heading("Run"),
            empty("No exchange of this run is known.", hint, el("p", el("a", "All exchanges", href="/dashboard/exchanges"))),
        )
    times = [s.at for s in rows] + [_time(f, "created_at") for f in failures]
    still = [f for f in failures if str(f.get("status", "")) not in _OVER]
    known = facts(
        [
            ("Run", el("code", own(run_id))),
            ("Began" if not more else "Shown from", moment(min(times))),
            ("Last seen", moment(max(times))),
            ("Exchanges", f"{len(rows):,}{' or more' if more else ''}"),
            ("Failures", f"{many(len(failures), 'record')}, {len(still):,} unresolved" if failures else "none"),
        ]
    )
    usage = None
    if any(s.share is not None for s in rows):
        label = "Share of the context window that each exchange of this run took, with lines at 70, 80 and 90 per cent"
        usage = card("How its context grew", usage_chart(rows, "run", label), id_="usage", class_="chart")
    older = el("p", el("a", "Older exchanges »", href=with_query(run_path(run_id), after=rows[-1].id), class_="button")) if more else None
    newest = el("p", el("a", "« Newest", href=run_path(run_id), class_="button")) if after else None
    line = card("Time line", older, el("ol", _entries(rows, steps, failures), class_="timeline"), newest, id_="timeline")
    return page(view, "Run", heading("Run"), known, usage, line, here="Exchanges")


def _entries(rows: Sequence[RecordSummary], steps: Mapping[str, str], failures: Sequence[Mapping[str, Any]]) -> list[Html]:
    """Oldest first."""
    found = [(s.at, _exchange(s, steps.get(s.id, ""))) for s in rows] + [(_time(f, "created_at"), _failure(f)) for f in failures]
    return [entry for _, entry in sorted(found, key=lambda one: one[0])]


def _exchange(s: RecordSummary, step: str) -> Html:
    title = el("a", f"Step {step}" if step else "Exchange", href=record_path(s.id))
    full: Child = (bar(s.share), share(s.share)) if s.share is not None else None
    figures = f"{number(s.tokens)} → {number(s.answer)} tokens, {milliseconds(s.ms)}"
    return el(
        "li",
        _at(s.at),
        el(
            "div",
            el("p", badge(s.outcome), " ", title, " ", el("span", own(s.model), class_="dim")),
            el("p", full, el("span", figures, class_="dim"), class_="figures"),
        ),
        class_=f"exchange {s.outcome}",
    )


def _failure(failure: Mapping[str, Any]) -> Html:
    severity, status = str(failure.get("severity", "")), str(failure.get("status", ""))
    resolved = status in _OVER
    count = failure.get("occurrence_count")
    again = f", {count}× until " if isinstance(count, int) and count > 1 else ""
    title = el(
        "p",
        el("span", "✓" if resolved else "▲", class_="mark", aria_hidden="true"),
        el("strong", own(_words(failure, "signal_type"))),
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
    adjust = _adjustment(failure.get("recommended_adjustment"))
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


def _adjustment(given: Any) -> str:
    """What to do otherwise, in words: its ``type``, then its parameters."""
    if not isinstance(given, Mapping):
        return str(given or "")
    rest = {name: value for name, value in given.items() if name != "type"}
    said = ", ".join(f"{name.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}" for name, value in rest.items())
    return ": ".join(filter(None, (str(given.get("type", "")).replace("_", " ").lower(), said)))


def _at(at: float) -> Html:
    return el("span", moment(at), class_="at")


def _words(failure: Mapping[str, Any], name: str) -> str:
    return str(failure.get(name, "failure")).replace("_", " ").lower()


def _time(failure: Mapping[str, Any], name: str) -> float:
    value = failure.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
