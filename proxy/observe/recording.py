"""A finished exchange -> its record: who, where, tokens before and after, verdicts, timings, what changed. Off the request's path.

`Recorder.record` only puts a `Record` together and hands it to the store's writer; bodies are kept only when ``store.bodies`` says
so, with secrets masked always.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, TypeVar

import msgspec
import orjson

from proxy.exchange import Answer, Exchange, Facts, Usage, Verdict
from proxy.observe.delivered_claims import placed_claims
from proxy.observe.finished import Finished
from proxy.observe.lines import asked_of, first_words, reason_of, said_in, would_of
from proxy.observe.metrics import Metrics
from proxy.observe.open_exchanges import OpenExchanges
from proxy.observe.prices import Price
from proxy.offloop import run_in_thread_if_large
from proxy.store.detail import RecordAttempt, RecordDetail, RecordError, RecordTexts, RecordUsage, RecordVerdict
from proxy.store.masking import mask, mask_text
from proxy.store.records import Record, plain
from proxy.store.writer import RecordWriter

_NO_FACTS = Facts()
_NO_TEXTS: Mapping[str, Any] = {}
D = TypeVar("D", bound=RecordDetail)


class Recorder:
    """Writes records and the metrics of every exchange."""

    def __init__(self, writer: RecordWriter, metrics: Metrics, *, bodies: bool, price: Price | None = None) -> None:
        self._writer, self._metrics, self._price = writer, metrics, price
        self.bodies = bodies
        """Whether texts are kept."""
        self.open = OpenExchanges()
        """What is still to be recorded."""

    async def record(self, finished: Finished) -> None:
        """Take one."""
        exchange = finished.exchange
        if exchange is not None and self._reads(exchange):
            made = await run_in_thread_if_large(_size(exchange), record_of, finished, bodies=self.bodies, price=self._price)
        else:
            made = record_of(finished, bodies=self.bodies, price=self._price)
        self._metrics.exchange(finished)
        self._writer.submit(made)

    def _reads(self, exchange: Exchange) -> bool:
        """Whether what is long is read for its record: texts are, for bodies, and answers that were put beside each other."""
        return self.bodies or exchange.attempts.several or exchange.answer is not exchange.upstream_answer


def record_of(finished: Finished, *, bodies: bool, price: Price | None = None) -> Record:
    """What is kept of it."""
    exchange = finished.exchange
    before, sent, completion = finished.tokens
    kept = _own_detail(finished, bodies=bodies)
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


def _own_detail(finished: Finished, *, bodies: bool) -> RecordDetail:
    """Its detail, of the exchange or of a request that became none."""
    exchange, error, overhead_ms, attempts = finished.exchange, finished.error, round(finished.overhead_ms, 3), finished.tries or 1
    told = RecordError(error.code, error.param, mask_text(error.message)) if error is not None else None
    if exchange is None:
        return RecordDetail(overhead_ms=overhead_ms, error=told, attempts=attempts, asked_in=finished.asked_in)
    kind, texts = (RecordTexts, _changed_texts(exchange)) if bodies else (RecordDetail, _NO_TEXTS)
    made = _detail(exchange, kind, overhead_ms, told, attempts, finished.asked_in, texts)
    for verdict in made.verdicts:
        if isinstance(claims := verdict.detail.get("claims"), list):
            verdict.detail["claims"] = placed_claims(claims, exchange, delivered=finished.status < 400)
    return made


def _texts(exchange: Exchange) -> dict[str, Any]:
    """What is kept of it where bodies are."""
    answer = exchange.upstream_answer
    return {
        "question": first_words(asked_of(exchange)),
        "answer": first_words(said_in(exchange)),
        "request_body": _request_body(exchange),
        "answer_body": _answer_body(answer) if answer is not None else None,
    }


def _cost_usd(finished: Finished, price: Price | None) -> float | None:
    exchange = finished.exchange
    if exchange is None:
        usage, model = finished.usage, finished.model
    else:
        usage, model = exchange.answer.usage if exchange.answer is not None else None, exchange.original.model
    if price is None or usage is None or finished.usd is not None:
        return finished.usd
    return price(finished.upstream, model, usage)


def inline_detail(exchange: Exchange, verdict: str) -> dict[str, Any]:
    """What goes into the body when the client asks for it inline."""
    return {"id": exchange.id, "policy": exchange.policy, "verdict": verdict, **plain(_detail(exchange, RecordDetail))}


def _size(exchange: Exchange) -> int:
    """Bytes and characters of what is read for a record, about."""
    choices = exchange.answer.choices if exchange.answer is not None else ()
    said = sum(len(choice.text) + sum(len(call.arguments) for call in choice.tool_calls) for choice in choices)
    return exchange.original.size + said


def _detail(
    exchange: Exchange,
    kind: type[D],
    overhead_ms: float | None = None,
    error: RecordError | None = None,
    attempts: int = 1,
    asked_in: str = "",
    texts: Mapping[str, Any] = _NO_TEXTS,
) -> D:
    """Its detail: what the exchange itself fills, what its end tells, and the `texts` that are kept."""
    answer, findings = exchange.answer, exchange.findings
    several = answer is not None and exchange.attempts.several
    return kind(
        overhead_ms=overhead_ms,
        error=error,
        attempts=attempts,
        asked_in=asked_in,
        enforced=exchange.enforced,
        verdicts=[_verdict(verdict) for verdict in findings.verdicts] if findings.verdicts else [],
        facts=copy(findings.facts) if findings.facts != _NO_FACTS else None,
        timings_ms={name: round(ms, 3) for name, ms in exchange.timings.items()},
        changes=findings.changes[:],
        skip=sorted(exchange.skip) if exchange.skip else [],
        usage=_usage(answer.usage) if answer is not None else None,
        answers=[_attempt(exchange, i) for i in range(len(exchange.attempts))] if several else [],
        finish_reasons=[choice.finish_reason for choice in answer.choices] if answer is not None else None,
        **texts,
    )


def _attempt(exchange: Exchange, index: int) -> RecordAttempt:
    kept = exchange.attempts[index]
    return RecordAttempt(
        delivered=index == (len(exchange.attempts) - 1 if exchange.deliver is None else exchange.deliver),
        upstream=kept.upstream,
        ms=round(kept.ms, 3),
        characters=[len(choice.text) for choice in kept.came.choices],
        usage=_usage(kept.came.usage),
        verdicts=[_verdict(verdict) for verdict in kept.verdicts],
    )


def _usage(usage: Usage | None) -> RecordUsage | None:
    return RecordUsage(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) if usage is not None else None


def _verdict(verdict: Verdict) -> RecordVerdict:
    return RecordVerdict(verdict.stage, verdict.outcome, verdict.code, verdict.score, verdict.message, verdict.would, dict(verdict.detail))


def _request_body(exchange: Exchange) -> bytes:
    request = exchange.original
    return orjson.dumps({"model": request.model, "messages": request.messages, "tools": request.tools, **request.params})


def _answer_body(answer: Answer) -> bytes:
    return msgspec.json.encode({"choices": answer.choices})


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
        found["answer_texts"] = mask([[choice.text for choice in kept.came.choices] for kept in exchange.attempts])
    return found
