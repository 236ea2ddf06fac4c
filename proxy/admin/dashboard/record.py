"""The page of one exchange: its tokens, its answer with evidence, each stage's verdict and time, the request, the headers.

In: the record as the store has it, which another version may have written. Positions of claims are held against the answer's text: secrets
are masked after claims are placed. The request is shown as it came and as it went, message by message. Bounded in time: texts that are too
long for a comparison by words are compared by lines, and longer ones shown whole as taken out and put in.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from proxy.admin.dashboard.rendering import cut, pretty
from proxy.admin.dashboard.summaries import in_words, list_in, mappings_in, outcome_of, why
from proxy.admin.feedback import LABELS, OUTCOMES
from proxy.admin.verdicts import ListedClaim, ListedClaims, headers_of, listed_claims
from proxy.exchange import tool_name, unchecked_reason
from proxy.language.amounts import dollars, milliseconds, number
from proxy.language.text import text_of
from proxy.ports.upstream import OWN
from proxy.store.feedback import Feedback
from proxy.store.masking import MASK
from proxy.store.records import Record, RecordTexts, RecordVerdict
from proxy.wire.http.headers import ResponseHeaders

Kind = Literal["kept", "changed", "removed", "added"]
Piece: TypeAlias = tuple[Kind, str]
"""Of a text that changed: a part as it came, taken out or put in."""
_WORD = re.compile(r"\s*(?:\w+|[^\w\s]|$)")
_MAX_STEPS = 1_000_000
"""Of a comparison: pieces of the one side times pieces of the other; some tenths of a second."""
_SHOWN_CHARS, _CONTEXT_CHARS, _PREVIEW_CHARS = 6000, 300, 90
_MAX_CHANGED, _MAX_KEPT = 150, 50
"""Messages that a page shows; a conversation may have thousands."""


class DiffStep(Struct, frozen=True):
    """One message, on one or both sides."""

    kind: Kind
    role: str
    before: str
    after: str

    @property
    def size(self) -> int:
        """Characters."""
        return len(self.after or self.before)

    @property
    def preview(self) -> str:
        """How it begins."""
        return cut(" ".join((self.after or self.before)[: 4 * _PREVIEW_CHARS].split()), _PREVIEW_CHARS)

    @property
    def pieces(self) -> list[Piece]:
        """Its text for the page."""
        if self.kind == "changed":
            return _changes(self.before, self.after)
        return [(self.kind, cut(self.after or self.before, _SHOWN_CHARS))]


def matched_steps(before: Sequence[Any], after: Sequence[Any]) -> list[DiffStep]:
    """The messages of both sides, matched in order."""
    ours, theirs = [_key(m) for m in before], [_key(m) for m in after]
    head = _same(ours, theirs)
    tail = _same(ours[head:][::-1], theirs[head:][::-1])
    i, j = len(ours) - tail, len(theirs) - tail
    return [*_kept(before[:head]), *_matched(before[head:i], after[head:j], ours[head:i], theirs[head:j]), *_kept(before[i:])]


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """How many both begin with."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _kept(messages: Sequence[Any]) -> list[DiffStep]:
    return [DiffStep("kept", _role(message), text := _text(message), text) for message in messages]


def _replaced(before: Sequence[Any], after: Sequence[Any]) -> list[DiffStep]:
    gone, come = [DiffStep("removed", _role(m), _text(m), "") for m in before], [DiffStep("added", _role(m), "", _text(m)) for m in after]
    return [*gone, *come]


def _matched(before: Sequence[Any], after: Sequence[Any], ours: Sequence[str], theirs: Sequence[str]) -> list[DiffStep]:
    if len(ours) * len(theirs) > _MAX_STEPS:
        return _replaced(before, after)
    found: list[DiffStep] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, ours, theirs).get_opcodes():
        found += _kept(before[i1:i2]) if tag == "equal" else _between(before[i1:i2], after[j1:j2])
    return found


