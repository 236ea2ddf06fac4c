"""``/groundwire/v1/failures``: what went wrong in agents' runs, with every revision, and what a person says of it.

A record is never edited: a status that a person sets, or a word on whether guidance helped, makes a revision, and counts from the run's
next turn. With an ``idempotency-key`` header, a request that is sent again is not counted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from proxy.admin.access import body_of, json_answer, listing, objects, require
from proxy.admin.decisions import Name, check_person
from proxy.errors import InvalidRequest
from proxy.ports import Counters, FailureRecord
from proxy.ports.failures import POLICY, SEVERITIES, SIGNAL_TYPES, STATUSES, Status
from proxy.store.failures import FILTERS, DatabaseFailures, FailureRevision
from proxy.store.listing import MAX_REASON_CHARS

_fields = objects("failure")
_MAX_KEY_CHARS = 200
_SHOWN_OF_A_RUN = 500
_KNOWN = {"status": STATUSES, "signal_type": SIGNAL_TYPES, "severity": SEVERITIES}
Reason = Annotated[str, Meta(max_length=MAX_REASON_CHARS)]


class StatusBody(Struct, forbid_unknown_fields=True):
    """Which status it has from now on, why, and who says so."""

    status: Status = "resolved"
    """``superseded``: another record says it better; ``active``: it is open again."""
    reason: Reason = ""
    by: Name = "admin"


class GuidanceBody(Struct, forbid_unknown_fields=True):
    """Whether guidance about it helped the agent."""

    helpful: bool
    reason: Reason = ""
    by: Name = "admin"


class FailuresApi:
    """The handlers."""

    def __init__(self, store: DatabaseFailures, counters: Counters) -> None:
        self._store, self._counters = store, counters
        self.list = listing(store.list, _object, FILTERS, _KNOWN)

    async def item(self, request: Request) -> Response:
        """One record."""
        return json_answer(_object(await self._get(request.path_params["id"])))

    async def revisions(self, request: Request) -> Response:
        """A record's revisions, the latest first; also those of a record that is past its retention itself."""
        failure = request.path_params["id"]

        async def read(limit: int, after: str | None) -> tuple[Sequence[FailureRevision], bool]:
            found, has_more = await self._store.revisions(failure, limit, after)
            if not found and after is None:
                await self._get(failure)
            return found, has_more

        return await listing(read, lambda one: _object(one.record) | {"object": "failure.revision", "id": one.id})(request)

    async def resolve(self, request: Request) -> Response:
        """Set its status."""
        return json_answer(await self.set_status(request.path_params["id"], await body_of(request, StatusBody), _key(request)))

    async def feedback(self, request: Request) -> Response:
        """Count it as helpful or as harmful."""
        return json_answer(await self.count_guidance(request.path_params["id"], await body_of(request, GuidanceBody), _key(request)))

    # ---- for the dashboard, too ----

    async def some(self, limit: int, after: str | None, **filters: str | None) -> tuple[Sequence[Mapping[str, Any]], bool]:
        """Records as objects, newest first, and whether there are more."""
        records, more = await self._store.list(limit, after, **filters)
        return [_object(record) for record in records], more

    async def of_run(self, run_id: str) -> Sequence[Mapping[str, Any]]:
        """A run's records as objects, newest first."""
        return (await self.some(_SHOWN_OF_A_RUN, None, run_id=run_id))[0]

    async def set_status(self, failure: str, body: StatusBody, cause: str = "") -> dict[str, Any]:
        """Raises `InvalidRequest`, `NotFound`."""
        before = await self._get(failure, body.by)
        after = await self._store.resolve(before.id, body.status, by=body.by, reason=body.reason, cause=cause)
        return self._changed("failures.operator_resolved_count", before, after)

    async def count_guidance(self, failure: str, body: GuidanceBody, cause: str = "") -> dict[str, Any]:
        """Raises `InvalidRequest`, `NotFound`."""
        before = await self._get(failure, body.by)
        after = await self._store.feedback(before.id, body.helpful, by=body.by, reason=body.reason, cause=cause)
        return self._changed("failures.operator_feedback_count", before, after)

    async def _get(self, failure: str, by: str = "admin") -> FailureRecord:
        check_person(by, (POLICY,))
        return require(await self._store.get(failure), "failure")

    def _changed(self, counter: str, before: FailureRecord, after: FailureRecord | None) -> dict[str, Any]:
        if require(after, "failure").revision != before.revision:
            self._counters.count(counter)
        return _object(require(after, "failure"))


def _object(record: FailureRecord) -> dict[str, Any]:
    return {"object": "failure", "id": record.id, "failure_id": record.id} | _fields(record)


def _key(request: Request) -> str:
    key: str = request.headers.get("idempotency-key", "")
    if len(key) > _MAX_KEY_CHARS:
        raise InvalidRequest(f"idempotency-key: at most {_MAX_KEY_CHARS} characters", param="idempotency-key")
    return key
