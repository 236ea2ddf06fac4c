"""The page at ``/dashboard``: the latest exchanges, and how tools were selected.

Text of clients and models is untrusted and escaped everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape

from proxy.store.records import Record

_STYLE = """
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8884}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.scroll{overflow-x:auto}code{font-size:.9em}
"""
_COLUMNS = ("Time", "Route", "Model", "Policy", "Status", "Verdict", "Prompt tokens", "Answer tokens", "ms", "Record")
_NUMERIC = frozenset(("Status", "Prompt tokens", "Answer tokens", "ms"))


def overview(records: Sequence[Record], tool_selection: Mapping[str, float | int] | None = None) -> str:
    """The whole page; `tool_selection` as `proxy.metrics.tool_selection` gives it."""
    if records:
        head = "".join(f"<th{_class(c)} scope=col>{c}</th>" for c in _COLUMNS)
        body = f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, records))}</tbody></table></div>"
    else:
        body = "<p>No exchange yet. Point a client's <code>base_url</code> at a route of this server and send a message.</p>"
    title = "Groundwire: latest exchanges"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>{title}</title>"
        f"<style>{_STYLE}</style><h1>{title}</h1>{_tool_figures(tool_selection)}{body}</html>"
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