def _between(before: Sequence[Any], after: Sequence[Any]) -> list[DiffStep]:
    """Between two places where both sides agree: messages of one role are the same one, changed; the others came or went."""
    found: list[DiffStep] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, [*map(_role, before)], [*map(_role, after)]).get_opcodes():
        if tag == "equal":
            found += [DiffStep("changed", _role(a), _text(a), _text(b)) for a, b in zip(before[i1:i2], after[j1:j2], strict=True)]
        else:
            found += _replaced(before[i1:i2], after[j1:j2])
    return found


def listed_steps(found: Sequence[DiffStep]) -> list[DiffStep]:
    """Those that a page has room for, in order: what changed before what did not."""
    changed = [i for i, step in enumerate(found) if step.kind != "kept"][:_MAX_CHANGED]
    kept = [i for i, step in enumerate(found) if step.kind == "kept"][-_MAX_KEPT:]
    return [found[i] for i in sorted([*changed, *kept])]


def _changes(before: str, after: str) -> list[Piece]:
    """Words taken out and put in; long stretches that are the same are cut in their middle."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    head = _same(old, new)
    tail = _same(old[head:][::-1], new[head:][::-1])
    i, j = len(old) - tail, len(new) - tail
    first, last = "".join(old[:head]), "".join(old[i:])
    return [("kept", _middle_cut(first)), *_differing(old[head:i], new[head:j]), ("kept", _middle_cut(last))]


def _differing(old: Sequence[str], new: Sequence[str]) -> list[Piece]:
    """By words, else by lines, else as a whole."""
    for split in (False, True):
        if split:
            old, new = "".join(old).splitlines(keepends=True), "".join(new).splitlines(keepends=True)
        if len(old) * len(new) <= _MAX_STEPS:
            codes = difflib.SequenceMatcher(None, old, new).get_opcodes()
            return [piece for tag, i1, i2, j1, j2 in codes for piece in _pieces(tag, "".join(old[i1:i2]), "".join(new[j1:j2]))]
    return _pieces("replace", "".join(old), "".join(new))


def _pieces(tag: str, gone: str, come: str) -> list[Piece]:
    if tag == "equal":
        return [("kept", _middle_cut(gone))]
    sides: tuple[Piece, Piece] = ("removed", gone), ("added", come)
    return [(kind, cut(text, _SHOWN_CHARS)) for kind, text in sides if text]


def _middle_cut(text: str) -> str:
    left_out = len(text) - 2 * _CONTEXT_CHARS
    if left_out < _CONTEXT_CHARS:
        return text
    return f"{text[:_CONTEXT_CHARS]} … {left_out:,} characters as they came … {text[-_CONTEXT_CHARS:]}"


def tool_lists(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[str, list[str], Kind]]:
    """Which tools went to the model: title, names and kind of each list."""
    offered, sent = ([tool_name(tool) for tool in tools if isinstance(tool, Mapping)] for tools in (before, after))
    return [
        ("Sent", [name for name in sent if name in offered], "kept"),
        ("Put in", [name for name in sent if name not in offered], "added"),
        ("Left out", [name for name in offered if name not in sent], "removed"),
    ]


def _key(message: Any) -> str:
    return json.dumps(message, sort_keys=True, ensure_ascii=False)


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    return role if isinstance(role, str) else "message"


def _text(message: Any) -> str:
    """What a message says: its text, and whatever else it has as JSON."""
    if not isinstance(message, Mapping):
        return pretty(message)
    content = message.get("content")
    said = text_of(content)
    rest = {name: value for name, value in message.items() if name not in ("role", "content") and value is not None}
    parts = content if isinstance(content, list) else []
    other = [p for p in parts if not (isinstance(p, Mapping) and p.get("type") in ("text", "output_text"))]
    return "\n".join(piece for piece in (said, *(pretty(part) for part in other), pretty(rest) if rest else "") if piece)


_CHANGE_CHARS = 400
_START_CHARS = 12


class ShownClaim(Struct, frozen=True):
    """One entry of the record's list, and where its sentence stands in the answer."""

    number: int
    start: int
    end: int
    entry: ListedClaim

    @property
    def place(self) -> str:
        """As `proxy.admin.feedback` names it."""
        return f"{self.entry.choice}:{self.start}-{self.end}"

    @property
    def anchor(self) -> str:
        """Of its finding."""
        return f"claim-{self.number}"


