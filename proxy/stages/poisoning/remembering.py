"""A decision on a piece <-> an item of the quarantine: what is kept of it, and what of the piece it takes out when it comes again.

The item's content is the piece, byte for byte; its detail names the failing statements by their words, so that they are found again in a
piece with other white space. Every worker that finds the item takes out the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.context.conversation import calls_of
from proxy.context.edits import Edit, whole
from proxy.context.pieces import ContextPiece
from proxy.exchange import Exchange, Message, tool_name
from proxy.grounding.claims.redaction import sentence_spans
from proxy.language.json.strings import strings_of, with_values
from proxy.ports import QuarantineItem
from proxy.ports.review import POLICY
from proxy.stages.poisoning.decisions import Failing, PieceDecision
from proxy.stages.poisoning.injections.injection import THRESHOLD, InjectionFinding, detect

MAX_LISTED = 50
"""Statements that an item names; where there are more, all of the piece goes."""
MAX_REASON_CHARS = 500
HELD = ("quarantine", "block", "reject")


def item_of(
    exchange: Exchange,
    piece: ContextPiece,
    decision: PieceDecision,
    injection: InjectionFinding | None = None,
    threshold: float = THRESHOLD,
    tool: str = "",
) -> QuarantineItem:
    """What the quarantine keeps of a piece, a result of `tool` if that has a name: decided by the policy where it blocks, open where it
    holds it for a person.

    `threshold` is the strength from which a text counts as an instruction.
    """
    blocked = decision.action == "block"
    held = [one for one in decision.failing if one.action in HELD]
    detail: dict[str, Any] = {"statements": [_statement(one) for one in held[:MAX_LISTED]]}
    whole = decision.whole and strings_of(piece.text) is None  # what stands in one value of JSON says nothing of the others
    if decision.instruction and injection is not None:
        detail |= {"strings": _strings(piece.text, injection, threshold), "categories": sorted({s.category for s in injection.spans})}
        whole = not detail["strings"]
    detail["whole"] = whole or len(held) > MAX_LISTED
    if decision.action == "reject":
        detail["refused"] = "low_confidence" if decision.low_confidence else "false"
    reason = decision.reason[:MAX_REASON_CHARS]
    return QuarantineItem(
        client=exchange.client,
        run_id=exchange.run_id,
        policy=exchange.policy,
        hash=piece.hash,
        kind=piece.kind,
        role=piece.role,
        type=decision.kind or "",
        reason=reason,
        content=piece.text.encode("utf-8", "surrogatepass"),
        score=decision.score,
        source=piece.source or tool,
        record_id=exchange.id,
        detail=detail,
        status="rejected" if blocked else "pending",
        decided_by=POLICY if blocked else "",
        decision_reason=reason if blocked else "",
    )


def edits_of(piece: ContextPiece, detail: Mapping[str, Any], marker: str, note: str) -> list[Edit]:
    """What an item's `detail` takes out of the piece; all of it where a statement cannot be found any more.

    `marker` takes a statement's place, `note` that of a JSON string.
    """
    values = list(_values(piece, detail.get("strings") or (), note))
    spans = _places(piece.text, [str(statement["text"]) for statement in detail.get("statements") or ()])
    if detail.get("whole") or spans is None or not (values or spans):
        return [whole(piece)]
    if strings_of(piece.text) is not None:
        return values + [Edit(piece, *span, _instead(piece.text, *span, marker, note)) for span in spans]
    spans = sentence_spans(piece.text, spans)
    rest = piece.text
    for start, end in reversed(spans):
        rest = rest[:start] + rest[end:]
    return [Edit(piece, *span, marker) for span in spans] if any(c.isalnum() for c in rest) else [whole(piece)]


def _statement(failing: Failing) -> dict[str, Any]:
    finding = failing.finding
    found = {
        "text": finding.text,
        "type": finding.kind,
        "status": finding.status,
        "confidence": round(finding.confidence, 4),
        "reason": failing.reason[:MAX_REASON_CHARS],
        "correct_fact": finding.correct_fact,
        "source": finding.source,
    }
    return {name: value for name, value in found.items() if value != ""}


def _strings(text: str, injection: InjectionFinding, threshold: float) -> list[str]:
    """Of a JSON piece the values that hold instructions, until what is left holds none: a finding is of the strongest attempt only.

    Empty for any other text, and where so few values cannot be told.
    """
    found: list[str] = []
    while injection.score >= threshold:
        spans = {(span.start - 1, span.end + 1) for span in injection.spans}
        strings = strings_of(text) or []
        hits = {i: string.value for i, string in enumerate(strings) if (string.start, string.end) in spans and string.value.strip()}
        found += dict.fromkeys(hits.values())
        if not hits or len(found) > MAX_LISTED:
            return []
        text = with_values(text, {i: "" for i, string in enumerate(strings) if string.value in hits.values()})
        injection = detect(text)
    return found


def tools_of(messages: Sequence[Message]) -> dict[int, str]:
    """The name of the tool whose result a message is, by its position: the latest call before it with its id."""
    called: dict[object, str] = {}
    found: dict[int, str] = {}
    for i, message in enumerate(messages):
        if message.get("role") == "tool" and isinstance(answers := message.get("tool_call_id"), str):
            found[i] = called.get(answers, "")
        for call in reversed(calls_of(message)):
            if isinstance(call.get("id"), str):
                called[call["id"]] = tool_name(call)
    return found


def _values(piece: ContextPiece, values: Sequence[str], note: str) -> Iterator[Edit]:
    """The strings of a JSON piece that say these values."""
    for string in (strings_of(piece.text) or ()) if values else ():
        if string.value in values:
            yield Edit(piece, string.start, string.end, json.dumps(note, ensure_ascii=False))


def _instead(text: str, start: int, end: int, marker: str, note: str) -> str:
    """What takes a statement's place; a JSON string of which nothing is left says so."""
    alone = text[start - 1 : start] == text[end : end + 1] == '"' and strings_of(text) is not None
    return json.dumps(note, ensure_ascii=False)[1:-1] if alone else marker


def _places(text: str, statements: Sequence[str]) -> list[tuple[int, int]] | None:
    """Where the statements stand; None where one of them cannot be found any more."""
    found, at = list[tuple[int, int]](), 0
    for statement in statements:
        span = _place(text, statement, at)
        if span is None:
            return None
        found.append(span)
        at = span[1]
    return found


def _place(text: str, said: str, after: int) -> tuple[int, int] | None:
    """Where a statement stands, behind `after` if it can be, with any white space between its words."""
    for start in (after, 0):
        at = text.find(said, start)
        if at >= 0:
            return at, at + len(said)
    words = [re.escape(word) for word in said.split()]
    match = re.search(r"\s+".join(words), text) if words else None
    return match.span() if match is not None else None
