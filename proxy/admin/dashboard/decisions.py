"""The pages on which a person decides: content in quarantine, and statements that contradict each other.

A decision is a form with the session's token; it works without a script. Contents are shown as text, with what cannot be seen made visible,
since that is what a person has to judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from proxy.admin.dashboard.frame import View, empty, heading, notice, page, pages, secret, tabs
from proxy.admin.dashboard.html import Child, Html, block, cut, el, own
from proxy.admin.dashboard.summaries import entries
from proxy.admin.dashboard.words import moment, record_link, run_link, with_query
from proxy.language.amounts import share
from proxy.ports.review import ClashRecord, QuarantineItem
from proxy.store.decisions import MAX_REASON_CHARS

PER_PAGE = 10
SHOWN_CHARS, WHOLE_CHARS = 800, 50_000
"""Of a content, at once and when it is opened; the whole of it is behind its link."""
QUARANTINE_TABS = {"pending": "Waiting", "approved": "Approved", "rejected": "Rejected"}
CLASH_TABS = {"open": "Open", "resolved": "Resolved", "dismissed": "Dismissed"}
TYPES = {
    "wrong_location": "Wrong place",
    "wrong_date": "Wrong date",
    "invented_date": "Invented date",
    "wrong_number": "Wrong number",
    "wrong_unit": "Wrong unit",
    "wrong_name": "Wrong name",
    "false_capability": "Claims an ability that is not there",
    "contradiction": "Contradicts what is known",
    "unsupported_claim": "Nothing supports it",
    "outdated": "Out of date",
    "hidden_instruction": "Hidden instruction to the model",
}
"""What is wrong with a piece, as a person would say it."""
_SAID = {
    "keep_newer": "the newer kept",
    "keep_older": "the older kept",
    "keep_both": "both kept",
    "dismissed": "no clash",
    "merged": "another statement put in place of both",
}
_STATEMENTS = 5
"""Shown of a piece."""
RESOLUTIONS = {"keep_newer": "Keep newer", "keep_older": "Keep older", "keep_both": "Keep both", "dismiss": "No clash"}
_DECIDED = {"approved": "Approved: it goes to the model from the next turn on.", "rejected": "Rejected: it stays out of the context."}
_UNDONE = {"undone": "Taken back: what was decided before counts again."}
_RESOLVED = {"resolved": "Resolved: it counts from the run's next turn.", "dismissed": "Dismissed: the two do not contradict each other."}


class ShownStatement(Struct, frozen=True):
    """What a decision came to, for the page that follows it."""

    done: str = ""
    """The status that was set, ``undone`` where one was taken back."""
    undo: tuple[str, ...] = ()
    """What it was set on, as ``ID.VERSION``."""
    problem: str = ""
    """Why it was refused."""


def quarantine_page(
    view: View, items: Sequence[QuarantineItem], counts: Mapping[str, int], status: str, after: str, more: bool, said: ShownStatement
) -> Html:
    """The queue."""
    options = [(name, with_query("/dashboard/quarantine", status=key), counts.get(key, 0)) for key, name in QUARANTINE_TABS.items()]
    body: Child = [_item(view, item, len(items) > 1) for item in items]
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
        _said(view, said, _DECIDED | _UNDONE, "/dashboard/quarantine", status),
        tabs("Quarantine by status", options, QUARANTINE_TABS[status]),
        _many_items(view, status) if len(items) > 1 else None,
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
    body: Child = [_clash(view, record, len(records) > 1) for record in records]
    if not records:
        hint = "Statements of one conversation that contradict each other, and that neither policy nor user has settled, are listed here."
        body = empty("No clash is open." if status == "open" else f"No clash is {status}.", el("p", hint))
    return page(
        view,
        "Clashes",
        heading("Clashes"),
        _said(view, said, _RESOLVED | _UNDONE, "/dashboard/clashes", status),
        tabs("Clashes by status", options, CLASH_TABS[status]),
        _many_clashes(view, status) if len(records) > 1 else None,
        el("div", body, class_="queue"),
        _pages(records, "/dashboard/clashes", status, after, more, "clash"),
        here="Clashes",
        live_after="",
    )


def _said(view: View, said: ShownStatement, words: Mapping[str, str], path: str, status: str) -> Html | None:
    """What has just happened, and the way to take it back."""
    if said.problem:
        return notice(own(said.problem), "problem")
    if said.done not in words:
        return None
    told = notice(words[said.done] if len(said.undo) < 2 else f"{len(said.undo)} decided. {words[said.done]}")
    if not said.undo:
        return told
    items = [el("input", type="hidden", name="item", value=item) for item in said.undo]
    hidden = el("input", type="hidden", name="status", value=status)
    undo = el("form", secret(view), hidden, items, el("button", "Undo"), method="post", action=f"{path}/undo", class_="undo")
    return el("div", told, undo, class_="told")


def _many_items(view: View, status: str) -> Html:
    buttons = [
        el("button", f"{name} the selected", name="decision", value=value, class_=value)
        for value, name, decided in (("approve", "Approve", "approved"), ("reject", "Reject", "rejected"))
        if decided != status
    ]
    return _many(view, "/dashboard/quarantine/many", status, (_reason(required=True), _scope()), buttons)


def _many_clashes(view: View, status: str) -> Html:
    buttons = [el("button", name, name="resolution", value=value) for value, name in RESOLUTIONS.items()]
    return _many(view, "/dashboard/clashes/many", status, _reason(required=False), buttons)


def _many(view: View, action: str, status: str, fields: Child, buttons: Child) -> Html:
    """The form to which the entries' boxes belong, wherever they stand."""
    every = el("label", el("input", type="checkbox", data_every="item"), " all on this page", class_="every", hidden=True)
    hidden = el("input", type="hidden", name="status", value=status)
    form = _form(view, action, "many-title", (hidden, fields), buttons, id_="many")
    return el("details", el("summary", "Decide many at once", id="many-title"), every, form, class_="card many")


