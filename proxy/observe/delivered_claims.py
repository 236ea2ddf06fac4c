"""Where the claims that a record lists stand in the answer as the client got it.

Claims are placed in the upstream's text. Where a stage changed that text, or nothing of it left, each listed claim also gets its
`delivered_span`: ``[start, end)`` in the choice's text as it was delivered, None where the claim is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct

from proxy.exchange import Exchange
from proxy.language.alignment import Run, moved, shared_runs


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
