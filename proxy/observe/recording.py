"""An exchange -> its record: who, where, tokens before and after, verdicts, timings, what changed. Off the request's path.

`Recorder.record` only puts a `Record` together and hands it to the store's writer; bodies are kept only when ``store.bodies`` says
so, with secrets masked always.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from proxy.errors import ProxyError
from proxy.exchange import Answer, ContextUse, Exchange, Usage, Verdict
from proxy.exchange.attempts import Attempt
from proxy.observe.metrics import Metrics
from proxy.offloop import aside
from proxy.store.masking import mask, mask_text
from proxy.store.records import Record
from proxy.store.writer import RecordWriter


class Recorder:
    """Writes records and the metrics of every exchange."""

    def __init__(self, writer: RecordWriter, metrics: Metrics, *, bodies: bool) -> None:
        self._writer, self._metrics, self._bodies = writer, metrics, bodies

    async def record(
        self,
        *,
        record_id: str,
        received_at: float,
        duration_ms: float,
        overhead_ms: float,
        client: str,
        route: str,
        path: str,
        status: int,
        verdict: str,
        exchange: Exchange | None,
        tries: int,
        error: ProxyError | None,
        policy: str,
        upstream: str,
    ) -> None:
        """Take one finished exchange; `tries` is how many calls its upstreams got."""
        size = _size(exchange) if exchange is not None else 0
        made = await aside(
            size,
            self._made,
            record_id=record_id,
            received_at=received_at,
            duration_ms=duration_ms,
            overhead_ms=overhead_ms,
            client=client,
            route=route,
            path=path,
            status=status,
            verdict=verdict,
            exchange=exchange,
            tries=tries,
            error=error,
            policy=policy,
            upstream=upstream,
        )
        self._metrics.exchange(route, verdict, status, overhead_ms / 1000 if exchange is not None else None, exchange)
        self._writer.submit(made)

    def _made(
        self,
        *,
        record_id: str,
        received_at: float,
        duration_ms: float,
        overhead_ms: float,
        client: str,
        route: str,
        path: str,
        status: int,
        verdict: str,
        exchange: Exchange | None,
        tries: int,
        error: ProxyError | None,
        policy: str,
        upstream: str,
    ) -> Record:
        """What is kept of it."""
        detail: dict[str, Any] = {"overhead_ms": round(overhead_ms, 3)}
        if error is not None:
            detail["error"] = {"code": error.code, "param": error.param, "message": mask_text(error.message)}
        if tries > 1:
            detail["attempts"] = tries
        before = after = completion = None
        if exchange is not None:
            before, after, completion = _tokens(exchange)
            detail |= exchange_detail(exchange)
            upstream = exchange.upstream
        keep = exchange if self._bodies else None
        if keep is not None:
            detail |= _changed_bodies(keep)
        return Record(
            id=record_id,
            created_at=received_at,
            client=client,
            route=route,
            policy=policy if exchange is not None else "",
            upstream=upstream,
            model=exchange.original.model if exchange is not None else "",
            run_id=exchange.run_id if exchange is not None else "",
            step_id=exchange.step_id if exchange is not None else "",
            path=path.partition("?")[0],
            status=status,
            outcome=verdict,
            stream=exchange is not None and exchange.original.stream,
            duration_ms=duration_ms,
            prompt_tokens_before=before,
            prompt_tokens=after,
            completion_tokens=completion,
            detail=detail,
            request_body=_request_body(keep) if keep is not None else None,
            answer_body=_answer_body(keep.upstream_answer) if keep is not None and keep.upstream_answer is not None else None,
        )


def _size(exchange: Exchange) -> int:
    """Bytes and characters of what is read for a record, about."""
    choices = exchange.answer.choices if exchange.answer is not None else ()
    said = sum(len(choice.text) + sum(len(call.arguments) for call in choice.tool_calls) for choice in choices)
    return exchange.original.size + said


def _tokens(exchange: Exchange) -> tuple[int | None, int | None, int | None]:
    """Prompt tokens as the client sent them and as they went upstream (the upstream's own figure if it gave one), and the answer's."""
    facts = exchange.facts
    usage = exchange.answer.usage if exchange.answer is not None else None
    before = facts.context_before.used_tokens if facts.context_before else None
    counted = facts.context.used_tokens if facts.context else None
    return before, usage.prompt_tokens if usage else counted, usage.completion_tokens if usage else None


def exchange_detail(exchange: Exchange) -> dict[str, Any]:
    """A record's detail: everything that has a value, JSON-able."""
    detail: dict[str, Any] = {} if exchange.enforced else {"enforced": False}
    if exchange.verdicts:
        detail["verdicts"] = [_verdict(v) for v in exchange.verdicts]
    facts = {name: _plain(value) for name in exchange.facts.__struct_fields__ if (value := getattr(exchange.facts, name)) is not None}
    if facts:
        detail["facts"] = facts
    if exchange.timings:
        detail["timings_ms"] = {name: round(ms, 3) for name, ms in exchange.timings.items()}
    if exchange.changes:
        detail["changes"] = list(exchange.changes)
    if exchange.skip:
        detail["skip"] = sorted(exchange.skip)
    if exchange.answer is not None:
        usage = exchange.answer.usage
        if usage is not None:
            detail["usage"] = _usage(usage)
        if len(exchange.attempts) > 1:
            detail["answers"] = [_attempt(exchange, i, kept) for i, kept in enumerate(exchange.attempts)]
        detail["finish_reasons"] = [choice.finish_reason for choice in exchange.answer.choices]
    return detail


def _attempt(exchange: Exchange, index: int, kept: Attempt) -> dict[str, Any]:
    """One of several upstream answers: whether it left, what it took, and what the stages found of one that did not."""
    delivered = len(exchange.attempts) - 1 if exchange.deliver is None else exchange.deliver
    found: dict[str, Any] = {"delivered": index == delivered, "upstream": kept.upstream, "ms": round(kept.ms, 3)}
    found["characters"] = [len(choice.text) for choice in kept.came.choices]
    if kept.came.usage is not None:
        found["usage"] = _usage(kept.came.usage)
    if kept.verdicts:
        found["verdicts"] = [_verdict(v) for v in kept.verdicts]
    return found


def _usage(usage: Usage) -> dict[str, int]:
    return {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens, "cached": usage.cached_tokens}


def verdict_detail(exchange: Exchange, verdict: str) -> dict[str, Any]:
    """What goes into the body when the client asks for it inline."""
    return {"id": exchange.id, "policy": exchange.policy, "verdict": verdict, **exchange_detail(exchange)}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = {"stage": verdict.stage, "outcome": verdict.outcome}
    for name in ("code", "score", "message", "would"):
        if (value := getattr(verdict, name)) not in ("", None):
            found[name] = value
    if verdict.detail:
        found["detail"] = dict(verdict.detail)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, ContextUse):
        return {name: getattr(value, name) for name in ("used_tokens", "window_tokens", "exact")} | {"components": dict(value.components)}
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value


def _request_body(exchange: Exchange) -> bytes:
    request = exchange.original
    return orjson.dumps({"model": request.model, "messages": request.messages, "tools": request.tools, **request.params})


def _answer_body(answer: Answer) -> bytes:
    return msgspec.json.encode({"choices": answer.choices})


def _changed_bodies(exchange: Exchange) -> dict[str, Any]:
    """What went upstream and what the client got, where a stage changed it; secrets masked."""
    found: dict[str, Any] = {}
    if not exchange.enforced:
        return found
    if exchange.messages is not exchange.original.messages or exchange.tools is not exchange.original.tools:
        found["forwarded"] = mask({"messages": list(exchange.messages), "tools": list(exchange.tools)})
    if exchange.answer is not None and exchange.answer != exchange.upstream_answer:
        found["delivered"] = mask(msgspec.to_builtins(exchange.answer.choices))
    if len(exchange.attempts) > 1:
        found["answer_texts"] = mask([[choice.text for choice in kept.came.choices] for kept in exchange.attempts])
    return found
