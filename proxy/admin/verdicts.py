"""``GET /groundwire/v1/verdicts/{id}?wait_ms=``: what was found of one exchange, for the client whose it was, or the operator.

A streamed answer leaves before its checks are done, and its headers with it: a client asks here for what they could not tell yet. An
exchange of this process wakes whoever waits for its record; one of another worker is looked for in the store, at growing pauses.

A record is given as what its client may know of it: verdict, scores, statements with their places, warnings, and each stage's word.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response

from proxy.admin.access import AdminAuth, json_answer
from proxy.config.access import Clients
from proxy.errors import InvalidApiKey, InvalidRequest, NotFound
from proxy.exchange import Facts
from proxy.exchange.judgements import Label, support
from proxy.exchange.verdicts import warning_codes
from proxy.observe.recording import OpenExchanges
from proxy.offloop import call_before_stop
from proxy.store.records import PENDING, Record, RecordDetail, RecordError, Records, RecordVerdict
from proxy.wire.dialect import Dialect
from proxy.wire.http.headers import PREFIX, ResponseHeaders, client_headers, plain_headers
from proxy.wire.http.peers import reason_for_remote


class ClaimEvidence(Struct, frozen=True, omit_defaults=True):
    """What a statement's label rests on, or the piece of the context that comes nearest."""

    text: str = ""
    source: str = ""
    kind: str = ""
    """``passage``, ``tool_result``, ``user``, ``system``, ``assistant``, ``knowledge``."""
    message_index: int | None = None
    """Position in the request's messages, if it stood there."""


class ClaimVerdict(Struct, frozen=True):
    """One statement of the answer."""

    text: str
    """As it was checked, at most 400 characters, secrets masked; empty where ``store.texts`` does not keep it: `span` has its place."""
    choice: int
    field: Literal["text", "refusal"]
    """Where in the choice it stands."""
    span: tuple[int, int] | None
    """``[start, end)`` in characters (Unicode code points) of that text as it was delivered; null where the policy took it out."""
    label: str
    """``supported``, ``contradicted``, ``unsupported``, ``unsure``, ``not_checkable``, ``error``."""
    probability: float | None = None
    """Calibrated probability that the context supports it: 1 or 0 where a rule decided, 0.5 where it could not be judged, null where there
    is nothing to check. ``x-groundwire-faithfulness`` is their mean."""
    contradiction: float | None = None
    """Calibrated probability that the context contradicts it."""
    decided_by: str = ""
    """What the label rests on: ``literal``, ``exact``, ``recomputed``, ``model``, ``judge``, ``knowledge``."""
    instead: str = ""
    """Of a contradicted one, what the context has in place of its words, where that could be found."""
    reason: str = ""
    """Why it is not checkable, or an error, or which value is not in the context."""
    evidence: ClaimEvidence | None = None


class StageVerdict(Struct, frozen=True):
    """What one stage found."""

    stage: str
    outcome: str
    code: str = ""
    score: float | None = None
    reason: str = ""
    """Why nothing was checked, or a check could not run."""
    message: str = ""
    """What the client was told of a block."""
    would: str = ""
    """In shadow mode, what it would have done."""


class VerdictScores(Struct, frozen=True):
    """As the response headers of the same names, null where a stage did not set it."""

    quality: float | None = None
    faithfulness: float | None = None
    relevance: float | None = None
    confidence: str | None = None
    citations: str | None = None
    """``verified/total``."""


class ExchangeVerdict(Struct, frozen=True, kw_only=True):
    """What was found of one exchange."""

    object: Literal["verdict"] = "verdict"
    id: str
    """As in ``x-groundwire-id``."""
    verdict: str
    """As ``x-groundwire-verdict``; ``pending`` while the checks run, and then nothing else is known."""
    status: int | None = None
    """HTTP status that the client got."""
    policy: str = ""
    enforced: bool = True
    """False in shadow mode."""
    scores: VerdictScores = VerdictScores()
    counts: Mapping[str, int] = {}
    """The answer's checkable statements by label, all of them; as ``x-groundwire-claims``."""
    claims: Sequence[ClaimVerdict] = ()
    """In the answer's order; of very many the failing and the unsure ones first."""
    claims_left_out: int = 0
    """How many more there were."""
    warnings: Sequence[str] = ()
    """Codes, as ``x-groundwire-warnings``."""
    stages: Sequence[StageVerdict] = ()
    error: RecordError | None = None
    """What ended the exchange, where it was an error or a refusal."""
    headers: Mapping[str, str] = {}
    """Every response header that the answer would have had if all had been known when it left."""


