"""What is served below ``/dashboard``, and the handlers that read the store for it; who may see it is `entrance`'s to say."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from proxy.admin.answers import number_in, require
from proxy.admin.auth import AdminAuth
from proxy.admin.dashboard import exchanges, overview
from proxy.admin.dashboard.entrance import Entrance, fields_of, form_of
from proxy.admin.dashboard.keys import KeysPage
from proxy.admin.dashboard.news import News
from proxy.admin.dashboard.panels import FigureSource, Period
from proxy.admin.dashboard.record import record_page
from proxy.admin.dashboard.rendering import STATIC, Visitor, check_choice, page, record_path, render_in_thread, send_in_parts, with_query
from proxy.admin.dashboard.review import FailureQueue, clash_queue, form_body, quarantine_queue
from proxy.admin.dashboard.summaries import summary
from proxy.admin.decisions import ClashesApi, FeedbackApi, FeedbackBody, QuarantineApi
from proxy.admin.failures import FailuresApi
from proxy.admin.keys import KeyBook
from proxy.errors import NotFound, StoreUnavailable
from proxy.store.exchange_search import ExchangePage, ExchangeSearch, place_of

if TYPE_CHECKING:
    from proxy.admin.api import AdminParts

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
        self._search = ExchangeSearch(parts.database)
        self._entrance = Entrance(auth, self._waiting)
        self._quarantine, self._clashes = quarantine_queue(quarantine, self._entrance), clash_queue(clashes, self._entrance)
        self._failures, self._keys = FailureQueue(failures, self._entrance), KeysPage(keys, self._entrance)
        self._news = News(parts.records, self._waiting)

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
            Route(f"{pages}/exchanges/export", enter.page(self._export)),
            Route(f"{pages}/records/{{id}}", enter.page(self._record)),
            Route(f"{pages}/records/{{id}}/feedback", enter.page(self._submit_feedback), methods=["POST"]),
            Route(f"{pages}/runs/{{id:path}}", enter.page(self._run)),
            *(route for part in (self._quarantine, self._clashes, self._failures, self._keys) for route in part.routes()),
            Route(f"{pages}/{{rest:path}}", enter.page(_nothing), methods=["GET", "POST"]),
        ]

    async def _waiting(self) -> dict[str, int]:
        """How much waits for a decision."""
        return {"quarantine": await self._quarantine.count(), "clashes": await self._clashes.count()}

    # ---- looking ----

    async def _overview(self, request: Request, visitor: Visitor) -> Response:
        period = overview.period_of(request)
        nothing = await render_in_thread("overview.html", visitor, **overview.frame(period))
        parts = send_in_parts(nothing, self._overview_page(request, visitor, period), overview.CUTS)
        return StreamingResponse(parts, media_type="text/html")

    async def _overview_page(self, request: Request, visitor: Visitor, period: Period) -> str:
        report = await self._figures.get(period, _FIGURES_WAIT_S)
        rows, _ = await self._records.list(limit=overview.PLOTTED)
        shown = overview.overview_page(period, report, self._figures.panels, [summary(row) for row in rows])
        pending, clashes = await self._quarantine.first(overview.WAITING), await self._clashes.first(overview.WAITING)
        more = {"pending": pending, "clashes": clashes, "shadow": self._parts.shadow, "first_call": self._first_call(request)}
        return await render_in_thread("overview.html", visitor, **shown, **more)

    async def _figures_json(self, request: Request, visitor: Visitor) -> Response:
        report = await self._figures.get(overview.period_of(request))
        assert report is not None
        return Response(overview.figures_json(report), media_type="application/json")

    async def _exchanges(self, request: Request, visitor: Visitor) -> Response:
        filters, after = exchanges.filters_of(request.query_params), request.query_params.get("after", "")
        if after:
            place_of(after)  # what is refused is refused before anything is sent

        async def shown(found: ExchangePage, newest: str = "") -> str:
            values = exchanges.exchanges_page(found, filters, after, self._parts.routes, self._parts.bodies)
            return await render_in_thread("exchanges.html", visitor, **values, newest=newest, first_call=self._first_call(request))

        async def searched() -> str:
            rows, _ = await self._records.list(limit=1)
            found = await self._search.page(exchanges.search_filters(filters, time.time()), exchanges.PER_PAGE, after)
            return await shown(found, rows[0].id if rows else "")

        nothing = await shown(ExchangePage([], "", 0.0))
        return StreamingResponse(send_in_parts(nothing, searched(), exchanges.CUTS), media_type="text/html")

    async def _export(self, request: Request, visitor: Visitor) -> Response:
        form = request.query_params.get("format", "csv")
        check_choice("format", form, exchanges.FORMATS)
        wanted = exchanges.search_filters(exchanges.filters_of(request.query_params), time.time())
        headers = {"content-disposition": f'attachment; filename="exchanges.{form}"'}
        kind = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}[form]
        return StreamingResponse(exchanges.export_lines(self._search, wanted, form), media_type=kind, headers=headers)

    async def _record(self, request: Request, visitor: Visitor) -> Response:
        why_not = "it may not be written yet (they are written in batches), or be past its retention"
        row = require(await self._records.get(request.path_params["id"]), "exchange", why_not)
        feedback = await self._feedback.of_record(row.id)
        shown = await asyncio.to_thread(record_page, row, self._headers, feedback)
        return await page("record.html", visitor, **shown, done=request.query_params.get("done", ""))

    async def _submit_feedback(self, request: Request, visitor: Visitor) -> Response:
        fields = fields_of(await form_of(request))
        self._entrance.check_decision(request, fields)
        record_id = request.path_params["id"]
        expected = fields.get("expected", "") if fields.get("said") == "wrong" else ""
        await self._feedback.say(form_body(fields | {"record_id": record_id, "expected": expected}, FeedbackBody))
        return RedirectResponse(with_query(record_path(record_id), done="feedback"), 303)

    async def _run(self, request: Request, visitor: Visitor) -> Response:
        run_id, after = request.path_params["id"], request.query_params.get("after", "")
        rows, more = await self._records.list(overview.PER_PAGE, after or None, run_id=run_id)
        return await page("run.html", visitor, **overview.run_page(run_id, rows, await self._failures_of_run(run_id), more, after))

    # ---- news ----

    async def _tell_news(self, request: Request) -> Response:
        self._auth.check(request)
        at = number_in(request.query_params, "at") or 0.0
        try:
            status, found = 200, await self._news.since(at, request.query_params.get("after", ""))
        except StoreUnavailable as error:
            status, found = 503, {"problem": str(error)}
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return Response(msgspec.json.encode(found), status, headers, media_type="application/json")

    def _first_call(self, request: Request) -> str:
        """A command that makes the first exchange."""
        routes = self._parts.routes
        url = f"{str(request.base_url).rstrip('/')}{'' if '' in routes or not routes else routes[0]}/v1/chat/completions"
        body = '{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Which planet is the largest?"}]}'
        return f"curl {url} \\\n  -H 'content-type: application/json' \\\n  -d '{body}'"


async def _nothing(request: Request, visitor: Visitor) -> Response:
    raise NotFound("there is no such page")
