"""Decided clashes -> edits of the conversation, notes for the model on what stays in it, and what is reported of them. Pure.

A statement that lost leaves with its marks, a merged one takes the older one's place. What the system said and the last user message are
not edited, nor are, unless the policy says so, the user's words; the list of messages stays as it is (`proxy.context.edits`). Of what is
not taken out a note says which of two statements counts, at the end of the message that brought the clash, on that turn and on every later
one, so that the prompt's prefix stays the same. It is put in after all other stages, for which the user has said only what they said.

The verdict's detail is bounded, and has nothing of the conversation's text; counters and the panel are made here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.context.conversation import last_user, with_text_after
from proxy.context.edits import Edit
from proxy.exchange import Message, Outcome
from proxy.language.amounts import number
from proxy.language.patterns import wordings
from proxy.language.text import text_of
from proxy.ports import ClashRecord, Counters
from proxy.ports.panels import Bucket, Lines, Panel, StagePanel, make_panel, most_common
from proxy.ports.stage import CounterFamily
from proxy.stages.clash.context import PlacedStatement
from proxy.stages.clash.ledger import LedgerEntry
from proxy.stages.clash.options import Editing

MAX_QUOTE_CHARS = 160
NOTE = "[Another statement took the place of this one.]"
"""What a message says of which nothing is left."""
_MARKER = re.compile(r"(?:^|\n)[ \t]{0,8}(?:[-*•–]|\(?\d{1,3}[.)])[ \t]{1,4}$")
_JOINED_BEFORE = re.compile(r"[,;:–—-]?\s{0,3}\b(?:and|but|or|so|und|aber|oder|y|e|pero|o|et|mais|ou)\s{1,3}$|[,;–—]\s{0,3}$", re.I)
_JOINED_BEHIND = re.compile(
    r"\s{0,3}[,;–—-]?\s{0,3}\b(?:and|but|or|so|und|aber|oder|y|e|pero|o|et|mais|ou)\b\s{0,3}|\s{0,3}[,;–—]\s{0,3}", re.I
)
_END = re.compile(r"[.!?…;]{1,4}[\"'”’»)\]*_]{0,3}")


class _Removal(Struct, frozen=True):
    """A statement that leaves, and what takes its place."""

    one: PlacedStatement
    text: str = ""


def can_leave(entry: LedgerEntry, one: PlacedStatement, editing: Editing) -> bool:
    """Whether a statement that no longer counts is taken out; a request that names a value says more than that, and stays."""
    may = one.statement.origin == "memory" or (editing == "all" and (one.statement.origin != "user" or bool(one.statement.declares)))
    return may and not one.locked and one.key not in entry.stays


def edits_of(entries: Iterable[LedgerEntry], editing: Editing = "all") -> list[Edit]:
    """The edits that carry the decisions out, each statement once."""
    entries = list(entries)
    lost = [one.key for entry in entries for one in entry.leaving]
    leaving: dict[str, _Removal] = {}
    for entry in entries:
        for one in entry.leaving:
            if not can_leave(entry, one, editing):
                continue
            earlier = leaving.get(one.key)
            text = "" if earlier is not None and not earlier.text else _instead(entry, one, lost, editing)
            leaving[one.key] = _Removal(one, text)
        leaving |= {one.key: _Removal(one) for one in entry.echoes if can_leave(entry, one, editing)}
    return [_edit(one) for one in leaving.values()]


def _instead(entry: LedgerEntry, one: PlacedStatement, lost: list[str], editing: Editing) -> str:
    """The merged statement, once: where the older one stood, or the newer one where that cannot be edited.

    Where one of the two has lost to a third since, the merged one has, too.
    """
    if entry.record.resolution != "merged" or any(lost.count(side.key) > 1 for side in entry.leaving):
        return ""
    editable = [side for side in entry.leaving if can_leave(entry, side, editing)]
    return entry.record.merged if editable and one is editable[0] else ""


def _edit(leaving: _Removal) -> Edit:
    said, piece = leaving.one.statement, leaving.one.piece
    if leaving.text:
        return Edit(piece, said.start, said.end, leaving.text)
    return Edit(piece, *leaving_span(piece.text, said.start, said.end))


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


# ---- notes ----


class _Words(Struct, frozen=True):
    """One language's wording; ``{lost}`` and ``{kept}`` are statements in their author's words."""

    counts: str
    neither: str


_WORDS = wordings(__file__, _Words)


class Note(Struct, frozen=True):
    """What the model is told, and where."""

    text: str
    message: int | None
    """Position in `Exchange.conversation`; None: with the last user message."""


def notes_of(entries: Iterable[LedgerEntry], editing: Editing) -> list[Note]:
    """One note for each decision that takes nothing out; none where one message says both, the second as a change of the first."""
    notes = [note for entry in entries if (note := _note(entry, editing)) is not None]
    return list({note.text: note for note in notes}.values())


def _note(entry: LedgerEntry, editing: Editing) -> Note | None:
    staying = [one for one in entry.leaving if not can_leave(entry, one, editing)]
    same = entry.older.statement.message == entry.newer.statement.message is not None
    merged_in = entry.record.resolution == "merged" and len(staying) < len(entry.leaving)
    if not staying or same or merged_in:
        return None
    words = _WORDS[str(entry.record.detail.get("language", ""))]
    kept = entry.record.merged if entry.record.resolution == "merged" else _quote_statement(_other(entry, staying[0]))
    lost = " / ".join(_quote_statement(one) for one in staying)
    text = (words.counts if kept else words.neither).format(lost=lost, kept=kept)
    places = [one.statement.message for one in (entry.older, entry.newer) if one.statement.origin == "user"]
    return Note(text, max((place for place in places if place is not None), default=None))


def _other(entry: LedgerEntry, one: PlacedStatement) -> PlacedStatement:
    return entry.newer if one is entry.older else entry.older


def _quote_statement(one: PlacedStatement) -> str:
    said = " ".join(one.statement.text.split())
    return said if len(said) <= MAX_QUOTE_CHARS else f"{said[:MAX_QUOTE_CHARS].rsplit(' ', 1)[0]} …"


def with_notes(messages: Sequence[Message], conversation: Sequence[Message], notes: Sequence[Note]) -> list[Message] | None:
    """`messages` with each note behind the message of `conversation` that it is about, or else behind the last user message.

    None where nothing changes: the notes are there already, or there is no user message.
    """
    done = list(messages)
    places = {id(message): i for i, message in enumerate(messages)}
    changed = False
    for note in notes:
        there = places.get(id(conversation[note.message])) if note.message is not None else None
        at = there if there is not None else last_user(messages)
        new = with_text_after(done[at], note.text) if at is not None and not _has(done, note.text) else None
        if at is not None and new is not None:
            done[at], changed = new, True
    return done if changed else None


def _has(messages: Sequence[Message], text: str) -> bool:
    return any(text in text_of(message.get("content")) for message in messages if message.get("role") == "user")


# ---- what the record, the panel and the metrics say of them ----

MAX_LISTED = 20
REMOVED, NOTED, ASKED, UNRESOLVED = "clash_removed", "clash_noted", "clash_asked", "clash_unresolved"
UNCHECKED, FOUND, SKIPPED = "clash_unchecked", "CLASH", "clash_skipped"
_SKIP_PROBLEMS = ("timeout", "not_judged")
"""Problems by which something was skipped; by any other nothing could be checked."""
_CLASHES = ("contradictory_preferences", "conflicting_facts", "outdated_information", "duplicate_facts")
COUNTERS = {
    "clash.found_count": "clashes found",
    "clash.found_critical_count": "clashes found that are critical",
    "clash.auto_resolved_count": "clashes that the policy resolved",
    "clash.asked_count": "clashes about which the user was asked",
    "clash.user_resolved_count": "clashes that the user resolved",
    **{
        f"clash.{what}_{name}_count": f"of them: {name}"
        for what in ("found", "auto_resolved", "asked", "user_resolved")
        for name in _CLASHES
    },
    **{f"clash.auto_resolved_{name}_count": f"of them: by {name}" for name in ("prefer_recent", "merge")},
}
FAMILIES = (
    CounterFamily("groundwire_clash_types", "Clashes found, by type", "type", rf"clash\.found_({'|'.join(_CLASHES)})_count"),
    CounterFamily(
        "groundwire_clash_strategies",
        "Clashes that the policy resolved, by strategy",
        "strategy",
        r"clash\.auto_resolved_(prefer_recent|merge|ask_user)_count",
    ),
)


class ClashActions(Struct, frozen=True):
    """What the stage did about a request's clashes."""

    asked: bool = False
    removed: int = 0
    """Statements that were taken out."""
    noted: int = 0
    """Notes that the model gets."""
    open: int = 0
    """Clashes that are certain, and that nobody has decided."""
    skipped: int = 0
    """Sentences and pairs that were not looked at."""
    problem: str = ""
    insists: bool = False
    """Whether the policy refuses what could not be checked."""


