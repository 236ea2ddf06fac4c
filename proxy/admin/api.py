"""``/health``, ``/ready``, ``/metrics`` and the operator's API: records, the scratchpad, tool outcomes, figures.

What a person decides on is in `proxy.admin.decisions` and `proxy.admin.failures`, what people say of findings in
`proxy.admin.feedback`, the pages in `proxy.admin.dashboard`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from proxy import __version__
from proxy.admin.access import AdminAuth, Handler, download, json_answer, listing, number_in, objects, require
from proxy.admin.dashboard.entrance import front
from proxy.admin.dashboard.lists import FailuresOfRun
from proxy.admin.dashboard.panels import FigureSource
from proxy.admin.dashboard.routes import Dashboard
from proxy.admin.decisions import ClashesApi, QuarantineApi
from proxy.admin.failures import FailuresApi
from proxy.admin.feedback import FeedbackApi
from proxy.admin.keys import KeyBook, KeyParts, KeysApi
from proxy.admin.reports import Period, make_report, panels_of
from proxy.admin.verdicts import ClientAccess, VerdictsApi
from proxy.config.access import Clients
from proxy.errors import InternalError, InvalidRequest, NotFound, ProxyError, StoreUnavailable
from proxy.exchange import OUTCOMES
from proxy.ledger import Ledger
from proxy.observe.metrics import CONTENT_TYPE, Metrics
from proxy.observe.recording import OpenExchanges
from proxy.ports.panels import StagePanel
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.store.clashes import DatabaseClashes
from proxy.store.database import Database
from proxy.store.failures import DatabaseFailures
from proxy.store.feedback import DatabaseFeedback
from proxy.store.figures import DatabaseFigures
from proxy.store.memory import DatabaseScratchpad
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.records import INTERRUPTED, PENDING, Records
from proxy.store.rollups import DAY_S
from proxy.store.tool_outcomes import DatabaseToolOutcomes
from proxy.wire.http.headers import ResponseHeaders

if TYPE_CHECKING:
    from proxy.admin.mcp import OwnTools


@dataclass(slots=True, frozen=True)
class AdminParts:
    """What the operator's surface shows, and who may see it."""

    admin_key: str
    database: Database
    records: Records
    metrics: Metrics
    ready: Callable[[], dict[str, str]]
    """What keeps this node from answering, and why; empty when nothing does."""
    store_problem: Callable[[float | None], Awaitable[str]]
    """Why the store takes nothing now; "" where it does. It is given so many seconds to answer, or as long as it takes."""
    reports: Database | None = None
    """Where lists of exchanges, figures and reports are read; None where that is `database`."""
    ledger: Ledger = field(default_factory=Ledger)
    """Counts wrong keys."""
    failures_of_run: FailuresOfRun | None = None
    """A run's failure records, for its time line; None for those of the database."""
    stages: Sequence[type[Stage]] = STAGES
    """Those whose panels and headers are shown, in this order."""
    routes: tuple[str, ...] = ()
    """Prefixes that clients can call."""
    shadow: tuple[str, ...] = ()
    """Routes whose policy is not enforced."""
    bodies: bool = False
    """Whether texts are kept."""
    texts: str = "all"
    """As ``store.texts``: of which exchanges sentences and evidence are kept."""
    keys: KeyParts = field(default_factory=KeyParts)
    """What config.yaml says of client keys."""
    access: ClientAccess = field(default_factory=lambda: ClientAccess(Clients(())))
    """How a client that asks for its own verdict is known."""
    runs: Callable[[], dict[str, Any]] = dict
    """Which release and policies this node has, and whether others differ."""
    exchanges: OpenExchanges = field(default_factory=OpenExchanges)
    """Those of this process that have no record yet."""
    own_tools: OwnTools | None = None
    """What ``/mcp`` serves; None where it is not served."""

    @property
    def reading(self) -> Database:
        """`reports`, or its default."""
        return self.reports or self.database

    @property
    def headers(self) -> ResponseHeaders:
        """Of answers."""
        return ResponseHeaders(header for stage in self.stages for header in stage.headers)

    @property
    def panels(self) -> tuple[type[StagePanel], ...]:
        """Of the dashboard."""
        return panels_of(self.stages)


_FILTERS = ("route", "run_id", "client", "outcome")
_KNOWN = {"outcome": (*OUTCOMES, "skipped", PENDING, INTERRUPTED)}
_BODIES = ("request_body", "answer_body")
_STORE_PATIENCE_S = 0.5
"""Balancers and probes give up after one or two seconds, and a store that says nothing must not take a node out."""
_summary = objects("record", *_BODIES)


