"""``/groundwire/v1/quarantine``: what is kept from the model, and a person's decision on it.

An approved piece is forwarded again from the next turn that has it, a rejected one stays out; either can be decided anew, and the
audit trail keeps every decision. Content is shown as it came: it is not to be trusted, nor run, nor put into a page unescaped.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, get_args

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from proxy.admin.answers import as_object, body_of, download, json_answer, listing
from proxy.errors import InvalidRequest, NotFound
from proxy.ports import Counters
from proxy.ports.review import POLICY, Decision, QuarantineItem, QuarantineStatus, Scope
from proxy.store.decisions import MAX_REASON_CHARS
from proxy.store.quarantine import FILTERS, DatabaseQuarantine

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")]


class DecisionBody(Struct, forbid_unknown_fields=True):
    """Why, who, and how far it goes."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON_CHARS, pattern=r"\S")]
    by: Name = "admin"
    scope: Scope = "run"
    """``client``: the same content in this client's other runs of the policy too, also in those to come."""
    version: Annotated[int, Meta(ge=0)] | None = None
    """The item's version as the person saw it: the decision is refused if another has been made since. Without it the last one counts."""


class UndoBody(Struct, forbid_unknown_fields=True):
    """Who takes a decision back, and which."""

    version: Annotated[int, Meta(ge=0)]
    """The version that the decision made: what was decided since is not taken back with it."""
    by: Name = "admin"


class QuarantineApi:
    """The handlers."""

    def __init__(self, store: DatabaseQuarantine, counters: Counters) -> None:
        self._store, self._counters = store, counters
        self.list = listing(store.list, _object, FILTERS, {"status": get_args(QuarantineStatus)})

    async def item(self, request: Request) -> Response:
        """One item with its content and its audit trail."""
        item = await self._found(request)
        return json_answer(_object(item) | _content(item.content) | await self._trail(item.id))

    async def content(self, request: Request) -> Response:
        """The content alone, byte for byte."""
        return download((await self._found(request)).content)

    async def approve(self, request: Request) -> Response:
        """Let it through from now on."""
        return await self._decide(request, "approved")

    async def reject(self, request: Request) -> Response:
        """Keep it out."""
        return await self._decide(request, "rejected")

    async def undone(self, request: Request) -> Response:
        """Take the last decision back."""
        body = await body_of(request, UndoBody)
        item = await self.undo(request.path_params["id"], body.by, body.version)
        return json_answer(_object(item) | await self._trail(item.id))

    async def _decide(self, request: Request, status: QuarantineStatus) -> Response:
        item = await self.decide(request.path_params["id"], status, await body_of(request, DecisionBody))
        return json_answer(_object(item) | await self._trail(item.id))

    async def decide(self, item_id: str, status: QuarantineStatus, body: DecisionBody) -> QuarantineItem:
        """Decide, as the API and the dashboard do. Raises `InvalidRequest`, `NotFound`, `Conflict`."""
        check_person(body.by, (POLICY,))
        before = await self._store.get(item_id, content=False)
        decided = None
        if before is not None:
            decided = await self._store.decide(item_id, status, by=body.by, reason=body.reason, scope=body.scope, version=body.version)
        if before is None or decided is None:
            raise _missing()
        if decided.version != before.version:
            self._counters.count(f"quarantine.{status}_count")
        return decided

    async def undo(self, item_id: str, by: str, version: int) -> QuarantineItem:
        """Take the last decision back: what was decided before counts again. Raises as `decide` does, `Conflict` after another decision."""
        check_person(by, (POLICY,))
        trail = await self._store.trail(item_id)
        if not trail or trail[-1].decided_by == POLICY:
            raise InvalidRequest("there is no decision of a person to take back")
        statuses: dict[str, QuarantineStatus] = {status: status for status in get_args(QuarantineStatus)}
        before = statuses.get(trail[-2].decision, "pending") if len(trail) > 1 else "pending"
        said = f"takes back: {trail[-1].decision} by {trail[-1].decided_by}"
        found = await self._store.decide(item_id, before, by=by, reason=said, scope=trail[-1].scope, version=version)
        if found is None:
            raise _missing()
        return found

    async def _found(self, request: Request) -> QuarantineItem:
        item = await self._store.get(request.path_params["id"])
        if item is None:
            raise _missing()
        return item

    async def _trail(self, item_id: str) -> dict[str, Any]:
        return {"decisions": as_objects(await self._store.trail(item_id))}


def check_person(name: str, taken: Sequence[str]) -> None:
    """Raises `InvalidRequest` for a name under which the proxy itself decides."""
    if name.strip().lower() in taken:
        raise InvalidRequest(f"by: {name.strip()} is how the proxy signs what it decides itself; give a person's name", param="by")


def as_objects(trail: Sequence[Decision]) -> list[dict[str, Any]]:
    """The audit trail for JSON."""
    return [as_object("decision", decision) for decision in trail]


def _object(item: QuarantineItem) -> dict[str, Any]:
    return as_object("quarantine_item", item, "content")


def _content(content: bytes) -> dict[str, Any]:
    try:
        return {"content": content.decode()}
    except UnicodeDecodeError:
        return {"content": None, "content_base64": base64.b64encode(content).decode()}


def _missing() -> NotFound:
    return NotFound("no such item in quarantine; one that was decided may be past its retention")