def codes_of(entries: Sequence[LedgerEntry], done: ClashActions) -> list[tuple[Outcome, str]]:
    """The verdicts' outcomes and codes, the one that tells most first: whatever was done is a warning, what was only found is none."""
    found: list[tuple[Outcome, str]] = []
    if done.problem and (done.insists or done.problem not in _SKIP_PROBLEMS):
        found.append(("error", UNCHECKED))
    warnings = ((done.asked, ASKED), (done.removed, REMOVED), (done.noted, NOTED), (done.open and not done.asked, UNRESOLVED))
    found += [("warn", code) for there, code in warnings if there]
    if found:
        return found
    if done.skipped or done.problem:
        return [("pass", SKIPPED)]
    return [("pass", FOUND if entries else "")]


def detail_of(entries: Sequence[LedgerEntry], statements: int, pairs: int, done: ClashActions) -> dict[str, Any]:
    """For the record."""
    detail: dict[str, Any] = {"statements": statements, "pairs_judged": pairs, "found": len(entries), "taken_out": done.removed}
    more = {"noted": done.noted, "skipped": done.skipped, "problem": done.problem}
    detail |= {name: value for name, value in more.items() if value}
    if entries:
        detail["clashes"] = [_list_entry(entry) for entry in entries[-MAX_LISTED:]]
    return detail


