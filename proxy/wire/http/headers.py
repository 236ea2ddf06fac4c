"""The names of Groundwire's headers, and nothing else knows them: hints of a request, facts and verdicts of a response.

Every value is short, ASCII, percent-encoded where needed and below 256 bytes. The table `RESPONSE` is the README's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from proxy.errors import InvalidRequest
from proxy.exchange import Facts, Found, warning_codes

MAX_VALUE_BYTES = 255
PREFIX = "x-groundwire-"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~@,;:/+> =()*")


@dataclass(slots=True, frozen=True)
class RequestHints:
    """What a client's ``x-groundwire-…`` request headers ask for."""

    policy: str = ""
    skip: frozenset[str] = frozenset()
    run_id: str = ""
    step_id: str = ""
    inline: bool = False


REQUEST: Mapping[str, str] = {
    "policy": "another policy, if the route's allow_policies lists it",
    "skip": "stages to leave out, as tool_rag,claims, or all; if the route allows it",
    "run-id": "the agent's run; without it, derived from the conversation's stable prefix",
    "step-id": "the run's step; without it, counted",
    "inline": "1 puts the verdict into the body too",
}


def parse_hints(headers: Mapping[str, str]) -> RequestHints:
    """Read the request side; `headers` holds only names below ``x-groundwire-``, lower case. Raises `InvalidRequest`."""
    if not headers:
        return _NO_HINTS
    for name in headers:
        if name.removeprefix(PREFIX) not in REQUEST:
            raise InvalidRequest(f"unknown header {name}; known: {', '.join(PREFIX + known for known in REQUEST)}", param=name)
    values = {name.removeprefix(PREFIX): value.strip() for name, value in headers.items()}
    for name in ("run-id", "step-id"):
        if len(values.get(name, "")) > 128:
            raise InvalidRequest(f"{PREFIX}{name}: at most 128 characters", param=PREFIX + name)
    inline = values.get("inline", "0").lower()
    if inline not in ("0", "1", "true", "false"):
        raise InvalidRequest(f"{PREFIX}inline: expected 0 or 1, got {inline!r}", param=PREFIX + "inline")
    skip = frozenset(part.strip() for part in values.get("skip", "").split(",") if part.strip())
    return RequestHints(values.get("policy", ""), skip, values.get("run-id", ""), values.get("step-id", ""), inline in ("1", "true"))


_NO_HINTS = RequestHints()


def _context(facts: Facts) -> str | None:
    use = facts.context
    if use is None:
        return None
    return f"{use.used_tokens}/{use.window_tokens or 'unknown'};{'exact' if use.exact else 'estimate'}"


def _compression(facts: Facts) -> str | None:
    done = facts.compression
    if done is None:
        return None
    if not done.strategies:
        return f"none;{done.reason}"
    ratio = done.before_tokens / max(done.after_tokens, 1)
    return f"{'+'.join(done.strategies)};{done.before_tokens}->{done.after_tokens};{ratio:.1f}x"


def _tools(facts: Facts) -> str | None:
    tools = facts.tools
    return None if tools is None else f"{tools.offered}->{tools.kept}" + (f";{tools.reason}" if tools.reason else "")


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _citations(facts: Facts) -> str | None:
    return None if facts.citations is None else f"{facts.citations[0]}/{facts.citations[1]}"


@dataclass(slots=True, frozen=True)
class _Header:
    name: str
    meaning: str
    value: Callable[[Facts], str | None] | None = None
    """None for those that say no fact."""


RESPONSE: tuple[_Header, ...] = (
    _Header("id", "record id"),
    _Header("policy", "NAME@hash8 of the loaded file"),
    _Header(
        "verdict",
        "worst outcome: pass (something was checked, and held), unchecked (nothing to check or to check against), warn, block, error "
        "(a check could not run), upstream_error, skipped; pending while streaming",
    ),
    _Header("enforced", "false where the policy is in shadow mode: it judges, and changes nothing"),
    _Header("quality", "overall score, 0.00 to 1.00", lambda facts: _share(facts.quality)),
    _Header("faithfulness", "share of checkable claims that the context supports", lambda facts: _share(facts.faithfulness)),
    _Header("citations", "verified/total", _citations),
    _Header(
        "confidence",
        "the answer's own rating: HIGH, MEDIUM, LOW or none; ;overclaimed where the evidence does not carry it",
        lambda facts: facts.confidence,
    ),
    _Header("relevance", "calibrated relevance of the context to the question, 0.00 to 1.00", lambda facts: _share(facts.relevance)),
    _Header("context", "used/window;exact or ;estimate, in tokens, as sent upstream", _context),
    _Header("compression", "strategies (stored: what an earlier request decided);before->after;ratio, or none;REASON", _compression),
    _Header("tools", "offered->kept, with the reason when all are kept", _tools),
    _Header("clashes", "clashes found", lambda facts: _number(facts.clashes)),
    _Header("failures", "failure records injected", lambda facts: _number(facts.failures_injected)),
    _Header("retries", "how often the upstream was asked for another answer", lambda facts: _number(facts.retries)),
    _Header("warnings", "comma-separated codes"),
    _Header("overhead-ms", "time the proxy added before the upstream call and after its last byte"),
)
_OF_FACTS = tuple((f"{PREFIX}{header.name}".encode(), header.value) for header in RESPONSE if header.value is not None)


def response_headers(
    facts: Facts, verdicts: Sequence[Found], *, record_id: str, policy: str, verdict: str, overhead_ms: float, enforced: bool = True
) -> list[tuple[bytes, bytes]]:
    """Every header that has a value, ready for ASGI."""
    found = [
        (b"x-groundwire-id", record_id.encode("ascii")),
        (b"x-groundwire-policy", policy.encode("ascii")),
        (b"x-groundwire-verdict", verdict.encode("ascii")),
        (b"x-groundwire-overhead-ms", b"%.2f" % overhead_ms),
    ]
    if not enforced:
        found.append((b"x-groundwire-enforced", b"false"))
    found += [(name, ascii_value(value)) for name, get in _OF_FACTS if (value := get(facts)) is not None]
    if warnings := _codes(warning_codes(verdicts)):
        found.append((b"x-groundwire-warnings", ascii_value(warnings)))
    return found


def plain_headers(record_id: str, verdict: str) -> list[tuple[bytes, bytes]]:
    """For what has no exchange: a pass-through, or a request that was refused before it became one."""
    return [(b"x-groundwire-id", record_id.encode("ascii")), (b"x-groundwire-verdict", verdict.encode("ascii"))]


def ascii_value(value: str) -> bytes:
    """`value` as a legal header value: percent-encoded where needed, cut to `MAX_VALUE_BYTES` at a whole character."""
    if len(value) <= MAX_VALUE_BYTES and value.isascii() and _PLAIN.issuperset(value.encode("ascii")):
        return value.encode("ascii")
    encoded = _quoted(value)
    if len(encoded) <= MAX_VALUE_BYTES:
        return encoded
    out, size = [], 0
    for character in value:
        piece = _quoted(character)
        size += len(piece)
        if size > MAX_VALUE_BYTES:
            break
        out.append(piece)
    return b"".join(out)


def _quoted(text: str) -> bytes:
    return quote(text, safe="-._~@,;:/+> =()*", errors="replace").encode("ascii")


def _codes(codes: list[str]) -> str:
    """Comma-separated, as many whole codes as fit."""
    while codes and len(_quoted(",".join(codes))) > MAX_VALUE_BYTES:
        codes = codes[:-1]
    return ",".join(codes)