def _box(name: str, version: int, title: str) -> Html:
    box = el("input", type="checkbox", name="item", value=f"{name}.{version}", form="many")
    return el("label", box, el("span", f"select: {title}", class_="vh"), class_="box")


def _pages(
    rows: Sequence[QuarantineItem] | Sequence[ClashRecord], path: str, status: str, after: str, more: bool, what: str
) -> Html | None:
    if not rows or not (more or after):
        return None
    older = with_query(path, status=status, after=rows[-1].id) if more else None
    return pages(len(rows), with_query(path, status=status) if after else None, older, what)


def _item(view: View, item: QuarantineItem, several: bool) -> Html:
    name = TYPES.get(item.type, item.type.replace("_", " "))
    sure = None if item.score is None else el("span", f"{share(item.score)} sure", class_="dim")
    where = [item.kind.replace("_", " "), *((f"from {item.source}",) if item.source else ())]
    facts: list[Child] = [
        el("span", own(", ".join(where))),
        el("span", "client ", own(item.client)),
        el("span", "policy ", own(item.policy)),
        el("span", "run ", run_link(item.run_id)),
        el("span", "first seen ", moment(item.created_at), f", {item.seen_count}×"),
        el("span", record_link(item.record_id, "exchange")) if item.record_id else None,
    ]
    body = (
        el("p", el("strong", "Why this is wrong: "), own(item.reason.removeprefix(f"{item.type}: "))),
        _against(item),
        _content(item),
        el("p", facts, class_="where"),
        _decision(item),
        _item_form(view, item),
    )
    return _entry(item.id, (_box(item.id, item.version, name) if several else None, el("span", own(name)), sure), body)


def _against(item: QuarantineItem) -> list[Html]:
    """Each statement beside what it is held against."""
    shown = [_held(statement, item.reason) for statement in entries(item.detail, "statements")[:_STATEMENTS]]
    kinds = item.detail.get("categories")
    if isinstance(kinds, list) and kinds:
        named = ", ".join(str(kind).replace("_", " ") for kind in kinds)
        shown.append(el("p", "It speaks to the model as if it had orders to give: ", own(named), class_="hint"))
    return shown


