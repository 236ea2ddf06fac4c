"""The pages on which a person decides: pieces in quarantine and clashes, one or many at once; failures of runs.

What was just decided stands in the address of the page that follows, ``undo=ID.VERSION``, so that it can be taken back there: only as long
as nobody has decided anew since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from proxy.admin.dashboard.entrance import Entrance, fields_of, form_of
from proxy.admin.dashboard.rendering import Visitor, page, with_query
from proxy.admin.decisions import ClashesApi, DecisionBody, QuarantineApi, ResolutionBody
from proxy.admin.failures import FailuresApi, FeedbackBody, StatusBody
from proxy.errors import InvalidRequest, ProxyError
from proxy.ports.failure_kinds import SIGNAL_TYPES, STATUSES
from proxy.ports.review import ClashRecord, ClashStatus, QuarantineItem, QuarantineStatus
from proxy.store.clashes import DatabaseClashes

PER_PAGE, FAILURES_PER_PAGE = 10, 20
_DECISIONS: dict[str, QuarantineStatus] = {"approve": "approved", "reject": "rejected"}


class Done(Struct, frozen=True):
    """What a decision came to, for the page that follows it."""

    done: str = ""
    """The status that was set, ``undone`` where one was taken back."""
    undo: tuple[str, ...] = ()
    """What it was set on, as ``ID.VERSION``."""
    problem: str = ""
    """Why it was refused."""


class Queue:
    """A list of what waits for a person, or was decided, by status."""

    def __init__(
        self,
        name: str,
        statuses: Sequence[str],
        api: QuarantineApi | ClashesApi,
        decide: Callable[[str, Mapping[str, str]], Awaitable[QuarantineItem | ClashRecord]],
        entrance: Entrance,
    ) -> None:
        """`decide` takes an entry's id and the fields of its form."""
        self._name, self._path, self._statuses = name, f"/dashboard/{name}", statuses
        self._api, self._decide, self._entrance = api, decide, entrance

    def routes(self) -> list[Route]:
        """For the application."""
        enter = self._entrance
        return [Route(self._path, enter.page(self._shown)), Route(f"{self._path}/{{id}}", enter.page(self._decided), methods=["POST"])]

    async def count(self, status: str) -> int:
        """How many there are."""
        return (await self._api.store.counts())[status]

    async def first(self, limit: int) -> Sequence[Any]:
        """The newest of those that wait."""
        return (await self._list(limit, "", self._statuses[0]))[0]

    async def _list(self, limit: int, after: str, status: str) -> tuple[Sequence[Any], bool]:
        """Rows with their contents, and whether there are more."""
        store = self._api.store
        if isinstance(store, DatabaseClashes):
            return await store.list(limit, after or None, status=status)
        rows, more = await store.list(limit, after or None, status=status)
        return [item for row in rows if (item := await store.get(row.id)) is not None], more

    async def _shown(self, request: Request, visitor: Visitor) -> Response:
        query = request.query_params
        undo = tuple(filter(None, query.get("undo", "").split(",")))[:PER_PAGE]
        return await self._page(request, visitor, Done(done=query.get("done", ""), undo=undo))

    async def _page(self, request: Request, visitor: Visitor, done: Done, status: str = "", code: int = 200) -> Response:
        status = status or request.query_params.get("status", self._statuses[0])
        check_choice("status", status, self._statuses)
        after = request.query_params.get("after", "")
        rows, more = await self._list(PER_PAGE, after, status)
        shown = {"rows": rows, "counts": await self._api.store.counts(), "after": after, "more": more}
        return await page(f"{self._name}.html", visitor, code, done=done, status=status, **shown)

    async def _decided(self, request: Request, visitor: Visitor) -> Response:
        """Do what a form asks for, and go back to the list; what is refused is said on it."""
        form = await form_of(request)
        fields = fields_of(form)
        status = fields.get("status", self._statuses[0])
        self._entrance.check_decision(request, fields)
        try:
            decided = await self._do(request.path_params["id"], fields, form.get("item", []))
        except ProxyError as error:
            return await self._page(request, visitor, Done(problem=error.message), status, error.status)
        undo = ",".join(f"{row.id}.{row.version}" for row in decided)
        done = decided[0].status if decided else "undone"
        return RedirectResponse(with_query(self._path, status=status, done=done, undo=undo) if status.isalpha() else self._path, 303)

    async def _do(self, name: str, fields: Mapping[str, str], chosen: Sequence[str]) -> list[QuarantineItem | ClashRecord]:
        """Decide on the entry `name`, or on ``many`` that are ticked; or ``undo`` decisions on these."""
        if name not in ("many", "undo"):
            return [await self._decide(name, fields)]
        if not chosen:
            raise InvalidRequest("nothing is selected: tick what it is to be decided for", param="item")
        entries = [_named(item) for item in chosen]
        if name == "many":
            return [await self._decide(entry, {**fields, "version": version, "text": ""}) for entry, version in entries]
        for entry, version in entries:
            await self._api.undo(entry, fields.get("by", "").strip() or "admin", int(version))
        return []


