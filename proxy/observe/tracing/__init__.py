"""Traces: what an exchange did and when, as OpenTelemetry spans. Off unless ``tracing:`` is configured.

`trace` follows an exchange from `proxy.server.handler` and hands its spans to OpenTelemetry's SDK, which `make_tracing` imports only where
somebody wants traces; `attributes` has what spans say, in the words of the GenAI semantic conventions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from proxy.config.settings import Settings
from proxy.errors import ConfigError

if TYPE_CHECKING:
    from proxy.observe.tracing.trace import Tracing

_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def make_tracing(settings: Settings) -> Tracing | None:
    """What follows exchanges, where config.yaml wants it. Raises `ConfigError` where OpenTelemetry does not import."""
    given = settings.tracing
    if given is None or not given.enabled:
        return None
    try:
        from proxy.observe.tracing.trace import Tracing
    except ImportError as error:
        problem = f"OpenTelemetry does not import here ({error}): pip install 'groundwire[tracing]'"
        raise ConfigError("config.yaml", "tracing", problem) from error
    return Tracing(settings.upstreams, given)


def trace_id_of(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The trace that a request with these headers belongs to, by its ``traceparent`` (https://www.w3.org/TR/trace-context/); else ""."""
    found = [value.strip() for name, value in headers if name == b"traceparent"]
    match = _TRACEPARENT.fullmatch(found[0]) if len(found) == 1 else None
    if match is None or found[0].startswith(b"ff") or (found[0].startswith(b"00") and match[2]):
        return ""
    return match[1].decode()
