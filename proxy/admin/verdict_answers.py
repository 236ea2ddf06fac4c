"""A record as what its client may know of it: verdict, scores, statements with their places, warnings, and each stage's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from proxy.exchange import Facts
from proxy.exchange.judgements import Label, support
from proxy.store.records import Record, RecordDetail, RecordError, RecordVerdict
from proxy.wire.http.headers import PREFIX, ResponseHeaders, plain_headers

PENDING = "pending"


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
    """As it was checked, at most 400 characters, secrets masked."""
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
    """Codes."""
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


def pending(record_id: str) -> ExchangeVerdict:
    """Before it is there."""
    return ExchangeVerdict(id=record_id, verdict=PENDING)


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
        warnings=detail.warnings,
        stages=[_stage(one) for one in detail.verdicts],
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


def _stage(one: RecordVerdict) -> StageVerdict:
    reason = one.detail.get("reason")
    return StageVerdict(one.stage, one.outcome, one.code, one.score, reason if isinstance(reason, str) else "", one.message, one.would)
