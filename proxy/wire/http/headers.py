"""Groundwire's headers: the hints of a request, and what a response tells of itself; a stage declares its own (`Stage.headers`).

Every value is short, ASCII, percent-encoded where needed and below 256 bytes. `RESPONSE` and the stages' headers
are the table of docs/reference/headers.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from proxy.errors import InvalidRequest
from proxy.exchange import Facts, Found, warning_codes
from proxy.ports.headers import StageHeader

log = logging.getLogger(__name__)

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
_NO_FACTS = Facts()


RESPONSE: Mapping[str, str] = {
    "id": "record id",
    "policy": "NAME@hash8 of the loaded file",
    "verdict": (
        "worst outcome: pass (the answer's checkable statements were all judged, and all held), unsure (checked, nothing failed, not "
        "everything could be decided), unchecked (no check of the answer ran; the reason is a warning code), warn, block, error (a check "
        "could not run: never reported as pass), upstream_error, skipped; pending while streaming"
    ),
    "enforced": "false where the policy is in shadow mode: it judges, and changes nothing",
    "quality": "overall score, 0.00 to 1.00",
    "retries": "how often the upstream was asked for another answer",
    "warnings": "comma-separated codes",
    "overhead-ms": "time the proxy added before the upstream call and after its last byte",
}
"""Those that are no single stage's."""


class ResponseHeaders:
    """Writes the headers of a response, with those that the stages declare."""

    def __init__(self, declared: Iterable[StageHeader] = ()) -> None:
        """A header that several stages declare is written once."""
        every = {header.name: header for header in declared}
        self._without_facts: list[tuple[bytes, bytes]] | None = None
        self._declared = tuple((f"{PREFIX}{name}".encode("ascii"), header.value) for name, header in every.items())

    def __call__(
        self,
        facts: Facts,
        verdicts: Sequence[Found],
        *,
        record_id: str,
        policy: str,
        verdict: str,
        overhead_ms: float,
        enforced: bool = True,
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
        if facts.quality is not None:
            found.append((b"x-groundwire-quality", b"%.2f" % facts.quality))
        if verdicts or facts != _NO_FACTS:
            found += self._of_stages(facts, verdicts, record_id)
        else:  # most that are declared then have no value: they are asked for it once
            if self._without_facts is None:
                self._without_facts = self._of_stages(Facts(), (), record_id)
            found += self._without_facts
        if facts.retries is not None:
            found.append((b"x-groundwire-retries", b"%d" % facts.retries))
        if warnings := warning_codes(verdicts, verdict):
            found.append((b"x-groundwire-warnings", ascii_value(_codes(warnings))))
        return found

    def _of_stages(self, facts: Facts, verdicts: Sequence[Found], record_id: str) -> list[tuple[bytes, bytes]]:
        found = []
        for name, get in self._declared:
            try:
                value = get(facts, verdicts)
            except Exception:  # the code of a stage that may be anybody's: the answer leaves without its header
                log.exception("%s: %s cannot be written", record_id, name.decode("ascii"))
                continue
            if value is not None:
                found.append((name, ascii_value(value)))
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