def quarantine_queue(api: QuarantineApi, entrance: Entrance) -> Queue:
    """Pieces of context that a policy keeps from the model."""

    async def decide(name: str, fields: Mapping[str, str]) -> QuarantineItem:
        decision = _DECISIONS.get(fields.get("decision", ""))
        if decision is None:
            raise InvalidRequest("choose to approve or to reject", param="decision")
        return await api.decide(name, decision, form_body(fields, DecisionBody))

    return Queue("quarantine", get_args(QuarantineStatus), api, decide, entrance)


def clash_queue(api: ClashesApi, entrance: Entrance) -> Queue:
    """Statements that contradict each other."""

    async def decide(name: str, fields: Mapping[str, str]) -> ClashRecord:
        text = fields.get("text", "") if fields.get("resolution") == "merged" else ""  # it counts only where it is to be put in place
        return await api.decide(name, form_body({**fields, "text": text}, ResolutionBody))

    return Queue("clashes", get_args(ClashStatus), api, decide, entrance)


class FailurePages:
    """The failures of runs, and what their forms send."""

    path = "/dashboard/failures"

    def __init__(self, failures: FailuresApi, entrance: Entrance) -> None:
        self._failures, self._entrance = failures, entrance

    def routes(self) -> list[Route]:
        """For the application."""
        enter = self._entrance
        return [Route(self.path, enter.page(self._shown)), Route(f"{self.path}/{{id}}", enter.page(self._decided), methods=["POST"])]

    async def _shown(self, request: Request, visitor: Visitor) -> Response:
        return await self._page(request, visitor, Done(done=request.query_params.get("done", "")))

    async def _page(self, request: Request, visitor: Visitor, done: Done, code: int = 200) -> Response:
        query = request.query_params
        filters = {"status": query.get("status", "active"), "signal": query.get("signal", ""), "run": query.get("run", "").strip()}
        check_choice("status", filters["status"], STATUSES)
        check_choice("signal", filters["signal"], ("", *SIGNAL_TYPES))
        after, wanted = query.get("after", ""), {"signal_type": filters["signal"] or None, "run_id": filters["run"] or None}
        rows, more = await self._failures.some(FAILURES_PER_PAGE, after or None, status=filters["status"], **wanted)
        shown: dict[str, Any] = {
            "rows": rows,
            "filters": filters,
            "status_tabs": [(name.capitalize(), with_query(self.path, **filters | {"status": name}), None) for name in STATUSES],
            "older": with_query(self.path, **filters, after=str(rows[-1].get("id", ""))) if more and rows else None,
            "newer": with_query(self.path, **filters) if after else None,
        }
        return await page("failures.html", visitor, code, done=done, **shown)

    async def _decided(self, request: Request, visitor: Visitor) -> Response:
        fields, failure = fields_of(await form_of(request)), request.path_params["id"]
        self._entrance.check_decision(request, fields)
        decision, status = fields.get("decision", ""), fields.get("status", "")
        try:
            if decision in ("helped", "harmed"):
                helpful = "true" if decision == "helped" else "false"
                await self._failures.count_guidance(failure, form_body(fields | {"helpful": helpful}, FeedbackBody))
            else:
                check_choice("decision", decision, STATUSES)
                await self._failures.set_status(failure, form_body(fields | {"status": decision}, StatusBody))
        except ProxyError as error:
            return await self._page(request, visitor, Done(problem=error.message), error.status)
        return RedirectResponse(with_query(self.path, status=status if status in STATUSES else "", done=decision), 303)


def form_body(fields: Mapping[str, str], kind: type[Any]) -> Any:
    """Those of a form's fields that the API's `kind` has, as it takes them; what is blank is not given. Raises `InvalidRequest`."""
    given = {name: fields[name] for name in kind.__struct_fields__ if fields.get(name, "").strip()}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        missing = "`reason`" in str(error)
        raise InvalidRequest("give a reason: it stays in the audit trail" if missing else f"the form is refused: {error}") from None


def check_choice(name: str, given: str, known: Sequence[str]) -> None:
    """Raises `InvalidRequest` for what cannot be chosen."""
    if given not in known:
        raise InvalidRequest(f"{name}: expected one of {', '.join(filter(None, known))}", param=name)


def _named(item: str) -> tuple[str, str]:
    """Id and version. Raises `InvalidRequest`."""
    name, _, version = item.rpartition(".")
    if not name or not version.isdecimal() or len(version) > 9:
        raise InvalidRequest("item: expected an id and a version", param="item")
    return name, version
