"""What is served below ``/dashboard``, and the handlers that read the store for it; who may see it is `entrance`'s to say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from msgspec import structs
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from proxy.admin.auth import AdminAuth
from proxy.admin.clashes import ClashesApi
from proxy.admin.dashboard.entrance import Entrance, fields_of, form_of
from proxy.admin.dashboard.events import Feed
from proxy.admin.dashboard.exchanges import CUTS as EXCHANGES_CUTS
from proxy.admin.dashboard.exchanges import FORMATS, exchanges_page, exported, filters_of
from proxy.admin.dashboard.exchanges import PER_PAGE as EXCHANGES_PER_PAGE
from proxy.admin.dashboard.overview import CUTS as OVERVIEW_CUTS
from proxy.admin.dashboard.overview import PLOTTED, WAITING, figures_json, frame, overview_page, period_of
from proxy.admin.dashboard.panels import FigureSource, Period
from proxy.admin.dashboard.record import record_page
from proxy.admin.dashboard.rendering import Visitor, arriving, page, record_path, rendered, with_query
from proxy.admin.dashboard.review import FailurePages, check_choice, clash_queue, form_body, quarantine_queue
from proxy.admin.dashboard.run import PER_PAGE as RUN_PER_PAGE
from proxy.admin.dashboard.run import FailuresOfRun, run_page
from proxy.admin.dashboard.static import STATIC
from proxy.admin.dashboard.stopping import when_told_to_stop
from proxy.admin.dashboard.summaries import summary
from proxy.admin.failures import FailuresApi
from proxy.admin.feedback import FeedbackApi, FeedbackBody
from proxy.admin.quarantine import QuarantineApi
from proxy.errors import NotFound
from proxy.store.clashes import DatabaseClashes
from proxy.store.exchange_search import ExchangePage, ExchangeSearch, place_of
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.records import Records
from proxy.wire.http.headers import ResponseHeaders

_FIGURES_WAIT_S = 0.08
"""How long the first page waits for its figures; its script asks for them when they take longer."""


class Dashboard:
    """The pages."""

    def __init__(
        self,
        records: Records,
        quarantine: DatabaseQuarantine,
        clashes: DatabaseClashes,
        deciding: tuple[QuarantineApi, ClashesApi],
        auth: AdminAuth,
        figures: FigureSource,
        failures: FailuresOfRun,
        headers: ResponseHeaders,
        routes: Sequence[str] = (),
        shadow: Sequence[str] = (),
        *,
        search: ExchangeSearch,
        feedback: FeedbackApi,
        failure_api: FailuresApi,
        bodies: bool = False,
    ) -> None:
        """`routes` are the prefixes that clients can call, `shadow` those of them whose policy is not enforced.

        `bodies` says that texts are kept.
        """
        self._search, self._feedback, self._failure_api, self._bodies = search, feedback, failure_api, bodies
        self._records, self._quarantine, self._clashes = records, quarantine, clashes
        self._figures, self._failures, self._routes, self._shadow = figures, failures, routes, shadow
        self._headers = headers
        self._auth, self._entrance = auth, Entrance(auth, self._waiting)
        self._pieces = quarantine_queue(quarantine, deciding[0], self._entrance)
        self._contradictions = clash_queue(clashes, deciding[1], self._entrance)
        self.feed = Feed(records, self._waiting)
        self._listening = False

    def routes(self) -> list[Route]:
        """For the application."""
        pages, enter = "/dashboard", self._entrance
        return [
            Route(pages, enter.page(self._overview)),
            Route(f"{pages}/static/{{version}}/{{name}}", STATIC.serve),
            Route(f"{pages}/sign-in", enter.sign_in, methods=["GET", "POST"]),
            Route(f"{pages}/sign-out", enter.page(enter.sign_out), methods=["POST"]),
            Route(f"{pages}/events", self._events),
            Route(f"{pages}/figures", enter.page(self._figures_json)),
            Route(f"{pages}/exchanges", enter.page(self._exchanges)),
            Route(f"{pages}/exchanges/export", enter.page(self._export)),
            Route(f"{pages}/records/{{id}}", enter.page(self._record)),
            Route(f"{pages}/records/{{id}}/feedback", enter.page(self._said), methods=["POST"]),
            Route(f"{pages}/runs/{{id:path}}", enter.page(self._run)),
            *self._pieces.routes(),
            *self._contradictions.routes(),
            *FailurePages(self._failure_api, self._entrance).routes(),
            Route(f"{pages}/{{rest:path}}", enter.page(_nothing), methods=["GET", "POST"]),
        ]

    async def _waiting(self) -> dict[str, int]:
        """How much waits for a decision."""
        pending, clashes = (await self._quarantine.counts())["pending"], (await self._clashes.counts())["open"]
        return {"quarantine": pending, "clashes": clashes}

    # ---- looking ----

    async def _overview(self, request: Request, visitor: Visitor) -> Response:
        period = period_of(request)
        nothing = await rendered("overview.html", visitor, **structs.asdict(frame(period)))
        parts = arriving(nothing, self._overview_page(request, visitor, period), OVERVIEW_CUTS)
        return StreamingResponse(parts, media_type="text/html")

    async def _overview_page(self, request: Request, visitor: Visitor, period: Period) -> str:
        report = await self._figures.get(period, _FIGURES_WAIT_S)
        rows, _ = await self._records.list(limit=PLOTTED)
        items, _ = await self._quarantine.list(WAITING, status="pending")
        clashes, _ = await self._clashes.list(WAITING, status="open")
        shown = overview_page(
            period,
            report,
            self._figures.panels,
            [summary(row) for row in rows],
            pending=await self._pieces.whole(items),
            clashes=clashes,
            first_call=self._first_call(request),
            shadow=self._shadow,
        )
        return await rendered("overview.html", visitor, **structs.asdict(shown))

    async def _figures_json(self, request: Request, visitor: Visitor) -> Response:
        report = await self._figures.get(period_of(request))
        assert report is not None
        return Response(figures_json(report), media_type="application/json")

    async def _exchanges(self, request: Request, visitor: Visitor) -> Response:
        filters, after = filters_of(request.query_params), request.query_params.get("after", "")
        if after:
            place_of(after)  # what is refused is refused before anything is sent

        async def shown(found: ExchangePage, newest: str = "") -> str:
            more: dict[str, Any] = {"routes": self._routes, "bodies": self._bodies, "first_call": self._first_call(request)}
            return await rendered(
                "exchanges.html", visitor, **structs.asdict(exchanges_page(found, filters, after=after, newest=newest, **more))
            )

        async def searched() -> str:
            rows, _ = await self._records.list(limit=1)
            found = await self._search.page(filters.wanted(time.time()), EXCHANGES_PER_PAGE, after)
            return await shown(found, rows[0].id if rows else "")

        nothing = await shown(ExchangePage([], "", 0.0))
        return StreamingResponse(arriving(nothing, searched(), EXCHANGES_CUTS), media_type="text/html")

    async def _export(self, request: Request, visitor: Visitor) -> Response:
        form = request.query_params.get("format", "csv")
        check_choice("format", form, tuple(FORMATS))
        wanted = filters_of(request.query_params).wanted(time.time())
        headers = {"content-disposition": f'attachment; filename="exchanges.{form}"'}
        kind = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}[form]
        return StreamingResponse(exported(self._search, wanted, form), media_type=kind, headers=headers)

    async def _record(self, request: Request, visitor: Visitor) -> Response:
        row = await self._records.get(request.path_params["id"])
        if row is None:
            raise NotFound("no such exchange; it may not be written yet (they are written in batches), or be past its retention")
        said, done = await self._feedback.of_record(row.id), request.query_params.get("done", "")
        shown = await asyncio.to_thread(record_page, row, self._headers, said, done)
        return await page("record.html", visitor, **structs.asdict(shown))

    async def _said(self, request: Request, visitor: Visitor) -> Response:
        fields = fields_of(await form_of(request))
        self._entrance.check_decision(request, fields)
        record_id = request.path_params["id"]
        expected = fields.get("expected", "") if fields.get("said") == "wrong" else ""
        await self._feedback.say(form_body(fields | {"record_id": record_id, "expected": expected}, FeedbackBody))
        return RedirectResponse(with_query(record_path(record_id), done="feedback"), 303)

    async def _run(self, request: Request, visitor: Visitor) -> Response:
        run_id, after = request.path_params["id"], request.query_params.get("after", "")
        rows, more = await self._records.list(RUN_PER_PAGE, after or None, run_id=run_id)
        failures = await self._failures(run_id)
        return await page("run.html", visitor, **structs.asdict(run_page(run_id, rows, failures, more, after)))

    # ---- news ----

    async def _events(self, request: Request) -> Response:
        self._auth.check(request)
        if not self._listening:
            self._listening = True
            when_told_to_stop(self.feed.close)
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=headers)
        return StreamingResponse(self.feed.listen(after), media_type="text/event-stream", headers=headers)

    def _first_call(self, request: Request) -> str:
        prefix = "" if "" in self._routes or not self._routes else self._routes[0]
        url = f"{str(request.base_url).rstrip('/')}{prefix}/v1/chat/completions"
        body = '{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Which planet is the largest?"}]}'
        return f"curl {url} \\\n  -H 'content-type: application/json' \\\n  -d '{body}'"


async def _nothing(request: Request, visitor: Visitor) -> Response:
    raise NotFound("there is no such page")
