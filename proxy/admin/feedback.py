"""``/groundwire/v1/feedback``: a person says that a finding is right or wrong, and what it should have been.

What the finding was is read from the record, never from the request: an entry cannot say of a stage what it has not said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from proxy.admin.answers import body_of, json_answer, listing, objects, require
from proxy.admin.decisions import Name, check_person
from proxy.errors import InvalidRequest, NotFound
from proxy.ports.review import POLICY
from proxy.store.decisions import MAX_REASON_CHARS
from proxy.store.feedback import FILTERS, DatabaseFeedback, Feedback, Said
from proxy.store.records import Record, Records

_object = objects("feedback")
LABELS = ("supported", "contradicted", "unsupported", "unsure", "not_checkable")
"""What a sentence's verdict can be said to have to be."""
OUTCOMES = ("pass", "warn", "block")
_KEPT = ("text", "label", "score", "contradiction", "evidence", "reason", "instead", "verifier", "decided_by")
"""Of a sentence's entry."""


class FeedbackBody(Struct, forbid_unknown_fields=True):
    """Which finding, and what is to be said of it."""

    record_id: str
    stage: str
    place: str
    """``CHOICE:START-END`` of a sentence, or the code of the stage's verdict."""
    said: Said
    expected: str = ""
    note: Annotated[str, Meta(max_length=MAX_REASON_CHARS)] = ""
    by: Name = "admin"


class FeedbackApi:
    """The handlers."""

    def __init__(self, store: DatabaseFeedback, records: Records) -> None:
        self._store, self._records = store, records
        self.list = listing(store.list, _object, FILTERS, {"said": ("right", "wrong")})

    async def add(self, request: Request) -> Response:
        """Say it."""
        return json_answer(_object(await self.say(await body_of(request, FeedbackBody))))

    async def of_record(self, record_id: str) -> dict[tuple[str, str], Feedback]:
        """What was said of an exchange, by stage and place."""
        return await self._store.of_record(record_id)

    async def say(self, body: FeedbackBody) -> Feedback:
        """Keep it, as the API and the dashboard do. Raises `InvalidRequest`, `NotFound`."""
        check_person(body.by, (POLICY,))
        record = require(await self._records.get(body.record_id), "record", "it may not be written yet, or be past its retention")
        label, content = _finding(record, body.stage, body.place)
        known = LABELS if "text" in content else OUTCOMES
        if body.expected and (body.expected not in known or body.expected == label):
            raise InvalidRequest(f"expected: one of {', '.join(one for one in known if one != label)}", param="expected")
        if body.said == "right" and body.expected:
            raise InvalidRequest("expected: only with said: wrong", param="expected")
        entry = Feedback(
            record_id=record.id,
            client=record.client,
            policy=record.policy,
            stage=body.stage,
            place=body.place,
            label=label,
            said=body.said,
            expected=body.expected,
            said_by=body.by,
            note=body.note,
            content=content,
        )
        return await self._store.put(entry)


def place_of(entry: Mapping[str, Any]) -> str:
    """Of a sentence's entry in a record."""
    start, end = entry["span"]
    return f"{entry.get('choice', 0)}:{start}-{end}"


def _finding(record: Record, stage: str, place: str) -> tuple[str, dict[str, Any]]:
    """What the stage said there. Raises `NotFound`."""
    verdicts = [verdict for verdict in record.found.verdicts if verdict.stage == stage]
    for verdict in reversed(verdicts):
        for entry in verdict.detail.get("claims") or ():
            if isinstance(entry, Mapping) and _has_span(entry) and place_of(entry) == place:
                return str(entry.get("label", "")), {"text": ""} | {name: entry[name] for name in _KEPT if name in entry}
    for verdict in reversed(verdicts):
        if (verdict.code or verdict.outcome) == place:
            told = {"code": verdict.code, "score": verdict.score, "message": verdict.message}
            return verdict.outcome, {name: value for name, value in told.items() if value not in (None, "")}
    raise NotFound("the record has no such finding: stage and place as the record gives them")


def _has_span(entry: Mapping[str, Any]) -> bool:
    span = entry.get("span")
    return isinstance(span, list) and len(span) == 2
