"""What is served below ``/dashboard``, and the handlers that read the store for it; who may see it is `entrance`'s to say.

And the pages on which a person decides: pieces in quarantine and clashes, one or many at once; failures of runs. What was just decided
stands in the address of the page that follows, ``undo=ID.VERSION``, so that it can be taken back there: only as long as nobody has decided
anew since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from proxy.admin.access import PRIVATE, AdminAuth, number_in, require
from proxy.admin.dashboard import lists
from proxy.admin.dashboard.compare import compare_page
from proxy.admin.dashboard.entrance import Entrance, fields_of, form_body
from proxy.admin.dashboard.keys import KeysPage
from proxy.admin.dashboard.panels import FigureSource, Period
from proxy.admin.dashboard.record import record_page
from proxy.admin.dashboard.rendering import STATIC, Visitor, check_choice, page, render_in_thread, send_in_parts, with_query
from proxy.admin.dashboard.review import ReviewPages
from proxy.admin.dashboard.summaries import News, summary
from proxy.admin.decisions import ClashesApi, DecisionBody, QuarantineApi, ResolutionBody
from proxy.admin.failures import FailuresApi, GuidanceBody, StatusBody
from proxy.admin.feedback import FeedbackApi
from proxy.admin.keys import KeyBook
from proxy.errors import InvalidRequest, NotFound, ProxyError, StoreUnavailable
from proxy.ports.failures import SIGNAL_TYPES, STATUSES
from proxy.ports.review import ClashRecord, ClashStatus, QuarantineItem, QuarantineStatus
from proxy.store.exchange_search import ExchangePage, ExchangeSearch, place_of

if TYPE_CHECKING:
    from proxy.admin.api import AdminParts


PER_PAGE, FAILURES_PER_PAGE = 10, 20
_DECISIONS: dict[str, QuarantineStatus] = {"approve": "approved", "reject": "rejected"}


class DecisionOutcome(Struct, frozen=True):
    """What a decision came to, for the page that follows it."""

    status: str = ""
    """The status that was set, ``undone`` where one was taken back."""
    undo: tuple[str, ...] = ()
    """What it was set on, as ``ID.VERSION``."""
    problem: str = ""
    """Why it was refused."""


class Queue:
    """A list of what waits for a person, or was decided, by status; and what its forms send."""

    def __init__(self, name: str, statuses: Sequence[str], entrance: Entrance) -> None:
        self._name, self._path, self._statuses, self._entrance = name, f"/dashboard/{name}", statuses, entrance

    def routes(self) -> list[Route]:
        """For the application."""
        enter = self._entrance
        return [Route(self._path, enter.page(self._show)), Route(f"{self._path}/{{id}}", enter.page(self._submit), methods=["POST"])]

    async def _values(self, query: Mapping[str, str], status: str) -> dict[str, Any]:
        """What the page shows."""
        raise NotImplementedError

    async def _decide(self, name: str, fields: Mapping[str, str], chosen: Sequence[str]) -> tuple[str, list[str]]:
        """Do what a form asks for, on the entry `name` or on all that are `chosen`; what it came to, and what it can be undone on."""
        raise NotImplementedError

    async def _show(self, request: Request, visitor: Visitor) -> Response:
        query = request.query_params
        undo = tuple(filter(None, query.get("undo", "").split(",")))[:PER_PAGE]
        return await self._page(request, visitor, DecisionOutcome(status=query.get("done", ""), undo=undo))

    async def _page(self, request: Request, visitor: Visitor, outcome: DecisionOutcome, status: str = "", code: int = 200) -> Response:
        status = status or request.query_params.get("status", self._statuses[0])
        check_choice("status", status, self._statuses)
        return await page(f"{self._name}.html", visitor, code, outcome=outcome, **await self._values(request.query_params, status))

    async def _submit(self, request: Request, visitor: Visitor) -> Response:
        """Do what a form asks for, and go back to the list; what is refused is said on it."""
        form = await self._entrance.decision(request)
        fields = fields_of(form)
        status = fields.get("status", self._statuses[0])
        try:
            done, undo = await self._decide(request.path_params["id"], fields, form.get("item", []))
        except ProxyError as error:
            return await self._page(request, visitor, DecisionOutcome(problem=error.message), status, error.status)
        known = status in self._statuses
        return RedirectResponse(with_query(self._path, status=status, done=done, undo=",".join(undo)) if known else self._path, 303)


class DecisionQueue(Queue):
    """Quarantine, or clashes: one entry or many at once, and decisions taken back."""

    def __init__(
        self,
        name: str,
        statuses: Sequence[str],
        api: QuarantineApi | ClashesApi,
        decide: Callable[[str, Mapping[str, str]], Awaitable[QuarantineItem | ClashRecord]],
        entrance: Entrance,
    ) -> None:
        """`decide` takes an entry's id and the fields of its form."""
        super().__init__(name, statuses, entrance)
        self._api, self._decide_one = api, decide

    async def count(self) -> int:
        """How many wait."""
        return (await self._api.store.counts())[self._statuses[0]]

    async def first(self, limit: int) -> Sequence[Any]:
        """The newest of those that wait."""
        return (await self._list(limit, "", self._statuses[0]))[0]

    async def _list(self, limit: int, after: str, status: str) -> tuple[Sequence[Any], bool]:
        """Rows with their contents, and whether there are more."""
        rows, more = await self._api.store.list(limit, after or None, status=status)
        if isinstance(self._api, ClashesApi):  # whose lists have all
            return rows, more
        return [row for one in rows if (row := await self._api.store.get(one.id)) is not None], more

    async def _values(self, query: Mapping[str, str], status: str) -> dict[str, Any]:
        after = query.get("after", "")
        rows, more = await self._list(PER_PAGE, after, status)
        return {"rows": rows, "counts": await self._api.store.counts(), "status": status, "after": after, "more": more}

    async def _decide(self, name: str, fields: Mapping[str, str], chosen: Sequence[str]) -> tuple[str, list[str]]:
        if name not in ("many", "undo"):
            decided = [await self._decide_one(name, fields)]
        elif not chosen:
            raise InvalidRequest("nothing is selected: tick what it is to be decided for", param="item")
        elif name == "many":
            entries = [_named(item) for item in chosen]
            decided = [await self._decide_one(entry, {**fields, "version": version, "text": ""}) for entry, version in entries]
        else:
            for entry, version in map(_named, chosen):
                await self._api.undo(entry, fields.get("by", "").strip() or "admin", int(version))
            return "undone", []
        return decided[0].status, [f"{row.id}.{row.version}" for row in decided]