def _list_entry(entry: LedgerEntry) -> dict[str, Any]:
    record = entry.record
    told = {
        "id": record.id,
        "type": record.type,
        "topic": record.topic,
        "strategy": record.strategy,
        "status": record.status,
        "resolution": record.resolution,
        "reason": record.reason,
        "score": record.detail.get("score"),
        "certain": bool(record.detail.get("certain")),
        "older": _place(record.older),
        "newer": _place(record.newer),
    }
    return {**told, **({"critical": True} if record.critical else {}), **({"by": record.resolved_by} if record.resolved_by else {})}


def _place(side: Any) -> dict[str, Any]:
    return {"origin": side.get("origin"), "message": side.get("message"), "span": [side.get("start"), side.get("end")]}


def count_found(counters: Counters, record: ClashRecord) -> None:
    """A clash that was not known before, and what the policy made of it."""
    counters.count("clash.found_count")
    counters.count(f"clash.found_{record.type.lower()}_count")
    if record.critical:
        counters.count("clash.found_critical_count")
    if record.status == "resolved":
        counters.count("clash.auto_resolved_count")
        counters.count(f"clash.auto_resolved_{record.strategy}_count")
        counters.count(f"clash.auto_resolved_{record.type.lower()}_count")


def count_asked(counters: Counters, record: ClashRecord) -> None:
    """The user is asked."""
    counters.count("clash.asked_count")
    counters.count(f"clash.asked_{record.type.lower()}_count")


def count_answered(counters: Counters, record: ClashRecord) -> None:
    """The user's reply was understood."""
    counters.count("clash.user_resolved_count")
    counters.count(f"clash.user_resolved_{record.type.lower()}_count")


class ClashPanel(StagePanel):
    """On the dashboard: how many were found, and who resolved them. The review's table of clashes has all of it."""

    name = "clashes"
    title = "Contradictions"

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Found and open ones."""
        found, by_policy = sum(whole.clashes.values()), sum(whole.clash_strategies.values())
        detail = (
            f"{by_policy:,} ({by_policy / found:.0%}) resolved by the policy, {whole.clashes_open:,} open" if found else "",
            most_common(whole.clashes),
            "the policy did: " + most_common(whole.clash_strategies) if by_policy else "",
        )
        lines: Lines = {"found": lambda b: float(sum(b.clashes.values())), "open": lambda b: float(b.clashes_open)}
        hint = "" if found else "The stage clash finds statements of one conversation that contradict each other."
        return make_panel(cls.name, cls.title, number(found), "found in conversations", detail, buckets, lines, hint=hint)
