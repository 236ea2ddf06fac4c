"""The record of one exchange, and reading records back for ``/groundwire/v1/records``.

`proxy.app` makes a `Record` when an exchange ends and hands it to `proxy.store.writer`; `Records` reads what the writer still holds
and what the database has. Ids are time-ordered, so that newest first is id descending.

What a record says of its exchange beside its columns is one type, `RecordDetail`, which `proxy.observe.recording` writes and everyone else
reads. It is stored as a JSON object without what is empty. Another version may have written it: `read` takes what it understands and leaves
out the rest, so that a page or a line can still be shown; `decode` is quicker and takes all or nothing, for those who count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import UnionType
from typing import Any, Protocol, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, UnsetType, field
from sqlalchemy import Select, func, or_, select

from proxy.exchange import Facts, warning_codes
from proxy.language.text import whole_characters
from proxy.store.database import Database
from proxy.store.masking import mask_body, mask_json, may_hold_secrets
from proxy.store.tables import MAX_TEXT_CHARS, clean
from proxy.store.tables import records as table

Json = Mapping[str, Any]
D = TypeVar("D", bound="RecordDetail")
T = TypeVar("T")


class RecordError(Struct, frozen=True):
    """The error that ended an exchange."""

    code: str = ""
    param: str | None = None
    message: str = ""


class RecordVerdict(Struct, frozen=True, omit_defaults=True):
    """What a stage found: a `proxy.exchange.Verdict` without the text that it put in a sentence's place."""

    stage: str = ""
    outcome: str = ""
    code: str = ""
    score: float | None = None
    message: str = ""
    would: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    def noted(self, kind: type[T]) -> T:
        """Its detail as a struct, whose fields have defaults: what is missing or of another shape is left out."""
        return _fitting(self.detail, kind) or kind()


class RecordUsage(Struct, frozen=True):
    """Tokens as the upstream counted them, or as this proxy did where the upstream did not say, or broke off."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    estimated: bool | UnsetType = UNSET
    """True where the proxy has counted them."""


class RecordAttempt(Struct, frozen=True, omit_defaults=True):
    """One of several upstream answers: what it took, and what the stages found of one that did not leave."""

    delivered: bool
    upstream: str
    ms: float
    characters: list[int]
    """Of each choice's text."""
    usage: RecordUsage | None = None
    verdicts: list[RecordVerdict] = field(default_factory=list)


class RecordDetail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it, but for what a stage changed of the texts."""

    overhead_ms: float | None = None
    """What the proxy added before the upstream's last byte."""
    error: RecordError | None = None
    attempts: int = 1
    """Calls that upstreams got."""
    asked_in: str = ""
    """The API in which the upstream was asked, where that is not the client's: the request was translated, and the answer back."""
    keys: str = ""
    """Version of the keys and limits that counted for it, as in ``/ready``; "" where clients need none."""
    enforced: bool = True
    """False in shadow mode."""
    texts: bool = True
    """False where ``store.texts`` keeps no words of it."""
    verdicts: list[RecordVerdict] = field(default_factory=list)
    facts: Facts | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    """As `proxy.exchange.Exchange.timings`."""
    changes: list[Json] = field(default_factory=list)
    """What each stage changed: ``{"stage", "what", ...}``."""
    skip: list[str] = field(default_factory=list)
    """Stages that the client left out."""
    usage: RecordUsage | None = None
    """Of all upstream answers together."""
    answers: list[RecordAttempt] = field(default_factory=list)
    """Where there were several."""
    finish_reasons: list[str | None] | None = None
    """Of each choice."""

    @property
    def warnings(self) -> list[str]:
        """As `proxy.exchange.Exchange.warnings`."""
        return warning_codes(self.verdicts)


class RecordTexts(RecordDetail, frozen=True, kw_only=True, omit_defaults=True):
    """With what a stage changed of the texts, where ``store.bodies`` keeps them; secrets are masked."""

    forwarded: Json | None = None
    """``{"messages", "tools"}`` as they went upstream."""
    delivered: list[Json] | None = None
    """The choices as the client got them."""
    answer_texts: list[list[str]] | None = None
    """Of each upstream answer, the texts of its choices."""