def quarantine_queue(api: QuarantineApi, entrance: Entrance) -> DecisionQueue:
    """Pieces of context that a policy keeps from the model."""

    async def decide(name: str, fields: Mapping[str, str]) -> QuarantineItem:
        decision = _DECISIONS.get(fields.get("decision", ""))
        if decision is None:
            raise InvalidRequest("choose to approve or to reject", param="decision")
        return await api.decide(name, decision, form_body(fields, DecisionBody))

    return DecisionQueue("quarantine", get_args(QuarantineStatus), api, decide, entrance)


def clash_queue(api: ClashesApi, entrance: Entrance) -> DecisionQueue:
    """Statements that contradict each other."""

    async def decide(name: str, fields: Mapping[str, str]) -> ClashRecord:
        text = fields.get("text", "") if fields.get("resolution") == "merged" else ""  # it counts only where it is to be put in place
        return await api.decide(name, form_body({**fields, "text": text}, ResolutionBody))

    return DecisionQueue("clashes", get_args(ClashStatus), api, decide, entrance)


class FailureQueue(Queue):
    """The failures of runs."""

    def __init__(self, api: FailuresApi, entrance: Entrance) -> None:
        super().__init__("failures", STATUSES, entrance)
        self._api = api

    async def _values(self, query: Mapping[str, str], status: str) -> dict[str, Any]:
        filters = {"status": status, "signal": query.get("signal", ""), "run": query.get("run", "").strip()}
        check_choice("signal", filters["signal"], ("", *SIGNAL_TYPES))
        after, wanted = query.get("after", ""), {"signal_type": filters["signal"] or None, "run_id": filters["run"] or None}
        rows, more = await self._api.some(FAILURES_PER_PAGE, after or None, status=status, **wanted)
        return {"rows": rows, "filters": filters, "statuses": STATUSES, "after": after, "more": more}

    async def _decide(self, name: str, fields: Mapping[str, str], chosen: Sequence[str]) -> tuple[str, list[str]]:
        decision = fields.get("decision", "")
        if decision in ("helped", "harmed"):
            helpful = "true" if decision == "helped" else "false"
            await self._api.count_guidance(name, form_body({**fields, "helpful": helpful}, GuidanceBody))
        else:
            check_choice("decision", decision, STATUSES)
            await self._api.set_status(name, form_body({**fields, "status": decision}, StatusBody))
        return decision, []


