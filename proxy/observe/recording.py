"""A finished exchange -> its record: who, where, tokens before and after, verdicts, timings, what changed. Off the request's path.

`Recorder.record` only puts a `Record` together and hands it to the store's writer; words are kept only of the exchanges that
``store.texts`` names, bodies only when ``store.bodies`` says so, with secrets masked always. `OpenExchanges` are those of this process
that have no record yet: whose they are, and who waits for it.

Claims are placed in the upstream's text. Where a stage changed that text, or nothing of it left, each listed claim also gets its
`delivered_span`: ``[start, end)`` in the choice's text as it was delivered, None where the claim is not in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

import msgspec
import orjson
from msgspec import UNSET, Struct

from proxy.exchange import QUIET, Exchange, Facts, Usage, Verdict, unchecked_reason
from proxy.language.alignment import Run, moved, shared_runs
from proxy.language.text import text_of
from proxy.observe.finished import Finished
from proxy.observe.metrics import Metrics
from proxy.offloop import run_in_thread_if_large
from proxy.ports import ModelInfo
from proxy.stages.confidence import Confidence
from proxy.stages.registry import HOUSEKEEPING
from proxy.store.masking import mask, mask_text
from proxy.store.records import (
    NOTHING,
    PENDING,
    Record,
    RecordAttempt,
    RecordDetail,
    RecordError,
    RecordTexts,
    RecordUsage,
    RecordVerdict,
    plain,
)
from proxy.store.words import wordless
from proxy.store.writer import RecordWriter
from proxy.wire.bodies import EXTENSION


class _Place(Struct, frozen=True):
    choice: int
    span: tuple[int, int]
    field: Literal["text", "refusal"] = "text"


def placed_claims(claims: Sequence[Any], exchange: Exchange, *, delivered: bool) -> list[Any]:
    """`claims` with their `delivered_span`, where that is not their `span`; `delivered` says whether any answer left."""
    if not delivered:
        return [_with_span(claim, None) if _place(claim) is not None else claim for claim in claims]
    runs = _runs(exchange)
    return [_moved(claim, runs) for claim in claims] if runs else list(claims)


def _moved(claim: Any, runs: Mapping[tuple[int, str], tuple[str, Sequence[Run]]]) -> Any:
    place = _place(claim)
    found = runs.get((place.choice, place.field)) if place is not None else None
    if place is None or found is None:
        return claim
    before, shared = found
    return _with_span(claim, moved(before, *place.span, shared))


def _with_span(claim: Mapping[str, Any], span: tuple[int, int] | None) -> Mapping[str, Any]:
    return {**claim, "delivered_span": span}


def _place(claim: Any) -> _Place | None:
    """None for what is no claim of ours: a stage of the operator's own may list what it likes."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(claim, _Place)
    return None


def _runs(exchange: Exchange) -> dict[tuple[int, str], tuple[str, list[Run]]]:
    """Each text that a stage changed, by choice and field, and the pieces of it that the client got."""
    before, after = exchange.upstream_answer, exchange.answer
    if before is None or after is None or before is after or not exchange.enforced:
        return {}
    pairs = [(old, new) for old, new in zip(before.choices, after.choices, strict=False) if old.index == new.index]
    texts = [((old.index, name), getattr(old, name), getattr(new, name)) for old, new in pairs for name in ("text", "refusal")]
    return {place: (old, shared_runs(old, new)) for place, old, new in texts if old != new}


class OpenExchange(Struct, eq=False):
    """One of them."""

    client: str
    """As `proxy.store.records.Record.client`."""
    route: str
    """The route's prefix."""
    listeners: tuple[asyncio.Event, ...] = ()
    """Set when the record is there."""


class OpenExchanges:
    """Those of one process, by record id."""

    def __init__(self) -> None:
        self._open: dict[str, OpenExchange] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, record_id: str, client: str, route: str) -> None:
        """A request of `client` is being served."""
        self._open[record_id] = OpenExchange(client, route)

    def get(self, record_id: str) -> OpenExchange | None:
        """The exchange; None where this process serves none of this id, or has its record."""
        return self._open.get(record_id)

    def listen(self, record_id: str, event: asyncio.Event) -> bool:
        """Set `event` when the record is there; False where the exchange is not open."""
        found = self._open.get(record_id)
        if found is not None and event not in found.listeners:
            found.listeners = (*found.listeners, event)
        return found is not None

    def remove(self, record_id: str) -> None:
        """Its record is there, or will never be."""
        found = self._open.pop(record_id, None)
        for event in found.listeners if found is not None else ():
            event.set()


