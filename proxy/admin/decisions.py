"""``/groundwire/v1/quarantine`` and ``…/clashes``: what waits for a person, and what people decided.

An approved piece of context is forwarded again from the next turn that has it, a rejected one stays out. A clash's resolution counts from
the run's next turn. Everything can be decided anew, and the audit trail keeps every decision. A piece's content is shown as it came: it is
not to be trusted, nor run, nor put into a page unescaped.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from proxy.admin.access import body_of, download, json_answer, listing, objects, require
from proxy.errors import Conflict, InvalidRequest
from proxy.ports import Counters
from proxy.ports.review import POLICY, ClashRecord, ClashStatus, Decision, QuarantineItem, QuarantineStatus, Scope
from proxy.store import clashes, quarantine
from proxy.store.clashes import DatabaseClashes
from proxy.store.listing import MAX_REASON_CHARS
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.tables import clean

_PIECE, _CLASH = "item in quarantine", "clash"
_item, _clash, _decision = objects("quarantine_item", "content"), objects("clash"), objects("decision")
_USER = "user"
"""Signs what the client's user answered when asked."""
_MAX_MERGED_CHARS = 20_000
_AGAIN = ("keep_older", "keep_newer", "keep_both", "dismiss")
"""Resolutions that count again when a later one is taken back."""
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")]


class DecisionBody(Struct, forbid_unknown_fields=True):
    """Why, who, and how far it goes."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON_CHARS, pattern=r"\S")]
    by: Name = "admin"
    scope: Scope = "run"
    """``client``: the same content in this client's other runs of the policy too, also in those to come."""
    version: Annotated[int, Meta(ge=0)] | None = None
    """The item's version as the person saw it: the decision is refused if another has been made since. Without it the last one counts."""


class ResolutionBody(Struct, forbid_unknown_fields=True):
    """What holds from now on, why, and who says so."""

    resolution: Literal["keep_older", "keep_newer", "keep_both", "merged", "dismiss"]
    """``dismiss``: they do not contradict each other."""
    text: Annotated[str, Meta(max_length=_MAX_MERGED_CHARS)] = ""
    """With ``merged``: the statement that takes the place of both."""
    reason: Annotated[str, Meta(max_length=MAX_REASON_CHARS)] = ""
    by: Name = "admin"
    version: Annotated[int, Meta(ge=0)] | None = None
    """The clash's version as the person saw it: refused if it has been resolved anew since. Without it the last resolution counts."""


class UndoBody(Struct, forbid_unknown_fields=True):
    """Who takes a decision back, and which."""

    version: Annotated[int, Meta(ge=0)]
    """The version that the decision made: what was decided since is not taken back with it."""
    by: Name = "admin"


class QuarantineApi:
    """The handlers of what is kept from the model."""

    def __init__(self, store: DatabaseQuarantine, counters: Counters) -> None:
        self.store, self._counters = store, counters
        self.list = listing(store.list, _item, quarantine.FILTERS, {"status": get_args(QuarantineStatus)})

    async def item(self, request: Request) -> Response:
        """One item with its content and its audit trail."""
        item = await self._found(request)
        return json_answer(_item(item) | _content(item.content) | await _trail(self.store, item.id))

    async def content(self, request: Request) -> Response:
        """The content alone, byte for byte."""
        return download((await self._found(request)).content)

    async def approve(self, request: Request) -> Response:
        """Let it through from now on."""
        return await self._decide(request, "approved")

    async def reject(self, request: Request) -> Response:
        """Keep it out."""
        return await self._decide(request, "rejected")

    async def undo_last(self, request: Request) -> Response:
        """Take the last decision back."""
        body = await body_of(request, UndoBody)
        item = await self.undo(request.path_params["id"], body.by, body.version)
        return json_answer(_item(item) | await _trail(self.store, item.id))

    async def _decide(self, request: Request, status: QuarantineStatus) -> Response:
        item = await self.decide(request.path_params["id"], status, await body_of(request, DecisionBody))
        return json_answer(_item(item) | await _trail(self.store, item.id))

    async def decide(self, item_id: str, status: QuarantineStatus, body: DecisionBody) -> QuarantineItem:
        """Decide, as the API and the dashboard do. Raises `InvalidRequest`, `NotFound`, `Conflict`."""
        check_person(body.by, (POLICY,))
        before = require(await self.store.get(item_id, content=False), _PIECE)
        decided = await self.store.decide(item_id, status, by=body.by, reason=body.reason, scope=body.scope, version=body.version)
        if require(decided, _PIECE).version != before.version:
            self._counters.count(f"quarantine.{status}_count")
        return require(decided, _PIECE)

    async def undo(self, item_id: str, by: str, version: int) -> QuarantineItem:
        """Take the last decision back: what was decided before counts again. Raises as `decide` does, `Conflict` after another decision."""
        check_person(by, (POLICY,))
        said = _taken_back(await self.store.trail(item_id), (POLICY,), "decision")
        return require(await self.store.take_back(item_id, by=by, reason=said, version=version), _PIECE)

    async def _found(self, request: Request) -> QuarantineItem:
        return require(await self.store.get(request.path_params["id"]), _PIECE)


