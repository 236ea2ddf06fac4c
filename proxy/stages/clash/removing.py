"""Decided clashes -> edits of the conversation: the statement that lost leaves with its marks, a merged one takes the older one's place.

Pure. What the system said and the last user message are not edited, nor are, unless the policy says so, the user's words; the list of
messages stays as it is (`proxy.context.edits`). What is not taken out is noted (`proxy.stages.clash.noting`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from proxy.context.edits import Edit
from proxy.grounding.clashes.statements.value_spans import value_span
from proxy.stages.clash.context import Spoken
from proxy.stages.clash.ledger import LedgerEntry
from proxy.stages.clash.options import Editing

NOTE = "[Another statement took the place of this one.]"
"""What a message says of which nothing is left."""
_MARKER = re.compile(r"(?:^|\n)[ \t]{0,8}(?:[-*•–]|\(?\d{1,3}[.)])[ \t]{1,4}$")
_JOINED_BEFORE = re.compile(r"[,;:–—-]?\s{0,3}\b(?:and|but|or|so|und|aber|oder|y|e|pero|o|et|mais|ou)\s{1,3}$|[,;–—]\s{0,3}$", re.I)
_JOINED_BEHIND = re.compile(
    r"\s{0,3}[,;–—-]?\s{0,3}\b(?:and|but|or|so|und|aber|oder|y|e|pero|o|et|mais|ou)\b\s{0,3}|\s{0,3}[,;–—]\s{0,3}", re.I
)
_END = re.compile(r"[.!?…;]{1,4}[\"'”’»)\]*_]{0,3}")


class _Leaving(Struct, frozen=True):
    """A statement that leaves, what takes its place, and what it lost on."""

    one: Spoken
    text: str = ""
    topics: frozenset[str] = frozenset()


def can_leave(entry: LedgerEntry, one: Spoken, editing: Editing) -> bool:
    """Whether a statement that no longer counts is taken out."""
    return not one.locked and one.key not in entry.stays and (editing == "all" or one.statement.origin == "memory")


def edits_of(entries: Iterable[LedgerEntry], editing: Editing = "all") -> list[Edit]:
    """The edits that carry the decisions out, each statement once."""
    entries = list(entries)
    lost = [one.key for entry in entries for one in entry.leaving]
    leaving: dict[str, _Leaving] = {}
    for entry in entries:
        for one in entry.leaving:
            if not can_leave(entry, one, editing):
                continue
            earlier = leaving.get(one.key)
            text = "" if earlier is not None and not earlier.text else _instead(entry, one, lost, editing)
            topics = {entry.record.topic, *(earlier.topics if earlier is not None else ())}
            leaving[one.key] = _Leaving(one, text, frozenset(topics))
        leaving |= {one.key: _Leaving(one) for one in entry.echoes if can_leave(entry, one, editing)}
    return [edit for one in leaving.values() for edit in _edits(one)]


def _instead(entry: LedgerEntry, one: Spoken, lost: list[str], editing: Editing) -> str:
    """The merged statement, once: where the older one stood, or the newer one where that cannot be edited.

    Where one of the two has lost to a third since, the merged one has, too.
    """
    if entry.record.resolution != "merged" or any(lost.count(side.key) > 1 for side in entry.leaving):
        return ""
    editable = [side for side in entry.leaving if can_leave(entry, side, editing)]
    return entry.record.merged if editable and one is editable[0] else ""


def _edits(leaving: _Leaving) -> list[Edit]:
    one = leaving.one
    said, piece = one.statement, one.piece
    spans = [span for topic in leaving.topics if (span := value_span(said, topic)) is not None]
    if spans and len(spans) == len(leaving.topics):  # the rest of the request still holds
        added = [Edit(piece, said.end, said.end, f" {leaving.text}")] if leaving.text else []
        return [*(Edit(piece, start, end) for start, end in spans), *added]
    if leaving.text:
        return [Edit(piece, said.start, said.end, leaving.text)]
    start, end = leaving_span(piece.text, said.start, said.end)
    return [Edit(piece, start, end)]


def leaving_span(text: str, start: int, end: int) -> tuple[int, int]:
    """What goes with ``text[start:end]`` so that the rest still reads: its full stop, its list marker, what joined it to its sentence."""
    if text.lstrip()[:1] in ("{", "["):
        return start, end
    stop = _END.match(text, end)
    opens = _opens(text, start)
    if stop:
        joined = None if opens else _JOINED_BEFORE.search(text, 0, start)
        if joined:  # what stands before keeps the full stop
            return joined.start(), end
        end = stop.end()
    elif opens and (behind := _JOINED_BEHIND.match(text, end)) and text[behind.end() : behind.end() + 1].strip():
        return start, behind.end()
    elif not opens and (before := _JOINED_BEFORE.search(text, 0, start)):
        return before.start(), end
    marker = _MARKER.search(text, 0, start)
    if marker and (end == len(text) or text[end] == "\n"):
        return marker.start(), end
    if not text[:start].strip() and text[end : end + 1] == " ":
        end += 1
    return start, end


def _opens(text: str, start: int) -> bool:
    """Whether a sentence or a line begins here."""
    before = text[:start].rstrip(' \t*_"“„«(-•')
    return not before or before[-1] in ".!?…\n:"