decode = msgspec.json.Decoder(RecordDetail).decode
"""Stored JSON -> `RecordDetail`. Raises `msgspec.DecodeError`, `UnicodeDecodeError`."""


def read(stored: Any, kind: type[D]) -> D:
    """A detail from what JSON gave (or another detail), as much as fits."""
    return _fitting(stored, kind) or kind()


def _fitting(value: Any, kind: Any) -> Any:
    """`value` as a `kind`, without those of its parts that are of another shape; None where nothing of it fits."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(value, kind, from_attributes=True)
    for part in get_args(kind) if isinstance(kind, UnionType) else (kind,):
        if isinstance(value, list) and get_origin(part) is list:
            return [found for one in value if (found := _fitting(one, get_args(part)[0])) is not None]
        if isinstance(value, Mapping) and isinstance(part, type) and issubclass(part, Struct):
            fields = {f.name: _fitting(value[f.name], f.type) for f in msgspec.structs.fields(part) if f.name in value}
            with suppress(TypeError):
                return part(**{name: found for name, found in fields.items() if found is not None})
    return None


MAX_LIST = 1000
PENDING, INTERRUPTED = "pending", "interrupted"
"""Outcomes of an exchange that goes on, and of one whose process ended before it did."""
NOTHING = "nothing"
MAX_REASON_CHARS = 64
_TIME_CHARS = 17
"""Of an id, up to the end of its time."""
_ROW_BYTES = 650
"""What a row costs beside its detail and bodies: columns and index entries, measured on SQLite with common values."""
_MAX_INT = 2**63 - 1


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange, as it is stored."""

    id: str
    """Time-ordered, unique; also ``x-groundwire-id``."""
    created_at: float
    """Seconds since the epoch at which the request came."""
    client: str
    route: str
    policy: str
    """``NAME@hash8``."""
    upstream: str
    model: str
    run_id: str = ""
    step_id: str = ""
    path: str
    """Path of the request below the route's prefix."""
    status: int
    """HTTP status of the answer."""
    outcome: str
    """The verdict, as in ``x-groundwire-verdict``; or `PENDING`, and then `reason` names the process that serves it, or `INTERRUPTED`."""
    stream: bool = False
    duration_ms: float = 0.0
    """From the request's first byte to the answer's last."""
    prompt_tokens_before: int | None = None
    """As the client sent it."""
    prompt_tokens: int | None = None
    """As sent upstream."""
    completion_tokens: int | None = None
    detail: Any = msgspec.field(default_factory=RecordDetail)
    """Verdicts, facts, timings, changes, usage, error: a `RecordDetail`, encoded off the event loop, so it must not be changed after
    `RecordWriter.submit`. Of a record that was read, the JSON object as whatever version has written it; see `typed_detail`."""
    request_body: bytes | None = None
    """The request's bytes; only where ``store.bodies`` allows it. Masked before it is stored."""
    answer_body: bytes | None = None
    """The answer's body, a stream's put together; only where ``store.bodies`` allows it. Masked before it is stored."""
    reason: str = ""
    """The code of what decided the outcome: ``hallucination_detected``, ``upstream_502``; empty where nothing was wrong."""
    would: str = ""
    """In shadow mode the gravest thing that the policy would have done, `NOTHING` where that is nothing; empty where it is enforced."""
    overhead_ms: float | None = None
    """Of `duration_ms`, what the proxy added."""
    cost_usd: float | None = None
    """By the list of prices; None where a price is not known, or nobody answered."""
    question: str = ""
    """First words of the last user message, secrets masked; only where ``store.bodies`` allows it."""
    answer: str = ""
    """First words of the answer, likewise."""

    @property
    def typed_detail(self) -> RecordTexts:
        """Its detail, as much of it as this version understands."""
        return read(self.detail, RecordTexts)


class Pending(Protocol):
    """Who may hold records that are not in the database yet."""

    def pending(self, record_id: str) -> Record | None:
        """The record as submitted, or None."""

    async def begun(self, record_id: str) -> Record | None:
        """What is known of an exchange that goes on in another process and has no row yet."""


