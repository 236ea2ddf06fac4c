"""Decided clashes of which nothing leaves -> a short note for the model, behind the words that it is about.

Pure. The user's own words stay byte for byte; the note says which of two statements counts. It stands at the end of the message that
brought the clash, on that turn and on every later one, so that the prompt's prefix stays the same. It is put in after all other stages,
for which the user has said only what they said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from proxy.context.conversation import last_user, with_text_after
from proxy.exchange import Message
from proxy.language.text import text_of
from proxy.language.wordings import wordings
from proxy.stages.clash.context import Spoken
from proxy.stages.clash.ledger import LedgerEntry
from proxy.stages.clash.options import Editing
from proxy.stages.clash.removing import can_leave

MAX_QUOTE_CHARS = 160


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
    kept = entry.record.merged if entry.record.resolution == "merged" else _quoted(_other(entry, staying[0]))
    lost = " / ".join(_quoted(one) for one in staying)
    text = (words.counts if kept else words.neither).format(lost=lost, kept=kept)
    places = [one.statement.message for one in (entry.older, entry.newer) if one.statement.origin == "user"]
    return Note(text, max((place for place in places if place is not None), default=None))


def _other(entry: LedgerEntry, one: Spoken) -> Spoken:
    return entry.newer if one is entry.older else entry.older


def _quoted(one: Spoken) -> str:
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
