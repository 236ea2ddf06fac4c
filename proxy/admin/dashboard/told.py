"""A record -> the ``x-groundwire-…`` headers that its answer had, made by `proxy.wire.http.headers` from the facts that the record kept."""

from __future__ import annotations

from typing import Any

import msgspec

from proxy.admin.dashboard.summaries import entries, in_shadow, part
from proxy.exchange import OUTCOMES, Exchange, Facts, Findings, Prompt, Request, Verdict
from proxy.store.records import Record
from proxy.wire.http.headers import plain_headers, response_headers


def headers_told(record: Record) -> list[tuple[str, str]]:
    """Names and values, in the order in which they are sent."""
    overhead = record.detail.get("overhead_ms", 0.0) if isinstance(record.detail, dict) else 0.0
    if not record.policy:
        found = plain_headers(_ascii(record.id), _ascii(record.outcome))
    else:
        found = response_headers(_exchange(record), _ascii(record.outcome), overhead if isinstance(overhead, int | float) else 0.0)
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in found]


def _exchange(record: Record) -> Exchange:
    """As much of the exchange as its headers are made of."""
    request = Request(record.model, (), (), {}, record.stream)
    verdicts = [
        Verdict(str(v.get("stage", "")), v["outcome"], code=str(v.get("code", "")))
        for v in entries(record.detail, "verdicts")
        if v.get("outcome") in OUTCOMES
    ]
    return Exchange(
        id=_ascii(record.id),
        route=record.route,
        policy=_ascii(record.policy),
        upstream=record.upstream,
        client=record.client,
        original=request,
        model=record.model,
        prompt=Prompt((), (), {}),
        findings=Findings(verdicts=verdicts, facts=_facts(dict(part(record.detail, "facts")))),
        enforced=not in_shadow(record.detail),
    )


def _facts(kept: dict[str, Any]) -> Facts:
    """Those that this version understands."""
    found = Facts()
    kinds = {field.name: field.type for field in msgspec.structs.fields(Facts)}
    for name, value in kept.items():
        if name in kinds:
            try:
                setattr(found, name, msgspec.convert(value, kinds[name]))
            except msgspec.ValidationError:
                continue
    return found


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()