Price = Callable[[str, str, Usage], float | None]
"""Upstream, model as the client named it, usage -> USD, where that is known."""


def prices_of(prefixes: Mapping[str, str | None], model: Callable[[str], ModelInfo]) -> Price:
    """`prefixes` is what each upstream puts before a model's name; None for one that costs nothing, as a model of this machine."""

    def price(upstream: str, name: str, usage: Usage) -> float | None:
        prefix = prefixes.get(upstream, "")
        if prefix is None:  # whatever the client calls its model
            return None
        return model(prefix + name).cost_usd(usage)

    return price


_GRAVEST = ("block", "retry", "answer", "ask", "edit")
_READ_CHARS, _KEPT_CHARS, _LONGEST_WORD_CHARS = 2000, 160, 20
"""Read and masked, and kept of it: more than is kept, so that a secret is not cut in two before it is seen. The end is between two words,
unless the last one is longer than the third number."""
_QUIET = (*QUIET, "skipped", "pending")


def reason_of(finished: Finished) -> str:
    """The code of what decided the outcome: of the error that ended it, of the gravest verdict, or why nothing was checked; else "".

    A warning of housekeeping is named where there is no other; one of `confidence`, which rates what other checks have found, only where no
    other check has warned.
    """
    error, exchange = finished.error, finished.exchange
    if error is not None:
        return error.param or error.code if error.code == "policy_blocked" else error.code
    verdicts: Sequence[Verdict] = exchange.verdicts if exchange is not None else ()
    if finished.verdict in _QUIET:
        unchecked = unchecked_reason(verdicts) if finished.verdict == "unchecked" else ""
        return f"status_{finished.status}" if finished.status >= 400 else unchecked
    codes = [one.code for one in reversed(verdicts) if one.outcome == finished.verdict and one.code]
    return min(codes, key=lambda code: (code in HOUSEKEEPING, code in Confidence.reports), default="")


def would_of(exchange: Exchange | None) -> str:
    """In shadow mode the gravest thing that a stage would have done."""
    if exchange is None or exchange.enforced:
        return ""
    would = {verdict.would for verdict in exchange.verdicts}
    return next((name for name in _GRAVEST if name in would), NOTHING)


def question_of(exchange: Exchange) -> str:
    """The last user message's text."""
    return next((text_of(m.get("content")) for m in reversed(exchange.original.messages) if m.get("role") == "user"), "")


def answer_of(exchange: Exchange) -> str:
    """The answer's first text, or the names of the tools that it calls."""
    choices = exchange.answer.choices if exchange.answer is not None else ()
    said = next((text for choice in choices for text in (choice.text, choice.refusal) if text), "")
    names = [call.name for choice in choices for call in choice.tool_calls]
    return said or (f"calls {', '.join(names)}" if names else "")


def first_words(text: str) -> str:
    """On one line, secrets masked."""
    words = " ".join(mask_text(text[:_READ_CHARS]).split())
    if len(words) <= _KEPT_CHARS:
        return words
    space = words.rfind(" ", _KEPT_CHARS - _LONGEST_WORD_CHARS, _KEPT_CHARS + 1)
    return words[: _KEPT_CHARS if space < 0 else space].rstrip() + " …"


Texts = Literal["none", "flagged", "all"]
"""As ``store.texts``."""
_NO_FACTS = Facts()
_NO_TEXTS: Mapping[str, Any] = {}
D = TypeVar("D", bound=RecordDetail)


