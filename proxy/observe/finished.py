"""An exchange that is over: what the endpoint knows of it, and the line that the log says of it.

`Finished` is made once by `proxy.server.handler` when everything has left, for the record (`recording`), the figures (`metrics`), the log
(`logs`) and the spans (`tracing`). A `LogLine` is names, numbers and codes only: no key, no message, no word of an answer.
"""

from __future__ import annotations

from msgspec import Struct

from proxy.errors import ProxyError
from proxy.exchange import Exchange, Facts, Usage

MAX_NAME_CHARS = 200
"""Longest name that a client may put into a line."""
PASSED_THROUGH = "pass-through"
CLIENT_CLOSED_REQUEST = 499
"""Status in a record whose client left; nginx's convention, never sent."""
Tokens = tuple[int | None, int | None, int | None]


class Finished(Struct, frozen=True, kw_only=True):
    """All that is known of it."""

    id: str
    """Record id."""
    exchange: Exchange | None = None
    """None where none came to be: for a path that no policy applies to, or a request that was refused before."""
    status: int = 0
    """HTTP status; 499 when the client left."""
    verdict: str = ""
    method: str = ""
    path: str = ""
    """Below the route's ``/v1``, without its query."""
    passed_through: bool = False
    route: str = ""
    """The route's prefix."""
    client: str = ""
    """The name of the client's key, or a hash of its ``Authorization``."""
    upstream: str = ""
    """The one that answered, by its name in config.yaml; the route's where none did."""
    asked_in: str = ""
    """The API in which it was asked, where that is not the client's: ``chat``, ``responses``, ``messages``."""
    tries: int = 0
    """Calls of upstreams that gave a reply."""
    model: str = ""
    """Of a path that is passed through: as the client named it where its body was read, else the one that its answer names."""
    usage: Usage | None = None
    """What it took: as the upstream says, or as it was counted where that says nothing (`proxy.server.usage`); None where none answered."""
    usd: float | None = None
    """What it has cost, where the answer says so."""
    error: ProxyError | None = None
    received_at: float = 0.0
    """Seconds since the epoch; by `time.perf_counter`, that was `started`."""
    started: float = 0.0
    duration_ms: float = 0.0
    overhead_ms: float = 0.0
    """What the proxy added before the upstream's last byte."""
    trace_id: str = ""
    """In hex, of the trace that it belongs to."""

    @property
    def attempts(self) -> int:
        """Calls that upstreams got."""
        return self.tries + (self.error.attempts if self.error is not None else 0)

    @property
    def tokens(self) -> Tokens:
        """Prompt tokens as the client sent them and as they went upstream (the upstream's own figure if it gave one; None where nothing
        went), and the answer's.
        """
        facts = self.exchange.facts if self.exchange is not None else Facts()
        before = facts.context_before.used_tokens if facts.context_before else None
        if self.usage is not None:
            return before, self.usage.prompt_tokens, self.usage.completion_tokens
        return before, facts.context.used_tokens if facts.context and self.attempts else None, None


class LogLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exchange on one line of the log, and its span; what is empty is left out of it."""

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
    asked_in: str = ""
    """The API in which it was asked, where that is not the client's."""
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
    tokens_estimated: bool = False
    """Whether this proxy has counted what was taken, as the upstream did not say."""
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


def log_line(finished: Finished) -> LogLine:
    """The line."""
    error, exchange = finished.error, finished.exchange
    before, prompt, completion = finished.tokens
    path, run, step, model = finished.path, "", "", finished.model
    if exchange is not None:
        run, step, model = exchange.run_id, exchange.step_id, exchange.original.model
    if len(path + run + step + model) > MAX_NAME_CHARS:
        path, run, step, model = clipped(path), clipped(run), clipped(step), clipped(model)
    return LogLine(
        id=finished.id,
        status=finished.status,
        verdict=finished.verdict,
        method=finished.method,
        path=path,
        route=finished.route or "/",
        client=finished.client,
        kind=PASSED_THROUGH if finished.passed_through else "",
        policy=exchange.policy if exchange is not None else "",
        run=run,
        step=step,
        model=model,
        stream=exchange is not None and exchange.original.stream,
        warnings=tuple(exchange.warnings) if exchange is not None and exchange.verdicts else (),
        upstream=finished.upstream,
        asked_in=finished.asked_in,
        error=error.code if error is not None else "",
        prompt_tokens_before=before,
        prompt_tokens=prompt,
        completion_tokens=completion,
        tokens_estimated=finished.usage is not None and finished.usage.estimated,
        attempts=finished.attempts,
        duration_ms=round(finished.duration_ms, 3),
        overhead_ms=round(finished.overhead_ms, 3),
        trace_id=finished.trace_id,
    )


def clipped(name: str) -> str:
    """A name that came from a client, no longer than a line can bear."""
    return name if len(name) <= MAX_NAME_CHARS else name[:MAX_NAME_CHARS] + "…"