def claims_of(found: ListedClaims) -> list[ShownClaim]:
    """The entries that have a place, numbered from 1 in the answer's order."""
    placed = [(one.choice, *one.span, one) for one in found.claims if one.span is not None]
    ordered = sorted(placed, key=lambda one: one[:3])
    return [ShownClaim(number, start, end, one) for number, (_, start, end, one) in enumerate(ordered, 1)]


def places_in(claims: Sequence[ShownClaim], text: str) -> list[tuple[int, int, ShownClaim]]:
    """Where each stands, in order and without overlaps: where it says, or where its words come next, as masking changed what is before."""
    found: list[tuple[int, int, ShownClaim]] = []
    after = 0
    for claim in claims:
        start, end, words = claim.start, claim.end, claim.entry.text
        if words and (MASK in words or end > len(text) or not _there(words, text[max(start, 0) : max(end, 0)])):
            start = text.find(words, after)
            end = start + len(words)
        if after <= start < end <= len(text):
            found.append((start, end, claim))
            after = end
    return found


def _there(claim: str, piece: str) -> bool:
    """Whether the piece begins with the claim's words, marks of list, emphasis and table aside."""
    words, said = _letters(claim), _letters(piece)
    return not words or words[:_START_CHARS] in said or said[:_START_CHARS] in words


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def pieces(claims: Sequence[ShownClaim], text: str) -> list[tuple[str, ShownClaim | None]]:
    """The text, cut where claims stand in it."""
    found: list[tuple[str, ShownClaim | None]] = []
    last = 0
    for start, end, claim in places_in(claims, text):
        found += [(text[last:start], None), (text[start:end], claim)]
        last = end
    return [*found, (text[last:], None)]


class Choice(Struct, frozen=True):
    """One of the answers that the upstream gave."""

    index: int
    text: str
    pieces: Sequence[tuple[str, ShownClaim | None]]
    calls: Sequence[Any]
    """Of tools."""


class StageRow(Struct, frozen=True):
    """What a stage found, and how long it took."""

    name: str
    verdicts: Sequence[RecordVerdict]
    times_ms: Mapping[str, float]
    """By hook."""
    share: float
    """Of the time of the longest."""


def record_page(record: Record, headers: ResponseHeaders, feedback: Mapping[tuple[str, str], Feedback]) -> dict[str, Any]:
    """What ``record.html`` shows; `headers` are written as the exchange's were, `feedback` is what people said of its findings."""
    detail = record.typed_detail
    found = listed_claims(detail.verdicts)
    claims = claims_of(found)
    sent = None if record.request_body is None else _loaded(record.request_body)
    went = detail.forwarded or sent
    steps = matched_steps(list_in(sent, "messages"), list_in(went, "messages"))
    shown = listed_steps(steps)
    claims_code = next((one.code for one in reversed(detail.verdicts) if one.stage == "claims" and one.code), "")
    kinds: tuple[Kind, ...] = ("kept", "changed", "removed", "added")
    return {
        "record": record,
        "detail": detail,
        "outcome": outcome_of(record),
        "why": why(record.reason, record.would),
        "claims": claims,
        "claims_left_out": found.claims_left_out,
        "answer_state": _answer_state(record, detail),
        "choices": None if record.answer_body is None else _choices(_loaded(record.answer_body), claims),
        "judge": _judge(detail),
        "components": _components(detail),
        "unchecked": in_words(claims_code or unchecked_reason(detail.verdicts)),
        "stage_rows": stage_rows(detail),
        "changes": [_change(change) for change in detail.changes],
        "steps": None if record.request_body is None else shown,
        "steps_left_out": len(steps) - len(shown),
        "step_counts": [(kind, count) for kind in kinds if (count := sum(step.kind == kind for step in steps))],
        "tools": tool_lists(list_in(sent, "tools"), list_in(went, "tools")),
        "parameters": _without(sent, "messages", "tools"),
        "headers": headers_of(record, headers),
        "feedback": feedback,
        "sentence_labels": LABELS,
        "verdict_labels": OUTCOMES,
    }


