"""``/groundwire/v1/feedback`` and ``…/review``: what people say of findings, and those on which nobody has said anything yet.

What a finding was that somebody calls right or wrong is read from the record, never from the request: an entry cannot say of a stage what
it has not said. `ReviewQueue` looks through the newest exchanges that were flagged or left undecided; where the record has no words
(``store.texts``), there is nothing that a person could judge, and it counts these apart.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import RowMapping
from starlette.requests import Request
from starlette.responses import Response

from proxy.admin.access import body_of, json_answer, limit_in, listing, objects, require
from proxy.admin.decisions import Name, check_person
from proxy.admin.verdicts import ListedClaim
from proxy.errors import InvalidRequest, NotFound
from proxy.ports import Counters
from proxy.ports.review import POLICY
from proxy.stages.registry import HOUSEKEEPING
from proxy.store import feedback
from proxy.store.feedback import FLAGGED, REVIEWED, DatabaseFeedback, Feedback, Said, entry_id
from proxy.store.listing import MAX_REASON_CHARS
from proxy.store.records import Record, RecordDetail, Records, RecordTexts, RecordVerdict, from_row

LABELS = ("supported", "contradicted", "unsupported", "unsure", "not_checkable")
"""What a sentence's verdict can be said to have to be."""
OUTCOMES = ("pass", "warn", "block")
_KEPT = ("text", "label", "score", "contradiction", "evidence", "reason", "instead", "verifier", "decided_by")
"""Of a sentence's entry."""
Order = Literal["newest", "unsure"]
ORDERS: tuple[Order, ...] = ("newest", "unsure")
"""The newest exchange first, or the least certain finding of `MAX_SORTED` first, the newest ones unless it is said where to begin."""
MAX_SORTED = 500
_AT_ONCE, _MANY_AT_ONCE, _MAX_LOOKED = 100, 700, 5000
"""Exchanges read at first, then at a time, and for one list: those without words, and those that only look like one with a finding, are
passed over."""


class Finding(Struct, frozen=True, kw_only=True):
    """What a stage said of an exchange, on which a person can say something."""

    id: str
    """The exchange's, a point, and the place among its findings."""
    record_id: str
    created_at: float
    """Of the exchange, in seconds since the epoch."""
    client: str
    policy: str
    model: str
    stage: str
    place: str
    """``CHOICE:START-END`` of a sentence of the answer, or the code of the stage's verdict."""
    label: str
    """What the stage said: ``contradicted``, ``unsupported``, ``unsure``, ``warn``, ``block``."""
    question: str = ""
    """First words of the last user message, where ``store.bodies`` keeps them."""
    answer: str = ""
    """Likewise of the answer."""
    content: Mapping[str, Any] = {}
    """The finding as the record has it: text, evidence, score, reason; of a verdict its code, score and message."""

    @property
    def is_sentence(self) -> bool:
        """Or else a stage's verdict."""
        return "text" in self.content

    @property
    def sentence(self) -> ListedClaim:
        """Its entry, as much as fits."""
        return RecordVerdict(detail=dict(self.content)).noted(ListedClaim)

    @property
    def certainty(self) -> float:
        """0 to 0.5: how far its score is from telling nothing; without one a flag is sure, and what is unsure is not."""
        score = self.content.get("score")
        if isinstance(score, int | float):
            return min(abs(score - 0.5), 0.5)
        return 0.0 if self.label == "unsure" else 0.5


def findings(record: Record, detail: RecordTexts | None = None) -> list[Finding]:
    """All of them, also those that found nothing wrong; of several attempts at an answer the last one's.

    `detail` is the record's, where it has been read already.
    """
    found = {(stage, place): (label, content) for stage, place, label, content in _said_in(detail or record.typed_detail)}
    own = {name: getattr(record, name) for name in ("created_at", "client", "policy", "model", "question", "answer")}
    return [
        Finding(id=f"{record.id}.{number}", record_id=record.id, stage=stage, place=place, label=label, content=content, **own)
        for number, ((stage, place), (label, content)) in enumerate(found.items())
    ]


def to_review(record: Record, detail: RecordTexts | None = None) -> list[Finding]:
    """Those on which a person is asked: sentences that were flagged or left undecided, verdicts that warn or refuse for another reason.

    Of housekeeping nobody is asked: it says nothing that a person could call wrong.
    """
    found = findings(record, detail)
    with_sentences = {one.stage for one in found if one.is_sentence}

    def is_asked(one: Finding) -> bool:
        if one.is_sentence:
            return one.label in REVIEWED
        return one.label in FLAGGED and one.stage not in with_sentences and one.place not in HOUSEKEEPING

    return [one for one in found if is_asked(one)]


