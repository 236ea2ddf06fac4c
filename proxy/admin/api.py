"""``/health``, ``/ready``, ``/metrics`` and the operator's API: records, the scratchpad, tool outcomes, figures.

What a person decides on is in `proxy.admin.quarantine`, `proxy.admin.clashes` and `proxy.admin.failures`, what people say of findings in
`proxy.admin.feedback`, the pages in `proxy.admin.dashboard`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from proxy import __version__
from proxy.admin.answers import download, json_answer, limit_of, list_answer
from proxy.admin.clashes import ClashesApi
from proxy.admin.dashboard.panels import FigureSource, PanelFigures
from proxy.admin.dashboard.routes import Dashboard
from proxy.admin.dashboard.run import FailuresOfRun
from proxy.admin.failures import FailuresApi
from proxy.admin.feedback import FeedbackApi
from proxy.admin.front import front
from proxy.admin.quarantine import QuarantineApi
from proxy.admin.sessions import Door
from proxy.admin.verdicts import ClientAccess, VerdictsApi
from proxy.config.client_keys import Clients
from proxy.errors import InternalError, InvalidRequest, NotFound, ProxyError, StoreUnavailable
from proxy.ledger import Ledger
from proxy.observe.metrics import CONTENT_TYPE, Metrics
from proxy.observe.open_exchanges import OpenExchanges
from proxy.ports.panels import StagePanel
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.store.clashes import DatabaseClashes
from proxy.store.database import Database
from proxy.store.exchange_search import ExchangeSearch
from proxy.store.failures import DatabaseFailures
from proxy.store.feedback import DatabaseFeedback
from proxy.store.figures import DatabaseFigures
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.records import Record, Records
from proxy.store.scratchpad import DatabaseScratchpad
from proxy.store.tool_outcomes import DatabaseToolOutcomes
from proxy.wire.http.headers import ResponseHeaders

Handler = Callable[[Request], Awaitable[Response]]
_FILTERS = ("route", "run_id", "client", "outcome")


@dataclass(slots=True, frozen=True)
class AdminParts:
    """What the operator's surface shows."""

    admin_key: str
    database: Database
    records: Records
    scratchpad: DatabaseScratchpad
    tool_outcomes: DatabaseToolOutcomes
    quarantine: DatabaseQuarantine
    clashes: DatabaseClashes
    failures: DatabaseFailures
    metrics: Metrics
    ready: Callable[[], dict[str, str]]
    """What keeps this node from answering, and why; empty when nothing does."""
    store_problem: Callable[[], Awaitable[str]]
    """Why the store takes nothing now; "" where it does."""
    ledger: Ledger = field(default_factory=Ledger)
    """Counts wrong keys."""
    figures: PanelFigures | None = None
    """Figures over time; None for those of the records table."""
    failures_of_run: FailuresOfRun | None = None
    """A run's failure records, for its time line; None where nobody keeps any."""
    stages: Sequence[type[Stage]] = STAGES
    """Those whose panels and headers are shown, in this order."""
    routes: tuple[str, ...] = ()
    """Prefixes that clients can call."""
    shadow: tuple[str, ...] = ()
    """Routes whose policy is not enforced."""
    bodies: bool = False
    """Whether texts are kept."""
    access: ClientAccess = field(default_factory=lambda: ClientAccess(Clients(())))
    """How a client that asks for its own verdict is known."""
    exchanges: OpenExchanges = field(default_factory=OpenExchanges)
    """Those of this process that have no record yet."""


def panels_of(stages: Sequence[type[Stage]]) -> tuple[type[StagePanel], ...]:
    """Of each name one."""
    return tuple({stage.panel.name: stage.panel for stage in stages if stage.panel is not None}.values())