def _answer_state(record: Record, detail: RecordTexts) -> Literal["kept", "own", "refused", "failed", "private"]:
    """What there is of a model's answer: its text; no model asked, as Groundwire answered or refused; the provider gave none; none kept."""
    if record.upstream == OWN:
        return "own"
    judged = record.completion_tokens is not None or any(name.endswith(".answer") for name in detail.timings_ms)
    if record.answer_body is not None or judged:
        return "kept" if record.answer_body is not None else "private"
    if record.outcome in ("block", "error"):
        return "refused"
    return "failed" if record.outcome == "upstream_error" and record.status >= 400 else "private"


def called_tools(record: Record) -> tuple[str, ...]:
    """Names of the tools that its answer calls, where its body is kept."""
    choices = mappings_in(_loaded(record.answer_body or b"{}"), "choices")
    return tuple(str(call.get("name", "")) for choice in choices for call in mappings_in(choice, "tool_calls"))


def _choices(body: Any, claims: Sequence[ShownClaim]) -> list[Choice]:
    found = []
    for position, choice in enumerate(mappings_in(body, "choices")):
        given, text = choice.get("index", position), str(choice.get("text") or "")
        index = given if isinstance(given, int) else position
        found.append(
            Choice(index, text, pieces([claim for claim in claims if claim.entry.choice == index], text), list_in(choice, "tool_calls"))
        )
    return found


def _judge(detail: RecordTexts) -> str:
    """What the policy's judge was asked, and what that took; "" where there is none."""
    use = detail.facts.judge if detail.facts is not None else None
    if use is None:
        return ""
    tokens = use.input_tokens + use.output_tokens
    parts = [f"{use.by}: {number(use.asked)} asked", f"{number(use.cached)} known already" if use.cached else ""]
    parts += [f"{number(use.unanswered)} unanswered" if use.unanswered else "", f"{number(tokens)} tokens" if tokens else ""]
    parts += [milliseconds(use.ms) if use.calls else "", dollars(use.usd) if use.usd is not None else "", *use.failed]
    return ", ".join(filter(None, parts))


def _components(detail: RecordTexts) -> list[tuple[str, int]]:
    use = detail.facts.context if detail.facts is not None else None
    if use is None or use.used_tokens < 1:
        return []
    return sorted(((name, tokens) for name, tokens in use.components.items() if tokens > 0), key=lambda one: -one[1])


def stage_rows(detail: RecordTexts) -> list[StageRow]:
    """In the order in which they ran."""
    times: dict[str, dict[str, float]] = {}
    for name, ms in detail.timings_ms.items():
        stage, dot, hook = name.partition(".")
        if dot:
            times.setdefault(stage, {})[hook] = ms
    longest = max((ms for hooks in times.values() for ms in hooks.values()), default=0.0) or 1.0
    rows = []
    for name in dict.fromkeys([*times, *(verdict.stage for verdict in detail.verdicts)]):
        mine = times.get(name, {})
        verdicts = [verdict for verdict in detail.verdicts if verdict.stage == name]
        rows.append(StageRow(name, verdicts, mine, sum(mine.values()) / longest))
    return rows


def _change(change: Mapping[str, Any]) -> tuple[str, str, str]:
    rest = _without(change, "stage", "what")
    words = ", ".join(f"{name.replace('_', ' ')} {cut(_plain(value), _CHANGE_CHARS)}" for name, value in rest.items())
    return str(change.get("stage", "")), str(change.get("what", "")), words


def _without(mapping: Any, *names: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in names} if isinstance(mapping, Mapping) else {}


def _loaded(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except ValueError:
        return {}


def _plain(value: Any) -> str:
    """A value without the marks of JSON."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ("; " if any(isinstance(one, Mapping) for one in value) else ", ").join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
