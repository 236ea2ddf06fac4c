"""What every page shares: its head, the way around, cards, badges, empty states.

Words stand beside every colour, and a sign beside every verdict: nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy import __version__
from proxy.admin.dashboard.html import Child, Html, el, join
from proxy.admin.dashboard.rendering import Visitor
from proxy.admin.dashboard.static import STATIC
from proxy.language.amounts import many

View = Visitor
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
}
OUTCOMES = tuple(SIGNS)
MEANING = {
    "pass": "every statement of the answer was judged, and held",
    "unsure": "checked, nothing failed, not everything could be decided",
    "unchecked": "nothing of the answer was checked",
    "warn": "a check had something to say",
    "block": "a policy refused it",
    "error": "a check could not run",
    "upstream_error": "the upstream gave no whole answer",
    "skipped": "no check ran",
    "pending": "still streaming",
}
_PAGES = (
    ("Overview", "/dashboard"),
    ("Exchanges", "/dashboard/exchanges"),
    ("Quarantine", "/dashboard/quarantine"),
    ("Clashes", "/dashboard/clashes"),
    ("Failures", "/dashboard/failures"),
)


def page(view: View | None, title: str, *content: Child, here: str = "", live_after: str | None = None) -> Html:
    """The whole document. Without a `view` it has no way around; with `live_after`, the newest record's id, it is kept up to date."""
    live = {} if live_after is None else {"data_live": "/dashboard/events", "data_after": live_after}
    body = el(
        "body",
        el("a", "Skip to the content", href="#content", class_="skip"),
        _header(view, here, live_after is not None),
        el("main", *content, id="content", tabindex=-1),
        el("footer", el("p", f"Groundwire {__version__}.{' Times are in your zone; point at one for UTC.' if view else ''}"), **live),
    )
    return Html("<!doctype html>" + el("html", _head(title), body, lang="en"))


def _head(title: str) -> Html:
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · Groundwire" if title != "Groundwire" else title),
        el("link", rel="icon", href=STATIC.path("ground.svg"), type="image/svg+xml"),
        el("style", Html(STATIC.style)),
        el("script", src=STATIC.path("uplot-1.6.32.min.js"), defer=True),
        el("script", src=STATIC.path("dashboard.js"), type="module"),
    )


def _header(view: View | None, here: str, live: bool) -> Html:
    brand = el("a", _sign(), el("span", "Groundwire"), href="/dashboard", class_="brand")
    if view is None:
        return el("header", brand, class_="top")
    waiting = {"Quarantine": view.pending, "Clashes": view.open_clashes}
    links = [el("li", _link(name, path, name == here, waiting.get(name))) for name, path in _PAGES]
    state = el("span", el("span", class_="dot", aria_hidden="true"), el("span", "Connecting", class_="said"), id="live", role="status")
    leave = el("form", secret(view), el("button", "Sign out", class_="quiet"), method="post", action="/dashboard/sign-out")
    right = el("div", state if live else None, leave if view.signed_in else None, class_="right")
    return el("header", brand, el("nav", el("ul", links), aria_label="Pages"), right, class_="top")


def _link(name: str, path: str, current: bool, waiting: int | None) -> Html:
    count = None
    if waiting is not None:
        told = el("span", f"{waiting:,}", data_count=name.lower())
        count = el("span", told, el("span", " waiting", class_="vh"), class_="count", hidden=not waiting)
    return el("a", name, " " if count else None, count, href=path, aria_current="page" if current else None)


def _sign() -> Html:
    """The sign for ground in a circuit diagram."""
    return el(
        "svg",
        el("path", d="M12 2v9M3 11h18M6.5 15.5h11M10 20h4"),
        viewBox="0 0 24 24",
        width=22,
        height=22,
        aria_hidden="true",
        class_="sign",
    )


def secret(view: View) -> Html:
    """The hidden field that a form of this session carries."""
    return el("input", type="hidden", name="csrf", value=view.csrf)


def heading(title: Child, *more: Child) -> Html:
    """A page's first line."""
    return el("div", el("h1", title), *more, class_="heading")


def card(title: str, *children: Child, id_: str = "", more: Child = None, class_: str = "") -> Html:
    """A box with a heading; `more` stands at the heading's end."""
    name = id_ or title.lower().replace(" ", "-")
    head = el("div", el("h2", title, id=f"{name}-title"), more, class_="card-head")
    return el("section", head, *children, class_=f"card {class_}".strip(), id=name, aria_labelledby=f"{name}-title")


def badge(outcome: str) -> Html:
    """A verdict: its sign, its word, its colour."""
    known = outcome if outcome in SIGNS else "skipped"
    sign = el("span", SIGNS[known], class_="mark", aria_hidden="true")
    return el("span", sign, el("span", outcome.replace("_", " ") or "none", class_="word"), class_=f"badge {known}", title=MEANING[known])


def empty(title: str, *hint: Child) -> Html:
    """What to do where there is nothing yet."""
    return el("div", el("p", el("strong", title)), *hint, class_="empty")


def command(text: str) -> Html:
    """A line to paste into a terminal."""
    return el("pre", el("code", text), class_="command", tabindex=0, role="group", aria_label="Command")


def notice(text: Child, kind: str = "done") -> Html:
    """What has just happened, said to a screen reader too."""
    sign = {"done": "✓", "problem": "!", "pause": "…"}[kind]
    return el("p", el("span", sign, class_="mark", aria_hidden="true"), el("span", text), class_=f"notice {kind}", role="status")


def facts(pairs: Sequence[tuple[str, Child]]) -> Html:
    """Names and values, those without a value left out."""
    found = [el("div", el("dt", name), el("dd", value)) for name, value in pairs if value not in (None, "")]
    return el("dl", found, class_="facts")


def tabs(label: str, options: Sequence[tuple[str, str, int | None]], current: str) -> Html:
    """Links of which one is chosen: its name, its address, how much is behind it."""
    links = [
        el("li", el("a", name, None if count is None else f" ({count:,})", href=path, aria_current="true" if name == current else None))
        for name, path, count in options
    ]
    return el("nav", el("ul", links), class_="tabs", aria_label=label)


def pages(shown: int, newer: str | None, older: str | None, what: str) -> Html:
    """The way through a list: its newest part, and what is older."""
    links = [
        el("a", "« Newest", href=newer, class_="button") if newer else None,
        el("a", "Older »", href=older, class_="button", rel="next") if older else None,
    ]
    return el(
        "nav", el("span", many(shown, what), " on this page"), el("span", join(links)), class_="pages", aria_label="Pages of the list"
    )