def _named(item: str) -> tuple[str, str]:
    """Id and version. Raises `InvalidRequest`."""
    name, _, version = item.rpartition(".")
    if not name or not version.isdecimal() or len(version) > 9:
        raise InvalidRequest("item: expected an id and a version", param="item")
    return name, version


_FIGURES_WAIT_S = 0.08
"""How long the first page waits for its figures; its script asks for them when they take longer."""


class Dashboard:
    """The pages."""

    def __init__(
        self,
        parts: AdminParts,
        auth: AdminAuth,
        figures: FigureSource,
        quarantine: QuarantineApi,
        clashes: ClashesApi,
        failures: FailuresApi,
        feedback: FeedbackApi,
        keys: KeyBook,
    ) -> None:
        self._parts, self._records, self._headers = parts, parts.records, parts.headers
        self._auth, self._figures, self._feedback = auth, figures, feedback
        self._failures_of_run = parts.failures_of_run or failures.of_run
        self._search = ExchangeSearch(parts.reading)
        self._entrance = Entrance(auth, self._waiting)
        self._quarantine, self._clashes = quarantine_queue(quarantine, self._entrance), clash_queue(clashes, self._entrance)
        self._failures, self._keys = FailureQueue(failures, self._entrance), KeysPage(keys, self._entrance)
        self._review = ReviewPages(feedback, self._entrance, parts.texts)
        self._news = News(parts.records, self._waiting, clock=parts.database.clock)

    def routes(self) -> list[Route]:
        """For the application."""
        pages, enter = "/dashboard", self._entrance
        return [
            Route(pages, enter.page(self._overview)),
            Route(f"{pages}/static/{{version}}/{{name}}", STATIC.serve),
            Route(f"{pages}/sign-in", enter.sign_in, methods=["GET", "POST"]),
            Route(f"{pages}/sign-out", enter.page(enter.sign_out), methods=["POST"]),
            Route(f"{pages}/news", self._tell_news),
            Route(f"{pages}/figures", enter.page(self._figures_json)),
            Route(f"{pages}/exchanges", enter.page(self._exchanges)),
            Route(f"{pages}/compare", enter.page(self._compare)),
            Route(f"{pages}/exchanges/export", enter.page(self._export)),
            Route(f"{pages}/records/{{id}}", enter.page(self._record)),
            Route(f"{pages}/runs/{{id:path}}", enter.page(self._run)),
            *(route for part in (self._review, self._quarantine, self._clashes, self._failures, self._keys) for route in part.routes()),
            Route(f"{pages}/{{rest:path}}", enter.page(_nothing), methods=["GET", "POST"]),
        ]

    async def _waiting(self) -> dict[str, int]:
        """How much waits for a decision."""
        return {"quarantine": await self._quarantine.count(), "clashes": await self._clashes.count()}

    # ---- looking ----

    async def _overview(self, request: Request, visitor: Visitor) -> Response:
        period = lists.period_of(request, self._parts.database.clock())
        nothing = await render_in_thread("overview.html", visitor, **lists.frame(period))
        parts = send_in_parts(nothing, self._overview_page(request, visitor, period), lists.OVERVIEW_CUTS)
        return StreamingResponse(parts, media_type="text/html")

    async def _overview_page(self, request: Request, visitor: Visitor, period: Period) -> str:
        report = await self._figures.get(period, _FIGURES_WAIT_S)
        rows, _ = await self._records.list(limit=lists.PLOTTED)
        shown = lists.overview_page(period, report, self._figures.panels, [summary(row) for row in rows])
        pending, clashes = await self._quarantine.first(lists.WAITING), await self._clashes.first(lists.WAITING)
        more: dict[str, Any] = {"pending": pending, "clashes": clashes, "shadow": self._parts.shadow, "runs": self._parts.runs()}
        more["first_call"] = self._first_call(request)
        return await render_in_thread("overview.html", visitor, **shown, **more)

    async def _figures_json(self, request: Request, visitor: Visitor) -> Response:
        report = await self._figures.get(lists.period_of(request, self._parts.database.clock()))
        assert report is not None
        return Response(lists.figures_json(report), media_type="application/json")

    async def _exchanges(self, request: Request, visitor: Visitor) -> Response:
        filters, after = lists.filters_of(request.query_params), request.query_params.get("after", "")
        if after:
            place_of(after)  # what is refused is refused before anything is sent

        async def shown(found: ExchangePage, newest: str = "") -> str:
            said = await self._feedback.store.of_records([row.id for row in found.rows]) if found.rows else []
            values = lists.exchanges_page(found, said, filters, after, self._parts)
            return await render_in_thread("exchanges.html", visitor, **values, newest=newest, first_call=self._first_call(request))

        async def searched() -> str:
            rows, _ = await self._records.list(limit=1)
            wanted, most = lists.search_filters(filters, self._parts.database.clock()), lists.EXCHANGES_PER_PAGE
            found = await (self._search.least_faithful(wanted, most) if filters["sort"] else self._search.page(wanted, most, after))
            return await shown(found, rows[0].id if rows else "")

        nothing = await shown(ExchangePage([], "", 0.0))
        return StreamingResponse(send_in_parts(nothing, searched(), lists.EXCHANGES_CUTS), media_type="text/html")

    async def _compare(self, request: Request, visitor: Visitor) -> Response:
        period = lists.period_of(request, self._parts.database.clock())
        newest, _ = await self._records.list(limit=lists.PLOTTED)
        return await page("compare.html", visitor, **await compare_page(self._parts.reading, request.query_params, period, newest))

    async def _export(self, request: Request, visitor: Visitor) -> Response:
        form = request.query_params.get("format", "csv")
        check_choice("format", form, lists.FORMATS)
        wanted = lists.search_filters(lists.filters_of(request.query_params), self._parts.database.clock())
        headers = {"content-disposition": f'attachment; filename="exchanges.{form}"'}
        kind = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}[form]
        return StreamingResponse(lists.export_lines(self._search, wanted, form), media_type=kind, headers=headers)

    async def _record(self, request: Request, visitor: Visitor) -> Response:
        why_not = "it may not be written yet (they are written in batches), or be past its retention"
        row = require(await self._records.get(request.path_params["id"]), "exchange", why_not)
        feedback = {(entry.stage, entry.place): entry for entry in await self._feedback.store.of_records([row.id])}
        shown = await asyncio.to_thread(record_page, row, self._headers, feedback)
        return await page("record.html", visitor, **shown, done=request.query_params.get("done", ""))

    async def _run(self, request: Request, visitor: Visitor) -> Response:
        run_id, after = request.path_params["id"], request.query_params.get("after", "")
        rows, more = await self._records.list(lists.TURNS_PER_PAGE, after or None, run_id=run_id, answers=True)
        shown = await asyncio.to_thread(lists.run_page, run_id, rows, await self._failures_of_run(run_id), more, after)
        return await page("run.html", visitor, **shown)

    # ---- news ----

    async def _tell_news(self, request: Request) -> Response:
        await self._auth.check(request)
        at = number_in(request.query_params, "at") or 0.0
        try:
            status, found = 200, await self._news.since(at, request.query_params.get("after", ""))
        except StoreUnavailable as error:
            status, found = 503, {"problem": str(error)}
        return Response(msgspec.json.encode(found), status, PRIVATE, media_type="application/json")

    def _first_call(self, request: Request) -> str:
        """A command that makes the first exchange."""
        routes = self._parts.routes
        url = f"{str(request.base_url).rstrip('/')}{'' if '' in routes or not routes else routes[0]}/v1/chat/completions"
        body = '{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Which planet is the largest?"}]}'
        return f"curl {url} \\\n  -H 'content-type: application/json' \\\n  -d '{body}'"


async def _nothing(request: Request, visitor: Visitor) -> Response:
    raise NotFound("there is no such page")
