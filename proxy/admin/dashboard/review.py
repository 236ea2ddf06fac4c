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
from proxy.admin.dashboard.rendering import Visitor, check_choice, page, with_query
from proxy.admin.decisions import ClashesApi, DecisionBody, QuarantineApi, ResolutionBody
from proxy.admin.failures import FailuresApi, FeedbackBody, StatusBody
from proxy.errors import InvalidRequest, ProxyError
from proxy.ports.failures import SIGNAL_TYPES, STATUSES
from proxy.ports.review import ClashRecord, ClashStatus, QuarantineItem, QuarantineStatus

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
        form = await form_of(request)
        fields = fields_of(form)
        self._entrance.check_decision(request, fields)
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
            await self._api.count_guidance(name, form_body({**fields, "helpful": helpful}, FeedbackBody))
        else:
            check_choice("decision", decision, STATUSES)
            await self._api.set_status(name, form_body({**fields, "status": decision}, StatusBody))
        return decision, []


def form_body(fields: Mapping[str, str], kind: type[Any]) -> Any:
    """Those of a form's fields that the API's `kind` has, as it takes them; what is blank is not given. Raises `InvalidRequest`."""
    given = {name: fields[name] for name in kind.__struct_fields__ if fields.get(name, "").strip()}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        missing = "`reason`" in str(error)
        raise InvalidRequest("give a reason: it stays in the audit trail" if missing else f"the form is refused: {error}") from None


def _named(item: str) -> tuple[str, str]:
    """Id and version. Raises `InvalidRequest`."""
    name, _, version = item.rpartition(".")
    if not name or not version.isdecimal() or len(version) > 9:
        raise InvalidRequest("item: expected an id and a version", param="item")
    return name, version