def _held(statement: Mapping[str, object], told: str) -> Html:
    """`told` is the reason that stands above already."""
    said, fact = str(statement.get("text", "")), str(statement.get("correct_fact", ""))
    source, reason = str(statement.get("source", "")), str(statement.get("reason", ""))
    confidence = statement.get("confidence")
    sure = f" ({share(float(confidence))} sure)" if isinstance(confidence, int | float) else ""
    none = el("p", "Nothing in the knowledge base says this.", class_="hint")
    held = el("div", el("h3", "It is held against"), block(cut(fact, SHOWN_CHARS)) if fact else none, _from(source))
    why = el("p", el("strong", "Why"), sure, ": ", own(cut(reason, SHOWN_CHARS)), class_="dim") if reason and reason not in told else None
    return el("div", el("div", el("div", el("h3", "It says"), block(cut(said, SHOWN_CHARS))), held, class_="sides"), why)


def _from(source: str) -> Html | None:
    return el("p", "from ", own(source), class_="dim") if source else None


def _entry(id_: str, title: Child, body: Child) -> Html:
    return el("article", el("h2", title, id=f"{id_}-title"), body, id=id_, class_="card entry", aria_labelledby=f"{id_}-title", tabindex=-1)


def _content(item: QuarantineItem) -> Html:
    text = item.content[: 4 * WHOLE_CHARS].decode("utf-8", "replace")
    statements = entries(item.detail, "statements")
    title = el("h3", "All of the piece") if statements else None
    there = len(statements) == 1 and str(statements[0].get("text", "")).strip() == text.strip()  # it stands above already
    parts: list[Child] = [] if there else [title, block(cut(text, SHOWN_CHARS))]
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
    hidden = [el("input", type="hidden", name="version", value=item.version), el("input", type="hidden", name="status", value=item.status)]
    return _form(view, f"/dashboard/quarantine/{item.id}", f"{item.id}-title", (hidden, _reason(required=True), _scope()), buttons)


def _scope() -> Html:
    scopes = (("run", "this run"), ("client", "all runs of this client"))
    return el("label", el("span", "Applies to"), el("select", [el("option", words, value=value) for value, words in scopes], name="scope"))


def _clash(view: View, record: ClashRecord, several: bool) -> Html:
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
    why = _clash_why(record)
    body = (why, el("div", sides, class_="sides"), merged, facts, _resolution(record), _clash_form(view, record))
    topic = record.topic or "clash"
    return _entry(record.id, (_box(record.id, record.version, topic) if several else None, el("span", own(topic)), critical), body)


def _clash_why(record: ClashRecord) -> Html | None:
    """Why the two cannot both hold, and how sure that is."""
    words = str(record.detail.get("clash") or (record.reason if record.status == "open" else ""))
    score = record.detail.get("score")
    sure = f" ({share(float(score))} sure)" if isinstance(score, int | float) else ""
    return el("p", el("strong", "Why they contradict each other"), sure, ": ", own(words)) if words else None


def _place(side: Mapping[str, object]) -> str:
    index = side.get("message")
    return f"message {index + 1}" if isinstance(index, int) else ""


def _resolution(record: ClashRecord) -> Html | None:
    if record.resolved_at is None:
        return None
    said = _SAID.get(record.resolution or record.status, record.resolution)
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


def _form(view: View, action: str, named: str, fields: Child, buttons: Child, more: Child = None, id_: str | None = None) -> Html:
    """A decision's form. Its first button, which the return key presses, does nothing: none of those that decide should be pressed so."""
    idle = el("button", "", disabled=True, hidden=True)
    who = el(
        "label", el("span", "Your name"), el("input", name="by", maxlength=200, placeholder="admin", autocomplete="name", data_keep="by")
    )
    acts = el("div", buttons, class_="acts")
    given = (idle, secret(view), fields, who, acts, more)
    return el("form", *given, method="post", action=action, class_="decide bulk" if id_ else "decide", aria_labelledby=named, id=id_)
