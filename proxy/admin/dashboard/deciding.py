"""The handlers of the pages on which a person decides: one piece or clash, many of them at once, and taking a decision back.

What was just decided stands in the address of the page that follows, ``undo=ID.VERSION``, so that it can be taken back there: only as long
as nobody has decided anew since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from proxy.admin.clashes import ClashesApi, ResolutionBody
from proxy.admin.dashboard.decisions import PER_PAGE, ShownStatement, clashes_page, quarantine_page
from proxy.admin.dashboard.entrance import Entrance, fields_of, form_of
from proxy.admin.dashboard.frame import View
from proxy.admin.dashboard.words import with_query
from proxy.admin.quarantine import DecisionBody, QuarantineApi
from proxy.errors import InvalidRequest, ProxyError
from proxy.ports.review import ClashStatus, QuarantineItem, QuarantineStatus
from proxy.store.clashes import DatabaseClashes
from proxy.store.quarantine import DatabaseQuarantine

QUARANTINE, CLASHES = "/dashboard/quarantine", "/dashboard/clashes"
_DECISIONS: dict[str, QuarantineStatus] = {"approve": "approved", "reject": "rejected"}
Decided = tuple[str, int, str]
"""Id, version and status of what a decision was made on."""
Work: TypeAlias = Callable[[Mapping[str, str], Sequence[str]], Awaitable[list[Decided]]]
"""What a form asks for: its fields and the entries that are ticked in it."""


class DecidingPages:
    """Quarantine and clashes."""

    def __init__(
        self, quarantine: DatabaseQuarantine, clashes: DatabaseClashes, deciding: tuple[QuarantineApi, ClashesApi], entrance: Entrance
    ) -> None:
        self._quarantine, self._clashes, self._entrance = quarantine, clashes, entrance
        self._items, self._records = deciding

    def routes(self) -> list[Route]:
        """For the application."""
        enter, post = self._entrance, ["POST"]
        return [
            Route(QUARANTINE, enter.page(self._queue)),
            Route(f"{QUARANTINE}/many", enter.page(self._items_decided), methods=post),
            Route(f"{QUARANTINE}/undo", enter.page(self._items_undone), methods=post),
            Route(f"{QUARANTINE}/{{id}}", enter.page(self._item_decided), methods=post),
            Route(CLASHES, enter.page(self._clash_list)),
            Route(f"{CLASHES}/many", enter.page(self._clashes_decided), methods=post),
            Route(f"{CLASHES}/undo", enter.page(self._clashes_undone), methods=post),
            Route(f"{CLASHES}/{{id}}", enter.page(self._clash_decided), methods=post),
        ]

    async def whole(self, items: Sequence[QuarantineItem]) -> list[QuarantineItem]:
        """The same with their contents."""
        return [item for one in items if (item := await self._quarantine.get(one.id)) is not None]

    # ---- quarantine ----

    async def _queue(self, request: Request, view: View) -> Response:
        return await self._queue_page(request, view, _said(request))

    async def _queue_page(self, request: Request, view: View, said: ShownStatement, status: str = "", code: int = 200) -> Response:
        chosen = _status(request, get_args(QuarantineStatus), status)
        after = request.query_params.get("after", "")
        items, more = await self._quarantine.list(PER_PAGE, after or None, status=chosen)
        counts = await self._quarantine.counts()
        return HTMLResponse(quarantine_page(view, await self.whole(items), counts, chosen, after, more, said), code)

    async def _item_decided(self, request: Request, view: View) -> Response:
        async def decide(fields: Mapping[str, str], chosen: Sequence[str]) -> list[Decided]:
            wanted = _given(fields, "reason", "by", "scope", "version")
            return [await self._decide_item(request.path_params["id"], fields, wanted)]

        return await self._answer(request, view, decide, QUARANTINE, "pending", self._queue_page)

    async def _items_decided(self, request: Request, view: View) -> Response:
        async def decide(fields: Mapping[str, str], chosen: Sequence[str]) -> list[Decided]:
            wanted = _given(fields, "reason", "by", "scope")
            return [await self._decide_item(name, fields, wanted | {"version": version}) for name, version in map(_named, chosen)]

        return await self._answer(request, view, decide, QUARANTINE, "pending", self._queue_page)

    async def _decide_item(self, name: str, fields: Mapping[str, str], wanted: dict[str, str]) -> Decided:
        decision = _DECISIONS.get(fields.get("decision", ""))
        if decision is None:
            raise InvalidRequest("choose to approve or to reject", param="decision")
        item = await self._items.decide(name, decision, form_body(wanted, DecisionBody))
        return item.id, item.version, item.status

    async def _items_undone(self, request: Request, view: View) -> Response:
        return await self._answer(request, view, _undoing(self._items), QUARANTINE, "pending", self._queue_page)

    # ---- clashes ----

    async def _clash_list(self, request: Request, view: View) -> Response:
        return await self._clash_page(request, view, _said(request))

    async def _clash_page(self, request: Request, view: View, said: ShownStatement, status: str = "", code: int = 200) -> Response:
        chosen = _status(request, get_args(ClashStatus), status)
        after = request.query_params.get("after", "")
        records, more = await self._clashes.list(PER_PAGE, after or None, status=chosen)
        return HTMLResponse(clashes_page(view, records, await self._clashes.counts(), chosen, after, more, said), code)

    async def _clash_decided(self, request: Request, view: View) -> Response:
        async def decide(fields: Mapping[str, str], chosen: Sequence[str]) -> list[Decided]:
            names = ("resolution", "reason", "by") + (("text",) if fields.get("resolution") == "merged" else ())
            return [await self._decide_clash(request.path_params["id"], _given(fields, *names))]

        return await self._answer(request, view, decide, CLASHES, "open", self._clash_page)

    async def _clashes_decided(self, request: Request, view: View) -> Response:
        async def decide(fields: Mapping[str, str], chosen: Sequence[str]) -> list[Decided]:
            wanted = _given(fields, "resolution", "reason", "by")
            return [await self._decide_clash(name, wanted) for name, _ in map(_named, chosen)]

        return await self._answer(request, view, decide, CLASHES, "open", self._clash_page)

    async def _decide_clash(self, name: str, wanted: dict[str, str]) -> Decided:
        record = await self._records.decide(name, form_body(wanted, ResolutionBody))
        return record.id, record.version, record.status

    async def _clashes_undone(self, request: Request, view: View) -> Response:
        return await self._answer(request, view, _undoing(self._records), CLASHES, "open", self._clash_page)

    async def _answer(
        self,
        request: Request,
        view: View,
        work: Work,
        path: str,
        first: str,
        again: Callable[..., Awaitable[Response]],
    ) -> Response:
        """Do what a form asks for, and go back to the list; what is refused is said on it."""
        form = await form_of(request)
        fields, chosen = fields_of(form), form.get("item", [])
        status = fields.get("status", first)
        self._entrance.check_decision(request, fields)
        try:
            if not chosen and request.url.path.endswith(("/many", "/undo")):
                raise InvalidRequest("nothing is selected: tick what it is to be decided for", param="item")
            decided = await work(fields, chosen)
        except ProxyError as error:
            return await again(request, view, ShownStatement(problem=error.message), status, error.status)
        undo = ",".join(f"{name}.{version}" for name, version, _ in decided)
        done = decided[0][2] if decided else "undone"
        return RedirectResponse(with_query(path, status=status, done=done, undo=undo) if status.isalpha() else path, 303)


def _undoing(api: QuarantineApi | ClashesApi) -> Work:
    async def undo(fields: Mapping[str, str], chosen: Sequence[str]) -> list[Decided]:
        by = fields.get("by", "").strip() or "admin"
        for name, version in map(_named, chosen):
            await api.undo(name, by, int(version))
        return []

    return undo


def _said(request: Request) -> ShownStatement:
    query = request.query_params
    return ShownStatement(done=query.get("done", ""), undo=tuple(filter(None, query.get("undo", "").split(",")))[:PER_PAGE])


def _status(request: Request, known: Sequence[str], given: str) -> str:
    found = given or request.query_params.get("status", known[0])
    if found not in known:
        raise InvalidRequest(f"status: expected one of {', '.join(known)}", param="status")
    return found


def _named(item: str) -> tuple[str, str]:
    """Id and version. Raises `InvalidRequest`."""
    name, _, version = item.rpartition(".")
    if not name or not version.isdecimal() or len(version) > 9:
        raise InvalidRequest("item: expected an id and a version", param="item")
    return name, version


def _given(fields: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: fields[name] for name in names if fields.get(name, "").strip()}


def form_body(fields: dict[str, str], kind: type[Any]) -> Any:
    """A form's fields as the API takes them. Raises `InvalidRequest`."""
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        missing = "`reason`" in str(error)
        raise InvalidRequest("give a reason: it stays in the audit trail" if missing else f"the form is refused: {error}") from None