def make_admin(parts: AdminParts) -> Starlette:
    """The Starlette application below the proxy's own paths; ``state.stop`` ends what it has open, before the store closes;
    ``state.figures`` are its figures over time."""
    door = Door(parts.admin_key, parts.ledger)
    api, quarantine, clashes = Api(parts, door), QuarantineApi(parts.quarantine, parts.metrics), ClashesApi(parts.clashes, parts.metrics)
    panels = panels_of(parts.stages)
    over_time = parts.figures or DatabaseFigures(parts.database, panels)
    figures = FigureSource(over_time, parts.metrics.told, panels)
    failures = FailuresApi(parts.failures, parts.metrics)
    of_run = parts.failures_of_run or failures.of_run
    deciding = (quarantine, clashes)
    headers = ResponseHeaders(header for stage in parts.stages for header in stage.headers)
    reviewed = parts.quarantine, parts.clashes
    search, feedback = ExchangeSearch(parts.database), FeedbackApi(DatabaseFeedback(parts.database), parts.records)
    shown = (parts.routes, parts.shadow)
    own: dict[str, Any] = {"search": search, "feedback": feedback, "failure_api": failures, "bodies": parts.bodies}
    verdicts = VerdictsApi(parts.records, parts.exchanges, parts.access, headers, door)
    dashboard = Dashboard(parts.records, *reviewed, deciding, door, figures, of_run, headers, *shown, **own)
    routes = [
        Route("/", front(parts.routes)),
        Route("/health", api.health),
        Route("/ready", api.ready),
        Route("/metrics", api.metrics),
        Route("/groundwire/v1/verdicts/{id}", stored(verdicts.verdict)),
        Route("/groundwire/v1/metrics", api.guarded(api.figures)),
        Route("/groundwire/v1/records", api.guarded(api.records)),
        Route("/groundwire/v1/records/{id}", api.guarded(api.record)),
        Route("/groundwire/v1/scratchpad", api.guarded(api.scratchpad_list)),
        Route("/groundwire/v1/scratchpad/{id}", api.guarded(api.scratchpad)),
        Route("/groundwire/v1/tool-outcomes", api.guarded(api.tool_outcomes)),
        Route("/groundwire/v1/tool-outcomes", api.guarded(api.reset_tool_outcomes), methods=["DELETE"]),
        Route("/groundwire/v1/quarantine", api.guarded(quarantine.list)),
        Route("/groundwire/v1/quarantine/{id}", api.guarded(quarantine.item)),
        Route("/groundwire/v1/quarantine/{id}/content", api.guarded(quarantine.content)),
        Route("/groundwire/v1/quarantine/{id}/approve", api.guarded(quarantine.approve), methods=["POST"]),
        Route("/groundwire/v1/quarantine/{id}/reject", api.guarded(quarantine.reject), methods=["POST"]),
        Route("/groundwire/v1/quarantine/{id}/undo", api.guarded(quarantine.undone), methods=["POST"]),
        Route("/groundwire/v1/clashes", api.guarded(clashes.list)),
        Route("/groundwire/v1/clashes/{id}", api.guarded(clashes.item)),
        Route("/groundwire/v1/clashes/{id}/resolve", api.guarded(clashes.resolve), methods=["POST"]),
        Route("/groundwire/v1/clashes/{id}/undo", api.guarded(clashes.undone), methods=["POST"]),
        *dashboard.routes(),
        Route("/groundwire/v1/feedback", api.guarded(feedback.list)),
        Route("/groundwire/v1/feedback", api.guarded(feedback.add), methods=["POST"]),
        Route("/groundwire/v1/failures", api.guarded(failures.list)),
        Route("/groundwire/v1/failures/{id}", api.guarded(failures.item)),
        Route("/groundwire/v1/failures/{id}/revisions", api.guarded(failures.revisions)),
        Route("/groundwire/v1/failures/{id}/resolve", api.guarded(failures.resolve), methods=["POST"]),
        Route("/groundwire/v1/failures/{id}/feedback", api.guarded(failures.feedback), methods=["POST"]),
    ]

    async def stop() -> None:
        verdicts.end_waits()
        await dashboard.feed.stop()
        await figures.stop()

    handlers: Any = {ProxyError: _proxy_error, 404: _not_found, 405: _not_found, 500: _internal_error}
    admin = Starlette(routes=routes, exception_handlers=handlers)
    admin.state.stop, admin.state.figures, admin.state.verdicts = stop, over_time, verdicts
    return admin


