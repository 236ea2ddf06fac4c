"""An exchange that is over, on one line: what the log says of it, and the span of the whole.

Made by `proxy.server.endpoint` when everything has left; written by `proxy.observe.logs`, read by `proxy.observe.tracing`. Names, numbers
and codes only: no key, no message, no word of an answer.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from proxy.errors import ProxyError
from proxy.exchange import Exchange

MAX_NAME_CHARS = 200
"""Longest name that a client may put into a line."""
PASSED_THROUGH = "pass-through"


class Ended(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line; what is empty is left out of it."""

    id: str
    """Record id."""
    status: int = 0
    """HTTP status; 499 when the client left."""
    verdict: str = ""
    method: str = ""
    path: str = ""
    """Below the route's ``/v1``, without its query."""
    route: str = ""
    """The route's prefix, ``/`` for the one without."""
    kind: str = ""
    """`PASSED_THROUGH` for a path that no policy applies to."""
    policy: str = ""
    """``NAME@hash8``."""
    client: str = ""
    """The name of the client's key, or a hash of its ``Authorization``."""
    run: str = ""
    step: str = ""
    model: str = ""
    """As the client named it."""
    upstream: str = ""
    """The one that answered, by its name in config.yaml."""
    stream: bool = False
    warnings: tuple[str, ...] = ()
    """Codes."""
    error: str = ""
    """Code of the error that ended it."""
    prompt_tokens_before: int | None = None
    """As the client sent it."""
    prompt_tokens: int | None = None
    """As it went upstream, by the upstream's own count where it gave one."""
    completion_tokens: int | None = None
    attempts: int = 0
    """Calls that upstreams got."""
    duration_ms: float = 0.0
    overhead_ms: float = 0.0
    """The proxy's own part of it, up to the answer's first byte."""
    trace_id: str = ""
    """In hex, of the trace that it belongs to."""

    @property
    def failed(self) -> bool:
        """Whether an operator should look at it: an answer that could not be given, or not whole, or a check that could not run."""
        unfinished = self.status < 400 and (self.error != "" or self.verdict == "upstream_error")
        return self.status >= 500 or self.verdict == "error" or unfinished


def ended(
    exchange: Exchange | None,
    *,
    record_id: str,
    status: int,
    verdict: str,
    method: str,
    path: str,
    passed_through: bool,
    route: str,
    client: str,
    upstream: str,
    error: ProxyError | None,
    tries: int,
    duration_ms: float,
    overhead_ms: float,
    trace_id: str,
) -> Ended:
    """The line; `exchange` is None where none came to be, `tries` is how many calls gave a reply."""
    line = Ended(
        id=record_id,
        status=status,
        verdict=verdict,
        method=method,
        path=clipped(path),
        route=route or "/",
        client=client,
        kind=PASSED_THROUGH if passed_through else "",
        upstream=upstream,
        error=error.code if error is not None else "",
        attempts=tries + error.attempts if error is not None else tries,
        duration_ms=round(duration_ms, 3),
        overhead_ms=round(overhead_ms, 3),
        trace_id=trace_id,
    )
    return line if exchange is None else _with(line, exchange)


def _with(line: Ended, exchange: Exchange) -> Ended:
    """`line` with what is known only of an exchange that came to be."""
    before, prompt, completion = tokens(exchange)
    return replace(
        line,
        policy=exchange.policy,
        run=clipped(exchange.run_id),
        step=clipped(exchange.step_id),
        model=clipped(exchange.original.model),
        upstream=exchange.upstream,
        stream=exchange.original.stream,
        warnings=tuple(exchange.warnings),
        prompt_tokens_before=before,
        prompt_tokens=prompt,
        completion_tokens=completion,
    )


def clipped(name: str) -> str:
    """A name that came from a client, no longer than a line can bear."""
    return name if len(name) <= MAX_NAME_CHARS else name[:MAX_NAME_CHARS] + "…"


def tokens(exchange: Exchange) -> tuple[int | None, int | None, int | None]:
    """Prompt tokens as they came and as they went upstream, and the answer's."""
    facts = exchange.facts
    usage = exchange.answer.usage if exchange.answer is not None else None
    before = facts.context_before.used_tokens if facts.context_before else None
    if usage is not None:
        return before, usage.prompt_tokens, usage.completion_tokens
    return before, facts.context.used_tokens if facts.context else None, None
