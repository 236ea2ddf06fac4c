"""The dashboard's part on which a person decides: what waits in quarantine, what was decided lately, and clashes.

In: items and records of the store. Out: HTML. Contents are untrusted: they are escaped, cut, and shown as text. A button calls the
operator's API from the page's own script, the only one that the page may run (`POLICY_HEADER`).
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from msgspec import Struct

from proxy.review import ClashRecord, QuarantineItem
from proxy.store.decisions import MAX_REASON_CHARS

SHOWN_CHARS = 600
"""Of a content; the whole of it is behind the item's link."""
LISTED = 20
"""Items and clashes of each list."""
_SCRIPT = """
document.addEventListener('submit', async event => {
  event.preventDefault();
  const form = event.target, said = form.querySelector('output');
  const body = {reason: form.reason.value, by: document.getElementById('by').value.trim() || 'admin'};
  if (form.dataset.kind === 'clash') body.resolution = event.submitter.value;
  const path = form.dataset.path + '/' + (form.dataset.kind === 'clash' ? 'resolve' : event.submitter.value);
  try {
    const answer = await fetch(path, {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(body)});
    const told = await answer.json();
    said.textContent = answer.ok ? told.status + (told.resolution ? ': ' + told.resolution : '') : told.error.message;
  } catch (error) { said.textContent = String(error); }
});
"""
SCRIPT = f"<script>{_SCRIPT}</script>"
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
POLICY_HEADER = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; connect-src 'self'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Content-Security-Policy of the page; https://www.w3.org/TR/CSP3/#grammardef-hash-source."""
_NO_DEFAULT = "<button disabled hidden></button>"
"""A form's first button is pressed by the return key: none of those that decide should be."""
_RESOLUTIONS = {"keep_older": "Keep older", "keep_newer": "Keep newer", "keep_both": "Keep both", "dismiss": "No clash"}


class Review(Struct, frozen=True):
    """What there is to look at."""

    counts: Mapping[str, int]
    """Items of the quarantine by status."""
    pending: Sequence[QuarantineItem]
    """Newest first, with contents."""
    decided: Sequence[QuarantineItem]
    clashes: Sequence[ClashRecord]


def review_sections(review: Review) -> str:
    """Quarantine and clashes; nothing where there never was any."""
    if not any(review.counts.values()) and not review.clashes:
        return ""
    who = "<p><label>Your name, for the audit trail: <input id=by maxlength=200 placeholder=admin></label></p>"
    return f"{who}{_quarantine(review)}{_clashes(review.clashes)}{SCRIPT}"


def _quarantine(review: Review) -> str:
    if not any(review.counts.values()):
        return ""
    counts = ", ".join(f"{number} {status}" for status, number in review.counts.items())
    waiting = _items(review.pending) if review.pending else "<p>Nothing waits for a decision.</p>"
    more = _more(review.counts.get("pending", 0), len(review.pending), "/groundwire/v1/quarantine?status=pending")
    decided = f"<h3>Decided, the newest</h3>{_items(review.decided)}" if review.decided else ""
    return f"<h2>Quarantine</h2><p>{escape(counts)}.</p>{waiting}{more}{decided}"


def _more(total: int, shown: int, path: str) -> str:
    return f"<p>{total - shown} more: <a href='{path}&limit=1000'>all as JSON</a>.</p>" if total > shown else ""


def _items(items: Sequence[QuarantineItem]) -> str:
    return _table(("First seen", "Whose", "What is wrong", "Content", "Decision"), map(_item, items))


def _item(item: QuarantineItem) -> list[str]:
    path = f"/groundwire/v1/quarantine/{escape(item.id, quote=True)}"
    reason = item.reason.removeprefix(f"{item.type}: ")
    wrong = f"<b>{escape(item.type)}</b> {'' if item.score is None else f'{item.score:.2f}'}<br>{escape(reason)}"
    told = "" if item.decided_at is None else _decision(item.status, item.decided_by, item.decided_at, item.decision_reason)
    offered = {"approve": "Approve", "reject": "Reject"}
    if item.status != "pending":
        offered.pop("approve" if item.status == "approved" else "reject")
    where = (item.kind, item.source, f"client {item.client}", f"policy {item.policy}", f"times seen: {item.seen_count}")
    return [
        f"{_when(item.created_at)}<br><a href='{path}'>{escape(item.id[:11])}…</a>",
        "<br>".join(escape(part) for part in where if part),
        wrong,
        _text(item.content.decode("utf-8", "replace")),
        told + _form("quarantine", path, offered),
    ]


def _clashes(records: Sequence[ClashRecord]) -> str:
    if not records:
        return ""
    return f"<h2>Clashes, the newest</h2>{_table(('Found', 'Type', 'Older', 'Newer', 'Resolution'), map(_clash, records))}"


def _clash(record: ClashRecord) -> list[str]:
    path = f"/groundwire/v1/clashes/{escape(record.id, quote=True)}"
    critical = " <b>critical</b>" if record.critical else ""
    told = record.resolution or record.status
    merged = f"<br>{_text(record.merged)}" if record.merged else ""
    offered = {value: label for value, label in _RESOLUTIONS.items() if value not in (record.resolution,)}
    return [
        f"{_when(record.created_at)}<br><a href='{path}'>{escape(record.id[:11])}…</a>",
        f"{escape(record.type)}<br>{escape(record.topic)}{critical}",
        _text(str(record.older.get("text", ""))),
        _text(str(record.newer.get("text", ""))),
        _decision(told, record.resolved_by, record.resolved_at, record.reason) + merged + _form("clash", path, offered),
    ]


def _decision(what: str, by: str, at: float | None, reason: str) -> str:
    said = what + (f" by {by}" if by else "") + (f", {_when(at)}" if at is not None else "")
    return f"<b>{escape(said)}</b><br>{escape(_cut(reason))}"


def _form(kind: str, path: str, offered: Mapping[str, str]) -> str:
    buttons = "".join(f"<button value={value}>{label}</button> " for value, label in offered.items())
    reason = f"<input name=reason required maxlength={MAX_REASON_CHARS} placeholder=why>"
    return f"<form data-kind={kind} data-path='{path}'>{_NO_DEFAULT}{reason} {buttons}<output></output></form>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th scope=col>{name}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=scroll><table class=review><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _text(content: str) -> str:
    return f"<pre>{escape(_cut(content))}</pre>" if content else ""


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + " …"


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