class ClashesApi:
    """The handlers of statements that contradict each other."""

    def __init__(self, store: DatabaseClashes, counters: Counters) -> None:
        self.store, self._counters = store, counters
        self.list = listing(store.list, _clash, clashes.FILTERS, {"status": get_args(ClashStatus)})

    async def item(self, request: Request) -> Response:
        """One clash with its audit trail."""
        return await self._answer(require(await self.store.get(request.path_params["id"]), _CLASH))

    async def resolve(self, request: Request) -> Response:
        """Decide what holds from now on."""
        return await self._answer(await self.decide(request.path_params["id"], await body_of(request, ResolutionBody)))

    async def undo_last(self, request: Request) -> Response:
        """Take the last resolution back."""
        body = await body_of(request, UndoBody)
        return await self._answer(await self.undo(request.path_params["id"], body.by, body.version))

    async def decide(self, record_id: str, body: ResolutionBody) -> ClashRecord:
        """Decide, as the API and the dashboard do. Raises `InvalidRequest`, `NotFound`, `Conflict`."""
        check_person(body.by, (POLICY, _USER))
        if (body.resolution == "merged") != bool(body.text.strip()):
            raise InvalidRequest("text: the statement that takes the place of both; with resolution merged, and only with it", param="text")
        before = require(await self.store.get(record_id), _CLASH)
        said = {"by": body.by, "reason": body.reason, "merged": body.text}
        resolved = require(await self.store.resolve(before.id, body.resolution, **said, version=body.version), _CLASH)
        if resolved.version != before.version:
            self._counters.count("clashes.operator_resolved_count")
        if body.version is not None and not _is_as_said(resolved, body):
            raise _resolved_since(resolved, body.version)
        return resolved

    async def undo(self, record_id: str, by: str, version: int) -> ClashRecord:
        """Take the last resolution back: what counted before counts again, unless that was a merged statement, whose text is gone.

        Raises `InvalidRequest`, `NotFound`, and `Conflict` after another resolution.
        """
        check_person(by, (POLICY, _USER))
        now, trail = require(await self.store.get(record_id), _CLASH), await self.store.trail(record_id)
        said = _taken_back(trail, (POLICY, _USER), "resolution")
        before = trail[-2].decision if len(trail) > 1 and trail[-2].decision in _AGAIN else "reopen"
        if now.version != version:
            raise _resolved_since(now, version)
        return require(await self.store.resolve(record_id, before, by=by, reason=said, version=version), _CLASH)

    async def _answer(self, record: ClashRecord) -> Response:
        return json_answer(_clash(record) | await _trail(self.store, record.id))


def _is_as_said(clash: ClashRecord, body: ResolutionBody) -> bool:
    """Whether this person has resolved it so, now or before."""
    said = ("dismissed", "") if body.resolution == "dismiss" else ("resolved", body.resolution)
    about = clean(body.by), clean(body.reason, MAX_REASON_CHARS), body.text
    return (clash.status, clash.resolution, clash.resolved_by, clash.reason, clash.merged) == (*said, *about)


def _resolved_since(clash: ClashRecord, version: int) -> Conflict:
    said = "it is open" if clash.status == "open" else f"{clash.resolved_by} has {clash.status} it since"
    return Conflict(f"{said}: it has version {clash.version}, not {version}", param="version")


def check_person(name: str, taken: Sequence[str]) -> None:
    """Raises `InvalidRequest` for a name under which the proxy itself decides."""
    if name.strip().lower() in taken:
        raise InvalidRequest(f"by: {name.strip()} is how the proxy signs what it decides itself; give a person's name", param="by")


def _taken_back(trail: Sequence[Decision], not_of: Sequence[str], what: str) -> str:
    """The words that take the last decision back. Raises `InvalidRequest` where no person has made one."""
    if not trail or trail[-1].decided_by in not_of:
        raise InvalidRequest(f"there is no {what} of a person to take back")
    return f"takes back: {trail[-1].decision} by {trail[-1].decided_by}"


async def _trail(store: DatabaseQuarantine | DatabaseClashes, row_id: str) -> dict[str, Any]:
    return {"decisions": [*map(_decision, await store.trail(row_id))]}


def _content(content: bytes) -> dict[str, Any]:
    try:
        return {"content": content.decode()}
    except UnicodeDecodeError:
        return {"content": None, "content_base64": base64.b64encode(content).decode()}
