"""The page at ``/dashboard``: figures, what waits for a person (`proxy.admin.review`), and the latest exchanges.

Text of clients and models is untrusted and escaped everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from proxy.admin.review import Review, review_sections
from proxy.store.records import Record

_STYLE = """
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8884}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.scroll{overflow-x:auto}code{font-size:.9em}
.review td{vertical-align:top;min-width:7rem}pre{margin:0;max-width:28rem;max-height:10rem;overflow:auto;font-size:.85em}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
.review form{margin-top:.3rem}.review output{display:block}
"""
_COLUMNS = ("Time", "Route", "Model", "Policy", "Status", "Verdict", "Prompt tokens", "Answer tokens", "ms", "Record")
_TYPES = 3
"""Of poisoning, that the page names."""
_NUMERIC = frozenset(("Status", "Prompt tokens", "Answer tokens", "ms"))


def overview(records: Sequence[Record], figures: Mapping[str, Any] | None = None, review: Review | None = None) -> str:
    """The whole page; `figures` as `proxy.metrics.Metrics.as_json` gives them. Without a store there is no `review`."""
    if records:
        head = "".join(f"<th{_class(c)} scope=col>{c}</th>" for c in _COLUMNS)
        body = f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, records))}</tbody></table></div>"
    else:
        body = "<p>No exchange yet. Point a client's <code>base_url</code> at a route of this server and send a message.</p>"
    figures = figures or {}
    lines = (
        _tool_figures(figures.get("tool_selection")),
        _poisoning_figures(figures.get("poisoning")),
        _clash_figures(figures.get("clash")),
    )
    sections = review_sections(review) if review is not None else ""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>Groundwire</title>"
        f"<style>{_STYLE}</style><h1>Groundwire</h1>{''.join(lines)}{sections}<h2>Latest exchanges</h2>{body}</html>"
    )


def _tool_figures(figures: Mapping[str, float | int] | None) -> str:
    """One line, once tools have been selected."""
    if not figures:
        return ""
    accuracy = figures.get("selection_accuracy")
    parts = (
        f"{figures['requests']} requests",
        f"{figures['average_tools']:.1f} of {figures['average_tools_offered']:.1f} tools in context on average",
        f"{figures['token_savings']:.0%} of tool tokens saved",
        *(() if accuracy is None else (f"{accuracy:.1%} of {figures['calls']} tool calls foreseen",)),
    )
    return f"<p>Tool selection: {escape('; '.join(parts))}.</p>"


def _poisoning_figures(figures: Mapping[str, Any] | None) -> str:
    """One line, once content has been checked."""
    if not figures:
        return ""
    types = ", ".join(f"{name} {number}" for name, number in list(figures["types"].items())[:_TYPES])
    parts = (
        f"{figures['attempts']} of {figures['checked']} new pieces of context were poisoned ({figures['rate']:.1%})",
        f"{figures['blocked']} blocked, {figures['quarantined']} quarantined, {figures['rejected']} refused",
        *((f"most often {types}",) if types else ()),
        *((f"{figures['alerts']} alerts",) if figures["alerts"] else ()),
    )
    return f"<p>Poisoning: {escape('; '.join(parts))}.</p>"


def _clash_figures(figures: Mapping[str, Any] | None) -> str:
    """One line, once clashes have been found."""
    if not figures:
        return ""
    parts = (
        f"{figures['found']} found",
        f"{figures['auto_resolved']} resolved by the policy, {figures['user_resolved']} by users, "
        f"{figures['operator_resolved']} by operators",
        f"users were asked {figures['asked']} times",
    )
    return f"<p>Clashes: {escape('; '.join(parts))}.</p>"


def _row(record: Record) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.created_at))
    link = f"<a href='/groundwire/v1/records/{escape(record.id, quote=True)}'>{escape(record.id)}</a>"
    values: tuple[object, ...] = (
        when + " UTC", record.route or "/", record.model, record.policy, record.status, record.outcome, record.prompt_tokens,
        record.completion_tokens, f"{record.duration_ms:.0f}",
    )  # fmt: skip
    cells = (f"<td{_class(c)}>{escape('' if v is None else str(v))}</td>" for c, v in zip(_COLUMNS, values, strict=False))
    return f"<tr>{''.join(cells)}<td>{link}</td></tr>"


def _class(column: str) -> str:
    return " class=n" if column in _NUMERIC else ""
