"""The failures of agents' runs: what went wrong how often, what helps, whether the guidance did, and a person's word on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from proxy.admin.dashboard.decisions import ShownStatement
from proxy.admin.dashboard.entrance import Entrance, fields_of, form_of
from proxy.admin.dashboard.frame import View, empty, heading, notice, page, pages, secret, tabs
from proxy.admin.dashboard.html import Child, Html, cut, el, own
from proxy.admin.dashboard.words import moment, record_link, run_link, with_query
from proxy.admin.failures import FailuresApi, FeedbackBody, StatusBody
from proxy.errors import InvalidRequest, ProxyError
from proxy.language.amounts import many
from proxy.ports.failure_kinds import SIGNAL_TYPES, STATUSES
from proxy.store.decisions import MAX_REASON_CHARS

PER_PAGE = 20
PATH = "/dashboard/failures"
SIGNALS = {
    "tool_error": "A tool failed",
    "upstream_error": "The provider failed",
    "retrieval_failure": "A search found nothing that helps",
    "schema_violation": "A call or an answer in the wrong form",
    "loop": "The agent goes in circles",
    "human_correction": "A person corrected it",
    "budget_pressure": "The context is nearly full",
}
"""What went wrong, as a person would say it."""
_DONE = {
    "resolved": "Resolved: the agent is not told of it any more.",
    "superseded": "Superseded: the agent is not told of it any more.",
    "active": "Active again: the agent is told of it from its next turn on.",
    "helped": "Counted: guidance about it helped.",
    "harmed": "Counted: guidance about it did harm.",
}
_TEXT_CHARS = 600


class FailurePages:
    """The list, and what its forms send."""

    def __init__(self, failures: FailuresApi, entrance: Entrance) -> None:
        self._failures, self._entrance = failures, entrance

    def routes(self) -> list[Route]:
        """For the application."""
        enter = self._entrance
        return [Route(PATH, enter.page(self._list)), Route(f"{PATH}/{{id}}", enter.page(self._said), methods=["POST"])]

    async def _list(self, request: Request, view: View) -> Response:
        return await self._page(request, view, ShownStatement(done=request.query_params.get("done", "")))

    async def _page(self, request: Request, view: View, said: ShownStatement, code: int = 200) -> Response:
        query = request.query_params
        status, signal, after = query.get("status", "active"), query.get("signal", ""), query.get("after", "")
        for name, given, known in (("status", status, STATUSES), ("signal", signal, ("", *SIGNAL_TYPES))):
            if given not in known:
                raise InvalidRequest(f"{name}: expected one of {', '.join(filter(None, known))}", param=name)
        run = query.get("run", "").strip()
        found, more = await self._failures.some(PER_PAGE, after or None, status=status, signal_type=signal or None, run_id=run or None)
        return HTMLResponse(failures_page(view, found, {"status": status, "signal": signal, "run": run}, after, more, said), code)

    async def _said(self, request: Request, view: View) -> Response:
        fields, failure = fields_of(await form_of(request)), request.path_params["id"]
        self._entrance.check_decision(request, fields)
        given = {name: fields[name] for name in ("reason", "by") if fields.get(name, "").strip()}
        decision = fields.get("decision", "")
        try:
            if decision in ("helped", "harmed"):
                await self._failures.count_guidance(failure, msgspec.convert(given | {"helpful": decision == "helped"}, FeedbackBody))
            else:
                await self._failures.set_status(failure, msgspec.convert(given | {"status": decision}, StatusBody))
        except msgspec.ValidationError as error:
            return await self._page(request, view, ShownStatement(problem=f"the form is refused: {error}"), 400)
        except ProxyError as error:
            return await self._page(request, view, ShownStatement(problem=error.message), error.status)
        status = fields.get("status", "")
        return RedirectResponse(with_query(PATH, status=status if status in STATUSES else "", done=decision), 303)


def failures_page(
    view: View, found: Sequence[Mapping[str, Any]], chosen: Mapping[str, str], after: str, more: bool, said: ShownStatement
) -> Html:
    """The whole page; `chosen` are its filters."""
    options = [(name.capitalize(), with_query(PATH, **{**chosen, "status": name}), None) for name in STATUSES]
    body: Child = [failure_entry(view, failure) for failure in found]
    if not found:
        hint = (
            "What goes wrong in an agent's runs is kept here by the stage ",
            el("code", "reflection"),
            ": failed calls, circles, corrections. The agent is told of it in its next turns.",
        )
        body = empty(f"No failure is {chosen['status']}.", el("p", hint))
    older = with_query(PATH, **chosen, after=str(found[-1].get("id", ""))) if more and found else None
    newer = with_query(PATH, **chosen) if after else None
    problem = notice(own(said.problem), "problem") if said.problem else None
    return page(
        view,
        "Failures",
        heading("Failures"),
        problem or (notice(_DONE[said.done]) if said.done in _DONE else None),
        tabs("Failures by status", options, chosen["status"].capitalize()),
        _filters(chosen),
        el("div", body, class_="queue"),
        pages(len(found), newer, older, "failure") if older or newer else None,
        here="Failures",
        live_after="",
    )


def _filters(chosen: Mapping[str, str]) -> Html:
    kinds = [("", "anything"), *SIGNALS.items()]
    select = el("select", [el("option", words, value=value, selected=value == chosen["signal"]) for value, words in kinds], name="signal")
    return el(
        "form",
        el("input", type="hidden", name="status", value=chosen["status"]),
        el("label", el("span", "What went wrong"), select),
        el("label", el("span", "Run"), el("input", name="run", value=chosen["run"], placeholder="any run", size=18, autocomplete="off")),
        el("div", el("button", "Filter"), class_="acts"),
        method="get",
        action=PATH,
        class_="filters",
        role="search",
        aria_label="Failures",
    )


def failure_entry(view: View, failure: Mapping[str, Any]) -> Html:
    """One failure, and the form on which a person says something of it."""
    name = str(failure.get("id", ""))
    title = el("span", own(what_failed(failure)))
    seen, count = failure.get("last_seen_at"), failure.get("occurrence_count")
    advice = adjustment(failure.get("recommended_adjustment"))
    told = [
        f"{word} {many(int(failure.get(key) or 0), 'time')}" for key, word in (("helpful_count", "helped"), ("harmful_count", "harmed"))
    ]
    facts: list[Child] = [
        el("span", own(str(failure.get("severity", ""))), " severity"),
        el("span", "client ", own(str(failure.get("client", "")))),
        el("span", "run ", run_link(str(failure.get("run_id", "")))),
        el("span", f"{count}×, last " if isinstance(count, int) else "last ", moment(float(seen)) if isinstance(seen, int | float) else ""),
        el("span", record_link(str(failure.get("record_id", "")), "first exchange")),
        el("span", "guidance: ", ", ".join(told)),
    ]
    body = (
        el("p", el("strong", "What it is about: "), own(cut(str(failure.get("subject") or "nothing in particular"), _TEXT_CHARS))),
        el("p", el("strong", "What the agent is told to do: "), own(cut(advice, _TEXT_CHARS))) if advice else None,
        el("p", facts, class_="where"),
        _form(view, name, str(failure.get("status", ""))),
    )
    code = el("code", own(str(failure.get("code", ""))))
    return card_entry(name, (title, code), body)


def card_entry(name: str, title: Child, body: Child) -> Html:
    """An entry that can be linked to."""
    return el(
        "article", el("h2", title, id=f"{name}-title"), body, id=name, class_="card entry", aria_labelledby=f"{name}-title", tabindex=-1
    )


def _form(view: View, name: str, status: str) -> Html:
    words = {"resolved": "Resolved", "superseded": "Another says it better", "active": "Open it again"}
    buttons = [el("button", text, name="decision", value=value) for value, text in words.items() if value != status]
    buttons += [
        el("button", "Guidance helped", name="decision", value="helped"),
        el("button", "It did harm", name="decision", value="harmed"),
    ]
    reason = el("input", name="reason", maxlength=MAX_REASON_CHARS, placeholder="kept with its revisions", autocomplete="off")
    who = el("input", name="by", maxlength=200, placeholder="admin", autocomplete="name", data_keep="by")
    return el(
        "form",
        el("button", "", disabled=True, hidden=True),
        secret(view),
        el("input", type="hidden", name="status", value=status),
        el("label", el("span", "Reason (optional)"), reason, class_="wide"),
        el("label", el("span", "Your name"), who),
        el("div", buttons, class_="acts"),
        method="post",
        action=f"{PATH}/{name}",
        class_="decide",
        aria_labelledby=f"{name}-title",
    )


def what_failed(failure: Mapping[str, Any]) -> str:
    """Of a failure's signal."""
    signal = str(failure.get("signal_type", "failure"))
    return SIGNALS.get(signal, signal.replace("_", " "))


def adjustment(given: Any) -> str:
    """What to do otherwise, in words: its ``type``, then its parameters."""
    if not isinstance(given, Mapping):
        return str(given or "")
    rest = {name: value for name, value in given.items() if name != "type"}
    said = ", ".join(f"{name.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}" for name, value in rest.items())
    return ": ".join(filter(None, (str(given.get("type", "")).replace("_", " ").lower(), said)))
