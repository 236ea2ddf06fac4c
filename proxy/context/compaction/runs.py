"""Which parts of a prompt may be replaced by one message, and which stay. Pure functions; positions are those of parts.

System messages and the client's last user message always stay, and so does the end of the prompt, which the model has not answered yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from proxy.context.compaction.parts import Part, messages_of
from proxy.context.conversation import MessageBlock, blocks_of


class Run(Struct, frozen=True):
    """``parts[start:end]``, whole blocks that follow each other."""

    start: int
    end: int


def recent_blocks_start(parts: Sequence[Part], keep: int) -> int:
    """Where the last `keep` blocks begin, at least one; system messages are not counted."""
    blocks = _spoken(parts)
    return blocks[-min(max(keep, 1), len(blocks))].start if blocks else len(parts)


def recent_messages_start(parts: Sequence[Part], keep: int) -> int:
    """Where the last `keep` messages begin, or some before them where a block would be cut; at least one block stays."""
    counted, start = 0, len(parts)
    for block in reversed(_spoken(parts)):
        if counted and counted >= keep:
            break
        counted += block.end - block.start
        start = block.start
    return start


def foldable_runs(
    parts: Sequence[Part], end: int, last_user: int | None, wanted: Callable[[Sequence[Part]], bool] = lambda block: True
) -> list[Run]:
    """The longest runs of blocks before `end` that may be replaced and that are `wanted`, in order.

    `last_user` is the position of the client's last user message among the client's messages. Messages that were made earlier join a
    run that they touch, and alone they are none.
    """
    runs: list[Run] = []
    for block in blocks_of(messages_of(parts)):
        inside = parts[block.start : block.end]
        keeps = block.kind == "system" or any(part.start <= last_user < part.end for part in inside if last_user is not None)
        if block.end > end or keeps or not (_is_note(inside) or wanted(inside)):
            continue
        if runs and runs[-1].end == block.start:
            runs[-1] = Run(runs[-1].start, block.end)
        else:
            runs.append(Run(block.start, block.end))
    return [run for run in runs if not _is_note(parts[run.start : run.end])]


def replaced(parts: Sequence[Part], run: Run, part: Part) -> list[Part]:
    """`parts` with one part in the run's place."""
    return [*parts[: run.start], part, *parts[run.end :]]


def _is_note(parts: Sequence[Part]) -> bool:
    return all(part.note for part in parts)


def _spoken(parts: Sequence[Part]) -> list[MessageBlock]:
    return [block for block in blocks_of(messages_of(parts)) if block.kind != "system"]
