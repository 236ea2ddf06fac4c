"""What the answers of all shapes have in common: JSON in which a number may be ``NaN``, an envelope around it, and its usage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from proxy.exchange import Usage
from proxy.wire.bodies import object_of
from proxy.wire.http.encodings import Decoder, Undecodable


class Billing(Struct, frozen=True):
    """What an answer says that it took."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, read from the provider's cache."""
    usd: float | None = None
    """Where the provider names its price, as OpenRouter does."""
    model: str = ""
    """The one that answered."""

    @property
    def usage(self) -> Usage | None:
        """None where it says nothing of tokens."""
        return Usage(self.input_tokens, self.output_tokens, self.cached_tokens) if self.input_tokens or self.output_tokens else None


def fields_of(body: bytes) -> Mapping[str, Any]:
    """An answer's fields, out of an envelope (``result``: Cloudflare's) where they stand in one. Raises `ValueError`: there are none."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = json.loads(body)  # reads NaN: one number that is none spoils one answer, not all
    if not isinstance(found, dict):
        raise ValueError("not an object")
    inner = found.get("result")
    if "answers" not in found and isinstance(inner, dict):
        return inner
    return found


def billed(body: bytes, encoding: str = "") -> Billing:
    """What the answer in these bytes says, as they came; nothing where they are none, or of an encoding that is not read."""
    try:
        decoder = Decoder(encoding) if encoding.lower() not in ("identity", "") else None
        return billing_of(fields_of(b"".join(decoder.pieces(body)) if decoder is not None else body))
    except (ValueError, RecursionError, Undecodable):
        return Billing()


def billing_of(fields: Mapping[str, Any]) -> Billing:
    """OpenAI's and System One's names, or Google's; nothing for what is not there."""
    usage, model = object_of(fields.get("usage")), fields.get("model")
    cached = object_of(usage.get("input_tokens_details")).get("cached_tokens")
    cost = usage.get("cost")
    return Billing(
        _tokens(usage, "input_tokens", "total_input_tokens", "prompt_tokens"),
        _tokens(usage, "output_tokens", "total_output_tokens", "completion_tokens"),
        _tokens({"cached": cached}, "cached") or _tokens(usage, "cached_input_tokens", "total_cached_tokens"),
        float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < float("inf") else None,
        model if isinstance(model, str) else "",
    )


def _tokens(usage: Mapping[str, Any], *names: str) -> int:
    found = (usage.get(name) for name in names)
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool) and value >= 0), 0)