def make_admin(parts: AdminParts) -> Starlette:
    """The Starlette application below the proxy's own paths; ``state.stop`` ends what it has open, before the store closes;
    ``state.figures`` are its figures over time."""
    auth, database, metrics = AdminAuth(parts.admin_key, parts.ledger), parts.database, parts.metrics
    quarantine, clashes = QuarantineApi(DatabaseQuarantine(database), metrics), ClashesApi(DatabaseClashes(database), metrics)
    failures = FailuresApi(DatabaseFailures(database), metrics)
    feedback = FeedbackApi(DatabaseFeedback(database), parts.records, metrics)
    over_time = DatabaseFigures(database, parts.panels)
    shown = over_time if parts.reading is database else DatabaseFigures(parts.reading, parts.panels)
    figures = FigureSource(shown.between, metrics.figures, parts.panels, clock=database.clock)
    verdicts = VerdictsApi(parts.records, parts.exchanges, parts.access, parts.headers, auth)
    keys = KeysApi(KeyBook(database, parts.keys))
    dashboard = Dashboard(parts, auth, figures, quarantine, clashes, failures, feedback, keys.book)
    api = Api(parts, quarantine.store)
    operators: list[tuple[str, str, Handler]] = [
        ("GET", "/metrics", api.figures),
        ("GET", "/report", api.report),
        ("GET", "/records", api.records),
        ("GET", "/records/{id}", api.record),
        ("GET", "/scratchpad", api.scratchpad_list),
        ("GET", "/scratchpad/{id}", api.scratchpad),
        ("GET", "/tool-outcomes", api.tool_outcomes),
        ("DELETE", "/tool-outcomes", api.reset_tool_outcomes),
        ("GET", "/quarantine", quarantine.list),
        ("GET", "/quarantine/{id}", quarantine.item),
        ("GET", "/quarantine/{id}/content", quarantine.content),
        ("POST", "/quarantine/{id}/approve", quarantine.approve),
        ("POST", "/quarantine/{id}/reject", quarantine.reject),
        ("POST", "/quarantine/{id}/undo", quarantine.undo_last),
        ("GET", "/clashes", clashes.list),
        ("GET", "/clashes/{id}", clashes.item),
        ("POST", "/clashes/{id}/resolve", clashes.resolve),
        ("POST", "/clashes/{id}/undo", clashes.undo_last),
        ("GET", "/feedback", feedback.list),
        ("POST", "/feedback", feedback.add),
        ("POST", "/feedback/{id}/undo", feedback.undo),
        ("GET", "/review", feedback.review),
        ("GET", "/keys", keys.list),
        ("POST", "/keys", keys.add),
        ("POST", "/keys/{name}/limits", keys.set_limits),
        ("POST", "/keys/{name}/rotate", keys.rotate),
        ("POST", "/keys/{name}/revoke", keys.revoke),
        ("GET", "/teams", keys.teams),
        ("POST", "/teams/{name}/limits", keys.set_team),
        ("GET", "/spending", keys.spending),
        ("GET", "/failures", failures.list),
        ("GET", "/failures/{id}", failures.item),
        ("GET", "/failures/{id}/revisions", failures.revisions),
        ("POST", "/failures/{id}/resolve", failures.resolve),
        ("POST", "/failures/{id}/feedback", failures.feedback),
    ]
    routes = [
        Route("/", front(parts.routes)),
        Route("/health", api.health),
        Route("/ready", api.ready),
        Route("/metrics", api.metrics),
        Route("/groundwire/v1/verdicts/{id}", answer_503_without_store(verdicts.verdict)),
        *_mcp(parts, auth),
        *(Route(f"/groundwire/v1{path}", for_operator(auth, handler), methods=[method]) for method, path, handler in operators),
        *dashboard.routes(),
    ]

    async def stop() -> None:
        verdicts.end_waits()
        await figures.stop()

    admin = Starlette(routes=routes, exception_handlers=dict.fromkeys((ProxyError, HTTPException, 500), _answer_error))
    admin.state.stop, admin.state.figures, admin.state.verdicts = stop, over_time, verdicts
    return admin


def _mcp(parts: AdminParts, auth: AdminAuth) -> list[Route]:
    """``/mcp``, where it is served; read no sooner."""
    if parts.own_tools is None:
        return []
    from proxy.admin.mcp import McpApi

    return [Route("/mcp", McpApi(parts.own_tools, parts.access, auth).serve, methods=["POST"])]


