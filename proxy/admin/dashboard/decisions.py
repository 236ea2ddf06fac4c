"""The pages on which a person decides: content in quarantine, and statements that contradict each other.

A decision is a form with the session's token; it works without a script. Contents are shown as text, with what cannot be seen made visible,
since that is what a person has to judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from proxy.admin.dashboard.frame import View, card, empty, heading, notice, page, pages, secret, tabs
from proxy.admin.dashboard.html import Child, Html, block, cut, el, own
from proxy.admin.dashboard.words import moment, record_link, run_link, with_query
from proxy.language.amounts import score
from proxy.ports.review import ClashRecord, QuarantineItem
from proxy.store.decisions import MAX_REASON_CHARS

PER_PAGE = 10
SHOWN_CHARS, WHOLE_CHARS = 800, 50_000
"""Of a content, at once and when it is opened; the whole of it is behind its link."""
QUARANTINE_TABS = {"pending": "Waiting", "approved": "Approved", "rejected": "Rejected"}
CLASH_TABS = {"open": "Open", "resolved": "Resolved", "dismissed": "Dismissed"}
RESOLUTIONS = {"keep_newer": "Keep newer", "keep_older": "Keep older", "keep_both": "Keep both", "dismiss": "No clash"}
_DECIDED = {"approved": "Approved: it goes to the model from the next turn on.", "rejected": "Rejected: it stays out of the context."}
_RESOLVED = {"resolved": "Resolved: it counts from the run's next turn.", "dismissed": "Dismissed: the two do not contradict each other."}


class ShownStatement(Struct, frozen=True):
    """What a decision came to, for the page that follows it."""

    done: str = ""
    """The status that was set."""
    problem: str = ""
    """Why it was refused."""


def quarantine_page(
    view: View, items: Sequence[QuarantineItem], counts: Mapping[str, int], status: str, after: str, more: bool, said: ShownStatement
) -> Html:
    """The queue."""
    options = [(name, with_query("/dashboard/quarantine", status=key), counts.get(key, 0)) for key, name in QUARANTINE_TABS.items()]
    body: Child = [_item(view, item) for item in items]
    if not items:
        hints = {
            "pending": "Content that a policy holds back until a person has looked (stage poisoning, action quarantine) is listed here, "
            "with what is wrong with it. The agent goes on without it meanwhile.",
            "approved": "What you let through is listed here; it can be decided anew.",
            "rejected": "What you, or a policy, keep out for good is listed here; it can be decided anew.",
        }
        title = "Nothing waits for a decision." if status == "pending" else f"Nothing is {status}."
        body = empty(title, el("p", hints[status]))
    return page(
        view,
        "Quarantine",
        heading("Quarantine"),
        _said(said, _DECIDED),
        tabs("Quarantine by status", options, QUARANTINE_TABS[status]),
        el("div", body, class_="queue"),
        _pages(items, "/dashboard/quarantine", status, after, more, "item"),
        here="Quarantine",
        live_after="",
    )


def clashes_page(
    view: View, records: Sequence[ClashRecord], counts: Mapping[str, int], status: str, after: str, more: bool, said: ShownStatement
) -> Html:
    """The clashes."""
    options = [(name, with_query("/dashboard/clashes", status=key), counts.get(key, 0)) for key, name in CLASH_TABS.items()]
    body: Child = [_clash(view, record) for record in records]
    if not records:
        hint = "Statements of one conversation that contradict each other, and that neither policy nor user has settled, are listed here."
        body = empty("No clash is open." if status == "open" else f"No clash is {status}.", el("p", hint))
    return page(
        view,
        "Clashes",
        heading("Clashes"),
        _said(said, _RESOLVED),
        tabs("Clashes by status", options, CLASH_TABS[status]),
        el("div", body, class_="queue"),
        _pages(records, "/dashboard/clashes", status, after, more, "clash"),
        here="Clashes",
        live_after="",
    )


def _said(said: ShownStatement, words: Mapping[str, str]) -> Html | None:
    if said.problem:
        return notice(own(said.problem), "problem")
    return notice(words[said.done]) if said.done in words else None


def _pages(
    rows: Sequence[QuarantineItem] | Sequence[ClashRecord], path: str, status: str, after: str, more: bool, what: str
) -> Html | None:
    if not rows or not (more or after):
        return None
    older = with_query(path, status=status, after=rows[-1].id) if more else None
    return pages(len(rows), with_query(path, status=status) if after else None, older, what)


def _item(view: View, item: QuarantineItem) -> Html:
    title = el("span", own(item.type.replace("_", " ")))
    sure = None if item.score is None else el("span", f"{score(item.score)} sure", class_="dim")
    where = [item.kind.replace("_", " "), *((f"from {item.source}",) if item.source else ())]
    facts: list[Child] = [
        el("span", own(", ".join(where))),
        el("span", "client ", own(item.client)),
        el("span", "policy ", own(item.policy)),
        el("span", "run ", run_link(item.run_id)),
        el("span", "first seen ", moment(item.created_at), f", {item.seen_count}×"),
        el("span", record_link(item.record_id, "exchange")) if item.record_id else None,
    ]
    reason = item.reason.removeprefix(f"{item.type}: ")
    body = (
        el("p", el("strong", "Why: "), own(reason)),
        _content(item),
        el("p", facts, class_="where"),
        _decision(item),
        _item_form(view, item),
    )
    return _entry(item.id, (title, sure), body)


def _entry(id_: str, title: Child, body: Child) -> Html:
    return el("article", el("h2", title, id=f"{id_}-title"), body, id=id_, class_="card entry", aria_labelledby=f"{id_}-title", tabindex=-1)


def _content(item: QuarantineItem) -> Html:
    text = item.content[: 4 * WHOLE_CHARS].decode("utf-8", "replace")
    parts: list[Child] = [block(cut(text, SHOWN_CHARS))]
    if len(text) > SHOWN_CHARS:
        left = f"All {len(text):,} characters" if len(item.content) <= 4 * WHOLE_CHARS else f"The first {WHOLE_CHARS:,} characters"
        parts.append(el("details", el("summary", left), block(text[:WHOLE_CHARS])))
    download = el("a", f"download, {item.size_bytes:,} bytes", href=f"/groundwire/v1/quarantine/{item.id}/content")
    return el("div", parts, el("p", download, class_="dim"), class_="content")


def _decision(item: QuarantineItem) -> Html | None:
    if item.decided_at is None:
        return None
    scope = ", in all runs of this client" if item.scope == "client" else ""
    who = (el("strong", f"{item.status} by ", own(item.decided_by)), ", ", moment(item.decided_at), scope, ". ")
    return el("p", who, own(cut(item.decision_reason, SHOWN_CHARS)), class_="decision")


def _item_form(view: View, item: QuarantineItem) -> Html:
    buttons = [
        el("button", name, name="decision", value=value, class_=value)
        for value, name, status in (("approve", "Approve", "approved"), ("reject", "Reject", "rejected"))
        if item.status != status
    ]
    scopes = (("run", "this run"), ("client", "all runs of this client"))
    scope = el("label", el("span", "Applies to"), el("select", [el("option", words, value=value) for value, words in scopes], name="scope"))
    hidden = [el("input", type="hidden", name="version", value=item.version), el("input", type="hidden", name="status", value=item.status)]
    return _form(view, f"/dashboard/quarantine/{item.id}", f"{item.id}-title", (hidden, _reason(required=True), scope), buttons)


def _clash(view: View, record: ClashRecord) -> Html:
    critical = el("span", "critical", class_="flag") if record.critical else None
    sides = [
        el("div", el("h3", name), block(cut(str(side.get("text", "")), SHOWN_CHARS)), el("p", _place(side), class_="dim"))
        for name, side in (("Older", record.older), ("Newer", record.newer))
    ]
    merged = el("div", el("h3", "In their place"), block(record.merged)) if record.merged else None
    facts = el(
        "p",
        el("span", own(record.type.replace("_", " ").lower())),
        el("span", "client ", own(record.client)),
        el("span", "policy ", own(record.policy)),
        el("span", "run ", run_link(record.run_id)),
        el("span", "found ", moment(record.created_at)),
        el("span", record_link(record.record_id, "exchange")) if record.record_id else None,
        class_="where",
    )
    why = el("p", el("strong", "Why: "), own(record.reason)) if record.reason and record.status == "open" else None
    body = (why, el("div", sides, class_="sides"), merged, facts, _resolution(record), _clash_form(view, record))
    return _entry(record.id, (el("span", own(record.topic or "clash")), critical), body)


def _place(side: Mapping[str, object]) -> str:
    index = side.get("message")
    return f"message {index + 1}" if isinstance(index, int) else ""


def _resolution(record: ClashRecord) -> Html | None:
    if record.resolved_at is None:
        return None
    said = (record.resolution or record.status).replace("_", " ")
    return el(
        "p",
        el("strong", f"{said} by ", own(record.resolved_by)),
        ", ",
        moment(record.resolved_at),
        ". ",
        own(cut(record.reason, SHOWN_CHARS)),
        class_="decision",
    )


def _clash_form(view: View, record: ClashRecord) -> Html:
    mine = record.resolution if record.status == "resolved" else "dismiss" if record.status == "dismissed" else ""
    buttons = [el("button", name, name="resolution", value=value) for value, name in RESOLUTIONS.items() if value != mine]
    merge = el(
        "details",
        el("summary", "Write what is true instead"),
        el("label", el("span", "The statement that takes the place of both"), el("textarea", name="text", rows=3, maxlength=20_000)),
        el("button", "Put this in their place", name="resolution", value="merged"),
    )
    hidden = el("input", type="hidden", name="status", value=record.status)
    return _form(view, f"/dashboard/clashes/{record.id}", f"{record.id}-title", (hidden, _reason(required=False)), buttons, merge)


def _reason(*, required: bool) -> Html:
    words = "Reason" if required else "Reason (optional)"
    hint = "kept in the audit trail"
    return el(
        "label",
        el("span", words),
        el("input", name="reason", required=required, maxlength=MAX_REASON_CHARS, placeholder=hint, autocomplete="off"),
        class_="wide",
    )


def _form(view: View, action: str, named: str, fields: Child, buttons: Child, more: Child = None) -> Html:
    """A decision's form. Its first button, which the return key presses, does nothing: none of those that decide should be pressed so."""
    idle = el("button", "", disabled=True, hidden=True)
    who = el(
        "label", el("span", "Your name"), el("input", name="by", maxlength=200, placeholder="admin", autocomplete="name", data_keep="by")
    )
    acts = el("div", buttons, class_="acts")
    return el("form", idle, secret(view), fields, who, acts, more, method="post", action=action, class_="decide", aria_labelledby=named)


def refused(view: View | None, title: str, message: str, *more: Child) -> Html:
    """A page that says why there is none."""
    return page(view, title, heading(title), card(title, el("p", own(message)), *more, id_="problem", class_="problem"))
