"""What the arguments of an answer's tool calls take for granted: names, ids, addresses, dates, and whole statements. Pure functions.

A value that stands in the evidence as it is, whatever its case, is supported; another is left to the verifier, as ``key: value``. Calls
of retrieval tools are left out: what one searches for is not known yet. So are words of a fixed set of values (``celsius``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from proxy.context.passages import is_retrieval_tool
from proxy.exchange import Choice, Evidence
from proxy.exchange.judgements import Claim, EvidenceSpan, Judgement
from proxy.grounding.claims.claims import claims_of
from proxy.stages.claims.reading import STATEMENT_WORDS, key_of

MAX_ARGUMENTS = 50
"""Values checked of one choice's calls."""
MAX_DEPTH = 8


class Argument(Struct, frozen=True):
    """One value to check."""

    choice: int
    tool: str
    path: str
    value: str
    claim: Claim
    """Its positions are the value's own."""


def arguments_of(choice: Choice, retrieval_tools: Sequence[str]) -> list[Argument]:
    """The values worth checking in `choice`'s calls, in order."""
    found: list[Argument] = []
    for call in choice.tool_calls:
        if is_retrieval_tool(call.name, retrieval_tools):
            continue
        for path, value in _strings(call.parsed, "", MAX_DEPTH):
            text = _claimed(path, value.strip())
            if text and len(found) < MAX_ARGUMENTS:
                found.append(Argument(choice.index, call.name, path, value, Claim(text, 0, len(value))))
    return found


def _strings(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list) and depth:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _strings(inner, f"{path}.{key}" if path else str(key), depth - 1)


def _claimed(path: str, value: str) -> str:
    """What `value` states, "" when it is not worth a check."""
    if len(value.split()) >= STATEMENT_WORDS:
        return value if any(claim.checkable for claim in claims_of(value)) else ""
    return f"{key_of(path)}: {value}".removeprefix(": ") if _tells(value) else ""


def _tells(value: str) -> bool:
    """Whether a short value is a name, a number, an id or an address: something that cannot be guessed."""
    words = value.split()
    return any(c.isdigit() for c in value) or "@" in value or any(w[0].isupper() and not w.isupper() for w in words)


def literals(arguments: Sequence[Argument], evidence: Sequence[Evidence]) -> list[Judgement | None]:
    """For each, supported where its value stands in the evidence; None where it does not."""
    return [_literal(argument, evidence) for argument in arguments]


def _literal(argument: Argument, evidence: Sequence[Evidence]) -> Judgement | None:
    words = [re.escape(word) for word in argument.value.split()]
    pattern = re.compile(r"(?<!\w)" + r"\s+".join(words) + r"(?!\w)", re.I)
    for piece in evidence:
        match = pattern.search(piece.content)
        if match is not None:
            span = EvidenceSpan(match[0], match.start(), match.end(), piece.source, piece.kind, piece.message_index)
            return Judgement(argument.claim, "supported", 1.0, 0.0, span, decided_by="literal")
    return None