class Recorder:
    """Writes records and the metrics of every exchange."""

    def __init__(
        self,
        writer: RecordWriter,
        metrics: Metrics,
        *,
        bodies: bool,
        texts: Texts = "all",
        price: Price | None = None,
        process: str = "",
        keys: Callable[[], str] = str,
    ) -> None:
        """`process` names this one, for the rows of exchanges that go on; `keys` is the version of the keys that count now."""
        self._writer, self._metrics, self._price, self._process, self._keys = writer, metrics, price, process, keys
        self.bodies, self._texts = bodies, texts
        self.open = OpenExchanges()
        """What is still to be recorded."""

    def begin(self, record_id: str, received_at: float, exchange: Exchange | None, **known: str) -> asyncio.Event | None:
        """An exchange has a row from now on, with what is known of it; what it returns is as of `RecordWriter.begin`."""
        if exchange is None:
            names = {"policy": "", "model": ""}
        else:
            names = {"policy": exchange.policy, "model": exchange.original.model, "run_id": exchange.run_id, "step_id": exchange.step_id}
        stream = exchange is not None and exchange.original.stream
        outcome, process = PENDING, self._process
        return self._writer.begin(
            Record(id=record_id, created_at=received_at, status=0, outcome=outcome, reason=process, stream=stream, **names, **known)  # type: ignore[arg-type]
        )

    async def record(self, finished: Finished) -> None:
        """Take one."""
        exchange = finished.exchange
        if exchange is not None and self._reads(exchange):
            made = await run_in_thread_if_large(_size(exchange), record_of, finished, **self._options())
        else:
            made = record_of(finished, **self._options())
        self._metrics.exchange(finished, made.cost_usd)
        self._writer.submit(made)

    def _options(self) -> dict[str, Any]:
        return {"bodies": self.bodies, "texts": self._texts, "price": self._price, "keys": self._keys()}

    def _reads(self, exchange: Exchange) -> bool:
        """Whether what is long is read for its record: texts are, for bodies, and answers that were put beside each other."""
        return self.bodies or exchange.attempts.several or exchange.answer is not exchange.upstream_answer


def keeps_words(finished: Finished, texts: Texts) -> bool:
    """Whether its record has words of the client's or of the upstream's: under ``flagged`` where a person has something to look at."""
    if texts != "flagged":
        return texts == "all"
    exchange = finished.exchange
    counts = (exchange.facts.claims if exchange is not None else None) or {}
    doubted = any(counts.get(label) for label in ("contradicted", "unsupported", "unsure", "error"))
    found = any(verdict.outcome not in ("pass", "unchecked") for verdict in exchange.verdicts) if exchange is not None else False
    return finished.error is not None or doubted or found or would_of(exchange) not in ("", NOTHING)


def record_of(finished: Finished, *, bodies: bool, texts: Texts = "all", price: Price | None = None, keys: str = "") -> Record:
    """What is kept of it."""
    exchange = finished.exchange
    before, sent, completion = finished.tokens
    words = keeps_words(finished, texts)
    bodies = bodies and words
    kept = _own_detail(finished, bodies=bodies, keys=keys)
    if not words:
        kept = wordless(kept)
    return Record(
        id=finished.id,
        created_at=finished.received_at,
        client=finished.client,
        route=finished.route,
        policy=exchange.policy if exchange is not None else "",
        upstream=finished.upstream,
        model=exchange.original.model if exchange is not None else finished.model,
        run_id=exchange.run_id if exchange is not None else "",
        step_id=exchange.step_id if exchange is not None else "",
        path=finished.path,
        status=finished.status,
        outcome=finished.verdict,
        stream=exchange is not None and exchange.original.stream,
        duration_ms=finished.duration_ms,
        prompt_tokens_before=before,
        prompt_tokens=sent,
        completion_tokens=completion,
        detail=kept,
        reason=reason_of(finished),
        would=would_of(exchange),
        overhead_ms=kept.overhead_ms,
        cost_usd=_cost_usd(finished, price),
        **(_texts(exchange) if bodies and exchange is not None else _NO_TEXTS),
    )


def _own_detail(finished: Finished, *, bodies: bool, keys: str = "") -> RecordDetail:
    """Its detail, of the exchange or of a request that became none."""
    exchange, error, overhead_ms, attempts = finished.exchange, finished.error, round(finished.overhead_ms, 3), finished.tries or 1
    told = RecordError(error.code, error.param, mask_text(error.message)) if error is not None else None
    if exchange is None:
        more: dict[str, Any] = {"usage": _usage(finished.usage), "asked_in": finished.asked_in, "keys": keys}
        return RecordDetail(overhead_ms=overhead_ms, error=told, attempts=attempts, **more)
    kind, texts = (RecordTexts, _changed_texts(exchange)) if bodies else (RecordDetail, _NO_TEXTS)
    own: dict[str, Any] = {"overhead_ms": overhead_ms, "error": told, "attempts": attempts, "asked_in": finished.asked_in, "keys": keys}
    made = _detail(exchange, kind, usage=_usage(finished.usage), **own, **texts)
    for verdict in made.verdicts:
        if "claims" in verdict.detail and isinstance(claims := verdict.detail["claims"], list):
            verdict.detail["claims"] = placed_claims(claims, exchange, delivered=finished.status < 400)
    return made


