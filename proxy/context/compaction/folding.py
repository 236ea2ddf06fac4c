"""Runs of a prompt, each replaced by one message where that is shorter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from proxy.context.compaction.measure import Tokens
from proxy.context.compaction.notes import Noted
from proxy.context.compaction.parts import Part, messages_of
from proxy.context.compaction.runs import Run, replaced

NOTE_TOKENS = 60
"""What a message that only refers to the scratchpad takes (o200k): a run of no more tokens is left as it is."""

Write = Callable[[Sequence[Part], Run], Awaitable[Noted]]
"""Makes the message for a run. Raises `StoreUnavailable`."""


class FoldedRun(Struct, frozen=True):
    """A prompt with some runs replaced."""

    parts: Sequence[Part]
    notes: tuple[Noted, ...] = ()
    """In order."""


async def folded(parts: Sequence[Part], runs: Sequence[Run], write: Write, tokens: Tokens) -> FoldedRun:
    """Replace each run by what `write` makes of it, unless that is no shorter. Raises `StoreUnavailable`."""
    notes: list[Noted] = []
    for run in reversed(runs):  # the positions of those before it stay true
        before = await tokens(messages_of(parts[run.start : run.end]))
        if before <= NOTE_TOKENS:
            continue
        noted = await write(parts, run)
        if await tokens([noted.part.message]) < before:
            parts = replaced(parts, run, noted.part)
            notes.insert(0, noted)
    return FoldedRun(parts, tuple(notes))
