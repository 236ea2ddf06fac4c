"""What a response says of a key's limits, in the names of the API that its client speaks.

OpenAI's ``x-ratelimit-…`` (https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers) and Anthropic's
``anthropic-ratelimit-…`` (https://docs.anthropic.com/en/api/rate-limits#response-headers): of key and team, whichever has less left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from proxy.limits.counter import Decision, Standing, Subject

UPSTREAMS = ("x-ratelimit-", "anthropic-ratelimit-")
"""How the names of those begin by which an upstream tells of the operator's own account: none of a limited client's business."""
_PATIENT_S = 60.0
"""Client libraries try again by themselves; past this they are told not to."""


def limit_headers(subjects: Sequence[Subject], decision: Decision, *, anthropic: bool) -> tuple[tuple[str, str], ...]:
    """Limit, remaining and reset of requests and of tokens, as far as there are such limits."""
    found: list[tuple[str, str]] = []
    pairs = list(zip(subjects, decision.standings, strict=True))
    for kind, limit_of, taken_of in (("requests", "rpm", "requests"), ("tokens", "tpm", "tokens")):
        every = [(limit, max(0, limit - getattr(one, taken_of)), one) for s, one in pairs if (limit := getattr(s.limits, limit_of))]
        if not every:
            continue
        limit, remaining, standing = min(every, key=lambda one: one[1])
        values = {"limit": str(limit), "remaining": str(remaining), "reset": _reset(decision.at, standing, anthropic=anthropic)}
        names = "anthropic-ratelimit-{kind}-{what}" if anthropic else "x-ratelimit-{what}-{kind}"
        found += [(names.format(kind=kind, what=what), value) for what, value in values.items()]
    return tuple(found)


def retry_headers(wait_s: float, *, hopeless: bool = False) -> tuple[tuple[str, str], ...]:
    """When to try again; `hopeless` where no waiting helps."""
    retry = ("retry-after", str(max(1, math.ceil(wait_s))))
    return (retry, ("x-should-retry", "false")) if hopeless or wait_s > _PATIENT_S else (retry,)


def _reset(at: float, standing: Standing, *, anthropic: bool) -> str:
    """When all of it is free again: a time for Anthropic (RFC 3339), a duration for OpenAI."""
    if anthropic:
        return datetime.fromtimestamp(math.ceil(at + standing.reset_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{max(0.0, standing.reset_s):.3f}".rstrip("0").rstrip(".") + "s"
