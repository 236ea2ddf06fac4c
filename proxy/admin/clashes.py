"""``/groundwire/v1/clashes``: statements that contradict each other, and how they were resolved.

A resolution counts from the run's next turn. A person may change any, the audit trail keeps them all.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from proxy.admin.answers import as_object, body_of, json_answer, listing
from proxy.admin.quarantine import Name, UndoBody, as_objects, check_person
from proxy.errors import Conflict, InvalidRequest, NotFound
from proxy.ports import Counters
from proxy.ports.review import POLICY, ClashRecord, ClashStatus
from proxy.store.clashes import FILTERS, DatabaseClashes
from proxy.store.decisions import MAX_REASON_CHARS

_USER = "user"
"""Signs what the client's user answered when asked."""
_MAX_MERGED_CHARS = 20_000
_AGAIN = ("keep_older", "keep_newer", "keep_both", "dismiss")


class ResolutionBody(Struct, forbid_unknown_fields=True):
    """What holds from now on, why, and who says so."""

    resolution: Literal["keep_older", "keep_newer", "keep_both", "merged", "dismiss"]
    """``dismiss``: they do not contradict each other."""
    text: Annotated[str, Meta(max_length=_MAX_MERGED_CHARS)] = ""
    """With ``merged``: the statement that takes the place of both."""
    reason: Annotated[str, Meta(max_length=MAX_REASON_CHARS)] = ""
    by: Name = "admin"


class ClashesApi:
    """The handlers."""

    def __init__(self, store: DatabaseClashes, counters: Counters) -> None:
        self._store, self._counters = store, counters
        self.list = listing(store.list, _object, FILTERS, {"status": get_args(ClashStatus)})

    async def item(self, request: Request) -> Response:
        """One clash with its audit trail."""
        return await self._answer(await self._store.get(request.path_params["id"]))

    async def resolve(self, request: Request) -> Response:
        """Decide what holds from now on."""
        return await self._answer(await self.decide(request.path_params["id"], await body_of(request, ResolutionBody)))

    async def decide(self, record_id: str, body: ResolutionBody) -> ClashRecord:
        """Decide, as the API and the dashboard do. Raises `InvalidRequest`, `NotFound`."""
        check_person(body.by, (POLICY, _USER))
        if (body.resolution == "merged") != bool(body.text.strip()):
            raise InvalidRequest("text: the statement that takes the place of both; with resolution merged, and only with it", param="text")
        before = await self._store.get(record_id)
        record = None
        if before is not None:
            record = await self._store.resolve(before.id, body.resolution, by=body.by, reason=body.reason, merged=body.text)
        if before is None or record is None:
            raise _missing()
        if record.version != before.version:
            self._counters.count("clashes.operator_resolved_count")
        return record

    async def undo(self, record_id: str, by: str, version: int) -> ClashRecord:
        """Take the last resolution back: what counted before counts again, unless that was a merged statement, whose text is gone.

        Raises `InvalidRequest`, `NotFound`, and `Conflict` after another resolution.
        """
        check_person(by, (POLICY, _USER))
        now, trail = await self._store.get(record_id), await self._store.trail(record_id)
        if now is None:
            raise _missing()
        if not trail or trail[-1].decided_by in (POLICY, _USER):
            raise InvalidRequest("there is no resolution of a person to take back")
        before = trail[-2].decision if len(trail) > 1 and trail[-2].decision in _AGAIN else "reopen"
        said = f"takes back: {trail[-1].decision} by {trail[-1].decided_by}"
        if now.version != version:
            raise Conflict(f"somebody has resolved it since: it has version {now.version}, not {version}", param="version")
        found = await self._store.resolve(record_id, before, by=by, reason=said, version=version)
        if found is None:
            raise _missing()
        return found

    async def undone(self, request: Request) -> Response:
        """Take the last resolution back."""
        body = await body_of(request, UndoBody)
        return await self._answer(await self.undo(request.path_params["id"], body.by, body.version))

    async def _answer(self, record: ClashRecord | None) -> Response:
        if record is None:
            raise _missing()
        return json_answer(_object(record) | {"decisions": as_objects(await self._store.trail(record.id))})


def _object(record: ClashRecord) -> dict[str, Any]:
    return as_object("clash", record)


def _missing() -> NotFound:
    return NotFound("no such clash; it may be past its retention")