class ListedClaim(Struct, frozen=True):
    """A claim in a record's detail, which another version may have written."""

    text: str = ""
    choice: int = 0
    field: Literal["text", "refusal"] = "text"
    span: tuple[int, int] | None = None
    delivered_span: tuple[int, int] | msgspec.UnsetType | None = msgspec.UNSET
    label: Label = "not_checkable"
    score: float | None = None
    contradiction: float | None = None
    decided_by: str = ""
    instead: str = ""
    reason: str = ""
    verifier: str = ""
    evidence: ClaimEvidence | None = None


class ListedClaims(Struct, frozen=True):
    """What the stage `claims` has listed."""

    claims: list[ListedClaim] = field(default_factory=list)
    claims_left_out: int = 0


def verdict_of(record: Record, headers: ResponseHeaders) -> ExchangeVerdict:
    """Of a record without bodies or with."""
    detail, named = record.typed_detail, headers_of(record, headers)
    listed = listed_claims(detail.verdicts)
    return ExchangeVerdict(
        id=record.id,
        verdict=record.outcome,
        status=record.status,
        policy=record.policy,
        enforced=detail.enforced,
        scores=_scores(named),
        counts=(detail.facts.claims if detail.facts is not None else None) or {},
        claims=[_claim(one) for one in listed.claims],
        claims_left_out=listed.claims_left_out,
        warnings=warning_codes(detail.verdicts, record.outcome),
        stages=[StageVerdict(v.stage, v.outcome, v.code, v.score, _reason(v), v.message, v.would) for v in detail.verdicts],
        error=detail.error,
        headers=named,
    )


def headers_of(record: Record, headers: ResponseHeaders) -> dict[str, str]:
    """What the answer told the client of itself, and would have if all had been known before its first byte."""
    record_id, policy, verdict = _ascii(record.id), _ascii(record.policy), _ascii(record.outcome)
    detail: RecordDetail = record.typed_detail
    if not policy:
        found = plain_headers(record_id, verdict)
    else:
        overhead_ms, facts = detail.overhead_ms or 0.0, detail.facts or Facts()
        own: dict[str, Any] = {"record_id": record_id, "policy": policy, "verdict": verdict}
        found = headers(facts, detail.verdicts, **own, overhead_ms=overhead_ms, enforced=detail.enforced)
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in found}


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()


def _scores(named: Mapping[str, str]) -> VerdictScores:
    texts = {name: value for name in VerdictScores.__struct_fields__ if (value := named.get(PREFIX + name)) is not None}
    return msgspec.convert(texts, VerdictScores, strict=False)


def listed_claims(verdicts: Sequence[RecordVerdict]) -> ListedClaims:
    """The claims of the last verdict that has some: where several attempts were judged, those of the one that was delivered."""
    return next(
        (one.noted(ListedClaims) for one in reversed(verdicts) if one.stage == "claims" and one.detail.get("claims")), ListedClaims()
    )


def _claim(one: ListedClaim) -> ClaimVerdict:
    same = {name: getattr(one, name) for name in ClaimVerdict.__struct_fields__ if name not in ("span", "probability")}
    span = one.span if one.delivered_span is msgspec.UNSET else one.delivered_span
    return ClaimVerdict(**same, span=span, probability=None if one.label == "not_checkable" else support(one))


def _reason(one: RecordVerdict) -> str:
    reason = one.detail.get("reason")
    return reason if isinstance(reason, str) else ""


MAX_WAIT_MS = 30_000
MAX_WAITING, MAX_WAITING_OF_ONE = 256, 32
"""Requests that wait at once in one process, and of those one client's; beyond, a request is answered with what is known now."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
"""Between two looks at the store for another worker's exchange; each is twice the one before."""


class ClientAccess(Struct, frozen=True):
    """How clients are told apart, and from where they may ask."""

    clients: Clients
    key_headers: Sequence[Sequence[str]] = (("authorization",),)
    """Of each API, the headers that a key may stand in, the one that counts most first."""
    own_machine_routes: frozenset[str] = frozenset()
    """Routes that only this machine's own programs may use."""


def client_access(clients: Clients, dialects: Iterable[Dialect], own_machine_routes: Iterable[str]) -> ClientAccess:
    """Of a server with these."""
    return ClientAccess(clients, [dialect.key_headers for dialect in dialects], frozenset(own_machine_routes))


class _Asker(Struct, frozen=True):
    """Who asks."""

    operator: bool
    clients: frozenset[str]
    """Every name that a request with these headers has, by one API or another."""
    here: bool
    """Whether it is one of this machine's own programs."""

    def may_see(self, client: str, route: str, access: ClientAccess) -> bool:
        """Whether an exchange is its own."""
        return self.operator or (client in self.clients and (self.here or route not in access.own_machine_routes))