class Api:
    """The handlers."""

    def __init__(self, parts: AdminParts, quarantine: DatabaseQuarantine) -> None:
        self._p, self._quarantine = parts, quarantine
        self._scratchpad, self._outcomes = DatabaseScratchpad(parts.database), DatabaseToolOutcomes(parts.database)
        self.records = listing(parts.records.list, _summary, _FILTERS, _KNOWN, numbers=("since", "until"))
        self.scratchpad_list = listing(self._scratchpad.list, objects("scratchpad_item", "content"), ("run_id", "client"))
        self.tool_outcomes = listing(self._outcomes.summary, objects("tool_outcomes"), ("client",))

    async def health(self, request: Request) -> Response:
        """The process is alive."""
        return json_answer({"status": "ok", "version": __version__})

    async def ready(self, request: Request) -> Response:
        """Whether this node can answer. The store's state stands beside it, and counts with ``?store=1``: a store that is away takes no
        node out of a balancer.
        """
        counts = request.query_params.get("store") == "1"
        missing, problem = self._p.ready(), await self._p.store_problem(None if counts else _STORE_PATIENCE_S)
        store = {"status": "away", "problem": problem} if problem else {"status": "ok"}
        away = bool(problem) and counts
        found: dict[str, Any] = {"status": "not ready" if missing or away else "ready", "store": store, "runs": self._p.runs()}
        if missing:
            found["missing"] = missing
        answer = json_answer(found, 503 if missing or away else 200)
        answer.headers["x-groundwire-store"] = store["status"]
        return answer

    async def metrics(self, request: Request) -> Response:
        """Prometheus."""
        return Response(await self._p.metrics.exposition(), headers={"content-type": CONTENT_TYPE})

    async def figures(self, request: Request) -> Response:
        """The same as JSON, and how much is in quarantine; null while the store is away."""
        try:
            quarantine: dict[str, int] | None = await self._quarantine.counts()
        except StoreUnavailable:
            quarantine = None
        return json_answer(await self._p.metrics.figures() | {"quarantine": quarantine})

    async def report(self, request: Request) -> Response:
        """A period's figures, the last day's unless it says another, beside those of the one before."""
        query = request.query_params
        until = number_in(query, "until") or self._p.database.clock()
        since = number_in(query, "since") or until - DAY_S
        if not 0 <= since < until < math.inf:
            raise InvalidRequest("since, until: expected seconds since the epoch, and a later time", param="since")
        parts, wanted = self._p, Period(since, until)
        return json_answer(await make_report(parts.reading, parts.panels, wanted, query.get("route"), parts.database.name))

    async def record(self, request: Request) -> Response:
        """One record, whole."""
        row = require(await self._p.records.get(request.path_params["id"]), "record", "it may not be written yet, or be past its retention")
        bodies = {name: body.decode("utf-8", "replace") for name in _BODIES if (body := getattr(row, name)) is not None}
        return json_answer(_summary(row) | bodies)

    async def scratchpad(self, request: Request) -> Response:
        """An archived piece of context, byte for byte; as a download, since it is not to be trusted."""
        name = request.path_params["id"]
        item = await self._scratchpad.item(name) or await self._scratchpad.find(name)  # a reference in a prompt has a short one
        return download(require(item, "piece of context").content)

    async def reset_tool_outcomes(self, request: Request) -> Response:
        """Forget what a client's tool calls taught, of one tool (its name or key) if named."""
        client, tool = request.query_params.get("client"), request.query_params.get("tool")
        if client is None:
            raise InvalidRequest("client: whose outcomes to delete, as in the list; tool leaves those of other tools", param="client")
        deleted = await self._outcomes.reset(client, tool)
        return json_answer({"object": "tool_outcomes.deleted", "client": client, "tool": tool, "deleted": deleted})


def for_operator(auth: AdminAuth, handler: Handler) -> Handler:
    """Only for the operator; a store that is away is 503."""

    async def guard(request: Request) -> Response:
        await auth.check(request)
        return await handler(request)

    return answer_503_without_store(guard)


def answer_503_without_store(handler: Handler) -> Handler:
    """With a 503 while the store is away."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except StoreUnavailable as error:
            said = str(error)
            message = said if said.startswith("the store ") else f"the store is not available: {said}"
            return json_answer({"error": {"message": message, "type": "server_error", "param": None, "code": "overloaded"}}, 503)

    return answer


async def _answer_error(request: Request, error: Exception) -> Response:
    """Errors as OpenAI gives them; an exception that is none of ours says nothing of itself."""
    if isinstance(error, HTTPException):
        error = NotFound(f"nothing is served at {request.url.path}; a route's API is at its prefix + /v1, the operator's at /groundwire/v1")
    elif not isinstance(error, ProxyError):
        error = InternalError("an internal error; the server's log has the details")
    answer = json_answer(error.envelope(), error.status)
    answer.headers.update(dict(error.headers))
    return answer