def _said_in(detail: RecordDetail) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Stage, place, label and content."""
    for verdict in detail.verdicts:
        for entry in verdict.detail.get("claims") or ():
            if isinstance(entry, Mapping) and isinstance(span := entry.get("span"), list) and len(span) == 2:
                kept = {"text": ""} | {name: entry[name] for name in _KEPT if name in entry}
                yield verdict.stage, place_of(entry), str(entry.get("label", "")), kept
        content = {"code": verdict.code, "score": verdict.score, "message": verdict.message}
        kept = {name: value for name, value in content.items() if value not in (None, "")}
        yield verdict.stage, verdict.code or verdict.outcome, verdict.outcome, kept


def place_of(entry: Mapping[str, Any]) -> str:
    """Of a sentence's entry in a record."""
    start, end = entry["span"]
    return f"{entry.get('choice', 0)}:{start}-{end}"


class FeedbackBody(Struct, forbid_unknown_fields=True):
    """Which finding, and what is to be said of it."""

    record_id: str
    stage: str
    place: str
    """``CHOICE:START-END`` of a sentence, or the code of the stage's verdict."""
    said: Said
    expected: str = ""
    """What it should have been, with ``said: wrong``: of a sentence ``supported``, ``contradicted``, ``unsupported``, ``unsure`` or
    ``not_checkable``, else a verdict."""
    note: Annotated[str, Meta(max_length=MAX_REASON_CHARS)] = ""
    by: Name = "admin"
    version: Annotated[int, Meta(ge=0)] | None = None
    """That of the entry that the person saw, 0 for none: refused (409) if somebody has said something else since. Without it the last one
    counts."""


class TakeBackBody(Struct, forbid_unknown_fields=True):
    """Which entry: one that was made since is not taken back with it."""

    version: Annotated[int, Meta(ge=0)]


class ReviewPage(Struct, frozen=True):
    """A part of the queue."""

    findings: Sequence[Finding]
    more: bool
    without_words: int = 0
    """Exchanges that were passed over as their record has no words."""
    further: str = ""
    """Where one list has looked through or sorted as much as it may: what to go on behind, in the order of time."""