class Api:
    """The handlers."""

    def __init__(self, parts: AdminParts, door: Door) -> None:
        self._p, self._door = parts, door

    def guarded(self, handler: Handler) -> Handler:
        """Only for the operator; a store that is away is 503."""

        async def guard(request: Request) -> Response:
            self._door.check(request)
            return await handler(request)

        return stored(guard)

    async def health(self, request: Request) -> Response:
        """The process is alive."""
        return json_answer({"status": "ok", "version": __version__})

    async def ready(self, request: Request) -> Response:
        """Whether this node can answer. The store's state stands beside it, and counts with ``?store=1``: a store that is away takes no
        node out of a balancer.
        """
        missing, problem = self._p.ready(), await self._p.store_problem()
        store = {"status": "away", "problem": problem} if problem else {"status": "ok"}
        away = bool(problem) and request.query_params.get("store") == "1"
        found: dict[str, Any] = {"status": "not ready" if missing or away else "ready", "store": store}
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
            quarantine: dict[str, int] | None = await self._p.quarantine.counts()
        except StoreUnavailable:
            quarantine = None
        return json_answer(await self._p.metrics.told() | {"quarantine": quarantine})

    async def records(self, request: Request) -> Response:
        """A list, newest first."""
        query = request.query_params
        filters: dict[str, Any] = {name: query[name] for name in _FILTERS if name in query}
        filters |= {name: _number(query[name], name) for name in ("since", "until") if name in query}
        rows, has_more = await self._p.records.list(limit=limit_of(request), after=query.get("after"), **filters)
        return list_answer([_summary(row) for row in rows], has_more)

    async def record(self, request: Request) -> Response:
        """One record, whole."""
        row = await self._p.records.get(request.path_params["id"])
        if row is None:
            raise NotFound("no such record; it may not be written yet (records are written in batches), or be past its retention")
        return json_answer(_whole(row))

    async def scratchpad_list(self, request: Request) -> Response:
        """Archived pieces of context without their bytes, newest first."""
        query = request.query_params
        filters = {name: query.get(name) for name in ("run_id", "client")}
        rows, has_more = await self._p.scratchpad.list(limit_of(request), query.get("after"), **filters)
        data = [{"object": "scratchpad_item", **{n: getattr(row, n) for n in row.__struct_fields__ if n != "content"}} for row in rows]
        return list_answer(data, has_more)

    async def scratchpad(self, request: Request) -> Response:
        """An archived piece of context, byte for byte; as a download, since it is not to be trusted."""
        name = request.path_params["id"]
        item = await self._p.scratchpad.item(name) or await self._p.scratchpad.find(name)  # a reference in a prompt has a short one
        if item is None:
            raise NotFound("no such piece of context; it may be past its retention")
        return download(item.content)

    async def tool_outcomes(self, request: Request) -> Response:
        """What tool calls taught, by client and tool, the last learned first."""
        query = request.query_params
        rows, has_more = await self._p.tool_outcomes.summary(limit_of(request), query.get("after"), client=query.get("client"))
        data = [{"object": "tool_outcomes", **{name: getattr(row, name) for name in row.__struct_fields__}} for row in rows]
        return list_answer(data, has_more)

    async def reset_tool_outcomes(self, request: Request) -> Response:
        """Forget what a client's tool calls taught, of one tool (its name or key) if named."""
        client, tool = request.query_params.get("client"), request.query_params.get("tool")
        if client is None:
            raise InvalidRequest("client: whose outcomes to delete, as in the list; tool leaves those of other tools", param="client")
        deleted = await self._p.tool_outcomes.reset(client, tool)
        return json_answer({"object": "tool_outcomes.deleted", "client": client, "tool": tool, "deleted": deleted})


def stored(handler: Handler) -> Handler:
    """With a 503 while the store is away."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except StoreUnavailable as error:
            said = str(error)
            message = said if said.startswith("the store ") else f"the store is not available: {said}"
            return json_answer({"error": {"message": message, "type": "server_error", "param": None, "code": "overloaded"}}, 503)

    return answer


_BODIES = ("request_body", "answer_body")


def _summary(row: Record) -> dict[str, Any]:
    return {"object": "record", **{name: getattr(row, name) for name in row.__struct_fields__ if name not in _BODIES}}


def _whole(row: Record) -> dict[str, Any]:
    bodies = {name: body.decode("utf-8", "replace") for name in _BODIES if (body := getattr(row, name)) is not None}
    return _summary(row) | bodies


def _number(value: str, name: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InvalidRequest(f"{name}: expected seconds since the epoch", param=name) from None


async def _proxy_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProxyError)
    answer = json_answer(error.envelope(), error.status)
    answer.headers.update(dict(error.headers))
    return answer


async def _not_found(request: Request, error: Exception) -> Response:
    found = NotFound(f"nothing is served at {request.url.path}; a route's API is at its prefix + /v1, the operator's at /groundwire/v1")
    return json_answer(found.envelope(), found.status)


async def _internal_error(request: Request, error: Exception) -> Response:
    return json_answer(InternalError("an internal error; the server's log has the details").envelope(), 500)
