"""How long an upstream is waited for, and how often it is asked: ``upstreams.*.timeouts`` and ``upstreams.*.retries``."""

from __future__ import annotations

from proxy.config.models import Count, Seconds, Section


class Timeouts(Section, frozen=True, kw_only=True):
    """``upstreams.*.timeouts``, in seconds."""

    connect_s: Seconds = 10.0
    """For the connection."""
    first_byte_s: Seconds = 600.0
    """From the request being sent to the response's first bytes; a model may think for long before it answers unstreamed."""
    between_chunks_s: Seconds = 120.0
    """From one piece of an answer to the next."""
    total_s: Seconds = 1800.0
    """For the whole answer; ends one that drips on for ever."""
    queue_s: Seconds = 600.0
    """For a place where `max_concurrency` calls run; past it the answer is 503 ``overloaded``."""


class Retries(Section, frozen=True, kw_only=True):
    """``upstreams.*.retries``: exponential backoff with full jitter, before the first byte only."""

    attempts: Count = 2
    """Further tries after the first, per upstream."""
    base_s: Seconds = 0.5
    """Longest first pause; it doubles with every try."""
    max_s: Seconds = 8.0
    """Longest pause; a longer ``retry-after`` is passed to the client instead of waited for."""