class FeedbackApi:
    """The handlers."""

    def __init__(self, store: DatabaseFeedback, records: Records, counters: Counters) -> None:
        self.store, self._records, self._counters = store, records, counters
        self.list = listing(store.list, _feedback, feedback.FILTERS, {"said": ("right", "wrong")})

    async def add(self, request: Request) -> Response:
        """Say it."""
        return json_answer(_feedback(await self.say(await body_of(request, FeedbackBody))))

    async def undo(self, request: Request) -> Response:
        """Take it back: then it waits again."""
        body = await body_of(request, TakeBackBody)
        return json_answer(_feedback(await self.take_back(request.path_params["id"], body.version)))

    async def review(self, request: Request) -> Response:
        """What waits."""
        query = request.query_params
        order = query.get("order", ORDERS[0])
        if order not in ORDERS:
            raise InvalidRequest(f"order: expected one of {', '.join(ORDERS)}", param="order")
        found = await self.waiting(limit_in(query), query.get("after", ""), stage=query.get("stage", ""), order=order)
        return json_answer({"object": "list", "data": [_finding(one) for one in found.findings], "has_more": found.more})

    async def say(self, body: FeedbackBody) -> Feedback:
        """Keep it, as the API and the dashboard do. Raises `InvalidRequest`, `NotFound`, `Conflict`."""
        check_person(body.by, (POLICY,))
        record = require(await self._records.get(body.record_id), "record", "it may not be written yet, or be past its retention")
        there, asked = {(one.stage, one.place): one for one in findings(record)}, to_review(record)
        finding = there.get((body.stage, body.place))
        if finding is None:
            raise NotFound("the record has no such finding: stage and place as the record gives them")
        known = LABELS if finding.is_sentence else OUTCOMES
        if body.expected and (body.expected not in known or body.expected == finding.label):
            raise InvalidRequest(f"expected: one of {', '.join(one for one in known if one != finding.label)}", param="expected")
        if body.said == "right" and body.expected:
            raise InvalidRequest("expected: only with said: wrong", param="expected")
        entry = Feedback(
            record_id=record.id,
            client=record.client,
            policy=record.policy,
            stage=body.stage,
            place=body.place,
            label=finding.label,
            said=body.said,
            expected=body.expected,
            said_by=body.by,
            note=body.note,
            content=finding.content,
            record_findings=len(asked) if any(one.id == finding.id for one in asked) else 0,
        )
        before = {one.id: one.said for one in await self.store.of_records([record.id])}
        kept = await self.store.put(entry, body.version)
        if before.get(kept.id) != kept.said:
            self._counters.count(f"feedback.{kept.said}_count")
        return kept

    async def take_back(self, entry: str, version: int) -> Feedback:
        """Raises `NotFound`, and `Conflict` where somebody has said something else since."""
        found = require(await self.store.take_back(entry, version), "entry", "it may have been taken back already")
        self._counters.count("feedback.taken_back_count")
        return found

    async def waiting(self, limit: int, after: str = "", *, stage: str = "", order: str = "newest", back: str = "") -> ReviewPage:
        """Findings on which nobody has said anything, behind the one whose id is `after`: nothing follows one that is not there any more.

        Where they are sorted, these are the `MAX_SORTED` behind the one whose id is `back`, in the order of time. Raises
        `StoreUnavailable`.
        """
        if order == "newest":
            return await self._look(limit, after, stage)
        last = await self._finding_of(after) if after else None
        if after and last is None:
            return ReviewPage((), more=False)
        found = await self._look(MAX_SORTED, back, stage)
        behind = [one for one in sorted(found.findings, key=_by_certainty) if last is None or _by_certainty(one) > _by_certainty(last)]
        further = found.findings[-1].id if found.more else found.further
        return ReviewPage(behind[:limit], len(behind) > limit, found.without_words, further)

    async def one(self, name: str) -> Finding | None:
        """The finding of this id, if it waits."""
        found = await self._finding_of(name)
        return next(iter(await self._undecided([found] if found is not None else [])), None)

    async def _finding_of(self, name: str) -> Finding | None:
        return next((one for one in await self._of_record(name.rpartition(".")[0]) if one.id == name), None)

    async def _of_record(self, record_id: str) -> list[Finding]:
        record = await self._records.get(record_id, bodies=False)
        return to_review(record) if record is not None and record.typed_detail.texts else []

    async def _look(self, limit: int, after: str, stage: str) -> ReviewPage:
        """The newest first. A record that `after` is of can have more behind it."""
        found, without_words, looked, more = list[Finding](), 0, 0, True
        last = after.rpartition(".")[0] if after else None
        if last:
            rest = [one for one in await self._of_record(last) if _number(one.id) > _number(after)]
            found = await self._undecided([one for one in rest if stage in ("", one.stage)])
        while more and len(found) <= limit and looked < _MAX_LOOKED:
            rows, more = await self.store.records_to_review(_MANY_AT_ONCE if looked else _AT_ONCE, last)
            some, wordless = await asyncio.to_thread(_read, rows, stage)
            found += await self._undecided([one for one in some if stage in ("", one.stage)])
            without_words, looked, last = without_words + wordless, looked + len(rows), rows[-1]["id"] if rows else last
        further = f"{last}." if more and len(found) <= limit else ""
        return ReviewPage(found[:limit], len(found) > limit, without_words, further)

    async def _undecided(self, some: Sequence[Finding]) -> list[Finding]:
        said = {entry.id for entry in await self.store.of_records({one.record_id for one in some})} if some else set()
        return [one for one in some if entry_id(one.record_id, one.stage, one.place) not in said]


class _Noted(Struct, frozen=True):
    claims: Sequence[Any] = ()


class _Verdict(Struct, frozen=True):
    stage: str = ""
    outcome: str = ""
    detail: _Noted = _Noted()


class _Verdicts(Struct, frozen=True):
    verdicts: Sequence[_Verdict] = ()


_decode = msgspec.json.Decoder(_Verdicts).decode


def _may_have(stored: bytes, stage: str) -> bool:
    """Whether a stored detail can have findings of the stage: in a fraction of the time that it takes to read them."""
    try:
        said = [one for one in _decode(stored).verdicts if one.stage == stage]
    except msgspec.DecodeError:  # another version's
        return True
    return any(one.outcome in FLAGGED or one.detail.claims for one in said)


def _read(rows: Sequence[RowMapping], stage: str) -> tuple[list[Finding], int]:
    """Findings of these exchanges that may be the stage's ("" for every stage), and how many of them have no words."""
    found, without_words = list[Finding](), 0
    for record in (from_row(row) for row in rows if not stage or _may_have(bytes(row["detail"]), stage)):
        detail = record.typed_detail
        some = to_review(record, detail)
        if detail.texts:
            found += some
        else:
            without_words += bool(some)
    return found, without_words


def _number(name: str) -> float:
    """The place of a finding among its record's, of its id; behind them all where the id has none."""
    place = name.rpartition(".")[2]
    return float(place) if place.isdecimal() else math.inf


def _by_certainty(finding: Finding) -> tuple[float, float, str]:
    return finding.certainty, -finding.created_at, finding.id


_feedback, _finding = objects("feedback"), objects("review_item")
