"""The request as it came and as it went: its messages side by side in order, words taken out and put in, tools left out.

In: two lists of messages. Out: `DiffStep` values. Bounded in time: texts that are too long
for a comparison by words are compared by lines, and longer ones shown whole as taken out and put in.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from proxy.admin.dashboard.rendering import cut, pretty
from proxy.exchange import tool_name
from proxy.language.text import text_of

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


def steps(before: Sequence[Any], after: Sequence[Any]) -> list[DiffStep]:
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
    other = (
        [p for p in content if not (isinstance(p, Mapping) and p.get("type") in ("text", "output_text"))]
        if isinstance(content, list)
        else []
    )
    return "\n".join(piece for piece in (said, *(pretty(part) for part in other), pretty(rest) if rest else "") if piece)