def _texts(exchange: Exchange) -> dict[str, Any]:
    """What is kept of it where bodies are."""
    answer = exchange.upstream_answer
    return {
        "question": first_words(question_of(exchange)),
        "answer": first_words(answer_of(exchange)),
        "request_body": _request_body(exchange),
        "answer_body": msgspec.json.encode({"choices": answer.choices}) if answer is not None else None,
    }


def _cost_usd(finished: Finished, price: Price | None) -> float | None:
    if price is None or finished.usage is None or finished.usd is not None:
        return finished.usd
    model = finished.exchange.original.model if finished.exchange is not None else finished.model
    return price(finished.upstream, model, finished.usage)


def inline_detail(exchange: Exchange, verdict: str) -> dict[str, Any]:
    """What goes into the body when the client asks for it inline."""
    usage = _usage(exchange.answer.usage) if exchange.answer is not None else None
    return {"id": exchange.id, "policy": exchange.policy, "verdict": verdict, **plain(_detail(exchange, RecordDetail, usage=usage))}


def _size(exchange: Exchange) -> int:
    """Bytes and characters of what is read for a record, about."""
    choices = exchange.answer.choices if exchange.answer is not None else ()
    said = sum(len(choice.text) + sum(len(call.arguments) for call in choice.tool_calls) for choice in choices)
    return exchange.original.size + said


def _detail(exchange: Exchange, kind: type[D], **more: Any) -> D:
    """Its detail: what the exchange itself fills, and `more` fields: what its end tells, and the texts that are kept."""
    answer, findings = exchange.answer, exchange.findings
    several = answer is not None and exchange.attempts.several
    return kind(
        enforced=exchange.enforced,
        verdicts=[_verdict(verdict) for verdict in findings.verdicts] if findings.verdicts else [],
        facts=msgspec.structs.replace(findings.facts) if findings.facts != _NO_FACTS else None,
        timings_ms={name: round(ms, 3) for name, ms in exchange.timings.items()},
        changes=findings.changes[:],
        skip=sorted(exchange.skip) if exchange.skip else [],
        answers=[_attempt(exchange, i) for i in range(len(exchange.attempts))] if several else [],
        finish_reasons=[choice.finish_reason for choice in answer.choices] if answer is not None else None,
        **more,
    )


def _attempt(exchange: Exchange, index: int) -> RecordAttempt:
    kept = exchange.attempts[index]
    return RecordAttempt(
        delivered=index == (len(exchange.attempts) - 1 if exchange.deliver is None else exchange.deliver),
        upstream=kept.upstream,
        ms=round(kept.ms, 3),
        characters=[len(choice.text) for choice in kept.upstream_answer.choices],
        usage=_usage(kept.upstream_answer.usage),
        verdicts=[_verdict(verdict) for verdict in kept.verdicts],
    )


def _usage(usage: Usage | None) -> RecordUsage | None:
    if usage is None:
        return None
    return RecordUsage(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.estimated or UNSET)


def _verdict(verdict: Verdict) -> RecordVerdict:
    return RecordVerdict(verdict.stage, verdict.outcome, verdict.code, verdict.score, verdict.message, verdict.would, dict(verdict.detail))


def _request_body(exchange: Exchange) -> bytes:
    request = exchange.original
    body = {"model": request.model, "messages": request.messages, "tools": request.tools, **request.params}
    extension: dict[str, Any] = {}
    if request.has_context:
        names = ("content", "source", "score", "timestamp", "fields")
        extension["context"] = [{name: getattr(one, name) for name in names} for one in request.passages]
    if request.message_hints:
        extension["messages"] = {str(i): hint for i, hint in request.message_hints.items()}
    return orjson.dumps(body | {EXTENSION: extension} if extension else body)


def _changed_texts(exchange: Exchange) -> dict[str, Any]:
    """What went upstream and what the client got, where a stage changed it; secrets masked."""
    found: dict[str, Any] = {}
    if not exchange.enforced:
        return found
    if exchange.messages is not exchange.original.messages or exchange.tools is not exchange.original.tools:
        found["forwarded"] = mask({"messages": list(exchange.messages), "tools": list(exchange.tools)})
    if exchange.answer is not None and exchange.answer != exchange.upstream_answer:
        found["delivered"] = mask(msgspec.to_builtins(exchange.answer.choices))
    if exchange.attempts.several:
        found["answer_texts"] = mask([[choice.text for choice in kept.upstream_answer.choices] for kept in exchange.attempts])
    return found
