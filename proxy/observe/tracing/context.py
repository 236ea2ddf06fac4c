"""Which trace a request belongs to: the header ``traceparent``. Pure functions.

Specification: W3C Trace Context, level 1 (https://www.w3.org/TR/trace-context/).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_KEY = r"[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_MEMBER = re.compile(rf"(?:{_KEY})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_MAX_MEMBERS = 32
_SAMPLED = 1
"""The only flag that is known; others are not passed on."""


class SpanContext(Struct, frozen=True):
    """A span's place in the world."""

    trace_id: int
    """128 bits, not 0."""
    span_id: int
    """64 bits, not 0."""
    sampled: bool
    """Whether its trace is recorded."""
    state: str = ""
    """``tracestate``, what other tracing systems want to be passed on; "" also when it is not as it must be."""

    @property
    def trace_hex(self) -> str:
        """The trace's id as it is written."""
        return f"{self.trace_id:032x}"

    @property
    def traceparent(self) -> str:
        """The header for whoever is called within this span."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.sampled:02x}"


def parent_of(headers: Sequence[tuple[bytes, bytes]]) -> SpanContext | None:
    """The span from which a request with these headers comes; None when it names none, or not as it must be named."""
    found = None
    for name, value in headers:
        if name == b"traceparent":
            if found is not None:
                return None
            found = value
    if found is None:
        return None
    match = _TRACEPARENT.fullmatch(found.strip())
    if match is None or match[1] == b"ff" or (match[1] == b"00" and match[5]):
        return None
    trace_id, span_id = int(match[2], 16), int(match[3], 16)
    if not trace_id or not span_id:
        return None
    state = _state([value for name, value in headers if name == b"tracestate"])
    return SpanContext(trace_id, span_id, bool(int(match[4], 16) & _SAMPLED), state)


def _state(values: Sequence[bytes]) -> str:
    members = [member for value in values for part in value.decode("latin-1").split(",") if (member := part.strip(" \t"))]
    keys = {member.partition("=")[0] for member in members}
    return ",".join(members) if len(keys) == len(members) <= _MAX_MEMBERS and all(map(_MEMBER.fullmatch, members)) else ""


def passed_on(headers: Sequence[tuple[str, str]], caller: SpanContext, *, continued: bool) -> list[tuple[str, str]]:
    """`headers` for a call that `caller` makes; a ``tracestate`` goes on only with the trace it came with."""
    dropped = (TRACEPARENT,) if continued else (TRACEPARENT, TRACESTATE)
    return [*(header for header in headers if header[0] not in dropped), (TRACEPARENT, caller.traceparent)]
