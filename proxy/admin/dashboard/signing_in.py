"""The page that asks for the admin key."""

from __future__ import annotations

from proxy.admin.dashboard.frame import notice, page
from proxy.admin.dashboard.html import Html, el

START = "/dashboard"


def sign_in_page(then: str, problem: str = "") -> Html:
    """The form; `then` is where to go after."""
    key = el("input", type="password", name="key", required=True, autocomplete="current-password", autofocus=True, spellcheck="false")
    form = el(
        "form",
        el("label", el("span", "Admin key"), key),
        el("input", type="hidden", name="then", value=local(then)),
        el("button", "Sign in"),
        method="post",
        action="/dashboard/sign-in",
        class_="sign-in",
    )
    hint = el(
        "p",
        "It is ",
        el("code", "server: {admin_key: …}"),
        " in config.yaml; a server on a public address without one makes one at each start and says it in its log.",
        class_="hint",
    )
    return page(
        None, "Sign in", el("section", el("h1", "Sign in"), notice(problem, "problem") if problem else None, form, hint, class_="card door")
    )


def local(path: str) -> str:
    """`path` if it is one of our pages, else the first."""
    inside = path == START or path.startswith(("/dashboard/", "/dashboard?"))
    return (
        path if inside and not any(c in path for c in "\\\r\n") and not path.startswith(("/dashboard/sign", "/dashboard/events")) else START
    )