_DETAIL_AT = Record.__struct_fields__.index("detail")
_TEXTS = ("id", "client", "route", "policy", "upstream", "model", "run_id", "step_id", "path", "outcome")
_LISTED = [column for column in table.columns if column.name not in ("size_bytes", "request_body", "answer_body")]
_WHOLE = [column for column in table.columns if column.name != "size_bytes"]


def _other(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


_encoder = msgspec.json.Encoder(enc_hook=_other)


def plain(detail: RecordDetail) -> dict[str, Any]:
    """As it is stored, in JSON's types."""
    found: dict[str, Any] = msgspec.to_builtins(detail, enc_hook=_other)
    return found


def to_row(record: Record, detail: bytes | None = None) -> tuple[Any, ...]:
    """Values in the order of the table's columns: detail as JSON, secrets masked, text that both databases take.

    `detail` is what `details_of` has made of the record's.
    """
    if detail is None:
        detail = _encoded(record.detail)
    request, answer = record.request_body, record.answer_body
    if request is not None:
        request = mask_body(request)
    if answer is not None:
        answer = mask_body(answer)
    # Only these come from clients; the others are this server's own words.
    foreign = record.model + record.run_id + record.step_id + record.path
    if len(foreign) > MAX_TEXT_CHARS or not foreign.isprintable():
        record = msgspec.structs.replace(record, **{name: clean(getattr(record, name)) for name in _TEXTS})
    values = msgspec.structs.astuple(record)  # in the table's order, but that a size stands before the detail
    size = _ROW_BYTES + len(detail) + len(request or b"") + len(answer or b"")
    reason, question, said = clean(record.reason, MAX_REASON_CHARS), clean(record.question), clean(record.answer)
    return *values[:_DETAIL_AT], size, detail, request, answer, reason, *values[_DETAIL_AT + 4 : -2], question, said


def careful_row(record: Record) -> tuple[Any, ...]:
    """As `to_row`, for a record that the database refused: every text cleaned, numbers beyond 64 bits dropped."""
    counts = ("prompt_tokens_before", "prompt_tokens", "completion_tokens")
    fits = {name: value if isinstance(value := getattr(record, name), int) and abs(value) <= _MAX_INT else None for name in counts}
    return to_row(msgspec.structs.replace(record, **fits, **{name: clean(str(getattr(record, name))) for name in _TEXTS}))


def details_of(records: Sequence[Record]) -> list[bytes]:
    """The details as JSON, secrets masked: searched for them together, and one by one only where there may be some."""
    try:
        encoded = [one.detail if isinstance(one.detail, bytes) else _encoder.encode(one.detail) for one in records]
    except (UnicodeError, TypeError, ValueError, RecursionError):
        return [_encoded(record.detail) for record in records]
    return [_encoded(record.detail) for record in records] if may_hold_secrets(b"\n".join(encoded)) else encoded


def _encoded(detail: Any) -> bytes:
    if isinstance(detail, bytes):
        return mask_json(detail)
    try:
        return mask_json(_encoder.encode(detail))
    except (UnicodeError, TypeError, ValueError, RecursionError):
        try:
            return mask_json(_encoder.encode(_tidy(detail, 0)))
        except Exception as error:  # a record without its detail is better than none
            return _encoder.encode({"error": {"message": f"the detail cannot be written as JSON: {type(error).__name__}"}})


def _tidy(value: Any, depth: int) -> Any:
    """`value` as plain JSON types without lone surrogates, cut below 100 levels."""
    if isinstance(value, str):
        return whole_characters(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth > 100:
        return "…"
    if isinstance(value, Mapping):
        return {_tidy(str(key), depth): _tidy(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_tidy(item, depth + 1) for item in value]
    try:
        return _tidy(msgspec.to_builtins(value, enc_hook=_other), depth + 1)
    except (TypeError, ValueError, UnicodeError):
        return _tidy(str(value), depth)


class Records:
    """Reads records."""

    def __init__(self, database: Database, writer: Pending | None = None, *, lists: Database | None = None) -> None:
        """`writer` is this worker's, for what is not in the database yet; `lists` is where several are read, if that is elsewhere."""
        self._database, self._lists = database, lists or database
        self._writer = writer

    async def get(self, record_id: str, *, bodies: bool = True) -> Record | None:
        """The record, its detail decoded, whole or without its `bodies`. Raises `StoreUnavailable`."""
        waiting = self._writer.pending(record_id) if self._writer is not None else None
        if waiting is not None:
            return _as_stored(waiting, bodies=bodies)
        found = await self._stored(record_id, bodies=bodies)
        if found is not None or self._writer is None or not self._database.is_sqlite:
            return found
        if begun := await self._writer.begun(record_id):
            return _as_stored(begun, bodies=bodies)
        return await self._stored(record_id, bodies=bodies)  # it may have moved from a killed process's journal into the table meanwhile

    async def _stored(self, record_id: str, *, bodies: bool) -> Record | None:
        query = select(*(_WHOLE if bodies else _LISTED)).where(table.c.id == clean(record_id))
        row = next(iter(await self._database.mappings(query)), None)
        return from_row(row) if row is not None else None

    async def ids(self, since: float, limit: int) -> list[str]:
        """Ids of the newest exchanges that are over and whose request came at `since` or later, newest first. Raises `StoreUnavailable`."""
        over = select(table.c.id).where(table.c.created_at >= since, table.c.outcome != PENDING)
        query = over.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit)
        return [name for (name,) in await self._lists.rows(query)]

    async def these(self, ids: Sequence[str]) -> list[Record]:
        """The records of these ids (some hundred at most), without bodies, newest first. Raises `StoreUnavailable`."""
        if not ids:
            return []
        query = select(*_LISTED).where(table.c.id.in_(list(ids))).order_by(table.c.id.desc())
        rows = await self._lists.mappings(query)
        return [from_row(row) for row in rows]

    async def list(
        self,
        limit: int = 20,
        after: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        answers: bool = False,
        **filters: str | None,
    ) -> tuple[list[Record], bool]:
        """Newest first, without bodies but for `answers`, and whether there are more.

        `after` is the id of the last record already seen, whether or not it still exists; `filters` are columns, `since` (inclusive) and
        `until` (exclusive) are seconds since the epoch; `limit` is held between 1 and 1000. What is still in a worker's queue, a quarter of
        a second's worth, is not listed, nor is what goes on, but with the filter ``outcome="pending"``. Raises `StoreUnavailable`.
        """
        limit = min(max(limit, 1), MAX_LIST)
        columns = [*_LISTED, table.c.answer_body] if answers else _LISTED
        query: Select[Any] = select(*columns).order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit + 1)
        if filters.get("outcome") is None:
            query = query.where(table.c.outcome != PENDING)
        for name, wanted in filters.items():
            if wanted is not None:
                query = query.where(table.c[name] == clean(wanted))
        if after is not None:
            # The first condition is where an index can begin, and holds for all that the second lets through. An id of a process that did
            # not know the store's clock yet says another time than its record.
            there = select(table.c.created_at).where(table.c.id == clean(after)).scalar_subquery()
            further = or_(table.c.created_at < there, table.c.id < clean(after))
            query = query.where(table.c.created_at <= func.coalesce(there, time_of(after)), further)
        if since is not None:
            query = query.where(table.c.created_at >= since)
        if until is not None:
            query = query.where(table.c.created_at < until)
        rows = await self._lists.mappings(query)
        return [from_row(row) for row in rows[:limit]], len(rows) > limit


def time_of(record_id: str) -> float:
    """The end of the millisecond in which an exchange came, by its id (`proxy.server.handler.new_id`); without end for another id."""
    try:
        return int(record_id[3:17], 16) / 1e6 + 0.001 if len(record_id) > _TIME_CHARS else math.inf
    except ValueError:
        return math.inf


def _as_stored(record: Record, *, bodies: bool) -> Record:
    if not bodies:
        record = msgspec.structs.replace(record, request_body=None, answer_body=None)
    names = [column.name for column in table.columns]
    return from_row({name: value for name, value in zip(names, to_row(record), strict=True) if name != "size_bytes"})


def from_row(row: Mapping[str, Any] | Any) -> Record:
    """A record from its columns, with or without bodies."""
    return Record(**{**row, "stream": bool(row["stream"]), "detail": msgspec.json.decode(row["detail"])})