class _Wait:
    """A request that waits."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.over = False

    def end(self) -> None:
        """Answer now."""
        self.over = True
        self.news.set()


class VerdictsApi:
    """The handler."""

    def __init__(self, records: Records, exchanges: OpenExchanges, access: ClientAccess, headers: ResponseHeaders, auth: AdminAuth) -> None:
        self._records, self._exchanges, self._access, self._headers, self._auth = records, exchanges, access, headers, auth
        self._waits: dict[_Wait, frozenset[str]] = {}
        self._stopping: bool | None = None
        """None until somebody has asked."""

    async def verdict(self, request: Request) -> Response:
        """200 with the verdict, 202 while the checks run. Raises `NotFound` for what is not the asker's."""
        if self._stopping is None:
            self._stopping = False
            call_before_stop(lambda number: self.end_waits())
        asker, wait_s, record_id = await self._asker(request), _wait_s(request), request.path_params["id"]
        record = await self._look(record_id, asker)
        if record is None and wait_s > 0:
            with self._waiting(asker) as wait:
                record = await self._wait_for(record_id, asker, wait_s, wait, request)
        if record is None:
            return _answer(ExchangeVerdict(id=record_id, verdict="pending"), 202)
        return _answer(verdict_of(record, self._headers), 200)

    def end_waits(self) -> None:
        """The server stops: everyone gets what is known now."""
        self._stopping = True
        for wait in self._waits:
            wait.end()

    async def _asker(self, request: Request) -> _Asker:
        """Raises `InvalidApiKey`, `RateLimited`."""
        operator = not self._auth.open and self._auth.knows(request)
        keys = client_headers(request.scope["headers"], raw=True).keys
        names, refusal = set[str](), None
        for headers in self._access.key_headers:
            try:
                names.add(self._access.clients.identify([(name, keys[name]) for name in headers if name in keys], None))
            except InvalidApiKey as error:
                refusal = refusal or error
        if refusal is not None and not names and not operator:
            if keys:
                await self._auth.wrong_key(request)
            raise refusal
        return _Asker(operator, frozenset(names), not reason_for_remote(request.scope))

    async def _look(self, record_id: str, asker: _Asker) -> Record | None:
        """The record; None while the exchange goes on. Raises `NotFound`, `StoreUnavailable`."""
        running = self._exchanges.get(record_id)
        record = None if running is not None else await self._records.get(record_id, bodies=False)
        owned = running or record
        if owned is None or not asker.may_see(owned.client, owned.route, self._access):
            raise NotFound("there is no verdict of this id for this key; it may be past its retention")
        return None if record is not None and record.outcome == PENDING else record

    async def _wait_for(self, record_id: str, asker: _Asker, wait_s: float, wait: _Wait, request: Request) -> Record | None:
        """The record, as soon as it is there; None when the time is over, or nobody waits any more."""
        now = asyncio.get_running_loop().time
        until, pause_s, record = now() + wait_s, _FIRST_PAUSE_S, None
        gone = asyncio.create_task(_ends_with(request, wait))
        try:
            while record is None and not wait.over and (left_s := until - now()) > 0:
                here = self._exchanges.listen(record_id, wait.news)
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s if here else min(left_s, pause_s)):
                        await wait.news.wait()
                wait.news.clear()
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                record = await self._look(record_id, asker)
            return record
        finally:
            gone.cancel()

    @contextmanager
    def _waiting(self, asker: _Asker) -> Iterator[_Wait]:
        """A place to wait in; where none is free the wait is over at once."""
        wait, of_one = _Wait(), Counter(self._waits.values())[asker.clients]
        if self._stopping or len(self._waits) >= MAX_WAITING or of_one >= MAX_WAITING_OF_ONE:
            wait.end()
        self._waits[wait] = asker.clients
        try:
            yield wait
        finally:
            del self._waits[wait]


async def _ends_with(request: Request, wait: _Wait) -> None:
    """A client that has left waits no longer."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    wait.end()


def _wait_s(request: Request) -> float:
    """Of ``wait_ms``, 0 without it. Raises `InvalidRequest`."""
    value = request.query_params.get("wait_ms", "0")
    if not (value.isascii() and value.isdecimal() and len(value) <= 5 and int(value) <= MAX_WAIT_MS):
        raise InvalidRequest(f"wait_ms: expected a whole number of milliseconds from 0 to {MAX_WAIT_MS}", param="wait_ms")
    return int(value) / 1000


def _answer(verdict: ExchangeVerdict, status: int) -> Response:
    answer = json_answer(msgspec.to_builtins(verdict), status)
    if status == 202:
        answer.headers["retry-after"] = "1"
    return answer
